"""The LiDAR experiment on small sweeps and planted faults: every table follows from the journals."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from swerve.analysis.obstacle_frames import Frame
from swerve.cli.experiment import EXPERIMENTS
from swerve.cli.main import main
from swerve.config.toml import build_change
from swerve.config.trust import OWN
from swerve.core.case import Case
from swerve.core.encode import decode_values
from swerve.core.region import inside
from swerve.core.relation import Pair
from swerve.core.seeding import rng_for
from swerve.core.transformation import Unchanged
from swerve.core.values import Boxes3D, Image, PointCloud, Value
from swerve.execution.fewest_points import AttackOutcome, FewestPoints, RepeatedAnswers
from swerve.experiments.lidar import LIDAR
from swerve.experiments.lidar.examples import chosen
from swerve.experiments.lidar.experiment import SIZES, LidarSize
from swerve.experiments.lidar.fewest import shown
from swerve.experiments.lidar.retraining import ARMS, NOISE, Lessons, _series, cached_sweeps, retraining_steps
from swerve.experiments.lidar.subject_runs import PAPER, LidarRuns
from swerve.experiments.runner import estimate, run
from swerve.experiments.schedule import TrainingStep
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.subjects import Subject
from swerve.relations.obstacles import changes, count_obstacles
from swerve.relations.sets import NoFewer
from swerve.report.experiment_page import Page
from swerve.retrain.sweeps import Twice, learn
from swerve.search.fuzz import Attack, Fuzz
from swerve.sources.kitti import Kitti
from swerve.store.view import Run
from swerve.train.loop import save_weights
from swerve.train.rendered_sweeps import CachedSweeps
from swerve.transformations.scatter import PlacePoints
from swerve.world.lidar_source import LidarWorld
from swerve.zoo.grid import Grid
from swerve.zoo.lidar import Lidar
from swerve.zoo.lidar_network import BirdNet
from swerve.zoo.receptive_field import REACHES
from tests.fixture_sweeps import points_of
from tests.quality.test_lidar_identity import BACKGROUND, ROAD, Coupled, Crowded, Sound, Sweeps, without

FRAMES = 8
SMALL = LidarSize(FRAMES, 4, Fuzz(points=10, targets=2, tries=16), Lessons(2, 1, 1, 2, 3))
PLACEMENTS = ("anywhere", "within 5 m")
SERIES = (10, 100, 1000)
TABLE = {n: tuple(cell.count for cell in row.values()) for (_, n), row in PAPER["table"].values.items()}


class Pictured(Sweeps):
    """The same sweeps with a picture each, so that they can be exported."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        camera = Image(np.full((24, 40, 3), 90, np.uint8))
        return Case(key, {**case.inputs, "camera": camera}, case.truth, group=case.group)


def made(into: Path, system: Sound, *, independent: bool = False, source: Sweeps | None = None) -> Page:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SIZES, QUICK, SMALL)
        given = source or Pictured(3 * FRAMES)
        return run(LIDAR, Setting(into, QUICK, seed=3), system, given, "small", independent=independent)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("experiment")
    made(into, Coupled(fault="lost"))
    return into


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def journal(folder: Path, placement: str, n: int) -> Iterator[tuple[Mapping[str, Any], Boxes3D, Boxes3D]]:
    """The judged trials of a series with what was said, read by hand."""
    for row in Run(folder / "runs" / "small" / placement).trials():
        if row["facts"].get("added") == n:
            assert row["status"] in ("held", "violated")
            before, after = (decode_values(row[end])[0] for end in ("before", "after"))
            assert isinstance(before, Boxes3D)
            assert isinstance(after, Boxes3D)
            yield row, before, after


def wilson(k: int, n: int) -> tuple[float, float]:
    """The interval by its textbook formula."""
    z = 1.959963984540054
    middle, reach = (k + z**2 / 2) / (n + z**2), z / (n + z**2) * math.sqrt(k * (n - k) / n + z**2 / 4)
    return max(0.0, middle - reach), min(1.0, middle + reach)


# --- the tables, by hand -------------------------------------------------------------------------------------------------


def test_every_table_and_the_page_are_there(folder: Path) -> None:
    written = {path.stem for path in (folder / "tables").glob("*.csv")}
    assert written == {"table", "fig3", "subset", "landed", "distance", "fewest"}
    page = (folder / "report" / "index.html").read_text()
    for title in (
        "hide obstacles",
        "Fig. 3",
        "same obstacles",
        "Where do the points lie",
        "How few points",
        "Examples of lost",
        "A/A",
    ):
        assert title in page, title
    assert list((folder / "report" / "pictures").iterdir())


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("n", SERIES)
def test_table_is_what_the_journal_says(folder: Path, placement: str, n: int) -> None:
    (row,) = (row for row in rows(folder, "table") if row["placement"] == placement and int(row["n"]) == n)
    differences = [len(after.kinds) - len(before.kinds) for _, before, after in journal(folder, placement, n)]
    lost, equal, gained = (sum(np.sign(d) == sign for d in differences) for sign in (-1, 0, 1))
    assert [int(row[name]) for name in ("frames", "lost", "equal", "gained")] == [FRAMES, lost, equal, gained]
    assert float(row["rate"]) == pytest.approx(lost / FRAMES)
    assert (float(row["low"]), float(row["high"])) == pytest.approx(wilson(lost, FRAMES), abs=1e-9)
    printed = [row[f"printed {name}"] for name in ("lost", "equal", "gained")]
    assert printed == ([str(number) for number in TABLE[n]] if placement == "anywhere" else [""] * 3)
    p = min(1.0, 2 * sum(math.comb(lost + gained, k) for k in range(gained + 1)) / 2 ** (lost + gained))
    assert row["sign test p"] == "" if lost + gained == 0 else float(row["sign test p"]) == pytest.approx(p)


def test_losses_are_planted_and_found(folder: Path) -> None:
    """The fault strikes where a high point lies within 6 m of an obstacle; of 1,000 near the border one always does."""
    table = {(row["placement"], int(row["n"])): row for row in rows(folder, "table")}
    assert int(table["within 5 m", 1000]["lost"]) == FRAMES
    assert int(table["within 5 m", 10]["lost"]) < FRAMES


def test_printed_numbers_are_the_paper_s() -> None:
    assert dict(TABLE) == {10: (27, 951, 22), 100: (121, 781, 98), 1000: (335, 533, 132)}
    assert {sum(row) for row in TABLE.values()} == {1000}


def test_unchanged_frames_change_nothing(folder: Path) -> None:
    """A/A = 0, told in a row of its own and beside every rate."""
    (again,) = (row for row in rows(folder, "table") if row["placement"].startswith("none"))
    assert [int(again[name]) for name in ("frames", "lost", "equal", "gained")] == [FRAMES, 0, FRAMES, 0]
    assert {float(row["A/A rate"]) for name in ("table", "fig3") for row in rows(folder, name)} == {0.0}
    assert {float(row["A/A frame rate"]) for row in rows(folder, "subset")} == {0.0}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_figure_3_counts_types_by_hand(folder: Path, placement: str) -> None:
    for n in SERIES:
        table = {row["type"]: row for row in rows(folder, "fig3") if row["placement"] == placement and int(row["n"]) == n}
        pairs = [(before, after) for _, before, after in journal(folder, placement, n)]
        assert set(table) == {kind for before, _ in pairs for kind in before.kinds}
        for kind, row in table.items():
            counts = [(before.kinds.count(kind), after.kinds.count(kind)) for before, after in pairs]
            assert int(row["lost"]) == sum(after < before for before, after in counts)
            assert int(row["gained"]) == sum(after > before for before, after in counts)
            assert int(row["lost"]) + int(row["equal"]) + int(row["gained"]) == FRAMES
            assert [int(row["before"]), int(row["after"])] == [sum(part) for part in zip(*counts, strict=True)]


@pytest.mark.parametrize("fate", ["lost", "vanished", "type_changed", "moved", "gained"])
def test_subset_counts_fates_by_hand(folder: Path, fate: str) -> None:
    for placement in PLACEMENTS:
        for n in SERIES:
            became = [(changes(before, after), before) for _, before, after in journal(folder, placement, n)]
            for row in rows(folder, "subset"):
                if (row["placement"], int(row["n"]), row["fate"]) != (placement, n, fate):
                    continue
                name = fate if row["type"] == "all" else f"{fate}.{row['type']}"
                counts = [int(one.counts().get(name, 0)) for one, _ in became]
                there = sum(row["type"] in ("all", kind) for _, before in became for kind in before.kinds)
                assert (int(row["obstacles"]), int(row["count"])) == (there, sum(counts))
                assert (int(row["frames"]), int(row["frames with"])) == (FRAMES, sum(count > 0 for count in counts))
                assert float(row["rate"]) == pytest.approx(sum(counts) / there)
                expected = wilson(sum(count > 0 for count in counts), FRAMES)
                assert (float(row["frame low"]), float(row["frame high"])) == pytest.approx(expected, abs=1e-9)


def test_missing_is_lost_renamed_and_moved(folder: Path) -> None:
    table = {(r["placement"], r["n"], r["type"], r["fate"]): int(r["count"]) for r in rows(folder, "subset")}
    for placement, n, kind, fate in table:
        if fate == "missing":
            parts = (table[placement, n, kind, part] for part in ("lost", "type_changed", "moved"))
            assert table[placement, n, kind, fate] == sum(parts)


def test_points_landed_are_counted(folder: Path) -> None:
    table = {(row["placement"], int(row["n"])): row for row in rows(folder, "landed")}
    for (placement, n), row in table.items():
        assert (int(row["frames"]), int(row["points"])) == (FRAMES, n * FRAMES)
        assert row["in the grid"] == ""  # this system has none
        near = 0
        for trial, before, _ in journal(folder, placement, n):
            case = Pictured(3 * FRAMES)[trial["case"]]
            added = points_of(build_change(trial["change"], OWN)(case))[len(points_of(case)) :].astype(np.float64)
            away = np.hypot(*(added[:, None, :2] - before.xyzlwhy[None, :, :2]).transpose(2, 0, 1))
            near += int((away < 4).any(axis=1).sum())
        assert int(row["near an obstacle"]) == near


def test_distances_add_up(folder: Path) -> None:
    for placement in PLACEMENTS:
        table = [row for row in rows(folder, "distance") if row["placement"] == placement]
        pairs = [(before, after) for _, before, after in journal(folder, placement, 1000)]
        assert sum(int(row["obstacles"]) for row in table) == sum(len(before.kinds) for before, _ in pairs)
        assert sum(int(row["missing"]) for row in table) == sum(changes(*pair).missing for pair in pairs)
        assert sum(int(row["missing"]) for row in table if row["metres"].startswith(("8", "16", "32"))) == 0  # 6 m reach


# --- the fewest points ---------------------------------------------------------------------------------------------------


def test_fewest_points_are_confirmed(folder: Path) -> None:
    """One point is enough for this fault, and the search says so, with the true number of tries."""
    table = rows(folder, "fewest")
    assert len(table) == 2
    for row in table:
        assert (row["hidden"], row["points"], row["confirmed"], row["vanished"]) == ("True", "1", "True", "True")
        assert float(row["metres to the nearest"]) < 6
    tries = Counter(row["case"] for row in Run(folder / "runs" / "small" / "fewest").trials())
    page = (folder / "report" / "index.html").read_text()
    assert f"{tries.total():,} forward passes" in page
    assert "2 hidden with 1 point each (2 confirmed, 2 vanished with 1 point each)" in page


def test_shrunk_points_lie_outside(folder: Path) -> None:
    kept_files = list((folder / "runs" / "small" / "fewest" / "shrunk").glob("*.json"))
    assert len(kept_files) == 2
    for file in kept_files:
        row = json.loads(file.read_text())["row"]
        case = Pictured(3 * FRAMES)[row["case"]]
        added = points_of(build_change(row["change"], OWN)(case))[len(points_of(case)) :]
        assert len(added) == 1
        assert not inside(case.inputs["region"], added[:, :2]).any()  # type: ignore[arg-type]


# --- the export ----------------------------------------------------------------------------------------------------------


def test_violating_frames_are_exported(folder: Path) -> None:
    place = folder / "data" / "violating" / "small"
    source = Kitti(place / "train", ("lidar",))
    assert len(source.keys()) == SMALL.lessons.exported
    with (place / "manifest.csv").open(newline="") as file:
        told = list(csv.DictReader(file))
    for key, row in zip(source.keys(), told, strict=True):
        cloud = source[key].inputs["lidar"]
        assert isinstance(cloud, PointCloud)
        before = Pictured(3 * FRAMES)[row["parent"]]
        assert cloud.xyzi[: len(points_of(before))].tobytes() == points_of(before).tobytes()
        assert len(cloud.xyzi) - len(points_of(before)) == int(row["rule"].split()[0].replace(",", ""))
        labels = [line.split()[0].lower() for line in (place / "train" / "label_2" / f"{key}.txt").read_text().splitlines()]
        truth = before.truth[0]
        assert isinstance(truth, Boxes3D)
        assert labels == list(truth.kinds)


# --- resuming, designs, clean twins --------------------------------------------------------------------------------------


def test_going_on_in_a_finished_folder_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / "tables").glob("*.csv")}
    made(folder, Coupled(fault="lost"))
    assert {path: path.read_bytes() for path in (folder / "tables").glob("*.csv")} == before


def test_clean_twin_loses_nothing_at_any_n(tmp_path: Path) -> None:
    made(tmp_path, Sound(), source=Sweeps(FRAMES))
    page = (tmp_path / "report" / "index.html").read_text()
    table = rows(tmp_path, "table")
    assert {(row["lost"], row["equal"], row["gained"]) for row in table} == {("0", str(FRAMES), "0")}
    assert {row["count"] for row in rows(tmp_path, "subset")} == {"0"}
    assert {row["hidden"] for row in rows(tmp_path, "fewest")} <= {"False"}
    assert "none hidden of" in page
    assert "no frame is violated" in page
    assert "no obstacle was lost" in page


def test_independent_series_have_frames_of_their_own(tmp_path: Path) -> None:
    made(tmp_path, Crowded(most=40), independent=True)
    for placement in PLACEMENTS:
        cases = [{row["case"] for row, *_ in journal(tmp_path, placement, n)} for n in SERIES]
        assert [len(some) for some in cases] == [FRAMES] * 3
        assert len(set().union(*cases)) == 3 * FRAMES
    table = {(row["placement"], int(row["n"])): int(row["lost"]) for row in rows(tmp_path, "table")}
    assert [table[placement, n] for placement in PLACEMENTS for n in SERIES] == [0, FRAMES, FRAMES] * 2
    assert rows(tmp_path, "table")[0]["frames"] == str(3 * FRAMES)


class Flickering(Sound):
    """Loses its first obstacle one time in three, whatever it is shown."""

    asked = 0

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        Flickering.asked += 1
        del case
        dark = rng_for("flicker", Flickering.asked).random() < 1 / 3
        return Boxes3D(boxes.xyzlwhy[1:], boxes.kinds[1:]) if dark else boxes


def test_flicker_shows_in_the_a_a_row(tmp_path: Path) -> None:
    """D-20: what an unchanged frame gives stands beside every rate, so that noise is not taken for an effect."""
    Flickering.asked = 0
    page = made(tmp_path, Flickering(), source=Sweeps(FRAMES))
    assert [section.title for section in page.sections[:2]] == [
        "Do points outside the region hide obstacles within it?",
        "Examples of lost obstacles",
    ]
    again = rows(tmp_path, "table")[0]
    assert int(again["lost"]) + int(again["gained"]) > 0
    first, second = ({seen.case: seen for seen in Run(tmp_path / "runs" / "small" / name).baseline()} for name in PLACEMENTS)
    outcomes = Counter(count_obstacles(first[key].answer[0], second[key].answer[0])["all"].outcome for key in first)  # type: ignore[arg-type]
    assert [int(again[name]) for name in ("lost", "equal", "gained")] == [outcomes[n] for n in ("lost", "equal", "gained")]


# --- obstacles beside the region, frames without labels, answers that differ a little -----------------------------------

FIELD = (30.0, 30.0, 0.0, 2.0, 2.0, 1.5, 0.0)  # a box far from the road


def also(boxes: Boxes3D, *rows: tuple[float, ...], kind: str = "car") -> Boxes3D:
    numbers = np.concatenate([boxes.xyzlwhy, np.reshape(rows, (-1, 7))])
    return Boxes3D(numbers, (*boxes.kinds, *[kind] * len(rows)))


class Roadside(Sweeps):
    """The same sweeps, with a label in a field."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        (truth,) = case.truth
        assert isinstance(truth, Boxes3D)
        return Case(key, case.inputs, (also(truth, FIELD),), group=key)


class Forgetful(Sound):
    """Sees what stands in the field until a point is added, and then something else there."""

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        fresh = len(points_of(case)) == BACKGROUND + 8 * len(boxes.kinds)
        return also(boxes, FIELD) if fresh else also(boxes, (-30.0, 30.0, *FIELD[2:]))


def test_obstacles_beside_the_region_are_nobody_s_business(tmp_path: Path) -> None:
    """MR1 speaks of the region: what is lost or made up in the field counts nowhere, but the answers have changed."""
    made(tmp_path, Forgetful(), source=Roadside(FRAMES))
    on_the_road = [len(Sweeps(FRAMES)[key].truth[0].kinds) for key in Sweeps(FRAMES).keys()]  # type: ignore[attr-defined]
    assert {(row["lost"], row["equal"], row["gained"]) for row in rows(tmp_path, "table")} == {("0", str(FRAMES), "0")}
    assert {row["count"] for row in rows(tmp_path, "subset")} == {"0"}
    assert {int(row["obstacles"]) for row in rows(tmp_path, "subset") if row["type"] == "all"} == {sum(on_the_road)}
    for placement in PLACEMENTS:
        told = [row for row in rows(tmp_path, "distance") if row["placement"] == placement]
        assert sum(int(row["obstacles"]) for row in told) == sum(on_the_road)
        assert sum(int(row["missing"]) for row in told) == 0
    assert {abs(float(row["y"])) < 6 for row in rows(tmp_path, "fewest")} <= {True}
    assert "none hidden of" in (tmp_path / "report" / "index.html").read_text()
    changed = {row["placement"]: int(row["answers changed"]) for row in rows(tmp_path, "table")}
    assert changed == {"none (A/A)": 0, "anywhere": FRAMES, "within 5 m": FRAMES}


def test_a_box_beside_the_region_may_stand_for_a_demanded_one() -> None:
    """The obstacle has crept over the border by a little: it is there."""
    border = (0.0, 5.9, 0.0, 4.0, 2.0, 1.5, 0.0)
    before, after = (also(Boxes3D(np.zeros((0, 7)), ()), row) for row in (border, (0.0, 6.5, *border[2:])))
    frame = Frame.of("one", (before,), (after,), (), ROAD)
    kept = frame.count("before") - frame.count("missing")
    assert (frame.facts["lost"], frame.facts["gained"], kept) == (0, 0, 1)
    assert Frame.of("one", (after,), (Boxes3D(np.zeros((0, 7)), ()),), (), ROAD).facts["lost"] == 0
    assert Frame.of("one", (after,), (Boxes3D(np.zeros((0, 7)), ()),), (), None).facts["lost"] == 1


def test_table_counts_as_the_relation_does() -> None:
    """At the border both count an obstacle that is found again, and nobody who was not demanded."""
    case = Case("one", {"region": ROAD})
    left = float(ROAD.polygons[0][:, 1].max())
    car = [0.0, 0.0, 0.0, 4.0, 2.0, 1.5, 0.0]
    inner, outer = (Boxes3D(np.array([car]) + np.eye(7)[1] * (left + step), ("car",)) for step in (0.0, 0.6))
    for before, after, numbers in ((inner, outer, (1, 1)), (outer, inner, (0, 0)), (inner, inner, (1, 1))):
        told = NoFewer().check(Pair(case, case, Unchanged(), (before,), (after,))).facts
        frame = Frame.of("one", (before,), (after,), (), ROAD)
        assert (told["before"], told["after"]) == (frame.count("before"), frame.count("after")) == numbers


def test_journal_s_facts_are_counted_and_not_matched_again(folder: Path) -> None:
    """What the verdict says of a frame is what the tables say, whatever the boxes are."""
    row = next(row for row, *_ in journal(folder, "anywhere", 10))
    facts = {**row["facts"], "lost": 3.0, "lost.car": 3.0, "before": 9.0, "after": 5.0, "lost_rows": ""}
    frame = Frame.of_row({**row, "after": row["before"], "facts": facts})
    assert (frame.count("lost"), frame.count("lost", "car"), frame.count("missing"), frame.outcome()) == (3, 3, 3, "lost")
    assert (frame.changed, frame.labelled, frame.count("lost_real")) == (False, True, 0)


class Unlabelled(Sweeps):
    """The same sweeps, and labels for the first `known` of them alone."""

    known = 0

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        truth: tuple[Value, ...] = case.truth if int(key.split("-")[1]) < self.known else ()
        return Case(key, case.inputs, truth, group=key)


class HalfLabelled(Unlabelled):
    known = FRAMES // 2


def test_without_labels_nobody_knows_what_is_real(tmp_path: Path) -> None:
    made(tmp_path, Coupled(fault="lost"), source=Unlabelled(FRAMES))
    for row in rows(tmp_path, "subset"):
        told = [row[name] for name in ("count", "rate", "low", "high", "frames with", "frame rate", "frame low", "A/A rate")]
        assert (set(told) == {""}) == (row["fate"] == "lost_real"), row
        assert row["frames"] == ("0" if row["fate"] == "lost_real" else str(FRAMES))


def test_real_losses_are_told_of_labelled_frames_alone(tmp_path: Path) -> None:
    made(tmp_path, Coupled(fault="lost"), source=HalfLabelled(FRAMES))
    known = {f"sweep-{number}" for number in range(HalfLabelled.known)}
    for placement in PLACEMENTS:
        lost = [changes(*pair).lost for row, *pair in journal(tmp_path, placement, 1000) if row["case"] in known]
        (row,) = (
            row
            for row in rows(tmp_path, "subset")
            if (row["placement"], row["n"], row["type"], row["fate"]) == (placement, "1000", "all", "lost_real")
        )
        assert (int(row["count"]), int(row["frames"])) == (sum(map(len, lost)), len(known))
        struck = sum(len(one) > 0 for one in lost)
        assert (float(row["frame low"]), float(row["frame high"])) == pytest.approx(wilson(struck, len(known)), abs=1e-9)


class Trembling(Sound):
    """Says the same with a score that differs in its last bit once a point is added."""

    roi_first = True  # or so it says

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        fresh = len(points_of(case)) == BACKGROUND + 8 * len(boxes.kinds)
        score = 0.5 if fresh else float(np.nextafter(0.5, 1))
        return Boxes3D(boxes.xyzlwhy, boxes.kinds, np.full(len(boxes.kinds), score))


def test_a_bit_that_differs_is_counted(tmp_path: Path) -> None:
    """No obstacle is lost, but that nothing reaches the system is not true, and the page does not say so."""
    made(tmp_path, Trembling(), source=Sweeps(FRAMES))
    table = rows(tmp_path, "table")
    assert {(row["lost"], row["gained"]) for row in table} == {("0", "0")}
    assert [int(row["answers changed"]) for row in table] == [0, *[FRAMES] * 6]
    page = (tmp_path / "report" / "index.html").read_text()
    assert f"{6 * FRAMES} of its {6 * FRAMES} answers differ, although no point outside should reach it" in page
    assert "exactly 0" not in page


# --- which frames are shown ----------------------------------------------------------------------------------------------


def trial(rule: str, case: str, vanished: int, lost: int | None = None, status: str = "violated") -> dict[str, Any]:
    lost = vanished if lost is None else lost
    return {"rule": rule, "case": case, "status": status, "facts": {"vanished": vanished, "lost": lost}}


def names(found: list[Mapping[str, Any]]) -> list[tuple[str, str, float]]:
    return [(row["rule"], row["case"], row["facts"]["vanished"]) for row in found]


def test_strongest_series_is_shown_and_each_frame_once() -> None:
    series, cases = {"10": 1, "100": 3, "1,000": 9}, {"a": 1, "b": 3, "c": 2}
    trials = [trial(rule, case, series[rule] * cases[case]) for rule, case in itertools.product(series, cases)]
    assert names(chosen(trials, 3)) == [("1,000", "b", 27), ("100", "c", 6), ("10", "a", 1)]


def test_series_come_first_and_then_the_next_worst() -> None:
    trials = [trial("10", "a", 1), trial("1,000", "a", 5), trial("1,000", "b", 4), trial("1,000", "c", 3)]
    assert names(chosen(trials, 2)) == [("1,000", "a", 5), ("10", "a", 1)]
    assert names(chosen(trials, 3)) == [("1,000", "a", 5), ("1,000", "b", 4), ("10", "a", 1)]


def test_vanished_are_shown_before_merged_and_held_never() -> None:
    trials = [trial("10", "a", 0, 9), trial("10", "b", 1, 1), trial("10", "c", 7, 7, "held"), trial("10", "d", 0, 0)]
    assert names(chosen(trials, 4)) == [("10", "b", 1), ("10", "a", 0)]


# --- merged, not vanished ------------------------------------------------------------------------------------------------


class Merging(Coupled):
    """Swallows its obstacle in a box much larger, which is none of it."""

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        row = self.victim(points_of(case), boxes)
        if row is None:
            return boxes
        x, y, z = boxes.xyzlwhy[row, :3]
        swallowed = (float(x), float(y) + 3.0, float(z), 12.0, 12.0, 2.0, 0.0)
        return also(without(boxes, row), swallowed, kind="unknown")


def test_merged_obstacles_are_hidden_but_have_not_vanished(tmp_path: Path) -> None:
    made(tmp_path, Merging(), source=Pictured(FRAMES))
    table = rows(tmp_path, "fewest")
    assert [(row["hidden"], row["confirmed"], row["vanished"]) for row in table] == [("True", "True", "False")] * 2
    assert "2 hidden with 1 point each (2 confirmed, 0 vanished) of" in (tmp_path / "report" / "index.html").read_text()


def target(points: int, *, merged: bool) -> AttackOutcome:
    """A car on the road and as many points as said, after which it is gone or part of a larger box."""
    none, car = Boxes3D(np.zeros((0, 7)), ()), (5.0, 0.0, 0.0, 4.0, 2.0, 1.5, 0.0)
    after = also(none, (5.0, 3.0, 0.0, 12.0, 12.0, 2.0, 0.0), kind="unknown") if merged else none
    case, at = Sweeps(1)["sweep-0"], tuple((5.0, 9.0 + number, 0.0, 0.5) for number in range(points))
    seen = RepeatedAnswers(case, case, also(none, car), after)
    return AttackOutcome(Attack("sweep-0", 0, np.array(car), 1.0), "car", points=PlacePoints(at), seen=seen)


def test_pictures_show_the_vanished_first() -> None:
    items = (target(1, merged=True), target(5, merged=False), target(3, merged=False), target(2, merged=True))
    found = FewestPoints(1, 4, 9, items)
    assert [(len(one.places), one.vanished) for one in shown(found)] == [(3, True), (5, True), (1, False), (2, False)]
    assert [len(one.places) for one in found.hidden] == [1, 2, 3, 5]
    assert [len(one.places) for one in found.vanished] == [3, 5]


# --- sweeps kept, noise to learn from ------------------------------------------------------------------------------------


def test_kept_sweep_is_the_world_s(tmp_path: Path) -> None:
    world = LidarWorld(drives=1)
    source = CachedSweeps(world, tmp_path / "sweeps")
    (key,) = source.keys()
    first, again, other = source[key], CachedSweeps(world, tmp_path / "sweeps")[key], LidarWorld(drives=1)[key]
    assert first.input_sha == again.input_sha == other.input_sha
    assert [value.digest for value in again.truth] == [value.digest for value in other.truth]
    assert (again.group, source.fingerprint()) == (other.group, world.fingerprint())
    assert len(list((tmp_path / "sweeps").iterdir())) == 1
    with pytest.raises(KeyError):
        source["elsewhere"]


def test_noise_is_added_to_every_other_sweep() -> None:
    noisy = Twice(Sweeps(3), seed=1)
    assert len(noisy) == 6
    for number in range(3):
        case = Sweeps(3)[f"sweep-{number}"]
        clean, dusty = noisy[2 * number], noisy[2 * number + 1]
        assert (clean.xyzi == points_of(case)).all()
        added = len(dusty.xyzi) - len(clean.xyzi)
        assert added == noisy.change(2 * number + 1).n
        assert added in SERIES
        assert (dusty.owner[: len(clean.xyzi)] == clean.owner).all()
        assert (dusty.boxes == clean.boxes).all()
    assert [len(one.xyzi) for one in noisy[:2]] == [len(noisy[0].xyzi), len(noisy[1].xyzi)]
    with pytest.raises(IndexError):
        noisy[6]


def test_control_learns_from_as_many_sweeps_without_a_point_added() -> None:
    clean = Twice(Sweeps(3), seed=1, noisy=False)
    assert len(clean) == len(Twice(Sweeps(3), seed=1))
    for number in range(6):
        assert clean[number].xyzi.tobytes() == points_of(Sweeps(3)[f"sweep-{number // 2}"]).tobytes()


def tiny(path: Path, seed: int = 0) -> Lidar:
    """A network of the zoo's kind, as small as it can be, with weights drawn at random."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        save_weights(BirdNet("none", 4), path)
    return Lidar(path, cells=32, width=4)


def test_network_learns_and_the_given_one_stays(tmp_path: Path) -> None:
    system = tiny(tmp_path / "tiny.safetensors")
    before = {name: part.clone() for name, part in system.net.state_dict().items()}
    noisy = Twice(Sweeps(2), seed=0)
    tuned = [learn(system.net, Grid(32), noisy, noisy[:2], 2, seed=5) for _ in range(2)]
    assert all(torch.equal(part, before[name]) for name, part in system.net.state_dict().items())
    assert any(not torch.equal(part, before[name]) for name, part in tuned[0].state_dict().items())
    same = zip(tuned[0].state_dict().values(), tuned[1].state_dict().values(), strict=True)
    assert all(torch.equal(*pair) for pair in same)


def retrained(one: LidarRuns, arm: str = NOISE) -> Path:
    """The weights of one training, made as the experiment makes them."""
    steps = {step.name: step for step in retraining_steps(one.subject, one.setting) if isinstance(step, TrainingStep)}
    steps[f"{ARMS[arm]}.safetensors"].run(one, None)
    return one.trained[f"{ARMS[arm]}.safetensors"]


def test_retrained_weights_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.experiments.lidar.retraining.cached_sweeps", lambda setting, count, split: Sweeps(count))
    size = replace(SMALL, lessons=replace(SMALL.lessons, passes=3))
    setting = Setting(tmp_path / "into", QUICK, size=size, options={"retrain": True})
    subject = Subject("lidar", tiny(tmp_path / "tiny.safetensors"), Sweeps(2))
    first = retrained(LidarRuns(subject, setting))
    stamp = first.stat().st_mtime_ns
    again = LidarRuns(subject, setting)
    assert retrained(again) == first
    assert first.stat().st_mtime_ns == stamp
    system = _series("retrained.safetensors", None, again).system
    assert isinstance(system, Lidar)
    assert (system.weights, system.cells, system.width, system.roi_first) == (first, 32, 4, False)
    clean = retrained(again, "clean sweeps")
    assert clean.read_bytes() != first.read_bytes()
    other = LidarRuns(subject, replace(setting, seed=1))
    assert retrained(other) == first
    assert first.stat().st_mtime_ns != stamp  # of another seed


def test_region_first_gives_exactly_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real network, untrained: whatever lies outside cannot change one bit, while without it the answers may."""
    system = tiny(tmp_path / "tiny.safetensors")
    safe = Lidar(system.weights, roi_first=True, cells=32, width=4)
    monkeypatch.setitem(SIZES, QUICK, SMALL)
    run(LIDAR, Setting(tmp_path / "into", QUICK), safe, Sweeps(FRAMES), "safe")
    for placement in PLACEMENTS:
        for row in Run(tmp_path / "into" / "runs" / "safe" / placement).trials():
            assert row["before"] == row["after"]
    page = (tmp_path / "into" / "report" / "index.html").read_text()
    assert "reach the network" in page
    assert f"of its {2 * len(SERIES) * FRAMES} answers exactly 0 differ in any bit" in page
    assert {row["answers changed"] for row in rows(tmp_path / "into", "table")} == {"0"}
    assert {row[name] for row in rows(tmp_path / "into", "field") for name in REACHES} == {""}
    assert not (tmp_path / "into" / "runs" / "safe" / "fewest").exists()
    assert {row["in the grid"] != "" for row in rows(tmp_path / "into", "landed")} == {True}


def test_retraining_is_told_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, QUICK, SMALL)
    monkeypatch.setattr("swerve.experiments.lidar.retraining.cached_sweeps", lambda setting, count, split: Sweeps(count))
    system = tiny(tmp_path / "tiny.safetensors")
    run(LIDAR, Setting(tmp_path / "into", QUICK), system, Sweeps(FRAMES), "tiny", retrain=True)
    table = rows(tmp_path / "into", "retrained")
    arms = ("none", "clean sweeps", "noise points")
    assert [(row["placement"], row["further training"]) for row in table] == list(itertools.product(PLACEMENTS, arms))
    for row in table:
        assert int(row["frames"]) == SMALL.lessons.frames
        if row["further training"] == "none":
            assert (row["p against none"], row["p against clean"]) == ("", "")
            continue
        done = Run(tmp_path / "into" / "runs" / "tiny" / f"{ARMS[row['further training']]}, {row['placement']}")
        found = [one for one in done.trials() if one["status"] in ("held", "violated")]
        assert len(found) == SMALL.lessons.frames
        assert int(row["missing"]) == sum(one["status"] == "violated" for one in found)
        series = Run(tmp_path / "into" / "runs" / "tiny" / row["placement"])
        same = {one["case"]: one["change"] for one in series.trials() if one["facts"].get("added") == 1000}
        assert all(same[one["case"]] == one["change"] for one in found)  # the very same points, before and after


# --- the command ---------------------------------------------------------------------------------------------------------


def test_estimate_scales_with_the_size() -> None:
    few, many = (estimate(LIDAR, level, Sound(), Sweeps(2000)) for level in (QUICK, FULL))
    assert 0 < few.seconds < many.seconds
    assert 0 < few.size < many.size


def test_levels_grow() -> None:
    sizes = [SIZES[level] for level in (QUICK, USUAL, FULL)]
    assert [size.frames for size in sizes][1:] == [500, 1000]
    assert sizes[0].frames < sizes[1].frames
    assert sizes[0].search.targets < sizes[1].search.targets < sizes[2].search.targets


CAMPAIGN = """
method = "lidar"
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = 4
[system]
use = "tests.quality.test_lidar_identity:Coupled"
"""


def test_command_runs_an_experiment_of_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SIZES, QUICK, LidarSize(3, 2, Fuzz(points=6, targets=1, tries=8), SMALL.lessons))
    (tmp_path / "mine.toml").write_text(CAMPAIGN)
    asked = ["experiment", "lidar", "--quick", "--system", str(tmp_path / "mine.toml"), "--into", str(tmp_path / "out")]
    assert main([*asked, "--workers", "0"]) == 0
    told = capsys.readouterr().out
    assert "lidar, quick: about" in told
    assert "report/index.html" in told.replace("\n", "")
    assert {row["system"] for row in rows(tmp_path / "out", "table")} == {"mine"}


def test_command_refuses_what_is_not_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "deeptest", "--independent", "--into", str(tmp_path / "x")]) == 2
    assert "--independent is not an option of experiment 'deeptest'" in capsys.readouterr().err
    assert main(["experiment", "lidra", "--into", str(tmp_path / "x")]) == 2
    assert "did you mean 'lidar'" in capsys.readouterr().err
    assert set(EXPERIMENTS) == {"conditions", "deeptest", "iatg", "lidar", "tactic", "tigaug"}


def test_sweeps_for_training_share_no_scene_with_the_tested(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    groups = [
        {source.group(key) for key in source.keys()}
        for source in (cached_sweeps(setting, 5), cached_sweeps(setting, 5, "train"))
    ]
    assert not groups[0] & groups[1]
