from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  # imported on first use otherwise, which would count against a deadline
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.relation import Both, Pair
from swerve.core.values import Boxes2D
from swerve.relations.box_states import BoxState, box_verdict
from swerve.relations.boxes import Flaw, PlacedBoxes, right_boxes, same_boxes
from swerve.relations.sets import NoFewer, Superset
from swerve.relations.steering import same_angle
from tests.fixture_boxes import AFTER, BEFORE, LABEL, Judged

KEPT, LOST, WRONG, DRIFTED = BoxState.KEPT, BoxState.LOST, BoxState.MISLABELLED, BoxState.DRIFTED
seeds = st.integers(0, 2**32 - 1)


def test_own_answer_gives_each_box_its_state() -> None:
    found = box_verdict(relation := same_boxes(least_score=0.3), pair := Judged(same_boxes(least_score=0.3)).pair)
    assert found is not None
    assert found.verdict == relation.check(pair)
    assert found.of_expected == (KEPT, LOST, WRONG, DRIFTED)  # the fifth is not sure enough
    assert found.of_detected == (KEPT, WRONG, DRIFTED, BoxState.GHOST)
    assert found.expected_of == {0: 0, 1: 2, 2: 3}
    assert not found.labelled
    assert found.before is not None
    assert found.before.kinds == BEFORE.kinds[:4]


def test_labels_give_each_box_its_state() -> None:
    found = box_verdict(right_boxes(least_score=0.3), Judged(right_boxes()).pair)
    assert found is not None
    assert found.of_expected == (KEPT, LOST, WRONG, DRIFTED, LOST)
    assert found.labelled
    assert found.before is None


def test_sets_allow_what_is_gained() -> None:
    pair = Judged(same_boxes()).pair
    for relation in (Superset(slot="boxes2d"), NoFewer(slot="boxes2d")):
        found = box_verdict(relation, pair)
        assert found is not None
        assert found.verdict == relation.check(pair)
        assert found.of_expected == (KEPT, LOST, WRONG, DRIFTED, KEPT)
        assert found.of_detected == (KEPT, WRONG, DRIFTED, KEPT, BoxState.GAINED)


def test_ignored_boxes_have_no_error() -> None:
    label = Boxes2D(LABEL.xyxy, LABEL.kinds, size=LABEL.size, care=np.array([False, True, False, True, True]))
    found = box_verdict(right_boxes(least_score=0.3), Judged(right_boxes(), label=label).pair)
    assert found is not None
    assert found.of_expected == (BoxState.IGNORED, LOST, BoxState.IGNORED, DRIFTED, LOST)
    assert found.of_detected[:2] == (BoxState.IGNORED, BoxState.IGNORED)


def test_other_relations_have_no_boxes() -> None:
    pair = Judged(same_boxes()).pair
    assert box_verdict(same_angle(5.0), pair) is None
    assert box_verdict(Superset(), pair) is None
    assert box_verdict(Both((same_boxes(), right_boxes())), pair) is None  # its parts have


@pytest.mark.parametrize("relation", [same_boxes(), right_boxes(), Superset(slot="boxes2d"), PlacedBoxes()])
def test_missing_and_faulty_boxes_are_not_judged(relation: object) -> None:
    pair = Judged(same_boxes()).pair
    faulty = Boxes2D(np.full((1, 4), np.nan), ("stop",), size=AFTER.size)
    for after in ((), (faulty,)):
        assert box_verdict(relation, Pair(pair.source, pair.followup, pair.change, pair.before, after)) is None  # type: ignore[arg-type]


def random_boxes(rng: np.random.Generator) -> Boxes2D:
    count = int(rng.integers(0, 9))
    corner = rng.uniform(0, 60, (count, 2))
    care = rng.random(count) < 0.9
    kinds = tuple(rng.choice(["stop", "go"], count).tolist())
    return Boxes2D(np.hstack([corner, corner + rng.uniform(5, 30, (count, 2))]), kinds, rng.random(count), (320, 160), care)


@given(seeds, st.sampled_from([0.0, 0.4]), st.booleans())
def test_states_count_what_the_verdict_counts(seed: int, least: float, labelled: bool) -> None:
    rng = np.random.default_rng(seed)
    relation = (right_boxes if labelled else same_boxes)(0.5, least)
    pair = Judged(relation, random_boxes(rng), random_boxes(rng), random_boxes(rng)).pair
    found = box_verdict(relation, pair)
    assert found is not None
    verdict = relation.check(pair)
    assert found.verdict == verdict
    both = (*found.of_expected, *found.of_detected)
    facts = {Flaw.MISSED: LOST, Flaw.GHOST: BoxState.GHOST, Flaw.DOUBLED: BoxState.DOUBLED}
    assert {flaw: verdict.facts[str(flaw)] for flaw in facts} == {flaw: both.count(state) for flaw, state in facts.items()}
    assert both.count(WRONG) == 2 * verdict.facts["wrong_state"]
    assert both.count(DRIFTED) == 2 * verdict.facts["drifted"]
    assert len(found.of_expected) == len(found.expected.kinds)
    assert len(found.of_detected) == len(found.detected.kinds)
