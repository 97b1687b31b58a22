"""The inputs of findings made again from the run folder, checked by hash; also as a data set in a format of the field."""

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


def made_again(
    run: Run, findings: Iterable[Finding], trusted: Collection[str | Path] = ()
) -> Iterator[tuple[Finding, Case, Case]]:
    """Each finding with its source and its follow-up; a case is read once for findings in a row."""
    settle_threads()
    cases, trust, source = _cases(run, trusted), run.trust(trusted), None
    for finding in findings:
        if source is None or source.key != finding.case:
            source = _read(cases, finding.case)
        followup = build_change(finding.change, run.base, trust)(source)
        if (source.input_sha, followup.input_sha) != (finding.source_sha, finding.input_sha):
            raise StoreError(f"finding {finding.id}: the data or the change now gives another input than it had")
        yield finding, source, followup


def write_followups(run: Run, folder: Path, form: str, trusted: Collection[str | Path] = ()) -> int:
    """Write the follow-up of every finding with its mapped label to a new folder as `form`; returns how many."""
    return export({SIDE: _labelled(run, trusted)}, folder, form)[SIDE]


def _labelled(run: Run, trusted: Collection[str | Path]) -> Iterator[Case]:
    for finding, source, followup in made_again(run, run.findings(), trusted):
        facts = {**followup.facts, "rule": finding.rule, "change": finding.words}
        yield replace(followup, key=f"{source.key}~{finding.id}", parent=source.key, group=source.group, facts=facts)


def _cases(run: Run, trusted: Collection[str | Path]) -> Source:
    """The cases alone: no weights are needed to make a change that is known."""
    described = run.identity["campaign"].get("source")
    if run.identity["factory"] or is_live(described):
        return rebuild(run, trusted).source
    made: Source = Builder(f"{CAMPAIGN}: source", run.base, run.trust(trusted)).component(described, Source)
    return made


def _read(cases: Source, key: str) -> Case:
    try:
        return cases[key]
    except (UnreadableCase, LookupError) as error:
        raise StoreError(f"{key} was read at the start of the campaign and cannot be read now: {error}") from error
