"""`swerve export`: the findings of a run in other formats."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_folder, add_trust, add_verb
from swerve.core.errors import InputError

if TYPE_CHECKING:
    from swerve.report.sharing import Sharing

REPORTS = {"junit": "junit.xml", "sarif": "findings.sarif", "csv": "findings.csv"}
DATA_SETS = ("coco", "yolo", "voc", "kitti", "udacity", "bosch", "lisa")
EXPORTS = "export"  # folder of a run
EXAMPLES = """
  swerve export runs/mine --as junit                     for a CI system
  swerve export runs/mine --as sarif --out swerve.sarif  alerts of a code host
  swerve export runs/mine --as coco                      follow-ups, with labels
  swerve export runs/mine --as coco --all                and those that held
"""


def add_parser(verbs: Any) -> None:
    """Add `export` to the verbs of the command line."""
    about = "write findings as JUnit, SARIF or CSV, or as a data set"
    verb = add_verb(verbs, "export", export, about, EXAMPLES)
    add_folder(verb)
    forms = f"{', '.join(REPORTS)}; or the follow-ups of findings as a data set: {', '.join(DATA_SETS)}"
    verb.add_argument("--as", dest="form", required=True, choices=(*REPORTS, *DATA_SETS), metavar="FORMAT", help=forms)
    verb.add_argument("--out", type=Path, metavar="FILE", help=f"output file or new folder (default: in DIR/{EXPORTS})")
    verb.add_argument(
        "--all", action="store_true", help="data sets: the follow-ups of all judged trials, not of findings alone"
    )
    kept = "do not remove home folders, user name and host name from the output"
    verb.add_argument("--keep-paths", action="store_true", help=kept)
    add_trust(verb)


def export(options: argparse.Namespace) -> int:
    """Write one format and print its path."""
    from swerve.report.followups import write_followups
    from swerve.report.sharing import Sharing
    from swerve.store.files import make_folder
    from swerve.store.view import Run

    if options.all and options.form not in DATA_SETS:
        raise InputError(f"--all is for data sets ({', '.join(DATA_SETS)}); {options.form} lists findings")
    run = Run(options.folder)
    if options.out is None:
        make_folder(run.folder / EXPORTS)
    path = options.out or run.folder / EXPORTS / REPORTS.get(options.form, options.form)
    if options.form in DATA_SETS:
        write_followups(run, path, options.form, options.trust, every=options.all)
    else:
        _writer(options.form)(Sharing(run, options.keep_paths), path)
    print(path)
    return HELD


def _writer(form: str) -> Callable[[Sharing, Path], None]:
    from swerve.report.junit import write_junit
    from swerve.report.sarif import write_sarif
    from swerve.report.sharing import write_findings

    return {"junit": write_junit, "sarif": write_sarif, "csv": write_findings}[form]
