"""R14, R44, R55, R56: what is counted survives a power cut, and whatever is written is whole, private and harmless."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.cli.main import main
from swerve.config.toml import load_campaign
from swerve.execution.launch import run_into
from swerve.store.files import write_csv
from swerve.store.journal import Journal
from swerve.store.view import JOURNAL, Run
from tests.quality.campaigns import written
from tests.quality.children import assert_same, command, content, environment, finish

SIGNS = ("=", "+", "-", "@", "\t", "\r")  # by which a spreadsheet takes a cell for a formula (OWASP, CSV injection)
EVERY = 5  # of the syncs of a run, the power is cut after this one


# R14: the power is cut.


class Disk:
    """What a power cut leaves of a folder: names as of their folder's last sync, content as of their file's."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, deaf_to: str = "") -> None:
        self._root, self._deaf_to, self._sync = root, deaf_to, os.fsync
        self._names: dict[int, dict[str, tuple[int, bool]]] = {root.stat().st_ino: {}}
        self._content: dict[int, bytes] = {}
        self.watchers: list[Callable[[], None]] = []
        monkeypatch.setattr("os.fsync", self.sync)

    def sync(self, handle: int) -> None:
        """What the system's own call does, and note what is safe now."""
        self._sync(handle)
        os.dup(handle)  # so that its number is never given to another file
        known, path = os.fstat(handle), os.readlink(f"/proc/self/fd/{handle}")
        if self._deaf_to and path.endswith(self._deaf_to):
            return
        if stat.S_ISDIR(known.st_mode):
            self._names[known.st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}
        else:
            self._content[known.st_ino] = Path(path).read_bytes()
        for watcher in self.watchers:
            watcher()

    def left(self, into: Path) -> Path:
        """Put what is safe into a new folder."""
        shutil.rmtree(into, ignore_errors=True)
        self._restore(self._root.stat().st_ino, into)
        return into

    def _restore(self, number: int, into: Path) -> None:
        into.mkdir()
        for name, (inner, is_folder) in self._names.get(number, {}).items():
            if is_folder:
                self._restore(inner, into / name)
            else:
                (into / name).write_bytes(self._content.get(inner, b""))


@pytest.fixture
def handles(tmp_path: Path) -> Iterator[None]:
    """Close what a disk keeps open."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    for handle in set(os.listdir("/proc/self/fd")) - before:
        try:
            if os.readlink(f"/proc/self/fd/{handle}").startswith(str(tmp_path)):
                os.close(int(handle))
        except OSError:
            continue


class Counting:
    """Progress that holds what it is told against what a power cut would leave at that moment."""

    def __init__(self, disk: Disk, place: Path) -> None:
        self._disk, self._place = disk, place
        self._stage, self._counts = "", {"baseline": 0, "trial": 0}
        self.missing = self.found = 0

    def begin(self, stage: str, total: int | None) -> None:
        self._stage = {"baseline": "baseline", "trials": "trial"}.get(stage, "")

    def advance(self, done: int, found: int) -> None:
        if self._stage:
            self._counts[self._stage] += done
            self.found += found
            journal = self._disk.left(self._place) / "run" / JOURNAL
            rows = [row for batch in Journal(journal).batches() for row in batch]
            safe = sum(row["kind"] == self._stage for row in rows)
            self.missing += self._counts[self._stage] - safe
            violated = sum(row.get("status") == "violated" for row in rows)
            self.missing += self.found - violated


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "campaign.toml", count=3, width=16, batch=1)


def powered(file: Path, monkeypatch: pytest.MonkeyPatch, **how: str) -> Disk:
    (file.parent / "disk").mkdir()
    return Disk(file.parent / "disk", monkeypatch, **how)


@pytest.mark.usefixtures("handles")
def test_what_is_counted_survives_a_power_cut(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(powered(file, monkeypatch), file.parent / "left")
    run_into(load_campaign(str(file)), file.parent / "disk" / "run", progress=counting)
    assert counting.found > 20
    assert counting.missing == 0


@pytest.mark.usefixtures("handles")
@pytest.mark.parametrize("deaf_to", [JOURNAL, "/run", "/disk"])
def test_disk_tells_what_was_never_synced(file: Path, monkeypatch: pytest.MonkeyPatch, deaf_to: str) -> None:
    """A disk that forgets the journal, its name, or the name of its folder: the test above would notice."""
    counting = Counting(powered(file, monkeypatch, deaf_to=deaf_to), file.parent / "left")
    run_into(load_campaign(str(file)), file.parent / "disk" / "run", progress=counting)
    assert counting.missing > 20


@pytest.mark.usefixtures("handles")
def test_run_goes_on_after_any_power_cut(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, cuts = powered(file, monkeypatch), file.parent / "cuts"
    cuts.mkdir()
    numbers = iter(range(10_000))

    def cut() -> None:
        if (number := next(numbers)) % EVERY == 0:
            disk.left(cuts / str(number))

    disk.watchers.append(cut)
    loaded, whole = load_campaign(str(file)), file.parent / "disk" / "run"
    run_into(loaded, whole)
    disk.watchers.clear()
    wanted = content(whole)
    places = sorted(cuts.iterdir(), key=lambda place: int(place.name))
    assert len(places) > 10
    for place in [*places, disk.left(cuts / "last")]:
        folder = place / "run"
        if (folder / "summary.json").exists():  # it says how many findings there are, and all of it is there
            told = json.loads((folder / "summary.json").read_text())
            assert told["violated"] == len(list(Run(folder).findings()))
            assert {name for name in wanted if name.startswith("findings/")} <= content(folder).keys()
        run_into(loaded, folder)
        assert_same(content(folder), wanted)


# R56: every file whole, and no more open to others than the user wants.

WATCHED = """
import json, os, sys
log = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sync, writing = os.fsync, os.O_WRONLY | os.O_RDWR | os.O_CREAT

def note(*event):
    os.write(log, (json.dumps(event) + "\\n").encode())

def hook(event, given):
    if event == "open" and isinstance(given[0], str) and given[2] & writing:
        note("open", os.path.abspath(given[0]))
    elif event == "os.rename":
        note("rename", *(os.path.abspath(os.fspath(path)) for path in given[:2]))
    elif event == "os.chmod":
        note("chmod", str(given[0]))

def noted(handle):
    sync(handle)
    note("sync", os.readlink(f"/proc/self/fd/{{handle}}"))

os.fsync = noted
os.umask({umask})
sys.addaudithook(hook)
from swerve.cli.main import main
for words in {before!r}:
    assert main(words) in (0, 1), words
"""
IN_PLACE = (".lock", JOURNAL)  # the only ones written under their final name


@pytest.fixture(scope="module", params=[0o022, 0o077, 0o027], ids=oct)
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path, list[list[str]]]:
    """The umask, the run folder of commands that write files, and what they did to files below it."""
    place = tmp_path_factory.mktemp("watched")
    file, folder, log = written(place / "campaign.toml", count=2, width=16), place / "run", place / "log"
    run = command(file, folder, "--workers", "0")
    run.remove("--no-report")
    exports = [["export", str(folder), "--as", form] for form in ("csv", "junit", "sarif")]
    before = [run, ["report", str(folder)], ["shrink", str(folder), "--all", "--workers", "0"], *exports]
    code = WATCHED.format(log=str(log), umask=request.param, before=before)
    assert finish(["show", str(folder)], code=code)[0] == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return request.param, folder, [event for event in events if event[1].startswith(f"{place}/") and event[1] != str(log)]


def below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def test_every_file_is_synced_before_its_name(watched: tuple[int, Path, list[list[str]]]) -> None:
    _, folder, events = watched
    renamed = {to: (number, src) for number, (kind, src, *rest) in enumerate(events) if kind == "rename" for to in rest}
    in_place = {path for kind, path, *_ in events if kind == "open"}
    for path in below(folder):
        whole = path.parent if path.parent.name == "findings" else path  # a folder that gets its name as a whole
        if path.name in IN_PLACE:
            continue
        assert str(path) not in in_place, path
        when, source = renamed[str(whole)]
        assert Path(source).parent == whole.parent
        partial = str(Path(source) / path.name) if whole != path else source
        last = max(number for number, event in enumerate(events[:when]) if event == ["open", partial])
        assert ["sync", partial] in events[last:when], path
        assert whole == path or ["sync", source] in events[last:when]
        assert ["sync", str(whole.parent)] in events[when:], path
    assert len(renamed) > 10


def test_journal_is_synced_after_every_write(watched: tuple[int, Path, list[list[str]]]) -> None:
    _, folder, events = watched
    journal = [kind for kind, path, *_ in events if path == str(folder / JOURNAL)]
    assert journal == ["open", "sync"] * (len(journal) // 2)
    first = events.index(["sync", str(folder / JOURNAL)])
    assert events[first + 1] == ["sync", str(folder)]


def test_modes_are_the_users(watched: tuple[int, Path, list[list[str]]]) -> None:
    umask, folder, events = watched
    assert not [event for event in events if event[0] == "chmod"]
    for path in [folder, *folder.rglob("*")]:
        most = 0o777 if path.is_dir() else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == most & ~umask, path


def test_nothing_partial_is_left(watched: tuple[int, Path, list[list[str]]]) -> None:
    assert [path for path in watched[1].rglob("*") if "partial" in path.name] == []


PICTURES = """
import hashlib, numpy as np
from swerve.store.files import png_bytes
noise = np.random.default_rng(0).integers(0, 9, (256, 5, 7, 3), dtype=np.uint8)
flat = [np.full((4, 4, 3), level, np.uint8) for level in range(256)]
raise SystemExit(hashlib.sha256(b"".join(map(png_bytes, [*flat, *noise]))).hexdigest())
"""


def test_equal_pictures_are_equal_files() -> None:
    """Whatever memory held before, which the variable fills with other bytes in every process."""
    told = {finish([], code=PICTURES, env=environment(MALLOC_PERTURB_=str(fill)))[1] for fill in (0, 1, 85, 200)}
    assert len(told) == 1
    assert re.fullmatch("[0-9a-f]{64}\n", told.pop())


# R44, R55: names that want to be more than names.


def pictures(folder: Path, names: list[str]) -> Path:
    """A campaign on pictures of these names, each a little brighter than the last, and one that does not read."""
    (folder / "pictures").mkdir()
    for level, name in enumerate(names):
        pixels = np.full((8, 8, 3), 80 + 5 * level, np.uint8)
        (folder / "pictures" / name).write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    (folder / "pictures" / f"{names[0][:-4]}x.png").write_bytes(b"torn")
    text = written(folder / "campaign.toml").read_text()
    source = '[source]\nuse = "folder"\nfolder = "pictures"\n'
    rule = '[[rule]]\nname = "=1+1"\nchange = { use = "brighten", beta = 30 }\nexpect = "same-angle"\n'
    system = text[text.index("[system]") : text.index("[[rule]]")]
    (folder / "campaign.toml").write_text(source + system + rule)
    return folder / "campaign.toml"


def cells(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


def is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", cell))


def test_no_cell_of_any_table_is_a_formula(tmp_path: Path) -> None:
    names = [f"{sign}cmd|' C calc'!A0.png" for sign in SIGNS]
    file, folder = pictures(tmp_path, names), tmp_path / "run"
    assert main(command(file, folder, "--workers", "0", "--force")) == 1
    assert main(["export", str(folder), "--as", "csv"]) == 0
    tables = sorted(folder.rglob("*.csv"))
    run_tables = {"rules.csv", "findings.csv", "errors.csv", "groups.csv", "baseline.csv", "skipped.csv"}
    names_of_tables = run_tables | {"cases.csv", "operating_domain.csv"}
    assert names_of_tables == {path.name for path in tables}
    for path in tables:
        assert [cell for cell in cells(path) if cell.startswith(SIGNS) and not is_number(cell)] == [], path
    assert {f"'{name}" for name in names} <= set(cells(folder / "tables" / "findings.csv"))


@pytest.mark.parametrize("sign", SIGNS)
def test_every_sign_of_a_formula_is_neutralised(tmp_path: Path, sign: str) -> None:
    write_csv(tmp_path / "t.csv", ("head",), [(f"{sign}1+1",), (f"a\r{sign}1",), ("1",), (-1.5,), (None, "")])
    assert cells(tmp_path / "t.csv") == ["head", f"'{sign}1+1", f"a\r{sign}1", "1", "-1.5", "", ""]
    assert (tmp_path / "t.csv").read_bytes().endswith(b"\n1\n-1.5\n,\n")


CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def test_no_command_says_an_escape_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "\x1b[31mred\x1b]0;title\x07"
    place.mkdir()
    file, folder = pictures(place, [f"\x1b[2J{number}\r\u202e.png" for number in range(3)]), tmp_path / "run"

    def said(*words: Any) -> str:
        main([str(word) for word in words])
        out, errors = capsys.readouterr()
        assert not CONTROLS.search(out + errors), words
        return out + errors

    assert "3 of 3 judged trials violated" in said(*command(file, folder, "--workers", "0", "--force"))
    finding = next(Run(folder).findings())
    assert "\\x1b" in said("show", folder, finding.id)
    for words in (
        ("check", file, "--workers", "0"),
        ("show", folder),
        ("replay", folder, finding.id),
        ("replay", folder, finding.id, "--shrunk", "--here"),
        ("shrink", folder, finding.id, "--workers", "0"),
        ("report", folder),
        ("export", folder, "--as", "csv"),
        ("compare", folder, folder),
        ("show", folder, "\x1b[2J"),
        ("run", place / "\x1b[0mnone.toml", "--into", folder),
        ("run", file, "--into", place / "pictures"),
    ):
        assert said(*words)
