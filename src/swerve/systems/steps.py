"""The steps of preprocessing: colour, size, position and numbers.

Every picture starts as bytes in RGB. `Grey` accepts RGB and BGR; `Yuv` and `Hsv` accept only bytes in RGB, so they must come
before `Bgr`, `Float` and the like. Sizes are width before height. Colours and sizes are computed by OpenCV, to the bit:
published networks were trained on those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import cv2
import numpy as np

from swerve.config import limits
from swerve.core.arguments import OneOfNames, check_known, check_whole
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.systems.preprocessing import ImageView

METHODS = MappingProxyType(
    {"area": cv2.INTER_AREA, "linear": cv2.INTER_LINEAR, "nearest": cv2.INTER_NEAREST, "cubic": cv2.INTER_CUBIC}
)
ROWS, COLUMNS = ("top", "bottom"), ("left", "right")
TO_GREY = MappingProxyType({"rgb": cv2.COLOR_RGB2GRAY, "bgr": cv2.COLOR_BGR2GRAY})
TURNED = MappingProxyType({"rgb": "bgr", "bgr": "rgb", "grey": "grey"})
PLACES = ("centre", *ROWS, *COLUMNS, *(f"{row}-{column}" for row in ROWS for column in COLUMNS))
CORNERS = ("centre", "top-left")  # of a letterbox


@dataclass(frozen=True)
class Grey:
    """One channel: the luma of BT.601, from RGB or BGR."""

    def __call__(self, view: ImageView) -> ImageView:
        if view.colours not in TO_GREY:
            raise InputError(f"the step 'grey' needs an image in rgb or bgr, got {view.colours}")
        return _recoloured(view, self, TO_GREY[view.colours])


@dataclass(frozen=True)
class Yuv:
    """Luma and two colour differences, as OpenCV defines them."""

    def __call__(self, view: ImageView) -> ImageView:
        _check_first(view, self)
        return _recoloured(view, self, cv2.COLOR_RGB2YUV)


@dataclass(frozen=True)
class Hsv:
    """Hue, saturation and value, as OpenCV defines them: hue in bytes from 0 to 180."""

    def __call__(self, view: ImageView) -> ImageView:
        _check_first(view, self)
        return _recoloured(view, self, cv2.COLOR_RGB2HSV)


@dataclass(frozen=True)
class Bgr:
    """The channels in reverse order: RGB to BGR, or back."""

    def __call__(self, view: ImageView) -> ImageView:
        if view.colours not in TURNED:
            raise InputError(f"the step 'bgr' needs an image in rgb or bgr, got {view.colours}; remove one of the two steps")
        return view.recoloured(np.ascontiguousarray(view.numbers[..., ::-1]), TURNED[view.colours])


@dataclass(frozen=True)
class Resize:
    """The whole picture as width x height, whatever its aspect ratio; `by` is `linear`, `area`, `nearest` or `cubic`."""

    width: int
    height: int
    by: Annotated[str, OneOfNames(*METHODS)] = "linear"

    def __post_init__(self) -> None:
        _check_size(self)
        check_known("value of 'by':", self.by, METHODS)

    def __call__(self, view: ImageView) -> ImageView:
        return _resized(view, self.width, self.height, self.by)


@dataclass(frozen=True)
class Crop:
    """The pixels from `left` to `right` and from `top` to `bottom`, measured from the upper left corner."""

    left: int
    top: int
    right: int
    bottom: int

    def __post_init__(self) -> None:
        _check_whole(self, ("left", "top"), least=0)
        _check_whole(self, ("right", "bottom"), least=1)
        if self.left >= self.right or self.top >= self.bottom:
            raise InputError(f"crop: right must be greater than left, and bottom greater than top, got {self}")

    def __call__(self, view: ImageView) -> ImageView:
        return _cut(view, self, self.left, self.top, self.right, self.bottom)


@dataclass(frozen=True)
class CropTo:
    """A part of width x height; `at` is `centre`, `bottom` (centred horizontally), `bottom-left` and so on."""

    width: int
    height: int
    at: Annotated[str, OneOfNames(*PLACES)] = "centre"

    def __post_init__(self) -> None:
        _check_size(self)
        check_known("value of 'at':", self.at, PLACES)

    def __call__(self, view: ImageView) -> ImageView:
        width, height = view.shown
        left = _start(width - self.width, self.at, COLUMNS)
        top = _start(height - self.height, self.at, ROWS)
        return _cut(view, self, left, top, left + self.width, top + self.height)


@dataclass(frozen=True)
class Letterbox:
    """The whole picture with its aspect ratio inside width x height, the rest filled with `pad`.

    `at` is `top-left`, as in YOLOX, with sizes truncated to whole pixels, or `centre`, as in YOLOv5 and its successors, with
    sizes rounded. Without `upscale` a small picture keeps its size.
    """

    width: int
    height: int
    pad: int = 114
    at: Annotated[str, OneOfNames(*CORNERS)] = "centre"
    by: Annotated[str, OneOfNames(*METHODS)] = "linear"
    upscale: bool = True

    def __post_init__(self) -> None:
        _check_size(self)
        check_known("value of 'by':", self.by, METHODS)
        check_known("value of 'at':", self.at, CORNERS)
        check_whole("letterbox: pad", self.pad, 0, 255, error=InputError)

    def __call__(self, view: ImageView) -> ImageView:
        wide, high = view.shown
        ratio = min(self.width / wide, self.height / high)
        if not self.upscale:
            ratio = min(ratio, 1.0)
        whole = int if self.at == "top-left" else round
        small = _resized(view, max(1, whole(wide * ratio)), max(1, whole(high * ratio)), self.by)
        width, height = small.shown
        left, top = (0, 0) if self.at == "top-left" else (_margin(self.width - width), _margin(self.height - height))
        numbers = np.full((self.height, self.width, small.numbers.shape[2]), self.pad, dtype=small.numbers.dtype)
        numbers[top : top + height, left : left + width] = small.numbers
        return small.moved(numbers, shift=(left, top))


@dataclass(frozen=True)
class Float:
    """Bytes as floats, still from 0 to 255."""

    def __call__(self, view: ImageView) -> ImageView:
        return view.with_numbers(_floats(view))


@dataclass(frozen=True)
class Multiply:
    """Every number times `by`."""

    by: float

    def __post_init__(self) -> None:
        _check_factors("multiply: 'by'", (self.by,))

    def __call__(self, view: ImageView) -> ImageView:
        return view.with_numbers(_floats(view) * np.float32(self.by))


@dataclass(frozen=True)
class Divide:
    """Every number divided by `by`: 255 scales bytes to 0 to 1. `Multiply(1 / by)` differs in the last bit."""

    by: float = 255.0

    def __post_init__(self) -> None:
        _check_factors("divide: 'by'", (self.by,))

    def __call__(self, view: ImageView) -> ImageView:
        return view.with_numbers(_floats(view) / np.float32(self.by))


@dataclass(frozen=True)
class Normalise:
    """Every number minus `mean`, divided by `std`: one value per channel, or one for all."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.mean or not all(map(math.isfinite, self.mean)):
            raise InputError(f"normalise: 'mean' must be one or more numbers, got {self.mean!r}")
        _check_factors("normalise: 'std'", self.std)

    def __call__(self, view: ImageView) -> ImageView:
        channels = view.numbers.shape[2]
        for what, given in (("mean", self.mean), ("std", self.std)):
            if len(given) not in (1, channels):
                raise InputError(f"normalise: {what} has {len(given)} numbers, but the picture has {channels} channels")
        mean, std = (np.array(given, dtype=np.float32) for given in (self.mean, self.std))
        return view.with_numbers((_floats(view) - mean) / std)


def _recoloured(view: ImageView, step: object, code: int) -> ImageView:
    if view.numbers.shape[2] != 3:
        raise InputError(f"{_name(step)} needs three channels, got {view.numbers.shape[2]}")
    return view.recoloured(_channelled(cv2.cvtColor(view.numbers, code)), _name(step))


def _resized(view: ImageView, width: int, height: int, by: str) -> ImageView:
    wide, high = view.shown
    if (wide, high) == (width, height):
        return view
    numbers = _channelled(cv2.resize(view.numbers, (width, height), interpolation=METHODS[by]))
    return view.moved(numbers, scale=(width / wide, height / high))


def _cut(view: ImageView, step: object, left: int, top: int, right: int, bottom: int) -> ImageView:
    width, height = view.shown
    if left < 0 or top < 0 or right > width or bottom > height:
        part = f"{right - left}x{bottom - top} pixels from ({left}, {top})"
        raise InputError(f"{_name(step)}: {part} are not inside the picture, which is {width}x{height} at this step")
    return view.moved(view.numbers[top:bottom, left:right], shift=(-left, -top))


def _channelled(numbers: Array) -> Array:
    """With an axis of channels, which OpenCV drops if there is only one."""
    return numbers if numbers.ndim == 3 else numbers[..., np.newaxis]


def _floats(view: ImageView) -> Array:
    return view.numbers.astype(np.float32)


def _start(room: int, at: str, sides: tuple[str, str]) -> int:
    """The start of a part with `room` pixels left beside it."""
    words = at.split("-")
    return 0 if sides[0] in words else room if sides[1] in words else room // 2


def _margin(room: int) -> int:
    return round(room / 2 - 0.1)  # as in YOLOv5: an odd pixel goes to the right or bottom


def _check_first(view: ImageView, step: object) -> None:
    if view.colours != "rgb" or view.numbers.dtype != np.uint8:
        name, given = _name(step), f"{view.numbers.dtype} in {view.colours}"
        raise InputError(f"{name} needs uint8 RGB, got {given}; put {name} before bgr, float, divide and normalise")


def _check_size(step: Resize | CropTo | Letterbox) -> None:
    _check_whole(step, ("width", "height"), least=1)
    if step.width * step.height > limits.PIXELS:
        raise InputError(
            f"{_name(step)}: {step.width}x{step.height} is more than {limits.PIXELS:,} pixels (swerve list limits)"
        )


def _check_whole(step: object, names: Iterable[str], *, least: int) -> None:
    for name in names:
        check_whole(f"{_name(step)}: {name}", getattr(step, name), least, error=InputError)


def _check_factors(what: str, factors: tuple[float, ...]) -> None:
    if not factors or not all(math.isfinite(factor) and factor != 0 for factor in factors):
        raise InputError(f"{what} must be finite and not 0, got {factors!r}")


def _name(step: object) -> str:
    return type(step).__name__.lower()
