"""Weather and time of day as numbers.

The parameters follow the taxonomy of operational design domains in ISO 34503: illumination (sun, clouds, lamps),
particulates (visibility), rainfall, snowfall, and the state of the road surface (wetness, snow). A picture depends on each
of them continuously, and its labels on none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

from swerve.core.arguments import check_known
from swerve.core.errors import InputError, unknown
from swerve.core.transformation import Param, param, params_of

CLEAR_AIR = 20_000.0  # metres
MOST_RAIN, MOST_SNOWFALL = 50.0, 5.0  # mm/h: beyond it, rain is violent; snow as water


@dataclass(frozen=True)
class Conditions:
    """The state of air, sky and ground; the geometry of a scene does not depend on it."""

    # Degrees above the horizon.
    sun: float = param(-90, 90, neutral=42, resolution=0.05, unit="°", usual=(-25, 65), default=42.0)
    # 0: the sun is at the scene's own azimuth; 1: ahead of the camera. `azimuth` turns it to the left from there.
    ahead: float = param(0, 1, neutral=0, resolution=0.001, default=0.0)
    azimuth: float = param(-180, 180, neutral=0, resolution=0.1, unit="°", default=0.0)
    clouds: float = param(0, 1, neutral=0.3, resolution=0.01, default=0.3)  # share of the sky
    visibility: float = param(5, CLEAR_AIR, neutral=CLEAR_AIR, resolution=1, unit=" m", usual=(20, 1000), default=CLEAR_AIR)
    rain: float = param(0, MOST_RAIN, neutral=0, resolution=0.5, unit=" mm/h", default=0.0)
    wetness: float = param(0, 1, neutral=0, resolution=0.02, default=0.0)  # of the road, which rain wets anyway
    snowfall: float = param(0, MOST_SNOWFALL, neutral=0, resolution=0.05, unit=" mm/h", default=0.0)
    snow: float = param(0, 1, neutral=0, resolution=0.01, default=0.0)  # share of the ground that it covers
    lamps: float = param(0, 1, neutral=0, resolution=0.02, default=0.0)  # brightness; in the dark they are lit anyway

    def __post_init__(self) -> None:
        for name, facts in declared().items():
            try:
                object.__setattr__(self, name, facts.take(name, getattr(self, name)))
            except ValueError as error:
                raise InputError(f"conditions: {error}") from error

    @property
    def rain_share(self) -> float:
        """Rain as a share of the most."""
        return self.rain / MOST_RAIN

    @property
    def snowfall_share(self) -> float:
        """Snowfall as a share of the most."""
        return self.snowfall / MOST_SNOWFALL

    @property
    def wet(self) -> float:
        """How strongly the road reflects, 0..1."""
        return max(self.wetness, min(1.0, self.rain_share * 1.4))

    @property
    def dark(self) -> float:
        """0 by day, 1 at night."""
        return min(max((2.0 - self.sun) / 6.0, 0.0), 1.0)

    @property
    def lit(self) -> float:
        """The brightness of street lamps, windows and headlights, 0..1."""
        return max(self.dark, self.lamps)

    def numbers(self) -> Mapping[str, float]:
        """Every parameter by name."""
        return asdict(self)

    def words(self) -> str:
        """Such as "fog 42 m, low sun ahead, wet road"."""
        parts = (_falling(self), _air(self), _sky(self), _ground(self), _lamps(self))
        return ", ".join(part for part in parts if part)


def declared() -> Mapping[str, Param]:
    """The parameters of conditions: bounds, neutral value, resolution and unit."""
    return params_of(Conditions)


def _falling(here: Conditions) -> str:
    """Rain and snowfall in the classes of the WMO."""
    kinds = (("rain", here.rain, (2.5, 7.6)), ("snowfall", here.snowfall, (1.0, 2.5)))
    return ", ".join(f"{_degree(rate, classes)} {name}" for name, rate, classes in kinds if rate > 0)


def _degree(rate: float, classes: tuple[float, float]) -> str:
    return "light" if rate < classes[0] else "moderate" if rate < classes[1] else "heavy"


def _air(here: Conditions) -> str:
    if here.visibility >= 5000:
        return ""
    what = "visibility" if here.rain or here.snowfall else "fog" if here.visibility < 1000 else "haze"
    return f"{what} {here.visibility:g} m"


def _sky(here: Conditions) -> str:
    if here.sun < -6:
        return "night"
    if here.clouds > 0.9:
        return "overcast" if here.sun >= 0 else "overcast twilight"
    if here.sun < 0:
        return "twilight"
    side = "" if here.ahead < 0.5 else _side(here.azimuth)
    return f"low sun{side}" if here.sun < 15 else f"sun{side}" if side else "clear sky" if here.clouds < 0.5 else "cloudy"


def _side(azimuth: float) -> str:
    away = abs(azimuth)
    return " ahead" if away < 45 else " behind" if away > 135 else " from the left" if azimuth > 0 else " from the right"


def _ground(here: Conditions) -> str:
    wet = "wet road" if here.wet >= 0.5 else "damp road" if here.wet >= 0.05 else ""
    snow = "snow on the road" if here.snow >= 0.5 else "snow beside the road" if here.snow >= 0.05 else ""
    return ", ".join(part for part in (wet, snow) if part)


def _lamps(here: Conditions) -> str:
    return "lamps lit" if here.lamps > max(here.dark, 0.05) else ""


PRESETS: Mapping[str, Conditions] = MappingProxyType(
    {
        "clear": Conditions(),
        "sunshine": Conditions(sun=13.0, ahead=1.0, clouds=0.12),
        "overcast": Conditions(clouds=0.95, visibility=6000.0),
        "rain": Conditions(sun=30.0, clouds=1.0, visibility=700.0, rain=37.5, wetness=1.0),
        "snow": Conditions(sun=25.0, clouds=1.0, visibility=380.0, snowfall=3.0, snow=0.8),
        "fog": Conditions(sun=28.0, clouds=1.0, visibility=75.0),
        "dusk": Conditions(sun=-1.5, clouds=0.45, visibility=9000.0),
        "night": Conditions(sun=-25.0, clouds=0.4, visibility=6000.0),
        "snow-night": Conditions(sun=-25.0, clouds=1.0, visibility=320.0, snowfall=3.0, snow=0.8),
    }
)


def conditions(name: str = "clear", **changed: float) -> Conditions:
    """The named conditions, with some parameters changed."""
    check_known("conditions", name, PRESETS)
    for key in changed:
        if key not in declared():
            raise InputError(f"conditions: {unknown('parameter', key, declared())}")
    return replace(PRESETS[name], **changed)
