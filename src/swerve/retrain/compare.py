"""Before and after a retraining, on the same cases: original ones and follow-ups of cases that never trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from swerve.analysis.detection import average_precision
from swerve.analysis.statistics import Estimate, Outcome, paired_bootstrap, signed_rank
from swerve.analysis.tables import TABLES
from swerve.case import Case, Source
from swerve.engine import Progress, Silent, answer_all
from swerve.errors import InputError
from swerve.files import make_folder, write_csv
from swerve.retrain.dataset import Skips, stream
from swerve.system import Answer, System
from swerve.values import Array, Boxes2D, Steering, find

MSE, RMSE, MAP, AP = "MSE, rad²", "RMSE, degrees", "mAP", "AP per picture"
COLUMNS = ("data", "measure", "cases", "skipped", "before", "after", "change", "low", "high", "p")
BATCH = 16


@dataclass(frozen=True)
class Compared:
    """One measure on one set before and after; the change's interval and `p` come from the same cases in pairs."""

    data: str
    measure: str
    cases: int
    skipped: int  # cases that did not read, or that one of the two systems had no answer to
    before: float | None
    after: float | None
    change: Estimate = field(default_factory=lambda: Estimate(0))
    test: Outcome = field(default_factory=lambda: Outcome(0))

    def row(self) -> tuple[object, ...]:
        """The cells of `tables/retrain.csv`."""
        change = None if self.before is None or self.after is None else self.after - self.before
        told = (self.data, self.measure, self.cases, self.skipped, self.before, self.after, change)
        return (*told, self.change.low, self.change.high, self.test.p)


def compare(
    before: System, after: System, sets: Mapping[str, Source], *, seed: int = 0, progress: Progress | None = None
) -> list[Compared]:
    """Every measure that labels and answers allow, on every set: squared steering errors, average precision of boxes."""
    seen = {name: _asked(before, after, source, progress or Silent(), name) for name, source in sets.items()}
    found = [row for name, shown in seen.items() for row in _rows(name, shown, seed)]
    if not found:
        lost = sum(shown.lost for shown in seen.values())
        raise InputError(
            f"before and after cannot be compared: {lost} cases did not read or were not answered by both systems, "
            "and no other has a label of the kind that both say"
        )
    return found


def write_comparison(rows: Sequence[Compared], folder: Path) -> Path:
    """Write `tables/retrain.csv`."""
    make_folder(folder / TABLES)
    path = folder / TABLES / "retrain.csv"
    write_csv(path, COLUMNS, (row.row() for row in rows))
    return path


@dataclass
class _Seen:
    """What a set has shown so far: numbers and boxes, never pictures."""

    errors: list[tuple[float, float]] = field(default_factory=list)  # rad², before and after
    boxes: list[tuple[Boxes2D, Boxes2D, Boxes2D]] = field(default_factory=list)  # truth, before, after
    lost: int = 0

    def add(self, case: Case, before: object, after: object) -> None:
        """One case and both answers; an answer that is none is counted as lost."""
        if not (isinstance(before, tuple) and isinstance(after, tuple)):
            self.lost += 1
            return
        truth = find(case.truth, Steering.slot)
        if isinstance(truth, Steering) and (angles := _steering(before, after)):
            self.errors.append((_rad2(angles[0], truth), _rad2(angles[1], truth)))
        label = find(case.truth, Boxes2D.slot)
        if isinstance(label, Boxes2D) and (boxes := _boxes(before, after)):
            self.boxes.append((label, *boxes))


def _asked(before: System, after: System, source: Source, watch: Progress, name: str) -> _Seen:
    """Both systems' answers to every case, weighed and thrown away."""
    watch.begin(f"comparing, {name}", len(source.keys()))
    skips: Skips = []
    seen = _Seen()
    for cases in _batched(stream(source, skips)):
        for case, one, two in zip(cases, answer_all(before, cases), answer_all(after, cases), strict=True):
            seen.add(case, one, two)
        watch.advance(len(cases), 0)
    seen.lost += len(skips)
    return seen


def _rows(name: str, seen: _Seen, seed: int) -> Iterator[Compared]:
    if seen.errors:
        yield from _steering_rows(name, np.array(seen.errors), seen.lost, seed)
    if seen.boxes:
        yield from _box_rows(name, seen.boxes, seen.lost, seed)


def _batched(cases: Iterator[Case]) -> Iterator[list[Case]]:
    while batch := list(islice(cases, BATCH)):
        yield batch


def _steering(before: Answer, after: Answer) -> tuple[Steering, Steering] | None:
    one, two = find(before, Steering.slot), find(after, Steering.slot)
    return (one, two) if isinstance(one, Steering) and isinstance(two, Steering) else None


def _boxes(before: Answer, after: Answer) -> tuple[Boxes2D, Boxes2D] | None:
    one, two = find(before, Boxes2D.slot), find(after, Boxes2D.slot)
    return (one, two) if isinstance(one, Boxes2D) and isinstance(two, Boxes2D) else None


def _rad2(said: Steering, truth: Steering) -> float:
    return math.radians(said.degrees - truth.degrees) ** 2


def _steering_rows(name: str, errors: Array, lost: int, seed: int) -> Iterator[Compared]:
    was, now = errors[:, 0], errors[:, 1]
    means = float(was.mean()), float(now.mean())
    change, test = paired_bootstrap(list(was), list(now), seed=seed), signed_rank(list(was), list(now))
    yield Compared(name, MSE, len(errors), lost, *means, change, test)
    before, after = (math.degrees(math.sqrt(mean)) for mean in means)
    yield Compared(name, RMSE, len(errors), lost, before, after)


def _box_rows(name: str, boxes: Sequence[tuple[Boxes2D, Boxes2D, Boxes2D]], lost: int, seed: int) -> Iterator[Compared]:
    truth, *said = zip(*boxes, strict=True)
    was, now = (average_precision(truth, answers).mean for answers in said)
    yield Compared(name, MAP, len(boxes), lost, was, now)
    # mAP has no value per picture to pair; the precision on each picture alone has.
    alone = [tuple(average_precision([label], [one]).mean for one in (first, second)) for label, first, second in boxes]
    pairs = [(one, two) for one, two in alone if one is not None and two is not None]
    if pairs:
        first, second = ([pair[side] for pair in pairs] for side in (0, 1))
        means = float(np.mean(first)), float(np.mean(second))
        change, test = paired_bootstrap(first, second, seed=seed), signed_rank(first, second)
        yield Compared(name, AP, len(pairs), lost, *means, change, test)
