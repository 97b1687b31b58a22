"""Shading: sun with shadows, sky light, reflections, and lamps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.light import Light, plain_sky
from swerve.world.mesh import Material, column
from swerve.world.secondary_rays import incidence
from swerve.world.surface import Surface, dot
from swerve.world.textures import look_up, tile
from swerve.world.weathering import Weathered

LAMP_REACH, BEAM_REACH = 24.0, 22.0  # metres
_TILT = 0.14  # of the reflections in window panes, at most
STREET = column(1.0, 0.83, 0.6)
BEAM = column(1.0, 0.95, 0.85)
_SPECULAR = np.zeros(32, np.float32)  # specular reflectivity of each material at normal incidence
_SPECULAR[[Material.PAINT, Material.GLASS, Material.METAL, Material.PLASTIC, Material.BOARD, Material.HEADLIGHT]] = (
    0.06, 0.13, 0.05, 0.03, 0.03, 0.1)  # fmt: skip
_SPECULAR[Material.SHOPFRONT] = 0.1
_PANE = 0.13  # the same of windows in walls
_EMISSION: dict[Material, tuple[tuple[float, float, float], float, float]] = {  # colour, by day, at night
    Material.HEADLIGHT: ((1.0, 0.95, 0.85), 0.25, 9.0),
    Material.TAILLIGHT: ((1.0, 0.04, 0.02), 0.1, 1.6),
    Material.LAMP: ((1.0, 0.86, 0.62), 0.0, 14.0),
    Material.SHOPFRONT: ((1.0, 0.8, 0.55), 0.0, 6.0),
    Material.SIGNAL_ON: ((1.0, 1.0, 1.0), 2.2, 2.6),
    Material.BOARD: ((1.0, 1.0, 1.0), 0.0, 0.55),
}
_OWN_COLOUR = (Material.BOARD, Material.SIGNAL_ON, Material.SHOPFRONT)  # shine in the colour of their surface


@dataclass(frozen=True, eq=False)
class Lamps:
    """The street lamps of a scene, the headlights of other vehicles, and ours."""

    street: Array  # n x 3
    beams: Array  # n x 3: x, y and heading of the nearest vehicles' noses
    eye: Array
    yaw: float


def shade_surfaces(
    found: Surface,
    seen: Weathered,
    light: Light,
    openness: Array,
    *,
    shadow: Callable[[Array], Array],
    lamps: Lamps,
    ground: Array,
) -> Array:
    """The radiance of each surface towards the eye, without the air.

    `openness` is 1 under open sky; `shadow` says which surfaces a sun does not reach; `ground` are the rows of the ground.
    """
    normal = found.normal
    sunny = _sunlit(found, light, shadow)
    open_sky = (0.5 + 0.5 * normal[2]) * openness
    bounce = (0.5 - 0.5 * normal[2]) * np.sqrt(openness)
    parts = np.stack([light.direct, light.above, light.below], -1)
    falling = parts @ np.stack([sunny, open_sky, bounce])
    if light.lamps > 0:
        falling += light.lamps * _lamp_light(found, lamps, seen.mark, ground)
    colour = seen.colour * falling
    _add_reflections(found, colour, light, sunny, openness)
    _add_emission(found, seen, colour, light)
    return colour


def _sunlit(found: Surface, light: Light, shadow: Callable[[Array], Array]) -> Array:
    """The cosine of the sun's incidence on each surface, or 0 in shadow."""
    lit = np.maximum(incidence(found, light.sun), 0).astype(np.float32)
    if light.has_shadows:
        lit[shadow(light.sun)] = 0
    return lit


def _add_reflections(found: Surface, colour: Array, light: Light, sunny: Array, openness: Array) -> None:
    """Add the reflection of the sky in paint, glass and windows, stronger at grazing angles (Schlick)."""
    specular = _SPECULAR[found.material]
    specular[found.panes.rows] += _PANE * found.panes.share
    rows = np.flatnonzero(specular > 0)
    normal, toward = np.take(found.normal, rows, axis=1), np.take(found.toward, rows, axis=1)
    tilt = np.zeros(len(found.ray), np.float32)
    tilt[found.panes.rows] = (found.panes.draw * 53 % 1 - 0.5) * _TILT  # no two panes hang alike
    facing = np.clip(-dot(normal, toward), 0, 1)
    out = toward + 2 * facing * normal
    out[2] += tilt[rows]
    head_on = specular[rows]
    fresnel = head_on + np.minimum(head_on * 8, 0.75) * (1 - facing) ** 5
    around = _surroundings(light, out) * openness[rows]
    spark = np.clip(light.sun @ out, 0, 1) ** 90 * (sunny[rows] > 0) * 6
    seen = around + light.direct[:, None] * spark
    colour[:, rows] = np.take(colour, rows, axis=1) * (1 - fresnel) + fresnel * seen


def _surroundings(light: Light, out: Array) -> Array:
    """What a smooth surface reflects: the sky above an uneven skyline, which is higher in a town, and dull things below."""
    skyline = np.float32(0.04 + 0.2 * light.urban) + 0.07 * look_up(tile("stains", 1.25), out[0], out[1], 2.3)
    share = np.clip((out[2] - skyline) / 0.08 + 0.5, 0, 1)
    dull = (light.below * 0.9 + light.horizon * 0.12)[:, None]
    return plain_sky(light, out) * share + dull * (1 - share)


def _lamp_light(found: Surface, lamps: Lamps, mark: Array, ground: Array) -> Array:
    """Our own headlights and the street lamps around us."""
    away = lamps.street[:, :2] - lamps.eye[:2]
    ahead = away[:, 0] * np.cos(lamps.yaw) + away[:, 1] * np.sin(lamps.yaw)
    point = x, y, z = found.point
    street = np.zeros(len(x), np.float32)
    for lamp in lamps.street[(ahead > -15) & (ahead < 110)]:
        close = np.flatnonzero((np.abs(x - lamp[0]) < LAMP_REACH) & (np.abs(y - lamp[1]) < LAMP_REACH))
        normal = np.take(found.normal, close, axis=1)
        street[close] += _from_lamp(lamp[0] - x[close], lamp[1] - y[close], lamp[2] - z[close], normal)
    beams = _headlights(found, point, lamps, mark, ground)
    for nose in lamps.beams:
        close = np.flatnonzero((np.abs(x - nose[0]) < BEAM_REACH) & (np.abs(y - nose[1]) < BEAM_REACH))
        beams[close] += _from_vehicle(np.take(point, close, axis=1), np.take(found.normal, close, axis=1), nose)
    return BEAM * beams + STREET * street


def _from_vehicle(point: Array, normal: Array, nose: Array) -> Array:
    """The dipped headlights of another vehicle on the surfaces ahead of it."""
    cos, sin = np.cos(nose[2]), np.sin(nose[2])
    x, y, up = point[0] - nose[0], point[1] - nose[1], point[2] - np.float32(0.65)
    ahead, left = x * cos + y * sin, y * cos - x * sin
    squared = x * x + y * y + np.float32(1.0)
    away = np.sqrt(squared)
    aim = np.exp(-((left / np.maximum(ahead, np.float32(0.3)) / np.float32(0.45)) ** 2)) * (ahead > 0)
    cut = np.clip(np.float32(0.6) - up / away * 12, 0, 1)
    slope = np.maximum(-(normal[0] * x + normal[1] * y + normal[2] * up) / away, 0) + np.float32(0.12) * (normal[2] > 0.9)
    fade = np.clip(1 - squared / np.float32(BEAM_REACH**2), 0, 1)
    return np.float32(14.0) * aim * cut * slope * fade / (away + 4)


def _from_lamp(x: Array, y: Array, z: Array, normal: Array) -> Array:
    """The light of a downward lamp on surfaces that see it in direction (x, y, z)."""
    squared = x * x + y * y + z * z + np.float32(1.0)
    away = np.sqrt(squared)
    slope = np.maximum((normal[0] * x + normal[1] * y + normal[2] * z) / away, np.float32(0.08))
    down = np.clip(z / away, 0, 1)
    fade = np.clip(1 - squared / np.float32(LAMP_REACH**2), 0, 1)
    return np.float32(105.0) * slope * down * down * fade / squared


def _headlights(found: Surface, point: Array, lamps: Lamps, mark: Array, ground: Array) -> Array:
    """Dipped headlights: wide, cut off above the horizon, and reflected by markings and signs."""
    cos, sin = float(np.cos(lamps.yaw)), float(np.sin(lamps.yaw))
    x, y, up = point[0] - lamps.eye[0], point[1] - lamps.eye[1], point[2] - 0.65
    ahead, left = x * cos + y * sin - 0.6, y * cos - x * sin
    away = np.sqrt(ahead * ahead + left * left + up * up) + 0.5
    aside = left / np.maximum(ahead, np.float32(0.1)) / np.float32(0.46)
    aim = np.exp(-aside * aside) * (ahead > 0)
    cut = 1 / (1 + np.exp(np.clip((up / away + 0.008) / 0.014, -30, 30)))
    beam = aim * (0.02 + cut) * 26 / (away * np.sqrt(away) * 1.8 + 20)
    slope = np.clip(-dot(found.normal, found.toward), 0, 1)
    back = np.where(found.material == Material.SIGN, np.float32(5.0), np.float32(1.0))
    back[ground] += 2.5 * mark
    flat = slope.copy()
    flat[ground] = np.maximum(slope[ground], 0.16) * 2.2
    return beam * flat * back


def _add_emission(found: Surface, seen: Weathered, colour: Array, light: Light) -> None:
    """Add emitted light: lamps, vehicle lights and lit windows."""
    for material, (tint, by_day, at_night) in _EMISSION.items():
        rows = np.flatnonzero(found.material == material)
        own = column(*tint) * seen.colour[:, rows] if material in _OWN_COLOUR else column(*tint)
        colour[:, rows] += own * (by_day * (1 - light.lamps) + at_night * light.lamps)
    if light.lamps > 0:
        panes = found.panes
        lit = np.flatnonzero((panes.share > 0) & (panes.draw < 0.1 + 0.28 * light.lamps))
        tone = panes.draw[lit] * 37 % 1
        warm = column(0.95, 0.62, 0.28) * (1 - tone) + column(0.75, 0.8, 0.85) * tone
        rows = panes.rows[lit]
        bright = np.clip(0.25 + 7 * np.take(seen.colour[1], rows), 0, 1.3)  # rooms are darker below the ceiling, blinds glow
        power = 0.25 + 0.75 * (panes.draw[lit] * 91 % 1)
        colour[:, rows] += warm * (0.34 * light.lamps * panes.share[lit] * power * bright)
