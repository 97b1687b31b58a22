"""Objects cut out of labelled pictures: complete ones, with their masks and the light that they stood in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case
from swerve.core.values import Array, Image
from swerve.explain.heat import picture_of
from swerve.transformations.frame_objects import FrameObject, FrameObjects, Span, frame_objects
from swerve.transformations.object_choice import LEAST

RING = 0.15  # of an object's longer side: how far around it the light is measured
ONE_PIECE = 0.97  # of an object's pixels: the rest may be specks apart from it
DARKEST = 8.0  # grey levels: a darker surrounding has no colour that could be measured


@dataclass(frozen=True, eq=False)
class Cutout:
    """An object of a picture: the rectangle around it, which of its pixels show it, and the colour of what surrounds it."""

    pixels: Array
    mask: Array
    light: tuple[float, float, float]


@dataclass(frozen=True)
class Complete:
    """Which objects are cut out: large, whole and unhidden ones.

    Args:
        least: the smallest width and height: a share of the picture's width, or pixels from 1 on.
        hidden: the largest share that may be hidden, where that is known.
        covered: the largest share of the outline at which a nearer object may touch it.
        solid: the smallest share of its convex hull that an object fills; a pole in front of a car leaves less.
    """

    # IA-8, D-31

    least: float = LEAST
    hidden: float = 0.02
    covered: float = 0.05
    solid: float = 0.75

    def __post_init__(self) -> None:
        check_number("least", self.least, 0)
        for name in ("hidden", "covered", "solid"):
            check_number(name, getattr(self, name), 0, 1)

    def fault(self, item: FrameObject, seen: FrameObjects) -> str:
        """Why an object is not cut out, in a word for a count; empty if it is."""
        limit = self.least if self.least >= 1 else self.least * seen.width
        if min(item.size) < limit:
            return "too small"
        if seen.is_cut_off(item):
            return "cut off by the edge"
        if item.hidden is not None and item.hidden > self.hidden:
            return "hidden"
        mask = within(seen, item.span) == item.number
        if covered_share(item, seen) > self.covered:
            return "hidden"
        return "" if _is_solid(mask, self.solid) else "in pieces"


def cutouts(case: Case, rule: Complete) -> Iterator[tuple[FrameObject, Cutout | str]]:
    """Every object of a case, cut out, or why it is not; raises `NotApplicable` if its objects are not known."""
    seen, picture = frame_objects(case), picture_of(case)
    for item in seen.items:
        why = rule.fault(item, seen)
        yield item, why or cutout(picture, seen, item)


def cutout(picture: Image, seen: FrameObjects, item: FrameObject) -> Cutout:
    """One object of a picture, cut out."""
    left, top, right, bottom = item.span
    mask = within(seen, item.span) == item.number
    return Cutout(picture.pixels[top:bottom, left:right], mask, light_around(picture.pixels, seen, item.span))


def within(seen: FrameObjects, span: Span) -> Array:
    """The instance numbers inside a rectangle."""
    left, top, right, bottom = span
    return np.asarray(seen.instances[top:bottom, left:right])


def light_around(pixels: Array, seen: FrameObjects, span: Span) -> tuple[float, float, float]:
    """The median colour around a rectangle, without the pixels of objects."""
    wide = grown(span, max(3, round(RING * max(span[2] - span[0], span[3] - span[1]))), seen.instances.shape)
    free = within(seen, wide) == 0
    left, top, right, bottom = wide
    free[span[1] - top : span[3] - top, span[0] - left : span[2] - left] = False
    around = pixels[top:bottom, left:right]
    chosen = around[free] if free.any() else around.reshape(-1, 3)
    red, green, blue = np.maximum(np.median(chosen, axis=0), DARKEST)
    return float(red), float(green), float(blue)


def grown(span: Span, by: int, shape: tuple[int, ...]) -> Span:
    """A rectangle with a margin, inside a picture of `shape`."""
    left, top, right, bottom = span
    return max(left - by, 0), max(top - by, 0), min(right + by, shape[1]), min(bottom + by, shape[0])


def nearer(one: FrameObject, other: FrameObject) -> bool:
    """Whether one object is in front of another: by their distances, or else by their lower edges."""
    # On level ground what stands nearer reaches further down.
    if one.metres is not None and other.metres is not None:
        return one.metres < other.metres
    return one.span[3] > other.span[3]


def covered_share(item: FrameObject, seen: FrameObjects) -> float:
    """The share of an object's outline at which nearer objects touch it."""
    wide = grown(item.span, 1, seen.instances.shape)
    here = within(seen, wide)
    mask = here == item.number
    ring = (cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0) & ~mask
    touching = [number for number in np.unique(here[ring]).tolist() if number in seen.numbered]
    front = [number for number in touching if nearer(seen.numbered[number], item)]
    return float(np.isin(here[ring], front).mean()) if ring.any() else 0.0


def _is_solid(mask: Array, least: float) -> bool:
    """Whether an object is one piece that fills enough of its convex hull."""
    pieces = cv2.connectedComponentsWithStats(mask.astype(np.uint8))[2][1:, cv2.CC_STAT_AREA]
    if pieces.max() < ONE_PIECE * pieces.sum():
        return False
    rows, columns = np.nonzero(mask)
    hull = cv2.convexHull(np.stack([columns, rows], axis=1).astype(np.int32))
    return bool(mask.sum() >= least * max(cv2.contourArea(hull), 1.0))
