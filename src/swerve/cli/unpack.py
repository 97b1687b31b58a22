"""`swerve unpack`: safely unpack the archive of a data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from swerve.cli.options import HELD, add_verb


def add_parser(verbs: Any) -> None:
    """Add `unpack` to the verbs of the command line."""
    verb = add_verb(verbs, "unpack", unpack, "unpack the archive (zip, tar) of a data set; no entry can escape the folder")
    verb.add_argument("archive", type=Path, metavar="FILE")
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="a new folder")


def unpack(options: argparse.Namespace) -> int:
    """Unpack the archive and print the number of files."""
    from swerve.sources.archive import unpack as unpack_archive

    print(f"{unpack_archive(options.archive, options.into):,} files in {options.into}")
    return HELD
