"""`swerve compare`: what changed between two runs of one campaign."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from swerve.cli.options import FOUND, HELD, add_verb, count

DEFAULT = Path("")  # of --page: in the folder of AFTER
EXAMPLES = """
  swerve compare runs/before runs/after
  swerve compare runs/before runs/after --page
  swerve compare runs/before runs/after --fail-on worse --json > result.json
"""
EPILOG = """exit codes:
  0  no failure in the sense of --fail-on
  1  new: AFTER has a finding that BEFORE does not have
     worse: a rule, or all rules together, fail more often (McNemar's exact
     test, 5%)
     either: AFTER has not finished, has no verdict where BEFORE had one (an
     error, skipped or missing), or fails on unchanged cases; or the campaigns
     differ in rules, source, seed or search, unless --force; the last line says
     which
  2  the runs cannot be compared; the message lists how their campaigns differ
"""


def add_parser(verbs: Any) -> None:
    """Add `compare` to the verbs of the command line."""
    about = "tell what is new, fixed and persisting between two runs"
    verb = add_verb(verbs, "compare", compare, about, EXAMPLES, EPILOG)
    verb.add_argument("before", type=Path, metavar="BEFORE", help="a run folder")
    verb.add_argument("after", type=Path, metavar="AFTER", help="a run folder of the same campaign with other weights")
    verb.add_argument("--fail-on", choices=("new", "worse", "never"), default="new", help="failure (default: %(default)s)")
    differing = "compare campaigns that differ in more than the system without counting that as a failure"
    verb.add_argument("--force", action="store_true", help=differing)
    listed = "maximum number of findings listed of each kind (default: 10; with --json: all)"
    verb.add_argument("--most", type=count, metavar="N", help=listed)
    verb.add_argument("--json", action="store_true", help="print JSON")
    page = "write a page with pictures too (default FILE: AFTER/report/compare.html)"
    verb.add_argument("--page", type=Path, nargs="?", const=DEFAULT, metavar="FILE", help=page)


def compare(options: argparse.Namespace) -> int:
    """Compare two runs; returns 1 if the second is worse in the sense of --fail-on."""
    from rich.console import Console

    from swerve.analysis.compare import compare as compare_runs
    from swerve.report.comparison import as_json, print_comparison
    from swerve.store.view import Run

    comparison = compare_runs(Run(options.before), Run(options.after))
    failure = comparison.failure(options.fail_on, force=options.force)
    if options.json:
        print(json.dumps(as_json(comparison, failure=failure, most=options.most), indent=2))
    else:
        print_comparison(comparison, Console(), options.most or 10, failure)
    if options.page is not None:
        from swerve.report.comparison_page import write_comparison

        path = write_comparison(comparison, None if options.page == DEFAULT else options.page, failure=failure)
        print(f"page: {path}", file=sys.stderr if options.json else sys.stdout)
    return FOUND if failure else HELD
