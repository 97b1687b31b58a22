"""Pasting a piece into a picture: as it is, with a soft rim, or by Poisson blending."""

# TG-12, IA-9

from __future__ import annotations

import cv2
import numpy as np

from swerve.core.arguments import check_known
from swerve.core.values import Array
from swerve.transformations.fill import with_seams_removed

COPY, RIM, POISSON = BLENDS = ("copy", "rim", "poisson")


def paste_piece(
    canvas: Array, piece: Array, at: tuple[int, int], *, cover: Array | None = None, blend: str = RIM, rim: float = 2.0
) -> None:
    """Paste `piece` into `canvas` in place, with its upper left corner `at` (left, top); what lies outside is cut off.

    Args:
        cover: which pixels of the piece belong to it, or how much (0 to 1); all of them if there is none.
        blend: "copy" leaves the piece as it is; "rim" fades its outermost `rim` pixels into the picture; "poisson" moves its
            colours so that they meet those of the picture at the border.
    """
    check_known("blend:", blend, BLENDS)
    height, width = piece.shape[:2]
    whole = np.ones((height, width), np.float32) if cover is None else np.asarray(cover, np.float32)
    left, top = at
    rows = slice(max(top, 0), min(top + height, canvas.shape[0]))
    columns = slice(max(left, 0), min(left + width, canvas.shape[1]))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    own = slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left)
    if blend == POISSON:
        _blend_seamlessly(canvas, (rows, columns), piece[own], whole[own] > 0.5)
        return
    share = _faded(whole, rim)[own] if blend == RIM else whole[own]
    under = canvas[rows, columns].astype(np.float32)
    mixed = under + share[..., None] * (piece[own].astype(np.float32) - under)
    canvas[rows, columns] = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)


def _faded(cover: Array, rim: float) -> Array:
    """The cover, less and less of it towards its border."""
    inside = np.pad((cover > 0).astype(np.uint8), 1)
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1]
    return np.asarray(cover * np.clip(depth / (rim + 1), 0, 1))


def _blend_seamlessly(canvas: Array, place: tuple[slice, slice], piece: Array, inside: Array) -> None:
    """Poisson blending: the border is the ring of pixels around the piece."""
    rows, columns = place
    around = (
        slice(max(rows.start - 1, 0), min(rows.stop + 1, canvas.shape[0])),
        slice(max(columns.start - 1, 0), min(columns.stop + 1, canvas.shape[1])),
    )
    window = canvas[around]
    own = tuple(slice(one.start - other.start, one.stop - other.start) for one, other in zip(place, around, strict=True))
    mask = np.zeros(window.shape[:2], bool)
    mask[own] = inside
    # The piece is continued by its own outermost pixels, so that the border compares like with like.
    pads = [(part.start, side - part.stop) for part, side in zip(own, window.shape[:2], strict=True)]
    larger = np.pad(piece.astype(np.float32), (*pads, (0, 0)), mode="edge")
    canvas[around] = with_seams_removed(window, larger, mask)
