"""Examples of lost obstacles: the frame and its follow-up from above, beside the camera image."""
# LM-11

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import chain

from swerve.core.encode import decode_values
from swerve.core.region import region_of
from swerve.core.values import Array
from swerve.experiments import pictures, question
from swerve.experiments.lidar.subject_runs import LidarRuns, Lidars, Trial
from swerve.relations.obstacles import boxes_of, in_region
from swerve.report.birdseye import before_after
from swerve.report.followups import pictured
from swerve.store.record_json import record_of

EACH = 4  # of a system


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


@pictures()
def _pictures(one: LidarRuns) -> Iterator[tuple[str, Array]]:
    for row in chosen(row for _, row in one.trials()):
        gone = "{rule}: {why}, {facts[vanished]:.0f} of the lost ones vanished; {case}"
        yield gone.format_map(row), _picture(one, row)


def _picture(one: LidarRuns, row: Trial) -> Array:
    record, case = record_of(dict(row), one.builders[row["rule"]]), one.subject.source[row["case"]]
    assert record.change
    before, after = (in_region(boxes_of(decode_values(row[end])), region_of(case)) for end in ("before", "after"))
    camera = pictured(one.subject.source, case)
    return before_after(case, record.change(case), before, after, facts=record.facts, pictured=camera)


@question("Examples of lost obstacles", _pictures)
def examples(results: Lidars) -> str:
    """Left: the frame with the detected obstacles; right: the same with the added points in yellow. The region is shaded; no
    added point lies in it. Cars are green, pedestrians pink, cyclists blue, all others purple. Lost obstacles are dashed in
    red, moved ones in light blue, those of another type in white, also in the camera image, which is left out if it shows
    none of them. Ahead is up, the triangle is the sensor."""
    lost = any(frame.count("lost") for one in results for frames in one.series.values() for frame in frames)
    return "" if lost else "no obstacle was lost"
