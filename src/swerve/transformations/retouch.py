"""Objects replaced within a picture: the old one is removed, the hole filled, another one pasted in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.transformations.cutouts import Cutout, grown, light_around, nearer, within
from swerve.transformations.fill import PATCH, fill_hole
from swerve.transformations.frame_objects import FrameObject, FrameObjects, Span
from swerve.transformations.paste import RIM, paste_piece

MARGIN, THIN = 1 / 320, 1 / 30  # of the picture's width, of an object's size: as much is removed around it, for its rim
RIM_WIDE = 1.0  # pixels over which a pasted object fades into the picture
DAMPED, GAIN = 0.5, 1.4  # exponent of the ratio of lights, and the most that colours are scaled by
FOOT = 0.1  # of an object's height: where it touches the ground
SHADE_WIDE, SHADE_HIGH = 1.1, 0.07  # of the foot's width, of the object's height
SHADE, DARK = 0.6, 0.45  # strength of the shadow, and the share of the ground's level that is dark already
NO_SPANS: Mapping[int, Span] = MappingProxyType({})
COVERED = 0.5  # of a pixel: from there on it shows the pasted object


@dataclass(frozen=True, eq=False)
class Placed:
    """An object as it is pasted: its pixels and how much of each it covers, in the rectangle `span` of the picture."""

    item: FrameObject
    span: Span  # may reach beyond the picture
    pixels: Array
    cover: Array

    def visible(self, seen: FrameObjects) -> tuple[Array, Span]:
        """The pixels of the picture that show the object, within a rectangle inside the picture."""
        inside = grown(self.span, 0, seen.instances.shape)
        left, top, right, bottom = inside
        own = self.cover[top - self.span[1] : bottom - self.span[1], left - self.span[0] : right - self.span[0]]
        return own >= COVERED, inside


def place(cut: Cutout, item: FrameObject, seen: FrameObjects) -> Placed:
    """A cut-out object in place of another: as high, on the same spot of the ground, behind what was in front."""
    # D-36
    left, top, right, bottom = item.span
    high, wide = bottom - top, max(1, round(cut.mask.shape[1] * (bottom - top) / cut.mask.shape[0]))
    start = (left + right - wide) // 2
    pixels, cover = _resized(cut, (wide, high))
    span = (start, top, start + wide, bottom)
    return Placed(item, span, pixels, np.where(_in_front(span, item, seen), 0, cover))


def retouched(
    pixels: Array,
    seen: FrameObjects,
    cuts: Sequence[tuple[FrameObject, Cutout]],
    fill: str = PATCH,
    spans: Mapping[int, Span] = NO_SPANS,
) -> Array:
    """The picture with other objects in place of some: all are removed first, then the farthest is pasted first.

    Those with a number in `spans` are pasted there, the others where the old ones were.
    """
    canvas = without(pixels, seen, [item for item, _ in cuts], fill)
    standing = [item for item in seen.items if item.number not in {old.number for old, _ in cuts}]
    for item, cut in sorted(cuts, key=lambda pair: (-pair[0].nearness, pair[0].number)):
        _put(canvas, pixels, seen, (replace(item, span=spans.get(item.number, item.span)), cut), standing)
    return canvas


def added(pixels: Array, seen: FrameObjects, item: FrameObject, cut: Cutout) -> Array:
    """The picture with one more object, which `item` tells the place of, behind what is nearer."""
    canvas = pixels.copy()
    _put(canvas, pixels, seen, (item, cut), seen.items)
    return canvas


def without(pixels: Array, seen: FrameObjects, items: Sequence[FrameObject], fill: str = PATCH) -> Array:
    """The picture without some objects, the holes filled from what surrounds them but not from other objects."""
    canvas = pixels.copy()
    known = np.isin(seen.instances, list(seen.numbered))
    removed, wider = np.zeros_like(known), np.zeros_like(known)
    for item in items:
        by = max(1, round(min(MARGIN * seen.width, THIN * min(item.size))))
        left, top, right, bottom = grown(item.span, by, known.shape)
        own = seen.instances[top:bottom, left:right] == item.number
        removed[top:bottom, left:right] |= own
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * by + 1, 2 * by + 1))
        wider[top:bottom, left:right] |= cv2.dilate(own.astype(np.uint8), disc) > 0
    fill_hole(canvas, wider & (removed | ~known), method=fill, avoid=known | wider)
    return canvas


def labelled(instances: Array, seen: FrameObjects, placed: Sequence[Placed]) -> Array:
    """The instance numbers of a picture after its objects were replaced."""
    now = np.where(np.isin(instances, [one.item.number for one in placed]), 0, instances)
    for one in sorted(placed, key=lambda one: (-one.item.nearness, one.item.number)):
        shown, (left, top, right, bottom) = one.visible(seen)
        now[top:bottom, left:right][shown] = one.item.number
    return now


def _put(
    canvas: Array, before: Array, seen: FrameObjects, pair: tuple[FrameObject, Cutout], standing: Sequence[FrameObject]
) -> None:
    """Paste an object with its shadow into `canvas`, in the light that its place had before; others are `standing` there."""
    item, cut = pair
    placed = place(cut, item, seen)
    lit = _harmonised(placed.pixels, cut.light, light_around(before, seen, item.span))
    _cast_shadow(canvas, placed, seen, [one.number for one in standing])
    paste_piece(canvas, lit, placed.span[:2], cover=placed.cover, blend=RIM, rim=RIM_WIDE)


def _resized(cut: Cutout, size: tuple[int, int]) -> tuple[Array, Array]:
    """The pixels and the cover of an object in another size; colours of what surrounded it do not mix in."""
    mask = cut.mask.astype(np.float32)
    if size == cut.mask.shape[::-1]:
        return cut.pixels, mask
    way = cv2.INTER_AREA if size[1] < mask.shape[0] else cv2.INTER_LINEAR
    cover = cv2.resize(mask, size, interpolation=way)
    own = cv2.resize(cut.pixels * mask[..., None], size, interpolation=way) / np.maximum(cover, 1e-3)[..., None]
    return np.clip(np.rint(own), 0, 255).astype(np.uint8), cover


def _in_front(span: Span, item: FrameObject, seen: FrameObjects) -> Array:
    """Which pixels of a rectangle show objects that are nearer than `item`; beyond the picture there are none."""
    inside = grown(span, 0, seen.instances.shape)
    here = within(seen, inside)
    front = [other.number for other in seen.items if other.number != item.number and nearer(other, item)]
    pads = ((inside[1] - span[1], span[3] - inside[3]), (inside[0] - span[0], span[2] - inside[2]))
    return np.asarray(np.pad(np.isin(here, front), pads))


def _harmonised(pixels: Array, there: tuple[float, ...], here: tuple[float, ...]) -> Array:
    """Colours as they are in another light; damped, as what surrounds an object is not only lighter or darker."""
    gain = np.clip((np.array(here) / np.array(there)) ** DAMPED, 1 / GAIN, GAIN)
    return np.asarray(np.clip(np.rint(pixels * gain), 0, 255).astype(np.uint8))


def _cast_shadow(canvas: Array, placed: Placed, seen: FrameObjects, standing: Sequence[int]) -> None:
    """Darken the ground below a pasted object, where it is not dark already and no other object stands, in place."""
    left, top, _, bottom = placed.span
    high = bottom - top
    feet = np.flatnonzero((placed.cover[-max(2, round(FOOT * high)) :] >= COVERED).any(axis=0))
    if not len(feet):
        return  # what touches the ground is hidden
    middle, wide = left + (feet[0] + feet[-1]) / 2, SHADE_WIDE * (feet[-1] - feet[0] + 1) / 2
    deep = max(2.0, SHADE_HIGH * high)
    box = (int(middle - wide), int(bottom - deep), int(middle + wide) + 2, int(bottom + deep) + 1)
    inside = grown(box, 0, seen.instances.shape)
    x, y = np.arange(inside[0], inside[2]), np.arange(inside[1], inside[3])
    if not (x.size and y.size):
        return
    apart = ((x - middle) / wide) ** 2 + (((y - bottom + 0.5) / deep) ** 2)[:, None]
    ground = canvas[inside[1] : inside[3], inside[0] : inside[2]]
    levels = ground.mean(axis=2)
    usual = max(float(np.median(levels)), 1.0)
    lighter = np.clip((levels / usual - DARK) / (1 - DARK), 0, 1)
    free = ~np.isin(within(seen, inside), standing)
    share = SHADE * np.clip(1 - apart, 0, 1) * lighter * free
    ground[:] = np.rint(ground * (1 - share[..., None])).astype(np.uint8)
