"""One merged gain per ask: the same coverage as with a gain per trial, in a fraction of the journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest

from swerve.config.toml import Loaded, load_campaign
from swerve.core.campaign import Campaign, Gain, Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.relation import Rule
from swerve.core.seeding import rng_for
from swerve.core.space import Table
from swerve.core.transformation import Transformation
from swerve.core.values import Image, Steering
from swerve.coverage.bits import Bits
from swerve.coverage.meter import Meter, bits_of, encode_bits
from swerve.coverage.neuron import NC
from swerve.coverage.profiled import KMNC
from swerve.execution.engine import run
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.store.view import JOURNAL, Run
from swerve.systems.torch import TorchSystem
from swerve.testing import MemoryLedger
from swerve.zoo.steering import DaveOrig

TOLD: list[tuple[Gain, int]] = []  # what a session was told: gains, and how many records followed


@dataclass(frozen=True)
class Scenes:
    """Smooth pictures of many colours."""

    count: int = 24
    width: int = 160
    height: int = 90

    def keys(self) -> Sequence[str]:
        return [f"scene-{number:04d}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        few = rng_for("scene", key).integers(0, 256, (6, 10, 3)).astype(np.uint8)
        pixels = cv2.resize(few, (self.width, self.height), interpolation=cv2.INTER_CUBIC)
        return Case(key, {"camera": Image(np.ascontiguousarray(pixels))}, (Steering(0.0),), group=key)

    def fingerprint(self) -> str:
        return f"scenes {self.count} {self.width} {self.height}"


@dataclass(frozen=True)
class Style(Transformation):
    """All colours mixed as its number says."""

    number: int = 0
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        rng = rng_for("style", self.number)
        mixed = image.pixels @ (np.eye(3) + rng.normal(0, 0.15, (3, 3))).T + rng.normal(0, 20, 3)
        return Image(np.clip(mixed, 0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Styles:
    """Asks one style of all cases; the style that follows depends on what the last one has covered."""

    asks: int = 3
    gain_per_ask: ClassVar[bool] = True

    def start(self, plan: Plan) -> StylesSession:
        return StylesSession(self, plan)


@dataclass(frozen=True)
class StylesOfTrials(Styles):
    """The same with a gain for every trial."""

    gain_per_ask: ClassVar[bool] = False


class StylesSession:
    def __init__(self, search: Styles, plan: Plan) -> None:
        self.total: int | None = search.asks * len(plan.keys)
        self._left, self._plan, self._number, self._draws = search.asks, plan, 0, 0
        self._covered = getattr(plan, "covered", None)
        self._gain: Gain = {}
        TOLD.clear()

    def ask(self) -> Sequence[Trial]:
        if not self._left:
            return []
        self._left -= 1
        rule, style = self._plan.rules[0], Style(self._number)
        self._draws += 1
        return [Trial(key, rule.name, self._draws, style) for key in self._plan.keys]

    def tell_gain(self, gain: Gain) -> None:
        self._gain = gain

    def tell(self, records: Sequence[Record]) -> None:
        meter = self._plan.coverage
        assert meter
        gains = [record.gain for record in records if record.gain]
        if gains:  # with a gain per trial, the search has to merge them itself
            before = self._covered or {}
            self._covered = meter.joined([before, *gains])
            self._gain = beyond(self._covered, before)
        TOLD.append((self._gain, len(records)))
        self._number += 1 + sum(counts["covered"] for counts in meter.counts(self._gain).values()) % 3


def beyond(gain: Gain, known: Gain) -> Gain:
    """What `known` lacks of `gain`, worked out by the numbers of the regions."""
    numbers = {name: set(bits_of(row).numbers()) for name, row in gain.items()}
    rest = {name: numbers[name] - set(bits_of(known[name]).numbers() if name in known else ()) for name in gain}
    return {name: encode_bits(Bits.of(rest[name], bits_of(row).size), row["of"]) for name, row in gain.items()}


def small_network() -> Any:
    import torch

    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(6, 4, 3, stride=2), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1),
    )  # fmt: skip


def read(case: Case) -> Any:
    import torch

    pixels = case.inputs["camera"].pixels  # type: ignore[attr-defined]
    return torch.tensor(pixels / 255, dtype=torch.float32).permute(2, 0, 1)


def say(row: Any) -> Steering:
    return Steering(float(row[0]) * 100)


def small(search: Styles | None = None, **more: Any) -> Campaign:
    """A campaign that takes a moment."""
    source = Scenes(24, 32, 18)
    meter = Meter((NC(), KMNC(20)), profile=Scenes(10, 32, 18))
    rule = Rule("styled", Table((Style(0),)), same_angle(0.01))
    parts = {"source": source, "system": TorchSystem(small_network(), read=read, say=say), "rules": (rule,)}
    return Campaign(**{**parts, "search": search or Styles(4), "coverage": meter, "inference_batch": 5, **more})


def rebuilt() -> Campaign:
    """The same, for workers."""
    return small()


def sets(gain: Gain) -> dict[str, Bits]:
    return {name: bits_of(row) for name, row in gain.items()}


def test_coverage_is_that_of_all_trials() -> None:
    merged = run(small(), MemoryLedger()).as_dict()
    told = list(TOLD)
    single = run(small(StylesOfTrials(4)), MemoryLedger()).as_dict()
    assert merged == single
    assert [(sets(gain), count) for gain, count in told] == [(sets(gain), count) for gain, count in TOLD]
    for name, counts in merged["coverage"].items():
        assert counts["untouched"] > 0
        assert counts["covered"] - counts["untouched"] == sum(len(sets(gain)[name]) for gain, _ in told)
        assert len(sets(told[0][0])[name] & sets(told[1][0])[name]) == 0


def folder_of(loaded: Loaded, folder: Path, **how: Any) -> tuple[bytes, list[tuple[Gain, int]]]:
    run_into(loaded, folder, force=True, pictures=False, **how)
    return (folder / JOURNAL).read_bytes(), list(TOLD)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[tuple[Gain, int]]]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    journal, told = folder_of(load_campaign(f"{__name__}:rebuilt"), folder)
    return folder, journal, told


def test_journal_has_one_gain_per_commit(whole: tuple[Path, bytes, list[tuple[Gain, int]]]) -> None:
    folder, journal, told = whole
    run = Run(folder)
    assert all(row["gain"] is None for row in run.rows())
    gains = list(run.gains())
    assert len(gains) == 1 + 4  # 24 cases are one commit
    assert gains[1:] == [gain for gain, _ in told]
    kinds = [json.loads(line)["kind"] for line in journal.splitlines()]
    assert kinds[:3] == ["gain", "commit", "baseline"]
    assert set(kinds) == {"gain", "commit", "baseline", "trial", "repeat"}


@pytest.mark.usefixtures("forked_workers")
def test_workers_write_the_same_bytes(whole: tuple[Path, bytes, list[tuple[Gain, int]]], tmp_path: Path) -> None:
    _, journal, told = whole
    assert folder_of(load_campaign(f"{__name__}:rebuilt"), tmp_path / "run", workers=2) == (journal, told)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("workers", [0, 2])
def test_run_cut_anywhere_ends_the_same(
    whole: tuple[Path, bytes, list[tuple[Gain, int]]], tmp_path: Path, workers: int
) -> None:
    folder, journal, told = whole
    lines = journal.splitlines(keepends=True)
    commits = [number + 1 for number, line in enumerate(lines) if line.startswith(b'{"kind":"commit"')]
    for number, cut in enumerate(commits[4:6] if workers else commits):
        place = tmp_path / str(number)
        place.mkdir()
        for name in ("campaign.json", "origin.json"):
            (place / name).write_bytes((folder / name).read_bytes())
        (place / JOURNAL).write_bytes(b"".join(lines[:cut]) + b"".join(lines[cut : cut + 1])[:30])
        assert folder_of(load_campaign(f"{__name__}:rebuilt"), place, workers=workers) == (journal, told)


def test_batches_may_be_of_any_size() -> None:
    totals = [run(small(inference_batch=size), MemoryLedger()).as_dict()["coverage"] for size in (1, 5, 24)]
    assert totals[0] == totals[1] == totals[2]


@dataclass(frozen=True)
class Mislabelled(Scenes):
    """Scenes of which the first of every batch has a label that cannot be used."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return replace(case, truth=(Steering(float("nan")),)) if int(key[-2:]) % 5 == 0 else case


def test_bad_labels_lose_no_coverage() -> None:
    merged = run(small(source=Mislabelled(24, 32, 18)), MemoryLedger()).as_dict()["coverage"]
    plain = run(small(), MemoryLedger()).as_dict()["coverage"]
    assert {name: counts["untouched"] for name, counts in merged.items()} == {
        name: counts["untouched"] for name, counts in plain.items()
    }


def test_meter_that_cannot_merge_is_refused() -> None:
    @dataclass(frozen=True)
    class Plain:
        """A meter of the user's own."""

        def measured(self, system: Any, cases: Sequence[Case]) -> Any:
            return system(cases), [{} for _ in cases]

        def joined(self, gains: Any) -> Gain:
            return {}

        def counts(self, gain: Gain) -> dict[str, dict[str, int]]:
            return {}

    with pytest.raises(InputError, match="so Plain needs methods measured_together and beyond"):
        run(small(coverage=Plain()), MemoryLedger())


def test_five_hundred_scenes_take_little_room(tmp_path: Path) -> None:
    """At most 100 kB of gains for every style after the first; with one per trial it is more than 2 MB."""
    scenes = Scenes(500)
    meter = Meter((KMNC(1000),), profile=scenes)
    rule = Rule("styled", Table((Style(0),)), same_angle(5))
    campaign = Campaign(scenes, DaveOrig(), (rule,), Styles(3), coverage=meter)
    run_into(Loaded(campaign, Path("/")), tmp_path / "run", force=True, pictures=False)
    sizes: dict[int, int] = {}
    draw = 0
    for line in (tmp_path / "run" / JOURNAL).read_bytes().splitlines():
        row = json.loads(line)
        draw = max(draw, row["draw"]) if row["kind"] == "trial" else draw
        ask = draw + (row["kind"] == "gain")  # which comes before its trials
        if row["kind"] in ("trial", "gain") and row["gain"]:
            sizes[ask] = sizes.get(ask, 0) + len(json.dumps(row["gain"]))
    print(sizes)
    assert sizes[1] > 10_000
    assert [size <= 100_000 for ask, size in sizes.items() if ask > 1] == [True, True]
