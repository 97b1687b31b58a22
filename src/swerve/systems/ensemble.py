"""Several systems as one: the answer of the first, and beside it the answers of all members about the same quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swerve.core.case import Case
from swerve.core.errors import InputError, ModelError
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, System
from swerve.core.values import Group, Value, find


@dataclass(frozen=True)
class Ensemble:
    """The first member's answer, then a `Group` of all members' values for each quantity that all of them answer.

    Rules about one answer use the first member's; `Agreement` compares the members.
    """

    members: tuple[System, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if len(self.members) < 2:
            raise InputError(f"an ensemble needs at least two members, got {len(self.members)}")
        for number, member in enumerate(self.members, 1):
            if not isinstance(member, System):
                raise InputError(f"member {number} of the ensemble must be a system, got {type(member).__name__}")
            if isinstance(member, Ensemble):
                raise InputError(f"member {number} of the ensemble is an ensemble itself; list its members directly")

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        answered = [self._answers(number, cases) for number in range(len(self.members))]
        return [_combine(answers) for answers in zip(*answered, strict=True)]

    def fingerprint(self) -> str:
        """A hash of the members' fingerprints, in order."""
        return digest_of("Ensemble", [member.fingerprint() for member in self.members])

    def _answers(self, number: int, cases: Sequence[Case]) -> list[Answer]:
        answers = list(self.members[number](cases))
        if len(answers) != len(cases):
            raise ModelError(f"member {number + 1} of the ensemble returned {len(answers)} answers for {len(cases)} cases")
        return answers


def _combine(answers: Sequence[Answer]) -> Answer:
    quantities = dict.fromkeys(_quantity(value) for value in answers[0] if not isinstance(value, Group))
    found = (tuple(value for answer in answers if (value := find(answer, *each)) is not None) for each in quantities)
    return (*answers[0], *(Group(values) for values in found if len(values) == len(answers)))


def _quantity(value: Value) -> tuple[str, str | None]:
    """What a value is about: its slot and, for a signal, its name."""
    return value.slot, getattr(value, "name", None)
