"""Examples of lost obstacles: the frame and its follow-up from above, beside the camera image."""
# LM-11

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import chain

from swerve.core.encode import decode_values
from swerve.core.values import Array
from swerve.experiments.lidar.fewest import pictured
from swerve.experiments.lidar.subject_runs import LidarRuns, Trial, boxes_of
from swerve.relations.obstacles import in_region
from swerve.report.birdseye import before_after
from swerve.report.experiment_page import PicturePanel, Section
from swerve.store.record_json import record_of

EACH = 4  # of a system


def section(all_tested: Sequence[LidarRuns]) -> Section:
    """For each system the frames in which most obstacles vanished."""
    parts = tuple(made for tested in all_tested if (made := _pictures(tested)).items)
    return Section("Examples of lost obstacles", (TEXT,), parts, "" if parts else "no obstacle was lost")


TEXT = (
    "Left: the frame with the detected obstacles; right: the same with the added points in yellow. The region is shaded; no "
    "added point lies in it. Cars are green, pedestrians pink, cyclists blue, all others purple. Lost obstacles are dashed "
    "in red, moved ones in light blue, those of another type in white, also in the camera image, which is left out if it "
    "shows none of them. Ahead is up, the triangle is the sensor."
)


def _pictures(tested: LidarRuns) -> PicturePanel:
    rows = chosen(row for run in tested.runs.values() for row in run.trials())
    return PicturePanel(tested.name, tuple((_caption(row), _picture(tested, row)) for row in rows), across=1)


def chosen(rows: Iterable[Trial], most: int = EACH) -> list[Trial]:
    """The frames in which most vanished: first one of each series, with different cases if possible."""
    best: dict[str, list[Trial]] = {}
    for row in rows:
        if row["status"] == "violated" and row["facts"]["lost"]:
            best[row["rule"]] = nlargest(most, [*best.get(row["rule"], ()), row], key=_loss)
    left = sorted(chain.from_iterable(best.values()), key=_loss, reverse=True)
    found: list[Trial] = []
    for names in (("rule", "case"), ("rule",), ("case",), ()):
        for row in left:
            fresh = all(row[name] != one[name] for name in names for one in found)
            if len(found) < most and fresh and row not in found:
                found.append(row)
    return sorted(found, key=_loss, reverse=True)


def _loss(row: Trial) -> tuple[float, float]:
    """Vanished obstacles count before those merged with a neighbour."""
    return row["facts"]["vanished"], row["facts"]["lost"]


def _caption(row: Trial) -> str:
    return f"{row['rule']}: {row['why']}, {row['facts']['vanished']:.0f} of the lost ones vanished; {row['case']}"


def _picture(tested: LidarRuns, row: Trial) -> Array:
    record = record_of(dict(row))
    assert record.change
    case = tested.subject.source[record.trial.case]
    region = tested.regions[record.trial.case]
    before, after = (in_region(boxes_of(decode_values(row[end])), region) for end in ("before", "after"))
    camera = pictured(tested.subject, case)
    return before_after(case, record.change(case), before, after, facts=record.facts, pictured=camera)
