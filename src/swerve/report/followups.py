"""Inputs of findings rebuilt from the run folder and checked by hash; also exported as a labelled data set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from swerve.config.toml import Builder, build_change
from swerve.core.case import Case, Source
from swerve.core.encode import is_live
from swerve.core.errors import StoreError, UnreadableCase
from swerve.execution.executors.cores import settle_threads
from swerve.execution.replay import rebuild
from swerve.sources.export import export
from swerve.store.record_json import Finding
from swerve.store.view import CAMPAIGN, Run

SIDE = "findings"


def rebuild_inputs(
    run: Run, findings: Iterable[Finding], trusted: Collection[str | Path] = ()
) -> Iterator[tuple[Finding, Case, Case]]:
    """Each finding with its source and follow-up; consecutive findings of one case read it once."""
    settle_threads()
    cases, trust, source = _cases(run, trusted), run.trust(trusted), None
    for finding in findings:
        if source is None or source.key != finding.case:
            source = _read(cases, finding.case)
        followup = build_change(finding.change, run.base, trust)(source)
        if (source.input_sha, followup.input_sha) != (finding.source_sha, finding.input_sha):
            raise StoreError(
                f"finding {finding.id}: the rebuilt input differs from the recorded one; the data or the change was modified"
            )
        yield finding, source, followup


def write_followups(run: Run, folder: Path, form: str, trusted: Collection[str | Path] = ()) -> int:
    """Write the follow-up of every finding with its mapped label to a new folder in format `form`; returns their number."""
    return export({SIDE: _labelled(run, trusted)}, folder, form)[SIDE]


def _labelled(run: Run, trusted: Collection[str | Path]) -> Iterator[Case]:
    for finding, source, followup in rebuild_inputs(run, run.findings(), trusted):
        facts = {**followup.facts, "rule": finding.rule, "change": finding.words}
        yield replace(followup, key=f"{source.key}~{finding.id}", parent=source.key, group=source.group, facts=facts)


def _cases(run: Run, trusted: Collection[str | Path]) -> Source:
    """The source of the campaign; the system is not loaded."""
    described = run.identity["campaign"].get("source")
    if run.identity["factory"] or is_live(described):
        return rebuild(run, trusted).source
    source: Source = Builder(f"{CAMPAIGN}: source", run.base, run.trust(trusted)).component(described, Source)
    return source


def _read(cases: Source, key: str) -> Case:
    try:
        return cases[key]
    except (UnreadableCase, LookupError) as error:
        raise StoreError(f"case {key} was readable at the start of the campaign and is not any more: {error}") from error
