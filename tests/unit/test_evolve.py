"""The search for critical conditions: vectors, fitness, the evolution strategy, the race, and what is reported."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.config.toml import load_campaign
from swerve.core.campaign import Campaign, Gain, Record
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.gate import AllOf, Gate
from swerve.core.relation import Relation, Rule, Status
from swerve.core.space import Choices, OneOf, Over, Range, Sequenced, Space
from swerve.core.system import Answer, System
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Image, Signal, Steering
from swerve.execution.engine import run
from swerve.execution.launch import run_into
from swerve.execution.summary import Summary
from swerve.methods.critical_conditions import critical_conditions
from swerve.relations.gates import Legible, Visible
from swerve.relations.steering import DecisionAlike, same_angle, same_decision
from swerve.relations.unjudged import REASON, Unjudged
from swerve.report.condition_words import condition_sentences, sentence, time_split
from swerve.report.conditions_page import write_conditions_page
from swerve.search.coordinates import Axis, RangeCoordinates, coordinates_of, marks_of
from swerve.search.critical import best_so_far, errors
from swerve.search.evolve import Evolve, step_factors
from swerve.search.fitness import Fitness, norm
from swerve.search.race import highest_mean, most_coverage, rungs
from swerve.store.view import JOURNAL, Run
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.rerender import rendered_conditions
from swerve.transformations.weather import Rain
from swerve.world.conditions import Conditions
from swerve.world.drives import drive
from swerve.world.light import light
from swerve.world.source import World
from tests.reading_spaces import ByPicture

BRIGHTER = Over(Brighten, beta=Range(0.0, 60.0))
BOTH = Sequenced((Over(Brighten, beta=Range(-60.0, 60.0)), Over(Contrast, alpha=Range(0.5, 1.5))))


@dataclass(frozen=True)
class Levels:
    """Covers the whole degree of every answer, of 400; stands for a criterion."""

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        answers = system(cases)
        return answers, [self._gain({_level(answer)}) for answer in answers]

    def measured_together(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Gain]:
        answers = system(cases)
        return answers, self._gain({_level(answer) for answer in answers})

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        return self._gain({level for gain in gains if gain for level in gain["levels"]["covered"]})

    def beyond(self, gain: Gain, known: Gain) -> Gain:
        return self._gain(_levels(gain) - _levels(known))

    def counts(self, gain: Gain) -> Mapping[str, Mapping[str, int]]:
        return {"levels": {"covered": len(_levels(gain)), "total": 400}}

    @staticmethod
    def _gain(levels: set[int]) -> Gain:
        return {"levels": {"covered": sorted(levels), "of": 400}}


def _levels(gain: Gain) -> set[int]:
    return set(gain["levels"]["covered"]) if gain else set()


def _level(answer: Answer) -> int:
    (value,) = answer
    assert isinstance(value, Steering)
    return math.floor(value.degrees) + 200


@dataclass(frozen=True)
class Collides:
    """A probability of collision that grows with brightness, and no steering angle."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Signal("collision", 1 / (1 + math.exp(-angle.degrees / 10))),) for (angle,) in FakeSystem()(cases)]

    def fingerprint(self) -> str:
        return "collides"


@dataclass(frozen=True)
class NotBright:
    """Refuses images brighter than 130 on average."""

    def admit(self, source: Case, followup: Case) -> str | None:
        (image,) = followup.inputs.values()
        assert isinstance(image, Image)
        return "too bright" if image.pixels.mean() > 130 else None


@dataclass(frozen=True)
class Brightened:
    """Refuses images that are hardly brighter than before."""

    def admit(self, source: Case, followup: Case) -> str | None:
        before, after = (case.inputs["camera"].pixels.mean() for case in (source, followup))  # type: ignore[attr-defined]
        return "hardly changed" if after - before < 10 else None


def campaign(
    search: Evolve,
    space: Space = BOTH,
    *,
    count: int = 6,
    system: System | None = None,
    expect: Relation | None = None,
    gate: Gate | None = None,
    coverage: bool = False,
    seed: int = 0,
) -> Campaign:
    rules = Rule("critical", space, expect or same_angle(10)), Rule("tried", space, Unjudged())
    meter: Any = Levels() if coverage else None
    return Campaign(FakeSource(count), system or FakeSystem(), rules, search, gate, meter, seed)


def records(ledger: MemoryLedger) -> list[Record]:
    return [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


def found(search: Evolve, space: Space = BOTH, **how: Any) -> tuple[Summary, MemoryLedger]:
    ledger = MemoryLedger()
    return run(campaign(search, space, **how), ledger), ledger


# --- vectors ---------------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.booleans())
def test_places_and_values_correspond(place: float, wide: bool) -> None:
    axis = Axis("visibility", 40.0, 4000.0 if wide else 80.0)
    assert axis.logarithmic is wide
    assert axis.low <= axis.value(place) <= axis.high
    assert axis.place(axis.value(place)) == pytest.approx(place, abs=1e-5)


def test_wide_ranges_are_logarithmic() -> None:
    assert Axis("visibility", 10.0, 1000.0).value(0.5) == pytest.approx(100.0)
    assert Axis("sun", -10.0, 10.0).value(0.5) == pytest.approx(0.0)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=2))
def test_vectors_are_reflected_inside(numbers: list[float]) -> None:
    inside = coordinates_of(BOTH, 0).inside(np.array(numbers))
    assert ((inside >= 0) & (inside <= 1)).all()
    kept = [number for number in numbers if 0 <= number <= 1]
    assert all(number in inside for number in kept)


def test_changes_of_a_sequence_share_a_vector() -> None:
    where = coordinates_of(BOTH, 0)
    assert list(where.names) == ["brighten beta", "contrast alpha"]
    assert where.change(np.array([1.0, 0.0])) == Chain((Brighten(60.0), Contrast(0.5)))
    assert where.on_bounds(np.array([1.0, 0.4])) == ["brighten beta 60"]
    assert where.neutral is not None
    assert where.change(where.neutral) == Chain((Brighten(0.0), Contrast(1.0)))


def test_patterns_have_one_seed_in_every_condition() -> None:
    where = coordinates_of(Over(Rain, amount=Range(0.0, 0.7), drop_size=0.1, speed=0.2, slant=0.0), 3)
    assert list(where.names) == ["amount"]
    seeds = {where.change(np.array([place])).seed for place in (0.1, 0.9)}  # type: ignore[attr-defined]
    assert len(seeds) == 1


@pytest.mark.parametrize("space", [Over(Brighten, beta=Choices((1.0, 2.0))), Over(Brighten, beta="grid")])
def test_lists_cannot_be_searched(space: Space) -> None:
    with pytest.raises(InputError, match="without choices and grids"):
        coordinates_of(space, 0)


def test_fixed_changes_cannot_be_searched() -> None:
    with pytest.raises(InputError, match="no parameter with a range"):
        found(Evolve(), Over(Brighten, beta=3.0))


# --- fitness ---------------------------------------------------------------------------------------------------------------


def test_norm_has_the_printed_values() -> None:
    assert [norm(0), norm(1), round(norm(0.2), 4)] == [0, 0.5, 0.1667]


def test_step_factors_for_eight_dimensions() -> None:
    assert [round(factor, 5) for factor in step_factors(8)] == [1.39561, 0.92004]


def test_share_of_coverage_adds_up() -> None:
    fitness = Fitness(0.1, 0.25, 0.1 + 0.2)
    assert fitness.coverage_share == pytest.approx(1 / 3)
    assert Fitness(0.0, 0.0, 0.0).coverage_share == 0


def test_limits_count_as_errors() -> None:
    assert errors([math.radians(10), math.radians(9.999), math.radians(35)]) == {"10": 2, "20": 1, "30": 1, "40": 0}


def test_tried_regions_stay_new_for_the_next() -> None:
    """What a rejected candidate covers must not count as covered for those after it."""
    summary, _ = found(Evolve("random", conditions=1, evaluations=12, around=0, race=False), BRIGHTER, coverage=True)
    course = summary.search["condition_search"]["fitness"][0]
    best = max(course, key=lambda row: row["fitness"])
    (condition,) = summary.search["conditions"]
    assert condition["new_coverage"] == pytest.approx(best["coverage"])
    assert condition["fitness"] == pytest.approx(best["fitness"])
    # With a shift of many degrees, all six scenes leave the degrees that they cover untouched, whatever was tried before.
    far = [row["coverage"] for row in course if row["divergence"] > math.radians(15)]
    assert len(far) > 3
    assert min(far) > 0.5 * max(far)


def test_coverage_is_carried_to_the_next_condition() -> None:
    summary, _ = found(Evolve("random", conditions=3, evaluations=6, around=0), BRIGHTER, coverage=True)
    shares = [condition["coverage"] for condition in summary.search["conditions"]]
    assert shares == sorted(shares)
    again, _ = found(Evolve("random", conditions=1, evaluations=6, around=0), BRIGHTER, coverage=True)
    assert again.search["conditions"][0] == summary.search["conditions"][0]


def test_coverage_may_start_at_nothing() -> None:
    how = {"conditions": 1, "evaluations": 6, "around": 0}
    whole, _ = found(Evolve("random", scenes_cover=False, **how), BRIGHTER, coverage=True)  # type: ignore[arg-type]
    beyond, _ = found(Evolve("random", **how), BRIGHTER, coverage=True)  # type: ignore[arg-type]
    (all_new,), (new,) = whole.search["conditions"], beyond.search["conditions"]
    assert all_new["new_coverage"] == pytest.approx(all_new["coverage"])  # a share of all regions, as none is covered yet
    assert new["new_coverage"] != pytest.approx(new["coverage"])


def test_search_ends_at_enough_coverage() -> None:
    summary, _ = found(Evolve(conditions=3, evaluations=3, around=0, enough=0.01), BRIGHTER, coverage=True)
    assert len(summary.search["conditions"]) == 1


def test_refused_scenes_do_not_count_as_moved() -> None:
    free, _ = found(Evolve("evolve", conditions=1, evaluations=30, around=0), BRIGHTER)
    gated, _ = found(Evolve("evolve", conditions=1, evaluations=30, around=0), BRIGHTER, gate=NotBright())
    (best,), (kept,) = free.search["conditions"], gated.search["conditions"]
    assert best["divergence"] > math.radians(45)
    assert kept["divergence"] <= math.radians(31)
    assert kept["refused"] < 6


# --- the strategies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["evolve", "random", "cma"])
def test_search_improves_on_its_start(strategy: str) -> None:
    summary, _ = found(Evolve(strategy, conditions=1, evaluations=40, around=0, race=False))
    (course,) = summary.search["condition_search"]["fitness"]
    (condition,) = summary.search["conditions"]
    assert len(course) == 40
    assert condition["fitness"] == pytest.approx(max(row["fitness"] for row in course))
    assert condition["fitness"] > course[0]["fitness"]


def test_evolution_finds_the_strongest_change() -> None:
    summary, _ = found(Evolve(conditions=1, evaluations=60, around=0), BRIGHTER, count=4)
    (condition,) = summary.search["conditions"]
    assert condition["change"]["beta"] >= 58  # the divergence grows with beta
    assert condition["errors"] == {"10": 4, "20": 4, "30": 4, "40": 4}


def test_patience_ends_a_condition() -> None:
    still = FakeSystem(gain=0.0)
    summary, _ = found(Evolve(conditions=2, evaluations=0, patience=5, around=0), BRIGHTER, system=still)
    assert [len(course) for course in summary.search["condition_search"]["fitness"]] == [6, 6]


def test_random_conditions_are_not_searched_for() -> None:
    summary, ledger = found(Evolve("random-conditions", conditions=3, around=0))
    assert {record.trial.rule for record in records(ledger)} == {"critical"}
    assert len(summary.search["conditions"]) == 3
    assert summary.search["condition_search"]["scene_evaluations"] == 0


def test_only_found_conditions_are_judged() -> None:
    summary, ledger = found(Evolve(conditions=2, evaluations=10, around=3))
    judged = [record for record in records(ledger) if record.trial.rule == "critical"]
    tried = [record for record in records(ledger) if record.trial.rule == "tried"]
    assert len(judged) == 2 * 6
    assert {record.verdict.status for record in tried} == {Status.SKIPPED}
    assert {record.verdict.why for record in tried} == {REASON}
    beyond = sum(condition["errors"]["10"] for condition in summary.search["conditions"])
    assert summary.overall.counts[Status.VIOLATED] == beyond > 0


def test_no_change_is_run_twice() -> None:
    coarse = Sequenced((Over(Brighten, beta=Range(0.0, 2.0)), Over(Brighten, beta=Range(-2.0, 0.0))))
    _, ledger = found(Evolve(conditions=2, evaluations=40, around=2), coarse)
    runs = [(record.trial.case, record.trial.rule, repr(record.change)) for record in records(ledger)]
    assert len(set(runs)) == len(runs)
    assert len({change for _, rule, change in runs if rule == "tried"}) <= 9


def test_condition_found_again_is_not_run_again() -> None:
    """Without coverage the worst condition stays the worst, so that a second search ends at the same."""
    summary, ledger = found(Evolve(conditions=2, evaluations=60, around=0), BRIGHTER, count=4)
    first, second = summary.search["conditions"]
    assert (first["same_as"], second["same_as"]) == (None, 0)
    assert {**second, "same_as": None} == first
    judged = [record.id for record in records(ledger) if record.trial.rule == "critical"]
    assert len(set(judged)) == len(judged) == 4
    assert summary.overall.counts[Status.VIOLATED] == first["errors"]["10"] == 4


def test_condition_found_again_covers_nothing_new() -> None:
    summary, _ = found(
        Evolve("random", conditions=2, evaluations=4, around=0), Over(Brighten, beta=Range(30.0, 31.0)), coverage=True
    )
    first, second = summary.search["conditions"]
    if second["same_as"] == 0:
        assert second["new_coverage"] == 0
    assert second["coverage"] >= first["coverage"]


def test_each_seed_searches_elsewhere() -> None:
    one, again, other = (found(Evolve(conditions=1, evaluations=5), seed=seed)[0].search for seed in (1, 1, 2))
    assert one == again != other


def test_signals_can_be_searched() -> None:
    how = {"system": Collides(), "expect": same_decision("collision")}
    summary, _ = found(Evolve(conditions=1, evaluations=20, signal="collision", around=2), BRIGHTER, **how)
    (condition,) = summary.search["conditions"]
    assert 0.3 < condition["divergence"] < 1
    assert set(condition["errors"]) == {"0.1", "0.2", "0.5"}
    with pytest.raises(InputError, match="the signal 'brake'"):
        found(Evolve(signal="brake"), BRIGHTER, system=Collides())


@pytest.mark.parametrize(("before", "after", "status"), [(0.2, 0.4, "held"), (0.4, 0.5, "violated"), (0.9, 0.1, "violated")])
def test_decisions_are_compared(before: float, after: float, status: str) -> None:
    verdict = DecisionAlike("brake", 0.5).compare(Signal("brake", before), Signal("brake", after))
    assert verdict.status == status
    assert verdict.margin is not None
    assert (verdict.margin >= 0) == (status == "violated")


def test_second_rule_must_be_unjudged() -> None:
    rules = (Rule("critical", BOTH, same_angle(10)),)
    with pytest.raises(InputError, match="needs two rules"):
        run(Campaign(FakeSource(2), FakeSystem(), rules, Evolve()), MemoryLedger())


# --- the race --------------------------------------------------------------------------------------------------------------


def test_rungs_grow_until_all() -> None:
    assert list(rungs(16, 100)) == [16, 24, 36, 54, 81, 100]
    assert list(rungs(16, 10)) == [10]
    assert list(rungs(1, 4)) == [1, 2, 3, 4]


def test_bound_is_exact_for_all_scenes() -> None:
    assert highest_mean(np.array([1.0, 2.0, 6.0]), 3, 0.999) == 3.0


@pytest.mark.parametrize("skewed", [False, True])
def test_bound_is_rarely_exceeded(skewed: bool) -> None:
    rng = np.random.default_rng(5)
    exceeded = 0
    for _ in range(2000):
        every = rng.exponential(0.3, 200) - rng.exponential(0.3, 200) if skewed else rng.normal(0, 1, 200)
        exceeded += every.mean() > highest_mean(every[:16], 200, 0.99)
    assert exceeded <= 2000 * 0.02  # twice the stated level, as the differences need not be normal


@given(st.integers(1, 30), st.integers(0, 1000))
@settings(max_examples=50)
def test_coverage_bound_holds_on_average(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scenes = rng.random((40, 60)) < 0.05
    orders = [scenes[rng.permutation(40)] for _ in range(200)]
    half, whole = (float(np.mean([order[:n].any(axis=0).mean() for order in orders])) for n in (count // 2, count))
    for grown in ([(count, whole)], [(count // 2, half), (count, whole)] if count > 1 else [(1, whole)]):
        assert most_coverage(grown, 40) >= scenes.any(axis=0).mean() - 0.03


def test_coverage_bound_follows_the_last_half() -> None:
    assert most_coverage([(16, 0.1)], 64) == pytest.approx(0.4)  # as if every scene added as much as the first
    assert most_coverage([(16, 0.1), (32, 0.12)], 64) == pytest.approx(0.12 + 32 * 0.02 / 16)
    assert most_coverage([(16, 0.1), (24, 0.12)], 64) == pytest.approx(0.12 * 64 / 24)  # 16 are more than half of 24
    assert most_coverage([(16, 0.1), (64, 0.2)], 64) == 0.2
    assert most_coverage([(8, 0.9)], 64) == 1.0


def test_race_finds_the_same_on_fewer_scenes() -> None:
    whole, _ = found(Evolve(conditions=1, evaluations=40, around=0, race=False), count=200)
    raced, _ = found(Evolve(conditions=1, evaluations=40, around=0, race=True), count=200)
    assert raced.search["conditions"] == whole.search["conditions"]
    spent = raced.search["condition_search"]
    assert spent["scene_evaluations"] < spent["without_race"] == whole.search["condition_search"]["scene_evaluations"]


# --- what is reported ------------------------------------------------------------------------------------------------------


def test_neighbourhood_names_what_holds() -> None:
    summary, _ = found(Evolve(conditions=1, evaluations=40, around=6), BRIGHTER)
    (condition,) = summary.search["conditions"]
    assert condition["on_bounds"] == ["beta 60"] or condition["change"]["beta"] < 60
    assert condition["holds"].startswith("beta 0: it holds on 6 scenes")
    assert [point["errors"]["10"] for point in condition["lines"]["beta"]] == [6, 6, 0]
    both, _ = found(Evolve(conditions=1, evaluations=20, around=4))
    plane = both.search["conditions"][0]["map"]
    assert plane["axes"] == ["brighten beta", "contrast alpha"]
    assert len(plane["points"]) == 25


def test_refused_neighbours_do_not_hold() -> None:
    """Of a neighbour that the gate refuses nothing is known: it is no counterfactual, and has no share of failures."""
    summary, _ = found(Evolve(conditions=1, evaluations=30, around=6), BRIGHTER, gate=Brightened())
    (condition,) = summary.search["conditions"]
    near, half, neutral = condition["lines"]["beta"]
    assert [point["scenes"] for point in (near, half, neutral)] == [6, 6, 0]
    assert [point["divergence"] is None for point in (near, half, neutral)] == [False, False, True]
    assert condition["holds"] == ""


def test_answers_are_compared_between_conditions() -> None:
    summary, _ = found(Evolve("random-conditions", conditions=3, around=0), BRIGHTER)
    betas = [condition["change"]["beta"] for condition in summary.search["conditions"]]
    between = summary.search["between_conditions"]
    assert between["pairs"] == 3 * 6
    assert between["scenes"] == 6
    assert math.degrees(between["mean_spread"]) == pytest.approx(max(betas) - min(betas), abs=1e-6)


FILE = """
method = "critical-conditions"
conditions = 2
evaluations = 6
around = 2
space = { use = "brighten", beta = [-40, 60] }

[source]
use = "swerve.testing:FakeSource"
count = 20

[system]
use = "swerve.testing:FakeSystem"
"""


RULES = """
[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = { use = "same-angle", within = 15 }
"""


def test_method_runs_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(FILE)
    run_into(load_campaign(str(tmp_path / "c.toml")), tmp_path / "whole")
    journal = (tmp_path / "whole" / JOURNAL).read_bytes()
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert [set(condition["errors"]) for condition in summary["conditions"]] == [{"10", "20", "30", "40"}] * 2
    assert summary["conditions"][0]["in_words"].startswith(("brightened", "darkened"))
    for share in (0.3, 0.7):
        cut = tmp_path / f"cut-{share}"
        run_into(load_campaign(str(tmp_path / "c.toml")), cut)
        (cut / "summary.json").unlink()
        lines = journal.splitlines(keepends=True)
        (cut / JOURNAL).write_bytes(b"".join(lines[: int(len(lines) * share)]))
        run_into(load_campaign(str(tmp_path / "c.toml")), cut)
        assert (cut / JOURNAL).read_bytes() == journal
        assert json.loads((cut / "summary.json").read_text()) == summary
    assert next(Run(tmp_path / "whole").findings()).rule == "critical conditions"


@pytest.mark.parametrize("profile", ["tactic-paper", "tactic-code"])
def test_profiles_follow_paper_and_code(profile: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'profile = "{profile}"\n' + FILE.replace("around = 2\nevaluations = 6", ""))
    search = load_campaign(str(tmp_path / "c.toml")).campaign.search
    assert isinstance(search, Evolve)
    assert (search.adapt, search.step) == ((True, 1.0) if profile == "tactic-paper" else (False, 5.0))
    assert not search.race


def test_filtered_conditions_must_leave_the_road_visible() -> None:
    filtered = critical_conditions(FakeSource(2), FakeSystem())
    rendered = critical_conditions(World(drives=1, width=160, height=90), FakeSystem())
    assert filtered.gate == AllOf((Legible(), Visible()))
    assert rendered.gate == Legible()  # at night the contrast is another
    assert critical_conditions(FakeSource(2), FakeSystem(), gate=Visible(0.5)).gate == Visible(0.5)
    assert critical_conditions(FakeSource(2), FakeSystem(), profile="tactic-paper").gate is None


def test_black_boxes_need_no_criterion(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('criterion = "nbc"\n' + FILE)
    with pytest.raises(InputError, match="criterion = 'none'"):
        load_campaign(str(tmp_path / "c.toml"))


@pytest.mark.parametrize("search", ["random", "cma", "random-conditions"])
def test_every_strategy_resumes_to_the_same_bytes(search: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'search = "{search}"\n' + FILE.replace("evaluations = 6", "evaluations = 14"))
    run_into(load_campaign(str(tmp_path / "c.toml")), tmp_path / "run")
    journal = (tmp_path / "run" / JOURNAL).read_bytes()
    summary = (tmp_path / "run" / "summary.json").read_bytes()
    for share in (0.4, 0.8):
        lines = journal.splitlines(keepends=True)
        (tmp_path / "run" / JOURNAL).write_bytes(b"".join(lines[: int(len(lines) * share)]))
        run_into(load_campaign(str(tmp_path / "c.toml")), tmp_path / "run")
        assert (tmp_path / "run" / JOURNAL).read_bytes() == journal
        assert (tmp_path / "run" / "summary.json").read_bytes() == summary


def test_time_is_split_by_stages(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(FILE)
    run_into(load_campaign(str(tmp_path / "c.toml")), tmp_path / "run")
    stages = json.loads((tmp_path / "run" / "timings.json").read_text())["stages"]
    assert set(stages) == {"changes", "answers", "search"}
    assert min(stages.values()) > 0
    assert re.fullmatch(r"time: changes \d+%, answers \d+%, search \d+%", time_split(Run(tmp_path / "run")))
    (tmp_path / "run" / "timings.json").write_text('{"stages": {"changes": "x"}}')
    assert time_split(Run(tmp_path / "run")) == ""


@dataclass(frozen=True)
class Latent(Transformation):
    """Brightens as two numbers of a style say; stands for a trained generator."""

    style: tuple[float, float] = (0.0, 0.0)
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        return Image(np.clip(image.pixels + np.float32(20 * sum(self.style)), 0, 255).astype(np.uint8))


@dataclass(frozen=True)
class LatentCoordinates:
    """Two standard normal numbers without bounds, of which none does nothing."""

    names: ClassVar[Sequence[str]] = ("style 1", "style 2")
    scale: ClassVar[float] = 1.0
    neutral: ClassVar[Any] = None
    ends: ClassVar[Any] = None

    def draw(self, rng: np.random.Generator) -> Any:
        return rng.standard_normal(2)

    def inside(self, vector: Any) -> Any:
        return vector

    def change(self, vector: Any) -> Transformation:
        return Latent((float(vector[0]), float(vector[1])))

    def on_bounds(self, vector: Any) -> Sequence[str]:
        return []

    def in_words(self, place: int, vector: Any) -> str:
        return f"{self.names[place]} {vector[place]:.2f}"


@dataclass(frozen=True)
class Styles:
    """Styles drawn from a normal distribution, without bounds and without one that does nothing."""

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        return self.coordinates(0).change(rng.standard_normal(2))

    def grid(self) -> Sequence[Transformation]:
        return ()

    def coordinates(self, seed: int) -> LatentCoordinates:
        return LatentCoordinates()


def test_spaces_may_have_their_own_coordinates() -> None:
    """As the styles of a generator need them, whose vectors have no bounds and no neutral one."""
    summary, ledger = found(Evolve(conditions=2, evaluations=20, around=4), Styles())
    condition = summary.search["conditions"][0]
    assert condition["divergence"] > math.radians(20)
    assert re.fullmatch(r"style 1 -?[\d.]+", condition["numbers"][0])
    assert condition["on_bounds"] == condition["marks"] == []  # these coordinates have no marks
    assert "holds" not in condition  # nothing was explored, so nothing is said about what holds
    assert isinstance(records(ledger)[0].change, Latent)


def test_case_reading_spaces_are_refused() -> None:
    """A condition is the same for all cases, so it cannot be proposed for each."""
    for space in (ByPicture(), OneOf((BRIGHTER, ByPicture())), Sequenced((BRIGHTER, ByPicture()))):
        with pytest.raises(InputError, match="moves numbers"):
            found(Evolve(), space)


def test_switches_of_the_renderer_are_marked() -> None:
    where = coordinates_of(rendered_conditions(), 0)
    assert where.neutral is not None
    sun = list(where.names).index("sun")
    marks = {}
    for degrees in (-10.0, -4.3, 1.8, 2.4, 10.0):
        vector = where.neutral.copy()
        vector[sun] = (degrees + 18) / 78
        marks[degrees] = [mark.partition(": ")[2] for mark in marks_of(where, vector)]
    assert marks == {
        -10.0: [], -4.3: ["lamps are fully lit below -4°"], 1.8: ["lamps are lit below 2°"], 2.4: ["lamps are lit below 2°"],
        10.0: [],
    }  # fmt: skip


def test_marked_switches_are_the_renderers() -> None:
    """The values at which `Reshade` says that something begins are those at which it does."""
    assert Conditions(sun=2.0).lit == 0 < Conditions(sun=1.9).lit
    assert Conditions(sun=-4.0).lit == 1 > Conditions(sun=-3.9).lit
    site = drive("test/0/0").scene.site
    assert light(site, Conditions(clouds=0.91), yaw=0.0).has_shadows
    assert not light(site, Conditions(clouds=0.93), yaw=0.0).has_shadows


def test_best_so_far_ignores_candidates_that_left() -> None:
    course = [{"fitness": fitness, "scenes": scenes} for fitness, scenes in ((0.1, 9), (0.9, 3), (0.2, 9), (0.15, 9))]
    assert best_so_far(course) == [0.1, 0.1, 0.2, 0.2]
    assert best_so_far([]) == []


def test_ranges_are_their_own_coordinates() -> None:
    assert isinstance(coordinates_of(BRIGHTER, 0), RangeCoordinates)


# --- the page --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("conditions")
    (folder / "c.toml").write_text(FILE)
    run_into(load_campaign(str(folder / "c.toml")), folder / "run")
    return Run(folder / "run")


def test_page_shows_conditions_with_pictures(finished: Run) -> None:
    page = write_conditions_page(finished)
    assert page is not None
    text = page.read_text()
    assert "Condition 2" in text
    assert all(words in text for words in condition_sentences(finished))
    shown = re.findall(r'src="(conditions/[0-9a-f]+\.png)"', text)
    assert len(shown) >= 4
    assert all((page.parent / name).is_file() for name in shown)


def test_page_shows_one_scene_under_all_conditions(finished: Run) -> None:
    page = write_conditions_page(finished)
    assert page is not None
    gallery = page.read_text().rpartition("One scene under all conditions")[2].partition("Condition 1")[0]
    assert "unchanged and under 2 of 2 conditions" in gallery
    assert len(re.findall(r'src="conditions/', gallery)) == 3


def test_sentences_tell_the_largest_limit() -> None:
    found = {"in_words": "rendered again: fog 42 m", "scenes": 16, "refused": 1}
    counts = {"10": 9, "20": 5, "30": 5, "40": 0}
    assert sentence({**found, "errors": counts}) == "fog 42 m: 5 of 15 scenes beyond 30°, 9 beyond 10°"
    assert sentence({**found, "errors": dict.fromkeys(counts, 0)}) == "fog 42 m: none of 15 scenes beyond 10°"


@pytest.mark.parametrize("damage", [5, [5], [{"errors": {}}], {"a": 1}])
def test_damaged_summaries_have_no_page(finished: Run, damage: object, tmp_path: Path) -> None:
    copy = shutil.copytree(finished.folder, tmp_path / "copy")
    summary = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "conditions": damage}))
    assert write_conditions_page(Run(copy)) is None
    assert condition_sentences(Run(copy)) == []


def test_other_runs_have_no_page(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(FILE.split("[source]")[1].join(["[source]", ""]) + RULES)
    run_into(load_campaign(str(tmp_path / "c.toml")), tmp_path / "run")
    assert write_conditions_page(Run(tmp_path / "run")) is None
