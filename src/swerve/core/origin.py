"""Where a failure comes from: the change introduced it, made it worse, or it was there before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from swerve.core.case import Fact
from swerve.core.transformation import Transformation
from swerve.core.values import Signal, Steering, Value, find

if TYPE_CHECKING:
    from swerve.core.campaign import Observation

LEAST_DEGREES = 1.0  # of the steering wheel
SHARE_OF_RMSE = 0.25


class Origin(StrEnum):
    """Where a violation comes from; every violation has exactly one origin."""

    #
    INTRODUCED = "introduced"  # the untouched answer held, and the answer moved by more than the least shift
    MADE_WORSE = "made-worse"  # the untouched answer was wrong, and the error grew by more than the least shift
    ALREADY_WRONG = "already-wrong"  # the untouched answer was wrong, and the error did not grow by more
    MARGINAL = "marginal"  # the untouched answer held, and crossed the limit without moving by more
    UNKNOWN = "unknown"  # the untouched answer cannot be judged

    @property
    def key(self) -> str:
        """The name of its count in files."""
        return "unknown_origin" if self is Origin.UNKNOWN else self.value.replace("-", "_")

    @property
    def words(self) -> str:
        """The name that people read."""
        return self.key.replace("_", " ")


# A finding of several violations is introduced if any of them is. One of unknown origin might be, which leaves only what is
# certain in any case; and it is marginal only if all are.
OF_SOME = (Origin.INTRODUCED, Origin.MADE_WORSE, Origin.UNKNOWN, Origin.ALREADY_WRONG, Origin.MARGINAL)
# If one of several relations suffices, it held before if any did, and the least violation of those decides.
OF_ALL = (Origin.MARGINAL, Origin.INTRODUCED, Origin.UNKNOWN, Origin.ALREADY_WRONG, Origin.MADE_WORSE)


class Attribution(NamedTuple):
    """The origin of a violation, and the facts that it is read from, for the record."""

    origin: Origin
    facts: Mapping[str, Fact] = {}


def combined(found: Sequence[Attribution], ranking: Sequence[Origin]) -> Attribution:
    """The first origin in `ranking` that occurs, with the facts of all; unknown if there is none."""
    if not found:
        return Attribution(Origin.UNKNOWN)
    chosen = min(found, key=lambda one: ranking.index(one.origin))
    return Attribution(chosen.origin, {**{k: v for one in found for k, v in one.facts.items()}, **chosen.facts})


def origin_by_shift(*, held: bool, moved: float, grown: float, least: float | None) -> Origin:
    """The origin from how far the answer moved and the error grew; without a least shift, none is marginal.

    If the answer moved by at most the least shift, it also crossed the limit by at most that.
    """
    if held:
        return Origin.INTRODUCED if least is None or moved > least else Origin.MARGINAL
    return Origin.MADE_WORSE if grown > (least or 0.0) else Origin.ALREADY_WRONG


@dataclass(frozen=True)
class Course:
    """A value of the untouched answer, what it should have been, and the same of the follow-up's answer.

    For a rule on the system's own answer, what the untouched answer should have been is that answer itself.
    """

    reference: Value
    before: Value
    expected: Value
    after: Value
    change: Transformation

    def origin(self, *, held: bool, least: float | None) -> Attribution | None:
        """The origin by the distances between numbers; None if the values are not numbers."""
        error_before, error_after = distance(self.reference, self.before), distance(self.expected, self.after)
        if error_before is None or error_after is None:
            return None
        moved = distance(self.change.map(self.before), self.after)
        if moved is None:
            return None
        facts = {"shift": moved} if least is None else {"shift": moved, "least_shift": least}
        return Attribution(origin_by_shift(held=held, moved=moved, grown=error_after - error_before, least=least), facts)


def distance(one: Value, other: Value) -> float | None:
    """How far apart two numbers are, in their own unit; None for values that are not numbers."""
    if isinstance(one, Steering) and isinstance(other, Steering):
        return abs(one.degrees - other.degrees)
    if isinstance(one, Signal) and isinstance(other, Signal):
        return abs(one.value - other.value)
    return None


@dataclass(frozen=True)
class LeastShift:
    """The smallest movement of an answer that counts: as `given` by the rule, or by the system's error where it is not.

    By default it is 25% of the system's RMSE on the untouched cases, and for steering at least one degree.
    """

    given: float | None = None
    rmse: Mapping[tuple[str, str | None], float] = field(default_factory=dict)

    def of(self, slot: str, name: str | None = None) -> float | None:
        """The least shift of a steering angle or of the signal `name`; None if nothing is known of it."""
        if self.given is not None:
            return self.given
        share = self.rmse.get((slot, name), 0.0) * SHARE_OF_RMSE
        return max(LEAST_DEGREES, share) if slot == Steering.slot else share or None


def rmse_of(baseline: Iterable[Observation]) -> dict[tuple[str, str | None], float]:
    """The root mean square error of steering angles, and of signals by name, on the labelled cases that were answered."""
    errors: dict[tuple[str, str | None], list[float]] = {}
    for seen in baseline:
        for label in () if seen.fault else seen.truth:
            name = getattr(label, "name", None)
            answer = find(seen.answer, label.slot, name)
            if answer is not None and (apart := distance(label, answer)) is not None:
                errors.setdefault((label.slot, name), []).append(apart)
    return {key: math.hypot(*apart) / math.sqrt(len(apart)) for key, apart in errors.items()}


def place_facts(origins: Mapping[int, Origin], what: str) -> dict[str, Fact]:
    """The places of objects by origin, as facts such as `introduced_rows`: "0 3"."""
    places = {origin: [place for place, one in sorted(origins.items()) if one is origin] for origin in Origin}
    return {f"{origin.key}_{what}": " ".join(map(str, found)) for origin, found in places.items() if found}
