"""Several systems as one: it says what the first says, and beside it what all of them say of the same thing."""

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
    """The first member's answer, then a `Group` for each thing that all members say, their values in member order.

    Rules about one answer see the first member's; `Agreement` compares the members.
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
                raise InputError(f"member {number} of the ensemble is one itself; list its members side by side")

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        said = [self._said(number, cases) for number in range(len(self.members))]
        return [_together(answers) for answers in zip(*said, strict=True)]

    def fingerprint(self) -> str:
        """A hash of the members' fingerprints, in order."""
        return digest_of("Ensemble", [member.fingerprint() for member in self.members])

    def _said(self, number: int, cases: Sequence[Case]) -> list[Answer]:
        answers = list(self.members[number](cases))
        if len(answers) != len(cases):
            raise ModelError(f"member {number + 1} of the ensemble gave {len(answers)} answers to {len(cases)} cases")
        return answers


def _together(answers: Sequence[Answer]) -> Answer:
    things = dict.fromkeys(_thing(value) for value in answers[0] if not isinstance(value, Group))
    said = (tuple(value for answer in answers if (value := find(answer, *thing)) is not None) for thing in things)
    return (*answers[0], *(Group(values) for values in said if len(values) == len(answers)))


def _thing(value: Value) -> tuple[str, str | None]:
    """What a value is about: its slot, and the name of a signal."""
    return value.slot, getattr(value, "name", None)
