"""Simple test doubles: a source of noise images, a predictable system, and a sample case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import digest_of, rng_for
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Boxes3D, Depth, Group, Image, Masks, PointCloud, Signal, Steering


@dataclass(frozen=True)
class FakeSource:
    """`count` noise images whose steering label is their brightness: 1° for each grey level above 100."""

    count: int = 8
    width: int = 24
    height: int = 12
    seed: int = 0
    drive: int = 1  # frames per drive; a drive is a group

    def keys(self) -> Sequence[str]:
        return [f"fake-{index:05d}" for index in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        if key not in self._known:
            raise KeyError(key)
        pixels = rng_for("fake", self.seed, key).integers(60, 140, (self.height, self.width, 3), dtype=np.uint8)
        return Case(key, {"camera": Image(pixels)}, (Steering(brightness(pixels)),), group=self.group(key))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.keys())

    def group(self, key: str) -> str:
        """The drive of a frame."""
        return key if self.drive == 1 else f"drive-{int(key.removeprefix('fake-')) // self.drive}"

    def fingerprint(self) -> str:
        return digest_of("fake", self.count, self.width, self.height, self.seed, self.drive)


def brightness(pixels: Array) -> float:
    """Mean grey level above 100."""
    return float(pixels.mean(dtype=np.float64)) - 100.0


@dataclass(frozen=True)
class FakeSystem:
    """Steers by brightness, correct on a `FakeSource`; `gain` and `bias` add a fault, `weights` only changes the hash."""

    gain: float = 1.0
    bias: float = 0.0
    weights: str = "first"

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Steering(self.gain * brightness(_last(case).pixels) + self.bias),) for case in cases]

    def fingerprint(self) -> str:
        return digest_of("fake system", float(self.gain), float(self.bias), self.weights)


def _last(case: Case) -> Image:
    value = next(iter(case.inputs.values()))
    image = value.values[-1] if isinstance(value, Group) else value
    assert isinstance(image, Image)
    return image


def sample_case(width: int = 40, height: int = 30) -> Case:
    """A case with camera, LiDAR and most kinds of label, to test a transformation on."""
    rng = rng_for("sample", width, height)
    image = Image(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
    cloud = PointCloud(rng.uniform(-20, 20, (50, 4)).astype(np.float32))
    truth = (
        Steering(12.5),
        Signal("brake", 0.25),
        Boxes2D(np.array([[5, 5, 15, 12]]), ("car",), size=(width, height)),
        Boxes3D(np.array([[8, 1, 0, 4, 2, 1.5, 0.1]]), ("car",)),
        Masks(np.arange(width * height).reshape(height, width) % 3, {1: "car", 2: "person"}),
        Depth(rng.uniform(1, 80, (height, width)).astype(np.float32)),
    )
    return Case("sample", {"camera": image, "lidar": cloud}, truth, group="drive")
