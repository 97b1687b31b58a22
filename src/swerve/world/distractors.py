"""What a detector may take for a traffic light: pedestrian lights, lit signs, red doors and awnings, brake lights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from swerve.core.values import Array
from swerve.world.ground import KERB_WIDTH
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.plan import ScenePlan
from swerve.world.scene import Thing
from swerve.world.shapes import box, disc, facing_back, fan, lathe, tube
from swerve.world.signal_posts import beyond_kerb

Random = np.random.Generator
Colour = tuple[float, float, float]
GLOW: tuple[Colour, ...] = ((0.9, 0.03, 0.02), (0.04, 0.75, 0.22), (0.95, 0.5, 0.04), (0.75, 0.12, 0.5), (0.1, 0.3, 0.9))
CLOTHS: tuple[Colour, ...] = ((0.42, 0.02, 0.02), (0.5, 0.05, 0.03), (0.03, 0.2, 0.09), (0.55, 0.36, 0.03))
DEEP = 1.1  # metres of a kiosk
DARK: Colour = (0.014, 0.014, 0.015)
WALKING = {"red": (0.95, 0.03, 0.015), "green": (0.03, 0.85, 0.4)}


def _rectangle(x: float, y: float, width: float, height: float) -> Array:
    return fan([(x, y, 0), (x + width, y, 0), (x + width, y + height, 0), (x, y + height, 0)])


def _front(corners: Array, colour: object, material: Material, *, out: float = 0.0) -> Mesh:
    return mesh(facing_back(corners + np.array([0, 0, out])), colour, material)


def _figure(size: float) -> Array:
    """A standing person."""
    head = disc(0.17, sides=8) + np.array([0, 0.72, 0])
    parts = [head, _rectangle(-0.2, -0.1, 0.4, 0.6), _rectangle(-0.18, -0.85, 0.14, 0.8), _rectangle(0.04, -0.85, 0.14, 0.8)]
    return np.asarray(np.concatenate(parts) * np.array([size, size, 1]))


def pedestrian_light(rng: Random, shown: str) -> Mesh:
    """Two square lamps with figures on a short post, looking to -x; the upper one is red."""
    cell, up = float(rng.uniform(0.12, 0.16)), float(rng.uniform(2.1, 2.5))
    body = box((-cell, -2 * cell, -0.14), (cell, 2 * cell, 0.0))
    parts = [_front(body, DARK, Material.PLASTIC)]
    for name, middle in (("red", cell), ("green", -cell)):
        on = name == shown
        tint = WALKING[name] if on else tuple(0.06 * part for part in WALKING[name])
        figure = _figure(cell * 0.85) + np.array([0, middle, 0])
        parts.append(_front(figure, tint, Material.SIGNAL_ON if on else Material.SIGNAL_OFF, out=0.004))
        visor = box((-cell, middle + cell * 0.9, 0.0), (cell, middle + cell * 0.96, 0.12))
        parts.append(_front(visor, DARK, Material.PLASTIC))
    pole = lathe([(0.055, 0.0), (0.05, up + 0.3), (0.0, up + 0.3)], 8) + np.array([0.2, 0, 0])
    return joined([*(part.placed(0, 0, z=up) for part in parts), mesh(pole, (0.2, 0.2, 0.2), Material.METAL, smooth=True)])


def pedestrian_lights(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Those of the crossings over the side roads, which look at us from the far corners and away at the near ones."""
    junction = plan.road.junctions[0]
    for near in (False, True):
        for side in (1, -1):
            if rng.random() < 0.6:
                s = junction.s + (-1 if near else 1) * (junction.half + float(rng.uniform(1.6, 4.0)))
                foot = beyond_kerb(plan.road, s, side, 0.5)
                shown = str(rng.choice(["red", "green"]))
                askew = float(rng.normal(0, 0.12))
                yaw = foot.yaw + askew + (np.pi if near else 0.0)
                yield Thing("pedestrian-light", pedestrian_light(rng, shown), foot.x, foot.y, yaw)


def lit_signs(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Pharmacy crosses, round and square lit signs, and kiosks with awnings and red doors along the pavement."""
    if plan.style == "country":
        return
    around = plan.road.junctions[0].s
    for _ in range(int(rng.integers(2, 8))):
        s, side = around + float(rng.uniform(-30, 75)), int(rng.choice([-1, 1]))
        if plan.road.near_junction(s, 4.0):
            continue
        if rng.random() < 0.7 or plan.walk < DEEP + 1.2:
            x, y, yaw = plan.road.at(s, side * (plan.road.profile.half + KERB_WIDTH + plan.walk - 0.25))
            yield Thing("lit-sign", lit_sign(rng), float(x), float(y), float(yaw))
        else:
            yield Thing("kiosk", kiosk(rng), *plan.beside(s, side, plan.walk - DEEP))


def lit_sign(rng: Random) -> Mesh:
    """A lit cross, disc or box on a pole, 2.6 to 4.2 m up, looking to -x and +x."""
    size, up = float(rng.uniform(0.22, 0.42)), float(rng.uniform(2.6, 4.2))
    colour, shape = GLOW[int(rng.integers(len(GLOW)))], int(rng.integers(3))
    third = size / 3
    flat = (
        np.concatenate([_rectangle(-size, -third, 2 * size, 2 * third), _rectangle(-third, -size, 2 * third, 2 * size)]),
        disc(size * 0.8, sides=18),
        _rectangle(-size, -size * 0.5, 2 * size, size),
    )[shape]
    case = box((-size, -size if shape < 2 else -size * 0.55, -0.08), (size, size if shape < 2 else size * 0.55, 0.0))
    material = Material.SIGNAL_ON if rng.random() < 0.6 else Material.BOARD
    face = _front(flat, np.array(colour) * 0.8, material, out=0.004)
    back = face.placed(0.08, 0, yaw=float(np.pi))
    pole = tube((0.04, 0, -up), (0.04, 0, 0), radii=(0.04, 0.035), sides=7)
    body = _front(case * [0.98, 0.98, 1], (0.1, 0.1, 0.1), Material.PLASTIC)
    return joined([face, back, body, mesh(pole, (0.12, 0.12, 0.12), Material.METAL, smooth=True)]).placed(0, 0, z=up)


def kiosk(rng: Random) -> Mesh:
    """A kiosk along x with a door and an awning in strong colours, both towards -y; its front is at y = 0."""
    cloth, door = (CLOTHS[int(rng.integers(len(CLOTHS)))] for _ in range(2))
    long, low = float(rng.uniform(1.0, 1.9)), float(rng.uniform(2.2, 2.6))
    roof = fan([(-long, -0.7, low), (long, -0.7, low), (long, 0.0, low + 0.35), (-long, 0.0, low + 0.35)])
    hem = fan([(-long, -0.7, low - 0.2), (long, -0.7, low - 0.2), (long, -0.7, low), (-long, -0.7, low)])
    body = box((-long, 0.0, 0.0), (long, DEEP, low + 0.4))
    pane = box((-long * 0.9, -0.02, 1.0), (-0.1, 0.0, 2.0))
    return joined(
        [
            mesh(body, rng.uniform(0.15, 0.5) * np.array([1.0, 0.96, 0.9]), Material.WALL),
            mesh(np.concatenate([roof, hem]), cloth, Material.CLOTH),
            mesh(box((0.15, -0.04, 0.08), (min(0.95, long - 0.05), 0.0, 2.05)), door, Material.WALL),
            mesh(pane, (0.03, 0.036, 0.045), Material.GLASS),
        ]
    )


def braking(body: Mesh) -> Mesh:
    """A vehicle with its brake lights on, which shine by day."""
    lit = body.material == Material.TAILLIGHT
    colour, material = body.colour.copy(), body.material.copy()
    colour[lit], material[lit] = (0.5, 0.01, 0.006), Material.SIGNAL_ON
    return replace(body, colour=colour, material=material)
