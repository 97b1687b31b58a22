"""RQ4: how many wrong answers, for which λ and ε, of which changes, and how far off? (DT-35, Tables 7 and 8, Fig. 6)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swerve.analysis.angles import Angles
from swerve.analysis.oracle import EPSILONS, LAMBDAS
from swerve.analysis.statistics import BoxPlot, box_plot, signed_rank
from swerve.experiments.deeptest.printed import FALSE_POSITIVES, FIGURE_6, TABLE_7, TABLE_8
from swerve.experiments.deeptest.tested import Tested
from swerve.experiments.setting import RUNS, Setting
from swerve.report.cells import Row
from swerve.report.charts import box_plots
from swerve.report.experiment import Chart, Section, Sheet
from swerve.review.agreement import verdicts
from swerve.review.marks import Mark
from swerve.values import Array

FACTOR, EPSILON = 5, 0.03  # the authors' operating point (DT-28)
LABEL, OWN = "label", "own answer"
COLUMNS = (*(f"ε {epsilon:g}" for epsilon in EPSILONS), "fog", "rain", "guided", "untouched")
FIG_6 = ("model", "images", "n", "MSE, rad²", "low", "first", "median", "third", "high", "p", "effect", "printed MSE")
ALL = "all models"
Counts = Mapping[str, list[int]]


def section(setting: Setting, all_tested: Sequence[Tested]) -> Section:
    """The whole λ×ε table, violations by change and model, deviations of violating images, and the review."""
    judged = [tested for tested in all_tested if tested.oracle]
    tables = {tested.name: counts_of(tested) for tested in judged}
    rows = tuple(_table_7(tables))
    csv_7 = setting.table("table7", ("reading", "model", "λ", *COLUMNS, *(f"printed {name}" for name in TABLE_7)), rows)
    overall = tuple((row[2], *row[3:]) for row in rows if row[:2] == (LABEL, ALL))
    head_7 = ("λ", *COLUMNS, *(f"printed {name}" for name in TABLE_7))
    own = tuple((row[2], *row[3 : 3 + len(COLUMNS)]) for row in rows if row[:2] == (OWN, ALL))
    head_8, rows_8 = _table_8(judged)
    csv_8 = setting.table("table8", head_8, rows_8)
    figure = tuple(row for tested in judged for row in _figure_6(tested))
    csv_6 = setting.table("fig6", FIG_6, figure)
    review = tuple(row for tested in judged for row in _reviewed(setting, tested))
    csv_review = setting.table("review", REVIEW, review)
    parts = (
        Sheet("Table 7: violations by λ and ε, all models", head_7, overall, NOTE_7,
              printed=tuple(f"printed {name}" for name in TABLE_7), csv=csv_7),
        Sheet("Table 7, second reading: against the model's own answer on the untouched image", ("λ", *COLUMNS), own,
              "(said before - said after)² above λ·MSE_orig; Eq. 3 chooses changes by their labels all the same",
              main=False),
        Sheet(f"Table 8: violations at λ = {FACTOR}, ε = {EPSILON:g}", head_8, rows_8, NOTE_8,
              printed=tuple(name for name in head_8 if name.startswith("printed")), csv=csv_8),
        Sheet("Fig. 6: how far violating images and their originals are off", FIG_6, figure,
              "Wilcoxon's signed ranks of the two deviations, image by image", printed=("printed MSE",), csv=csv_6,
              formats={"MSE, rad²": ".4f", "low": ".2f", "first": ".2f", "median": ".2f", "third": ".2f", "high": ".2f",
                       "p": ".2g", "effect": "+.2f"}),
        Chart("Fig. 6: deviation from the label, radians of the wheel", box_plots(_boxes(judged), axis="rad")),
        Sheet("False positives, as reviewed by people", REVIEW, review, NOTE_REVIEW, printed=REVIEW[-1:], csv=csv_review),
    )  # fmt: skip
    return Section("RQ4: how many wrong answers?", (_errors(judged),), parts, _answer(judged, tables))


NOTE_7 = (
    "counts of follow-ups with (label - said)² above λ·MSE_orig; Eq. 3 keeps the changes whose MSE is at most ε (rad²) from "
    "the original one, for the seven simple changes; untouched: the original images under the same λ. The paper's counts "
    "are of other models and more images: compare shapes, not sizes"
)
NOTE_8 = "every count beside the untouched one: what the model gets wrong without any change is no finding of a change"
NOTE_REVIEW = "mark findings with `swerve review DIR` and run this experiment again: the marks are read from the run folders"
REVIEW = ("model", "changes", "marked", "true", "false", "unnatural", "to mark", "printed false")


def _errors(judged: Sequence[Tested]) -> str:
    told = ", ".join(f"{tested.name} {tested.oracle.mse:.4f}" for tested in judged if tested.oracle)
    return f"MSE_orig in rad² of the wheel: {told or 'no labels, so Eq. 2 cannot be applied'}."


def _answer(judged: Sequence[Tested], tables: Mapping[str, Mapping[str, Counts]]) -> str:
    if not judged:
        return "no case has a label, so Eq. 2 cannot be applied; see the findings against the model's own answer in each run"
    place = LAMBDAS.index(FACTOR)
    total = {name: sum(table[LABEL][name][place] for table in tables.values()) for name in COLUMNS}
    images = sum(len(tested.squared_untouched) for tested in judged)
    return (
        f"at λ = {FACTOR}, ε = {EPSILON:g}: {total[f'ε {EPSILON:g}']:,} simple, {total['fog']:,} fog, {total['rain']:,} "
        f"rain and {total['guided']:,} guided violations; untouched {total['untouched']:,} of {images:,}"
    )


def counts_of(tested: Tested) -> dict[str, dict[str, list[int]]]:
    """Violations by λ for every column, in both readings."""
    oracle = tested.oracle
    assert oracle
    sets: dict[str, Angles] = {f"ε {epsilon:g}": oracle.admitted(tested.angles, epsilon) for epsilon in EPSILONS}
    sets |= {name: tested.weather_angles.of(name) for name in ("fog", "rain")}
    told = {
        LABEL: {name: oracle.counts(angles.squared_errors()) for name, angles in sets.items()},
        OWN: {name: oracle.counts(angles.squared_shifts()) for name, angles in sets.items()},
    }
    guided = tested.guided_angles
    told[LABEL] |= {"guided": oracle.counts(guided.squared_errors()) if guided else [0] * len(LAMBDAS)}
    told[OWN] |= {"guided": oracle.counts(guided.squared_shifts()) if guided else [0] * len(LAMBDAS)}
    told[LABEL]["untouched"] = oracle.counts(tested.squared_untouched)
    told[OWN]["untouched"] = [0] * len(LAMBDAS)  # an untouched image is its own original
    return told


def _table_7(tables: Mapping[str, Mapping[str, Counts]]) -> Iterator[Row]:
    for reading in (LABEL, OWN):
        for place, factor in enumerate(LAMBDAS):
            total = (sum(table[reading][name][place] for table in tables.values()) for name in COLUMNS)
            printed = [column[place] if reading == LABEL else None for column in TABLE_7.values()]
            yield (reading, ALL, factor, *total, *printed)
        for model, table in tables.items():
            for place, factor in enumerate(LAMBDAS):
                yield (reading, model, factor, *(table[reading][name][place] for name in COLUMNS), *(None for _ in TABLE_7))


def _table_8(judged: Sequence[Tested]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    alike = [tested for tested in judged if tested.subject.like]
    head = ("change", *(tested.name for tested in judged), "all", *(f"printed {tested.subject.like}" for tested in alike))
    rules = list(dict.fromkeys(rule for tested in judged for rule in tested.angles.rules))
    lines = {
        "untouched": [_violations(tested, tested.squared_untouched) for tested in judged],
        **{rule: [_simple(tested, rule) for tested in judged] for rule in rules},
        "simple": [sum(_simple(tested, rule) for rule in rules) for tested in judged],
        **{name: [_violations(t, t.weather_angles.of(name).squared_errors()) for t in judged] for name in ("rain", "fog")},
        "guided": [_violations(t, t.guided_angles.squared_errors()) if t.guided_angles else 0 for t in judged],
    }
    rows = (
        (name, *counts, sum(counts), *(TABLE_8.get(name, {}).get(tested.subject.like) for tested in alike))
        for name, counts in lines.items()
    )
    return head, tuple(rows)


def _simple(tested: Tested, rule: str) -> int:
    assert tested.oracle
    return _violations(tested, tested.oracle.admitted(tested.angles, EPSILON).of(rule).squared_errors())


def _violations(tested: Tested, squared: Array) -> int:
    assert tested.oracle
    return tested.oracle.counts(squared, (FACTOR,))[0]


def _deviations(tested: Tested) -> tuple[Array, Array]:
    """|label - said| of violating images and of their originals, over all kinds of change at the operating point."""
    oracle = tested.oracle
    assert oracle
    sets = [oracle.admitted(tested.angles, EPSILON), tested.weather_angles, tested.guided_angles]
    wrong = [one.where(oracle.violated(one.squared_errors(), FACTOR)) for one in sets if one is not None]
    after = np.concatenate([np.abs(one.label - one.after) for one in wrong])
    before = np.concatenate([np.abs(one.label - one.before) for one in wrong])
    return after, before


def _figure_6(tested: Tested) -> Iterator[Row]:
    after, before = _deviations(tested)
    test = signed_rank(after.tolist(), before.tolist())
    for name, part, printed in (("violating", after, FIGURE_6[0]), ("their originals", before, FIGURE_6[1])):
        box = box_plot(part.tolist())
        cells = (None,) * 5 if box is None else (box.low, box.first, box.median, box.third, box.high)
        mse = float(np.mean(part**2)) if len(part) else None
        yield (tested.name, name, len(part), mse, *cells, test.p, test.effect, printed)


def _boxes(judged: Sequence[Tested]) -> dict[str, BoxPlot | None]:
    return {
        f"{tested.name}, {name}": box_plot(part.tolist())
        for tested in judged
        for name, part in zip(("violating", "originals"), _deviations(tested), strict=True)
    }


def _reviewed(setting: Setting, tested: Tested) -> Iterator[Row]:
    """What people have marked in each run so far."""
    runs = {"simple": tested.simple, "weather": tested.weather}
    if tested.guidance:
        runs["guided"] = tested.guidance.guided[0]
    for name, run in runs.items():
        counts = Counter(verdicts(run).values())
        where = f"swerve review {setting.into / RUNS / tested.name / name}"
        printed = FALSE_POSITIVES.get(tested.subject.like) if name == "simple" else None
        marks = (counts[mark] for mark in (Mark.TRUE, Mark.FALSE, Mark.UNNATURAL))
        yield (tested.name, name, counts.total(), *marks, where, printed)
