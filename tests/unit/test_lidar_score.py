from __future__ import annotations

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import Answer
from swerve.core.values import Boxes3D, Steering
from swerve.zoo.clusters import KINDS
from swerve.zoo.lidar_score import GOAL, DetectionTally, compared, reached, tallied

Row = tuple[str, float, float]


def boxes(*rows: Row, size: tuple[float, float] = (4.0, 2.0), care: tuple[bool, ...] | None = None) -> Boxes3D:
    numbers = [[x, y, 0.0, *size, 1.5, 0.0] for _, x, y in rows]
    return Boxes3D(np.array(numbers).reshape(-1, 7), tuple(kind for kind, *_ in rows), care=care)  # type: ignore[arg-type]


def counts(tally: DetectionTally) -> tuple[int, int, int, int]:
    return sum(tally.demanded), sum(tally.found), sum(tally.right), tally.made_up


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((), (1, 0, 0, 0)),
        ((("car", 10, 0),), (1, 1, 1, 0)),
        ((("unknown", 10, 0),), (1, 1, 0, 0)),
        ((("car", 12.4, 1.4),), (1, 1, 1, 0)),  # half a metre beside it still lies on it
        ((("car", 12.6, 0),), (1, 0, 0, 1)),
        ((("car", 10, 1.6),), (1, 0, 0, 1)),
        ((("car", 9, 0), ("car", 11.5, 0)), (1, 1, 1, 1)),  # in two pieces
        ((("car", 10, 0), ("pedestrian", -20, 0)), (1, 1, 1, 1)),
        ((("car", 10, 0), ("car", 31, 0)), (1, 1, 1, 0)),  # farther away than anybody asks
    ],
)
def test_one_car_is_found_once(said: tuple[Row, ...], told: tuple[int, ...]) -> None:
    assert counts(compared(boxes(("car", 10, 0)), boxes(*said))) == told


def test_footprint_turns_with_the_car() -> None:
    truth = Boxes3D(np.array([[10.0, 0, 0, 4, 2, 1.5, np.pi / 2]]), ("car",))
    assert counts(compared(truth, boxes(("car", 10, 2.4)))) == (1, 1, 1, 0)
    assert counts(compared(truth, boxes(("car", 12.4, 0)))) == (1, 0, 0, 1)


def test_nearest_boxes_are_taken() -> None:
    """Two neighbours and two boxes that each lie on both: everybody is told as what they are."""
    truth = boxes(("car", 10, 0), ("cyclist", 12, 0))
    found = compared(truth, boxes(("cyclist", 11.8, 0), ("car", 10.2, 0)))
    assert counts(found) == (2, 2, 2, 0)


def test_who_need_not_be_found_counts_neither_way() -> None:
    truth = boxes(("car", 10, 0), ("car", 20, 0), care=(True, False))
    for said in ((), (("car", 20, 0),), (("car", 19, 0), ("pedestrian", 21, 0))):
        assert counts(compared(truth, boxes(*said)))[1:] == (0, 0, 0)


def test_far_ones_are_not_demanded() -> None:
    truth = boxes(("car", 10, 0), ("car", 30.5, 0), ("car", -50, 0))
    assert counts(compared(truth, boxes(("car", 29.5, 0)))) == (1, 0, 0, 0)
    assert counts(compared(truth, boxes(), within=60)) == (3, 0, 0, 0)


def test_empty_sweeps_are_counted() -> None:
    assert compared(boxes(), boxes()) == DetectionTally(sweeps=1)
    assert counts(compared(boxes(), boxes(("car", 1, 1)))) == (0, 0, 0, 1)


def test_tallies_add_up() -> None:
    first = compared(boxes(("car", 10, 0), ("cyclist", -10, 0)), boxes(("car", 10, 0)))
    second = compared(boxes(("cyclist", 10, 0)), boxes(("pedestrian", 10, 0), ("car", 20, 0)))
    total = first + second
    assert total == DetectionTally((1, 0, 2, 0), (1, 0, 1, 0), (1, 0, 0, 0), made_up=1, sweeps=2)
    assert total.recall("cyclist") == 0.5
    assert total.recall("pedestrian") == 0.0
    assert total.precision == pytest.approx(2 / 3)
    assert total.typed == 0.5


class Told:
    """A system that says the same of every case."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __call__(self, cases: object) -> list[Answer]:
        return [self.answer for _ in cases]  # type: ignore[attr-defined]

    def fingerprint(self) -> str:
        return "told"


def test_system_is_asked_of_every_case() -> None:
    cases = [Case(str(number), {}, (boxes(("car", 10, number)),)) for number in range(3)]
    total = tallied(Told((boxes(("car", 10, 0)),)), cases)
    assert counts(total) == (3, 2, 2, 1)  # the last one stands beside the box
    assert total.as_dict()["kinds"]["car"] == {"demanded": 3, "recall": 0.6667, "types_right": 1.0}
    assert total.as_dict()["sweeps"] == 3


def test_other_answers_are_refused() -> None:
    with pytest.raises(InputError, match=r"^one: expected 3-D boxes, got Steering$"):
        tallied(Told((Steering(1.0),)), [Case("one", {}, (boxes(),))])
    with pytest.raises(InputError, match=r"^one: expected 3-D boxes, got nothing$"):
        tallied(Told((boxes(),)), [Case("one", {})])


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"precision": 0.89}, False),
        ({"types_right": 0.84}, False),
        ({"kinds": {"cyclist": {"recall": 0.89, "types_right": 0.85}}}, False),
        ({"kinds": {"car": {"recall": 0.94, "types_right": 0.85}}}, False),
        *(
            ({"kinds": {kind: {"recall": 1.0, "types_right": 0.84}}}, False) for kind in GOAL
        ),  # however many others are right
        ({"kinds": {"unknown": {"recall": 0.0, "types_right": 0.0}}}, True),
    ],
)
def test_goal_is_all_of_it(change: dict, good: bool) -> None:
    kinds = {kind: {"recall": GOAL.get(kind, 0.5), "types_right": 0.85} for kind in KINDS}
    score = {"precision": 0.9, "types_right": 0.85, **change}
    score["kinds"] = kinds | change.get("kinds", {})
    assert reached(score) == good
