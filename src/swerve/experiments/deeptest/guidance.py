"""RQ3: does the guided search cover more neurons (Table 6 of the paper), and is that due to the guidance?"""
# DT-33

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from swerve.analysis.growth import BUDGET, DONE, end_reasons, goal_of, needed
from swerve.analysis.numbers import describe_linear
from swerve.analysis.statistics import StatisticalTest, rank_sum
from swerve.core.campaign import ALWAYS, NEURONS
from swerve.core.values import Array
from swerve.experiments import Measured, Row, chart, holm_corrected, question, table
from swerve.experiments.deeptest.subject_runs import ALIKE, PAIRS, PAPER, DeepTestRuns, DeepTests, white_boxes
from swerve.methods.deeptest import GUIDED
from swerve.report.charts import Spot, lines

GOAL = 0.1  # of the cumulative set's images
SIGNIFICANT = 0.05
FEWEST = 3  # searches of a kind from which on an effect is tested
FOR, AGAINST, EVEN, TOO_FEW = "more", "less", "no clear difference", "too few searches for a test"
SAME = "all cover the same"
ENDS = {DONE: "the queue was empty", BUDGET: "the budget was used up"}
SPOTS = 60  # of a curve
MEDIAN = ",.10g"  # shows halves
FORMATS = {
    **dict.fromkeys(("guided", "kept", "tries", "short by", "kept to reach", "tries to reach"), MEDIAN),
    **dict.fromkeys(("pairs drawn", "pairs refused", "seeds visited"), MEDIAN),
    **dict.fromkeys(("seeds/neurons", "cumulative/neurons", "guided/neurons"), ".0%"),
    **dict.fromkeys(("cumulative/seeds", "guided/seeds"), "+.0%"),
    **{"of images": ".1%", "tries/images": ".1%", "guided/cumulative": "+.1%"},
}


@table("table6", "Table 6", each="model", of=white_boxes, formats=FORMATS, printed=PAPER["table6"])
def table_6(one: DeepTestRuns) -> Iterator[Row]:
    """seeds: neurons covered by the untouched images that the search started from; cumulative: by them and all their
    follow-ups; guided: by them and every trial of the search, from the least to the most that a search covered; kept: trials
    that covered new neurons. pairs drawn: trials and refused pairs, which are drawn again; seeds visited: seeds of which any
    pair was drawn. kept to reach, tries to reach: images kept and run until the search covered as much as the cumulative set
    (the paper counts those kept); medians over the searches, empty if not all of them got there. ended by: the queue was
    empty (done) or the budget of trials was used up (budget). A ratio to seeds or cumulative is the increase of coverage.
    Trials on long windows are expensive, so these models get fewer seeds, one search and a smaller budget"""
    for part, members in one.parts:
        yield {**one.part_name(part), **_coverage(one, members)}


def _coverage(one: DeepTestRuns, members: Array) -> Row:
    """What the searches of a (sub-)model covered, and with how many images."""
    searches, size = one.searches[GUIDED], int(members.sum())
    goal, images = goal_of(one.originals, one.followups, set(one.seeds.keys()), members)
    base, ends = searches[0].seeds.under(members).covered(), [search.covered(members) for search in searches]
    kept, tries = needed(searches, members, goal)
    drawn = [_median(numbers) for numbers in zip(*(search.drawn for search in searches), strict=True)]
    found = {"seeds": base, "cumulative": goal, "guided": _median(ends)}
    return {
        **{"neurons": size, "seed images": len(one.seeds.keys()), "seeds": base, "cumulative": goal, "images": images},
        **{"searches": len(searches), "guided": Measured(found["guided"], min(ends), max(ends), wide=False)},
        "kept": _median([len(search.kept()) for search in searches]),
        "tries": _median([len(search.spent) for search in searches]),
        **dict(zip(("pairs drawn", "pairs refused", "seeds visited"), drawn, strict=True)),
        "ended by": end_reasons(searches),
        **{f"{name}/neurons": number / size for name, number in found.items()},
        **{f"{name}/seeds": found[name] / base - 1 if base else None for name in ("cumulative", "guided")},
        "guided/cumulative": found["guided"] / goal - 1 if goal else None,
        "short by": _median([max(0, goal - end) for end in ends]),
        **{"kept to reach": kept, "of images": kept / images if kept is not None and images else None},
        **{"tries to reach": tries, "tries/images": tries / images if tries is not None and images else None},
    }


def _median(numbers: Sequence[int]) -> float:
    return float(np.median(numbers))


REACH = dict.fromkeys(("guided: tries to reach", "rival: tries to reach"), MEDIAN)
COVERS = {"guided covers": ",.1f", "rival covers": ",.1f", "A12": ".2f"}


@table("guidance", "Guided against random search", formats=REACH | COVERS)
def against_chance(results: DeepTests) -> Iterator[Row]:
    """random searches with as many trials and other draws. alike: keeps an image whenever the guided search did, whatever it
    covers, so that as many changes accumulate; pairs: two changes of a seed, never more. Means over the searches. A12 above
    0.5 is in favour of guidance. p is exact; where every search covers the same number there is nothing to test: no p, and
    no part in Holm's correction"""
    yield from holm_corrected([row for one in white_boxes(results) for row in _against(one)], "p")


def _against(one: DeepTestRuns) -> Iterator[Row]:
    guided = one.searches[GUIDED]
    for part, members in one.parts:
        goal, _ = goal_of(one.originals, one.followups, set(one.seeds.keys()), members)
        ours = [float(search.covered(members)) for search in guided]
        for name in (ALIKE, PAIRS):
            others = one.searches[name]
            theirs = [float(search.covered(members)) for search in others]
            test, both = rank_sum(ours, theirs), {"guided": guided, "rival": others}
            yield {
                **{**one.part_name(part), "rival": name, "searches": len(ours)},
                **{"guided covers": float(np.mean(ours)), "rival covers": float(np.mean(theirs)), "A12": test.effect},
                **tested_cells(test, ours, theirs),
                **{f"{who}: tries to reach": needed(some, members, goal)[1] for who, some in both.items()},
                **{f"{who} reached": sum(search.reached(members, goal) is not None for search in some)
                   for who, some in both.items()},
            }  # fmt: skip


def tested_cells(test: StatisticalTest, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """The cells p, corrected p (still empty) and effect; no test where every search covers the same."""
    if len({*ours, *theirs}) == 1:
        return {"p": None, "p (Holm)": None, "effect": SAME}
    tested = len(ours) >= FEWEST
    return {"p": test.p if tested else None, "p (Holm)": None, "effect": _effect_label(test) if tested else None}


def _effect_label(test: StatisticalTest) -> str | None:
    if test.effect is None or not test.label or test.effect == 0.5:
        return test.label or None
    return f"{test.label}, {'for' if test.effect > 0.5 else 'against'}"


@table("layers", "Layers that count", each="model", of=white_boxes, main=False)
def layers(one: DeepTestRuns) -> Iterator[Row]:
    """a neuron is a channel of a convolution or a unit of another layer, counted at each step of a recurrent layer unless
    averaged. activation: none, if no activation function follows the layer. always: active on every untouched image; ever:
    on some untouched image or simple follow-up; never: on none"""
    seen = one.originals.shared(), one.originals.union() | one.followups.union()
    always, ever = (np.unpackbits(np.asarray(bits, np.uint8), count=one.originals.size) for bits in seen)
    start = 0
    for layer in one.layout.layers if one.layout else ():
        place = slice(start, start := start + layer.neurons)
        counts = {"always": int(always[place].sum()), "ever": int(ever[place].sum())}
        key = {"layer": layer.name, "kind": layer.kind, "activation": "none" if layer.linear else ""}
        yield {**key, "neurons": layer.neurons, **counts, "never": layer.neurons - counts["ever"]}


def _linear(results: DeepTests) -> Iterator[str]:
    """A sentence on the layers without an activation function, for every system that has any."""
    for one in white_boxes(results):
        rows = {row["layer"]: row for row in layers.rows(results) if row["model"] == one.name}
        counts = {name: {NEURONS: row["neurons"], ALWAYS: row["always"]} for name, row in rows.items() if row["activation"]}
        if text := describe_linear(counts, {name: row["neurons"] for name, row in rows.items()}):
            yield f"{one.name}: {text}."


@chart("{name}: coverage of the first search of each kind", of=white_boxes)
def _curves(one: DeepTestRuns) -> Markup:
    """Coverage over the trials of the first search of each kind."""
    series = {}
    for name, (search, *_) in one.searches.items():
        growth = search.growth(np.ones(search.seeds.size, bool)) / search.seeds.size
        places = np.unique(np.linspace(0, len(growth) - 1, SPOTS).astype(int)) if len(growth) else np.array([], int)
        series[name] = [Spot(float(place + 1), float(growth[place])) for place in places]
    return lines(series, x="trials", y="neurons covered", percent=True)


@question("RQ3: does guidance cover more?", table_6, against_chance, layers, _curves, text=(_linear,))
def rq3(results: DeepTests) -> str:
    """Searches guided by coverage are compared with all changes of their seeds, and with random searches of as many
    trials."""
    return answer(table_6.rows(results), against_chance.rows(results))


def answer(rows: Sequence[Row], rivals: Sequence[Row]) -> str:
    """Whether the search needs few images, where it falls short, and whether that is due to guidance."""
    if not rows:
        return "none of the systems is a white box"
    asked = [row for row in rows if row["seeds"] != row["cumulative"]]
    kept, run = (
        sum(row[column] is not None and row[column] <= GOAL for row in asked) for column in ("of images", "tries/images")
    )
    text = (
        f"it covers as much as the cumulative set with at most {GOAL:.0%} as many images kept on {kept} of "
        f"{len(asked)} (sub-)models, with at most {GOAL:.0%} as many run on {run}. "
    )
    if len(asked) < len(rows):
        text += f"Left out, because the seeds cover as much already: {len(rows) - len(asked)}. "
    if short := [_shortfall(row) for row in asked if row["kept to reach"] is None]:
        text += f"It falls short on {'; '.join(short)}. "
    few = [row for row in rows if row["seeds visited"] is not None and row["seeds visited"] < row["seed images"]]
    if few:
        visits = dict.fromkeys(f"{row['model']} {row['seeds visited']:g} of {row['seed images']}" for row in few)
        text += f"Not all seeds were visited: {', '.join(visits)}. "
    tests = sum(row["p"] is not None for row in rivals)
    for rival in (ALIKE, PAIRS):
        text += f"Against {rival}: {sides([row for row in rivals if row['rival'] == rival], tests)}. "
    return text.strip()


def _shortfall(row: Row) -> str:
    """How many neurons of the cumulative set a search missed, and why it ended."""
    missed = f"by {row['short by']:g} of {row['cumulative']:,} neurons" if row["short by"] else "but not in every search"
    return f"{row['model']} {missed} ({ENDS.get(row['ended by'], row['ended by'])})"


def sides(rivals: Sequence[Row], tests: int) -> str:
    """On how many (sub-)models guidance covers more, less, or without a clear difference."""
    found = [sided(row, tests) for row in rivals if row["effect"] != SAME]
    if not found:
        return "every search covers the same"
    counts = [f"{side} on {found.count(side)}" for side in (FOR, AGAINST, EVEN, TOO_FEW) if side != TOO_FEW or side in found]
    text = TOO_FEW if {*found} == {TOO_FEW} else ", ".join(counts)
    same = len(rivals) - len(found)
    return f"{text} ({same} left out, where every search covers the same)" if same else text


def sided(row: Row, tests: int) -> str:
    """Whether a row is in favour of guidance, against it, neither, or has too few searches for so many tests."""
    if row["p (Holm)"] is None or row["A12"] is None or least_p(row["searches"]) * tests > SIGNIFICANT:
        return TOO_FEW
    if row["p (Holm)"] >= SIGNIFICANT:
        return EVEN
    return FOR if row["A12"] > 0.5 else AGAINST


def least_p(searches: int) -> float:
    """The smallest possible p of a rank-sum test of `searches` against as many."""
    p = rank_sum(range(searches), range(searches, 2 * searches)).p
    return 1.0 if p is None else p
