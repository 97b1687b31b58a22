"""IATG's experiment on planted pictures: every table follows from the journal, and a planted weakness is found."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.cli.experiment import EXPERIMENTS
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Classes, Image, Masks, Steering
from swerve.experiments.iatg import IATG
from swerve.experiments.iatg.arms import (
    ADDED,
    CHOICES,
    COLOUR,
    CONTROL,
    COUNTS,
    DEEPTEST,
    OWN_LOOK,
    OWN_PIXELS,
    PASTED,
    REAL,
    RERENDERED,
    S1,
    S2,
    SALIENT,
    SUM,
    TRANSLATED,
    Arm,
    arms,
)  # fmt: skip
from swerve.experiments.iatg.examples import pictured
from swerve.experiments.iatg.experiment import SIZES
from swerve.experiments.iatg.misled_runs import STEP, MisledRuns, MisledTest
from swerve.experiments.iatg.questions import agreement
from swerve.experiments.results import Results
from swerve.experiments.runner import finish, report
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.subjects import Subject
from swerve.report.answer_pictures import BLUE, GREEN, RED
from swerve.report.templating import PAGE
from swerve.store.view import Run
from swerve.transformations.object_library import build_library
from swerve.translation.painting import painter_bytes
from swerve.world.source import World
from tests.unit.test_iatg_method import LooksLeft
from tests.unit.test_painter import NAMES, made

CARS = {1: (10, 50, 30, 60), 2: (60, 48, 84, 62), 3: (100, 46, 136, 64)}  # the one on the left is the smallest
PICTURES = 4


@dataclass(frozen=True)
class Street:
    """Pictures of 160 x 90 with a small car on the left and larger ones elsewhere, all in one colour."""

    colour: tuple[int, int, int] = (220, 20, 20)
    count: int = PICTURES
    prefix: str = "street"
    down: int = 0  # pixels by which all cars stand lower

    def keys(self) -> list[str]:
        return [f"{self.prefix}{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        ids = np.zeros((90, 160), np.int32)
        for number, (left, top, right, bottom) in CARS.items():
            ids[top + self.down : bottom + self.down, left:right] = number
        noise = rng_for("street", key).integers(-5, 6, (90, 160, 3))
        pixels = np.where(ids[..., None] > 0, np.array(self.colour), 100) + noise
        image = Image(np.clip(pixels, 0, 255).astype(np.uint8))
        classes = Classes(np.where(ids > 0, NAMES.index("car"), NAMES.index("road")), dict(enumerate(NAMES)))
        truth = (Steering(0.0), Masks(ids, dict.fromkeys(CARS, "car")), classes)
        return Case(key, {"camera": image}, truth, group=key)

    def fingerprint(self) -> str:
        return digest_of("street", self.colour, self.count)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The experiment on a network that looks at the left alone, with blue cars to paste."""
    folder = tmp_path_factory.mktemp("iatg")
    build_library([Street((20, 20, 220), 1, "blue", 10)["blue0"]], folder / "blue.objects")
    (folder / "tiny.safetensors").write_bytes(painter_bytes(*made()))
    files = {"library": str(folder / "blue.objects"), "painter": str(folder / "tiny.safetensors")}
    setting = IATG.settled(Setting(folder / "into", QUICK, force=True), files)
    results = finish(IATG, setting, LooksLeft(), Street(), "left")
    report(IATG, results)
    return results, folder / "into"


def rows(into: Path, name: str) -> list[dict[str, str]]:
    with (into / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def moved(folder: Path) -> dict[str, list[float]]:
    """The misleading angles of every rule, straight from the journal."""
    found: dict[str, list[float]] = {}
    for row in Run(folder / "runs" / "left" / STEP).trials():
        if row["status"] in ("held", "violated"):
            angle = row["after"][0]["degrees"] - row["before"][0]["degrees"]
            found.setdefault(row["rule"], []).append(angle)
    return found


def test_tables_follow_from_the_journal(finished: tuple[Any, Path]) -> None:
    _, into = finished
    angles = moved(into)
    table = rows(into, "rq1")
    assert {(row["way"], row["choice"], row["objects"]) for row in table} == {
        *((way, choice, str(count)) for way in (REAL, TRANSLATED) for choice in CHOICES for count in COUNTS),
        *((way, choice, str(count)) for way in (CONTROL, OWN_LOOK) for choice in SALIENT for count in COUNTS),
        (OWN_PIXELS, SUM, "3"),
    }
    for row in table:
        own = angles.get(Arm(row["way"], row["choice"], int(row["objects"])).name, [])
        assert int(row["tests"]) == len(own)
        assert int(row["misled"]) == sum(abs(angle) > float(row["alpha"]) for angle in own)
        assert float(row["mean angle"]) == pytest.approx(np.mean(np.abs(own)))
        assert 0 < float(row["similarity"]) < 1 or row["way"] == OWN_PIXELS
    assert {row["originals"] for row in table} == {str(PICTURES)}


def test_the_planted_weakness_is_found(finished: tuple[Any, Path]) -> None:
    """Only the small car on the left matters: the explanation beats largest and nearest by far, and the control."""
    results, into = finished
    (one,) = results
    assert isinstance(one, MisledRuns)
    best, largest, control = (
        one.means(Arm(*arm))[0] for arm in ((REAL, "sum", 1), (REAL, "largest", 1), (CONTROL, "sum", 1))
    )
    assert best is not None
    assert largest is not None
    assert control is not None
    assert best > 5 > 1 > largest
    assert control < best / 3
    key = (REAL, "sum", "1", "largest")
    (row,) = [row for row in rows(into, "rq2") if (row["way"], row["choice"], row["objects"], row["rival"]) == key]
    assert float(row["low"]) > 0
    assert row["ratio"] == ""  # the largest car moves the answer by nothing at all, so there is no ratio
    ratio, gap = one.gain(Arm(REAL, "sum", 3), Arm(REAL, "largest", 3))
    assert ratio.value == pytest.approx(1)  # there are three cars, so both change all of them
    assert gap.value == pytest.approx(0)


def test_an_object_in_its_own_pixels_changes_nothing(finished: tuple[Any, Path]) -> None:
    assert moved(finished[1])[Arm(OWN_PIXELS, SUM, 3).name] == [0.0] * PICTURES


def test_translated_objects_are_set_beside_real_ones(finished: tuple[Any, Path]) -> None:
    """The numbers are those of the runs: mean angles of the same pictures, as a gap and as a ratio."""
    angles, table = moved(finished[1]), rows(finished[1], "strategies")
    assert {row["of"] for row in table} == {"angle", "similarity"}
    (row,) = [row for row in table if (row["of"], row["setting"], row["beside"]) == ("angle", S2.name, S1.name)]
    ours, theirs = (float(np.mean(np.abs(angles[arm.name]))) for arm in (S2, S1))
    assert float(row["gap"]) == pytest.approx(ours - theirs)
    assert float(row["ratio"]) == pytest.approx(ours / theirs)
    assert float(row["at least"]) <= float(row["ratio"]) <= float(row["at most"])
    assert sum(row["beside"].startswith("real") for row in table) == 2 * (len(CHOICES) * len(COUNTS) + 1)


def test_methods_are_compared_at_equal_angles(finished: tuple[Any, Path]) -> None:
    _, into = finished
    angles = moved(into)
    for row in rows(into, "table1"):
        own = angles.get(row["method"], [])
        assert int(row["tests"]) == sum(abs(abs(angle) - float(row["angle"])) <= 1 for angle in own)
        assert bool(row["similarity"]) == (row["tests"] != "0")
    methods = {row["method"] for row in rows(into, "rq3")}
    assert {"deeptest", "colour, average, 1 object", "colour, random, 1 object", "real, sum, 3 objects"} <= methods


def test_added_objects_have_a_similarity_and_no_angle(finished: tuple[Any, Path]) -> None:
    """Another object is another scene."""
    (row, *_) = [row for row in rows(finished[1], "rq3") if row["method"] == "added, random, 1 object"]
    assert int(row["tests"]) == PICTURES
    assert 0 < float(row["similarity"]) < 1
    assert {row["mean angle"], row["median"]} == {""}
    assert not [row for row in rows(finished[1], "table1") if row["method"].startswith("added")]


def test_pasted_beside_rendered_follow_ups_are_those_of_the_same_objects(tmp_path: Path) -> None:
    world = Subject("world", LooksLeft(), World(drives=1))
    one = MisledRuns(world, IATG.settled(Setting(tmp_path, QUICK), {}))
    angles = [1.0, -2.0, 6.0, 3.0, 0.5, 9.0]
    rendered, pasted = Arm(RERENDERED, SUM, 1), Arm(PASTED, SUM, 1)
    one.samples = {  # type: ignore[misc]
        **{arm.name: [] for arm in one.arms},
        rendered.name: [MisledTest(f"c{at}", "", angle, 1.0, abs(angle) > 5, (at,)) for at, angle in enumerate(angles)],
        pasted.name: [
            *(MisledTest(f"c{at}", "", 2 * angle, 1.0, abs(2 * angle) > 5, (at,)) for at, angle in enumerate(angles[:5])),
            MisledTest("c5", "", -50.0, 1.0, True, (7,)),  # another object
        ],
    }
    (row,) = [
        row
        for row in agreement.rows(Results(one.setting, [one]))
        if Arm(row["way"], row["choice"], row["objects"]) == pasted
    ]
    assert row["pictures"] == 5
    assert row["r"] == pytest.approx(1)
    assert row["alike"] == pytest.approx(4 / 5)  # 3° and 6° are on two sides of the limit
    assert row["mean angle"] == pytest.approx(2 * row["rendered"])
    assert one.setting.size is SIZES[QUICK]


def test_examples_have_green_boxes_and_both_arrows(finished: tuple[Any, Path]) -> None:
    (one,) = finished[0]
    test = max(one.samples[S1.name], key=lambda test: abs(test.degrees))
    picture = pictured(one, S1, test)
    hot, plain, changed = np.split(picture, 3, axis=1)
    for part, colours in ((hot, (GREEN, BLUE)), (plain, (GREEN, BLUE)), (changed, (GREEN, BLUE, RED))):
        for colour in colours:
            assert (np.abs(part.astype(int) - colour).max(axis=2) < 40).sum() > 20, colour
    assert not (plain == RED).all(axis=2).any()


def test_time_to_departure_needs_a_ratio(finished: tuple[Any, Path]) -> None:
    assert {row["out of the lane"] for row in rows(finished[1], "departure")} == {"n/a"}


def test_the_page_answers_every_question(finished: tuple[Any, Path]) -> None:
    page = (finished[1] / PAGE).read_text()
    for words in ("Which swaps mislead most?", "better than chance, size or distance", "how similar?"):
        assert words in page
    assert "left, real: x1.00 (1.00 to 1.00) of largest" in page
    for number in (9, 10, 11, 14, 15, 16):
        assert f"Figure {number} of the paper" in page
    assert "Figures 12 and 13 of the paper" in page
    assert "not drawn" in page or "whiskers within 1.5" in page  # box plots tell that outliers are left out


def test_frames_of_the_world_can_be_rendered_again() -> None:
    plain, world = list(arms(Street(), painted=False)), list(arms(World(drives=1), painted=False))
    assert [arm for arm in world if arm.way not in (RERENDERED, PASTED)] == plain
    assert len(world) - len(plain) == (len(CHOICES) + len(SALIENT)) * len(COUNTS)
    assert len({arm.name for arm in world}) == len(world)
    painted = [arm for arm in arms(Street(), painted=True) if arm not in plain]
    assert {arm.way for arm in painted} == {TRANSLATED, OWN_LOOK, OWN_PIXELS}
    assert S2 in painted
    assert {arm.way for arm in plain} == {REAL, CONTROL, COLOUR, ADDED, DEEPTEST}


def test_sizes_grow_and_options_are_those_of_the_command_line() -> None:
    assert SIZES[QUICK].pictures < SIZES[USUAL].pictures < SIZES[FULL].pictures
    assert set(IATG.options) == set(EXPERIMENTS["iatg"].options)


def test_a_measure_without_weights_is_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="assets get lpips-vgg"):
        IATG.settled(Setting(tmp_path, QUICK), {"similarity": "lpips-vgg"})
    with pytest.raises(InputError, match="unknown measure"):
        IATG.settled(Setting(tmp_path, QUICK), {"similarity": "lpips"})


def test_means_leave_out_what_is_not_known() -> None:
    from swerve.experiments.iatg.misled_runs import mean

    assert mean([1.0, math.nan, 3.0]) == 2.0
    assert mean([math.nan]) is None
