"""Triangle meshes, with a material and a colour per triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from swerve.core.values import Array


def row(*numbers: float) -> Array:
    """A few numbers as float32: a place, a direction or a colour."""
    return np.array(numbers, np.float32)


def column(*numbers: float) -> Array:
    """A few numbers as a float32 column, to combine with n points, directions or colours as 3 rows of n."""
    return row(*numbers)[:, None]


class Material(IntEnum):
    """The material of a triangle: decides its shading and its LiDAR returns."""

    GROUND = 0  # road, verge and yards: coloured by the map, not by the mesh
    KERB = 1
    PAVING = 2
    FACADE = 3  # walls with windows: uv in metres along the wall and up
    ROOF = 4
    LEAVES = 5
    BARK = 6
    METAL = 7  # poles, rails, frames
    PAINT = 8  # of vehicles
    GLASS = 9
    TYRE = 10
    PLASTIC = 11
    CLOTH = 12
    SKIN = 13
    SIGN = 14  # retro-reflective
    BOARD = 15  # billboards, lit at night
    LAMP = 16  # street lamps
    HEADLIGHT = 17
    TAILLIGHT = 18
    SIGNAL_ON = 19  # a lit lamp of a traffic light
    SIGNAL_OFF = 20
    HILL = 21  # far away
    WALL = 22  # plain: fences, garden walls, bollards
    INDICATOR = 23
    SHOPFRONT = 24  # a shop's window, lit from inside at night


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in metres: x ahead, y left, z up, the origin on the ground below the middle.

    Args:
        corners: n x 3 x 3 float32.
        normals: n x 3 x 3 float32, one per corner; flat triangles have three equal ones.
        colour: n x 3 float32, linear RGB reflectance from 0 to 1.
        material: n uint8.
        uv: n x 3 x 2 float32, a surface's own coordinates in metres where its material has a pattern.
    """

    corners: Array
    normals: Array
    colour: Array
    material: Array
    uv: Array

    def __len__(self) -> int:
        return len(self.corners)

    def placed(self, x: float, y: float, *, z: float = 0.0, yaw: float = 0.0) -> Mesh:
        """Turned by `yaw` (left positive) and moved."""
        turn = np.array([[np.cos(yaw), np.sin(yaw), 0], [-np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]], np.float32)
        return replace(self, corners=self.corners @ turn + row(x, y, z), normals=self.normals @ turn)

    def scaled(self, x: float = 1.0, y: float = 1.0, z: float = 1.0) -> Mesh:
        """Stretched along its own axes."""
        stretch = row(x, y, z)
        return replace(self, corners=self.corners * stretch, normals=_unit(self.normals / stretch))

    def mirrored(self) -> Mesh:
        """Left and right exchanged, still facing outwards."""
        flip = row(1, -1, 1)
        turned = {name: getattr(self, name)[:, ::-1] for name in ("corners", "normals", "uv")}
        return replace(self, corners=turned["corners"] * flip, normals=turned["normals"] * flip, uv=turned["uv"])

    def tinted(self, factor: object) -> Mesh:
        """Its walls in another shade."""
        shade = np.where((self.material == Material.FACADE)[:, None], np.asarray(factor, np.float32), np.float32(1))
        return replace(self, colour=np.clip(self.colour * shade, 0, 1))

    def unlit(self) -> Mesh:
        """With its lights off."""
        off = self.material.copy()
        off[off == Material.HEADLIGHT], off[off == Material.TAILLIGHT] = Material.GLASS, Material.PLASTIC
        return replace(self, material=off)

    def bounds(self) -> tuple[Array, Array]:
        """The lowest and the highest corner."""
        return self._bounds

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        flat = self.corners.reshape(-1, 3)
        return _fixed(flat.min(axis=0)), _fixed(flat.max(axis=0))

    @cached_property
    def has_headlights(self) -> bool:
        """Whether it has headlights that may be lit."""
        return bool((self.material == Material.HEADLIGHT).any())


def mesh(corners: object, colour: object, material: Material, *, smooth: bool = False, uv: Array | None = None) -> Mesh:
    """Triangles of one material and one colour; `smooth` shares normals between triangles that meet in a corner."""
    points = np.asarray(corners, np.float32).reshape(-1, 3, 3)
    count = len(points)
    normals = np.repeat(_face_normals(points)[:, None], 3, axis=1)
    return Mesh(
        corners=points,
        normals=_shared(points, normals) if smooth else normals,
        colour=np.broadcast_to(np.asarray(colour, np.float32), (count, 3)).copy(),
        material=np.full(count, int(material), np.uint8),
        uv=np.zeros((count, 3, 2), np.float32) if uv is None else np.asarray(uv, np.float32),
    )


def joined(parts: Sequence[Mesh]) -> Mesh:
    """All parts as one mesh."""
    return Mesh(*(np.concatenate([getattr(part, name) for part in parts]) for name in Mesh.__dataclass_fields__))


def _fixed(numbers: Array) -> Array:
    """An array that cannot be changed."""
    numbers.flags.writeable = False
    return numbers


def _unit(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32(1e-9))


def _face_normals(points: Array) -> Array:
    return _unit(np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0]))


def _shared(points: Array, normals: Array) -> Array:
    """The mean normal of all triangles that meet in each corner."""
    _, corner = np.unique(np.round(points.reshape(-1, 3), 4), axis=0, return_inverse=True)
    total = np.zeros((corner.max() + 1, 3), np.float32)
    np.add.at(total, corner.ravel(), normals.reshape(-1, 3))
    return _unit(total[corner.ravel()]).reshape(points.shape)
