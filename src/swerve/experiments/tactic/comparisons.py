"""Are the styles that TACTIC finds worse than random ones, DeepRoad's translation, and those of a random search?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from swerve.analysis.statistics import rank_sum
from swerve.experiments import Row, averaged, holm_corrected, question, read_printed, table
from swerve.experiments.conditions.strategies import ratio_of, side_of
from swerve.experiments.tactic.style_runs import (
    CONTROL,
    DEEPROAD,
    DRAWN,
    ERRORS,
    EVOLVED,
    RENDERED,
    SEARCHED,
    STRATEGIES,
    Measures,
    StyleResults,
    StyleRuns,
    measured_step,
    reference_step,
    search_step,
    system_table,
)

PAPER = read_printed(Path(__file__).with_name("paper.toml"))
MOVED, REFUSED = "divergence", "refused"
COVERED = ("KMNC", "NBC")
STAGES, EACH, GUIDED = ("changes", "answers", "search"), "seconds a condition", "share of coverage"
NUMBERS = (*COVERED, MOVED, *ERRORS, REFUSED)
FORMATS = {**dict.fromkeys((*COVERED, *ERRORS, REFUSED), ".1%"), MOVED: ".1f"}
NOTE = (
    "means over runs with Student's 95% interval. KMNC and NBC: neuron regions that the scenes and the conditions cover; "
    "divergence: mean distance in degrees between the answers to a scene without and under a condition; 10° to 40°: answers "
    "that move by at least so much"
)

ONE_NOTE = f"{NOTE}. One condition at a time, as DeepRoad has one translation"


def _cells(measures: Measures, *rules: str, covered: Mapping[str, float] | None = None) -> Row:
    known = measures.covered if covered is None else covered
    names = rules or tuple(measures.moved)
    moved = float(np.mean([measures.mean(rule) for rule in names]))
    coverage = {name: known.get(name) for name in COVERED}
    return {**coverage, MOVED: math.degrees(moved), **measures.shares(*rules), REFUSED: measures.refused(*rules)}


def _runs(one: StyleRuns, style: str, guide: str, strategy: str) -> Iterator[Row]:
    """Means over the runs of a strategy."""
    steps = (measured_step(style, guide, strategy, number) for number in range(one.setting.size.runs))
    rows = [{"approach": strategy, "seed": number, **_cells(one.measures(step))} for number, step in enumerate(steps)]
    return averaged(rows, "seed", NUMBERS)


def _reference(one: StyleRuns, style: str, name: str) -> Iterator[Row]:
    """The row of a fixed translation, if there is one; its step has others, too."""
    step = reference_step(style, RENDERED if name == RENDERED else CONTROL)
    if step in one.runs and name in (measures := one.measures(step)).moved:
        yield {"approach": name, "runs": 1, **_cells(measures, name, covered=measures.covered_by[name])}


def _each(one: StyleRuns) -> Iterator[tuple[str, str, Row]]:
    for guide in one.guides:
        for style in one.styles:
            yield guide, style, {"guide": guide, "condition": style}


def _compared(one: StyleRuns, rival: str) -> Iterator[Row]:
    for guide, style, head in _each(one):
        parts = (_runs(one, style, guide, EVOLVED), _runs(one, style, guide, rival))
        ends = (_reference(one, style, name) for name in (RENDERED, CONTROL))
        yield from ({**head, **row} for part in (*parts, *ends) for row in part)


@system_table("table1", "Against random styles", note=NOTE, formats=FORMATS, printed=PAPER["table1"])
def against_random(one: StyleRuns) -> Iterator[Row]:
    """TACTIC's conditions and as many random styles."""
    yield from _compared(one, DRAWN)


@system_table("table2", "Against DeepRoad", note=ONE_NOTE, formats=FORMATS, printed=PAPER["table2"])
def against_deeproad(one: StyleRuns) -> Iterator[Row]:
    """One condition at a time, as DeepRoad has one translation."""
    for guide, style, head in _each(one):
        every = list(_one_at_a_time(one, style, guide))
        parts = (averaged(every, "seed", NUMBERS), *(_reference(one, style, name) for name in (DEEPROAD, RENDERED, CONTROL)))
        yield from ({**head, **row} for part in parts for row in part)


def _one_at_a_time(one: StyleRuns, style: str, guide: str) -> Iterator[Row]:
    for number in range(one.setting.size.runs):
        measures = one.measures(measured_step(style, guide, EVOLVED, number))
        rows = [_cells(measures, rule, covered=measures.covered_by[rule]) for rule in measures.moved]
        means = {name: _mean([row[name] for row in rows]) for name in NUMBERS}
        yield {"approach": EVOLVED, "seed": number, **means}


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return float(np.mean(known)) if known else None


@system_table("table3", "Against random search", note=NOTE, formats=FORMATS, printed=PAPER["table3"])
def against_random_search(one: StyleRuns) -> Iterator[Row]:
    """The evolution strategy and random search, with as many candidates."""
    yield from _compared(one, SEARCHED)


@table("ratios", "Evolution against its rivals", formats={"ratio": ".2f", "A12": ".2f"})
def ratios(results: StyleResults) -> Iterator[Row]:
    """ratio: the divergence of the worst condition of TACTIC divided by the rival's, runs with the same number paired;
    geometric mean with Student's 95% interval of the logarithms. A12: the probability that TACTIC's is larger; p: the
    rank-sum test's, exact"""
    yield from holm_corrected([row for one in results for row in _against(one)], "p")


def _against(one: StyleRuns) -> Iterator[Row]:
    for guide, style, head in _each(one):
        ours = one.worst(style, guide, EVOLVED)
        for rival in (DRAWN, SEARCHED):
            theirs = one.worst(style, guide, rival)
            test = rank_sum(ours, theirs)
            cells = {"ratio": ratio_of(ours, theirs), "A12": test.effect, "p": test.p}
            yield {"system": one.name, **head, "rival": rival, "runs": len(ours), **cells}


def _verdict(results: StyleResults, rival: str) -> str:
    """On how many of the comparisons the interval of the ratio lies where."""
    rows = [row for row in ratios.rows(results) if row["rival"] == rival]
    known = [row for row in rows if row["ratio"] is not None]
    sides = [side_of(row) for row in known]
    counts = "; ".join(f"{side}: {sides.count(side)}" for side in dict.fromkeys(sides))
    larger = sum(row["ratio"] > 1 for row in known)
    return f"larger divergence in {larger} of {len(rows)} comparisons; interval of the ratio {counts or 'unknown'}"


@question("Are they worse than random styles?", against_random, ratios)
def worse_than_random(results: StyleResults) -> str:
    """A search tries many styles and keeps the worst; a random style is the first that comes."""
    return _verdict(results, DRAWN)


@question("Are they worse than DeepRoad's translation?", against_deeproad)
def worse_than_deeproad(results: StyleResults) -> str:
    """DeepRoad translates every frame in one way, with a network that learnt from the same pictures."""
    rows = [row for row in against_deeproad.rows(results) if row["approach"] in (EVOLVED, DEEPROAD)]
    pairs: dict[Any, dict[str, float]] = {}
    for row in rows:
        pairs.setdefault((row["system"], row["guide"], row["condition"]), {})[row["approach"]] = row[MOVED]
    known = [pair for pair in pairs.values() if len(pair) > 1]
    more = sum(pair[EVOLVED] > pair[DEEPROAD] for pair in known)
    return f"larger divergence in {more} of {len(known)} comparisons" if known else "There is no translator of kind unit."


@question("Are they worse than what random search finds?", against_random_search)
def worse_than_random_search(results: StyleResults) -> str:
    """Both try as many styles, with the same fitness, and start at the same style."""
    return _verdict(results, SEARCHED)


@system_table("time", "Time and guidance", formats={**dict.fromkeys((*STAGES, GUIDED), ".1%"), EACH: ".2g"})
def time_split(one: StyleRuns) -> Iterator[Row]:
    """styles: tried by a search, each on all scenes unless it left early; changes, answers, search: shares of the time;
    share of coverage: the part of the fitness of the conditions found that new coverage contributes"""
    for guide, style, head in _each(one):
        for strategy in STRATEGIES:
            searches = [search_step(style, guide, strategy, number) for number in range(one.setting.size.runs)]
            stages = [one.stages(step) for step in searches]
            seconds = {name: sum(found.get(name, 0.0) for found in stages) for name in STAGES}
            total = sum(seconds.values())
            found = [condition for step in searches for condition in one.conditions(step)]
            tried = sum(len(course) for step in searches for course in one.summary(step)["condition_search"]["fitness"])
            cells = {name: spent / total if total else None for name, spent in seconds.items()}
            cells[GUIDED] = _mean([condition["coverage_share"] for condition in found])
            yield {**head, "search": strategy, "styles": tried, EACH: total / len(found) if found else None, **cells}


@system_table("between", "Between conditions", formats={"mean spread": ".1f"}, main=False)
def between_conditions(one: StyleRuns) -> Iterator[Row]:
    """follow-ups against each other: the answers to one scene under the conditions of one search. mean spread: between the
    largest and the smallest answer, in degrees; pairs: of conditions and scenes, and how many differ by at least so much"""
    for guide, style, head in _each(one):
        steps = (search_step(style, guide, EVOLVED, number) for number in range(one.setting.size.runs))
        every = [one.summary(step)["between_conditions"] for step in steps]
        scenes, pairs = (sum(found[name] for found in every) for name in ("scenes", "pairs"))
        if scenes:
            spread = sum(found["mean_spread"] * found["scenes"] for found in every) / scenes
            counts = {f"{limit}°": sum(found["errors"][limit] for found in every) for limit in every[0]["errors"]}
            yield {**head, "scenes": scenes, "mean spread": math.degrees(spread), "pairs": pairs, **counts}


@question("Where does the time go?", time_split, between_conditions)
def where_does_the_time_go(results: StyleResults) -> str:
    """Generation is decoding: the content of a scene is encoded once for all styles."""
    rows = [row for row in time_split.rows(results) if row[EACH] is not None]
    if not rows:
        return "No search was run."
    share = _mean([row["changes"] for row in rows])
    each = float(np.mean([row[EACH] for row in rows]))
    return f"{each:.2g} seconds a condition, {share or 0:.0%} of it in decoding"
