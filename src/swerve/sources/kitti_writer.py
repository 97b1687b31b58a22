"""Writes KITTI's object folders: `SPLIT/label_2`, and `image_2`, `velodyne` and `calib` as far as a case has them.

KITTI's boxes are in the camera's frame, so a sweep without a picture needs a calibration too: that of a camera at the
LiDAR's position that looks straight ahead. Regions are written to `SPLIT/regions.geojson`.

An ignored box is a `DontCare`. Unknown values are written as in KITTI's own results: truncation -1, angle -10, size -1,
location -1000, occlusion 3. Truncation is known if there are a 3D box and a camera matrix. A box without a kind is a `Misc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from swerve.core.errors import InputError
from swerve.core.region import region_of
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, find
from swerve.sources.regions import REGIONS, collection_text, region_feature
from swerve.sources.writing import Box, Spools, WrittenCase, put
from swerve.store.files import whole_file

PARTLY, LARGELY = 0.1, 0.5  # hidden shares at which KITTI's levels 1 and 2 begin
NEAREST = 0.1  # metres ahead of the camera: nearer corners are moved there before projection
UNKNOWN = (-10.0, (-1.0, -1.0, -1.0), (-1000.0, -1000.0, -1000.0), -10.0)  # alpha, size, place, rotation
KINDS = {
    **{kind.lower(): kind for kind in ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")},
    "person": "Pedestrian",
    "bus": "Misc",  # KITTI has no buses
}
AXES = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])  # x ahead, y left, z up to right, down, ahead

FORWARD_CAMERA = Calibration({"camera": np.eye(3)})  # for a sweep without a camera

Place = tuple[float, tuple[float, ...], tuple[float, ...], float]  # alpha, size, location, rotation


class KittiWriter:
    """Writes one line per object to `label_2`, with its 3D box if it has one."""

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
            self._regions[entry.split].add(region_feature(region, name))
        if (calibration := _calibration_of(entry)) is not None:
            put(home / "calib" / f"{name}.txt", _calibration(calibration).encode())
        if sweep is not None and not entry.has_picture:
            return home / "velodyne" / f"{name}.bin"
        return entry.write_picture(home / "image_2", name)

    def close(self) -> None:
        for split, spool in self._regions.items():
            with whole_file(self._folder / split / REGIONS) as file:
                file.writelines(part.encode() for part in collection_text(spool.texts()))

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / split


def _calibration_of(entry: WrittenCase) -> Calibration | None:
    """The calibration to write: the camera's, or for a sweep without a camera that of `FORWARD_CAMERA`."""
    found = find(entry.case.truth, Calibration.slot)
    calibration = found if isinstance(found, Calibration) else None
    if calibration is not None and camera_of(calibration) is not None:
        return calibration
    if entry.has_picture or entry.cloud is None:
        return None
    return Calibration({**(calibration.matrices if calibration else {}), **FORWARD_CAMERA.matrices})


def _lines(entry: WrittenCase) -> Iterator[str]:
    flat, solid = find(entry.case.truth, Boxes2D.slot), find(entry.case.truth, Boxes3D.slot)
    flat = flat if entry.has_picture or not isinstance(solid, Boxes3D) else None
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
        yield _line(box, place or UNKNOWN, _truncation(entry, place), _occlusion(flat, box.number))


def _truncation(entry: WrittenCase, place: Place | None) -> float:
    """The share of a projected 3D box that lies outside the picture; -1 if unknown."""
    calibration = find(entry.case.truth, Calibration.slot)
    camera = camera_of(calibration) if isinstance(calibration, Calibration) else None
    if place is None or camera is None or not entry.has_picture:
        return -1.0
    _, (height, width, length), bottom, rotation = place
    cos, sin = math.cos(rotation), math.sin(rotation)
    along, up, across = (
        part.ravel() for part in np.meshgrid((-length / 2, length / 2), (0, -height), (-width / 2, width / 2))
    )
    corners = np.stack([cos * along + sin * across, up, cos * across - sin * along]) + np.reshape(bottom, (3, 1))
    corners[2] = np.maximum(corners[2], NEAREST)
    seen = camera[:, :3] @ corners
    points = seen[:2] / seen[2]
    low, high = points.min(axis=1), points.max(axis=1)
    inside = np.clip(np.minimum(high, entry.image.size) - np.maximum(low, 0), 0, None)
    return float(1 - np.prod(inside) / np.prod(high - low))


def _check_pairs(entry: WrittenCase, flat: object, solid: object) -> None:
    """3D boxes must belong to the first 2D boxes, in order; all further 2D boxes must be ignored ones."""
    if not isinstance(flat, Boxes2D) or not isinstance(solid, Boxes3D):
        return
    paired, rest = flat.kinds[: len(solid.kinds)], np.asarray(flat.care)[len(solid.kinds) :]
    if paired != solid.kinds or rest.any():
        raise InputError(
            f"'{entry.case.key}' cannot be written: KITTI has one line per object, but its {len(flat.kinds)} 2D boxes and "
            f"{len(solid.kinds)} 3D boxes are not the same objects in the same order"
        )


def _occlusion(flat: object, number: int) -> int:
    """KITTI's level: 0 fully visible, 1 partly and 2 largely hidden, 3 unknown."""
    if not isinstance(flat, Boxes2D) or flat.hidden is None:
        return 3
    return int(np.digitize(flat.hidden[number], (PARTLY, LARGELY)))


def _line(box: Box, place: Place, truncation: float, occlusion: int) -> str:
    alpha, size, location, rotation = place if box.care else UNKNOWN
    kind = "_".join(KINDS.get(box.kind.lower(), box.kind).split()) or "Misc" if box.care else "DontCare"
    numbers = (alpha, *box[:4], *size, *location, rotation)
    visible = f"{truncation:.2f} {occlusion}" if box.care and truncation >= 0 else f"-1 {occlusion if box.care else -1}"
    return f"{kind} {visible} " + " ".join(f"{number:.4f}" for number in numbers) + "\n"


def _places(entry: WrittenCase, solid: Boxes3D) -> list[Place]:
    """Alpha, size (height, width, length), bottom centre and rotation of every box in the camera's frame."""
    if why := solid.fault():
        raise InputError(f"'{entry.case.key}' cannot be written: {why}")
    calibration = find(entry.case.truth, Calibration.slot)
    turn = boxes_to_camera(calibration if isinstance(calibration, Calibration) else None)
    return [_place(row, turn) for row in solid.xyzlwhy]


def _place(row: Array, turn: Array) -> Place:
    x, y, z, length, width, height, yaw = row.tolist()
    bottom = turn @ (x, y, z - height / 2, 1.0)
    ahead = turn[:3, :3] @ (math.cos(yaw), math.sin(yaw), 0.0)
    rotation = math.atan2(-ahead[2], ahead[0])  # 0 is to the right, -π/2 straight ahead
    alpha = _wrapped(rotation - math.atan2(bottom[0], bottom[2]))
    return alpha, (height, width, length), tuple(bottom[:3].tolist()), rotation


def _wrapped(angle: float) -> float:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def boxes_to_camera(calibration: Calibration | None) -> Array:
    """The 4x4 matrix from the frame of 3D boxes (x ahead, y left, z up) to the camera's."""
    matrices = calibration.matrices if calibration else {}
    if "Tr_velo_to_cam" in matrices:
        return _square(matrices.get("R0_rect", np.eye(3))) @ _square(matrices["Tr_velo_to_cam"])
    return np.asarray(matrices.get("boxes_to_camera", AXES))


def _square(matrix: Array) -> Array:
    whole = np.eye(4)
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    return whole


def camera_of(calibration: Calibration) -> Array | None:
    """The projection to pixels: `camera`, or KITTI's `P2`."""
    return next((calibration.matrices[name] for name in ("camera", "P2") if name in calibration.matrices), None)


def _calibration(calibration: Calibration) -> str:
    camera, matrix = np.zeros((3, 4)), camera_of(calibration)
    assert matrix is not None
    camera[:, : matrix.shape[1]] = matrix
    ours = {
        **{f"P{number}": camera for number in range(4)},
        "R0_rect": np.eye(3),
        "Tr_velo_to_cam": boxes_to_camera(calibration)[:3],
    }
    if "Tr_velo_to_cam" in calibration.matrices:  # KITTI's own matrices are written unchanged
        ours |= {name: matrix for name, matrix in calibration.matrices.items() if name in ours}
    rows = {**ours, "Tr_imu_to_velo": np.eye(4)[:3]}
    return "".join(f"{name}: " + " ".join(f"{n:.12e}" for n in np.ravel(part)) + "\n" for name, part in rows.items())
