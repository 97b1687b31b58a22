"""The findings of a run as a CSV table for people with a spreadsheet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swerve.report.sharing import Sharing
from swerve.store.files import write_csv
from swerve.store.record_json import Finding

COLUMNS = ("id", "rule", "case", "change", "parameters", "margin", "why", "introduced", "replay")


def write_findings(sharing: Sharing, path: Path) -> None:
    """Write every finding, a row each, in the order of the journal."""
    write_csv(path, COLUMNS, _rows(sharing))


def _rows(sharing: Sharing) -> Iterator[tuple[Any, ...]]:
    for finding in sharing.run.findings():
        yield _row(finding, sharing)


def _row(finding: Finding, sharing: Sharing) -> tuple[Any, ...]:
    told = (sharing.line(text) for text in (finding.rule, finding.case, finding.words))
    parameters = json.dumps(sharing.data(finding.change))
    ending = (finding.margin, sharing.line(finding.why), finding.origin, sharing.replay(finding.id))
    return (finding.id, *told, parameters, *ending)
