"""Surfaces in the weather: a wet road, and snow on everything that faces up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.conditions import Conditions
from swerve.world.gbuffer import Ground
from swerve.world.mesh import Material, column
from swerve.world.surface import Surface

SNOW = column(0.78, 0.8, 0.84)
_SHEDS_SNOW = np.zeros(32, bool)  # materials that keep little snow
_SHEDS_SNOW[[Material.PAINT, Material.GLASS, Material.TYRE, Material.CLOTH, Material.SKIN]] = True


@dataclass(frozen=True, eq=False)
class Weathered:
    """Surfaces in the weather: the reflectance of all, and of the ground its road markings and how strongly it reflects."""

    colour: Array
    mark: Array  # 0..1
    wet: Array  # 0..1


def in_weather(found: Surface, ground: Ground, conditions: Conditions) -> Weathered:
    """What rain and snow make of dry surfaces."""
    colour, mark = found.colour, ground.mark
    puddle = np.clip(0.62 + 0.3 * ground.grain, 0.25, 1) * ground.road
    wet = conditions.wet * np.maximum(puddle, 0.12)
    if conditions.wet > 0:
        colour = colour.copy()
        colour[:, ground.rows] *= 1 - 0.5 * conditions.wet * np.maximum(ground.road, 0.4)
    if conditions.snow > 0:
        lying = _lying_snow(found, ground, conditions.snow)
        colour = colour * (1 - lying) + lying * SNOW
        mark = mark * (1 - lying[ground.rows])
    return Weathered(colour, mark, wet)


def _lying_snow(found: Surface, ground: Ground, amount: float) -> Array:
    """The share of each surface that is covered by snow; on the road, wheels leave dark tracks."""
    grain = ground.grain * min(1.0, amount * 4)  # the first snow lies thin, not in patches
    lying = np.clip((found.normal[2] - 0.35) / 0.35, 0, 1) * min(1.0, amount * 1.25)
    lying = np.where(found.material == Material.LEAVES, lying * 0.85, lying)
    tracks = np.clip((0.1 + 0.03 * grain - np.abs(np.abs(ground.lane) - 0.25)) / 0.03 + 0.5, 0, 1)
    on_road = np.clip(amount * 1.5 - 0.75 + 0.3 * grain, 0, 1) * (0.9 - 0.68 * tracks)
    beside = np.clip(amount * 1.2 + 0.25 * grain, 0, 1)
    blend = np.clip(ground.edge / 0.8 + 0.5, 0, 1)
    lying[ground.rows] = on_road * (1 - blend) + beside * blend
    return np.where(_SHEDS_SNOW[found.material], lying * 0.45, lying).astype(np.float32)
