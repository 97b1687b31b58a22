"""Checks that changes have an effect on the system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from swerve.analysis.baseline import angles
from swerve.core.campaign import Campaign, Observation, Record
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import printable
from swerve.core.relation import Status
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Array, Steering, find
from swerve.execution.answers import without_truth
from swerve.execution.checks.concern import NO_EFFECT, NOTHING, Concern, Level
from swerve.execution.checks.sampling import any_violated, is_empty
from swerve.execution.evaluator import read_case
from swerve.relations.unjudged import Unjudged

FAINT = 0.1  # a move below this share of the system's own error is negligible


def idle(campaign: Campaign, records: Mapping[str, Sequence[Record]]) -> Iterator[Concern]:
    """Rules whose changes cannot be made, or have no effect on the system (R29, D-9)."""
    dead: list[str] = []
    for name, some in records.items():
        head = f"rule '{printable(name, 60)}'"
        judged = [record for record in some if record.verdict.status in (Status.HELD, Status.VIOLATED)]
        if isinstance(campaign.rule(name).expect, Unjudged):
            dead.append(f"{head}: it judges nothing")
        elif not judged and some:
            # A change that fails here may work on other cases; one that does not apply to any of them is useless.
            why = f"{head}: none of {len(some)} changes tried could be judged: {printable(some[0].verdict.why, 120)}"
            dead += [why] if all(record.verdict.status is Status.SKIPPED for record in some) else []
            yield Concern("never judged", Level.WARNING, why, name)
        elif judged and not _undecided(judged) and not any(_reaches(campaign, record) for record in judged):
            example = printable(repr(judged[0].change), 60)
            shown = _sees(campaign) is not None
            what = "the system's input and answer" if shown else "the system's answer"
            why = f"{head}: {len(judged)} changes such as {example} leave {what} unchanged"
            # Unless a system shows its preprocessed input, its answers to a few changes prove nothing about others.
            dead += [why] if shown and not any_violated(judged) else []
            yield Concern(NO_EFFECT, Level.WARNING, why, name)
    if dead and len(dead) == len(records):
        yield Concern(NOTHING, Level.REFUSAL, f"none of the {len(dead)} rules can find anything; {dead[0]}")


def _undecided(judged: Sequence[Record]) -> bool:
    """Whether equal answers prove nothing: the change is `Unchanged`, or the answers are empty before and after."""
    idle = all(isinstance(record.change, Unchanged) for record in judged)
    return idle or all(is_empty(record.before) and is_empty(record.after) for record in judged)


def _reaches(campaign: Campaign, record: Record) -> bool:
    """Whether a change alters the system's answer or, where the system can show it, its preprocessed input."""
    if encode(record.before) != encode(record.after):
        return True
    sees = _sees(campaign)
    if sees is None or not isinstance(record.change, Transformation):
        return False
    case = read_case(campaign, record.trial.case)
    return not np.array_equal(sees(without_truth(case)), sees(without_truth(record.change(case))))


def _sees(campaign: Campaign) -> Callable[[Case], Array] | None:
    """The function from a case to the system's preprocessed input, where it offers one."""
    sees: Callable[[Case], Array] | None = getattr(campaign.system, "sees", None)
    return sees if callable(sees) else None


def faint(usable: Sequence[Observation], records: Mapping[str, Sequence[Record]]) -> Iterator[Concern]:
    """Rules whose changes hardly affect the system, such as a larger picture that its own resizing undoes (D-9)."""
    labels, answers = (np.array(numbers) for numbers in angles(usable))
    error = float(np.sqrt(np.mean((answers - labels) ** 2))) if len(labels) else 0.0
    for name, some in records.items():
        judged = [record for record in some if record.verdict.status in (Status.HELD, Status.VIOLATED)]
        pairs = [(find(record.before, Steering.slot), find(record.after, Steering.slot)) for record in judged]
        moved = [abs(a.degrees - b.degrees) for a, b in pairs if isinstance(a, Steering) and isinstance(b, Steering)]
        if moved and 0 < max(moved) < FAINT * error:
            head = f"rule '{printable(name, 60)}': {len(moved)} changes tried move the answer by {max(moved):.2g}° at most"
            why = f"{head}, less than {FAINT:.0%} of the system's own error of {error:.3g}°"
            yield Concern("hardly reaches the system", Level.WARNING, why, name)
