"""`swerve unpack`: safely unpack the archive of a data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from swerve.cli.options import HELD, add_verb

EXAMPLES = """
  swerve unpack data_object_image_2.zip --into data/kitti
"""


def add_parser(verbs: Any) -> None:
    """Add `unpack` to the verbs of the command line."""
    about = "unpack a data set (zip, tar) safely into a new folder"
    verb = add_verb(verbs, "unpack", unpack, about, EXAMPLES)
    verb.add_argument("archive", type=Path, metavar="FILE")
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="a new folder")


def unpack(options: argparse.Namespace) -> int:
    """Unpack the archive and print the number of files."""
    from swerve.sources.archive import unpack as unpack_archive

    print(f"{unpack_archive(options.archive, options.into):,} files in {options.into}")
    return HELD
