import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.errors import EnvironmentFault, StoreError
from swerve.store import journal as journals
from swerve.store.journal import Journal, encode_line, verified_row

BATCHES = [
    [{"kind": "x", "n": 1}],
    [{"kind": "x", "n": 2}, {"kind": "x", "word": 'a","crc":"00000000"}'}],
    [{"kind": "x", "n": 3}],
]

texts = st.text(max_size=20)
rows = st.dictionaries(
    texts, st.none() | st.booleans() | st.integers() | texts | st.floats(allow_nan=False, allow_infinity=False)
)


def written(path: Path) -> bytes:
    journal = Journal(path)
    for batch in BATCHES:
        journal.append(batch)
    return path.read_bytes()


def read(path: Path) -> list[list[dict[str, object]]]:
    return list(Journal(path).batches())


@given(rows)
def test_sealed_row_comes_back(row: dict[str, object]) -> None:
    row = {"kind": "x", **row}
    line = encode_line(row)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert verified_row(line[:-1]) == row


def test_end_without_a_newline_is_not_read_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.store.journal.JOURNAL_LINE", 1 << 18)
    path = tmp_path / "journal.jsonl"
    Journal(path).append([{"kind": "repeat"}])
    os.truncate(path, 1 << 30)
    tracemalloc.start()
    assert Journal(path).last_lines(b'{"kind":"repeat",') == []
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_lines_are_plain_json(tmp_path: Path) -> None:
    lines = written(tmp_path / "j").decode().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["x", "commit", "x", "x", "commit", "x", "commit"]


def test_batches_come_back(tmp_path: Path) -> None:
    written(tmp_path / "j")
    assert read(tmp_path / "j") == BATCHES


def test_missing_journal_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "j") == []


def test_every_cut_keeps_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = written(path)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        good = read(path)
        assert good == BATCHES[: len(good)]
        assert len(good) == whole[:cut].count(b'{"kind":"commit"') - (not _ends_with_commit(whole[:cut]))


def _ends_with_commit(data: bytes) -> bool:
    last = data.rsplit(b'{"kind":"commit"', 1)
    return len(last) == 1 or b"\n" in last[1]


def test_writing_after_every_cut_heals(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = written(path)
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        journal = Journal(path)
        for batch in BATCHES[len(list(journal.batches())) :]:
            journal.append(batch)
        assert path.read_bytes() == whole


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = written(path)
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            if position == len(whole) - 1:  # without its newline the tail counts as torn, and is redone
                assert read(path) == BATCHES[:2]
                continue
            with pytest.raises(StoreError, match="j: record"):
                read(path)


def test_damage_is_located(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = written(path)
    path.write_bytes(whole.replace(b'"n":2', b'"n":7'))
    with pytest.raises(
        StoreError, match=r"j: record 3 at byte \d+ is damaged; .* --repair' continues from the last good batch"
    ):
        read(path)


def test_lost_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(StoreError, match="batch 1 is incomplete or out of order"):
        read(path)
    path.write_bytes(b"".join(lines[:2] + lines[5:]))
    with pytest.raises(StoreError, match="batch 2 is incomplete or out of order"):
        read(path)


def test_unwritable_journal_is_environment(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    with pytest.raises(EnvironmentFault, match=r"j: cannot write \d+ bytes"):
        Journal(tmp_path / "j").append([{"kind": "x"}])


@given(
    batches=st.lists(st.lists(st.sampled_from(["trial", "repeat"]), min_size=1, max_size=4), max_size=5),
    ending=st.lists(st.integers(1, 3), max_size=4),
    cut=st.integers(0, 60),
    block=st.integers(1, 200),
)
def test_last_lines_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], ending: list[int], cut: int, block: int
) -> None:
    """Wherever the file was cut, and however little is read at a time."""
    path = tmp_path_factory.mktemp("journal") / "j"
    journal = Journal(path)
    for number, kinds in enumerate([*batches, *(["repeat"] * count for count in ending)]):
        journal.append([{"kind": kind, "n": number} for kind in kinds])
    if path.exists() and cut:
        path.write_bytes(path.read_bytes()[:-cut])
    lines = [line.rstrip(b"\n") for batch in Journal(path).line_batches() for line in batch]
    others = [place for place, line in enumerate(lines) if not line.startswith(b'{"kind":"repeat"')]
    expected = lines[others[-1] + 1 if others else 0 :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "BLOCK", block)
        assert Journal(path).last_lines(b'{"kind":"repeat"') == expected


def test_last_lines_read_no_more_than_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append([{"kind": "trial", "n": number} for number in range(5000)])
    journal.append([{"kind": "repeat", "n": 1}])
    monkeypatch.setattr(journals, "BLOCK", 500)
    damaged = path.read_bytes()
    path.write_bytes(b"x" * 1000 + damaged[1000:])  # far from the end
    (line,) = Journal(path).last_lines(b'{"kind":"repeat"')
    assert json.loads(line)["n"] == 1
    path.write_bytes(b"x" * len(damaged))
    assert Journal(path).last_lines(b'{"kind":"repeat"') == []


@pytest.mark.parametrize(("line", "batch"), [(1000, 10_000), (2000, 2500)])
def test_nothing_is_written_that_cannot_be_read(
    tmp_path: Path, line: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "JOURNAL_LINE", line)
    monkeypatch.setattr(journals, "BATCH_BYTES", batch)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append([{"kind": "trial"}])
    before = journal.path.read_bytes()
    with pytest.raises(StoreError, match="is too long; at most"):
        journal.append([{"kind": "trial", "words": "x" * 1200}] * 2)
    assert journal.path.read_bytes() == before
    assert list(Journal(journal.path).batches()) == [[{"kind": "trial"}]]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_are_refused(number: str) -> None:
    with pytest.raises(StoreError, match="is not JSON"):
        journals.decode_line(f'{{"kind":"trial","margin":{number}}}'.encode())
