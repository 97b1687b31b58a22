"""How strong a change is, how believable a finding is as evidence, and the strongest milder change that held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from swerve.config.registry import resolve
from swerve.core.errors import SpecError
from swerve.core.names import all_names
from swerve.core.origin import Origin
from swerve.core.relation import Status
from swerve.core.transformation import Param, Transformation, params_of
from swerve.core.values import LARGEST_NUMBER
from swerve.store.journal import Row
from swerve.store.record_json import Finding

UNKNOWN = 0.5  # the strength of a change whose parameters are not declared by a registered class
FILL = "fill"  # the fact with the share of pixels that a change had to invent
MOST_HELD = 64  # values of one parameter that are kept for a case and a rule
WEAK = (Origin.ALREADY_WRONG, Origin.MARGINAL)  # origins that say little about the change


class ChangeNumber(NamedTuple):
    """A number of an encoded change: its label in a chain, its name, the class it belongs to, and its value."""

    label: str
    name: str
    use: object
    value: float


def numbers_of_change(change: Mapping[str, Any] | None, prefix: str = "") -> Iterable[ChangeNumber]:
    """Every number of a change, those of a chain's steps included."""
    for name, item in (change or {}).items():
        if isinstance(item, int | float) and not isinstance(item, bool) and abs(item) <= LARGEST_NUMBER:
            yield ChangeNumber(f"{prefix}{name}", name, (change or {}).get("use"), float(item))
        elif name == "steps" and isinstance(item, list):
            for index, step in enumerate(item):
                yield from numbers_of_change(step, f"{prefix}steps[{index}].")


def declared(use: object) -> Mapping[str, Param]:
    """The declared parameters of a registered class; none of any other, which is not imported."""
    return _declared(use) if isinstance(use, str) else {}


@cache
def _declared(use: str) -> Mapping[str, Param]:
    if use not in all_names():
        return {}
    try:
        kind = resolve(use)
    except SpecError:  # an installed package that cannot be imported any more
        return {}
    return params_of(kind) if isinstance(kind, type) and issubclass(kind, Transformation) else {}


def strength(change: Mapping[str, Any]) -> float:
    """How strong a change is, from 0, which does nothing, to 1, the end of the range that is usual for it."""
    known = [share for share in map(_share, numbers_of_change(change)) if share is not None]
    if known:
        return max(known)
    return 0.0 if set(_uses(change)) <= all_names().keys() else UNKNOWN


def _uses(change: Mapping[str, Any]) -> list[str]:
    steps = change.get("steps")
    inner = [use for step in steps for use in _uses(step)] if isinstance(steps, list) else []
    return [str(change.get("use")), *inner]


def _share(number: ChangeNumber) -> float | None:
    facts = declared(number.use).get(number.name)
    if facts is None or not facts.graded:
        return None
    reach = max(abs(end - facts.neutral) for end in facts.usual)
    return min(abs(number.value - facts.neutral) / reach, 1.0) if reach else 0.0


def believable_first(finding: Finding) -> tuple[bool, bool, float, float, str]:
    """What sorts findings by how much they convince.

    Failures that the change introduced come before those that were there, and flaky ones last; then mild changes that keep
    the picture come before strong ones and those that leave much of it empty; then the largest margins.
    """
    fill = finding.facts.get(FILL)
    unlikely = max(strength(finding.change), fill if isinstance(fill, float) else 0.0)
    return finding.flaky, finding.origin in WEAK, round(unlikely, 3), -finding.margin, finding.id


class MilderTrials:
    """Trials that held, to name the strongest change that held on the same case and is milder than a failing one.

    Only of changes with one declared number that is not neutral. Memory grows with cases and rules, not with trials.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[object, ...], list[float]] = {}

    def add(self, row: Row) -> None:
        """Take in a trial, if it held."""
        if row["status"] == Status.HELD.value and (found := _one_number(row["change"])) is not None:
            values = self._held.setdefault((row["case"], row["rule"], found[0].use, found[0].name), [])
            if len(values) < MOST_HELD:
                values.append(found[0].value)

    def words(self, finding: Finding) -> str:
        """Where the parameter fails and holds, `degrees fails at 9°, holds at 6°`; empty if no milder change held."""
        if (found := _one_number(finding.change)) is None:
            return ""
        number, facts = found
        fails = number.value - facts.neutral
        held = (value - facts.neutral for value in self._held.get((finding.case, finding.rule, number.use, number.name), ()))
        milder = [away for away in held if away * fails > 0 and abs(away) < abs(fails)]
        if not milder:
            return ""
        holds = facts.neutral + max(milder, key=abs)
        return f"{number.name} fails at {number.value:g}{facts.unit}, holds at {holds:g}{facts.unit}"


def _one_number(change: Mapping[str, Any] | None) -> tuple[ChangeNumber, Param] | None:
    found = [
        (number, facts)
        for number in numbers_of_change(change)
        if (facts := declared(number.use).get(number.name)) and facts.graded and number.value != facts.neutral
    ]
    return found[0] if len(found) == 1 else None
