"""Trains painters and writes them with a card and a sheet of samples."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.asset import Asset
from swerve.core.seeding import digest_of
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.store.files import png_bytes, write_whole
from swerve.train.card import card_page, recipe_row, versions, write_card
from swerve.train.loop import Checkpoint
from swerve.translation.label_window import OWN
from swerve.translation.packaged import PAINTER
from swerve.translation.painting import PainterAbout, Painting, painter_bytes, painting_of, read_painting
from swerve.zoo.object_kinds import KindScore, score_kinds
from swerve.zoo.paint_data import ObjectWindows, WindowSets
from swerve.zoo.paint_learn import PainterRecipe, learn_painter, looks_of

OBJECTS, ACROSS, SHOWN = 30, 3, 2  # of a sheet: objects, as many of them side by side, and other looks of each


def train_painter(
    name: str,
    source: str,
    out: Path,
    sets: WindowSets,
    *,
    recipe: PainterRecipe,
    seed: int = 7,
    start: Asset | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train a painter, or train `start` further.

    Writes `NAME.safetensors`, its card, measured on that very file, and `NAME.png` to `out`.

    While it trains, its state is in `NAME.checkpoint`: a training that was stopped goes on from there.
    """
    data = [hashlib.sha256(part.pixels.tobytes() + part.classes.tobytes()).hexdigest() for part in (sets.train, sets.held)]
    begun, first = (start.sha256, painting_of(start)) if start else ("", None)
    recipe = recipe.further(first) if first else recipe
    key = digest_of(name, asdict(recipe), seed, data, sets.classes, begun)
    checkpoint = Checkpoint(out / f"{name}.checkpoint", key)
    net, fitted = learn_painter(sets, recipe, seed=seed, start=first, progress=progress, checkpoint=checkpoint)
    looks = looks_of(net, sets.train, len(sets.classes), seed=seed)
    content = painter_bytes(net, PainterAbout(name, net.design, recipe.side, sets.classes, looks, source))
    write_whole(out / f"{name}.safetensors", content)
    painting = read_painting(content, name)
    card = {
        "name": name,
        "source": source,
        "begun_with": f"{first.about.name}, SHA-256 {begun}" if first else "new weights",
        "parameters": sum(part.numel() for part in net.parameters()),
        "bytes": len(content),
        "classes": list(sets.classes),
        "windows": {"train": len(sets.train), "held_out": len(sets.held)},
        "looks": {kind: len(rows) for kind, rows in looks.items()},
        "recipe": recipe_row(asdict(recipe), seed),
        "training_cpu_minutes": round(fitted.minutes, 1),
        "validation": [round(error, 4) for error in fitted.errors],
        "made_with": versions(),
        "held_out": measured(painting, sets, seed=seed),
    }
    write_card(out, card, page_of(card))
    write_whole(out / f"{name}.png", png_bytes(sample_sheet(painting, sets.held)))
    checkpoint.remove()
    return card


def measured(painting: Painting, sets: WindowSets, *, seed: int) -> dict[str, Any]:
    """How held-out objects are drawn: as they are and in another look; `MEANING` tells what each number is."""
    held = known(painting, sets.held)
    own = [drawn_object(painting, held, place, OWN) for place in range(len(held))]
    other = [drawn_object(painting, held, place, other_look(painting, held, place)) for place in range(len(held))]
    return {
        "own_look": _apart(held, own),
        "other_look": _apart(held, other),
        "recognised": asdict(recognised(sets, held, other, seed=seed)),
    }


def recognised(sets: WindowSets, held: ObjectWindows, drawn: list[Array], *, seed: int) -> KindScore:
    """How often a classifier that has learnt real objects knows the kind of drawn ones, and of others for comparison."""
    return score_kinds(sets.train, held, np.stack(drawn), seed=seed)


def known(painting: Painting, windows: ObjectWindows) -> ObjectWindows:
    """The windows whose kind the painter can draw."""
    return windows.some([place for place, kind in enumerate(windows.kind) if kind in painting.about.looks])


def other_look(painting: Painting, held: ObjectWindows, place: int) -> int:
    """A look that is not the object's own, the same one every time."""
    able = painting.others(held.at(place), int(held.number[place]), held.kind[place])
    return able[place % len(able)]


def drawn_object(painting: Painting, held: ObjectWindows, place: int, look: int) -> Array:
    """A window with its object drawn, and everything else as it is."""
    one, number = held.at(place), int(held.number[place])
    drawn = painting.drawn(one, number, held.kind[place], look)
    return np.where((one.instances == number)[..., None], drawn, one.pixels)


def _apart(held: ObjectWindows, drawn: list[Array]) -> float:
    """The mean difference of an object's pixels, in shares of the levels."""
    shares = []
    for place, pixels in enumerate(drawn):
        inside = held.instances[place] == held.number[place]
        shares.append(np.abs(pixels[inside].astype(float) - held.pixels[place][inside]).mean() / 255)
    return round(float(np.mean(shares)), 4)


def sample_sheet(painting: Painting, held: ObjectWindows) -> Array:
    """Held-out objects, three a row: each as it is, drawn as it is, and in two other looks."""
    held = known(painting, held)
    parts = []
    for place in np.linspace(0, len(held) - 1, min(OBJECTS, len(held))).astype(int).tolist():
        able = painting.others(held.at(place), int(held.number[place]), held.kind[place])
        looks = (OWN, *(able[number % len(able)] for number in range(SHOWN)))
        shown = [drawn_object(painting, held, place, look) for look in looks]
        parts.append(np.hstack([held.pixels[place], *shown]))
    parts += [np.zeros_like(parts[0])] * (-len(parts) % ACROSS)
    return np.vstack([np.hstack(parts[start : start + ACROSS]) for start in range(0, len(parts), ACROSS)])


def page_of(card: Mapping[str, Any]) -> str:
    """A card as a page of Markdown."""
    held = card["held_out"]
    found = held["recognised"]
    rows = {
        "file": f"`{card['name']}.safetensors`, {card['bytes'] / 1e6:.2f} MB, half precision on disk",
        "network": f"pix2pixHD, {card['parameters']:,} parameters",
        "source": card["source"],
        "begun with": card["begun_with"],
        "classes": ", ".join(card["classes"]),
        "windows": ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in card["windows"].items()),
        "looks": ", ".join(f"{kind} {count}" for kind, count in card["looks"].items()),
        "recipe": ", ".join(f"{name} {value}" for name, value in card["recipe"].items()),
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "made with": card["made_with"],
    }
    numbers = [(MEANING[name], held[name]) for name in ("own_look", "other_look")]
    numbers += [(MEANING[name], f"{found[name]:.0%}") for name in ("real", "drawn", "flat", "chance")]
    table = "\n".join(f"| {title} | {value} |" for title, value in numbers)
    measured = f"On {found['count']} held-out objects, of other drives than those learnt from:\n\n| | |\n|---|--:|\n{table}"
    about = "Draws objects from maps of classes and outlines, in the looks that it has learnt."
    page = card_page(card["name"], about, rows, measured=measured, limits=LIMITS)
    return page if card["name"] == PAINTER else page.replace("swerve zoo train", "swerve translate train --name")


MEANING: Mapping[str, str] = {
    "own_look": "difference between an object and itself drawn in its own look, share of the levels",
    "other_look": "the same in another look",
    "real": "real objects whose kind a classifier knows, which has learnt from real ones",
    "drawn": "objects drawn in another look whose kind it knows",
    "flat": "objects filled with their mean colour whose kind it knows: what the outline alone tells",
    "chance": "the share of the most frequent kind",
}
LIMITS = (
    "A drawn object is a guess by a small network; its outline, place and class are those of the real one.",
    "It knows maps like those it learnt from; on others it draws something, but nothing that was measured here.",
)
