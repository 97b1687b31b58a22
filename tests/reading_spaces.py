"""Spaces whose changes depend on the case and the system, and a check that each saw what it should have seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.system import System
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Image, Steering


@dataclass(frozen=True)
class Lighter(Transformation):
    """Brightens the picture and turns the label by one degree; `seen` is what its space read."""

    by: float
    seen: float
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        return Image(np.clip(image.pixels + np.float32(self.by), 0, 255).astype(np.uint8))

    def steering(self, steering: Steering) -> Steering:
        return Steering(steering.degrees + 1)


class PictureSeen(Lighter):
    """By the level of the picture."""


class LabelSeen(Lighter):
    """By the label."""


class AnswerSeen(Lighter):
    """By the system's answer."""


def level_of(case: Case) -> float:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return float(image.pixels.mean(dtype=np.float64))


def label_of(case: Case) -> float:
    label = case.truth[0]
    assert isinstance(label, Steering)
    return label.degrees


def answers_of(system: System, cases: Sequence[Case]) -> list[float]:
    return [float(answer[0].degrees) for answer in system([replace(case, truth=()) for case in cases])]  # type: ignore[attr-defined]


def drawn(rng: np.random.Generator, seen: float) -> float:
    return round(float(rng.uniform(1, 4)) + seen % 7, 3)


@dataclass(frozen=True)
class ByPicture:
    """Reads the picture."""

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        del system
        return PictureSeen(drawn(rng, level_of(case)), level_of(case))

    def grid(self) -> Sequence[Transformation]:
        return ()


@dataclass(frozen=True)
class ByLabel:
    """Reads the label; where it is odd, the space has no change."""

    picky: bool = False

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        del system
        if self.picky and math.floor(label_of(case)) % 2:
            raise NotApplicable("the label is odd")
        return LabelSeen(drawn(rng, label_of(case)), label_of(case))

    def grid(self) -> Sequence[Transformation]:
        return ()


@dataclass(frozen=True)
class ByAnswer:
    """Asks the system, all cases in one pass."""

    def propose_all(
        self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Transformation]:
        return [AnswerSeen(drawn(rng, said), said) for rng, said in zip(rngs, answers_of(system, cases), strict=True)]

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        return self.propose_all([case], [rng], system)[0]

    def grid(self) -> Sequence[Transformation]:
        return ()


def steps_of(change: Transformation | None) -> Iterator[Transformation]:
    if isinstance(change, Chain):
        for step in change.steps:
            yield from steps_of(step)
    elif change is not None:
        yield change


def check_seen(change: Transformation | None, case: Case, system: System) -> int:
    """Assert that every step was proposed for the case as the steps before left it; return the number of steps that read."""
    count = 0
    for step in steps_of(change):
        if isinstance(step, Lighter):
            count += 1
            measured = {PictureSeen: level_of, LabelSeen: label_of, AnswerSeen: lambda case: answers_of(system, [case])[0]}
            assert step.seen == pytest.approx(measured[type(step)](case), abs=1e-3), step
        case = step(case)
    return count
