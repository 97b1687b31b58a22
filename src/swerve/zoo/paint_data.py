"""ObjectWindows of labelled pictures around their objects, to learn from how a map of classes looks as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from swerve.core.case import Case, Source
from swerve.core.errors import InputError, NotApplicable, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.explain.heat import picture_of
from swerve.sources.subset import Subset
from swerve.transformations.frame_objects import FrameObject, classes_of, frame_objects
from swerve.transformations.object_choice import LEAST
from swerve.translation.label_window import UNLABELLED, LabelWindow, renumbered, square_around, window
from swerve.world.source import DAY, World

DRIVES, FRAMES, APART = 160, 3, 120  # of the embedded world: drives, frames of each, spread over so many
HELD = 0.15  # share of the groups that are measured with, and not learnt from
FEWEST = 8  # windows


@dataclass(frozen=True, eq=False)
class ObjectWindows:
    """Windows of one size: pictures, classes and instances, with the number and the kind of the object each is around."""

    pixels: Array
    classes: Array
    instances: Array
    number: Array
    kind: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pixels)

    def at(self, place: int) -> LabelWindow:
        """One window."""
        return LabelWindow(self.pixels[place], self.classes[place], self.instances[place])

    def some(self, places: Sequence[int] | Array) -> ObjectWindows:
        """Some of the windows."""
        pixels, classes, instances, number = (
            part[places] for part in (self.pixels, self.classes, self.instances, self.number)
        )
        return ObjectWindows(pixels, classes, instances, number, tuple(self.kind[place] for place in places))


@dataclass(frozen=True, eq=False)
class WindowSets:
    """ObjectWindows to learn from and to measure with, of different drives, and the names of their classes."""

    train: ObjectWindows
    held: ObjectWindows
    classes: tuple[str, ...]


def world_frames(drives: int = DRIVES) -> Source:
    """Frames of the embedded world in different daylight, with what windows need."""
    world = World(drives, APART, split="train", conditions=DAY, labels=("masks", "classes"), seed=200)
    return Subset(world, FRAMES * drives)


def window_sets(source: Source, *, side: int, seed: int = 0, progress: Progress) -> WindowSets:
    """The windows around the objects of a source whose cases have instance masks and classes."""
    keys = list(source.keys())
    progress.begin("reading the source", len(keys))
    names: dict[str, int] = {UNLABELLED: 0}
    found: list[tuple[str, LabelWindow, FrameObject]] = []
    for key in keys:
        try:
            case = source[key]
            found += [(case.group or key, *one) for one in _windows(case, names, side)]
        except NotApplicable as why:
            raise InputError(f"{key}: {why}") from why
        except UnreadableCase:
            continue  # a source counts its unreadable cases itself
        finally:
            progress.advance(1, 0)
    if len(found) < FEWEST:
        raise InputError(f"the source has {len(found)} objects that are large enough; at least {FEWEST} are needed")
    whole = ObjectWindows(
        np.stack([one.pixels for _, one, _ in found]),
        np.stack([one.classes for _, one, _ in found]).astype(np.uint8),
        np.stack([one.instances for _, one, _ in found]),
        np.array([item.number for *_, item in found]),
        tuple(item.kind for *_, item in found),
    )
    held = _held([group for group, *_ in found], seed)
    return WindowSets(whole.some(np.flatnonzero(~held)), whole.some(np.flatnonzero(held)), tuple(names))


def _windows(case: Case, names: dict[str, int], side: int) -> Iterator[tuple[LabelWindow, FrameObject]]:
    """The windows of a case; names of classes that are new are added to `names`."""
    pixels, seen, labelled = picture_of(case).pixels, frame_objects(case), classes_of(case)
    for number in np.unique(labelled.numbers).tolist():
        names.setdefault(labelled.names.get(number, UNLABELLED), len(names))
    if len(names) > 255:
        raise InputError(f"{case.key}: the source has more than 255 classes")
    classes = renumbered(labelled, tuple(names))
    for item in seen.items:
        if min(item.size) >= LEAST * seen.width:
            yield window(pixels, classes, seen.labelled, square_around(item.span), side), item


def _held(groups: Sequence[str], seed: int) -> Array:
    """Which windows are held out: those of some groups, or the last ones where there is one group only."""
    names = sorted(set(groups))
    if len(names) == 1:
        return np.arange(len(groups)) >= round(len(groups) * (1 - HELD))
    order = rng_for(seed, "held-out groups").permutation(len(names))
    chosen = {names[place] for place in order[: max(1, round(HELD * len(names)))]}
    return np.array([group in chosen for group in groups])
