"""The verbs that ask a system again: `swerve check`, `swerve replay` and `swerve shrink`."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from swerve.analysis.groups import same_fault
from swerve.analysis.tables import write_groups
from swerve.config.limits import GIGA
from swerve.config.toml import Loaded, load_campaign
from swerve.core.errors import InputError, printable
from swerve.report.html import write_report
from swerve.report.numbers import PAGE
from swerve.report.terminal import RichProgress, print_health, print_shrunk
from swerve.run.check import Health, examine
from swerve.run.engine import NothingUsable, observe
from swerve.run.executors.cores import refuse_crowd, settle_threads
from swerve.run.executors.processes import Allowance
from swerve.run.launch import executor_for, open_run
from swerve.run.replay import rebuild, refuse_changed, replay, replay_guarded
from swerve.run.shrink import shrink
from swerve.store.folder import locked
from swerve.store.record_json import Finding, finding_of
from swerve.store.view import Run

LISTED = 10  # cases that do not read, in a message


def check_campaign(options: argparse.Namespace) -> int:
    """Observe every untouched case and try a few changes, in a folder that is gone afterwards; 2 if a run is refused."""
    refuse_crowd(options.workers)
    loaded = load_campaign(options.campaign, options.trust)
    settle_threads()
    with tempfile.TemporaryDirectory(prefix="swerve-check-") as place:
        health = _examined(loaded, Path(place).resolve(), options)
    if options.json:
        print(json.dumps(health.as_dict(), indent=2))
    else:
        print_health(health, Console())
    return InputError.exit_code if health.refusals else 0


def _examined(loaded: Loaded, folder: Path, options: argparse.Namespace) -> Health:
    """The health of a campaign whose work is done as that of a run is."""
    how = {"workers": options.workers, "trusted": options.trust, "allowance": _allowance(options)}
    with (
        RichProgress(Console(stderr=True, quiet=not sys.stderr.isatty())) as progress,
        open_run(loaded, folder, **how) as opened,
    ):
        try:
            baseline = observe(loaded.campaign, opened.store, progress, opened.executor)
        except NothingUsable:
            for item in itertools.islice(Run(folder).untouched(), LISTED):
                print(f"  {printable(item.case)}: {printable(item.fault)}", file=sys.stderr)
            raise
        return examine(loaded.campaign, baseline, opened.executor)


def _allowance(options: argparse.Namespace) -> Allowance:
    return Allowance(options.timeout, int(options.memory * GIGA))


def replay_finding(options: argparse.Namespace) -> int:
    """Run one finding again and print what differs; 1 if anything that counts does."""
    settle_threads()
    if options.here:
        result = replay(options.folder, options.id, shrunk=options.shrunk, trusted=options.trust)
    else:
        given = {"shrunk": options.shrunk, "trusted": options.trust, "allowance": _allowance(options)}
        result = replay_guarded(options.folder, options.id, **given)
    console = Console()
    console.print(Text(f"{result.finding.id}  {printable(result.finding.rule)}: {printable(result.finding.words)}"))
    console.print(Text(f"  {printable(result.verdict.why)}"))
    for line in (*result.differs, *result.changed):
        console.print(Text(f"  {printable(line)}"))
    console.print(Text("reproduced" if result.reproduced else "not reproduced", style="bold"))
    return int(not result.reproduced)


def shrink_findings(options: argparse.Namespace) -> int:
    """Shrink what was asked for and print each as it is done; 1 if one of them did not fail again."""
    refuse_crowd(options.workers, options.on)
    run = Run(options.folder)
    findings = _chosen(run, options)
    campaign = rebuild(run, options.trust)
    refuse_changed(run, campaign)
    settle_threads()
    console = Console()
    workers = min(options.workers, len(findings))
    hired = executor_for(
        Loaded(campaign, run.base),
        run.folder,
        workers=workers,
        trusted=options.trust,
        allowance=_allowance(options),
        on=options.on,
    )
    flaky = 0
    with locked(run.folder), hired as executor:
        executor.begin({seen.case: seen for seen in run.baseline()})
        with RichProgress(Console(stderr=True)) as progress:
            for made in shrink(run, findings, executor, same=same_fault(run), trusted=options.trust, progress=progress):
                print_shrunk(made, run, console)
                flaky += made.flaky
        write_groups(run)
        if (run.folder / PAGE).is_file():
            write_report(run)
    return int(flaky > 0)


def _chosen(run: Run, options: argparse.Namespace) -> Sequence[Finding]:
    if options.id and options.most:
        raise InputError("swerve shrink --most goes with --all, not with the id of one finding")
    if options.id and not options.all:
        return [finding_of(run.row(options.id))]
    if options.all and not options.id:
        findings = sorted(run.findings(), key=lambda finding: (-finding.margin, finding.id))[: options.most]
        if not findings:
            raise InputError(f"{run.folder}: there is no finding to shrink")
        return findings
    raise InputError("swerve shrink wants the id of one finding, or --all")
