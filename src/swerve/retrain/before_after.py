"""The errors before and after retraining, on the same held-out cases and their follow-ups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from swerve.analysis.detection import average_precision
from swerve.analysis.precision_drop import PicturePair, precision_drop
from swerve.analysis.statistics import Estimate, StatisticalTest, group_means, paired_bootstrap, signed_rank
from swerve.analysis.tables import TABLES
from swerve.core.case import Case, Source
from swerve.core.errors import InputError
from swerve.core.system import Answer, System
from swerve.core.values import Boxes2D, Steering, Value, find
from swerve.execution.answers import answer_all
from swerve.execution.engine import NoProgress, Progress
from swerve.retrain.dataset import Skips, stream
from swerve.store.files import make_folder, write_csv

MSE, RMSE, MAP, AP = "MSE, rad²", "RMSE, degrees", "mAP", "AP per picture"
COLUMNS = ("data", "measure", "cases", "groups", "skipped", "before", "after", "change", "low", "high", "p")
BATCH = 16
V = TypeVar("V", bound=Value)


@dataclass(frozen=True)
class Compared:
    """One measure on one set before and after; the interval of the change and `p` are paired by case.

    Cases of one drive or scene are similar, so the interval resamples whole groups, and `p` is Wilcoxon's signed-rank test
    of the groups' means.
    """

    data: str
    measure: str
    cases: int
    groups: int  # drives or scenes of the cases
    skipped: int  # cases that could not be read, have an invalid label, or were not answered by both systems
    before: float | None
    after: float | None
    change: Estimate = field(default_factory=lambda: Estimate(0))
    test: StatisticalTest = field(default_factory=lambda: StatisticalTest(0))

    def row(self) -> tuple[object, ...]:
        """The cells of `tables/retrain.csv`."""
        change = None if self.before is None or self.after is None else self.after - self.before
        counts = (self.data, self.measure, self.cases, self.groups, self.skipped)
        return (*counts, self.before, self.after, change, self.change.low, self.change.high, self.test.p)


def compare(
    before: System, after: System, sets: Mapping[str, Source], *, seed: int = 0, progress: Progress | None = None
) -> list[Compared]:
    """Every measure that labels and answers allow, on every set: squared steering errors, average precision of boxes."""
    answers = {name: _answers(before, after, source, progress or NoProgress(), name) for name, source in sets.items()}
    rows = [row for name, both in answers.items() for row in _rows(name, both, seed)]
    if not rows:
        skipped = sum(both.skipped for both in answers.values())
        raise InputError(
            f"before and after cannot be compared: {skipped} cases could not be read, have an invalid label or were not "
            "answered by both systems, and no other case has a label of the kind that both systems answer with"
        )
    return rows


def write_comparison(rows: Sequence[Compared], folder: Path) -> Path:
    """Write `tables/retrain.csv`."""
    make_folder(folder / TABLES)
    path = folder / TABLES / "retrain.csv"
    write_csv(path, COLUMNS, (row.row() for row in rows))
    return path


@dataclass
class _Answers:
    """Both systems' answers to one set: numbers and boxes, no images."""

    errors: list[tuple[str, float, float]] = field(default_factory=list)  # group; rad², before and after
    boxes: list[tuple[str, Boxes2D, Boxes2D, Boxes2D]] = field(default_factory=list)  # group; truth, before, after
    skipped: int = 0

    def add(self, case: Case, before: object, after: object) -> None:
        """Add a case; it is skipped without both answers, or if its label of what they answer is invalid."""
        if not (isinstance(before, tuple) and isinstance(after, tuple)):
            self.skipped += 1
            return
        angles, boxes = _both(Steering, case, before, after), _both(Boxes2D, case, before, after)
        if any(found[0].fault() for found in (angles, boxes) if found):
            self.skipped += 1
            return
        if angles:
            self.errors.append((_group(case), _rad2(angles[1], angles[0]), _rad2(angles[2], angles[0])))
        if boxes:
            self.boxes.append((_group(case), *boxes))


def _answers(before: System, after: System, source: Source, progress: Progress, name: str) -> _Answers:
    """Both systems' answers to every case."""
    progress.begin(f"comparing, {name}", len(source.keys()))
    skips: Skips = []
    both = _Answers()
    for cases in _batched(stream(source, skips)):
        for case, one, two in zip(cases, answer_all(before, cases), answer_all(after, cases), strict=True):
            both.add(case, one, two)
        progress.advance(len(cases), 0)
    both.skipped += len(skips)
    return both


def _rows(name: str, both: _Answers, seed: int) -> Iterator[Compared]:
    if both.errors:
        yield from _steering_rows(name, both.errors, both.skipped, seed)
    if both.boxes:
        yield from _box_rows(name, both.boxes, both.skipped, seed)


def _batched(cases: Iterator[Case]) -> Iterator[list[Case]]:
    while batch := list(islice(cases, BATCH)):
        yield batch


def _both(kind: type[V], case: Case, before: Answer, after: Answer) -> tuple[V, V, V] | None:
    """The label and both answers of one kind, if all three are there."""
    label, one, two = (find(values, kind.slot) for values in (case.truth, before, after))
    return (label, one, two) if isinstance(label, kind) and isinstance(one, kind) and isinstance(two, kind) else None


def _group(case: Case) -> str:
    """The drive or scene of a case; a case without one is a group of its own, with its follow-ups."""
    return case.group or case.parent or case.key


def _rad2(answer: Steering, truth: Steering) -> float:
    return math.radians(answer.degrees - truth.degrees) ** 2


def _steering_rows(name: str, errors: Sequence[tuple[str, float, float]], skipped: int, seed: int) -> Iterator[Compared]:
    groups, was, now = zip(*errors, strict=True)
    counts = len(errors), len(set(groups)), skipped
    means = float(np.mean(was)), float(np.mean(now))
    yield Compared(name, MSE, *counts, *means, *_paired(was, now, groups, seed))
    before, after = (math.degrees(math.sqrt(mean)) for mean in means)
    yield Compared(name, RMSE, *counts, before, after)


def _box_rows(
    name: str, boxes: Sequence[tuple[str, Boxes2D, Boxes2D, Boxes2D]], skipped: int, seed: int
) -> Iterator[Compared]:
    groups = [group for group, *_ in boxes]
    pairs = [PicturePair(group, label, one, label, two) for group, label, one, two in boxes]
    whole = precision_drop(pairs, seed=seed)
    counts = len(boxes), len(set(groups)), skipped
    yield Compared(name, MAP, *counts, whole.before.value, whole.after.value, whole.rise)
    # mAP has no value per picture that could be tested; the average precision of a single picture has.
    alone = [[average_precision([label], [one]).mean for one in answers] for _, label, *answers in boxes]
    both = zip(groups, alone, strict=True)
    known = [(group, one, two) for group, (one, two) in both if one is not None and two is not None]
    if known:
        owners, first, second = zip(*known, strict=True)
        means = float(np.mean(first)), float(np.mean(second))
        change = _paired(first, second, owners, seed)
        yield Compared(name, AP, len(known), len(set(owners)), skipped, *means, *change)


def _paired(
    before: Sequence[float], after: Sequence[float], groups: Sequence[str], seed: int
) -> tuple[Estimate, StatisticalTest]:
    """The change with its interval, and the test of the groups' means; neither if there is only one group."""
    change = paired_bootstrap(before, after, seed=seed, groups=groups)
    if change.why:
        return change, StatisticalTest(len(set(groups)), why=change.why)
    return change, signed_rank(group_means(before, groups), group_means(after, groups))
