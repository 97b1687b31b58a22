"""Plain folders of pictures or of point clouds, without labels: a system can only be compared with itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from swerve.core.arguments import OneOfNames
from swerve.core.case import Fact
from swerve.core.values import Value
from swerve.sources import cloud_files, images
from swerve.sources.cloud_files import LAYOUTS, check_declared, read_cloud
from swerve.sources.listed import CAMERA, LIDAR, Entry, ListedSource


@dataclass(frozen=True)
class Folder(ListedSource):
    """Every picture below `folder` in natural order (frame2 before frame10); each sub-folder is a drive."""

    def listed(self) -> Iterable[Entry]:
        """One entry per picture, with its path below the folder as the key."""
        for name in sorted(self.root.names(*images.SUFFIXES), key=in_order):
            yield Entry(name, {CAMERA: name}, group=PurePosixPath(name).parent.as_posix())


@dataclass(frozen=True)
class Clouds(ListedSource):
    """Every point cloud (.bin, .npy, .pcd, .ply) below `folder` as the input `lidar`; each sub-folder is a drive.

    `layout` defines the points of a .bin: `xyzi`, or `xyzir` with nuScenes' ring index. `intensity_scale` is the stored
    intensity that means 1; by default 255 for bytes and 1 for floats.
    """

    layout: Annotated[str, OneOfNames(*LAYOUTS)] = "xyzi"
    intensity_scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_declared(self.layout, self.intensity_scale)

    def listed(self) -> Iterable[Entry]:
        for name in sorted(self.root.names(*cloud_files.SUFFIXES), key=in_order):
            yield Entry(name, {LIDAR: name}, group=PurePosixPath(name).parent.as_posix())

    def read_inputs(self, entry: Entry) -> tuple[Mapping[str, Value], Mapping[str, Fact]]:
        sweep = read_cloud(self.root, entry.files[LIDAR], layout=self.layout, intensity_scale=self.intensity_scale)
        return {LIDAR: sweep.points}, sweep.facts


def in_order(name: str) -> tuple[object, ...]:
    """The sorting key of natural order, with the files of one folder together."""
    path = PurePosixPath(name)
    return _counted(path.parent.as_posix()), _counted(path.name), name


def _counted(text: str) -> list[str | int]:
    """`text` split into strings and integers that alternate, so that any two can be compared."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]+)", text))]
