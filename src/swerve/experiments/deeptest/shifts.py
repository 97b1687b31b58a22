"""The second reading of RQ4, which needs no labels: how far do changes move the model's own answer?"""
# D-28

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swerve.analysis.angles import Angles
from swerve.core.values import Array
from swerve.experiments.deeptest.subject_runs import DeepTestRuns
from swerve.experiments.setting import Setting
from swerve.methods.deeptest import OWN, WITHIN
from swerve.report.cells import Row
from swerve.report.experiment_page import TablePanel

TOLERANCES = (2, 5, 10, 20, 30)  # degrees of the wheel
SLACK = 1e-9  # degrees: rounding error of the conversion to radians and back
COLUMNS = ("model", "change", "follow-ups", *(f"> {degrees}°" for degrees in TOLERANCES))
NOTE = (
    "follow-ups whose answer differs from that to the untouched image by more than so many degrees of the wheel; labels and "
    "Eq. 3 are not used; guided: the images that the first search kept"
)


def sheet(setting: Setting, all_tested: Sequence[DeepTestRuns]) -> TablePanel:
    """The number of follow-ups that moved the answer by more than each tolerance, by model and change."""
    rows = tuple(row for tested in all_tested for row in _rows(tested))
    csv = setting.table("shifts", COLUMNS, rows)
    return TablePanel("How far changes move the answer", COLUMNS, rows, NOTE, csv=csv)


def describe_shifts(all_tested: Sequence[DeepTestRuns]) -> str:
    """How many follow-ups of each kind moved the answer by more than the default tolerance."""
    found: dict[str, list[Array]] = {"simple": [_moved(tested.angles) for tested in all_tested]}
    for tested in all_tested:
        for name, angles in _others(tested):
            found.setdefault(name, []).append(_moved(angles))
    counts = {name: np.concatenate(some) for name, some in found.items()}
    parts = (f"{int((some > WITHIN + SLACK).sum()):,} of {len(some):,} {name}" for name, some in counts.items())
    return f"{', '.join(parts)} follow-ups move the model's own answer by more than {WITHIN:g}°"


def _rows(tested: DeepTestRuns) -> Iterator[Row]:
    simple = ((_plain(rule), tested.angles.of(rule)) for rule in tested.angles.rules)
    for name, angles in (*simple, *_others(tested)):
        moved = _moved(angles)
        yield (tested.name, name, len(moved), *(int((moved > degrees + SLACK).sum()) for degrees in TOLERANCES))


def _others(tested: DeepTestRuns) -> Iterator[tuple[str, Angles]]:
    """The other follow-ups: fog, rain, and the images that the guided search kept."""
    for rule in tested.weather_angles.rules:
        yield _plain(rule), tested.weather_angles.of(rule)
    if tested.guided_angles:
        yield "guided", tested.guided_angles


def _plain(rule: str) -> str:
    """The name of a change without its way of judging."""
    return rule.removesuffix(f", {OWN}")


def _moved(angles: Angles) -> Array:
    """|answer before - answer after| of every follow-up, degrees of the wheel."""
    return np.asarray(np.degrees(np.abs(angles.before - angles.after)))
