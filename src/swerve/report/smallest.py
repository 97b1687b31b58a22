"""What a finding was shrunk to, for other programs and for tickets."""

from __future__ import annotations

from typing import Any

from swerve.analysis.groups import smallest_words
from swerve.core.errors import StoreError
from swerve.store.artifacts import shrunk_of
from swerve.store.record_json import Finding
from swerve.store.view import Run


def smallest_of(run: Run, finding: Finding, replay: str) -> dict[str, Any]:
    """The smallest change that still fails under the key `smallest`; nothing where there is none, or its file is torn.

    `replay` is the line that runs the finding itself again.
    """
    try:
        made = shrunk_of(run, finding.id)
    except StoreError:
        return {}
    if made is None:
        return {}
    again = replay if made.flaky else f"{replay} --shrunk"
    told = {"words": smallest_words(run, finding), "parameters": dict(made.finding.change), "margin": made.finding.margin}
    return {"smallest": {**told, "why": made.finding.why, "flaky": made.flaky, "replay": again}}
