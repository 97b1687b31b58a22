"""A run as JUnit XML, which every CI system shows: a suite per rule, a test case per rule and case.

It is valid by both schemas in use, Apache Ant's and that of Jenkins' xUnit plugin.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from swerve.analysis.acceptance import Acceptance, acceptances
from swerve.analysis.numbers import numbers_of
from swerve.analysis.precision_limits import precision_drops
from swerve.core.origin import Origin
from swerve.core.relation import Status
from swerve.report.sharing import Sharing
from swerve.store.files import whole_file
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE
from swerve.store.view import JOURNAL, Run

SHOWN = 3  # findings of a test case
LONGEST = 300
UNUSABLE = "unusable cases"
UNFINISHED = "unfinished campaign"
ACCEPTED = "fail_if"  # the name of the test case that decides a rule with conditions
FAILURE, ERROR, SKIPPED, PASSED = "failure", "error", "skipped", "passed"


@dataclass(slots=True)
class _CaseOutcome:
    """The outcomes of one case under one rule: counts, the worst findings, and why others were not judged."""

    held: int = 0
    violated: int = 0
    skipped: int = 0
    errors: int = 0
    origins: Counter[Origin] = field(default_factory=Counter)
    worst: list[tuple[float, str, str, str, str]] = field(default_factory=list)
    why: str = ""
    kind: str = ""
    again: str = ""  # the id of that error, if it can be replayed
    decision: str = ""  # of a rule with conditions, in words, if this is the test case that decides it
    tolerated: bool = False  # whether its findings do not fail the rule

    def add(self, row: Row) -> None:
        status = row["status"]
        if status == Status.HELD.value:
            self.held += 1
        elif status == Status.VIOLATED.value:
            self.violated += 1
            self.origins[Origin(row["origin"])] += 1
            self._keep((row["margin"], row["id"], row["words"], row["why"], row["origin"]))
        elif status == Status.ERROR.value:
            self.errors += 1
            if not self.kind:
                self.kind, self.why, self.again = f"{row['error']} error", row["why"], row["id"] if row["change"] else ""
        else:
            self.skipped += 1
            self.why = self.why or row["why"]

    def _keep(self, finding: tuple[float, str, str, str, str]) -> None:
        (heapq.heappush if len(self.worst) < SHOWN else heapq.heappushpop)(self.worst, finding)

    @property
    def outcome(self) -> str:
        """The outcome of the test case: the most severe one; findings that are tolerated neither fail nor pass."""
        failures, tolerated = (0, self.violated) if self.tolerated else (self.violated, 0)
        counts = (
            (FAILURE, failures),
            (ERROR, self.errors),
            (SKIPPED, tolerated),
            (PASSED, self.held),
            (SKIPPED, self.skipped),
        )
        return next(outcome for outcome, count in counts if count)


Suites = dict[str, dict[str, _CaseOutcome]]


def write_junit(sharing: Sharing, path: Path) -> None:
    """Write the run as JUnit XML: findings are failures, unjudged trials are skipped or errors."""
    with whole_file(path) as file:
        file.writelines(f"{part}\n".encode() for part in _page(sharing))


def _page(sharing: Sharing) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>'
    when = datetime.fromtimestamp(_written(sharing.run), UTC).strftime("%Y-%m-%dT%H:%M:%S")
    numbers = numbers_of(sharing.run)
    rules = acceptances(sharing.run.identity["campaign"], numbers.rules, precision_drops(sharing.run))
    for number, (name, cases) in enumerate(_suites(sharing.run, numbers.unfinished, rules).items()):
        tested = rules[name].requirement if name in rules else ()
        yield _opening(sharing.line(name).strip() or "unnamed rule", number, cases, when)
        yield _properties(cases, [sharing.line(one) for one in tested])
        yield from (_text(_case(name, case, tally, sharing)) for case, tally in cases.items())
        yield "<system-out/><system-err/>\n</testsuite>"
    yield "</testsuites>"


def _written(run: Run) -> float:
    """When the journal was last written."""
    path = run.folder / JOURNAL
    return path.stat().st_mtime if path.exists() else 0.0


def _suites(run: Run, unfinished: str, rules: Mapping[str, Acceptance]) -> Suites:
    """The cases of every rule, then the unusable ones; an unfinished run comes first, as an error, so it never passes."""
    suites: Suites = {str(rule["name"]): {} for rule in run.identity["campaign"].get("rule", ())}
    unusable: dict[str, _CaseOutcome] = {}
    for row in run.rows():
        if row["kind"] != BASELINE:
            suites.setdefault(row["rule"], {}).setdefault(row["case"], _CaseOutcome()).add(row)
        elif row["fault"]:
            failed = row["readable"]
            unusable[row["case"]] = _CaseOutcome(errors=failed, skipped=not failed, why=row["fault"], kind="model error")
    for rule in (one for one in rules.values() if one.conditions):
        _decide(suites[rule.line.name], rule)
    outcome = _CaseOutcome(errors=1, why=unfinished, kind=UNFINISHED)
    stopped = {UNFINISHED: {UNFINISHED: outcome}} if unfinished else {}
    return {**stopped, **suites, **({UNUSABLE: unusable} if unusable else {})}


def _decide(cases: dict[str, _CaseOutcome], rule: Acceptance) -> None:
    """Add the test case that decides a rule with conditions, and tolerate its findings if none is met."""
    for tally in cases.values():
        tally.tolerated = rule.tolerated
    texts = ", ".join(one.text for one in rule.conditions)
    failed, known = int(rule.failed), int(rule.decided)
    outcome = _CaseOutcome(held=known * (1 - failed), violated=known * failed, errors=1 - known, kind="undecided")
    outcome.why = outcome.decision = rule.words
    cases[f"{ACCEPTED}: {texts}"] = outcome


def _opening(name: str, number: int, cases: Mapping[str, _CaseOutcome], when: str) -> str:
    counts = Counter(tally.outcome for tally in cases.values())
    totals = {"tests": len(cases), "failures": counts[FAILURE], "errors": counts[ERROR], "skipped": counts[SKIPPED]}
    # Trials have no durations and hosts are not disclosed (R57), but both schemas require the attributes.
    rest = {"time": "0", "timestamp": when, "hostname": "localhost", "package": "swerve", "id": number}
    words = " ".join(f"{key}={quoteattr(str(item))}" for key, item in {"name": name, **totals, **rest}.items())
    return f"<testsuite {words}>"


def _properties(cases: Mapping[str, _CaseOutcome], requirements: Sequence[str]) -> str:
    """The requirements that a suite tests, and its findings by origin where there are any."""
    origins = sum((tally.origins for tally in cases.values()), Counter[Origin]())
    tested = [("requirement", one) for one in requirements]
    counts = [(origin.key, str(origins[origin])) for origin in Origin] if origins else []
    lines = (f"<property name={quoteattr(name)} value={quoteattr(item)}/>" for name, item in (*tested, *counts))
    return f"<properties>{''.join(lines)}</properties>" if tested or counts else "<properties/>"


def _case(rule: str, case: str, tally: _CaseOutcome, sharing: Sharing) -> ElementTree.Element:
    name = {"classname": sharing.line(rule), "name": sharing.line(case), "time": "0"}
    element = ElementTree.Element("testcase", name)
    if tally.outcome == FAILURE:
        attributes = {"type": Status.VIOLATED.value, "message": sharing.line(_headline(tally), LONGEST)}
        ElementTree.SubElement(element, FAILURE, attributes).text = "\n".join(_describe(tally, sharing))
    elif tally.outcome == ERROR:
        attributes = {"type": tally.kind, "message": sharing.line(tally.why, LONGEST)}
        again = [f"  {sharing.replay(tally.again)}"] if tally.again else []
        ElementTree.SubElement(element, ERROR, attributes).text = "\n".join([*again, _rest(tally)])
    elif tally.outcome == SKIPPED:
        why = f"tolerated by fail_if: {_headline(tally)}" if tally.violated else tally.why
        ElementTree.SubElement(element, SKIPPED, {"message": sharing.line(why, LONGEST)})
    return element


def _headline(tally: _CaseOutcome) -> str:
    if tally.decision:
        return tally.decision
    margin, _, words, why, _ = max(tally.worst)
    return f"{tally.violated} of {tally.held + tally.violated} judged trials violated; worst: {words}, {margin:+.3g}: {why}"


def _describe(tally: _CaseOutcome, sharing: Sharing) -> Iterator[str]:
    if tally.decision:
        yield sharing.line(tally.decision)
        return
    for margin, finding, words, why, origin in sorted(tally.worst, reverse=True):
        yield sharing.line(f"{words}: margin {margin:+.3g}, {Origin(origin).words}: {why}")
        yield f"  {sharing.replay(finding)}"
    if more := tally.violated - len(tally.worst):
        yield f"and {more:,} more findings"
    yield _rest(tally)


def _rest(tally: _CaseOutcome) -> str:
    return f"{tally.held:,} held, {tally.violated:,} violated, {tally.skipped:,} skipped, {tally.errors:,} errors"


def _text(element: ElementTree.Element) -> str:
    text: str = ElementTree.tostring(element, encoding="unicode")
    return text
