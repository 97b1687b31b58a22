"""The gate for follow-ups that are mostly border."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swerve.case import Case


@dataclass(frozen=True)
class MaxFill:
    """Refuses a follow-up of which more than `share` is border fill rather than image (D-10)."""

    share: float = 0.5
    first_frame: ClassVar[bool] = True  # of a window, it goes by that alone

    def __post_init__(self) -> None:
        wrong_type = isinstance(self.share, bool) or not isinstance(self.share, int | float)
        if wrong_type or not 0 <= self.share <= 1:
            raise ValueError(f"share must be a number from 0 to 1, got {self.share!r}")

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None; one that recorded no fill has none."""
        del source
        fill = float(followup.facts.get("fill", 0.0))
        return f"{fill:.1%} of the image is border fill, more than {self.share:.1%}" if fill > self.share else None
