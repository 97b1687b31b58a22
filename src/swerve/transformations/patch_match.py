"""Filling a hole by PatchMatch (Barnes et al., SIGGRAPH 2009): every patch on it looks like one from elsewhere.

From coarse to fine, two steps take turns, as in Wexler et al. (2007): for each patch that overlaps the hole the most similar
patch elsewhere is searched by propagation and random search; then each pixel becomes the mean of what its patches propose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array

SIDE = 7  # pixels of a patch
HALF = SIDE // 2
TURNS, SEARCHES = 2, 2  # at each size of the picture: searches and averages, and rounds of a search
COARSEST = 4  # pixels of the shorter side of a hole at which it is filled first
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))  # from which neighbours a place is taken over
Level = tuple[Array, Array, Array]  # a picture, its hole, and what must not be copied


def patch_matched(picture: Array, hole: Array, bad: Array, first: Array) -> Array | None:
    """The picture with its hole filled; None if there is no patch to copy from.

    Args:
        hole: the pixels to fill.
        bad: pixels that must not be copied; those of the hole are never.
        first: the picture with the hole filled in any smooth way, to begin with.
    """
    rng, canvas, coarser = rng_for("patch match", *hole.shape), picture, None
    for pixels, gap, never in reversed(list(_levels(first.astype(np.float32), hole, bad | hole))):
        canvas = pixels if coarser is None else _enlarged(canvas, pixels, gap)
        search = _Search(gap, never)
        if not (len(search.sources) and len(search.targets)):
            continue
        found = search.begun(coarser, rng)
        for _ in range(TURNS):
            found, wrong = search.searched(canvas, found, rng)
            canvas = search.voted(canvas, found, wrong)
        coarser = search.table(found)
    return None if coarser is None else canvas


def _enlarged(canvas: Array, pixels: Array, hole: Array) -> Array:
    """What is in the hole of a picture of half the size, in the hole of `pixels`."""
    large = cv2.resize(canvas, hole.shape[::-1], interpolation=cv2.INTER_LINEAR)
    return np.where(hole[..., None], large, pixels)


def _levels(picture: Array, hole: Array, bad: Array) -> Iterator[Level]:
    """The picture at its own size and at halves of it, down to that at which the hole is thin."""
    while True:
        yield picture, hole, bad
        size = tuple((side + 1) // 2 for side in hole.shape[::-1])
        _, _, wide, high = cv2.boundingRect(hole.astype(np.uint8))
        if min(wide, high) <= COARSEST or min(size) <= 2 * SIDE:
            return
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        hole, bad = (cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0 for mask in (hole, bad))


@dataclass(frozen=True, eq=False)
class _Search:
    """The patches of a picture that overlap its hole, and those that may be copied, by the places of their middles."""

    hole: Array
    bad: Array

    @cached_property
    def inside(self) -> Array:
        """Middles whose patch lies within the picture."""
        mask = np.zeros(self.hole.shape, bool)
        mask[HALF:-HALF, HALF:-HALF] = True
        return mask

    @cached_property
    def free(self) -> Array:
        """Middles of patches that may be copied."""
        near: Array = cv2.dilate(self.bad.astype(np.uint8), np.ones((SIDE, SIDE), np.uint8)) == 0
        return near & self.inside

    @cached_property
    def targets(self) -> Array:
        """Middles of patches that overlap the hole, as rows and columns."""
        near = cv2.dilate(self.hole.astype(np.uint8), np.ones((SIDE, SIDE), np.uint8)) > 0
        return np.argwhere(near & self.inside)

    @cached_property
    def sources(self) -> Array:
        """Middles of patches that may be copied, as rows and columns."""
        return np.argwhere(self.free)

    @cached_property
    def numbers(self) -> Array:
        """The number of the target in each place, or -1."""
        table = np.full(self.hole.shape, -1)
        table[tuple(self.targets.T)] = np.arange(len(self.targets))
        return table

    def begun(self, coarser: Array | None, rng: np.random.Generator) -> Array:
        """A source for each target: what was found at half the size, or any."""
        drawn: Array = self.sources[rng.integers(0, len(self.sources), len(self.targets))]
        if coarser is None:
            return drawn
        table = cv2.resize(coarser, self.hole.shape[::-1], interpolation=cv2.INTER_NEAREST)
        scaled = 2 * table[tuple(self.targets.T)].astype(int) + self.targets % 2
        return np.where(self._allowed(scaled)[:, None], scaled, drawn)

    def table(self, found: Array) -> Array:
        """The sources as a map of the picture, to begin with at twice the size."""
        spread = np.zeros((*self.hole.shape, 2), np.float32)
        spread[tuple(self.targets.T)] = found
        return spread

    def searched(self, canvas: Array, found: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Better sources, and how wrong each is: the mean squared difference of the levels."""
        wanted = self._patches(canvas, self.targets)
        wrong = self._wrong(canvas, wanted, found)
        for turn in range(SEARCHES):
            for step in STEPS[2 * (turn % 2) :][:2]:
                found, wrong = self._better(canvas, wanted, found, wrong, self._neighbours(found, step))
            reach = max(self.hole.shape)
            while reach >= 1:
                tried = found + np.rint(rng.uniform(-reach, reach, found.shape)).astype(int)
                found, wrong = self._better(canvas, wanted, found, wrong, tried)
                reach /= 2
        return found, wrong

    def voted(self, canvas: Array, found: Array, wrong: Array) -> Array:
        """The picture with every pixel of the hole as the mean of what its patches propose; good ones count more."""
        patches = self._patches(canvas, found)
        weight = np.exp(-wrong / (2 * max(float(np.quantile(wrong, 0.75)), 1.0)))
        sums, total = np.zeros(canvas.shape, np.float32), np.zeros(self.hole.shape, np.float32)
        for place, (down, across) in enumerate(np.ndindex(SIDE, SIDE)):
            rows, columns = (self.targets + np.array((down - HALF, across - HALF))).T  # each place once
            sums[rows, columns] += weight[:, None] * patches[:, place]
            total[rows, columns] += weight
        known = self.hole & (total > 0)
        return np.where(known[..., None], sums / np.maximum(total, 1e-9)[..., None], canvas)

    def _neighbours(self, found: Array, step: tuple[int, int]) -> Array:
        """The source next to that of a neighbour, or a target's own where the neighbour is no target."""
        beside = self.targets - step
        number = self.numbers[tuple(np.clip(beside, 0, np.array(self.hole.shape) - 1).T)]
        return np.where((number >= 0)[:, None], found[number] + step, found)

    def _better(self, canvas: Array, wanted: Array, found: Array, wrong: Array, tried: Array) -> tuple[Array, Array]:
        """Whichever of two sources fits better."""
        able = self._allowed(tried) & (tried != found).any(axis=1)
        rows = np.flatnonzero(able)
        fresh = self._wrong(canvas, wanted[rows], tried[rows])
        less = fresh < wrong[rows]
        found, wrong = found.copy(), wrong.copy()
        found[rows[less]], wrong[rows[less]] = tried[rows[less]], fresh[less]
        return found, wrong

    def _allowed(self, places: Array) -> Array:
        within = np.asarray(((places >= 0) & (places < self.hole.shape)).all(axis=1))
        near = np.where(within[:, None], places, 0)
        return np.asarray(within & self.free[tuple(near.T)])

    def _wrong(self, canvas: Array, wanted: Array, places: Array) -> Array:
        gaps = self._patches(canvas, places) - wanted
        return np.einsum("npc,npc->n", gaps, gaps) / gaps[0].size if len(gaps) else np.zeros(0, np.float32)

    def _patches(self, canvas: Array, places: Array) -> Array:
        """The patches around some places, each as rows of pixels."""
        width = canvas.shape[1]
        offsets = (np.arange(-HALF, HALF + 1)[:, None] * width + np.arange(-HALF, HALF + 1)).ravel()
        return np.asarray(canvas.reshape(-1, 3)[(places[:, 0] * width + places[:, 1])[:, None] + offsets])
