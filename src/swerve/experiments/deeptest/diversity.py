"""RQ2: do different changes activate different neurons? (DT-31, Fig. 4 and 5)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from swerve.analysis.neurons import Sets, distances
from swerve.analysis.statistics import BoxPlot, box_plot, cohens_d, holm, signed_rank
from swerve.experiments.deeptest.tested import Tested
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.charts import box_plots
from swerve.report.experiment import Chart, Part, Section, Sheet
from swerve.report.plane import Spot, lines
from swerve.values import Array

PLOT = ("n", "low", "first", "median", "third", "high")
SHARES = dict.fromkeys(PLOT[1:], "+.1%")
FIG_4 = ("part", "model", "name", *PLOT)
FIG_5 = ("model", "change", *PLOT, "p", "p (Holm)", "Cohen's d", "effect")


def section(setting: Setting, all_tested: Sequence[Tested]) -> Section:
    """Jaccard distances of all pairs of changes, coverage as changes are added, and what each change adds alone."""
    looked_into = [tested for tested in all_tested if tested.parts]
    unions = {tested.name: _unions(tested.followups) for tested in looked_into}
    boxes = {name: dict(_pairs(*made)) for name, made in unions.items()}
    curves = {name: list(_added(*made, _size(looked_into, name))) for name, made in unions.items()}
    fig_4 = [("jaccard", name, pair, *_cells(box)) for name, pairs in boxes.items() for pair, box in pairs.items()]
    fig_4 += [("cumulative", name, to, *_cells(box)) for name, steps in curves.items() for to, box in steps]
    fig_5 = [(tested.name, *row) for tested in looked_into for row in _gains(tested)]
    where = setting.table("fig4", FIG_4, fig_4), setting.table("fig5", FIG_5, fig_5)
    kinds = [to for to, _ in next(iter(curves.values()), [])]
    grown = {
        name: [Spot(place, box.median) for place, (_, box) in enumerate(steps) if box] for name, steps in curves.items()
    }
    parts: tuple[Part, ...] = (
        *(Chart(f"Fig. 4.1, {name}: how little two changes of one image share", box_plots(pairs, axis="Jaccard distance"))
          for name, pairs in boxes.items()),
        Chart("Fig. 4.2: neurons covered per image as changes are added",
              lines(grown, x="changes so far", y="median share of neurons", percent=True, names=kinds)),
        Sheet("Fig. 5: neurons a change activates, against its original", FIG_5, tuple(fig_5),
              "each follow-up against its own original, (N_T - N_O)/N_O; Wilcoxon's signed ranks",
              csv=where[1], formats=SHARES | {"p": ".2g", "p (Holm)": ".2g", "Cohen's d": "+.2f"}),
    )  # fmt: skip
    return Section("RQ2: do changes activate different neurons?", _text(where[0]), parts, _answer(boxes))


def _text(where: str) -> tuple[str, ...]:
    return (
        "The set of a change is what its parameters activate together on one image. A distance of 0 means the same neurons, "
        f"1 none in common. All numbers are in {where}. The paper prints seven medians for six names "
        "(0.53, 0.002, 0.67, 0.12, 0.17, 0.30, 0.65), which cannot be put beside ours.",
    )


def _answer(boxes: dict[str, dict[str, BoxPlot | None]]) -> str:
    medians = [box.median for pairs in boxes.values() for box in pairs.values() if box]
    if not medians:
        return "no system here can be looked into"
    return f"the median distance of two changes is {min(medians):.2f} to {max(medians):.2f} over all models and pairs"


def _size(all_tested: Sequence[Tested], name: str) -> int:
    return next(tested.followups.size for tested in all_tested if tested.name == name)


def _unions(sets: Sets) -> tuple[list[str], Array]:
    """The changes, and changes x images x bits: what all parameters of a change activate on an image.

    Only images that have follow-ups of every change count.
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


def _pairs(rules: Sequence[str], table: Array) -> Iterator[tuple[str, BoxPlot | None]]:
    for one, other in combinations(range(len(rules)), 2):
        yield f"{rules[one]} · {rules[other]}", box_plot(distances(table[one], table[other]).tolist())


def _added(rules: Sequence[str], table: Array, size: int) -> Iterator[tuple[str, BoxPlot | None]]:
    running = np.bitwise_or.accumulate(table, axis=0)
    for rule, bits in zip(rules, running, strict=True):
        yield f"+ {rule}", box_plot((np.bitwise_count(bits).sum(axis=1) / size).tolist())


def _gains(tested: Tested) -> Iterator[Row]:
    alone = dict(zip(tested.originals.keys, tested.originals.counts().tolist(), strict=True))
    rules: dict[str, list[tuple[int, int]]] = {}
    for (case, rule, _), count in zip(tested.followups.keys, tested.followups.counts().tolist(), strict=True):
        if alone.get(case):
            rules.setdefault(rule, []).append((count, alone[case]))
    pairs = {rule: np.array(both, float) for rule, both in rules.items()}
    tests = {rule: signed_rank(both[:, 0].tolist(), both[:, 1].tolist()) for rule, both in pairs.items()}
    corrected = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    for rule, both in pairs.items():
        effect = cohens_d(both[:, 0].tolist(), both[:, 1].tolist())
        box = box_plot(((both[:, 0] - both[:, 1]) / both[:, 1]).tolist())
        yield (rule, *_cells(box), tests[rule].p, corrected[rule], effect.value, effect.label or None)


def _cells(box: BoxPlot | None) -> tuple[float | None, ...]:
    return (None,) * len(PLOT) if box is None else (box.n, box.low, box.first, box.median, box.third, box.high)
