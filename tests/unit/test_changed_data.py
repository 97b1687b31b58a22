"""R70: data that change during a run, or between two, are named by their file and never judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.core.values import Region, Steering
from swerve.execution.data_guard import FILES, refuse_changed_case
from swerve.execution.engine import observe, run
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.sources.folders import Folder
from swerve.sources.windows import Windows
from swerve.store.folder import DifferentCampaign
from swerve.store.record_json import observation_of, observation_row
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten

RULE = Rule("brighter", Over(Brighten, beta=Range(1, 5)), same_angle(15))


def write(folder: Path, number: int, level: int) -> None:
    folder.mkdir(exist_ok=True)
    pixels = np.random.default_rng(number).integers(60, 120, (12, 24, 3)).astype(np.uint8)
    cv2.imwrite(str(folder / f"{number}.png"), pixels + np.uint8(level))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(6):
        write(tmp_path / "data", number, 0)
    return tmp_path / "data"


def campaign(source: object) -> Campaign:
    return Campaign(source, FakeSystem(), (RULE,), Sweep(per_case=4), inference_batch=4)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrap", [lambda source: source, lambda source: Windows(source, 2)], ids=["frames", "windows"])
def test_file_overwritten_after_the_baseline_stops_the_run(folder: Path, tmp_path: Path, wrap: object) -> None:
    source = wrap(Folder(folder))  # type: ignore[operator]
    given = campaign(source)
    source.fingerprint()

    def overwrite(baseline: object) -> None:
        del baseline
        write(folder, 4, 60)
        vars(source).get("_recent", {}).clear()

    with pytest.raises(InputError, match=r"^4\.png: the data changed during the run \(case 4.*sha \w{8} then, \w{8} now"):
        run(given, MemoryLedger(), inspect=overwrite)


@dataclass(frozen=True)
class Relabelled:
    """A source whose labels change once it has been read through."""

    source: FakeSource = field(default_factory=FakeSource)
    reads: list[str] = field(default_factory=list)

    def keys(self) -> Sequence[str]:
        return self.source.keys()

    def __getitem__(self, key: str) -> Case:
        self.reads.append(key)
        case = self.source[key]
        return case if len(self.reads) <= len(self.keys()) else replace(case, truth=(Steering(50),))

    def fingerprint(self) -> str:
        return self.source.fingerprint()


@dataclass(frozen=True)
class Narrowed(Relabelled):
    """A source whose region, which the journal keeps only by its hash, shrinks once it has been read through."""

    def __getitem__(self, key: str) -> Case:
        self.reads.append(key)
        half = 5.0 if len(self.reads) <= len(self.keys()) else 1.0
        region = Region((np.array([[0, -half], [40, -half], [40, half], [0, half]]),))
        case = self.source[key]
        return replace(case, truth=(*case.truth, region))


def test_labels_kept_by_hash_that_change_stop_the_run() -> None:
    source = Narrowed(FakeSource(6))
    rule = Rule("brighter", Over(Brighten, beta=Range(1, 5)), same_angle(15))
    given = Campaign(source, FakeSystem(), (rule,), Sweep(per_case=1))
    seen = observe(given, MemoryLedger())["fake-00000"]
    stored = observation_of(json.loads(json.dumps(observation_row(seen))))
    assert stored.truth_sha == seen.truth_sha
    with pytest.raises(InputError, match=r"\(case fake-00000: other labels\)"):
        refuse_changed_case(source, source["fake-00000"], stored)
    refuse_changed_case(source, Narrowed(FakeSource(6))["fake-00000"], stored)


def test_labels_that_change_stop_the_run_with_the_case() -> None:
    with pytest.raises(InputError, match=r"^the data changed during the run \(case fake-00000: other labels\)"):
        run(campaign(Relabelled()), MemoryLedger())


def test_refused_resume_names_the_files(folder: Path, tmp_path: Path) -> None:
    run_into(Loaded(campaign(Folder(folder)), tmp_path), tmp_path / "run")
    assert (tmp_path / "run" / FILES).stat().st_size < 60 * 6
    write(folder, 3, 9)
    (folder / "5.png").unlink()
    write(folder, 7, 0)
    with pytest.raises(DifferentCampaign, match=r"data differ: 3\.png changed, 5\.png is gone, 7\.png is new"):
        run_into(Loaded(campaign(Folder(folder)), tmp_path), tmp_path / "run")


def test_refused_resume_without_a_list_tells_the_hashes(folder: Path, tmp_path: Path) -> None:
    run_into(Loaded(campaign(Folder(folder)), tmp_path), tmp_path / "run")
    (tmp_path / "run" / FILES).unlink()
    write(folder, 3, 9)
    with pytest.raises(DifferentCampaign, match=r"sha \w{8} then, sha \w{8} now"):
        run_into(Loaded(campaign(Folder(folder)), tmp_path), tmp_path / "run")
