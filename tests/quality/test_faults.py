"""R2, R3, R6, R7: processes that die inside a write, damaged journals, full disks, folders that cannot be written.

SWERVE_SOAK=1: every fault point 20 times, every cut and every flipped bit repaired, 50 sizes of disk; a share otherwise.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import resource
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swerve.config.toml import load_campaign
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.system import Answer
from swerve.execution.launch import run_into
from swerve.store.journal import Journal
from swerve.store.view import JOURNAL, Run
from swerve.testing import FakeSystem
from tests.quality.campaigns import written
from tests.quality.children import SOAK, Ended, Nursery, assert_each_once, assert_same, command, content

TIMES = 20 if SOAK else 3
SIZES = 50 if SOAK else 5
EVERY_CUT = 1 if SOAK else 97
EVERY_BIT = 1 if SOAK else 499
COPY = "journal.damaged.jsonl"


@dataclass(frozen=True)
class Bench:
    """One campaign, a run of it that nothing happened to, and a place to start further runs of it."""

    nursery: Nursery
    file: Path
    whole: Path

    def run(self, folder: Path, *more: str, arm: Sequence[Any] = (), workers: int = 0) -> Ended:
        """Run the campaign into a folder, after a call of the function of this module that `arm` names."""
        # As `go_on`, which runs from Python: nothing is shrunk at the end.
        words = command(self.file, folder, "--workers", str(workers), "--shrink", "0", *more)
        return self.nursery.run(words, f"{__name__}:{arm[0]}" if arm else "", *arm[1:])

    def assert_finishes(self, folder: Path, *more: str) -> None:
        """Left in peace, the run ends with the bytes of the whole one."""
        ended = self.run(folder, *more)
        assert ended.code == 1, ended.errors
        assert_same(content(folder), content(self.whole))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Bench:
    place = tmp_path_factory.mktemp("bench")
    made = Bench(nursery, written(place / "campaign.toml", count=3, width=16, batch=1), place / "whole")
    assert made.run(made.whole).code == 1
    return made


# R2: the process dies inside a write.


def die_at(point: str, number: int, share: float, passed: str) -> None:
    """Kill this process when it comes to a point for the n-th time, and write down every point it passes."""
    log = os.open(passed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    counts: Counter[str] = Counter()
    write, fsync = os.write, os.fsync

    def here(name: str) -> bool:
        counts[name] += 1
        write(log, f"{name}\n".encode())
        return name == point and counts[name] == number

    def die_if(now: bool) -> None:
        if now:
            os.kill(os.getpid(), signal.SIGKILL)

    def torn_write(handle: int, data: Any) -> int:
        if _kind(handle) == "journal" and here("inside a write"):
            write(handle, data[: int(share * len(data))])
            die_if(True)
        return write(handle, data)

    def around(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            what = f"{name} of a {_kind(given[0])}" if function is fsync else name
            die_if(here(f"before {what}"))
            result = function(*given, **named)
            die_if(here(f"after {what}"))
            return result

        return called

    os.write = torn_write
    for name in ("fsync", "replace", "rename", "mkdir", "unlink"):
        setattr(os, name, around(name, getattr(os, name)))


def _kind(handle: int) -> str:
    path = os.readlink(f"/proc/self/fd/{handle}")
    return "journal" if path.endswith(JOURNAL) else "folder" if os.path.isdir(path) else "file"


SYNCED = ("journal", "file", "folder")
AROUND = (*(f"fsync of a {what}" for what in SYNCED), "replace", "rename", "mkdir")
POINTS = ("inside a write", *(f"{when} {what}" for what in AROUND for when in ("before", "after")))


@pytest.fixture(scope="module")
def passed(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often a whole run comes to every point."""
    place = tmp_path_factory.mktemp("passed")
    assert bench.run(place / "run", arm=("die_at", "", 0, 0, str(place / "log"))).code == 1
    return Counter((place / "log").read_text().splitlines())


@pytest.mark.parametrize("point", POINTS)
def test_death_at_every_point_is_healed(tmp_path: Path, bench: Bench, passed: Counter[str], point: str) -> None:
    chance = random.Random(point)
    log, folder = str(tmp_path / "log"), tmp_path / "run"
    for _ in range(TIMES):
        fault = ("die_at", point, chance.randint(1, passed[point]), chance.random(), log)
        assert bench.run(folder, arm=fault).code == -signal.SIGKILL, fault
        again = ("die_at", chance.choice(POINTS), chance.randint(1, 4), chance.random(), log)
        assert bench.run(folder, arm=again).code in (-signal.SIGKILL, 1), again
        bench.assert_finishes(folder)
        shutil.rmtree(folder)


def test_death_while_pictures_are_cleared_away_is_healed(tmp_path: Path, bench: Bench) -> None:
    for point, number in (("before rename", 1), ("after unlink", 5), ("after unlink", 2)):
        fault = ("die_at", point, number, 0, str(tmp_path / "passed"))
        assert bench.run(tmp_path / "run", arm=fault).code == -signal.SIGKILL, point
    bench.assert_finishes(tmp_path / "run")


# R3: the journal is torn or damaged.


def lines_of(folder: Path) -> list[bytes]:
    return (folder / JOURNAL).read_bytes().splitlines(keepends=True)


def go_on(bench: Bench, folder: Path, journal: bytes, *, repair: bool = False) -> None:
    """Go on in `folder` with a run whose journal has become `journal`, in this process."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("campaign.json", "origin.json", "health.json"):
        shutil.copy(bench.whole / name, folder / name)
    (folder / JOURNAL).write_bytes(journal)
    run_into(load_campaign(str(bench.file)), folder, repair=repair)


def test_every_cut_of_last_records_resumes(tmp_path: Path, bench: Bench) -> None:
    lines, wanted = lines_of(bench.whole), content(bench.whole)
    journal = b"".join(lines)
    batches = list(Journal(bench.whole / JOURNAL).batches())
    path = tmp_path / JOURNAL
    for cut in range(len(journal) - sum(map(len, lines[-3:])), len(journal)):
        path.write_bytes(journal[:cut])
        committed = journal[:cut].count(b'{"kind":"commit",') - (
            not journal[:cut].endswith(b"\n") and _in_commit(journal, cut)
        )
        assert list(Journal(path).batches()) == batches[:committed]
        assert committed < len(batches)
        if cut % EVERY_CUT == 0:
            go_on(bench, tmp_path / "run", journal[:cut])
            assert_same(content(tmp_path / "run"), wanted)


def _in_commit(journal: bytes, cut: int) -> bool:
    """Whether a journal is cut within the line of a commit, after the start of it."""
    return journal[journal.rfind(b"\n", 0, cut) + 1 : cut].startswith(b'{"kind":"commit",')


def flips(lines: Sequence[bytes], record: int) -> Iterator[bytes]:
    """The journal with one bit of one record flipped, for every bit of it."""
    before = sum(map(len, lines[:record]))
    journal = b"".join(lines)
    for place in range(before, before + len(lines[record])):
        for bit in range(8):
            yield journal[:place] + bytes([journal[place] ^ 1 << bit]) + journal[place + 1 :]


def test_every_flipped_bit_is_told_and_repaired(tmp_path: Path, bench: Bench) -> None:
    lines, wanted = lines_of(bench.whole), content(bench.whole)
    record = 8  # of the first trials
    told = f"record {record + 1} at byte {sum(map(len, lines[:record]))} is damaged"
    path, folder = tmp_path / JOURNAL, tmp_path / "run"
    for number, damaged in enumerate(flips(lines, record)):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=told):
            list(Journal(path).batches())
        if number % EVERY_BIT == 0:
            go_on(bench, folder, damaged, repair=True)
            assert taken_away(folder / COPY) == damaged
            assert_same(content(folder), wanted)
    assert number > 2000


def taken_away(path: Path) -> bytes:
    data = path.read_bytes()
    path.unlink()
    return data


def refused(bench: Bench, folder: Path, damaged: Sequence[bytes]) -> str:
    """What is said of a damaged journal, which stays as it is until somebody asks for its repair."""
    shutil.copytree(bench.whole, folder)
    journal = b"".join(damaged)
    (folder / JOURNAL).write_bytes(journal)
    ended = bench.run(folder)
    assert ended.code == 2
    assert ended.errors.count("\n") == 1
    assert (folder / JOURNAL).read_bytes() == journal
    assert bench.run(folder, "--repair").code == 1
    assert taken_away(folder / COPY) == journal
    assert_same(content(folder), content(bench.whole))
    return ended.errors


@pytest.mark.parametrize("record", [0, 1, -2, -1])
def test_command_refuses_damage_until_asked_to_repair(tmp_path: Path, bench: Bench, record: int) -> None:
    lines = lines_of(bench.whole)
    place = sum(map(len, lines[: record % len(lines)]))
    lines[record] = lines[record].replace(b"kind", b"kinb")
    told = refused(bench, tmp_path / "run", lines)
    assert f"{JOURNAL}: record {record % len(lines) + 1} at byte {place} is damaged" in told
    assert "--repair" in told


@pytest.mark.parametrize("what", ["lost", "doubled", "swapped"])
def test_lines_out_of_place_are_told_and_repaired(tmp_path: Path, bench: Bench, what: str) -> None:
    """Every line is sound by itself, and yet the journal is not."""
    lines = lines_of(bench.whole)
    ends = [number + 1 for number, line in enumerate(lines) if b'"kind":"commit"' in line]
    head, first, second, rest = lines[: ends[0]], lines[ends[0] : ends[1]], lines[ends[1] : ends[2]], lines[ends[2] :]
    changed = {
        "lost": [*head, *first[1:], *second, *rest],
        "doubled": [*head, *first, *first, *second, *rest],
        "swapped": [*head, *second, *first, *rest],
    }[what]
    told = refused(bench, tmp_path / "run", changed)
    assert re.search(r"record \d+ at byte \d+ says that batch \d is incomplete or out of order", told)


# R6: the disk is full.


def limited(size: int) -> None:
    """No file of this process may grow beyond `size` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def sizes(whole: Path) -> list[int]:
    """Sizes of disk, from none to one byte less than the largest file takes."""
    largest = max(map(len, content(whole).values()))
    chance = random.Random(SIZES)
    return [0, 3, largest - 1, *(round(largest ** chance.uniform(0.3, 1)) for _ in range(SIZES - 3))]


def assert_clear(ended: Ended, folder: Path) -> None:
    """One line that names a file of the run and the bytes it wanted."""
    assert ended.code == 4, ended.errors
    assert re.fullmatch(rf"error: {folder}/\S+: cannot write \d+ bytes: File too large\n", ended.errors), ended.errors


@pytest.mark.parametrize("workers", [0, 2])
def test_full_disk_is_told_and_survived(tmp_path: Path, bench: Bench, workers: int) -> None:
    wanted, folder = content(bench.whole), tmp_path / "run"
    for size in sizes(bench.whole)[:: SIZES // 2 if workers else 1]:
        assert_clear(bench.run(folder, arm=("limited", size), workers=workers), folder)
        found = content(folder)
        assert wanted[JOURNAL].startswith(found.pop(JOURNAL, b""))
        # Whatever has its final name is whole.
        assert not [name for name, data in found.items() if "partial" not in name and data != wanted[name]]
        bench.assert_finishes(folder)
        assert_each_once(folder)
        shutil.rmtree(folder)


def test_full_disk_loses_no_committed_finding(tmp_path: Path, bench: Bench) -> None:
    size = len(content(bench.whole)[JOURNAL]) // 2
    assert bench.run(tmp_path / "run", arm=("limited", size)).code == 4
    before = [finding.id for finding in Run(tmp_path / "run").findings()]
    after = [finding.id for finding in Run(bench.whole).findings()]
    assert before
    assert after[: len(before)] == before


# R7: the output cannot be written.


@dataclass(frozen=True)
class Telling(FakeSystem):
    """Leaves a file behind when it is asked."""

    calls: str = ""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        Path(self.calls).touch()
        return super().__call__(cases)


def without_rights() -> None:
    """Root may write wherever it likes, unless it lays down that capability."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, twice
    libc.capget(header, sets)
    sets[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, sets) == 0


def _file(place: Path) -> Path:
    (place / "run").write_text("a thesis")
    return place / "run"


def _below_a_file(place: Path) -> Path:
    return _file(place) / "deep" / "run"


def _read_only(place: Path) -> Path:
    (place / "run").mkdir(mode=0o555)
    return place / "run"


def _read_only_parent(place: Path) -> Path:
    return _read_only(place) / "deep" / "run"


def _dangling(place: Path) -> Path:
    (place / "run").symlink_to(place / "nowhere" / "at" / "all")
    return place / "run"


def _full(place: Path) -> Path:
    return place / "run"


def telling(place: Path) -> tuple[Path, Path]:
    """A campaign whose system leaves a file behind when it is asked, and that file."""
    file, calls = written(place / "campaign.toml"), place / "called"
    text = file.read_text().replace("swerve.testing:FakeSystem", f"{__name__}:Telling")
    file.write_text(text.replace("bias = 0.2", f'bias = 0.2\ncalls = "{calls}"'))
    return file, calls


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [_file, _below_a_file, _read_only, _read_only_parent, _dangling, _full])
def test_unwritable_output_is_told_before_any_call(
    tmp_path: Path, bench: Bench, make: Callable[[Path], Path], workers: int
) -> None:
    file, calls = telling(tmp_path)
    folder = make(tmp_path)
    arm = ("limited", 0) if make is _full else ("without_rights",)
    ended = Bench(bench.nursery, file, folder).run(folder, arm=arm, workers=workers)
    assert ended.code == 4
    assert re.fullmatch(rf"error: {folder}(/\S+)?: .{{5,80}}\n", ended.errors), ended.errors
    assert not calls.exists()


def test_written_output_lets_the_system_be_called(tmp_path: Path, bench: Bench) -> None:
    """What the tests above look for does happen where the folder can be written."""
    file, calls = telling(tmp_path)
    assert Bench(bench.nursery, file, tmp_path).run(tmp_path / "run", arm=("without_rights",)).code == 1
    assert calls.exists()
