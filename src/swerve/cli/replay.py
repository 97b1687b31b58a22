"""`swerve replay`: run one finding again."""

from __future__ import annotations

import argparse
from typing import Any

from swerve.cli.options import FOUND, HELD, add_folder, add_limits, add_trust, add_verb, allowance
from swerve.core.errors import printable

EXAMPLES = """
  swerve replay runs/demo 0c5e269c            the first characters of an id
  swerve replay runs/demo 0c5e269c --shrunk   with the smallest change
"""


def add_parser(verbs: Any) -> None:
    """Add `replay` to the verbs of the command line."""
    verb = add_verb(verbs, "replay", replay, "run one finding again and print what differs", EXAMPLES)
    add_folder(verb)
    verb.add_argument("id", metavar="ID", help="the id of a finding or error, or its first characters")
    verb.add_argument("--shrunk", action="store_true", help="use the smallest change found by swerve shrink")
    verb.add_argument("--here", action="store_true", help="run in this process, for debugging; without limits")
    add_limits(verb)
    add_trust(verb)


def replay(options: argparse.Namespace) -> int:
    """Run one finding again and print what differs; returns 1 if it is not reproduced."""
    from rich.console import Console
    from rich.text import Text

    from swerve.execution.executors.cores import settle_threads
    from swerve.execution.replay import replay as replay_here
    from swerve.execution.replay import replay_guarded

    settle_threads()
    if options.here:
        result = replay_here(options.folder, options.id, shrunk=options.shrunk, trusted=options.trust)
    else:
        given = {"shrunk": options.shrunk, "trusted": options.trust, "allowance": allowance(options)}
        result = replay_guarded(options.folder, options.id, **given)
    console = Console()
    console.print(Text(f"{result.finding.id}  {printable(result.finding.rule)}: {printable(result.finding.words)}"))
    console.print(Text(f"  {printable(result.verdict.why)}"))
    for line in (*result.differs, *result.changed):
        console.print(Text(f"  {printable(line)}"))
    console.print(Text("reproduced" if result.reproduced else "not reproduced", style="bold"))
    return HELD if result.reproduced else FOUND
