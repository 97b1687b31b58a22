"""Contract tests for implementations of a protocol: inherit a class, override its first method, run pytest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swerve.config.toml import Builder
from swerve.core.asset import AssetFiles, assets_in
from swerve.core.campaign import Observation, Plan, Record, Search, Trial
from swerve.core.case import Case, Source, group_of
from swerve.core.encode import close, encode
from swerve.core.origin import Origin
from swerve.core.relation import Rule, Verdict
from swerve.core.seeding import digest_of, rng_for
from swerve.core.space import Over, Proposal, Space, propose_all
from swerve.core.system import System
from swerve.core.transformation import Transformation, Unchanged, params_of
from swerve.core.values import Steering
from swerve.execution.answers import answer_all
from swerve.execution.ledger import Ledger
from swerve.relations.steering import same_angle
from swerve.store.record_json import Result
from swerve.testing.fakes import FakeSource, FakeSystem, sample_case
from swerve.transformations.photometric import Brighten


def _from_json(change: Transformation) -> Transformation:
    """A change rebuilt from its JSON, as a run folder does it."""
    paths = {sha: str(asset.path) for sha, asset in assets_in(change).items()}
    return Builder("change", assets=AssetFiles(paths)).change(encode(change))


class TransformationContract:
    """A change is repeatable, leaves its input unmodified, does nothing at neutral, and survives JSON exactly."""

    def changes(self) -> Sequence[Transformation]:
        """The changes to test."""
        raise NotImplementedError

    def case(self) -> Case:
        """A case to which they can be applied."""
        return sample_case()

    def test_same_change_same_followup(self) -> None:
        for change in self.changes():
            assert _content(change(self.case())) == _content(change(self.case())), change

    def test_source_is_left_alone(self) -> None:
        case, before = self.case(), _content(self.case())
        for change in self.changes():
            change(case)
            assert _content(case) == before, change

    def test_kinds_of_values_stay(self) -> None:
        case = self.case()
        for change in self.changes():
            followup = change(case)
            assert followup.parent == case.key
            assert [value.slot for value in followup.truth] == [value.slot for value in case.truth]
            assert {k: v.slot for k, v in followup.inputs.items()} == {k: v.slot for k, v in case.inputs.items()}

    def test_neutral_does_nothing(self) -> None:
        for change in self.changes():
            if declared := params_of(type(change)):
                idle = dataclasses.replace(change, **{name: facts.neutral for name, facts in declared.items()})
                assert idle(self.case()).input_sha == self.case().input_sha, idle

    def test_json_brings_it_back(self) -> None:
        for change in self.changes():
            assert _from_json(change) == change

    def test_simpler_is_another(self) -> None:
        for change in self.changes():
            assert all(easier != change for easier in change.simpler())

    def test_words_fit_one_line(self) -> None:
        for change in self.changes():
            assert change.words().isprintable()
            assert change.words()


def _content(case: Case) -> tuple[str, ...]:
    return case.input_sha, *(value.digest for value in case.truth)


class SourceContract:
    """A source lists its cases in a stable order and reads each the same way every time."""

    def source(self) -> Source:
        """The source to test, newly created."""
        raise NotImplementedError

    def test_keys_are_unique_and_stable(self) -> None:
        keys = list(self.source().keys())
        assert keys
        assert len(set(keys)) == len(keys)
        assert keys == list(self.source().keys())

    def test_case_has_its_key(self) -> None:
        source = self.source()
        for key in list(source.keys())[:5]:
            assert source[key].key == key
            assert source[key].parent is None

    def test_reading_twice_is_same(self) -> None:
        first, second = self.source(), self.source()
        for key in list(first.keys())[:5]:
            assert _content(first[key]) == _content(second[key])

    def test_group_is_the_case_s(self) -> None:
        source = self.source()
        for key in list(source.keys())[:5]:
            assert group_of(source, key) == source[key].group

    def test_labels_can_be_compared(self) -> None:
        source = self.source()
        faults = [value.fault() for key in list(source.keys())[:5] for value in source[key].truth]
        assert not any(faults), faults

    def test_fingerprint_is_stable(self) -> None:
        assert self.source().fingerprint() == self.source().fingerprint()


class SystemContract:
    """A system gives one valid answer per case, the same alone as in a batch, and does not modify the case."""

    def system(self) -> System:
        """The system to test, newly created."""
        raise NotImplementedError

    def cases(self) -> Sequence[Case]:
        """A few cases it can answer."""
        source = FakeSource(4)
        return [source[key] for key in source.keys()]

    def test_one_answer_per_case(self) -> None:
        assert len(self.system()(self.cases())) == len(self.cases())

    def test_answers_are_sound(self) -> None:
        wrong = [item for item in answer_all(self.system(), self.cases()) if isinstance(item, Verdict)]
        assert not wrong, wrong

    def test_alone_as_in_batch(self) -> None:
        system = self.system()
        together = system(self.cases())
        for case, answer in zip(self.cases(), together, strict=True):
            assert close(encode(system([case])[0]), encode(answer)), case.key

    def test_same_question_same_answer(self) -> None:
        system = self.system()
        assert encode(list(system(self.cases()))) == encode(list(system(self.cases())))

    def test_cases_are_left_alone(self) -> None:
        cases = self.cases()
        before = [_content(case) for case in cases]
        self.system()(cases)
        assert [_content(case) for case in cases] == before

    def test_fingerprint_is_stable(self) -> None:
        system = self.system()
        before = system.fingerprint()
        system(self.cases())
        assert before == system.fingerprint() == self.system().fingerprint()


class SpaceContract:
    """A space proposes the same for the same random numbers, alone as for many cases, and leaves the cases unmodified."""

    draws = 20

    def space(self) -> Space:
        """The space to test, newly created."""
        raise NotImplementedError

    def cases(self) -> Sequence[Case]:
        """A few cases it has changes for."""
        source = FakeSource(4)
        return [source[key] for key in source.keys()]

    def system(self) -> System:
        """The system that it may ask."""
        return FakeSystem()

    def test_same_numbers_same_changes(self) -> None:
        assert self._proposals() == self._proposals()

    def test_some_cases_have_a_change(self) -> None:
        changes = [change for change in self._proposals() if isinstance(change, Transformation)]
        assert changes
        assert all(_from_json(change) == change for change in changes)

    def test_alone_as_in_batch(self) -> None:
        space, system, together = self.space(), self.system(), self._proposals()
        for number, case in enumerate(self._shown()):
            (alone,) = propose_all(space, [case], [rng_for("space", number)], system)
            assert _change_or_reason(alone) == together[number], case.key

    def test_cases_are_left_alone(self) -> None:
        cases = self.cases()
        before = [_content(case) for case in cases]
        propose_all(self.space(), cases, [rng_for("space", number) for number in range(len(cases))], self.system())
        assert [_content(case) for case in cases] == before

    def _shown(self) -> list[Case]:
        return [case for case in self.cases() for _ in range(self.draws)]

    def _proposals(self) -> list[Transformation | str]:
        shown = self._shown()
        rngs = [rng_for("space", number) for number in range(len(shown))]
        return [_change_or_reason(item) for item in propose_all(self.space(), shown, rngs, self.system())]


def _change_or_reason(proposal: Proposal) -> Transformation | str:
    return proposal if isinstance(proposal, Transformation) else str(proposal)


class SearchContract:
    """A search asks for the same trials given the same plan and records, and ends."""

    longest = 1000

    def search(self) -> Search:
        """The search to test."""
        raise NotImplementedError

    def test_same_plan_same_trials(self) -> None:
        assert self._all_trials() == self._all_trials()

    def test_trials_are_unique_and_known(self) -> None:
        found = self._all_trials()
        assert found
        assert len({trial.key for trial in found}) == len(found)
        assert {trial.case for trial in found} <= {"a", "b", "c"}

    def test_total_is_kept(self) -> None:
        session = self.search().start(self._plan())
        assert session.total is None or session.total == len(self._all_trials())

    def _all_trials(self) -> list[Trial]:
        session = self.search().start(self._plan())
        found: list[Trial] = []
        while trials := session.ask():
            found += trials
            session.tell([_held(trial) for trial in trials])
            assert len(found) < self.longest, "the search does not end"
        return found

    def _plan(self) -> Plan:
        rules = [Rule("range", Over(Brighten), same_angle()), Rule("fixed", Brighten(5), same_angle())]
        seen = {key: Observation(key, "", (Steering(0),), (Steering(0),)) for key in "abc"}
        return Plan(list(seen), rules, 7, seen, 4)


def _held(trial: Trial) -> Record:
    return Record(trial, Verdict.below(0.0, 1.0, "held"), trial.change or Unchanged())


class LedgerContract:
    """A ledger computes only what it does not have yet."""

    def ledger(self, folder: Path) -> Ledger:
        """The ledger to test; the same folder must give the same ledger."""
        raise NotImplementedError

    def close(self, ledger: Ledger) -> None:
        """Close `ledger`, as a process does when it ends."""
        del ledger

    def test_committed_is_not_computed(self, tmp_path: Path) -> None:
        seen, record = _sample_rows()
        first = self.ledger(tmp_path)
        assert list(first.observed(["a"], lambda: [seen])) == [seen]
        assert _records(first.recorded([record.trial], lambda: [Result(record)])) == [record]
        self.close(first)
        again = self.ledger(tmp_path)
        assert list(again.observed(["a"], _never)) == [seen]
        assert _records(again.recorded([record.trial], _never)) == [record]
        self.close(again)

    def test_committed_can_be_counted(self, tmp_path: Path) -> None:
        seen, record = _sample_rows()
        first = self.ledger(tmp_path)
        first.observed(["a"], lambda: [seen])
        first.recorded([record.trial], lambda: [Result(record)])
        self.close(first)
        again = self.ledger(tmp_path)
        again.observed(["a"], _never)
        (result,) = again.recorded([record.trial], _never)
        assert result.outcome == record.outcome
        assert _records(again.recorded([record.trial], lambda: [Result(record)])) == [record]
        self.close(again)

    def test_committed_gain_is_not_computed(self, tmp_path: Path) -> None:
        seen, record = _sample_rows()
        gain = {"NC": {"covered": "x", "of": 7}}
        first = self.ledger(tmp_path)
        assert first.gained(lambda: gain) == gain
        first.observed(["a"], lambda: [seen])
        first.gained(lambda: gain)
        self.close(first)
        again = self.ledger(tmp_path)
        assert again.gained(_never) == gain
        assert list(again.observed(["a"], _never)) == [seen]
        assert again.gained(_never) == gain
        assert _records(again.recorded([record.trial], lambda: [Result(record)])) == [record]  # killed after its gain
        self.close(again)

    def test_goes_on_after_the_last(self, tmp_path: Path) -> None:
        seen, record = _sample_rows()
        first = self.ledger(tmp_path)
        first.observed(["a"], lambda: [seen])
        self.close(first)
        again = self.ledger(tmp_path)
        again.observed(["a"], _never)
        assert _records(again.recorded([record.trial], lambda: [Result(record)])) == [record]
        self.close(again)


def _sample_rows() -> tuple[Observation, Record]:
    label, answer = Steering(1.25), Steering(0.1 + 0.2)
    seen = Observation("a", "drive", (label,), (answer,), digest_of("a"))
    trial = Trial("a", "rule", 0, None)
    verdict = Verdict.below(9.5, 5.0, "9.5° apart")
    return seen, Record(
        trial,
        verdict,
        Brighten(10),
        (answer,),
        (Steering(9.8),),
        (label,),
        Origin.INTRODUCED,
        None,
        digest_of("a"),
        digest_of("b"),
        {"fill": 0.5},
    )


def _never() -> Any:
    raise AssertionError("a committed record was computed again")


def _records(results: Sequence[Result]) -> list[Record]:
    return [result.record for result in results]
