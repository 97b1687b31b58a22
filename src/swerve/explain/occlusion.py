"""Occlusion: how much less a system steers when a part of the picture is hidden; it works for black boxes, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swerve.core.arguments import check_whole
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import Answer, System
from swerve.core.values import Array, Group, Image, Steering, Value, find
from swerve.explain.heat import HeatMap, normalised, picture_of


@dataclass(frozen=True)
class Occlusion:
    """Hides one tile of the picture after the other under its mean colour; what turns the wheel back was important.

    Args:
        rows, columns: the number of tiles.
    """

    # IA-4

    rows: int = 8
    columns: int = 12

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            check_whole(name, getattr(self, name), 1)

    def explain(self, cases: Sequence[Case], system: System) -> Sequence[HeatMap]:
        """A heat map of each case's picture; a pass with all tiles of one case at a time."""
        return [self._heat(case, system) for case in cases]

    def _heat(self, case: Case, system: System) -> HeatMap:
        size = picture_of(case).size
        hidden = [_hide(case, box) for box in self._tiles(size)]
        before, *after = (_degrees(answer) for answer in system([case, *hidden]))
        drop = (before - np.array(after)) * (1 if before >= 0 else -1)
        return HeatMap(normalised(drop.reshape(self.rows, self.columns)), (0.0, 0.0, float(size[0]), float(size[1])), size)

    def _tiles(self, size: tuple[int, int]) -> list[tuple[int, int, int, int]]:
        x, y = np.linspace(0, size[0], self.columns + 1).round(), np.linspace(0, size[1], self.rows + 1).round()
        return [
            (int(x[column]), int(y[row]), int(x[column + 1]), int(y[row + 1]))
            for row in range(self.rows)
            for column in range(self.columns)
        ]


def _hide(case: Case, box: tuple[int, int, int, int]) -> Case:
    """The case with a box of every picture filled with the picture's mean colour."""
    return replace(case, inputs={name: _covered(value, box) for name, value in case.inputs.items()})


def _covered(value: Value, box: tuple[int, int, int, int]) -> Value:
    if isinstance(value, Group):
        return Group(tuple(_covered(item, box) for item in value.values))
    return Image(_fill(value.pixels, box)) if isinstance(value, Image) else value


def _fill(pixels: Array, box: tuple[int, int, int, int]) -> Array:
    left, top, right, bottom = box
    filled = pixels.copy()
    filled[top:bottom, left:right] = np.rint(pixels.mean(axis=(0, 1)))
    return filled


def _degrees(answer: Answer) -> float:
    angle = find(answer, Steering.slot)
    if not isinstance(angle, Steering):
        raise InputError("occlusion explains steering angles, and the system answered without one")
    return angle.degrees
