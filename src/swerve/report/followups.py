"""Inputs of findings rebuilt from the run folder and checked by hash; also exported as a labelled data set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swerve.config.toml import Builder
from swerve.core.case import Case, Source
from swerve.core.encode import is_live
from swerve.core.errors import StoreError, UnreadableCase
from swerve.core.relation import Status
from swerve.core.seeding import digest_of
from swerve.core.values import Calibration
from swerve.execution.executors.cores import settle_threads
from swerve.execution.replay import rebuild
from swerve.sources.export import export
from swerve.store.record_json import Finding, finding_of, record_of
from swerve.store.view import CAMPAIGN, Run

SIDE, EVERY, CAMERA = "findings", "followups", "camera"


def rebuild_inputs(
    run: Run, findings: Iterable[Finding], trusted: Collection[str | Path] = ()
) -> Iterator[tuple[Finding, Case, Case]]:
    """Each finding with its source and follow-up; consecutive findings of one case read it once."""
    settle_threads()
    cases, builder, source = _cases(run, trusted), run.builder(trusted=trusted), None
    for finding in findings:
        if source is None or source.key != finding.case:
            source = _read(cases, finding.case)
        followup = builder.change(finding.change)(source)
        expected = finding.source_sha, finding.input_sha or followup.input_sha  # not recorded where nothing was violated
        if (source.input_sha, followup.input_sha) != expected:
            raise StoreError(
                f"finding {finding.id}: the rebuilt input differs from the recorded one; the data or the change was modified"
            )
        yield finding, source, followup


def write_followups(run: Run, folder: Path, form: str, trusted: Collection[str | Path] = (), *, every: bool = False) -> int:
    """Write the follow-up of every finding with its mapped label to a new folder in format `form`; returns their number.

    With `every`, the follow-ups of all judged trials, each once.
    """
    findings, side = (_judged(run), EVERY) if every else (run.findings(), SIDE)
    return export({side: _labelled(run, findings, trusted)}, folder, form)[side]


def _judged(run: Run) -> Iterator[Finding]:
    """The judged trials as if all were findings; of trials with the same follow-up, as of several rules, the first."""
    seen: set[str] = set()
    for row in run.trials():
        name = digest_of(row["case"], row["change"])
        if row["status"] in (Status.HELD.value, Status.VIOLATED.value) and row["change"] is not None and name not in seen:
            seen.add(name)
            yield finding_of(row)


def pictured(source: Source, case: Case) -> Case:
    """The case with the camera image, if its source has one."""
    with_camera = getattr(source, "pictured", None)
    found: Case = with_camera(case.key) if callable(with_camera) else case
    return found


def labelled_followup(source: Source, row: Mapping[str, Any], builder: Builder) -> Case:
    """The follow-up of a journal row with its mapped labels, and the camera image and calibration of its source."""
    record, case = record_of(dict(row), builder), source[row["case"]]
    assert record.change
    made, seen = record.change(case), pictured(source, case)
    ties = [value for value in seen.truth if isinstance(value, Calibration)]
    truth = (*(value for value in made.truth if not isinstance(value, Calibration)), *ties)
    inputs = {**made.inputs, **{name: value for name, value in seen.inputs.items() if name == CAMERA}}
    facts = {"rule": record.trial.rule, "change": record.change.words()}
    return Case(f"{case.key}~{record.id}", inputs, truth, case.group, case.key, facts)


def _labelled(run: Run, findings: Iterable[Finding], trusted: Collection[str | Path]) -> Iterator[Case]:
    for finding, source, followup in rebuild_inputs(run, findings, trusted):
        facts = {**followup.facts, "rule": finding.rule, "change": finding.words}
        yield replace(followup, key=f"{source.key}~{finding.id}", parent=source.key, group=source.group, facts=facts)


def _cases(run: Run, trusted: Collection[str | Path]) -> Source:
    """The source of the campaign; the system is not loaded."""
    described = run.identity["campaign"].get("source")
    if run.identity["factory"] or is_live(described):
        return rebuild(run, trusted).source
    source: Source = run.builder(f"{CAMPAIGN}: source", trusted).component(described, Source)
    return source


def _read(cases: Source, key: str) -> Case:
    try:
        return cases[key]
    except (UnreadableCase, LookupError) as error:
        raise StoreError(f"case {key} could be read at the start of the campaign and can no longer be: {error}") from error
