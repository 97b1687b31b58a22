"""Trees, conifers, bushes and hedges: a dark core and many small leaf cards around it."""

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
CLEARANCE = 2.7  # metres below the crown of a street tree
_SUNK = 0.86  # the core's size as a share of the crown's


def _green(rng: np.random.Generator, table: tuple[tuple[float, float, float], ...]) -> Array:
    return np.asarray(np.array(table[int(rng.integers(len(table)))]) * rng.uniform(0.8, 1.2))


def _tinted(rng: np.random.Generator, part: Mesh, *, spread: float) -> Mesh:
    """Leaves with a random shade per triangle, lighter towards the top."""
    height = part.corners[..., 2].mean(axis=1)
    low, high = height.min(), height.max()
    shade = 0.72 + 0.4 * (height - low) / max(high - low, 1e-6) + rng.uniform(-spread, spread, len(part))
    return dataclasses.replace(part, colour=np.clip(part.colour * shade[:, None], 0, 1).astype(np.float32))


def _foliage(rng: np.random.Generator, lumps: list[Array], colour: Array, *, cards: int, size: float) -> Mesh:
    """A crown of `lumps` (triangles around a centre): their shrunken, darker core, and cards of `size` metres around it."""
    outer = mesh(np.concatenate(lumps), colour, Material.LEAVES, smooth=True)
    middle = np.concatenate([np.broadcast_to(lump.mean(axis=(0, 1)), (len(lump), 3)) for lump in lumps])
    outer = dataclasses.replace(outer, normals=_as_one_crown(outer))
    sunk = (middle[:, None] + (outer.corners - middle[:, None]) * _SUNK).astype(np.float32)
    core = dataclasses.replace(outer, corners=sunk, colour=outer.colour * np.float32(0.8))
    return _tinted(rng, joined([core, _cards(rng, outer, cards, size=size)]), spread=0.1)


def _as_one_crown(crown: Mesh) -> Array:
    """Normals half of each lump and half of the whole crown, which is lit as one and not as a heap of balls."""
    low, high = crown.bounds()
    away = (crown.corners - (low + (high - low) * np.array([0.5, 0.5, 0.35], np.float32))) / (high - low)
    away /= np.maximum(np.linalg.norm(away, axis=2, keepdims=True), 1e-3)
    lit = 0.45 * crown.normals + 0.55 * away
    return np.asarray(lit / np.maximum(np.linalg.norm(lit, axis=2, keepdims=True), 1e-6), np.float32)


def _cards(rng: np.random.Generator, crown: Mesh, count: int, *, size: float) -> Mesh:
    """Small triangles spread evenly over the crown's surface, tilted any way, lit as the crown is."""
    across = np.cross(crown.corners[:, 1] - crown.corners[:, 0], crown.corners[:, 2] - crown.corners[:, 0])
    area = np.linalg.norm(across, axis=1).astype(float)
    root = rng.choice(len(crown), size=count, p=area / area.sum())
    share = rng.dirichlet((1, 1, 1), count)
    outward = (crown.normals[root] * share[..., None]).sum(axis=1)
    middle = (crown.corners[root] * share[..., None]).sum(axis=1) + outward * size * rng.uniform(-1.3, 0.45, (count, 1))
    facing = outward + rng.normal(0, 0.5, (count, 3))
    facing /= np.linalg.norm(facing, axis=1, keepdims=True)
    one = np.cross(facing, rng.normal(size=(count, 3)))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    other = np.cross(facing, one)
    angle = np.array([0.0, 2.1, 4.2]) + rng.uniform(-0.35, 0.35, (count, 3))
    reach = size * rng.uniform(0.6, 1.15, (count, 3, 1))
    corners = middle[:, None] + reach * (np.cos(angle)[..., None] * one[:, None] + np.sin(angle)[..., None] * other[:, None])
    part = mesh(corners, (0, 0, 0), Material.LEAVES)
    lit = np.repeat(outward[:, None], 3, axis=1) + 0.3 * part.normals
    lit /= np.linalg.norm(lit, axis=2, keepdims=True)
    colour = crown.colour[root] * rng.uniform(0.82, 1.22, (count, 1)) * rng.uniform(0.94, 1.06, (count, 3))
    return dataclasses.replace(part, colour=np.clip(colour, 0, 1).astype(np.float32), normals=lit.astype(np.float32))


def tree(rng: np.random.Generator) -> Mesh:
    """A broad-leaved tree, 5 to 12 m tall."""
    tall = float(rng.uniform(5.0, 11.0))
    return _broad_leaved(rng, tall, trunk=tall * float(rng.uniform(0.22, 0.34)))


def street_tree(rng: np.random.Generator) -> Mesh:
    """A pruned tree, 7 to 11 m tall, under whose crown people and vehicles pass."""
    tall = float(rng.uniform(7.0, 10.5))
    grown = _broad_leaved(rng, tall, trunk=max(0.36 * tall, CLEARANCE + 0.6))
    leaves, wood = (_chosen(grown, (grown.material == Material.LEAVES) == leafy) for leafy in (True, False))
    return joined([_above(leaves, CLEARANCE), wood])


def _broad_leaved(rng: np.random.Generator, tall: float, *, trunk: float) -> Mesh:
    spread, thick = tall * 0.27 * rng.uniform(0.75, 1.25), tall * rng.uniform(0.016, 0.024)
    crown = tall - trunk
    bark = BARKS[int(rng.integers(len(BARKS)))]
    fork = np.array([*rng.uniform(-0.15, 0.15, 2), trunk])
    wood = [lathe([(thick * 1.7, 0.0), (thick * 1.1, 0.35), (thick, 0.8)], 8)]
    wood += [tube((0, 0, 0.75), fork, radii=(thick, thick * 0.8), sides=8)]
    lumps, count = [], int(rng.integers(9, 13))
    turns = rng.uniform(0, 2 * np.pi) + np.arange(count) * 2.4
    for index, turn in enumerate(turns):
        rise = (index + 0.5) / count
        reach = spread * np.sqrt(max(1 - (1.55 * rise - 0.62) ** 2, 0.05)) * rng.uniform(0.45, 0.8)
        size = spread * rng.uniform(0.42, 0.68)
        middle = np.array([reach * np.cos(turn), reach * np.sin(turn), trunk + crown * (0.14 + 0.7 * rise)])
        lumps.append(blob(rng, np.array([1, 1, 0.82]) * size, level=1, rough=0.2) + middle)
        if index < 5:
            wood.append(tube(fork, middle, radii=(thick * 0.55, thick * 0.15), sides=5))
    core = blob(rng, np.array([0.75, 0.75, 0.0]) * spread + np.array([0, 0, crown * 0.42]), level=1, rough=0.14)
    lumps.append(core + np.array([0, 0, trunk + crown * 0.52]))
    leaves = _foliage(rng, lumps, _green(rng, GREENS), cards=1700, size=0.065 * spread + 0.06)
    return joined([leaves, mesh(np.concatenate(wood), bark, Material.BARK, smooth=True)])


def conifer(rng: np.random.Generator) -> Mesh:
    """A spruce or fir, 6 to 14 m tall: whorls of drooping boughs around a dark core."""
    tall, whorls = rng.uniform(6.0, 14.0), int(rng.integers(15, 20))
    spread, bare = tall * rng.uniform(0.15, 0.22), tall * rng.uniform(0.05, 0.1)
    boughs = []
    for index in range(whorls):
        share = index / whorls
        low = bare + (tall - bare) * share**0.92 * 0.95
        boughs.append(_whorl(rng, spread * (1 - share) ** 0.8 + 0.1, low, min(tall, low + (tall - bare) * 2.2 / whorls)))
    inner = lathe([(spread * 0.5, bare + 0.1), (spread * 0.3, bare + (tall - bare) * 0.5), (0.0, tall)], 9)
    colour = _green(rng, NEEDLES)
    core = mesh(inner, colour * 0.45, Material.LEAVES, smooth=True)
    trunk = lathe([(tall * 0.02, 0.0), (tall * 0.014, bare + 0.6)], 7)
    leaves = _tinted(rng, joined([core, _needles(np.concatenate(boughs), colour)]), spread=0.14)
    return joined([leaves, mesh(trunk, BARKS[0], Material.BARK, smooth=True)])


def _needles(corners: Array, colour: Array) -> Mesh:
    """Boughs, lit as the whole cone is and not card by card."""
    part = mesh(corners, colour, Material.LEAVES)
    outward = part.corners * np.array([1, 1, 0], np.float32)
    outward /= np.maximum(np.linalg.norm(outward, axis=2, keepdims=True), 1e-3)
    lit = outward + np.array([0, 0, 0.55], np.float32)
    return dataclasses.replace(part, normals=(lit / np.linalg.norm(lit, axis=2, keepdims=True)).astype(np.float32))


def _whorl(rng: np.random.Generator, reach: float, low: float, high: float) -> Array:
    """Boughs around the trunk, each of two triangles with a ridge: from `high` at the trunk down to its tip near `low`."""
    count = 11
    turn = rng.uniform(0, 2 * np.pi) + (np.arange(count) + rng.uniform(-0.3, 0.3, count)) * 2 * np.pi / count
    out = np.stack([np.cos(turn), np.sin(turn), np.zeros(count)], axis=1)
    aside = np.stack([-np.sin(turn), np.cos(turn), np.zeros(count)], axis=1)
    length = reach * rng.uniform(0.75, 1.1, (count, 1))
    drop = (high - low) * rng.uniform(0.75, 1.1, (count, 1))
    up = np.array([0, 0, 1.0])
    root, tip = out * 0.0 + up * high, out * length + up * (high - drop)
    wing = out * length * 0.62 + up * (high - drop * 0.9)
    wide = aside * length * rng.uniform(0.3, 0.4, (count, 1))
    return np.concatenate([np.stack([root, wing - wide, tip], 1), np.stack([root, tip, wing + wide], 1)])


def bush(rng: np.random.Generator) -> Mesh:
    """A bush, 0.6 to 2 m tall."""
    size, lumps = rng.uniform(0.4, 0.9), []
    for turn in rng.uniform(0, 2 * np.pi, int(rng.integers(3, 6))):
        centre = np.array([np.cos(turn), np.sin(turn), 0]) * size * rng.uniform(0.3, 0.75)
        lump = blob(rng, size * rng.uniform(0.55, 0.9, 3), level=1, rough=0.14)
        lumps.append(lump + centre + [0, 0, size * rng.uniform(0.45, 0.8)])
    whole = _foliage(rng, lumps, _green(rng, GREENS), cards=520, size=0.05 + 0.05 * size)
    return _above(whole.placed(0, 0, z=-0.15 * size), 0.0)


def _above(part: Mesh, height: float) -> Mesh:
    """The part above a height; triangles that cross it are flattened to it."""
    kept = _chosen(part, part.corners[..., 2].max(axis=1) > height + 0.02)
    return dataclasses.replace(kept, corners=np.maximum(kept.corners, np.array([-np.inf, -np.inf, height], np.float32)))


def _chosen(part: Mesh, where: Array) -> Mesh:
    """Some triangles of a mesh."""
    return Mesh(*(getattr(part, field.name)[where] for field in dataclasses.fields(Mesh)))


def hedge(rng: np.random.Generator, length: float) -> Mesh:
    """A clipped hedge along x, its middle in the origin."""
    tall, half = rng.uniform(0.9, 1.9), rng.uniform(0.3, 0.5)
    steps = max(int(length / 0.7), 2) + 1
    ring = np.array([(-1.0, 0.0), (-1.0, 0.5), (-0.92, 0.93), (0, 1.0), (0.92, 0.93), (1.0, 0.5), (1.0, 0.0)])
    x = np.linspace(-length / 2, length / 2, steps)
    wobble = rng.uniform(-0.04, 0.04, (steps, len(ring), 3)) * [0.0, 1, 1]
    wobble[:, [0, -1], 2] = 0
    points = np.empty((steps, len(ring), 3))
    points[..., 0], points[..., 1:] = x[:, None], (ring * [half, tall])[None]
    points = points + wobble
    colour = _green(rng, GREENS)
    body = mesh(np.concatenate([net(points), fan(points[0]), fan(points[-1][::-1])]), colour, Material.LEAVES, smooth=True)
    leaves = _cards(rng, body, int(130 * length), size=0.07)
    return _above(_tinted(rng, joined([body, leaves]), spread=0.12), 0.0)
