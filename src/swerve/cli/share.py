"""The verbs `swerve compare` and `swerve export`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What the verbs need is imported when they run: the parser is built for every command.
if TYPE_CHECKING:
    from swerve.report.sharing import Sharing

COMPARE = "say what changed between two runs of one campaign with two weights"
EXPORT = "write the findings of a run for other programs"
REPORTS = {"junit": "junit.xml", "sarif": "findings.sarif", "csv": "findings.csv"}
DATA_SETS = ("coco", "yolo", "voc", "kitti", "udacity")
EXPORTS = "export"  # folder of a run
DONE, FAILED = 0, 1
COMPARE_EPILOG = """exit codes:
  0  nothing that --fail-on names
  1  new: a finding that BEFORE does not have
     worse: a rule, or all, fails more often (McNemar's exact test, 5%)
     either: AFTER has not finished, has no verdict where BEFORE had one (an error, skipped or not there), or fails on
     untouched cases; or the campaigns differ in rules, source, seed or search, unless --force; the last line says which
  2  the runs cannot be compared; the message lists how their campaigns differ
"""


def add_parsers(verbs: Any) -> None:
    """Add `compare` and `export` to the verbs of the command line."""
    _add_compare(verbs)
    _add_export(verbs)


def _add_compare(verbs: Any) -> None:
    made = _verb(verbs, "compare", compare_verb, COMPARE, COMPARE_EPILOG)
    made.add_argument("before", type=Path, metavar="BEFORE", help="a run folder")
    made.add_argument("after", type=Path, metavar="AFTER", help="a run folder of the same campaign with other weights")
    made.add_argument("--fail-on", choices=("new", "worse", "never"), default="new", help="(default: %(default)s)")
    differing = "compare campaigns that differ in more than the system, and have that be no failure"
    made.add_argument("--force", action="store_true", help=differing)
    about = "findings listed of each kind (default: 10; --json: all)"
    made.add_argument("--most", type=_count, metavar="N", help=about)
    made.add_argument("--json", action="store_true", help="as JSON")


def _add_export(verbs: Any) -> None:
    made = _verb(verbs, "export", export_verb, EXPORT)
    made.add_argument("folder", type=Path, metavar="DIR", help="a run folder")
    forms = f"{', '.join(REPORTS)}; or the follow-ups of findings as a data set: {', '.join(DATA_SETS)}"
    made.add_argument("--as", dest="form", required=True, choices=(*REPORTS, *DATA_SETS), metavar="FORMAT", help=forms)
    made.add_argument("--out", type=Path, metavar="FILE", help=f"a file, or a new folder (default: in DIR/{EXPORTS})")
    kept = "leave home folders and the names of user and host in the texts"
    made.add_argument("--keep-paths", action="store_true", help=kept)
    about = "let the campaign run this Python file, module or program; may be repeated"
    made.add_argument("--trust", action="append", default=[], metavar="NAME", help=about)


def _verb(verbs: Any, name: str, function: Callable[..., int], about: str, epilog: str = "") -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(verb=function)
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return made


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got '{text}'")
    return int(text)


def compare_verb(options: argparse.Namespace) -> int:
    """Carry out `swerve compare`."""
    from rich.console import Console

    from swerve.analysis.compare import compare
    from swerve.report.comparison import as_json, print_comparison
    from swerve.store.view import Run

    found = compare(Run(options.before), Run(options.after))
    failure = found.failure(options.fail_on, force=options.force)
    if options.json:
        print(json.dumps(as_json(found, failure=failure, most=options.most), indent=2))
    else:
        print_comparison(found, Console(), options.most or 10, failure)
    return FAILED if failure else DONE


def export_verb(options: argparse.Namespace) -> int:
    """Carry out `swerve export`."""
    from swerve.report.followups import write_followups
    from swerve.report.sharing import Sharing
    from swerve.store.files import make_folder
    from swerve.store.view import Run

    run = Run(options.folder)
    if options.out is None:
        make_folder(run.folder / EXPORTS)
    path = options.out or run.folder / EXPORTS / REPORTS.get(options.form, options.form)
    if options.form in DATA_SETS:
        write_followups(run, path, options.form, options.trust)
    else:
        _writer(options.form)(Sharing(run, options.keep_paths), path)
    print(path)
    return DONE


def _writer(form: str) -> Callable[[Sharing, Path], None]:
    from swerve.report.findings_csv import write_findings
    from swerve.report.junit import write_junit
    from swerve.report.sarif import write_sarif

    return {"junit": write_junit, "sarif": write_sarif, "csv": write_findings}[form]
