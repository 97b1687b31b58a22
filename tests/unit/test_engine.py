import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from swerve.core.campaign import Campaign, Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.errors import InputError, ModelError, NotApplicable, UnmappedError, UnreadableCase
from swerve.core.origin import Origin
from swerve.core.relation import Correct, Fault, Pair, Rule, Status, Verdict
from swerve.core.space import Choices, Over, Range, Table
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Boxes2D, Boxes3D, Image, Masks, Steering
from swerve.execution.engine import run
from swerve.execution.summary import Summary
from swerve.relations.gates import MaxFill
from swerve.relations.sets import NoFewer
from swerve.relations.steering import AngleWithin, lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten
from swerve.world.source import World
from swerve.zoo.steering import DaveOrig


def campaign(**changes: Any) -> Campaign:
    parts: dict[str, Any] = {
        "source": FakeSource(6),
        "system": FakeSystem(),
        "rules": (Rule("brighter", Over(Brighten, beta=Range(1, 30)), same_angle(15)),),
        "search": Sweep(per_case=4),
        "seed": 3,
        "inference_batch": 5,
    }
    return Campaign(**{**parts, **changes})


def carried_out(given: Campaign) -> tuple[Summary, list[Record]]:
    ledger = MemoryLedger()
    summary = run(given, ledger)
    return summary, [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


def total(summary: Summary) -> dict[str, Any]:
    counts = summary.as_dict()
    assert counts["trials"] == counts["held"] + counts["violated"] + counts["skipped"] + counts["errors"]
    return counts


@dataclass
class Odd:
    """Right on sources, `answer` on follow-ups."""

    answer: Callable[[], Any]
    on: str = "followup"

    def __call__(self, cases: Sequence[Case]) -> list[Any]:
        good = FakeSystem()(cases)
        return [
            self.answer() if (case.parent is not None) == (self.on == "followup") else said
            for case, said in zip(cases, good, strict=True)
        ]

    def fingerprint(self) -> str:
        return "odd"


def raising(error: type[Exception]) -> Callable[[], Any]:
    def answer() -> Any:
        raise error("broken")

    return answer


ODD: dict[str, Callable[[], Any]] = {
    "nan": lambda: (Steering(math.nan),),
    "inf": lambda: (Steering(math.inf),),
    "minus inf": lambda: (Steering(-math.inf),),
    "huge": lambda: (Steering(1e308),),
    "none": lambda: None,
    "string": lambda: "left",
    "empty": lambda: (),
    "bare value": lambda: Steering(1),
    "complex": lambda: (1j,),
    "object": lambda: (object(),),
    "array": lambda: np.zeros((3, 3)),
    "raises": raising(RuntimeError),
}


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("expect", [same_angle(5), lambda_mse(5), NoFewer()], ids=["own answer", "label", "boxes"])
def test_odd_answer_is_an_error(answer: Callable[[], Any], expect: Any) -> None:
    rule = Rule("odd", Brighten(10), expect)
    summary, records = carried_out(campaign(system=Biased(answer), rules=(rule,)))
    counts = total(summary)
    assert counts["errors"] == counts["trials"] == 6
    assert {record.verdict.kind for record in records} == {Fault.MODEL}


@dataclass
class Biased(Odd):
    """As `Odd`, with an error on the sources so that λ·MSE has something to go by, and boxes so that sets have too."""

    def __call__(self, cases: Sequence[Case]) -> list[Any]:
        boxes = Boxes3D(np.ones((2, 7)), ("car", "car"))
        wrong = FakeSystem(bias=1)(cases)
        return [self.answer() if case.parent else (*said, boxes) for case, said in zip(cases, wrong, strict=True)]


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        (np.array([[0, 0, np.nan, 1]]), Status.ERROR),
        (np.array([[0, 0, 1e300, 1]]), Status.ERROR),
        (np.array([[0, 0, 5, 1]]), Status.HELD),
    ],
)
def test_odd_boxes_are_an_error(boxes: Any, expected: Status) -> None:
    said = (Boxes2D(boxes, ("car",)), Steering(0))
    given = campaign(system=Answering(said), rules=(Rule("odd", Unchanged(), NoFewer("boxes2d")),))
    if expected is Status.ERROR:
        with pytest.raises(
            ModelError, match="the system failed on all 6 cases; the first, fake-00000: boxes2d holds a number"
        ):
            carried_out(given)
    else:
        assert total(carried_out(given)[0])["held"] == 6


@dataclass
class Answering:
    """Says the same of every case."""

    said: Answer

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [self.said for _ in cases]

    def fingerprint(self) -> str:
        return "constant"


def test_unchanged_input_never_violates() -> None:
    rules = tuple(Rule(f"idle {k}", change, same_angle(0)) for k, change in enumerate((Unchanged(), Brighten(0), Rotate(0))))
    counts = total(carried_out(campaign(rules=rules, source=FakeSource(200), system=FakeSystem(gain=7, bias=3)))[0])
    assert (counts["held"], counts["trials"]) == (600, 600)


def test_planted_fault_is_found_exactly() -> None:
    rule = Rule("brighter", Over(Brighten, beta=Choices((5, 14, 15, 16, 25))), same_angle(15))
    summary, records = carried_out(campaign(rules=(rule,)))
    found = {record.change.beta for record in records if record.verdict.status is Status.VIOLATED}  # type: ignore[union-attr]
    assert found == {15.0, 16.0, 25.0}
    assert total(summary)["violated"] == 18


def test_introduced_and_already_wrong() -> None:
    expect = Correct(AngleWithin(15))
    _, records = carried_out(campaign(system=FakeSystem(bias=20), rules=(Rule("up", Brighten(1), expect),)))
    assert {record.origin for record in records} == {Origin.ALREADY_WRONG}
    _, records = carried_out(campaign(rules=(Rule("up", Brighten(20), expect),)))
    assert {record.origin for record in records} == {Origin.INTRODUCED}


def test_own_answer_needs_no_label() -> None:
    summary, records = carried_out(campaign(source=Unlabelled()))
    violated = [record for record in records if record.verdict.status is Status.VIOLATED]
    assert violated
    assert {record.origin for record in violated} == {Origin.INTRODUCED}
    assert summary.as_dict()["rules"]["brighter"]["untouched"] == {"cases": 0, "violated": 0}


@dataclass(frozen=True)
class Unlabelled(FakeSource):
    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return Case(case.key, case.inputs, (), case.group)


def test_untouched_row_is_counted() -> None:
    summary, _ = carried_out(campaign(system=FakeSystem(bias=20)))
    assert summary.as_dict()["rules"]["brighter"]["untouched"] == {"cases": 6, "violated": 6}


def test_same_draw_counts_once() -> None:
    rule = Rule("few", Over(Brighten, beta=Range(1, 1.1)), same_angle(5))
    _, records = carried_out(campaign(rules=(rule,), search=Sweep(per_case=12)))
    counted = [record.id for record in records if record.verdict.status is not Status.SKIPPED]
    assert len(counted) == len(set(counted))
    assert any(record.verdict.why.startswith("the same change as in an earlier trial") for record in records)


def test_one_forward_pass_per_batch() -> None:
    system = CountingSystem()
    carried_out(campaign(system=system))
    assert system.sizes == [5, 1, 5, 5, 5, 5, 4, 1, 1]  # the worst finding again, source and follow-up alone


class CountingSystem:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        self.sizes.append(len(cases))
        return FakeSystem()(cases)

    def fingerprint(self) -> str:
        return "counting"


def test_resumed_run_computes_nothing_twice() -> None:
    first = MemoryLedger()
    whole = run(campaign(), first)
    half = MemoryLedger(first.batches[:2])
    assert run(campaign(), half).as_dict() == whole.as_dict()
    assert half.computed == len(first.batches) - 2
    assert half.batches == first.batches


def test_adding_a_case_changes_no_draw() -> None:
    _, few = carried_out(campaign())
    _, more = carried_out(campaign(source=FakeSource(9)))
    assert {record.trial.key: record.id for record in few}.items() <= {
        record.trial.key: record.id for record in more
    }.items()


def test_batch_size_changes_no_verdict() -> None:
    outcomes = [
        {record.id: record.verdict for record in carried_out(campaign(inference_batch=size))[1]} for size in (1, 4, 64)
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_bad_case_cannot_spoil_its_batch() -> None:
    class Touchy(CountingSystem):
        def __call__(self, cases: Sequence[Case]) -> list[Answer]:
            if any(case.key == "fake-00003" and case.parent for case in cases):
                raise MemoryError("no room")
            return FakeSystem()(cases)

    _, records = carried_out(campaign(system=Touchy()))
    broken = {record.trial.case for record in records if record.verdict.status is Status.ERROR}
    assert broken == {"fake-00003"}
    assert {record.verdict.kind for record in records if record.verdict.kind} == {Fault.OOM}


def test_wrong_number_of_answers_is_error() -> None:
    class Short(CountingSystem):
        def __call__(self, cases: Sequence[Case]) -> list[Answer]:
            said = FakeSystem()(cases)
            return said[:-1] if cases[0].parent else said

    counts = total(carried_out(campaign(system=Short(), rules=(Rule("up", Brighten(5), same_angle()),)))[0])
    assert counts["errors"] == counts["trials"] == 6


def test_failing_model_stops_with_reason() -> None:
    with pytest.raises(ModelError, match="the system failed on all 6 cases; the first, fake-00000: RuntimeError: broken"):
        run(campaign(system=Odd(raising(RuntimeError), "source")), MemoryLedger())


def test_empty_source_is_refused() -> None:
    with pytest.raises(InputError, match="the source has no cases"):
        run(campaign(source=FakeSource(0)), MemoryLedger())


@dataclass(frozen=True)
class Holey(FakeSource):
    """Some cases do not read."""

    missing: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Case:
        if key in self.missing:
            raise UnreadableCase(f"{key}.png: truncated")
        return super().__getitem__(key)


def test_unreadable_cases_are_left_out() -> None:
    summary, records = carried_out(campaign(source=Holey(missing=("fake-00001", "fake-00002"))))
    assert (summary.cases, summary.unusable) == (6, 2)
    assert "fake-00001" not in {record.trial.case for record in records}


def test_all_unreadable_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"none of the 2 cases can be used; the first, fake-00000: fake-00000.png: truncated"
    ):
        run(campaign(source=Holey(2, missing=("fake-00000", "fake-00001"))), MemoryLedger())


def test_source_without_answer_is_left_out() -> None:
    class Sometimes(CountingSystem):
        def __call__(self, cases: Sequence[Case]) -> list[Answer]:
            return [(Steering(math.nan),) if case.key == "fake-00002" else FakeSystem()([case])[0] for case in cases]

    summary, records = carried_out(campaign(system=Sometimes()))
    assert summary.unusable == 1
    assert "fake-00002" not in {record.trial.case for record in records}


@dataclass(frozen=True)
class Moody(Transformation):
    """Fails in the way asked for."""

    mood: str
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        if self.mood == "crash":
            raise ZeroDivisionError("no horizon")
        return image

    def applies(self, case: Case) -> str | None:
        return f"{case.key} has no traffic light" if self.mood == "skip" else None


def test_change_that_cannot_be_made_skips() -> None:
    _, records = carried_out(campaign(rules=(Rule("moody", Moody("skip"), same_angle()),)))
    assert {record.verdict.status for record in records} == {Status.SKIPPED}
    assert records[0].verdict.why == "fake-00000 has no traffic light"


def test_change_that_crashes_is_its_error() -> None:
    _, records = carried_out(campaign(rules=(Rule("moody", Moody("crash"), same_angle()),)))
    assert {(record.verdict.status, record.verdict.kind) for record in records} == {(Status.ERROR, Fault.CHANGE)}
    assert records[0].verdict.why == "ZeroDivisionError: no horizon"


def test_unmapped_value_stops_the_campaign() -> None:
    @dataclass(frozen=True)
    class Forgetful(Transformation):
        preserves = ("image",)

    with pytest.raises(UnmappedError, match="Forgetful does not define what happens to 'steering'"):
        carried_out(campaign(rules=(Rule("x", Forgetful(), same_angle()),)))


class Broken:
    """A relation of the user's that does not work."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def check(self, pair: Pair) -> Verdict:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result  # type: ignore[no-any-return]


@pytest.mark.parametrize("result", [True, None, KeyError("x")])
def test_relation_that_breaks_is_its_error(result: Any) -> None:
    _, records = carried_out(campaign(rules=(Rule("x", Brighten(5), Broken(result)),)))
    assert {(record.verdict.status, record.verdict.kind) for record in records} == {(Status.ERROR, Fault.RELATION)}


@dataclass(frozen=True)
class Picky:
    def admit(self, source: Case, followup: Case) -> str | None:
        return None if source.key == "fake-00000" else f"{followup.parent} is too dark"


def test_gate_rejects_with_reason() -> None:
    _, records = carried_out(campaign(gate=Picky()))
    admitted = {record.trial.case for record in records if record.verdict.status is not Status.SKIPPED}
    assert admitted == {"fake-00000"}
    assert {record.verdict.why for record in records if record.trial.case == "fake-00004"} == {"fake-00004 is too dark"}


def test_space_may_decline() -> None:
    class Empty:
        def propose(self, case: Case, rng: Any, system: Any) -> Transformation:
            raise NotApplicable(f"nothing to swap in {case.key}")

        def grid(self) -> Sequence[Transformation]:
            return ()

    counts = total(carried_out(campaign(rules=(Rule("x", Empty(), same_angle()),)))[0])
    assert counts["skipped"] == counts["trials"] == 24


def test_facts_reach_the_record() -> None:
    _, records = carried_out(campaign(rules=(Rule("turn", Rotate(30), same_angle()),)))
    assert all(0 < record.facts["fill"] < 1 for record in records)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "'seed' must be a whole number of at least 0, got -1"),
        ({"seed": 1.5}, "'seed' must be a whole number"),
        ({"seed": True}, "'seed' must be a whole number"),
        ({"inference_batch": 0}, "'inference_batch' must be a whole number of at least 1, got 0"),
        ({"rules": ()}, "a campaign needs at least one rule"),
        ({"source": 3}, "the source of a campaign must be a Source, got int"),
        ({"search": None}, "the search of a campaign must be a Search, got NoneType"),
    ],
)
def test_wrong_campaign_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        campaign(**wrong)


def test_two_rules_of_one_name_refused() -> None:
    rule = Rule("twice", Unchanged(), same_angle())
    with pytest.raises(ValueError, match="two rules are named 'twice'"):
        campaign(rules=(rule, rule))


def test_progress_is_told_everything() -> None:
    class Watch:
        def __init__(self) -> None:
            self.stages: list[tuple[str, int | None]] = []
            self.done = self.found = 0

        def begin(self, stage: str, total: int | None) -> None:
            self.stages.append((stage, total))

        def advance(self, done: int, found: int) -> None:
            self.done, self.found = self.done + done, self.found + found

    watch = Watch()
    counts = total(run(campaign(), MemoryLedger(), progress=watch))
    assert watch.stages == [("baseline", 6), ("trials", 24), ("findings asked again", None)]
    assert (watch.done, watch.found) == (6 + 24 + counts["asked_again"], counts["violated"])


def test_batches_are_told_before_they_are_counted() -> None:
    events: list[str] = []

    class Watch:
        def begin(self, stage: str, total: int | None) -> None:
            events.append(stage)

        def tick(self, done: int) -> None:
            events.append(f"tick {done}")

        def advance(self, done: int, found: int) -> None:
            events.append(f"advance {done}")

    run(campaign(inference_batch=4), MemoryLedger(), progress=Watch())
    assert events[:4] == ["baseline", "tick 4", "tick 2", "advance 6"]


def test_twice_named_case_is_refused() -> None:
    class Doubled(FakeSource):
        def keys(self) -> list[str]:
            return ["fake-00000", "fake-00001", "fake-00000"]

    with pytest.raises(InputError, match="the source lists the key 'fake-00000' more than once"):
        carried_out(campaign(source=Doubled()))


@pytest.mark.parametrize("given", [None, FakeSource()["fake-00003"]])
def test_source_must_give_what_was_asked(given: Any) -> None:
    class Confused(FakeSource):
        def __getitem__(self, key: str) -> Case:
            return given if key == "fake-00001" else super().__getitem__(key)

    summary, records = carried_out(campaign(source=Confused()))
    assert summary.unusable == 1
    assert "fake-00001" not in {record.trial.case for record in records}


def test_answer_must_fit_the_journal() -> None:
    said = (Image(np.zeros((2, 2, 3), np.uint8)),)
    with pytest.raises(ModelError, match="the answer is too large for the journal: image"):
        carried_out(campaign(system=Answering(said)))


def test_sensor_sized_labels_are_not_remembered() -> None:
    class Masked(FakeSource):
        def __getitem__(self, key: str) -> Case:
            case = super().__getitem__(key)
            return Case(key, case.inputs, (*case.truth, Masks(np.zeros((4, 4)), {})), case.group)

    ledger = MemoryLedger()
    run(campaign(source=Masked()), ledger)
    kept = [item.truth for batch in ledger.batches for item in batch]
    assert {value.slot for truth in kept for value in truth} == {"steering"}


def test_real_network_holds_on_unchanged_input() -> None:
    rules = (
        Rule("unchanged", Unchanged(), same_angle(0)),
        Rule("idle", Rotate(0), same_angle(0)),
        Rule("rejected", Rotate(25), same_angle(0)),
    )
    uneven = campaign(
        source=World(drives=3, frames=4, width=160, height=90),
        system=DaveOrig(),
        rules=rules,
        gate=MaxFill(share=0.01),
        inference_batch=7,
    )
    counts = total(carried_out(uneven)[0])
    assert (counts["held"], counts["skipped"], counts["violated"]) == (24, 12, 0)


class Again:
    """A search that asks the same twice, across asks and within one."""

    total = None

    def start(self, plan: Plan) -> "Again":
        self.left, self.keys = 2, plan.keys
        return self

    def ask(self) -> list[Trial]:
        self.left -= 1
        return [Trial(key, "brighter", draw, Brighten(30)) for key in self.keys for draw in (0, 1)] if self.left >= 0 else []

    def tell(self, records: Sequence[Record]) -> None:
        pass


def test_same_change_counts_once_across_asks() -> None:
    counts = total(carried_out(campaign(search=Again()))[0])
    assert (counts["trials"], counts["violated"], counts["skipped"]) == (24, 6, 18)


@dataclass(frozen=True)
class Holding(Transformation):
    """A change with a field that JSON cannot hold."""

    what: Any
    preserves = ("*",)


@pytest.mark.parametrize("what", [frozenset({"a"}), b"bytes", object()])
def test_change_that_json_cannot_hold_is_refused(what: Any) -> None:
    table = Table((Holding(what),))
    with pytest.raises(InputError, match="Holding cannot be saved as JSON"):
        carried_out(campaign(rules=(Rule("x", table, same_angle()),)))


def test_undeclared_numbers_are_refused() -> None:
    class Plain(Transformation):
        preserves = ("*",)

        def __init__(self, by: float) -> None:
            self.__dict__["by"] = by

    with pytest.raises(InputError, match="Plain has fields of its own: decorate the class"):
        carried_out(campaign(rules=(Rule("x", Table((Plain(1), Plain(60))), same_angle()),)))


@pytest.mark.parametrize("wrong", [lambda case: None, lambda case: 3])
def test_change_must_make_a_case(wrong: Any) -> None:
    class Odd(Transformation):
        preserves = ("*",)

        def __call__(self, case: Case) -> Case:
            return wrong(case)  # type: ignore[no-any-return]

    with pytest.raises(InputError, match=r"Odd must return a case, got .* for fake-00000"):
        carried_out(campaign(rules=(Rule("x", Table((Odd(),)), same_angle()),)))


@pytest.mark.parametrize(
    "wrong", [{"inputs": {"camera": np.zeros((2, 2, 3))}}, {"inputs": {}, "truth": (3.0,)}, {"inputs": {}, "key": 5}]
)
def test_case_holds_values_only(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be a"):
        Case(**{"key": "one", **wrong})


def test_odd_keys_are_refused() -> None:
    class Numbered(FakeSource):
        def keys(self) -> Any:
            return [1, 2]

    with pytest.raises(InputError, match="has the key int 1; a key must be a string"):
        carried_out(campaign(source=Numbered()))


def test_margin_that_is_no_number_is_error() -> None:
    _, records = carried_out(campaign(rules=(Rule("x", Brighten(5), Broken(Verdict(Status.VIOLATED, math.nan))),)))
    assert {record.verdict.kind for record in records} == {Fault.RELATION}


class Telling:
    """A sweep that counts what it is told."""

    def __init__(self, *, learns: bool) -> None:
        self.learns, self.told = learns, 0

    def start(self, plan: Plan) -> "Telling":
        self._inner = Sweep(per_case=4).start(plan)
        self.total, self.distinct, self.told = self._inner.total, True, 0
        return self

    def ask(self) -> Sequence[Trial]:
        return self._inner.ask()

    def tell(self, records: Sequence[Record]) -> None:
        self.told += len(records)


@pytest.mark.parametrize("learns", [True, False])
def test_search_that_does_not_learn_is_not_told_what_is_over(learns: bool) -> None:
    search = Telling(learns=learns)
    asked = campaign(search=search)
    ledger = MemoryLedger()
    whole = run(asked, ledger)
    count = search.told
    assert count == whole.overall.counts.total() > 0
    again = run(asked, MemoryLedger(ledger.batches))
    assert again.as_dict() == whole.as_dict()
    assert search.told == (count if learns else 0)
