import argparse
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from swerve.cli.review import add_parser, review
from swerve.core.errors import EnvironmentFault, InputError
from swerve.review.marks import Judgement, Mark, MarkFile, read_marks
from swerve.store.view import Run
from tests.fixture_runs import Made, finding, held, keep_pictures, noise

PROGRAM = """
import argparse, sys
from swerve.cli.review import add_parser, review
parser = argparse.ArgumentParser()
add_parser(parser.add_subparsers())
sys.exit(review(parser.parse_args(["review", *sys.argv[1:]])))
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    records = [finding(case, "turn", off=9.0 + number) for number, case in enumerate("abc")]
    made = Made(records).write(tmp_path / "run")
    keep_pictures(made, records[2], noise(1), noise(2))
    return made


def called(run: Run, *words: object) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return review(parser.parse_args(["review", str(run.folder), *map(str, words)]))


def ids(run: Run) -> list[str]:
    return [one.id for one in run.findings()]


def test_agreement_is_printed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = ids(run)
    MarkFile(run.folder, "anna").add([Judgement(one, Mark.TRUE), Judgement(two, Mark.TRUE), Judgement(three, Mark.FALSE)])
    MarkFile(run.folder, "bob").add([Judgement(one, Mark.TRUE), Judgement(two, Mark.FALSE), Judgement("f" * 16, Mark.TRUE)])
    assert called(run, "--agreement") == 0
    told = capsys.readouterr().out
    assert "rule turn: 3 of 3 reviewed: 1 true positive, 1 false positive, 0 unnatural, 1 open" in told
    assert "anna, bob: three marks: 1 of 2 equal, Cohen's kappa 0.000" in told
    assert f"conflict {two}: anna: true positive, bob: false positive; open" in told
    assert "anna, bob: natural or unnatural: 2 of 2 equal" in told
    assert f"not counted: bob marked {'f' * 16}, which is not a finding of this run" in told
    assert (run.folder / "tables" / "review.csv").is_file()


def test_unknown_findings_are_not_in_kappa(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("anna", "bob"):
        MarkFile(run.folder, name).add([Judgement(ids(run)[0], Mark.TRUE), Judgement("f" * 16, Mark.FALSE)])
    assert called(run, "--agreement") == 0
    assert "anna, bob: three marks: 1 of 1 equal" in capsys.readouterr().out


def test_held_trials_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made([finding("a"), held("b"), held("c"), held("d")]).write(tmp_path / "run")
    one, two, three, _ = (row["id"] for row in run.trials())
    MarkFile(run.folder, "anna").add([Judgement(two, Mark.UNNATURAL), Judgement(three, Mark.NATURAL)])
    assert called(run, "--agreement") == 0
    quiet = (
        "all: 0 of 1 reviewed: 0 true positive, 0 false positive, 0 unnatural; held: 2 of 3 reviewed: 1 natural, 1 unnatural"
    )
    assert f"{quiet}; unnatural 50.0% (9.5% to 90.5%) of all trials" in capsys.readouterr().out
    MarkFile(run.folder, "anna").add([Judgement(one, Mark.TRUE)])
    assert called(run, "--agreement") == 0
    assert "; unnatural 37.5% (" in capsys.readouterr().out


def test_all_draws_held_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made([finding("a"), held("b"), held("c")]).write(tmp_path / "run")
    with pytest.raises(InputError, match="--all needs --sample N"):
        called(run, "--all", "--no-browser")
    assert called(run, "--all", "--sample", 9, "--export-page", tmp_path / "page.html") == 0
    assert capsys.readouterr().out.startswith("3 trials, 0.")
    assert (tmp_path / "page.html").read_text().count('"held":true') == 2


def test_only_some_are_opened(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = ids(run)
    (tmp_path / "ids.txt").write_text(f"{three}\n\n {one}\n{one}\n")
    assert called(run, "--only", tmp_path / "ids.txt", "--export-page", tmp_path / "page.html") == 0
    assert capsys.readouterr().out.startswith("2 findings, 0.")
    page = (tmp_path / "page.html").read_text()
    assert [finding in page for finding in (one, two, three)] == [True, False, True]
    assert called(run, "--only", tmp_path / "ids.txt", "--sample", 1, "--export-page", tmp_path / "page.html") == 0
    assert capsys.readouterr().out.startswith("1 findings, 0.")


def test_only_names_findings_of_the_run(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_text(f"{ids(run)[0]}\nnobody\n")
    with pytest.raises(InputError, match=r"ids\.txt: 1 of its 2 ids are not findings of .*, such as 'nobody'; remove them"):
        called(run, "--only", file, "--no-browser")
    file.write_text("\n")
    with pytest.raises(InputError, match=r"ids\.txt: contains no ids; write the ids of findings into it, one per line"):
        called(run, "--only", file, "--no-browser")
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"ids\.txt: is not UTF-8 text"):
        called(run, "--only", file, "--no-browser")
    with pytest.raises(EnvironmentFault, match=r"gone\.txt: cannot be read"):
        called(run, "--only", tmp_path / "gone.txt", "--no-browser")


def test_only_is_for_pages(run: Run, tmp_path: Path) -> None:
    for other in (("--agreement",), ("--export", tmp_path / "out.csv"), ("--import", tmp_path / "in.csv")):
        with pytest.raises(InputError, match=f"--only cannot be combined with {other[0]}, which uses all marks"):
            called(run, "--only", tmp_path / "ids.txt", *other)


def test_only_takes_held_trials_with_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made([finding("a"), held("b"), held("c")]).write(tmp_path / "run")
    (tmp_path / "ids.txt").write_text("\n".join(row["id"] for row in run.trials() if row["case"] != "c"))
    words = ("--only", tmp_path / "ids.txt", "--export-page", tmp_path / "page.html")
    with pytest.raises(InputError, match="1 of its 2 ids are not findings"):
        called(run, *words)
    assert called(run, *words, "--all", "--sample", 9) == 0
    assert capsys.readouterr().out.startswith("2 trials, 0.")


def test_many_conflicts_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made([finding(f"c{number}", "turn") for number in range(25)]).write(tmp_path / "run")
    for name, mark in (("anna", Mark.TRUE), ("bob", Mark.FALSE)):
        MarkFile(run.folder, name).add([Judgement(one, mark) for one in ids(run)])
    assert called(run, "--agreement") == 0
    told = capsys.readouterr().out
    assert told.count("\nconflict ") == 20
    assert "and 5 more conflicts: " in told
    assert "\nall: 25 of 25 reviewed" in told


def test_nothing_marked_is_said(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(run, "--agreement") == 0
    assert "no finding has been marked yet" in capsys.readouterr().out


def test_export_then_import(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids(run)[0], Mark.TRUE)])
    assert called(run, "--export", tmp_path / "out.csv") == 0
    other = Made([finding("a", "turn", off=9.0)]).write(tmp_path / "other")
    assert called(other, "--import", tmp_path / "out.csv") == 0
    assert read_marks(other.folder) == read_marks(run.folder)
    assert "anna: 1 new or changed marks" in capsys.readouterr().out


def test_unknown_reviewer_is_told(run: Run, tmp_path: Path) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids(run)[0], Mark.TRUE)])
    with pytest.raises(InputError, match=r"unknown reviewer 'ana'; did you mean 'anna'\?"):
        called(run, "--export", tmp_path / "out.csv", "--reviewer", "ana")


def test_run_without_findings_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no findings to review"):
        called(Made([held("a")]).write(tmp_path / "run"), "--no-browser")


def test_exported_page_is_alone(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids(run)[0], Mark.TRUE, "a word of annas")])
    assert called(run, "--export-page", tmp_path / "page.html", "--sample", 3) == 0
    text = (tmp_path / "page.html").read_text()
    assert not re.search(r"(src|href)=\"(?!data:|#)", text)
    assert "annas" not in text
    assert str(tmp_path) not in text
    assert text.count("data:image/png;base64,") == 2  # the one finding whose pictures are there
    assert capsys.readouterr().out.startswith("3 findings, 0.")


@pytest.mark.parametrize(
    "words", [["--sample", "0"], ["--port", "70000"], ["--port", "-1"], ["--export", "a", "--agreement"]]
)
def test_bad_options_are_refused(run: Run, words: list[str]) -> None:
    with pytest.raises(SystemExit):
        called(run, *words)


def test_interrupt_ends_cleanly(run: Run) -> None:
    command = [sys.executable, "-c", PROGRAM, str(run.folder), "--no-browser", "--reviewer", "anna"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", first)
        assert address
        with urllib.request.urlopen(address[0], timeout=60) as reply:
            assert b"Swerve review" in reply.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "0 marks saved; tables/review.csv written" in out


def test_edited_file_stops_the_start(run: Run) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids(run)[0], Mark.TRUE)])
    path = run.folder / "review" / "anna.jsonl"
    path.write_text(path.read_text().replace("true", "false"))
    with pytest.raises(InputError, match=r"anna\.jsonl: line 2 is damaged or was edited by hand"):
        called(run, "--no-browser")
