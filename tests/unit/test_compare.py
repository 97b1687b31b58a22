"""Two runs side by side: planted pairs, counted by hand and by a dumb second way."""

import argparse
import io
import json
import math
import random
import tempfile
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import binomtest

from swerve.analysis.compare import Counts, Incomparable, Paired, RunComparison, _Merge, compare, findings_among
from swerve.cli.compare import add_parser
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign, Record, Search
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.relation import Rule
from swerve.core.seeding import digest_of
from swerve.core.space import Over, Range
from swerve.core.system import Answer
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.report.comparison import as_json, print_comparison
from swerve.search.greedy import Greedy
from swerve.search.series import Series
from swerve.search.sweep import Sweep
from swerve.store.fingerprint import identity_of
from swerve.store.record_json import record_row
from swerve.store.view import CAMPAIGN, Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import Made, failed, finding, held, skipped

ENDINGS = "hvse"  # held, violated, skipped, error; a dot is absent
PLAN = {
    # case: how it ended before, and after
    **{f"stays{i}": "hh" for i in range(20)},
    **{f"new{i}": "hv" for i in range(3)},
    **{f"fixed{i}": "vh" for i in range(5)},
    **{f"persists{i}": "vv" for i in range(7)},
    "dropped-skipped": "vs",
    "dropped-error": "ve",
    "dropped-absent": "v.",
    "surfaced-skipped": "sv",
    "surfaced-absent": ".v",
    "broken": "he",
    "never": "ss",
}


def ended(case: str, how: str, rule: str = "rotate") -> Record:
    made = {
        "h": lambda: held(case, rule),
        "v": lambda: finding(case, rule, off=12.0 + len(case)),
        "s": lambda: skipped(case, "too much border", rule),
        "e": lambda: failed(case, "RuntimeError: shapes", rule),
    }[how]()
    return replace(made, change=Rotate(9.0))


def run_of(folder: Path, endings: Mapping[tuple[str, str], str], *, weights: str = "", finished: bool = True) -> Run:
    records = [ended(case, how, rule) for (rule, case), how in endings.items() if how != "."]
    run = Made(records, finished=finished).write(folder)
    return retold(run, lambda identity: identity["fingerprints"].update(system=digest_of(weights or str(folder))))


def retold(run: Run, change: Any) -> Run:
    """The run with another `campaign.json`."""
    change(run.identity)
    (run.folder / CAMPAIGN).write_text(json.dumps(run.identity))
    return Run(run.folder)


def planted(folder: Path, plan: Mapping[str, str] = PLAN, rule: str = "rotate") -> tuple[Run, Run]:
    sides = [{(rule, case): pair[side] for case, pair in plan.items()} for side in (0, 1)]
    return run_of(folder / "before", sides[0]), run_of(folder / "after", sides[1])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Run, Run]:
    return planted(tmp_path)


def cases(run: Run, ids: set[str]) -> set[str]:
    return {item.case for item in findings_among(run, ids)}


def brightened(system: FakeSystem, search: Search = Sweep(per_case=4)) -> Campaign:  # noqa: B008
    rule = Rule("brighter", Over(Brighten, beta=Range(1, 30)), same_angle(15))
    return Campaign(FakeSource(12), system, (rule,), search, seed=3)


def test_every_kind_of_pair_is_counted(pair: tuple[Run, Run]) -> None:
    found = compare(*pair)
    whole = found.overall
    assert (whole.new, whole.fixed, whole.persisting) == (3, 5, 7)
    assert (whole.dropped, whole.surfaced, whole.broken) == (3, 2, 2)
    assert whole.judged == 20 + 3 + 5 + 7
    assert whole.unpaired() == (1, 1)
    assert whole.before == Counts(held=24, violated=15, skipped=2, errors=0)
    assert whole.after == Counts(held=25, violated=12, skipped=2, errors=2)
    assert whole.before.rate == 15 / 39
    assert [line.name for line in found.rules] == ["rotate"]


def test_findings_are_named_by_what_became_of_them(pair: tuple[Run, Run]) -> None:
    before, after = pair
    found = compare(before, after)
    assert cases(after, found.new) == {"new0", "new1", "new2"}
    assert cases(before, found.fixed) == {f"fixed{i}" for i in range(5)}
    assert cases(before, found.dropped) == {"dropped-skipped", "dropped-error", "dropped-absent"}
    assert cases(after, found.surfaced) == {"surfaced-skipped", "surfaced-absent"}
    told = {item.case: found.gone[item.id] for item in findings_among(before, found.dropped)}
    assert told == {"dropped-skipped": "skipped", "dropped-error": "error", "dropped-absent": "absent"}


def test_rules_are_counted_apart(tmp_path: Path) -> None:
    plan = {("near", "a"): "hv", ("near", "b"): "hh", ("far", "a"): "vh", ("far", "b"): "vv", ("far", "c"): "vh"}
    sides = [{key: both[side] for key, both in plan.items()} for side in (0, 1)]
    found = compare(run_of(tmp_path / "a", sides[0]), run_of(tmp_path / "b", sides[1]))
    assert {line.name: (line.new, line.fixed, line.persisting) for line in found.rules} == {
        "near": (1, 0, 0),
        "far": (0, 2, 1),
    }
    assert (found.overall.new, found.overall.fixed, found.overall.judged) == (1, 2, 5)


def test_worst_findings_come_first_and_few(pair: tuple[Run, Run]) -> None:
    before, _ = pair
    everything = {item.id for item in before.findings()}
    worst = findings_among(before, everything, 4)
    assert [item.margin for item in worst] == sorted((item.margin for item in before.findings()), reverse=True)[:4]
    assert findings_among(before, set()) == []


BOTH = st.dictionaries(
    st.tuples(st.sampled_from(["near", "far"]), st.sampled_from([f"c{i}" for i in range(12)])),
    st.text(f"{ENDINGS}.", min_size=2, max_size=2),
    max_size=20,
).map(lambda plan: {**plan, ("near", "anchor"): "hh"})  # at least one trial judged in both


def told(found: RunComparison) -> list[Any]:
    whole = found.overall
    return [whole.new, whole.fixed, whole.persisting, whole.dropped, whole.surfaced, whole.broken, whole.judged]


def shuffled(plan: Mapping[tuple[str, str], str], side: int, seed: int) -> dict[tuple[str, str], str]:
    keys = list(plan)
    random.Random(seed).shuffle(keys)
    return {key: plan[key][side] for key in keys}


@settings(max_examples=60)
@given(BOTH, st.integers(0, 1000))
def test_any_two_runs_pair_as_by_hand(plan: dict[tuple[str, str], str], seed: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        before = run_of(Path(root, "a"), shuffled(plan, 0, seed))
        after = run_of(Path(root, "b"), shuffled(plan, 1, seed + 1))
        found, back = compare(before, after), compare(after, before)
        same = compare(before, before)
    pairs = list(plan.values())
    judged = sum(set(both) <= set("hv") for both in pairs)
    by_hand = [pairs.count("hv"), pairs.count("vh"), pairs.count("vv")]
    apart = [
        sum(both[0] == "v" and both[1] in "se." for both in pairs),
        sum(both[1] == "v" and both[0] in "se." for both in pairs),
    ]
    broken = sum(both[0] in "hv" and both[1] == "e" for both in pairs)
    assert told(found) == [*by_hand, *apart, broken, judged]
    assert (found.new, found.fixed) == (back.fixed, back.new)
    assert (found.dropped, found.surfaced) == (back.surfaced, back.dropped)
    assert not same.appeared
    assert not same.gone
    assert same.overall.judged == sum(both[0] in "hv" for both in pairs)


def test_repeated_change_is_one_trial(tmp_path: Path) -> None:
    """A change made twice is skipped the second time; that row is neither a trial lost nor a partner."""
    again = replace(skipped("a", "the same change as in an earlier trial"), change=Rotate(9.0))
    before = Made([ended("a", "v"), again, ended("b", "h")]).write(tmp_path / "before")
    after = Made([ended("b", "h"), ended("a", "h"), again]).write(tmp_path / "after")
    found = compare(before, after)
    assert told(found) == [0, 1, 0, 0, 0, 0, 2]
    assert found.overall.unpaired() == (0, 0)


def exact(new: int, fixed: int) -> float:
    """The two-sided binomial test of a fair coin, in fractions."""
    n = new + fixed
    tail = sum(Fraction(math.comb(n, k), 2**n) for k in range(min(new, fixed) + 1))
    return float(min(2 * tail, Fraction(1)))


def paired(new: int, fixed: int, name: str = "rotate") -> Paired:
    return Paired(name, Counts(), Counts(), {("held", "violated"): new, ("violated", "held"): fixed})


def test_mcnemar_is_exact() -> None:
    rng = random.Random(6)
    tables = [(rng.randrange(300), rng.randrange(1, 300)) for _ in range(100)] + [(0, 1), (5, 5), (30, 12), (1, 400)]
    for new, fixed in tables:
        p = paired(new, fixed).mcnemar.p
        assert p == pytest.approx(binomtest(new, new + fixed).pvalue, rel=1e-9)
        assert p == pytest.approx(exact(new, fixed), rel=1e-9)
    assert paired(0, 0).mcnemar.p is None


def comparison(*rules: Paired) -> RunComparison:
    run: Any = None
    pairs = {pair: sum(rule.pairs[pair] for rule in rules) for pair in rules[0].pairs}
    return RunComparison(run, run, Paired("all rules", Counts(), Counts(), pairs), rules, {}, {}, ())


def test_worse_needs_more_than_chance() -> None:
    assert comparison(paired(10, 1)).worse == ("rotate",)
    assert comparison(paired(1, 10)).worse == ()  # surely better
    assert comparison(paired(5, 1)).worse == ()  # p = 0.22
    assert paired(9, 2).mcnemar.p == pytest.approx(0.0654, abs=1e-4)


def test_many_rules_are_corrected_for() -> None:
    """One rule in twenty falls below 5% by chance alone."""
    lucky = paired(6, 0, "unlucky")  # p = 0.031
    assert comparison(lucky).worse == ("unlucky",)
    assert comparison(lucky, *(paired(3, 9, f"calm{i}") for i in range(19))).worse == ()


def test_runs_without_a_common_trial_are_refused(tmp_path: Path) -> None:
    before, after = run_of(tmp_path / "a", {("rotate", "a"): "v"}), run_of(tmp_path / "b", {("rotate", "b"): "v"})
    after = retold(after, lambda identity: identity["campaign"].update(seed=8))
    with pytest.raises(Incomparable, match="they have no trial in common") as caught:
        compare(before, after)
    assert caught.value.details[0] == "seed: 7 then, 8 now"
    assert caught.value.exit_code == 2
    assert "trials of BEFORE: 1 judged (1 violated), 0 skipped, 0 errors" in caught.value.details


def test_runs_without_a_common_verdict_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Incomparable, match="no trial was judged in both"):
        compare(*planted(tmp_path, {"a": "he", "b": "ve", "c": "ss"}))


def test_folders_that_are_no_runs_are_refused(tmp_path: Path, pair: tuple[Run, Run]) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        compare(pair[0], Run(tmp_path))


def test_other_weights_are_no_warning(tmp_path: Path) -> None:
    before, after = planted(tmp_path, {"a": "hh"})
    after = retold(
        after, lambda identity: identity["campaign"].update(system={"use": "swerve.testing:FakeSystem", "bias": 2})
    )
    assert compare(before, after).warnings == ()


def test_other_differences_are_told(tmp_path: Path) -> None:
    before, after = planted(tmp_path, {"a": "hh", "b": "h.", "c": "he"})

    def differ(identity: dict[str, Any]) -> None:
        identity["campaign"]["rule"][0]["expect"]["compare"]["within"] = 10.0
        identity["fingerprints"]["source"] = "f" * 64

    (after.folder / "summary.json").unlink()
    warnings = "\n".join(compare(before, retold(after, differ)).warnings)
    assert "rule[0].expect.compare.within: 5.0 then, 10.0 now" in warnings
    assert "data differ" in warnings
    assert "has not finished; it has 2 trials so far" in warnings
    assert "trials in BEFORE only: 1, in AFTER only: 0; only the trials judged in both are compared: 1" in warnings
    assert "trials that were judged before and end in an error now: 1" in warnings


def swerve(*words: object) -> int:
    """The command line, with these verbs alone."""
    top = argparse.ArgumentParser()
    add_parser(top.add_subparsers(required=True))
    options = top.parse_args([str(word) for word in words])
    return int(options.verb(options))


@pytest.mark.parametrize(
    ("plan", "codes"),
    [
        ({"a": "hh", "b": "vv", "c": "vh"}, (0, 0, 0)),
        ({"a": "hv", "b": "vv"}, (1, 0, 0)),
        ({"a": "hh", "b": ".v"}, (1, 0, 0)),  # nobody knows that it is not new
        ({"a": "hh", "b": "he"}, (1, 1, 0)),  # a model that fails to answer has no findings to count
        ({"a": "hh", "b": "ss", "c": "s.", "d": "e."}, (0, 0, 0)),
        ({"a": "hh", "b": "vs"}, (1, 1, 0)),  # nobody knows that it is fixed
        ({"a": "hh", "b": "hs"}, (1, 1, 0)),  # nor that it still holds
        ({"a": "hh", "b": "h."}, (1, 1, 0)),  # a trial that was not asked again may be anything
        ({"a": "hh", "b": "v."}, (1, 1, 0)),
        ({f"c{i}": "hv" for i in range(6)}, (1, 1, 0)),
    ],
)
def test_exit_code_tells_a_pipeline(
    tmp_path: Path, plan: dict[str, str], codes: Sequence[int], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = planted(tmp_path, plan)
    ways = ("new", "worse", "never")
    assert tuple(swerve("compare", before.folder, after.folder, "--fail-on", way) for way in ways) == tuple(codes)
    assert swerve("compare", before.folder, after.folder) == codes[0]
    capsys.readouterr()


def test_run_that_has_not_finished_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every trial that is there holds, and nobody knows of the others."""
    before, after = planted(tmp_path, {"a": "hh", "b": "hh"})
    assert compare(before, after).failure("new") == ""
    (after.folder / "summary.json").unlink()
    told = f"{after.folder} has not finished; it has 2 trials so far"
    assert [compare(before, after).failure(on) for on in ("new", "worse", "never")] == [told, told, ""]
    assert swerve("compare", before.folder, after.folder, "--json") == 1
    assert json.loads(capsys.readouterr().out)["failure"] == told
    assert compare(after, before).failure("new") == ""  # what is lost of BEFORE hides nothing of AFTER


def test_lost_verdicts_are_told(tmp_path: Path) -> None:
    found = compare(*planted(tmp_path, {"a": "hh", "b": "v.", "c": "h.", "d": "s."}))
    assert found.failure("worse") == "trials that were judged before and are absent now: 2"


def test_skipped_verdicts_are_told(tmp_path: Path) -> None:
    found = compare(*planted(tmp_path, {"a": "hh", "b": "vs", "c": "hs", "d": "ss"}))
    told = "trials that were judged before and are skipped now: 2"
    assert found.failure("worse") == told
    assert told in found.warnings


def test_finished_run_without_a_summary_is_finished(tmp_path: Path) -> None:
    """What follows from the journal may be deleted; the counts are in a table too."""
    runs = []
    for gain in (1.0, 1.01):
        run_into(Loaded(brightened(FakeSystem(gain=gain)), tmp_path), tmp_path / str(gain))
        runs.append(Run(tmp_path / str(gain)))
    (tmp_path / "1.01" / "summary.json").unlink()
    assert "has not finished" not in compare(*runs).failure("new")
    (tmp_path / "1.01" / "tables" / "rules.csv").write_text("rule,trials\nbrighter,49\n")
    assert "1.01 has not finished; it has 48 trials so far" in compare(*runs).failure("new")


@dataclass(frozen=True)
class Learning(Sweep):
    """A search of somebody's own, which does not say that it does not learn."""

    learns: ClassVar[bool] = True


@dataclass(frozen=True)
class Mute(FakeSystem):
    """Answers to some of the cases alone."""

    fails: str = ""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        if any((case.parent or case.key)[-1] in self.fails for case in cases):
            raise ValueError("no answer")
        return super().__call__(cases)


@pytest.mark.parametrize("search", [Sweep(4), Learning(4)])
def test_untouched_cases_that_fail_are_no_pass(tmp_path: Path, search: Sweep) -> None:
    """What is never tried has no finding."""
    runs = []
    for name, fails in (("before", "3"), ("after", "34")):
        run_into(Loaded(brightened(Mute(fails=fails), search=search), tmp_path), tmp_path / name, force=True)
        runs.append(Run(tmp_path / name))
    told = "untouched cases that are unusable in AFTER only: 1; first: fake-00004: ValueError: no answer"
    assert told in compare(*runs).failure("worse")
    assert told in compare(*runs).warnings
    assert "cannot be used" not in compare(*runs[::-1]).failure("worse")


@pytest.mark.parametrize(
    "part",
    [
        {"seed": 8},
        {"rule": [{"name": "rotate", "change": {"use": "rotate", "degrees": "grid"}, "expect": {"within": 9.0}}]},
        {"source": {"use": "world", "drives": 20}},
        {"search": {"use": "sweep", "per_case": 5}},
    ],
)
def test_another_campaign_is_no_pass(tmp_path: Path, part: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = planted(tmp_path, {"a": "hh", "b": "hh"})
    after = retold(after, lambda identity: identity["campaign"].update(part))
    reason = compare(before, after).failure("worse")
    assert reason.startswith("the campaigns differ in more than the system: ")
    words = ("compare", before.folder, after.folder)
    assert swerve(*words) == 1
    told = capsys.readouterr().out
    assert told.splitlines()[-1].startswith("failed: the campaigns differ in more than the system: ")
    assert [swerve(*words, "--force"), swerve(*words, "--fail-on", "never")] == [0, 0]
    assert "failed: " not in capsys.readouterr().out


def test_other_data_are_no_pass_and_other_libraries_a_note(tmp_path: Path) -> None:
    before, after = planted(tmp_path, {"a": "hh"})
    after = retold(after, lambda identity: identity["libraries"].update(numpy="3.0"))
    assert compare(before, after).warnings == ("libraries.numpy: 2.0.0 then, 3.0 now",)
    assert compare(before, after).failure("new") == ""
    after = retold(after, lambda identity: identity["fingerprints"].update(source="f" * 64))
    assert "differ in more than the system: data differ: " in compare(before, after).failure("new")


def test_runs_know_whether_their_search_learns(tmp_path: Path) -> None:
    for name, search in (("sweep", Sweep(1)), ("own", Learning(1)), ("greedy", Greedy()), ("series", Series())):
        identity = identity_of(brightened(FakeSystem(), search=search), tmp_path)
        assert identity["learns"] is (name in ("own", "greedy"))


def test_trials_of_a_search_that_learns_cannot_be_paired(tmp_path: Path) -> None:
    before, after = run_of(tmp_path / "a", {("rotate", "a"): "v"}), run_of(tmp_path / "b", {("rotate", "b"): "v"})
    before, after = (retold(run, lambda identity: identity.update(learns=True)) for run in (before, after))
    with pytest.raises(Incomparable, match=r"no trial in common; a search that learns runs other trials .* cannot be pa"):
        compare(before, after)


def test_search_that_learns_misses_no_trial(tmp_path: Path) -> None:
    runs = planted(tmp_path, {"a": "hh", "b": "v.", "c": "h.", "d": "s."})
    for run in runs:
        run.identity["learns"] = True
    assert compare(*runs).failure("worse") == ""


def test_json_holds_everything(pair: tuple[Run, Run], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = pair
    assert swerve("compare", before.folder, after.folder, "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["before"]["violated"] == 15
    assert data["after"]["errors"] == 2
    assert data["before"]["weights"] != data["after"]["weights"]
    assert (data["persisting"], data["pairs"]) == (7, 35)
    assert data["mcnemar"] == {"new": 3, "fixed": 5, "p": pytest.approx(exact(3, 5)), "exact": True}
    assert data["rules"]["rotate"]["mcnemar"] == data["mcnemar"]
    assert data["rules"]["rotate"]["new"] == 3
    assert {item["case"] for item in data["new"]} == {"new0", "new1", "new2"}
    assert {item["case"] for item in data["fixed"]} == {f"fixed{i}" for i in range(5)}
    assert {item["case"] for item in data["still_there"]} == {f"persists{i}" for i in range(7)}
    assert data["still_there"][0]["replay"].startswith(f"swerve replay {after.folder} ")
    assert {item["case"]: item["now"] for item in data["not_judged_any_more"]}["dropped-error"] == "error"
    assert {item["case"]: item["then"] for item in data["not_judged_before"]}["surfaced-absent"] == "absent"
    assert data["new"][0]["replay"] == f"swerve replay {after.folder} {data['new'][0]['id']}"
    assert data["new"][0]["parameters"] == {"use": "rotate", "degrees": 9.0, "border": "black"}
    assert "findings new: 3; findings not judged before: 2" in data["failure"]
    low, high = data["after"]["interval"]
    assert low < data["after"]["rate"] == 12 / 37 < high


def test_json_lists_no_more_than_asked(pair: tuple[Run, Run]) -> None:
    data = as_json(compare(*pair), most=2)
    assert len(data["new"]) == len(data["fixed"]) == len(data["still_there"]) == 2
    margins = [item["margin"] for item in as_json(compare(*pair))["still_there"]]
    assert margins == sorted(margins, reverse=True)
    assert [item["margin"] for item in data["still_there"]] == margins[:2]


def terminal(found: RunComparison, most: int = 10) -> str:
    file = io.StringIO()
    print_comparison(found, Console(file=file, width=80), most)
    return file.getvalue()


def test_terminal_tells_all(pair: tuple[Run, Run]) -> None:
    said = terminal(compare(*pair), most=2)
    assert "3 new, 5 fixed, 7 persisting of 35 pairs: McNemar's exact test p = 0.73." in said
    assert "rotate      35  38.5% 24.9–54.1 32.4% 19.6–48.5   3     5     7      3    0.73\n" in said
    assert "Findings of BEFORE that are no longer judged: 3 (1 absent, 1 error, 1 skipped)." in said
    assert "Findings of AFTER that were not judged before: 2 (1 absent, 1 skipped)." in said
    assert "new: 3, the worst 2 of them" in said
    assert "fixed: 5, the worst 2 of them" in said
    assert said.count(f"swerve replay {pair[1].folder}") == 4  # 2 of 3 new, 2 not judged before
    assert said.count(f"swerve replay {pair[0].folder}") == 4  # 2 of 5 fixed, 2 of 3 not judged any more
    assert "introduced, skipped in the other run" in said
    assert max(len(line) for line in said.splitlines() if line.startswith(("rule", "rotate "))) <= 80


def test_terminal_says_when_weights_are_the_same(pair: tuple[Run, Run]) -> None:
    said = terminal(compare(pair[0], pair[0]))
    assert "both runs have the same weights" in said
    assert "0 new, 0 fixed, 15 persisting of 39 pairs: no trial changed its verdict." in said


def test_terminal_neutralises_escapes(tmp_path: Path) -> None:
    hostile = "\x1b[31m[bold]x\u202e\r\n"
    before, after = planted(tmp_path, {hostile: "hv", "b": "hh"}, rule=hostile)
    said = terminal(compare(before, after))
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "[bold]x" in said


def peak(before: Run, after: Run) -> int:
    tracemalloc.start()
    compare(before, after)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Eight times the trials of a campaign, the same memory; findings that persist are counted, not kept."""
    compare(*planted(tmp_path / "warm", {"a": "hh", "b": "hv"}))
    tops = []
    for count in (150, 1200):
        plan = {f"c{i:05d}": "vv" if i % 2 else "hh" for i in range(count)}
        tops.append(peak(*planted(tmp_path / str(count), plan)))
    assert tops[1] < 1.5 * tops[0]


def test_nobody_waits_for_a_run_that_has_ended() -> None:
    merge = _Merge()
    merge.add(0, record_row(ended("a", "v")), alone=False)
    merge.add(0, record_row(ended("b", "v")), alone=True)
    assert len(merge.waiting[0]["rotate"]) == 1
    assert merge.pairs["rotate"] == {("violated", "absent"): 1}


def test_two_real_runs(tmp_path: Path) -> None:
    """The same campaign with a second model that answers half as strongly again."""
    runs = []
    for gain in (1.0, 1.5):
        run_into(Loaded(brightened(FakeSystem(gain=gain)), tmp_path), tmp_path / str(gain))
        runs.append(Run(tmp_path / str(gain)))
    found = compare(*runs)
    first, second = ({item.id for item in run.findings()} for run in runs)
    assert first < second
    assert found.new == second - first
    assert found.overall.persisting == len(first)
    assert found.overall.common == 48
    assert found.overall.judged == 44  # four changes were drawn twice
    assert found.warnings == ()
    assert found.worse == ("brighter",)
