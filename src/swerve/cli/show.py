"""`swerve show`: the findings of a run in the terminal."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_folder, add_trust, add_verb, count
from swerve.core.errors import InputError

if TYPE_CHECKING:
    from swerve.store.view import Run
EXAMPLES = """
  swerve show runs/demo                       the worst of each group
  swerve show runs/demo 0c5e269c              one finding in full
  swerve show runs/demo --json > found.json   all, for another program
"""


def add_parser(verbs: Any) -> None:
    """Add `show` to the verbs of the command line."""
    verb = add_verb(verbs, "show", show, "list the findings of a run, worst first, or show one", EXAMPLES)
    add_folder(verb)
    verb.add_argument("id", nargs="?", metavar="ID", help="the id of a finding, or its first characters")
    listed = "maximum number of findings listed (default: %(default)s; with --json: all)"
    verb.add_argument("--most", type=count, default=20, metavar="N", help=listed)
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.add_argument("--flat", action="store_true", help="list every finding instead of the worst of each group")
    where = "only findings whose case fits, such as curve=left or speed>30; rule and origin are columns too (repeatable)"
    verb.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help=where)
    packed = "write the finding to a zip file for an issue: pictures, change, versions, hashes, replay command"
    verb.add_argument("--pack", action="store_true", help=packed)
    add_trust(verb)


def show(options: argparse.Namespace) -> int:
    """List findings, or show one."""
    from swerve.store.view import Run

    run = Run(options.folder)
    if options.id:
        _show_one(run, options)
    else:
        _show_all(run, options)
    return HELD


def _show_one(run: Run, options: argparse.Namespace) -> None:
    from rich.console import Console

    from swerve.report.pack import pack, smallest_of
    from swerve.report.terminal import print_finding
    from swerve.store.record_json import finding_of

    finding = finding_of(run.row(options.id))
    if options.pack and options.json:
        raise InputError("swerve show takes --pack or --json, not both")
    if options.pack:
        print(pack(run, finding.id, Path(f"{finding.id}.zip"), trusted=options.trust))
    elif options.json:
        replay = shlex.join(["swerve", "replay", str(run.folder), finding.id])
        print(json.dumps({**finding.as_dict(), "replay": replay, **smallest_of(run, finding, replay)}, indent=2))
    else:
        print_finding(run, finding, Console())


def _show_all(run: Run, options: argparse.Namespace) -> None:
    from rich.console import Console

    from swerve.report.terminal import print_findings, print_groups

    if options.pack:
        raise InputError("swerve show --pack needs the id of one finding")
    if options.where:
        _show_slice(run, options)
    elif options.json:
        findings = sorted(run.findings(), key=lambda finding: (-finding.margin, finding.id))
        print(json.dumps([finding.as_dict() for finding in findings], indent=2))
    elif options.flat:
        print_findings(run, Console(), options.most)
    else:
        print_groups(run, Console(), options.most)


def _show_slice(run: Run, options: argparse.Namespace) -> None:
    """List the findings of the cases that fit every condition, and their failure rate."""
    from rich.console import Console

    from swerve.analysis.where import slice_of
    from swerve.report.terminal import print_slice

    found = slice_of(run, options.where)
    if options.json:
        print(json.dumps([finding.as_dict() for finding in found.findings], indent=2))
    else:
        print_slice(found, Console(), options.most)
