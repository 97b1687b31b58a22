"""A plain folder of pictures: no labels, so systems can only be compared with themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from swerve.sources.images import SUFFIXES
from swerve.sources.listed import CAMERA, Entry, ListedSource


@dataclass(frozen=True)
class Folder(ListedSource):
    """Every picture below `folder`, frame2 before frame10; each sub-folder is a drive, `.` the folder itself."""

    def listed(self) -> Iterable[Entry]:
        """One entry for each picture, its path below the folder as its key."""
        for name in sorted(self.root.names(*SUFFIXES), key=in_order):
            yield Entry(name, {CAMERA: name}, group=PurePosixPath(name).parent.as_posix())


def in_order(name: str) -> tuple[object, ...]:
    """What sorts names as people count, the files of one folder together."""
    path = PurePosixPath(name)
    return _counted(path.parent.as_posix()), _counted(path.name), name


def _counted(text: str) -> list[str | int]:
    """`text` with its numbers as numbers; a text and a number take turns, so that any two can be compared."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]+)", text))]
