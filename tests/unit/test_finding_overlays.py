"""What is drawn over the pictures of a finding is what its verdict says."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from swerve.core.relation import Both, Relation
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Boxes2D, Boxes3D, Calibration, Steering
from swerve.relations.boxes import PlacedBoxes, right_boxes, same_boxes
from swerve.relations.sets import Superset
from swerve.report import sweep_pictures
from swerve.report.finding_overlays import Backdrop, FindingOverlays, read_calibration
from swerve.report.overlay import Overlay, Raster
from swerve.store.record_json import Finding
from swerve.store.view import Run
from swerve.transformations.photometric import Brighten
from tests.fixture_boxes import AFTER, BEFORE, LABEL, LABELLED, SIZE, Judged, detector_run, lights, only
from tests.fixture_runs import Made, finding

SIDE = Backdrop(SIZE)
SURE = same_boxes(least_score=0.3)


def overlays(
    run: Run, one: Finding | None = None, label: Boxes2D | None = LABEL, side: Backdrop = SIDE
) -> tuple[Overlay, ...]:
    return FindingOverlays(run).of(one or only(run), () if label is None else (label,), side, side)


def texts(overlay: Overlay) -> list[str]:
    return [shape.text for shape in overlay.shapes]


def test_own_answer_is_drawn_in_its_states(tmp_path: Path) -> None:
    source, followup = overlays(detector_run(tmp_path / "run"))
    assert source.words == "1 kept, 1 drifted, 1 mislabelled, 1 lost"
    assert followup.words == "1 kept, 1 ghost, 1 drifted, 1 mislabelled, 1 lost"
    assert texts(source) == [
        *("lost go 0.80", "mislabelled stop 0.70", "drifted go 0.60", "stop 0.90"),
        *("label stop", "label go", "label stop", "label go", "label stop"),
    ]
    assert texts(followup)[:6] == [
        "lost go 0.80",
        "go 0.85, expected stop",
        "drifted go 0.75",
        "ghost go 0.65",
        "stop 0.95",
        "",
    ]


def test_shapes_lie_where_the_boxes_are(tmp_path: Path) -> None:
    source, followup = overlays(detector_run(tmp_path / "run"))
    first = {shape.kind: shape.path for shape in reversed(source.shapes)}
    then = {shape.kind: shape.path for shape in reversed(followup.shapes)}
    assert first["lost"] == "M80 20H100V60H80z"
    assert then["lost"] == "M90 20H110V60H90z"  # where the change has moved it
    assert then["expected"] == "M210 20H230V60H210z"
    assert then["drifted"] == "M219 20H239V60H219z"
    assert then["ghost"] == "M50 100H70V140H50z"


def test_labels_are_found_or_missed(tmp_path: Path) -> None:
    source, followup = overlays(detector_run(tmp_path / "run", right_boxes(least_score=0.3)))
    assert source.words == "4 found, 1 missed"
    assert followup.words == "1 found, 1 ghost, 1 drifted, 1 mislabelled, 2 missed"
    assert texts(source)[:2] == ["missed stop", "stop 0.90"]


def test_objects_of_one_kind_are_not_named(tmp_path: Path) -> None:
    kinds = ("light",) * 5
    before, label = lights(LABELLED, kinds, (0.9, 0.8, 0.7, 0.6, 0.2)), lights(LABELLED, kinds)
    after = Boxes2D(AFTER.xyxy, kinds, AFTER.scores, SIZE)
    source, followup = overlays(Judged(SURE, before, after, label).run(tmp_path / "run"), label=label)
    assert texts(source) == ["lost 0.80", "drifted 0.60", "0.90", "0.70", "", "", "", "", ""]
    assert texts(followup)[:3] == ["lost 0.80", "drifted 0.75", "ghost 0.65"]


def test_unlabelled_findings_are_drawn(tmp_path: Path) -> None:
    run = Judged(SURE, label=None).run(tmp_path / "run")
    assert [overlay.words for overlay in overlays(run, label=None)] == [
        "1 kept, 1 drifted, 1 mislabelled, 1 lost",
        "1 kept, 1 ghost, 1 drifted, 1 mislabelled, 1 lost",
    ]


@pytest.mark.parametrize("strict_first", [True, False])
def test_part_that_judged_is_drawn(strict_first: bool, tmp_path: Path) -> None:
    """Of two relations, the one whose reason the record has."""
    parts: tuple[Relation, ...] = (Superset(slot="boxes2d"), right_boxes(least_score=0.3))
    expect = Both(parts if strict_first else parts[::-1])
    run = detector_run(tmp_path / "run", expect)
    assert "expected" in only(run).why
    assert overlays(run)[0].words == "4 found, 1 missed"


def test_placed_boxes_are_judged_as_they_were(tmp_path: Path) -> None:
    run = detector_run(tmp_path / "run", PlacedBoxes(right_boxes(least_score=0.3).compare))  # type: ignore[arg-type]
    assert overlays(run)[1].words == "1 found, 1 ghost, 1 drifted, 1 mislabelled, 2 missed"


@pytest.mark.parametrize("altered", [{"why": "1 lost"}, {"margin": 7.0}])
def test_other_verdict_gives_no_states(altered: dict[str, object], tmp_path: Path) -> None:
    """A relation that does not give the recorded verdict again must not colour the boxes."""
    run = detector_run(tmp_path / "run")
    other = replace(only(run), **altered)  # type: ignore[arg-type]
    source, followup = overlays(run, other)
    assert (source.words, followup.words) == ("", "")
    assert Counter(shape.kind for shape in source.shapes) == {"before": 5, "label": 5}
    assert Counter(shape.kind for shape in followup.shapes) == {"after": 5, "label": 5}
    assert texts(source)[:2] == ["stop 0.90", "go 0.80"]  # the surest first


@dataclass(frozen=True)
class Mine(Transformation):
    """A change of the run's author, which a report must not run."""

    preserves: ClassVar[tuple[str, ...]] = ("*",)

    def placed(self) -> Boxes2D:
        return lights([(5, 5, 25, 25)], ["wheel"])

    def words(self) -> str:
        return "mine"


def test_foreign_change_is_not_run(tmp_path: Path) -> None:
    run = Judged(SURE, change=Mine()).run(tmp_path / "run")
    assert [shape.kind for shape in overlays(run)[1].shapes] == ["after"] * 5 + ["label"] * 5


def test_live_relation_gives_no_states(tmp_path: Path) -> None:
    record = Judged(SURE).record()
    run = Made([record], expects={"lights": {"live": "mine:relation"}}).write(tmp_path / "run")
    assert overlays(run)[1].words == ""


def test_placed_objects_are_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered change that places objects shows them over the follow-up, whatever the answer is."""
    record = finding("a", change=Mine())
    run = Made([record]).write(tmp_path / "run")
    known = {**sweep_pictures.all_names(), f"{__name__}:Mine": "", "brighten": ""}
    monkeypatch.setattr(sweep_pictures, "all_names", lambda: known)
    monkeypatch.setattr(sweep_pictures, "build_change", lambda *_, **__: Chain((Mine(), Brighten(3.0))))
    source, followup = overlays(run, label=None)
    assert [(shape.kind, shape.text) for shape in followup.shapes] == [("object", "wheel")]
    assert source.shapes == ()
    assert [arrow.kind for arrow in followup.arrows] == ["l", "k", "r"]


def test_boxes_of_another_camera_are_not_drawn(tmp_path: Path) -> None:
    run = detector_run(tmp_path / "run")
    assert all(overlay.shapes == () for overlay in overlays(run, side=Backdrop((64, 48))))
    unsized = replace(only(run), before=(Boxes2D(BEFORE.xyxy, BEFORE.kinds),), after=(Boxes2D(AFTER.xyxy, AFTER.kinds),))
    assert overlays(run, unsized, side=Backdrop((64, 48)))[1].shapes


def test_boxes_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    run = detector_run(tmp_path / "run")
    torn = Boxes2D(np.array([[np.nan, 0, 1, 1], [1, 2, 3, 4], [0, 0, np.inf, 1]]), ("go",) * 3)
    assert [
        shape.path for shape in overlays(run, replace(only(run), after=(torn,)), None)[1].shapes if shape.kind == "after"
    ] == ["M1 2H3V4H1z"]


def test_many_boxes_are_cut_at_a_hundred(tmp_path: Path) -> None:
    run = detector_run(tmp_path / "run")
    many = Boxes2D(np.tile([1.0, 2, 3, 4], (500, 1)), ("go",) * 500, np.linspace(0, 1, 500))
    shown = overlays(run, replace(only(run), after=(many,)), None)[1]
    assert len(shown.shapes) == 100
    assert shown.shapes[0].text == "go 1.00"


def test_too_many_boxes_are_not_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of a million boxes, as a foreign journal may hold, would fill the memory."""
    run = detector_run(tmp_path / "run")
    assert overlays(run)[1].words
    monkeypatch.setattr("swerve.report.box_overlays.MOST_JUDGED", 3)
    assert overlays(run)[1].words == ""
    assert "after" in {shape.kind for shape in overlays(run)[1].shapes}


def test_heat_lies_over_its_picture(tmp_path: Path) -> None:
    side = Backdrop(SIZE, rasters=(Raster("heat", "heat.png"),))
    assert all(overlay.rasters == side.rasters for overlay in overlays(detector_run(tmp_path / "run"), side=side))


# A camera at the LiDAR that looks ahead: x ahead is its depth.
AHEAD = Calibration({"camera": np.array([[100.0, 0, 160], [0, 100, 80], [0, 0, 1]])}, SIZE)
CAR, BEHIND = (10.0, 0, 0, 4, 2, 2, 0), (-10.0, 0, 0, 4, 2, 2, 0)


def solid(after: tuple[tuple[float, ...], ...], facts: dict[str, object]) -> Finding:
    before = Boxes3D(np.array([CAR, BEHIND, (20.0, 5, 0, 4, 2, 2, 0)]), ("car",) * 3)
    seen = Boxes3D(np.array(after).reshape(-1, 7), ("car",) * len(after))
    return Finding(
        *("0" * 16, "points", "case", "brighter", 1.0, True, "1 lost", {"use": "brighten", "beta": 3.0}),
        *((before,), (seen,), (), facts, "", ""),
    )


def test_solid_boxes_are_seen_by_the_camera(tmp_path: Path) -> None:
    run = Made([finding("a")]).write(tmp_path / "run")
    facts = {"lost": 2.0, "type_changed": 0.0, "moved": 0.0, "lost_rows": "1 2"}
    source, followup = overlays(run, solid((CAR,), facts), None, Backdrop(SIZE, AHEAD))
    assert [(shape.kind, shape.text) for shape in source.shapes] == [("before", "car"), ("lost", "lost car")]
    assert [(shape.kind, shape.text) for shape in followup.shapes] == [("after", "car"), ("lost", "lost car")]
    assert source.shapes[0].at == pytest.approx(
        (160 - 100 / 8, 80 - 100 / 8)
    )  # its near face, 8 m ahead and 1 m to each side
    assert source.shapes[0].path.count("M") == 12
    plain = overlays(run, solid((CAR,), {}), None, Backdrop(SIZE, AHEAD))
    assert [shape.kind for overlay in plain for shape in overlay.shapes] == ["before", "before", "after"]
    assert all(overlay.shapes == () for overlay in overlays(run, solid((CAR,), facts), None))  # without a calibration


def test_calibration_is_read_again() -> None:
    data = json.dumps({"matrices": {"camera": AHEAD.matrices["camera"].tolist()}, "size": SIZE}).encode()
    assert read_calibration(data) == AHEAD


@pytest.mark.parametrize(
    "torn",
    [
        *(b"", b"{", b"[]", b"null", b"7", b'{"matrices": 3, "size": null}', b'{"matrices": {}, "size": null}'),
        b'{"matrices": {"camera": [[1, 2], [3, 4]]}, "size": null}',
        b'{"matrices": {"camera": [[1, 2, NaN], [3, 4, 5], [6, 7, 8]]}, "size": null}',
        b'{"matrices": {"P2": [[1, 2, 3], [3, 4, 5], [6, 7, 8]], "Tr_velo_to_cam": [[1, 2, 3, 4, 5]]}, "size": null}',
    ],
)
def test_torn_calibration_is_none(torn: bytes) -> None:
    assert read_calibration(torn) is None


def test_steering_is_drawn_as_arrows(tmp_path: Path) -> None:
    run = Made([finding("a", off=7.0)]).write(tmp_path / "run")
    source, followup = FindingOverlays(run).of(only(run), (Steering(1.0),), SIDE, SIDE)
    assert [(arrow.kind, arrow.turn) for arrow in source.arrows] == [("l", "-1.0"), ("k", "-3.0")]
    assert [(arrow.kind, arrow.turn) for arrow in followup.arrows] == [("l", "-3.0"), ("k", "-3.0"), ("r", "-10.0")]
