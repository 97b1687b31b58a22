"""`swerve list`: the parts that a campaign file can use, and the limits."""

from __future__ import annotations

import argparse
import json
from typing import Any

from swerve.cli.options import HELD, add_verb
from swerve.config import limits
from swerve.core.errors import InputError

LIMITS = "limits"
EXAMPLES = """
  swerve list                                 the kinds of parts
  swerve list transformations                 the parts of one kind
  swerve list transformations rotate          one part: arguments and a sample
  swerve list --json > parts.json             everything, for another program
"""


def add_parser(verbs: Any) -> None:
    """Add `list` to the verbs of the command line."""
    verb = add_verb(verbs, "list", list_parts, "list the parts that a campaign file can use", EXAMPLES)
    verb.add_argument("kind", nargs="?", metavar="KIND", help="sources, systems, transformations, relations, …; or limits")
    verb.add_argument("name", nargs="?", metavar="NAME", help="one part of that kind")
    verb.add_argument("--json", action="store_true", help="print JSON")


def list_parts(options: argparse.Namespace) -> int:
    """List the kinds, the parts of one kind, one part, or the limits."""
    if options.kind == LIMITS:
        _list_limits(options)
    elif options.json:
        _list_json(options)
    else:
        _list_text(options)
    return HELD


def _list_text(options: argparse.Namespace) -> None:
    from rich.console import Console

    from swerve.config.catalog import entry_named, kinds, listing
    from swerve.report.catalog_view import print_entries, print_entry, print_kinds

    if options.name:
        print_entry(entry_named(options.kind, options.name), Console())
    elif options.kind:
        print_entries(listing(options.kind)[options.kind], Console())
    else:
        print_kinds(kinds(), Console())


def _list_json(options: argparse.Namespace) -> None:
    from swerve.config.catalog import entry_named, listing

    if options.name:
        found: Any = entry_named(options.kind, options.name).as_dict()
    else:
        found = {kind: [entry.as_dict() for entry in entries] for kind, entries in listing(options.kind).items()}
    print(json.dumps(found, indent=2))


def _list_limits(options: argparse.Namespace) -> None:
    if options.name:
        raise InputError(f"swerve list limits takes no name, got '{options.name}'")
    if options.json:
        print(json.dumps(dict(limits.LIMITS), indent=2))
    else:
        print("\n".join(f"{limit:>14,}  {what}" for what, limit in limits.LIMITS.items()))
