"""A plain folder of point clouds: .bin, .npy, .pcd and .ply, in the order a person would count them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from swerve.case import Case
from swerve.errors import UnreadableCase
from swerve.sources.folder import in_order
from swerve.sources.listed import Entry, Listed
from swerve.sources.points import SUFFIXES, check_declared, cloud

LIDAR = "lidar"


@dataclass(frozen=True)
class Clouds(Listed):
    """Every point cloud below `folder` is a case with the input `lidar`; a drive is a sub-folder, `.` the folder itself.

    `layout` tells what a point of a .bin has: `xyzi`, or `xyzir` with a ring as nuScenes has it. `intensity_scale` is the
    stored intensity that counts as 1; left out it is 255 for bytes, and 1 for floats.
    """

    layout: str = "xyzi"
    intensity_scale: float | None = None

    def __post_init__(self) -> None:
        check_declared(self.layout, self.intensity_scale)

    def listed(self) -> Iterable[Entry]:
        for name in sorted(self.root.names(*SUFFIXES), key=in_order):
            yield Entry(name, {LIDAR: name}, group=PurePosixPath(name).parent.as_posix())

    def __getitem__(self, key: str) -> Case:
        entry = self.entries[key]
        if entry.fault:
            raise UnreadableCase(entry.fault)
        seen = cloud(self.root, entry.files[LIDAR], layout=self.layout, intensity_scale=self.intensity_scale)
        return Case(key, {LIDAR: seen.points}, group=entry.group, facts=seen.facts)
