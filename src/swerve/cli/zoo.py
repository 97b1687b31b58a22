"""`swerve zoo`: the reference systems, their training data and their training."""

from __future__ import annotations

import argparse
from typing import Any

from swerve.cli.options import add_verb

EXAMPLES = """
  swerve zoo list
  swerve zoo train epoch --share 0.1
"""


def add_parser(verbs: Any) -> None:
    """Add `zoo` to the verbs of the command line."""
    verb = add_verb(verbs, "zoo", zoo, "list the reference systems, or train one", EXAMPLES)
    verb.add_argument("words", nargs=argparse.REMAINDER, metavar="list|render|train …", help="see: swerve zoo train --help")


def zoo(options: argparse.Namespace) -> int:
    """Run one of the zoo's own verbs."""
    from swerve.cli.zoo_train import main

    return main(options.words)
