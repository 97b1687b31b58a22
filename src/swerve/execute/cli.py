"""`swerve shrink`: the smallest change that still fails, for one finding or for all."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from swerve.analysis.groups import direction_of
from swerve.analysis.tables import write_groups
from swerve.errors import InputError
from swerve.execute.local import hands_for
from swerve.execute.processes import Allowance
from swerve.execute.threads import settle_threads
from swerve.limits import GIGA
from swerve.report.html import write_report
from swerve.report.numbers import PAGE
from swerve.report.terminal import RichProgress, print_shrunk
from swerve.reproduce import rebuild
from swerve.rows import Finding, finding_of
from swerve.shrink import shrink
from swerve.spec import Loaded
from swerve.store import Run, locked


def shrink_findings(options: argparse.Namespace) -> int:
    """Shrink what was asked for and print each as it is done; 1 if one of them did not fail again."""
    run = Run(options.folder)
    findings = _chosen(run, options)
    campaign = rebuild(run, options.trust)
    settle_threads()
    console = Console()
    allowance = Allowance(options.timeout, int(options.memory * GIGA))
    workers = min(options.workers, len(findings))
    hired = hands_for(
        Loaded(campaign, run.base), run.folder, workers=workers, trusted=options.trust, allowance=allowance, on=options.on
    )
    flaky = 0
    with locked(run.folder), hired as hands:
        hands.begin({seen.case: seen for seen in run.baseline()})
        with RichProgress(Console(stderr=True)) as progress:
            for made in shrink(run, findings, hands, fault=direction_of(run), trusted=options.trust, progress=progress):
                print_shrunk(made, run, console)
                flaky += made.flaky
        write_groups(run)
        if (run.folder / PAGE).is_file():
            write_report(run)
    return int(flaky > 0)


def _chosen(run: Run, options: argparse.Namespace) -> Sequence[Finding]:
    if options.id and not options.all:
        return [finding_of(run.row(options.id))]
    if options.all and not options.id:
        findings = sorted(run.findings(), key=lambda finding: (-finding.margin, finding.id))[: options.most]
        if not findings:
            raise InputError(f"{run.folder}: there is no finding to shrink")
        return findings
    raise InputError("swerve shrink wants the id of one finding, or --all")
