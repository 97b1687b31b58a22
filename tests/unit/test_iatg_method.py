"""IATG as a campaign: presets, rivals and control, small runs on planted networks, and heat maps beside findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

from swerve.api import run
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.names import name_of
from swerve.core.seeding import digest_of, rng_for
from swerve.core.system import System
from swerve.core.values import Array, Image, Masks, Steering
from swerve.execution.check import examine
from swerve.execution.engine import observe
from swerve.execution.executors.in_process import InProcess
from swerve.explain.heat import Explanation, HeatMap
from swerve.methods.iatg import CONTROL, PROFILES, iatg, rule_name
from swerve.relations.gates import SameObjects
from swerve.store.view import Run
from swerve.testing import FakeSystem, MemoryLedger
from swerve.transformations.object_choice import LargestObjects, NearestObjects, RandomObjects
from swerve.transformations.object_library import build_library
from swerve.transformations.retouches import Retouches
from swerve.transformations.salient import SalientObjects
from swerve.transformations.swaps import Swaps

GREY, RED, BLUE = (100, 100, 100), (220, 20, 20), (20, 20, 220)
LEFT, RIGHT = 1, 2


@dataclass(frozen=True)
class Streets:
    """Pictures with a car on the left and a larger one on the right, both in one colour."""

    colour: tuple[int, int, int] = RED
    count: int = 3
    prefix: str = "street"

    def keys(self) -> list[str]:
        return [f"{self.prefix}{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        noise = rng_for("street", key).integers(-5, 6, (90, 160, 3))
        ids = np.zeros((90, 160), np.int32)
        ids[50:60, 20:40], ids[50:64, 100:128] = LEFT, RIGHT
        pixels = np.where(ids[..., None] > 0, np.array(self.colour), np.array(GREY)) + noise
        image = Image(np.clip(pixels, 0, 255).astype(np.uint8))
        return Case(key, {"camera": image}, (Steering(0.0), Masks(ids, {LEFT: "car", RIGHT: "car"})), group=key)

    def fingerprint(self) -> str:
        return digest_of("streets", self.colour, self.count)


@dataclass(frozen=True)
class LooksLeft:
    """Steers by the red of the left half alone, so only the left car matters to it."""

    def __call__(self, cases: list[Case]) -> list[tuple[Steering, ...]]:
        return [(Steering(_redness(case)),) for case in cases]

    def fingerprint(self) -> str:
        return digest_of("looks left")


def _redness(case: Case) -> float:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    left: Array = image.pixels[:, :80].astype(float)
    return float((left[..., 0] - left[..., 2]).mean())


@pytest.fixture
def blue(tmp_path: Path) -> Asset:
    build_library([Streets(BLUE, 1, "blue")["blue0"]], tmp_path / "blue.objects")
    return Asset(tmp_path / "blue.objects")


def test_presets_are_the_paper_s(blue: Asset) -> None:
    assert PROFILES == {"iatg-s1": ("sum", 3, "real"), "iatg-s2": ("average", 1, "translation")}
    campaign = iatg(Streets(), FakeSystem(), library=blue)
    first, control = campaign.rules
    assert (first.name, control.name) == ("3 salient objects replaced", CONTROL)
    assert isinstance(first.change, Retouches)
    assert isinstance(first.change.choose, SalientObjects)
    assert (first.change.count, first.change.choose.by, first.change.change) == (3, "sum", "replace")
    assert isinstance(control.change, Retouches)
    assert (control.change.count, control.change.choose) == (3, first.change.choose)
    assert campaign.gate == SameObjects()


@pytest.mark.parametrize(
    ("choose", "kind"), [("random", RandomObjects), ("largest", LargestObjects), ("nearest", NearestObjects)]
)
def test_rivals_choose_otherwise(blue: Asset, choose: str, kind: type) -> None:
    campaign = iatg(Streets(), FakeSystem(), library=blue, choose=choose, count=1)
    change = campaign.rules[0].change
    assert isinstance(change, Retouches)
    assert isinstance(change.choose, kind)
    assert campaign.rules[0].name == rule_name(1, choose) == f"1 {choose} object replaced"


def test_the_world_is_rendered_again_without_a_library_or_a_control() -> None:
    campaign = iatg(Streets(), FakeSystem(), strategy="rerendered")
    assert [rule.name for rule in campaign.rules] == ["3 salient objects replaced"]
    assert isinstance(campaign.rules[0].change, Swaps)
    assert name_of(iatg) == "iatg"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'library' is missing"),
        ({"strategy": "reel"}, "did you mean 'real'"),
        ({"strategy": "rerendered", "choose": "biggest"}, "unknown choose"),
        ({"strategy": "rerendered", "profile": "s1"}, "unknown profile"),
        ({"strategy": "rerendered", "similarity": "lpips"}, "unknown measure of similarity"),
        ({"strategy": "rerendered", "layer": "conv3"}, "needs a network with gradients"),
        ({"strategy": "rerendered", "by": "total"}, "total"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, str], message: str) -> None:
    with pytest.raises((InputError, ValueError), match=message):
        iatg(Streets(), FakeSystem(), **arguments)  # type: ignore[arg-type]


def test_the_salient_object_misleads_and_neither_the_other_nor_the_control_does(blue: Asset, tmp_path: Path) -> None:
    """Occlusion finds the car that the network looks at; it is the smaller one, so the largest misleads nobody."""
    source, system = Streets(), LooksLeft()
    found = {}
    for choose in ("salient", "largest"):
        folder = tmp_path / choose
        run(iatg(source, system, library=blue, choose=choose, count=1, within=4.0, similarity="ms-ssim"), into=folder)
        found[choose] = [row for row in Run(folder).trials()]
    statuses = {
        choose: {(row["rule"], row["status"]) for row in rows if row["change"] is not None} for choose, rows in found.items()
    }
    assert statuses["salient"] == {(rule_name(1, "salient"), "violated"), (CONTROL, "held")}
    assert statuses["largest"] == {(rule_name(1, "largest"), "held"), (CONTROL, "held")}
    assert {row["change"]["things"][0] for row in found["salient"]} == {LEFT}
    assert {row["change"]["things"][0] for row in found["largest"]} == {RIGHT}
    assert all(0 < row["facts"]["ms_ssim"] < 1 for rows in found.values() for row in rows)
    assert all(row["facts"]["object_shift"] < 0.25 for rows in found.values() for row in rows)


def test_findings_have_heat_maps_of_both_pictures(blue: Asset, tmp_path: Path) -> None:
    run(iatg(Streets(), LooksLeft(), library=blue, count=1, within=4.0), into=tmp_path / "run")
    findings = tmp_path / "run" / "findings"
    heats = sorted(path.name for path in findings.glob("*_heat.png"))
    pictures = sorted(path.name for path in findings.glob("*-camera.png"))
    assert heats == [name.replace(".png", "_heat.png") for name in pictures]
    assert len(heats) == 2 * 3
    hottest = {"left": 0, "right": 0}
    for name in pictures:
        shown, plain = (cv2.imread(str(findings / file)).astype(int) for file in (name.replace(".png", "_heat.png"), name))
        apart = np.abs(shown - plain).sum(axis=(0, 2))
        hottest["left" if apart[:80].sum() > apart[80:].sum() else "right"] += 1
    assert hottest["left"] >= 3  # every source at least


def test_rivals_have_no_heat_maps(blue: Asset, tmp_path: Path) -> None:
    run(iatg(Streets(), LooksLeft(), library=blue, choose="random", count=2, within=4.0), into=tmp_path / "run")
    assert list((tmp_path / "run" / "findings").glob("*-camera.png"))
    assert not list((tmp_path / "run" / "findings").glob("*_heat.png"))


class Stripes:
    """An explanation with a single row of cells."""

    def explain(self, cases: Sequence[Case], system: System) -> Sequence[HeatMap]:
        return [HeatMap(np.linspace(0, 1, 18)[None], (0, 0, 160, 90), (160, 90)) for _ in cases]


@pytest.mark.parametrize(("explanation", "warned"), [(Stripes(), True), (None, False)])
def test_a_heat_map_too_coarse_for_objects_is_warned_of(blue: Asset, explanation: Explanation | None, warned: bool) -> None:
    asked = iatg(Streets(), LooksLeft(), library=blue, explanation=explanation, count=1)
    here = InProcess(asked)
    health = examine(asked, observe(asked, MemoryLedger(), executor=here), here)
    whys = [concern.why for concern in health.concerns if concern.name == "coarse heat map"]
    assert bool(whys) == warned
    assert all("1 x 18 cells" in why and "swerve explain" in why for why in whys)
