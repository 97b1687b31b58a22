"""Cases made from one picture, to measure what frames and windows cost before there are any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import digest_of
from swerve.core.values import Group, Image, Steering


@dataclass(frozen=True)
class Stills:
    """A few cases with windows of `length` distinct frames, made from one picture."""

    picture: Image
    length: int
    count: int = 2

    def keys(self) -> list[str]:
        return [f"still-{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        first = int(key.rpartition("-")[2]) * self.length
        frames = tuple(self._frame(first + number) for number in range(self.length))
        return Case(key, {"camera": frames[0] if self.length == 1 else Group(frames)}, (Steering(float(first + 1)),))

    def holds(self, key: str) -> list[str]:
        """The frames of a case."""
        return [f"{key}/{number}" for number in range(self.length)]

    def fingerprint(self) -> str:
        return digest_of("stills", self.picture.digest, self.length, self.count)

    def _frame(self, number: int) -> Image:
        pixels = np.array(self.picture.pixels)
        pixels[0, number % pixels.shape[1]] ^= 1 + number // pixels.shape[1]
        return Image(pixels)
