"""The translators that come with Swerve: five conditions of the embedded world, from its day."""

from __future__ import annotations

from pathlib import Path

from swerve.core.errors import InputError

WEIGHTS = Path(__file__).parent / "weights"
STYLES = ("night", "sunshine", "rain", "snow", "snow-night")
UNIT_SUFFIX = "-unit"  # of the name of a style's translator of kind `unit`


def packaged(name: str) -> Path:
    """The file of a packaged network; raises `InputError` if it has not been trained yet."""
    file = WEIGHTS / f"{name}.safetensors"
    if not file.is_file():
        raise InputError(f"{name} is not trained yet: run `swerve zoo train {name}` and give the file that it writes")
    return file


def trained_styles(*, unit: bool = False) -> list[str]:
    """The styles whose weights are included, of one kind of translator."""
    return [name for name in STYLES if (WEIGHTS / f"{name}{UNIT_SUFFIX if unit else ''}.safetensors").is_file()]
