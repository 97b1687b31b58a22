"""RQ4: how many wrong answers, by λ, ε and change, and how large are the errors? Tables 7 and 8, Fig. 6 of the paper."""
# DT-35

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swerve.analysis.angles import Angles
from swerve.analysis.oracle import EPSILONS, LAMBDAS, RMSE, Oracle
from swerve.analysis.statistics import BoxPlot, box_plot, signed_rank
from swerve.core.values import Array
from swerve.experiments.deeptest import shifts
from swerve.experiments.deeptest.paper_values import FIGURE_6, TABLE_7, TABLE_8
from swerve.experiments.deeptest.subject_runs import DeepTestRuns, few_drives_note
from swerve.experiments.setting import Setting
from swerve.experiments.subjects import LIKE
from swerve.report.cells import Row
from swerve.report.charts import box_plots
from swerve.report.experiment_page import ChartPanel, Part, Section, TablePanel

FACTOR, EPSILON = 5, 0.03  # λ and ε of the authors: DT-28
LABEL, INTRODUCED, OWN, ORIGINALS = "label", "label, introduced", "own answer", "label, originals"
READINGS = (LABEL, INTRODUCED, OWN, ORIGINALS)
COLUMNS = (*(f"ε {epsilon:g}" for epsilon in EPSILONS), "fog", "rain", "guided", "untouched")
PRINTED = tuple(f"printed {name}" for name in TABLE_7)
FIG_6 = (
    *("model", "of", "originals", "images", "MSE, rad²", "low", "first", "median", "third", "high", "p", "rank-biserial"),
    "printed MSE",
)
GUIDED = ("model", "violations", "introduced", "originals", "every step passes Eq. 3")
GUIDED_NOTE = (
    f"images that the first guided search kept and that violate Eq. 2 at λ = {FACTOR}; originals: the number of untouched "
    f"images they come from; every step passes Eq. 3: at ε = {EPSILON:g}, each step taken as a single change with its "
    "parameter, which the paper requires of simple changes only; a step that is not one of the simple changes does not pass"
)
ALL = "all models"
SIDES = ("violating", "their originals")
GROUPS, TOTAL = ("simple", "rain", "fog", "guided"), "all changes"
Counts = Mapping[str, list[int]]


def section(setting: Setting, all_tested: Sequence[DeepTestRuns]) -> Section:
    """The whole λ×ε table, violations by change and model, and deviations of violating images."""
    judged = [tested for tested in all_tested if tested.oracle]
    tables = {tested.name: counts_of(tested) for tested in judged}
    rows = tuple(_table_7(tables)) if judged else ()
    csv_7 = setting.table("table7", ("reading", "model", "λ", *COLUMNS, *PRINTED), rows)
    head_8, rows_8 = _table_8(judged)
    csv_8 = setting.table("table8", head_8, rows_8)
    figure = tuple(_figure_6(judged)) if judged else ()
    csv_6 = setting.table("fig6", FIG_6, figure)
    guided = tuple(_guided(tested) for tested in judged if tested.guidance)
    csv_guided = setting.table("guided", GUIDED, guided)
    formats = dict.fromkeys(("low", "first", "median", "third", "high"), ".2f")
    formats |= {"MSE, rad²": ".4f", "p": ".2g", "rank-biserial": "+.2f"}
    parts: tuple[Part, ...] = (
        TablePanel("Table 7: violations by λ and ε, all models", ("λ", *COLUMNS, *PRINTED), _all(rows, LABEL), NOTE_7,
              printed=PRINTED, csv=csv_7),
        TablePanel("Table 7, introduced: violations whose untouched image was answered within the limit",
              ("λ", *COLUMNS[:-1]), tuple(row[: len(COLUMNS)] for row in _all(rows, INTRODUCED)),
              "the others were wrong before the change"),
        TablePanel("Table 7, second reading: against the model's own answer on the untouched image", ("λ", *COLUMNS[:-1]),
              tuple(row[: len(COLUMNS)] for row in _all(rows, OWN)),
              "(answer before - answer after)² above λ·MSE_orig; Eq. 3 still selects changes by labels",
              main=False),
        TablePanel("Table 7, originals: untouched images with a violating follow-up", ("λ", *COLUMNS),
              tuple(row[: len(COLUMNS) + 1] for row in _all(rows, ORIGINALS)),
              "follow-ups of one image are not independent; an image counts once in each cell, for each model", main=False),
        TablePanel(f"Table 8: violations at λ = {FACTOR}, ε = {EPSILON:g}", head_8, rows_8, NOTE_8,
              printed=tuple(name for name in head_8 if name.startswith("printed")), csv=csv_8),
        TablePanel("Guided violations", GUIDED, guided, GUIDED_NOTE, csv=csv_guided),
        shifts.sheet(setting, all_tested),
        TablePanel("Fig. 6: errors of violating images and their originals", FIG_6, figure,
              NOTE_6 + few_drives_note(judged),
              printed=("printed MSE",), csv=csv_6, formats=formats),
        ChartPanel("Fig. 6: deviation from the label, radians of the wheel", box_plots(_boxes(judged), axis="rad")),
    )  # fmt: skip
    return Section("RQ4: how many wrong answers?", (_errors(judged),), parts, _answer(all_tested, tables))


NOTE_7 = (
    "numbers of follow-ups with (label - answer)² above λ·MSE_orig. Of the seven simple changes, Eq. 3 keeps those whose "
    "error (MSE in rad², or its root if the head of the page says rmse) differs from the original one by at most ε. "
    "untouched: original images with the same λ, each once; guided: the images that the first search kept. The paper's "
    "numbers are of other models and more images: compare their pattern, not their size"
)
NOTE_8 = (
    "of: the number of follow-ups; introduced: the untouched image was answered within the limit. Other violations were "
    "wrong before the change; the paper counts them too. originals: the number of untouched images that the violations come "
    "from. untouched: original images, each once; guided: the images that the "
    "first search kept"
)

NOTE_6 = (
    "MSE over all violating follow-ups, and over their originals, each once. The box plot and Wilcoxon's signed-rank test "
    "have one value for each original, the mean over its violating follow-ups. Violating images were selected for their "
    "error, so there is always a difference; what matters is its size"
)


def _all(rows: Sequence[Row], reading: str) -> tuple[Row, ...]:
    return tuple(row[2:] for row in rows if row[:2] == (reading, ALL))


def _errors(judged: Sequence[DeepTestRuns]) -> str:
    oracles = {tested.name: tested.oracle for tested in judged if tested.oracle}
    errors = ", ".join(f"{name} {oracle.mse:.4f}" for name, oracle in oracles.items())
    line = f"MSE_orig in rad² of the wheel: {errors or 'no labels, so Eq. 2 cannot be applied'}."
    roots = ", ".join(f"{name} {math.sqrt(one.mse):.4f}" for name, one in oracles.items() if one.metric == RMSE)
    return f"{line} RMSE_orig in rad, which Eq. 3 uses here: {roots}." if roots else line


def _answer(all_tested: Sequence[DeepTestRuns], tables: Mapping[str, Mapping[str, Counts]]) -> str:
    judged = [tested for tested in all_tested if tested.oracle]
    if not judged:
        return f"no case has a label, so Eq. 2 cannot be applied; {shifts.describe_shifts(all_tested)}"
    place = LAMBDAS.index(FACTOR)
    simple = f"ε {EPSILON:g}"
    every = {
        name: [sum(table[reading][name][place] for table in tables.values()) for reading in READINGS] for name in COLUMNS
    }
    counts = ", ".join(
        f"{every[name][0]:,} {kind} ({every[name][1]:,} introduced)"
        for name, kind in ((simple, "simple"), ("fog", "fog"), ("rain", "rain"), ("guided", "guided"))
    )
    images = sum(len(tested.squared_untouched) for tested in judged)
    return f"at λ = {FACTOR}, ε = {EPSILON:g}: {counts} violations; untouched {every['untouched'][0]:,} of {images:,} images"


def sets_of(tested: DeepTestRuns) -> dict[str, Angles]:
    """The follow-ups of every column except the untouched one."""
    assert tested.oracle
    sets = {f"ε {epsilon:g}": tested.oracle.admitted(tested.angles, epsilon) for epsilon in EPSILONS}
    sets |= {name: tested.weather_angles.of(name) for name in ("fog", "rain")}
    nothing = tested.angles.where(np.zeros(tested.angles.count, bool))
    return sets | {"guided": tested.guided_angles or nothing}


def introduced(oracle: Oracle, angles: Angles, factor: float) -> Array:
    """Which follow-ups violate Eq. 2 although their untouched images do not."""
    before = (angles.label - angles.before) ** 2
    return np.asarray(oracle.violated(angles.squared_errors(), factor) & ~oracle.violated(before, factor))


def counts_of(tested: DeepTestRuns) -> dict[str, dict[str, list[int]]]:
    """Violations by λ for every column, in every reading."""
    oracle, sets, nothing = tested.oracle, sets_of(tested), [0] * len(LAMBDAS)
    assert oracle
    return {
        LABEL: {
            **{name: oracle.counts(angles.squared_errors()) for name, angles in sets.items()},
            "untouched": oracle.counts(tested.squared_untouched),
        },
        INTRODUCED: {
            **{name: [int(introduced(oracle, one, factor).sum()) for factor in LAMBDAS] for name, one in sets.items()},
            "untouched": nothing,
        },
        OWN: {**{name: oracle.counts(angles.squared_shifts()) for name, angles in sets.items()}, "untouched": nothing},
        ORIGINALS: {
            **{name: [len(originals(oracle, one, factor)) for factor in LAMBDAS] for name, one in sets.items()},
            "untouched": oracle.counts(tested.squared_untouched),
        },
    }


def originals(oracle: Oracle, angles: Angles, factor: float) -> set[str]:
    """The untouched images with a follow-up that violates Eq. 2."""
    wrong = angles.case[oracle.violated(angles.squared_errors(), factor)]
    return {angles.cases[case] for case in wrong.tolist()}


def _table_7(tables: Mapping[str, Mapping[str, Counts]]) -> Iterator[Row]:
    for reading in READINGS:
        for place, factor in enumerate(LAMBDAS):
            total = (sum(table[reading][name][place] for table in tables.values()) for name in COLUMNS)
            printed = [column[place] if reading == LABEL else None for column in TABLE_7.values()]
            yield (reading, ALL, factor, *total, *printed)
        for model, table in tables.items():
            for place, factor in enumerate(LAMBDAS):
                yield (reading, model, factor, *(table[reading][name][place] for name in COLUMNS), *(None for _ in TABLE_7))


def _table_8(judged: Sequence[DeepTestRuns]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    alike = [tested for tested in judged if tested.subject.like]
    kinds = ("", ", introduced", ", originals", ", of")
    names = [f"{tested.name}{kind}" for tested in judged for kind in kinds]
    head = (
        "change",
        *names,
        *(f"all{kind}" for kind in kinds[:-1]),
        *(f"printed {tested.subject.like}" for tested in alike),
        "printed all",
    )
    rules = list(dict.fromkeys(rule for tested in judged for rule in tested.angles.rules))
    rows = []
    for name in ("untouched", *rules, *GROUPS, TOTAL) if judged else ():
        counts = [_sum(tested) if name == TOTAL else _cells(tested, name) for tested in judged]
        total = (sum(one[place] for one in counts) for place in range(len(kinds) - 1))
        printed = (_printed(name, tested.subject.like) for tested in alike)
        rows.append((name, *(cell for one in counts for cell in one), *total, *printed, _printed(name)))
    return head, tuple(rows)


def _printed(name: str, model: str = "") -> int | None:
    """The paper's number for a row of Table 8, of one model or all three; None if a part of it is unknown."""
    rows = [TABLE_8[group] for group in GROUPS] if name == TOTAL else [TABLE_8.get(name, {})]
    found = [row.get(like) for row in rows for like in ([model] if model else LIKE.values())]
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def _sum(tested: DeepTestRuns) -> tuple[int, int, int, int]:
    """The last row: simple changes, rain, fog and guided together; an original counts once."""
    wrong, new, _, count = (sum(column) for column in zip(*(_cells(tested, name) for name in GROUPS), strict=True))
    assert tested.oracle
    sources = set().union(*(originals(tested.oracle, _angles(tested, name), FACTOR) for name in GROUPS))
    return wrong, new, len(sources), count


def _cells(tested: DeepTestRuns, name: str) -> tuple[int, int, int, int]:
    """Violations of a row of Table 8, those introduced, their originals, and the number of follow-ups."""
    oracle = tested.oracle
    assert oracle
    if name == "untouched":
        wrong = oracle.counts(tested.squared_untouched, (FACTOR,))[0]
        return wrong, 0, wrong, len(tested.squared_untouched)
    angles = _angles(tested, name)
    wrong, new = oracle.counts(angles.squared_errors(), (FACTOR,))[0], int(introduced(oracle, angles, FACTOR).sum())
    return wrong, new, len(originals(oracle, angles, FACTOR)), angles.count


def _angles(tested: DeepTestRuns, name: str) -> Angles:
    """The follow-ups of a row of Table 8."""
    sets = sets_of(tested)
    simple = sets[f"ε {EPSILON:g}"]
    return {**sets, "simple": simple}.get(name) or simple.of(name)


def _guided(tested: DeepTestRuns) -> Row:
    """The number of originals of the guided violations, and how many violations have only steps that pass Eq. 3."""
    oracle, angles = tested.oracle, tested.guided_angles
    assert oracle
    assert angles
    wrong = angles.where(oracle.violated(angles.squared_errors(), FACTOR))
    fit = {
        words for (_, words), kept in zip(tested.angles.changes, oracle.kept(tested.angles, EPSILON), strict=True) if kept
    }
    passing = [fit.issuperset(tested.guided_steps[words]) for _, words in angles.changes]
    new = int(introduced(oracle, wrong, FACTOR).sum())
    return tested.name, wrong.count, new, len({*wrong.case.tolist()}), sum(passing[change] for change in wrong.change)


def _violating(tested: DeepTestRuns) -> dict[str, Array]:
    """For each original, violating follow-ups x 2: |label - answer| of the follow-up and of the original, all changes."""
    oracle = tested.oracle
    assert oracle
    found: dict[str, list[tuple[float, float]]] = {}
    sets = sets_of(tested)
    for one in (sets[name] for name in (f"ε {EPSILON:g}", "fog", "rain", "guided")):
        wrong = one.where(oracle.violated(one.squared_errors(), FACTOR))
        for case, label, before, after in zip(wrong.case, wrong.label, wrong.before, wrong.after, strict=True):
            found.setdefault(one.cases[case], []).append((abs(label - after), abs(label - before)))
    return {case: np.array(pairs) for case, pairs in found.items()}


def _deviations(tested: DeepTestRuns) -> tuple[Array, Array]:
    """Mean |label - answer| of each original's violating follow-ups, and its own."""
    both = np.array([pairs.mean(axis=0) for pairs in _violating(tested).values()]).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _mse(violating: Mapping[str, Array], side: int) -> tuple[int, float | None]:
    """The number of images and their mean square: of all violating follow-ups, or of each original once."""
    squares = [pairs[:, 0] ** 2 if side == 0 else pairs[:1, 1] ** 2 for pairs in violating.values()]
    every = np.concatenate(squares) if squares else np.zeros(0)
    return len(every), float(every.mean()) if len(every) else None


def _figure_6(judged: Sequence[DeepTestRuns]) -> Iterator[Row]:
    """The rows of each model, then those of all models, as in the paper."""
    for tested in judged:
        parts, found = _deviations(tested), _violating(tested)
        test = signed_rank(parts[0].tolist(), parts[1].tolist())
        for side, name in enumerate(SIDES):
            box = box_plot(parts[side].tolist())
            cells: Row = (None,) * 5 if box is None else (box.low, box.first, box.median, box.third, box.high)
            p = None if tested.overlapping else test.p
            yield (tested.name, name, len(found), *_mse(found, side), *cells, p, test.effect, None)
    every = {f"{tested.name}/{case}": pairs for tested in judged for case, pairs in _violating(tested).items()}
    for side, name in enumerate(SIDES):
        yield (ALL, name, len(every), *_mse(every, side), *(None,) * 7, FIGURE_6[side])


def _boxes(judged: Sequence[DeepTestRuns]) -> dict[str, BoxPlot | None]:
    return {
        f"{tested.name}, {name}": box_plot(part.tolist())
        for tested in judged
        for name, part in zip(("violating", "originals"), _deviations(tested), strict=True)
    }
