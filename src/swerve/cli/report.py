"""`swerve report`: the HTML report of a run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_folder, add_keep, add_trust, add_verb
from swerve.core.errors import SwerveError

if TYPE_CHECKING:
    from swerve.store.view import Run
EXAMPLES = """
  swerve report runs/mine           writes runs/mine/report/index.html
  swerve report runs/mine --keep 200    with pictures of more findings, rebuilt
"""


def add_parser(verbs: Any) -> None:
    """Add `report` to the verbs of the command line."""
    verb = add_verb(verbs, "report", report, "write the HTML report of a run, finished or not", EXAMPLES)
    add_folder(verb)
    add_keep(verb)
    add_trust(verb)


def report(options: argparse.Namespace) -> int:
    """Write the report and print its path."""
    from swerve.report.html import write_report
    from swerve.store.artifacts import FINDINGS
    from swerve.store.view import Run

    run = Run(options.folder)
    if options.keep is not None or not (run.folder / FINDINGS).is_dir():
        _make_pictures(run, options.trust, options.keep)
    print(write_report(run))
    return HELD


def _make_pictures(run: Run, trusted: Sequence[str], keep: int | None) -> None:
    """Create the pictures of a run that was stopped before it did, or those that are wanted; the report works without."""
    from swerve.analysis.exemplars import worth_keeping
    from swerve.execution.executors.cores import cores
    from swerve.execution.finding_pictures import keep_pictures
    from swerve.execution.replay import rebuild
    from swerve.store.folder import lock_folder
    from swerve.store.view import PICTURED_PER_RULE

    best = worth_keeping(run, PICTURED_PER_RULE if keep is None else keep)
    try:
        with lock_folder(run.folder):
            keep_pictures(run, rebuild(run, trusted), best, trusted=trusted, threads=cores())
    except SwerveError as error:
        print(f"no pictures: {error}", file=sys.stderr)
