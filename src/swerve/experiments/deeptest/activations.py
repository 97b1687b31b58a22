"""RQ1: does neuron coverage correlate with the output (Table 5)? RQ2: do changes activate other neurons (Figures 4, 5)?"""
# DT-29, DT-31

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from markupsafe import Markup

from swerve.analysis.angles import radians_of
from swerve.analysis.neurons import Sets, distances, gains, size_of, unions
from swerve.analysis.statistics import StatisticalTest, cohens_d, rank_sum, signed_rank, spearman, spearman_interval
from swerve.core.values import Array
from swerve.experiments import Format, Measured, Row, box_cells, chart, holm_corrected, percent, question, table
from swerve.experiments.deeptest.subject_runs import PAPER, DeepTestRuns, DeepTests, few_drives_note, white_boxes
from swerve.report.charts import Spot, box_plots, lines, points
from swerve.report.quantities import WHISKERS

SIGNIFICANT = 0.05
UNTOUCHED, WITH_FOLLOWUPS = "untouched", "with follow-ups"
FORMATS = {"Spearman's ρ": "+.2f", "NC left": ".1%", "NC right": ".1%", "Cohen's d": "+.2f", "printed ρ": "+.2f"}


@table("table5", "Table 5", formats=FORMATS, printed=PAPER["table5"], more=few_drives_note)
def table_5(results: DeepTests) -> Iterator[Row]:
    """ρ with its 95% interval; positive angles are left; an effect below 0.2 is negligible; all p in the paper are below
    2.2e-16. There is no p where images depend on each other: follow-ups of one image, and long windows that share frames.
    direction: the side with the higher ranks in Wilcoxon's test, if that is significant after Holm's correction; untested
    without p"""
    yield from corrected([row for one in white_boxes(results) for row in _rows(one)])


def _degrees(one: DeepTestRuns) -> Array:
    """The answers to the untouched images."""
    known = {seen.case: np.degrees(radians_of(seen.answer)) for seen in one.baseline}
    return np.array([known[key] for key in one.originals.keys])


def _rows(one: DeepTestRuns) -> Iterator[Row]:
    degrees = _degrees(one)
    every, all_degrees = _with_followups(one, degrees)
    for part, members in one.parts:
        name, total = one.part_name(part), int(members.sum())
        shares = (sets.under(members).counts() / total for sets in (one.originals, every))
        yield {**name, **_row(UNTOUCHED, next(shares), degrees, tested=not one.overlapping)}
        yield {**name, **_row(WITH_FOLLOWUPS, next(shares), all_degrees, tested=False)}


def _with_followups(one: DeepTestRuns, degrees: Array) -> tuple[Sets, Array]:
    """Untouched images and all their follow-ups together."""
    after = {
        (row["case"], row["rule"], row["draw"]): value["degrees"]
        for row in one.simple.trials()
        for value in row["after"]
        if value["slot"] == "steering"
    }
    first, then = one.originals, one.followups
    then = then.only([place for place, key in enumerate(then.keys) if key in after])
    both = Sets(first.size, (*first.keys, *then.keys), np.vstack([first.packed, then.packed]))
    return both, np.array([*degrees, *(after[key] for key in then.keys)])


def _row(of: str, share: Array, degrees: Array, *, tested: bool) -> Row:
    """A row without the corrected p."""
    left, right = share[degrees > 0].tolist(), share[degrees < 0].tolist()
    correlation, sides, effect = spearman(share.tolist(), degrees.tolist()), rank_sum(left, right), cohens_d(left, right)
    interval = spearman_interval(correlation.effect, len(share)) if tested else (None, None)
    rho = Measured(correlation.effect, *interval, wide=False)
    means = {f"NC {name}": float(np.mean(side)) if side else None for name, side in (("left", left), ("right", right))}
    return {
        **{"images": len(share), "of": of, "Spearman's ρ": rho, "p": correlation.p if tested else None},
        **{"p (Holm)": None, "left": len(left), "right": len(right), **means, "direction": way(sides)},
        **{"Wilcoxon p": sides.p if tested else None, "Wilcoxon p (Holm)": None},
        **{"Cohen's d": effect.value, "effect": effect.label or None},
    }


def corrected(rows: Sequence[Row]) -> list[Row]:
    """The rows with Holm's correction over the untouched ones, for each of the two tests, and the resulting direction."""
    fixed = holm_corrected(rows, "p", "Wilcoxon p")
    return [{**row, "direction": _direction(row["direction"], row["Wilcoxon p (Holm)"])} for row in fixed]


def _direction(side: str | None, p: float | None) -> str | None:
    """The side that covers more, if the corrected p is significant; untested without one."""
    if side is None or p is None:
        return side and f"{side}, untested"
    return side if p < SIGNIFICANT else "not significant"


def way(sides: StatisticalTest) -> str | None:
    """The side with the higher ranks, by A12."""
    if sides.effect is None:
        return None
    return f"left {'=' if sides.effect == 0.5 else '>' if sides.effect > 0.5 else '<'} right"


@chart("{name}: coverage and angle of untouched images", of=white_boxes)
def _scatter(one: DeepTestRuns) -> Markup:
    shares = one.originals.counts() / one.originals.size
    return points(shares.tolist(), _degrees(one).tolist(), x="share of neurons", y="answer, degrees of the wheel")


def uniform_coverage(one: DeepTestRuns) -> str:
    """A warning if most neurons that untouched images cover are active on all of them; otherwise empty."""
    always, covered = size_of(one.originals.shared()), one.originals.covered()
    if len(one.originals.keys) < 2 or always <= covered / 2:
        return ""
    return (
        f"{one.name}: of the {covered:,} neurons that untouched images cover, {always:,} are active on every one of "
        "them, so coverage hardly distinguishes images."
    )


def _warnings(results: DeepTests) -> Iterator[str]:
    return filter(None, map(uniform_coverage, white_boxes(results)))


@question("RQ1: does coverage correlate with the output?", table_5, _scatter, text=(_warnings,))
def rq1(results: DeepTests) -> str:
    """Coverage is the share of neurons that an image activates; the output is the steering angle."""
    rows = [row for row in table_5.rows(results) if row["of"] == UNTOUCHED]
    strong = [row["model"] for row in rows if row["p (Holm)"] is not None and row["p (Holm)"] < SIGNIFICANT]
    return (
        f"on untouched images, coverage correlates with the angle (Holm's p < {SIGNIFICANT}) for "
        f"{', '.join(strong) or 'none'}, of {len(rows)} (sub-)models"
    )


def _apart(one: DeepTestRuns) -> dict[str, list[float]]:
    """The distances of every two changes of an image, by the names of both."""
    rules, table = unions(one.followups)
    pairs = combinations(range(len(rules)), 2)
    return {f"{rules[first]} · {rules[then]}": distances(table[first], table[then]).tolist() for first, then in pairs}


def _added(one: DeepTestRuns) -> dict[str, list[float]]:
    """The shares of neurons covered of each image as changes are added."""
    rules, table = unions(one.followups)
    running = np.bitwise_count(np.bitwise_or.accumulate(table, axis=0)).sum(axis=2) / one.followups.size
    return {f"{rule} added": shares.tolist() for rule, shares in zip(rules, running, strict=True)}


def _gains(one: DeepTestRuns) -> dict[str, Array]:
    return gains(one.originals, one.followups)


def _shares(both: Array) -> list[float]:
    return [float(share) for share in (both[:, 0] - both[:, 1]) / both[:, 1]]


def _cells(some: Sequence[float]) -> Row:
    """The cells of a box plot with the number of values and their mean."""
    return {"n": len(some) or None, "mean": float(np.mean(some)) if some else None, **box_cells(some)}


@table("fig4")
def figure_4(results: DeepTests) -> Iterator[Row]:
    """Jaccard distances of all pairs of changes, and coverage as changes are added."""
    for part, read in {"jaccard": _apart, "cumulative": _added}.items():
        for one in white_boxes(results):
            yield from (
                {"part": part, "model": one.name, "name": name, **_cells(some)} for name, some in one.once(read).items()
            )


TITLE_5 = "increase of active neurons by a change, against the original"
FORMATS_5: dict[str, Format] = {**dict.fromkeys(("mean", *WHISKERS), percent), "Cohen's d": "+.2f"}


@table("fig5", f"Fig. 5: {TITLE_5}", each="model", of=white_boxes, formats=FORMATS_5, more=few_drives_note)
def figure_5(one: DeepTestRuns) -> Iterator[Row]:
    """(N_T - N_O)/N_O of each image, with N_T the mean over the parameters of the change, so that an image counts once;
    Wilcoxon's signed-rank test, Holm's correction over the changes of a model. No p for windows that share frames"""
    rows = []
    for rule, both in one.once(_gains).items():
        after, before = both.T.tolist()
        p, effect = None if one.overlapping else signed_rank(after, before).p, cohens_d(after, before)
        test = {"p": p, "p (Holm)": None, "Cohen's d": effect.value, "effect": effect.label or None}
        rows.append({"change": rule, **_cells(_shares(both)), **test})
    yield from holm_corrected(rows, "p")


@chart("Fig. 4.1, {name}: distance of two changes of one image", of=white_boxes)
def _boxes(one: DeepTestRuns) -> Markup:
    return box_plots(one.once(_apart), axis="Jaccard distance")


@chart("Fig. 4.2: neurons covered per image as changes are added")
def _growth(results: DeepTests) -> Markup:
    added = {one.name: one.once(_added) for one in white_boxes(results)}
    grown = {
        name: [Spot(place, float(np.mean(some)) if some else math.nan) for place, some in enumerate(steps.values())]
        for name, steps in added.items()
    }
    names = list(next(iter(added.values()), {}))
    return lines(grown, x="changes so far", y="mean share of neurons", percent=True, names=names)


@chart(f"Fig. 5, {{name}}: {TITLE_5}", of=white_boxes)
def _increases(one: DeepTestRuns) -> Markup:
    return box_plots({rule: _shares(both) for rule, both in one.once(_gains).items()}, axis="share", percent=True)


@question("RQ2: do changes activate different neurons?", figure_4, _boxes, _growth, _increases, figure_5)
def rq2(results: DeepTests) -> str:
    """The set of a change is the union of what its parameters activate on one image. A distance of 0 means the same neurons,
    1 none in common. All numbers are in tables/fig4.csv. The paper prints seven medians for six names (0.53, 0.002, 0.67,
    0.12, 0.17, 0.30, 0.65), so they cannot be compared with ours."""
    every: list[Mapping[str, list[float]]] = [one.once(_apart) for one in white_boxes(results)]
    medians = [float(np.median(some)) for pairs in every for some in pairs.values() if some]
    if not medians:
        return "none of the systems is a white box"
    return f"the median distance of two changes is {min(medians):.2f} to {max(medians):.2f} over all models and pairs"
