"""`swerve list`: the parts that a campaign file can use, and the limits."""

from __future__ import annotations

import argparse
import json
from typing import Any

from swerve.cli.options import HELD, add_verb
from swerve.config import limits


def add_parser(verbs: Any) -> None:
    """Add `list` to the verbs of the command line."""
    verb = add_verb(verbs, "list", list_parts, "list the parts that a campaign file can use")
    kinds = "sources, systems, steps, decoders, transformations, relations, …, or limits"
    verb.add_argument("kind", nargs="?", metavar="KIND", help=kinds)
    verb.add_argument("--json", action="store_true", help="print JSON")


def list_parts(options: argparse.Namespace) -> int:
    """List the parts of one kind or of all kinds, or the limits."""
    from rich.console import Console

    from swerve.config.catalog import listing
    from swerve.report.terminal import print_names

    if options.kind == "limits":
        _list_limits(as_json=options.json)
        return HELD
    parts = listing(options.kind)
    if options.json:
        print(json.dumps(parts, indent=2))
    else:
        print_names(parts, Console())
    return HELD


def _list_limits(*, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dict(limits.LIMITS), indent=2))
    else:
        print("\n".join(f"{limit:>14,}  {what}" for what, limit in limits.LIMITS.items()))
