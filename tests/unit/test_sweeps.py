"""Findings of sweeps from above, wherever findings are shown; what is lost is right for every kind of change (LM-11)."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
import pytest
from rich.console import Console

from swerve.analysis.overview import overview_of
from swerve.config.toml import Loaded
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault
from swerve.core.region import region_of
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, Group, Region, Steering
from swerve.execution.finding_pictures import files_of
from swerve.execution.launch import run_into
from swerve.methods.lidar import lidar
from swerve.report.birdseye import ADDED, COLOURS, GONE, MARKS, SHADE
from swerve.report.finding_overlays import read_calibration
from swerve.report.html import write_report
from swerve.report.pack import pack
from swerve.report.sweep_pictures import SweepPictures, drawn, drawn_of, expected_of, read_sweeps
from swerve.report.terminal import print_finding, print_summary
from swerve.review.pictures import ReviewPictures
from swerve.store.artifacts import FINDINGS, pictures_of
from swerve.store.files import npy_bytes
from swerve.store.record_json import Finding
from swerve.store.view import Run
from swerve.transformations.dropout import DropPoints, Jitter
from swerve.transformations.insert import InsertObject
from swerve.transformations.scatter import AddPoints, PlacePoints
from swerve.transformations.sensor_pose import MirrorScene, Shift, Yaw
from tests.fixture_runs import keep_file, noise
from tests.fixture_sweep_runs import boxes_of, sweep_run
from tests.fixture_sweeps import cloud, road, sweep_case
from tests.quality.test_lidar_identity import Coupled, Crowded, Sweeps

POINT = PlacePoints(((5.0, 9.0, 0.0, 0.5),))
MOVES: tuple[Transformation, ...] = (
    Yaw(90.0),
    Yaw(-170.0),
    Shift(x=6.0, y=-3.0),
    MirrorScene(),
    Chain((Yaw(40.0), Shift(x=2.0))),
)
OTHERS: tuple[Transformation, ...] = (DropPoints(0.5), Jitter(0.05), AddPoints(50, seed=1), POINT)


@dataclasses.dataclass(frozen=True)
class Own(Transformation):
    """A user's own turn, whose code no report may run."""

    preserves: ClassVar[tuple[str, ...]] = ("region",)

    def points(self, value: object) -> object:
        return Yaw(90.0).points(value)  # type: ignore[arg-type]

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        return Yaw(90.0).boxes3d(value)


def first(run: Run) -> Finding:
    return next(run.findings())


def has(picture: Array, colour: tuple[int, int, int]) -> int:
    return int((picture == np.array(colour)).all(axis=2).sum())


def pixels(png: bytes) -> Array:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def seen(run: Run) -> SweepPictures:
    item = first(run)
    source, followup = (read_sweeps(run, pictures_of(run, sha)) for sha in (item.source_sha, item.input_sha))
    (one,) = drawn(item, source, followup)
    return one


def without(boxes: Boxes3D, row: int) -> Boxes3D:
    rest = [index for index in range(len(boxes.kinds)) if index != row]
    return Boxes3D(boxes.xyzlwhy[rest], tuple(boxes.kinds[index] for index in rest))


# --- what is drawn -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [*MOVES, *OTHERS], ids=lambda change: change.words())
def test_answer_that_went_along_has_lost_nothing(change: Transformation, tmp_path: Path) -> None:
    one = seen(sweep_run(tmp_path / "run", change))
    assert one.sensor == "lidar"
    assert not has(one.source, GONE)
    assert not has(one.followup, GONE)
    for side in (one.source, one.followup):
        assert has(side, COLOURS["car"]) > 20
        assert has(side, SHADE) > 1000


@pytest.mark.parametrize("change", [*MOVES, *OTHERS], ids=lambda change: change.words())
@pytest.mark.parametrize("row", [0, 1])
def test_lost_obstacle_is_dashed_where_it_should_be(change: Transformation, row: int, tmp_path: Path) -> None:
    expected = change.map(boxes_of(sweep_case()))
    one = seen(sweep_run(tmp_path / "run", change, without(expected, row)))
    assert not has(one.source, GONE)
    assert has(one.followup, GONE) > 20
    rows, columns = np.nonzero((one.followup == np.array(GONE)).all(axis=2))
    middle = np.array([rows.mean(), columns.mean()])
    assert np.abs(middle - one.followup.shape[0] / 2).max() < 4  # the view is about it, on either side
    kind = COLOURS[expected.kinds[row]]
    rows, columns = np.nonzero((one.source == np.array(kind)).all(axis=2))
    assert np.hypot(rows - 210, columns - 210).min() < 40


def test_answer_that_stayed_behind_a_turn_is_lost(tmp_path: Path) -> None:
    """The raw answers are the same: only the map tells that they should not be."""
    one = seen(sweep_run(tmp_path / "run", Yaw(90.0), boxes_of(sweep_case())))
    assert has(one.followup, GONE) > 20


@pytest.mark.parametrize("change", [*MOVES, DropPoints(0.5), Jitter(0.05)], ids=lambda change: change.words())
def test_only_points_behind_the_old_ones_are_added(change: Transformation, tmp_path: Path) -> None:
    assert not has(seen(sweep_run(tmp_path / "run", change)).followup, ADDED)


def test_added_points_are_yellow_on_the_follow_up_alone(tmp_path: Path) -> None:
    one = seen(sweep_run(tmp_path / "run", POINT))
    assert not has(one.source, ADDED)
    assert has(one.followup, ADDED) >= 5


def test_region_goes_along(tmp_path: Path) -> None:
    """Turned by a quarter, the road runs across."""
    one = seen(sweep_run(tmp_path / "run", Yaw(90.0)))
    shade = [(side == np.array(SHADE)).all(axis=2) for side in (one.source, one.followup)]
    assert shade[0][:, 200:220].mean() > 2 * shade[0][200:220].mean()
    assert shade[1][200:220].mean() > 2 * shade[1][:, 200:220].mean()


def test_object_put_there_and_not_seen_is_lost(tmp_path: Path) -> None:
    case = sweep_case()
    change = InsertObject("car", 15.0, -4.0)
    expected = change.map(boxes_of(case))
    assert len(expected.kinds) == 3
    item = dataclasses.replace(
        first(sweep_run(tmp_path / "run", POINT)), change={"use": "insert-object", "kind": "car", "x": 15.0, "y": -4.0}
    )
    sides = files_of(case), files_of(DropPoints(0.1)(case))
    (blind,) = drawn(dataclasses.replace(item, after=item.before), *sides)
    (sees,) = drawn(dataclasses.replace(item, after=(expected,)), *sides)
    assert has(blind.followup, GONE) > 20
    assert not has(sees.followup, GONE)


def test_answers_that_are_no_boxes_leave_the_points(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)
    sides = [files_of(case) for case in (sweep_case(), POINT(sweep_case()))]
    broken = Boxes3D(np.full((1, 7), np.nan), ("car",))
    for said in ((), (Steering(3.0),), (broken,)):
        (one,) = drawn(dataclasses.replace(first(run), before=said, after=said), *sides)
        assert has(one.followup, ADDED) >= 5
        assert not has(one.followup, COLOURS["car"])


# --- whose code is run ---------------------------------------------------------------------------------------------------


def test_code_of_others_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change that nobody can map nothing is told as lost; where points were only added, nothing has to be mapped."""
    item = first(sweep_run(tmp_path / "run", Own()))
    assert ":" in item.change["use"]

    def refuse(*_: object) -> None:
        raise AssertionError("the author's code was asked for")

    monkeypatch.setattr("swerve.report.sweep_pictures.build_change", refuse)
    assert expected_of(item) is None
    nested = {"use": "chain", "steps": [{"use": "yaw", "degrees": 1.0}, dict(item.change)]}
    assert expected_of(dataclasses.replace(item, change=nested)) is None
    case = sweep_case()
    (turned,) = drawn(dataclasses.replace(item, after=()), files_of(case), files_of(Yaw(90.0)(case)))
    assert not has(turned.followup, GONE)
    (more,) = drawn(dataclasses.replace(item, after=()), files_of(case), files_of(POINT(case)))
    assert has(more.followup, GONE) > 20


@pytest.mark.parametrize(
    "change", [{"use": "yaw", "degrees": 999}, {"use": "yaw", "no": 1}, {}, {"use": "insert-object", "kind": "boat"}]
)
def test_change_that_cannot_be_made_again_maps_nothing(change: dict[str, object], tmp_path: Path) -> None:
    item = first(sweep_run(tmp_path / "run", POINT))
    assert expected_of(dataclasses.replace(item, change=change)) is None


# --- files ---------------------------------------------------------------------------------------------------------------


def test_sweep_and_region_are_kept() -> None:
    case = sweep_case()
    files = files_of(dataclasses.replace(case, inputs={**case.inputs, "camera": noise(1)}))
    assert sorted(files) == ["camera.png", "lidar.npy", "region.json"]
    assert [np.array(ring).tolist() for ring in json.loads(files["region.json"])] == [
        ring.tolist() for ring in road().polygons
    ]
    labelled = dataclasses.replace(case, inputs={"lidar": cloud()}, truth=(*case.truth, Group((road(),))))
    assert files_of(labelled)["region.json"] == files["region.json"]
    assert sorted(files_of(dataclasses.replace(case, inputs={"camera": noise(1), "region": road()}))) == ["camera.png"]


AHEAD = Calibration({"camera": np.array([[40.0, 0, 32], [0, 40, 16], [0, 0, 1]])}, (64, 32))


def seen_case() -> Case:
    """A sweep with a camera that looks ahead."""
    case = sweep_case()
    return dataclasses.replace(case, inputs={**case.inputs, "camera": noise(1)}, truth=(*case.truth, AHEAD))


def test_calibration_is_kept_with_sweep_and_camera() -> None:
    case = seen_case()
    assert sorted(files_of(case)) == ["calibration.json", "camera.png", "lidar.npy", "region.json"]
    assert read_calibration(files_of(case)["calibration.json"]) == AHEAD
    blind = dataclasses.replace(case, inputs={"lidar": case.inputs["lidar"]})
    assert sorted(files_of(blind)) == ["lidar.npy"]


def test_obstacles_are_seen_by_the_camera(tmp_path: Path) -> None:
    """The car ahead is drawn over the camera's picture, and where it is lost; so both sides are shown."""
    case = seen_case()
    run = sweep_run(tmp_path / "run", POINT, Boxes3D(np.zeros((0, 7)), ()))
    for one in (case, POINT(case)):
        for name in ("camera.png", "calibration.json"):
            keep_file(run, first(run).source_sha if one is case else first(run).input_sha, name, files_of(one)[name])
    page = write_report(run).read_text()
    card = page[page.index("<article") :]
    near, far = (part.partition("</a>")[0] for part in card.split('-camera.png"><img')[1:3])
    assert '<path class="before"' in near
    assert "<path" not in far  # the fixture's verdict has no facts, so nothing is said of what was lost
    (*_, shot) = ReviewPictures(run).of(first(run)).shots
    assert shot.behind is not None
    assert [side.calibration for side in shot.behind] == [AHEAD, AHEAD]


def test_broken_files_are_left_out(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)
    good = [files_of(case) for case in (sweep_case(), POINT(sweep_case()))]
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    for bad in (b"", b"points", good[0]["lidar.npy"][:90], pickled.getvalue(), npy_bytes(np.zeros((3, 7))), b"PK\3\4"):
        assert list(drawn(first(run), {**good[0], "lidar.npy": bad}, good[1])) == []
    for bad in (b"", b"{", b"[[1]]", b'{"a": 1}', b'[["x"]]'):
        (one,) = drawn(first(run), {**good[0], "region.json": bad}, good[1])
        assert not has(one.source, SHADE)
        assert has(one.followup, SHADE)


def test_nothing_outside_the_run_is_read(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)
    item = first(run)
    kept = pictures_of(run, item.source_sha)["lidar"]
    kept.rename(tmp_path / "secret.npy")
    kept.symlink_to(tmp_path / "secret.npy")
    assert "lidar.npy" not in read_sweeps(run, pictures_of(run, item.source_sha))
    assert "<img" not in write_report(run).read_text()
    assert ReviewPictures(run).of(item).shots == ()


# --- where findings are shown --------------------------------------------------------------------------------------------


def test_report_draws_both_sides_once_and_the_same(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT, Boxes3D(np.zeros((0, 7)), ()))
    page = write_report(run)
    item = first(run)
    names = [f"{item.id}-lidar-source.png", f"{item.id}-lidar-followup.png"]
    assert [path.name for path in drawn_of(run, item)] == names
    assert sorted(path.name for path in page.parent.iterdir()) == ["index.html", "pictures"]
    text = page.read_text()
    assert all(
        text.count(f'src="pictures/{name}" width="420" height="420"') == 3 for name in names
    )  # on the first screen, in its group and on its card
    assert 'id="from-above"' in text
    assert "Arrows lean" not in text
    contents = [path.read_bytes() for path in drawn_of(run, item)]
    assert [pixels(data).tolist() for data in contents] == [
        getattr(seen(run), side).tolist() for side in ("source", "followup")
    ]
    (page.parent / "pictures" / "0123456789abcdef-lidar-source.png").write_bytes(b"")
    write_report(run)
    assert [path.read_bytes() for path in drawn_of(run, item)] == contents
    assert len(list((page.parent / "pictures").iterdir())) == 2
    shutil.rmtree(run.folder / FINDINGS)
    assert "pictures not kept" in write_report(run).read_text()
    assert not (page.parent / "pictures").exists()


def test_camera_that_saw_no_change_is_shown_once(tmp_path: Path) -> None:
    text = write_report(sweep_run(tmp_path / "same", POINT, camera=noise(1))).read_text()
    assert text.count('class="alone"') == 3  # on the first screen, in the group and in the gallery
    assert text.count("-camera.png") == 6  # each the picture and the link to it
    both = write_report(sweep_run(tmp_path / "other", MirrorScene(), camera=noise(1))).read_text()
    assert 'class="alone"' not in both
    assert both.count("-camera.png") == 12


def test_hostile_id_becomes_no_file(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)
    assert drawn_of(run, dataclasses.replace(first(run), id="../../*")) == []


def test_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)
    (run.folder / "report").mkdir()
    (run.folder / "report" / "pictures").write_text("in the way")
    with pytest.raises(EnvironmentFault, match="pictures: cannot be written"):
        write_report(run)


def test_show_says_where_they_are(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)
    write_report(run)
    said = io.StringIO()
    print_finding(run, first(run), Console(file=said, width=100))
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("  pictures: ")]
    paths = [Path(part) for part in line.removeprefix("  pictures: ").split(", ")]
    assert paths[:2] == drawn_of(run, first(run))
    assert all(path.is_file() for path in paths)


def test_pack_and_review_show_what_the_report_shows(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT, camera=noise(1))
    write_report(run)
    item = first(run)
    source, followup = (path.read_bytes() for path in drawn_of(run, item))
    with zipfile.ZipFile(pack(run, item.id, tmp_path)) as archive:
        assert (archive.read("source-lidar.png"), archive.read("followup-lidar.png")) == (source, followup)
        assert {"source-lidar.npy", "source-region.json", "source-camera.png"} <= set(archive.namelist())
    shots = ReviewPictures(run).of(item).shots
    assert [shot.sensor for shot in shots] == ["lidar", "camera"]
    assert (shots[0].source, shots[0].followup) == (source, followup)


def test_boxes_in_pixels_are_drawn_on_the_camera(tmp_path: Path) -> None:
    """The review page draws them on the first picture."""
    run = sweep_run(tmp_path / "run", POINT, camera=noise(1))
    both = dataclasses.replace(first(run), after=(*first(run).after, Boxes2D(np.zeros((0, 4)), ())))
    assert [shot.sensor for shot in ReviewPictures(run).of(both).shots] == ["camera", "lidar"]


# --- a whole campaign ----------------------------------------------------------------------------------------------------


def test_campaign_keeps_what_is_needed(tmp_path: Path) -> None:
    """Kept or made again, the pack holds the same bytes; the region kept is the case's."""
    run_into(Loaded(lidar(Sweeps(2), Crowded(most=5), n=100), tmp_path), tmp_path / "run")
    run = Run(tmp_path / "run")
    item = first(run)
    assert set(pictures_of(run, item.source_sha)) == set(pictures_of(run, item.input_sha)) == {"lidar", "region"}
    kept = pictures_of(run, item.source_sha)["region"]
    assert Region(tuple(np.array(ring) for ring in json.loads(kept.read_bytes()))) == region_of(Sweeps(2)[item.case])
    packed = pack(run, item.id, tmp_path / "kept.zip").read_bytes()
    shots = ReviewPictures(run).of(item).shots
    assert [shot.sensor for shot in shots] == ["lidar"]
    assert has(pixels(shots[0].followup), ADDED)
    assert "<figure" not in write_report(run).read_text()  # nothing but the seed varies
    shutil.rmtree(run.folder / FINDINGS)
    assert pack(run, item.id, tmp_path / "again.zip").read_bytes() == packed
    assert ReviewPictures(run).of(item).shots == shots


def test_what_lies_outside_the_region_is_not_lost(tmp_path: Path) -> None:
    """A car 30 m beside the road is not demanded: neither in the verdict nor in the picture."""
    item = first(sweep_run(tmp_path / "run", POINT))
    near = boxes_of(sweep_case())
    both = Boxes3D(np.vstack([near.xyzlwhy, [8.0, -30, 0, 4, 2, 1.5, 0]]), (*near.kinds, "car"))
    (one,) = drawn(
        dataclasses.replace(item, before=(both,), after=(near,)), files_of(sweep_case()), files_of(POINT(sweep_case()))
    )
    assert not has(one.followup, GONE)


@pytest.mark.parametrize("fault", ["lost", "type_changed", "moved"])
def test_pictures_mark_what_the_verdict_names(fault: str, tmp_path: Path) -> None:
    system = Coupled(reach=20.0, fault=fault)
    run_into(
        Loaded(lidar(Sweeps(3), system, n=1000, check="count" if fault == "lost" else "subset"), tmp_path), tmp_path / "run"
    )
    run = Run(tmp_path / "run")
    items = list(run.findings())
    assert items
    for item in items:
        source, followup = (read_sweeps(run, pictures_of(run, sha)) for sha in (item.source_sha, item.input_sha))
        (one,) = drawn(item, source, followup)
        assert {name for name, colour in MARKS.items() if has(one.followup, colour)} == {
            name for name in MARKS if item.facts[name]
        }


def test_every_check_has_its_rate(tmp_path: Path) -> None:
    """One in two sweeps loses an obstacle; where a ghost makes up for it, only the subset tells."""
    run_into(Loaded(lidar(Sweeps(4), Crowded(most=50), n=(10, 100)), tmp_path), tmp_path / "run")
    run = Run(tmp_path / "run")
    counts = {(line.rule, line.check): line for line in overview_of(run).checks}
    assert [check for rule, check in counts if rule.startswith("10 ")] == ["subset", "no-fewer", "plain-count"]
    for (rule, check), line in counts.items():
        assert (line.judged, line.violated) == (4, 0 if rule.startswith("10 ") else 4)
        assert line.outcomes == (
            None if check == "subset" else {"fewer": line.violated, "equal": 4 - line.violated, "more": 0}
        )
    with (run.folder / "tables" / "checks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["check"], row["rate"], row["fewer"]) for row in rows] == [
        *[("subset", "0.0", ""), ("no-fewer", "0.0", "0"), ("plain-count", "0.0", "0")],
        *[("subset", "1.0", ""), ("no-fewer", "1.0", "4"), ("plain-count", "1.0", "4")],
    ]
    page = write_report(run).read_text()
    assert page.count('data-check="plain-count"') == 2
    said = io.StringIO()
    print_summary(run, Console(file=said, width=100))
    assert re.search(r"100 points outside +plain-count +4 +4 100\.0% 51\.0–100\.0 +4 +0 +0\n", said.getvalue())


def test_run_without_sets_has_no_checks(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", POINT)  # its rule is about steering
    assert overview_of(run).checks == []
    assert 'id="checks"' not in write_report(run).read_text()


@pytest.mark.parametrize("text", ["[" * 200_000 + "]" * 200_000, "[[[1, 2]", '{"a": 1}', "[[1]]", "\0"])
def test_damaged_region_is_left_out(text: str, tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", MOVES[0])
    for file in (run.folder / "findings").glob("*-region.json"):
        file.write_text(text)
    one = seen(run)
    assert has(one.source, COLOURS["car"]) > 20
    assert not has(one.source, SHADE)
