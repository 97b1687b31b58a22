"""What is known of every case: the columns of its source's metadata, and what its labels say.

A column may have any values. To slice a run by it, numbers are put into at most four bins, and columns with more than
`MOST_SLICES` texts are left out.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from swerve.analysis.statistics import wilson
from swerve.core.case import Fact
from swerve.core.errors import StoreError
from swerve.core.relation import Status
from swerve.core.values import Boxes2D, Boxes3D, SceneRef, Steering
from swerve.store.artifacts import CASES
from swerve.store.files import read_json
from swerve.store.journal import Row
from swerve.store.view import Run

DRIVE, CURVE, LIGHT, SIZE, DISTANCE = "drive", "curve", "light state", "smallest object", "nearest object"
STRAIGHT = 5.0  # degrees of the steering wheel; beyond it, a label steers through a curve
SIZES = ((32.0**2, "below 32² px"), (96.0**2, "32² to 96² px"), (np.inf, "96² px or more"))  # COCO's areas
DISTANCES = ((15.0, "below 15 m"), (30.0, "15 to 30 m"), (np.inf, "30 m or more"))
LIGHTS = frozenset(("red", "yellow", "green", "off", "stop", "go", "warning"))
MOST_SLICES = 12
BINS = 4
Columns = Mapping[str, Fact]


def label_columns(truth: Iterable[Row]) -> dict[str, Fact]:
    """What the encoded labels of a case say: curve, light state, and the size and distance of objects."""
    found: dict[str, Fact] = {}
    for value in truth:
        read = _LABELS.get(str(value.get("slot")))
        found |= read(value) if read else {}
    return found


def _curve(value: Row) -> dict[str, Fact]:
    degrees = value.get("degrees")
    if not isinstance(degrees, int | float):
        return {}
    return {CURVE: "straight" if abs(degrees) <= STRAIGHT else "left" if degrees > 0 else "right"}


def _flat_objects(value: Row) -> dict[str, Fact]:
    kinds, boxes = set(map(str, value.get("kinds", ()))), _table(value.get("xyxy"), 4)
    light = {LIGHT: kinds.pop() if len(kinds) == 1 else "several"} if kinds and kinds <= LIGHTS else {}
    if not len(boxes):
        return {SIZE: "no object"}
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return {**light, SIZE: _class(float(areas.min()), SIZES)}


def _solid_objects(value: Row) -> dict[str, Fact]:
    boxes = _table(value.get("xyzlwhy"), 7)
    if not len(boxes):
        return {DISTANCE: "no object"}
    return {DISTANCE: _class(float(np.hypot(boxes[:, 0], boxes[:, 1]).min()), DISTANCES)}


def _conditions(value: Row) -> dict[str, Fact]:
    """The conditions that a frame of the embedded world was rendered under."""
    given = value.get("conditions")
    return {name: fact for name, fact in given.items() if isinstance(fact, int | float | str)} if given else {}


def _table(numbers: Any, width: int) -> Any:
    try:
        return np.asarray(numbers, dtype=float).reshape(-1, width)
    except (TypeError, ValueError):  # a damaged row
        return np.zeros((0, width))


def _class(number: float, classes: Sequence[tuple[float, str]]) -> str:
    return next(name for limit, name in classes if not number >= limit)


_LABELS: Mapping[str, Callable[[Row], dict[str, Fact]]] = {
    SceneRef.slot: _conditions,
    Steering.slot: _curve,
    Boxes2D.slot: _flat_objects,
    Boxes3D.slot: _solid_objects,
}


def metadata_of(run: Run) -> dict[str, Columns]:
    """The columns of the source's metadata by case, as the run has kept them; empty if there are none."""
    try:
        content = read_json(run.folder / CASES)
    except StoreError:  # a derived file
        return {}
    return {
        case: {str(name): fact for name, fact in columns.items() if isinstance(fact, str | int | float)}
        for case, columns in content.items()
        if isinstance(columns, dict)
    }


@dataclass(frozen=True)
class Slice:
    """The judged trials of the cases with one value of a column."""

    column: str
    value: str
    cases: int
    violated: int
    judged: int

    @property
    def rate(self) -> float:
        """The share of judged trials that violated."""
        return self.violated / self.judged if self.judged else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The rate's 95% Wilson interval."""
        return wilson(self.violated, self.judged)


class CaseTable:
    """The columns of every case of a run, and its judged trials; memory grows with the cases."""

    def __init__(self, metadata: Mapping[str, Columns] | None = None) -> None:
        self._metadata, self._labels = metadata or {}, dict[str, Columns]()
        self._counts: dict[str, list[int]] = {}

    def add(self, row: Row) -> None:
        """Take in an unchanged case and its label."""
        if not row["fault"]:
            drive = {DRIVE: row["group"]} if row["group"] not in ("", row["case"]) else {}
            self._labels[row["case"]] = {**drive, **label_columns(row["truth"])}

    def count(self, row: Row) -> None:
        """Count a trial, if it was judged."""
        failed = row["status"] == Status.VIOLATED.value
        if failed or row["status"] == Status.HELD.value:
            cell = self._counts.setdefault(row["case"], [0, 0])
            cell[0] += failed
            cell[1] += 1

    def of(self, case: str) -> dict[str, Fact]:
        """Every column of a case; what the source says goes before what its labels say."""
        return {**self._labels.get(case, {}), **self._metadata.get(case, {})}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order of appearance."""
        return tuple(dict.fromkeys(name for case in self._labels for name in self.of(case)))

    def rows(self) -> Iterator[tuple[str, dict[str, Fact]]]:
        """Every case with its columns."""
        return ((case, self.of(case)) for case in self._labels)

    @cached_property
    def bins(self) -> Mapping[str, Callable[[Fact], str]]:
        """How the values of each column that can be sliced are called."""
        values: dict[str, dict[Fact, None]] = {}
        for case in self._labels:
            for name, fact in self.of(case).items():
                values.setdefault(name, {})[fact] = None
        found = {name: _binning(list(known)) for name, known in values.items()}
        return {name: spell for name, spell in found.items() if spell}

    def slices_of(self, case: str) -> dict[str, str]:
        """The value of a case in every column that can be sliced."""
        facts = self.of(case)
        return {name: spell(facts[name]) for name, spell in self.bins.items() if name in facts}

    def slices(self, counts: Mapping[str, Sequence[int]] | None = None) -> dict[str, list[Slice]]:
        """The judged trials of every column by its values, in order; or other `counts` by case, failed and judged."""
        given = self._counts if counts is None else counts
        found: dict[str, dict[str, list[int]]] = {name: {} for name in self.bins}
        for case in self._labels:
            failed, judged = given.get(case, (0, 0))
            for name, value in self.slices_of(case).items():
                cell = found[name].setdefault(value, [0, 0, 0])
                for place, number in enumerate((judged > 0, failed, judged)):
                    cell[place] += number
        return {
            name: [Slice(name, value, *cells[value]) for value in sorted(cells, key=_first_number)]
            for name, cells in found.items()
        }


def _binning(values: list[Fact]) -> Callable[[Fact], str] | None:
    """The name of each value's slice; None if the column has one value only, or too many texts."""
    if len(values) < 2:
        return None
    numbers = sorted(float(value) for value in values if isinstance(value, int | float))
    if len(values) <= MOST_SLICES // 2 or (len(values) <= MOST_SLICES and not numbers):
        return lambda value: f"{value:g}" if isinstance(value, float) else str(value)
    if len(numbers) < len(values):
        return None
    edges = sorted({float(f"{edge:.2g}") for edge in np.quantile(numbers, np.arange(1, BINS) / BINS)})
    names = _bin_names(edges)
    return lambda value: names[bisect_right(edges, float(value))]


def _bin_names(edges: Sequence[float]) -> list[str]:
    between = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges)]
    return [f"below {edges[0]:g}", *between, f"{edges[-1]:g} or more"]


def _first_number(value: str) -> tuple[float, str]:
    """Bins by their numbers, a bin without a lower end first; texts by themselves."""
    found = re.search(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", value)
    low = -np.inf if value.startswith("below") else float(found[0]) if found else np.inf
    return low, value
