"""More street furniture: post boxes, cabinets, planters, hydrants, parking meters, cycle stands and advertising pillars.

As in `roadside`, fronts face the road at -y.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.plants import bush
from swerve.world.shapes import bevelled, box, disc, lathe, lying, tube

Random = np.random.Generator
STEEL = (0.32, 0.33, 0.34)
DARK = (0.03, 0.032, 0.035)
POSTS = ((0.42, 0.02, 0.02), (0.62, 0.42, 0.02), (0.02, 0.05, 0.22), (0.02, 0.12, 0.06))
CASES = ((0.28, 0.29, 0.27), (0.12, 0.17, 0.13), (0.42, 0.41, 0.37), (0.18, 0.19, 0.2))


def _sized(rng: Random, parts: list[Mesh]) -> Mesh:
    """The parts as one, a little larger or smaller than usual."""
    size = float(rng.uniform(0.95, 1.05))
    return joined(parts).scaled(size, size, size)


def _one_of(rng: Random, table: tuple[tuple[float, float, float], ...]) -> Array:
    return np.asarray(np.array(table[int(rng.integers(len(table)))]) * rng.uniform(0.85, 1.1))


def post_box(rng: Random) -> Mesh:
    """A post box: a pillar or a box on a foot."""
    colour = _one_of(rng, POSTS)
    if rng.random() < 0.5:
        profile = [
            (0.0, 0.0),
            (0.24, 0.0),
            (0.22, 0.12),
            (0.21, 1.25),
            (0.25, 1.28),
            (0.25, 1.36),
            (0.15, 1.46),
            (0.0, 1.48),
        ]
        body = mesh(lathe(profile, 12), colour, Material.PLASTIC, smooth=True)
    else:
        foot = box((-0.08, -0.06, 0.0), (0.08, 0.06, 0.75))
        body = joined(
            [
                mesh(bevelled((-0.25, -0.2, 0.72), (0.25, 0.2, 1.32), bevel=0.04), colour, Material.PLASTIC),
                mesh(foot, DARK, Material.METAL),
            ]
        )
    slot = box((-0.13, -0.27, 1.12), (0.13, -0.1, 1.16))
    return _sized(rng, [body, mesh(slot, (0.01, 0.01, 0.01), Material.PLASTIC)])


def cabinet(rng: Random) -> Mesh:
    """A switch cabinet of one to three doors."""
    half, tall, doors = rng.uniform(0.35, 0.85), rng.uniform(0.9, 1.45), int(rng.integers(1, 4))
    colour = _one_of(rng, CASES)
    body = bevelled((-half, -0.17, 0.08), (half, 0.17, tall), bevel=0.02)
    seams = [
        box((x - 0.008, -0.175, 0.14), (x + 0.008, -0.1, tall - 0.06)) for x in np.linspace(-half, half, doors + 1)[1:-1]
    ]
    foot = box((-half, -0.15, 0.0), (half, 0.15, 0.09))
    return joined(
        [
            mesh(body, colour, Material.PLASTIC),
            mesh(np.concatenate([foot, *seams]), colour * 0.35, Material.WALL),
        ]
    )


def planter(rng: Random) -> Mesh:
    """A tub with a small bush."""
    half, tall = rng.uniform(0.35, 0.55), rng.uniform(0.4, 0.6)
    colour = _one_of(rng, ((0.4, 0.38, 0.35), (0.13, 0.13, 0.13), (0.3, 0.13, 0.08), (0.18, 0.11, 0.06)))
    if rng.random() < 0.5:
        tub = bevelled((-half, -half, 0.0), (half, half, tall), bevel=0.03)
    else:
        tub = lathe([(0.0, 0.0), (half * 0.8, 0.0), (half, tall), (half * 0.9, tall), (0.0, tall - 0.05)], 12)
    plant = bush(rng)
    size = half * 2.0 / float((plant.bounds()[1] - plant.bounds()[0])[:2].max())
    return joined([mesh(tub, colour, Material.WALL), plant.scaled(size, size, size).placed(0, 0, z=tall - 0.08)])


def hydrant(rng: Random) -> Mesh:
    """A hydrant with two outlets."""
    colour = _one_of(rng, ((0.45, 0.02, 0.02), (0.6, 0.4, 0.02), (0.02, 0.07, 0.3)))
    profile = [(0.0, 0.0), (0.15, 0.0), (0.15, 0.05), (0.1, 0.08), (0.1, 0.55), (0.13, 0.58), (0.11, 0.68), (0.0, 0.76)]
    outlet = tube((-0.2, 0, 0.45), (0.2, 0, 0.45), radii=(0.06, 0.06), sides=8, capped=True)
    return _sized(
        rng,
        [mesh(lathe(profile, 10), colour, Material.PLASTIC, smooth=True), mesh(outlet, colour * 0.8, Material.METAL)],
    )


def parking_meter(rng: Random) -> Mesh:
    """A pay machine: a thin post with a head, or a broad column with a display."""
    colour = _one_of(rng, CASES)
    if rng.random() < 0.5:
        post = tube((0, 0, 0), (0, 0, 1.15), radii=(0.035, 0.035), sides=8)
        head = bevelled((-0.1, -0.08, 1.1), (0.1, 0.08, 1.42), bevel=0.03)
    else:
        post = bevelled((-0.16, -0.13, 0.0), (0.16, 0.13, 1.6), bevel=0.03)
        head = bevelled((-0.19, -0.16, 1.58), (0.19, 0.16, 1.68), bevel=0.02)
    screen = box((-0.07, -0.145, 1.22), (0.07, -0.07, 1.34))
    letter = lying(disc(0.05, sides=10)) + np.array([0, -0.15, 1.0])
    return _sized(
        rng,
        [
            mesh(np.concatenate([post, head]), colour, Material.PLASTIC),
            mesh(screen, (0.05, 0.09, 0.07), Material.GLASS),
            mesh(letter, (0.02, 0.1, 0.4), Material.SIGN),
        ],
    )


def cycle_stand(rng: Random) -> Mesh:
    """Hoops across the pavement, in a row along it."""
    count, step, tall = int(rng.integers(3, 6)), 0.8, rng.uniform(0.75, 0.9)
    bars = []
    for x in (np.arange(count) - (count - 1) / 2) * step:
        for y in (-0.32, 0.32):
            bars.append(tube((x, y, 0.0), (x, y, tall - 0.1), radii=(0.025, 0.025), sides=6))
            bars.append(tube((x, y, tall - 0.1), (x, y * 0.7, tall), radii=(0.025, 0.025), sides=6))
        bars.append(tube((x, -0.224, tall), (x, 0.224, tall), radii=(0.025, 0.025), sides=6))
    return mesh(np.concatenate(bars), STEEL, Material.METAL, smooth=True)


def pillar(rng: Random) -> Mesh:
    """An advertising pillar covered with posters."""
    radius, tall = rng.uniform(0.5, 0.65), rng.uniform(2.5, 3.1)
    trunk = lathe([(0.0, 0.0), (radius * 1.08, 0.0), (radius * 1.08, 0.3), (radius, 0.34), (radius, tall)], 16)
    roof = lathe([(radius * 1.15, tall), (radius * 1.15, tall + 0.12), (radius * 0.4, tall + 0.35), (0.0, tall + 0.45)], 16)
    parts = [mesh(trunk, (0.3, 0.3, 0.29), Material.WALL, smooth=True), mesh(roof, (0.07, 0.09, 0.08), Material.METAL)]
    turns = np.linspace(0, 2 * np.pi, 17)
    for first in range(0, 16, 4):
        angle = turns[first : first + 4] + 0.05
        low, high = rng.uniform(0.5, 0.8), tall - rng.uniform(0.15, 0.5)
        across = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (radius + 0.012)
        colour = rng.uniform(0.05, 0.7, 3)
        for split, tint in ((low, colour), (low + (high - low) * rng.uniform(0.4, 0.7), rng.uniform(0.05, 0.7, 3))):
            strip = [[(*a, split), (*b, split), (*b, high), (*a, high)] for a, b in pairwise(across)]
            quads = np.array(strip)
            parts.append(mesh(np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]), tint, Material.WALL))
            across = across * 1.006  # the second poster lies over the first
    return joined(parts)
