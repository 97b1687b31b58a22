"""Roadside objects: street furniture, and the buildings, plants and signs of other modules.

Things along a road extend along x; fronts face the road at -y; signs face -x, towards a driver going along +x.
"""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array
from swerve.world.buildings import building, house
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.plants import bush, conifer, hedge, street_tree, tree
from swerve.world.shapes import Point, bevelled, box, disc, facing_back, lathe, net, prism, tube
from swerve.world.signs import billboard, sign

__all__ = [
    "bench",
    "billboard",
    "bin",
    "bollard",
    "building",
    "bus_stop",
    "bush",
    "conifer",
    "fence",
    "guard_rail",
    "hedge",
    "house",
    "lamp_light",
    "power_pole",
    "sign",
    "street_lamp",
    "street_tree",
    "tree",
]

STEEL = (0.32, 0.33, 0.34)
DARK_STEEL = (0.05, 0.055, 0.06)
WOOD = (0.16, 0.10, 0.06)
CLEAR = (0.10, 0.13, 0.15)


def street_lamp(rng: np.random.Generator) -> Mesh:
    """A street lamp, 6 to 9 m tall, with its arm towards -y; `lamp_light` gives the position of its light."""
    tall, arm = rng.uniform(6.0, 8.8), rng.uniform(1.0, 2.2)
    colour = (STEEL, DARK_STEEL)[int(rng.random() < 0.4)]
    pole = [lathe([(0.13, 0.0), (0.13, 0.9), (0.085, 1.0), (0.055, tall - 0.5), (0.0, tall - 0.48)], 8)]
    bend = (0.0, -0.25 * arm, tall - 0.12)
    pole += [tube((0, 0, tall - 0.55), bend, radii=(0.05, 0.045), sides=6)]
    pole += [tube(bend, (0, -arm, tall), radii=(0.045, 0.035), sides=6)]
    hood = bevelled((-0.14, -arm - 0.65, tall - 0.05), (0.14, -arm + 0.05, tall + 0.09), bevel=0.04)
    glow = box((-0.11, -arm - 0.58, tall - 0.075), (0.11, -arm - 0.06, tall - 0.045))
    return joined(
        [
            mesh(np.concatenate(pole), colour, Material.METAL, smooth=True),
            mesh(hood, colour, Material.METAL),
            mesh(glow, (0.85, 0.82, 0.72), Material.LAMP),
        ]
    )


def lamp_light(lamp: Mesh) -> Array:
    """The position of a street lamp's light, in the frame of its mesh."""
    glowing = lamp.corners[lamp.material == Material.LAMP]
    return np.asarray(glowing.reshape(-1, 3).mean(axis=0))


def bollard(rng: np.random.Generator) -> Mesh:
    """A bollard, 0.8 to 1.1 m tall, with a light ring."""
    tall, radius = rng.uniform(0.8, 1.1), rng.uniform(0.06, 0.10)
    colour = ((0.04, 0.04, 0.045), (0.30, 0.29, 0.28), (0.10, 0.05, 0.03))[int(rng.integers(3))]
    post = lathe([(radius * 1.2, 0.0), (radius, 0.06), (radius, tall - 0.06), (radius * 0.7, tall), (0.0, tall)], 10)
    ring = lathe([(radius * 1.06, tall * 0.74), (radius * 1.06, tall * 0.84)], 10)
    return joined([mesh(post, colour, Material.WALL, smooth=True), mesh(ring, (0.7, 0.7, 0.68), Material.SIGN, smooth=True)])


def bin(rng: np.random.Generator) -> Mesh:
    """A litter bin on the pavement or a wheeled bin."""
    colour = ((0.03, 0.10, 0.05), (0.05, 0.05, 0.055), (0.03, 0.06, 0.20), (0.25, 0.14, 0.02))[int(rng.integers(4))]
    wheeled, size = rng.random() < 0.5, rng.uniform(0.93, 1.08)
    return (_wheeled_bin if wheeled else _litter_bin)(np.array(colour)).scaled(size, size, size)


def _litter_bin(colour: Array) -> Mesh:
    body = lathe(
        [(0.0, 0.0), (0.2, 0.0), (0.24, 0.1), (0.25, 0.85), (0.27, 0.87), (0.27, 0.92), (0.2, 1.02), (0.0, 1.04)], 12
    )
    slot = box((-0.14, -0.262, 0.70), (0.14, -0.1, 0.80))
    return joined([mesh(body, colour, Material.PLASTIC, smooth=True), mesh(slot, (0.01, 0.01, 0.01), Material.PLASTIC)])


def _wheeled_bin(colour: Array) -> Mesh:
    tub = prism([(-0.24, 0.10), (0.20, 0.10), (0.30, 1.0), (-0.30, 1.0)], (-0.28, 0.28))
    lid = prism([(-0.34, 0.99), (0.34, 0.99), (0.30, 1.06), (-0.30, 1.10)], (-0.31, 0.31))
    wheels = [
        tube((-0.22, y, 0.10), (-0.22, y + 0.06, 0.10), radii=(0.10, 0.10), sides=8, capped=True) for y in (-0.3, 0.24)
    ]
    foot = box((0.1, -0.2, 0.0), (0.18, 0.2, 0.11))
    return joined(
        [
            mesh(np.concatenate([tub, foot]), colour, Material.PLASTIC),
            mesh(lid, colour * 0.6, Material.PLASTIC),
            mesh(np.concatenate(wheels), (0.015, 0.015, 0.015), Material.TYRE),
        ]
    )


def bench(rng: np.random.Generator) -> Mesh:
    """A bench of wooden slats that faces -y."""
    half = rng.uniform(0.7, 1.0)
    slats = [box((-half, y, 0.42), (half, y + 0.10, 0.46)) for y in (-0.25, -0.12, 0.01)]
    slats += [box((-half, 0.16 + lean, z), (half, 0.19 + lean, z + 0.1)) for z, lean in ((0.56, 0.0), (0.70, 0.04))]
    legs = [
        prism([(x - 0.03, 0.0), (x + 0.03, 0.0), (x + 0.03, 0.42), (x - 0.03, 0.42)], (-0.24, 0.16))
        for x in (-half + 0.2, half - 0.2)
    ]
    legs += [box((x - 0.03, 0.15, 0.0), (x + 0.03, 0.20, 0.8)) for x in (-half + 0.2, half - 0.2)]
    wood = np.array(WOOD) * rng.uniform(0.7, 1.4)
    return joined([mesh(np.concatenate(slats), wood, Material.WALL), mesh(np.concatenate(legs), DARK_STEEL, Material.METAL)])


def bus_stop(rng: np.random.Generator) -> Mesh:
    """A glass shelter open to the road on the -y side, with a bench, a board and its sign post."""
    half, deep, tall = rng.uniform(1.6, 2.3), 1.4, 2.45
    colour = (STEEL, DARK_STEEL, (0.02, 0.07, 0.22))[int(rng.integers(3))]
    posts = [
        box((x - 0.04, y - 0.04, 0.0), (x + 0.04, y + 0.04, tall)) for x in (-half, half) for y in (-deep / 2, deep / 2)
    ]
    roof = bevelled((-half - 0.2, -deep / 2 - 0.25, tall), (half + 0.2, deep / 2 + 0.15, tall + 0.14), bevel=0.04)
    panes = [box((-half + 0.05, deep / 2 - 0.01, 0.25), (half - 0.05, deep / 2 + 0.01, 2.3))]
    panes += [box((-half - 0.01, -deep / 2 + 0.05, 0.25), (-half + 0.01, deep / 2 - 0.05, 2.3))]
    poster = box((half - 0.05, -deep / 2 + 0.05, 0.3), (half + 0.05, deep / 2 - 0.05, 2.1))
    seat = box((-half * 0.7, 0.3, 0.42), (half * 0.5, 0.62, 0.48))
    legs = [box((x - 0.03, 0.4, 0.0), (x + 0.03, 0.5, 0.42)) for x in (-half * 0.6, half * 0.4)]
    flag = tube((half + 0.9, -deep / 2, 0), (half + 0.9, -deep / 2, 3.0), radii=(0.035, 0.035), sides=6, capped=True)
    picture = np.array([rng.uniform(0.1, 0.7), rng.uniform(0.05, 0.5), rng.uniform(0.05, 0.6)])
    return joined(
        [
            mesh(np.concatenate([*posts, roof, *legs, flag]), colour, Material.METAL),
            mesh(np.concatenate(panes), CLEAR, Material.GLASS),
            mesh(poster, picture, Material.BOARD),
            mesh(seat, WOOD, Material.WALL),
            _stop_flag((half + 0.9, -deep / 2, 2.65)),
        ]
    )


def _stop_flag(centre: Point) -> Mesh:
    """A yellow disc with a green ring, on both sides."""
    face = facing_back(disc(0.16, sides=14) + np.array([0, 0, 0.045]))
    ring = facing_back(disc(0.23, sides=14, inner=0.16) + np.array([0, 0, 0.045]))
    front = joined([mesh(face, (0.70, 0.50, 0.04), Material.SIGN), mesh(ring, (0.02, 0.20, 0.07), Material.SIGN)])
    x, y, z = centre
    return joined([front.placed(x, y, z=z), front.placed(x, y, z=z, yaw=float(np.pi))])


def fence(rng: np.random.Generator, length: float) -> Mesh:
    """A garden fence along x: pickets, boards or mesh between posts, or a low wall."""
    tall, style = rng.uniform(0.9, 1.7), int(rng.integers(3))
    half, colour = length / 2, np.array(((0.55, 0.54, 0.51), WOOD, (0.05, 0.09, 0.06))[int(rng.integers(3))])
    if style == 0:
        wall = box((-half, -0.12, 0), (half, 0.12, tall * 0.6))
        cap = box((-half, -0.16, tall * 0.6), (half, 0.16, tall * 0.6 + 0.07))
        stone = np.array([0.42, 0.36, 0.30]) * rng.uniform(0.6, 1.2)
        return joined([mesh(wall, stone, Material.WALL), mesh(cap, stone * 1.2, Material.WALL)])
    step = 0.28 if style == 1 else 2.0
    bars = [box((-half, -0.03, z), (half, 0.0, z + 0.08)) for z in (tall * 0.25, tall * 0.75)]
    pickets = np.arange(-half + step / 2, half, step)
    wide = 0.09 if style == 1 else 0.05
    parts = [box((x - wide, 0.0, 0.0), (x + wide, 0.04, tall)) for x in pickets]
    if style == 2:
        parts += [box((-half, -0.03, z), (half, 0.0, z + 0.2)) for z in np.arange(0.1, tall - 0.25, 0.3)]
    return mesh(np.concatenate(bars + parts), colour, Material.WALL)


def guard_rail(length: float) -> Mesh:
    """A crash barrier along x, its corrugated rail on the -y side."""
    half = length / 2
    wave = np.array([(0.02, 0.45), (-0.06, 0.50), (-0.06, 0.56), (0.0, 0.60), (-0.06, 0.64), (-0.06, 0.70), (0.02, 0.75)])
    loop = np.concatenate([wave, wave[::-1] + np.array([0.012, 0.0]), wave[:1]])
    rail = net(np.stack([np.insert(loop, 0, x, axis=1) for x in (-half, half)]))
    count = max(int(length / 2.0), 1)
    posts = [box((x - 0.05, 0.02, 0.0), (x + 0.05, 0.12, 0.72)) for x in (np.arange(count) + 0.5) * length / count - half]
    return mesh(np.concatenate([rail, *posts]), (0.38, 0.39, 0.40), Material.METAL)


def power_pole(rng: np.random.Generator) -> Mesh:
    """A wooden pole, 7.5 to 10 m tall, with cross-arms along y and insulators on them."""
    tall, colour = rng.uniform(7.5, 10.0), np.array([0.11, 0.08, 0.055]) * rng.uniform(0.7, 1.5)
    pole = [lathe([(0.16, 0.0), (0.10, tall), (0.0, tall)], 8)]
    heights = (tall - 0.4, tall - 1.3)[: int(rng.integers(1, 3))]
    arms = [box((-0.06, -1.1, z - 0.07), (0.06, 1.1, z + 0.07)) for z in heights]
    spots = [(y, z) for z in heights for y in (-1.0, -0.45, 0.45, 1.0)]
    caps = [lathe([(0.05, 0.07), (0.055, 0.2), (0.0, 0.23)], 6) + np.array([0, y, z]) for y, z in spots]
    parts = [
        mesh(np.concatenate([*pole, *arms]), colour, Material.BARK),
        mesh(np.concatenate(caps), (0.30, 0.28, 0.25), Material.PLASTIC),
    ]
    if rng.random() < 0.35:
        can = lathe([(0.0, tall - 2.7), (0.28, tall - 2.7), (0.28, tall - 1.8), (0.0, tall - 1.75)], 10) + np.array(
            [0.42, 0, 0]
        )
        parts.append(mesh(can, STEEL, Material.METAL, smooth=True))
    return joined(parts)
