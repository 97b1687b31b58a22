"""Run and replay campaigns from Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swerve.core.campaign import Campaign
    from swerve.execution.replay import ReplayResult


def run(campaign: Campaign, into: str | Path, *, report: bool = True, **how: Any) -> dict[str, Any]:
    """Run or resume `campaign` in the folder `into`, write its report, and return the content of `summary.json`.

    `how` is passed to `swerve.execution.launch.run_into`: workers, allowance, on, force, trusted, repair.
    """
    from swerve.config.toml import ANYWHERE, Loaded
    from swerve.execution.launch import run_into
    from swerve.report.html import write_report
    from swerve.store.view import Run

    summary = run_into(Loaded(campaign, ANYWHERE), Path(into), **how)
    if report:
        write_report(summary.run or Run(Path(into)))
    return summary.as_dict()


def replay(folder: str | Path, finding: str, *, campaign: Campaign | None = None) -> ReplayResult:
    """Run one finding of a run folder again; `campaign` is needed if the folder cannot rebuild it."""
    from swerve.execution.executors.cores import settle_threads
    from swerve.execution.replay import replay as replay_alone

    settle_threads()
    return replay_alone(Path(folder), finding, campaign=campaign)
