import csv
from pathlib import Path

import pytest

from swerve.analysis.statistics import wilson
from swerve.review.agreement import read_review
from swerve.review.marks import Judgement, Mark, MarkFile
from swerve.review.queue import queue
from swerve.review.tables import change_name, write_review_tables
from swerve.store import Run
from swerve.transformations.affine import Rotate, Scale
from tests.fixture_runs import Made, finding, held

TRUE, FALSE, ODD = Mark.TRUE, Mark.FALSE, Mark.UNNATURAL


@pytest.fixture
def run(tmp_path: Path) -> Run:
    turned = [finding(f"t{number}", "turn", Rotate(9.0)) for number in range(6)]
    scaled = [finding(f"s{number}", "zoom", Scale(2.0, 2.0)) for number in range(4)]
    return Made([*turned, *scaled, held("h", "quiet")]).write(tmp_path / "run")


def table(run: Run, name: str) -> list[dict[str, str]]:
    write_review_tables(run, read_review(run))
    with (run.folder / "tables" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def judge(run: Run, name: str, marks: dict[int, Mark]) -> None:
    ids = [one.id for one in run.findings()]
    MarkFile(run.folder, name).add([Judgement(ids[number], mark) for number, mark in marks.items()])


def test_marks_are_counted(run: Run) -> None:
    judge(run, "anna", {0: TRUE, 1: ODD, 2: ODD, 3: FALSE, 6: TRUE})
    judge(run, "bob", {0: TRUE, 3: ODD})
    by_rule = {row["name"]: row for row in table(run, "review.csv") if row["by"] == "rule"}
    counts = ("findings", "reviewed", "true_positive", "false_positive", "unnatural", "conflicts")
    assert [by_rule["turn"][name] for name in counts] == ["6", "4", "1", "0", "2", "1"]
    assert [by_rule["zoom"][name] for name in counts] == ["4", "1", "1", "0", "0", "0"]
    assert [by_rule["quiet"][name] for name in counts] == ["0"] * 6


def test_shares_have_wilson_intervals(run: Run) -> None:
    judge(run, "anna", {0: TRUE, 1: ODD, 2: ODD, 3: FALSE})
    row = next(row for row in table(run, "review.csv") if row["name"] == "rotate")
    assert row["unnatural_share"] == "0.5"
    assert (row["unnatural_low"], row["unnatural_high"]) == tuple(str(round(edge, 6)) for edge in wilson(2, 4))
    assert row["false_share"] == "0.25"


def test_open_conflicts_have_no_share(run: Run) -> None:
    judge(run, "anna", {0: TRUE})
    judge(run, "bob", {0: FALSE})
    row = table(run, "review.csv")[0]
    assert (row["reviewed"], row["conflicts"], row["false_share"]) == ("1", "1", "")


def test_rows_add_up(run: Run) -> None:
    judge(run, "anna", {number: list(Mark)[number % 3] for number in range(9)})
    rows = table(run, "review.csv")
    for by in ("rule", "transformation", "all"):
        assert sum(int(row["reviewed"]) for row in rows if row["by"] == by) == 9
        assert sum(int(row["findings"]) for row in rows if row["by"] == by) == 10


def test_conflicts_are_listed(run: Run) -> None:
    judge(run, "anna", {0: TRUE, 1: ODD})
    judge(run, "bob", {0: FALSE, 1: TRUE})
    judge(run, "cleo", {1: ODD, 2: ODD})
    told = [(row["case"], row["marks"], row["resolved"]) for row in table(run, "conflicts.csv")]
    assert told == [
        ("t0", "anna: true positive; bob: false positive", "open"),
        ("t1", "anna: unnatural; bob: true positive; cleo: unnatural", "unnatural"),
    ]


def test_chains_are_named() -> None:
    assert change_name({"use": "chain", "steps": [{"use": "rotate", "degrees": 3}, {"use": "fog"}]}) == "rotate + fog"
    assert change_name({"use": "rain", "rate": 3}) == "rain"


def test_sample_is_everybodys(run: Run) -> None:
    assert queue(run, 5, seed=3) == queue(Run(run.folder), 5, seed=3)
    assert queue(run, 10, seed=3) != queue(run, 10, seed=4)


def test_larger_sample_goes_on(run: Run) -> None:
    whole = queue(run, 99, seed=1)
    assert sorted(one.id for one in whole) == sorted(one.id for one in run.findings())
    assert all(queue(run, count, seed=1) == whole[:count] for count in range(1, 10))


def test_worst_come_first(tmp_path: Path) -> None:
    offs = {"a": 9.0, "b": 30.0, "c": 20.0}
    run = Made([finding(case, off=off) for case, off in offs.items()]).write(tmp_path / "run")
    assert [one.case for one in queue(run)] == ["b", "c", "a"]


def test_same_finding_comes_once(tmp_path: Path) -> None:
    run = Made([finding("a"), finding("a"), finding("b")]).write(tmp_path / "run")
    assert sorted(one.case for one in queue(run)) == ["a", "b"]
    assert sorted(one.case for one in queue(run, 9)) == ["a", "b"]
