"""Results that no rewriting of the code may change: tables of the demo, of DeepTest's and of the LiDAR experiment.

All are of small fixtures and lie in `tests/gold/tables`. Where a result is meant to change, write them anew and look at
`git diff`: SWERVE_GOLD=write pytest tests/gold/test_tables.py
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import swerve
from swerve.cli.main import main
from swerve.methods.demo import demo
from tests.unit.test_experiment_lidar_field import known, tiny

GOLD = Path(__file__).parent / "tables"
WRITE = os.environ.get("SWERVE_GOLD") == "write"
SEED = "3"
FINDING = ("id", "rule", "case", "change", "margin", "origin", "before", "after")
ORIGINS = ("introduced", "made_worse", "already_wrong", "marginal", "unknown_origin")
COUNTS = ("trials", "held", "violated", "skipped", "errors", *ORIGINS)

# How far numbers may be apart, of their size, and where they are small. Another processor makes other last bits of single
# precision, which show in the demo's angles; all else here is computed in double precision or without rounding.
USUAL = 1e-6, 1e-12
DEGREES = 1e-4, 1e-4
LOOSE = {"demo/findings": DEGREES}

DEEPTEST = """
method = "deeptest"
[source]
use = "swerve.testing:FakeSource"
count = 14
drive = 2
[system]
use = "tests.gold.test_tables:steering"
"""
LIDAR = """
method = "lidar"
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = 10
[system]
use = "tests.quality.test_lidar_identity:Coupled"
reach = 5.0
"""
NETWORK = """
method = "lidar"
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = 6
[system]
use = "tests.gold.test_tables:looking"
"""


class Precise(nn.Module):
    """A network that computes in double precision, whatever it is given."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.double()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.net(batch.double()).float()


def steering() -> swerve.TorchSystem:
    """A network that steers by brightness, as the labels do, and a little by neurons of no meaning: mostly right."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        net = nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 10 * 22, 24), nn.ELU(), nn.Linear(24, 1)
        )
    with torch.no_grad():
        for place, inputs, meaning in ((0, 3, 1 / 27), (3, 220, 1 / 220), (5, 1, 2.55)):  # the first neuron of each layer
            net[place].bias[0] = 0.0
            net[place].weight[0] = 0.0
            net[place].weight[0, :inputs] = meaning
    return swerve.TorchSystem(Precise(net), _read, _say)


def _read(case: swerve.Case) -> torch.Tensor:
    image = case.inputs["camera"]
    assert isinstance(image, swerve.Image)
    return torch.tensor(image.pixels / 255, dtype=torch.float32).permute(2, 0, 1)


def _say(row: torch.Tensor) -> swerve.Steering:
    return swerve.Steering(row.item() * 97 - 97)  # not 100: a picture brighter by 10 would lie right on a limit of 10°


def looking() -> swerve.System:
    """A LiDAR network of a few weights, the others 0: it says the same to the last bit on any processor."""
    system = tiny(Path("tiny.safetensors"))
    vars(system)["net"] = known()
    return system


# --- the tables of today -------------------------------------------------------------------------------------------------


def tables_of_demo(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Its findings, and how the trials of each rule ended; fewer drives and smaller frames than usual."""
    usual: Any = demo()
    fewer = replace(usual, source=replace(usual.source, drives=2, width=320, height=180))
    summary = swerve.run(fewer, "out", report=False, pictures=False).summary
    capsys.readouterr()
    assert main(["show", "out", "--json"]) == 0
    findings = sorted((_finding(told) for told in json.loads(capsys.readouterr().out)), key=lambda row: (*row[1:3], row[0]))
    rules = [(name, *(told[count] for count in COUNTS)) for name, told in summary["rules"].items()]
    return {"findings": _text(FINDING, findings), "rules": _text(("rule", *COUNTS), rules)}


def _finding(told: Mapping[str, Any]) -> tuple[str, ...]:
    angles = [next(value["degrees"] for value in told[end] if value["slot"] == "steering") for end in ("before", "after")]
    numbers = (f"{number:.6g}" for number in (told["margin"], *angles))
    plain = {**told, **dict(zip(("margin", "before", "after"), numbers, strict=True))}
    return tuple(str(plain[column]) for column in FINDING)


def _text(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()


def tables_of_experiment(name: str, campaign: str) -> dict[str, str]:
    """All that the command writes, but the LiDAR's retraining, for which it would render sweeps.

    None of it is of the host or the time: what was timed is not in the tables, and paths are relative, as the folder given.
    """
    Path("small.toml").write_text(campaign)
    asked = ["experiment", name, "--quick", "--system", "small.toml", "--into", "out", "--seed", SEED, "--workers", "0"]
    assert main(asked) == 0
    return _read_tables(Path("out/tables"))


def _read_tables(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.csv"))}


# --- held against gold ---------------------------------------------------------------------------------------------------


def assert_gold(kind: str, tables: Mapping[str, str]) -> None:
    if WRITE:
        _write_gold(GOLD / kind, tables)
    gold = _read_tables(GOLD / kind)
    assert sorted(tables) == sorted(gold), "every table has a gold file, and every gold file is of a table"
    told = [
        f"{kind}/{name}.csv, {difference}"
        for name in gold
        for difference in differences(gold[name], tables[name], LOOSE.get(f"{kind}/{name}", USUAL))
    ]
    assert not told, "\n".join(told[:20])


def _write_gold(folder: Path, tables: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.csv"):
        path.unlink()
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")


def differences(gold: str, now: str, within: tuple[float, float]) -> Iterator[str]:
    """Where two tables differ: texts in any letter, numbers by more than `within`."""
    if gold == now:
        return
    one, other = (list(csv.reader(io.StringIO(text))) for text in (gold, now))
    for line, (was, is_now) in enumerate(itertools.zip_longest(one, other, fillvalue=()), 1):
        if len(was) != len(is_now):
            yield f"line {line}: was {','.join(was) or 'not there'}, is {','.join(is_now) or 'not there'}"
            continue
        for column, before, after in zip(one[0], was, is_now, strict=True):
            if not _same(before, after, within):
                yield f"line {line}, {column}: was {before or 'empty'}, is {after or 'empty'}"


def _same(before: str, after: str, within: tuple[float, float]) -> bool:
    if before == after:
        return True
    try:
        numbers = float(before), float(after)
    except ValueError:
        return False
    whole = before.lstrip("-").isdecimal() and after.lstrip("-").isdecimal()  # a count is exact
    return not whole and math.isclose(*numbers, rel_tol=within[0], abs_tol=within[1])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_demo_finds_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert_gold("demo", tables_of_demo(capsys))


def test_deeptest_tells_what_it_told() -> None:
    assert_gold("deeptest", tables_of_experiment("deeptest", DEEPTEST))


def test_lidar_tells_what_it_told() -> None:
    assert_gold("lidar", tables_of_experiment("lidar", LIDAR))


def test_lidar_tells_what_it_told_of_a_network() -> None:
    """One that is looked into: how far a point reaches in it, and how many points land in its grid."""
    assert_gold("lidar-network", tables_of_experiment("lidar", NETWORK))


def test_gold_has_no_other_folders() -> None:
    assert {path.name for path in GOLD.iterdir()} == {"demo", "deeptest", "lidar", "lidar-network"}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("name,rate\na,0.5\nb,7\n", []),
        ("name,rate\na,0.50000001\nb,7\n", []),
        ("name,rate\na,0.50001\nb,7\n", ["line 2, rate: was 0.5, is 0.50001"]),
        ("name,rate\na,0.5\nb,8\n", ["line 3, rate: was 7, is 8"]),
        ("name,rate\na,\nb,7\n", ["line 2, rate: was 0.5, is empty"]),
        ("name,rate\nc,0.5\nb,7\n", ["line 2, name: was a, is c"]),
        ("name,share\na,0.5\nb,7\n", ["line 1, rate: was rate, is share"]),
        ("name,rate\na,0.5\n", ["line 3: was b,7, is not there"]),
        ("name,rate\na,0.5\nb,7\nc,1\n", ["line 4: was not there, is c,1"]),
    ],
)
def test_differences_are_told(now: str, told: list[str]) -> None:
    assert list(differences("name,rate\na,0.5\nb,7\n", now, USUAL)) == told
