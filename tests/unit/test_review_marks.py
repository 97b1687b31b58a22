import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.errors import EnvironmentFault, InputError, StoreError
from swerve.review.marks import (
    FOLDER,
    LONGEST_COMMENT,
    Judgement,
    Mark,
    MarkFile,
    clean_comment,
    fitting_mark,
    mark_of,
    read_marks,
)
from swerve.store.journal import encode_line

A, B = "a" * 16, "b" * 16
TRUE, FALSE, ODD = Mark.TRUE, Mark.FALSE, Mark.UNNATURAL


def written(run: Path, *marks: Judgement, name: str = "anna") -> Path:
    file = MarkFile(run, name)
    file.add(marks)
    return file.path


def edited(path: Path, line: int, old: str, new: str) -> None:
    lines = path.read_text().split("\n")
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    path.write_text("\n".join(lines))


def test_marks_survive_a_restart(tmp_path: Path) -> None:
    written(tmp_path, Judgement(A, TRUE, "clear"), Judgement(B, ODD))
    assert MarkFile(tmp_path, "anna").read() == {A: Judgement(A, TRUE, "clear"), B: Judgement(B, ODD)}


def test_last_word_counts(tmp_path: Path) -> None:
    for mark in (TRUE, FALSE, ODD):
        written(tmp_path, Judgement(A, mark))
    assert MarkFile(tmp_path, "anna").read() == {A: Judgement(A, ODD)}


def test_taken_back_is_gone(tmp_path: Path) -> None:
    written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE), Judgement(A, None))
    assert list(MarkFile(tmp_path, "anna").read()) == [B]


def test_nobody_has_no_marks(tmp_path: Path) -> None:
    assert MarkFile(tmp_path, "anna").read() == {}
    assert read_marks(tmp_path) == {}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([A, B]), st.none() | st.sampled_from(Mark), st.text(max_size=20))))
def test_file_is_a_dictionary(tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, Mark | None, str]]) -> None:
    run = tmp_path_factory.mktemp("run")
    expected = {}
    for one in (Judgement(*item) for item in said):
        MarkFile(run, "anna").add([one])
        expected[one.finding] = one
    assert MarkFile(run, "anna").read() == {key: one for key, one in expected.items() if not one.empty}


def test_edited_line_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE))
    edited(path, 3, "true positive", "false positive")
    with pytest.raises(StoreError, match=r"anna\.jsonl: line 3 is damaged or was edited by hand; delete that line"):
        read_marks(tmp_path)


def test_edited_line_can_go(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE))
    edited(path, 2, "true", "True")
    lines = path.read_text().split("\n")
    path.write_text("\n".join([lines[0], *lines[2:]]))
    assert read_marks(tmp_path) == {"anna": {B: Judgement(B, TRUE)}}


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "mark", "finding": A, "mark": "maybe", "comment": ""},
        {"kind": "mark", "finding": 7, "mark": None, "comment": ""},
        {"kind": "mark", "finding": A, "mark": None},
        {"kind": "mark", "finding": A, "mark": ["true positive"], "comment": ""},
        {"kind": "note"},
    ],
)
def test_sealed_nonsense_is_refused(tmp_path: Path, row: dict[str, object]) -> None:
    path = written(tmp_path, Judgement(A, TRUE))
    path.write_bytes(path.read_bytes() + encode_line(row))
    with pytest.raises(StoreError, match="line 3 is damaged"):
        read_marks(tmp_path)


def test_no_flipped_bit_passes(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, ODD, "x"))
    good = path.read_bytes()
    for place in range(len(good) - 1):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(StoreError):
            read_marks(tmp_path)


def test_torn_tail_is_dropped(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE))
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        lines = whole[: end + 1].count(b"\n")  # a line that lacks the newline alone is whole
        assert list(MarkFile(tmp_path, "anna").read()) == [A, B][: max(lines - 1, 0)]


def test_lost_newline_loses_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert list(MarkFile(tmp_path, "anna").read()) == [A, B]
    written(tmp_path, Judgement(A, ODD))
    assert MarkFile(tmp_path, "anna").read() == {A: Judgement(A, ODD), B: Judgement(B, TRUE)}


def test_lost_newline_of_the_head(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE))
    path.write_bytes(path.read_bytes().split(b"\n")[0])
    written(tmp_path, Judgement(B, ODD))
    assert MarkFile(tmp_path, "anna").read() == {B: Judgement(B, ODD)}


@pytest.mark.parametrize("end", ["", " ", "\r"])
def test_edited_last_line_is_refused(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE))
    edited(path, 3, "true positive", "unnatural")
    path.write_text(path.read_text().rstrip("\n") + end)
    with pytest.raises(StoreError, match=r"line 3 is damaged or was edited by hand"):
        read_marks(tmp_path)
    written(tmp_path, Judgement(A, ODD))  # a mark made meanwhile neither hides the edit nor is lost
    with pytest.raises(StoreError, match=r"line 3 is damaged or was edited by hand"):
        read_marks(tmp_path)


def test_torn_comment_is_no_edit(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE, 'a "brace"} and \\"} more'))
    whole = path.read_bytes()
    for end in range(whole.rindex(b'"kind"'), len(whole) - 1):
        path.write_bytes(whole[:end])
        assert list(MarkFile(tmp_path, "anna").read()) == [A]


def test_torn_tail_is_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE), Judgement(B, TRUE))
    whole = path.read_bytes()
    for end in range(0, len(whole), 5):
        path.write_bytes(whole[:end])
        written(tmp_path, Judgement(B, ODD, "y" * 1500))
        assert MarkFile(tmp_path, "anna").read()[B] == Judgement(B, ODD, "y" * 1500)


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    def write(letter: str) -> None:
        for number in range(40):
            MarkFile(tmp_path, "anna").add([Judgement(f"{letter}{number:02d}", TRUE)])

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(MarkFile(tmp_path, "anna").read())
    assert sorted(found) == [f"{letter}{number:02d}" for letter in "ab" for number in range(40)]


def test_alike_names_stay_apart(tmp_path: Path) -> None:
    names = ["anna", "Anna", "ANNA", "an na", "../anna", "<script>alert(1)</script>", "=cmd", "日本", "👩", "a" * 60]
    for number, name in enumerate(names):
        written(tmp_path, Judgement(f"{number:016x}", TRUE), name=name)
    assert {name: list(said) for name, said in read_marks(tmp_path).items()} == {
        name: [f"{number:016x}"] for number, name in enumerate(names)
    }
    assert len({path.name.lower() for path in (tmp_path / FOLDER).iterdir()}) == len(names)
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x1b[31m", "a" * 61, "\u202ea"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="1 to 60 visible characters"):
        MarkFile(tmp_path, name)


def test_copied_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE))
    path.rename(path.with_name("bob.jsonl"))
    with pytest.raises(StoreError, match=r"bob\.jsonl: line 1 names the reviewer 'anna'"):
        read_marks(tmp_path)


def test_headless_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE))
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(StoreError, match="line 1 does not name the reviewer"):
        read_marks(tmp_path)


def test_later_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, Judgement(A, TRUE))
    path.write_bytes(encode_line({"kind": "reviewer", "format": 2, "name": "anna"}))
    with pytest.raises(StoreError, match="format 2, this version reads format 1"):
        read_marks(tmp_path)


def test_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    os.mkfifo(tmp_path / FOLDER / "anna.jsonl")
    with pytest.raises(StoreError, match="not a regular file"):
        read_marks(tmp_path)


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "anna.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link, a pipe or a device"):
        written(tmp_path, Judgement(A, TRUE))
    assert not (tmp_path / "elsewhere").exists()


def test_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    with pytest.raises(EnvironmentFault, match="review"):
        written(tmp_path, Judgement(A, TRUE))


def test_comments_are_cleaned() -> None:
    assert clean_comment(" a\r\nb\x00\x1b[0m\ud800\t c ") == "a\nb[0m?\t c"
    assert len(clean_comment("x" * 9999)) == LONGEST_COMMENT


@settings(deadline=None)
@given(st.text(max_size=50))
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean_comment(clean_comment(text)) == clean_comment(text)


def test_marks_are_read_kindly() -> None:
    assert mark_of(" True Positive ") is TRUE
    with pytest.raises(
        InputError, match=r"'wrong' is not a mark; the marks are 'true positive', 'false positive', 'unnatural'"
    ):
        mark_of("wrong")


def test_marks_fit_what_is_marked() -> None:
    assert fitting_mark("natural", held=True) is Mark.NATURAL
    assert fitting_mark("unnatural", held=True) is fitting_mark("unnatural", held=False) is ODD
    with pytest.raises(InputError, match=r"'true positive' is not a mark for a trial that held; use 'natural', 'unnatural'"):
        fitting_mark("true positive", held=True)
    with pytest.raises(InputError, match="'natural' is not a mark for a finding"):
        fitting_mark("natural", held=False)


@pytest.mark.parametrize("content", [b"a secret without a newline", b"lines\nof another\nfile\n"])
def test_hard_link_is_not_written(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "precious").write_bytes(content)
    os.link(tmp_path / "precious", tmp_path / FOLDER / "anna.jsonl")
    with pytest.raises(StoreError, match="is a hard link"):
        written(tmp_path, Judgement(A, TRUE))
    assert (tmp_path / "precious").read_bytes() == content
