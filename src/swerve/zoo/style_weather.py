"""Frames of the embedded world to learn styles from: the named conditions, varied from drive to drive within their kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from swerve.core.seeding import digest_of, rng_for
from swerve.world.conditions import Conditions, conditions
from swerve.world.source import DAY, World

# Of every parameter that varies: from, to. A style can only be a night among nights if there was more than one.
RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "night": {"sun": (-30, -7), "clouds": (0, 1), "visibility": (1500, 15_000), "wetness": (0, 0.4)},
        "sunshine": {"sun": (7, 20), "azimuth": (-35, 35), "clouds": (0, 0.3)},
        "rain": {"sun": (15, 40), "clouds": (0.9, 1), "visibility": (400, 1500), "rain": (15, 50), "wetness": (0.8, 1)},
        "snow": {"sun": (12, 40), "clouds": (0.9, 1), "visibility": (250, 1000), "snowfall": (1.5, 4.5), "snow": (0.6, 1)},
        "snow-night": {
            "sun": (-30, -7), "clouds": (0.8, 1), "visibility": (220, 800), "snowfall": (1.5, 4.5), "snow": (0.6, 1),
        },
    }
)  # fmt: skip


def varied(name: str, key: str) -> Conditions:
    """The conditions called `name` as they are in the scene `key`; those without ranges are the same everywhere."""
    rng = rng_for(0, key, "varied conditions", name)
    drawn = {parameter: float(rng.uniform(*ends)) for parameter, ends in RANGES.get(name, {}).items()}
    return replace(conditions(name), **drawn)


@dataclass(frozen=True)
class VariedWorld(World):
    """The embedded world where night is not one night: every drive has its own conditions of the named kind."""

    def weather(self, key: str) -> Conditions:
        """The conditions of a scene."""
        return super().weather(key) if self.conditions == DAY else varied(self.conditions, key)

    def fingerprint(self) -> str:
        """That of the world, and of the ranges."""
        return digest_of(super().fingerprint(), "varied", {name: dict(ends) for name, ends in RANGES.items()})
