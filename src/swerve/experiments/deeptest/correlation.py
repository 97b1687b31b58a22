"""RQ1: does neuron coverage correlate with the system's output? Table 5 of the paper."""
# DT-29

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swerve.analysis.angles import radians_of
from swerve.analysis.neurons import Sets, size_of
from swerve.analysis.statistics import StatisticalTest, cohens_d, holm, rank_sum, spearman
from swerve.core.values import Array
from swerve.experiments.deeptest.paper_values import TABLE_5
from swerve.experiments.deeptest.subject_runs import DeepTestRuns, few_drives_note, part_name
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.experiment_page import ChartPanel, Section, TablePanel
from swerve.report.plane import points

SIGNIFICANT = 0.05
UNTOUCHED, WITH_FOLLOWUPS = "untouched", "with follow-ups"
COLUMNS = (
    *("model", "images", "of", "Spearman's ρ", "p", "p (Holm)", "left", "right", "NC left", "NC right", "direction"),
    *("Wilcoxon p", "Wilcoxon p (Holm)"),
    *("Cohen's d", "effect", "printed ρ", "printed direction"),
)


def section(setting: Setting, all_tested: Sequence[DeepTestRuns]) -> Section:
    """Spearman's ρ of coverage and angle, and coverage of images answered with left against those answered with right."""
    white_boxes = [tested for tested in all_tested if tested.parts]
    rows = _corrected([row for tested in white_boxes for row in _rows(tested)])
    csv = setting.table("table5", COLUMNS, rows)
    strong = [row[0] for row in rows if row[2] == UNTOUCHED and isinstance(row[5], float) and row[5] < SIGNIFICANT]
    answer = (
        f"on untouched images, coverage correlates with the angle (Holm's p < {SIGNIFICANT}) for "
        f"{', '.join(map(str, strong)) or 'none'}, of {sum(row[2] == UNTOUCHED for row in rows)} (sub-)models"
    )
    charts = tuple(
        ChartPanel(
            f"{tested.name}: coverage and angle of untouched images",
            points(*_shares_and_angles(tested), x="share of neurons", y="answer, degrees of the wheel"),
        )
        for tested in white_boxes
    )
    formats = {"Spearman's ρ": "+.2f", "p": ".2g", "p (Holm)": ".2g", "Wilcoxon p": ".2g", "Cohen's d": "+.2f"}
    formats |= {"Wilcoxon p (Holm)": ".2g", "NC left": ".1%", "NC right": ".1%", "printed ρ": "+.2f"}
    note = (
        "positive angles are left; an effect below 0.2 is negligible; all p in the paper are below 2.2e-16. There is no p "
        "where images depend on each other: follow-ups of one image, and long windows that share frames. direction: the "
        "side with the higher ranks in Wilcoxon's test, if that is significant after Holm's correction; untested without p"
    ) + few_drives_note(white_boxes)
    printed = ("printed ρ", "printed direction")
    sheet = TablePanel("Table 5", COLUMNS, rows, note, printed=printed, csv=csv, formats=formats)
    text = tuple(line for tested in white_boxes if (line := _uniform_coverage(tested)))
    return Section("RQ1: does coverage correlate with the output?", text, (sheet, *charts), answer)


def _uniform_coverage(tested: DeepTestRuns) -> str:
    """A warning if most neurons that untouched images cover are active on all of them; otherwise empty."""
    always, covered = size_of(tested.originals.shared()), tested.originals.covered()
    if len(tested.originals.keys) < 2 or always <= covered / 2:
        return ""
    return (
        f"{tested.name}: of the {covered:,} neurons that untouched images cover, {always:,} are active on every one of "
        "them, so coverage hardly distinguishes images."
    )


def _shares_and_angles(tested: DeepTestRuns) -> tuple[list[float], list[float]]:
    share = tested.originals.counts() / tested.originals.size
    degrees = {seen.case: np.degrees(radians_of(seen.said)) for seen in tested.baseline}
    return [float(one) for one in share], [float(degrees[key]) for key in tested.originals.keys]


def _rows(tested: DeepTestRuns) -> Iterator[Row]:
    assert tested.parts
    _, degrees = _shares_and_angles(tested)
    all_sets, all_degrees = _with_followups(tested, degrees)
    for part, members in tested.parts:
        total = int(members.sum())
        yield _row(tested, part, UNTOUCHED, tested.originals.under(members).counts() / total, np.array(degrees))
        yield _row(tested, part, WITH_FOLLOWUPS, all_sets.under(members).counts() / total, all_degrees)


def _with_followups(tested: DeepTestRuns, degrees: Sequence[float]) -> tuple[Sets, Array]:
    """Untouched images and all their follow-ups together."""
    after = {
        (row["case"], row["rule"], row["draw"]): value["degrees"]
        for row in tested.simple.trials()
        for value in row["after"]
        if value["slot"] == "steering"
    }
    first, then = tested.originals, tested.followups
    known = [place for place, key in enumerate(then.keys) if key in after]
    then = then.only(known)
    both = Sets(first.size, (*first.keys, *then.keys), np.vstack([first.packed, then.packed]))
    return both, np.array([*degrees, *(after[key] for key in then.keys)])


def _corrected(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with Holm's correction over the untouched ones, for each of the two tests, and the resulting direction."""
    first, second = (_holm(rows, COLUMNS.index(column)) for column in ("p", "Wilcoxon p"))
    return tuple(_with_corrected(row, *both) for row, *both in zip(rows, first, second, strict=True))


def _holm(rows: Sequence[Row], place: int) -> list[float | None]:
    return holm([p if isinstance(p := row[place], float) else None for row in rows])


def _with_corrected(row: Row, p: float | None, sided: float | None) -> Row:
    cells = dict(zip(COLUMNS, row, strict=True))
    if cells["direction"] is not None:
        cells["direction"] = _direction(str(cells["direction"]), sided)
    return (*(cells | {"p (Holm)": p, "Wilcoxon p (Holm)": sided}).values(),)


def _direction(way: str, p: float | None) -> str:
    """The side that covers more, if the corrected p is significant; untested without one."""
    return f"{way}, untested" if p is None else way if p < SIGNIFICANT else "not significant"


def _way(sides: StatisticalTest) -> str | None:
    """The side with the higher ranks, by A12."""
    if sides.effect is None:
        return None
    return f"left {'=' if sides.effect == 0.5 else '>' if sides.effect > 0.5 else '<'} right"


def _row(tested: DeepTestRuns, part: str, of: str, share: Array, degrees: Array) -> Row:
    """A row without the corrected p."""
    left, right = share[degrees > 0], share[degrees < 0]
    ours, theirs = left.tolist(), right.tolist()
    correlation, sides = spearman(share.tolist(), degrees.tolist()), rank_sum(ours, theirs)
    effect = cohens_d(ours, theirs)
    alone = of == UNTOUCHED and not tested.overlapping
    means = (float(side.mean()) if len(side) else None for side in (left, right))
    printed = TABLE_5.get(part_name(tested, part, like=True), (None, None)) if of == UNTOUCHED else (None, None)
    p = (correlation.p, sides.p) if alone else (None, None)
    first = (part_name(tested, part), len(share), of, correlation.effect, p[0], None, len(left), len(right), *means)
    return (*first, _way(sides), p[1], None, effect.value, effect.label or None, *printed)
