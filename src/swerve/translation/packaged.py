"""The networks that come with Swerve: translators into five conditions of the embedded world, and what draws its objects."""

from __future__ import annotations

from pathlib import Path

from swerve.core.asset import Asset
from swerve.core.errors import InputError

WEIGHTS = Path(__file__).parent / "weights"
STYLES = ("night", "sunshine", "rain", "snow", "snow-night")
PAINTER = "painter"  # draws objects from label maps
UNIT_SUFFIX = "-unit"  # of the name of a style's translator of kind `unit`


def packaged(name: str) -> Path:
    """The file of a packaged network; raises `InputError` if it has not been trained yet."""
    if not is_packaged(name):
        raise InputError(f"{name} is not trained yet: run `swerve zoo train {name}` and give the file that it writes")
    return WEIGHTS / f"{name}.safetensors"


def is_packaged(name: str) -> bool:
    """Whether a network's weights are included."""
    return (WEIGHTS / f"{name}.safetensors").is_file()


def packaged_painter() -> Asset:
    """The painter of the embedded world's objects."""
    return Asset(packaged(PAINTER))


def trained_styles(*, unit: bool = False) -> list[str]:
    """The styles whose weights are included, of one kind of translator."""
    return [name for name in STYLES if is_packaged(f"{name}{UNIT_SUFFIX if unit else ''}")]
