"""A small classifier of objects, which tells whether drawn ones are still recognised as what they are."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.train.loop import Recipe, Task, fit
from swerve.translation.translator import pictures_of
from swerve.zoo.paint_data import ObjectWindows

SIDE = 48  # pixels of a window as the classifier sees it
RECIPE = Recipe(passes=10, batch=32, rate=2e-3, decay=0.01, patience=10, one_cycle=True)
COLOURS = 0.25  # by which the levels of a channel are varied in training
AT_ONCE = 64


@dataclass(frozen=True)
class KindScore:
    """The shares of held-out objects whose kind is known: real, drawn, and filled with one colour; and without looking."""

    real: float
    drawn: float
    flat: float
    chance: float
    count: int


class KindNet(nn.Sequential):
    """Three convolutions and a linear layer."""

    def __init__(self, kinds: int) -> None:
        parts: list[nn.Module] = []
        into = 3
        for width in (24, 48, 96):
            parts += [nn.Conv2d(into, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            into = width
        super().__init__(*parts, nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.3), nn.Linear(9 * into, kinds))


def score_kinds(train: ObjectWindows, held: ObjectWindows, drawn: Array, *, seed: int) -> KindScore:
    """Train a classifier on the objects of real windows, and ask it for the kinds of drawn ones."""
    kinds = sorted(set(train.kind))
    true = np.array([kinds.index(kind) for kind in held.kind])
    inside = (held.instances == held.number[:, None, None])[..., None]
    mean = (held.pixels * inside).sum((1, 2)) / np.maximum(inside.sum((1, 2)), 1)
    flat = np.where(inside, mean[:, None, None].astype(np.uint8), held.pixels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _learnt(train, held, kinds, seed)
    real, painted, even = (_share(_answers(net, pixels) == true) for pixels in (held.pixels, drawn, flat))
    return KindScore(real, painted, even, chance=round(float(np.bincount(true).max() / len(true)), 4), count=len(held))


def _share(right: Array) -> float:
    return round(float(right.mean()), 4)


def _learnt(train: ObjectWindows, held: ObjectWindows, kinds: list[str], seed: int) -> KindNet:
    rng, net = rng_for(seed, "object kinds"), KindNet(len(kinds))
    labels = np.array([kinds.index(kind) for kind in train.kind])
    true = np.array([kinds.index(kind) for kind in held.kind])
    weights = 1 / np.bincount(labels, minlength=len(kinds))[labels]
    small = _small(train.pixels)
    steps = -(-len(labels) // RECIPE.batch)

    def batches(_: int) -> list[Array]:
        return [rng.choice(len(labels), RECIPE.batch, p=weights / weights.sum()) for _ in range(steps)]

    def loss(chosen: Array) -> Tensor:
        seen = small[torch.from_numpy(chosen)]
        seen = seen.flip(-1) if rng.random() < 0.5 else seen
        gain = torch.from_numpy(rng.uniform(1 - COLOURS, 1 + COLOURS, (len(chosen), 3, 1, 1)).astype(np.float32))
        return nn.functional.cross_entropy(net(seen * gain), torch.from_numpy(labels[chosen]))

    fit(net, Task(batches, loss, lambda: float((_answers(net, held.pixels) != true).mean())), RECIPE, rng=rng)
    return net


def _small(pixels: Array) -> Tensor:
    small = [cv2.resize(one, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for one in pixels]
    return pictures_of(torch.from_numpy(np.stack(small)))


def _answers(net: nn.Module, pixels: Array) -> Array:
    net.eval()
    with torch.inference_mode():
        rows = [net(_small(pixels[start : start + AT_ONCE])).argmax(1) for start in range(0, len(pixels), AT_ONCE)]
    return torch.cat(rows).numpy()
