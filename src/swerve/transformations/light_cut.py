"""A traffic light cut out of a picture with its glow, changed, and pasted again."""

# TG-12..TG-15

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.transformations.lamps import TARGETS, Lamp, colour_of, find_lamp, glow_of, hue_shifted, recoloured
from swerve.transformations.light_targets import Corners
from swerve.transformations.paste import POISSON, RIM, paste_piece

RIM_SHARE, RIM_LEAST, RIM_MOST = 0.06, 0.7, 3.0  # of the shorter side; pixels
REACH = 0.8  # of the lamp's diameter: how far beyond the box its glow is cut out
FIXED_TURN = 120.0  # degrees: from red to green, of all pixels of a box
LEAST_GLOW = 0.15  # what is left of a glow below this share is not worth filling
Span = tuple[int, int, int, int]  # left, top, right, bottom in whole pixels


def span_of(box: Corners) -> Span:
    """The whole pixels that a box covers at least half of."""
    left, top, right, bottom = (int(np.floor(edge + 0.5)) for edge in box)
    return left, top, max(right, left + 1), max(bottom, top + 1)


@dataclass(frozen=True, eq=False)
class LightCut:
    """A light with the pixels around it: its `body` is what its box covers, its `glow` what of the rest is its light."""

    pixels: Array
    body: Span
    glow: Array
    lamp: Lamp | None

    @property
    def only_body(self) -> Array:
        """The pixels of the body."""
        left, top, right, bottom = self.body
        return self.pixels[top:bottom, left:right]

    def recoloured(self, colour: str) -> LightCut:
        """The same light with its lamp and glow in another colour."""
        if self.lamp is None:
            return self
        return replace(self, pixels=recoloured(self.pixels, self.glow, self.lamp.hue, TARGETS[colour]))

    def hue_turned(self, degrees: float) -> LightCut:
        """The same light with all its hues turned."""
        return replace(self, pixels=hue_shifted(self.pixels, degrees))

    def mirrored(self) -> LightCut:
        """Left and right exchanged."""
        width = self.pixels.shape[1]
        left, top, right, bottom = self.body
        body = width - right, top, width - left, bottom
        return replace(self, pixels=self.pixels[:, ::-1], glow=self.glow[:, ::-1], body=body)

    def upside_down(self) -> LightCut:
        """Top and bottom exchanged."""
        height = self.pixels.shape[0]
        left, top, right, bottom = self.body
        body = left, height - bottom, right, height - top
        return replace(self, pixels=self.pixels[::-1], glow=self.glow[::-1], body=body)

    def turned(self, quarter: int) -> LightCut:
        """Turned by 90°, counter-clockwise if `quarter` is 1, clockwise if it is -1."""
        height, width = self.pixels.shape[:2]
        left, top, right, bottom = self.body
        body = (top, width - right, bottom, width - left) if quarter > 0 else (height - bottom, left, height - top, right)
        return replace(self, pixels=np.rot90(self.pixels, quarter), glow=np.rot90(self.glow, quarter), body=body)

    def paste(self, canvas: Array, at: tuple[int, int], *, seamless: bool = False) -> None:
        """Paste the light into a picture in place, the upper left corner of its body `at`; its glow only brightens."""
        body = self.only_body
        rim = min(max(RIM_SHARE * min(body.shape[:2]), RIM_LEAST), RIM_MOST)
        paste_piece(canvas, body, at, blend=POISSON if seamless else RIM, rim=rim)
        if not seamless and self.lamp is not None:
            self._paste_glow(canvas, (at[0] - self.body[0], at[1] - self.body[1]))

    def put_out(self, canvas: Array, at: tuple[int, int]) -> None:
        """Take the colour of its glow out of a picture in place, around the body with its upper left corner `at`."""
        if self.lamp is not None:
            place = slice(at[1] - self.body[1], None), slice(at[0] - self.body[0], None)
            part = canvas[place][: len(self.glow), : self.glow.shape[1]]
            share = self._outer_glow()[..., None]
            part[...] = np.rint(part - share * (part - part.min(axis=2, keepdims=True)))

    def _paste_glow(self, canvas: Array, at: tuple[int, int]) -> None:
        height, width = self.glow.shape
        rows = slice(max(at[1], 0), min(at[1] + height, canvas.shape[0]))
        columns = slice(max(at[0], 0), min(at[0] + width, canvas.shape[1]))
        own = slice(rows.start - at[1], rows.stop - at[1]), slice(columns.start - at[0], columns.stop - at[0])
        under, share = canvas[rows, columns].astype(np.float32), self._outer_glow()[own][..., None]
        brighter = np.maximum(under, self.pixels[own])
        canvas[rows, columns] = np.rint(under + share * (brighter - under)).astype(np.uint8)

    def _outer_glow(self) -> Array:
        """The glow, softened, and fading towards the edges of what was cut out."""
        height, width = self.glow.shape
        down, across = (np.minimum(np.arange(side) + 0.5, side - 0.5 - np.arange(side)) for side in (height, width))
        margin = max(min(self.body[0], self.body[1], width - self.body[2], height - self.body[3]), 1)
        fading = np.clip(np.minimum(down[:, None], across) / margin, 0, 1).astype(np.float32)
        return np.asarray(cv2.blur(self.glow, (3, 3)) * fading)


def cut_light(picture: Array, box: Corners, state: str) -> LightCut:
    """The light in a box of a picture, with as much around it as its lamp may light up."""
    left, top, right, bottom = span_of(box)
    colour = colour_of(state)
    lamp = find_lamp(picture[top:bottom, left:right], colour) if colour else None
    more = int(np.ceil(REACH * lamp.diameter)) + 1 if lamp else 0
    x, y = max(left - more, 0), max(top - more, 0)
    pixels = picture[y : bottom + more, x : right + more]
    body = left - x, top - y, right - x, bottom - y
    if lamp is None:
        return LightCut(pixels, body, np.zeros(pixels.shape[:2], np.float32), None)
    whole, inner = np.zeros(pixels.shape[:2], bool), (slice(body[1], body[3]), slice(body[0], body[2]))
    whole[inner] = lamp.pixels
    known = Lamp(lamp.hue, whole)
    return LightCut(pixels, body, glow_of(pixels, known, inner), known)
