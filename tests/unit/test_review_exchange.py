import csv
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swerve.core.errors import InputError, StoreError
from swerve.review.agreement import read_review
from swerve.review.exchange import BadMarks, export_marks, import_marks
from swerve.review.marks import Judgement, Mark, MarkFile, read_marks
from swerve.store.files import FORMULA
from swerve.store.view import Run
from tests.fixture_runs import Made, Named, finding, held

EVIL = "=cmd|' /C calc'!A0"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    records = [finding("a", "turn"), finding("b", EVIL, Named("@SUM(1)")), finding("c", "turn")]
    return Made(records).write(tmp_path / "run")


@pytest.fixture
def ids(run: Run) -> list[str]:
    return [one.id for one in run.findings()]


def brought(run: Run, text: str | bytes, reviewer: str | None = None) -> dict[str, dict[str, Judgement]]:
    path = run.folder.parent / "marks.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    import_marks(run, path, reviewer=reviewer)
    return read_marks(run.folder)


def cells(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [cell for row in csv.reader(file) for cell in row]


def test_export_comes_back(run: Run, ids: list[str], tmp_path: Path) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids[0], Mark.TRUE, 'a, b;\n"c"'), Judgement(ids[1], None, "hm")])
    MarkFile(run.folder, "-1+1").add([Judgement(ids[1], Mark.UNNATURAL)])
    before = read_marks(run.folder)
    assert export_marks(read_review(run), tmp_path / "out.csv") == 3
    for file in (run.folder / "review").iterdir():
        file.unlink()
    assert import_marks(run, tmp_path / "out.csv").changed == {"anna": 2, "-1+1": 1}
    assert read_marks(run.folder) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.text("'=+-@\t\r\n\",;a", max_size=8))
def test_every_comment_comes_back(run: Run, ids: list[str], tmp_path: Path, comment: str) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids[0], Mark.TRUE, comment)])
    before = read_marks(run.folder)
    export_marks(read_review(run), tmp_path / "out.csv")
    assert not [cell for cell in cells(tmp_path / "out.csv") if cell.startswith(FORMULA)]
    MarkFile(run.folder, "anna").add([Judgement(ids[0], None)])
    import_marks(run, tmp_path / "out.csv")
    assert read_marks(run.folder) == before


def test_no_cell_is_a_formula(run: Run, ids: list[str], tmp_path: Path) -> None:
    MarkFile(run.folder, "=name").add([Judgement(ids[1], Mark.TRUE, "+1")])
    export_marks(read_review(run), tmp_path / "out.csv")
    assert cells(tmp_path / "out.csv")[7:] == ["'=name", ids[1], "true positive", "'+1", f"'{EVIL}", "b", "'@SUM(1)"]


def test_export_of_one_reviewer(run: Run, ids: list[str], tmp_path: Path) -> None:
    for name in ("anna", "bob"):
        MarkFile(run.folder, name).add([Judgement(ids[0], Mark.TRUE)])
    assert export_marks(read_review(run), tmp_path / "out.csv", reviewer="bob") == 1
    assert "anna" not in (tmp_path / "out.csv").read_text()


def test_importing_twice_adds_nothing(run: Run, ids: list[str]) -> None:
    text = f"reviewer,finding,mark\nanna,{ids[0]},Unnatural\n"
    once = brought(run, text)
    size = (run.folder / "review/anna.jsonl").stat().st_size
    assert brought(run, text) == once == {"anna": {ids[0]: Judgement(ids[0], Mark.UNNATURAL)}}
    assert (run.folder / "review/anna.jsonl").stat().st_size == size


def test_every_bad_line_is_listed(run: Run, ids: list[str]) -> None:
    rows = [
        f"anna,{ids[0]},true positive,",
        "anna,feedfeedfeedfeed,unnatural,",
        f"anna,{ids[1]},wrong,",
        f",{ids[2]},unnatural,",
        f"anna,{ids[0]},unnatural,",
        f"anna,{ids[1]},,",
    ]
    with pytest.raises(BadMarks, match="5 lines cannot be used, so nothing was imported") as caught:
        brought(run, "\n".join(["reviewer,finding,mark,comment", *rows]))
    starts = ["line 3: the run has no finding 'feed", "line 4: 'wrong' is not a mark", "line 5: a reviewer's name"]
    starts += ["line 6: reviewer 'anna' gives finding", "line 7: '' is not a mark"]
    assert [line[: len(start)] for line, start in zip(caught.value.details, starts, strict=True)] == starts
    assert read_marks(run.folder) == {}


def test_damaged_neighbour_stops_all(run: Run, ids: list[str]) -> None:
    MarkFile(run.folder, "bob").add([Judgement(ids[0], Mark.TRUE)])
    path = run.folder / "review/bob.jsonl"
    path.write_bytes(path.read_bytes().replace(b"true positive", b"unnatural"))
    for rows in (f"anna,{ids[0]},unnatural\nbob,{ids[1]},unnatural\n", f"anna,{ids[0]},unnatural\n"):
        with pytest.raises(StoreError, match=r"bob\.jsonl: line 2 is damaged"):
            brought(run, f"reviewer,finding,mark\n{rows}")
        assert not (run.folder / "review/anna.jsonl").exists()


def test_missing_column_keeps_comments(run: Run, ids: list[str]) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids[0], Mark.TRUE, "no sky"), Judgement(ids[1], Mark.TRUE, "dark")])
    found = brought(run, f"reviewer,finding,mark\nanna,{ids[0]},unnatural\nbob,{ids[0]},unnatural\n")
    assert found["anna"][ids[0]] == Judgement(ids[0], Mark.UNNATURAL, "no sky")
    assert found["bob"][ids[0]] == Judgement(ids[0], Mark.UNNATURAL)
    found = brought(run, f"reviewer,finding,mark,comment\nanna,{ids[0]},unnatural,\nanna,{ids[1]},unnatural\n")
    assert found["anna"][ids[0]] == Judgement(ids[0], Mark.UNNATURAL)  # an empty cell says: no comment
    assert found["anna"][ids[1]] == Judgement(ids[1], Mark.UNNATURAL, "dark")


def test_too_many_cells_are_listed(run: Run, ids: list[str]) -> None:
    with pytest.raises(BadMarks) as caught:
        brought(run, f"reviewer,finding,mark,comment\nanna,{ids[0]},unnatural,too dark, really bad\n")
    assert caught.value.details == ("line 2: 5 cells for 4 columns; put quotes around text with a comma or semicolon",)
    assert read_marks(run.folder) == {}
    found = brought(run, f"reviewer,finding,mark\nanna,{ids[0]},unnatural,, \n")  # what a spreadsheet leaves behind
    assert found == {"anna": {ids[0]: Judgement(ids[0], Mark.UNNATURAL)}}


@pytest.mark.parametrize("column", ["reviewer", "finding", "mark", "comment"])
def test_repeated_column_is_refused(run: Run, ids: list[str], column: str) -> None:
    text = f"reviewer,finding,mark,comment,{column.upper()}\nanna,{ids[0]},unnatural,,true positive\n"
    with pytest.raises(BadMarks, match="1 line cannot be used") as caught:
        brought(run, text)
    assert caught.value.details == (f"line 1: the column {column} occurs more than once",)
    assert read_marks(run.folder) == {}


def test_other_columns_may_repeat(run: Run, ids: list[str]) -> None:
    assert brought(run, f"reviewer,finding,mark,,note,note,\nanna,{ids[0]},unnatural,a,b,c,d\n")


def test_held_trials_are_natural_or_not(tmp_path: Path) -> None:
    run = Made([finding("a"), held("b")]).write(tmp_path / "run")
    one, two = (row["id"] for row in run.trials())
    with pytest.raises(BadMarks) as caught:
        brought(run, f"reviewer,finding,mark\nanna,{one},natural\nanna,{two},true positive\n")
    told = ["line 2: 'natural' is not a mark for a finding", "line 3: 'true positive' is not a mark for a trial that held"]
    assert [line[: len(start)] for line, start in zip(caught.value.details, told, strict=True)] == told
    found = brought(run, f"reviewer,finding,mark\nanna,{one},unnatural\nanna,{two},Natural\n")
    assert found["anna"][two].mark is Mark.NATURAL


def test_lines_are_counted_through_newlines(run: Run, ids: list[str]) -> None:
    rows = f'anna,{ids[0]},unnatural,"two\nlines"\n\nanna,{ids[1]},no,\n'
    with pytest.raises(BadMarks) as caught:
        brought(run, f"reviewer,finding,mark,comment\n{rows}")
    assert caught.value.details[0].startswith("line 5: 'no' is not a mark")


def test_misspelt_finding_gets_a_hint(run: Run, ids: list[str]) -> None:
    wrong = ids[0][:-1] + ("0" if ids[0][-1] != "0" else "1")
    with pytest.raises(BadMarks) as caught:
        brought(run, f"reviewer,finding,mark\nanna,{wrong},unnatural\n")
    assert f"did you mean '{ids[0]}'?" in caught.value.details[0]


def test_many_bad_lines_are_cut(run: Run) -> None:
    with pytest.raises(BadMarks, match="500 lines") as caught:
        brought(run, "reviewer,finding,mark\n" + "anna,x,unnatural\n" * 500)
    assert len(caught.value.details) == 21
    assert caught.value.details[-1] == "and 480 more lines"


def test_spreadsheets_are_understood(run: Run, ids: list[str]) -> None:
    text = f"\ufeffReviewer; Finding ;MARK;rule\r\nanna;{ids[0]};TRUE POSITIVE;x\r\n;;;\r\n"
    assert brought(run, text) == {"anna": {ids[0]: Judgement(ids[0], Mark.TRUE)}}


def test_option_names_the_reviewer(run: Run, ids: list[str]) -> None:
    text = f"finding,mark\n{ids[0]},unnatural\n"
    with pytest.raises(InputError, match=r"missing: reviewer; or name the reviewer with --reviewer NAME"):
        brought(run, text)
    assert list(brought(run, text, "bob")) == ["bob"]


def test_unknown_reviewer_is_welcome(run: Run, ids: list[str]) -> None:
    MarkFile(run.folder, "anna").add([Judgement(ids[0], Mark.TRUE)])
    found = brought(run, f"reviewer,finding,mark\n<b>bob</b>,{ids[0]},unnatural\n")
    assert sorted(found) == ["<b>bob</b>", "anna"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "line 1 must name the columns"),
        (b"finding;mark", "missing: reviewer"),
        (b"reviewer,finding,mark\nanna,\xff,unnatural\n", "line 2 is not UTF-8"),
        (b"reviewer,finding,mark\nanna,a\x00b,unnatural\n", "line 2"),
        (b'reviewer,finding,mark\nanna,"open', "is not CSV"),
        (b"reviewer,finding,mark\nanna," + b"x" * 200_000 + b",unnatural\n", "line 2 is not CSV: field larger"),
    ],
)
def test_broken_files_are_told(run: Run, data: bytes, told: str) -> None:
    with pytest.raises(InputError) as caught:
        brought(run, data)
    assert told in "\n".join((str(caught.value), *caught.value.details))


def test_missing_file_is_told(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        import_marks(run, tmp_path)
