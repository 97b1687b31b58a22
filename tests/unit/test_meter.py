"""Coverage of a campaign: measured in the pass that answers, the same however the work is spread, resumed or killed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from swerve.analysis.numbers import reached_of
from swerve.cli.main import main
from swerve.core.errors import InputError
from swerve.core.values import Image, Steering
from swerve.coverage.bits import Bits
from swerve.coverage.meter import Meter, bits_of, encode_bits
from swerve.coverage.neuron import NC, TopK
from swerve.coverage.profiled import KMNC
from swerve.store.view import Run
from swerve.systems.torch import TorchSystem
from swerve.testing import FakeSource, FakeSystem


def network() -> TorchSystem:
    """A small network on fake frames, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        net = nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 10 * 22, 12), nn.ELU(), nn.Linear(12, 2)
        )
    return TorchSystem(net, _read, _say)


def _read(case) -> torch.Tensor:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return torch.tensor(image.pixels / 255, dtype=torch.float32).permute(2, 0, 1)


def _say(row: torch.Tensor) -> Steering:
    return Steering(float(row[0]) * 100)


CASES = [FakeSource(9)[key] for key in FakeSource(9).keys()]


def test_gain_is_what_each_case_covers_alone() -> None:
    meter, system = Meter((NC(), TopK(1))), network()
    answers, gains = meter.measured(system, CASES)
    assert len(answers) == len(gains) == 9
    for case, gain in zip(CASES, gains, strict=True):
        alone = meter.measured(network(), [case])[1][0]
        assert {name: bits_of(told) for name, told in gain.items()} == {name: bits_of(told) for name, told in alone.items()}
    assert meter.counts(gains[0])["TKNC"] == {"covered": 3, "total": 20}  # the best of each of three layers


def test_union_is_that_of_one_pass() -> None:
    meter, system = Meter(), network()
    _, gains = meter.measured(system, CASES)
    together = meter.joined(gains)
    half = meter.joined([meter.joined(gains[5:]), None, meter.joined(gains[:5])])
    assert bits_of(together["NC"]) == bits_of(half["NC"])
    assert meter.counts(together)["NC"]["covered"] >= max(meter.counts(gain)["NC"]["covered"] for gain in gains)
    assert meter.joined([]) == {}


def test_profiled_criterion_wants_a_profile() -> None:
    with pytest.raises(InputError, match="KMNC needs a profile of the activations"):
        Meter((KMNC(10),)).measured(network(), CASES)
    _, gains = Meter((KMNC(10),), profile=FakeSource(9)).measured(network(), CASES)
    assert 0 < Meter().counts(gains[0])["KMNC"]["covered"] <= 20


def test_black_box_and_nonsense_are_refused() -> None:
    with pytest.raises(InputError, match="black box"):
        Meter().measured(FakeSystem(), CASES)
    with pytest.raises(InputError, match="unknown counting 'defualt'; did you mean 'default'"):
        Meter(counting="defualt")
    with pytest.raises(InputError, match="criterion NC is given twice"):
        Meter((NC(), NC(0.5)))
    with pytest.raises(InputError, match="one or more criteria"):
        Meter(())
    with pytest.raises(InputError, match="not a coverage set"):
        bits_of({"covered": "%%%", "of": 3})


def added() -> TorchSystem:
    """Two dense layers by hand on the brightness of a frame: the first has an activation function, the second has none.

    With w = brightness / 255 in every one of its inputs, the first gives relu(w), relu(-w), 0 and the second 1, 2, w - 9.
    """
    net = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 3))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0], [0.0]]))
        net[2].weight.copy_(torch.tensor([[0.0, 0, 0], [0, 0, 0], [1, 0, 0]]))
        net[0].bias.zero_()
        net[2].bias.copy_(torch.tensor([1.0, 2.0, -9.0]))
    return TorchSystem(net, lambda case: torch.tensor([case.inputs["camera"].pixels.mean() / 255]).float(), _say)


def test_layers_without_an_activation_are_listed_with_what_is_always_active() -> None:
    meter, system = Meter(), added()
    _, gains = meter.measured(system, CASES)
    # Scaled to 0..1, the second layer's outputs are nearly 0.9, 1 and 0 on every case: two always active, one never.
    assert meter.linear_layers(system, CASES[0], gains) == {"2": {"neurons": 3, "always": 2}}
    assert meter.layers(system, CASES[0]) == {"0": 3, "2": 3}
    assert Meter((TopK(1),)).linear_layers(system, CASES[0], []) == {"2": {"neurons": 3}}


def test_neuron_that_one_case_leaves_inactive_is_not_always_active() -> None:
    meter, system = Meter(), added()
    _, gains = meter.measured(system, CASES)
    covered = [bits_of(gain["NC"]) for gain in gains]
    assert {tuple(bits.numbers()) for bits in covered} == {(0, 3, 4)}
    fewer = {"NC": encode_bits(Bits.of([0, 4], 6), 6)}
    assert meter.linear_layers(system, CASES[0], [*gains, fewer, None]) == {"2": {"neurons": 3, "always": 1}}


def test_layers_without_an_activation_can_be_left_out() -> None:
    meter, system = Meter(linear=False), added()
    _, gains = meter.measured(system, CASES)
    assert meter.layers(system, CASES[0]) == {"0": 3}
    assert meter.counts(gains[0])["NC"] == {"covered": 1, "total": 3}
    assert meter.linear_layers(system, CASES[0], gains) == {}
    assert Meter().counts(Meter().measured(system, CASES)[1][0])["NC"] == {"covered": 3, "total": 6}
    only = TorchSystem(nn.Linear(1, 2), system.read, _say)
    with pytest.raises(InputError, match=r"counts no layer with an activation function of TorchSystem"):
        Meter(linear=False).layers(only, CASES[0])


CAMPAIGN = """
seed = 7
inference_batch = 4
[source]
use = "swerve.testing:FakeSource"
count = 10
[system]
use = "tests.unit.test_meter:network"
[coverage]
criteria = [{ use = "nc", threshold = 0.5 }, { use = "top-k", k = 2 }]
[[rule]]
name = "moved"
change = { use = "translate", x = [2, 12], y = [2, 6] }
expect = { use = "same-angle", within = 5 }
[search]
use = "sweep"
per_case = 4
"""


def run(folder: Path, name: str, workers: int = 0) -> Path:
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN)
    assert main(["run", str(file), "--into", str(folder / name), "--no-report", "--workers", str(workers)]) in (0, 1)
    return folder / name


def content(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("timings.json", ".lock")]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_summary_tells_what_was_covered(tmp_path: Path) -> None:
    folder = run(tmp_path, "run")
    told = json.loads((folder / "summary.json").read_text())["coverage"]
    meter, rows = Meter(), list(Run(folder).rows())
    by_hand = meter.counts(meter.joined(row["gain"] for row in rows))
    untouched = meter.counts(meter.joined(row["gain"] for row in rows if row["kind"] == "baseline"))
    assert told == {name: {**by_hand[name], "untouched": untouched[name]["covered"]} for name in ("NC", "TKNC")}
    assert told["NC"]["untouched"] <= told["NC"]["covered"] <= told["NC"]["total"] == 20
    assert told["TKNC"]["untouched"] < told["TKNC"]["covered"]


def test_summary_and_report_flag_layers_without_an_activation(tmp_path: Path) -> None:
    folder = run(tmp_path, "run")
    told = json.loads((folder / "summary.json").read_text())
    gains = [bits_of(row["gain"]["NC"]) for row in Run(folder).rows() if row["kind"] == "baseline"]
    always = [number for number in range(18, 20) if all(number in bits.numbers() for bits in gains)]
    assert told["linear_layers"] == {"5": {"neurons": 2, "always": len(always)}}
    reached = reached_of(Run(folder))
    assert reached
    assert reached.sentences[-1] == (
        f"1 of 3 layers without an activation function (2 of 20 neurons): 5; {len(always)} of these neurons are active on "
        "every untouched case; `linear = false` in the campaign file leaves these layers out"
    )


def test_campaign_file_leaves_layers_without_an_activation_out(tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace("[coverage]", "[coverage]\nlinear = false"))
    into = tmp_path / "run"
    assert main(["run", str(tmp_path / "campaign.toml"), "--into", str(into), "--no-report"]) in (0, 1)
    told = json.loads((into / "summary.json").read_text())
    assert (told["layers"], told["coverage"]["NC"]["total"]) == ({"0": 6, "3": 12}, 18)
    assert "linear_layers" not in told


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_measure_the_same(tmp_path: Path, workers: int) -> None:
    assert content(run(tmp_path, "here")) == content(run(tmp_path, "there", workers))


def test_cut_run_ends_with_same_coverage(tmp_path: Path) -> None:
    whole = content(run(tmp_path, "whole"))
    cut = tmp_path / "cut"
    run(tmp_path, "cut")
    journal = cut / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    (cut / "summary.json").unlink()
    assert content(run(tmp_path, "cut")) == whole
