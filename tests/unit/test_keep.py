"""Pictures of findings: the same files and the same features, however many threads make them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from swerve.analysis.exemplars import worth_keeping
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.errors import StoreError
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.execution.finding_pictures import AHEAD, _in_order, keep_pictures
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.artifacts import FINDINGS, SHA_DIGITS
from swerve.store.record_json import Finding
from swerve.store.view import LISTED_PER_RULE, PICTURED_PER_RULE, Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.photometric import Brighten
from swerve.zoo.steering import DaveDropout

BRIGHTER = Campaign(
    source=FakeSource(6),
    system=FakeSystem(bias=1),
    rules=(Rule("brighter", Over(Brighten, beta=Range(1, 30)), same_angle(1)),),
    search=Sweep(per_case=5),
    inference_batch=4,
)


def finished(folder: Path, campaign: Campaign = BRIGHTER) -> Run:
    run_into(Loaded(campaign, Path("/base")), folder, keep=LISTED_PER_RULE)
    return Run(folder)


def kept(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run.folder / FINDINGS).iterdir()}


@pytest.mark.parametrize("system", [FakeSystem(bias=1), DaveDropout()], ids=["black box", "white box"])
def test_threads_change_no_byte(tmp_path: Path, system: FakeSystem | DaveDropout) -> None:
    rule = Rule("moved at all", BRIGHTER.rules[0].change, same_angle(0))
    run = finished(tmp_path / "a", replace(BRIGHTER, system=system, rules=(rule,)))
    best, before = run.best(), kept(run)
    assert len(best) > 20
    assert ("features.npy" in before) is isinstance(system, DaveDropout)
    for threads in (2, 3, 8):
        shutil.rmtree(run.folder / FINDINGS)
        keep_pictures(run, replace(BRIGHTER, system=system), best, threads=threads)
        assert kept(run) == before


@pytest.mark.parametrize("threads", [1, 4])
def test_another_input_than_before_is_told(tmp_path: Path, threads: int) -> None:
    run = finished(tmp_path / "a")
    best = [replace(finding, input_sha=f"{number:064x}") for number, finding in enumerate(run.best())]
    before = kept(run)
    with pytest.raises(StoreError, match="produced a different input"):
        keep_pictures(run, BRIGHTER, best, threads=threads)
    assert kept(run) == before


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_items_are_taken_little_ahead(threads: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1, 101):
            taken.append(item)
            yield item

    for done, result in enumerate(_in_order(lambda item: item * 2, items(), threads), 1):
        assert result == 2 * done
        assert len(taken) - done <= AHEAD * threads
    assert done == 100


def test_no_thread_outlives_an_error() -> None:
    def fail(item: int) -> int:
        raise ValueError(item)

    before = threading.active_count()
    with pytest.raises(ValueError, match="0"):
        list(_in_order(fail, range(50), 4))
    assert threading.active_count() == before


def test_few_pictures_are_kept_and_more_rebuilt(tmp_path: Path) -> None:
    rule = Rule("moved at all", BRIGHTER.rules[0].change, same_angle(0))
    campaign = Loaded(replace(BRIGHTER, rules=(rule,), search=Sweep(per_case=9)), Path("/base"))
    run_into(campaign, tmp_path)
    run = Run(tmp_path)
    violated, usual = run.best(), worth_keeping(run)
    assert {finding.id for finding in violated[:PICTURED_PER_RULE]} <= {finding.id for finding in usual}
    assert len(usual) < len(violated)
    assert pictured(run) == shas(usual)
    for keep, expected in ((0, worth_keeping(run, 0)), (LISTED_PER_RULE, violated)):
        run_into(campaign, tmp_path, keep=keep)
        assert pictured(run) == shas(expected)
    run_into(campaign, tmp_path)  # what is there stays
    assert pictured(run) == shas(violated)


def pictured(run: Run) -> set[str]:
    """The first digits of the inputs of which pictures are kept."""
    return {name.partition("-")[0] for name in kept(run)}


def shas(findings: Collection[Finding]) -> set[str]:
    """The first digits of the inputs of findings, sources and follow-ups."""
    return {sha[:SHA_DIGITS] for finding in findings for sha in (finding.source_sha, finding.input_sha)}
