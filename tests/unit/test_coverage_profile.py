from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError, UnreadableCase
from swerve.core.system import Traced
from swerve.core.values import Image
from swerve.coverage.layers import Counting, CoverageWarning, Layout, layout_of
from swerve.coverage.profile import Profile, Ranges, load, measure
from swerve.systems.probe import layers_of, probe
from swerve.testing import FakeSource, FakeSystem


class Glass(FakeSystem):
    """A fake system with a network inside that can be traced."""

    def __init__(self, weights: str = "first", poison: str = "") -> None:
        super().__init__(weights=weights)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(880, 5), nn.Tanh(), nn.Linear(5, 1))
        object.__setattr__(self, "net", net.eval())
        object.__setattr__(self, "poison", poison)
        object.__setattr__(self, "batches", [])

    def layers(self) -> list[str]:
        return layers_of(self.net)

    def trace(self, cases, layers) -> Traced:
        self.batches.append(len(cases))
        return Traced(self(cases), probe(self.net, torch.stack([self.read(case) for case in cases]), layers)[1])

    def read(self, case: Case) -> torch.Tensor:
        image = case.inputs["camera"]
        assert isinstance(image, Image)
        pixels = torch.from_numpy(image.pixels.copy()).permute(2, 0, 1) / 100
        return pixels * float("nan") if case.key == self.poison else pixels


SOURCE = FakeSource(count=10)


def parts(system: Glass | None = None) -> tuple[Glass, Layout]:
    glass = system or Glass()
    return glass, layout_of(glass, SOURCE["fake-00000"])


def plainly(system: Glass, keys) -> np.ndarray:
    """Inputs x neurons, one input after the other: four maps, five dense units."""
    rows = []
    for key in keys:
        pixels = system.read(SOURCE[key])[None]
        with torch.no_grad():
            maps, dense = system.net[:2](pixels), system.net[:5](pixels)
        rows.append([*(unit.mean().item() for unit in maps[0]), *(unit.item() for unit in dense[0])])
    return np.array(rows)


@pytest.mark.parametrize("batch", [1, 3, 10, 32])
def test_ranges_are_the_extremes(batch: int) -> None:
    system, layout = parts()
    profile, plain = measure(system, SOURCE, layout, batch=batch), plainly(system, SOURCE.keys())
    np.testing.assert_allclose(profile.ranges.low, plain.min(axis=0), atol=1e-6)
    np.testing.assert_allclose(profile.ranges.high, plain.max(axis=0), atol=1e-6)
    assert profile.inputs == 10


def test_each_batch_costs_one_pass() -> None:
    system, layout = parts()
    system.batches.clear()
    measure(system, SOURCE, layout, batch=4)
    assert system.batches == [4, 4, 2]


def test_labels_are_not_shown() -> None:
    shown: list[Case] = []

    class Watched(Glass):
        def read(self, case: Case) -> torch.Tensor:
            shown.append(case)
            return super().read(case)

    system, layout = parts(Watched())
    shown.clear()
    measure(system, SOURCE, layout, batch=4)
    assert SOURCE["fake-00000"].truth
    assert shown
    assert not any(case.truth for case in shown)


def test_unsound_inputs_stay_out() -> None:
    system, layout = parts(Glass(poison="fake-00003"))
    with pytest.warns(CoverageWarning):
        profile = measure(system, SOURCE, layout, batch=4)
    plain = plainly(system, [key for key in SOURCE.keys() if key != "fake-00003"])
    np.testing.assert_allclose(profile.ranges.high, plain.max(axis=0), atol=1e-6)
    assert profile.inputs == 9


class Torn(FakeSource):
    def __getitem__(self, key: str) -> Case:
        if key < "fake-00008":
            raise UnreadableCase(f"{key}: torn")
        return super().__getitem__(key)


def test_unreadable_cases_are_skipped() -> None:
    system, layout = parts()
    with pytest.warns(CoverageWarning, match="8 of 10 cases of Torn cannot be read .* the first: fake-00000: torn"):
        assert measure(system, Torn(count=10), layout).inputs == 2
    with pytest.raises(InputError, match="no case of Torn has finite activations to profile; 3 of 3 cases of Torn cannot"):
        measure(system, Torn(count=3), layout)


def test_black_boxes_have_no_profile() -> None:
    with pytest.raises(InputError, match="coverage needs activations, but FakeSystem is a black box"):
        measure(FakeSystem(), SOURCE, parts()[1])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    system, layout = parts()
    measure(system, SOURCE, layout).save(tmp_path / "profile.safetensors")
    return tmp_path / "profile.safetensors"


def test_profiles_come_back_whole(saved: Path) -> None:
    system, layout = parts()
    assert load(saved, system=system, source=SOURCE, layout=layout) == measure(system, SOURCE, layout)


def test_profile_bytes_are_stable(saved: Path, tmp_path: Path) -> None:
    system, layout = parts()
    measure(system, SOURCE, layout).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_stale_profiles_are_refused(saved: Path) -> None:
    system, layout = parts()
    whole = layout_of(system, SOURCE["fake-00000"], counting=Counting("mine", scalars=True))
    again = {"system": system, "source": SOURCE, "layout": layout}
    for what, other in {"system": Glass("second"), "source": FakeSource(count=11), "layout": whole}.items():
        named = "layers" if what == "layout" else what
        with pytest.raises(InputError, match=rf"this profile is outdated \({named} sha .* then, .* now\); measure it again"):
            load(saved, **again | {what: other})


def refused(path: Path, why: str) -> None:
    system, layout = parts()
    with pytest.raises(InputError, match=why):
        load(path, system=system, source=SOURCE, layout=layout)


def test_other_files_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none", "none: not a coverage profile: No such file")
    (tmp_path / "text").write_text("low = 0")
    refused(tmp_path / "text", "text: not a coverage profile")
    save_file({"weight": np.zeros(3)}, tmp_path / "net")
    refused(tmp_path / "net", "expected a safetensors file of format 'swerve coverage profile 1'")


def test_torn_files_are_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-9])
    refused(saved, "not a coverage profile")


def test_wrong_lengths_are_refused(saved: Path) -> None:
    system, layout = parts()
    Profile(layout, Ranges.none(2), 1, system.fingerprint(), SOURCE.fingerprint()).save(saved)
    refused(saved, "expected 9 neurons, got 2")


@pytest.mark.parametrize(("low", "high"), [(float("nan"), 1), (0, float("nan")), (-float("inf"), 1), (2, 1)])
def test_senseless_bounds_are_refused(saved: Path, low: float, high: float) -> None:
    system, layout = parts()
    ranges = Ranges(np.full(layout.neurons, float(low)), np.full(layout.neurons, float(high)))
    Profile(layout, ranges, 1, system.fingerprint(), SOURCE.fingerprint()).save(saved)
    refused(saved, "a bound is not finite, or low is above high")


@pytest.mark.parametrize("inputs", [{}, {"inputs": "many"}, {"inputs": 0}, {"inputs": None}])
def test_profiles_know_their_inputs(saved: Path, inputs: dict[str, object]) -> None:
    system, layout = parts()
    ranges = measure(system, SOURCE, layout).ranges
    prints = {"system": system.fingerprint(), "source": SOURCE.fingerprint(), "layers": layout.fingerprint()}
    told = {"format": "swerve coverage profile 1"} | prints | inputs
    save_file({"low": ranges.low, "high": ranges.high}, saved, {"swerve": json.dumps(told)})
    refused(saved, "'inputs' must be a whole number of at least 1")


def test_missing_folders_are_said(tmp_path: Path) -> None:
    system, layout = parts()
    with pytest.raises(EnvironmentFault, match="cannot be written"), warnings.catch_warnings():
        measure(system, SOURCE, layout).save(tmp_path / "nowhere" / "profile")
