"""Lit lamps of traffic lights in pictures: where one is, its hue, and the same lamp in another colour."""

# TG-12, D-23

from __future__ import annotations

import re
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.values import Array

RED, YELLOW, GREEN = "red", "yellow", "green"
# Degrees: the middle of the hues that lamps of a colour have, and the half width; clear sky is beyond the green ones.
HUES = {RED: (4.0, 30.0), YELLOW: (42.0, 20.0), GREEN: (150.0, 46.0)}
TARGETS = {RED: 4.0, GREEN: 164.0}  # degrees: what lit lamps are in pictures (medians of rendered and of real ones)
OTHER = {RED: GREEN, GREEN: RED, "stop": "go", "go": "stop"}
COLOUR = {RED: RED, "stop": RED, YELLOW: YELLOW, "warning": YELLOW, GREEN: GREEN, "go": GREEN}
SIDEWAYS, AHEAD, ONE_WAY = ("left", "right"), ("straight",), ("forward",)  # no data set has a red light of the last kind
LEAST_CHROMA = 40.0  # grey levels between the largest and the smallest channel of a lit lamp
SHARE = 0.45  # of the strongest chroma: what belongs to the lamp
ALIKE, UNLIKE = 24.0, 42.0  # degrees: hues as near as the first are the lamp's, as far as the second are not
SPREAD = 12.0  # degrees: how far hues of a recoloured lamp are from its own
_STATE = re.compile(r"(red|stop|yellow|warning|green|go)(.*)", re.IGNORECASE)


def colour_of(state: str) -> str | None:
    """Red, yellow or green, if a state is one of them, in the words of any data set; None for off and others."""
    found = _STATE.fullmatch(state)
    return COLOUR[found[1].lower()] if found and _arrow(found[2]) is not None else None


def other_state(state: str, *, flat: bool) -> str | None:
    """The state with the other colour; None for yellow and off, and for an arrow that would be wrong after the flip.

    A light with its lamps side by side (`flat`) is mirrored, any other is turned upside down.
    """
    # D-23: a left arrow stays one upside down, an upward arrow stays one in a mirror
    found = _STATE.fullmatch(state)
    if found is None or colour_of(state) not in TARGETS:
        return None
    wrong = SIDEWAYS if flat else AHEAD
    if any(word in (_arrow(found[2]) or "") for word in (*wrong, *ONE_WAY)):
        return None
    return _like(OTHER[found[1].lower()], found[1]) + found[2]


def _arrow(rest: str) -> str | None:
    """The arrow that the end of a state names; None if it is another word."""
    plain = re.sub(r"[^a-z]", "", rest.lower())
    return plain if re.fullmatch(f"(?:{'|'.join((*SIDEWAYS, *AHEAD, *ONE_WAY))})*", plain) else None


def _like(word: str, given: str) -> str:
    return word.upper() if given.isupper() else word.capitalize() if given[0].isupper() else word


@dataclass(frozen=True, eq=False)
class Lamp:
    """A lit lamp in a picture: its hue in degrees, and its pixels."""

    hue: float
    pixels: Array

    @property
    def diameter(self) -> float:
        """Pixels across a disc of the same area."""
        return float(2 * np.sqrt(self.pixels.sum() / np.pi))


def find_lamp(picture: Array, colour: str) -> Lamp | None:
    """The lit lamp of a colour in the picture of a light, or None."""
    hue = _hue(picture)
    middle, _ = HUES[colour]
    weight = _lit(picture, hue, colour)
    if weight is None:
        return None
    turn = np.deg2rad(_apart(hue, middle))
    mean = np.arctan2((np.sin(turn) * weight).sum(), (np.cos(turn) * weight).sum())
    return Lamp(float((middle + np.rad2deg(mean)) % 360), _without_holes(weight > 0))


def lamp_strength(picture: Array, colour: str) -> float:
    """The chroma of the strongest lamp of a colour, added up over its pixels; 0 without one."""
    weight = _lit(picture, _hue(picture), colour)
    return 0.0 if weight is None else float(weight.sum(dtype=np.float64))


def _lit(picture: Array, hue: Array, colour: str) -> Array | None:
    """The chroma of the pixels of the strongest lamp of a colour, 0 elsewhere; None without one."""
    middle, reach = HUES[colour]
    strength = np.where(np.abs(_apart(hue, middle)) <= reach, _chroma(picture), 0.0)
    # One pixel may be noise: the lamp must be as strong in the mean of its neighbours.
    strongest = float(cv2.blur(strength, (2, 2), borderType=cv2.BORDER_REPLICATE).max(initial=0.0))
    if strongest < LEAST_CHROMA:
        return None
    count, names = cv2.connectedComponents((strength >= SHARE * strongest).astype(np.uint8))
    if count < 2:
        return None
    amounts = np.bincount(names.ravel(), strength.ravel())
    amounts[0] = 0
    return np.where(names == int(np.argmax(amounts)), strength, 0.0)


def _without_holes(pixels: Array) -> Array:
    """The pixels and all that they surround: the middle of a bright lamp is white, or of another hue."""
    outlines, _ = cv2.findContours(pixels.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(cv2.drawContours(np.zeros(pixels.shape, np.uint8), outlines, -1, 1, cv2.FILLED) > 0)


def glow_of(picture: Array, lamp: Lamp, body: tuple[slice, slice]) -> Array:
    """How much of each pixel's light is the lamp's, from 0 to 1: of its hue, near it, and stronger than all around.

    Other lit pixels of the light's `body`, such as digits or further parts of an arrow, count as the lamp.
    """
    apart, chroma = np.abs(_apart(_hue(picture), lamp.hue)), _chroma(picture)
    lit = lamp.pixels.copy()
    strongest = float(chroma[lit].max())
    lit[body] |= (apart[body] <= ALIKE) & (chroma[body] >= SHARE * strongest)
    like = np.maximum(np.clip((UNLIKE - apart) / (UNLIKE - ALIKE), 0, 1), lamp.pixels)
    border = np.concatenate([(like * chroma)[[0, -1]].ravel(), (like * chroma)[:, [0, -1]].ravel()])
    background = float(np.median(border))
    above = np.clip((chroma - background) / max(0.3 * (strongest - background), 1.0), 0, 1)
    return np.asarray(like * above * _near(lit, 0.8 * lamp.diameter), np.float32)


def recoloured(picture: Array, glow: Array, hue: float, target: float) -> Array:
    """The picture with what glows in another hue; brightness and saturation stay.

    Hues near the lamp's stay as far from the new one; others, as of the yellow middle of an overexposed red lamp, come near.
    """
    hsv = cv2.cvtColor(picture.astype(np.float32), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (target + np.clip(_apart(hsv[..., 0], hue), -SPREAD, SPREAD)) % 360
    turned = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    mixed: Array = picture + glow[..., None] * (turned - picture)
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)


def hue_shifted(picture: Array, degrees: float) -> Array:
    """The picture with all its hues shifted."""
    hsv = cv2.cvtColor(picture.astype(np.float32), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0] + degrees) % 360
    return np.clip(np.rint(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)), 0, 255).astype(np.uint8)


def vivid(picture: Array) -> Array:
    """Which pixels are as strongly coloured as lamps, and not blue as the sky."""
    red, green, blue = cv2.split(picture)
    return np.asarray((_chroma(picture) > 2.5 * LEAST_CHROMA) & (cv2.max(red, green) >= blue))


def _near(pixels: Array, reach: float) -> Array:
    """1 on some pixels and near them, falling to 0 at twice the reach."""
    away = cv2.distanceTransform((~pixels).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(np.clip(2 - away / max(reach, 1.0), 0, 1))


def _hue(picture: Array) -> Array:
    return np.asarray(cv2.cvtColor(picture.astype(np.float32), cv2.COLOR_RGB2HSV)[..., 0])


def _chroma(picture: Array) -> Array:
    first, second, third = cv2.split(picture)
    largest, smallest = cv2.max(cv2.max(first, second), third), cv2.min(cv2.min(first, second), third)
    return np.asarray(largest, np.float32) - np.asarray(smallest, np.float32)


def _apart(hue: Array, middle: float) -> Array:
    """Degrees from one hue to others, from -180 to 180."""
    return np.asarray((hue - middle + 180) % 360 - 180)
