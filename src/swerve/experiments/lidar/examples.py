"""What lost obstacles look like: the frame and its follow-up from above, beside what the camera saw (LM-11)."""

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
    """Of each system the frames in which most vanished."""
    parts = tuple(made for tested in all_tested if (made := _pictures(tested)).items)
    return Section("What lost obstacles look like", (TEXT,), parts, "" if parts else "no obstacle was lost")


TEXT = (
    "Left the frame with what was seen in it, right the same with the added points, yellow. The region is "
    "shaded: no point lies in it. Cars are green, pedestrians pink, cyclists blue, all else purple; what was lost is "
    "dashed in red, what moved in light blue, what changed its type in white, also in the camera's frame, which is left out "
    "where it shows none of it. Ahead is up, the triangle is "
    "the sensor."
)


def _pictures(tested: LidarRuns) -> PicturePanel:
    rows = chosen(row for run in tested.runs.values() for row in run.trials())
    return PicturePanel(tested.name, tuple((_caption(row), _drawn(tested, row)) for row in rows), across=1)


def chosen(rows: Iterable[Trial], most: int = EACH) -> list[Trial]:
    """The frames in which most vanished: one of each series first, each another case where that is possible."""
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
    """What vanished counts before what was merged with a neighbour."""
    return row["facts"]["vanished"], row["facts"]["lost"]


def _caption(row: Trial) -> str:
    return f"{row['rule']}: {row['why']}, {row['facts']['vanished']:.0f} of the lost vanished; {row['case']}"


def _drawn(tested: LidarRuns, row: Trial) -> Array:
    record = record_of(dict(row))
    assert record.change
    case = tested.subject.source[record.trial.case]
    region = tested.regions[record.trial.case]
    before, after = (in_region(boxes_of(decode_values(row[end])), region) for end in ("before", "after"))
    camera = pictured(tested.subject, case)
    return before_after(case, record.change(case), before, after, facts=record.facts, pictured=camera)
