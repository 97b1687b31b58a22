"""Numbers as SVG charts, in the colours of the page they stand on: boxes, bars, shares, lines and points."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self

from markupsafe import Markup

from swerve.analysis.statistics import BoxPlot, wilson

NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Bar:
    """A number to draw, its interval where it has one, what the paper printed for it, and words for who points at it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    printed: float | None = None
    told: str = ""

    @classmethod
    def rate(cls, successes: int, trials: int, *, printed: float | None = None) -> Self:
        """A share with its 95% Wilson interval; no bar where there were no trials."""
        if not trials:
            return cls(None, printed=printed, told="nothing judged")
        return cls(successes / trials, *wilson(successes, trials), printed, f"{successes:,} of {trials:,}")


class Spot(NamedTuple):
    """A point of a line, and the band around it where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


def box_plots(
    series: Mapping[str, BoxPlot | None], *, axis: str = "", percent: bool = False, printed: Mapping[str, float] = NONE
) -> Markup:
    """A row per name: quartiles, median and whiskers; `printed` marks the paper's medians."""
    raise NotImplementedError


def bars(groups: Mapping[str, Mapping[str, Bar]], *, axis: str = "", percent: bool = False) -> Markup:
    """A group of rows per name, in each a bar per series, with its interval and the paper's number where given."""
    raise NotImplementedError


def stacked(rows: Mapping[str, Mapping[str, float]], *, axis: str = "") -> Markup:
    """A row per name whose parts, such as lost, equal and gained, are drawn as shares of their sum."""
    raise NotImplementedError


def lines(
    series: Mapping[str, Sequence[Spot]], *, x: str = "", y: str = "", log_x: bool = False, percent: bool = False,
    dashed: Collection[str] = (),
) -> Markup:  # fmt: skip
    """A line per name through its spots, in the order of x; those of the paper can be `dashed`."""
    raise NotImplementedError


def points(xs: Sequence[float], ys: Sequence[float], *, x: str = "", y: str = "", kinds: Sequence[str] = ()) -> Markup:
    """A mark per pair of numbers, coloured by its kind; of very many, an even selection."""
    raise NotImplementedError
