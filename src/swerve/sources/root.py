"""The root folder of a data set: files are opened below it and nowhere else."""
# R33, R39

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.safe_open import open_below, reason

LONGEST = 4096  # characters of a file name
VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm")


@dataclass(frozen=True)
class Root:
    """A folder; every name is relative to it, and a name or link that leads out of it is refused."""

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: {'not a folder' if self.folder.exists() else 'no such folder'}{self._hint()}")

    def _hint(self) -> str:
        """What a file that was given as a folder may be meant as."""
        if self.folder.is_file() and self.folder.suffix.lower() in VIDEOS:
            return f"; for a video write use = 'video', folder = '{self.folder.parent}', file = '{self.folder.name}'"
        return ""

    def bytes(self, name: str, *, most: int = limits.FILE) -> bytes:
        """The content of a file."""
        with self.open(name, most=most) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size + 1)
        if len(data) != size:
            raise UnreadableCase(f"{name}: the file changed while it was being read")
        return data

    def open(self, name: str, *, most: int = limits.FILE) -> BinaryIO:
        """A regular file of at most `most` bytes, opened once; raises `UnreadableCase` for anything else."""
        handle = self._open(name)
        try:
            self._check(os.fstat(handle), name, most)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise

    def has(self, name: str) -> bool:
        """Whether there is a regular file of that name."""
        try:
            self.open(name).close()
        except UnreadableCase:
            return False
        return True

    def names(self, *suffixes: str, under: str = "") -> list[str]:
        """All files below `under` with one of the suffixes, in upper or lower case, sorted by name."""
        return sorted(self._walk(under, tuple(suffix.lower() for suffix in suffixes)))

    def _walk(self, under: str, suffixes: tuple[str, ...]) -> Iterator[str]:
        if PurePosixPath(under).parts:
            self._inside(under)
        for folder, folders, files in os.walk(self.folder / under):  # does not follow links to folders
            folders.sort()
            for name in files:
                if name.lower().endswith(suffixes) and not name.startswith("."):
                    yield Path(folder, name).relative_to(self.folder).as_posix()

    @cached_property
    def _real(self) -> Path:
        return Path(os.path.realpath(self.folder))

    def _open(self, name: str) -> int:
        """A file descriptor; every folder on the path is opened without following links."""
        parts = self._inside(name).parts
        try:
            return open_below(self._real, parts)
        except OSError as error:
            raise UnreadableCase(f"{shortened(name)}: {reason(error)}") from error

    def _inside(self, name: str) -> PurePosixPath:
        """`name` relative to the folder, links resolved; raises `UnreadableCase` if it leads out of the folder."""
        path = PurePosixPath(name)
        odd = not path.parts or "\0" in name or "\\" in name or "://" in name or name.startswith("~")
        if odd or path.is_absolute() or ".." in path.parts or len(name) > LONGEST:
            hint = "file names must be relative to it"
            raise UnreadableCase(f"{shortened(name)}: outside the data set's folder {self.folder.name}; {hint}")
        try:
            real = Path(os.path.realpath(self._real / path))
        except OSError as error:
            raise UnreadableCase(f"{shortened(name)}: {reason(error)}") from error
        except UnicodeEncodeError as error:  # a lone surrogate, which JSON can contain
            raise UnreadableCase(f"{shortened(name)}: not a valid file name") from error
        if not real.is_relative_to(self._real) or real == self._real:
            raise UnreadableCase(f"{shortened(name)}: a link that leads outside the data set's folder {self.folder.name}")
        return PurePosixPath(real.relative_to(self._real))

    def _check(self, status: os.stat_result, name: str, most: int) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableCase(f"{name}: not a regular file")
        if status.st_nlink > 1:  # its other name may be anywhere
            raise UnreadableCase(f"{name}: a hard link, which may lead outside the data set's folder; copy the file instead")
        if status.st_size > most:
            raise UnreadableCase(f"{name}: {status.st_size:,} bytes, at most {most:,} are read (swerve list limits)")


def shortened(name: str) -> str:
    """A file name short enough for a message."""
    return name if len(name) <= 120 else f"{name[:80]}…{name[-30:]}"
