"""RQ2: do different changes activate different neurons? Figures 4 and 5 of the paper."""
# DT-31

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from swerve.analysis.neurons import Sets, distances
from swerve.analysis.statistics import box_plot, cohens_d, holm, signed_rank
from swerve.core.values import Array
from swerve.experiments.deeptest.subject_runs import DeepTestRuns, few_drives_note
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.charts import box_plots
from swerve.report.experiment_page import ChartPanel, Part, Section, TablePanel
from swerve.report.plane import Spot, lines

PLOT = ("n", "mean", "low", "first", "median", "third", "high")
USUAL_DIGITS, MOST_DIGITS = 1, 5  # of a percentage
FIG_4 = ("part", "model", "name", *PLOT)
FIG_5 = ("model", "change", *PLOT, "p", "p (Holm)", "Cohen's d", "effect")


def section(setting: Setting, all_tested: Sequence[DeepTestRuns]) -> Section:
    """Jaccard distances of all pairs of changes, coverage as changes are added, and what each change adds by itself."""
    white_boxes = [tested for tested in all_tested if tested.parts]
    unions = {tested.name: _unions(tested.followups) for tested in white_boxes}
    apart = {name: dict(_pairs(*made)) for name, made in unions.items()}
    steps = {name: dict(_added(*made, _size(white_boxes, name))) for name, made in unions.items()}
    fig_4 = [("jaccard", name, pair, *_cells(some)) for name, pairs in apart.items() for pair, some in pairs.items()]
    fig_4 += [("cumulative", name, to, *_cells(some)) for name, added in steps.items() for to, some in added.items()]
    gains = {tested.name: _gains(tested) for tested in white_boxes}
    alone = {tested.name: not tested.overlapping for tested in white_boxes}
    fig_5 = tuple((name, *row) for name, made in gains.items() for row in _gain_rows(made, alone[name]))
    where = setting.table("fig4", FIG_4, fig_4), setting.table("fig5", FIG_5, fig_5)
    grown = {name: [Spot(place, _mean(some)) for place, some in enumerate(added.values())] for name, added in steps.items()}
    kinds = list(next(iter(steps.values()), {}))
    parts: tuple[Part, ...] = (
        *(ChartPanel(f"Fig. 4.1, {name}: distance of two changes of one image",
                box_plots({pair: box_plot(some) for pair, some in pairs.items()}, axis="Jaccard distance"),
                axis_note(_ends(pairs.values())))
          for name, pairs in apart.items()),
        ChartPanel("Fig. 4.2: neurons covered per image as changes are added",
              lines(grown, x="changes so far", y="mean share of neurons", percent=True, names=kinds),
              axis_note([spot.y for line in grown.values() for spot in line])),
        *(ChartPanel(f"Fig. 5, {name}: increase of active neurons by a change, against the original",
                box_plots({rule: box_plot(_shares(both)) for rule, both in made.items()}, axis="share", percent=True))
          for name, made in gains.items()),
        TablePanel("Fig. 5: increase of active neurons by a change, against the original", FIG_5, fig_5,
              NOTE_5 + few_drives_note(white_boxes), csv=where[1],
              formats=_percent_formats(fig_5) | {"p": ".2g", "p (Holm)": ".2g", "Cohen's d": "+.2f"}),
    )  # fmt: skip
    return Section("RQ2: do changes activate different neurons?", _text(where[0]), parts, _answer(apart))


NOTE_5 = (
    "(N_T - N_O)/N_O of each image, with N_T the mean over the parameters of the change, so that an image counts once; "
    "Wilcoxon's signed-rank test, Holm's correction over the changes of a model. No p for windows that share frames"
)


def axis_note(numbers: Sequence[float]) -> str:
    """A note for a chart whose axis does not start at 0, as its numbers are close to each other; otherwise empty."""
    drawn = [number for number in numbers if math.isfinite(number)]
    return "The axis does not start at 0" if drawn and min(drawn) > max(drawn) / 2 else ""


def _ends(series: Iterable[Sequence[float]]) -> list[float]:
    """The ends of the whiskers of box plots."""
    return [end for some in series if (box := box_plot(some)) for end in (box.low, box.high)]


def _percent_formats(rows: Sequence[Row]) -> dict[str, str]:
    """The number formats of Fig. 5's percentages, by column."""
    columns = {name: [abs(cell) for row in rows if isinstance(cell := row[FIG_5.index(name)], float)] for name in PLOT[1:]}
    return {name: f"+.{_digits([size for size in sizes if size])}%" for name, sizes in columns.items()}


def _digits(sizes: Sequence[float]) -> int:
    """As many decimals as the largest needs not to be shown as 0, and one more than usual if that helps smaller ones."""
    needed = [min(max(-math.floor(math.log10(100 * size)), USUAL_DIGITS), MOST_DIGITS) for size in sizes]
    return max(min(needed), min(max(needed), USUAL_DIGITS + 1)) if needed else USUAL_DIGITS


def _text(where: str) -> tuple[str, ...]:
    return (
        "The set of a change is the union of what its parameters activate on one image. A distance of 0 means the same "
        f"neurons, 1 none in common. All numbers are in {where}. The paper prints seven medians for six names "
        "(0.53, 0.002, 0.67, 0.12, 0.17, 0.30, 0.65), so they cannot be compared with ours.",
    )


def _answer(apart: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    medians = [float(np.median(some)) for pairs in apart.values() for some in pairs.values() if some]
    if not medians:
        return "none of the systems is a white box"
    return f"the median distance of two changes is {min(medians):.2f} to {max(medians):.2f} over all models and pairs"


def _size(all_tested: Sequence[DeepTestRuns], name: str) -> int:
    return next(tested.followups.size for tested in all_tested if tested.name == name)


def _unions(sets: Sets) -> tuple[list[str], Array]:
    """The changes, and changes x images x bits: the neurons that any parameter of a change activates on an image.

    Only images with follow-ups of every change count.
    """
    rules = list(dict.fromkeys(rule for _, rule, _ in sets.keys))
    cases = list(dict.fromkeys(case for case, _, _ in sets.keys))
    places = {name: place for place, name in enumerate(rules)}, {name: place for place, name in enumerate(cases)}
    table = np.zeros((len(rules), len(cases), sets.packed.shape[1]), np.uint8)
    seen = np.zeros(table.shape[:2], bool)
    for (case, rule, _), bits in zip(sets.keys, sets.packed, strict=True):
        at = places[0][rule], places[1][case]
        table[at] |= bits
        seen[at] = True
    return rules, table[:, seen.all(axis=0)]


def _pairs(rules: Sequence[str], table: Array) -> Iterator[tuple[str, list[float]]]:
    for one, other in combinations(range(len(rules)), 2):
        yield f"{rules[one]} · {rules[other]}", distances(table[one], table[other]).tolist()


def _added(rules: Sequence[str], table: Array, size: int) -> Iterator[tuple[str, list[float]]]:
    running = np.bitwise_or.accumulate(table, axis=0)
    for rule, bits in zip(rules, running, strict=True):
        yield f"{rule} added", (np.bitwise_count(bits).sum(axis=1) / size).tolist()


def _gains(tested: DeepTestRuns) -> dict[str, Array]:
    """For each change, images x 2: the mean number of neurons that its follow-ups activate, and that of the image itself."""
    alone = dict(zip(tested.originals.keys, tested.originals.counts().tolist(), strict=True))
    counts: dict[str, dict[str, list[int]]] = {}
    for (case, rule, _), count in zip(tested.followups.keys, tested.followups.counts().tolist(), strict=True):
        if alone.get(case):
            counts.setdefault(rule, {}).setdefault(case, []).append(count)
    return {rule: np.array([(np.mean(some), alone[case]) for case, some in cases.items()]) for rule, cases in counts.items()}


def _gain_rows(gains: Mapping[str, Array], alone: bool) -> Iterator[Row]:
    """A row for each change; `alone` is whether images are independent enough for a test."""
    tests = {rule: signed_rank(both[:, 0].tolist(), both[:, 1].tolist()) for rule, both in gains.items()}
    corrected = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    for rule, both in gains.items():
        effect = cohens_d(both[:, 0].tolist(), both[:, 1].tolist())
        p = (tests[rule].p, corrected[rule]) if alone else (None, None)
        yield (rule, *_cells(_shares(both)), *p, effect.value, effect.label or None)


def _shares(both: Array) -> list[float]:
    return [float(share) for share in (both[:, 0] - both[:, 1]) / both[:, 1]]


def _mean(some: Sequence[float]) -> float:
    return float(np.mean(some)) if len(some) else float("nan")


def _cells(some: Sequence[float]) -> tuple[float | None, ...]:
    box = box_plot(some)
    return (None,) * len(PLOT) if box is None else (box.n, _mean(some), box.low, box.first, box.median, box.third, box.high)
