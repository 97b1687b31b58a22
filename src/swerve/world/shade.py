"""Shading: sun with shadows, sky light, reflections, and lamps."""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array
from swerve.world.light import Light, plain_sky
from swerve.world.mesh import Material, column
from swerve.world.scene import NEAR, Snapshot
from swerve.world.surface import Surface, dot

OFF = 0.02  # metres between a shadow ray's start and its surface
LAMP_REACH = 26.0  # metres
STREET = column(1.0, 0.72, 0.4)
BEAM = column(1.0, 0.95, 0.85)
_SPECULAR = np.zeros(32, np.float32)  # specular reflectivity of each material at normal incidence
_SPECULAR[[Material.PAINT, Material.GLASS, Material.METAL, Material.PLASTIC, Material.BOARD, Material.HEADLIGHT]] = (
    0.05, 0.09, 0.04, 0.03, 0.03, 0.1)  # fmt: skip
_EMISSION: dict[Material, tuple[tuple[float, float, float], float, float]] = {  # colour, by day, at night
    Material.HEADLIGHT: ((1.0, 0.95, 0.85), 0.25, 2.6),
    Material.TAILLIGHT: ((1.0, 0.04, 0.02), 0.1, 0.9),
    Material.LAMP: ((1.0, 0.75, 0.45), 0.0, 3.2),
    Material.SIGNAL_ON: ((1.0, 1.0, 1.0), 2.2, 2.6),
    Material.BOARD: ((1.0, 1.0, 1.0), 0.0, 0.55),
}


def shade_surfaces(found: Surface, snapshot: Snapshot, light: Light, occlusion: Array, *, eye: Array, yaw: float) -> Array:
    """The radiance of each surface towards the eye, without the air. `occlusion` is 1 under open sky."""
    normal = found.normal
    cosine = light.sun @ normal
    leaf = found.material == Material.LEAVES
    cosine = np.where(leaf, 0.35 + 0.65 * cosine, cosine)  # leaves transmit light
    sunny = _sunlit(found, snapshot, light, cosine)
    open_sky = (0.5 + 0.5 * normal[2]) * occlusion
    bounce = (0.5 - 0.5 * normal[2]) * np.sqrt(occlusion)
    parts = np.stack([light.direct, light.above, light.below], -1)
    falling = parts @ np.stack([sunny, open_sky, bounce])
    if light.lamps > 0:
        falling += light.lamps * _lamp_light(found, snapshot, eye, yaw)
    colour = found.colour * falling
    _add_reflections(found, colour, light, sunny, occlusion)
    _add_emission(found, colour, light)
    return colour


def _sunlit(found: Surface, snapshot: Snapshot, light: Light, cosine: Array) -> Array:
    """The cosine of the sun's incidence on each surface, or 0 in shadow."""
    lit = np.maximum(cosine, 0).astype(np.float32)
    if light.direct.max() <= 0.02:
        return lit
    ask = np.flatnonzero((lit > 0) & (found.distance < 400))
    point, normal, toward = (np.take(part, ask, axis=1) for part in (found.point, found.normal, found.toward))
    start = point + normal * OFF - toward * NEAR
    lit[ask[snapshot.blocked(start, np.broadcast_to(light.sun[:, None], start.shape))]] = 0
    return lit


def _add_reflections(found: Surface, colour: Array, light: Light, sunny: Array, occlusion: Array) -> None:
    """Add the reflection of the sky in paint, glass and windows, stronger at grazing angles (Schlick)."""
    specular = _SPECULAR[found.material] + 0.07 * found.window
    rows = np.flatnonzero(specular > 0)
    normal, toward = np.take(found.normal, rows, axis=1), np.take(found.toward, rows, axis=1)
    facing = np.clip(-dot(normal, toward), 0, 1)
    out = toward + 2 * facing * normal
    head_on = specular[rows]
    fresnel = head_on + np.minimum(head_on * 8, 0.75) * (1 - facing) ** 5
    around = plain_sky(light, out) * (np.clip(0.35 + 1.3 * out[2], 0.08, 1) * occlusion[rows])
    spark = np.clip(light.sun @ out, 0, 1) ** 90 * (sunny[rows] > 0) * 6
    seen = around + light.direct[:, None] * spark
    colour[:, rows] = np.take(colour, rows, axis=1) * (1 - fresnel) + fresnel * seen


def _lamp_light(found: Surface, snapshot: Snapshot, eye: Array, yaw: float) -> Array:
    """Our own headlights and the street lamps around us."""
    lamps = snapshot.scene.lamps
    ahead = (lamps[:, 0] - eye[0]) * np.cos(yaw) + (lamps[:, 1] - eye[1]) * np.sin(yaw)
    x, y, z = found.point
    street = np.zeros(len(x), np.float32)
    for lamp in lamps[(ahead > -15) & (ahead < 130)]:
        close = np.flatnonzero((np.abs(x - lamp[0]) < LAMP_REACH) & (np.abs(y - lamp[1]) < LAMP_REACH))
        normal = np.take(found.normal, close, axis=1)
        street[close] += _from_lamp(lamp[0] - x[close], lamp[1] - y[close], lamp[2] - z[close], normal)
    return BEAM * _headlights(found, eye, yaw) + STREET * street


def _from_lamp(x: Array, y: Array, z: Array, normal: Array) -> Array:
    """The light of a downward lamp on surfaces that see it in direction (x, y, z)."""
    squared = x * x + y * y + z * z + np.float32(1.0)
    away = np.sqrt(squared)
    slope = np.maximum((normal[0] * x + normal[1] * y + normal[2] * z) / away, np.float32(0.08))
    down = np.clip(z / away, 0, 1)
    fade = np.clip(1 - squared / np.float32(LAMP_REACH**2), 0, 1)
    return np.float32(16.0) * slope * down * np.sqrt(down) * fade / squared


def _headlights(found: Surface, eye: Array, yaw: float) -> Array:
    """Dipped headlights: wide, cut off above the horizon, and reflected by markings and signs."""
    cos, sin = float(np.cos(yaw)), float(np.sin(yaw))
    x, y, up = found.point[0] - eye[0], found.point[1] - eye[1], found.point[2] - 0.65
    ahead, left = x * cos + y * sin - 0.6, y * cos - x * sin
    away = np.sqrt(ahead * ahead + left * left + up * up) + 0.5
    aim = np.exp(-((np.arctan2(left, np.maximum(ahead, 0.1)) / 0.42) ** 2)) * (ahead > 0)
    cut = 1 / (1 + np.exp(np.clip((up / away + 0.008) / 0.014, -30, 30)))
    beam = aim * (0.02 + cut) * 26 / (away**1.7 + 22)
    slope = np.clip(-dot(found.normal, found.toward), 0, 1)
    back = np.where(found.material == Material.SIGN, np.float32(5.0), np.float32(1.0)) + 2.5 * found.mark
    flat = np.where(found.material == Material.GROUND, np.maximum(slope, 0.16) * 2.2, slope)
    return beam * flat * back


def _add_emission(found: Surface, colour: Array, light: Light) -> None:
    """Add emitted light: lamps, vehicle lights and lit windows."""
    for material, (tint, by_day, at_night) in _EMISSION.items():
        rows = np.flatnonzero(found.material == material)
        own = found.colour[:, rows] if material in (Material.BOARD, Material.SIGNAL_ON) else column(*tint)
        colour[:, rows] += own * (by_day * (1 - light.lamps) + at_night * light.lamps)
    if light.lamps > 0:
        rows = np.flatnonzero((found.window > 0) & (found.lit < 0.1 + 0.28 * light.lamps))
        tone = found.lit[rows] * 37 % 1
        warm = column(0.95, 0.62, 0.28) * (1 - tone) + column(0.75, 0.8, 0.85) * tone
        power = 0.25 + 0.75 * (found.lit[rows] * 91 % 1)
        colour[:, rows] += warm * (0.55 * light.lamps * found.window[rows] * power)
