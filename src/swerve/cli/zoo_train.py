"""The verb `swerve zoo`: list the reference systems, render what they are trained on, or train one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import torch
from rich.console import Console
from rich.table import Table

from swerve.core.errors import EnvironmentFault
from swerve.execution.engine import Progress
from swerve.report.terminal import RichProgress
from swerve.translation.packaged import PAINTER
from swerve.translation.scene_reader import READER
from swerve.zoo.lidar import LIDAR
from swerve.zoo.lidar_data import SweepParts
from swerve.zoo.lidar_train import Sweeps, describe_score, lidar_cards, train_lidar
from swerve.zoo.lights.light_detectors import LIGHTS
from swerve.zoo.lights.light_frames import LightParts
from swerve.zoo.lights.light_learn import RECIPES as LIGHT_RECIPES
from swerve.zoo.lights.light_learn import LightSets
from swerve.zoo.lights.light_train import describe_lights, light_cards, train_lights
from swerve.zoo.paint_data import DRIVES, FEWEST, window_sets, world_frames
from swerve.zoo.paint_learn import PainterRecipe
from swerve.zoo.paint_train import train_painter
from swerve.zoo.reader_train import train_reader
from swerve.zoo.steering import STEERING, UNTRAINED, steering_named
from swerve.zoo.steering_data import FrameParts, default_folder
from swerve.zoo.steering_learn import RECIPES, TrainingFrames
from swerve.zoo.steering_train import cards, train_steering
from swerve.zoo.style_frames import StyleFrames
from swerve.zoo.style_learn import has_fast_bfloat16
from swerve.zoo.style_packaged import PACKAGED, train_packaged

STYLE_NETWORKS = (READER, *PACKAGED)
THREADS = 1  # of the steering recipes: two beside another job cost far more CPU than they save


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out `swerve zoo`."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    cv2.setNumThreads(1)
    return int(options.act(options))


def parser() -> argparse.ArgumentParser:
    """The command line of `swerve zoo`."""
    top = argparse.ArgumentParser(prog="swerve zoo", description="Reference systems and the recipes that trained them.")
    acts = top.add_subparsers(metavar="ACT", required=True)
    listing = acts.add_parser("list", help="list the networks with their held-out scores")
    listing.set_defaults(act=_list)
    render = acts.add_parser("render", help="render the frames of all steering recipes; resumes where it was stopped")
    train = acts.add_parser("train", help="train one network, rendering its data first; resumes where it was stopped")
    train.add_argument(
        "name", metavar="NAME", help=", ".join((*STEERING, *UNTRAINED, *LIDAR, *LIGHTS, *STYLE_NETWORKS, PAINTER))
    )
    for act, function in ((render, _render), (train, _train)):
        act.set_defaults(act=function)
        act.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="cache of rendered data")
        act.add_argument("--share", type=_share, default=1.0, metavar="S", help="share of the drives, for a quick try")
        act.add_argument("--workers", type=int, default=2, metavar="N", help="rendering processes (default: %(default)s)")
    train.add_argument("--out", type=Path, default=Path("zoo"), metavar="DIR", help="for weights and card (default: zoo)")
    train.add_argument(
        "--seed", type=int, default=7, help="of initial weights, order and augmentation (default: %(default)s)"
    )
    return top


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and at most 1, got '{text}'")
    return share


def _list(options: argparse.Namespace) -> int:
    del options
    console, steering = Console(), cards()
    table = Table("name", "about", "held-out RMSE", "of always 0")
    for name, kind in {**STEERING, **UNTRAINED}.items():
        score = steering[name]["held_out"] if name in steering else None
        cells = (f"{score['rmse_degrees']:.2f}°", f"{score['ratio']:.0%}") if score else ("not trained yet", "")
        table.add_row(name, (kind.__doc__ or "").split(":")[0].rstrip("."), *cells)
    console.print(table)
    table = Table("name", "about", "measured")
    measured = {name: describe_score(card["held_out"]) for name, card in lidar_cards().items()}
    measured |= {name: describe_lights(card["held_out"]) for name, card in light_cards().items()}
    for name, system in {**LIDAR, **LIGHTS}.items():
        about = (system.__doc__ or "").split("\n")[0].rstrip(".")
        table.add_row(name, about, measured.get(name, "not trained yet"))
    console.print(table)
    return 0


def _frames(options: argparse.Namespace, driver: str, progress: Progress) -> TrainingFrames:
    parts = FrameParts().driven_by(driver).scaled(options.share)
    return TrainingFrames.under(options.data, parts, workers=options.workers, progress=progress)


def _render(options: argparse.Namespace) -> int:
    with RichProgress(Console(stderr=True)) as progress:
        drivers = dict.fromkeys(recipe.driver for recipe in RECIPES.values())
        minutes = sum(_frames(options, driver, progress).minutes for driver in drivers)
    print(f"{options.data}: {minutes:.1f} CPU minutes of rendering in total")
    return 0


def _train(options: argparse.Namespace) -> int:
    named = (
        *((LIDAR, _train_lidar), (LIGHTS, _train_lights), (STYLE_NETWORKS, _train_styles)),
        ((PAINTER,), _train_painter),
    )
    train = next((train for names, train in named if options.name in names), _train_steering)
    if train is _train_steering:
        steering_named(options.name)  # refuses an unknown name before anything is written
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"--out {options.out}: cannot be created: {error.strerror}") from error
    with RichProgress(Console(stderr=True)) as progress:
        line = train(options, progress)
    print(line)
    return 0


def _train_lidar(options: argparse.Namespace, progress: Progress) -> str:
    parts = SweepParts().scaled(options.share)
    sweeps = Sweeps.under(options.data, parts, workers=options.workers, progress=progress)
    torch.set_num_threads(1)  # sums in one order
    card = train_lidar(options.name, options.out, sweeps=sweeps, seed=options.seed, progress=progress)
    return describe_score(card["held_out"])


def _train_lights(options: argparse.Namespace, progress: Progress) -> str:
    recipe = LIGHT_RECIPES[options.name]
    sets = LightSets.under(options.data, LightParts().scaled(options.share), workers=options.workers, progress=progress)
    torch.set_num_threads(1)
    card = train_lights(options.name, options.out, sets=sets, recipe=recipe, seed=options.seed, progress=progress)
    return describe_lights(card["held_out"])


def _train_styles(options: argparse.Namespace, progress: Progress) -> str:
    frames = StyleFrames.under(options.data, share=options.share, workers=options.workers, progress=progress)
    torch.set_num_threads(1)
    if options.name == READER:
        held = train_reader(options.out, frames, seed=options.seed, progress=progress)["held_out"]
    else:
        held = train_packaged(options.name, options.out, frames, seed=options.seed, progress=progress)["held_out"]
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in held.items())


def _train_painter(options: argparse.Namespace, progress: Progress) -> str:
    recipe = PainterRecipe(bfloat16=has_fast_bfloat16())
    frames = world_frames(max(FEWEST, round(DRIVES * options.share)))
    sets = window_sets(frames, side=recipe.side, seed=options.seed, progress=progress)
    torch.set_num_threads(1)
    card = train_painter(options.name, "world", options.out, sets, recipe=recipe, seed=options.seed, progress=progress)
    found = card["held_out"]["recognised"]
    return f"{found['drawn']:.0%} of {found['count']} drawn objects recognised, {found['real']:.0%} of the real ones"


def _train_steering(options: argparse.Namespace, progress: Progress) -> str:
    frames = _frames(options, RECIPES[options.name].driver, progress)
    torch.set_num_threads(THREADS)
    score = train_steering(options.name, options.out, frames=frames, seed=options.seed, progress=progress)["held_out"]
    return f"held-out RMSE {score['rmse_degrees']:.2f} degrees, {score['ratio']:.0%} of always answering 0"


if __name__ == "__main__":
    sys.exit(main())
