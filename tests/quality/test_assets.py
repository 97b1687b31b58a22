"""A file that a change, a relation or a system reads: changed behind a run, it is refused by its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.cli.main import main
from swerve.config.toml import load_campaign
from swerve.core.asset import Asset
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.relation import Algebra, Pair, Rule, Verdict
from swerve.core.space import Over, Range
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, param
from swerve.core.values import Image, Steering
from swerve.execution.launch import open_run, run_into
from swerve.execution.replay import replay
from swerve.search.sweep import Sweep
from swerve.store.folder import DifferentCampaign
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem

NAME = "night.style"


@dataclass(frozen=True)
class Style(Transformation):
    """The colours of a picture moved towards those of a style file: 256 levels for each of three channels."""

    style: Asset
    strength: float = param(0, 1, neutral=0)
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        levels = np.frombuffer(self.style.read(), np.uint8).reshape(3, 256)
        styled = np.stack([levels[channel][image.pixels[..., channel]] for channel in range(3)], axis=-1)
        return Image((image.pixels * (1 - self.strength) + styled * self.strength).astype(np.uint8))


@dataclass(frozen=True)
class Limit(Algebra):
    """An angle that stays within a number of degrees that a file gives."""

    file: Asset

    def check(self, pair: Pair) -> Verdict:
        before, after = (answer[0].degrees for answer in (pair.before, pair.after))  # type: ignore[attr-defined]
        return Verdict.at_most(abs(after - before), self.file.read()[0] / 16, "moved")


@dataclass(frozen=True)
class Weighted:
    """A system whose only weight is a byte of a file."""

    weights: Asset

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        gain = self.weights.read()[0] / 4
        return [(Steering(gain * float(case.inputs["camera"].pixels.mean()) / 255),) for case in cases]  # type: ignore[attr-defined]

    def fingerprint(self) -> str:
        return "weighted"


CAMPAIGN = """
[source]
use = "swerve.testing:FakeSource"
[system]
use = "{system}"
{weights}
[[rule]]
name = "styled"
change = {change}
expect = {expect}
[search]
use = "sweep"
per_case = 3
"""
STYLED = '{ use = "tests.quality.test_assets:Style", style = "files/night.style" }'
BRIGHTER = '{ use = "brighten", beta = [20, 40] }'
STRICT = '{ use = "same-angle", within = 0.1 }'
PLAIN = {"system": "swerve.testing:FakeSystem", "weights": "", "change": BRIGHTER, "expect": STRICT}
PLACES: dict[str, dict[str, str]] = {
    "change": {"change": STYLED},
    "step": {"change": f"[{BRIGHTER}, {STYLED}]"},
    "relation": {"expect": '{ use = "tests.quality.test_assets:Limit", file = "files/night.style" }'},
    "system": {"system": "tests.quality.test_assets:Weighted", "weights": 'weights = "files/night.style"'},
}


def write_style(path: Path, seed: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes([200, *np.random.default_rng(seed).integers(0, 256, 767, np.uint8)]))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_style(tmp_path / "files" / NAME, 1)
    return tmp_path


def write_campaign(folder: Path, what: str) -> Path:
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN.format(**{**PLAIN, **PLACES[what]}))
    return file


def run_campaign(file: Path, into: Path, **how: Any) -> Run:
    run_into(load_campaign(str(file)), into, force=True, **how)
    return Run(into)


@pytest.mark.parametrize("what", PLACES)
def test_changed_asset_is_refused_on_resume(place: Path, what: str) -> None:
    file = write_campaign(place, what)
    run_campaign(file, place / "run")
    before = (place / "run" / "journal.jsonl").read_bytes()
    write_style(place / "files" / NAME, 2)
    with pytest.raises(DifferentCampaign, match=rf"{NAME} differs: sha \w{{8}} then, sha \w{{8}} now") as refused:
        run_campaign(file, place / "run")
    assert len(refused.value.details) == 1
    assert (place / "run" / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("what", PLACES)
def test_changed_asset_is_refused_on_replay(place: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_campaign(write_campaign(place, what), place / "run")
    finding = next(run.findings())
    assert replay(place / "run", finding.id).reproduced
    write_style(place / "files" / NAME, 2)
    with pytest.raises(InputError, match=rf"{NAME}: has changed: sha \w{{8}} then, \w{{8}} now"):
        replay(place / "run", finding.id)
    assert main(["replay", str(place / "run"), finding.id]) == 2  # in a worker process
    assert f"{NAME}: has changed" in capsys.readouterr().err


def test_missing_asset_is_named_on_replay(place: Path) -> None:
    run = run_campaign(write_campaign(place, "change"), place / "run")
    (place / "files" / NAME).unlink()
    with pytest.raises(InputError, match=rf"{NAME}: cannot be read: no such file"):
        replay(place / "run", next(run.findings()).id)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("what", ["change", "relation", "system"])
def test_workers_check_assets(place: Path, what: str) -> None:
    loaded = load_campaign(str(write_campaign(place, what)))
    with open_run(loaded, place / "run", workers=1) as opened:
        write_style(place / "files" / NAME, 2)
        with pytest.raises(InputError, match=rf"{NAME}: has changed"):
            list(opened.executor.observe([loaded.campaign.source.keys()[:2]]))


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("workers", [0, 2])
def test_same_content_elsewhere_is_the_same_run(place: Path, workers: int) -> None:
    first = run_campaign(write_campaign(place, "change"), place / "run", workers=workers)
    other = place / "other"
    other.mkdir()
    shutil.copytree(place / "files", other / "styles")
    (other / "styles" / NAME).rename(other / "styles" / "dusk")
    file = write_campaign(other, "change")
    file.write_text(file.read_text().replace("files/night.style", "styles/dusk"))
    second = run_campaign(file, other / "run")
    wanted, found = ([finding.id for finding in run.findings()] for run in (first, second))
    assert wanted
    assert found == wanted
    journals = [(run.folder / "journal.jsonl").read_text() for run in (first, second)]
    assert journals[0].replace(NAME, "dusk").count('"words":"style style dusk') == journals[1].count('"style style dusk')
    assert str(place) not in journals[0]
    shutil.copytree(place / "run", place / "copy")
    run_campaign(file, place / "copy")  # goes on: the campaign is the same, and its file is now elsewhere
    shutil.rmtree(place / "files")
    assert replay(place / "copy", found[0]).reproduced


def test_origin_tells_where_assets_lie(place: Path) -> None:
    run = run_campaign(write_campaign(place, "change"), place / "run")
    origin = json.loads((run.folder / "origin.json").read_text())
    assert origin["assets"] == {Asset(place / "files" / NAME).sha256: f"files/{NAME}"}
    (run.folder / "origin.json").write_text(json.dumps({**origin, "assets": ["x"]}))
    with pytest.raises(InputError, match=r"origin.json: is damaged: assets cannot be read"):
        replay(run.folder, next(run.findings()).id)


PATH: list[Path] = []  # of the file that `styled` reads


def styled() -> Campaign:
    """A campaign that a factory rebuilds."""
    asset = Asset(PATH[0])
    return Campaign(FakeSource(), FakeSystem(), (Rule("styled", Over(Style, style=asset), Limit(asset)),), Sweep(per_case=2))


def unstyled() -> Campaign:
    """A campaign whose relation alone reads a file."""
    rule = Rule(
        "bright", Over(Style, style=Asset(PATH[0].parent / "fixed"), strength=Range(0.5, 1.0)), Limit(Asset(PATH[0]))
    )
    return Campaign(FakeSource(), FakeSystem(), (rule,), Sweep(per_case=2))


@pytest.mark.parametrize("factory", [styled, unstyled])
def test_campaigns_of_factories_are_checked_too(place: Path, factory: Callable[[], Campaign]) -> None:
    PATH[:] = [place / "files" / NAME]
    write_style(place / "files" / "fixed", 7)
    run = run_campaign(Path(f"tests.quality.test_assets:{factory.__name__}"), place / "run")
    finding = next(run.findings())
    assert replay(run.folder, finding.id).reproduced
    write_style(PATH[0], 2)
    with pytest.raises(InputError, match=rf"{NAME} differs: sha \w{{8}} then, sha \w{{8}} now; restore the file"):
        replay(run.folder, finding.id)
    with pytest.raises(InputError, match=rf"{NAME}"):
        replay(run.folder, finding.id, campaign=factory())
