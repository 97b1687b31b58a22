"""TACTIC's experiments in a size that takes seconds, on styles of untrained networks."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.experiments import QUICK, Setting
from swerve.experiments.runner import run
from swerve.experiments.tactic import TACTIC, appearance
from swerve.experiments.tactic.approaches import catalogue
from swerve.experiments.tactic.experiment import StyleSize
from swerve.experiments.tactic.opinions import BOTH, FIRST, NEITHER, REAL, SECOND, SYNTHETIC, _Item
from swerve.experiments.tactic.style_runs import (
    DRAWN,
    EVOLVED,
    SEARCHED,
    Measures,
    chosen_styles,
    measured_step,
    search_step,
    style_files,
)
from swerve.report.experiment_page import Page
from swerve.review.questionnaire import Questionnaire, QuestionPart
from swerve.store.view import Run
from swerve.translation.generator import About, file_bytes
from swerve.translation.looks import look_distance, most_alike
from swerve.translation.translator import MUNIT, UNIT, Design, Translator
from swerve.zoo.steering import STEERING
from tests.quality.test_gain_per_ask import Scenes

TINY = StyleSize(6, 2, 2, 5, 5, ("nbc",), 1, 1, 3)
SMOOTH = Scenes(6, 64, 36)
SMALL = replace(TACTIC, sizes={QUICK: TINY})
DAVE = STEERING["dave-orig"]()


def written(folder: Path, name: str, kind: str) -> None:
    design = Design(width=4, residuals=1, style=3 if kind == MUNIT else 0, hidden=8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        content = file_bytes(Translator(design), About(kind, design, 64, 36, name, "day", "dusk"))
    (folder / f"{name}.safetensors").write_bytes(content)


@pytest.fixture(scope="module")
def styles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("styles")
    written(folder, "dusk", MUNIT)
    written(folder, "dusk-unit", UNIT)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiment") / "tactic"


@pytest.fixture(scope="module")
def page(folder: Path, styles: Path) -> Page:
    return run(SMALL, Setting(folder, QUICK), DAVE, SMOOTH, "fake", styles=str(styles))


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_page_answers_every_question(page: Page) -> None:
    assert [section.title for section in page.sections] == [
        "Are they worse than random styles?",
        "Are they worse than DeepRoad's translation?",
        "Are they worse than what random search finds?",
        "What are the conditions?",
        "How realistic are the pictures?",
        "What do people say?",
        "Where does the time go?",
    ]
    assert page.sections[5].answer == "Nobody has answered yet."
    assert all(section.answer for section in page.sections)


@pytest.mark.usefixtures("page")
def test_every_table_has_its_rivals_and_the_control(folder: Path) -> None:
    rivals = {"table1": DRAWN, "table2": "DeepRoad", "table3": SEARCHED}
    for name, rival in rivals.items():
        assert [row["approach"] for row in rows_of(folder, name)] == [EVOLVED, rival, "reconstruction"]


@pytest.mark.usefixtures("page")
def test_shares_are_those_of_the_journals(folder: Path) -> None:
    """The numbers of table 1 are the answers in the journals, refused follow-ups counted as no error."""
    for row, strategy in zip(rows_of(folder, "table1"), (EVOLVED, DRAWN), strict=False):
        every: list[list[float]] = []
        for number in range(2):
            opened = Run(folder / "runs" / "fake" / measured_step("dusk", "nbc", strategy, number))
            before = {one.case: one.answer[0].degrees for one in opened.baseline()}  # type: ignore[attr-defined]
            trials = list(opened.trials())
            assert len(trials) == 2 * 6
            judged = [one for one in trials if one["status"] in ("held", "violated")]
            every.append([abs(one["after"][0]["degrees"] - before[one["case"]]) for one in judged])
        for limit in (10, 20, 30, 40):
            share = np.mean([sum(one >= limit for one in moved) / 12 for moved in every])
            assert float(row[f"{limit}°"]) == pytest.approx(share)
        assert float(row["refused"]) == pytest.approx(np.mean([1 - len(moved) / 12 for moved in every]))


@pytest.mark.usefixtures("page")
def test_searches_with_one_number_have_one_budget(folder: Path) -> None:
    for number in range(2):
        found = {
            strategy: json.loads(
                (folder / "runs" / "fake" / search_step("dusk", "nbc", strategy, number) / "summary.json").read_text()
            )
            for strategy in (EVOLVED, SEARCHED)
        }
        tried = {name: [len(course) for course in one["condition_search"]["fitness"]] for name, one in found.items()}
        assert tried[EVOLVED] == tried[SEARCHED] == [5, 5]
        firsts = {name: one["condition_search"]["fitness"][0][0] for name, one in found.items()}
        assert firsts[EVOLVED] == firsts[SEARCHED]


def test_experiment_resumes(folder: Path, page: Page, styles: Path) -> None:
    tables = {path: path.read_bytes() for path in (folder / "tables").iterdir()}
    again = run(SMALL, Setting(folder, QUICK), DAVE, SMOOTH, "fake", styles=str(styles))
    assert [section.answer for section in again.sections] == [section.answer for section in page.sections]
    assert {path: path.read_bytes() for path in tables} == tables


def test_answers_are_read_back(folder: Path, page: Page, styles: Path) -> None:
    del page
    place = folder / "questionnaire"
    shown = (place / "questionnaire.html").read_text()
    asked = shown.partition('data-questionnaire="')[2].partition('"')[0]
    count = shown.count('name="picture ') // 7
    assert shown.count("<img ") == 3 * count > 0
    answers = {f"pair {number + 1}": BOTH for number in range(count)} | {"picture 1": "night"}
    (place / "answers" / "one.json").write_text(json.dumps({"questionnaire": asked, "answers": answers}))
    again = run(SMALL, Setting(folder, QUICK), DAVE, SMOOTH, "fake", styles=str(styles))
    assert "100% not told apart" in again.sections[5].answer
    rows = rows_of(folder, "realism-pairs")
    assert sum(int(row["answers"]) for row in rows) == sum(int(row[BOTH]) for row in rows) == count
    assert sum(int(row["night"]) for row in rows_of(folder, "realism-kinds")) == 1
    (place / "answers" / "two.json").write_text(json.dumps({"questionnaire": "other", "answers": {}}))
    with pytest.raises(InputError, match=r"two\.json: answers another questionnaire than this one"):
        run(SMALL, Setting(folder, QUICK), DAVE, SMOOTH, "fake", styles=str(styles))
    (place / "answers" / "two.json").unlink()


def shot(level: int) -> Array:
    return np.full((12, 16, 3), level, np.uint8)


def questionnaire() -> Questionnaire:
    part = QuestionPart(
        "pair", "Which?", "One <b>may</b> be synthetic.", ("a", "b"), [(shot(1), shot(2)), (shot(3), shot(4))]
    )
    return Questionnaire("What?", (part,))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "answers another questionnaire"),
        ({"questionnaire": "ID"}, "has no answers"),
        ({"questionnaire": "ID", "answers": {"pair 1": "c"}}, "'c' for 'pair 1' is no answer"),
        ({"questionnaire": "ID", "answers": {"pair 3": "a"}}, "'a' for 'pair 3' is no answer"),
        ({"questionnaire": "ID", "answers": {"pair 1": ["a"]}}, "is no answer"),
    ],
)
def test_strange_answers_are_refused(tmp_path: Path, content: dict[str, Any], why: str) -> None:
    asked = questionnaire()
    text = json.dumps(content).replace("ID", asked.id)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=rf"x\.json: .*{why}"):
        list(asked.read(tmp_path))


def test_answers_may_be_missing(tmp_path: Path) -> None:
    asked = questionnaire()
    (tmp_path / "x.json").write_text(json.dumps({"questionnaire": asked.id, "answers": {"pair 2": "b"}}))
    assert list(asked.read(tmp_path)) == [{"pair 2": "b"}]


def test_questionnaire_is_escaped_and_stands_alone() -> None:
    page = questionnaire().page()
    assert "One &lt;b&gt;may&lt;/b&gt; be synthetic." in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("data:image/png") == 4


@pytest.mark.parametrize(
    ("answer", "synthetic_first", "meaning"),
    [
        (FIRST, True, SYNTHETIC),
        (FIRST, False, REAL),
        (SECOND, True, REAL),
        (SECOND, False, SYNTHETIC),
        (BOTH, True, BOTH),
        (NEITHER, False, NEITHER),
    ],
)
def test_answers_mean_what_stood_there(answer: str, synthetic_first: bool, meaning: str) -> None:
    item: Any = _Item(None, shot(1), synthetic_first)  # type: ignore[arg-type]
    assert item.choice(answer) == meaning


def test_measures_are_counted_exactly() -> None:
    radians = [np.radians(degrees) for degrees in (9.99, 10.0, 20.0, 45.0)]
    measures = Measures({"a": radians[:2], "b": radians[2:]}, 4, {}, {})
    assert measures.shares() == {"10°": 3 / 8, "20°": 2 / 8, "30°": 1 / 8, "40°": 1 / 8}
    assert measures.shares("b") == {"10°": 2 / 4, "20°": 2 / 4, "30°": 1 / 4, "40°": 1 / 4}
    assert (measures.refused(), measures.refused("b")) == (0.5, 0.5)
    assert measures.mean("b") == pytest.approx(np.radians(32.5))
    assert Measures({"a": []}, 4, {}, {}).mean("a") == 0.0


def test_looks_of_equal_sets_are_equal() -> None:
    rng = np.random.default_rng(0)
    some: Sequence[Array] = [rng.integers(0, 255, (18, 32, 3)).astype(np.uint8) for _ in range(4)]
    assert look_distance(some, list(reversed(some))) == 0
    dark = [pixels // 4 for pixels in some]
    nearest, apart = most_alike(dark, {"bright": some, "dark": [pixels // 4 + 1 for pixels in some]})
    assert nearest == "dark"
    assert apart == pytest.approx(0.75 / 255, abs=1e-4)


def test_catalogue_has_every_named_condition() -> None:
    words = list(catalogue())
    assert len(words) >= 15
    assert any("night" in one for one in words)
    assert any("snowfall" in one for one in words)


def test_folder_without_styles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no trained styles"):
        TACTIC.settled(Setting(tmp_path, QUICK), {"styles": str(tmp_path)})
    with pytest.raises(InputError, match="is not a folder"):
        TACTIC.settled(Setting(tmp_path, QUICK), {"styles": str(tmp_path / "none")})


def test_both_kinds_are_found(styles: Path, tmp_path: Path) -> None:
    setting = SMALL.settled(Setting(tmp_path, QUICK), {"styles": str(styles)})
    assert chosen_styles(setting) == ["dusk"]
    assert style_files(setting, unit=True)["dusk"].name == "dusk-unit.safetensors"


def test_realism_needs_rendered_scenes(page: Page) -> None:
    assert page.sections[4].answer == "The scenes are not rendered."
    assert appearance.FEW > 1
