"""`swerve shrink`: the smallest change that still fails."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from swerve.cli.options import FOUND, HELD, add_execution, add_folder, add_trust, add_verb, allowance, count
from swerve.core.errors import InputError

if TYPE_CHECKING:
    from swerve.store.artifacts import Shrunk
    from swerve.store.record_json import Finding
    from swerve.store.view import Run
EXAMPLES = """
  swerve shrink runs/demo 0c5e269c       one finding
  swerve shrink runs/demo --all --most 20
"""


def add_parser(verbs: Any) -> None:
    """Add `shrink` to the verbs of the command line."""
    verb = add_verb(verbs, "shrink", shrink, "find the smallest change that still fails", EXAMPLES)
    add_folder(verb)
    verb.add_argument("id", nargs="?", metavar="ID", help="the id of a finding, or its first characters")
    verb.add_argument("--all", action="store_true", help="every finding of the run")
    verb.add_argument("--most", type=count, metavar="N", help="with --all: only the N findings with the largest margins")
    add_execution(verb)
    add_trust(verb)


def shrink(options: argparse.Namespace) -> int:
    """Shrink the selected findings and print each; returns 1 if one of them did not fail again."""
    from rich.console import Console

    from swerve.analysis.groups import same_fault
    from swerve.analysis.tables import write_groups
    from swerve.config.toml import Loaded
    from swerve.execution.executors.cores import refuse_crowd, settle_threads
    from swerve.execution.launch import executor_for
    from swerve.execution.replay import rebuild, refuse_changed, refuse_strange
    from swerve.execution.shrink import shrink as shrink_all
    from swerve.report.html import write_report
    from swerve.report.templating import PAGE
    from swerve.report.terminal import RichProgress, print_shrinking, print_shrunk
    from swerve.store.folder import lock_folder
    from swerve.store.view import Run

    refuse_crowd(options.workers, options.on)
    run = Run(options.folder)
    findings = _selected(run, options)
    campaign = rebuild(run, options.trust)
    refuse_changed(run, campaign)
    baseline = {seen.case: seen for seen in run.baseline()}
    for finding in findings:
        refuse_strange(run, finding, [rule.name for rule in campaign.rules], baseline)
    settle_threads()
    console = Console()
    how = {"trusted": options.trust, "allowance": allowance(options), "on": options.on}
    pool = executor_for(Loaded(campaign, run.base), run.folder, workers=min(options.workers, len(findings)), **how)
    done: list[Shrunk] = []
    with lock_folder(run.folder), pool as executor:
        executor.begin(baseline)
        with RichProgress(Console(stderr=True)) as progress:
            found = shrink_all(run, findings, executor, same=same_fault(run), trusted=options.trust, progress=progress)
            for shrunk in found:
                print_shrunk(shrunk, run, console)
                done.append(shrunk)
        write_groups(run)
        if (run.folder / PAGE).is_file():
            write_report(run)
    print_shrinking(done, console)
    return FOUND if any(shrunk.flaky for shrunk in done) else HELD


def _selected(run: Run, options: argparse.Namespace) -> Sequence[Finding]:
    from swerve.store.record_json import finding_of

    if options.id and options.most:
        raise InputError("swerve shrink --most needs --all instead of the id of one finding")
    if options.id and not options.all:
        return [finding_of(run.row(options.id))]
    if options.all and not options.id:
        findings = sorted(run.findings(), key=lambda finding: (-finding.margin, finding.id))[: options.most]
        if not findings:
            raise InputError(f"{run.folder}: there is no finding to shrink")
        return findings
    raise InputError("swerve shrink needs the id of one finding, or --all")
