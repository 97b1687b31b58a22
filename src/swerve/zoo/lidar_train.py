"""The recipes of the LiDAR networks: weights, held-out scores and cards."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from swerve.core.case import Case
from swerve.core.values import PointCloud
from swerve.coverage.layers import COUNTINGS, layout_of
from swerve.store.files import json_bytes, write_whole
from swerve.world.source import VERSION
from swerve.zoo.clusters import ABOVE, CONFIDENCE, FEWEST, KINDS, OBJECTNESS
from swerve.zoo.data import Watch, unwatched
from swerve.zoo.lidar import LIDAR, Lidar, lidar_named
from swerve.zoo.lidar_data import KeptSweeps, SweepParts, kept_sweeps
from swerve.zoo.lidar_learn import LidarRecipe, learn_lidar
from swerve.zoo.lidar_score import GOAL, PRECISION, TYPES, reached, tallied
from swerve.zoo.steering import PACKAGED
from swerve.zoo.train import save_weights


@dataclass(frozen=True, eq=False)
class Sweeps:
    """What there is to learn from and to choose by, and what the file is scored on."""

    train: KeptSweeps
    val: KeptSweeps
    parts: SweepParts

    @classmethod
    def under(cls, folder: Path, parts: SweepParts, *, workers: int = 2, progress: Watch = unwatched) -> Sweeps:
        """The sweeps kept in `folder`, made where they are missing; those for scoring are made when they are asked for."""
        train, val = (kept_sweeps(part, folder, workers=workers, progress=progress) for part in (parts.train, parts.val))
        return cls(train, val, parts)


def train_lidar(
    name: str,
    out: Path,
    *,
    given: Sweeps,
    recipe: LidarRecipe | None = None,
    seed: int = 7,
    progress: Watch = unwatched,
) -> dict[str, Any]:
    """Train a network by its name; writes `NAME.safetensors` and its card, measured on that very file, to `out`."""
    kind, recipe = lidar_named(name), recipe or LidarRecipe()
    file, started = out / f"{name}.safetensors", time.process_time()
    save_weights(learn_lidar(kind.norm, given.train, given.val, recipe=recipe, seed=seed, progress=progress), file)
    minutes = (time.process_time() - started) / 60
    system, test = kind(file, cells=recipe.cells, width=recipe.width), given.parts.test.world()
    card = {
        "name": name,
        **described(system),
        "world": VERSION,
        "data": {part: str(getattr(given.parts, part)) for part in given.parts.__dataclass_fields__},
        "recipe": asdict(recipe) | {"seed": seed, "threads": torch.get_num_threads()},
        "training_cpu_minutes": round(minutes, 1),
        "sweeping_cpu_minutes": round(given.train.minutes + given.val.minutes, 1),
        "made_with": f"torch {torch.__version__}, numpy {np.__version__}, {platform.machine()}",
        "held_out": tallied(system, (test[key] for key in test.keys())).as_dict(),
    }
    write_whole(out / f"{name}.json", json_bytes(card))
    write_whole(out / f"{name}.md", worded(card).encode())
    return card


def described(system: Lidar) -> dict[str, Any]:
    """What is true of a system whatever it has learnt: input, stages, size and neurons."""
    blank = Case("blank", {"lidar": PointCloud(np.zeros((0, 4), np.float32))})
    return {
        "network": type(system.net).__name__,
        "norm": system.norm,
        "input": {"cells": system.cells, "reach": system.grid.reach, "tallest": system.grid.tallest},
        "output": {"objectness": OBJECTNESS, "confidence": CONFIDENCE, "fewest": FEWEST, "above": ABOVE},
        "parameters": sum(part.numel() for part in system.net.parameters()),
        "neurons": {name: layout_of(system, blank, counting=rule).neurons for name, rule in COUNTINGS.items()},
    }


def worded(card: Mapping[str, Any]) -> str:
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
        "augmentation": "mirrored, turned by up to 10°, points moved by 1 cm, up to 10% of them lost",
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "sweeping": f"{card['sweeping_cpu_minutes']} CPU minutes, once for both networks",
        "made with": card["made_with"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    score = card["held_out"]
    return PAGE.format(
        name=card["name"],
        about=(kind.__doc__ or "").split("\n")[0],
        table=table,
        scores="\n".join(_score_row(*item) for item in score["kinds"].items()),
        verdict=_verdict(score),
        **score,
    )


def _score_row(kind: str, score: Mapping[str, float]) -> str:
    return f"| {kind} | {score['demanded']} | {score['recall']:.1%} | {score['types_right']:.1%} |"


def _verdict(score: Mapping[str, Any]) -> str:
    recalls = ", ".join(f"{kind} {least:.0%}" for kind, least in GOAL.items())
    goal = f"The goal (recall {recalls}; precision {PRECISION:.0%}, types {TYPES:.0%})"
    return f"{goal} is reached." if reached(score) else f"{goal} is **not** reached."


PAGE = """# {name}

{about} It exists to be tested. It must not drive anything.

| | |
|---|---|
{table}

## Measured

On {sweeps} held-out sweeps, within the region and {within_metres:g} m: precision {precision:.1%} ({made_up} boxes on
nobody), types right {types_right:.1%}. Somebody is found when the middle of a box lies on them; a second box on them counts
as nobody. Demanded is who returns five points or more and stands in the region.

| kind | demanded | recall | types right |
|---|--:|--:|--:|
{scores}

{verdict} Validation chose among the passes; the held-out sweeps were scored once, with the file above.

## Limits

- Sweeps of one made-up LiDAR on flat ground; on other sensors it finds less and makes up more.
- Obstacles nearer to each other than a few cells may come out as one.

## Train it again

    swerve zoo train {name}
"""


def told(score: Mapping[str, Any]) -> str:
    """A score as one line."""
    recalls = ", ".join(f"{kind} {score['kinds'][kind]['recall']:.1%}" for kind in GOAL)
    return f"held-out recall: {recalls}; precision {score['precision']:.1%}, types right {score['types_right']:.1%}"


def lidar_cards(folder: Path = PACKAGED) -> dict[str, dict[str, Any]]:
    """The cards of the LiDAR networks in a folder, by name, in the zoo's order."""
    found = {name: folder / f"{name}.json" for name in LIDAR}
    return {name: json.loads(file.read_text()) for name, file in found.items() if file.exists()}


def lidar_overview(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The cards as one Markdown table."""
    lines = [
        "| name | normalisation | parameters | car | pedestrian | cyclist | precision | types right |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, card in found.items():
        score = card["held_out"]
        recalls = " | ".join(f"{score['kinds'][kind]['recall']:.1%}" for kind in GOAL)
        size = f"{card['norm']} | {card['parameters']:,}"
        lines.append(f"| `{name}` | {size} | {recalls} | {score['precision']:.1%} | {score['types_right']:.1%} |")
    return "\n".join(lines)


def lidar_table() -> Table:
    """The LiDAR systems with their scores, for a terminal."""
    table, found = Table("name", "about", "measured"), lidar_cards()
    for name, kind in LIDAR.items():
        about = (kind.__doc__ or "").split("\n")[0].rstrip(".")
        table.add_row(name, about, told(found[name]["held_out"]) if name in found else "not trained yet")
    return table
