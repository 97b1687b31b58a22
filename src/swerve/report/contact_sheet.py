"""Contact sheets: many frames on one picture, to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import cv2
import numpy as np

from swerve.core.values import Array, Image

GAP = 4  # pixels between frames
PAPER = 24  # grey level behind them
LINE = 16  # pixels of a heading


def contact_sheet(rows: Iterable[Sequence[Array]], headings: Sequence[str] = ()) -> Array:
    """Rows of equally large frames as one picture, with a heading above each column."""
    strips = [_strip(row) for row in rows]
    top = [_headings(headings, strips[0].shape[1])] if headings else []
    space = np.full((GAP, strips[0].shape[1], 3), PAPER, np.uint8)
    return np.vstack([part for strip in [*top, *strips] for part in (strip, space)][:-1])


def _strip(frames: Sequence[Array]) -> Array:
    space = np.full((frames[0].shape[0], GAP, 3), PAPER, np.uint8)
    return np.hstack([part for frame in frames for part in (frame, space)][:-1])


def _headings(names: Sequence[str], width: int) -> Array:
    line = np.full((LINE, width, 3), PAPER, np.uint8)
    for number, name in enumerate(names):
        at = (number * (width + GAP) // len(names) + 2, LINE - 5)
        cv2.putText(line, name, at, cv2.FONT_HERSHEY_SIMPLEX, 0.4, (230, 230, 230), 1, cv2.LINE_AA)
    return line


def world_sheet(
    scenes: int, names: Sequence[str], *, width: int = 240, split: str = "test", seed: int = 0,
    progress: Callable[[Sequence[str]], Iterable[str]] = iter,
) -> Array:  # fmt: skip
    """The embedded world: one row per scene, one column per named conditions."""
    from swerve.world.source import World

    size = {"width": 2 * width, "height": 2 * (width * 9 // 16)}
    worlds = [World(drives=scenes, split=split, conditions=name, seed=seed, **size) for name in names]  # type: ignore[arg-type]
    keys = worlds[0].keys()
    return contact_sheet(([_half(world[key].inputs["camera"]) for world in worlds] for key in progress(keys)), names)


def _half(value: object) -> Array:
    assert isinstance(value, Image)
    wide, high = value.size
    return cv2.resize(value.pixels, (wide // 2, high // 2), interpolation=cv2.INTER_AREA)
