"""DeepTest's Algorithm 1, both readings, and its twin that follows a coin."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from rich.console import Console

from swerve.analysis.growth import grown
from swerve.analysis.numbers import reached_of
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign, Gain, Observation, Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.relation import Rule, Status, Verdict
from swerve.core.space import OneOf, Over, Range
from swerve.core.system import Answer, System
from swerve.core.transformation import Chain
from swerve.coverage.bits import Bits
from swerve.coverage.meter import Meter, bits_of
from swerve.execution.engine import run
from swerve.execution.launch import run_into
from swerve.execution.proposals import draw_changes, resolved
from swerve.relations.gates import MaxFill
from swerve.relations.steering import same_angle
from swerve.report.html import write_report
from swerve.report.terminal import print_summary
from swerve.search.greedy import Greedy
from swerve.search.sweep import Sweep
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten, Contrast
from tests.unit.test_meter import network

SPACE = OneOf((Over(Brighten, beta=Range(1, 60)), Over(Contrast, alpha=Range(1.1, 3))))
RULE = Rule("pair", SPACE, same_angle(20))
HELD = Verdict(Status.HELD, -1.0, "")
T = TypeVar("T")
Success = Callable[[int, Trial], bool]


class Numbers:
    """A meter whose gains are sets of numbers, told as lists."""

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        raise NotImplementedError

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        return {"N": {"is": sorted({number for gain in gains if gain for number in gain["N"]["is"]})}}

    def counts(self, gain: Gain) -> Mapping[str, Mapping[str, int]]:
        return {"N": {"covered": len(gain["N"]["is"]), "total": 1000}} if gain else {}


def plan(*keys: str, seed: int = 1, **gains: list[int]) -> Plan:
    seen = {key: Observation(key, "", gain={"N": {"is": gains.get(key, [])}}) for key in keys}
    return Plan(keys, (RULE,), seed, seen, 4, Numbers())


class Drawing:
    """A session whose trials have the changes that the evaluator draws for them."""

    def __init__(self, search: Greedy, plan: Plan) -> None:
        self._session = search.start(plan)
        self._campaign = Campaign(FakeSource(), FakeSystem(), tuple(plan.rules), search, seed=plan.seed)
        self.tell = self._session.tell

    def ask(self) -> Sequence[Trial]:
        trials = self._session.ask()
        drawn = draw_changes(self._campaign, trials, {trial.case: Case(trial.case, {}) for trial in trials})
        return [resolved(trial, change) for trial, change in zip(trials, drawn, strict=True)]

    @property
    def kept(self) -> int:
        return self._session.kept


def watched(search: Greedy, told: Plan, success: Success, most: int = 500) -> list[tuple[str, int, bool]]:
    """Case, number of changes, and outcome of each try, where `success` says which tries cover something new."""
    session, seen, fresh = Drawing(search, told), [], 100
    while trials := session.ask():
        records = []
        for trial in trials:
            good = success(len(seen), trial)
            fresh += good
            steps = trial.change.steps if isinstance(trial.change, Chain) else ()
            seen.append((trial.case, len(steps), good))
            records.append(Record(trial, HELD, trial.change, gain={"N": {"is": [fresh] if good else []}}))
        session.tell(records)
        assert len(seen) < most
    return seen


def at(*places: int) -> Success:
    return lambda number, trial: number in places


def test_paper_makes_all_tries_of_an_image_then_looks_at_what_it_gave() -> None:
    # a: success, two failures in total; then its child, which covered something; then b.
    assert watched(Greedy(tries=2), plan("a", "b"), at(0)) == [
        ("a", 2, True), ("a", 2, False), ("a", 2, False), ("a", 4, False), ("a", 4, False), ("b", 2, False), ("b", 2, False),
    ]  # fmt: skip


def test_paper_takes_the_newest_image_first() -> None:
    tried = watched(Greedy(tries=1), plan("a", "b"), at(0, 1, 3))
    # Two children of a; the second is on top, has a child itself, which fails; then the first; then b.
    assert [(case, steps) for case, steps, _ in tried] == [
        ("a", 2), ("a", 2), ("a", 2), ("a", 4), ("a", 4), ("a", 6), ("a", 4), ("b", 2),
    ]  # fmt: skip


def test_failures_count_in_total_unless_a_success_resets_them() -> None:
    pattern = at(1)
    plain = [case for case, steps, _ in watched(Greedy(tries=2), plan("a"), pattern) if steps == 2]
    reset = [case for case, steps, _ in watched(Greedy(tries=2, reset=True), plan("a"), pattern) if steps == 2]
    assert (len(plain), len(reset)) == (3, 4)  # fail, success, fail; and one more failure after the reset


def test_code_follows_a_success_at_once_and_comes_back() -> None:
    assert watched(Greedy(tries=2, reading="code"), plan("a", "b"), at(1)) == [
        ("a", 2, False), ("a", 2, True), ("a", 4, False), ("a", 4, False), ("a", 2, False), ("a", 2, False),
        ("b", 2, False), ("b", 2, False),
    ]  # fmt: skip


def kinds_of(search: Greedy, success: Success) -> list[tuple[str, ...]]:
    session, seen = Drawing(search, plan("a", "b", seed=3)), []
    while (trials := session.ask()) and len(seen) < 60:
        change = trials[0].change
        assert isinstance(change, Chain)
        seen.append(tuple(type(step).__name__ for step in change.steps[-2:]))
        good = success(len(seen) - 1, trials[0])
        session.tell([Record(trials[0], HELD, change, gain={"N": {"is": [len(seen) + 100] if good else []}})])
    return seen


def test_kinds_that_worked_are_tried_first_again() -> None:
    for reading in ("paper", "code"):
        kinds = kinds_of(Greedy(tries=5, reading=reading), at(0))
        assert (kinds[1][0], kinds[2][0]) == kinds[0], reading


@pytest.mark.parametrize("reading", ["paper", "code"])
@pytest.mark.parametrize("refusals", [1, 2, 7])
def test_refused_pairs_do_not_use_up_a_queue_entry(reading: str, refusals: int) -> None:
    """After a success, its two kinds begin the next two pairs that are run, however many are refused before each."""
    session, seen = Drawing(Greedy(tries=9, reading=reading), plan("a", seed=3)), []
    for number in range(3 * (refusals + 1)):
        (trial,) = session.ask()
        assert isinstance(trial.change, Chain)
        if number and number % (refusals + 1):
            session.tell([Record(trial, Verdict.skipped("too much fill"), trial.change)])
            continue
        seen.append(tuple(type(step).__name__ for step in trial.change.steps[-2:]))
        session.tell([Record(trial, HELD, trial.change, gain={"N": {"is": [] if number else [100]}})])
    assert (seen[1][0], seen[2][0]) == seen[0]


def test_queue_keeps_its_order_if_several_pairs_at_a_time_are_refused() -> None:
    session = Drawing(Greedy(tries=9, width=2), plan("a", seed=3))
    kinds: list[list[tuple[str, ...]]] = []
    for gains in ([[100], []], [None, None], [None, []], [[], []]):
        trials = session.ask()
        steps = [trial.change.steps[-2:] for trial in trials if isinstance(trial.change, Chain)]
        kinds.append([tuple(type(step).__name__ for step in pair) for pair in steps])
        session.tell(
            [
                Record(trial, HELD, trial.change, gain={"N": {"is": gain}}) if gain is not None
                else Record(trial, Verdict.skipped("fill"), trial.change)
                for trial, gain in zip(trials, gains, strict=True)
            ]
        )  # fmt: skip
    worked = kinds[0][0]
    assert [pair[0] for pair in kinds[1]] == [pair[0] for pair in kinds[2]] == list(worked)
    assert kinds[3][0][0] == worked[0]  # its pair was refused again, that of the second kind was run


def test_paper_forgets_kinds_with_the_image_and_code_does_not() -> None:
    # The only try of a succeeds; under `code` its child begins with what worked, under `paper` a's next tries do.
    forgotten = [kinds_of(Greedy(tries=1, reading="paper"), at(0))[1:3] for _ in range(1)]
    assert forgotten[0][0][0] == kinds_of(Greedy(tries=1), at(0))[0][0]
    code = kinds_of(Greedy(tries=1, reading="code"), at(0))
    assert (code[1][0], code[2][0]) == code[0]


def test_code_draws_two_different_kinds() -> None:
    drawn = kinds_of(Greedy(tries=30, reading="code"), at())
    assert len(drawn) == 60
    assert all(first != second for first, second in drawn)
    assert any(first == second for first, second in kinds_of(Greedy(tries=30), at()))


def test_what_seeds_cover_counts_from_the_start_or_once_they_are_reached() -> None:
    def told(search: Greedy) -> list[bool]:
        """Whether a follow-up of a that covers only what seed b covers is followed."""
        session = Drawing(search, plan("a", "b", a=[1], b=[2]))
        trial = session.ask()[0]
        session.tell([Record(trial, HELD, trial.change, gain={"N": {"is": [2]}})])
        return [session.kept == 1]

    assert told(Greedy(tries=1)) == [False]
    assert told(Greedy(tries=1, seeds="each")) == [True]


@pytest.mark.parametrize(
    ("search", "tries"),
    [
        (Greedy(tries=2, budget=5), 5),
        (Greedy(tries=2, images=2), 2),
        (Greedy(tries=2, images=2, width=2), 2),
        (Greedy(tries=9, budget=7, width=4), 7),
    ],
)
def test_caps_end_the_search(search: Greedy, tries: int) -> None:
    assert len(watched(search, plan("a", "b"), lambda number, trial: True)) == tries


def test_depth_ends_a_line_that_always_succeeds() -> None:
    tried = watched(Greedy(tries=1, depth=6, budget=40, reading="code"), plan("a"), lambda number, trial: True)
    assert max(steps for _, steps, _ in tried) == 6


def test_wider_search_asks_several_tries_of_one_image() -> None:
    session = Drawing(Greedy(tries=5, width=3), plan("a", "b"))
    first = session.ask()
    assert [trial.case for trial in first] == ["a"] * 3
    assert len({trial.draw for trial in first}) == 3
    session.tell([Record(trial, HELD, trial.change, gain={"N": {"is": []}}) for trial in first])
    assert len(session.ask()) == 2  # what is left of its tries


def test_chance_follows_the_coin_and_uses_its_budget_up() -> None:
    never = watched(Greedy(tries=3, follow="chance", budget=20), plan("a", "b"), lambda number, trial: True)
    assert len(never) == 20
    assert {steps for _, steps, _ in never} == {2}  # coverage does not lead it
    assert [case for case, _, _ in never][:7] == ["a"] * 3 + ["b"] * 3 + ["a"]
    search = Greedy(tries=3, follow="chance", chance=0.3, budget=2000)
    session = Drawing(search, plan("a", "b"))
    while trials := session.ask():
        session.tell([Record(trial, HELD, trial.change, gain={"N": {"is": []}}) for trial in trials])
    assert 500 < session.kept < 700


def test_script_repeats_the_shape_of_another_search_with_other_changes() -> None:
    guided = watched(Greedy(tries=2), plan("a", "b", "c"), at(0, 3, 4, 9))
    script = "".join(str(int(good)) for _, _, good in guided)
    twin = watched(Greedy(tries=2, follow="script", script=script), plan("a", "b", "c", seed=2), at())
    assert [(case, steps) for case, steps, _ in twin] == [(case, steps) for case, steps, _ in guided]
    assert not any(good for _, _, good in twin)  # coverage does not lead it


def refused(search: Greedy, told: Plan, admits: Callable[[int], bool], success: Success) -> list[tuple[str, int, bool]]:
    """Case, number of changes and outcome of each try that could be made, where `admits` says which draws can."""
    session, seen, fresh, refusals = Drawing(search, told), [], 100, 0
    while trials := session.ask():
        records = []
        for trial in trials:
            steps = trial.change.steps if isinstance(trial.change, Chain) else ()
            if not admits(trial.draw):
                records.append(Record(trial, Verdict.skipped("too much fill"), trial.change))
                refusals += 1
                assert refusals < 5000
                continue
            good = success(len(seen), trial)
            fresh += good
            seen.append((trial.case, len(steps), good))
            records.append(Record(trial, HELD, trial.change, gain={"N": {"is": [fresh] if good else []}}))
        session.tell(records)
    return seen


def test_a_refused_try_is_drawn_anew_and_costs_nothing() -> None:
    pattern = at(0, 3, 4, 9)
    shape = watched(Greedy(tries=2), plan("a", "b", "c"), pattern)
    assert refused(Greedy(tries=2), plan("a", "b", "c"), lambda draw: draw % 3 != 1, pattern) == shape
    few = refused(Greedy(tries=5, budget=7), plan("a", "b"), lambda draw: draw % 2 == 1, at())
    assert len(few) == 7


@pytest.mark.parametrize("reading", ["paper", "code"])
def test_twin_keeps_its_shape_under_a_gate_that_refuses_a_third(reading: str) -> None:
    search = Greedy(tries=3, reading=reading)
    guided = refused(search, plan("a", "b", "c"), lambda draw: draw % 3 != 0, at(0, 1, 5, 6, 14))
    script = "".join(str(int(good)) for *_, good in guided)
    assert script.count("1") == 5
    session = Drawing(replace(search, follow="script", script=script), plan("a", "b", "c", seed=2))
    seen = []
    while trials := session.ask():
        (trial,) = trials
        assert isinstance(trial.change, Chain)
        out = random.Random(trial.draw).random() < 1 / 3  # other draws are refused than those of the guided search
        seen += [] if out else [(trial.case, len(trial.change.steps))]
        session.tell([Record(trial, Verdict.skipped("fill")) if out else Record(trial, HELD, trial.change, gain={})])
    assert seen == [(case, steps) for case, steps, _ in guided]
    assert session.kept == 5


def test_a_search_of_which_nothing_can_be_made_ends() -> None:
    for follow in ("coverage", "chance"):
        session = Greedy(tries=2, follow=follow, chance=0.99, budget=50).start(plan("a", "b"))
        asked = []
        while trials := session.ask():
            asked += [trial.case for trial in trials]
            session.tell([Record(trial, Verdict.skipped("too much fill")) for trial in trials])
        assert session.kept == 0
        # A hundred of each case are drawn anew, the next two are failures.
        assert asked[:204] == ["a"] * 102 + ["b"] * 102
        assert len(asked) == (204 if follow == "coverage" else 50 + 25 * 100)


def test_an_image_that_never_fails_ends_with_the_budget() -> None:
    tried = watched(Greedy(tries=1, budget=30), plan("a", "b"), lambda number, trial: True)
    assert tried == [("a", 2, True)] * 30


def test_bad_numbers_and_missing_parts_are_refused() -> None:
    for wrong, why in (
        ({"reading": "book"}, "'reading' must be 'paper' or 'code'"),
        ({"script": "01"}, "follow = 'script' needs 'script'"),
        ({"follow": "script"}, "follow = 'script' needs 'script'"),
        ({"follow": "script", "script": "012"}, "a string of 1 and 0"),
        ({"follow": "luck"}, "'follow' must be"),
        ({"seeds": "none"}, "'seeds' must be"),
        ({"tries": 0}, "'tries' must be a whole number of at least 1"),
        ({"depth": 1}, "'depth' must be"),
        ({"chance": 1.0}, "'chance' must be at least 0 and below 1"),
        ({"follow": "chance"}, "a random search needs 'budget'"),
    ):
        with pytest.raises(ValueError, match=why):
            Greedy(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"needs coverage: give its criteria in \[coverage\]"):
        Greedy().start(Plan(("a",), (RULE,), 0, {}, 1))
    with pytest.raises(InputError, match="needs exactly one rule"):
        Greedy().start(Plan(("a",), (RULE, RULE), 0, {}, 1, Numbers()))


def campaign(**how: Any) -> Campaign:
    return Campaign(FakeSource(5), network(), (RULE,), Greedy(tries=4, **how), coverage=Meter(), seed=2, inference_batch=4)


def told(ledger: MemoryLedger, kind: type[T]) -> list[T]:
    return [item for batch in ledger.batches for item in batch if isinstance(item, kind)]


def kept(records: Sequence[Record], first: Gain) -> list[Record]:
    """Which tries covered something new, by sets alone."""
    covered, chosen = bits_of(first["NC"]), []
    for record in records:
        bits = bits_of(record.gain["NC"]) if record.gain else covered
        if bits - covered:
            chosen.append(record)
        covered = covered | bits
    return chosen


def test_search_on_a_network_keeps_what_covers_more() -> None:
    made = campaign()
    ledger = MemoryLedger()
    summary = run(made, ledger)
    assert isinstance(made.coverage, Meter)
    observations, records = told(ledger, Observation), told(ledger, Record)
    first = made.coverage.joined(seen.gain for seen in observations)
    chosen = kept(records, first)
    assert chosen, "nothing new was covered: the test shows nothing"
    # Every image of more than two changes continues one that covered more.
    starts = {(record.trial.case, record.change.steps) for record in chosen if isinstance(record.change, Chain)}
    for record in records:
        assert isinstance(record.change, Chain)
        if len(record.change.steps) > 2:
            assert (record.trial.case, record.change.steps[:-2]) in starts
    assert len(records) == 4 * (len(observations) + len(chosen)) + len(chosen)
    assert summary.coverage["NC"]["covered"] > summary.coverage["NC"]["untouched"]


@pytest.mark.parametrize("gate", [None, MaxFill(0.2)])
def test_killed_search_goes_on_to_the_same_bytes(tmp_path: Path, gate: MaxFill | None) -> None:
    turned = Rule("pair", OneOf((Over(Brighten, beta=Range(1, 60)), Over(Rotate, degrees=Range(1, 60)))), same_angle(20))

    def campaign() -> Campaign:
        search = Greedy(tries=4)
        return Campaign(FakeSource(5), network(), (turned,), search, gate, Meter(), seed=2, inference_batch=4)

    whole = Loaded(campaign(), tmp_path)
    run_into(whole, tmp_path / "whole", force=True)
    journal = (tmp_path / "whole" / "journal.jsonl").read_bytes()
    lines = journal.splitlines(keepends=True)
    run_into(Loaded(campaign(), tmp_path), tmp_path / "cut", force=True)
    (tmp_path / "cut" / "journal.jsonl").write_bytes(b"".join(lines[: len(lines) * 2 // 3]))
    run_into(Loaded(campaign(), tmp_path), tmp_path / "cut", force=True)
    assert (tmp_path / "cut" / "journal.jsonl").read_bytes() == journal
    assert any(row["status"] == "skipped" for row in Run(tmp_path / "whole").trials()) == (gate is not None)


def gain(*numbers: int) -> Gain:
    return {"NC": {"covered": base64.b85encode(Bits.of(numbers, 8).to_bytes()).decode()}}


@pytest.mark.parametrize(("seeds", "kept"), [("all", [3]), ("each", [0, 3, 5])])
def test_journal_tells_which_images_were_kept(seeds: str, kept: list[int]) -> None:
    """A follow-up of a that covers what seed b does is new only if b counts from when the search comes to it."""

    class Told:
        identity: ClassVar = {"campaign": {"search": {"use": "greedy", "seeds": seeds}}}

        def baseline(self) -> list[Observation]:
            return [Observation(key, "", gain=gain(number)) for key, number in (("a", 0), ("b", 1), ("c", 2))]

        def trials(self) -> Iterator[dict[str, Any]]:
            tries = (("a", (0, 1)), ("a", (1,)), ("b", (1,)), ("b", (4,)), ("b", None), ("b", (2, 4)), ("c", (2,)))
            return iter([{"case": case, "gain": numbers and gain(*numbers)} for case, numbers in tries])

    told = [(row["gain"], new) for row, new in grown(Told())]  # type: ignore[arg-type]
    assert len(told) == 6  # the refused one is not spent
    assert [place + (place > 3) for place, (_, new) in enumerate(told) if new] == kept


def test_guided_run_tells_coverage_layers_and_that_it_had_no_rival(tmp_path: Path) -> None:
    run_into(Loaded(campaign(), tmp_path), tmp_path / "run", force=True)
    done = Run(tmp_path / "run")
    told = json.loads((done.folder / "summary.json").read_text())
    counts, layers = told["coverage"]["NC"], told["layers"]
    assert sum(layers.values()) == counts["total"] == 20
    assert layers == {"0": 6, "3": 12, "5": 2}
    images = sum(new for _, new in grown(done))
    line = f"NC {counts['untouched']} → {counts['covered']} of 20 neurons, {images} images kept"
    assert images
    assert counts["untouched"] < counts["covered"]
    console = Console(file=io.StringIO(), width=200)
    print_summary(done, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    page = write_report(done).read_text()
    for text in (
        line,
        "No other search was run for comparison, so this does not show a benefit of guidance.",
        "20 neurons are measured: 0 6, 3 12, 5 2",
    ):
        assert text in printed
        assert text in page


def test_run_led_by_chance_or_without_coverage_tells_of_no_guidance(tmp_path: Path) -> None:
    run_into(Loaded(campaign(follow="chance", budget=9), tmp_path), tmp_path / "chance", force=True)
    reached = reached_of(Run(tmp_path / "chance"))
    assert reached
    line, linear = reached.sentences
    assert line.endswith("of 20 neurons")
    assert linear.startswith("1 of 3 layers without an activation function")
    plain = replace(campaign(), coverage=None, search=Sweep(1))
    run_into(Loaded(plain, tmp_path), tmp_path / "plain", force=True)
    assert reached_of(Run(tmp_path / "plain")) is None
    assert "layers" not in json.loads((tmp_path / "plain" / "summary.json").read_text())


def test_black_box_cannot_be_guided() -> None:
    black = Campaign(FakeSource(3), FakeSystem(), (RULE,), Greedy(), coverage=Meter())
    with pytest.raises(Exception, match="black box"):
        run(black, MemoryLedger())
