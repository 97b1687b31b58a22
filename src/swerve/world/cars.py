"""Cars and vans, and the paint, plates, lamps and doors that buses and trucks share with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.bodies import BLACK, Body, cabin, mirrored_pair, on_end, on_side, running_gear, shell
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import box

# Linear reflectances with their frequencies.
PAINTS = (
    ((0.72, 0.72, 0.70), 22),
    ((0.45, 0.46, 0.47), 12),
    ((0.20, 0.21, 0.22), 13),
    ((0.07, 0.075, 0.08), 12),
    ((0.014, 0.014, 0.016), 16),
    ((0.02, 0.07, 0.27), 7),
    ((0.010, 0.022, 0.075), 5),
    ((0.13, 0.26, 0.42), 2),
    ((0.42, 0.018, 0.018), 6),
    ((0.14, 0.010, 0.014), 2),
    ((0.02, 0.10, 0.045), 2),
    ((0.60, 0.38, 0.03), 1),
    ((0.55, 0.15, 0.015), 1),
    ((0.36, 0.29, 0.20), 2),
)
LIVERIES = (
    (0.70, 0.70, 0.68),
    (0.45, 0.02, 0.02),
    (0.02, 0.09, 0.32),
    (0.62, 0.40, 0.03),
    (0.03, 0.20, 0.09),
    (0.50, 0.50, 0.52),
)
WHITE_LAMP = (0.80, 0.82, 0.85)
RED_LAMP = (0.40, 0.010, 0.010)
PLATES = ((0.75, 0.75, 0.74), (0.75, 0.55, 0.06))


@dataclass(frozen=True)
class CarKind:
    """A kind of car: dimensions in metres, positions as shares of length or height."""

    length: tuple[float, float]
    height: tuple[float, float]
    belt: tuple[tuple[float, float], ...]
    cabin: tuple[float, float, float, float]
    panes: tuple[tuple[float, float], ...]
    back: tuple[float, float] = (0.08, 0.90)
    wheel: float = 0.32
    cladding: float = 0.10
    frequency: int = 1


SALOON = CarKind(
    length=(4.4, 4.9),
    height=(1.41, 1.48),
    belt=((0, 0.50), (0.03, 0.535), (0.27, 0.645), (0.5, 0.66), (0.84, 0.70), (0.97, 0.695), (1, 0.66)),
    cabin=(0.27, 0.435, 0.70, 0.85),
    panes=((0.05, 0.42), (0.45, 0.74), (0.755, 0.87)),
    back=(0.05, 0.94),
    frequency=6,
)
HATCHBACK = CarKind(
    length=(3.7, 4.3),
    height=(1.43, 1.54),
    belt=((0, 0.50), (0.03, 0.545), (0.24, 0.64), (0.5, 0.66), (0.97, 0.69), (1, 0.67)),
    cabin=(0.24, 0.42, 0.87, 0.965),
    panes=((0.05, 0.43), (0.46, 0.76)),
    back=(0.10, 0.86),
    wheel=0.31,
    frequency=8,
)
ESTATE = CarKind(
    length=(4.4, 4.85),
    height=(1.44, 1.52),
    belt=((0, 0.49), (0.03, 0.53), (0.26, 0.635), (0.5, 0.65), (0.97, 0.68), (1, 0.66)),
    cabin=(0.26, 0.42, 0.90, 0.97),
    panes=((0.04, 0.34), (0.365, 0.62), (0.645, 0.92)),
    back=(0.10, 0.88),
    frequency=4,
)
SUV = CarKind(
    length=(4.2, 4.85),
    height=(1.60, 1.75),
    belt=((0, 0.55), (0.025, 0.60), (0.24, 0.655), (0.5, 0.665), (0.97, 0.69), (1, 0.66)),
    cabin=(0.24, 0.39, 0.89, 0.968),
    panes=((0.04, 0.35), (0.375, 0.64), (0.665, 0.90)),
    back=(0.12, 0.86),
    wheel=0.365,
    cladding=0.18,
    frequency=7,
)
MINI = CarKind(
    length=(3.6, 3.9),
    height=(1.45, 1.58),
    belt=((0, 0.50), (0.04, 0.56), (0.20, 0.635), (0.5, 0.65), (0.97, 0.68), (1, 0.64)),
    cabin=(0.20, 0.38, 0.89, 0.97),
    panes=((0.05, 0.45), (0.48, 0.80)),
    back=(0.10, 0.86),
    wheel=0.29,
    frequency=4,
)
COUPE = CarKind(
    length=(4.2, 4.6),
    height=(1.40, 1.43),
    belt=((0, 0.47), (0.03, 0.51), (0.31, 0.645), (0.5, 0.66), (0.88, 0.71), (0.97, 0.72), (1, 0.68)),
    cabin=(0.31, 0.485, 0.65, 0.89),
    panes=((0.05, 0.50), (0.53, 0.72)),
    back=(0.04, 0.95),
    wheel=0.335,
)
PICKUP = CarKind(
    length=(4.8, 4.9),
    height=(1.70, 1.75),
    belt=((0, 0.55), (0.025, 0.60), (0.25, 0.645), (0.56, 0.655), (0.62, 0.63), (0.98, 0.63), (1, 0.61)),
    cabin=(0.25, 0.38, 0.57, 0.60),
    panes=((0.06, 0.52), (0.56, 0.94)),
    back=(0.12, 0.88),
    wheel=0.37,
    cladding=0.14,
)
KINDS = (SALOON, HATCHBACK, ESTATE, SUV, MINI, COUPE, PICKUP)


def car(rng: np.random.Generator) -> Mesh:
    """A car: saloon, hatchback, estate, off-roader, small car, coupé or pick-up; 3.6 to 4.9 m long."""
    frequency = np.array([kind.frequency for kind in KINDS], float)
    kind = KINDS[int(rng.choice(len(KINDS), p=frequency / frequency.sum()))]
    paint = random_paint(rng)
    body = _car_body(rng, kind)
    dark_roof, glossy_pillars, bright = rng.random() < 0.12, rng.random() < 0.6, rng.uniform(0.2, 0.55)
    trim = BLACK if rng.random() < 0.75 or kind.cladding > 0.12 else paint
    parts = [
        shell(body, paint, trim),
        cabin(body, paint, roof=BLACK if dark_roof else paint, pillar=BLACK if glossy_pillars else paint),
        running_gear(body, rim=(bright, bright, bright * 1.03)),
        _face(rng, body),
        _tail(rng, body, kind),
        doors(body, kind.cabin[0] + 0.01, _along(kind, kind.panes[0][1] + 0.015)),
    ]
    return joined(parts)


def random_paint(rng: np.random.Generator) -> Array:
    """A random paint, drawn by its frequency on the road."""
    colours, frequency = zip(*PAINTS, strict=True)
    chosen = np.array(colours[int(rng.choice(len(frequency), p=np.array(frequency) / sum(frequency)))])
    return np.clip(chosen * rng.uniform(0.85, 1.12), 0, 1)


def _car_body(rng: np.random.Generator, kind: CarKind) -> Body:
    length, height = rng.uniform(*kind.length), rng.uniform(*kind.height)
    width = float(np.clip(0.40 * length + rng.uniform(-0.03, 0.05), 1.70, 1.90))
    belt = tuple((share, z * height) for share, z in kind.belt)
    wheel = kind.wheel * rng.uniform(0.98, 1.05)
    sill = wheel * 0.62
    section = (
        (sill, 0.05, 0.09, 0.07),
        (sill + kind.cladding, 0.012, 0.005, 0.005),
        (0.46 * height, 0.0, 0.015, 0.01),
        (0.72 * height, 0.05, 0.17, 0.10),
    )
    return Body(
        size=(length, width, height),
        belt=belt,
        cabin=kind.cabin,
        section=section,
        corners=(rng.uniform(8, 12), rng.uniform(11, 18)),
        axles=(rng.uniform(0.18, 0.20), rng.uniform(0.79, 0.81), wheel),
        roof=(0.70, 0.66),
        windows=(kind.panes, (0.05, 0.90)),
        back=(((-0.86, 0.86),), kind.back),
    )


def _face(rng: np.random.Generator, body: Body) -> Mesh:
    """Head lights, grille, intake and number plate."""
    tall, brow = rng.uniform(0.07, 0.12), rng.uniform(0.0, 0.05)
    nose = _belt(body, 0.0)
    reach = np.array([rng.uniform(0.46, 0.60), 0.76, 0.87, 0.93])
    upper = nose - 0.035 + np.linspace(0, brow, 4)
    lamp = on_end(body, reach, np.stack([upper - tall + np.linspace(0, 0.03, 4), upper], axis=1), front=True, lift=0.018)
    grille_low = nose - rng.uniform(0.12, 0.26)
    half = reach[0] - 0.03
    grille = on_end(body, (-half, half), (grille_low, nose - 0.05), front=True)
    intake = on_end(body, (-0.62, 0.62), (body.section[0][0] + 0.06, body.section[0][0] + 0.2), front=True)
    dark = mesh(np.concatenate([grille, intake]), BLACK, Material.PLASTIC)
    return joined([mirrored_pair(lamp, WHITE_LAMP, Material.HEADLIGHT, smooth=True), dark, plate(rng, body, front=True)])


def plate(rng: np.random.Generator, body: Body, *, front: bool) -> Mesh:
    """A number plate, white or yellow with dark characters and a blue strip, on nose or tail."""
    z = body.section[1][0] + (0.06 if front else 0.22)
    unit = 1 / (body.size[1] / 2)
    colour = PLATES[int(rng.random() < 0.2)]
    board = on_end(body, (-0.26 * unit, 0.26 * unit), (z, z + 0.115), front=front, lift=0.014)
    left = 1 if front else -1  # of its reader
    strip = on_end(body, (left * 0.26 * unit, left * 0.225 * unit), (z + 0.004, z + 0.111), front=front, lift=0.018)
    strokes = []
    for at in (0.19, 0.135, 0.06, 0.005, -0.05, -0.125, -0.18):
        stem, bar = rng.uniform(0.0, 0.024), z + 0.025 + rng.uniform(0.0, 0.05)
        for reach, high in (
            ((at - stem, at - stem - 0.013), (z + 0.022, z + 0.093)),
            ((at, at - 0.037), (bar, bar + 0.014)),
        ):
            across = (left * reach[0] * unit, left * reach[1] * unit)
            strokes.append(on_end(body, across, high, front=front, lift=0.018))
    return joined(
        [
            mesh(board, colour, Material.SIGN),
            mesh(strip, (0.01, 0.04, 0.3), Material.PLASTIC),
            mesh(np.concatenate(strokes), BLACK, Material.PLASTIC),
        ]
    )


def _tail(rng: np.random.Generator, body: Body, kind: CarKind) -> Mesh:
    """Tail lights, plate, and the dark lower bumper."""
    upright = kind.cabin[3] > 0.95
    top = _belt(body, 1.0) - 0.03
    tall = rng.uniform(0.20, 0.28) if upright else rng.uniform(0.12, 0.17)
    reach = np.array([rng.uniform(0.62, 0.74) if upright else rng.uniform(0.45, 0.6), 0.86, 0.93, 0.965])
    lamp = on_end(body, reach, (top - tall, top), front=False)
    low = body.section[0][0]
    bumper = on_end(body, (-0.76, 0.76), (low + 0.02, low + 0.16), front=False)
    return joined(
        [
            mirrored_pair(lamp, RED_LAMP, Material.TAILLIGHT, smooth=True),
            mesh(bumper, BLACK, Material.PLASTIC),
            plate(rng, body, front=False),
        ]
    )


def doors(body: Body, first: float, second: float) -> Mesh:
    """Seams and handle of a front door between two shares of the length, and the mirrors."""
    low, seam = body.section[1][0], 0.012 / body.size[0]
    lines = [
        on_side(body, (at, at + seam), (max(low, float(body.low(np.array(body.x(at))))), _belt(body, at)))
        for at in (first, second)
    ]
    belt, wide = _belt(body, second), 0.17 / body.size[0]
    handle = on_side(body, (second - wide * 1.3, second - wide * 0.3), (belt - 0.1, belt - 0.07), lift=0.02)
    x, y, z = body.rim(np.array([body.x(first) - 0.28]))[0]
    mirror = box((x - 0.05, y + 0.03, z + 0.02), (x + 0.05, y + 0.18, z + 0.15))
    return mirrored_pair(np.concatenate([*lines, handle, mirror]), BLACK, Material.PLASTIC)


def _along(kind: CarKind, share: float) -> float:
    """A share of the cabin as a share of the car."""
    return kind.cabin[0] + (kind.cabin[3] - kind.cabin[0]) * share


def _belt(body: Body, share: float) -> float:
    return float(body.top(np.array([body.x(share)]))[0]) - 0.005


def van(rng: np.random.Generator) -> Mesh:
    """A panel van or a minibus, 5 to 6 m long."""
    length, height = rng.uniform(5.0, 6.0), rng.uniform(2.0, 2.65)
    paint = np.array(LIVERIES[0]) if rng.random() < 0.55 else random_paint(rng)
    panelled, clad = rng.random() < 0.65, rng.random() < 0.7
    panes = ((0.03, 0.19),) if panelled else ((0.03, 0.19), (0.215, 0.45), (0.475, 0.71), (0.735, 0.97))
    body = Body(
        size=(length, 1.98, height),
        belt=((0, 0.86), (0.02, 0.94), (0.15, 1.16), (0.3, 1.18), (1, 1.18)),
        cabin=(0.15, 0.27, 0.982, 0.992),
        section=((0.24, 0.05, 0.08, 0.05), (0.42, 0.01, 0.0, 0.0), (0.75, 0.0, 0.02, 0.01), (1.2, 0.025, 0.16, 0.03)),
        corners=(10.0, 40.0),
        axles=(0.17, 0.77, 0.34),
        roof=(0.84, 0.85),
        windows=(panes, (0.04, 0.72 if height > 2.3 else 0.85)),
        back=(((-0.86, -0.06), (0.06, 0.86)), (0.06, 0.55 if height > 2.3 else 0.75)),
    )
    parts = [
        shell(body, paint, BLACK if clad else paint),
        cabin(body, paint, roof=paint, pillar=BLACK if not panelled else paint),
        running_gear(body, rim=(0.25, 0.25, 0.26)),
        _face(rng, body),
        _van_tail(rng, body),
        doors(body, 0.15, 0.30),
        _lettering(rng, body) if panelled else _lettering(rng, body, low=0.62, high=0.75),
    ]
    return joined(parts)


def _van_tail(rng: np.random.Generator, body: Body) -> Mesh:
    lamp = on_end(body, (0.9, 0.94, 0.975), (0.70, 1.15), front=False, lift=0.012)
    seam = on_end(body, (-0.008, 0.008), (0.45, 1.17), front=False)
    bumper = on_end(body, (-0.95, -0.5, 0, 0.5, 0.95), (0.28, 0.46), front=False, lift=0.02)
    dark = mesh(np.concatenate([seam, bumper]), BLACK, Material.PLASTIC)
    return joined([mirrored_pair(lamp, RED_LAMP, Material.TAILLIGHT), dark, plate(rng, body, front=False)])


def _lettering(rng: np.random.Generator, body: Body, *, low: float = 0.7, high: float = 1.05) -> Mesh:
    """A bold stripe in a second colour along both sides."""
    colour = LIVERIES[int(rng.integers(1, len(LIVERIES)))]
    start, stop = rng.uniform(0.34, 0.45), rng.uniform(0.7, 0.92)
    return mirrored_pair(on_side(body, (start, stop), (low, high), lift=0.008), colour, Material.PAINT)
