"""The folder that a data set lies in: files are opened below it and nowhere else (R33, R39)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase

LONGEST = 4096  # characters of a name


@dataclass(frozen=True)
class Root:
    """A folder; every name is relative to it, and what leads out of it is refused."""

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: {'is not a folder' if self.folder.exists() else 'there is no such folder'}")

    def bytes(self, name: str, *, most: int = limits.FILE) -> bytes:
        """The content of a file."""
        with self.open(name, most=most) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size + 1)
        if len(data) != size:
            raise UnreadableCase(f"{name}: it changed while it was read")
        return data

    def open(self, name: str, *, most: int = limits.FILE) -> BinaryIO:
        """A plain file of at most `most` bytes, opened once; raises `UnreadableCase` for anything else."""
        handle = self._opened(name)
        try:
            self._check(os.fstat(handle), name, most)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise

    def has(self, name: str) -> bool:
        """Whether there is a plain file of that name."""
        try:
            self.open(name).close()
        except UnreadableCase:
            return False
        return True

    def names(self, *suffixes: str, under: str = "") -> list[str]:
        """All files below `under` that end so, whatever the case of their letters, in the order of their names."""
        return sorted(self._walk(under, tuple(suffix.lower() for suffix in suffixes)))

    def _walk(self, under: str, suffixes: tuple[str, ...]) -> Iterator[str]:
        if PurePosixPath(under).parts:
            self._inside(under)
        for folder, folders, files in os.walk(self.folder / under):  # links to folders are not followed
            folders.sort()
            for name in files:
                if name.lower().endswith(suffixes) and not name.startswith("."):
                    yield Path(folder, name).relative_to(self.folder).as_posix()

    @cached_property
    def _real(self) -> Path:
        return Path(os.path.realpath(self.folder))

    def _opened(self, name: str) -> int:
        """A handle on a file, every folder on the way opened without following a link."""
        parts = self._inside(name).parts
        here = os.open(self._real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                os.close(here)
                here = below
            return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
        except OSError as error:
            raise UnreadableCase(f"{_shown(name)}: {_reason(error)}") from error
        finally:
            os.close(here)

    def _inside(self, name: str) -> PurePosixPath:
        """`name` below the folder with its links resolved; raises `UnreadableCase` where it leads out."""
        path = PurePosixPath(name)
        odd = not path.parts or "\0" in name or "\\" in name or "://" in name or name.startswith("~")
        if odd or path.is_absolute() or ".." in path.parts or len(name) > LONGEST:
            hint = "names are relative to it"
            raise UnreadableCase(f"{_shown(name)}: outside the data set's folder {self.folder.name}; {hint}")
        try:
            real = Path(os.path.realpath(self._real / path))
        except OSError as error:
            raise UnreadableCase(f"{_shown(name)}: {_reason(error)}") from error
        except UnicodeEncodeError as error:  # half a character, as JSON can spell one
            raise UnreadableCase(f"{_shown(name)}: no file can be called that") from error
        if not real.is_relative_to(self._real) or real == self._real:
            raise UnreadableCase(f"{_shown(name)}: outside the data set's folder {self.folder.name}: a link leads there")
        return PurePosixPath(real.relative_to(self._real))

    def _check(self, status: os.stat_result, name: str, most: int) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableCase(f"{name}: not a plain file")
        if status.st_nlink > 1:  # its other name may lie anywhere
            raise UnreadableCase(f"{name}: a hard link, so it may lie outside the data set's folder; copy the file")
        if status.st_size > most:
            raise UnreadableCase(f"{name}: {status.st_size:,} bytes, at most {most:,} are read (swerve list limits)")


def _shown(name: str) -> str:
    return name if len(name) <= 120 else f"{name[:80]}…{name[-30:]}"


def _reason(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENXIO):
        return "not a plain file"
    return "there is no such file" if error.errno == errno.ENOENT else str(error.strerror)
