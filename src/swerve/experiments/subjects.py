"""The subjects of an experiment: systems under test with their cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from swerve.core.case import Source
from swerve.core.system import System
from swerve.execution.cost import SAMPLED
from swerve.sources.subset import Subset


@dataclass(frozen=True)
class Subject:
    """A system under test, its cases, and the network of the paper that it is compared with."""

    name: str
    system: System
    cases: Source | Callable[[], Source]  # a function renders them when they are first used
    like: str = ""  # the network's name in the paper
    few: Source | Callable[[], Source] | None = None  # a few cases to estimate costs with; by default some of `cases`
    known: int = 0  # the number of cases, if it is known before they are made

    @cached_property
    def source(self) -> Source:
        """Its cases."""
        return _source(self.cases)

    @property
    def count(self) -> int:
        """The number of cases."""
        return self.known or len(self.source.keys())

    def sampled(self) -> Subject:
        """The same with a few cases, which stand for all of them in an estimate."""
        return replace(self, cases=_source(self.few) if self.few else Subset(self.source, SAMPLED), known=self.count)


def _source(made: Source | Callable[[], Source]) -> Source:
    return made if isinstance(made, Source) else made()
