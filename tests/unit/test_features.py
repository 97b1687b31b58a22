"""What a run keeps of the inside of a white-box system: planted ways of failing, and systems that cannot be looked into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from swerve.analysis.groups import groups
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.core.system import Activations, Traced
from swerve.core.values import Array, Image, Steering
from swerve.execution.finding_pictures import FeatureTracer, keep_pictures, penultimate_layer
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.artifacts import features_of
from swerve.store.view import Run
from swerve.systems.torch import TorchSystem
from swerve.testing import FakeSource, FakeSystem
from swerve.testing.fakes import brightness
from swerve.transformations.photometric import Brighten

KINDS = {"(input)": "input", "first": "convolution", "dropped": "dropout", "hidden": "dense", "out": "dense"}
BRIGHTER = Rule("brighter", Over(Brighten, beta=Range(10, 60)), same_angle(5.0))


@dataclass(frozen=True)
class Seen(FakeSystem):
    """Steers by brightness, which the second unit tells in even cases and the third in odd ones: two ways to fail."""

    kinds: dict[str, str] = field(default_factory=lambda: KINDS)
    ways: int = 2
    steps: int = 1
    broken: str = ""
    batches: list[int] = field(default_factory=list)

    def layers(self) -> Sequence[str]:
        return list(self.kinds)

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        if self.broken and len(self.batches) == 1:
            raise SystemExit(self.broken)
        self.batches.append(len(cases))
        units = np.array([self._units(case) for case in cases])
        rows = np.repeat(units[:, None], self.steps, axis=1) if self.steps > 1 else units
        edges = np.zeros(len(cases))
        return Traced(self(cases), {name: Activations(self.kinds[name], rows, edges, edges) for name in layers})

    def _units(self, case: Case) -> Array:
        pixels = _pixels(case)
        unit = 1 + int(case.key[-1]) % self.ways
        row = np.array([5.0, 5.0, 5.0])
        row[unit] += brightness(pixels)
        return row


def _pixels(case: Case) -> Array:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels


def campaign(system: object, batch: int = 8) -> Campaign:
    return Campaign(
        source=FakeSource(6),
        system=system,  # type: ignore[arg-type]
        rules=(BRIGHTER,),
        search=Sweep(4),
        inference_batch=batch,
    )


def ran(asked: Campaign, folder: Path) -> Run:
    run_into(Loaded(asked, folder.parent), folder, keep=24)  # insides are traced of findings with pictures
    return Run(folder)


def test_two_ways_of_failing_are_told_apart(tmp_path: Path) -> None:
    run = ran(campaign(Seen()), tmp_path / "run")
    first, second = groups(run, features_of(run))
    assert {first.way, second.way} == {(1, 2), (2, 2)}
    assert {int(key[-1]) % 2 for key in (first.exemplar.case, second.exemplar.case)} == {0, 1}
    assert first.cases == second.cases == 3
    assert "pattern B" in second.label
    assert (run.folder / "tables" / "groups.csv").read_text().count("2 of 2") == 1


def test_one_way_of_failing_is_one_group(tmp_path: Path) -> None:
    run = ran(campaign(Seen(ways=1)), tmp_path / "run")
    (group,) = groups(run, features_of(run))
    assert group.cases == 6


def test_features_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    files = [ran(campaign(Seen()), tmp_path / name).folder / "findings" / "features.npy" for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()
    run = Run(tmp_path / "one")
    keep_pictures(run, campaign(Seen()), run.best())
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_batches_are_no_larger_than_the_campaigns(batch: int, tmp_path: Path) -> None:
    system = Seen()
    run = ran(campaign(system, batch), tmp_path / "run")
    alone, *batches = system.batches
    assert alone == 1  # to learn which layers there are
    assert max(batches) <= max(batch, 2)  # a source and its follow-up at the least
    found = features_of(run)
    assert found.keys() == {finding.input_sha[:16] for finding in run.findings()}
    assert all(np.linalg.norm(moved) == pytest.approx(1, abs=1e-3) for moved in found.values())


def test_steps_are_averaged(tmp_path: Path) -> None:
    plain, stepped = (ran(campaign(Seen(steps=count)), tmp_path / str(count)) for count in (1, 3))
    ours, theirs = features_of(plain), features_of(stepped)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_failing_trace_leaves_features_out(tmp_path: Path) -> None:
    system = Seen(broken="no inside today")
    run = ran(campaign(system), tmp_path / "run")
    assert system.batches == [1]  # it is not asked again
    assert features_of(run) == {}
    assert list((run.folder / "findings").glob("*.png"))
    assert len(groups(run, features_of(run))) == 1


def test_black_box_has_no_features(tmp_path: Path) -> None:
    run = ran(campaign(FakeSystem()), tmp_path / "run")
    assert not (run.folder / "findings" / "features.npy").exists()
    assert features_of(run) == {}


def test_layer_is_the_last_but_one_of_those_that_count() -> None:
    case = FakeSource(1)["fake-00000"]
    assert penultimate_layer(Seen(), case) == "hidden"
    assert penultimate_layer(Seen(kinds={**KINDS, "after": "dropout"}), case) == "hidden"
    assert penultimate_layer(Seen(kinds={"seq": "recurrent", "dropped": "dropout", "out": "dense"}), case) == "seq"
    with pytest.raises(ValueError, match="fewer than two layers"):
        penultimate_layer(Seen(kinds={"(input)": "input", "out": "dense"}), case)


def test_layer_of_a_torch_network() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(864, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))

    def read(case: Case) -> torch.Tensor:
        return torch.from_numpy(_pixels(case).astype(np.float32))

    def say(row: torch.Tensor) -> Steering:
        return Steering(float(row))

    assert penultimate_layer(TorchSystem(net, read, say), FakeSource(1)["fake-00000"]) == "1"


def moved_by(source: Array, followup: Array, folder: Path) -> list[Array]:
    """What is kept where the layer says `source` and `followup`."""

    class Fixed(Seen):
        def _units(self, case: Case) -> Array:
            return followup if case.parent else source

    asked = campaign(Fixed())
    case = asked.source["fake-00000"]
    after = Brighten(40.0)(case)
    inside = FeatureTracer(asked, {after.input_sha})
    inside.add(case, after)
    inside.write(folder / "features.npy")
    path = folder / "features.npy"
    return [row["moved"] for row in np.load(path, allow_pickle=False)] if path.exists() else []


@pytest.mark.parametrize("followup", [[5.0, 5.0], [5.0, 5.0001], [np.nan, 5.0], [np.inf, 5.0]])
def test_rounding_and_nonsense_are_no_direction(followup: list[float], tmp_path: Path) -> None:
    assert moved_by(np.array([5.0, 5.0]), np.array(followup), tmp_path) == []


def test_direction_has_length_one(tmp_path: Path) -> None:
    (moved,) = moved_by(np.array([5.0, 5.0]), np.array([5.0 + 3e6, 5.0 - 4e6]), tmp_path)
    assert moved == pytest.approx([0.6, -0.8], abs=1e-3)


def test_unwanted_followups_are_not_asked() -> None:
    system = Seen()
    inside = FeatureTracer(campaign(system), frozenset())
    case = FakeSource(1)["fake-00000"]
    inside.add(case, Brighten(40.0)(case))
    assert system.batches == []


@pytest.mark.parametrize("content", [b"", b"not numpy", b"\x93NUMPY\x01\x00\x10\x00{'descr': 1}    \n"])
def test_torn_features_are_none(content: bytes, tmp_path: Path) -> None:
    run = ran(campaign(Seen()), tmp_path / "run")
    path = run.folder / "findings" / "features.npy"
    path.write_bytes(content)
    assert features_of(run) == {}
    np.save(path, np.zeros(3))
    assert features_of(run) == {}
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    assert features_of(run) == {}


def test_only_the_worst_of_a_rule_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.execution.finding_pictures.TRACED", 3)
    run = ran(campaign(Seen()), tmp_path / "run")
    assert features_of(run).keys() == {finding.input_sha[:16] for finding in run.best()[:3]}
