"""Coverage of a campaign: measured in the pass that answers, the same however the work is spread, resumed or killed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from swerve.cli.main import main
from swerve.core.errors import InputError
from swerve.core.values import Image, Steering
from swerve.coverage.meter import Meter, bits_of
from swerve.coverage.neuron import NC, TopK
from swerve.coverage.sections import KMNC
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
    with pytest.raises(InputError, match="KMNC needs a profiling run"):
        Meter((KMNC(10),)).measured(network(), CASES)
    _, gains = Meter((KMNC(10),), profile=FakeSource(9)).measured(network(), CASES)
    assert 0 < Meter().counts(gains[0])["KMNC"]["covered"] <= 20


def test_black_box_and_nonsense_are_refused() -> None:
    with pytest.raises(InputError, match="black box"):
        Meter().measured(FakeSystem(), CASES)
    with pytest.raises(InputError, match="counting 'defualt' is not known; did you mean 'default'"):
        Meter(counting="defualt")
    with pytest.raises(InputError, match="criterion NC is given twice"):
        Meter((NC(), NC(0.5)))
    with pytest.raises(InputError, match="one or more criteria"):
        Meter(())
    with pytest.raises(InputError, match="not a coverage set"):
        bits_of({"covered": "%%%", "of": 3})


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
