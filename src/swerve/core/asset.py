"""Files that parts of a campaign read, known by their content."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swerve.core.errors import InputError
from swerve.core.parts import parts_in
from swerve.core.safe_open import open_below, reason

SHOWN = 8  # digits of a hash in a message


@dataclass(frozen=True)
class Asset:
    """A file that a change, a relation or a system reads: weights, a style, an object library.

    An asset is its content: files with the same bytes are equal, and no id holds a path. The file is hashed when the asset
    is made; `sha256`, if it is given, is the hash that it must have.

    Args:
        path: a regular file, not a link; relative to `root`, without links between the two.
        sha256: the hash of its content.
        root: the folder that `path` is relative to, by default the working folder.
    """

    path: Path = field(compare=False)
    sha256: str = ""
    root: Path = field(default=Path(), compare=False, repr=False)

    def __post_init__(self) -> None:
        root = Path(os.path.abspath(self.root))  # a model may change the working folder
        path = Path(os.path.abspath(root / self.path))
        inside = path.is_relative_to(root) and not Path(self.path).is_absolute()
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "root", root if inside else path.parent)
        if self.sha256:
            self.check()
        else:
            object.__setattr__(self, "sha256", self._hash())

    def read(self) -> bytes:
        """The content; raises `InputError` if it is no longer what it was."""
        with self._open() as file:
            content = file.read()
        self._refuse_other(hashlib.sha256(content).hexdigest())
        return content

    def check(self) -> Path:
        """The path, for a library that opens files itself; raises `InputError` if the content is no longer what it was."""
        self._refuse_other(self._hash())
        return self.path

    def __str__(self) -> str:
        return self.path.name

    def _hash(self) -> str:
        with self._open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _open(self) -> io.BufferedReader:
        try:
            handle = open_below(self.root, self.path.relative_to(self.root).parts)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {reason(error)}; an asset is a file without links") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise InputError(f"{self.path}: cannot be read: not a regular file")
        return os.fdopen(handle, "rb")

    def _refuse_other(self, now: str) -> None:
        if now != self.sha256:
            raise changed_asset(str(self.path), self.sha256, now)


def changed_asset(name: str, then: str, now: str) -> InputError:
    """The error about a file that has another content than a run began with."""
    return InputError(
        f"{name}: has changed: sha {then[:SHOWN]} then, {now[:SHOWN]} now; restore it, or run again into another folder"
    )


def assets_in(*parts: object) -> dict[str, Asset]:
    """The assets that parts of a campaign hold, by hash."""
    return {item.sha256: item for part in parts for item in parts_in(part) if isinstance(item, Asset)}


class AssetFiles(Mapping[str, Asset]):
    """The assets of a run folder by hash; each file is hashed once, when it is first needed."""

    def __init__(self, paths: Mapping[str, str] | None = None, root: Path = Path()) -> None:
        self._paths, self._root = dict(paths or {}), root
        self._checked: dict[str, Asset] = {}

    def __getitem__(self, sha256: str) -> Asset:
        if sha256 not in self._checked:
            self._checked[sha256] = Asset(Path(self._paths[sha256]), sha256, self._root)
        return self._checked[sha256]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
