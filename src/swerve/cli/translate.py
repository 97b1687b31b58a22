"""`swerve translate`: learn to draw objects from label maps, for swaps."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_trust, add_verb, count, whole
from swerve.core.errors import InputError

if TYPE_CHECKING:
    from swerve.core.asset import Asset
    from swerve.core.case import Source

EXAMPLES = """
  swerve translate train --source world --name streets
  swerve translate train --source mine.toml --name city --start painter
"""
AFTER = """sources:
  world, the embedded one, or a campaign file (.toml), whose [source] has
  masks and classes:
    use = "cityscapes"
    folder = "data/cityscapes"
    classes = true

what to do with it:
  change = { use = "translations", painter = "painters/streets.safetensors" }
  docs/iatg.md tells how IATG uses it."""


def add_parser(verbs: Any) -> None:
    """Add `translate` to the verbs of the command line."""
    verb = add_verb(verbs, "translate", translate, "learn to draw objects from label maps, for swaps", EXAMPLES, AFTER)
    verb.add_argument("act", choices=["train"], help="train: learn, and write the network with a card and samples")
    verb.add_argument("--source", required=True, metavar="SOURCE", help="world, or a file with a [source]")
    verb.add_argument("--name", required=True, help="of the painter; its files are called so")
    verb.add_argument(
        "--out", type=Path, default=Path("painters"), metavar="DIR", help="folder to write to (default: %(default)s)"
    )
    verb.add_argument("--start", type=Path, metavar="FILE", help="a painter to train further, or: painter, the packaged one")
    verb.add_argument("--passes", type=count, metavar="N", help="over all objects (default: 12, some 10 CPU minutes)")
    verb.add_argument("--side", type=count, metavar="N", help="of the windows drawn, a multiple of 16 (default: 96)")
    verb.add_argument("--width", type=count, metavar="N", help="channels of the first layer (default: 16; 64 in the paper)")
    verb.add_argument("--drives", type=count, metavar="N", help="of the world (default: 160)")
    verb.add_argument("--seed", type=whole, default=7, help="of initial weights and order (default: %(default)s)")
    add_trust(verb)


def translate(options: argparse.Namespace) -> int:
    """Train, and print what was measured."""
    from dataclasses import replace

    import cv2
    import torch
    from rich.console import Console

    from swerve.cli.style import check_name
    from swerve.report.terminal import RichProgress
    from swerve.store.files import make_folder
    from swerve.translation.painting import painting_of
    from swerve.zoo.paint_data import window_sets
    from swerve.zoo.paint_learn import PainterRecipe
    from swerve.zoo.paint_train import MEANING, train_painter
    from swerve.zoo.style_learn import has_fast_bfloat16

    cv2.setNumThreads(1)
    torch.set_num_threads(1)  # sums in one order
    check_name(options.name)
    given = {name: value for name in ("passes", "side", "width") if (value := getattr(options, name))}
    start = _start(options.start)
    if start and (options.side or options.width):
        raise InputError("--side and --width are those of the painter that --start names: leave them out")
    recipe = replace(PainterRecipe(bfloat16=has_fast_bfloat16()), **given)
    recipe = recipe.further(painting_of(start)) if start else recipe
    make_folder(options.out, parents=True)
    with RichProgress(Console(stderr=True)) as progress:
        sets = window_sets(_source(options), side=recipe.side, seed=options.seed, progress=progress)
        card = train_painter(
            options.name, options.source, options.out, sets, recipe=recipe, seed=options.seed, start=start, progress=progress
        )
    held = card["held_out"]
    for name, value in {**held, **held["recognised"]}.items():
        if name in MEANING:
            print(f"{value:7.4f}  {MEANING[name]}")
    print(options.out / f"{options.name}.safetensors")
    return HELD


def _start(file: Path | None) -> Asset | None:
    from swerve.core.asset import Asset
    from swerve.translation.packaged import PAINTER, packaged

    return Asset(packaged(PAINTER) if file == Path(PAINTER) else file) if file else None


def _source(options: argparse.Namespace) -> Source:
    from swerve.config.toml import load_source

    if options.source == "world":
        from swerve.zoo.paint_data import DRIVES, world_frames

        return world_frames(options.drives or DRIVES)
    return load_source(options.source, options.trust)
