"""Before and after: figures worked out by hand, and what is left out is counted."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Steering
from swerve.retrain.before_after import AP, MAP, MSE, RMSE, Compared, compare, write_comparison
from swerve.testing.fakes import FakeSource, FakeSystem


def by_measure(rows: Sequence[Compared]) -> dict[str, Compared]:
    return {row.measure: row for row in rows}


def test_steering_is_worked_out() -> None:
    rows = by_measure(compare(FakeSystem(bias=10.0), FakeSystem(bias=-5.0), {"original": FakeSource(20)}))
    assert rows[MSE].before == pytest.approx(math.radians(10) ** 2)
    assert rows[MSE].after == pytest.approx(math.radians(5) ** 2)
    assert (rows[RMSE].before, rows[RMSE].after) == (pytest.approx(10), pytest.approx(5))
    assert rows[MSE].change.value == pytest.approx(math.radians(5) ** 2 - math.radians(10) ** 2)
    assert rows[MSE].test.p < 1e-4  # type: ignore[operator]
    assert {row.cases for row in rows.values()} == {20}


def test_same_system_shows_nothing() -> None:
    rows = by_measure(compare(FakeSystem(gain=0.5), FakeSystem(gain=0.5), {"original": FakeSource(20)}))
    assert (rows[MSE].change.value, rows[MSE].change.low, rows[MSE].change.high) == (0, 0, 0)
    assert rows[MSE].test.p == 1


def test_same_seed_same_interval() -> None:
    sets = {"original": FakeSource(30)}
    one, two, other = (compare(FakeSystem(gain=0.2), FakeSystem(bias=3), sets, seed=seed)[0] for seed in (1, 1, 2))
    assert one == two
    assert one.change.low != other.change.low


@dataclass(frozen=True)
class Boxed(FakeSource):
    """Each frame has one car."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return Case(key, case.inputs, (Boxes2D(np.array([[2, 2, 10, 10]]), ("car",), size=(24, 12)),), key)


@dataclass(frozen=True)
class Detector:
    """Finds the car in the first `right` frames, and something else in the others."""

    right: int

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(self._boxes(int(case.key[-5:]) < self.right),) for case in cases]

    def _boxes(self, right: bool) -> Boxes2D:
        corners = [2, 2, 10, 10] if right else [14, 2, 20, 8]
        return Boxes2D(np.array([corners]), ("car",), scores=np.array([0.9 if right else 0.5]))

    def fingerprint(self) -> str:
        return str(self.right)


def test_boxes_are_worked_out() -> None:
    rows = by_measure(compare(Detector(4), Detector(8), {"original": Boxed(8)}))
    assert rows[MAP].before == pytest.approx(0.5, abs=0.01)
    assert rows[MAP].after == 1
    assert (rows[AP].before, rows[AP].after) == (0.5, 1)
    assert rows[AP].change.low > 0  # type: ignore[operator]
    assert MSE not in rows


class Torn(FakeSource):
    def __getitem__(self, key: str) -> Case:
        if key.endswith("3"):
            raise UnreadableCase("torn")
        return super().__getitem__(key)


class Failing(FakeSystem):
    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        if any(case.key.endswith("5") for case in cases):
            raise RuntimeError("no")
        return super().__call__(cases)


def test_lost_cases_are_counted() -> None:
    row = compare(FakeSystem(), Failing(bias=1.0), {"original": Torn(10)})[0]
    assert (row.cases, row.skipped) == (8, 2)
    assert row.after == pytest.approx(math.radians(1) ** 2)


class Mislabelled(FakeSource):
    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return replace(case, truth=(Steering(math.nan),)) if key.endswith("3") else case


def test_bad_labels_are_counted() -> None:
    rows = by_measure(compare(FakeSystem(bias=10.0), FakeSystem(bias=5.0), {"original": Mislabelled(20)}))
    assert (rows[MSE].cases, rows[MSE].skipped) == (18, 2)
    assert rows[MSE].before == pytest.approx(math.radians(10) ** 2)
    assert (rows[RMSE].before, rows[RMSE].after) == (pytest.approx(10), pytest.approx(5))


@dataclass(frozen=True)
class Blurred(Boxed):
    """One box is nowhere; the angles, which no detector says, are no numbers."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        nowhere = Boxes2D(np.array([[2, 2, math.nan, 10]]), ("car",), size=(24, 12))
        return replace(case, truth=(Steering(math.nan), nowhere if key.endswith("3") else case.truth[0]))


def test_only_labels_in_use_count() -> None:
    rows = by_measure(compare(Detector(8), Detector(8), {"original": Blurred(8)}))
    assert (rows[MAP].cases, rows[MAP].skipped, rows[MAP].before) == (7, 1, 1)


class Mute(FakeSource):
    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return Case(key, case.inputs, (), key)


def test_unlabelled_sets_are_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"0 cases could not be read, .* no other case has a label of the kind that both systems answer with",
    ):
        compare(FakeSystem(), FakeSystem(), {"original": Mute(3)})


def test_table_reads_back(tmp_path: Path) -> None:
    rows = compare(FakeSystem(bias=2.0), FakeSystem(bias=1.0), {"original": FakeSource(6), "synthetic, fog": FakeSource(3)})
    read = list(csv.DictReader(write_comparison(rows, tmp_path).read_text().splitlines()))
    assert [(row["data"], row["measure"], row["cases"]) for row in read] == [
        ("original", MSE, "6"),
        ("original", RMSE, "6"),
        ("synthetic, fog", MSE, "3"),
        ("synthetic, fog", RMSE, "3"),
    ]
    assert float(read[0]["change"]) == pytest.approx(math.radians(1) ** 2 - math.radians(2) ** 2)
    assert read[1]["low"] == ""


def test_single_case_has_no_interval() -> None:
    row = compare(FakeSystem(bias=2.0), FakeSystem(bias=1.0), {"original": FakeSource(1)})[0]
    assert row.change.low is None


def test_groups_are_resampled_whole() -> None:
    alone, drives = (
        compare(FakeSystem(gain=0.2), FakeSystem(bias=3), {"original": FakeSource(30, drive=drive)})[0] for drive in (1, 5)
    )
    assert (alone.cases, alone.groups, alone.test.n) == (30, 30, 30)
    assert (drives.cases, drives.groups, drives.test.n) == (30, 6, 6)
    assert (drives.before, drives.after, drives.change.value) == (alone.before, alone.after, alone.change.value)
    assert (drives.change.low, drives.change.high) != (alone.change.low, alone.change.high)
    assert drives.test.p >= 2 / 2**6  # type: ignore[operator]


def test_one_drive_has_neither_interval_nor_p() -> None:
    row = compare(FakeSystem(bias=2.0), FakeSystem(bias=1.0), {"original": FakeSource(9, drive=9)})[0]
    assert (row.groups, row.change.low, row.test.p) == (1, None, None)
    assert row.change.why == row.test.why == "at least 2 groups are needed, and all 9 pairs are in one"


class Loose(FakeSource):
    def __getitem__(self, key: str) -> Case:
        return replace(super().__getitem__(key), group="")


def test_case_without_a_drive_is_its_own_group() -> None:
    loose, alone = (compare(FakeSystem(gain=0.2), FakeSystem(), {"": source})[0] for source in (Loose(9), FakeSource(9)))
    assert loose == alone
    assert loose.groups == 9


@dataclass(frozen=True)
class BoxedDrives(Boxed):
    """Pairs of frames belong together."""

    def __getitem__(self, key: str) -> Case:
        return replace(super().__getitem__(key), group=f"drive {int(key[-5:]) // 2}")


def test_pictures_of_a_drive_go_together() -> None:
    rows = by_measure(compare(Detector(4), Detector(8), {"original": BoxedDrives(8)}))
    assert [(rows[name].cases, rows[name].groups) for name in (MAP, AP)] == [(8, 4), (8, 4)]
    assert rows[AP].test.n == 4
