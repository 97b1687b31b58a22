"""Houses and blocks: width along x, depth along y, with the front, which faces the road, on the -y side."""

from __future__ import annotations

import itertools

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import box, fan

STOREY = 3.0  # metres; the period of the shader's windows
WALLS = (
    *(
        (0.52, 0.47, 0.38),
        (0.60, 0.58, 0.53),
        (0.45, 0.30, 0.20),
        (0.30, 0.13, 0.09),
        (0.55, 0.42, 0.24),
        (0.40, 0.42, 0.43),
    ),
    *(
        (0.62, 0.52, 0.42),
        (0.35, 0.38, 0.33),
        (0.50, 0.33, 0.26),
        (0.36, 0.20, 0.14),
        (0.66, 0.65, 0.62),
        (0.42, 0.45, 0.50),
    ),
)
TILES = ((0.24, 0.075, 0.045), (0.16, 0.06, 0.045), (0.075, 0.075, 0.08), (0.12, 0.09, 0.075), (0.30, 0.12, 0.07))
DOORS = ((0.10, 0.05, 0.025), (0.03, 0.08, 0.05), (0.02, 0.04, 0.12), (0.25, 0.03, 0.025), (0.35, 0.35, 0.34))
AWNINGS = (
    (0.40, 0.03, 0.03),
    (0.03, 0.16, 0.09),
    (0.02, 0.06, 0.25),
    (0.60, 0.45, 0.06),
    (0.03, 0.03, 0.03),
    (0.50, 0.12, 0.02),
)
SHOP_GLASS = (0.03, 0.036, 0.045)


def _random_colour(rng: np.random.Generator, table: tuple[tuple[float, float, float], ...]) -> Array:
    return np.asarray(np.array(table[int(rng.integers(len(table)))]) * rng.uniform(0.88, 1.08))


def building(rng: np.random.Generator, width: float, depth: float, storeys: int, urban: float) -> Mesh:
    """A block of flats, shops or offices, its front on the -y side.

    Args:
        rng: draws its appearance.
        width: along x, in metres.
        depth: along y.
        storeys: of 3 m each.
        urban: 0 in a village, 1 in a city: more flat roofs and shops.
    """
    wall, trim = (
        _random_colour(rng, WALLS),
        _random_colour(rng, ((0.60, 0.58, 0.54), (0.35, 0.34, 0.32), (0.20, 0.19, 0.18))),
    )
    eaves = storeys * STOREY + rng.uniform(0.3, 0.8)
    flat = storeys > 4 or rng.random() < 0.15 + 0.4 * urban
    half = np.array([width, depth]) / 2
    parts = [_walls(half, eaves, wall), _plinth(half, trim), _cornice(half, eaves, trim)]
    parts += _flat_roof(rng, half, eaves, trim) if flat else _pitched_roof(rng, half, eaves, wall)
    parts += _shop(rng, half) if rng.random() < 0.65 * urban else [_door(rng, half, x=rng.uniform(-0.3, 0.3) * width)]
    if storeys > 1 and rng.random() < 0.5:
        parts += _balconies(rng, half, storeys, trim)
    if storeys > 2 and rng.random() < 0.5 * urban:
        parts.append(_bands(half, storeys, trim))
    return joined(parts)


def house(rng: np.random.Generator) -> Mesh:
    """A small detached house with a gable roof, its door on the -y side."""
    half = np.array([rng.uniform(4.0, 6.5), rng.uniform(3.5, 5.0)])
    wall, eaves = _random_colour(rng, WALLS), STOREY * rng.integers(1, 3) + rng.uniform(0.1, 0.4)
    parts = [_walls(half, eaves, wall), _plinth(half, np.array([0.3, 0.29, 0.27])), *_gabled(rng, half, eaves, wall)]
    x = rng.uniform(-0.5, 0.5) * half[0]
    parts += [_door(rng, half, x=x), _porch(half, x)]
    if rng.random() < 0.45:
        side = rng.choice([-1.0, 1.0])
        parts.append(_garage(rng, half, side, wall))
    return joined(parts)


def _wall(a: Array, b: Array, low: float, high: float) -> tuple[Array, Array]:
    """A wall from `a` to `b`, left to right as seen from outside, and its uv coordinates."""
    long = float(np.linalg.norm(b - a))
    corners = np.array([(*a, low), (*b, low), (*b, high), (*a, high)])
    uv = np.array([(0, low), (long, low), (long, high), (0, high)])
    return fan(corners), np.array([[uv[0], uv[1], uv[2]], [uv[0], uv[2], uv[3]]])


def _walls(half: Array, eaves: float, colour: Array) -> Mesh:
    ring = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]) * half
    walls = [_wall(a, b, 0.0, eaves) for a, b in itertools.pairwise(ring)]
    corners, uv = (np.concatenate(part) for part in zip(*walls, strict=True))
    return mesh(corners, colour, Material.FACADE, uv=uv)


def _around(half: Array, out: float, low: float, high: float) -> Array:
    x, y = half + out
    return box((-x, -y, low), (x, y, high))


def _plinth(half: Array, colour: Array) -> Mesh:
    return mesh(_around(half, 0.05, 0.0, 0.45), colour * 0.7, Material.WALL)


def _cornice(half: Array, eaves: float, colour: Array) -> Mesh:
    return mesh(_around(half, 0.22, eaves - 0.28, eaves + 0.02), colour, Material.WALL)


def _bands(half: Array, storeys: int, colour: Array) -> Mesh:
    lines = [
        _around(half, 0.06, STOREY * level - 0.08, STOREY * level + 0.08) for level in range(1, storeys, 1 + storeys // 6)
    ]
    return mesh(np.concatenate(lines), colour, Material.WALL)


def _flat_roof(rng: np.random.Generator, half: Array, eaves: float, trim: Array) -> list[Mesh]:
    x, y = half
    top = eaves + rng.uniform(0.4, 0.9)
    walls = [box((-x, s * y - 0.12, eaves), (x, s * y + 0.12, top)) for s in (-0.97, 0.97)]
    walls += [box((s * x - 0.12, -y, eaves), (s * x + 0.12, y, top)) for s in (-0.97, 0.97)]
    cover = fan([(-x, -y, eaves + 0.05), (x, -y, eaves + 0.05), (x, y, eaves + 0.05), (-x, y, eaves + 0.05)])
    huts = []
    for _ in range(int(rng.integers(1, 4))):
        (cx, cy), size = rng.uniform(-0.6, 0.6, 2) * half, rng.uniform(0.6, 2.2)
        huts.append(box((cx - size, cy - size * 0.7, eaves), (cx + size, cy + size * 0.7, eaves + rng.uniform(1.0, 2.6))))
    return [
        mesh(np.concatenate(walls), trim, Material.WALL),
        mesh(cover, (0.12, 0.12, 0.12), Material.ROOF),
        mesh(np.concatenate(huts), (0.32, 0.32, 0.32), Material.WALL),
    ]


def _pitched_roof(rng: np.random.Generator, half: Array, eaves: float, wall: Array) -> list[Mesh]:
    return _hipped(rng, half, eaves) if rng.random() < 0.45 else _gabled(rng, half, eaves, wall)


def _hipped(rng: np.random.Generator, half: Array, eaves: float) -> list[Mesh]:
    x, y = half + 0.45
    rise = min(x, y) * rng.uniform(0.5, 0.75)
    ridge = max(x - y, 0.0) * 0.95 + 0.3
    a, b, c, d = (-x, -y, eaves), (x, -y, eaves), (x, y, eaves), (-x, y, eaves)
    left, right = (-ridge, 0.0, eaves + rise), (ridge, 0.0, eaves + rise)
    planes = np.concatenate(
        [fan([a, b, right, left]), fan([c, d, left, right]), fan([b, c, right]), fan([d, a, left]), fan([a, d, c, b])]
    )
    return [mesh(planes, _random_colour(rng, TILES), Material.ROOF), _chimneys(rng, half, eaves + rise)]


def _gabled(rng: np.random.Generator, half: Array, eaves: float, wall: Array) -> list[Mesh]:
    x, y = half
    rise = y * rng.uniform(0.65, 1.05)
    over, thick = 0.45, 0.16
    fall = rise / y * over
    profile = [(-y - over, eaves - fall), (0.0, eaves + rise), (y + over, eaves - fall)]
    planes = [_slab(profile[0], profile[1], x + 0.35, thick), _slab(profile[1], profile[2], x + 0.35, thick)]
    gables = [_gable(side * x, y, eaves, rise=rise) for side in (-1.0, 1.0)]
    corners, uv = (np.concatenate(part) for part in zip(*gables, strict=True))
    roof = mesh(np.concatenate(planes), _random_colour(rng, TILES), Material.ROOF)

    return [roof, mesh(corners, wall, Material.FACADE, uv=uv), _chimneys(rng, half, eaves + rise)]


def _slab(start: tuple[float, float], end: tuple[float, float], reach: float, thick: float) -> Array:
    """One side of a roof between two points in y and z."""
    (y0, z0), (y1, z1) = start, end
    low = np.array([(-reach, y0, z0), (reach, y0, z0), (reach, y1, z1), (-reach, y1, z1)])
    high = low + np.array([0, 0, thick])
    rim = [fan([low[i], low[(i + 1) % 4], high[(i + 1) % 4], high[i]]) for i in range(4)]
    return np.concatenate([fan(high), fan(low[::-1]), *rim])


def _gable(x: float, y: float, eaves: float, *, rise: float) -> tuple[Array, Array]:
    side = np.sign(x)
    corners = np.array([[(x, -y * side, eaves), (x, y * side, eaves), (x, 0.0, eaves + rise)]])
    return corners, np.array([[(0, eaves), (2 * y, eaves), (y, eaves + rise)]])


def _chimneys(rng: np.random.Generator, half: Array, ridge: float) -> Mesh:
    spots = rng.uniform(-0.7, 0.7, (int(rng.integers(1, 3)), 2)) * half * [1, 0.3]
    stacks = [box((x - 0.35, y - 0.3, ridge - 1.6), (x + 0.35, y + 0.3, ridge + 0.75)) for x, y in spots]
    return mesh(np.concatenate(stacks), (0.28, 0.13, 0.09), Material.WALL)


def _door(rng: np.random.Generator, half: Array, *, x: float) -> Mesh:
    front = -half[1]
    frame = box((x - 0.65, front - 0.09, 0.0), (x + 0.65, front + 0.05, 2.45))
    leaf = box((x - 0.5, front - 0.11, 0.15), (x + 0.5, front, 2.3))
    step = box((x - 0.8, front - 0.5, 0.0), (x + 0.8, front, 0.15))
    return joined(
        [
            mesh(frame, (0.5, 0.49, 0.46), Material.WALL),
            mesh(leaf, _random_colour(rng, DOORS), Material.WALL),
            mesh(step, (0.3, 0.29, 0.28), Material.WALL),
        ]
    )


def _porch(half: Array, x: float) -> Mesh:
    front = -half[1]
    return mesh(box((x - 1.0, front - 0.9, 2.55), (x + 1.0, front, 2.68)), (0.2, 0.17, 0.15), Material.ROOF)


def _shop(rng: np.random.Generator, half: Array) -> list[Mesh]:
    """A shop front: glass between posts, a sign above and sometimes an awning."""
    x, front = half[0] * 0.94, -half[1]
    colour = _random_colour(rng, AWNINGS)
    glass = box((-x, front - 0.08, 0.35), (x, front, 2.65))
    posts = [
        box((at - 0.12, front - 0.13, 0.0), (at + 0.12, front, 2.7)) for at in np.linspace(-x, x, max(int(x / 1.6), 2) + 1)
    ]
    board = box((-x, front - 0.18, 2.65), (x, front, 3.25))
    parts = [
        mesh(glass, SHOP_GLASS, Material.SHOPFRONT),
        mesh(np.concatenate(posts), (0.25, 0.24, 0.23), Material.WALL),
        mesh(board, colour, Material.BOARD),
    ]
    if rng.random() < 0.5:
        at = rng.uniform(-0.6, 0.1) * x
        cloth = _slab((front - 1.2, 2.25), (front - 0.1, 2.75), 1.6, 0.03) + np.array([at, 0, 0])
        parts.append(mesh(cloth, _random_colour(rng, AWNINGS), Material.CLOTH))
    return parts


def _balconies(rng: np.random.Generator, half: Array, storeys: int, trim: Array) -> list[Mesh]:
    front, parts = -half[1], []
    columns = rng.uniform(-0.65, 0.65, 1 if half[0] < 6 else 2) * half[0]
    levels = range(max(1, storeys - 3), storeys)
    for x in columns:
        for level in levels:
            z = level * STOREY + 0.1
            parts.append(box((x - 1.3, front - 1.0, z), (x + 1.3, front, z + 0.15)))
            parts.append(box((x - 1.3, front - 1.0, z + 0.15), (x + 1.3, front - 0.95, z + 1.05)))
    return [mesh(np.concatenate(parts), trim * 0.9, Material.WALL)]


def _garage(rng: np.random.Generator, half: Array, side: float, wall: Array) -> Mesh:
    x0, x1 = sorted((side * half[0], side * (half[0] + 3.2)))
    front = -half[1] + 0.8
    shed = box((x0, front, 0.0), (x1, front + 5.0, 2.7))
    gate = box((x0 + 0.35, front - 0.05, 0.0), (x1 - 0.35, front, 2.2))
    roof = box((x0 - 0.15, front - 0.25, 2.7), (x1 + 0.15, front + 5.2, 2.85))
    return joined(
        [
            mesh(shed, wall, Material.WALL),
            mesh(gate, _random_colour(rng, DOORS), Material.WALL),
            mesh(roof, (0.12, 0.12, 0.12), Material.ROOF),
        ]
    )
