"""`swerve world`: frames of the embedded world as a data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from swerve.cli.options import HELD, add_verb, count


def add_parser(verbs: Any) -> None:
    """Add `world` to the verbs of the command line."""
    verb = add_verb(verbs, "world", world, "write frames of the embedded world as a data set, with a contact sheet")
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    verb.add_argument("--as", dest="form", default="udacity", metavar="FORMAT", help="udacity, coco, yolo, voc or kitti")
    verb.add_argument("--count", type=count, default=24, metavar="N", help="drives (default: %(default)s)")
    verb.add_argument("--frames", type=count, default=1, metavar="N", help="frames per drive, at 20 Hz (default: 1)")
    verb.add_argument("--conditions", default="clear", metavar="NAME", help="such as day, rain, night (default: clear)")
    verb.add_argument("--split", default="train", metavar="NAME", help="train, val or test, which share no scenes")
    verb.add_argument("--size", type=_size, default=(640, 360), metavar="WxH", help="pixels (default: 640x360)")
    verb.add_argument("--seed", type=int, default=0, help="seed of the scenes (default: 0)")


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be a width and a height such as 640x360, got '{text}'")
    return int(width), int(height)


def world(options: argparse.Namespace) -> int:
    """Render the frames and write the data set."""
    from swerve.report.world_dataset import NEEDED, SHEET, write_world
    from swerve.sources.export import form_named
    from swerve.world.source import World

    form_named(options.form)
    source = World(
        drives=options.count,
        frames=options.frames,
        split=options.split,
        conditions=options.conditions,
        labels=NEEDED[options.form],
        width=options.size[0],
        height=options.size[1],
        seed=options.seed,
    )
    written = write_world(source, options.out, options.form)
    print(f"{sum(written.values())} frames in {options.out}, shown on {options.out / SHEET}")
    return HELD
