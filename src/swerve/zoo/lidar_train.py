"""Trains the LiDAR networks by their recipe: weights, held-out scores and cards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import digest_of
from swerve.core.values import PointCloud
from swerve.coverage.layers import COUNTINGS, layout_of
from swerve.execution.engine import Progress
from swerve.train.card import card_page, read_cards, recipe_row, versions, write_card
from swerve.train.loop import Checkpoint, save_weights
from swerve.world.source import VERSION, code_digest
from swerve.zoo.clusters import ABOVE, CONFIDENCE, FEWEST, KINDS, OBJECTNESS
from swerve.zoo.lidar import LIDAR, Lidar, lidar_named
from swerve.zoo.lidar_data import StoredSweeps, SweepParts, stored_sweeps
from swerve.zoo.lidar_learn import LidarRecipe, learn_lidar
from swerve.zoo.lidar_score import GOAL, PRECISION, TYPES, reached, tallied
from swerve.zoo.steering import PACKAGED


@dataclass(frozen=True, eq=False)
class Sweeps:
    """The training and validation sweeps, and the parts they are of; test sweeps are rendered when the file is scored."""

    train: StoredSweeps
    val: StoredSweeps
    parts: SweepParts

    @classmethod
    def under(cls, folder: Path, parts: SweepParts, *, workers: int = 2, progress: Progress | None = None) -> Sweeps:
        """The sweeps in the cache under `folder`, rendered where they are missing."""
        train, val = (stored_sweeps(part, folder, workers=workers, progress=progress) for part in (parts.train, parts.val))
        return cls(train, val, parts)


def train_lidar(
    name: str,
    out: Path,
    *,
    sweeps: Sweeps,
    recipe: LidarRecipe | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a network by its name; writes `NAME.safetensors` and its card, measured on that very file, to `out`.

    While it trains, its state is in `NAME.checkpoint`: a training that was stopped goes on from there.
    """
    kind, recipe = lidar_named(name), recipe or LidarRecipe()
    file, started = out / f"{name}.safetensors", time.process_time()
    data = {part: str(getattr(sweeps.parts, part)) for part in sweeps.parts.__dataclass_fields__}
    checkpoint = Checkpoint(out / f"{name}.checkpoint", digest_of(name, asdict(recipe), seed, data, code_digest()))
    net = learn_lidar(
        kind.norm, sweeps.train, sweeps.val, recipe=recipe, seed=seed, progress=progress, checkpoint=checkpoint
    )
    save_weights(net, file)
    minutes = (time.process_time() - started) / 60
    system, test = kind(file, cells=recipe.cells, width=recipe.width), sweeps.parts.test.world()
    card = {
        "name": name,
        **described(system),
        "world": VERSION,
        "data": data,
        "recipe": recipe_row(asdict(recipe), seed),
        "training_cpu_minutes": round(minutes, 1),
        "sweeping_cpu_minutes": round(sweeps.train.minutes + sweeps.val.minutes, 1),
        "made_with": versions(),
        "held_out": tallied(system, (test[key] for key in test.keys())).as_dict(),
    }
    write_card(out, card, page_of(card))
    checkpoint.remove()
    return card


def described(system: Lidar) -> dict[str, Any]:
    """Input, stages, size and neurons of a system, which do not depend on its weights."""
    blank = Case("blank", {"lidar": PointCloud(np.zeros((0, 4), np.float32))})
    return {
        "network": type(system.net).__name__,
        "norm": system.norm,
        "input": {"cells": system.cells, "reach": system.grid.reach, "tallest": system.grid.tallest},
        "output": {"objectness": OBJECTNESS, "confidence": CONFIDENCE, "fewest": FEWEST, "above": ABOVE},
        "parameters": sum(part.numel() for part in system.net.parameters()),
        "neurons": {name: layout_of(system, blank, counting=rule).neurons for name, rule in COUNTINGS.items()},
    }


def page_of(card: Mapping[str, Any]) -> str:
    """A card as a page of Markdown."""
    shown, recipe, kind = card["input"], card["recipe"], lidar_named(card["name"])
    rows = {
        "file": f"`{card['name']}.safetensors`, half precision on disk, float32 at run time",
        "input": f"`lidar` and, where there is one, `region`; {shown['cells']} × {shown['cells']} cells over "
        f"±{shown['reach']:g} m, heights within ±{shown['tallest']:g} m, 8 channels",
        "output": f"3-D boxes: {', '.join(KINDS)}",
        "stages": ", ".join(f"{name} {value}" for name, value in card["output"].items()),
        "network": f"`{card['network']}`, {card['parameters']:,} parameters, {card['norm']} normalisation",
        "neurons": ", ".join(f"{count:,} ({name})" for name, count in card["neurons"].items()),
        "data": f"embedded world, version {card['world']}",
        **card["data"],
        "recipe": ", ".join(f"{name} {value}" for name, value in recipe.items()),
        "augmentation": "mirrored, rotated by up to 10°, points moved by about 1 cm, up to 10% of them dropped",
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "rendering": f"{card['sweeping_cpu_minutes']} CPU minutes, once for both networks",
        "made with": card["made_with"],
    }
    about = f"{(kind.__doc__ or '').split(chr(10))[0]} It exists to be tested. It must not drive anything."
    score = card["held_out"]
    scores = "\n".join(_score_row(*item) for item in score["kinds"].items())
    measured = MEASURED.format(scores=scores, verdict=_verdict(score), **score)
    return card_page(card["name"], about, rows, measured=measured, limits=LIMITS)


def _score_row(kind: str, score: Mapping[str, float]) -> str:
    return f"| {kind} | {score['demanded']} | {score['recall']:.1%} | {score['types_right']:.1%} |"


def _verdict(score: Mapping[str, Any]) -> str:
    recalls = ", ".join(f"{kind} {least:.0%}" for kind, least in GOAL.items())
    goal = f"The goal (recall {recalls}; precision {PRECISION:.0%}, correct types {TYPES:.0%})"
    return f"{goal} is reached." if reached(score) else f"{goal} is **not** reached."


MEASURED = """On {sweeps} held-out sweeps, within the region and {within_metres:g} m: precision {precision:.1%} ({made_up}
false boxes), correct types {types_right:.1%}. An obstacle is found if the centre of a box lies on it; a second box on it
is false. Only obstacles in the region with at least five points are required.

| kind | required | recall | correct types |
|---|--:|--:|--:|
{scores}

{verdict} The best pass was chosen by validation; the held-out sweeps were scored once, with the file above."""
LIMITS = (
    "Sweeps of one simulated LiDAR on flat ground; on other sensors it finds fewer obstacles and reports more false ones.",
    "Obstacles that are only a few cells apart may be reported as one.",
)


def describe_score(score: Mapping[str, Any]) -> str:
    """A score as one line."""
    recalls = ", ".join(f"{kind} {score['kinds'][kind]['recall']:.1%}" for kind in GOAL)
    return f"held-out recall: {recalls}; precision {score['precision']:.1%}, correct types {score['types_right']:.1%}"


def lidar_cards(folder: Path = PACKAGED) -> dict[str, dict[str, Any]]:
    """The cards of the LiDAR networks in a folder, by name, in the zoo's order."""
    return read_cards(folder, LIDAR)
