"""A small network that looks at a street of the embedded world: where the road is, and in which conditions it was taken.

It checks translations: whether the road is still seen, and whether the picture is taken for what it should show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.translation.blocks import convolution, places
from swerve.translation.packaged import packaged
from swerve.translation.translator import pictures_of

WIDTH, HEIGHT = 128, 72  # of the pictures that it sees
READER = "scene-reader"
BATCH = 32
Kinds = tuple[str, ...]


class SceneReaderNet(nn.Module):
    """Five convolutions that both answers share, a road mask at half the size, and a number for every kind of conditions."""

    def __init__(self, kinds: int, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = _layer(3, width, 2), _layer(width, 2 * width, 2)
        self.coarse = nn.Sequential(
            _layer(2 * width, 4 * width, 2), _layer(4 * width, 4 * width), _layer(4 * width, 4 * width)
        )
        self.middle = _layer(4 * width + 2 * width + 4, 2 * width)
        self.fine = _layer(2 * width + width, width)
        self.road = nn.Conv2d(width, 1, 1)
        self.kind = nn.Linear(8 * width, kinds)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of road, batch x rows x columns, and of the kinds of conditions."""
        half = self.first(pictures)
        quarter = self.second(half)
        coarse = self.coarse(quarter)
        means = torch.cat([coarse.mean((2, 3)), coarse.amax((2, 3))], 1)
        middle = self.middle(torch.cat([_enlarged(coarse, quarter), quarter, places(quarter)], 1))
        fine = self.fine(torch.cat([_enlarged(middle, half), half], 1))
        return self.road(fine)[:, 0], self.kind(means)


def _layer(into: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(convolution(into, out, 3, stride), nn.BatchNorm2d(out), nn.ReLU())


def _enlarged(codes: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(codes, like.shape[-2:], mode="bilinear", align_corners=False)


@dataclass(frozen=True, eq=False)
class SceneReader:
    """The trained network, ready for pictures of any size."""

    net: SceneReaderNet
    kinds: Kinds

    def roads(self, pictures: Sequence[Array]) -> Array:
        """Where it sees the road: number x rows x columns, at half of its own size."""
        return np.concatenate([(road > 0).numpy() for road, _ in self._read(pictures)])

    def conditions(self, pictures: Sequence[Array]) -> list[str]:
        """The kind of conditions that it takes each picture for."""
        return [self.kinds[int(place)] for _, kinds in self._read(pictures) for place in kinds.argmax(1)]

    def _read(self, pictures: Sequence[Array]) -> list[tuple[Tensor, Tensor]]:
        found = []
        with torch.inference_mode():
            for start in range(0, len(pictures), BATCH):
                small = [_small(pixels) for pixels in pictures[start : start + BATCH]]
                found.append(self.net(pictures_of(torch.from_numpy(np.stack(small)))))
        return found


def _small(pixels: Array) -> Array:
    if pixels.shape[:2] == (HEIGHT, WIDTH):
        return pixels
    how = cv2.INTER_AREA if pixels.shape[1] > WIDTH else cv2.INTER_LINEAR
    return cv2.resize(pixels, (WIDTH, HEIGHT), interpolation=how)


def reader_bytes(reader: SceneReader) -> bytes:
    """The network as a file, in half precision."""
    tensors = {name: part.half().contiguous() for name, part in reader.net.state_dict().items()}
    return save(tensors, {READER: json.dumps(reader.kinds)})


def read_reader(content: bytes, name: str) -> SceneReader:
    """The network in the bytes of a file called `name`."""
    try:
        length = int.from_bytes(content[:8], "little")
        kinds = tuple(map(str, json.loads(_metadata(json.loads(content[8 : 8 + length]))[READER])))
        net = SceneReaderNet(len(kinds))
        net.load_state_dict({key: part.float() for key, part in load(content).items()})
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise InputError(f"{name}: not a scene reader: {str(error).splitlines()[0]}") from error
    return SceneReader(net.eval(), kinds)


def _metadata(header: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = header["__metadata__"]
    return found


@cache
def scene_reader() -> SceneReader:
    """The packaged one."""
    file = packaged(READER)
    return read_reader(file.read_bytes(), file.name)
