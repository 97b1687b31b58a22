"""From a picture to a network's input: small steps that keep track of where their pixels are in the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol, runtime_checkable

import numpy as np

from swerve.core.arguments import check_known
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Array, Group, Image

LAYOUTS = ("chw", "hwc")
FRAMES = ("one", "stack", "channels", "differences")


@dataclass(frozen=True, eq=False)
class ImageView:
    """The array that a network gets from one picture, and its position in the picture.

    A point (x, y) of the picture is at (x, y) * scale + shift in the view; both have their origin in the upper left corner.
    """

    numbers: Array  # rows x columns x channels, bytes at first
    size: tuple[int, int]  # width and height of the picture itself
    scale: tuple[float, float] = (1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)
    laid_out: tuple[int, int] | None = None  # width and height of the view, once its axes are in the network's order
    colours: str = "rgb"  # of the channels: rgb, bgr, grey, yuv or hsv

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height of the view."""
        return self.laid_out or (self.numbers.shape[1], self.numbers.shape[0])

    def back(self, xyxy: Array) -> Array:
        """Boxes in pixels of the view as boxes in pixels of the picture, not clipped."""
        corners: Array = (xyxy - np.tile(self.shift, 2)) / np.tile(self.scale, 2)
        return corners

    def with_numbers(self, numbers: Array) -> ImageView:
        """The same position and colours with other numbers."""
        return replace(self, numbers=numbers)

    def recoloured(self, numbers: Array, colours: str) -> ImageView:
        """The same position in other colours."""
        return replace(self, numbers=numbers, colours=colours)

    def moved(
        self, numbers: Array, *, scale: tuple[float, float] = (1.0, 1.0), shift: tuple[float, float] = (0.0, 0.0)
    ) -> ImageView:
        """Other numbers, in which a point (x, y) of this view is at (x, y) * scale + shift."""
        return replace(
            self,
            numbers=numbers,
            scale=(self.scale[0] * scale[0], self.scale[1] * scale[1]),
            shift=(self.shift[0] * scale[0] + shift[0], self.shift[1] * scale[1] + shift[1]),
        )


@runtime_checkable
class Step(Protocol):
    """One step of preprocessing."""

    def __call__(self, view: ImageView) -> ImageView:
        """The view after this step."""


@dataclass(frozen=True)
class Preprocessing:
    """From a case to the array of one network input, without a batch axis.

    Args:
        steps: applied to every picture, in order.
        sensor: the name of the input to use.
        layout: the order of the axes, `chw` or `hwc`.
        frames: `one` picture; or for a window, oldest first: `stack`, along a further first axis; `channels`, concatenated;
            `differences`, each frame minus the previous one, concatenated.
    """

    steps: Sequence[Step]
    sensor: str = "camera"
    layout: str = "chw"
    frames: str = "one"

    def __post_init__(self) -> None:
        for what, given, known in (("layout", self.layout, LAYOUTS), ("value of 'frames':", self.frames, FRAMES)):
            check_known(what, given, known)

    def __call__(self, case: Case) -> ImageView:
        """The network's input for a case: bytes if no step changed their type, otherwise float32.

        Its position is that of the last frame, to which the labels of a window belong.
        """
        views = [reduce(_stepped, self.steps, ImageView(image.pixels, image.size)) for image in self._images(case)]
        last = views[-1]
        if any(view.numbers.shape != last.numbers.shape for view in views):
            raise InputError(f"{case.key}: the frames of this window have different sizes after preprocessing")
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
        got = f"a {type(given).__name__}" if given is not None else f"only {', '.join(case.inputs) or 'nothing'}"
        if isinstance(given, Group):
            held = {type(value).__name__ for value in given.values}
            got = f"a window of {len(given.values)}" + (f" with {', '.join(sorted(held))}" if held - {"Image"} else "")
        if self.frames == "one":
            return f"{case.key}: this network needs one image named '{self.sensor}', got {got}"
        count = "two or more images" if self._fewest == 2 else "images"
        return f"{case.key}: this network needs a window of {count} named '{self.sensor}', got {got}; use Windows(source, n)"


def _stepped(view: ImageView, step: Step) -> ImageView:
    after: object = step(view)
    if not isinstance(after, ImageView) or after.numbers.ndim != 3:
        shape = f"{after.numbers.ndim} axes" if isinstance(after, ImageView) else type(after).__name__
        raise InputError(f"{type(step).__name__} must return an ImageView of rows x columns x channels, got {shape}")
    return after
