"""Does evolution find worse conditions than chance, and do they cause more errors?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from swerve.analysis.statistics import mean_of_runs, rank_sum
from swerve.experiments import Counted, Measured, Row, averaged, chart, holm_corrected, question, table
from swerve.experiments.conditions.condition_runs import (
    DRAWN,
    EVOLVED,
    SEARCHED,
    ConditionRuns,
    Searches,
    compared,
    degrees,
    mean_course,
    system_table,
)
from swerve.report.plane import Spot, lines

WORST, MEAN, COVERED = "worst divergence", "mean divergence", "covered"
DEGREES = dict.fromkeys((WORST, MEAN), ".2f")
ABOVE, BELOW, UNCLEAR = "above 1", "below 1", "no clear difference"


@system_table("searches", "What each search finds", formats={**DEGREES, COVERED: ".2%"})
def searches(one: ConditionRuns) -> Iterator[Row]:
    """means over the searches, with Student's 95% interval. divergence: the mean distance in degrees between the answers to
    a scene without and under the condition, of the worst condition of a search and of all of them; covered: regions that the
    scenes and the conditions cover; share of coverage: the part of the fitness that new coverage contributes"""
    columns = (WORST, MEAN, COVERED, "fitness", "share of coverage")
    for strategy in compared(one.setting):
        rows = [_cells(one, strategy, number) for number in range(one.setting.size.seeds)]
        yield from averaged(rows, "seed", columns)


def _cells(one: ConditionRuns, strategy: str, number: int) -> Row:
    found = one.conditions(strategy)[number]
    means = {
        name: float(sum(condition[key] for condition in found)) / len(found)
        for name, key in ((MEAN, "divergence"), ("fitness", "fitness"), ("share of coverage", "coverage_share"))
    }
    worst, covered = degrees(one.worst(strategy)[number]), found[-1]["coverage"]
    return {"search": strategy, "seed": number, WORST: worst, **means, MEAN: degrees(means[MEAN]), COVERED: covered}


@system_table("errors", "Errors under the conditions found")
def errors(one: ConditionRuns) -> Iterator[Row]:
    """scenes whose answer moves by at least so much, over all conditions of all searches. The scenes are the same for every
    condition, so the true intervals are wider"""
    for strategy in compared(one.setting):
        every = [condition for found in one.conditions(strategy) for condition in found]
        scenes = sum(condition["scenes"] for condition in every)
        limits = {limit: sum(condition["errors"][limit] for condition in every) for limit in every[0]["errors"]}
        counts = {f"{limit}°": Counted(count, scenes) for limit, count in limits.items()}
        refused = sum(condition["refused"] for condition in every)
        yield {"search": strategy, "conditions": len(every), "scenes": scenes, "refused": refused, **counts}


@table("ratios", "Evolution against its rivals", formats={"ratio": ".2f", "A12": ".2f"})
def ratios(results: Searches) -> Iterator[Row]:
    """ratio: the worst divergence of evolution divided by the rival's, searches with the same number paired, as they start
    at the same condition; geometric mean with Student's 95% interval of the logarithms. A12: the probability that
    evolution's is larger; p: the rank-sum test's, exact"""
    yield from holm_corrected([row for one in results for row in _against(one)], "p")


def _against(one: ConditionRuns) -> Iterator[Row]:
    ours = one.worst(EVOLVED)
    for rival in compared(one.setting):
        if rival != EVOLVED:
            theirs = one.worst(rival)
            test = rank_sum(ours, theirs)
            cells = {"ratio": ratio_of(ours, theirs), "A12": test.effect, "p": test.p}
            yield {"system": one.name, "rival": rival, "searches": len(ours), **cells}


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Measured:
    """The geometric mean of the ratios of pairs, with its interval; nothing where a divergence is 0."""
    if min(*ours, *theirs) <= 0:
        return Measured(None)
    found = mean_of_runs([math.log(mine / other) for mine, other in zip(ours, theirs, strict=True)])
    value, low, high = (None if end is None else math.exp(end) for end in (found.value, found.low, found.high))
    return Measured(value, low, high)


@system_table("conditions", "The conditions that evolution found", formats={"divergence": ".1f"}, main=False)
def conditions(one: ConditionRuns) -> Iterator[Row]:
    """divergence: in degrees; beyond 10°: scenes; marks: parameters on a bound of the space, or where the renderer
    switches"""
    for number, found in enumerate(one.conditions(EVOLVED), 1):
        for condition in found:
            words = str(condition["in_words"]).removeprefix("rendered again: ")
            cells = {"divergence": degrees(condition["divergence"]), "beyond 10°": condition["errors"]["10"]}
            marks = ", ".join((*condition["on_bounds"], *condition["marks"]))
            yield {"search": number, "condition": words, **cells, "scenes": condition["scenes"], "marks": marks}


@chart("{name}: best fitness so far", "mean over all conditions searched for", of=list)
def courses(one: ConditionRuns) -> Markup:
    """The mean of the best fitness so far, candidate by candidate."""
    every = {strategy: one.courses(strategy) for strategy in compared(one.setting) if strategy != DRAWN}
    series = {strategy: mean_course(some) for strategy, some in every.items() if some}
    spots = {name: [Spot(float(place), value) for place, value in enumerate(line, 1)] for name, line in series.items()}
    return lines(spots, x="candidate", y="fitness")


@question("Does evolution find worse conditions than chance?", searches, ratios, courses, conditions)
def is_evolution_better(results: Searches) -> str:
    """All searches have the same number of candidates for each condition, the same scenes and the same fitness."""
    return "; ".join(_sentence(row) for row in ratios.rows(results) if row["rival"] in (SEARCHED, DRAWN))


def _sentence(row: Row) -> str:
    if row["ratio"] is None:
        why = "as in some search every condition moved nothing or was refused"
        return f"{row['system']}: no ratio to {row['rival']}, {why}"
    ends = "" if row["ratio low"] is None else f" ({row['ratio low']:.2f}–{row['ratio high']:.2f})"
    return f"{row['system']}: {row['ratio']:.2f}{ends} times the divergence of {row['rival']}, {side_of(row)}"


def side_of(row: Row) -> str:
    """Whether the interval of a ratio lies above 1, below 1, or around it."""
    if row["ratio low"] is None:
        return "a single search"
    return ABOVE if row["ratio low"] > 1 else BELOW if row["ratio high"] < 1 else UNCLEAR


@question("Do they cause more errors?", errors, each=True)
def are_there_more_errors(one: ConditionRuns) -> str:
    """A scene counts as an error at a limit if its answer moves by at least that much; only the conditions that a search
    ends with count, not what it tried."""
    rows = {row["search"]: row for row in errors.rows(Searches(one.setting, [one]))}
    ours, texts = rows[EVOLVED], []
    for rival in (SEARCHED, DRAWN):
        limits = [name for name in ours if name.endswith("°") and (ours[name] or rows[rival][name])]
        shares = [(ours[name] / ours["scenes"], rows[rival][name] / rows[rival]["scenes"]) for name in limits]
        more = sum(mine > other for mine, other in shares)
        texts.append(f"more than {rival} at {more} of {len(limits)} limits with errors")
    return f"{one.name}: {', '.join(texts)}"
