"""The objects that decided a verdict on boxes are shown enlarged, where they are on source and follow-up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swerve.analysis.slices import LIGHTS
from swerve.core.values import Boxes2D
from swerve.relations.boxes import right_boxes, same_boxes
from swerve.report.box_closeups import LEAST, MOST, ROOM
from swerve.report.closeups import LAMPS, Closeup, CloseupStrip
from swerve.report.finding_overlays import Backdrop, FindingOverlays
from swerve.transformations.photometric import Brighten
from tests.fixture_boxes import AFTER, BEFORE, KINDS, LABEL, LABELLED, SIZE, Judged, lights, only

SIDE = Backdrop(SIZE)
SURE = same_boxes(least_score=0.3)
ADDRESSES = [{"src": "source.png"}, {"src": "followup.png"}]


def strip(judged: Judged, folder: Path, side: Backdrop = SIDE) -> CloseupStrip:
    run = judged.run(folder)
    label = () if judged.label is None else (judged.label,)
    return FindingOverlays(run).closeups(only(run), label, side, side)


def said(one: Closeup) -> tuple[str, ...]:
    return tuple(view.said for view in one.views if view)


def test_worst_objects_come_first(tmp_path: Path) -> None:
    found = strip(Judged(SURE), tmp_path / "run")
    assert [(one.state, said(one)) for one in found.closeups] == [
        ("lost", ("go 0.80", "not detected")),
        ("mislabelled", ("stop 0.70", "go 0.85")),
        ("drifted", ("go 0.60", "go 0.75")),
    ]
    assert len(found.closeups) == MOST
    assert found.more == 1  # the ghost


def test_each_side_shows_where_the_object_is(tmp_path: Path) -> None:
    lost, wrong, drifted = strip(Judged(SURE), tmp_path / "run").closeups
    assert [view and view.outlines for view in lost.views] == [
        (("lost", (80.0, 20.0, 100.0, 60.0)),),
        (("lost", (90.0, 20.0, 110.0, 60.0)),),  # where the change has moved it
    ]
    assert [view and view.centre for view in lost.views] == [(90.0, 40.0), (100.0, 40.0)]
    assert wrong.followup
    assert wrong.followup.outlines[-1] == ("mislabelled", (150.0, 20.0, 170.0, 60.0))
    assert drifted.followup
    assert drifted.followup.outlines == (("expected", (210, 20, 230, 60)), ("drifted", (219, 20, 239, 60)))


def test_both_sides_have_one_scale(tmp_path: Path) -> None:
    for one in strip(Judged(SURE), tmp_path / "run").closeups:
        assert {view.reach for view in one.views if view} == {ROOM * 40}
    small = lights([(20, 20, 24, 26)], ["go"], [0.9])
    (one,) = strip(Judged(SURE, small, lights([], [], []), None), tmp_path / "small").closeups
    assert {view.reach for view in one.views if view} == {LEAST}


def test_labels_say_what_was_found_before(tmp_path: Path) -> None:
    missed, late, wrong = strip(Judged(right_boxes(least_score=0.3)), tmp_path / "run").closeups
    assert (missed.state, missed.about, said(missed)) == ("missed", "(label stop)", ("not detected", "not detected"))
    assert (late.state, late.about, said(late)) == ("missed", "(label go)", ("go 0.80", "not detected"))
    assert (wrong.state, wrong.about, said(wrong)) == ("mislabelled", "(label stop)", ("stop 0.70", "go 0.85"))


@pytest.mark.parametrize(("moves", "sides"), [(True, 1), (False, 2)])
def test_ghost_has_a_source_only_where_nothing_moved(moves: bool, sides: int, tmp_path: Path) -> None:
    """Nobody knows which place of the source a ghost comes from, unless the change leaves all places as they are."""
    ghost = lights([(50, 100, 70, 140)], ["go"], [0.65])
    empty = lights([], [], [])
    judged = Judged(SURE, empty, ghost, None) if moves else Judged(SURE, empty, ghost, None, Brighten(10.0))
    (one,) = strip(judged, tmp_path / "run").closeups
    assert one.state == "ghost"
    assert said(one) == ("not detected", "go 0.65")[-sides:]
    if not moves:
        assert one.source
        assert one.followup
        assert one.source.centre == one.followup.centre == (60.0, 120.0)
        assert one.source.outlines == ()


def test_ghost_that_was_there_before_is_said_so(tmp_path: Path) -> None:
    """Against labels, what was a ghost on the source too is not called undetected there."""
    before, ghost = lights([(52, 100, 72, 140)], ["stop"], [0.8]), lights([(50, 100, 70, 140)], ["go"], [0.65])
    (one,) = strip(Judged(right_boxes(), before, ghost, lights([], [], []), Brighten(10.0)), tmp_path / "run").closeups
    assert (one.state, said(one)) == ("ghost", ("stop 0.80", "go 0.65"))
    elsewhere = lights([(250, 100, 270, 140)], ["stop"], [0.8])
    (one,) = strip(Judged(right_boxes(), elsewhere, ghost, lights([], [], []), Brighten(10.0)), tmp_path / "other").closeups
    assert said(one) == ("not detected", "go 0.65")


def test_second_box_is_beside_the_one_that_was_found(tmp_path: Path) -> None:
    once = lights([(50, 100, 70, 140)], ["go"], [0.9])
    twice = lights([(50, 100, 70, 140), (51, 101, 71, 141)], ["go", "go"], [0.9, 0.5])
    (one,) = strip(Judged(SURE, once, twice, None, Brighten(10.0)), tmp_path / "run").closeups
    assert (one.state, one.about, said(one)) == ("doubled", "(a second box)", ("go 0.90", "go 0.50"))


def test_other_verdict_has_no_closeups(tmp_path: Path) -> None:
    run = Judged(SURE).run(tmp_path / "run")
    found = FindingOverlays(run).closeups(replace(only(run), margin=9.0), (LABEL,), SIDE, SIDE)
    assert found == CloseupStrip()


def test_boxes_of_another_picture_are_not_cut_out(tmp_path: Path) -> None:
    assert strip(Judged(SURE), tmp_path / "run", Backdrop((100, 100))) == CloseupStrip()


def test_states_of_lights_have_their_colours(tmp_path: Path) -> None:
    assert LAMPS.keys() == LIGHTS
    lost, wrong, _ = strip(Judged(SURE), tmp_path / "run").closeups
    assert [view.lamp for view in lost.views if view] == ["green", ""]
    assert [view.lamp for view in wrong.views if view] == ["red", "green"]
    kinds = ("car",) * 5
    cars = Judged(SURE, lights(LABELLED, kinds, BEFORE.scores), Boxes2D(AFTER.xyxy, kinds, AFTER.scores, SIZE), None)
    assert {view.lamp for one in strip(cars, tmp_path / "cars").closeups for view in one.views if view} == {""}


def test_squares_stay_inside_the_picture(tmp_path: Path) -> None:
    edge = lights([(0, 0, 30, 12), (300, 150, 320, 160), (0, 0, 320, 160)], KINDS[:3], [0.9, 0.9, 0.9])
    found = strip(Judged(SURE, edge, lights([], [], []), None, Brighten(10.0)), tmp_path / "run")
    text = str(found.html(ADDRESSES))
    squares = np.array([list(map(float, one.split())) for one in re.findall(r'viewBox="([^"]+)"', text)])
    assert len(squares) == 6
    assert (squares[:, :2] >= 0).all()
    assert (squares[:, 0] + squares[:, 2] <= SIZE[0]).all()
    assert (squares[:, 1] + squares[:, 3] <= SIZE[1]).all()


def test_page_says_what_happened(tmp_path: Path) -> None:
    text = str(strip(Judged(SURE), tmp_path / "run").html(ADDRESSES))
    assert text.count('src="source.png"') == text.count('src="followup.png"') == MOST
    assert '<b class="lost">lost</b>: <i class="lamp green"></i><bdi>go 0.80</bdi> → <bdi>not detected</bdi>' in text
    assert "<small>and 1 more</small>" in text
    assert str(CloseupStrip().html(ADDRESSES)) == ""


def test_hostile_kinds_are_text(tmp_path: Path) -> None:
    kinds = ("<img src=x onerror=alert(1)>\x01", *KINDS[1:])
    lost = Judged(SURE, lights(LABELLED[:1], kinds[:1], [0.9]), lights([], [], []), None)
    text = str(strip(lost, tmp_path / "run").html(ADDRESSES))
    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;␁" in text
