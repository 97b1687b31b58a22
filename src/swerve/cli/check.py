"""`swerve check`: the error of the unchanged system, and whether a campaign can find anything."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_campaign, add_limits, add_trust, add_verb, add_workers, allowance
from swerve.core.errors import InputError, printable

if TYPE_CHECKING:
    from swerve.config.toml import Loaded
    from swerve.execution.checks.concern import Health

LISTED = 10  # unreadable cases in a message
EXAMPLES = """
  swerve check mine.toml            the model's own error, cost, and concerns
  swerve check mine.toml --json     the same for another program
"""


def add_parser(verbs: Any) -> None:
    """Add `check` to the verbs of the command line."""
    about = "measure the untouched model, and what the campaign could find"
    verb = add_verb(verbs, "check", check, about, EXAMPLES)
    add_campaign(verb)
    verb.add_argument("--json", action="store_true", help="print JSON")
    add_workers(verb)
    add_limits(verb)
    add_trust(verb)


def check(options: argparse.Namespace) -> int:
    """Run all unchanged cases and a few changes in a temporary folder; returns 2 if a run would be rejected."""
    import tempfile

    from rich.console import Console

    from swerve.config.toml import load_campaign
    from swerve.execution.executors.cores import refuse_crowd, settle_threads
    from swerve.report.terminal import print_health

    refuse_crowd(options.workers)
    loaded = load_campaign(options.campaign, options.trust)
    settle_threads()
    with tempfile.TemporaryDirectory(prefix="swerve-check-") as place:
        health = _examine(loaded, Path(place).resolve(), options)
    if options.json:
        print(json.dumps(health.as_dict(), indent=2))
    else:
        print_health(health, Console())
    return InputError.exit_code if health.refusals else HELD


def _examine(loaded: Loaded, folder: Path, options: argparse.Namespace) -> Health:
    """The health of a campaign, measured with the executor that a run would use."""
    import itertools
    import sys

    from rich.console import Console

    from swerve.execution.check import examine
    from swerve.execution.engine import NothingUsable, observe
    from swerve.execution.launch import open_run
    from swerve.report.terminal import RichProgress
    from swerve.store.view import Run

    how = {"workers": options.workers, "trusted": options.trust, "allowance": allowance(options)}
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
