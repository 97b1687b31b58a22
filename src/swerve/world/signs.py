"""Traffic signs and billboards of coloured triangles, all facing -x, towards a driver going along +x."""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import box, disc, facing_back, fan, tube

WHITE = (0.78, 0.78, 0.76)
RED = (0.48, 0.012, 0.012)
BLUE = (0.012, 0.07, 0.36)
YELLOW = (0.72, 0.46, 0.02)
BLACK = (0.012, 0.012, 0.012)
GREY = (0.30, 0.31, 0.32)
# The strokes of a digit as (x, y, width, height) in a cell of 1 x 2: clockwise from the top, the bar, the stem of a T.
STROKES = (
    *((0, 1.75, 1, 0.25), (0.75, 1, 0.25, 1), (0.75, 0, 0.25, 1), (0, 0, 1, 0.25), (0, 0, 0.25, 1), (0, 1, 0.25, 1)),
    *((0, 0.875, 1, 0.25), (0.375, 0, 0.25, 1.75)),
)
DIGITS = {"0": (0, 1, 2, 3, 4, 5), "1": (1, 2), "2": (0, 1, 6, 4, 3), "3": (0, 1, 6, 2, 3), "5": (0, 5, 6, 2, 3)}
DIGITS |= {"6": (0, 5, 4, 3, 2, 6), "7": (0, 1, 2), "8": (0, 1, 2, 3, 4, 5, 6), "9": (6, 5, 0, 1, 2, 3)}
DIGITS |= {"S": (0, 5, 6, 2, 3), "T": (0, 7), "O": (0, 1, 2, 3, 4, 5), "P": (0, 1, 6, 5, 4)}
LIMITS = ("20", "30", "50", "60", "70", "80", "100")
INKS = (
    *((0.62, 0.6, 0.55), (0.55, 0.5, 0.38), (0.02, 0.04, 0.12), (0.42, 0.04, 0.03), (0.5, 0.3, 0.04), (0.03, 0.14, 0.15)),
    *((0.02, 0.02, 0.02), (0.3, 0.38, 0.46), (0.06, 0.18, 0.08), (0.3, 0.08, 0.14), (0.12, 0.22, 0.4), (0.66, 0.64, 0.6)),
)  # of posters
SET_OFF = 0.004  # metres between the layers of a picture


def _face(corners: Array, layer: int, colour: object, *, material: Material = Material.SIGN) -> Mesh:
    """A flat figure in x and y as one layer of a sign's picture."""
    return mesh(facing_back(corners + np.array([0, 0, 0.03 + SET_OFF * layer])), colour, material)


def _rectangle(x: float, y: float, width: float, height: float) -> Array:
    return fan([(x, y, 0), (x + width, y, 0), (x + width, y + height, 0), (x, y + height, 0)])


def _text(text: str, size: float) -> Array:
    """Digits or letters side by side around the origin, `size` the height of one."""
    unit, step = size / 2, 1.35
    left = -(step * len(text) - 0.35) / 2
    cells = [(left + step * index, stroke) for index, digit in enumerate(text) for stroke in DIGITS[digit]]
    bars = [_rectangle(at + STROKES[s][0], STROKES[s][1] - 1, STROKES[s][2], STROKES[s][3]) for at, s in cells]
    return np.concatenate(bars) * unit


def _limit(rng: np.random.Generator) -> list[Mesh]:
    text = LIMITS[int(rng.integers(len(LIMITS)))]
    size = 0.30 if len(text) == 2 else 0.22
    return [_face(disc(0.32, sides=20), 0, RED), _face(disc(0.25, sides=20), 1, WHITE), _face(_text(text, size), 2, BLACK)]


def _warning(rng: np.random.Generator) -> list[Mesh]:
    triangle = [_face(disc(0.48, sides=3, turn=np.pi / 2), 0, RED), _face(disc(0.34, sides=3, turn=np.pi / 2), 1, WHITE)]
    mark = int(rng.integers(3))
    figures = (
        [_rectangle(-0.03, -0.02, 0.06, 0.18), _rectangle(-0.03, -0.11, 0.06, 0.06)],
        [_rectangle(-0.03, -0.11, 0.06, 0.28), _rectangle(-0.11, -0.02, 0.22, 0.05)],
        [_rectangle(-0.10, -0.11, 0.05, 0.12), _rectangle(-0.10, 0.0, 0.16, 0.05), _rectangle(0.02, 0.0, 0.05, 0.15)],
    )
    return [*triangle, _face(np.concatenate(figures[mark]), 2, BLACK)]


def _yield(_: np.random.Generator) -> list[Mesh]:
    return [_face(disc(0.48, sides=3, turn=-np.pi / 2), 0, RED), _face(disc(0.29, sides=3, turn=-np.pi / 2), 1, WHITE)]


def _stop(_: np.random.Generator) -> list[Mesh]:
    edge, field = (disc(size, sides=8, turn=np.pi / 8) for size in (0.38, 0.35))
    return [_face(edge, 0, WHITE), _face(field, 1, RED), _face(_text("STOP", 0.21), 2, WHITE)]


def _mandatory(rng: np.random.Generator) -> list[Mesh]:
    arrow = fan([(-0.035, -0.18, 0), (0.035, -0.18, 0), (0.035, 0.06, 0), (-0.035, 0.06, 0)])
    head = fan([(-0.12, 0.05, 0), (0.12, 0.05, 0), (0, 0.2, 0)])
    turn = (0.0, np.pi / 2, -np.pi / 2)[int(rng.integers(3))]
    spin = np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    picture = np.concatenate([arrow, head]) @ spin
    return [_face(disc(0.32, sides=20), 0, WHITE), _face(disc(0.30, sides=20), 1, BLUE), _face(picture, 2, WHITE)]


def _direction(rng: np.random.Generator) -> list[Mesh]:
    wide, field = rng.uniform(0.7, 1.1), (BLUE, YELLOW, (0.01, 0.16, 0.06))[int(rng.integers(3))]
    ink = BLACK if field is YELLOW else WHITE
    lines = [_rectangle(-wide + 0.15, y, rng.uniform(0.5, 1.1), 0.10) for y in (0.14, -0.06, -0.26)]
    shaft, head = (
        _rectangle(wide - 0.24, -0.26, 0.08, 0.32),
        fan([(wide - 0.32, 0.05, 0), (wide - 0.08, 0.05, 0), (wide - 0.2, 0.25, 0)]),
    )
    return [
        _face(_rectangle(-wide, -0.42, 2 * wide, 0.84), 0, ink),
        _face(_rectangle(-wide + 0.03, -0.39, 2 * wide - 0.06, 0.78), 1, field),
        _face(np.concatenate([*lines, shaft, head]), 2, ink),
    ]


def _parking(_: np.random.Generator) -> list[Mesh]:
    strokes = [_rectangle(-0.12, -0.2, 0.07, 0.4), _rectangle(-0.06, 0.13, 0.16, 0.07), _rectangle(-0.06, -0.03, 0.16, 0.07)]
    strokes.append(_rectangle(0.08, 0.0, 0.06, 0.17))
    plate, field = _rectangle(-0.32, -0.32, 0.64, 0.64), _rectangle(-0.30, -0.30, 0.60, 0.60)
    return [_face(plate, 0, WHITE), _face(field, 1, BLUE), _face(np.concatenate(strokes), 2, WHITE)]


FACES = (_limit, _warning, _yield, _stop, _mandatory, _direction, _parking)
OFTEN = (0.34, 0.18, 0.12, 0.08, 0.10, 0.10, 0.08)


def sign(rng: np.random.Generator) -> Mesh:
    """A traffic sign on a pole, looking to -x: speed limit, warning, yield, stop, arrow, direction or parking."""
    make = FACES[int(rng.choice(len(FACES), p=OFTEN))]
    high, large = rng.uniform(2.1, 2.5), rng.uniform(0.95, 1.25)
    picture = joined(make(rng)).scaled(1.0, large, large)
    plate = picture.corners[: int((picture.material == Material.SIGN).sum())]
    low, top = plate.reshape(-1, 3).min(axis=0), plate.reshape(-1, 3).max(axis=0)
    back = _back(picture)
    wide = float(top[1] - low[1]) > 1.2
    feet = (-0.5, 0.5) if wide else (0.0,)
    poles = [tube((0, y, 0), (0, y, high + float(top[2]) * 0.9), radii=(0.032, 0.032), sides=7, capped=True) for y in feet]
    return joined(
        [
            picture.placed(0, 0, z=high),
            back.placed(0, 0, z=high),
            mesh(np.concatenate(poles), GREY, Material.METAL, smooth=True),
        ]
    )


def _back(picture: Mesh) -> Mesh:
    """The bare back of a sign: its lowest layer, turned around."""
    corners = picture.corners.astype(np.float64)
    lowest = corners[np.isclose(corners[..., 0].max(axis=1), corners[..., 0].max())]
    return mesh(lowest[:, ::-1] + [0.004, 0, 0], GREY, Material.METAL)


def billboard(rng: np.random.Generator) -> Mesh:
    """A large board on two posts, looking to -x, with a bold picture of coloured shapes."""
    wide, tall, foot = rng.uniform(2.0, 3.6), rng.uniform(1.2, 1.8), rng.uniform(1.8, 3.0)
    ground, *inks = (_ink(rng) for _ in range(5))
    field = _rectangle(-wide + 0.08, -tall + 0.08, 2 * wide - 0.16, 2 * tall - 0.16)
    parts = [_face(field, 0, ground, material=Material.BOARD)]
    for layer, ink in enumerate(inks, start=1):
        parts.append(_face(_figure(rng, wide * 0.9, tall * 0.88), layer, ink, material=Material.BOARD))
    bars = [
        _rectangle(rng.uniform(-0.8, -0.3) * wide, y * tall, wide * rng.uniform(0.5, 1.1), tall * 0.14)
        for y in (-0.45, -0.7)
    ]
    parts.append(_face(np.concatenate(bars), 6, _ink(rng), material=Material.BOARD))
    centre = foot + tall
    frame = box((-0.025, -wide, foot), (0.1, wide, foot + 2 * tall))
    posts = [box((0.1, y - 0.12, 0.0), (0.34, y + 0.12, centre + tall * 0.6)) for y in (-wide * 0.6, wide * 0.6)]
    return joined(
        [joined(parts).placed(0, 0, z=centre), mesh(np.concatenate([frame, *posts]), (0.12, 0.12, 0.13), Material.METAL)]
    )


def _ink(rng: np.random.Generator) -> Array:
    """A colour of printed posters."""
    return np.asarray(np.array(INKS[int(rng.integers(len(INKS)))]) * rng.uniform(0.85, 1.1))


def _figure(rng: np.random.Generator, wide: float, tall: float) -> Array:
    """A disc, a polygon, a wedge or a band within the board."""
    kind, size = int(rng.integers(4)), tall * rng.uniform(0.35, 0.85)
    middle = np.array([rng.uniform(-1, 1) * (wide - size), rng.uniform(-1, 1) * (tall - size), 0])
    if kind == 0:
        return np.asarray(disc(size, sides=18) + middle)
    if kind == 1:
        return np.asarray(disc(size, sides=int(rng.integers(3, 6)), turn=rng.uniform(0, 2)) + middle)
    if kind == 2:
        left, right = sorted(rng.uniform(-wide, wide, 2))
        return fan([(-wide, -tall, 0), (right, -tall, 0), (left, tall, 0), (-wide, tall, 0)])
    y = rng.uniform(-tall, tall * 0.4)
    return _rectangle(-wide, y, 2 * wide, tall * rng.uniform(0.2, 0.5))
