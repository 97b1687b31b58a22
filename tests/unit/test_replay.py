from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from swerve.config.toml import Loaded, describe
from swerve.core.campaign import Campaign
from swerve.core.errors import StoreError
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.core.transformation import Transformation, param
from swerve.core.values import Image, Steering
from swerve.execution.launch import run_into
from swerve.execution.replay import rebuild, replay
from swerve.relations.steering import lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.store.record_json import Finding
from swerve.store.view import Run
from swerve.systems.function import FunctionSystem
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.photometric import Brighten, Contrast

CAMPAIGN = Campaign(
    source=FakeSource(6),
    system=FakeSystem(bias=2),
    rules=(
        Rule("brighter", Over(Brighten, beta=Range(1, 30)), same_angle(15)),
        Rule("contrast", Over(Contrast, alpha="grid"), lambda_mse(5)),
    ),
    search=Sweep(per_case=4),
    seed=3,
    inference_batch=4,
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run_into(Loaded(CAMPAIGN, tmp_path), tmp_path / "run")
    return Run(tmp_path / "run")


def first(run: Run) -> Finding:
    return next(run.findings())


def test_every_finding_reproduces(run: Run) -> None:
    results = [replay(run.folder, finding.id) for finding in run.findings()]
    assert len(results) > 50
    assert all(result.reproduced and not result.changed for result in results)
    assert {result.finding.rule for result in results} == {"brighter", "contrast"}


def test_rebuilt_campaign_is_the_same(run: Run) -> None:
    assert describe(rebuild(run), run.base) == describe(CAMPAIGN, run.base)


def test_other_weights_are_named(run: Run) -> None:
    result = replay(run.folder, first(run).id, campaign=replace(CAMPAIGN, system=FakeSystem(bias=2, gain=0, weights="new")))
    assert not result.reproduced
    assert any(line.startswith("answer on the follow-up differs: ") for line in result.differs)
    assert any(line.startswith("verdict differs: violated then, held now") for line in result.differs)
    assert any(line.startswith("weights differ: sha ") for line in result.changed)


def test_other_data_are_named(run: Run) -> None:
    result = replay(run.folder, first(run).id, campaign=replace(CAMPAIGN, source=FakeSource(6, seed=1)))
    assert [line.split(" differs")[0] for line in result.differs][:2] == ["source input", "follow-up input"]
    assert any(line.startswith("data differ: sha ") for line in result.changed)


def test_harmless_difference_still_reproduces(run: Run) -> None:
    result = replay(run.folder, first(run).id, campaign=replace(CAMPAIGN, system=FakeSystem(bias=2, weights="renamed")))
    assert result.reproduced
    assert result.changed


def test_live_objects_need_the_script(tmp_path: Path) -> None:
    live = replace(CAMPAIGN, system=FunctionSystem(lambda case: FakeSystem(bias=2)([case])[0]))
    run_into(Loaded(live, tmp_path), tmp_path / "run")
    finding = first(Run(tmp_path / "run"))
    with pytest.raises(StoreError, match="of a Python script"):
        replay(tmp_path / "run", finding.id)
    assert replay(tmp_path / "run", finding.id, campaign=live).reproduced


def test_factory_rebuilds_live_objects(tmp_path: Path) -> None:
    run_into(Loaded(live_campaign(), tmp_path, "tests.unit.test_replay:live_campaign"), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert replay(run.folder, first(run).id).reproduced


def live_campaign() -> Campaign:
    return replace(CAMPAIGN, system=FunctionSystem(steer))


def steer(case: object) -> Steering:
    return FakeSystem(bias=2)([case])[0][0]  # type: ignore[list-item, return-value]


COUNT = {"calls": 0}


@dataclass(frozen=True)
class Drifting(Transformation):
    """A change that breaks its promise: another picture each time."""

    by: float = param(0, 90, neutral=0)
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        COUNT["calls"] += 1
        return Brighten(60 + COUNT["calls"] % 50).image(image)


def test_change_that_drifts_is_caught(tmp_path: Path) -> None:
    drifting = replace(CAMPAIGN, rules=(Rule("drift", Drifting(5), same_angle(15)),))
    with pytest.raises(StoreError, match="produced a different input: the transformation is not deterministic"):
        run_into(Loaded(drifting, tmp_path), tmp_path / "run")
    run = Run(tmp_path / "run")
    result = replay(run.folder, first(run).id, campaign=drifting)
    assert any(line.startswith("follow-up input differs") for line in result.differs)
