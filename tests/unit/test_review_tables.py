import csv
from pathlib import Path

import pytest

from swerve.analysis.statistics import wilson
from swerve.review.agreement import read_review
from swerve.review.mark_tables import ReviewCounts, change_name, review_lines, write_review_tables
from swerve.review.marks import Judgement, Mark, MarkFile
from swerve.review.queue import is_held, queue
from swerve.store.view import Run
from swerve.transformations.affine import Rotate, Scale
from tests.fixture_runs import Made, failed, finding, held, skipped

TRUE, FALSE, ODD, FINE = Mark.TRUE, Mark.FALSE, Mark.UNNATURAL, Mark.NATURAL


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


def test_naturalness_has_its_own_majority(run: Run) -> None:
    judge(run, "anna", {**dict.fromkeys(range(8), TRUE), 8: ODD, 9: ODD})
    judge(run, "bob", {**dict.fromkeys(range(8), FALSE), 8: ODD, 9: ODD})
    row = table(run, "review.csv")[-1]
    assert (row["by"], row["conflicts"], row["unnatural"], row["unnatural_share"]) == ("all", "8", "2", "0.2")
    assert (row["unnatural_low"], row["unnatural_high"]) == tuple(str(round(edge, 6)) for edge in wilson(2, 10))
    assert row["false_share"] == "0.0"  # of the two whose mark is settled
    judge(run, "cleo", {0: ODD, 1: ODD, 8: TRUE})
    assert table(run, "review.csv")[-1]["unnatural_share"] == "0.2"  # two of three still say natural


def test_open_naturalness_has_no_share(run: Run) -> None:
    judge(run, "anna", {0: ODD, 1: TRUE})
    judge(run, "bob", {0: TRUE, 1: FALSE})
    assert table(run, "review.csv")[0]["unnatural_share"] == "0.0"  # of the second alone
    judge(run, "bob", {1: ODD})
    assert table(run, "review.csv")[0]["unnatural_share"] == ""


def judge_held(run: Run, *marks: Mark) -> ReviewCounts:
    """The line of all, after one more reviewer marked the first trials that held."""
    quiet = [row["id"] for row in run.trials() if row["status"] == "held"]
    MarkFile(run.folder, "anna").add(Judgement(*one) for one in zip(quiet, marks, strict=False))
    return review_lines(run, read_review(run))[-1]


@pytest.fixture
def mixed(tmp_path: Path) -> Run:
    """Two findings, eight trials that held, and two that were not judged."""
    trials = [*(finding(f"f{number}") for number in range(2)), *(held(f"h{number}") for number in range(8))]
    return Made([*trials, skipped("s", "too dark"), failed("e", "no answer")]).write(tmp_path / "mixed")


def test_held_trials_are_counted_apart(mixed: Run) -> None:
    judge(mixed, "anna", {0: ODD})
    line = judge_held(mixed, FINE, ODD, FINE, FINE)
    assert (line.findings.trials, line.findings.reviewed, line.held.trials, line.held.reviewed) == (2, 1, 8, 4)
    row = table(mixed, "review.csv")[-1]
    counts = ("findings", "reviewed", "unnatural", "held", "held_reviewed", "held_natural", "held_unnatural")
    assert [row[name] for name in counts] == ["2", "1", "1", "8", "4", "3", "1"]
    assert row["unnatural_share"] == "1.0"  # of the findings


def test_share_of_all_trials_is_weighted(mixed: Run) -> None:
    judge(mixed, "anna", {0: ODD, 1: ODD})
    assert judge_held(mixed).unnatural is None  # findings alone say nothing of the run
    share = judge_held(mixed, FINE, FINE, FINE, ODD).unnatural
    assert share is not None
    assert share[0] == pytest.approx((2 * 1 + 8 * 0.25) / 10)  # three of the six looked at would be half
    few, many = wilson(2, 2), wilson(1, 4)
    assert share[1] == pytest.approx(0.4 - ((0.2 * (1 - few[0])) ** 2 + (0.8 * (0.25 - many[0])) ** 2) ** 0.5)
    assert share[2] == pytest.approx(0.4 + (0.8 * (many[1] - 0.25)))


def test_share_without_a_drawn_finding(mixed: Run) -> None:
    assert judge_held(mixed, FINE, FINE, FINE, ODD).unnatural == (0.25, *wilson(1, 4))


def test_share_of_findings_alone(run: Run) -> None:
    judge(run, "anna", {0: ODD, 1: TRUE})
    turn = next(line for line in review_lines(run, read_review(run)) if line.name == "turn")
    assert turn.held.trials == 0
    assert turn.unnatural == pytest.approx((0.5, *wilson(1, 2)))


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


def test_sample_of_all_has_held_trials(mixed: Run) -> None:
    whole = queue(mixed, 99, seed=1, held=True)
    assert sorted(one.case for one in whole) == ["f0", "f1", *(f"h{number}" for number in range(8))]
    assert {one.case for one in whole if is_held(one)} == {f"h{number}" for number in range(8)}
    assert all(queue(mixed, count, seed=1, held=True) == whole[:count] for count in range(1, 10))
    assert [one.case for one in whole if not is_held(one)] == [one.case for one in queue(mixed, 99, seed=1)]


def test_worst_come_first(tmp_path: Path) -> None:
    offs = {"a": 9.0, "b": 30.0, "c": 20.0}
    run = Made([finding(case, off=off) for case, off in offs.items()]).write(tmp_path / "run")
    assert [one.case for one in queue(run)] == ["b", "c", "a"]


def test_chosen_ones_are_all_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Made([finding(case, off=off) for case, off in {"a": 9.0, "b": 30.0, "c": 20.0}.items()]).write(tmp_path / "run")
    monkeypatch.setattr("swerve.review.queue.LISTED_PER_RULE", 1)
    wanted = {one.id for one in run.findings() if one.case != "b"}
    assert [one.case for one in queue(run)] == ["b"]
    assert [one.case for one in queue(run, only=wanted)] == ["c", "a"]
    assert sorted(one.case for one in queue(run, 9, only=wanted)) == ["a", "c"]


def test_same_finding_comes_once(tmp_path: Path) -> None:
    run = Made([finding("a"), finding("a"), finding("b")]).write(tmp_path / "run")
    assert sorted(one.case for one in queue(run)) == ["a", "b"]
    assert sorted(one.case for one in queue(run, 9)) == ["a", "b"]
