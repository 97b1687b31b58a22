from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  # imported on first use otherwise, which would count against a deadline
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.relation import Pair, Relation, Status, Verdict
from swerve.core.transformation import Chain, Transformation, Unchanged
from swerve.core.values import Boxes2D, Steering, Value
from swerve.relations.boxes import BoxErrors, BoxesAlike, Flaw, PlacedBoxes, placed_by, right_boxes, same_boxes
from swerve.transformations.affine import Translate

SIZE = (200, 100)
PLACES = ((10, 10, 20, 40), (60, 10, 70, 40), (110, 10, 130, 70))
STATES = ("stop", "go", "stop")
seeds = st.integers(0, 2**32 - 1)


def lights(places: tuple[tuple[float, ...], ...] = PLACES, states: tuple[str, ...] = STATES, care: str = "") -> Boxes2D:
    cares = None if not care else np.array([mark != "-" for mark in care])
    return Boxes2D(np.array(places, dtype=float).reshape(-1, 4), states, size=SIZE, care=cares)


def pair(before: Value, after: Value, *, truth: Value | None = None, change: Transformation | None = None) -> Pair:
    change = change or Unchanged()
    labels = () if truth is None else (truth,)
    followup = Case("f", {}, tuple(change.map(label) for label in labels))
    return Pair(Case("s", {}, labels), followup, change, (before,), (after,))


def without(boxes: Boxes2D, place: int) -> Boxes2D:
    kept = [index for index in range(len(boxes.kinds)) if index != place]
    return lights(tuple(boxes.xyxy[kept]), tuple(boxes.kinds[index] for index in kept))


def swapped(boxes: Boxes2D, place: int) -> Boxes2D:
    kinds = list(boxes.kinds)
    kinds[place] = "go" if kinds[place] == "stop" else "stop"
    return replace(boxes, kinds=tuple(kinds))


def with_ghost(boxes: Boxes2D, place: int) -> Boxes2D:
    tail_light = (150.0 + place, 80.0, 160.0 + place, 90.0)
    return lights((*boxes.xyxy, tail_light), (*boxes.kinds, "stop"))  # type: ignore[arg-type]


def shifted(boxes: Boxes2D, place: int) -> Boxes2D:
    xyxy = boxes.xyxy.copy()
    xyxy[place, [0, 2]] += 0.6 * (xyxy[place, 2] - xyxy[place, 0])  # IoU 0.4 / 1.6
    return replace(boxes, xyxy=xyxy)


def twice(boxes: Boxes2D, place: int) -> Boxes2D:
    return lights((*boxes.xyxy, boxes.xyxy[place]), (*boxes.kinds, boxes.kinds[place]))  # type: ignore[arg-type]


PLANTED = [
    (without, Flaw.MISSED),
    (swapped, Flaw.WRONG_STATE),
    (with_ghost, Flaw.GHOST),
    (shifted, Flaw.DRIFTED),
    (twice, Flaw.DOUBLED),
]


def judged(expected: Boxes2D, said: Boxes2D) -> tuple[Verdict, BoxErrors]:
    return BoxesAlike().compare(expected, said), BoxesAlike().errors(expected, said)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(("plant", "flaw"), PLANTED)
def test_planted_fault_is_named(plant: object, flaw: Flaw, place: int) -> None:
    verdict, errors = judged(lights(), plant(lights(), place))  # type: ignore[operator]
    assert (verdict.status, verdict.margin, errors.flaw()) == (Status.VIOLATED, 1.0, flaw)
    assert {kind: count for kind, count in errors.counts().items() if count} == {flaw: 1}


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(("plant", "flaw"), PLANTED)
@pytest.mark.parametrize("relation", [same_boxes(), right_boxes(), PlacedBoxes(), PlacedBoxes(reference="answer")])
def test_every_relation_sees_it(relation: Relation, plant: object, flaw: Flaw, place: int) -> None:
    wrong = plant(lights(), place)  # type: ignore[operator]
    assert relation.check(pair(lights(), wrong, truth=lights())).status is Status.VIOLATED


@given(seeds, st.integers(0, 8))
def test_identical_boxes_always_hold(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = lights(tuple(rng.integers(0, 6, (count, 4))), tuple(rng.choice(["go", "stop"], count)))  # type: ignore[arg-type]
    order = rng.permutation(count)
    mixed = lights(tuple(boxes.xyxy[order]), tuple(boxes.kinds[index] for index in order))
    assert BoxesAlike().compare(boxes, mixed) == Verdict(Status.HELD, -0.5, BoxesAlike().compare(boxes, boxes).why)


@given(seeds)
def test_margin_has_the_verdict_s_sign(seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected = lights(care="".join(rng.choice([*"+-"], 3)))
    said = replace(lights(), xyxy=expected.xyxy + rng.normal(0, 2, (3, 4)))
    verdict, errors = judged(expected, said)
    assert verdict.margin is not None
    assert verdict.margin >= 1 if verdict.status is Status.VIOLATED else verdict.margin <= 0
    assert (verdict.status is Status.VIOLATED) == bool(sum(errors.counts().values()))


@pytest.mark.parametrize(("right", "status"), [(15.0, Status.HELD), (14.999, Status.VIOLATED)])
def test_half_overlap_is_enough(right: float, status: Status) -> None:
    verdict = BoxesAlike().compare(lights(((10, 10, 20, 40),), ("go",)), lights(((10, 10, right, 40),), ("go",)))
    assert verdict.status is status
    assert verdict.margin == (0.0 if status is Status.HELD else 1.0)


@pytest.mark.parametrize(("right", "flaw"), [(11.0, Flaw.DRIFTED), (10.99, Flaw.MISSED)])
def test_too_far_is_missed(right: float, flaw: Flaw) -> None:
    errors = BoxesAlike().errors(lights(((10, 10, 20, 40),), ("go",)), lights(((10, 10, right, 40),), ("go",)))
    assert errors.flaw() is flaw


def test_verdict_is_one_sentence() -> None:
    said = with_ghost(swapped(without(lights(), 0), 0), 0)
    why = "'stop' at (10, 10, 20, 40) was missed (1 missed, 1 wrong state, 1 ghost; 3 expected, 3 detected)"
    assert BoxesAlike().compare(lights(), said) == Verdict(Status.VIOLATED, 3.0, why)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (swapped, "'stop' at (110, 10, 130, 70) was taken for 'go' (1 wrong state; 3 expected, 3 detected)"),
        (shifted, "'stop' at (110, 10, 130, 70) drifted to (122, 10, 142, 70) (1 drifted; 3 expected, 3 detected)"),
        (with_ghost, "'stop' at (152, 80, 162, 90) is a ghost (1 ghost; 3 expected, 4 detected)"),
        (
            twice,
            "'stop' at (110, 10, 130, 70) is a further box on an object already found (1 doubled; 3 expected, 4 detected)",
        ),
    ],
)
def test_sentence_names_the_worst(plant: object, told: str) -> None:
    assert BoxesAlike().compare(lights(), plant(lights(), 2)).why == told  # type: ignore[operator]


def test_largest_loss_is_told() -> None:
    assert (
        BoxesAlike().compare(lights(), lights((), ())).why.startswith("'stop' at (110, 10, 130, 70) was missed (3 missed;")
    )


def test_held_says_what_is_spared() -> None:
    assert BoxesAlike().compare(lights(), lights()).why == "all 3 objects found, smallest IoU margin 0.50"


def test_facts_count_each_kind() -> None:
    facts = BoxesAlike().errors(lights(), with_ghost(without(lights(), 0), 0)).facts()
    counts = {"missed": 1.0, "wrong_state": 0.0, "ghost": 1.0, "drifted": 0.0, "doubled": 0.0}
    assert facts == {**counts, "objects": 3.0, "flaw": "missed"}
    assert BoxesAlike().errors(lights(), lights()).facts()["flaw"] == ""


def test_edge_object_is_optional() -> None:
    edge = lights(care="++-")
    for said in (lights(), without(lights(), 2), swapped(lights(), 2)):
        assert BoxesAlike().compare(edge, said).status is Status.HELD
    assert BoxesAlike().compare(edge, without(lights(), 1)).status is Status.VIOLATED


def test_low_scores_are_not_said() -> None:
    unsure = replace(with_ghost(lights(), 0), scores=np.array([0.9, 0.5, 0.7, 0.4]))
    assert BoxesAlike(least_score=0.5).compare(lights(), unsure).status is Status.HELD
    assert BoxesAlike(least_score=0.3).compare(lights(), unsure).status is Status.VIOLATED


def test_references_differ() -> None:
    blind, seeing = without(lights(), 0), lights()
    assert same_boxes().check(pair(blind, blind, truth=seeing)).status is Status.HELD
    assert right_boxes().check(pair(blind, blind, truth=seeing)).status is Status.VIOLATED
    assert right_boxes().check(pair(blind, seeing, truth=seeing)).status is Status.HELD
    assert same_boxes().check(pair(blind, seeing, truth=seeing)).status is Status.VIOLATED


def test_boxes_move_with_the_image() -> None:
    shift = Translate(x=30, y=0)
    moved = shift.map(lights())
    for relation in (same_boxes(), right_boxes()):
        assert relation.check(pair(lights(), moved, truth=lights(), change=shift)).status is Status.HELD
        assert relation.check(pair(lights(), lights(), truth=lights(), change=shift)).status is Status.VIOLATED


def test_missing_label_is_skipped() -> None:
    for relation in (right_boxes(), PlacedBoxes()):
        assert relation.check(pair(lights(), lights())).status is Status.SKIPPED
    for relation in (same_boxes(), PlacedBoxes(reference="answer")):
        assert relation.check(pair(lights(), Steering(1))).status is Status.ERROR


def test_non_finite_is_never_judged() -> None:
    odd = lights(((0, 0, np.nan, 1),), ("go",))
    for expected, said in ((odd, lights()), (lights(), odd)):
        assert BoxesAlike().compare(expected, said).status is Status.ERROR


def test_only_boxes_are_compared() -> None:
    with pytest.raises(TypeError, match="this relation compares boxes \\(Boxes2D or Boxes3D\\), got Steering"):
        BoxesAlike().compare(lights(), Steering(1))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.nan, "low", True])
def test_bad_numbers_are_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="'least_score' must be a number from 0 to 1, got"):
        BoxesAlike(least_score=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'overlap' must be a number"):
        BoxesAlike(overlap=-1)
    with pytest.raises(ValueError, match="'reference' must be one of truth, answer, got 'label'"):
        PlacedBoxes(reference="label")


@dataclass(frozen=True)
class Recolour(Transformation):
    """Turns the first light green."""

    preserves: ClassVar[tuple[str, ...]] = ("image",)

    def boxes2d(self, boxes: Boxes2D) -> Boxes2D:
        return replace(boxes, kinds=("go", *boxes.kinds[1:])) if boxes.kinds else boxes

    def placed(self) -> Boxes2D:
        return lights(PLACES[:1], ("go",))


AFTER = ("go", "go", "stop")


@pytest.mark.parametrize(
    ("said", "flaw", "told"),
    [
        (without(lights(states=AFTER), 0), Flaw.PLACED_MISSED, "the placed 'go' at (10, 10, 20, 40) was missed"),
        (lights(), Flaw.PLACED_MISSED, "the placed 'go' at (10, 10, 20, 40) was taken for 'stop'"),
        (
            shifted(lights(states=AFTER), 0),
            Flaw.PLACED_DRIFTED,
            "the placed 'go' at (10, 10, 20, 40) drifted to (16, 10, 26, 40)",
        ),
        (without(lights(states=AFTER), 1), Flaw.KEPT_LOST, "the unchanged 'go' at (60, 10, 70, 40) was missed"),
        (swapped(lights(states=AFTER), 2), Flaw.KEPT_LOST, "the unchanged 'stop' at (110, 10, 130, 70) was taken for 'go'"),
        (shifted(lights(states=AFTER), 1), Flaw.DRIFTED, "'go' at (60, 10, 70, 40) drifted to (66, 10, 76, 40)"),
        (with_ghost(lights(states=AFTER), 0), Flaw.GHOST, "'stop' at (150, 80, 160, 90) is a ghost"),
        (without(without(lights(states=AFTER), 2), 0), Flaw.PLACED_MISSED, "the placed 'go' at (10, 10, 20, 40) was missed"),
    ],
)
@pytest.mark.parametrize("reference", ["truth", "answer"])
def test_placed_objects_are_told_apart(said: Boxes2D, flaw: Flaw, told: str, reference: str) -> None:
    given_pair = pair(lights(), said, truth=lights(), change=Recolour())
    relation = PlacedBoxes(reference=reference)
    assert relation.errors(given_pair).flaw() is flaw
    assert relation.errors(given_pair).facts()["placed"] == 1.0
    verdict = relation.check(given_pair)
    assert (verdict.status, verdict.why.split(" (1 ")[0].split(" (2 ")[0]) == (Status.VIOLATED, told)


def test_a_placed_object_that_was_taken_for_another_is_still_placed() -> None:
    """The system took the light for an unlit one before the change, and so its own answer expects; now it sees nothing."""
    before = lights(states=("off", *AFTER[1:]))

    @dataclass(frozen=True)
    class Recolours(Recolour):
        def boxes2d(self, boxes: Boxes2D) -> Boxes2D:
            return boxes  # "off" is neither its old state nor its new one

    given_pair = replace(pair(lights(), without(before, 0), truth=lights(), change=Recolours()), before=(before,))
    assert PlacedBoxes(reference="answer").errors(given_pair).flaw() is Flaw.PLACED_MISSED


def test_placed_and_found_holds() -> None:
    relation = PlacedBoxes()
    assert relation.check(pair(lights(), lights(states=AFTER), truth=lights(), change=Recolour())).status is Status.HELD
    assert relation.check(pair(lights(), lights(), truth=lights())).status is Status.HELD


def test_later_steps_move_the_placed() -> None:
    chain = Chain((Unchanged(), Recolour(), Translate(x=30, y=0)))
    placed = placed_by(chain)
    assert placed is not None
    assert (placed.xyxy.tolist(), placed.kinds) == ([[40, 10, 50, 40]], ("go",))
    assert placed_by(Chain((Unchanged(), Translate(x=1, y=0)))) is None
    assert placed_by(Unchanged()) is None
    assert PlacedBoxes().check(pair(lights(), chain.map(lights()), truth=lights(), change=chain)).status is Status.HELD
