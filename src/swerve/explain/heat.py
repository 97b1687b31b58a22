"""A heat map: how much each part of a picture matters for a system's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import System, Window
from swerve.core.values import Array, Group, Image

COARSE = 4  # rows or columns below which a map says little about single objects
BLEND = 0.5  # of the heat where it is strongest, over the picture


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Heat from 0 to 1 over a window of the picture; the rest of the picture, which the system does not read, has none."""

    values: Array  # rows x columns
    window: Window
    size: tuple[int, int]  # width and height of the picture

    @property
    def is_flat(self) -> bool:
        """Whether nothing in the picture stands out."""
        return not bool((self.values > 0).any())

    @property
    def is_coarse(self) -> bool:
        """Whether it has fewer than four rows or columns."""
        return bool(min(self.values.shape) < COARSE)

    @property
    def on_picture(self) -> Array:
        """The heat of every pixel of the picture, interpolated."""
        # Not cached: maps are kept by the thousand, and pictures are large.
        width, height = self.size
        left, top, right, bottom = self.window
        rows, columns = self.values.shape
        # Pixel centres of the picture in pixels of the map; beyond the window there is no heat.
        x = (np.arange(width) + 0.5 - left) / (right - left) * columns - 0.5
        y = (np.arange(height) + 0.5 - top) / (bottom - top) * rows - 0.5
        inside = np.outer((y >= -0.5) & (y < rows - 0.5), (x >= -0.5) & (x < columns - 0.5))
        across, down = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
        heat = cv2.remap(self.values.astype(np.float32), across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.where(inside, heat, 0.0).astype(np.float32)

    def over(self, pixels: Array) -> Array:
        """The picture with the heat on it, from blue to red."""
        heat = self.on_picture
        colours = cv2.applyColorMap((heat * 255).astype(np.uint8), cv2.COLORMAP_JET)[..., ::-1]
        share = (BLEND * heat)[..., None]
        return np.asarray(np.rint(pixels * (1 - share) + colours * share), dtype=np.uint8)


@runtime_checkable
class Explanation(Protocol):
    """A way to find out what matters in a picture."""

    def explain(self, cases: Sequence[Case], system: System) -> Sequence[HeatMap]:
        """A heat map of each case's picture, in one pass where that is possible."""


def normalised(heat: Array) -> Array:
    """What speaks for the answer, divided by its maximum; all 0 if nothing does."""
    positive = np.maximum(heat, 0.0)
    most = float(positive.max()) if positive.size else 0.0
    return positive / most if most > 0 else np.zeros_like(positive)


def picture_of(case: Case) -> Image:
    """The camera's picture of a case, the last one of a window; raises `InputError` if it has none."""
    for value in case.inputs.values():
        image = value.values[-1] if isinstance(value, Group) and value.values else value
        if isinstance(image, Image):
            return image
    raise InputError(f"{case.key}: there is no picture to explain")
