"""How a network is shown a picture: small steps, each a value, that remember where their pixels lie in the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol, runtime_checkable

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError, did_you_mean
from swerve.core.values import Array, Group, Image

LAYOUTS = ("chw", "hwc")
FRAMES = ("one", "stack", "channels", "differences")


@dataclass(frozen=True, eq=False)
class ImageView:
    """What a network is shown of one picture, and where that lies in the picture.

    A point (x, y) of the picture lies at (x, y) * scale + shift of what is shown; both count from the upper left corner.
    """

    numbers: Array  # rows x columns x channels, bytes at first
    size: tuple[int, int]  # width and height of the picture itself
    scale: tuple[float, float] = (1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)
    laid_out: tuple[int, int] | None = None  # width and height shown, once the axes are the network's own
    colours: str = "rgb"  # what the channels are: rgb, bgr, grey, yuv or hsv

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height of what is shown."""
        return self.laid_out or (self.numbers.shape[1], self.numbers.shape[0])

    def back(self, xyxy: Array) -> Array:
        """Boxes in shown pixels as boxes in the picture's, not clipped."""
        corners: Array = (xyxy - np.tile(self.shift, 2)) / np.tile(self.scale, 2)
        return corners

    def with_numbers(self, numbers: Array) -> ImageView:
        """The same place and colours with other numbers."""
        return replace(self, numbers=numbers)

    def recoloured(self, numbers: Array, colours: str) -> ImageView:
        """The same place in other colours."""
        return replace(self, numbers=numbers, colours=colours)

    def moved(
        self, numbers: Array, *, scale: tuple[float, float] = (1.0, 1.0), shift: tuple[float, float] = (0.0, 0.0)
    ) -> ImageView:
        """Other numbers, where a point now shown at (x, y) is at (x, y) * scale + shift of them."""
        return replace(
            self,
            numbers=numbers,
            scale=(self.scale[0] * scale[0], self.scale[1] * scale[1]),
            shift=(self.shift[0] * scale[0] + shift[0], self.shift[1] * scale[1] + shift[1]),
        )


@runtime_checkable
class Step(Protocol):
    """One thing done to a picture before a network sees it."""

    def __call__(self, view: ImageView) -> ImageView:
        """What is shown after this step."""


@dataclass(frozen=True)
class Preprocessing:
    """The way from a case to the numbers of one network input, without a batch axis.

    Args:
        steps: what is done to every picture, in order.
        sensor: the input that is looked at.
        layout: `chw` or `hwc`, how rows, columns and channels follow each other.
        frames: `one` picture; or of a window, oldest first: `stack`, a further axis in front; `channels`, side by side;
            `differences`, each frame minus the one before, side by side.
    """

    steps: Sequence[Step]
    sensor: str = "camera"
    layout: str = "chw"
    frames: str = "one"

    def __post_init__(self) -> None:
        for what, given, known in (("layout", self.layout, LAYOUTS), ("frames", self.frames, FRAMES)):
            if given not in known:
                raise InputError(f"{what} = {given!r} is not known; {did_you_mean(str(given), known)}")

    def __call__(self, case: Case) -> ImageView:
        """What the network is shown of a case: bytes where no step made other numbers of them, else float32.

        The place is that of the last frame, the one a window's truth belongs to.
        """
        views = [reduce(_stepped, self.steps, ImageView(image.pixels, image.size)) for image in self._images(case)]
        last = views[-1]
        if any(view.numbers.shape != last.numbers.shape for view in views):
            raise InputError(f"{case.key}: the frames of this window do not end in one size")
        return replace(last, numbers=self._laid_out([view.numbers for view in views]), laid_out=last.shown)

    def _laid_out(self, frames: Sequence[Array]) -> Array:
        if self.frames == "differences":
            frames = list(np.diff(np.stack(frames).astype(np.float32), axis=0))
        channels = 0 if self.layout == "chw" else -1
        turned = [np.moveaxis(frame, -1, channels) for frame in frames]
        numbers = np.stack(turned) if self.frames == "stack" else np.concatenate(turned, axis=channels)
        return np.ascontiguousarray(numbers, dtype=np.uint8 if numbers.dtype == np.uint8 else np.float32)

    def _images(self, case: Case) -> tuple[Image, ...]:
        given = case.inputs.get(self.sensor)
        if self.frames == "one" and isinstance(given, Image):
            return (given,)
        if self.frames != "one" and isinstance(given, Group) and len(given.values) >= self._fewest:
            images = tuple(value for value in given.values if isinstance(value, Image))
            if len(images) == len(given.values):
                return images
        raise InputError(self._refusal(case))

    @property
    def _fewest(self) -> int:
        return 2 if self.frames == "differences" else 1

    def _refusal(self, case: Case) -> str:
        given = case.inputs.get(self.sensor)
        told = f"a {type(given).__name__}" if given is not None else f"only {', '.join(case.inputs) or 'nothing'}"
        if isinstance(given, Group):
            held = {type(value).__name__ for value in given.values}
            told = f"a window of {len(given.values)}" + (f" holding {', '.join(sorted(held))}" if held - {"Image"} else "")
        if self.frames == "one":
            return f"{case.key}: this network reads one image named '{self.sensor}', got {told}"
        count = "two or more images" if self._fewest == 2 else "images"
        return (
            f"{case.key}: this network reads a window of {count} named '{self.sensor}', got {told}; use Windows(source, n)"
        )


def _stepped(view: ImageView, step: Step) -> ImageView:
    after: object = step(view)
    if not isinstance(after, ImageView) or after.numbers.ndim != 3:
        shape = f"{after.numbers.ndim} axes" if isinstance(after, ImageView) else type(after).__name__
        raise InputError(f"{type(step).__name__} must leave a ImageView of rows x columns x channels, it left {shape}")
    return after
