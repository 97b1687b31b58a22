"""Simple shapes as corner arrays, n x 3 x 3, all facing outwards, from which the models are built."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh

Point = Sequence[float] | Array
LEAST_AREA = 1e-7  # square metres; smaller triangles, where a net closes to a point, are dropped


def grid(points: object) -> Array:
    """Two triangles per cell of an m x n x 3 net; seen from outside, columns lie a left turn from rows."""
    net = np.asarray(points, np.float64)
    a, b, c, d = net[:-1, :-1], net[1:, :-1], net[1:, 1:], net[:-1, 1:]
    return np.stack([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)], axis=2).reshape(-1, 3, 3)


def has_area(corners: Array) -> Array:
    """Which triangles have an area."""
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return np.asarray(np.linalg.norm(across, axis=1) > 2 * LEAST_AREA)


def net(points: object) -> Array:
    """A `grid` without the triangles that have no area."""
    corners = grid(points)
    return corners[has_area(corners)]


def fan(points: object) -> Array:
    """A convex outline, counter-clockwise seen from outside, as triangles from its first point."""
    outline = np.asarray(points, np.float64)
    first = np.broadcast_to(outline[0], (len(outline) - 2, 3))
    return np.stack([first, outline[1:-1], outline[2:]], axis=1)


def prism(outline: object, extent: tuple[float, float]) -> Array:
    """A convex outline in x and z (counter-clockwise with x right and z up), pushed from y = extent[0] to extent[1]."""
    flat = np.asarray(outline, np.float64)
    near, far = (np.insert(flat, 1, y, axis=1) for y in extent)
    sides = grid(np.stack([np.vstack([far, far[:1]]), np.vstack([near, near[:1]])], axis=1))
    return np.concatenate([fan(near), fan(far[::-1]), sides])


def box(low: Point, high: Point) -> Array:
    """An upright box between two opposite corners."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    return prism([(x0, z0), (x1, z0), (x1, z1), (x0, z1)], (y0, y1))


def bevelled(low: Point, high: Point, *, bevel: float) -> Array:
    """A box with its edges cut off by `bevel`."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    profile = [(1.0, low[2]), (0.0, low[2] + bevel), (0.0, high[2] - bevel), (1.0, high[2])]
    rings = [_cut_ring(low, high, inset=inset * bevel, bevel=bevel) + np.array([0, 0, z]) for inset, z in profile]
    sides = net(np.stack([np.vstack([ring, ring[:1]]) for ring in rings], axis=1))
    return np.concatenate([fan(rings[0][::-1]), sides, fan(rings[-1])])


def _cut_ring(low: Array, high: Array, *, inset: float, bevel: float) -> Array:
    (x0, y0, _), (x1, y1, _) = low + inset, high - inset
    corner = bevel * 0.8
    ring = [(x1, y0 + corner), (x1, y1 - corner), (x1 - corner, y1), (x0 + corner, y1)]
    ring += [(x0, y1 - corner), (x0, y0 + corner), (x0 + corner, y0), (x1 - corner, y0)]
    return np.array([(x, y, 0.0) for x, y in ring])


def lathe(profile: object, segments: int) -> Array:
    """A profile of (radius, height), going upwards, turned around z."""
    radius, height = np.asarray(profile, np.float64).T
    angle = np.linspace(0, 2 * np.pi, segments + 1)
    angle[-1] = 0.0  # the seam shares its corners exactly, so that normals are smooth there
    across = [np.cos(angle)[:, None] * radius, np.sin(angle)[:, None] * radius]
    return net(np.stack([*across, np.broadcast_to(height, across[0].shape)], axis=2))


def tube(start: Point, end: Point, *, radii: tuple[float, float], sides: int = 6, capped: bool = False) -> Array:
    """A straight pipe from one point to another, thick as `radii` at its two ends."""
    start, along = np.asarray(start, float), np.asarray(end, float) - np.asarray(start, float)
    length = float(np.linalg.norm(along))
    profile = [(radii[0], 0.0), (radii[1], length)]
    if capped:
        profile = [(0.0, 0.0), *profile, (0.0, length)]
    return lathe(profile, sides) @ _axes(along / length) + start


def _axes(up: Array) -> Array:
    """A turned frame as rows, its third axis along `up`."""
    side = np.cross([0.0, 1.0, 0.0] if abs(up[1]) < 0.9 else [1.0, 0.0, 0.0], up)
    side /= np.linalg.norm(side)
    return np.stack([side, np.cross(up, side), up])


def lying(corners: Array) -> Array:
    """A shape around the z axis, turned to lie around the y axis, its upper side to the left."""
    return np.asarray(corners @ np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]]))


def facing_back(corners: Array) -> Array:
    """A shape in x and y that faces up, turned to face -x (y up, x to the right of its viewer)."""
    return np.asarray(corners @ np.array([[0, -1.0, 0], [0, 0, 1.0], [-1.0, 0, 0]]))


def disc(radius: float, *, sides: int, turn: float = 0.0, inner: float = 0.0) -> Array:
    """A regular outline (or ring, if `inner` is above 0) in x and y, looking up."""
    angle = turn + np.linspace(0, 2 * np.pi, sides + 1)
    angle[-1] = turn
    rim = np.stack([np.cos(angle), np.sin(angle), np.zeros(sides + 1)], axis=1)
    return net(np.stack([rim * radius, rim * inner], axis=0)[::-1].transpose(1, 0, 2)[::-1])


@cache
def icosphere(level: int) -> tuple[Array, Array]:
    """Points on the unit sphere and the triangles between them: 20, 80, 320 ... of them."""
    golden = (1 + 5**0.5) / 2
    flat = [(0.0, i, j * golden) for i in (-1, 1) for j in (-1, 1)]
    points = np.array([np.roll(p, turn) for turn in range(3) for p in flat])
    points /= np.linalg.norm(points[0])
    corners = _hull(points)
    for _ in range(level):
        corners = _split(points[corners])
        points, index = np.unique(np.round(corners.reshape(-1, 3), 9), axis=0, return_inverse=True)
        corners = index.reshape(-1, 3)
    points.flags.writeable = corners.flags.writeable = False  # every caller gets the same arrays
    return points, corners


def _hull(points: Array) -> Array:
    """The triples of an icosahedron's points that all lie one edge apart, turned outwards."""
    near = np.linalg.norm(points[:, None] - points[None], axis=2) < 1.2
    count = range(len(points))
    faces = [
        (i, j, k) for i in count for j in count for k in count if i < j < k and near[i, j] and near[j, k] and near[i, k]
    ]
    outward = [np.linalg.det(points[list(face)]) > 0 for face in faces]
    return np.array([face if good else face[::-1] for face, good in zip(faces, outward, strict=True)])


def _split(corners: Array) -> Array:
    a, b, c = corners.transpose(1, 0, 2)
    ab, bc, ca = (middle / np.linalg.norm(middle, axis=1, keepdims=True) for middle in (a + b, b + c, c + a))
    return np.concatenate([np.stack(three, axis=1) for three in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])


def blob(rng: np.random.Generator, radii: Point, *, level: int = 1, rough: float = 0.15) -> Array:
    """A lumpy ball around the origin: slow waves and a little noise at each point."""
    points, faces = icosphere(level)
    waves, phase = rng.normal(0, 2.2, (3, 3)), rng.uniform(0, 2 * np.pi, 3)
    swell = np.sin(points @ waves.T + phase).mean(axis=1) + rng.uniform(-0.6, 0.6, len(points))
    return np.asarray((points * (1 + rough * swell)[:, None])[faces] * np.asarray(radii, float))


def ball(centre: Point, radii: Point, *, segments: int = 8, rings: int = 5) -> Array:
    """A plain ellipsoid."""
    tilt = np.linspace(-np.pi / 2, np.pi / 2, rings + 1)
    radius = np.cos(tilt)
    radius[[0, -1]] = 0.0
    unit = lathe(np.stack([radius, np.sin(tilt)], axis=1), segments)
    return np.asarray(unit * np.asarray(radii, float) + np.asarray(centre, float))


def recoloured(part: Mesh, where: Array, colour: object, material: Material) -> Mesh:
    """The triangles of `where` in another colour and material; normals stay shared across the border."""
    paint = np.where(where[:, None], np.asarray(colour, np.float32), part.colour).astype(np.float32)
    stuff = np.where(where, np.uint8(int(material)), part.material).astype(np.uint8)
    return dataclasses.replace(part, colour=paint, material=stuff)
