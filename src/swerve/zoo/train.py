"""The recipes of the steering networks: weights, held-out scores and cards, and the command `swerve zoo`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from safetensors.torch import save
from torch import nn

from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault
from swerve.core.values import Group, Image
from swerve.coverage.layers import COUNTINGS, layout_of
from swerve.store.files import json_bytes, write_whole
from swerve.world.source import VERSION, World
from swerve.zoo.data import FrameParts, SteeringFrames, Watch, default_folder, unwatched
from swerve.zoo.learn import RECIPES, Recipe, TrainingFrames, answers, learn, rmse, samples
from swerve.zoo.lidar import LIDAR
from swerve.zoo.steering import DEGREES, PACKAGED, STEERING, CameraCrop, Trained, steering_named

GOAL, LIMIT = 0.25, 0.40  # of the error of never steering: for most networks, and for all of them
THREADS = 2


@dataclass(frozen=True)
class Score:
    """The root mean square error in degrees of the wheel, of a network and of always answering 0."""

    rmse: float
    zero: float
    windows: int

    @property
    def ratio(self) -> float:
        """The error as a share of never steering's."""
        return self.rmse / self.zero

    def as_dict(self) -> dict[str, float]:
        """The numbers as a card has them, squared errors in rad² as in the papers (D-34)."""
        return {
            "rmse_degrees": round(self.rmse, 3),
            "mse_rad2": round(float(np.radians(self.rmse)) ** 2, 5),
            "zero_rmse_degrees": round(self.zero, 3),
            "ratio": round(self.ratio, 4),
            "windows": self.windows,
        }


def scored(system: Trained, short: SteeringFrames, long: SteeringFrames, *, every: int = 5) -> Score:
    """The score on windows of short drives, where they are long enough for one, and on each fifth of long ones."""
    asked = samples(system.view, short, long, every=(1, every))
    said = answers(system.system.net, system.view, asked)
    return Score(rmse(said, asked.units) * DEGREES, rmse(0 * asked.units, asked.units) * DEGREES, len(said))


def save_weights(net: nn.Module, path: Path) -> None:
    """Write the weights in half precision, whole or not at all."""
    write_whole(path, save({name: part.half().contiguous() for name, part in net.state_dict().items()}))


def train_named(
    name: str, out: Path, *, given: TrainingFrames, recipe: Recipe | None = None, seed: int = 7, progress: Watch = unwatched
) -> dict[str, Any]:
    """Train a network by its name; writes `NAME.safetensors` and its card, measured on that very file, to `out`."""
    kind, recipe = steering_named(name), recipe or RECIPES[name]
    file, started = out / f"{name}.safetensors", time.process_time()
    save_weights(learn(name, given, recipe=recipe, seed=seed, progress=progress), file)
    minutes = (time.process_time() - started) / 60
    system = kind(file)
    card = {
        "name": name,
        **described(system),
        "world": VERSION,
        "data": {part: _count(getattr(given, part)) for part in given.__dataclass_fields__},
        "recipe": asdict(recipe) | {"seed": seed, "threads": torch.get_num_threads()},
        "training_cpu_minutes": round(minutes, 1),
        "rendering_cpu_minutes": round(given.minutes, 1),
        "made_with": f"torch {torch.__version__}, numpy {np.__version__}, OpenCV {cv2.__version__}, {platform.machine()}",
        "validation": scored(system, given.val_short, given.val_long).as_dict(),
        "held_out": scored(system, given.test_short, given.test_long).as_dict(),
    }
    write_whole(out / f"{name}.json", json_bytes(card))
    write_whole(out / f"{name}.md", worded(card).encode())
    return card


def _count(frames: SteeringFrames) -> str:
    runs, length = frames.degrees.shape
    return f"{frames.drives} drives, {runs} runs of {length} frames"


def described(system: Trained) -> dict[str, Any]:
    """What is true of a system whatever it has learnt: input, output, size and neurons."""
    net, case = system.system.net, blank(system.view)
    return {
        "network": type(net).__name__,
        "input": asdict(system.view),
        "output": asdict(system.convention),
        "parameters": sum(part.numel() for part in net.parameters()),
        "neurons": {name: layout_of(system, case, counting=rule).neurons for name, rule in COUNTINGS.items()},
    }


def blank(view: CameraCrop) -> Case:
    """A case of the right kind with nothing to be seen."""
    image = Image(np.zeros((144, 256, 3), np.uint8))
    return Case("blank", {"camera": image if view.frames == 1 else Group((image,) * view.frames)})


def worded(card: Mapping[str, Any]) -> str:
    """A card as a page of Markdown."""
    view, recipe, kind = card["input"], card["recipe"], steering_named(card["name"])
    rows = {
        "file": f"`{card['name']}.safetensors`, half precision on disk, float32 at run time",
        "input": f"`camera`, {_frames(view['frames'])}; rows below {view['top']:.0%} of the height, "
        f"reduced to {view['width']} × {view['height']}, {view['tone']}",
        "output": f"one number in {kind.convention}",
        "network": f"`{card['network']}`, {card['parameters']:,} parameters",
        "neurons": ", ".join(f"{count:,} ({name})" for name, count in card["neurons"].items()),
        "data": f"embedded world, version {card['world']}, 256 × 144, another daylight for every drive",
        **{part.replace("_", ", "): f"{said}" for part, said in card["data"].items()},
        "labels": f"pure pursuit of the world's driver, {World.convention}",
        "recipe": ", ".join(f"{name} {value}" for name, value in recipe.items()),
        "augmentation": "brightness, contrast, blur; nothing is mirrored or moved",
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "rendering": f"{card['rendering_cpu_minutes']} CPU minutes, once for all five networks",
        "made with": card["made_with"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    scores = "\n".join(_score_row(what, card[what]) for what in ("validation", "held_out"))
    return PAGE.format(name=card["name"], about=kind.__doc__, table=table, scores=scores, verdict=_verdict(card["held_out"]))


def _frames(count: int) -> str:
    return "one frame" if count == 1 else f"a window of {count} frames (`Windows(source, {count})`), oldest first"


def _score_row(what: str, score: Mapping[str, float]) -> str:
    numbers = f"{score['rmse_degrees']:.2f} | {score['mse_rad2']:.4f} | {score['zero_rmse_degrees']:.2f}"
    return f"| {what.replace('_', '-')}, {score['windows']} windows | {numbers} | {score['ratio']:.0%} |"


def _verdict(score: Mapping[str, float]) -> str:
    if score["ratio"] <= GOAL:
        return f"The goal, {GOAL:.0%} of the error of never steering, is reached."
    limit = "is kept" if score["ratio"] <= LIMIT else "is **missed** too"
    return (
        f"The goal, {GOAL:.0%} of the error of never steering, is **not** reached; the limit of {LIMIT:.0%} for any network "
        f"{limit}. The recipe was cut to fit two cores: few scenes, small frames, minutes of training."
    )


PAGE = """# {name}

{about} It exists to be tested. It must not steer anything.

| | |
|---|---|
{table}

## Measured

Root mean square error in degrees of the wheel, its square in rad², and always answering 0:

| scenes | RMSE | MSE, rad² | always 0 | share |
|---|--:|--:|--:|--:|
{scores}

{verdict} Validation chose among the passes; the held-out scenes were scored once, with the file above.

## Limits

- Scenes of one renderer by day, without rain, fog, snow or night; the score says nothing about photographs.
- Traffic keeps right, the ground is flat, the camera is always the same.

## Train it again

    swerve zoo train {name}
"""


def cards(folder: Path = PACKAGED) -> dict[str, dict[str, Any]]:
    """The cards of the steering networks in a folder, by name, in the zoo's order."""
    found = {name: folder / f"{name}.json" for name in STEERING}
    return {name: json.loads(file.read_text()) for name, file in found.items() if file.exists()}


def overview(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The cards as one Markdown table."""
    lines = [
        "| name | looks at | parameters | neurons | held-out RMSE | share of never steering |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name, card in found.items():
        view, score = card["input"], card["held_out"]
        looks = f"{view['frames']} × {view['width']}×{view['height']} {view['tone']}"
        size = f"{card['parameters']:,} | {card['neurons']['default']:,}"
        lines.append(f"| `{name}` | {looks} | {size} | {score['rmse_degrees']:.2f}° | {score['ratio']:.0%} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `swerve zoo`: list the networks, render what they learn from, or train one."""
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
    render = acts.add_parser("render", help="render the frames of all steering recipes; goes on where it was stopped")
    train = acts.add_parser("train", help="train one network; renders what is missing first")
    train.add_argument("name", metavar="NAME", help=", ".join((*STEERING, *LIDAR)))
    for act, function in ((render, _render), (train, _train)):
        act.set_defaults(act=function)
        act.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="where frames are kept")
        act.add_argument("--share", type=_share, default=1.0, metavar="S", help="of the drives, for a quick try")
        act.add_argument("--workers", type=int, default=2, metavar="N", help="rendering processes (default: %(default)s)")
    train.add_argument("--out", type=Path, default=Path("zoo"), metavar="DIR", help="for weights and card (default: zoo)")
    train.add_argument("--seed", type=int, default=7, help="of first weights, order and variations (default: %(default)s)")
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
    table, found = Table("name", "about", "held-out RMSE", "of never steering"), cards()
    for name, kind in STEERING.items():
        score = found[name]["held_out"] if name in found else None
        told = (f"{score['rmse_degrees']:.2f}°", f"{score['ratio']:.0%}") if score else ("not trained yet", "")
        table.add_row(name, (kind.__doc__ or "").split(":")[0].rstrip("."), *told)
    Console().print(table)
    from swerve.zoo.lidar_train import lidar_table

    Console().print(lidar_table())
    return 0


def _watched(steps: Iterable[int], what: str, total: int) -> Iterable[int]:
    return track(steps, what, total=total, console=Console(stderr=True), transient=True)


def _material(options: argparse.Namespace) -> TrainingFrames:
    return TrainingFrames.under(options.data, FrameParts().scaled(options.share), workers=options.workers, progress=_watched)


def _render(options: argparse.Namespace) -> int:
    print(f"{options.data}: {_material(options).minutes:.1f} CPU minutes of rendering in all")
    return 0


def _train(options: argparse.Namespace) -> int:
    steering = options.name not in LIDAR and steering_named(options.name)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"--out {options.out}: cannot be made: {error.strerror}") from error
    return _train_steering(options) if steering else _train_lidar(options)


def _train_lidar(options: argparse.Namespace) -> int:
    from swerve.zoo.lidar_data import SweepParts
    from swerve.zoo.lidar_train import Sweeps, told, train_lidar

    parts = SweepParts().scaled(options.share)
    given = Sweeps.under(options.data, parts, workers=options.workers, progress=_watched)
    torch.set_num_threads(1)  # sums in one order
    print(told(train_lidar(options.name, options.out, given=given, seed=options.seed, progress=_watched)["held_out"]))
    return 0


def _train_steering(options: argparse.Namespace) -> int:
    given = _material(options)
    torch.set_num_threads(THREADS)
    score = train_named(options.name, options.out, given=given, seed=options.seed, progress=_watched)["held_out"]
    print(f"held-out RMSE {score['rmse_degrees']:.2f} degrees, {score['ratio']:.0%} of never steering")
    return 0


if __name__ == "__main__":
    sys.exit(main())
