"""R26: a system that writes into what it is shown is told so, and spoils neither hashes nor the verdicts on other trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import pytest

from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import ModelError
from swerve.core.relation import Fault, Rule, Status, Verdict
from swerve.core.space import Over, Range
from swerve.core.system import Answer
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Group, Image, PointCloud, Value
from swerve.execution.answers import WRITTEN, answer_all
from swerve.execution.engine import run
from swerve.execution.launch import run_into
from swerve.execution.replay import replay
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten


def by_flags(array: Array) -> None:
    array.setflags(write=True)
    array[:1] = 7


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def by_torch(array: Array) -> None:
    import torch

    torch.from_numpy(array).mul_(0)


def by_base(array: Array) -> None:
    np.asarray(array.base)[:] = 0


HOWS = (by_flags, by_torch, by_base)


@dataclass(frozen=True)
class Scribbler(FakeSystem):
    """Answers like any other, and then writes into what it was shown: into all of it, or only of some pictures."""

    how: Callable[[Array], None] = by_flags
    share: int = 1  # of how many pictures one is written into
    untouched: bool = True  # whether it does so to untouched cases too

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        hit = [self._hit(case) for case in cases]
        answers = super().__call__(cases)
        for case in (case for case, now in zip(cases, hit, strict=True) if now):
            for value in case.inputs.values():
                for array in _arrays(value):
                    self.how(array)
        return answers

    def _hit(self, case: Case) -> bool:
        first = next(iter(_arrays(next(iter(case.inputs.values())))))
        return (self.untouched or case.parent is not None) and crc32(first.tobytes()) % self.share == 0


def _arrays(value: Value) -> list[Array]:
    if isinstance(value, Group):
        return [array for inner in value.values for array in _arrays(inner)]
    return [value.pixels] if isinstance(value, Image) else [value.xyzi] if isinstance(value, PointCloud) else []


@dataclass(frozen=True)
class TwoSensors(FakeSource):
    """A camera and a LiDAR: a change of the picture leaves the follow-up with the source's own points."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        points = np.ones((20, 4), np.float32)
        return replace(case, inputs={**case.inputs, "lidar": PointCloud(points)})


@dataclass(frozen=True)
class LidarSystem(FakeSystem):
    """Looks at the points as well, so that points written into would move its answer."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        points = [float(case.inputs["lidar"].xyzi.sum()) for case in cases]  # type: ignore[attr-defined]
        return [
            (replace(said[0], degrees=said[0].degrees + more / 80),)  # type: ignore[attr-defined,type-var]
            for said, more in zip(super().__call__(cases), points, strict=True)
        ]


@dataclass(frozen=True)
class LidarScribbler(Scribbler, LidarSystem):
    """Looks at both sensors, and writes into both."""


@dataclass(frozen=True)
class Kept:
    """A source that gives out the very arrays that it keeps."""

    of: FakeSource = field(default_factory=FakeSource)
    kept: dict[str, Case] = field(default_factory=dict, compare=False)

    def keys(self) -> Sequence[str]:
        return self.of.keys()

    def __getitem__(self, key: str) -> Case:
        return self.kept.setdefault(key, self.of[key])

    def fingerprint(self) -> str:
        return self.of.fingerprint()


RULES = (Rule("brighter", Over(Brighten, beta=Range(1, 40)), same_angle(15)),)


def campaign(system: FakeSystem, source: Any = None, **more: Any) -> Campaign:
    given = {"rules": RULES, "search": Sweep(per_case=6), "inference_batch": 4, **more}
    return Campaign(source or FakeSource(6), system, **given)


def records(made: Campaign) -> list[Any]:
    ledger = MemoryLedger()
    run(made, ledger)
    return [item for batch in ledger.batches for item in batch]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("how", HOWS, ids=lambda how: how.__name__)
def test_system_that_always_writes_is_stopped_with_its_fault(how: Callable[[Array], None]) -> None:
    with pytest.raises(
        ModelError, match="failed on all 6 cases; the first, fake-00000: the system writes into its input; have"
    ):
        run(campaign(Scribbler(how=how)), MemoryLedger())


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("how", HOWS, ids=lambda how: how.__name__)
@pytest.mark.parametrize(
    ("source", "well", "bad"),
    [
        (FakeSource(6), FakeSystem(), Scribbler(share=3)),
        (TwoSensors(6), LidarSystem(), LidarScribbler(share=3)),
        (Windows(FakeSource(8, drive=8), length=3), FakeSystem(), Scribbler(share=3)),
    ],
    ids=["camera", "two sensors", "windows"],
)
def test_every_other_trial_is_as_without(how: Any, source: Any, well: FakeSystem, bad: Scribbler) -> None:
    """Which inputs it writes into depends on the input alone; what it never wrote into is as from one that behaves."""
    scribbled = records(campaign(replace(bad, how=how, untouched=False), source))
    written = 0
    for good, other in zip(records(campaign(well, source)), scribbled, strict=True):
        if getattr(other, "verdict", None) and other.verdict.status is Status.ERROR:
            assert (other.verdict.why, other.verdict.kind) == (WRITTEN.why, Fault.MODEL)
            assert other.change == good.change
            assert other.input_sha in (good.input_sha, _sha(source, good))  # of what it was before
            written += 1
        elif getattr(good, "verdict", None) and good.verdict.status is Status.SKIPPED:  # the same change once more
            assert other.verdict == good.verdict
        else:
            assert other == good
    assert 5 < written < len(scribbled) - 5


def _sha(source: Any, record: Any) -> str:
    """The hash of a follow-up that held, which its record does not tell."""
    sha: str = record.change(source[record.trial.case]).input_sha
    return sha


def test_untouched_cases_keep_their_hashes() -> None:
    """Cases that were written into are left out of the campaign with the reason; all hashes are of what was read."""
    good, bad = (records(campaign(system))[:6] for system in (FakeSystem(), Scribbler(share=3)))
    assert [seen.input_sha for seen in bad] == [seen.input_sha for seen in good]
    assert {seen.fault for seen in bad} == {"", WRITTEN.why}


def test_findings_replay_and_have_their_pictures(tmp_path: Path) -> None:
    """The hash of a finding is that of its input, so it can be rebuilt; what was written into is no finding."""
    made = campaign(Scribbler(share=3, untouched=False))
    run_into(Loaded(made, tmp_path), tmp_path / "run")
    findings = list(Run(tmp_path / "run").findings())
    assert len(findings) > 3
    assert all(replay(tmp_path / "run", finding.id, campaign=made).reproduced for finding in findings)


def test_replay_of_a_system_that_began_to_write_says_so(tmp_path: Path) -> None:
    run_into(Loaded(campaign(FakeSystem()), tmp_path), tmp_path / "run")
    finding = next(Run(tmp_path / "run").findings())
    again = replay(tmp_path / "run", finding.id, campaign=campaign(Scribbler()))
    assert again.verdict == WRITTEN
    assert not [line for line in again.differs if line.startswith(("source input", "follow-up input"))]


@pytest.mark.parametrize("untouched", [True, False])
def test_source_that_keeps_its_cases_is_lost(untouched: bool) -> None:
    """What was written is what it would give out from now on: the campaign stops rather than judge that."""
    source = Kept(TwoSensors(6))
    with pytest.raises(
        ModelError,
        match=r"fake-0000\d: the system writes .* the original is lost, because the source keeps its cases in memory",
    ):
        run(campaign(LidarScribbler(share=3, untouched=untouched), source), MemoryLedger())


def test_source_that_keeps_its_cases_is_fine_with_others() -> None:
    assert records(campaign(LidarSystem(), Kept(TwoSensors(6)))) == records(campaign(LidarSystem(), TwoSensors(6)))


@dataclass(frozen=True)
class Failing(Scribbler):
    """Fails on any batch, after it wrote into the first case of it."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        if len(cases) > 1:
            by_flags(_arrays(cases[0].inputs["camera"])[0])
            raise RuntimeError("one at a time")
        return FakeSystem.__call__(self, cases)


def test_case_written_into_by_a_failed_pass_is_not_asked_again() -> None:
    source = FakeSource(3)
    cases = [source[key] for key in source.keys()]
    wanted = FakeSystem()([source[key] for key in source.keys()])
    assert answer_all(Failing(), cases) == [WRITTEN, *wanted[1:]]


@dataclass(frozen=True)
class Peeking:
    """A relation that looks at the source's own input, as one on point clouds may."""

    def check(self, pair: Any) -> Verdict:
        return Verdict(Status.HELD, -float(pair.source.inputs["lidar"].xyzi.sum()), "looked")


@dataclass(frozen=True)
class Shifted(Transformation):
    """A change of the picture, with points of its own if the number is even."""

    by: int
    preserves: ClassVar[tuple[str, ...]] = ("*",)

    def __call__(self, case: Case) -> Case:
        image = case.inputs["camera"]
        assert isinstance(image, Image)
        inputs: dict[str, Value] = {**case.inputs, "camera": Image(image.pixels + np.uint8(self.by))}
        if self.by % 2 == 0:
            inputs["lidar"] = PointCloud(np.zeros((20, 4), np.float32))
        return replace(case, inputs=inputs, parent=case.key)


def test_relations_see_the_source_as_it_was() -> None:
    rules = tuple(Rule(f"{by}", Shifted(by), Peeking()) for by in range(1, 7))
    rows = records(campaign(LidarScribbler(share=2, untouched=False), TwoSensors(4), rules=rules, inference_batch=6))[4:]
    judged = [row.verdict.margin for row in rows if row.verdict.status is Status.HELD]
    assert len(judged) < len(rows)
    assert set(judged) == {-80.0}
