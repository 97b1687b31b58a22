"""RQ1: does neuron coverage go along with what the system says? (DT-29, Table 5)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swerve.analysis.angles import radians_of
from swerve.analysis.neurons import Sets
from swerve.analysis.statistics import cohens_d, holm, rank_sum, spearman
from swerve.experiments.deeptest.printed import TABLE_5
from swerve.experiments.deeptest.tested import Tested, part_name, related
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.experiment import Chart, Section, Sheet
from swerve.report.plane import points
from swerve.values import Array

SIGNIFICANT = 0.05
COLUMNS = (
    *("model", "images", "of", "Spearman's ρ", "p", "p (Holm)", "left", "right", "NC left", "NC right", "direction"),
    "Wilcoxon p",
    *("Cohen's d", "effect", "printed ρ", "printed direction"),
)


def section(setting: Setting, all_tested: Sequence[Tested]) -> Section:
    """Spearman's ρ of coverage and angle, and coverage of images that say left against those that say right."""
    looked_into = [tested for tested in all_tested if tested.parts]
    rows = _corrected([row for tested in looked_into for row in _rows(tested)])
    csv = setting.table("table5", COLUMNS, rows)
    strong = [row[0] for row in rows if row[2] == "untouched" and isinstance(row[5], float) and row[5] < SIGNIFICANT]
    answer = (
        f"on untouched images coverage goes along with the angle (Holm's p < {SIGNIFICANT}) for "
        f"{', '.join(map(str, strong)) or 'none'}, of {sum(row[2] == 'untouched' for row in rows)} (sub-)models"
    )
    charts = tuple(
        Chart(
            f"{tested.name}: coverage and angle of untouched images",
            points(*_seen(tested), x="share of neurons", y="said, degrees of the wheel"),
        )
        for tested in looked_into
    )
    formats = {"Spearman's ρ": "+.2f", "p": ".2g", "p (Holm)": ".2g", "Wilcoxon p": ".2g", "Cohen's d": "+.2f"}
    formats |= {"NC left": ".1%", "NC right": ".1%", "printed ρ": "+.2f"}
    note = (
        "positive angles are left; an effect below 0.2 is negligible; all p of the paper are below 2.2e-16. No p where "
        "images depend on each other: follow-ups of one image, and long windows that share frames"
    ) + related(looked_into)
    printed = ("printed ρ", "printed direction")
    sheet = Sheet("Table 5", COLUMNS, rows, note, printed=printed, csv=csv, formats=formats)
    return Section("RQ1: does coverage go along with the output?", parts=(sheet, *charts), answer=answer)


def _seen(tested: Tested) -> tuple[list[float], list[float]]:
    share = tested.originals.counts() / tested.originals.size
    said = {seen.case: np.degrees(radians_of(seen.said)) for seen in tested.baseline}
    return [float(one) for one in share], [float(said[key]) for key in tested.originals.keys]


def _rows(tested: Tested) -> Iterator[Row]:
    assert tested.parts
    _, said = _seen(tested)
    all_sets, all_said = _with_followups(tested, said)
    for part, members in tested.parts:
        total = int(members.sum())
        yield _row(tested, part, "untouched", tested.originals.under(members).counts() / total, np.array(said))
        yield _row(tested, part, "with follow-ups", all_sets.under(members).counts() / total, all_said)


def _with_followups(tested: Tested, said: Sequence[float]) -> tuple[Sets, Array]:
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
    return both, np.array([*said, *(after[key] for key in then.keys)])


def _corrected(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with Holm's correction over the untouched ones."""
    given = [p if isinstance(p := row[4], float) else None for row in rows]
    return tuple((*row[:5], p, *row[5:]) for row, p in zip(rows, holm(given), strict=True))


def _row(tested: Tested, part: str, of: str, share: Array, degrees: Array) -> Row:
    left, right = share[degrees > 0], share[degrees < 0]
    ours, theirs = left.tolist(), right.tolist()
    correlation, sides = spearman(share.tolist(), degrees.tolist()), rank_sum(ours, theirs)
    effect = cohens_d(ours, theirs)
    alone = of == "untouched" and not tested.overlapping
    way = None
    if sides.p is not None and len(left) and len(right):
        sign = ">" if left.mean() > right.mean() else "<"
        way = f"left {sign} right" if not alone or sides.p < SIGNIFICANT else "not significant"
    means = (float(side.mean()) if len(side) else None for side in (left, right))
    rho, direction = TABLE_5.get(part_name(tested, part, like=True), (None, None)) if of == "untouched" else (None, None)
    told = (
        part_name(tested, part),
        len(share),
        of,
        correlation.effect,
        correlation.p if alone else None,
        len(left),
        len(right),
        *means,
    )
    return (*told, way, sides.p if alone else None, effect.value, effect.label or None, rho, direction)
