"""Pictures with boxes as training samples, and random crops of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch
from torch import Tensor

from swerve.core.arguments import check_number, check_whole
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Array, Boxes2D, Image, find

SHOWN, HINTED = 0.6, 0.02  # shares of a box in a crop: from the first it must be found, below the second it is forgotten
FIRST = 1  # the number of the first kind in a target: 0 is the background, as in torchvision
Target = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class LabelledPicture:
    """A picture and its boxes (left, top, right, bottom), the number of each box's kind, and which must be found."""

    pixels: Array
    boxes: Array
    kinds: Array
    care: Array

    @classmethod
    def of(cls, case: Case, kinds: Sequence[str]) -> LabelledPicture:
        """A case with an image `camera` and 2-D boxes as labels; raises `InputError` for a kind that is not listed."""
        image, truth = case.inputs.get("camera"), find(case.truth, Boxes2D.slot)
        if not isinstance(image, Image) or not isinstance(truth, Boxes2D):
            raise InputError(f"{case.key}: training a detector needs an image 'camera' and 2-D boxes as labels")
        if strange := sorted(set(truth.kinds) - set(kinds)):
            raise InputError(f"{case.key}: the label {strange[0]!r} is not one of the detector's kinds: {', '.join(kinds)}")
        numbers = np.array([list(kinds).index(kind) for kind in truth.kinds], np.int64)
        return cls(image.pixels, np.asarray(truth.xyxy, np.float32), numbers, np.asarray(truth.care, bool))

    def truth(self, kinds: Sequence[str]) -> Boxes2D:
        """Its labels as a value."""
        height, width = self.pixels.shape[:2]
        names = tuple(kinds[number] for number in self.kinds)
        return Boxes2D(self.boxes, names, size=(width, height), care=self.care)

    def mirrored(self) -> LabelledPicture:
        """The same seen in a mirror."""
        boxes = self.boxes.copy()
        boxes[:, [0, 2]] = self.pixels.shape[1] - boxes[:, [2, 0]]
        return replace(self, pixels=self.pixels[:, ::-1], boxes=boxes)

    def target(self) -> Target:
        """What a detector is to answer: boxes with labels counted from 1, and the boxes that count neither way."""
        boxes = torch.from_numpy(self.boxes.astype(np.float32))
        care, kinds = torch.from_numpy(self.care.copy()), torch.from_numpy(self.kinds.copy())
        return {"boxes": boxes[care], "labels": kinds[care] + FIRST, "ignore": boxes[~care]}


@dataclass(frozen=True)
class CropRecipe:
    """How training samples are cut from pictures: squares of `side` pixels, of which `aimed` show a box on purpose.

    Args:
        smallest: the least magnification.
        largest: the greatest magnification.
        mosaic: the share of samples that are put together of four crops.
        mirror: the share that is mirrored, except where a box is wider than high: a horizontal light has red on one side.
        short: pixels; a box whose short side is less in a crop need not be found.
        colour: how far brightness, contrast and saturation vary; hues are kept, as they tell the states of lights apart.
    """

    side: int = 320
    aimed: float = 0.75
    smallest: float = 0.7
    largest: float = 1.45
    mosaic: float = 0.35
    mirror: float = 0.5
    short: float = 6.5
    colour: float = 0.25

    def __post_init__(self) -> None:
        check_whole("side", self.side, 32, error=InputError)
        for name in ("aimed", "mosaic", "mirror", "colour"):
            check_number(name, getattr(self, name), 0, 1, error=InputError)
        check_number("smallest", self.smallest, 0, self.largest, above=True, error=InputError)


@dataclass(frozen=True, eq=False)
class Crops:
    """Random crops of pictures as batches for a detector, drawn from `rng`."""

    pictures: Sequence[LabelledPicture]
    rng: np.random.Generator
    recipe: CropRecipe

    def batch(self, chosen: Array) -> tuple[list[Tensor], list[Target]]:
        """A sample of each chosen picture: RGB from 0 to 1 as channels x rows x columns, and its target."""
        samples = [self.sample(int(number)) for number in chosen]
        images = [torch.from_numpy(np.ascontiguousarray(sample.pixels)).movedim(-1, 0) / 255 for sample in samples]
        return images, [sample.target() for sample in samples]

    def sample(self, number: int) -> LabelledPicture:
        """A crop of a picture, or a mosaic that begins with one."""
        rng, side = self.rng, self.recipe.side
        if rng.random() < self.recipe.mosaic:
            others = rng.integers(len(self.pictures), size=3)
            shown = mosaic([self._crop(int(each), side // 2) for each in (number, *others)])
        else:
            shown = self._crop(number, side)
        spans = shown.boxes[:, 2:] - shown.boxes[:, :2]
        if rng.random() < self.recipe.mirror and not (spans[:, 0] > spans[:, 1]).any():
            shown = shown.mirrored()
        return replace(shown, pixels=recoloured(shown.pixels, rng, self.recipe.colour))

    def _crop(self, number: int, side: int) -> LabelledPicture:
        """A square of a picture, magnified to `side` pixels."""
        picture, rng, recipe = self.pictures[number], self.rng, self.recipe
        height, width = picture.pixels.shape[:2]
        zoom = np.exp(rng.uniform(np.log(recipe.smallest), np.log(recipe.largest)))
        window = int(min(round(side / zoom), height, width))
        corner = rng.uniform(0, 1, 2) * (width - window, height - window)
        wanted = np.flatnonzero(picture.care)
        if len(wanted) and rng.random() < recipe.aimed:
            box = picture.boxes[rng.choice(wanted)]
            corner = (box[:2] + box[2:]) / 2 - window * rng.uniform(0.1, 0.9, 2)
        left, top = np.clip(np.rint(corner), 0, (width - window, height - window)).astype(int)
        return cut(picture, (int(left), int(top)), window, side=side, short=recipe.short)


def cut(picture: LabelledPicture, corner: tuple[int, int], window: int, *, side: int, short: float) -> LabelledPicture:
    """The square window at a corner, resized to `side` pixels; boxes that are cut off or too small lose their care."""
    left, top = corner
    pixels = picture.pixels[top : top + window, left : left + window]
    how = cv2.INTER_AREA if window > side else cv2.INTER_LINEAR
    boxes = (picture.boxes - np.array([left, top, left, top], np.float32)) * np.float32(side / window)
    clipped = np.clip(boxes, 0, side)
    share = _areas(clipped) / np.maximum(_areas(boxes), 1e-6)
    large = np.minimum(*(clipped[:, 2:] - clipped[:, :2]).T) >= short if len(boxes) else np.zeros(0, bool)
    care, kept = picture.care & (share >= SHOWN) & large, share > HINTED
    shown = cv2.resize(pixels, (side, side), interpolation=how)
    return LabelledPicture(shown, clipped[kept], picture.kinds[kept], care[kept])


def mosaic(parts: Sequence[LabelledPicture]) -> LabelledPicture:
    """Four square pictures of one size as one picture, row by row."""
    side = len(parts[0].pixels)
    rows = [np.hstack([part.pixels for part in parts[start : start + 2]]) for start in (0, 2)]
    corners = [np.array([x, y, x, y], np.float32) for y in (0, side) for x in (0, side)]
    boxes = [part.boxes + corner for part, corner in zip(parts, corners, strict=True)]
    kinds, care = (np.concatenate([getattr(part, name) for part in parts]) for name in ("kinds", "care"))
    return LabelledPicture(np.vstack(rows), np.concatenate(boxes), kinds, care)


def recoloured(pixels: Array, rng: np.random.Generator, by: float) -> Array:
    """The pixels with another brightness, white balance, contrast and saturation."""
    bright, contrast, saturation = (1 + rng.uniform(-by, by, 3)).astype(np.float32)
    balance = (1 + rng.uniform(-by / 4, by / 4, 3)).astype(np.float32)
    shown = pixels.astype(np.float32) * (bright * balance)
    mean = shown.mean()
    grey = shown.mean(axis=2, keepdims=True)
    shown = (grey + (shown - grey) * saturation - mean) * contrast + mean
    within: Array = np.clip(shown, 0, 255)
    return within


def _areas(boxes: Array) -> Array:
    spans = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    areas: Array = spans[:, 0] * spans[:, 1]
    return areas


def pictures_of(cases: Iterator[Case], kinds: Sequence[str]) -> list[LabelledPicture]:
    """The cases as training samples, in memory."""
    return [LabelledPicture.of(case, kinds) for case in cases]
