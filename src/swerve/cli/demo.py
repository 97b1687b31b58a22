"""`swerve demo`: the built-in campaign on the embedded world."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from swerve.cli.options import HELD, add_verb
from swerve.execution.executors.cores import cores

EXAMPLES = """
  swerve demo                       report in runs/demo/report/index.html
  swerve demo --into /tmp/demo
"""


def add_parser(verbs: Any) -> None:
    """Add `demo` to the verbs of the command line."""
    about = "run the built-in campaign and write its report; start here"
    verb = add_verb(verbs, "demo", demo, about, EXAMPLES)
    folder = "run folder (default: %(default)s)"
    verb.add_argument("--into", type=Path, default=Path("runs/demo"), metavar="DIR", help=folder)


def demo(options: argparse.Namespace) -> int:
    """Run the demo; it is meant to have findings, so its exit code is 0."""
    from swerve.cli.run import run_and_report
    from swerve.config.toml import ANYWHERE, Loaded
    from swerve.methods.demo import demo as campaign

    again = shlex.join(["swerve", "demo", "--into", str(options.into)])
    run_and_report(Loaded(campaign(), ANYWHERE), options.into, again, workers=cores())
    return HELD
