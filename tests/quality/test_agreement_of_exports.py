"""One network by torch, as ONNX and in eight bits, side by side in one campaign file: where they drift apart is found."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from swerve.config.toml import Loaded, load_campaign
from swerve.core.errors import SpecError
from swerve.core.origin import Origin
from swerve.core.values import Group, Steering
from swerve.execution.launch import run_into
from swerve.store.view import Run
from swerve.systems.decoders import SteeringDecoder
from swerve.systems.onnx import Onnx
from swerve.systems.quantise import quantise_model
from swerve.systems.steps import Divide
from swerve.testing import FakeSource
from tests.quality.children import Nursery

NETS = """
import torch
from torch import nn


class Pilot(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.look, self.drop, self.turn = nn.Conv2d(3, 4, 3, stride=2), nn.Dropout(0.5), nn.Linear(4 * 5 * 11, 1)

    def forward(self, x):
        return self.turn(self.drop(torch.relu(self.look(x))).flatten(1))
"""
SHARED = (
    'read = [{ use = "divide", by = 255.0 }], '
    'say = [{ use = "steering", unit = "radians", positive = "left", kind = "wheel" }]'
)
CAMPAIGN = f"""
seed = 1
[source]
use = "swerve.testing:FakeSource"
count = 6
[system]
use = "ensemble"
members = [
  {{ use = "torch", net = "nets.py:Pilot", weights = "pilot.safetensors", {SHARED} }},
  {{ use = "onnx", model = "pilot.onnx", {SHARED} }},
  {{ use = "onnx", model = "int8.onnx", {SHARED} }},
]
[search]
use = "sweep"
per_case = 3
[[rule]]
name = "agree"
change = {{ use = "brighten", beta = [1, 120] }}
expect = {{ use = "agreement", compare = {{ use = "angle-within", within = WITHIN }} }}
"""
pytestmark = pytest.mark.usefixtures("one_thread", "forked_workers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network written three ways, beside a file with its class."""
    place = tmp_path_factory.mktemp("exports")
    (place / "nets.py").write_text(NETS)
    known: dict[str, type[torch.nn.Module]] = {}
    exec(NETS, known)  # the text above
    net = known["Pilot"]().eval()
    save_file({f"model.{name}": tensor for name, tensor in net.state_dict().items()}, place / "pilot.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, (torch.zeros(2, 3, 12, 24),), place / "pilot.onnx",
            dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}},
        )  # fmt: skip
    say = (SteeringDecoder(unit="radians", positive="left", kind="wheel"),)
    quantise_model(Onnx(model=place / "pilot.onnx", read=(Divide(255.0),), say=say), place / "int8.onnx", FakeSource(6))
    return place


def loaded(folder: Path, within: float) -> Loaded:
    file = folder / f"{within}.toml"
    file.write_text(CAMPAIGN.replace("WITHIN", str(within)))
    return load_campaign(str(file), [folder / "nets.py"])


def spreads(folder: Path) -> tuple[list[float], list[float]]:
    """Between the exact two, and between all three, on every untouched case, in degrees."""
    campaign = loaded(folder, 1.0).campaign
    answers = campaign.system([campaign.source[key] for key in campaign.source.keys()])
    groups = [next(value for value in answer if isinstance(value, Group)) for answer in answers]
    said = [[value.degrees for value in group.values if isinstance(value, Steering)] for group in groups]
    return [float(np.ptp(degrees[:2])) for degrees in said], [float(np.ptp(degrees)) for degrees in said]


def test_exact_exports_agree(folder):
    exact, rough = spreads(folder)
    assert max(exact) < 1e-3 < np.median(rough)


def finished(folder: Path, within: float, *, workers: int = 0) -> Run:
    into = folder / f"{within} by {workers}"
    run_into(loaded(folder, within), into, workers=workers, trusted=[folder / "nets.py"])
    return Run(into)


def test_wide_limit_finds_nothing(folder):
    assert list(finished(folder, 60.0).findings()) == []


def test_disagreement_on_the_source_is_told_apart(folder):
    """A limit between the cases: where the members were that far apart before the change, it is already wrong or worse."""
    _, rough = spreads(folder)
    within = round(float(np.median(rough)), 4)
    keys = loaded(folder, within).campaign.source.keys()
    apart = {key for key, spread in zip(keys, rough, strict=True) if spread > within}
    assert 0 < len(apart) < len(keys)
    findings = list(finished(folder, within).findings())
    held, wrong = {Origin.INTRODUCED, Origin.MARGINAL}, {Origin.ALREADY_WRONG, Origin.MADE_WORSE}
    origins = {finding.origin for finding in findings}
    assert origins & held
    assert origins & wrong
    for finding in findings:
        assert finding.origin in (wrong if finding.case in apart else held)


def test_workers_and_replay_find_the_same(folder: Path, nursery: Nursery) -> None:
    alone, shared = finished(folder, 1e-3), finished(folder, 1e-3, workers=2)
    found = [finding.id for finding in alone.findings()]
    assert found
    assert sorted(found) == sorted(finding.id for finding in shared.findings())
    for words in ([], ["--trust", "nets.py"]):  # a run started here needs no consent
        replay = ["replay", str(shared.folder), found[0], *words]
        done = nursery.run(replay, "tests.quality.forks:fork_workers", cwd=folder, supervised=True)
        assert done.code == 0, done.output + done.errors


def test_module_beside_the_campaign_is_told(folder):
    file = folder / "module.toml"
    file.write_text(CAMPAIGN.replace("WITHIN", "1.0").replace("nets.py:Pilot", "nets:Pilot"))
    told = "there is no module 'nets' on the Python path; for a file beside the campaign write nets.py:Pilot and run with"
    with pytest.raises(SpecError, match=f"{told} --trust nets.py"):
        load_campaign(str(file))
