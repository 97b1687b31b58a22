"""The runner of experiments on a small experiment of its own: steps, resuming, tables, the page and the cost."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

from swerve.analysis.statistics import wilson
from swerve.cli.main import main
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import InputError, StoreError
from swerve.core.relation import Rule
from swerve.core.space import Over, Table
from swerve.core.system import Answer
from swerve.execution.cost import Cost, announced
from swerve.experiments.declaration import Experiment
from swerve.experiments.evidence import Question, chart, pictures, question, table
from swerve.experiments.results import Results, SubjectRuns
from swerve.experiments.runner import estimate, run
from swerve.experiments.schedule import CampaignStep, TrainingStep, check_order, grid
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.subjects import Subject
from swerve.relations.steering import same_angle
from swerve.report.cells import is_numeric
from swerve.report.charts import Bar, bars
from swerve.report.experiment_page import ChartPanel, Page, PicturePanel, TablePanel
from swerve.report.quantities import Counted, Measured, averaged, plain_cells, read_printed
from swerve.report.table_view import TableView
from swerve.search.sweep import Sweep
from swerve.store.files import json_bytes, write_whole
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from swerve.train.loop import Checkpoint
from swerve.transformations.photometric import Brighten

SIZES = {QUICK: 4, USUAL: 8, FULL: 16}
BY = (10.0, 20.0, 40.0)
LIMIT = 15.0  # degrees
PAPER = Path(__file__).with_name("small_paper.toml")
COUNTED: list[str] = []  # subjects that were read
Fake = Results[SubjectRuns]


@dataclass(frozen=True)
class Counting(FakeSystem):
    """A fake that counts what it is asked, and can be stopped on the way."""

    asked = [0]
    stop = [0]

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        self.asked[0] += len(cases)
        if self.stop[0] and self.asked[0] >= self.stop[0]:
            raise KeyboardInterrupt
        return super().__call__(cases)


@pytest.fixture(autouse=True)
def _unasked() -> None:
    Counting.asked[0] = Counting.stop[0] = 0


def brighter(one: SubjectRuns, by: float) -> Campaign:
    rule = Rule("brightness", Table((Brighten(by),)), same_angle(LIMIT))
    return Campaign(one.subject.source, one.subject.system, (rule,), Sweep(), seed=one.setting.seed)


def hardest(one: SubjectRuns) -> Campaign:
    """Half of the least brightness that moved an answer too far: a campaign that only finished steps can make."""
    found = [by for by in BY if violated(one.runs[f"by {by}"])]
    return brighter(one, min(found, default=0.0) / 2)


def violated(run: Run) -> int:
    return sum(row["status"] == "violated" for row in run.trials())


def learn(one: SubjectRuns, file: Path, checkpoint: Checkpoint) -> None:
    del checkpoint
    if one.name == "unfit":
        raise InputError("there is nothing to learn from; use --more")
    write_whole(file, json_bytes({"violated": violated(one.runs["half"])}))


def steps(subject: Subject, setting: Setting) -> Iterator[CampaignStep | TrainingStep]:
    del setting
    yield from grid(by=BY)
    yield CampaignStep("half", hardest, after=tuple(f"by {by}" for by in BY), trials=2 * subject.count, parallel=False)
    yield TrainingStep("lesson.json", learn, lambda one: f"{one.setting.seed}", after=("half",), trials=10)
    yield CampaignStep("again", lambda one: brighter(one, 5.0), after=("lesson.json",), when=_is_worst)


def _is_worst(results: Fake, one: SubjectRuns) -> bool:
    return one is max(results, key=lambda other: violated(other.runs["half"]))


@table(
    "rates",
    "Rates by brightness",
    note=lambda results: f"of {len(results)} systems",
    printed=read_printed(PAPER)["rates"],
)
def rates(results: Fake) -> Iterator[dict[str, Any]]:
    for one in results:
        for by in BY:
            moved, count = violated(one.runs[f"by {by}"]), len(one.baseline)
            yield {"system": one.name, "by": by, "cases": count, "moved": Counted(moved, count), "share": moved / count}


@table("each", "Of each", each="system", formats={"size": lambda sizes: f".{len(sizes)}f"})
def of_each(one: SubjectRuns) -> Iterator[dict[str, Any]]:
    """of {LIMIT:g}
    degrees"""
    yield {"cases": one.once(counted), "size": 1.5}


@table("optional", "Optional", optional=True)
def never(results: Fake) -> Iterator[dict[str, Any]]:
    yield from nothing.rows(results)


def counted(one: SubjectRuns) -> int:
    COUNTED.append(one.name)
    return len(one.baseline)


@table("views", views=(TableView("By 40", where={"by": 40.0}), TableView("Short", hidden=("name",), main=False)))
def shown_twice(results: Fake) -> Iterator[dict[str, Any]]:
    for one in results:
        yield from ({"system": one.name, "by": by, "_secret": 1, "name": one.name.upper()} for by in BY)


@table("nothing", "Nothing")
def nothing(results: Fake) -> Iterator[dict[str, Any]]:
    yield from ({"never": one.name} for one in results if one.name == "elsewhere")


@table("averages", "Averages")
def averages(results: Fake) -> Iterator[dict[str, Any]]:
    every = [{"system": one.name, "seed": by, "moved": violated(one.runs[f"by {by}"])} for one in results for by in BY]
    yield from averaged(every, "seed", ("moved",))


@chart("Moved", "bars")
def moved(results: Fake) -> Markup:
    return bars({one.name: {"half": Bar(violated(one.runs["half"]))} for one in results})


def unfit(results: Fake) -> list[SubjectRuns]:
    return [one for one in results if one.name == "unfit"]


@table("unfit", each="system", of=unfit)
def of_the_unfit(one: SubjectRuns) -> Iterator[dict[str, Any]]:
    yield {"moved": violated(one.runs["half"])}


@chart("Moved, {name}", of=unfit)
def moved_unfit(one: SubjectRuns) -> Markup:
    return bars({one.name: {"half": Bar(violated(one.runs["half"]))}})


@pictures("Seen by {name}", across=2)
def seen(one: SubjectRuns) -> Iterator[tuple[str, Any]]:
    if one.name == "unfit":
        yield "grey", np.full((2, 3, 3), 128, np.uint8)


@question(
    "Does brightness matter?",
    rates,
    moved,
    shown_twice,
    of_the_unfit,
    moved_unfit,
    seen,
    text=("It may.", lambda results: [f"{len(results)}"]),
)
def matters(results: Fake) -> str:
    return "; ".join(f"{row['system']} {row['by']:g}: {row['moved']}" for row in rates.rows(results))


@question("And each?", of_each, each=True)
def each_matters(one: SubjectRuns) -> str:
    """Within {LIMIT:g} degrees."""
    return f"{one.name} {one.once(counted)}"


def subjects(setting: Setting) -> list[Subject]:
    systems = {"fit": Counting(gain=1.0), "unfit": Counting(gain=0.9)}
    return [Subject(name, system, FakeSource(setting.size)) for name, system in systems.items()]


SMALL = Experiment(
    "small",
    "Small",
    subjects=subjects,
    cases=lambda setting: setting.size,
    sizes=SIZES,
    steps=steps,
    campaign=brighter,
    questions=(
        matters,
        Question("And otherwise?", (nothing, averages, never, of_each)),
        each_matters,
    ),
    lead=("A small experiment.",),
    options={"colour": "grey"},
    preparation=lambda setting: Cost(1000.0 * setting.size),
)


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "tables").glob("*.csv")}


def sheets(page: Page) -> dict[str, TablePanel]:
    return {part.title: part for section in page.sections for part in section.parts if isinstance(part, TablePanel)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    folder = tmp_path_factory.mktemp("small")
    return folder, run(SMALL, Setting(folder, QUICK, seed=3))


# --- tables and the page -------------------------------------------------------------------------------------------------


def test_rows_become_a_file_with_the_paper_beside(made: tuple[Path, Page]) -> None:
    found = rows(made[0], "rates")
    assert [*found[0]] == ["system", "by", "cases", "moved", "share", "printed moved"]
    assert [(row["system"], row["by"], row["printed moved"]) for row in found[:3]] == [
        ("fit", "10.0", "27"), ("fit", "20.0", ""), ("fit", "40.0", "335")
    ]  # fmt: skip
    assert [int(row["moved"]) for row in found] == [0, 4, 4] * 2


def test_page_shows_rates_of_both_and_our_interval(made: tuple[Path, Page]) -> None:
    sheet = sheets(made[1])["Rates by brightness"]
    last = dict(zip(sheet.columns, sheet.texts[2], strict=True))
    low, high = wilson(4, 4)
    assert last["moved"] == f"4 (100.0%, {100 * low:.1f}–{high:.1%})"
    assert (last["printed moved"], last["share"]) == ("335 (33.5%)", "100.0%")
    assert sheet.columns == ("system", "by", "cases", "moved", "printed moved", "share")
    assert sheet.printed == ("printed moved",)
    assert (sheet.csv, sheet.note) == ("tables/rates.csv", "of 2 systems")


def test_views_choose_rows_and_columns(made: tuple[Path, Page]) -> None:
    found = sheets(made[1])
    assert (found["By 40"].columns, found["By 40"].rows) == (("system", "name"), (("fit", "FIT"), ("unfit", "UNFIT")))
    assert found["Short"].columns == ("system", "by")
    assert (len(found["Short"].rows), found["Short"].main) == (6, False)
    assert [*rows(made[0], "views")[0]] == ["system", "by", "name"]


def test_table_without_rows_is_an_empty_file(made: tuple[Path, Page]) -> None:
    assert rows(made[0], "nothing") == []
    assert (sheets(made[1])["Nothing"].rows, sheets(made[1])["Nothing"].main) == ((), False)


def test_optional_table_without_rows_is_left_out(made: tuple[Path, Page]) -> None:
    assert not (made[0] / "tables" / "optional.csv").exists()
    assert "Optional" not in sheets(made[1])


def test_docstrings_are_notes_and_paragraphs(made: tuple[Path, Page]) -> None:
    sheet = sheets(made[1])["Of each"]
    assert (sheet.columns, sheet.note) == (("system", "cases", "size"), "of 15 degrees")
    assert sheet.texts == [("fit", "4", "1.50"), ("unfit", "4", "1.50")]
    assert (made[1].sections[2].text, made[1].sections[2].answer) == (("Within 15 degrees.",), "fit 4; unfit 4")


def test_evidence_is_of_the_chosen_subjects(made: tuple[Path, Page]) -> None:
    parts = made[1].sections[0].parts
    assert {row["system"] for row in rows(made[0], "unfit")} == {"unfit"}
    assert [part.title for part in parts if isinstance(part, ChartPanel)] == ["Moved", "Moved, unfit"]
    (panel,) = (part for part in parts if isinstance(part, PicturePanel))
    assert (panel.title, panel.across, [caption for caption, _ in panel.items]) == ("Seen by unfit", 2, ["grey"])


def test_runs_are_read_once(tmp_path: Path) -> None:
    COUNTED.clear()
    run(SMALL, Setting(tmp_path, QUICK, seed=3))
    assert COUNTED == ["fit", "unfit"]


def test_averages_have_an_interval_in_the_file(made: tuple[Path, Page]) -> None:
    found = rows(made[0], "averages")
    assert [*found[0]] == ["system", "runs", "moved", "moved low", "moved high"]
    assert [(row["system"], row["runs"]) for row in found] == [("fit", "3"), ("unfit", "3")]
    assert float(found[0]["moved"]) == pytest.approx(8 / 3)
    reach = 4.302653 * (16 / 3) ** 0.5 / 3**0.5  # Student's t with two degrees of freedom
    assert float(found[0]["moved high"]) == pytest.approx(8 / 3 + reach, rel=1e-5)
    assert sheets(made[1])["Averages"].texts[0][-1] == "2.67 (-3.07 – 8.4)"


def test_page_tells_questions_facts_and_refusals(made: tuple[Path, Page]) -> None:
    folder, page = made
    assert page.title == "Small on fit, unfit"
    first = page.sections[0]
    assert (first.title, first.text) == ("Does brightness matter?", ("It may.", "2"))
    assert first.answer.startswith("fit 10: 0; fit 20: 4; fit 40: 4; unfit 10: 0")
    assert page.facts == {
        **{"level": "quick", "seed": 3, "colour": "grey"},
        **{"fit": "4 cases, 20 trials, 0 not judged", "unfit": "4 cases, 16 trials, 0 not judged"},
    }
    assert page.lead == ("A small experiment.", "unfit: lesson.json was not run: there is nothing to learn from.")
    text = (folder / "report" / "index.html").read_text()
    assert "Does brightness matter?" in text
    assert "335 (33.5%)" in text


def test_trials_that_were_not_judged_are_told(tmp_path: Path) -> None:
    class Silent(Counting):
        def __call__(self, cases: Sequence[Case]) -> list[Answer]:
            bright = [case.inputs["camera"].pixels.mean() > 130 for case in cases]  # type: ignore[attr-defined]
            said = super().__call__(cases)
            return [() if one else answer for one, answer in zip(bright, said, strict=True)]

    page = run(replace(SMALL, steps=grid(by=BY), questions=()), Setting(tmp_path, QUICK), Silent(), FakeSource(4), "silent")
    assert page.facts["silent"] == "4 cases, 12 trials, 4 not judged (0 skipped, 4 failed)"


def test_unknown_formats_and_tables_are_refused(tmp_path: Path) -> None:
    wrong = table("wrong", "Wrong", formats={"sahre": ".1%"})(lambda results: [{"share": len(results)}])
    with pytest.raises(ValueError, match="table 'wrong': formats name 'sahre', which is not a column"):
        list(wrong(Results(Setting(tmp_path), [])))


def test_counts_and_numbers_as_text() -> None:
    assert Counted(1200, None).shown("") == "1,200"
    assert Counted(3, 2).shown("") == "3"  # more than there are is no rate
    assert Counted(None, 5).shown("") == Measured(None).shown("") == "–"
    assert Measured(0.25, 0.2, 0.3).shown(".0%") == "25% (20% – 30%)"
    assert Measured(2.0).shown("") == "2"
    assert plain_cells({"a": Measured(2.0, 1.0, 3.0, wide=False), "_b": 1}) == {"a": 2.0}
    assert is_numeric([Measured(-2.0, -3.0, 1.0).shown("+.1f"), Counted(3, 9).shown("")])


def test_printed_numbers_are_found_by_cells() -> None:
    table = read_printed(PAPER)["neurons"]
    found = table.beside({"model": "a", "part": "cnn"})
    assert found["printed covered"] == Counted(50, 200, printed=True)
    assert (found["printed all"], found["printed words"]) == (200, "many")
    assert table.beside({"model": "b", "part": ""})["printed covered"] is None
    elsewhere = table.beside({"model": "c", "part": "cnn"})
    assert [elsewhere[f"printed {name}"] for name in ("all", "covered", "words")] == [None] * 3
    assert Counted(50, 200, printed=True).rate == 0.25


# --- steps ---------------------------------------------------------------------------------------------------------------


def test_step_follows_from_a_finished_one(made: tuple[Path, Page]) -> None:
    change = next(Run(made[0] / "runs" / "fit" / "half").trials())["change"]
    assert change["beta"] == 10.0  # half of the least that moved an answer


def test_condition_sees_all_subjects(made: tuple[Path, Page]) -> None:
    assert (made[0] / "runs" / "fit" / "again").is_dir()
    assert not (made[0] / "runs" / "unfit" / "again").exists()


def test_step_after_a_refused_one_is_refused(tmp_path: Path) -> None:
    def always(subject: Subject, setting: Setting) -> list[Any]:
        return [one if not hasattr(one, "values") else replace(one, when=None) for one in steps(subject, setting)]

    page = run(replace(SMALL, steps=always), Setting(tmp_path, QUICK))
    assert "unfit: again was not run: it needs 'lesson.json', which was not run." in page.lead


def test_training_is_kept_until_its_key_changes(tmp_path: Path) -> None:
    run(SMALL, Setting(tmp_path, QUICK, seed=3))
    file = tmp_path / "runs" / "fit" / "lesson.json"
    assert json.loads(file.read_text()) == {"violated": 0}
    file.write_text("kept")
    run(SMALL, Setting(tmp_path, QUICK, seed=3))
    assert file.read_text() == "kept"
    file.with_name("lesson.json.key").write_text("other")
    run(SMALL, Setting(tmp_path, QUICK, seed=3))
    assert json.loads(file.read_text()) == {"violated": 0}


def test_grid_has_a_step_for_every_combination() -> None:
    assert [step.name for step in grid(n=(10, 100), near=(None, 5.0))] == [
        "n 10, near None", "n 10, near 5.0", "n 100, near None", "n 100, near 5.0"
    ]  # fmt: skip
    assert grid(n=(10,))[0].values == {"n": 10}


def test_order_of_steps_is_checked() -> None:
    with pytest.raises(ValueError, match="step 'b' comes after 'a', which is not an earlier step"):
        check_order([CampaignStep("b", after=("a",)), CampaignStep("a")])
    with pytest.raises(ValueError, match="two steps are named 'a'"):
        check_order([CampaignStep("a"), CampaignStep("a")])
    with pytest.raises(ValueError, match="step 'a' has no campaign"):
        CampaignStep("a").campaign_for(None, None)  # type: ignore[arg-type]


# --- resuming, workers, subjects of one's own ----------------------------------------------------------------------------


def test_finished_experiment_asks_nothing_again(tmp_path: Path) -> None:
    run(SMALL, Setting(tmp_path, QUICK, seed=3))
    before, Counting.asked[0] = tables(tmp_path), 0
    run(SMALL, Setting(tmp_path, QUICK, seed=3))
    assert Counting.asked[0] == 0
    assert tables(tmp_path) == before


def test_killed_experiment_resumes_where_it_stopped(tmp_path: Path, made: tuple[Path, Page]) -> None:
    asked: dict[str, int] = {}

    def begin(name: str) -> None:
        asked[name] = Counting.asked[0]
        Counting.stop[0] = Counting.asked[0] + 6 if name == "fit/by 40.0" and not resuming else 0

    resuming = False
    with pytest.raises(KeyboardInterrupt):
        run(SMALL, Setting(tmp_path, QUICK, seed=3, say=begin))
    assert [*asked] == ["fit/by 10.0", "fit/by 20.0", "fit/by 40.0"]
    assert not (tmp_path / "tables").exists()
    resuming = True
    run(SMALL, Setting(tmp_path, QUICK, seed=3, say=begin))
    assert asked["fit/by 10.0"] == asked["fit/by 20.0"] == asked["fit/by 40.0"] < asked["fit/half"]
    assert tables(tmp_path) == tables(made[0])


@pytest.mark.usefixtures("forked_workers")
def test_workers_find_the_same(tmp_path: Path) -> None:
    for workers in (0, 2):
        folder = tmp_path / str(workers)
        run(SMALL, Setting(folder, QUICK, seed=3, workers=workers), FakeSystem(gain=0.9), FakeSource(12), "own")
    assert tables(tmp_path / "2") == tables(tmp_path / "0")


def test_own_system_takes_the_place_of_the_subjects(tmp_path: Path) -> None:
    page = run(SMALL, Setting(tmp_path, QUICK), FakeSystem(), FakeSource(100), "mine", colour="red")
    assert {row["system"] for row in rows(tmp_path, "rates")} == {"mine"}
    assert {row["cases"] for row in rows(tmp_path, "rates")} == {"4"}
    assert page.facts["colour"] == "red"
    with pytest.raises(InputError, match="unknown option of experiment 'small' 'color'; did you mean 'colour'"):
        run(SMALL, Setting(tmp_path, QUICK), color="red")


OWN = """
[source]
use = "swerve.testing:FakeSource"
count = {count}
[system]
use = "swerve.testing:FakeSystem"
[[rule]]
name = "bright"
change = {{ use = "brighten", beta = 40 }}
expect = {{ use = "same-angle", within = 10 }}
"""
MINE = """
from tests.unit.test_experiment_runner import SMALL

def small():
    return SMALL

def wrong():
    return "nothing"
"""


def test_command_runs_an_experiment_of_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    given = ["--trust", "mine.py", "--quick", "--seed", "3", "--workers", "0", "--into"]
    assert main(["experiment", "mine.py:small", *given, "out"]) == 0
    shown = capsys.readouterr().out
    assert "mine.py:small, quick: about" in shown
    assert "Does brightness matter?" in shown
    assert {row["system"] for row in rows(Path("out"), "rates")} == {"fit", "unfit"}
    assert main(["experiment", "mine.py:small", *given, "out"]) == 0
    assert "resuming in out" in capsys.readouterr().out
    for name, count in (("system", 4), ("source", 2)):
        Path(f"{name}.toml").write_text(OWN.format(count=count))
    own = ["--system", "system.toml", "--source", "source.toml"]
    assert main(["experiment", "mine.py:small", *own, *given, "own"]) == 0
    assert {(row["system"], row["cases"]) for row in rows(Path("own"), "rates")} == {("system", "2")}
    assert main(["experiment", "mine.py:wrong", *given, "other"]) == 2
    assert "expected a function that returns an Experiment, got str" in capsys.readouterr().err
    assert main(["experiment", "mine.py:small", "--independent", *given, "other"]) == 2
    assert "--independent is not an option of experiment 'mine.py:small'" in capsys.readouterr().err
    assert main(["experiment", "mine.py:small", "--quick", "--into", "other"]) == 2
    assert "--trust" in capsys.readouterr().err


# --- the cost ------------------------------------------------------------------------------------------------------------


def test_estimate_follows_steps_and_sizes() -> None:
    costs = {level: estimate(SMALL, level, FakeSystem(), FakeSource(100)) for level in SIZES}
    assert 0 < costs[QUICK].size < costs[USUAL].size < costs[FULL].size
    assert costs[FULL].size / costs[QUICK].size == pytest.approx(4, rel=0.05)
    assert estimate(SMALL, QUICK).seconds > 4000 > estimate(SMALL, QUICK, FakeSystem(), FakeSource(9)).seconds


def test_search_announces_its_trials() -> None:
    one = SubjectRuns(Subject("own", FakeSystem(), FakeSource(2)), Setting(Path(), seed=1))
    assert announced(brighter(one, 5.0), 100) == 200
    space = Over(Brighten, beta="grid")
    many = replace(brighter(one, 5.0), rules=(Rule("grid", space, same_angle(5.0)),))
    assert announced(many, 100) == 100 + 100 * len(space.grid())


def test_link_in_the_folder_of_an_experiment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "into" / "report").mkdir(parents=True)
    (tmp_path / "into" / "report" / "pictures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="pictures"):
        run(SMALL, Setting(tmp_path / "into", QUICK), FakeSystem(), FakeSource(4), "mine")
    assert not list((tmp_path / "elsewhere").iterdir())
