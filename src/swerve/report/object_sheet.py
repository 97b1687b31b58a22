"""Objects of a library as one picture."""

from __future__ import annotations

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.transformations.object_library import ObjectLibrary

TILE, COLUMNS, MOST = 128, 8, 64
GROUND = 235  # grey behind the objects


def object_sheet(library: ObjectLibrary) -> Array:
    """Up to 64 objects, evenly chosen, in tiles."""
    many = min(len(library.items), MOST)
    chosen = [library.items[place * len(library.items) // many] for place in range(many)]
    sheet = np.full((-(-many // COLUMNS) * TILE, COLUMNS * TILE, 3), GROUND, np.uint8)
    for place, item in enumerate(chosen):
        cut = library.cutout(item.name)
        tile = np.where(cut.mask[..., None], cut.pixels, np.uint8(GROUND))
        share = min(TILE / max(tile.shape[:2]), 1.0)
        small = cv2.resize(tile, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
        row, column = divmod(place, COLUMNS)
        height, width = small.shape[:2]
        sheet[row * TILE : row * TILE + height, column * TILE : column * TILE + width] = small
    return sheet
