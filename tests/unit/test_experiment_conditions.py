"""The comparison of searches for critical conditions, in a size that takes seconds."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swerve.core.errors import InputError
from swerve.experiments import FULL, QUICK, USUAL, Results, Setting, Subject
from swerve.experiments.conditions import CONDITIONS, condition_runs, strategies
from swerve.experiments.conditions.condition_runs import (
    DRAWN,
    EVOLVED,
    SEARCHED,
    ConditionRuns,
    mean_course,
    racing,
    scenes_of,
    scenes_of_race,
    search_step,
)
from swerve.experiments.conditions.experiment import SIZES, ConditionSize
from swerve.experiments.conditions.strategies import ABOVE, BELOW, UNCLEAR, ratio_of, side_of
from swerve.experiments.runner import estimate, finish, run
from swerve.report.experiment_page import Page
from swerve.search.evolve import Evolve
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from swerve.world.source import World
from tests.quality.test_gain_per_ask import Scenes

TINY = ConditionSize(scenes=6, seeds=3, conditions=2, evaluations=8, raced=24, races=1)
SMOOTH = Scenes(24, 64, 36)  # pictures of which weather leaves something to see
SMALL = replace(CONDITIONS, sizes={QUICK: TINY})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiment") / "conditions"


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return run(SMALL, Setting(folder, QUICK), FakeSystem(), SMOOTH, "fake")


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def conditions_of(folder: Path, step: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "runs" / "fake" / step / "summary.json").read_text())["conditions"]
    return found


@pytest.mark.usefixtures("page")
def test_every_strategy_has_as_many_searches(folder: Path) -> None:
    names = {place.name for place in (folder / "runs" / "fake").iterdir()}
    searches = {search_step(strategy, number) for strategy in (EVOLVED, SEARCHED, DRAWN) for number in range(3)}
    assert names == searches | {"race 1", "no race 1"}
    assert all(len(conditions_of(folder, name)) == 2 for name in searches)


@pytest.mark.usefixtures("page")
def test_errors_are_those_of_the_journals(folder: Path) -> None:
    """The counts of the table are the answers in the journals, at every limit, for the conditions found alone."""
    for row in rows_of(folder, "errors"):
        counts = dict.fromkeys(("10°", "20°", "30°", "40°"), 0)
        seen = 0
        for number in range(3):
            opened = Run(folder / "runs" / "fake" / search_step(row["search"], number))
            before = {one.case: one.answer[0].degrees for one in opened.baseline()}  # type: ignore[attr-defined]
            moved = [
                abs(trial["after"][0]["degrees"] - before[trial["case"]]) if trial["after"] else 0.0
                for trial in opened.trials()
                if trial["rule"] == "critical conditions"
            ]
            repeated = sum(one["same_as"] is not None for one in conditions_of(folder, search_step(row["search"], number)))
            assert not repeated
            seen += len(moved)
            counts = {limit: count + sum(one >= float(limit[:-1]) for one in moved) for limit, count in counts.items()}
        assert {limit: int(row[limit]) for limit in counts} == counts
        assert int(row["scenes"]) == seen == 3 * 2 * 6


@pytest.mark.usefixtures("page")
def test_ratios_are_those_of_the_worst_conditions(folder: Path) -> None:
    worst = {
        strategy: [
            max(one["divergence"] for one in conditions_of(folder, search_step(strategy, number))) for number in range(3)
        ]
        for strategy in (EVOLVED, SEARCHED, DRAWN)
    }
    for row in rows_of(folder, "ratios"):
        logs = [math.log(ours / other) for ours, other in zip(worst[EVOLVED], worst[row["rival"]], strict=True)]
        assert float(row["ratio"]) == pytest.approx(math.exp(sum(logs) / 3))
        assert float(row["ratio low"]) < float(row["ratio"]) < float(row["ratio high"])


@pytest.mark.usefixtures("page")
def test_race_is_compared_with_all_scenes(folder: Path) -> None:
    (row,) = rows_of(folder, "race")
    counts = {
        how: sum(trial["rule"] != "critical conditions" for trial in Run(folder / "runs" / "fake" / f"{how} 1").trials())
        for how in ("race", "no race")
    }
    assert (int(row["run with the race"]), int(row["run without"])) == (counts["race"], counts["no race"])
    assert counts["race"] < counts["no race"] == 24 * 8
    assert float(row["share"]) == pytest.approx(counts["race"] / counts["no race"])


def test_page_answers_every_question(page: Page) -> None:
    assert [section.title for section in page.sections] == [
        "Does evolution find worse conditions than chance?",
        "Do they cause more errors?",
        "What does the race save?",
    ]
    assert all(section.answer.startswith("fake: ") for section in page.sections)
    assert "times the divergence of random search" in page.sections[0].answer


def test_experiment_resumes(folder: Path, page: Page) -> None:
    tables = {path: path.read_bytes() for path in (folder / "tables").iterdir()}
    again = run(SMALL, Setting(folder, QUICK), FakeSystem(), SMOOTH, "fake")
    assert [section.answer for section in again.sections] == [section.answer for section in page.sections]
    assert {path: path.read_bytes() for path in (folder / "tables").iterdir()} == tables


def test_searches_with_one_number_start_alike(folder: Path, page: Page) -> None:
    del page
    setting = SMALL.settled(Setting(folder, QUICK), {})
    (one,) = finish(SMALL, setting, FakeSystem(), SMOOTH, "fake")
    firsts = [[course[0] for course in one.courses(strategy)[:1]] for strategy in (EVOLVED, SEARCHED)]
    assert firsts[0] == firsts[1]
    assert one.courses(DRAWN) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "side"),
    [
        ([2.0, 2.1, 1.9], [1.0, 1.0, 1.0], (2.0 * 2.1 * 1.9) ** (1 / 3), ABOVE),
        ([1.0, 1.0, 1.1], [2.0, 2.0, 2.1], (1.1 / 2.1 / 4) ** (1 / 3), BELOW),
        ([1.0, 2.0, 1.0], [1.0, 1.0, 2.0], 1.0, UNCLEAR),
    ],
)
def test_ratio_has_an_interval(ours: list[float], theirs: list[float], ratio: float, side: str) -> None:
    found = ratio_of(ours, theirs)
    assert found.value == pytest.approx(ratio)
    assert side_of({"ratio low": found.low, "ratio high": found.high}) == side


def test_answer_that_never_moved_has_no_ratio() -> None:
    assert ratio_of([0.1, 0.2], [0.1, 0.0]).value is None
    assert ratio_of([0.2], [0.1]).low is None
    assert side_of({"ratio low": None, "ratio high": None}) == "a single search"


def test_mean_course_goes_on_where_one_ended() -> None:
    assert mean_course([[1.0, 3.0], [1.0]]) == [1.0, 2.0]


def test_sizes_are_those_asked_for() -> None:
    usual = SIZES[USUAL]
    assert (usual.scenes, usual.evaluations) == (64, 60)
    assert (usual.seeds, usual.raced) >= (5, 200)
    assert SIZES[FULL].seeds == 10  # TA-18
    assert SIZES[FULL].conditions == 4  # TA-14


def test_scenes_come_from_few_drives(tmp_path: Path) -> None:
    """Of which all fit into memory; all scenes differ, and those of the race are others."""
    setting = CONDITIONS.settled(Setting(tmp_path, USUAL), {})
    for source, count, size in ((scenes_of(setting), 64, (256, 144)), (scenes_of_race(setting), 200, (128, 72))):
        keys = source.keys()
        assert len(keys) == len(set(keys)) == count
        assert len({source.group(key) for key in keys}) == 8
        assert isinstance(source.source, World)
        assert (source.source.width, source.source.height) == size
    assert not {*scenes_of(setting).keys()} & {*scenes_of_race(setting).keys()}
    one = ConditionRuns(Subject("x", FakeSystem(), scenes_of(setting)), setting)
    assert len(racing(one, 0, race=True).source.keys()) == 200


def test_campaigns_are_as_stated(tmp_path: Path) -> None:
    setting = CONDITIONS.settled(Setting(tmp_path, USUAL, seed=3), {})
    one = ConditionRuns(Subject("x", FakeSystem(), FakeSource(64)), setting)
    for strategy in (EVOLVED, SEARCHED, DRAWN):
        made = condition_runs.searching(one, strategy, 2)
        assert isinstance(made.search, Evolve)
        assert (made.seed, made.search.evaluations, made.search.patience, made.search.around) == (5, 60, 60, 0)
    whole, raced = (racing(one, 1, race=how).search for how in (False, True))
    assert isinstance(whole, Evolve)
    assert whole == replace(whole, race=False)
    assert raced == replace(whole, race=True)


def test_cost_is_announced() -> None:
    quick = estimate(SMALL, QUICK, FakeSystem(), SMOOTH)
    assert quick.seconds > 0
    assert quick.size > 0


def test_cma_is_compared_on_request(tmp_path: Path) -> None:
    pytest.importorskip("cmaes")
    few = replace(CONDITIONS, sizes={QUICK: replace(TINY, seeds=1, conditions=1, races=1)})
    run(few, Setting(tmp_path / "x", QUICK), FakeSystem(), SMOOTH, "fake", cma=True)
    assert [row["rival"] for row in rows_of(tmp_path / "x", "ratios")] == [SEARCHED, DRAWN, "CMA-ES"]


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="option of experiment 'conditions'"):
        run(SMALL, Setting(tmp_path, QUICK), FakeSystem(), SMOOTH, "fake", fast=True)


def test_answers_that_nothing_moves_are_told(tmp_path: Path) -> None:
    few = replace(CONDITIONS, sizes={QUICK: replace(TINY, seeds=2, conditions=1, evaluations=3)})
    setting = few.settled(Setting(tmp_path / "x", QUICK), {})
    results: Results[Any] = finish(few, setting, FakeSystem(gain=0.0), SMOOTH, "still")
    texts = [question.section(results).answer for question in few.questions]
    assert texts[0].startswith("still: no ratio to random search, as in some search")
    assert "at 0 of 0 limits with errors" in texts[1]
    assert len(strategies.ratios.rows(results)) == 2
