"""Trains the light detectors by their recipes: weights, held-out scores and cards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import digest_of
from swerve.core.values import Image
from swerve.coverage.layers import COUNTINGS, layout_of
from swerve.execution.engine import Progress
from swerve.train.card import card_page, read_cards, recipe_row, versions, write_card
from swerve.train.loop import Checkpoint, save_weights
from swerve.world.light_views import CAMERAS
from swerve.world.signal_heads import COLOURS
from swerve.world.source import VERSION, code_digest
from swerve.zoo.lights.light_detectors import LIGHTS, LightDetector, lights_named, packaged
from swerve.zoo.lights.light_frames import KINDS, stored_lights
from swerve.zoo.lights.light_learn import RECIPES, LightRecipe, LightSets, learn_lights
from swerve.zoo.lights.light_network import LEAST, MOST, OVERLAP
from swerve.zoo.lights.light_score import BEST, SIZES, LightScore, best_score, goal_of
from swerve.zoo.steering import PACKAGED

ABOUT = {"held_out": "streets A", "other_streets": "streets B"}  # what the detectors are scored on


def train_lights(
    name: str,
    out: Path,
    *,
    sets: LightSets,
    recipe: LightRecipe | None = None,
    seed: int = 7,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a detector by its name; writes `NAME.safetensors` and its card, measured on that very file, to `out`.

    While it trains, its state is in `NAME.checkpoint`: a training that was stopped goes on from there.
    """
    kind, recipe, file = lights_named(name), recipe or RECIPES[name], out / f"{name}.safetensors"
    data = {part: str(getattr(sets.parts, part)) for part in sets.parts.__dataclass_fields__}
    checkpoint = Checkpoint(out / f"{name}.checkpoint", key_of(name, recipe, seed, data), every=25)
    net, fitted = learn_lights(name, sets, recipe=recipe, seed=seed, progress=progress, checkpoint=checkpoint)
    save_weights(net, file)
    system = kind(file, score=0.0)
    seen = LightScore.of(system, sets.val.frames)
    tests = (sets.parts.test, sets.parts.other)
    stored = [stored_lights(part, sets.folder, workers=sets.workers, progress=progress) for part in tests]
    card = {
        "name": name,
        **described(system),
        "score": best_score(seen.truth, seen.answers),
        "bytes": file.stat().st_size,
        "world": VERSION,
        "data": data,
        "recipe": recipe_row(recipe.numbers(), seed),
        "training_cpu_minutes": round(fitted.minutes, 1),
        "rendering_cpu_minutes": round(sum(part.minutes for part in (sets.train, sets.val, *stored)), 1),
        "made_with": versions(f"OpenCV {cv2.__version__}"),
        "validation": [round(1 - error, 4) for error in fitted.errors],
        **{what: LightScore.of(system, part.frames).as_dict() for what, part in zip(ABOUT, stored, strict=True)},
    }
    write_card(out, card, page_of(card))
    checkpoint.remove()
    return card


def key_of(name: str, recipe: LightRecipe, seed: int, data: Mapping[str, str]) -> str:
    """A hash of all that decides the weights: recipe, seed, data, the world's code, and the weights to begin with."""
    start = hashlib.sha256(packaged(recipe.start).read_bytes()).hexdigest() if recipe.start else ""
    return digest_of(name, asdict(recipe), seed, data, code_digest(), start)


def described(system: LightDetector) -> dict[str, Any]:
    """Network, output, size and neurons of a detector, which do not depend on its weights."""
    camera = CAMERAS["A"]
    blank = Case("blank", {"camera": Image(np.zeros((camera.height, camera.width, 3), np.uint8))})
    net = system.net(len(KINDS))
    return {
        "network": type(net).__name__,
        "output": {"least_score": LEAST, "overlap": OVERLAP, "most": MOST},
        "parameters": sum(part.numel() for part in net.parameters()),
        "neurons": {name: layout_of(system, blank, counting=rule).neurons for name, rule in COUNTINGS.items()},
    }


def page_of(card: Mapping[str, Any]) -> str:
    """A card as a page of Markdown."""
    recipe, output, kind = card["recipe"], card["output"], lights_named(card["name"])
    rows = {
        "file": f"`{card['name']}.safetensors`, {card['bytes'] / 1e6:.1f} MB, half precision on disk, float32 at run time",
        "input": "`camera`, one picture of any size",
        "output": f"boxes of heads with their state: {', '.join(KINDS)}; at most {output['most']}, none of one state "
        f"with an IoU above {output['overlap']}",
        "boxes reported": f"from a score of {card['score']:.2f} unless `score` is given, the best F1 on validation frames",
        "network": f"`{card['network']}`, {card['parameters']:,} parameters, normalisation folded into the convolutions",
        "neurons": ", ".join(f"{count:,} ({name})" for name, count in card["neurons"].items()),
        "data": f"`world-lights` in all conditions, embedded world, version {card['world']}; no two sets share a design",
        **card["data"],
        "recipe": ", ".join(f"{name} {value}" for name, value in recipe.items()),
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "mAP on validation frames, pass by pass": ", ".join(f"{number:.3f}" for number in card["validation"]),
        "rendering": f"{card['rendering_cpu_minutes']} CPU minutes, once for all four detectors",
        "made with": card["made_with"],
    }
    about = f"{(kind.__doc__ or '').split(chr(10))[0]} It exists to be tested. It must not drive anything."
    return card_page(card["name"], about, rows, measured=_measured(card), limits=LIMITS)


def _measured(card: Mapping[str, Any]) -> str:
    scores = [card[what] for what in ABOUT]
    lines = [("all", "", *(_cell(score["map"], score["map50"]) for score in scores))]
    lines += [(kind, "", *(_cell(score["kinds"][kind]) for score in scores)) for kind in KINDS]
    lines.append(("the three colours", "", *(_cell(_of_colours(score["kinds"])) for score in scores)))
    for size in SIZES:
        of = [score["sizes"][size] for score in scores]
        lines.append((size, " / ".join(str(each["heads"]) for each in of), *(_cell(e["map"], e["map50"]) for e in of)))
    lines.append(("state ignored", "", *(_cell(score["any_state"]) for score in scores)))
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    goal = goal_of(card["name"])
    reached = [_reached(card["held_out"]["map"], least) for least in (goal, BEST)]
    counts = " and ".join(
        f"{s['pictures']} frames of {place} with {s['heads']} heads" for s, place in zip(scores, ABOUT.values(), strict=True)
    )
    return MEASURED.format(
        table=table, counts=counts, goal=goal, best=BEST, reached=reached, seconds=card["held_out"]["cpu_seconds"]
    )


def _reached(score: float | None, goal: float) -> str:
    return "is reached" if score is not None and score >= goal else "is **not** reached"


def _of_colours(kinds: Mapping[str, float | None]) -> float | None:
    """The mean precision of the states that a data set of photographs has."""
    known = [kinds[kind] for kind in COLOURS]
    found = [precision for precision in known if precision is not None]
    return sum(found) / len(found) if found else None


def _cell(*numbers: float | None) -> str:
    return " / ".join("" if number is None else f"{number:.3f}" for number in numbers)


MEASURED = """mAP@[.50:.95] / mAP@.5 on held-out {counts}, whose short side has at least 8 pixels; others count neither way.

| heads | number, A / B | streets A | streets B |
|---|--:|--:|--:|
{table}

The goal on streets A, an mAP of {goal:.2f}, {reached[0]}; that for the best of the four detectors, {best:.2f}, {reached[1]}.
A size is that of the short side; answers that are further off than a quarter are left out there. The best pass was chosen by
validation; held-out frames were scored once, with the file above.
A picture of 960 × 540 takes {seconds} seconds of CPU on one thread."""
LIMITS = (
    "Junctions of one renderer; the score says nothing about photographs.",
    "Streets B differ in heads, street furniture and camera; nothing of them was trained on.",
)


def light_cards(folder: Path = PACKAGED) -> dict[str, dict[str, Any]]:
    """The cards of the light detectors in a folder, by name, in the zoo's order."""
    return read_cards(folder, LIGHTS)


def describe_lights(score: Mapping[str, Any]) -> str:
    """A score as one line."""
    return f"held-out mAP {score['map']:.3f}, at an IoU of 0.5 {score['map50']:.3f}"
