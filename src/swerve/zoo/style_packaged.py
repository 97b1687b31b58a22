"""Trains the packaged styles, each from pairs of rendered frames, and measures them against rendered conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.translation.edges import edge_correlation, overlap
from swerve.translation.generator import Generator
from swerve.translation.packaged import STYLES, UNIT_SUFFIX
from swerve.translation.scene_reader import SceneReader, scene_reader
from swerve.translation.translator import MUNIT, UNIT
from swerve.world.source import DAY
from swerve.zoo.style_frames import PairedFrames, StyleFrames
from swerve.zoo.style_learn import PAIRED, has_fast_bfloat16
from swerve.zoo.style_train import Named, train_style

PACKAGED: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(STYLES, MUNIT), **{f"{name}{UNIT_SUFFIX}": UNIT for name in STYLES}}
)
DRAWS = 4  # styles for every place
KEPT = 0.9  # overlap of the road before and after, as the field uses it


def train_packaged(
    name: str, out: Path, frames: StyleFrames, *, seed: int = 7, progress: Progress | None = None
) -> dict[str, Any]:
    """Train one translator; writes its weights, card and sheet to `out`."""
    style, kind = name.removesuffix(UNIT_SUFFIX), PACKAGED[name]
    recipe = replace(PAIRED[kind], mixed=has_fast_bfloat16())
    more = partial(scores_on_world, frames=frames.test, style=style, reader=scene_reader())
    named = Named(name, "world", f"world:{style}")
    return train_style(named, out, frames.sets(style), recipe=recipe, seed=seed, progress=progress, more=more)


def scores_on_world(generator: Generator, frames: PairedFrames, style: str, reader: SceneReader) -> dict[str, float]:
    """What a translator does to frames of the world, beside what rendering the same places in that condition does."""
    ours, theirs = frames.pictures[DAY], frames.pictures[style]
    draws = DRAWS if generator.numbers else 1
    vectors = rng_for(0, "styles of a card").standard_normal((len(ours), draws, generator.numbers))
    pairs = [(pixels, vector) for pixels, some in zip(ours, vectors, strict=True) for vector in some]
    translated = [generator.translated(pixels, vector.tolist()) for pixels, vector in pairs]
    before = [pixels for pixels, _ in pairs]
    return {
        "intended": _share(name == style for name in reader.conditions(translated)),
        "intended_rendered": _share(name == style for name in reader.conditions(list(theirs))),
        "edges_of_rendered": _share(edge_correlation(*pair) for pair in zip(ours, theirs, strict=True)),
        "road_kept": road_kept(reader, before, translated),
        "road_kept_rendered": road_kept(reader, list(ours), list(theirs)),
    }


def road_kept(reader: SceneReader, before: Sequence[Array], after: Sequence[Array]) -> float:
    """The share of pictures in which the reader sees the road where it saw it before."""
    pairs = zip(reader.roads(before), reader.roads(after), strict=True)
    return _share(found >= KEPT for pair in pairs if (found := overlap(*pair)) is not None)


def _share(numbers: Any) -> float:
    return round(float(np.mean([float(number) for number in numbers])), 4)
