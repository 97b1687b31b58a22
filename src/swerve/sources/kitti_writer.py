"""KITTI's object folders: `SPLIT/label_2`, and `image_2`, `velodyne` and `calib` where there is something to write.

A sweep without a picture needs a calibration all the same, as KITTI tells boxes in the camera's frame: that of a camera in
the LiDAR's place that looks straight ahead. Regions go to `SPLIT/regions.geojson`.

A box without care is a `DontCare`. What nobody has told is written as KITTI's own results do: truncation -1, angle -10,
size -1, place -1000; occlusion is 3 then, KITTI's word for unknown, or else 0 to 2. Truncation is told where a box in
space and the camera's matrix say how far it reaches beyond the picture. A box without a kind is a `Misc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from swerve.core.errors import InputError
from swerve.core.region import region_of
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, find
from swerve.sources.regions import REGIONS, collected, feature
from swerve.sources.writing import Box, Spools, WrittenCase, put
from swerve.store.files import whole_file

PARTLY, LARGELY = 0.1, 0.5  # shares hidden, where the levels of KITTI begin
NEAREST = 0.1  # metres ahead of the camera: what is nearer is seen as if it were there
UNTOLD = (-10.0, (-1.0, -1.0, -1.0), (-1000.0, -1000.0, -1000.0), -10.0)  # alpha, size, place, rotation
KINDS = {
    **{kind.lower(): kind for kind in ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")},
    "person": "Pedestrian",
    "bus": "Misc",  # KITTI has no buses
}
AXES = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])  # x ahead, y left, z up to right, down, ahead

BLIND = Calibration({"camera": np.eye(3)})  # of a sweep that no camera goes with

Place = tuple[float, tuple[float, ...], tuple[float, ...], float]


class KittiWriter:
    """One line per object in `label_2`, with its 3-D box where there is one."""

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del kinds
        self._folder, self._regions = folder, spools

    def add(self, entry: WrittenCase) -> Path:
        home, name = self._folder / entry.split, f"{entry.number:06d}"
        put(home / "label_2" / f"{name}.txt", "".join(_lines(entry)).encode())
        sweep, region = entry.cloud, region_of(entry.case)
        if sweep is not None:
            put(home / "velodyne" / f"{name}.bin", sweep.xyzi.astype("<f4").tobytes())
        if sweep is not None and region is not None:
            self._regions[entry.split].add(feature(region, name))
        if (known := _known(entry)) is not None:
            put(home / "calib" / f"{name}.txt", _calibration(known).encode())
        if sweep is not None and not entry.pictured:
            return home / "velodyne" / f"{name}.bin"
        return entry.write_picture(home / "image_2", name)

    def close(self) -> None:
        for split, spool in self._regions.items():
            with whole_file(self._folder / split / REGIONS) as file:
                file.writelines(part.encode() for part in collected(spool.texts()))

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / split


def _known(entry: WrittenCase) -> Calibration | None:
    """The calibration to write: that of the camera, or for a sweep alone one that tells where its boxes are."""
    known = find(entry.case.truth, Calibration.slot)
    told = known if isinstance(known, Calibration) else None
    if told is not None and camera_of(told) is not None:
        return told
    if entry.pictured or entry.cloud is None:
        return None
    return Calibration({**(told.matrices if told else {}), **BLIND.matrices})


def _lines(entry: WrittenCase) -> Iterator[str]:
    flat, solid = find(entry.case.truth, Boxes2D.slot), find(entry.case.truth, Boxes3D.slot)
    flat = flat if entry.pictured or not isinstance(solid, Boxes3D) else None
    places = _places(entry, solid) if isinstance(solid, Boxes3D) else None
    if flat is None and isinstance(solid, Boxes3D):
        unseen = (-1.0, -1.0, -1.0, -1.0)
        rows = zip(solid.kinds, np.asarray(solid.care).tolist(), range(len(solid.kinds)), strict=True)
        boxes = [Box(*unseen, *row) for row in rows]
    else:
        boxes = entry.boxes()
        _check_pairs(entry, flat, solid)
    for box in boxes:
        place = places[box.number] if places is not None and box.number < len(places) else None
        yield _line(box, place or UNTOLD, _truncation(entry, place), _occlusion(flat, box.number))


def _truncation(entry: WrittenCase, place: Place | None) -> float:
    """The share of a box, as its corners in space appear, that lies outside the picture; -1 where nobody can tell."""
    known = find(entry.case.truth, Calibration.slot)
    camera = camera_of(known) if isinstance(known, Calibration) else None
    if place is None or camera is None or not entry.pictured:
        return -1.0
    _, (height, width, length), foot, turned = place
    cos, sin = math.cos(turned), math.sin(turned)
    along, up, across = (
        part.ravel() for part in np.meshgrid((-length / 2, length / 2), (0, -height), (-width / 2, width / 2))
    )
    corners = np.stack([cos * along + sin * across, up, cos * across - sin * along]) + np.reshape(foot, (3, 1))
    corners[2] = np.maximum(corners[2], NEAREST)
    seen = camera[:, :3] @ corners
    points = seen[:2] / seen[2]
    low, high = points.min(axis=1), points.max(axis=1)
    inside = np.clip(np.minimum(high, entry.image.size) - np.maximum(low, 0), 0, None)
    return float(1 - np.prod(inside) / np.prod(high - low))


def _check_pairs(entry: WrittenCase, flat: object, solid: object) -> None:
    """Boxes in space must be those of the first boxes in the picture; further ones in the picture must be without care."""
    if not isinstance(flat, Boxes2D) or not isinstance(solid, Boxes3D):
        return
    paired, rest = flat.kinds[: len(solid.kinds)], np.asarray(flat.care)[len(solid.kinds) :]
    if paired != solid.kinds or rest.any():
        raise InputError(
            f"'{entry.case.key}': KITTI wants one line per object, but its {len(flat.kinds)} boxes in the picture and its "
            f"{len(solid.kinds)} boxes in space are not the same objects in the same order"
        )


def _occlusion(flat: object, number: int) -> int:
    """KITTI's level: 0 fully visible, 1 partly and 2 largely hidden, 3 unknown."""
    if not isinstance(flat, Boxes2D) or flat.hidden is None:
        return 3
    return int(np.digitize(flat.hidden[number], (PARTLY, LARGELY)))


def _line(box: Box, place: Place, truncation: float, occlusion: int) -> str:
    alpha, size, where, turned = place if box.care else UNTOLD
    kind = "_".join(KINDS.get(box.kind.lower(), box.kind).split()) or "Misc" if box.care else "DontCare"
    numbers = (alpha, *box[:4], *size, *where, turned)
    told = f"{truncation:.2f} {occlusion}" if box.care and truncation >= 0 else f"-1 {occlusion if box.care else -1}"
    return f"{kind} {told} " + " ".join(f"{number:.4f}" for number in numbers) + "\n"


def _places(entry: WrittenCase, solid: Boxes3D) -> list[Place]:
    """Angle, size (height, width, length), foot and rotation of every box in the camera's frame."""
    if why := solid.fault():
        raise InputError(f"'{entry.case.key}' cannot be written: {why}")
    known = find(entry.case.truth, Calibration.slot)
    turn = to_camera(known if isinstance(known, Calibration) else None)
    return [_place(row, turn) for row in solid.xyzlwhy]


def _place(row: Array, turn: Array) -> Place:
    x, y, z, length, width, height, yaw = row.tolist()
    foot = turn @ (x, y, z - height / 2, 1.0)
    ahead = turn[:3, :3] @ (math.cos(yaw), math.sin(yaw), 0.0)
    rotation = math.atan2(-ahead[2], ahead[0])  # 0 looks to the right, a quarter turn to the left of that ahead is -π/2
    alpha = _wrapped(rotation - math.atan2(foot[0], foot[2]))
    return alpha, (height, width, length), tuple(foot[:3].tolist()), rotation


def _wrapped(angle: float) -> float:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def to_camera(known: Calibration | None) -> Array:
    """From the frame of 3-D boxes (x ahead, y left, z up) to the camera's: `Tr_velo_to_cam`, or `boxes_to_camera`."""
    matrices = known.matrices if known else {}
    if "Tr_velo_to_cam" in matrices:
        return _square(matrices.get("R0_rect", np.eye(3))) @ _square(matrices["Tr_velo_to_cam"])
    return np.asarray(matrices.get("boxes_to_camera", AXES))


def _square(matrix: Array) -> Array:
    whole = np.eye(4)
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    return whole


def camera_of(known: Calibration) -> Array | None:
    """The matrix that leads to pixels: `camera`, or KITTI's own `P2`."""
    return next((known.matrices[name] for name in ("camera", "P2") if name in known.matrices), None)


def _calibration(known: Calibration) -> str:
    camera, matrix = np.zeros((3, 4)), camera_of(known)
    assert matrix is not None
    camera[:, : matrix.shape[1]] = matrix
    ours = {**{f"P{number}": camera for number in range(4)}, "R0_rect": np.eye(3), "Tr_velo_to_cam": to_camera(known)[:3]}
    if "Tr_velo_to_cam" in known.matrices:  # KITTI's own, as they were
        ours |= {name: matrix for name, matrix in known.matrices.items() if name in ours}
    rows = {**ours, "Tr_imu_to_velo": np.eye(4)[:3]}
    return "".join(f"{name}: " + " ".join(f"{n:.12e}" for n in np.ravel(part)) + "\n" for name, part in rows.items())
