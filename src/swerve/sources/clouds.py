"""A plain folder of point clouds: .bin, .npy, .pcd and .ply, in the order a person would count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from swerve.core.case import Fact
from swerve.core.values import Value
from swerve.sources.cloud_files import SUFFIXES, check_declared, cloud
from swerve.sources.image_folder import in_order
from swerve.sources.listed import Entry, ListedSource

LIDAR = "lidar"


@dataclass(frozen=True)
class Clouds(ListedSource):
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

    def seen(self, entry: Entry) -> tuple[Mapping[str, Value], Mapping[str, Fact]]:
        sweep = cloud(self.root, entry.files[LIDAR], layout=self.layout, intensity_scale=self.intensity_scale)
        return {LIDAR: sweep.points}, sweep.facts
