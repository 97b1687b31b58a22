"""What a check tells: concerns, each a note, a warning or a refusal, and the health that they make up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from swerve.core.errors import InputError

NO_EFFECT, NOTHING = "no effect", "nothing to find"


class Level(StrEnum):
    """How serious a concern is."""

    NOTE = "note"
    WARNING = "warning"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Concern:
    """One thing that a user should know before the run."""

    name: str
    level: Level
    why: str
    rule: str = ""  # that it is about, if any

    def as_dict(self) -> dict[str, str]:
        """The concern as plain JSON."""
        return {key: str(item) for key, item in asdict(self).items() if item or key != "rule"}


@dataclass(frozen=True)
class Health:
    """The system's own error, the estimated cost of the run, and every concern."""

    baseline: Mapping[str, Any]
    concerns: tuple[Concern, ...]
    trials: int | None
    seconds: float | None  # of CPU
    megabytes: float | None

    def as_dict(self) -> dict[str, Any]:
        """The content of `swerve check --json`."""
        estimate = {"trials": self.trials, "cpu_seconds": self.seconds, "megabytes": self.megabytes}
        concerns = [concern.as_dict() for concern in self.concerns]
        return {"baseline": dict(self.baseline), "estimate": estimate, "concerns": concerns, "healthy": not self.refusals}

    @property
    def refusals(self) -> tuple[Concern, ...]:
        """The concerns that stop a run."""
        return tuple(concern for concern in self.concerns if concern.level is Level.REFUSAL)

    def without_effect(self, rule: str) -> Concern | None:
        """The concern that the changes of a rule have no effect on the system, if there is one."""
        return next((one for one in self.concerns if (one.name, one.rule) == (NO_EFFECT, rule)), None)

    def refuse(self) -> None:
        """Raise `InputError` for the first refusal."""
        for concern in self.refusals:
            raise InputError(f"{concern.why}; to run it anyway: --force")
