"""TigAug's experiment on drawn lights: every table follows from the journals, training sets are what they say."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.analysis.detection import average_precision
from swerve.cli.experiment import EXPERIMENTS
from swerve.core.case import Case
from swerve.core.encode import decode_values
from swerve.core.gate import Admission
from swerve.core.seeding import digest_of
from swerve.core.values import Boxes2D
from swerve.experiments import Subject
from swerve.experiments.runner import finish, report
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.tigaug import TIGAUG
from swerve.experiments.tigaug import light_training as training
from swerve.experiments.tigaug.experiment import EVERY, SIZES, LightSize
from swerve.experiments.tigaug.light_campaigns import CHANGES, REFUSED, Noted
from swerve.experiments.tigaug.light_mix import ALL, CONTROL, LightMix
from swerve.experiments.tigaug.light_runs import LightRuns
from swerve.experiments.tigaug.light_training import LightLessons, TrainingArm, arms, training_steps
from swerve.experiments.tigaug.retrained_lights import rq2, rq4b
from swerve.methods.tigaug import CONTROL as PASTED_BACK
from swerve.methods.tigaug import LABEL, rule_name, tigaug
from swerve.report.templating import PAGE
from swerve.store.view import Run
from swerve.transformations.light_changes import NAMES
from swerve.zoo.lights.light_detectors import LightsYolox
from tests.fixture_lights import ReadsDrawnLights, light_case
from tests.unit.test_tigaug import DrawnStreets, Faulty

THREE = ("fog", "colour", "rotate")
TINY = LightSize(THREE, 1, "A", 4, 2, LightLessons(4, 2, 1, ("lights-yolox, A",), ("fog",)))


def rows_of(into: Path, name: str) -> list[dict[str, str]]:
    with (into / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment on a given detector that takes every light for a red one."""
    into = tmp_path_factory.mktemp("tigaug") / "into"
    setting = replace(TIGAUG.settled(Setting(into, QUICK, force=True), {}), size=TINY)
    results = finish(TIGAUG, setting, Faulty("always red"), DrawnStreets(4), "red")
    report(TIGAUG, results)
    return into


def test_precision_is_that_of_the_journal(finished: Path) -> None:
    run = Run(finished / "runs" / "red" / CHANGES)
    labels = {seen.case: seen.truth[0] for seen in run.baseline()}
    rows = {row["change"]: row for row in rows_of(finished, "rq1")}
    assert list(rows) == [*THREE, PASTED_BACK]
    for change, row in rows.items():
        judged = [one for one in run.trials() if one["rule"] == rule_name(change) and one["status"] in ("held", "violated")]
        assert int(row["pictures"]) == len(judged)
        values = [[decode_values(one[name])[0] for one in judged] for name in ("before", "truth", "after")]
        before, truth, after = ([one for one in some if isinstance(one, Boxes2D)] for some in values)
        old = [one for one in judged if isinstance(labels[one["case"]], Boxes2D)]
        was = average_precision([labels[one["case"]] for one in old], before).mean  # type: ignore[misc]
        now = average_precision(truth, after).mean
        assert was is not None
        assert now is not None
        assert float(row["before"]) == pytest.approx(was)
        assert float(row["after"]) == pytest.approx(now)
        assert float(row["drop"]) == pytest.approx(1 - now / was)
        assert int(row["natural"]) == sum(not one["facts"].get(REFUSED) for one in judged)
    assert float(rows[PASTED_BACK]["drop"]) == pytest.approx(0)


def test_families_are_means_of_changes(finished: Path) -> None:
    drops = {row["change"]: float(row["drop"]) for row in rows_of(finished, "rq1")}
    families = {row["of"]: float(row["drop"]) for row in rows_of(finished, "rq1_families") if row["detector"] == "all"}
    assert families["weather"] == pytest.approx(drops["fog"])
    assert families["traffic lights"] == pytest.approx((drops["colour"] + drops["rotate"]) / 2)
    assert families["all twelve"] == pytest.approx(sum(drops[name] for name in THREE) / 3)


def test_colour_alone_is_a_part_of_all(finished: Path) -> None:
    alone, every = rows_of(finished, "rq1_methods")
    assert (alone["method"], every["method"]) == ("colour-only", "tigaug")
    assert int(alone["pictures"]) <= int(every["pictures"]) <= 4
    errors = {row["change"]: row for row in rows_of(finished, "rq1_errors")}
    assert int(alone["introduced"]) == int(errors["colour"]["introduced"])
    assert int(every["introduced"]) == sum(int(errors[name]["introduced"]) for name in THREE)


def test_strengths_times_and_naturalness_are_counted(finished: Path) -> None:
    strengths = [row for row in rows_of(finished, "rq1_strengths") if row["change"] == "fog"]
    assert [row["strength"].split()[-2] for row in strengths] == ["400", "200", "120", "75", "40"]
    times = {row["change"]: row["CPU seconds"] for row in rows_of(finished, "rq3")}
    assert set(times) == {*THREE, PASTED_BACK, "mean", "slowest"}
    known = [float(times[name]) for name in THREE]
    assert float(times["mean"]) == pytest.approx(sum(known) / 3)
    assert float(times["slowest"]) == max(known)
    natural = {row["change"]: row for row in rows_of(finished, "rq4")}
    assert int(natural["all twelve"]["follow-ups"]) == sum(int(natural[name]["follow-ups"]) for name in THREE)
    (reviewers,) = rows_of(finished, "rq4_reviewers")
    assert reviewers["to mark"].startswith("swerve review ")
    page = (finished / PAGE).read_text()
    assert "RQ1: how robust are the detectors?" in page
    assert "nothing was retrained" in page
    assert not (finished / "tables" / "rq2.csv").exists()


def test_sizes() -> None:
    assert len(SIZES[QUICK].changes) == 3
    assert (SIZES[QUICK].detectors, SIZES[QUICK].streets) == (1, "A")
    for level in (USUAL, FULL):
        assert SIZES[level].changes == NAMES
        assert len(SIZES[level].lessons.cleaned) >= 3
    assert len(EVERY) == 8
    assert "scratch" in EXPERIMENTS["tigaug"].flags


# training sets


@dataclass(frozen=True)
class Unnatural:
    """Refuses the follow-ups of some pictures."""

    keys: tuple[str, ...]

    def admit(self, source: Case, followup: Case) -> str | None:
        del followup
        return "unnatural" if source.key in self.keys else None


def streets(count: int) -> list[Case]:
    source = DrawnStreets(count)
    return [source[key] for key in source.keys()]


def mixing(*changes: str, refused: tuple[str, ...] = ()) -> Any:
    made = tigaug(DrawnStreets(), ReadsDrawnLights(), changes=changes, against=LABEL, natural=False)
    return replace(made, rules=tuple(replace(rule, gate=Unnatural(refused)) for rule in made.rules))


def test_the_same_pictures_are_added_by_every_change() -> None:
    cases = streets(10)
    plain, fog, rotate = (
        LightMix(campaign, seed=3).merged(cases, 0.4) for campaign in (None, mixing("fog"), mixing("rotate"))
    )
    assert plain[:10] == fog[:10] == cases
    added = [case.key for case in plain[10:]]
    assert len(set(added)) == 4
    assert [case.key for case in fog[10:]] == [case.key for case in rotate[10:]] == added
    for one, other in zip(plain[10:], fog[10:], strict=True):
        assert one == cases[[case.key for case in cases].index(one.key)]
        assert not np.array_equal(one.inputs["camera"].pixels, other.inputs["camera"].pixels)  # type: ignore[attr-defined]
    assert [case.key for case in LightMix(None, seed=4).merged(cases, 0.4)[10:]] != added


def test_unnatural_pictures_are_replaced_by_the_next() -> None:
    cases = streets(10)
    every = [case.key for case in LightMix(mixing("fog"), seed=3).merged(cases, 1.0)[10:]]
    refused = (every[1],)
    dirty, clean = (
        [case.key for case in LightMix(mixing("fog", refused=refused), natural, 3).merged(cases, 0.4)[10:]]
        for natural in (False, True)
    )
    assert dirty == every[:4]
    assert clean == [every[0], *every[2:5]]


def test_all_changes_take_turns() -> None:
    cases = streets(6)
    one_each = LightMix(mixing(*THREE), seed=1).merged(cases, 0.5)[6:]
    order = [case.key for case in LightMix(None, seed=1).merged(cases, 0.5)[6:]]
    assert [case.key for case in one_each] == order
    alone = {name: LightMix(mixing(name), seed=1).merged(cases, 0.5)[6:] for name in THREE}
    for place, name in enumerate(THREE):
        ours, theirs = (case.inputs["camera"].pixels for case in (one_each[place], alone[name][place]))  # type: ignore[attr-defined]
        assert np.array_equal(ours, theirs), name


def test_a_picture_without_lights_is_passed_over() -> None:
    cases = [*streets(3), replace(streets(1)[0], key="empty", truth=(Boxes2D(np.zeros((0, 4)), ()),))]
    added = LightMix(mixing("colour"), seed=0).merged(cases, 0.75)[4:]
    assert sorted(case.key for case in added) == [f"street {number}" for number in range(3)]


def test_a_noting_gate_admits_everything() -> None:
    case = light_case([((60, 100, 90, 190), "red")], key="a")
    decision = Noted(Unnatural(("a",))).admit(case, case)
    assert decision == Admission("", {REFUSED: "unnatural"})
    assert Noted(Unnatural(())).admit(case, case).facts == {REFUSED: ""}


# retraining


@dataclass(frozen=True)
class SmallStreets:
    """Pictures of 192 x 128 with two lights; not the same for training as for testing."""

    split: str
    count: int

    def keys(self) -> Sequence[str]:
        return [f"{self.split} {number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        shift = 5 * self.keys().index(key) + len(self.split)
        lights = [((20 + shift, 20, 44 + shift, 88), "red"), ((100 + shift, 30, 124 + shift, 98), "green")]
        return replace(light_case(lights, size=(192, 128), key=key), group=key)

    def fingerprint(self) -> str:
        return digest_of("small streets", self.split, self.count)


def test_a_detector_is_retrained_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every arm has its weights and its test; a second run does nothing anew, and another recipe trains again."""
    monkeypatch.setattr(training, "pictures", lambda setting, streets, split, count: SmallStreets(split, count))
    size = replace(TINY, changes=("fog", "colour"), curved=0, lessons=replace(TINY.lessons, pictures=8, passes=2))
    setting = replace(TIGAUG.settled(Setting(tmp_path / "into", QUICK, force=True), {}), size=size)
    subject = Subject("lights-yolox, A", LightsYolox(score=0.0), SmallStreets("test", 3), "lights-yolox")
    plan = replace(TIGAUG, subjects=lambda _: [subject])
    results = finish(plan, setting)
    (one,) = results
    assert isinstance(one, LightRuns)
    assert [arm.name for arm in one.arms()] == [CONTROL, "fog", "colour", ALL, "fog, natural"]
    weights = {arm.name: one.trained[arm.weights].read_bytes() for arm in one.arms()}
    assert len({weights[name] for name in (CONTROL, "fog", "colour", ALL)}) == 4
    rows = rq2.rows(results)
    tests = {(row["mixed in"], row["change"], row["test"]) for row in rows}
    assert {(CONTROL, "fog", "augmented"), ("fog", "fog", "augmented"), ("fog", "", "original")} <= tests
    assert ("fog", "colour", "augmented") not in tests
    assert len(rq4b.rows(results)) == 3
    report(plan, results)
    assert "nothing was retrained" not in (tmp_path / "into" / PAGE).read_text()
    trained: list[str] = []
    again = finish(plan, replace(setting, say=trained.append))
    assert {arm.name: again[0].trained[arm.weights].read_bytes() for arm in again[0].arms()} == weights
    assert not [step for step in trained if "safetensors" in step]


def test_arms_of_a_setting() -> None:
    setting = replace(TIGAUG.settled(Setting(Path(), USUAL), {}), size=SIZES[USUAL])
    every = list(arms(setting))
    assert len(every) == 1 + 12 + 1 + len(SIZES[USUAL].lessons.cleaned)
    assert len({arm.weights for arm in every}) == len(every)
    assert TrainingArm("fog").tested_with(NAMES) == ("fog",)
    assert TrainingArm(ALL).tested_with(NAMES) == TrainingArm(CONTROL).tested_with(NAMES) == NAMES
    other = Subject("given", ReadsDrawnLights(), DrawnStreets())
    assert list(training_steps(other, setting)) == []
