"""A relation for trials that are run to measure something, and not to be judged."""

from __future__ import annotations

from dataclasses import dataclass

from swerve.core.relation import Pair, Verdict

REASON = "measured for the search, not judged"


@dataclass(frozen=True)
class Unjudged:
    """Judges nothing: a search tries changes under this relation, and only what it has chosen is judged by another."""

    def check(self, pair: Pair) -> Verdict:
        """Skipped; the record still has the answers."""
        del pair
        return Verdict.skipped(REASON)

    def untouched(self, alone: Pair) -> None:
        """No verdict."""
        del alone
