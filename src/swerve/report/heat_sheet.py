"""A picture and its heat maps side by side, each with its name."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from swerve.core.errors import printable
from swerve.core.values import Array
from swerve.explain.heat import HeatMap

ACROSS, WIDE, TITLE = 3, 480, 26  # panels in a row, pixels of a panel, height of its title
LONGEST = 44  # characters of a title


def heat_sheet(pixels: Array, maps: Mapping[str, HeatMap]) -> Array:
    """The picture itself, then the picture under each heat map, in rows of three."""
    rows, columns = (f"{count}" for count in pixels.shape[:2])
    panels = [_panel(f"picture {columns} x {rows}", pixels)]
    for name, heat in maps.items():
        size = " x ".join(map(str, heat.values.shape))
        panels.append(_panel(f"{name}, {size}{', coarse' if heat.is_coarse else ''}", heat.over(pixels)))
    panels += [np.full_like(panels[0], 255)] * (-len(panels) % ACROSS if len(panels) > ACROSS else 0)
    across = min(ACROSS, len(panels))
    return np.vstack([np.hstack(panels[start : start + across]) for start in range(0, len(panels), across)])


def _panel(title: str, pixels: Array) -> Array:
    high = max(1, round(pixels.shape[0] * WIDE / pixels.shape[1]))
    shown = cv2.resize(pixels, (WIDE, high), interpolation=cv2.INTER_AREA)
    head = np.full((TITLE, WIDE, 3), 255, np.uint8)
    text = printable(title, LONGEST).encode("ascii", "replace").decode()
    cv2.putText(head, text, (6, TITLE - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (30, 30, 30), 1, cv2.LINE_AA)
    return np.vstack([head, shown])
