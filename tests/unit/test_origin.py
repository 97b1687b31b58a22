"""Where a failure comes from: introduced, made worse, already wrong, marginal or unknown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  # imported on first use otherwise, which would count against a deadline
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.api import run as run_campaign
from swerve.config.toml import Builder
from swerve.core.campaign import Campaign, Observation, Record
from swerve.core.case import Case
from swerve.core.errors import InputError, StoreError
from swerve.core.origin import OF_ALL, OF_SOME, Attribution, LeastShift, Origin, combined, origin_by_shift, rmse_of
from swerve.core.relation import (
    Agreement,
    Algebra,
    Both,
    Correct,
    Either,
    Equivariant,
    OnlyIf,
    Pair,
    Relation,
    Rule,
    Status,
    Verdict,
    attribute,
)
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Boxes2D, Boxes3D, Group, Image, Region, Signal, Steering, Value
from swerve.execution.engine import run
from swerve.relations.boxes import PlacedBoxes, right_boxes, same_boxes
from swerve.relations.sets import NoFewer, Superset
from swerve.relations.steering import AngleWithin, Decrease, SignalWithin, SquaredError, same_angle
from swerve.search.sweep import Sweep
from swerve.store.record_json import checked_row, record_of, record_row
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.affine import Translate
from swerve.transformations.photometric import Brighten

INTRODUCED, MADE_WORSE, ALREADY_WRONG, MARGINAL, UNKNOWN = Origin
ONE = LeastShift(1.0)
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Mirrored(Transformation):
    """The other way round."""

    preserves: ClassVar[tuple[str, ...]] = ("image",)

    def steering(self, value: Steering) -> Steering:
        return Steering(-value.degrees)


def pair(
    label: Value | None, before: Value, after: Value, change: Transformation | None = None, mapped: Value | None = None
) -> Pair:
    """A pair with a label; that of the follow-up is mapped by the change, or as given."""
    change, truth = change or Unchanged(), () if label is None else (label,)
    followup = Case("f", {}, (mapped,) if mapped is not None else tuple(change.map(value) for value in truth))
    return Pair(Case("s", {}, truth), followup, change, (before,), (after,))


def came_from(relation: Relation, given: Pair, least: LeastShift = ONE) -> Origin:
    """The origin of a violation, which must be one."""
    verdict = relation.check(given)
    assert verdict.status is Status.VIOLATED, verdict
    return attribute(relation, given, verdict, least).origin


def turns(label: float, before: float, after: float, change: Transformation | None = None) -> Pair:
    return pair(Steering(label), Steering(before), Steering(after), change)


# --- steering against the label ------------------------------------------------------------------------------------------

BY_LABEL = [
    (0.0, 7.0, INTRODUCED),
    (0.0, -7.0, INTRODUCED),
    (0.0, 5.5, INTRODUCED),  # a long way, which ends just beyond the limit
    (4.5, 5.25, MARGINAL),
    (4.5, 5.5, MARGINAL),  # moved by the least shift itself
    (4.5, 5.75, INTRODUCED),
    (4.5, -5.25, INTRODUCED),  # the error hardly grew, but the answer went to the other side
    (6.0, 8.0, MADE_WORSE),
    (6.0, 7.0, ALREADY_WRONG),  # grew by the least shift itself
    (6.0, 7.25, MADE_WORSE),
    (6.0, 6.0, ALREADY_WRONG),
    (6.0, 5.25, ALREADY_WRONG),
    (6.0, -6.5, ALREADY_WRONG),  # another error of the same size
    (6.0, -8.0, MADE_WORSE),
    (5.0, 5.0, ALREADY_WRONG),  # the limit itself is wrong
]


@pytest.mark.parametrize("label", [0.0, 12.0, -256.0])
@pytest.mark.parametrize("change", [Unchanged(), Mirrored()], ids=["as it is", "mirrored"])
@pytest.mark.parametrize(("before", "after", "origin"), BY_LABEL)
def test_angle_against_the_label(before: float, after: float, origin: Origin, change: Transformation, label: float) -> None:
    there = -1 if isinstance(change, Mirrored) else 1
    given = turns(label, label + before, there * (label + after), change)
    assert came_from(Correct(AngleWithin(5)), given) is origin
    assert came_from(OnlyIf(lambda pair: pair.change == change, Correct(AngleWithin(5))), given) is origin


@pytest.mark.parametrize(("before", "after", "origin"), [one for one in BY_LABEL if one[:2] != (5.0, 5.0)])
def test_squared_error_has_the_same_origins(before: float, after: float, origin: Origin) -> None:
    assert came_from(Correct(SquaredError(1, mse=25.0)), turns(0, before, after)) is origin


@pytest.mark.parametrize("label", [0.0, 100.0, -100.0])
@pytest.mark.parametrize(
    ("within", "after", "origin"),
    [(5.0, 5.0, INTRODUCED), (5.0, -90.0, INTRODUCED), (0.5, 0.75, MARGINAL), (0.5, 1.0, MARGINAL), (0.5, 1.25, INTRODUCED)],
)
def test_own_answer_ignores_the_label(within: float, after: float, origin: Origin, label: float) -> None:
    assert came_from(same_angle(within), turns(label, 0.0, after)) is origin
    assert came_from(same_angle(within), pair(None, Steering(0.0), Steering(after))) is origin
    assert came_from(same_angle(within), turns(label, 0.0, -after, Mirrored())) is origin


def test_shift_is_in_the_record() -> None:
    given = turns(0, 4.5, 5.25)
    relation = Correct(AngleWithin(5))
    assert attribute(relation, given, relation.check(given), ONE) == (MARGINAL, {"shift": 0.75, "least_shift": 1.0})


def test_source_without_a_label_is_unknown() -> None:
    given = pair(None, Steering(0.0), Steering(9.0), mapped=Steering(0.0))
    assert came_from(Correct(AngleWithin(5)), given) is UNKNOWN


angles = st.integers(-400, 400).map(lambda number: number / 16)  # exact, and so are their differences


@given(angles, angles, angles, st.integers(1, 320).map(lambda n: n / 16), st.integers(0, 160).map(lambda n: n / 16))
def test_origins_partition_the_violations(label: float, before: float, after: float, limit: float, least: float) -> None:
    """By the definitions, word by word: exactly one of them is true of a violation, and it is the one given."""
    given = turns(label, before, after)
    relation = Correct(AngleWithin(limit))
    if relation.check(given).status is not Status.VIOLATED:
        return
    held, moved = abs(before - label) < limit, abs(after - before)
    grown, crossed = abs(after - label) - abs(before - label), abs(after - label) - limit
    true = {
        INTRODUCED: held and moved > least,
        MARGINAL: held and moved <= least,
        MADE_WORSE: not held and grown > least,
        ALREADY_WRONG: not held and grown <= least,
    }
    assert [origin for origin, holds in true.items() if holds] == [came_from(relation, given, LeastShift(least))]
    assert not true[MARGINAL] or crossed <= least  # crossed the limit by no more than the least shift
    assert crossed <= least or came_from(relation, given, LeastShift(least)) is not MARGINAL


@given(st.booleans(), st.floats(0, 1e9), st.floats(-1e9, 1e9), st.none() | st.floats(0, 1e9))
def test_larger_least_shift_never_introduces(held: bool, moved: float, grown: float, least: float | None) -> None:
    origin = origin_by_shift(held=held, moved=moved, grown=grown, least=least)
    assert origin in ((INTRODUCED, MARGINAL) if held else (MADE_WORSE, ALREADY_WRONG))
    if origin in (MARGINAL, ALREADY_WRONG):
        assert least is not None or grown <= 0
        assert origin_by_shift(held=held, moved=moved, grown=grown, least=(least or 0.0) * 2) is origin


# --- the least shift -----------------------------------------------------------------------------------------------------


def seen(label: Value | None, said: Value, fault: str = "") -> Observation:
    return Observation("a", "", () if label is None else (label,), (said,), fault=fault)


@pytest.mark.parametrize(("errors", "least"), [([2, -2], 1.0), ([8, -8, 8], 2.0), ([3, 5], math.sqrt(17) / 4), ([0], 1.0)])
def test_default_is_a_degree_or_a_quarter_of_the_error(errors: list[float], least: float) -> None:
    baseline = [seen(Steering(7), Steering(7 + error)) for error in errors]
    unusable = [seen(Steering(0), Steering(1000), "broken"), seen(None, Steering(1000)), seen(Steering(0), Signal("x", 9))]
    assert LeastShift(None, rmse_of([*baseline, *unusable])).of("steering") == pytest.approx(least, rel=1e-15)
    assert LeastShift(0.5, rmse_of(baseline)).of("steering") == 0.5


def test_signals_have_their_own_errors() -> None:
    risk = [seen(Signal("collision", 0.5), Signal("collision", 0.5 + error)) for error in (0.25, -0.25)]
    baseline = [*risk, seen(Signal("speed", 10), Signal("speed", 14)), seen(Signal("gear", 1), Signal("gear", 1))]
    least = LeastShift(None, rmse_of(baseline))
    assert [least.of("signal", name) for name in ("collision", "speed", "gear", "brake")] == [0.0625, 1.0, None, None]
    assert least.of("steering") == 1.0
    assert LeastShift().of("boxes2d") is None


@pytest.mark.parametrize("wrong", [-1, math.nan, "1", True])
def test_least_shift_is_a_number(wrong: Any) -> None:
    with pytest.raises(ValueError, match="'least_shift' must be a number of at least 0, got"):
        Rule("a", Brighten(1), same_angle(5), least_shift=wrong)


# --- other numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "origin"),
    [(0.0, 0.5, INTRODUCED), (0.25, 0.3125, MARGINAL), (0.5, 0.75, MADE_WORSE), (0.5, 0.5625, ALREADY_WRONG)],
)
def test_collision_against_the_label(before: float, after: float, origin: Origin) -> None:
    given = pair(Signal("collision", 0.0), Signal("collision", before), Signal("collision", after))
    assert came_from(Correct(SignalWithin("collision", 0.25)), given, LeastShift(0.125)) is origin


def test_signal_of_unknown_error_is_never_marginal() -> None:
    given = pair(None, Signal("collision", 0.0), Signal("collision", 1e-6))
    assert came_from(Equivariant(SignalWithin("collision", 0.0)), given, LeastShift()) is INTRODUCED


@pytest.mark.parametrize(("after", "origin"), [(10.0, INTRODUCED), (12.0, INTRODUCED), (8.5, MARGINAL)])
def test_decrease_that_fails_to_come(after: float, origin: Origin) -> None:
    given = pair(Signal("speed", 1.0), Signal("speed", 10.0), Signal("speed", after))
    assert came_from(Decrease("speed", 2.0), given) is origin
    assert came_from(Decrease("speed", 2.0), given, LeastShift()) is INTRODUCED


@pytest.mark.parametrize(
    ("before", "after", "origin"), [(0, 9, INTRODUCED), (4.5, 5.25, MARGINAL), (6, 9, MADE_WORSE), (6, 6.5, ALREADY_WRONG)]
)
def test_members_that_disagree(before: float, after: float, origin: Origin) -> None:
    groups = (Group((Steering(20), Steering(20 + apart))) for apart in (before, after))
    assert came_from(Agreement(AngleWithin(5)), pair(Steering(90), *groups)) is origin


# --- objects -------------------------------------------------------------------------------------------------------------

SIZE, KINDS = (1000, 100), ("car", "van", "car", "bus")
FOUND, DRIFTED, MISLABELLED, MISSED = STATES = ("found", "drifted", "mislabelled", "missed")
ORIGINS = {
    (was, now): INTRODUCED if was == FOUND else MADE_WORSE if STATES.index(now) > STATES.index(was) else ALREADY_WRONG
    for was, now in product(STATES, STATES[1:])
}
Spots = Sequence[tuple[float, str]]


def boxes(spots: Spots, size: tuple[int, int] | None = SIZE, scores: Sequence[float] | None = None) -> Boxes2D:
    """Boxes of 20 by 20 pixels at places far enough from each other, each with its kind."""
    xyxy = np.array([(x, 10, x + 20, 30) for x, _ in spots], float).reshape(-1, 4)
    return Boxes2D(xyxy, tuple(kind for _, kind in spots), None if scores is None else np.array(scores), size)


LABELS = [(100.0 * place, kind) for place, kind in enumerate(KINDS)]


def detected(states: Sequence[str], ghosts: Sequence[float] = (), **how: Any) -> Boxes2D:
    """What a detector says whose objects are in these states; a drifted box has an IoU of 1/3."""
    found: dict[str, Any] = {
        FOUND: lambda x, kind: (x, kind),
        DRIFTED: lambda x, kind: (x + 10, kind),
        MISLABELLED: lambda x, kind: (x, "tram"),
    }
    spots = [found[state](*spot) for spot, state in zip(LABELS, states, strict=True) if state != MISSED]
    return boxes([*spots, *((x, "sign") for x in ghosts)], **how)


def rows(facts: Mapping[str, Any], what: str = "rows") -> dict[Origin, list[int]]:
    """The places of objects by origin, as facts have them."""
    found = {origin: [int(place) for place in str(facts.get(f"{origin.key}_{what}", "")).split()] for origin in Origin}
    return {origin: places for origin, places in found.items() if places}


def by_origin(origins: Mapping[int, Origin]) -> dict[Origin, list[int]]:
    found = {origin: [place for place, one in origins.items() if one is origin] for origin in Origin}
    return {origin: places for origin, places in found.items() if places}


@pytest.mark.parametrize(("was", "now"), ORIGINS)
def test_every_way_of_one_object(was: str, now: str) -> None:
    others = [FOUND] * 3
    given = pair(boxes(LABELS), detected([was, *others]), detected([now, *others]))
    for relation in (right_boxes(), PlacedBoxes()):
        found = attribute(relation, given, relation.check(given), ONE)
        assert found.origin is ORIGINS[was, now]
        assert rows(found.facts) == {ORIGINS[was, now]: [0]}


states = st.lists(st.sampled_from(STATES), min_size=4, max_size=4)


@given(states, states, st.sampled_from([Unchanged(), Translate(40, 5)]), st.booleans())
@settings(deadline=None)
def test_finding_is_introduced_if_any_object_is(was: list[str], now: list[str], change: Transformation, sized: bool) -> None:
    said = change.map(detected(now))
    given = pair(boxes(LABELS), detected(was, size=SIZE if sized else None), said, change)
    if right_boxes().check(given).status is not Status.VIOLATED:
        assert now == [FOUND] * 4
        return
    wanted = {row: ORIGINS[pair] for row, pair in enumerate(zip(was, now, strict=True)) if pair[1] != FOUND}
    found = attribute(right_boxes(), given, right_boxes().check(given), ONE)
    assert rows(found.facts) == by_origin(wanted)
    assert found.origin is min(wanted.values(), key=OF_SOME.index)
    if sized and same_boxes().check(given).status is Status.VIOLATED:
        assert came_from(same_boxes(), given) is INTRODUCED


def test_one_old_miss_hides_nothing() -> None:
    """A traffic light that was never found must not pass the blame for another that is lost now."""
    old, label = [MISSED, FOUND, FOUND, FOUND], boxes(LABELS)
    lost = pair(label, detected(old), detected([MISSED, FOUND, MISSED, FOUND]))
    same = pair(label, detected(old), detected(old))
    assert [came_from(right_boxes(), given) for given in (lost, same)] == [INTRODUCED, ALREADY_WRONG]


@pytest.mark.parametrize(
    ("before", "after", "origins"),
    [
        ([], [700], {INTRODUCED: [4]}),
        ([700], [700], {ALREADY_WRONG: [4]}),
        ([700], [705], {ALREADY_WRONG: [4]}),  # the same ghost, a little aside
        ([700], [800], {INTRODUCED: [4]}),
        ([700], [700, 800], {INTRODUCED: [5], ALREADY_WRONG: [4]}),
        ([700, 800], [800], {ALREADY_WRONG: [4]}),
        ([700], [700, 700], {INTRODUCED: [5], ALREADY_WRONG: [4]}),
    ],
)
@pytest.mark.parametrize("change", [Unchanged(), Translate(40, 5)], ids=["in place", "moved"])
@pytest.mark.parametrize("size", [SIZE, None], ids=["sized", "of unknown size"])
def test_ghosts_are_told_apart(
    before: list[float], after: list[float], origins: dict[Origin, list[int]], change: Transformation, size: Any
) -> None:
    all_found = [FOUND] * 4
    given = pair(boxes(LABELS), detected(all_found, before, size=size), change.map(detected(all_found, after)), change)
    found = attribute(right_boxes(), given, right_boxes().check(given), ONE)
    assert found.origin is min(origins, key=OF_SOME.index)
    assert {origin: len(places) for origin, places in rows(found.facts, "boxes").items()} == {
        origin: len(places) for origin, places in origins.items()
    }
    if len(set(after)) == len(after):  # of two equal boxes either may be the old one
        assert rows(found.facts, "boxes") == origins


def test_wrong_box_that_loses_its_object_is_no_new_ghost() -> None:
    """It drifted before; now it is so far away that its object counts as missed, and the box as a ghost."""
    label = boxes([(100.0, "car")])
    before, after = boxes([(112.0, "car")]), boxes([(117.0, "car")])  # IoU 1/4, then below a tenth
    given = pair(label, before, after)
    found = attribute(right_boxes(), given, right_boxes().check(given), ONE)
    assert found.origin is MADE_WORSE
    assert (rows(found.facts), rows(found.facts, "boxes")) == ({MADE_WORSE: [0]}, {ALREADY_WRONG: [0]})


def test_second_box_on_an_object_is_introduced() -> None:
    all_found = [FOUND] * 4
    twice = boxes([*LABELS, LABELS[2]])
    given = pair(boxes(LABELS), detected(all_found), twice)
    found = attribute(right_boxes(), given, right_boxes().check(given), ONE)
    assert found.origin is INTRODUCED
    assert len(rows(found.facts, "boxes")[INTRODUCED]) == 1


@dataclass(frozen=True)
class Adds(Transformation):
    """One more object, at the end of the list."""

    preserves: ClassVar[tuple[str, ...]] = ("image",)

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        return Boxes2D(np.vstack([value.xyxy, [[600, 10, 620, 30]]]), (*value.kinds, "car"), size=value.size)


@dataclass(frozen=True)
class Removes(Transformation):
    """The first object taken away."""

    preserves: ClassVar[tuple[str, ...]] = ("image",)

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        return Boxes2D(value.xyxy[1:], value.kinds[1:], size=value.size)


@pytest.mark.parametrize("was", [FOUND, MISSED])
def test_missed_new_object_is_introduced(was: str) -> None:
    said = detected([was, FOUND, FOUND, FOUND])
    given = pair(boxes(LABELS), said, said, Adds())
    found = attribute(right_boxes(), given, right_boxes().check(given), ONE)
    assert found.origin is INTRODUCED
    assert rows(found.facts)[INTRODUCED] == [4]
    assert rows(found.facts).get(ALREADY_WRONG) == ([0] if was == MISSED else None)


@pytest.mark.parametrize(("was", "origin"), [(FOUND, INTRODUCED), (MISSED, UNKNOWN)])
def test_removed_objects_leave_the_rest_unknown(was: str, origin: Origin) -> None:
    """Which of the objects left was missed before cannot be told; where none was, nothing has to be."""
    given = pair(boxes(LABELS), detected([FOUND, was, FOUND, FOUND]), detected([MISSED, MISSED, FOUND, FOUND]), Removes())
    assert came_from(right_boxes(), given) is origin


@dataclass(frozen=True)
class Unmappable(Transformation):
    """Its labels are given, but it does not say what happens to answers."""

    preserves: ClassVar[tuple[str, ...]] = ("image",)


@pytest.mark.parametrize(
    ("now", "ghosts", "origin"),
    [
        ([FOUND] * 4, [700], UNKNOWN),
        ([FOUND] * 3 + [MISSED], [700], INTRODUCED),
        ([MISSED] + [FOUND] * 3, [], ALREADY_WRONG),
    ],
)
def test_change_that_maps_no_answers(now: list[str], ghosts: list[float], origin: Origin) -> None:
    old = detected([MISSED] + [FOUND] * 3, [900])
    given = pair(boxes(LABELS), old, detected(now, ghosts), Unmappable(), mapped=boxes(LABELS))
    assert came_from(right_boxes(), given) is origin


def test_object_that_becomes_required() -> None:
    """It was not required before the change: whether it was found then is what counts."""
    label, required = boxes(LABELS), [False, True, True, True]
    ignored = replace(label, care=np.array(required))
    for was, origin in ((FOUND, INTRODUCED), (MISSED, ALREADY_WRONG)):
        given = pair(ignored, detected([was] + [FOUND] * 3), detected([MISSED] + [FOUND] * 3), Unmappable(), mapped=label)
        assert came_from(right_boxes(), given) is origin


def test_places_are_those_of_the_whole_answer() -> None:
    """Boxes under the least score are ignored, and still counted in the places of the others."""
    label, old = boxes(LABELS), [FOUND] * 4
    weak = boxes([(900.0, "sign"), *LABELS, (700.0, "sign")], scores=[0.1, 1, 1, 1, 1, 1])
    given = pair(label, detected(old), weak)
    found = attribute(right_boxes(least_score=0.5), given, right_boxes(least_score=0.5).check(given), ONE)
    assert rows(found.facts, "boxes") == {INTRODUCED: [5]}
    own = pair(None, weak, detected([FOUND, FOUND, MISSED, FOUND]))
    found = attribute(same_boxes(least_score=0.5), own, same_boxes(least_score=0.5).check(own), ONE)
    assert rows(found.facts) == {INTRODUCED: [3, 5]}


@pytest.mark.parametrize(
    "relation", [same_boxes(), PlacedBoxes(reference="answer"), Superset("boxes2d"), NoFewer("boxes2d")]
)
def test_own_boxes_ignore_the_labels(relation: Relation) -> None:
    given = pair(boxes(LABELS), detected([FOUND, MISSED, FOUND, FOUND]), detected([MISSED, MISSED, FOUND, FOUND]))
    found = attribute(relation, given, relation.check(given), ONE)
    assert found.origin is INTRODUCED
    assert rows(found.facts) == {INTRODUCED: [0]}


def obstacles(*ahead: float) -> Boxes3D:
    return Boxes3D(np.array([(x, 0, 0, 4, 2, 1.5, 0) for x in ahead], float).reshape(-1, 7), ("car",) * len(ahead))


@pytest.mark.parametrize("relation", [Superset(), NoFewer(), Superset() & NoFewer(), Superset() | NoFewer()])
def test_lost_obstacle_is_introduced(relation: Relation) -> None:
    """Whatever the labels say, and whatever else was never found."""
    given = pair(obstacles(10, 20, 30, 40), obstacles(10, 20, 30), obstacles(10, 30))
    found = attribute(relation, given, relation.check(given), ONE)
    assert found.origin is INTRODUCED
    assert rows(found.facts) == {INTRODUCED: [1]}


def test_moved_obstacle_is_introduced() -> None:
    given = pair(None, obstacles(10, 20), obstacles(10, 22.5))
    found = attribute(Superset(), given, Superset().check(given), ONE)
    assert (found.origin, rows(found.facts)) == (INTRODUCED, {INTRODUCED: [1]})


# --- several relations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Always(Algebra):
    """Violated, of a given origin."""

    of: Origin

    def check(self, pair: Pair) -> Verdict:
        del pair
        return Verdict(Status.VIOLATED, 1.0, "always", facts={"kind": str(self.of)})

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        del pair, least
        return Attribution(self.of, {self.of.key: 1.0})


OF_TWO = {
    # the first of two violations: the origins of both, and of either, together with each other origin in order
    INTRODUCED: ("iiiii", "iiimi"),
    MADE_WORSE: ("iwwww", "iwamu"),
    ALREADY_WRONG: ("iwaau", "iaamu"),
    MARGINAL: ("iwamu", "mmmmm"),
    UNKNOWN: ("iwuuu", "iuumu"),
}
LETTERS = dict(zip("iwamu", Origin, strict=True))


@pytest.mark.parametrize(("one", "other"), list(product(Origin, Origin)))
def test_two_violations_together(one: Origin, other: Origin) -> None:
    both, either = (LETTERS[word[list(Origin).index(other)]] for word in OF_TWO[one])
    given = turns(0, 0, 0)
    assert came_from(Both((Always(one), Always(other))), given) is both
    assert came_from(Either((Always(one), Always(other))), given) is either
    facts = attribute(Both((Always(one), Always(other))), given, Verdict(Status.VIOLATED), ONE).facts
    assert facts == {one.key: 1.0, other.key: 1.0}


def test_ranks_have_every_origin() -> None:
    assert set(OF_SOME) == set(OF_ALL) == set(Origin)
    assert combined([], OF_SOME).origin is UNKNOWN


def test_parts_that_hold_have_no_say() -> None:
    given = turns(0, 6, 6.5)  # the label was missed before, its own answer holds
    assert came_from(same_angle(5) & Correct(AngleWithin(5)), given) is ALREADY_WRONG
    skipped = OnlyIf(lambda pair: False, Always(INTRODUCED))
    assert came_from(skipped & Correct(AngleWithin(5)), given) is ALREADY_WRONG
    assert came_from(skipped | Correct(AngleWithin(5)), given) is ALREADY_WRONG


# --- relations of one's own ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NearOwn:
    """A user's relation on the answer before."""

    def check(self, pair: Pair) -> Verdict:
        return Verdict.at_most(abs(pair.expected[0].degrees - pair.after[0].degrees), 5, "own")  # type: ignore[attr-defined]


@dataclass(frozen=True)
class NearLabel:
    """A user's relation on the label."""

    def check(self, pair: Pair) -> Verdict:
        return Verdict.at_most(abs(pair.followup.truth[0].degrees - pair.after[0].degrees), 5, "label")  # type: ignore[attr-defined]


@dataclass(frozen=True)
class YesOrNo:
    """A user's relation without margins."""

    def check(self, pair: Pair) -> Verdict:
        right = abs(pair.followup.truth[0].degrees - pair.after[0].degrees) < 5  # type: ignore[attr-defined]
        return Verdict(Status.HELD if right else Status.VIOLATED)


@dataclass(frozen=True)
class NeedsTwo(NearOwn):
    """It cannot judge a single case."""

    def untouched(self, alone: Pair) -> None:
        del alone


@dataclass(frozen=True)
class ByLabelAlone(NearOwn):
    """It judges a single case by its label."""

    def untouched(self, alone: Pair) -> Verdict:
        return NearOwn().check(alone)


@dataclass(frozen=True)
class Named(NearOwn):
    """It says itself where its violations come from, in a word."""

    word: str = "made-worse"

    def origin(self, pair: Pair, least: LeastShift) -> str:
        assert (pair.change, least.given) == (Unchanged(), 1.0)
        return self.word


@pytest.mark.parametrize(
    ("relation", "label", "before", "after", "origin"),
    [
        (NearOwn(), 90.0, 0.0, 9.0, INTRODUCED),
        (NearLabel(), 0.0, 0.0, 9.0, INTRODUCED),
        (NearLabel(), 0.0, 4.5, 5.25, MARGINAL),
        (NearLabel(), 0.0, 6.0, 9.0, MADE_WORSE),
        (NearLabel(), 0.0, 6.0, 6.5, ALREADY_WRONG),
        (YesOrNo(), 0.0, 6.0, 90.0, ALREADY_WRONG),
        (NeedsTwo(), 0.0, 0.0, 9.0, UNKNOWN),
        (ByLabelAlone(), 90.0, 0.0, 9.0, ALREADY_WRONG),
        (ByLabelAlone(), 0.0, 0.0, 9.0, INTRODUCED),
        (Named(), 0.0, 0.0, 9.0, MADE_WORSE),
    ],
)
def test_relation_of_ones_own(relation: Relation, label: float, before: float, after: float, origin: Origin) -> None:
    assert came_from(relation, turns(label, before, after)) is origin


def test_without_a_least_shift_none_is_marginal() -> None:
    assert came_from(NearLabel(), turns(0, 4.5, 5.25), LeastShift()) is INTRODUCED
    assert came_from(YesOrNo(), turns(0, 4.5, 5.25), LeastShift()) is INTRODUCED
    assert came_from(NearLabel(), turns(0, 6, 6.25), LeastShift()) is MADE_WORSE


@dataclass(frozen=True)
class SameRegion:
    """A user's comparison of values that are not numbers: how many rings differ."""

    slot: ClassVar[str] = "region"

    def compare(self, expected: Value, actual: Value) -> Verdict:
        assert isinstance(expected, Region)
        assert isinstance(actual, Region)
        return Verdict.at_most(abs(len(expected.polygons) - len(actual.polygons)), 0, "rings")


@pytest.mark.parametrize(("before", "after", "origin"), [(1, 3, INTRODUCED), (2, 4, MADE_WORSE), (2, 2, ALREADY_WRONG)])
def test_comparison_of_ones_own(before: int, after: int, origin: Origin) -> None:
    ring = np.array([(0, 0), (1, 0), (1, 1)], float)
    label, was, now = (Region((ring,) * count) for count in (1, before, after))
    assert came_from(Correct(SameRegion()), pair(label, was, now), LeastShift()) is origin


# --- in a campaign -------------------------------------------------------------------------------------------------------


def campaign(system: Any, *rules: Rule, source: Any = None) -> Campaign:
    return Campaign(source or FakeSource(6), system, rules, Sweep(per_case=1), seed=3, inference_batch=4)


def carried_out(given: Campaign) -> tuple[dict[str, Any], list[Record]]:
    ledger = MemoryLedger()
    summary = run(given, ledger).as_dict()
    return summary, [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


def counts(summary: Mapping[str, Any]) -> dict[Origin, int]:
    return {origin: summary[origin.key] for origin in Origin if summary[origin.key]}


WITHIN = Correct(AngleWithin(15))


@pytest.mark.parametrize(
    ("bias", "beta", "least", "origin"),
    [
        (0.0, 20, None, INTRODUCED),
        (20.0, 20, None, MADE_WORSE),
        (20.0, 4, None, ALREADY_WRONG),  # 25% of an RMSE of 20°
        (20.0, 4, 3.0, MADE_WORSE),
        (14.0, 3, None, MARGINAL),  # 25% of an RMSE of 14°
        (14.0, 3, 2.0, INTRODUCED),
        (14.0, 20, None, INTRODUCED),
    ],
)
def test_planted_fault_has_its_origin(bias: float, beta: int, least: float | None, origin: Origin) -> None:
    rule = Rule("up", Brighten(beta), WITHIN, least_shift=least)
    summary, records = carried_out(campaign(FakeSystem(bias=bias), rule))
    assert {record.origin for record in records} == {origin}
    assert counts(summary) == counts(summary["rules"]["up"]) == {origin: 6}
    assert [record.facts["least_shift"] for record in records] == pytest.approx([least or max(1.0, bias / 4)] * 6)


def test_own_answer_in_a_campaign_ignores_the_label() -> None:
    rule = Rule("up", Brighten(20), same_angle(15))
    for bias in (0.0, 50.0):
        summary, _ = carried_out(campaign(FakeSystem(bias=bias), rule))
        assert counts(summary) == {INTRODUCED: 6}
    assert summary["rules"]["up"]["untouched"] == {"cases": 6, "violated": 6}  # still told


@given(st.integers(-24, 24), st.integers(-40, 40), st.sampled_from([None, 0.0, 2.5]))
@settings(max_examples=25, deadline=None)
def test_origins_of_a_campaign_add_up(bias: int, beta: int, least: float | None) -> None:
    change = Brighten(beta)
    rules = [
        Rule("label", change, Correct(AngleWithin(10)), least_shift=least),
        Rule("own", change, same_angle(10), least_shift=least),
        Rule("both", change, same_angle(10) & Correct(AngleWithin(10)), least_shift=least),
        Rule("either", change, same_angle(10) | Correct(AngleWithin(10)), least_shift=least),
    ]
    summary, records = carried_out(campaign(FakeSystem(bias=float(bias)), *rules))
    for counted in (summary, *summary["rules"].values()):
        assert sum(counted[origin.key] for origin in Origin) == counted["violated"]
    assert all((record.origin is not None) == (record.verdict.status is Status.VIOLATED) for record in records)
    assert Counter(record.origin for record in records if record.origin) == counts(summary)
    assert not {MADE_WORSE, ALREADY_WRONG, UNKNOWN} & counts(summary["rules"]["own"]).keys()


@dataclass(frozen=True)
class Broken(NearLabel):
    """A relation whose origin fails."""

    how: str = "raises"

    def origin(self, pair: Pair, least: LeastShift) -> Any:
        del pair, least
        if self.how == "raises":
            raise RuntimeError("broken")
        if self.how == "refuses":
            raise InputError("broken")
        return self.how


@pytest.mark.parametrize("how", ["raises", "refuses", "guilty"])
def test_failing_origin_is_unknown(how: str) -> None:
    summary, records = carried_out(campaign(FakeSystem(), Rule("up", Brighten(20), Broken(how))))
    assert {record.origin for record in records} == {UNKNOWN}
    assert summary["unknown_origin"] == summary["violated"] == 6


@dataclass(frozen=True)
class Street:
    """Six frames with the same four objects."""

    def keys(self) -> Sequence[str]:
        return [f"frame {number}" for number in range(6)]

    def __getitem__(self, key: str) -> Case:
        return Case(key, {"camera": Image(np.full((100, 1000, 3), 100, np.uint8))}, (boxes(LABELS),))

    def fingerprint(self) -> str:
        return "street"


@dataclass(frozen=True)
class Detector:
    """It says one thing of sources and another of follow-ups."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        bright = [int(case.inputs["camera"].pixels.max()) > 100 for case in cases]  # type: ignore[attr-defined]
        return [(detected(self.after if one else self.before),) for one in bright]

    def fingerprint(self) -> str:
        return f"{self.before} {self.after}"


@pytest.mark.parametrize(
    ("after", "origin", "told"),
    [
        ((MISSED, FOUND, MISSED, FOUND), INTRODUCED, {"introduced_rows": "2", "already_wrong_rows": "0"}),
        ((MISSED, FOUND, FOUND, FOUND), ALREADY_WRONG, {"already_wrong_rows": "0"}),
        ((MISSED, MISSED, MISLABELLED, DRIFTED), INTRODUCED, {"introduced_rows": "1 2 3", "already_wrong_rows": "0"}),
    ],
)
def test_detector_in_a_run(tmp_path: Path, after: tuple[str, ...], origin: Origin, told: dict[str, str]) -> None:
    """Every frame has an old miss; the journal says of which objects each finding is."""
    system = Detector((MISSED, FOUND, FOUND, FOUND), after)
    made = campaign(system, Rule("lit", Brighten(20), right_boxes()), source=Street())
    summary = run_campaign(made, tmp_path / "run", report=False, pictures=False).summary
    assert (summary["violated"], counts(summary)) == (6, {origin: 6})
    for row in Run(tmp_path / "run").trials():
        assert row["origin"] == origin.value
        assert {name: fact for name, fact in row["facts"].items() if name.endswith("_rows")} == told
    assert {finding.origin for finding in Run(tmp_path / "run").findings()} == {origin}


# --- in the journal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", Origin)
def test_row_keeps_the_origin(origin: Origin) -> None:
    _, records = carried_out(campaign(FakeSystem(), Rule("up", Brighten(20), Always(origin))))
    violated = replace(records[0], verdict=Verdict(Status.VIOLATED, 1.0), origin=origin)
    assert record_of(checked_row(record_row(violated)), Builder("change")).origin is origin


@pytest.mark.parametrize(("status", "origin"), [("violated", None), ("held", "introduced"), ("violated", "guilty")])
def test_row_with_a_wrong_origin_is_damaged(status: str, origin: str | None) -> None:
    _, records = carried_out(campaign(FakeSystem(), Rule("up", Brighten(20), same_angle(15))))
    row = {**record_row(records[0]), "status": status, "origin": origin}
    with pytest.raises(StoreError, match="origin cannot be read"):
        checked_row(row)


def test_words_and_keys() -> None:
    assert [origin.value for origin in Origin] == ["introduced", "made-worse", "already-wrong", "marginal", "unknown"]
    assert [origin.key for origin in Origin] == ["introduced", "made_worse", "already_wrong", "marginal", "unknown_origin"]
    assert [origin.words for origin in Origin] == ["introduced", "made worse", "already wrong", "marginal", "unknown origin"]
