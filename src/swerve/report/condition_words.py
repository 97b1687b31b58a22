"""The critical conditions that a run found, in sentences, and where its time went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swerve.analysis.numbers import SUMMARY, TIMINGS, derived_file
from swerve.store.view import Run

DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def has_conditions(run: Run) -> bool:
    """Whether a run searched for conditions, and has finished."""
    return bool(derived_file(run, SUMMARY).get("conditions"))


def condition_sentences(run: Run) -> list[str]:
    """The conditions that a run found, each in a sentence; none if the summary is damaged."""
    try:
        return [sentence(one) for one in derived_file(run, SUMMARY).get("conditions", ())]
    except DAMAGED:
        return []


def time_split(run: Run) -> str:
    """The shares of changes, answers and search in the time of the last run, in words; empty if none was measured."""
    stages = derived_file(run, TIMINGS).get("stages", {})
    try:
        total = sum(map(float, stages.values()))
        shares = [f"{name} {seconds / total:.0%}" for name, seconds in stages.items()] if total else []
    except DAMAGED:
        return ""
    return f"time: {', '.join(shares)}" if shares else ""


def sentence(condition: Mapping[str, Any]) -> str:
    """A condition in a sentence: "fog 42 m, low sun ahead, wet road: 5 of 16 scenes beyond 30°"."""
    scenes = int(condition["scenes"]) - int(condition["refused"])
    errors = {name: int(count) for name, count in condition["errors"].items()}
    limit = next((name for name in reversed(errors) if errors[name]), None)
    unit = "°" if "10" in errors else ""
    words = str(condition["in_words"]).removeprefix("rendered again: ")
    if limit is None:
        return f"{words}: none of {scenes} scenes beyond {next(iter(errors))}{unit}"
    first = next(iter(errors))
    more = "" if limit == first else f", {errors[first]} beyond {first}{unit}"
    return f"{words}: {errors[limit]} of {scenes} scenes beyond {limit}{unit}{more}"
