"""`swerve style`: learn how pictures look in another condition, from two sets of pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_trust, add_verb, whole

if TYPE_CHECKING:
    from swerve.core.case import Source

EXAMPLES = """
  swerve style train --from drives/day --to drives/night --name night
  swerve style train --from world --to world:snow --name snow
  swerve style train --from day.mp4 --to dusk.mp4 --name dusk --kind unit
"""
AFTER = """sources:
  FOLDER of pictures, video file, world or world:CONDITIONS (which vary from
  drive to drive), or a campaign file (.toml), whose [source] is taken.

what to do with it:
  change = { use = "styles", translator = "night.safetensors" }
  docs/tactic.md tells how to search for the styles that break a network."""
DRIVES = 300  # of the embedded world; those of the target are others than those of the source


def add_parser(verbs: Any) -> None:
    """Add `style` to the verbs of the command line."""
    about = "learn another condition, such as night, from two sets of pictures"
    verb = add_verb(verbs, "style", style, about, EXAMPLES, AFTER)
    verb.add_argument("act", choices=["train"], help="train: learn a translation, and write it with a card and samples")
    verb.add_argument("--from", dest="source", required=True, metavar="SOURCE", help="pictures as they are")
    verb.add_argument(
        "--to", dest="target", required=True, metavar="SOURCE", help="pictures as they should look, of other places"
    )
    verb.add_argument("--name", required=True, help="of the translation; its files are called so")
    verb.add_argument(
        "--kind", choices=["munit", "unit"], default="munit", help="munit: many styles; unit: one (default: munit)"
    )
    verb.add_argument(
        "--out", type=Path, default=Path("styles"), metavar="DIR", help="folder to write to (default: %(default)s)"
    )
    verb.add_argument("--paired", action="store_true", help="pictures with one name show one place: learn from pairs")
    verb.add_argument("--size", metavar="WxH", help="of the pictures that it learns from (default: 128x72)")
    verb.add_argument("--published", action="store_true", help="the papers' widths of networks, which need a graphics card")
    verb.add_argument("--passes", type=whole, metavar="N", help="of 75 steps each (default: 16, with --paired 22)")
    verb.add_argument("--most", type=whole, default=600, metavar="N", help="pictures of each source (default: %(default)s)")
    verb.add_argument("--seed", type=whole, default=7, help="of initial weights and order (default: %(default)s)")
    add_trust(verb)


def style(options: argparse.Namespace) -> int:
    """Train, and print what was measured."""
    from dataclasses import replace

    import cv2
    import torch
    from rich.console import Console

    from swerve.report.terminal import RichProgress
    from swerve.store.files import make_folder
    from swerve.zoo.style_data import PictureSize, paired_sets, picture_sets, size_note
    from swerve.zoo.style_learn import PAIRED, RECIPES, has_fast_bfloat16, published
    from swerve.zoo.style_train import MEANING, Named, train_style

    cv2.setNumThreads(1)
    torch.set_num_threads(1)  # sums in one order
    check_name(options.name)
    recipe = (PAIRED if options.paired else RECIPES)[options.kind]
    width, height = size_of(options.size) if options.size else (recipe.width, recipe.height)
    recipe = published(recipe) if options.published else recipe
    passes = options.passes or recipe.passes
    recipe = replace(recipe, passes=passes, mixed=has_fast_bfloat16(), width=width, height=height)
    make_folder(options.out, parents=True)
    source = source_of(options.source, options.trust)
    target = source_of(options.target, options.trust, int(not options.paired))
    size = PictureSize(recipe.width, recipe.height, options.most)
    if note := size_note(source, target, size):
        print(note)
    with RichProgress(Console(stderr=True)) as progress:
        sets = (paired_sets if options.paired else picture_sets)(source, target, size, seed=options.seed, progress=progress)
        named = Named(options.name, options.source, options.target)
        card = train_style(named, options.out, sets, recipe=recipe, seed=options.seed, progress=progress)
    for name, value in card["held_out"].items():
        print(f"{value:7.4f}  {MEANING[name]}")
    print(options.out / f"{options.name}.safetensors")
    return HELD


def check_name(name: str) -> None:
    """Refuse a name that is no file name."""
    from swerve.core.errors import InputError

    if not name.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"--name must consist of letters, digits, - and _, got '{name}'")


def size_of(text: str) -> tuple[int, int]:
    """Width and height of a size such as 128x72."""
    from swerve.core.errors import InputError
    from swerve.translation.generator import check_size

    try:
        width, height = (int(part) for part in text.split("x"))
        check_size(width, height)
    except ValueError as error:
        raise InputError(f"--size must be like 128x72, at least 16x16 and in multiples of 4, got '{text}'") from error
    return width, height


def source_of(text: str, trusted: list[str], seed: int = 0) -> Source:
    """The source that a text names; frames of the embedded world are of other scenes for another `seed`."""
    from swerve.core.errors import InputError
    from swerve.sources.folders import Folder
    from swerve.sources.root import VIDEOS
    from swerve.sources.video import Video

    kind, _, conditions = text.partition(":")
    path = Path(text)
    if kind == "world":
        from swerve.zoo.style_weather import VariedWorld

        return VariedWorld(DRIVES, 1, split="train", conditions=conditions or "day", width=256, height=144, seed=100 + seed)
    if path.suffix == ".toml":
        from swerve.config.toml import load_campaign

        return load_campaign(text, trusted).campaign.source
    if path.is_dir():
        return Folder(path)
    if path.suffix.lower() in VIDEOS:
        return Video(path.parent, file=path.name)
    raise InputError(f"{text}: no folder of pictures, video ({', '.join(VIDEOS)}), campaign file or 'world:CONDITIONS'")
