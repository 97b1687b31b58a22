"""Trains the scene reader on rendered conditions whose brightness and colours are drawn anew in every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.store.files import write_whole
from swerve.train.card import card_page, recipe_row, versions, write_card
from swerve.train.loop import Checkpoint, Recipe, Task, fit, shuffled
from swerve.translation.edges import overlap
from swerve.translation.scene_reader import READER, SceneReader, SceneReaderNet, read_reader, reader_bytes
from swerve.translation.translator import pictures_of
from swerve.zoo.style_frames import CONDITIONS, PairedFrames, StyleFrames
from swerve.zoo.style_weather import RANGES

RECIPE = Recipe(passes=30, batch=16, rate=4e-3, decay=1e-4, patience=30, one_cycle=True)
KINDS = tuple(RANGES)
UNNAMED = -100  # by day, which is sunshine or overcast: such pictures teach the road alone
EQUAL = 0.5  # share of the pictures whose brightness says nothing of their conditions
MEANS, GAMMAS, TINTS = (0.15, 0.55), (0.7, 1.4), (0.85, 1.15)  # mean level, exponent, factor of a channel
HALF = slice(1, None, 2)


@dataclass(frozen=True, eq=False)
class ReaderSamples:
    """Pictures of all conditions in equal numbers, with the number of their kind, and the road at half the size."""

    pixels: Array
    kinds: Array
    roads: Array

    @classmethod
    def of(cls, frames: PairedFrames) -> ReaderSamples:
        """Those of some frames."""
        count, halved = len(frames.road), frames.road[:, HALF, HALF]
        pixels = np.concatenate([frames.pictures[name] for name in CONDITIONS])
        kinds = [KINDS.index(name) if name in KINDS else UNNAMED for name in CONDITIONS]
        return cls(pixels, np.repeat(kinds, count), np.concatenate([halved] * len(CONDITIONS)))


def varied_light(pixels: Array, rng: np.random.Generator) -> Tensor:
    """Pictures with another exposure, contrast and tint; for half of them, the mean level does not depend on conditions."""
    changed = [cv2.LUT(picture, _curve(float(picture.mean()) / 255, rng)) for picture in pixels]
    return pictures_of(torch.from_numpy(np.stack(changed)))


def _curve(mean: float, rng: np.random.Generator) -> Array:
    """New levels for the 256 of each channel of a picture with a mean level."""
    gamma = rng.uniform(*GAMMAS)
    wanted, free = rng.uniform(*MEANS) / max(mean**gamma, 0.01), np.exp(rng.normal(0, 0.2))
    gain = (wanted if rng.random() < EQUAL else free) * rng.uniform(*TINTS, 3)
    levels = (np.arange(256)[:, None] / 255) ** gamma * gain
    curve: Array = (levels.clip(0, 1) * 255).round().astype(np.uint8)[None]
    return curve


@dataclass(frozen=True, eq=False)
class _ReaderLoss:
    net: SceneReaderNet
    samples: ReaderSamples
    rng: np.random.Generator

    def __call__(self, chosen: Array) -> Tensor:
        pictures, samples = varied_light(self.samples.pixels[chosen], self.rng), self.samples
        roads = torch.from_numpy(samples.roads[chosen]).float()
        if self.rng.random() < 0.5:
            pictures, roads = pictures.flip(3), roads.flip(2)
        road, kind = self.net(pictures)
        seen = functional.binary_cross_entropy_with_logits(road, roads)
        kinds = samples.kinds[chosen]
        wrong = functional.cross_entropy(kind, torch.from_numpy(kinds), ignore_index=UNNAMED, reduction="sum")
        return seen + wrong / max(1, int((kinds != UNNAMED).sum()))


def train_reader(
    out: Path, frames: StyleFrames, *, recipe: Recipe = RECIPE, seed: int = 7, progress: Progress | None = None
) -> dict[str, Any]:
    """Train the network; writes `scene-reader.safetensors` and its card to `out`."""
    samples, rng = ReaderSamples.of(frames.train), rng_for(seed, READER)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = SceneReaderNet(len(KINDS))
    reader = SceneReader(net, KINDS)
    task = Task(
        shuffled(len(samples.kinds), recipe.batch, rng), _ReaderLoss(net, samples, rng), lambda: _error(reader, frames)
    )
    checkpoint = Checkpoint(out / f"{READER}.checkpoint", digest_of(asdict(recipe), seed, len(samples.kinds)))
    fitted = fit(net, task, recipe, rng=rng, progress=progress, checkpoint=checkpoint)
    content = reader_bytes(reader)
    write_whole(out / f"{READER}.safetensors", content)
    card = {
        "name": READER,
        "bytes": len(content),
        "conditions": list(KINDS),
        "pictures": {"train": len(samples.kinds), "held out": len(CONDITIONS) * len(frames.test.road)},
        "recipe": recipe_row(asdict(recipe), seed),
        "training_cpu_minutes": round(fitted.minutes, 1),
        "made_with": versions(),
        "held_out": reader_scores(read_reader(content, READER), frames.test),
    }
    write_card(out, card, _page(card))
    checkpoint.remove()
    return card


def _error(reader: SceneReader, frames: StyleFrames) -> float:
    """Wrong conditions and wrong road of the held-out pictures, under other light than they were rendered with."""
    reader.net.eval()
    scores = reader_scores(reader, frames.test)
    return (1 - float(scores["conditions_relit"])) + (1 - float(scores["road_overlap"]))


def reader_scores(reader: SceneReader, frames: PairedFrames) -> dict[str, float]:
    """How often it names the conditions of pictures, also at one mean level for all, and how well it sees the road."""
    samples = ReaderSamples.of(frames)
    level = [_at_level(pixels, 0.3) for pixels in samples.pixels]
    roads = reader.roads(list(samples.pixels))
    overlaps = [found for pair in zip(samples.roads, roads, strict=True) if (found := overlap(*pair)) is not None]
    named = {
        "conditions": _right(reader.conditions(list(samples.pixels)), samples),
        "conditions_relit": _right(reader.conditions(level), samples),
    }
    return {**named, "road_overlap": round(float(np.mean(overlaps)), 4)}


def _right(named: Sequence[str], samples: ReaderSamples) -> float:
    pairs = [(name, kind) for name, kind in zip(named, samples.kinds, strict=True) if kind != UNNAMED]
    return round(float(np.mean([name == KINDS[kind] for name, kind in pairs])), 4)


def _at_level(pixels: Array, level: float) -> Array:
    """The picture with a given mean level."""
    gain = level * 255 / max(1.0, float(pixels.mean()))
    relit: Array = (pixels * gain).clip(0, 255).round().astype(np.uint8)
    return relit


def _page(card: dict[str, Any]) -> str:
    held = card["held_out"]
    rows = {
        "file": f"`{READER}.safetensors`, {card['bytes'] / 1e6:.2f} MB, half precision on disk",
        "conditions": ", ".join(card["conditions"]),
        "pictures": ", ".join(f"{name} {count}" for name, count in card["pictures"].items()),
        "training": f"{card['training_cpu_minutes']} CPU minutes",
        "made with": card["made_with"],
    }
    chance, road = 1 / len(card["conditions"]), held["road_overlap"]
    measured = (
        f"On held-out drives: conditions right in {held['conditions']:.1%}, with all pictures at one mean level in "
        f"{held['conditions_relit']:.1%} (chance: {chance:.1%}); overlap (IoU) of the road {road:.3f}."
    )
    about = "Sees where the road is, and in which conditions a picture of the embedded world was taken."
    return card_page(READER, about, rows, measured=measured, limits=LIMITS)


LIMITS = (
    "A picture by day is sunshine or overcast, so it has no name of its own.",
    "It knows the embedded world alone; on photographs its answers mean nothing.",
    "It names one of its kinds for every picture, so an unnatural one is named, too.",
    "The best pass was chosen on the held-out pictures, so the numbers are a little too good.",
)
