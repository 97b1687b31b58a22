"""Pedestrians and cyclists, facing along x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import Point, ball, box, lathe, lying, tube

SKINS = ((0.55, 0.36, 0.26), (0.46, 0.28, 0.19), (0.62, 0.42, 0.32), (0.24, 0.13, 0.08), (0.10, 0.055, 0.035))
HAIRS = ((0.015, 0.012, 0.010), (0.05, 0.028, 0.015), (0.12, 0.07, 0.03), (0.35, 0.24, 0.10), (0.35, 0.34, 0.33))
TOPS = (
    *(
        (0.02, 0.02, 0.025),
        (0.10, 0.10, 0.11),
        (0.02, 0.04, 0.13),
        (0.65, 0.65, 0.63),
        (0.40, 0.03, 0.03),
        (0.03, 0.14, 0.07),
    ),
    *(
        (0.55, 0.35, 0.03),
        (0.10, 0.20, 0.45),
        (0.22, 0.14, 0.08),
        (0.40, 0.10, 0.20),
        (0.30, 0.30, 0.31),
        (0.55, 0.16, 0.02),
    ),
)
LEGS = (
    (0.02, 0.03, 0.07),
    (0.015, 0.015, 0.018),
    (0.09, 0.09, 0.095),
    (0.05, 0.08, 0.16),
    (0.28, 0.22, 0.14),
    (0.06, 0.05, 0.04),
)
SHOES = ((0.015, 0.014, 0.013), (0.55, 0.55, 0.54), (0.08, 0.04, 0.02))
HELMETS = ((0.60, 0.60, 0.60), (0.02, 0.02, 0.022), (0.50, 0.04, 0.03), (0.03, 0.15, 0.45), (0.55, 0.50, 0.05))
FRAMES = ((0.02, 0.02, 0.02), (0.40, 0.03, 0.03), (0.03, 0.12, 0.40), (0.50, 0.50, 0.50), (0.03, 0.22, 0.12))


@dataclass(frozen=True)
class _Looks:
    """The colours of a person."""

    skin: Point
    hair: Point
    top: Point
    legs: Point
    shoes: Point


def _looks(rng: np.random.Generator) -> _Looks:
    chosen = [table[int(rng.integers(len(table)))] for table in (SKINS, HAIRS, TOPS, LEGS, SHOES)]
    return _Looks(*chosen)


def _limb(points: Sequence[Point], radii: Sequence[float], *, sides: int = 7) -> Array:
    """A chain of tubes from joint to joint."""
    ends = [np.asarray(point, float) for point in points]
    tubes = [
        tube(a, b, radii=(ra, rb), sides=sides, capped=last)
        for a, b, ra, rb, last in zip(ends[:-1], ends[1:], radii[:-1], radii[1:], _last(len(ends) - 1), strict=True)
    ]
    return np.concatenate(tubes)


def _last(count: int) -> list[bool]:
    return [index == count - 1 for index in range(count)]


def _leg(hip: Point, angle: float, bend: float, *, tall: float) -> list[Array]:
    """Hip, knee and ankle; `angle` swings the thigh ahead, `bend` folds the knee back."""
    start, thigh, shin = np.asarray(hip, float), 0.245 * tall, 0.24 * tall
    knee = start + thigh * np.array([np.sin(angle), 0, -np.cos(angle)])
    return [start, knee, knee + shin * np.array([np.sin(angle - bend), 0, -np.cos(angle - bend)])]


def _shoe(ankle: Array, tall: float) -> Array:
    x, y, z = ankle
    return box(
        (x - 0.035 * tall, y - 0.026 * tall, z - 0.045 * tall), (x + 0.105 * tall, y + 0.026 * tall, z + 0.005 * tall)
    )


def _head(centre: Array, tall: float, looks: _Looks, *, long_hair: bool) -> list[Mesh]:
    size = np.array([0.056, 0.047, 0.069]) * tall
    hair = [ball(centre + np.array([-0.009, 0, 0.014]) * tall, size * [1.06, 1.13, 1.0], segments=7, rings=4)]
    if long_hair:
        hair.append(ball(centre + np.array([-0.035, 0, -0.035]) * tall, size * [0.7, 1.0, 1.1], segments=7, rings=3))
    return [
        mesh(ball(centre, size, segments=7), looks.skin, Material.SKIN, smooth=True),
        mesh(np.concatenate(hair), looks.hair, Material.CLOTH, smooth=True),
    ]


def pedestrian(rng: np.random.Generator) -> Mesh:
    """Someone standing or walking, 1.5 to 1.95 m tall, sometimes with a bag, a coat or a skirt."""
    return bystander(rng) if rng.random() < 0.3 else walker(rng)


def walker(rng: np.random.Generator) -> Mesh:
    """Someone walking."""
    return _person(rng, stride=float(rng.uniform(0.25, 0.52)))


def bystander(rng: np.random.Generator) -> Mesh:
    """Someone standing."""
    return _person(rng, stride=0.0)


def _person(rng: np.random.Generator, *, stride: float) -> Mesh:
    looks, tall = _looks(rng), rng.uniform(1.52, 1.92)
    broad, long_hair, coat, skirt, bag = rng.uniform(0.92, 1.12), *(rng.random(4) < (0.45, 0.3, 0.2, 0.35))
    forward = rng.choice([-1.0, 1.0])
    parts = _head(np.array([0.012, 0, 0.925]) * tall, tall, looks, long_hair=bool(long_hair))
    neck = tube((0, 0, 0.82 * tall), (0.008, 0, 0.89 * tall), radii=(0.036 * tall, 0.032 * tall), sides=6)
    parts.append(mesh(neck, looks.skin, Material.SKIN, smooth=True))
    parts.append(_torso(tall, broad, looks.top, hem=0.33 if coat else 0.47))
    if skirt and not coat:
        flare = lathe([(0.125, 0.30), (0.10, 0.44), (0.082, 0.53)], 10) * np.array([0.75, 1, 1]) * tall
        parts.append(mesh(flare, looks.legs, Material.CLOTH, smooth=True))
    for side in (-1.0, 1.0):
        parts += _walking_leg(tall, side, side * forward * stride, looks)
        parts += _swinging_arm(tall, side * broad, -side * forward * stride, looks)
    if bag:
        parts.append(_bag(rng, tall))
    return _grounded(joined(parts), tall)


def _torso(tall: float, broad: float, colour: Point, *, hem: float) -> Mesh:
    low = [(0.0, hem + 0.01), (0.105 if hem < 0.4 else 0.088, hem), (0.094, 0.53)]
    profile = [*low, (0.083, 0.61), (0.104, 0.72), (0.112, 0.785), (0.092, 0.822), (0.03, 0.845)]
    stretch = np.array([0.62, 1.06 * broad, 1.0]) * tall
    return mesh(lathe(profile, 9) * stretch, colour, Material.CLOTH, smooth=True)


def _walking_leg(tall: float, side: float, angle: float, looks: _Looks) -> list[Mesh]:
    bend = 0.05 if angle >= 0 else -angle * 0.7
    joints = _leg((0, side * 0.047 * tall, 0.51 * tall), angle, bend, tall=tall)
    limb = _limb(joints, (0.056 * tall, 0.038 * tall, 0.027 * tall))
    shoe = mesh(_shoe(joints[-1], tall), looks.shoes, Material.CLOTH)
    return [mesh(limb, looks.legs, Material.CLOTH, smooth=True), shoe]


def _swinging_arm(tall: float, side: float, angle: float, looks: _Looks) -> list[Mesh]:
    shoulder = np.array([0, side * 0.118, 0.795]) * tall
    elbow = shoulder + 0.175 * tall * np.array([np.sin(angle), side * 0.14, -np.cos(angle)])
    fold = angle + 0.3
    wrist = elbow + 0.155 * tall * np.array([np.sin(fold), side * 0.02, -np.cos(fold)])
    sleeve = _limb([shoulder, elbow, wrist], (0.036 * tall, 0.029 * tall, 0.022 * tall), sides=6)
    hand = ball(wrist - [0, 0, 0.02 * tall], np.array([0.024, 0.018, 0.036]) * tall, segments=5, rings=3)
    return [mesh(sleeve, looks.top, Material.CLOTH, smooth=True), mesh(hand, looks.skin, Material.SKIN, smooth=True)]


def _bag(rng: np.random.Generator, tall: float) -> Mesh:
    colour = TOPS[int(rng.integers(len(TOPS)))]
    if rng.random() < 0.6:  # a rucksack
        return mesh(box((-0.22, -0.15, 0.56 * tall), (-0.06, 0.15, 0.80 * tall)), colour, Material.CLOTH)
    return mesh(box((-0.15, -0.34, 0.27 * tall), (0.15, -0.24, 0.44 * tall)), colour, Material.CLOTH)


def _grounded(person: Mesh, tall: float) -> Mesh:
    """The person standing on the ground, rescaled to its full height, which the stride reduced."""
    low, high = person.bounds()
    factor = float(tall / (high[2] - low[2]))
    return person.placed(0, 0, z=-float(low[2])).scaled(factor, factor, factor)


def cyclist(rng: np.random.Generator) -> Mesh:
    """A rider on a bicycle, leaning forward, sometimes with a helmet."""
    looks, lean = _looks(rng), rng.uniform(0.25, 0.75)
    frame, helmet = FRAMES[int(rng.integers(len(FRAMES)))], HELMETS[int(rng.integers(len(HELMETS)))]
    crank, wears = rng.uniform(0, 2 * np.pi), rng.random() < 0.6
    hip = np.array([-0.22, 0, 0.98])
    shoulder = hip + 0.52 * np.array([np.sin(lean), 0, np.cos(lean)])
    head = shoulder + 0.21 * np.array([np.sin(lean * 0.5), 0, np.cos(lean * 0.5)])
    parts = [_bicycle(frame, crank), *_head(head, 1.75, looks, long_hair=False), _trunk(hip, shoulder, looks)]
    parts += [part for side in (-1.0, 1.0) for part in _riding_limbs(side, crank, hip=hip, shoulder=shoulder, looks=looks)]
    if wears:
        shell = ball(head + np.array([-0.01, 0, 0.055]), (0.145, 0.105, 0.10), segments=8, rings=4)
        parts.append(mesh(shell, helmet, Material.PLASTIC, smooth=True))
    low = joined(parts).bounds()[0]
    return joined(parts).placed(0, 0, z=-float(low[2]))


def _trunk(hip: Array, shoulder: Array, looks: _Looks) -> Mesh:
    middle = (hip + shoulder) / 2 + [-0.03, 0, 0.02]
    parts = [
        tube(a, b, radii=r, sides=8, capped=True)
        for a, b, r in ((hip, middle, (0.14, 0.13)), (middle, shoulder, (0.13, 0.12)))
    ]
    wide = np.concatenate(parts) * [1, 1.35, 1]
    return mesh(wide, looks.top, Material.CLOTH, smooth=True)


def _riding_limbs(side: float, crank: float, *, hip: Array, shoulder: Array, looks: _Looks) -> list[Mesh]:
    turn = crank if side > 0 else crank + np.pi
    pedal = np.array([0.17 * np.cos(turn), side * 0.12, 0.30 + 0.17 * np.sin(turn)])
    ankle, thigh = pedal + np.array([-0.06, 0, 0.07]), hip + np.array([0, side * 0.09, -0.02])
    leg = _limb([thigh, _joint(thigh, ankle, 0.43), ankle], (0.085, 0.062, 0.042))
    hand, upper = np.array([0.40, side * 0.25, 1.04]), shoulder + np.array([0, side * 0.19, -0.03])
    arm = _limb([upper, _joint(upper, hand, 0.29, ahead=-1.0), hand], (0.056, 0.045, 0.034), sides=6)
    x, y, z = pedal
    shoe = box((x - 0.10, y - 0.04, z - 0.02), (x + 0.14, y + 0.04, z + 0.05))
    return [
        mesh(leg, looks.legs, Material.CLOTH, smooth=True),
        mesh(arm, looks.top, Material.CLOTH, smooth=True),
        mesh(shoe, looks.shoes, Material.CLOTH),
    ]


def _joint(start: Array, end: Array, length: float, *, ahead: float = 1.0) -> Array:
    """The knee or elbow of a limb with two halves of this length; a knee points ahead."""
    middle, gap = (start + end) / 2, end - start
    out = np.cross(gap, [0.0, -1.0 * ahead, 0.0])
    rise = np.sqrt(max(length**2 - float(gap @ gap) / 4, 1e-4))
    return np.asarray(middle + out / np.linalg.norm(out) * rise)


def _bicycle(colour: Point, crank: float) -> Mesh:
    wheels = [_cycle_wheel() + np.array([x, 0, 0.34]) for x in (-0.53, 0.53)]
    rear, front, pedals = (-0.53, 0, 0.34), (0.53, 0, 0.34), (0, 0, 0.30)
    seat, stem = (-0.19, 0, 0.86), (0.38, 0, 0.88)
    bars = ((pedals, seat), (pedals, stem), (seat, stem), (pedals, rear), (seat, rear), (stem, front))
    frame = [tube(a, b, radii=(0.02, 0.02), sides=4) for a, b in bars]
    grip = [tube((0.36, 0, 0.86), (0.36, 0, 1.02), radii=(0.018, 0.018), sides=4)]
    grip += [tube((0.38, -0.28, 1.02), (0.38, 0.28, 1.02), radii=(0.018, 0.018), sides=4, capped=True)]
    saddle = box((-0.34, -0.07, 0.87), (-0.08, 0.07, 0.92))
    arm = np.array([0.17 * np.cos(crank), 0, 0.17 * np.sin(crank)])
    arms = [tube(np.array(pedals) - arm + [0, -0.1, 0], np.array(pedals) + arm + [0, 0.1, 0], radii=(0.015, 0.015), sides=4)]
    return joined(
        [
            mesh(np.concatenate(wheels), (0.02, 0.02, 0.02), Material.TYRE),
            mesh(np.concatenate([*_spokes(-0.53), *_spokes(0.53)]), (0.45, 0.45, 0.46), Material.METAL),
            mesh(np.concatenate(frame), colour, Material.METAL, smooth=True),
            mesh(np.concatenate([*grip, saddle, *arms]), (0.02, 0.02, 0.02), Material.PLASTIC),
        ]
    )


def _cycle_wheel() -> Array:
    return lying(lathe([(0.34, -0.018), (0.34, 0.018), (0.305, 0.0), (0.34, -0.018)], 14))


def _spokes(x: float) -> list[Array]:
    turns = np.linspace(0, np.pi, 4)[:-1]
    reach = [0.31 * np.array([np.cos(turn), 0, np.sin(turn)]) for turn in turns]
    centre = np.array([x, 0, 0.34])
    return [tube(centre - arm, centre + arm, radii=(0.007, 0.007), sides=3) for arm in reach]
