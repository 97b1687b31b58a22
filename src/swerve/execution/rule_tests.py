"""Rules run one by one, as tests: one baseline for all of them, and a run folder for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.analysis.groups import same_fault
from swerve.analysis.numbers import SUMMARY
from swerve.config.toml import ANYWHERE, Loaded, load_campaign, read_toml
from swerve.config.trust import is_path
from swerve.core.campaign import Campaign, Observation
from swerve.core.errors import InputError, StoreError, SwerveError, printable
from swerve.core.relation import Status
from swerve.core.seeding import digest_of
from swerve.execution.check import examine
from swerve.execution.checks.concern import NOTHING, Health
from swerve.execution.engine import observe, run
from swerve.execution.executors.in_process import InProcess
from swerve.execution.finding_pictures import keep_pictures
from swerve.execution.launch import open_run
from swerve.execution.ledger import MemoryLedger
from swerve.execution.replay import replay
from swerve.execution.shrink import shrink
from swerve.execution.summary import Summary
from swerve.store.artifacts import shrunk_of
from swerve.store.files import json_bytes, write_whole
from swerve.store.folder import clear_run, lock_folder
from swerve.store.record_json import Finding
from swerve.store.view import CAMPAIGN, Run

FORCE = "to test it anyway: force=True"
PICTURED = 20  # findings of a rule whose pictures are kept
LONGEST_NAME = 60  # characters of a folder


@dataclass(frozen=True, eq=False)
class RuleTestRequest:
    """A campaign to test, or the file or `module:factory` that has one, and what its rules may find."""

    campaign: Campaign | str
    most_findings: int | None = 0
    force: bool = False
    trust: tuple[str, ...] = ()

    def file(self, home: Path) -> Path | None:
        """The campaign's file, relative to `home`, the folder of the test."""
        given = self.campaign
        return home / given if isinstance(given, str) and (given.endswith(".toml") or ":" not in given) else None

    def trusted(self, home: Path) -> list[str]:
        """What a campaign file may name: Python files, which are looked for from `home`, and modules."""
        return [str(home / name) if is_path(name) else name for name in self.trust]

    def names(self, home: Path) -> list[str]:
        """The names of its rules, read from a file without building what it describes."""
        if (file := self.file(home)) and (names := _names_in(read_toml(file).get("rule"))):
            return names
        return [rule.name for rule in self.load(home).campaign.rules]  # or the error that says what is wrong

    def load(self, home: Path) -> Loaded:
        """The campaign itself."""
        if isinstance(self.campaign, Campaign):
            return Loaded(self.campaign, ANYWHERE)
        return load_campaign(str(self.file(home) or self.campaign), self.trusted(home))


def _names_in(tables: Any) -> list[str]:
    """The names of [[rule]] tables, all or none."""
    names = [table.get("name") for table in tables if isinstance(table, Mapping)] if isinstance(tables, list) else []
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else []


class WithBaseline(InProcess):
    """An executor in this process with a baseline that is already measured."""

    def __init__(self, campaign: Campaign, seen: Mapping[str, Observation]) -> None:
        super().__init__(campaign)
        self.seen = seen

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        if self._evaluate:  # the baseline is complete, and a finding is repeated: its source is asked again
            return super().observe(batches)
        return ([self.seen[key] for key in batch] for batch in batches)


@dataclass(frozen=True)
class RuleResult:
    """The outcome of a rule: its findings, worst first, and why it could not be judged, if so."""

    findings: list[Finding]
    summary: str  # the counts in words
    broken: str = ""  # the first error
    idle: str = ""  # why nothing could be judged
    doubt: str = ""  # why it proves little that the rule holds


class RuleTests:
    """The shared part of the tests of one campaign: the campaign is built once, and its baseline is measured once."""

    def __init__(self, request: RuleTestRequest, home: Path, into: Path) -> None:
        self.request, self._home, self._into = request, home, into
        self.trusted = request.trusted(home)

    @cached_property
    def loaded(self) -> Loaded:
        """The campaign."""
        return self.request.load(self._home)

    def folder(self, rule: str) -> Path:
        """The run folder of one rule."""
        return self._into / file_name(rule)

    def alone(self, rule: str) -> Campaign:
        """The campaign with one of its rules."""
        return replace(self.loaded.campaign, rules=(self.loaded.campaign.rule(rule),))

    def executor(self, rule: str) -> WithBaseline:
        """The executor for one rule; raises the error of the baseline, or `InputError` if the rule cannot find anything."""
        if isinstance(self._examined, SwerveError):
            raise self._examined
        seen, health = self._examined
        if health:
            _refuse_idle(health, rule)
        return WithBaseline(self.alone(rule), seen)

    def doubt(self, rule: str) -> str:
        """Why it proves little that a rule holds, if so."""
        health = None if isinstance(self._examined, SwerveError) else self._examined[1]
        concern = health.without_effect(rule) if health else None
        return concern.why if concern else ""

    @cached_property
    def _examined(self) -> tuple[dict[str, Observation], Health | None] | SwerveError:
        """The baseline and its health, or the error that makes it useless: both are found once for all rules."""
        campaign = self.loaded.campaign
        here = InProcess(campaign)
        try:
            seen = observe(campaign, MemoryLedger(), executor=here)
            health = None if self.request.force else examine(campaign, seen, here)
            if health:
                _refuse_sick(health)
        except SwerveError as error:
            return error
        return seen, health

    def run_rule(self, rule: str) -> RuleResult:
        """Run one rule into its folder, from the start."""
        campaign, folder = self.alone(rule), self.folder(rule)
        executor = self.executor(rule)
        _clear(folder)
        loaded = Loaded(campaign, self.loaded.base)
        with open_run(loaded, folder, executor=executor, trusted=self.trusted) as opened:
            summary = run(campaign, opened.store, executor=executor)
            finished = Run(folder)
            findings = sorted(finished.findings(), key=lambda finding: (-finding.margin, finding.id))
            keep_pictures(finished, campaign, findings[:PICTURED], trusted=self.trusted)
            write_whole(folder / SUMMARY, json_bytes(summary.as_dict()))
        return RuleResult(findings, _counts(summary), _broken(summary, finished), _idle(summary, finished), self.doubt(rule))

    def smallest(self, rule: str, finding: Finding) -> str:
        """The smallest change that still fails, in words; it is saved in the run folder."""
        folder, executor = self.folder(rule), self.executor(rule)
        executor.begin(executor.seen)
        try:
            with lock_folder(folder):
                run = Run(folder)
                (shrunk,) = shrink(run, [finding], executor, same=same_fault(run), trusted=self.trusted)
        except StoreError as error:  # the finding is not reproducible
            return str(error)
        return f"{shrunk.words}: {shrunk.finding.why}"

    def replayed(self, rule: str, prefix: str) -> RuleResult:
        """One finding of the rule's last run, replayed in its shrunk form if there is one."""
        past = Run(self.folder(rule))
        small = shrunk_of(past, past.row(prefix)["id"]) is not None
        result = replay(past.folder, prefix, shrunk=small, campaign=self.alone(rule), trusted=self.trusted)
        fails = result.verdict.status is Status.VIOLATED
        lines = (f"{result.finding.words}  {result.finding.case}: {result.verdict.why}", *result.differs)
        outcome = "reproduced" if result.reproduced else "not reproduced"
        return RuleResult([result.finding] if fails else [], "\n".join(map(printable, (*lines, outcome))))


def _refuse_sick(health: Health) -> None:
    for concern in health.refusals:
        if concern.name != NOTHING:  # reported for each rule by itself
            raise InputError(f"{concern.why}; {FORCE}")


def _refuse_idle(health: Health, rule: str) -> None:
    """Refuse a rule that would hold for any system, where no other rule can find anything either (R29)."""
    concern = health.without_effect(rule)
    if concern and any(one.name == NOTHING for one in health.refusals):
        raise InputError(f"nothing to find: {concern.why}; {FORCE}")


def _clear(folder: Path) -> None:
    """Remove the run of an earlier test; the store refuses a folder with anything else in it."""
    if (folder / CAMPAIGN).is_file():
        lock_folder(folder).close()  # not while another process writes there
        clear_run(folder)


def _counts(summary: Summary) -> str:
    counts = summary.as_dict()
    judged = counts["held"] + counts["violated"]
    beside = "".join(f", {counts[name]} {name}" for name in ("skipped", "errors") if counts[name])
    flaky = f" ({counts['flaky']} of {counts['asked_again']} asked again are flaky)" if counts["flaky"] else ""
    return f"{counts['violated']} of {judged} trials violated{flaky}{beside}"


def _broken(summary: Summary, finished: Run) -> str:
    """The first error, in a trial or on an untouched case."""
    trials = summary.overall.counts.total()
    errors = [row for row in finished.trials() if row["status"] == Status.ERROR.value]
    if errors:
        return printable(f"{len(errors)} of {trials} trials ended in an error; first, {_case(errors[0], 'why')}")
    if summary.failed:
        failed = next(seen for seen in finished.baseline() if seen.fault and seen.readable)
        return printable(f"the system failed on {summary.failed} untouched cases; first, {failed.case}: {failed.fault}")
    return ""


def _idle(summary: Summary, finished: Run) -> str:
    counts = summary.overall.counts
    if counts[Status.HELD] or counts[Status.VIOLATED]:
        return ""
    reasons = Counter(row["why"] for row in finished.trials() if row["status"] == Status.SKIPPED.value)
    often = f"; most often: {reasons.most_common(1)[0][0]}" if reasons else ""
    return printable(f"none of {counts.total()} trials could be judged{often}")


def _case(row: Mapping[str, Any], key: str) -> str:
    return f"{row['case']}: {row[key]}"


def file_name(text: str) -> str:
    """`text` as the name of a folder."""
    plain = re.sub(r"[^\w.-]+", "-", text).strip("-.")[:LONGEST_NAME]
    return plain if plain == text else f"{plain}-{digest_of(text)[:6]}"
