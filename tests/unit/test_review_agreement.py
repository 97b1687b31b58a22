from pathlib import Path

import pytest

from swerve.core.relation import Status
from swerve.review.agreement import Review, agreements, is_conflict, read_review, resolve, verdicts
from swerve.review.marks import Judgement, Judgements, Mark, MarkFile
from swerve.store.record_json import TRIAL
from swerve.store.view import Run
from tests.fixture_runs import Made, finding, held

TRUE, FALSE, ODD, FINE = Mark.TRUE, Mark.FALSE, Mark.UNNATURAL, Mark.NATURAL


def said(*marks: Mark | None) -> Judgements:
    """A reviewer who marked findings 0, 1, 2, … so."""
    return {str(number): Judgement(str(number), mark) for number, mark in enumerate(marks)}


def review(held: str = "", **marks: Judgements) -> Review:
    """What reviewers said of findings, but of those in `held`, which are trials that held."""
    names = {trial for one in marks.values() for trial in one}
    rows = {trial: {"kind": TRIAL, "status": Status.HELD if trial in held else Status.VIOLATED} for trial in sorted(names)}
    return Review(marks, rows, ())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Made([finding(case, "turn") for case in "abcd"] + [held("e", "turn")]).write(tmp_path / "run")


def ids(run: Run) -> list[str]:
    return [one.id for one in run.findings()]


def test_kappa_by_hand() -> None:
    # 20 both true, 15 both false, 5 and 10 apart: 0.70 alike, 0.50 by chance, so kappa is 0.2 / 0.5.
    first = said(*[TRUE] * 25, *[FALSE] * 25)
    second = said(*[TRUE] * 20, *[FALSE] * 5, *[TRUE] * 10, *[FALSE] * 15)
    marks, natural = agreements(review(anna=first, bob=second))
    assert (marks.agreed, marks.kappa.n) == (35, 50)
    assert marks.kappa.value == pytest.approx(0.4)
    assert natural.agreed == 50
    assert natural.kappa.why == "all ratings are the same"


def test_naturalness_has_its_own_kappa() -> None:
    _, natural = agreements(review(anna=said(TRUE, FALSE, ODD, ODD), bob=said(FALSE, TRUE, ODD, TRUE)))
    # Alike on 3 of 4; by chance 1/2·3/4 + 1/2·1/4 = 1/2.
    assert natural.agreed == 3
    assert natural.kappa.value == pytest.approx(0.5)


def test_held_trials_count_as_natural_alone() -> None:
    marks, natural = agreements(review("23", anna=said(TRUE, ODD, FINE, ODD), bob=said(FALSE, ODD, FINE, FINE)))
    assert (marks.agreed, marks.kappa.n) == (1, 2)
    assert (natural.agreed, natural.kappa.n) == (3, 4)
    (only,) = agreements(review("01", anna=said(FINE, ODD), bob=said(FINE, FINE)))
    assert only.scale == "natural"


def test_fleiss_by_hand() -> None:
    found = agreements(review(a=said(TRUE, TRUE), b=said(TRUE, FALSE), c=said(TRUE, FALSE)))
    whole = next(one for one in found if len(one.reviewers) == 3 and one.scale == "mark")
    # Alike 1 and 1/3, mean 2/3; by chance (4/6)² + (2/6)² = 5/9; so (2/3 - 5/9) / (4/9) = 1/4.
    assert whole.kappa.value == pytest.approx(0.25)
    assert len(found) == 8  # three pairs and all, each on two scales


def test_only_shared_findings_count() -> None:
    first = {"x": Judgement("x", TRUE), "y": Judgement("y", FALSE), "z": Judgement("z", None, "hm")}
    second = {"y": Judgement("y", FALSE), "z": Judgement("z", TRUE)}
    assert agreements(review(anna=first, bob=second))[0].kappa.n == 1


def test_one_reviewer_has_no_kappa() -> None:
    assert agreements(review(anna=said(TRUE), bob=said(None))) == []


@pytest.mark.parametrize(
    ("marks", "out"),
    [
        ([TRUE], TRUE),
        ([TRUE, TRUE], TRUE),
        ([TRUE, FALSE], None),
        ([TRUE, FALSE, FALSE], FALSE),
        ([TRUE, FALSE, ODD], None),
        ([TRUE, TRUE, FALSE, ODD], None),
        ([ODD, ODD, ODD, TRUE], ODD),
        ([], None),
    ],
)
def test_more_than_half_decide(marks: list[Mark], out: Mark | None) -> None:
    assert resolve({str(number): mark for number, mark in enumerate(marks)}) is out


def test_conflicts_are_seen() -> None:
    assert is_conflict({"a": TRUE, "b": FALSE, "c": TRUE})
    assert not is_conflict({"a": TRUE, "b": TRUE})


def test_verdicts_are_resolved(run: Run) -> None:
    one, two, three, four = ids(run)
    MarkFile(run.folder, "anna").add([Judgement(one, TRUE), Judgement(two, TRUE), Judgement(three, ODD)])
    MarkFile(run.folder, "bob").add([Judgement(two, FALSE), Judgement(three, ODD), Judgement(four, None, "?")])
    assert verdicts(run) == {one: TRUE, three: ODD}
    MarkFile(run.folder, "cleo").add([Judgement(two, FALSE)])
    assert verdicts(run) == {one: TRUE, two: FALSE, three: ODD}


def test_unknown_findings_are_reported(run: Run) -> None:
    MarkFile(run.folder, "anna").add([Judgement("f" * 16, TRUE), Judgement(ids(run)[0], TRUE)])
    found = read_review(run)
    assert found.unknown == (("anna", "f" * 16),)
    assert list(found.votes) == ids(run)[:1]
    assert verdicts(run) == {ids(run)[0]: TRUE}


def test_unknown_findings_have_no_kappa(run: Run) -> None:
    for name in ("anna", "bob"):
        MarkFile(run.folder, name).add([Judgement(ids(run)[0], TRUE), Judgement("f" * 16, FALSE), Judgement("e" * 16, ODD)])
    assert [(one.agreed, one.kappa.n) for one in agreements(read_review(run))] == [(1, 1), (1, 1)]


def test_held_trials_are_known(run: Run) -> None:
    quiet = next(row["id"] for row in run.trials() if row["status"] == Status.HELD)
    MarkFile(run.folder, "anna").add([Judgement(quiet, ODD)])
    assert read_review(run).unknown == ()
    assert read_review(run).votes_on_findings == {}
    assert verdicts(run) == {quiet: ODD}


def test_unreviewed_run_is_empty(run: Run) -> None:
    assert verdicts(run) == {}
    assert read_review(run).votes == {}
