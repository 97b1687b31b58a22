"""Buses and trucks."""

from __future__ import annotations

import itertools

import numpy as np

from swerve.core.values import Array
from swerve.world.bodies import (
    BLACK,
    GLASS,
    Body,
    cabin,
    mirrored_pair,
    on_cabin,
    on_end,
    on_side,
    running_gear,
    shell,
    wheel,
)
from swerve.world.cars import LIVERIES, PLATES, RED_LAMP, WHITE_LAMP, doors, plate, random_paint
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import bevelled, box, fan, lathe, tube

ALONG = np.array([[0, 0, -1.0], [0, 1.0, 0], [1.0, 0, 0]])  # turns the z axis to x


def bus(rng: np.random.Generator) -> Mesh:
    """A city bus with its doors on the right, 10 to 12.5 m long."""
    length = rng.uniform(10.0, 12.3)
    paint, band = (np.array(LIVERIES[int(i)]) for i in rng.choice(len(LIVERIES), 2, replace=False))
    count = round(length / 1.8)
    edges = np.linspace(0.02, 0.985, count + 1)
    panes = tuple((float(a) + 0.006, float(b) - 0.006) for a, b in itertools.pairwise(edges))
    body = Body(
        size=(length, 2.5, rng.uniform(2.95, 3.1)),
        belt=((0, 1.05), (1, 1.05)),
        cabin=(0.012, 0.022, 0.985, 0.991),
        section=((0.30, 0.03, 0.04, 0.04), (0.42, 0.0, 0.0, 0.0), (1.06, 0.01, 0.03, 0.03)),
        corners=(60.0, 80.0),
        axles=(0.22, 0.71, 0.48),
        roof=(0.93, 0.93),
        windows=(panes, (0.03, 0.76)),
        back=(((-0.75, 0.75),), (0.30, 0.80)),
        dome=0.0,
        bows=(0.12, 0.08),
    )
    parts = [
        shell(body, paint, band if rng.random() < 0.5 else BLACK),
        cabin(body, paint, roof=(0.65, 0.65, 0.64), pillar=BLACK),
        running_gear(body, width=0.3, rim=(0.35, 0.35, 0.36)),
        _bus_front(rng, body),
        _bus_back(rng, body),
        mirrored_pair(on_side(body, (0.30, 0.40 if rng.random() < 0.5 else 0.64), (0.5, 0.9)), band, Material.PAINT),
        _bus_doors(body),
        _bus_roof(rng, body),
    ]
    return joined(parts)


def _bus_front(rng: np.random.Generator, body: Body) -> Mesh:
    lamp = on_end(body, (0.62, 0.8, 0.9), (0.55, 0.72), front=True, lift=0.012)
    lower = on_end(body, (-0.97, -0.5, 0.5, 0.97), (0.76, 1.03), front=True, lift=0.01)
    bumper = on_end(body, (-0.95, -0.5, 0.5, 0.95), (0.3, 0.45), front=True, lift=0.02)
    sign = on_cabin(body, (0.0, 0.0), across=(-0.85, 0, 0.85), up=(0.86, 0.98))
    text = [
        on_cabin(body, (0.0, 0.0), across=(at, at + 0.11), up=(0.89, 0.95), lift=0.05)
        for at in (-0.6, -0.35, -0.2, -0.05, 0.1, 0.35)
    ]
    arms = [tube((body.size[0] / 2 - 0.1, 1.15, 2.6), (body.size[0] / 2 + 0.25, 1.33, 2.3), radii=(0.02, 0.02), sides=4)]
    arms += [box((body.size[0] / 2 + 0.2, 1.25, 1.9), (body.size[0] / 2 + 0.28, 1.42, 2.3))]
    return joined(
        [
            mirrored_pair(lamp, WHITE_LAMP, Material.HEADLIGHT),
            mesh(lower, GLASS, Material.GLASS),
            mesh(np.concatenate([bumper, sign]), BLACK, Material.PLASTIC),
            mesh(np.concatenate(text), (0.75, 0.38, 0.03), Material.BOARD),
            mirrored_pair(np.concatenate(arms), BLACK, Material.PLASTIC),
            plate(rng, body, front=True),
        ]
    )


def _bus_back(rng: np.random.Generator, body: Body) -> Mesh:
    lamp = on_end(body, (0.82, 0.95), (0.6, 1.0), front=False, lift=0.012)
    grille = on_end(body, (-0.6, 0, 0.6), (0.48, 0.95), front=False, lift=0.01)
    return joined(
        [
            mirrored_pair(lamp, RED_LAMP, Material.TAILLIGHT),
            mesh(grille, BLACK, Material.PLASTIC),
            plate(rng, body, front=False),
        ]
    )


def _bus_doors(body: Body) -> Mesh:
    y = body.size[1] / 2
    parts = []
    for share in (0.05, 0.44):
        x = body.x(share)
        parts.append(mesh(box((x - 1.25, y - 0.15, 0.34), (x, y + 0.012, 2.42)), BLACK, Material.PLASTIC))
        leaves = [_door_leaf(x - at, y + 0.02) for at in (0.08, 0.65)]
        parts.append(mesh(np.concatenate(leaves), GLASS, Material.GLASS))
    return joined(parts).mirrored()


def _door_leaf(x: float, y: float) -> Array:
    return fan([(x, y, 0.44), (x - 0.52, y, 0.44), (x - 0.52, y, 2.34), (x, y, 2.34)])


def _bus_roof(rng: np.random.Generator, body: Body) -> Mesh:
    x, top = rng.uniform(-3, 2), body.size[2]
    return mesh(box((x - 1.2, -0.8, top - 0.06), (x + 1.2, 0.8, top + 0.15)), (0.55, 0.55, 0.54), Material.PLASTIC)


def truck(rng: np.random.Generator) -> Mesh:
    """A lorry of cab and box, tank or flatbed, 7 to 11 m long."""
    length, top = rng.uniform(7.0, 11.0), rng.uniform(3.25, 3.75)
    paint = random_paint(rng) if rng.random() < 0.5 else np.array(LIVERIES[int(rng.integers(len(LIVERIES)))])
    load = (_box_load, _tank_load, _flatbed)[int(rng.choice(3, p=(0.6, 0.18, 0.22)))]
    cab_length = rng.uniform(1.9, 2.25)
    cab = _cab(rng, paint, cab_length).placed(length / 2 - cab_length / 2, 0)
    back = length / 2 - cab_length - 0.12
    return joined([cab, _chassis(rng, length, back), load(rng, (-length / 2, back), top)])


def _cab(rng: np.random.Generator, paint: Array, length: float) -> Mesh:
    body = Body(
        size=(length, 2.4, rng.uniform(2.75, 3.1)),
        belt=((0, 1.72), (1, 1.72)),
        cabin=(0.07, 0.15, 0.975, 0.985),
        section=((0.42, 0.03, 0.08, 0.0), (0.78, 0.0, 0.0, 0.0), (1.74, 0.01, 0.08, 0.0)),
        corners=(14.0, 60.0),
        axles=(0.58, 0.50),
        roof=(0.88, 0.90),
        windows=(((0.05, 0.62),), (0.04, 0.68)),
        back=((), (0.2, 0.8)),
        dome=0.01,
        bows=(0.1, 0.0),
    )
    parts = [
        shell(body, paint, BLACK),
        cabin(body, paint, roof=paint, pillar=paint),
        running_gear(body, width=0.3, rim=(0.45, 0.45, 0.45)),
        _cab_face(rng, body),
        doors(body, 0.10, 0.72),
    ]
    return joined(parts)


def _cab_face(rng: np.random.Generator, body: Body) -> Mesh:
    half, low = body.size[1] / 2, rng.uniform(0.9, 1.1)
    bars = [on_end(body, (-0.62, 0, 0.62), (z, z + 0.13), front=True) for z in np.arange(low, 1.5, 0.2)]
    bumper = on_end(body, (-0.95, -0.5, 0, 0.5, 0.95), (0.46, 0.82), front=True, lift=0.03)
    lamp = on_end(body, (0.6, 0.83, 0.92), (0.56, 0.74), front=True, lift=0.05)
    x = body.size[0] / 2 - 0.25
    mirror = [
        box((x - 0.05, half + 0.08, 1.75), (x + 0.07, half + 0.26, 2.3)),
        box((x, half - 0.2, 2.2), (x + 0.03, half + 0.1, 2.24)),
    ]
    visor = on_cabin(body, (0.0, 0.0), across=(-0.9, 0, 0.9), up=(0.86, 0.99), lift=0.1)
    return joined(
        [
            mesh(np.concatenate([*bars, bumper, visor]), BLACK, Material.PLASTIC),
            mirrored_pair(lamp, WHITE_LAMP, Material.HEADLIGHT),
            mirrored_pair(np.concatenate(mirror), BLACK, Material.PLASTIC),
            plate(rng, body, front=True),
        ]
    )


def _chassis(rng: np.random.Generator, length: float, back: float) -> Mesh:
    """Frame, rear wheels, fuel tank, under-run bar and tail lights."""
    tail = -length / 2
    frame = box((tail + 0.1, -0.45, 0.62), (back + 0.6, 0.45, 0.92))
    bar = box((tail + 0.05, -1.15, 0.42), (tail + 0.15, 1.15, 0.56))
    struts = [box((tail + 0.08, y - 0.05, 0.5), (tail + 0.16, y + 0.05, 0.95)) for y in (-0.6, 0.6)]
    axles = [tail + 0.22 * length] + ([tail + 0.22 * length + 1.3] if length > 8.5 else [])
    pair = wheel(0.5, 0.55, rim=(0.3, 0.3, 0.3))
    drum = tube((back - 1.5, 0.85, 0.75), (back - 0.5, 0.85, 0.75), radii=(0.28, 0.28), sides=8, capped=True)
    guards = [box((x - 0.55, 0.65, 1.03), (x + 0.55, 1.2, 1.06)) for x in axles]
    side = [pair.placed(x, 1.18, z=0.5) for x in axles]
    side += [mesh(np.concatenate(guards), BLACK, Material.PLASTIC)]
    side += [mesh(drum, (0.35, 0.35, 0.36), Material.METAL)]
    side += [mesh(box((tail + 0.02, 0.75, 0.62), (tail + 0.12, 1.15, 0.78)), RED_LAMP, Material.TAILLIGHT)]
    left = joined(side)
    number = mesh(box((tail + 0.02, -0.26, 0.6), (tail + 0.1, 0.26, 0.72)), PLATES[int(rng.random() < 0.2)], Material.SIGN)
    return joined([left, left.mirrored(), number, mesh(np.concatenate([frame, bar, *struts]), BLACK, Material.METAL)])


def _box_load(rng: np.random.Generator, reach: tuple[float, float], top: float) -> Mesh:
    tail, front = reach
    paint, band = (np.array(LIVERIES[int(i)]) for i in rng.choice(len(LIVERIES), 2, replace=False))
    wall = mesh(bevelled((tail, -1.25, 1.08), (front, 1.25, top), bevel=0.035), paint, Material.PAINT)
    low, high = sorted(rng.uniform(1.25, top - 0.6, 2))
    cut = rng.uniform(0.45, 0.95)
    stripe = box((tail + 0.3, -1.258, low), (tail + (front - tail) * cut, 1.258, max(high, low + 0.45)))
    posts = [box((tail - 0.012, y - 0.03, 1.12), (tail + 0.1, y + 0.03, top - 0.05)) for y in (-1.19, 0.0, 1.19)]
    rods = [box((tail - 0.03, y - 0.02, 1.15), (tail, y + 0.02, top - 0.1)) for y in (-0.4, 0.4)]
    skirt = box((tail + 0.02, -1.24, 0.98), (front, 1.24, 1.09))
    return joined(
        [
            wall,
            mesh(stripe, band, Material.PAINT),
            mesh(np.concatenate([*posts, *rods, skirt]), (0.2, 0.2, 0.21), Material.METAL),
        ]
    )


def _tank_load(rng: np.random.Generator, reach: tuple[float, float], top: float) -> Mesh:
    tail, front = reach
    high = min(top, 3.35)
    half, bright = (high - 1.05) / 2, rng.uniform(0.35, 0.65)
    ends = [(0.0, 0.0), (0.85, 0.05), (1.0, 0.2)]
    length = front - tail - 0.1
    profile = ends + [(r, length - z) for r, z in reversed(ends)]
    barrel = lathe(profile, 16) @ ALONG
    placed = _upright(barrel, tail + 0.05, half)
    band = [lathe([(1.012, z), (1.012, z + 0.12)], 16) for z in np.linspace(length * 0.2, length * 0.75, 2)]
    belts = _upright(np.concatenate(band) @ ALONG, tail + 0.05, half)
    hatch = box((0.0, -0.25, high - 0.05), (0.5, 0.25, high + 0.1))
    colour = LIVERIES[int(rng.integers(1, len(LIVERIES)))]
    return joined(
        [
            mesh(placed, (bright, bright, bright), Material.PAINT, smooth=True),
            mesh(belts, colour, Material.PAINT, smooth=True),
            mesh(hatch, BLACK, Material.METAL),
            mesh(box((tail + 0.05, -1.0, 0.92), (front, 1.0, 1.12)), BLACK, Material.METAL),
        ]
    )


def _upright(barrel: Array, tail: float, half: float) -> Array:
    return barrel * [1, 1.22, half] + [tail, 0, 1.05 + half]


def _flatbed(rng: np.random.Generator, reach: tuple[float, float], top: float) -> Mesh:
    tail, front = reach
    boards = [box((tail, -1.25, 0.95), (front, 1.25, 1.12)), box((front - 0.08, -1.22, 1.1), (front, 1.22, 2.3))]
    sides = [box((tail, y - 0.02, 1.1), (front, y + 0.02, 1.5)) for y in (-1.22, 1.22)]
    posts = [box((x, y - 0.05, 1.1), (x + 0.08, y + 0.05, 1.6)) for x in (tail, front - 0.1) for y in (-1.24, 1.24)]
    cargo, at = [], tail + 0.4
    while at < front - 1.4:
        size, tall = rng.uniform(0.9, 1.8), rng.uniform(0.6, top - 1.3)
        colour = rng.uniform(0.1, 0.5) * np.array([1, rng.uniform(0.7, 0.95), rng.uniform(0.4, 0.9)])
        cargo.append(
            mesh(
                box((at, -1.0, 1.12), (min(at + size, front - 0.2), 1.0, 1.12 + tall)),
                colour,
                Material.WALL,
            )
        )
        at += size + rng.uniform(0.1, 0.8)
    wood = mesh(np.concatenate([*boards, *sides]), (0.22, 0.16, 0.10), Material.WALL)
    tailboard = mesh(box((tail - 0.01, -1.2, 1.1), (tail + 0.03, 1.2, 1.5)), (0.22, 0.16, 0.10), Material.WALL)
    return joined([wood, tailboard, mesh(np.concatenate(posts), (0.15, 0.15, 0.16), Material.METAL), *cargo])
