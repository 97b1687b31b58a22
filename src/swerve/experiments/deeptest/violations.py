"""RQ4: how many wrong answers, by λ, ε and change, and how large are the errors? Tables 7 and 8, Fig. 6 of the paper."""
# DT-35

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import compress, product

import numpy as np
from markupsafe import Markup

from swerve.analysis.angles import Angles
from swerve.analysis.oracle import EPSILONS, LAMBDAS, RMSE
from swerve.analysis.statistics import paired_bootstrap, signed_rank
from swerve.core.origin import Origin
from swerve.core.values import Array
from swerve.experiments import Counted, Measured, Row, TableView, box_cells, chart, question, table, total
from swerve.experiments.deeptest.subject_runs import PAPER, DeepTestRuns, DeepTests, few_drives_note, judged
from swerve.experiments.steering_subjects import LIKE
from swerve.methods.deeptest import LABEL, OWN, WITHIN
from swerve.report.charts import box_plots
from swerve.report.quantities import WHISKERS

FACTOR, EPSILON = 5, 0.03  # λ and ε of the authors: DT-28
INTRODUCED, ORIGINALS = f"{LABEL}, introduced", f"{LABEL}, originals"
READINGS = (LABEL, INTRODUCED, OWN, ORIGINALS)
UNTOUCHED = "untouched"
COLUMNS = (*(f"ε {epsilon:g}" for epsilon in EPSILONS), "fog", "rain", "guided", UNTOUCHED)
ALL = "all models"
TOLERANCES = (2, 5, 10, 20, 30)  # degrees of the wheel
SLACK = 1e-9  # degrees: rounding error of the conversion to radians and back
SIDES = ("violating", "their originals")
GROUPS, TOTAL = ("simple", "rain", "fog", "guided"), "all changes"
KINDS = {"": LABEL, ", introduced": INTRODUCED, ", originals": ORIGINALS}  # endings of the columns of Table 8


def sets_of(one: DeepTestRuns) -> dict[str, Angles]:
    """The follow-ups of every column of Table 7 except the untouched one, and of the simple changes."""
    sets = {f"ε {epsilon:g}": one.oracle.admitted(one.angles, epsilon) for epsilon in EPSILONS}
    sets |= {name: one.weather_angles.of(name) for name in ("fog", "rain")}
    nothing = one.angles.where(np.zeros(one.angles.count, bool))
    return {**sets, "guided": one.guided_angles or nothing, "simple": sets[f"ε {EPSILON:g}"]}


def followups_of(one: DeepTestRuns, name: str) -> list[Angles]:
    """The follow-ups of a column of Table 7, or of a row of Table 8."""
    sets = one.once(sets_of)
    return [sets.get(group) or sets["simple"].of(group) for group in (GROUPS if name == TOTAL else (name,))]


def count_violations(one: DeepTestRuns, name: str, factor: float) -> dict[str, Counted]:
    """The violations of Eq. 2 in a column of Table 7 or a row of Table 8, in every reading."""
    oracle, (labels, answers) = one.oracle, one.untouched
    if name == UNTOUCHED:
        wrong = Counted(int(oracle.violated((labels - answers) ** 2, factor).sum()), len(labels))
        return dict.fromkeys(READINGS, Counted(0, len(labels))) | {LABEL: wrong, ORIGINALS: wrong}
    some = followups_of(one, name)

    def counted(violated: Callable[[Angles], Array]) -> Counted:
        return Counted(sum(int(violated(angles).sum()) for angles in some), sum(angles.count for angles in some))

    sources = set().union(*(oracle.originals(angles, factor) for angles in some))  # an original counts once
    return {
        LABEL: counted(lambda angles: oracle.violated(angles.squared_errors(), factor)),
        INTRODUCED: counted(lambda angles: oracle.introduced(angles, factor)),
        OWN: counted(lambda angles: oracle.violated(angles.squared_shifts(), factor)),
        ORIGINALS: Counted(len(sources), len(labels)),
    }


def counts_of(one: DeepTestRuns) -> dict[tuple[str, float], dict[str, Counted]]:
    """The violations of every column and λ of Table 7."""
    return {(name, factor): count_violations(one, name, factor) for name in COLUMNS for factor in LAMBDAS}


def _view(title: str, note: str, reading: str, *, main: bool = True) -> TableView:
    hidden = () if reading in (LABEL, ORIGINALS) else (UNTOUCHED,)
    return TableView(title, note, {"reading": reading, "model": ALL}, hidden, main)


NOTE_7 = (
    "numbers of follow-ups with (label - answer)² above λ·MSE_orig. Of the seven simple changes, Eq. 3 keeps those whose "
    "error (MSE in rad², or its root if the head of the page says rmse) differs from the original one by at most ε. "
    "untouched: original images with the same λ, each once; guided: the images that the first search kept. In brackets: "
    "their share of the column's images, with its 95% Wilson interval, which is too narrow where follow-ups of one image "
    "count several times. The paper's numbers are of other models and more images: compare their pattern, not their size"
)
TABLE_7_AS = (
    _view("Table 7: violations by λ and ε, all models", NOTE_7, LABEL),
    _view("Table 7, introduced: violations whose untouched image was answered within the limit",
          "the others were wrong before the change", INTRODUCED),
    _view("Table 7, second reading: against the model's own answer on the untouched image",
          "(answer before - answer after)² above λ·MSE_orig; Eq. 3 still selects changes by labels", OWN, main=False),
    _view("Table 7, originals: untouched images with a violating follow-up",
          "follow-ups of one image are not independent; an image counts once in each cell, for each model", ORIGINALS,
          main=False),
)  # fmt: skip


@table("table7", views=TABLE_7_AS, printed=PAPER["table7"])
def table_7(results: DeepTests) -> Iterator[Row]:
    """The whole λ×ε table, of all models and of each."""
    every = {one.name: one.once(counts_of) for one in judged(results)}
    models = {ALL: [*every.values()], **{name: [counts] for name, counts in every.items()}} if every else {}
    for reading, (model, some), factor in product(READINGS, models.items(), LAMBDAS):
        cells = {name: total(counts[name, factor][reading] for counts in some) for name in COLUMNS}
        yield {"reading": reading, "model": model, "λ": factor, **cells}


@table("table8", f"Table 8: violations at λ = {FACTOR}, ε = {EPSILON:g}")
def table_8(results: DeepTests) -> Iterator[Row]:
    """of: the number of follow-ups; introduced: the untouched image was answered within the limit. Other violations were
    wrong before the change; the paper counts them too. originals: the number of untouched images that the violations come
    from. untouched: original images, each once; guided: the images that the first search kept"""
    known = judged(results)
    rules = dict.fromkeys(rule for one in known for rule in one.angles.rules)
    for name in (UNTOUCHED, *rules, *GROUPS, TOTAL) if known else ():
        row: Row = {"change": name}
        counts = {one.name: count_violations(one, name, FACTOR) for one in known}
        for model, cells in counts.items():
            row |= {f"{model}{kind}": cells[reading] for kind, reading in KINDS.items()}
            row[f"{model}, of"] = cells[LABEL].of
        row |= {f"all{kind}": total(cells[reading] for cells in counts.values()) for kind, reading in KINDS.items()}
        row |= {f"printed {like}": paper_count(name, like) for one in known if (like := one.subject.like)}
        yield {**row, "printed all": paper_count(name)}


def paper_count(name: str, model: str = "") -> Counted | None:
    """The paper's number for a row of Table 8, of one model or all three; None if a part of it is unknown."""
    rows = [PAPER["table8"].values.get((group,), {}) for group in (GROUPS if name == TOTAL else (name,))]
    found = [row.get(like) for row in rows for like in ([model] if model else LIKE.values())]
    known = [cell if isinstance(cell, Counted) else Counted(cell, None, printed=True) for cell in found if cell is not None]
    return total(known) if len(known) == len(found) else None


def fit_changes(one: DeepTestRuns) -> set[tuple[str, str]]:
    """The rules and words of the simple changes that pass Eq. 3."""
    return {*compress(one.angles.changes, one.oracle.kept(one.angles, EPSILON))}


@table("origins", "Violations by origin", each="model", of=judged)
def origins(one: DeepTestRuns) -> Iterator[Row]:
    """where the violations of Table 8 come from. introduced: the untouched image was answered within the limit, and the
    answer moved by more than 1° and a quarter of √MSE_orig; marginal: it moved by less; made worse: the untouched image
    was wrong, and the error grew by more than that; already wrong: it did not. Both introduced and marginal ones are
    introduced in Table 8"""
    for name in (*GROUPS, TOTAL):
        found = sum((one.oracle.origins(angles, FACTOR) for angles in followups_of(one, name)), Counter[Origin]())
        by_origin = {origin.words: found[origin] for origin in Origin if origin is not Origin.UNKNOWN}
        yield {"change": name, "violations": found.total(), **by_origin}


@table("guided", "Guided violations", each="model", of=judged)
def guided_violations(one: DeepTestRuns) -> Iterator[Row]:
    """images that the first guided search kept and that violate Eq. 2 at λ = {FACTOR}; originals: the number of untouched
    images they come from; every step passes Eq. 3: at ε = {EPSILON:g}, each step taken as a single change with its
    parameter, which the paper requires of simple changes only; a step that is not one of the simple changes does not pass"""
    if angles := one.guided_angles:
        wrong = angles.where(one.oracle.violated(angles.squared_errors(), FACTOR))
        fit = {words for _, words in fit_changes(one)}
        passing = [fit.issuperset(one.guided_steps[words]) for _, words in angles.changes]
        yield {
            "violations": wrong.count,
            "introduced": int(one.oracle.introduced(wrong, FACTOR).sum()),
            "originals": len({*wrong.case.tolist()}),
            "every step passes Eq. 3": sum(passing[change] for change in wrong.change),
        }


def violating(one: DeepTestRuns) -> dict[str, Array]:
    """For each original, violating follow-ups x 2: |label - answer| of the follow-up and of the original, all changes."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name in ("simple", "fog", "rain", "guided"):
        (some,) = followups_of(one, name)
        wrong = some.where(one.oracle.violated(some.squared_errors(), FACTOR))
        for case, label, before, after in zip(wrong.case, wrong.label, wrong.before, wrong.after, strict=True):
            found.setdefault(some.cases[case], []).append((abs(label - after), abs(label - before)))
    return {case: np.array(pairs) for case, pairs in found.items()}


def _deviations(one: DeepTestRuns) -> dict[str, list[float]]:
    """Mean |label - answer| of each original's violating follow-ups, and its own."""
    both = np.array([pairs.mean(axis=0) for pairs in one.once(violating).values()]).reshape(-1, 2)
    return dict(zip(SIDES, both.T.tolist(), strict=True))


def _errors(found: Mapping[str, Array], side: str) -> Row:
    """The number of images and their mean square: of all violating follow-ups, or of each original once."""
    squares = [pairs[:, 0] ** 2 if side == SIDES[0] else pairs[:1, 1] ** 2 for pairs in found.values()]
    every = np.concatenate([np.zeros(0), *squares])
    groups = np.repeat(np.arange(len(squares)), [len(some) for some in squares]).tolist()
    mean = paired_bootstrap([0.0] * len(every), every.tolist(), seed=0, groups=groups, resamples=RESAMPLES)
    mse = Measured(float(every.mean()) if len(every) else None, mean.low, mean.high, wide=False)
    return {"of": side, "originals": len(found), "images": len(every), "MSE, rad²": mse}


RESAMPLES = 2000
FORMATS = {**dict.fromkeys(WHISKERS, ".2f"), "MSE, rad²": ".4f", "rank-biserial": "+.2f"}
FIGURE_6 = "Fig. 6: errors of violating images and their originals"


@table("fig6", FIGURE_6, formats=FORMATS, printed=PAPER["fig6"], more=few_drives_note)
def figure_6(results: DeepTests) -> Iterator[Row]:
    """MSE over all violating follow-ups, and over their originals, each once, with the 95% interval of resampled originals.
    The box plot and Wilcoxon's signed-rank test have one value for each original, the mean over its violating follow-ups.
    Violating images were selected for their error, so there is always a difference; what matters is its size"""
    known = judged(results)
    for one in known:
        sides = one.once(_deviations)
        test = signed_rank(*sides.values())
        tests = {"p": None if one.overlapping else test.p, "rank-biserial": test.effect}
        for side, numbers in sides.items():
            yield {"model": one.name, **_errors(one.once(violating), side), **box_cells(numbers), **tests}
    every = {f"{one.name}/{case}": pairs for one in known for case, pairs in one.once(violating).items()}
    for side in SIDES if known else ():
        yield {"model": ALL, **_errors(every, side), **box_cells(()), "p": None, "rank-biserial": None}


@chart("Fig. 6: deviation from the label, radians of the wheel")
def _boxes(results: DeepTests) -> Markup:
    every = {(one.name, side): numbers for one in judged(results) for side, numbers in one.once(_deviations).items()}
    return box_plots({f"{name}, {side.split()[-1]}": some for (name, side), some in every.items()}, axis="rad")


def moved(one: DeepTestRuns) -> dict[str, Array]:
    """|answer before - answer after| of the follow-ups of each change, and of those the search kept; degrees."""
    every = {rule: angles.of(rule) for angles in (one.angles, one.weather_angles) for rule in angles.rules}
    every |= {"guided": one.guided_angles} if one.guided_angles else {}
    shifts = {name.removesuffix(f", {OWN}"): np.abs(some.before - some.after) for name, some in every.items()}
    return {name: np.degrees(some) for name, some in shifts.items()}


@table("shifts", "How far changes move the answer", each="model")
def moved_answers(one: DeepTestRuns) -> Iterator[Row]:
    """follow-ups whose answer differs from that to the untouched image by more than so many degrees of the wheel; labels and
    Eq. 3 are not used; guided: the images that the first search kept"""
    for name, degrees in one.once(moved).items():
        counts = {f"> {most}°": int((degrees > most + SLACK).sum()) for most in TOLERANCES}
        yield {"change": name, "follow-ups": len(degrees), **counts}


def describe_shifts(results: DeepTests) -> str:
    """How many follow-ups of each kind moved the answer by more than the default tolerance."""
    far, every = Counter[str](), Counter[str]()
    for name, degrees in (pair for one in results for pair in one.once(moved).items()):
        kind = name if name in GROUPS else "simple"
        far[kind] += int((degrees > WITHIN + SLACK).sum())
        every[kind] += len(degrees)
    parts = (f"{far[kind]:,} of {count:,} {kind}" for kind, count in every.items())
    return f"{', '.join(parts)} follow-ups move the model's own answer by more than {WITHIN:g}°"


def _original_errors(results: DeepTests) -> Iterator[str]:
    oracles = {one.name: one.oracle for one in judged(results)}
    errors = ", ".join(f"{name} {oracle.mse:.4f}" for name, oracle in oracles.items())
    line = f"MSE_orig in rad² of the wheel: {errors or 'no labels, so Eq. 2 cannot be applied'}."
    roots = ", ".join(f"{name} {math.sqrt(one.mse):.4f}" for name, one in oracles.items() if one.metric == RMSE)
    yield f"{line} RMSE_orig in rad, which Eq. 3 uses here: {roots}." if roots else line


EVIDENCE = (table_7, table_8, origins, guided_violations, moved_answers, figure_6, _boxes)


@question("RQ4: how many wrong answers?", *EVIDENCE, text=(_original_errors,))
def rq4(results: DeepTests) -> str:
    """Answers are wrong by Eq. 2 if their squared error is above λ·MSE_orig; Eq. 3 leaves out changes that are too
    strong."""
    rows = {row["reading"]: row for row in table_7.rows(results) if (row["model"], row["λ"]) == (ALL, FACTOR)}
    if not rows:
        return f"no case has a label, so Eq. 2 cannot be applied; {describe_shifts(results)}"
    kinds = {"simple": f"ε {EPSILON:g}", "fog": "fog", "rain": "rain", "guided": "guided"}
    counts = ", ".join(
        f"{rows[LABEL][column]:,} {kind} ({rows[INTRODUCED][column]:,} introduced)" for kind, column in kinds.items()
    )
    images = sum(len(one.untouched[0]) for one in judged(results))
    untouched = f"untouched {rows[LABEL][UNTOUCHED]:,} of {images:,} images"
    return f"at λ = {FACTOR}, ε = {EPSILON:g}: {counts} violations; {untouched}"
