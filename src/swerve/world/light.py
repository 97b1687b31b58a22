"""Light and sky of one scene under given conditions. Colours are linear; a white wall in clear sun is about 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.conditions import Conditions
from swerve.world.mesh import column, row
from swerve.world.scene import Site
from swerve.world.textures import look_up, tile

Colour = Array

# Colours of zenith, horizon and direct sun by the sun's elevation in degrees.
_HEIGHTS = np.array([-30.0, -10.0, -4.0, 0.0, 6.0, 20.0, 60.0])
_ZENITH = np.array([[0.0022, 0.003, 0.0062], [0.006, 0.009, 0.02], [0.035, 0.055, 0.13], [0.1, 0.15, 0.31],
                    [0.17, 0.27, 0.52], [0.2, 0.36, 0.72], [0.19, 0.37, 0.78]])  # fmt: skip
_HORIZON = np.array([[0.006, 0.0065, 0.009], [0.02, 0.02, 0.03], [0.2, 0.14, 0.13], [0.52, 0.36, 0.27],
                     [0.78, 0.66, 0.52], [0.82, 0.86, 0.92], [0.78, 0.87, 0.98]])  # fmt: skip
_SUN = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0.45, 0.16, 0.05], [2.0, 1.25, 0.68], [3.0, 2.62, 2.1],
                 [3.3, 3.08, 2.72]])  # fmt: skip


def _interpolate_colour(table: Array, height: float) -> Colour:
    return np.array([np.interp(height, _HEIGHTS, table[:, band]) for band in range(3)], np.float32)


@dataclass(frozen=True, eq=False)
class Light:
    """The light sources of a scene, and the air."""

    sun: Array  # unit, towards the sun
    direct: Colour
    zenith: Colour
    horizon: Colour
    air: Colour  # airlight
    extinction: float  # per metre
    lamps: float  # 0..1: brightness of street lamps, windows and headlights
    conditions: Conditions
    urban: float

    @property
    def has_shadows(self) -> bool:
        """Whether there is any direct sun."""
        return bool(self.direct.max() > 0)

    @property
    def above(self) -> Colour:
        """The light on an upward surface from the whole sky."""
        return (self.zenith * 0.6 + self.horizon * 0.4) * 1.25

    @property
    def below(self) -> Colour:
        """The light on a downward surface from the lit ground."""
        return 0.16 * (self.above + self.direct * max(float(self.sun[2]), 0.0)) * row(1.0, 0.96, 0.88)


def _ramp(start: float, end: float, place: float) -> float:
    """0 at `start`, 1 at `end`, and linear between them."""
    return min(max((place - start) / (end - start), 0.0), 1.0)


def light(site: Site, conditions: Conditions, *, yaw: float) -> Light:
    """The light of a site; `yaw` is the camera's, for a sun ahead of it."""
    height, rain = conditions.sun, conditions.rain_share
    facing = yaw + 0.38 * np.sin(2.7 * site.azimuth)  # a sun ahead stands elsewhere in every scene
    azimuth = site.azimuth * (1 - conditions.ahead) + facing * conditions.ahead
    azimuth -= site.side * np.radians(conditions.azimuth)
    up = np.radians(max(height, -5.0))
    sun = row(np.cos(azimuth) * np.cos(up), np.sin(azimuth) * np.cos(up), np.sin(up))
    through = float(np.clip((0.92 - conditions.clouds) / 0.5, 0, 1)) ** 1.5
    zenith, horizon, direct = (_interpolate_colour(table, height) for table in (_ZENITH, _HORIZON, _SUN))
    grey = (0.62 - 0.16 * rain) * (zenith + horizon) / 2 @ row(0.25, 0.6, 0.15) + 0.12 * direct.mean()
    dull = float(np.clip((conditions.clouds - 0.55) / 0.4, 0, 1))
    zenith = zenith * (1 - dull) + dull * grey * row(0.9, 0.96, 1.04) * (1 - 0.25 * rain)
    horizon = horizon * (1 - dull) + dull * grey * row(1.06, 1.1, 1.13) * (1 - 0.2 * rain)
    glow = row(0.0125, 0.0118, 0.0122) * site.urban * np.float32(_ramp(-4.0, -10.0, height))
    horizon = (horizon + glow * (1 + conditions.snow)).astype(np.float32)
    zenith = (zenith + glow * 0.08 * (1 + conditions.clouds)).astype(np.float32)
    return Light(
        sun=sun,
        direct=(direct * through).astype(np.float32),
        zenith=zenith,
        horizon=horizon,
        air=(horizon * 0.94 + zenith * 0.06).astype(np.float32),
        extinction=3.912 / conditions.visibility,  # Koschmieder: 2% of the contrast is left at the visibility
        lamps=conditions.lit,
        conditions=conditions,
        urban=site.urban,
    )


def plain_sky(light: Light, rays: Array) -> Array:
    """The sky without clouds or sun, as reflected by surfaces."""
    share = 1 - np.exp(-4.6 * np.clip(rays[2], 0, 1))
    return light.horizon[:, None] + (light.zenith - light.horizon)[:, None] * share


def sky(light: Light, rays: Array, shift: tuple[float, float]) -> Array:
    """The sky along each ray, with clouds, the sun and haze."""
    colour = plain_sky(light, rays)
    up = np.maximum(rays[2], 0)
    toward = light.sun @ rays
    low = float(np.exp(-((light.conditions.sun / 9.0) ** 2))) * _ramp(-10.0, -4.0, light.conditions.sun)
    warm = low * np.clip(toward, 0, 1) ** 4 * np.exp(-5 * up) * (1 - 0.8 * _overcast(light))
    colour += warm * column(0.75, 0.3, 0.07)
    density, shade = _clouds(light, rays, up, shift)
    lit = light.horizon * 0.5 + light.zenith * 0.35 + light.direct * 0.22
    dark = light.horizon * 0.42 + light.zenith * 0.3
    bright = np.clip(toward, 0, 1)
    body = dark[:, None] + (lit - dark)[:, None] * shade + (light.direct * 0.3)[:, None] * bright**24
    colour = colour * (1 - density) + body * density
    halo = 0.55 * bright**180 + 0.16 * bright**24 + 26.0 * np.clip((toward - 0.99955) / 0.00025, 0, 1)
    colour += (light.direct * 0.5)[:, None] * (halo * (1 - 0.9 * density))
    veil = np.exp(-light.extinction * 260.0 / (up + 0.06))
    return colour * veil + light.air[:, None] * (1 - veil)


def _overcast(light: Light) -> float:
    return float(np.clip((light.conditions.clouds - 0.55) / 0.4, 0, 1))


def _clouds(light: Light, rays: Array, up: Array, shift: tuple[float, float]) -> tuple[Array, Array]:
    """The density of the clouds along each ray, and their brightness."""
    u, v = (part / (up + 0.07) + move for part, move in zip(rays[:2], shift, strict=True))
    field = tile("clouds", 1.7)
    here = look_up(field, u, v, 23.0)
    toward_sun = look_up(field, u + light.sun[0] * 0.25, v + light.sun[1] * 0.25, 23.0)
    cover = light.conditions.clouds
    edge = 1.5 - 2.6 * cover
    thick = np.clip((here - edge) / 1.1, 0, 1)
    density = thick * thick * (3 - 2 * thick) * np.clip(up * 6, 0, 1)
    shade = np.clip(0.62 + 0.55 * (here - toward_sun) - 0.16 * thick, 0.0, 1.1)
    return density.astype(np.float32), shade.astype(np.float32)
