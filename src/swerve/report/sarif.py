"""The findings of a run as SARIF 2.1.0, which code hosts show as alerts and track from run to run.

The fingerprint of a result is the finding's id, which does not depend on the weights: the same failure of the next model is
the same alert. An alert's location is the key of its case.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swerve.analysis.acceptance import Acceptance, acceptances
from swerve.analysis.numbers import numbers_of
from swerve.analysis.precision_limits import precision_drops
from swerve.core.origin import Origin
from swerve.core.relation import Status
from swerve.report.sharing import Sharing
from swerve.report.words import expectation, in_words
from swerve.store.files import whole_file
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE, Finding, finding_of, is_finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LONGEST = 1000
ERROR, WARNING, NOTE = "error", "warning", "note"
MINOR = (Origin.ALREADY_WRONG, Origin.MARGINAL)  # the change did next to nothing, so these are only warnings
# In a SARIF message, braces are placeholders and brackets make links; texts of users must do neither.
_LITERAL = str.maketrans({"{": "{{", "}": "}}", "[": "\\[", "]": "\\]", "\\": "\\\\"})


def write_sarif(sharing: Sharing, path: Path) -> None:
    """Write every finding as a result, one per line, in the order of the journal."""
    with whole_file(path) as file:
        file.writelines(part.encode() for part in _page(sharing))


def _page(sharing: Sharing) -> Iterator[str]:
    outcomes, numbers = _Outcomes(), numbers_of(sharing.run)
    rules = acceptances(sharing.run.identity["campaign"], numbers.rules, precision_drops(sharing.run))
    tool = json.dumps(_tool(sharing, rules))
    yield f'{{"$schema": "{SCHEMA}", "version": "2.1.0", "runs": [{{\n"tool": {tool},\n"results": ['
    for row in sharing.run.rows():
        if is_finding(row):
            result = json.dumps(_result(finding_of(row), sharing, rules[row["rule"]]))
            yield f"{',' if outcomes.counts[Status.VIOLATED.value] else ''}\n{result}"
        outcomes.add(row)
    facts = sharing.data({"fingerprints": sharing.run.identity["fingerprints"]})
    ended = json.dumps(outcomes.invocation(sharing, numbers.unfinished))
    yield f'\n],\n"invocations": [{ended}],\n"properties": {json.dumps(facts)}\n}}]}}\n'


@dataclass
class _Outcomes:
    """The trials by outcome, and the first of each kind of error."""

    counts: Counter[str] = field(default_factory=Counter)
    origins: Counter[Origin] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)  # level, and what is counted
    first: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        if row["kind"] == BASELINE:
            if row["fault"]:
                what = (
                    (ERROR, "untouched cases that the system failed on")
                    if row["readable"]
                    else (WARNING, "unreadable cases")
                )
                self._count(what, f"{row['case']}: {row['fault']}")
            return
        self.counts[row["status"]] += 1
        if row["origin"]:
            self.origins[Origin(row["origin"])] += 1
        if row["error"]:
            self._count((ERROR, f"trials with a {row['error']} error"), f"{row['case']}: {row['why']}")

    def _count(self, what: tuple[str, str], first: str) -> None:
        self.errors[what] += 1
        self.first.setdefault(what, first)

    def invocation(self, sharing: Sharing, unfinished: str) -> dict[str, Any]:
        """An unfinished run, one without judged trials, and one with errors are not successful."""
        origins = {origin.key: self.origins[origin] for origin in Origin}
        judged = self.counts[Status.HELD.value] + self.counts[Status.VIOLATED.value]
        notes = [(what[0], f"{what[1]}: {count:,}; first: {self.first[what]}") for what, count in self.errors.items()]
        if unfinished:
            notes.insert(0, (ERROR, unfinished))
        return {
            "executionSuccessful": bool(judged) and not any(level == ERROR for level, _ in notes),
            "toolExecutionNotifications": [{"level": level, "message": _message(text, sharing)} for level, text in notes],
            "properties": {**{status.value: self.counts[status.value] for status in Status}, **origins},
        }


def _tool(sharing: Sharing, accepted: Mapping[str, Acceptance]) -> dict[str, Any]:
    identity = sharing.run.identity
    rules = [_rule(rule, sharing, accepted[str(rule["name"])]) for rule in identity["campaign"].get("rule", ())]
    return {"driver": {"name": "swerve", "version": str(identity.get("swerve", "")), "rules": rules}}


def _rule(rule: Mapping[str, Any], sharing: Sharing, accepted: Acceptance) -> dict[str, Any]:
    expected = expectation(rule.get("expect"))
    whole = f"After {in_words(rule.get('change'))} the answer must be: {expected}"
    return {
        "id": sharing.line(str(rule["name"])),
        "shortDescription": _message(expected, sharing),
        "fullDescription": _message(whole, sharing),
        "defaultConfiguration": {"level": NOTE if accepted.tolerated else ERROR},
        **_properties(accepted, sharing),
    }


def _properties(accepted: Acceptance, sharing: Sharing) -> dict[str, Any]:
    """The requirements that a rule tests, as tags too, and the decision of its conditions; nothing for other rules."""
    facts = sharing.data(accepted.as_dict())
    tags = {"tags": [f"requirement/{sharing.line(one)}" for one in accepted.requirement]} if accepted.requirement else {}
    return {"properties": {**tags, **facts}} if facts else {}


def _result(finding: Finding, sharing: Sharing, accepted: Acceptance) -> dict[str, Any]:
    replay = sharing.replay(finding.id)
    text = f"{finding.words}: {finding.why} (margin {finding.margin:+.3g}, {finding.origin.words}). {replay}"
    return {
        "ruleId": sharing.line(finding.rule),
        "level": NOTE if accepted.tolerated else WARNING if finding.origin in MINOR else ERROR,
        "message": _message(text, sharing),
        "locations": [_location(finding.case, sharing)],
        "fingerprints": {"finding/v1": finding.id},
        "partialFingerprints": {"primaryLocationLineHash": finding.id},
        "properties": {
            "case": sharing.scrubbed(finding.case),
            "change": sharing.scrubbed(finding.words),
            "parameters": sharing.data(dict(finding.change)),
            "margin": finding.margin,
            "origin": finding.origin.value,
            "facts": sharing.data(dict(finding.facts)),
            "source_sha": finding.source_sha,
            "input_sha": finding.input_sha,
            "replay": replay,
            **({"requirement": [sharing.line(one) for one in accepted.requirement]} if accepted.requirement else {}),
        },
    }


def _message(text: str, sharing: Sharing) -> dict[str, str]:
    return {"text": sharing.line(text, LONGEST).translate(_LITERAL)}


def _location(case: str, sharing: Sharing) -> dict[str, Any]:
    """A case as a relative address; some readers require a line, which a picture does not have."""
    address = quote(sharing.line(case).lstrip("/"), safe="/") or "case"
    return {"physicalLocation": {"artifactLocation": {"uri": address}, "region": {"startLine": 1}}}
