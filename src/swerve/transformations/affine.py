"""DeepTest's affine transformations, zooming out and resizing; labels are transformed with the image.

Coordinates are those of boxes: pixel i spans i to i + 1, so its centre is at i + 0.5 and an image of width w runs from 0
to w. OpenCV puts the centre of pixel i at i; `_Affine._warp` converts between the two.
"""

# DT-11..DT-14, TG-16

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import cv2
import numpy as np

from swerve.core.arguments import OneOfNames, check_number
from swerve.core.case import Case, Fact
from swerve.core.errors import InputError
from swerve.core.transformation import param
from swerve.core.values import Array, Boxes2D, Calibration, Classes, Depth, Masks
from swerve.transformations.fill import fill_margin
from swerve.transformations.photometric import ImageChange, images_of

MIN_SIDE = 8  # pixels of a resized image
MAX_PIXELS = 100_000_000  # of a resized image
ENLARGE_GRID = tuple(1.5 + 0.5 * step for step in range(10))
INPAINT = "inpaint"
BORDERS = {
    "black": cv2.BORDER_CONSTANT,
    "reflect": cv2.BORDER_REFLECT_101,
    "replicate": cv2.BORDER_REPLICATE,
    INPAINT: cv2.BORDER_REPLICATE,  # then painted over
}
REPEATING = ("reflect", "replicate")  # borders that show the image again
ANCHORS = ("centre", "top-left")
MIN_INSIDE = 0.5  # share of a box that must stay in frame for the box to be required
CAMERAS = ("camera", "P2")  # the calibration matrices that project to the image's pixels


@dataclass(frozen=True)
class _Affine(ImageChange):
    """A 2×3 matrix that depends on the image size, applied to the image and to its labels."""

    border: Annotated[str, OneOfNames(*BORDERS)] = dataclasses.field(default="black", kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = (
        "steering",
        "signal",
        "points",
        "boxes3d",
        "region",
        "scene",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("border", self.border, tuple(BORDERS))

    def words(self) -> str:
        """A description of the change, with the border mode unless it is black."""
        edges = {
            "black": "",
            "reflect": ", edges reflected",
            "replicate": ", edges replicated",
            INPAINT: ", edges inpainted",
        }
        return self._describe() + edges[self.border]

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """`fill`: the share of the first image that is border. `view`: the share of the original still visible."""
        image = next(images_of(source), None)
        if image is None or not image.pixels.size:
            return {}
        fill, view = float(source.facts.get("fill", 0.0)), float(source.facts.get("view", 1.0))
        # In a chain, earlier fill and earlier losses are assumed to be spread evenly over the image.
        return {"fill": fill + (1 - fill) * self._fill_share(*image.size), "view": view * self._view_share(*image.size)}

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """Upright bounding boxes of the transformed boxes, clipped; a box mostly out of frame gets `care` False."""
        if value.size is None:
            raise InputError("boxes2d cannot be transformed without their image size: give Boxes2D(size=(width, height))")
        if self._is_neutral():
            return value
        corners = _transform_points(value.xyxy[:, [[0, 1], [2, 1], [2, 3], [0, 3]]], self._matrix(*value.size))
        low, high = corners.min(axis=1), corners.max(axis=1)
        seen_low, seen_high = np.clip(low, 0, value.size), np.clip(high, 0, value.size)
        inside = np.ones(len(corners))
        for row in np.flatnonzero(((low < 0) | (high > value.size)).any(axis=1)):
            inside[row], rest = _clip_to_image(corners[row], value.size)
            if len(rest):  # bound the visible part of the box: tighter than clipping its bounding box
                seen_low[row], seen_high[row] = (np.clip(end, 0, value.size) for end in (rest.min(axis=0), rest.max(axis=0)))
        in_frame = ((high >= 0) & (low <= value.size)).all(axis=1)
        care = np.asarray(value.care) & (inside >= MIN_INSIDE) & in_frame
        return dataclasses.replace(value, xyxy=np.hstack([seen_low, seen_high]), care=care)

    def calibration(self, value: Calibration) -> Calibration:
        """The camera's matrices project to the transformed pixels; those of other sensors stay."""
        moved = [name for name in CAMERAS if name in value.matrices]
        if not moved or self._is_neutral():
            return value
        if value.size is None:
            raise InputError(
                "calibration cannot be transformed without its image size: give Calibration(size=(width, height))"
            )
        turn = np.vstack([self._matrix(*value.size), (0, 0, 1)])
        return dataclasses.replace(
            value, matrices={**value.matrices, **{name: turn @ value.matrices[name] for name in moved}}
        )

    def masks(self, value: Masks) -> Masks:
        """The transformed instances; border pixels belong to no instance, whatever the border mode."""
        moved = self._warp(value.instances, cv2.INTER_NEAREST)
        return dataclasses.replace(value, instances=moved)

    def classes(self, value: Classes) -> Classes:
        """The transformed classes; border pixels have none."""
        return dataclasses.replace(value, numbers=self._warp(value.numbers, cv2.INTER_NEAREST))

    def depth(self, value: Depth) -> Depth:
        """The transformed distances; border pixels are infinitely far away."""
        return Depth(self._warp(value.metres, cv2.INTER_NEAREST, fill=math.inf))

    def _change_pixels(self, pixels: Array) -> Array:
        moved = self._warp(pixels, cv2.INTER_LINEAR, border=BORDERS[self.border])
        if self.border == INPAINT:
            fill_margin(moved, self._warp(np.ones(pixels.shape[:2], np.uint8), cv2.INTER_NEAREST) == 0)
        return moved

    def _warp(self, array: Array, flags: int, *, border: int = cv2.BORDER_CONSTANT, fill: float = 0.0) -> Array:
        if self._is_neutral() or not array.size:
            return array
        height, width = array.shape[:2]
        matrix = self._matrix(width, height)
        matrix[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
        settings: dict[str, Any] = {"flags": flags, "borderMode": border, "borderValue": (fill,) * 4}
        if array.ndim == 2:
            return np.asarray(cv2.warpAffine(array, matrix, (width, height), **settings))
        # OpenCV warps four channels in half the time of three; the fourth is discarded.
        four, moved = _scratch(height, width)
        cv2.cvtColor(array, cv2.COLOR_RGB2RGBA, dst=four)
        cv2.warpAffine(four, matrix, (width, height), dst=moved, **settings)
        return np.asarray(cv2.cvtColor(moved, cv2.COLOR_RGBA2RGB))

    def _fill_share(self, width: int, height: int) -> float:
        """The share of the canvas that the image leaves uncovered: 0 if the border repeats the image."""
        return 0.0 if self.border in REPEATING or self._is_neutral() else round(1 - self._covered_share(width, height), 6)

    def _view_share(self, width: int, height: int) -> float:
        """The share of the original image that is still on the canvas."""
        if self._is_neutral():
            return 1.0
        grown = abs(float(np.linalg.det(self._matrix(width, height)[:, :2])))
        return min(round(self._covered_share(width, height) / grown, 6), 1.0)

    def _covered_share(self, width: int, height: int) -> float:
        """The share of the canvas that the transformed image covers."""
        canvas = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
        moved = _transform_points(canvas, self._matrix(width, height)).astype(np.float32)
        covered, _ = cv2.intersectConvexConvex(moved, canvas)
        # OpenCV computes this in single precision: further digits are noise, and 0 must be 0.
        return min(max(round(float(covered) / (width * height), 6), 0.0), 1.0)

    def _matrix(self, width: int, height: int) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _matrix")

    def _describe(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} must define _describe")


@dataclass(frozen=True)
class Translate(_Affine):
    """A shift by `x` pixels to the right and `y` pixels down."""

    # DT-11
    x: float = param(-1000, 1000, neutral=0, grid=range(10, 101, 10), resolution=1, unit=" px")
    y: float = param(-1000, 1000, neutral=0, grid=range(10, 101, 10), resolution=1, unit=" px")

    def _matrix(self, width: int, height: int) -> Array:
        del width, height
        return np.array([[1, 0, self.x], [0, 1, self.y]], dtype=np.float64)

    def _change_pixels(self, pixels: Array) -> Array:
        if self.border != "black" or not (self.x.is_integer() and self.y.is_integer()):
            return super()._change_pixels(pixels)
        # A whole number of pixels needs no interpolation: copy the bytes.
        shifted = np.zeros_like(pixels, order="C")
        rows, columns = (_shift_slices(int(by), length) for by, length in zip((self.y, self.x), pixels.shape, strict=False))
        shifted[rows[1], columns[1]] = pixels[rows[0], columns[0]]
        return shifted

    def _describe(self) -> str:
        ways = ((self.x, "right" if self.x > 0 else "left"), (self.y, "down" if self.y > 0 else "up"))
        return "shifted " + (" and ".join(f"{abs(by):g} px {way}" for by, way in ways if by) or "0 px")


@dataclass(frozen=True)
class Scale(_Affine):
    """A zoom about the image centre by `x` across and `y` down; the canvas keeps its size."""

    # DT-12, D-9
    x: float = param(0.1, 10, neutral=1, grid=[1.5 + 0.5 * i for i in range(10)], unit="×")
    y: float = param(0.1, 10, neutral=1, grid=[1.5 + 0.5 * i for i in range(10)], unit="×")

    def _matrix(self, width: int, height: int) -> Array:
        return _matrix_about([[self.x, 0], [0, self.y]], (width / 2, height / 2))

    def _describe(self) -> str:
        return f"zoomed {self.x:g}×" + ("" if self.x == self.y else f" across and {self.y:g}× down")


@dataclass(frozen=True)
class Shear(_Affine):
    """A horizontal shear: a row moves right by `x` times its distance below the `anchor`."""

    # DT-13, D-10
    # The ranges stop short of x · y = 1, where the image would collapse into a line.
    x: float = param(-2, 2, neutral=0, grid=[round(-1 + 0.1 * i, 1) for i in range(10)], resolution=0.05)
    y: float = param(-0.4, 0.4, neutral=0, resolution=0.05, default=0.0)
    anchor: Annotated[str, OneOfNames(*ANCHORS)] = dataclasses.field(default="centre", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("anchor", self.anchor, ANCHORS)

    def _matrix(self, width: int, height: int) -> Array:
        # "top-left" is the centre of that pixel: the paper's matrix [1 sx 0; sy 1 0] as OpenCV applies it.
        fixed = (width / 2, height / 2) if self.anchor == "centre" else (0.5, 0.5)
        return _matrix_about([[1, self.x], [self.y, 1]], fixed)

    def _describe(self) -> str:
        factors = f"{self.x:g}" + (f" across and {self.y:g} down" if self.y else "")
        return f"sheared by {factors}" + ("" if self.anchor == "centre" else " about the top-left corner")


@dataclass(frozen=True)
class Rotate(_Affine):
    """A rotation about the image centre; positive `degrees` are counter-clockwise as displayed."""

    # DT-14, D-11
    degrees: float = param(-180, 180, neutral=0, grid=range(3, 31, 3), resolution=0.1, unit="°")

    def _matrix(self, width: int, height: int) -> Array:
        cos, sin = math.cos(math.radians(self.degrees)), math.sin(math.radians(self.degrees))
        return _matrix_about([[cos, sin], [-sin, cos]], self._fixed(width, height))  # y points down

    def _fixed(self, width: int, height: int) -> tuple[float, float]:
        return width / 2, height / 2

    def _describe(self) -> str:
        return f"rotated {abs(self.degrees):g}° {'' if self.degrees < 0 else 'counter-'}clockwise"


@dataclass(frozen=True)
class RotateAboutPixel(Rotate):
    """A rotation about the centre of the pixel in column `width // 2` and row `height // 2`, as in DeepTest's code.

    With even sizes that is half a pixel right of and below the image centre.
    """

    # B.1, item 25: cv2.getRotationMatrix2D((cols/2, rows/2), …) in Python 2, where / of integers rounds down
    def _fixed(self, width: int, height: int) -> tuple[float, float]:
        return width // 2 + 0.5, height // 2 + 0.5

    def _describe(self) -> str:
        return f"{super()._describe()} about the middle pixel"


@dataclass(frozen=True)
class ZoomOut(_Affine):
    """The canvas padded by shares `x` of its width and `y` of its height, then scaled back to its size.

    `left` and `top` are the shares of the padding on those sides: a point moves to (x + pad left) · W / (W + pad).
    """

    # TG-16, D-24
    x: float = param(0, 9, neutral=0, grid=(0.25,), resolution=0.01, default=0.25)
    y: float = param(0, 9, neutral=0, grid=(0.25,), resolution=0.01, default=0.25)
    left: float = dataclasses.field(default=0.5, kw_only=True)
    top: float = dataclasses.field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, share in (("left", self.left), ("top", self.top)):
            check_number(name, share, 0, 1)

    def _matrix(self, width: int, height: int) -> Array:
        across, down = 1 / (1 + self.x), 1 / (1 + self.y)
        shift = self.x * self.left * width * across, self.y * self.top * height * down
        return np.array([[across, 0, shift[0]], [0, down, shift[1]]], dtype=np.float64)

    def _describe(self) -> str:
        sides = "" if self.left == self.top == 0.5 else f", {self.left:.0%} of it on the left and {self.top:.0%} at the top"
        return f"zoomed out, {self.x:.0%} wider and {self.y:.0%} higher" + sides


@dataclass(frozen=True)
class Enlarge(ImageChange):
    """The image resized to `x` times its width and `y` times its height; nothing is cropped."""

    # D-9: DeepTest's scale as its authors ran it, which a model's own resizing undoes
    x: float = param(0.1, 10, neutral=1, grid=ENLARGE_GRID, unit="×")
    y: float = param(0.1, 10, neutral=1, grid=ENLARGE_GRID, unit="×")
    preserves: ClassVar[tuple[str, ...]] = ("steering", "signal", "points", "boxes3d", "region", "scene")

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """Boxes scale with the image."""
        size = None if value.size is None else self._new_size(*value.size)
        grown = value.xyxy * np.array([self.x, self.y] * 2)
        return Boxes2D(grown, value.kinds, value.scores, size, value.care, value.hidden)

    def masks(self, value: Masks) -> Masks:
        """Every pixel keeps its instance."""
        return dataclasses.replace(value, instances=self._resize(value.instances, cv2.INTER_NEAREST))

    def classes(self, value: Classes) -> Classes:
        """Every pixel keeps its class."""
        return dataclasses.replace(value, numbers=self._resize(value.numbers, cv2.INTER_NEAREST))

    def depth(self, value: Depth) -> Depth:
        """Every pixel keeps its distance."""
        return Depth(self._resize(value.metres, cv2.INTER_NEAREST))

    def calibration(self, value: Calibration) -> Calibration:
        """The camera's matrices project to the pixels of the resized image."""
        scale = np.diag([self.x, self.y, 1.0])
        grown = {name: scale @ value.matrices[name] for name in CAMERAS if name in value.matrices}
        size = None if value.size is None else self._new_size(*value.size)
        return Calibration({**value.matrices, **grown}, size) if grown else value

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (the image would take too much memory, as repeated enlargements soon do), or None."""
        # D-7
        for image in images_of(case):
            width, height = self._new_size(*image.size)
            if width * height > MAX_PIXELS:
                return f"{width}×{height} pixels are too many: the limit is {MAX_PIXELS:,}"
        return None

    def words(self) -> str:
        return f"resized to {self.x:g}× the width and {self.y:g}× the height"

    def _change_pixels(self, pixels: Array) -> Array:
        return self._resize(pixels, cv2.INTER_LINEAR)

    def _resize(self, array: Array, how: int) -> Array:
        if self._is_neutral() or not array.size:
            return array
        height, width = array.shape[:2]
        return np.asarray(cv2.resize(array, self._new_size(width, height), interpolation=how))

    def _new_size(self, width: int, height: int) -> tuple[int, int]:
        return max(MIN_SIDE, round(width * self.x)), max(MIN_SIDE, round(height * self.y))


_LOCAL = threading.local()


def _scratch(height: int, width: int) -> tuple[Array, Array]:
    """Two four-channel buffers per thread: allocating them would take as long as the warp."""
    shape = (height, width, 4)
    if getattr(_LOCAL, "shape", None) != shape:
        _LOCAL.shape, _LOCAL.pair = shape, (np.empty(shape, dtype=np.uint8), np.empty(shape, dtype=np.uint8))
    first, second = _LOCAL.pair
    return first, second


def _shift_slices(by: int, length: int) -> tuple[slice, slice]:
    """The pixels that stay in frame when `length` pixels are shifted `by`: where they were, and where they go."""
    left = max(length - abs(by), 0)
    old, new = max(-by, 0), max(by, 0)
    return slice(old, old + left), slice(new, new + left)


def _matrix_about(linear: list[list[float]], fixed: tuple[float, float]) -> Array:
    """The 2×3 matrix with this `linear` part that keeps the point `fixed` in place."""
    return np.column_stack([linear, np.array(fixed) - np.array(linear) @ fixed])


def _transform_points(points: Array, matrix: Array) -> Array:
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2])


def _clip_to_image(corners: Array, size: tuple[int, int]) -> tuple[float, Array]:
    """The share of a quadrilateral that lies inside the image, and the corners of that part."""
    rest = corners
    for axis, limit, sign in ((0, 0, 1), (1, 0, 1), (0, size[0], -1), (1, size[1], -1)):
        rest = _clip_half_plane(rest, axis, limit, sign)
    whole = _area(corners)
    return (_area(rest) / whole if whole > 0 else float(len(rest) > 0)), rest


def _clip_half_plane(corners: Array, axis: int, limit: float, sign: int) -> Array:
    """The part of a polygon on one side of `limit`: one step of Sutherland-Hodgman clipping."""
    kept = []
    inside = sign * (corners[:, axis] - limit) >= 0
    for place, (here, there) in enumerate(zip(corners, np.roll(corners, -1, axis=0), strict=True)):
        if inside[place]:
            kept.append(here)
        if inside[place] != inside[(place + 1) % len(corners)]:
            crossing = here + (there - here) * ((limit - here[axis]) / (there[axis] - here[axis]))
            crossing[axis] = limit
            kept.append(crossing)
    return np.array(kept).reshape(-1, 2)


def _area(corners: Array) -> float:
    """The area of a polygon, by the shoelace formula."""
    x, y = corners.T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"'{name}' must be one of {', '.join(allowed)}, got {value!r}")
