"""A system that is no better than none is refused, and the mistake that explains it is named; its sound twin is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import pytest
import torch

import swerve as sw
from swerve.core.case import Case
from swerve.core.convention import Convention
from swerve.core.values import Boxes2D, Image, Steering
from swerve.execution.check import examine
from swerve.execution.checks.concern import Concern, Health, Level
from swerve.execution.checks.remedies import IMAGENET, remedies
from swerve.execution.engine import observe
from swerve.execution.executors.in_process import InProcess
from swerve.systems.steps import Bgr, Divide, Float, Grey, Letterbox, Normalise, Resize
from swerve.testing import MemoryLedger

STEER = sw.steering("degrees", positive="left", kind="wheel")
RULE = sw.Rule("brighter", sw.Over(sw.Brighten, beta=(5, 40)), sw.same_angle(15))


class Balance(torch.nn.Module):
    """Steers by red less blue, as its input was in training; beyond 1 its answer saturates, as a network's does."""

    def __init__(self, least: float = 0.0, most: float = 1.0) -> None:
        super().__init__()
        self.least, self.most = least, most

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        seen = ((batch - self.least) / (self.most - self.least)).clamp(-0.5, 1.5).mean(dim=(2, 3))
        return 100 * (seen[:, 0] - seen[:, 2])[:, None]


@dataclass(frozen=True)
class Drive:
    """Pictures whose red less blue is the angle, with labels times `factor`."""

    count: int = 40
    factor: float = 1.0
    unit: str = "degrees"

    @property
    def convention(self) -> Convention:
        return Convention(self.unit, "left", "wheel", None)

    def keys(self) -> Sequence[str]:
        return [f"{number:03}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        red, blue = np.random.default_rng(int(key)).integers(40, 200, 2)
        pixels = np.full((24, 32, 3), (red, 100, blue), np.uint8)
        return Case(key, {"camera": Image(pixels)}, (Steering(self.factor * 100 * float(int(red) - int(blue)) / 255),))

    def fingerprint(self) -> str:
        return repr(self)


def health_of(system: sw.System, source: sw.Source | None = None) -> Health:
    asked = sw.Campaign(source or Drive(), system, (RULE,))
    here = InProcess(asked)
    return examine(asked, observe(asked, MemoryLedger(), executor=here), here)


def network(*read: object, **how: float) -> sw.System:
    return sw.torch(Balance(**how), read=read, output=STEER)


def only(health: Health) -> tuple[str, Level, str]:
    ((name, level, why),) = [(one.name, one.level, one.why) for one in own(health)]
    return name, level, why


def own(health: Health) -> list[Concern]:
    """The concerns about the untouched system; the changes are the subject of test_health.py."""
    names = ("sign", "unit", "no better than zero", "preprocessing", "finds nothing")
    return [one for one in health.concerns if one.name in names]


def test_a_sound_network_has_no_concern() -> None:
    assert own(health_of(network(Divide(255.0)))) == []
    assert own(health_of(network(Bgr(), Bgr(), Divide(255.0)))) == []


@pytest.mark.parametrize(
    ("read", "how", "named"),
    [
        ((Float(),), {}, "divided by 255 in 'read'"),
        ((Divide(255.0),), {"most": 255.0}, "without divide in 'read', that is with numbers from 0 to 255"),
        ((Normalise((0.0,), (255.0,)),), {"most": 255.0}, "without normalise in 'read'"),
    ],
)
def test_numbers_in_another_range_are_named(read: tuple[object, ...], how: dict[str, float], named: str) -> None:
    name, level, why = only(health_of(network(*read, **how)))
    assert (name, level) == ("no better than zero", Level.REFUSAL)
    assert named in why
    assert "it would be 0°" in why or "e-" in why.rpartition("it would be ")[2].partition("°")[0]


def test_swapped_channels_look_like_another_sign() -> None:
    """For this network BGR is the sign itself: one cause of the two is named, and the network is refused."""
    name, level, _ = only(health_of(network(Bgr(), Divide(255.0))))
    assert (name, level) == ("sign", Level.REFUSAL)


class Warmth(torch.nn.Module):
    """Steers by red alone."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return 100 * (batch[:, 0].mean(dim=(1, 2)) - 0.47)[:, None]


@dataclass(frozen=True)
class Reds(Drive):
    """The angle is in red; blue has nothing to do with it."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        red = float(case.inputs["camera"].pixels[0, 0, 0])
        return replace(case, truth=(Steering(100 * (red / 255 - 0.47)),))


def test_swapped_channels_are_named() -> None:
    system = sw.torch(Warmth(), read=(Bgr(), Divide(255.0)), output=STEER)
    name, level, why = only(health_of(system, Reds()))
    assert (name, level) == ("no better than zero", Level.REFUSAL)
    assert "without bgr in 'read', that is in RGB it would be " in why


@pytest.mark.parametrize(("count", "level"), [(29, Level.WARNING), (30, Level.REFUSAL)])
def test_a_random_network_is_refused_without_a_hint(count: int, level: Level) -> None:
    def drive(case: Case) -> Steering:
        return Steering(float(np.random.default_rng([7, int(case.key)]).normal(0, 60)))

    name, found, why = only(health_of(sw.FunctionSystem(drive), Drive(count)))
    assert (name, found) == ("no better than zero", level)
    assert "tried without success: sign, unit, ÷255" in why


def test_nearly_always_zero_is_no_better_than_zero() -> None:
    """As measured: a squared error of 0.1288 against 0.1289."""
    system = sw.FunctionSystem(lambda case: Steering(1e-3 * float(case.inputs["camera"].pixels[0, 0, 0])))
    assert only(health_of(system))[0] == "no better than zero"


def test_an_offset_is_not_useless() -> None:
    inner = network(Divide(255.0))
    system = sw.FunctionSystem(lambda case: Steering(inner([case])[0][0].degrees + 90.0))
    assert own(health_of(system)) == []


@pytest.mark.parametrize(
    ("labels", "answers", "named"),
    [
        (math.radians(1), 1.0, "the labels ([source]) were radians ('unit') and not degrees"),
        (1.0, math.radians(1), "the answers ([system]) were radians ('unit') and not degrees"),
        (math.degrees(1), 1.0, "the labels ([source]) were degrees ('unit') and not radians"),
        (1.0, math.degrees(1), "the answers ([system]) were degrees ('unit') and not radians"),
        (-math.radians(1), 1.0, "the labels ([source]) were radians ('unit') and not degrees, and "),
    ],
)
def test_the_side_with_the_wrong_unit_is_named(labels: float, answers: float, named: str) -> None:
    inner = network(Divide(255.0))
    system = sw.FunctionSystem(lambda case: Steering(answers * inner([case])[0][0].degrees))
    health = health_of(system, Drive(factor=labels))
    name, level, why = next((one.name, one.level, one.why) for one in health.concerns)
    assert (name, level) == ("sign" if labels < 0 else "unit", Level.REFUSAL)
    assert named in why


def test_both_sides_in_radians_are_noticed() -> None:
    inner = network(Divide(255.0))
    system = sw.FunctionSystem(lambda case: Steering(math.radians(inner([case])[0][0].degrees)))
    name, level, why = only(health_of(system, Drive(factor=math.radians(1))))
    assert (name, level) == ("unit", Level.WARNING)
    assert "if these are radians, say so ('unit') in [source] and [system]" in why


def test_a_factor_is_named() -> None:
    inner = network(Divide(255.0))
    system = sw.FunctionSystem(lambda case: Steering(15 * inner([case])[0][0].degrees))
    name, level, why = only(health_of(system))
    assert (name, level) == ("no better than zero", Level.REFUSAL)
    assert "times 0.0667 it would be" in why
    assert "check 'unit', 'kind' and 'ratio'" in why


@dataclass(frozen=True)
class Squares(Drive):
    """A bright square on grey, labelled."""

    def __getitem__(self, key: str) -> Case:
        left, top = (int(one) for one in np.random.default_rng(int(key)).integers(8, 40, 2))
        pixels = np.full((64, 96, 3), 60, np.uint8)
        cv2.rectangle(pixels, (left, top), (left + 15, top + 15), (250, 250, 250), -1)
        boxes = Boxes2D(np.array([[left, top, left + 16.0, top + 16.0]]), ("car",), size=(96, 64))
        return Case(key, {"camera": Image(pixels)}, (boxes,))


class Bright(torch.nn.Module):
    """One box around the numbers that are above 0.8 and at most 1: centre, size, objectness, score."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        rows = []
        for one in batch:
            ys, xs = torch.where((one[0] > 0.8) & (one[0] <= 1.0))
            ends = [float(part) for part in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)] if len(xs) else [0, 0, 1, 1]
            left, top, right, bottom = ends
            rows.append([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top, 1.0, 0.9])
        return torch.tensor(rows)[:, None]


def detector(*read: object) -> sw.System:
    return sw.torch(Bright(), read=read, output=sw.YoloV5(kinds=("car",), score=0.1))


def test_a_detector_that_finds_nothing_is_refused() -> None:
    asked = sw.Campaign(Squares(), detector(Float()), (sw.Rule("same", sw.Over(sw.Brighten, beta=(1, 5)), sw.same_boxes()),))
    here = InProcess(asked)
    concerns = {one.name: one for one in examine(asked, observe(asked, MemoryLedger(), executor=here), here).concerns}
    assert concerns["finds nothing"].level is Level.REFUSAL
    assert "its mAP at an IoU of 0.5 is 0.000 on 40 labelled objects" in concerns["finds nothing"].why
    assert "divided by 255 in 'read'" in concerns["finds nothing"].why
    assert "it would be 1.000 instead of 0.000" in concerns["finds nothing"].why


def test_a_sound_detector_is_not() -> None:
    asked = sw.Campaign(Squares(), detector(Divide(255.0)), (sw.Rule("same", sw.Unchanged(), sw.same_boxes()),))
    here = InProcess(asked)
    names = {one.name for one in examine(asked, observe(asked, MemoryLedger(), executor=here), here).concerns}
    assert not names & {"finds nothing", "preprocessing"}


def test_remedies_undo_one_thing_each() -> None:
    read = (Bgr(), Resize(8, 8), Divide(255.0))
    tried = {remedy.words: remedy.read for remedy in remedies(read)}
    assert read not in tried.values()
    assert tried["without bgr in 'read', that is in RGB"] == read[1:]
    assert tried["with letterbox at = 'centre' in 'read'"] == (Bgr(), Letterbox(8, 8), Divide(255.0))
    assert tried["without divide in 'read', that is with numbers from 0 to 255"] == (Bgr(), Resize(8, 8), Float())
    assert any(steps == (Bgr(), Resize(8, 8), IMAGENET) for steps in tried.values())
    assert not any(isinstance(step, Bgr) for remedy in remedies([Grey()]) for step in remedy.read)


def test_other_steps_need_no_other_network() -> None:
    system = network(Float())
    other = system.behind((Divide(255.0),))
    assert other.engine is system.engine
    assert (other.read, system.read) == ((Divide(255.0),), (Float(),))
    assert other.fingerprint() == network(Divide(255.0)).fingerprint() != system.fingerprint()
