"""`swerve objects`: libraries of objects cut out of labelled pictures, for swaps."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, above_zero, add_trust, add_verb, count

if TYPE_CHECKING:
    from swerve.core.case import Case, Source

EXAMPLES = """
  swerve objects build --source cityscapes=data/cityscapes --out cars.objects
  swerve objects build --source mine.toml --least 50 --out cars.objects
  swerve objects show cars.objects --out cars.png
"""


def add_parser(verbs: Any) -> None:
    """Add `objects` to the verbs of the command line."""
    about = "cut objects out of labelled pictures for swaps, or show a library"
    verb = add_verb(verbs, "objects", objects, about, EXAMPLES)
    acts = verb.add_subparsers(dest="act", required=True, metavar="build|show")
    build = acts.add_parser("build", help="cut out the complete objects of a source")
    source = "NAME=FOLDER, such as cityscapes=data/city, or a file (.toml) with a [source]; its cases need instance masks"
    build.add_argument("--source", required=True, metavar="SOURCE", help=source)
    build.add_argument("--out", type=Path, required=True, metavar="FILE", help="the library to write")
    least = "smallest width and height: a share of the picture's width, or pixels from 1 on (default: 50/2048)"
    build.add_argument("--least", type=above_zero, metavar="N", help=least)
    build.add_argument("--cases", type=count, metavar="N", help="read the first N cases only")
    add_trust(build)
    show = acts.add_parser("show", help="write some objects of a library as one picture")
    show.add_argument("library", type=Path, metavar="FILE")
    show.add_argument("--out", type=Path, default=Path("objects.png"), help="the picture to write (default: %(default)s)")
    for act in (build, show):
        act.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)


def objects(options: argparse.Namespace) -> int:
    """Build a library, or show one."""
    return _build(options) if options.act == "build" else _show(options)


def _build(options: argparse.Namespace) -> int:
    from swerve.config.toml import load_source
    from swerve.transformations.cutouts import Complete
    from swerve.transformations.object_library import build_library

    source = load_source(options.source, options.trust)
    rule = Complete(options.least) if options.least else Complete()
    library, left_out = build_library(_cases(source, options.cases), options.out, rule)
    print(f"{len(library.items):,} objects in {options.out}: {library.summary}")
    for why, many in left_out.most_common():
        print(f"  {many:,} left out: {why}")
    return HELD


def _cases(source: Source, most: int | None) -> Iterator[Case]:
    """The cases that can be read; the others are named."""
    from swerve.core.errors import UnreadableCase

    for key in source.keys()[:most]:
        try:
            yield source[key]
        except UnreadableCase as why:
            print(f"  skipped: {why}")


def _show(options: argparse.Namespace) -> int:
    from swerve.core.asset import Asset
    from swerve.report.object_sheet import object_sheet
    from swerve.store.files import png_bytes, write_whole
    from swerve.transformations.object_library import open_library

    library = open_library(Asset(options.library))
    write_whole(options.out, png_bytes(object_sheet(library)))
    print(f"{len(library.items):,} objects: {library.summary}")
    print(options.out)
    return HELD
