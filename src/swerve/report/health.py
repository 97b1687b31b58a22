"""The health check of a run as it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swerve.analysis.numbers import HEALTH, derived_file
from swerve.store.view import Run


@dataclass(frozen=True)
class ShownHealth:
    """The health check before the first trial: numbers on the untouched cases, and every concern."""

    numbers: Mapping[str, str]
    concerns: tuple[Mapping[str, str], ...]  # each with a name, a level and why


def health_of(run: Run) -> ShownHealth | None:
    """The numbers and concerns of `health.json`, formatted for display; None if the file is missing or invalid."""
    content = derived_file(run, HEALTH)
    baseline, concerns = content.get("baseline"), content.get("concerns")
    if not isinstance(baseline, dict) or not isinstance(concerns, list):
        return None
    numbers = {
        name.replace("_", " "): f"{item:.4g}" if isinstance(item, float) else str(item) for name, item in _flat(baseline)
    }
    named = [
        {key: str(item.get(key, "")) for key in ("name", "level", "why")} for item in concerns if isinstance(item, dict)
    ]
    return ShownHealth(numbers, tuple(named))


def _flat(baseline: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, item) for name, item in baseline.items() if isinstance(item, str | int | float))
