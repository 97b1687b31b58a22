"""`swerve world`: frames of the embedded world as a data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_verb, count
from swerve.core.errors import InputError

if TYPE_CHECKING:
    from swerve.world.light_source import LightWorld
    from swerve.world.source import World

EXAMPLES = """
  swerve world --out data/world --as coco --count 200
  swerve world --out data/night --conditions night --frames 20
  swerve world --out data/lights --lights A --as bosch --conditions all
"""


def add_parser(verbs: Any) -> None:
    """Add `world` to the verbs of the command line."""
    about = "write frames of the embedded world as a labelled data set"
    verb = add_verb(verbs, "world", world, about, EXAMPLES)
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    forms = "udacity, coco, yolo, voc or kitti; with --lights coco, yolo, voc, bosch or lisa"
    verb.add_argument("--as", dest="form", metavar="FORMAT", help=f"{forms} (default: udacity, or coco)")
    verb.add_argument("--lights", metavar="A|B", help="junctions with traffic lights, of one of two sets of streets")
    verb.add_argument("--count", type=count, default=24, metavar="N", help="drives or junctions (default: %(default)s)")
    verb.add_argument(
        "--frames", type=count, default=1, metavar="N", help="frames per drive, at 20 Hz, or views (default: 1)"
    )
    conditions = "such as day, rain, night, or all with --lights (default: clear)"
    verb.add_argument("--conditions", default="clear", metavar="NAME", help=conditions)
    verb.add_argument("--split", default="train", metavar="NAME", help="train, val or test, which share no scenes")
    sizes = "pixels (default: 640x360; of lights A 960x540, of B 1280x720)"
    verb.add_argument("--size", type=_size, metavar="WxH", help=sizes)
    verb.add_argument("--seed", type=int, default=0, help="seed of the scenes (default: 0)")


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be a width and a height such as 640x360, got '{text}'")
    return int(width), int(height)


def world(options: argparse.Namespace) -> int:
    """Render the frames and write the data set."""
    from swerve.report.world_dataset import SHEET, write_world
    from swerve.sources.export import form_named

    form = options.form or ("coco" if options.lights else "udacity")
    form_named(form)
    source = _lights(options, form) if options.lights else _drives(options, form)
    written = write_world(source, options.out, form)
    print(f"{sum(written.values())} frames in {options.out}, shown on {options.out / SHEET}")
    return HELD


def _drives(options: argparse.Namespace, form: str) -> World:
    from swerve.report.world_dataset import NEEDED
    from swerve.world.source import World

    if form not in NEEDED:
        raise InputError(f"drives have no traffic lights to write as {form}: give --lights A, or --as {', '.join(NEEDED)}")
    width, height = options.size or (640, 360)
    return World(drives=options.count, labels=NEEDED[form], width=width, height=height, **_shared(options))


def _lights(options: argparse.Namespace, form: str) -> LightWorld:
    from swerve.report.world_dataset import LIGHTS_NEED
    from swerve.world.light_source import LightWorld

    if form not in LIGHTS_NEED:
        raise InputError(f"traffic lights cannot be written as {form}: give --as {', '.join(LIGHTS_NEED)}")
    width, height = options.size or (0, 0)
    return LightWorld(
        junctions=options.count,
        streets=options.lights,
        labels=LIGHTS_NEED[form],
        width=width,
        height=height,
        **_shared(options),
    )


def _shared(options: argparse.Namespace) -> dict[str, Any]:
    """The options that drives and junctions share."""
    return {name: getattr(options, name) for name in ("frames", "split", "conditions", "seed")}
