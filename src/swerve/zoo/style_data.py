"""Pictures of two kinds to learn a translation from: any two sources, brought to one size and split without leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.case import Source
from swerve.core.errors import InputError, NotApplicable, SwerveError
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.transformations.photometric import images_of
from swerve.zoo.style_learn import PictureSets

HELD = 0.15  # share of the groups that are measured with, and not learnt from
MOST_HELD = 40  # pictures: more do not change the measured numbers much
FEWEST = 8  # pictures of each kind


@dataclass(frozen=True)
class PictureSize:
    """The size that pictures are brought to, and how many of each source are taken at most."""

    width: int = 128
    height: int = 72
    most: int = 600


def picture_sets(source: Source, target: Source, size: PictureSize, *, seed: int = 0, progress: Progress) -> PictureSets:
    """The pictures of both sources; those held out for measuring belong to other groups than the rest."""
    ours, our_held = _pictures(source, size, seed, progress, "reading the source")
    theirs, their_held = _pictures(target, size, seed, progress, "reading the target")
    return PictureSets(ours, theirs, our_held, their_held)


def _pictures(source: Source, size: PictureSize, seed: int, progress: Progress, stage: str) -> tuple[Array, Array]:
    keys = _spread(list(source.keys()), size.most)
    progress.begin(stage, len(keys))
    found: list[Array] = []
    groups: list[str] = []
    for key in keys:
        try:
            case = source[key]
        except SwerveError:
            continue  # a source counts its unreadable cases itself
        finally:
            progress.advance(1, 0)
        image = next(images_of(case), None)
        if image is None:
            raise InputError(f"{key}: the case has no picture, so no translation can be learnt from it")
        found.append(fitted(image.pixels, size.width, size.height))
        groups.append(case.group or key)
    if len(found) < FEWEST:
        raise InputError(f"a source has {len(found)} readable pictures; at least {FEWEST} of each kind are needed")
    return _split(np.stack(found), groups, seed)


def _spread(keys: Sequence[str], most: int) -> Sequence[str]:
    """At most so many keys, evenly spread."""
    if len(keys) <= most:
        return keys
    return [keys[place * len(keys) // most] for place in range(most)]


def _split(pictures: Array, groups: Sequence[str], seed: int) -> tuple[Array, Array]:
    """Pictures to learn from and to measure with; where there is one group only, its last part is held out."""
    names = sorted(set(groups))
    if len(names) == 1:
        first = min(len(pictures) - 1, round(len(pictures) * (1 - HELD)))
        return pictures[:first], pictures[first:][:MOST_HELD]
    order = rng_for(seed, "held-out groups").permutation(len(names))
    chosen = {names[place] for place in order[: max(1, round(HELD * len(names)))]}
    held = np.array([group in chosen for group in groups])
    return pictures[~held], pictures[held][:MOST_HELD]


def fitted(pixels: Array, width: int, height: int) -> Array:
    """The middle of a picture in the shape of `width` by `height`, in that size."""
    rows, columns = pixels.shape[:2]
    if not rows or not columns:
        raise NotApplicable("the picture is empty")
    scale = max(width / columns, height / rows)
    wide, high = min(columns, round(width / scale)), min(rows, round(height / scale))
    left, top = (columns - wide) // 2, (rows - high) // 2
    part = pixels[top : top + high, left : left + wide]
    shrinks = wide > width
    return cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
