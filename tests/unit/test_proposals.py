"""Proposals that read the case and ask the system: under every search, batch by batch, where the system is."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from swerve.config.toml import Loaded, build_change
from swerve.config.trust import OWN
from swerve.core.campaign import Campaign, Continuation, Plan, Record, Search, Trial
from swerve.core.case import Case
from swerve.core.errors import InputError, ModelError, NotApplicable, Timeout
from swerve.core.relation import Fault, Rule, Status
from swerve.core.seeding import rng_for, stream_of
from swerve.core.space import OneOf, Over, Range, Sequenced, Space, Table
from swerve.core.system import System
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Image
from swerve.coverage.meter import Meter
from swerve.execution.engine import observe, run
from swerve.execution.evaluator import Evaluator
from swerve.execution.executors.worker import Worker
from swerve.execution.executors.worker_pool import _trial_item
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.greedy import Greedy
from swerve.search.series import Series
from swerve.search.sweep import Sweep
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten
from tests.reading_spaces import (
    AnswerSeen,
    ByAnswer,
    ByLabel,
    ByPicture,
    LabelSeen,
    Lighter,
    PictureSeen,
    check_seen,
    level_of,
    steps_of,
)
from tests.unit.test_meter import network

BLIND = Over(Brighten, beta=Range(1, 9))
SPACES: dict[str, Space] = {
    "picture": ByPicture(),
    "label": ByLabel(),
    "answer": ByAnswer(),
    "one of": OneOf((ByPicture(), ByAnswer(), BLIND)),
    "second of two": Sequenced((BLIND, ByPicture())),
    "all": Sequenced((ByAnswer(), Table((Brighten(3),)), OneOf((ByLabel(), ByPicture())), ByAnswer())),
    "nested": OneOf((Sequenced((ByLabel(), BLIND, ByPicture())), ByAnswer())),
}
SEARCHES: dict[str, Search] = {
    "sweep": Sweep(2),
    "sweep by change": Sweep(2, by="change"),
    "series": Series(),
    "guided": Greedy(tries=3, budget=30),
    "guided, code": Greedy(tries=3, reading="code", budget=30),
    "guided, wide": Greedy(tries=4, width=3, budget=30),
    "chance": Greedy(tries=3, follow="chance", chance=0.5, budget=30),
}


def campaign(space: Space, search: Search, system: System | None = None, **more: object) -> Campaign:
    meter = Meter() if isinstance(search, Greedy) else None
    rules = (Rule("rule", space, same_angle(1)),)
    return Campaign(FakeSource(6), system or network(), rules, search, None, meter, 3, inference_batch=4, **more)  # type: ignore[arg-type]


def records_of(campaign: Campaign) -> list[Record]:
    ledger = MemoryLedger()
    run(campaign, ledger)
    return [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("space", SPACES)
def test_every_space_reads_case_and_system_under_every_search(space: str, search: str) -> None:
    made = campaign(SPACES[space], SEARCHES[search])
    records = records_of(made)
    assert {record.verdict.status for record in records} <= {Status.HELD, Status.VIOLATED, Status.SKIPPED}
    assert sum(check_seen(record.change, made.source[record.trial.case], made.system) for record in records)
    assert all(record.change is not None for record in records)


@pytest.mark.parametrize("reading", ["paper", "code"])
def test_chain_goes_on_from_what_its_steps_left(reading: str) -> None:
    deep = Greedy(tries=3, reading=reading, follow="chance", chance=0.6, budget=60, depth=8)
    made = campaign(OneOf((ByPicture(), ByAnswer())), deep)
    records = records_of(made)
    assert max(len(list(steps_of(record.change))) for record in records) > 4
    assert sum(check_seen(record.change, made.source[record.trial.case], made.system) for record in records) > 120


def test_search_finds_in_the_record_what_was_drawn() -> None:
    """Every chain of more than two changes begins with one that was drawn before, of the same case."""
    made = campaign(OneOf((ByPicture(), ByLabel())), Greedy(tries=3, follow="chance", chance=0.6, budget=60))
    chains = [(record.trial.case, record.change) for record in records_of(made)]
    known = {(case, chain.steps) for case, chain in chains if isinstance(chain, Chain)}
    longer = [(case, chain.steps[:-2]) for case, chain in chains if isinstance(chain, Chain) and len(chain.steps) > 2]
    assert longer
    assert set(longer) <= known


@dataclass(frozen=True)
class Noting:
    """Notes on which thread it is asked, and for how many cases at a time."""

    inner: Space = field(default_factory=ByPicture)
    threads: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def propose_all(
        self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Transformation]:
        self.sizes.append(len(cases))
        return [self.propose(case, rng, system) for case, rng in zip(cases, rngs, strict=True)]

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        self.threads.append(threading.current_thread().name)
        return self.inner.propose(case, rng, system)

    def grid(self) -> Sequence[Transformation]:
        return ()


def test_proposals_are_made_outside_the_transform_threads() -> None:
    for search in (Sweep(2), Greedy(tries=2, budget=8)):
        noting = Noting()
        records_of(campaign(noting, search))
        assert set(noting.threads) == {threading.current_thread().name}


def test_proposals_are_made_batch_by_batch() -> None:
    noting = Noting()
    records_of(campaign(noting, Sweep(2)))
    assert noting.sizes == [4, 4, 4]
    wide = Noting()
    records_of(campaign(wide, Greedy(tries=3, width=3, images=1, budget=6)))
    assert wide.sizes == [3, 3] * (len(wide.sizes) // 2)  # two changes each, three tries at a time


def test_one_of_asks_each_space_once_a_batch() -> None:
    first, second = Noting(), Noting()
    records_of(campaign(OneOf((first, second)), Sweep(4)))
    assert sum(first.sizes) + sum(second.sizes) == 24
    assert len(first.sizes) <= 6
    assert len(second.sizes) <= 6


@dataclass(frozen=True)
class Failing:
    """Fails for some pictures, in a batch as alone."""

    error: type[BaseException]
    share: int = 3

    def fails(self, case: Case) -> bool:
        return int(case.input_sha[:8], 16) % self.share == 0

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        if self.fails(case):
            raise self.error("out of sorts")
        return ByPicture().propose(case, rng, system)

    def grid(self) -> Sequence[Transformation]:
        return ()


@dataclass(frozen=True)
class FailingTogether(Failing):
    """The same for many at a time: the first that fails ends the batch."""

    def propose_all(
        self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Transformation]:
        return [self.propose(case, rng, system) for case, rng in zip(cases, rngs, strict=True)]


@pytest.mark.parametrize("kind", [Failing, FailingTogether])
@pytest.mark.parametrize(
    ("error", "status", "fault", "why"),
    [
        (NotApplicable, Status.SKIPPED, None, "out of sorts"),
        (RuntimeError, Status.ERROR, Fault.CHANGE, "RuntimeError: out of sorts"),
        (SystemExit, Status.ERROR, Fault.CHANGE, "SystemExit: out of sorts"),
        (ModelError, Status.ERROR, Fault.MODEL, "out of sorts"),
        (Timeout, Status.ERROR, Fault.TIMEOUT, "out of sorts"),
    ],
)
def test_case_that_fails_is_alone_with_it(
    kind: type[Failing], error: type[BaseException], status: Status, fault: Fault | None, why: str
) -> None:
    space, source = kind(error), FakeSource(6)
    found, wanted = (records_of(campaign(one, Sweep(4))) for one in (space, ByPicture()))
    failed = [space.fails(source[record.trial.case]) for record in found]
    assert 0 < sum(failed) < len(failed)
    for record, other, bad in zip(found, wanted, failed, strict=True):
        if bad:
            assert (record.verdict.status, record.verdict.kind, record.verdict.why) == (status, fault, why)
            assert record.change is None
        else:
            assert (record.change, record.verdict) == (other.change, other.verdict)


@pytest.mark.parametrize("kind", [Failing, FailingTogether])
def test_error_that_is_wrong_for_every_case_stops_the_campaign(kind: type[Failing]) -> None:
    with pytest.raises(InputError, match="out of sorts"):
        records_of(campaign(kind(InputError), Sweep(2)))


def test_second_step_that_does_not_apply_is_a_skip() -> None:
    """The first step turns the label by a degree: the second applies to exactly the other cases than it would alone."""
    alone = records_of(campaign(ByLabel(picky=True), Sweep(1)))
    after = records_of(campaign(Sequenced((ByPicture(), ByLabel(picky=True))), Sweep(1)))
    skipped = [[record.verdict.status is Status.SKIPPED for record in records] for records in (alone, after)]
    assert 0 < sum(skipped[0]) < len(skipped[0])
    assert skipped[1] == [not one for one in skipped[0]]
    assert {record.verdict.why for record in after if record.verdict.status is Status.SKIPPED} == {"the label is odd"}


def test_guided_search_draws_again_what_does_not_apply() -> None:
    made = campaign(OneOf((ByLabel(picky=True), ByPicture())), Greedy(tries=3, follow="chance", budget=18))
    records = records_of(made)
    skipped = [record for record in records if record.verdict.status is Status.SKIPPED]
    assert skipped
    assert len(records) - len(skipped) == 18
    assert all(record.change is None for record in skipped)


@dataclass(frozen=True)
class Short:
    """Proposes too few."""

    def propose_all(self, cases: Sequence[Case], rngs: object, system: System) -> Sequence[Transformation]:
        return [Brighten(3)] * (len(cases) - 1)

    def propose(self, case: Case, rng: object, system: System) -> Transformation:
        return Brighten(3)

    def grid(self) -> Sequence[Transformation]:
        return ()


def test_wrong_number_of_proposals_is_named() -> None:
    with pytest.raises(InputError, match=r"Short proposed \d changes for \d cases"):
        records_of(campaign(Short(), Sweep(2)))


@dataclass(frozen=True)
class Scribbling(ByPicture):
    """Writes into some pictures that it reads."""

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        change = super().propose(case, rng, system)
        if scribbled(case):
            pixels = case.inputs["camera"].pixels  # type: ignore[attr-defined]
            pixels.setflags(write=True)
            pixels[:] = 7
        return change


def scribbled(case: Case) -> bool:
    return round(level_of(case) * 1000) % 2 == 0


def test_proposal_that_writes_into_its_case_is_named_and_spoils_no_other() -> None:
    source = FakeSource(6)
    blind = Rule("blind", BLIND, same_angle(1))
    scribbling, reading = (campaign(space, Sweep(2), FakeSystem()) for space in (Scribbling(), ByPicture()))
    found, wanted = (records_of(replace(one, rules=(*one.rules, blind))) for one in (scribbling, reading))
    spoilt, beside = 0, 0
    for record, other in zip(found, wanted, strict=True):
        if record.trial.rule == "rule" and scribbled(source[record.trial.case]):
            assert (record.verdict.status, record.verdict.kind) == (Status.ERROR, Fault.CHANGE)
            assert record.verdict.why.startswith("a proposal writes into its case; have the space and the system work")
            spoilt += 1
        else:
            assert record == other
            beside += scribbled(source[record.trial.case])
    assert 0 < spoilt == beside < len(found) / 2


def counted(into: Path, space: Space) -> tuple[bytes, int]:
    noting = Noting(space)
    made = replace(campaign(noting, Greedy(tries=3, follow="chance", chance=0.6, budget=24)), seed=5)
    run_into(Loaded(made, into.parent), into, force=True)
    return (into / "journal.jsonl").read_bytes(), sum(noting.sizes)


def test_killed_search_goes_on_to_the_same_bytes_without_proposing_again(tmp_path: Path) -> None:
    journal, proposed = counted(tmp_path / "whole", ByAnswer())
    again, _ = counted(tmp_path / "cut", ByAnswer())
    assert again == journal
    lines = journal.splitlines(keepends=True)
    (tmp_path / "cut" / "journal.jsonl").write_bytes(b"".join(lines[: len(lines) * 2 // 3]))
    resumed, later = counted(tmp_path / "cut", ByAnswer())
    assert resumed == journal
    assert 0 < later < proposed * 2 / 3


def test_spaces_that_read_nothing_are_not_shown_changed_cases() -> None:
    """Applying earlier changes for them would cost as much as the trial."""

    @dataclass(frozen=True)
    class Dear(Lighter):
        def image(self, image: Image) -> Image:
            applied.append(1)
            return super().image(image)

    def times(space: Space) -> float:
        made = campaign(space, Sweep(2), FakeSystem())
        trials = [Trial(key, "rule", draw) for key in made.source.keys() for draw in (0, 1)]
        baseline = observe(made, MemoryLedger())
        applied.clear()
        Evaluator(made, baseline)(trials)
        return len(applied) / len(trials)

    applied: list[int] = []
    dear = Table((Dear(3.0, 0.0),))
    assert times(Sequenced((dear, BLIND, dear))) == 2
    assert times(Sequenced((ByPicture(), dear, BLIND, dear))) == 2
    assert times(Sequenced((dear, BLIND, ByPicture(), dear))) == 3


@dataclass(frozen=True)
class Onward:
    """A search of one's own: one change of each case, then, from what was drawn, one more of another kind."""

    def start(self, plan: Plan) -> Going:
        return Going(plan)


class Going:
    total = None

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: Sequence[Record] = ()
        self.round = 0

    def ask(self) -> Sequence[Trial]:
        self.round += 1
        if self.round == 1:
            return [Trial(key, "rule", 0, continues=Continuation((), (1,))) for key in self._plan.keys]
        if self.round > 4:
            return []
        made = [record.change for record in self._last]
        return [
            Trial(key, "rule", self.round, continues=Continuation(chain.steps, (self.round % 3,)))
            for key, chain in zip(self._plan.keys, made, strict=True)
            if isinstance(chain, Chain)
        ]

    def tell(self, records: Sequence[Record]) -> None:
        self._last = records


def test_search_of_ones_own_goes_on_from_what_was_drawn() -> None:
    made = campaign(OneOf((ByPicture(), ByAnswer(), ByLabel())), Onward())
    records = records_of(made)
    kinds = [AnswerSeen, LabelSeen, PictureSeen, AnswerSeen]
    assert [[type(step) for step in steps_of(record.change)] for record in records] == [
        kinds[:length] for length in (1, 2, 3, 4) for _ in range(6)
    ]
    for record in records:
        check_seen(record.change, made.source[record.trial.case], made.system)
    first, again = ({item.id for item in records_of(made)} for _ in range(2))
    assert first == again == {record.id for record in records}
    assert len(first) == 24  # the generator of each trial is its own


@pytest.mark.parametrize(
    "trial",
    [
        Trial("a", "rule", 3),
        Trial("a", "rule", 3, Chain((Brighten(3), Brighten(4)))),
        Trial("a", "rule", 3, continues=Continuation((), (0, 1))),
        Trial("a", "rule", 3, continues=Continuation((Brighten(3), Brighten(4)), (2,), stream_of(rng_for("x")))),
    ],
)
def test_trial_reaches_a_worker_as_it_is(trial: Trial) -> None:
    worker = object.__new__(Worker)
    worker._change = lambda text: build_change(json.loads(text), OWN)  # type: ignore[assignment]
    assert worker._trial(*json.loads(json.dumps(_trial_item(trial)))) == trial
