"""Trees, conifers, bushes and hedges."""

from __future__ import annotations

import dataclasses

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import blob, fan, lathe, net, tube

GREENS = (
    (0.055, 0.11, 0.025),
    (0.075, 0.13, 0.03),
    (0.04, 0.085, 0.02),
    (0.10, 0.14, 0.03),
    (0.05, 0.10, 0.045),
    (0.12, 0.13, 0.03),
)
NEEDLES = ((0.032, 0.075, 0.030), (0.042, 0.085, 0.030), (0.035, 0.080, 0.050))
BARKS = ((0.09, 0.065, 0.045), (0.13, 0.11, 0.09), (0.06, 0.045, 0.035), (0.35, 0.34, 0.31))


def _leafy(rng: np.random.Generator, corners: Array, colour: Array) -> Mesh:
    """Leaves with a random shade per triangle, lighter towards the top."""
    part = mesh(corners, colour, Material.LEAVES, smooth=True)
    height = corners[..., 2].mean(axis=1)
    low, high = height.min(), height.max()
    shade = 0.72 + 0.4 * (height - low) / max(high - low, 1e-6) + rng.uniform(-0.16, 0.16, len(part))
    return dataclasses.replace(part, colour=np.clip(part.colour * shade[:, None], 0, 1).astype(np.float32))


def _green(rng: np.random.Generator, table: tuple[tuple[float, float, float], ...]) -> Array:
    return np.asarray(np.array(table[int(rng.integers(len(table)))]) * rng.uniform(0.8, 1.2))


def tree(rng: np.random.Generator) -> Mesh:
    """A broad-leaved tree, 4.5 to 12 m tall."""
    tall, slender = rng.uniform(5.0, 11.0), rng.uniform(0.75, 1.25)
    trunk, spread = tall * rng.uniform(0.22, 0.34), tall * 0.27 * slender
    thick = tall * rng.uniform(0.016, 0.024)
    bark = BARKS[int(rng.integers(len(BARKS)))]
    fork = np.array([*rng.uniform(-0.15, 0.15, 2), trunk])
    wood = [lathe([(thick * 1.7, 0.0), (thick * 1.1, 0.35), (thick, 0.8)], 8)]
    wood += [tube((0, 0, 0.75), fork, radii=(thick, thick * 0.8), sides=8)]
    crown, count = [], int(rng.integers(8, 11))
    turns = rng.uniform(0, 2 * np.pi) + np.arange(count) * 2.4
    for index, turn in enumerate(turns):
        rise = (index + 0.5) / count
        reach = spread * np.sqrt(max(1 - (1.55 * rise - 0.62) ** 2, 0.05)) * rng.uniform(0.55, 0.95)
        size = spread * rng.uniform(0.42, 0.62)
        middle = np.array([reach * np.cos(turn), reach * np.sin(turn), trunk + (tall - trunk) * (0.12 + 0.72 * rise)])
        crown.append(blob(rng, np.array([1, 1, 0.8]) * size, level=1, rough=0.3) + middle)
        if index < 5:
            wood.append(tube(fork, middle, radii=(thick * 0.55, thick * 0.15), sides=5))
    core = blob(rng, np.array([0.75, 0.75, 0.0]) * spread + np.array([0, 0, (tall - trunk) * 0.42]), level=1, rough=0.3)
    crown.append(core + np.array([0, 0, trunk + (tall - trunk) * 0.52]))
    leaves = _add_tufts(rng, _leafy(rng, np.concatenate(crown), _green(rng, GREENS)), 440, size=spread * 0.2)
    return joined([leaves, mesh(np.concatenate(wood), bark, Material.BARK, smooth=True)])


def _add_tufts(rng: np.random.Generator, crown: Mesh, count: int, *, size: float) -> Mesh:
    """The crown with tufts on its surface, which roughen its outline."""
    root = rng.integers(len(crown), size=count)
    outward = crown.normals[root].mean(axis=1)
    middle = crown.corners[root].mean(axis=1) + outward * size * rng.uniform(-0.1, 0.45, (count, 1))
    tufts = middle[:, None] + rng.normal(0, 0.55 * size, (count, 3, 3)) + outward[:, None] * 0.25 * size
    across = np.cross(tufts[:, 1] - tufts[:, 0], tufts[:, 2] - tufts[:, 0])
    inward = (across * outward).sum(axis=1) < 0
    tufts[inward] = tufts[inward][:, ::-1]
    part = mesh(tufts, (0, 0, 0), Material.LEAVES)
    shade = crown.colour[root] * rng.uniform(0.75, 1.3, (count, 1))
    lit = np.repeat(outward[:, None], 3, axis=1) + 0.5 * part.normals
    lit /= np.linalg.norm(lit, axis=2, keepdims=True)
    return joined(
        [crown, dataclasses.replace(part, colour=np.clip(shade, 0, 1).astype(np.float32), normals=lit.astype(np.float32))]
    )


def conifer(rng: np.random.Generator) -> Mesh:
    """A spruce or fir, 6 to 15 m tall."""
    tall, tiers = rng.uniform(6.0, 14.0), int(rng.integers(7, 10))
    spread, bare = tall * rng.uniform(0.15, 0.23), tall * rng.uniform(0.06, 0.13)
    colour, layers = _green(rng, NEEDLES), []
    for index in range(tiers):
        share = index / tiers
        low = bare + (tall - bare) * share * 0.93
        high = min(low + (tall - bare) * 1.9 / tiers, tall)
        layers.append(_skirt(rng, spread * (1 - share) ** 0.85 + 0.12, low, high))
    trunk = lathe([(tall * 0.02, 0.0), (tall * 0.014, bare + 0.6)], 7)
    return joined([_leafy(rng, np.concatenate(layers), colour), mesh(trunk, BARKS[0], Material.BARK, smooth=True)])


def _skirt(rng: np.random.Generator, radius: float, low: float, high: float) -> Array:
    """A cone with a ragged, drooping hem."""
    count = 13
    turn = rng.uniform(0, 2 * np.pi) + np.linspace(0, 2 * np.pi, count + 1)
    ragged = radius * rng.uniform(0.7, 1.12, count + 1) * np.where(np.arange(count + 1) % 2, 0.72, 1.0)
    droop = low + (high - low) * rng.uniform(-0.14, 0.12, count + 1)
    hem = np.stack([np.cos(turn) * ragged, np.sin(turn) * ragged, droop], axis=1)
    hem[-1] = hem[0]
    tip, under = np.array([0, 0, high]), np.array([0, 0, low + (high - low) * 0.18])
    outer = [(hem[i], hem[i + 1], tip) for i in range(count)]
    return np.array(outer + [(hem[i + 1], hem[i], under) for i in range(count)])


def bush(rng: np.random.Generator) -> Mesh:
    """A bush, 0.6 to 2 m tall."""
    size, lumps = rng.uniform(0.4, 0.9), []
    for turn in rng.uniform(0, 2 * np.pi, int(rng.integers(3, 6))):
        centre = np.array([np.cos(turn), np.sin(turn), 0]) * size * rng.uniform(0.3, 0.75)
        lumps.append(
            blob(rng, size * rng.uniform(0.55, 0.9, 3), level=1, rough=0.3) + centre + [0, 0, size * rng.uniform(0.45, 0.8)]
        )
    leaves = np.concatenate(lumps)
    whole = _add_tufts(rng, _leafy(rng, leaves, _green(rng, GREENS)), 140, size=size * 0.2)
    return _above_ground(whole.placed(0, 0, z=-0.15 * size))


def _above_ground(part: Mesh) -> Mesh:
    """The part above the ground; triangles that cross it are flattened to it."""
    above = part.corners[..., 2].max(axis=1) > 0.02
    kept = Mesh(*(getattr(part, field.name)[above] for field in dataclasses.fields(Mesh)))
    return dataclasses.replace(kept, corners=np.maximum(kept.corners, np.array([-np.inf, -np.inf, 0], np.float32)))


def hedge(rng: np.random.Generator, length: float) -> Mesh:
    """A clipped hedge along x, its middle in the origin."""
    tall, half = rng.uniform(0.9, 1.9), rng.uniform(0.3, 0.5)
    steps = max(int(length / 0.7), 2) + 1
    ring = np.array([(-1.0, 0.0), (-1.0, 0.5), (-0.85, 0.93), (0, 1.0), (0.85, 0.93), (1.0, 0.5), (1.0, 0.0)])
    x = np.linspace(-length / 2, length / 2, steps)
    wobble = rng.uniform(-0.07, 0.07, (steps, len(ring), 3)) * [0.0, 1, 1]
    wobble[:, [0, -1], 2] = 0
    points = np.empty((steps, len(ring), 3))
    points[..., 0], points[..., 1:] = x[:, None], (ring * [half, tall])[None]
    points = points + wobble
    faces = [net(points), fan(points[0]), fan(points[-1][::-1])]
    return _leafy(rng, np.concatenate(faces), _green(rng, GREENS))
