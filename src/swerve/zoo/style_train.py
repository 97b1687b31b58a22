"""Trains translators and writes them with a card and a sheet of samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.store.files import png_bytes, write_whole
from swerve.train.card import card_page, recipe_row, versions, write_card
from swerve.train.loop import Checkpoint
from swerve.translation.generator import About, Generator, file_bytes, read_generator
from swerve.translation.looks import look_distance
from swerve.translation.translator import Translator
from swerve.zoo.style_learn import PictureSets, StyleRecipe, edges_kept, learn_style

STYLES = 4  # shown on a sheet
ROWS = 8


@dataclass(frozen=True)
class Named:
    """What a translation is called, and what it is from and to."""

    name: str
    source: str
    target: str


def train_style(
    named: Named,
    out: Path,
    sets: PictureSets,
    *,
    recipe: StyleRecipe,
    seed: int = 7,
    progress: Progress | None = None,
    more: Callable[[Generator], Mapping[str, float]] = lambda _: {},
) -> dict[str, Any]:
    """Train a translator; writes `NAME.safetensors`, its card, measured on that very file, and `NAME.png` to `out`.

    The sheet is written after every pass, too. `more` measures what else the card should state. While it trains, its state
    is in `NAME.checkpoint`: a training that was stopped goes on from there.
    """
    data = [hashlib.sha256(getattr(sets, name).tobytes()).hexdigest() for name in sets.__dataclass_fields__]
    checkpoint = Checkpoint(out / f"{named.name}.checkpoint", digest_of(asdict(named), asdict(recipe), seed, data))
    about = About(recipe.kind, recipe.design, recipe.width, recipe.height, named.name, named.source, named.target)

    def show(net: Translator) -> None:
        sheet = sample_sheet(Generator(deepcopy(net).cpu(), about), sets)
        write_whole(out / f"{named.name}.png", png_bytes(sheet))

    learnt = learn_style(sets, recipe, seed=seed, progress=progress, checkpoint=checkpoint, watch=show)
    content = file_bytes(learnt.net, about)
    write_whole(out / f"{named.name}.safetensors", content)
    generator = read_generator(content, named.name)
    card = {
        **asdict(named),
        "kind": recipe.kind,
        "parameters": sum(part.numel() for part in learnt.net.parameters()),
        "bytes": len(content),
        "pictures": {name: len(getattr(sets, name)) for name in sets.__dataclass_fields__},
        "recipe": recipe_row({**asdict(recipe), "design": asdict(recipe.design)}, seed),
        "training_cpu_minutes": round(learnt.minutes, 1),
        "made_with": versions(),
        "held_out": {**measured(generator, sets), **more(generator)},
    }
    write_card(out, card, page_of(card))
    show(generator.net)
    checkpoint.remove()
    return card


def measured(generator: Generator, sets: PictureSets) -> dict[str, float]:
    """How translations of held-out pictures look, and what they keep of the road.

    `MEANING` tells what each number is.
    """
    styles = _styles(generator, 2 * len(sets.val_source))
    first, second = (
        np.stack([generator.translated(pixels, style) for pixels, style in zip(sets.val_source, half, strict=True)])
        for half in (styles[::2], styles[1::2])
    )
    again = np.stack([generator.reconstructed(pixels) for pixels in sets.val_source])
    return {
        "look": round(look_distance(first, sets.val_target), 4),
        "untouched": round(look_distance(sets.val_source, sets.val_target), 4),
        "edges": round(edges_kept(sets.val_source, first), 4),
        "edges_of_reconstruction": round(edges_kept(sets.val_source, again), 4),
        "diversity": round(_difference(first, second), 4),
        "reconstruction": round(_difference(sets.val_source, again), 4),
    }


def _styles(generator: Generator, count: int) -> list[tuple[float, ...]]:
    rows = rng_for(0, "styles of a card").standard_normal((count, generator.numbers))
    return [tuple(map(float, row)) for row in rows]


def _difference(one: Array, two: Array) -> float:
    return float(np.abs(one.astype(np.float32) - two).mean() / 255)


def sample_sheet(generator: Generator, sets: PictureSets) -> Array:
    """Held-out pictures, one a row: as they are, reconstructed, in some styles, and a real picture of the target."""
    styles = _styles(generator, STYLES if generator.numbers else 1)
    count = min(ROWS, len(sets.val_source), len(sets.val_target))
    rows = []
    for pixels, real in zip(sets.val_source[:count], sets.val_target[:count], strict=True):
        shown = [generator.translated(pixels, style) for style in styles]
        rows.append(np.hstack([pixels, generator.reconstructed(pixels), *shown, real]))
    return np.vstack(rows)


def page_of(card: Mapping[str, Any]) -> str:
    """A card as a page of Markdown."""
    held, pictures = card["held_out"], card["pictures"]
    rows = {
        "file": f"`{card['name']}.safetensors`, {card['bytes'] / 1e6:.2f} MB, half precision on disk",
        "kind": f"{card['kind']}, {card['parameters']:,} parameters",
        "from": card["source"],
        "to": card["target"],
        "pictures": ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in pictures.items()),
        "learnt from": PAIRS if card["recipe"]["paired"] else "pictures none of which belong together",
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "made with": card["made_with"],
    }
    numbers = "\n".join(f"| {MEANING[name]} | {value} |" for name, value in held.items())
    measured = f"On held-out pictures, of other groups than those learnt from:\n\n| | |\n|---|--:|\n{numbers}"
    about = f"Translates pictures from {card['source']} to {card['target']}."
    again = f"swerve zoo train {card['name']}" if card["recipe"]["paired"] else f"swerve style train --name {card['name']} …"
    page = card_page(card["name"], about, rows, measured=measured, limits=LIMITS)
    return page.replace(f"swerve zoo train {card['name']}", again)


PAIRS = "pairs: every picture, and the same place rendered in the target's conditions"
MEANING: Mapping[str, str] = {
    "look": "distance of translations from real pictures of the target, in colour and contrast, place by place",
    "untouched": "the same of untranslated pictures",
    "edges": "correlation of the road's edges before and after",
    "edges_of_reconstruction": "the same of reconstructed pictures",
    "diversity": "difference between two random styles of a picture, share of the levels",
    "reconstruction": "difference between pictures and their reconstructions, share of the levels",
    "intended": "share of translations, four styles a place, that the scene reader takes for the intended condition",
    "intended_rendered": "the same of rendered pictures of the condition",
    "edges_of_rendered": "correlation of the road's edges in pictures rendered by day and in the condition",
    "road_kept": "share of translations in which it sees the road where it was (overlap of at least 0.9)",
    "road_kept_rendered": "the same of rendered pictures of the condition",
}
LIMITS = (
    "A translation is a guess by a network: it may invent or lose things. The reconstruction is its control.",
    "It knows pictures like those it learnt from; on others it does something, but nothing that was measured here.",
    "The best pass was chosen by look and edges on the pictures that it is measured with, so both are a little too good.",
)
