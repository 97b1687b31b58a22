"""The objects that a picture shows, each with its mask: of a frame of the embedded world, or of labelled instances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.values import Array, Classes, Masks, SceneRef, find
from swerve.world.objects import objects_of

UNKNOWN = "the case has no instance masks, so its objects are not known"
EDGE = 0.005  # of the width: Cityscapes has no labels in the outermost five of 2048 columns
Span = tuple[int, int, int, int]  # left, top, right, bottom around the visible pixels


@dataclass(frozen=True)
class FrameObject:
    """An object of a picture: its instance number, its kind, where its visible pixels are, and what is known of it."""

    number: int
    kind: str
    span: Span
    pixels: int
    hidden: float | None = None  # the share that other objects hide; None where nobody knows
    metres: float | None = None  # from the camera; None where nobody knows

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the visible part."""
        left, top, right, bottom = self.span
        return right - left, bottom - top

    @property
    def nearness(self) -> float:
        """Smaller for nearer objects of one picture: metres, or else how far the lower edge is from the top."""
        # On level ground an object that reaches further down is nearer.
        return -float(self.span[3]) if self.metres is None else self.metres


@dataclass(frozen=True, eq=False)
class FrameObjects:
    """The objects of a picture, in the order of their numbers, and the number in each pixel."""

    instances: Array
    items: tuple[FrameObject, ...]

    @cached_property
    def numbered(self) -> dict[int, FrameObject]:
        """Every object by its number."""
        return {item.number: item for item in self.items}

    @property
    def width(self) -> int:
        """The width of the picture."""
        return int(self.instances.shape[1])

    @cached_property
    def labelled(self) -> Array:
        """The number of the object in each pixel, 0 for what is not one of the objects."""
        return np.where(np.isin(self.instances, list(self.numbered)), self.instances, 0)

    def mask(self, number: int) -> Array:
        """Which pixels show an object."""
        return np.asarray(self.instances == number)

    def is_cut_off(self, item: FrameObject) -> bool:
        """Whether an object touches an edge of the picture, or the border without objects that rectified pictures have."""
        height, width = self.instances.shape
        left, top, right, bottom = item.span
        return bool(min(left, top, width - right, height - bottom) <= EDGE * width)


def frame_objects(case: Case) -> FrameObjects:
    """The objects of a case's picture, the last of a window; raises `NotApplicable` if they are not known.

    An unchanged frame of the embedded world knows more of its objects than masks say: what hides them, and how far they are.
    """
    masks = find(case.truth, Masks.slot)
    if case.parent is None and find(case.truth, SceneRef.slot) is not None:
        return _of_world(case)
    if isinstance(masks, Masks):
        return FrameObjects(masks.instances, tuple(_labelled(masks.instances, dict(masks.kinds))))
    raise NotApplicable(UNKNOWN)


def classes_of(case: Case) -> Classes:
    """The class of every pixel; raises `NotApplicable` if a case has none."""
    found = find(case.truth, Classes.slot)
    if not isinstance(found, Classes):
        raise NotApplicable(
            'the pixels have no classes: add "classes" to the labels of the world, or classes = true to cityscapes'
        )
    return found


def _of_world(case: Case) -> FrameObjects:
    seen = objects_of(case)
    known = {item.number: item for item in seen.items}
    items = _labelled(seen.things, {number: item.kind for number, item in known.items()})
    metres = {number: float(np.hypot(item.place[0], item.place[1])) for number, item in known.items()}
    own = (replace(item, hidden=known[item.number].hidden, metres=metres[item.number]) for item in items)
    return FrameObjects(seen.things, tuple(own))


def _labelled(instances: Array, kinds: dict[int, str]) -> Iterator[FrameObject]:
    """The visible ones of the numbered objects."""
    from scipy.ndimage import find_objects  # takes 0.2 s to import

    pixels, spans = np.bincount(instances.ravel()), find_objects(instances)
    for number in sorted(kinds):
        span = spans[number - 1] if 0 < number <= len(spans) else None
        if span is not None:
            rows, columns = span
            edges = columns.start, rows.start, columns.stop, rows.stop
            yield FrameObject(number, kinds[number], edges, int(pixels[number]))
