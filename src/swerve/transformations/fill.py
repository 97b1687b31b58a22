"""Filling holes of pictures: with what lies nearby, by inpainting, or smoothly."""

# TG-12..TG-16, IA-9

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from swerve.core.arguments import check_known
from swerve.core.values import Array
from swerve.transformations.patch_match import patch_matched

PATCH, PATCHMATCH, TELEA, NS, SMOOTH = METHODS = ("patch", "patchmatch", "telea", "ns", "smooth")
RING = 3  # pixels around a hole that must match
LARGE = 1200  # pixels: larger holes are filled at a lower resolution
COARSE = 8  # pixels of a picture per pixel of its inpainted margin
REACH = 1.5  # a fitting patch is looked for so many sizes of the hole away
MARGIN = 8  # pixels more around a hole
RADIUS = 3.0  # of OpenCV's inpainting
PASSES = 6  # of smoothing at each resolution
FAR = 0.15  # how much worse than the best a patch is at the end of the reach, of two that fit alike
Window = tuple[slice, slice]


def fill_hole(canvas: Array, hole: Array, *, method: str = PATCH, avoid: Array | None = None) -> None:
    """Fill the pixels of `canvas` where `hole` is set, in place.

    Args:
        method: "patch" copies the one piece of the surroundings that fits best and removes its seams; "patchmatch" puts the
            hole together from many small patches; "telea" and "ns" are OpenCV's inpainting; "smooth" blends in the border.
        avoid: pixels that must not be copied by the first two, such as other objects.
    """
    check_known("method of filling:", method, METHODS)
    hole = np.asarray(hole, bool)
    for window, part in _parts(hole):
        if part.all():
            continue  # nothing is known around it
        kept = None if avoid is None else np.asarray(avoid, bool)[window]
        canvas[window] = _filled(np.ascontiguousarray(canvas[window]), part, method, hole[window] if kept is None else kept)


def fill_margin(canvas: Array, hole: Array) -> None:
    """Fill a wide margin of a picture in place, by inpainting at a resolution at which that is quick."""
    size = tuple(max(side // COARSE, 1) for side in hole.shape[::-1])
    less = cv2.resize(hole.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA) > 0
    if less.all():
        return  # nothing is known
    small = cv2.inpaint(
        cv2.resize(canvas, size, interpolation=cv2.INTER_AREA), less.astype(np.uint8), RADIUS, cv2.INPAINT_TELEA
    )
    soft = cv2.resize(cv2.GaussianBlur(small, (0, 0), 1.0), hole.shape[::-1], interpolation=cv2.INTER_CUBIC)
    cv2.copyTo(soft, hole.astype(np.uint8), canvas)


def _parts(hole: Array) -> Iterator[tuple[Window, Array]]:
    """Each connected hole, in a window that reaches as far as it is filled from."""
    first, top, across, down = cv2.boundingRect(hole.astype(np.uint8))
    inner = hole[top : top + down, first : first + across].astype(np.uint8)
    count, names, stats, _ = cv2.connectedComponentsWithStats(inner)
    whole = np.zeros(hole.shape, np.int32)
    whole[top : top + down, first : first + across] = names
    for number in range(1, count):
        left, upper, width, height = (int(stats[number, place]) for place in range(4))
        reach = int(REACH * max(width, height)) + MARGIN
        rows = slice(max(top + upper - reach, 0), top + upper + height + reach)
        columns = slice(max(first + left - reach, 0), first + left + width + reach)
        yield (rows, columns), whole[rows, columns] == number


def _filled(picture: Array, hole: Array, method: str, avoid: Array) -> Array:
    small, less = _reduced(picture, hole)
    if method in (PATCH, PATCHMATCH):
        never = cv2.resize(avoid.astype(np.uint8), less.shape[::-1], interpolation=cv2.INTER_AREA) > 0
        found = _patched(small, less, never) if method == PATCH else _matched(small, less, never)
    elif method == SMOOTH:
        found = None
    else:
        flag = cv2.INPAINT_TELEA if method == TELEA else cv2.INPAINT_NS
        found = cv2.inpaint(small, less.astype(np.uint8), RADIUS, flag).astype(np.float32)
    if found is None:
        return _bytes(membrane(picture.astype(np.float32), ~hole))
    if small is picture:
        return np.where(hole[..., None], _bytes(found), picture)
    large = cv2.resize(found, picture.shape[1::-1], interpolation=cv2.INTER_CUBIC)
    return with_seams_removed(picture, large, hole)


def _reduced(picture: Array, hole: Array) -> tuple[Array, Array]:
    """The picture and its hole at a resolution at which the hole is not large."""
    share = (LARGE / max(int(hole.sum()), 1)) ** 0.5
    if share >= 1:
        return picture, hole
    size = tuple(max(round(share * side), 1) for side in hole.shape[::-1])
    less = cv2.resize(hole.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA), less


def _matched(picture: Array, hole: Array, avoid: Array) -> Array | None:
    return patch_matched(picture, hole, avoid, membrane(picture.astype(np.float32), ~hole))


def _patched(picture: Array, hole: Array, avoid: Array) -> Array | None:
    """The picture with the piece of it over the hole that fits its border best; None if there is none."""
    rows, columns = np.nonzero(hole)
    top, left = max(int(rows.min()) - RING, 0), max(int(columns.min()) - RING, 0)
    bottom, right = int(rows.max()) + 1 + RING, int(columns.max()) + 1 + RING
    piece, gap = picture[top:bottom, left:right], hole[top:bottom, left:right]
    bad = hole | avoid
    ring = (cv2.dilate(gap.astype(np.uint8), np.ones((2 * RING + 1,) * 2, np.uint8)) > 0) & ~bad[top:bottom, left:right]
    if not ring.any():
        return None
    height, width = gap.shape
    weight = np.repeat(ring.astype(np.float32)[..., None], 3, axis=2)
    wrong = cv2.matchTemplate(picture.astype(np.float32), piece.astype(np.float32), cv2.TM_SQDIFF, mask=weight)
    wrong = np.maximum(wrong / (3 * ring.sum()), 0) + 4.0
    sums = cv2.integral(bad.astype(np.uint8))
    inside = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
    down, across = (np.arange(side) - place for side, place in zip(wrong.shape, (top, left), strict=True))
    away = np.hypot(down[:, None] / height, across / width)
    wrong *= 1 + FAR * away
    wrong[inside > 0] = np.inf
    best = int(np.argmin(wrong))
    if not np.isfinite(wrong.flat[best]):
        return None
    row, column = divmod(best, wrong.shape[1])
    copied = picture.astype(np.float32)
    copied[top:bottom, left:right] = picture[row : row + height, column : column + width]
    return with_seams_removed(picture, copied, hole).astype(np.float32)


def with_seams_removed(picture: Array, patch: Array, inside: Array) -> Array:
    """The picture with `patch` where `inside` is set, moved in colour so that it meets the picture at the border.

    This is Poisson blending: gradients are those of the patch, and the border's values those of the picture.
    """
    left, top, across, down = cv2.boundingRect(inside.astype(np.uint8))
    near = slice(max(top - 1, 0), top + down + 1), slice(max(left - 1, 0), left + across + 1)
    own, moved = picture[near], patch[near].astype(np.float32)
    joined = picture.copy()
    joined[near] = np.where(inside[near][..., None], _bytes(moved + membrane(own - moved, ~inside[near])), own)
    return joined


def membrane(values: Array, known: Array) -> Array:
    """`values` (rows × columns × channels) with the unknown ones interpolated smoothly, as a soap film between the known."""
    if known.all() or not known.any() or min(known.shape) <= 2:
        mean = values[known].mean(axis=0) if known.any() else 0.0
        return np.where(known[..., None], values, mean).astype(np.float32)
    size = tuple((side + 1) // 2 for side in known.shape[::-1])
    weight = known.astype(np.float32)
    share = cv2.resize(weight, size, interpolation=cv2.INTER_AREA)
    sums = cv2.resize(values * weight[..., None], size, interpolation=cv2.INTER_AREA)
    coarse = membrane(sums / np.maximum(share, 1e-6)[..., None], share > 0)
    found = cv2.resize(coarse, known.shape[::-1], interpolation=cv2.INTER_LINEAR)
    for _ in range(PASSES):
        found = cv2.blur(np.where(known[..., None], values, found), (3, 3), borderType=cv2.BORDER_REPLICATE)
    return np.where(known[..., None], values, found).astype(np.float32)


def _bytes(values: Array) -> Array:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
