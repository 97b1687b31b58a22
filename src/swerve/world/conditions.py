"""Weather and time of day as parameters of a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType

from swerve.core.arguments import check_number
from swerve.core.errors import InputError, did_you_mean

CLEAR_AIR = 20_000.0  # metres
LIMITS = {
    "sun": (-90.0, 90.0),
    "ahead": (0.0, 1.0),
    "clouds": (0.0, 1.0),
    "visibility": (5.0, CLEAR_AIR),
    "rain": (0.0, 1.0),
    "snowfall": (0.0, 1.0),
    "snow": (0.0, 1.0),
}


@dataclass(frozen=True)
class Conditions:
    """The state of air, sky and ground; the geometry of a scene does not depend on it."""

    sun: float = 42.0  # degrees above the horizon; lamps are lit below 2
    ahead: float = 0.0  # 1: the sun is in front of the camera; 0: at the scene's own azimuth
    clouds: float = 0.3  # 0..1; above 0.9 nothing casts a shadow
    visibility: float = CLEAR_AIR  # metres
    rain: float = 0.0  # 0..1: streaks in the air, water on the road
    snowfall: float = 0.0  # 0..1: flakes in the air
    snow: float = 0.0  # 0..1: how much of the ground it covers

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            try:
                check_number(name, getattr(self, name), low, high)
            except ValueError as error:
                raise InputError(f"conditions: {error}") from error

    @property
    def wet(self) -> float:
        """How strongly the road reflects, 0..1."""
        return min(1.0, self.rain * 1.4)

    def numbers(self) -> Mapping[str, float]:
        """Every parameter by name."""
        return asdict(self)


PRESETS: Mapping[str, Conditions] = MappingProxyType(
    {
        "clear": Conditions(),
        "sunshine": Conditions(sun=13.0, ahead=1.0, clouds=0.12),
        "overcast": Conditions(clouds=0.95, visibility=6000.0),
        "rain": Conditions(sun=30.0, clouds=1.0, visibility=700.0, rain=0.75),
        "snow": Conditions(sun=25.0, clouds=1.0, visibility=380.0, snowfall=0.6, snow=0.8),
        "fog": Conditions(sun=28.0, clouds=1.0, visibility=75.0),
        "dusk": Conditions(sun=-1.5, clouds=0.45, visibility=9000.0),
        "night": Conditions(sun=-25.0, clouds=0.4, visibility=6000.0),
        "snow-night": Conditions(sun=-25.0, clouds=1.0, visibility=320.0, snowfall=0.6, snow=0.8),
    }
)


def conditions(name: str = "clear", **changed: float) -> Conditions:
    """The named conditions, with some parameters changed."""
    if name not in PRESETS:
        raise InputError(f"unknown conditions {name!r}: {did_you_mean(name, PRESETS)}")
    known = {field.name for field in fields(Conditions)}
    for key in changed:
        if key not in known:
            raise InputError(f"conditions have no parameter {key!r}: {did_you_mean(key, known)}")
    return replace(PRESETS[name], **changed)
