"""Pictures of two kinds to learn a translation from: any two sources, brought to one size and split without leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.case import Case, Source
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
    ours, our_held = _pictures(source, size, seed, progress, "the source")
    theirs, their_held = _pictures(target, size, seed, progress, "the target")
    return PictureSets(ours, theirs, our_held, their_held)


def paired_sets(source: Source, target: Source, size: PictureSize, *, seed: int = 0, progress: Progress) -> PictureSets:
    """The pictures that both sources have under one key, which show the same place; both are split alike."""
    others = {*target.keys()}
    keys = [key for key in source.keys() if key in others]
    if not keys:
        raise InputError(
            "--paired: the sources have no key in common; pictures of the same place must have the same name in both"
        )
    read = _Reader(size, progress)
    progress.begin("reading pairs", min(len(keys), size.most))
    pairs = [pair for key in _spread(keys, size.most) if None not in (pair := (read(source, key), read(target, key)))]
    _require(len(pairs), "sources", "pairs")
    groups = [ours.group for ours, _ in pairs if ours]
    halves = (np.stack([item.pixels for item in side if item]) for side in zip(*pairs, strict=True))
    (ours, our_held), (theirs, their_held) = (_split(pictures, groups, seed) for pictures in halves)
    return PictureSets(ours, theirs, our_held, their_held)


@dataclass(frozen=True)
class _Read:
    pixels: Array
    group: str


@dataclass(frozen=True)
class _Reader:
    size: PictureSize
    progress: Progress

    def __call__(self, source: Source, key: str) -> _Read | None:
        """The picture of a case in the size asked for; None for one that cannot be read."""
        try:
            case = source[key]
        except SwerveError:
            return None  # a source counts its unreadable cases itself
        finally:
            self.progress.advance(1, 0)
        image = next(images_of(case), None)
        if image is None:
            raise InputError(f"{key}: the case has no picture, so no translation can be learnt from it")
        return _Read(fitted(image.pixels, self.size.width, self.size.height), case.group or key)


def _pictures(source: Source, size: PictureSize, seed: int, progress: Progress, name: str) -> tuple[Array, Array]:
    keys = _spread(list(source.keys()), size.most)
    progress.begin(f"reading {name}", len(keys))
    read = _Reader(size, progress)
    found = [item for key in keys if (item := read(source, key))]
    _require(len(found), name, "readable pictures")
    return _split(np.stack([item.pixels for item in found]), [item.group for item in found], seed)


def _require(count: int, where: str, what: str) -> None:
    if count < FEWEST:
        raise InputError(f"{where}: {what}: {count}; at least {FEWEST} are needed")


def size_note(source: Source, target: Source, size: PictureSize) -> str:
    """A sentence about pictures that have other shapes in both sources; empty if they have one."""
    shapes = [_shape(source[source.keys()[0]]), _shape(target[target.keys()[0]])]
    if None in shapes or len(set(shapes)) == 1:
        return ""
    ours, theirs = (f"{width}x{height}" for width, height in (shape for shape in shapes if shape))
    return f"the source has pictures of {ours}, the target of {theirs}: their middle is cut to {size.width}:{size.height}"


def _shape(case: Case) -> tuple[int, int] | None:
    image = next(images_of(case), None)
    return image.size if image else None


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
