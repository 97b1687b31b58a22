"""A run with its report reads its journal once, groups its findings once, and commits workers' rows as they came."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from swerve.cli.run import run_and_report
from swerve.config.toml import Builder, Loaded, load_campaign
from swerve.core.campaign import Record
from swerve.execution.launch import run_into
from swerve.report.html import write_report
from swerve.report.terminal import print_summary
from swerve.store import folder as folders
from swerve.store import record_json
from swerve.store.journal import Journal
from swerve.store.view import JOURNAL, Run
from tests.quality.campaigns import written

READ_LINES = "line_batches" if hasattr(Journal, "line_batches") else "sealed"


@dataclass
class Looks:
    """How often each line of a journal was read and decoded, in this process, and how often findings were clustered."""

    read: Counter[bytes] = field(default_factory=Counter)
    decoded: Counter[bytes] = field(default_factory=Counter)
    clustered: int = 0

    def clear(self) -> None:
        self.read.clear()
        self.decoded.clear()
        self.clustered = 0

    def most(self, counts: Counter[bytes], kind: bytes) -> int:
        """How often any line of a kind was looked at."""
        return max((count for line, count in counts.items() if line.startswith(b'{"kind":"%b"' % kind)), default=0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    seen = Looks()
    read: Callable[[Journal], Iterator[list[bytes]]] = getattr(Journal, READ_LINES)
    decode = record_json.read_row

    def reading(self: Journal) -> Iterator[list[bytes]]:
        for lines in read(self):
            seen.read.update(lines)
            yield lines

    def decoding(line: bytes) -> dict[str, Any]:
        seen.decoded[line.rstrip(b"\n")] += 1
        return decode(line)

    monkeypatch.setattr(Journal, READ_LINES, reading)
    from swerve.analysis import groups
    from swerve.store import folder, view

    for module in (record_json, folder, view):
        monkeypatch.setattr(module, "read_row", decoding)
    cluster = groups.failure_modes

    def clustering(findings: Sequence[Any], features: Any) -> Any:
        seen.clustered += len(findings) > 1
        return cluster(findings, features)

    monkeypatch.setattr(groups, "failure_modes", clustering)
    return seen


@pytest.fixture
def network(tmp_path: Path) -> Loaded:
    """A campaign on a white-box network, whose findings have failure modes."""
    return load_campaign(str(written(tmp_path / "here" / "campaign.toml", "network", batch=4)))


def kinds(path: Path) -> Counter[bytes]:
    """The number of lines of each kind."""
    return Counter(line.split(b'"')[3] for line in path.read_bytes().splitlines())


def test_run_with_report_never_reads_its_journal(tmp_path: Path, looks: Looks, network: Loaded) -> None:
    folder = tmp_path / "run"
    counts = run_and_report(network, folder, "", force=True)
    found = kinds(folder / JOURNAL)
    assert counts["violated"] > 1
    assert found[b"repeat"] > 0
    assert not looks.read  # it is held since it was written
    for kind in (b"baseline", b"trial"):
        assert looks.most(looks.decoded, kind) == 1
    assert (folder / "report" / "index.html").exists()


def test_findings_are_clustered_once(tmp_path: Path, looks: Looks, network: Loaded) -> None:
    run_and_report(network, tmp_path / "run", "", force=True)
    symptoms = looks.clustered
    assert symptoms > 0
    looks.clear()
    write_report(Run(tmp_path / "run"))
    assert looks.clustered == symptoms  # one pass alone clusters as often


def test_resumed_run_reads_its_journal_once(tmp_path: Path, looks: Looks, network: Loaded) -> None:
    """Findings are decoded for the groups whose findings are repeated, and once more with all other rows to report."""
    folder = tmp_path / "run"
    run_and_report(network, folder, "", force=True)
    looks.clear()
    (folder / "summary.json").unlink()
    shutil.rmtree(folder / "findings")
    run_and_report(network, folder, "", force=True)
    assert {*looks.read.values()} == {1}
    assert looks.most(looks.decoded, b"trial") == 2


def test_large_journal_is_not_held(tmp_path: Path, looks: Looks, network: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the journal: what is larger than the limit is read again, with the same result."""
    run_and_report(network, tmp_path / "held", "", force=True)
    monkeypatch.setattr(folders, "HELD", 1000)
    run_and_report(network, tmp_path / "run", "", force=True)
    assert looks.most(looks.read, b"trial") == 1
    report, journal = ((tmp_path / "run" / name).read_bytes() for name in ("tables/groups.csv", JOURNAL))
    assert report == (tmp_path / "held" / "tables" / "groups.csv").read_bytes()
    assert journal == (tmp_path / "held" / JOURNAL).read_bytes()


def test_report_alone_reads_the_journal_once(tmp_path: Path, looks: Looks, network: Loaded) -> None:
    run_into(network, tmp_path / "run", force=True)
    looks.clear()
    run = Run(tmp_path / "run")
    write_report(run)
    print_summary(run, Console(quiet=True))
    for kind in (b"baseline", b"trial"):
        assert looks.most(looks.read, kind) == 1
        assert looks.most(looks.decoded, kind) == 1


def test_overview_follows_the_journal(tmp_path: Path, network: Loaded) -> None:
    """A run folder that is read twice while it is written shows what it holds now."""
    run_into(network, tmp_path / "whole", force=True)
    half = tmp_path / "half"
    shutil.copytree(tmp_path / "whole", half)
    (half / "summary.json").unlink()
    lines = (half / JOURNAL).read_bytes().splitlines(keepends=True)
    commits = [number for number, line in enumerate(lines) if line.startswith(b'{"kind":"commit"')]
    (half / JOURNAL).write_bytes(b"".join(lines[: commits[3] + 1]))
    run = Run(half)
    before = write_report(run).read_bytes()
    shutil.copy(tmp_path / "whole" / JOURNAL, half / JOURNAL)
    shutil.copy(tmp_path / "whole" / "summary.json", half / "summary.json")
    run.repeats.clear()
    after = write_report(run).read_bytes()
    assert b"has not finished" in before
    assert b"has not finished" not in after


@pytest.mark.usefixtures("forked_workers")
def test_workers_rows_are_committed_as_they_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_campaign(str(written(tmp_path / "here" / "campaign.toml", "sweep", count=6)))
    run_into(loaded, tmp_path / "alone", force=True)
    built: list[Any] = []
    build = Builder.change

    def counted(self: Builder, table: Any) -> Any:
        built.append(table)
        return build(self, table)

    monkeypatch.setattr(Builder, "change", counted)
    encoded: list[Record] = []
    encode = record_json.record_row
    for module in (record_json, folders):
        if hasattr(module, "record_row"):
            monkeypatch.setattr(module, "record_row", lambda record: encoded.append(record) or encode(record))
    summary = run_into(loaded, tmp_path / "workers", force=True, workers=2, pictures=False).as_dict()
    assert summary["trials"] > 50
    assert len(built) < summary["trials"] / 2  # those of the health check, and the findings that were repeated
    assert {record.verdict.why for record in encoded} == {"the same change as in an earlier trial"}  # the parent's word
    journal, other = ((tmp_path / name / JOURNAL).read_bytes() for name in ("alone", "workers"))
    assert journal == other
