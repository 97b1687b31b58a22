import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.errors import EnvironmentFault, StoreError
from swerve.store.journal import Journal, seal, unseal

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
    line = seal(row)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert unseal(line[:-1]) == row


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
        StoreError, match=r"j: record 3 at byte \d+ is damaged; .* --repair' goes on from the last good batch"
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
