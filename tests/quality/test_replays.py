"""R16, R18: every finding replays alone to the same verdict; its smallest change still fails, and is no larger.

At least 1,000 replays and 200 shrunk findings with SWERVE_SOAK=1, 50 and 40 otherwise, evenly of every kind of campaign.
A replay is a process of its own, forked from one that has imported all and run nothing; some are started from nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swerve.analysis.groups import same_fault
from swerve.config.toml import ANYWHERE, Loaded, build_change
from swerve.config.trust import OWN
from swerve.core.encode import close, encode
from swerve.core.relation import Status
from swerve.core.transformation import Chain, Transformation, params_of
from swerve.execution.executors.in_process import InProcess
from swerve.execution.launch import run_into
from swerve.execution.replay import rebuild, replay
from swerve.execution.shrink import shrink
from swerve.methods.demo import demo
from swerve.store.artifacts import Shrunk
from swerve.store.record_json import Finding
from swerve.store.view import Run
from swerve.world.source import World
from tests.quality.campaigns import KINDS, written
from tests.quality.children import SOAK, Nursery, command, finish

COUNT = 24 if SOAK else 6  # cases of each campaign
REPLAYED, ALONE = (200, 5) if SOAK else (8, 1)
SHRUNK = 40 if SOAK else 8
FEWEST = 8
DEMO_DRIVES, DEMO_SHRUNK = (6, 200) if SOAK else (2, 8)
TOLERANCE = {"abs": 1e-4, "rel": 1e-5}  # degrees, or a share

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> dict[str, Run]:
    """A finished run of every kind."""
    place = tmp_path_factory.mktemp("replays")
    for kind in KINDS:
        file = written(place / kind / "campaign.toml", kind, count=COUNT, batch=8)
        assert nursery.run(command(file, place / kind / "run", "--workers", "0")).code == 1
    return {kind: Run(place / kind / "run") for kind in KINDS}


def spread(run: Run, count: int) -> list[Finding]:
    """So many findings, evenly from all of them; of a search that ends with its targets, those there are."""
    findings = list(run.findings())
    assert len(findings) >= FEWEST
    count = min(count, len(findings)) if run.identity["campaign"]["search"]["use"] == "fuzz" else count
    assert len(findings) >= count
    return [findings[place * len(findings) // count] for place in range(count)]


@every_kind
def test_every_finding_replays_in_a_fresh_process(runs: Mapping[str, Run], nursery: Nursery, kind: str) -> None:
    for finding in spread(runs[kind], REPLAYED):
        ended = nursery.run(["replay", str(runs[kind].folder), finding.id, "--here"])
        assert (ended.code, ended.errors) == (0, ""), finding


def test_replay_of_another_answer_fails_in_a_fresh_process(
    runs: Mapping[str, Run], nursery: Nursery, tmp_path: Path
) -> None:
    """What the test above looks for can fail."""
    shutil.copytree(runs["sweep"].folder, tmp_path / "run")
    file = tmp_path / "run" / "campaign.json"
    file.write_text(file.read_text().replace('"bias": 0.2', '"bias": 0.9'))
    finding = next(runs["sweep"].findings())
    assert nursery.run(["replay", str(tmp_path / "run"), finding.id, "--here"]).code == 1


@every_kind
def test_replays_agree_in_every_number(runs: Mapping[str, Run], kind: str) -> None:
    for finding in spread(runs[kind], ALONE):
        again = replay(runs[kind].folder, finding.id)
        assert again.reproduced, again.differs
        assert not again.changed
        assert again.verdict.status is Status.VIOLATED
        assert close(encode(again.before), encode(finding.before))  # 1e-4 degrees, or a share of 1e-5
        assert close(encode(again.after), encode(finding.after))
        assert again.verdict.margin == pytest.approx(finding.margin, **TOLERANCE)


@every_kind
def test_findings_replay_in_a_process_started_from_nothing(runs: Mapping[str, Run], kind: str) -> None:
    for finding in spread(runs[kind], ALONE):
        assert finish(["replay", str(runs[kind].folder), finding.id], cwd=os.sep) == (0, "")


def shrunk(run: Run, findings: Sequence[Finding]) -> list[Shrunk]:
    """The findings made as small as they still fail, in the order of their ids."""
    here = InProcess(rebuild(run))
    here.begin({seen.case: seen for seen in run.baseline()})
    return sorted(shrink(run, findings, here, same=same_fault(run)), key=lambda one: one.of)


def steps(run: Run, change: Mapping[str, Any]) -> list[Transformation]:
    built = build_change(change, OWN, run.base)
    return list(built.steps) if isinstance(built, Chain) else [built]


def assert_no_larger(run: Run, small: Finding, large: Finding) -> None:
    """No step more, in the same order, and each number as near to doing nothing or nearer."""
    left = iter(steps(run, large.change))
    for step in steps(run, small.change):
        before = next((item for item in left if type(item) is type(step)), None)
        assert before is not None, "a step that was not there"
        for name, facts in params_of(type(step)).items():
            assert abs(getattr(step, name) - facts.neutral) <= abs(getattr(before, name) - facts.neutral), (step, before)


@every_kind
def test_smallest_change_still_fails_and_is_no_larger(runs: Mapping[str, Run], kind: str) -> None:
    run = runs[kind]
    findings = sorted(spread(run, SHRUNK), key=lambda finding: finding.id)
    made = shrunk(run, findings)
    assert [one.of for one in made] == [finding.id for finding in findings]
    for one, finding in zip(made, findings, strict=True):
        assert_no_larger(run, one.finding, finding)
        again = replay(run.folder, finding.id, shrunk=True)
        assert again.reproduced, again.differs
        assert again.verdict.status is Status.VIOLATED
    assert any(one.finding.change != finding.change for one, finding in zip(made, findings, strict=True))


@every_kind
def test_shrinking_twice_is_shrinking_once(runs: Mapping[str, Run], kind: str) -> None:
    run = runs[kind]
    findings = spread(run, SHRUNK)
    first = shrunk(run, findings)
    files = {one.of: (run.folder / "shrunk" / f"{one.of}.json").read_bytes() for one in first}
    assert shrunk(run, findings) == first
    assert files == {one.of: (run.folder / "shrunk" / f"{one.of}.json").read_bytes() for one in first}
    smallest = {one.finding.id: one.finding for one in first}
    again = shrunk(run, list(smallest.values()))
    assert [one.finding.change for one in again] == [smallest[one.of].change for one in again]


def test_findings_of_the_demo_shrink(tmp_path: Path) -> None:
    """All still violate, none is larger, and shrinking twice is shrinking once."""
    run_into(Loaded(replace(demo(), source=World(DEMO_DRIVES, seed=7)), ANYWHERE), tmp_path / "run", pictures=False)
    run = Run(tmp_path / "run")
    findings = sorted(spread(run, DEMO_SHRUNK), key=lambda finding: finding.id)
    first = shrunk(run, findings)
    for one, finding in zip(first, findings, strict=True):
        assert one.of == finding.id
        assert_no_larger(run, one.finding, finding)
        assert replay(run.folder, finding.id, shrunk=True).reproduced
    assert shrunk(run, findings) == first
    smallest = {one.finding.id: one.finding for one in first}
    again = shrunk(run, list(smallest.values()))
    assert [one.finding.change for one in again] == [smallest[one.of].change for one in again]


def test_chains_lose_steps(runs: Mapping[str, Run]) -> None:
    """Among the findings above there are chains of which a part is enough."""
    run = runs["chains"]
    findings = {finding.id: finding for finding in spread(run, SHRUNK)}
    before = sum(len(steps(run, finding.change)) for finding in findings.values())
    assert sum(len(steps(run, one.finding.change)) for one in shrunk(run, list(findings.values()))) < before
