"""Pictures with drawn traffic lights, and a detector that reads them off the pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Depth, Image, find

MARGIN = 0.1  # of the housing's shorter side: so much larger is a light's box
GROUND = (150, 150, 150)
HOUSING = (14, 14, 14)
LIT = {"red": (255, 40, 30), "yellow": (255, 190, 20), "green": (20, 255, 190)}
Corners = tuple[int, int, int, int]


def draw_light(picture: Array, box: Corners, state: str) -> None:
    """A black housing with three lamps, one of them lit: red on top or to the left. The box is larger by `MARGIN`."""
    wide, high = box[2] - box[0], box[3] - box[1]
    margin = round(MARGIN * min(wide, high) / (1 + 2 * MARGIN))
    left, top, right, bottom = box[0] + margin, box[1] + margin, box[2] - margin, box[3] - margin
    picture[top:bottom, left:right] = HOUSING
    for place, colour in enumerate(LIT):
        share = (2 * place + 1) / 6
        across, down = (share, 0.5) if wide > high else (0.5, share)
        middle = left + across * (right - left), top + down * (bottom - top)
        rows, columns = np.mgrid[top:bottom, left:right] + 0.5
        lamp = np.hypot(columns - middle[0], rows - middle[1]) <= 0.24 * min(right - left, bottom - top)
        picture[top:bottom, left:right][lamp] = LIT[colour] if colour == state else (36, 36, 36)


def light_case(
    lights: Sequence[tuple[Corners, str]], *, size: tuple[int, int] = (640, 360), key: str = "lights", near: bool = False
) -> Case:
    """A picture with these lights on plain ground; with `near` everything is one metre away."""
    picture = np.full((size[1], size[0], 3), GROUND, np.uint8)
    for box, state in lights:
        draw_light(picture, box, state)
    boxes = Boxes2D(np.array([box for box, _ in lights], float), tuple(state for _, state in lights), size=size)
    depth = (Depth(np.ones(picture.shape[:2], np.float32)),) if near else ()
    return Case(key, {"camera": Image(picture)}, (boxes, *depth))


def boxes_of(case: Case) -> Boxes2D:
    found = find(case.truth, "boxes2d")
    assert isinstance(found, Boxes2D)
    return found


def pixels_of(case: Case) -> Array:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels


@dataclass(frozen=True)
class ReadsDrawnLights:
    """Finds dark housings against the ground, and the colour of their lamps; it knows nothing of any change."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(read_lights(pixels_of(case)),) for case in cases]

    def fingerprint(self) -> str:
        return digest_of("reads drawn lights")


def read_lights(picture: Array) -> Boxes2D:
    """Boxes and states of the drawn lights in a picture."""
    grey = cv2.medianBlur(picture.min(axis=2), 7)
    limit, _ = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    dark = cv2.morphologyEx((grey <= limit).astype(np.uint8), cv2.MORPH_OPEN, np.ones((9, 9), np.uint8))
    outlines, _ = cv2.findContours(dark, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    housings = [_rectangle(outline, dark.shape) for outline in outlines]
    boxes = np.array([_with_margin(housing) for housing in housings], float).reshape(-1, 4)
    states = tuple(_state(picture[top:bottom, left:right]) for left, top, right, bottom in housings)
    return Boxes2D(boxes, states, size=picture.shape[1::-1])


def _rectangle(outline: Array, shape: tuple[int, ...]) -> Corners:
    """The rectangle of a housing, judged by its rows and columns, so that flakes and streaks at its border do not count."""
    own = cv2.drawContours(np.zeros(shape, np.uint8), [outline], 0, 1, cv2.FILLED)
    down, across = own.sum(axis=1), own.sum(axis=0)
    rows = np.flatnonzero(down >= 0.5 * np.percentile(down[down > 0], 80))
    columns = np.flatnonzero(across >= 0.5 * np.percentile(across[across > 0], 80))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _with_margin(housing: Corners) -> tuple[float, ...]:
    left, top, right, bottom = housing
    margin = MARGIN * min(right - left, bottom - top)
    return left - margin, top - margin, right + margin, bottom + margin


def _state(light: Array) -> str:
    """Red if more of the light is redder than green, by the pixels that are coloured most."""
    red, green, blue = (light[..., place].astype(int) for place in range(3))
    warm = np.clip(red - green, 0, None).sum()
    cool = np.clip(np.maximum(green, blue) - red, 0, None).sum()
    return "red" if warm > cool else "green"
