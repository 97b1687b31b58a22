"""What lost obstacles look like: the frame and its follow-up from above, beside what the camera saw (LM-11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swerve.codec import decode_values
from swerve.experiments.lidar.fewest import pictured
from swerve.experiments.lidar.tested import Tested, Trial, boxes_of
from swerve.relations.obstacles import in_region
from swerve.report.birdseye import before_after
from swerve.report.experiment import Pictures, Section
from swerve.rows import record_of
from swerve.values import Array

EACH = 4  # of a system


def section(all_tested: Sequence[Tested]) -> Section:
    """Of every series the frame that lost most."""
    parts = tuple(made for tested in all_tested if (made := _pictures(tested)).items)
    return Section("What lost obstacles look like", (TEXT,), parts, "" if parts else "no obstacle was lost")


TEXT = (
    "Left the frame with what was seen in it, right the same with the added points, yellow. The region is "
    "shaded: no point lies in it. Cars are green, pedestrians pink, cyclists blue, all else purple; what was lost is "
    "dashed in red. Ahead is up, the triangle is the sensor."
)


def _pictures(tested: Tested) -> Pictures:
    rows = sorted(_worst(tested), key=lambda row: row["facts"]["added"])[:EACH]
    return Pictures(tested.name, tuple((_caption(row), _drawn(tested, row)) for row in rows), across=1)


def _worst(tested: Tested) -> Iterator[Trial]:
    """Of each rule the frame that lost most, those that vanished before those merged with a neighbour."""
    for run in tested.runs.values():
        best: dict[str, Trial] = {}
        for row in run.trials():
            if row["status"] != "violated" or not row["facts"]["lost"]:
                continue
            if row["rule"] not in best or _loss(row) > _loss(best[row["rule"]]):
                best[row["rule"]] = row
        yield from best.values()


def _loss(row: Trial) -> tuple[float, float]:
    return row["facts"]["vanished"], row["facts"]["lost"]


def _caption(row: Trial) -> str:
    return f"{row['rule']}: {row['why']}, {row['facts']['vanished']:.0f} of the lost vanished; {row['case']}"


def _drawn(tested: Tested, row: Trial) -> Array:
    record = record_of(dict(row))
    assert record.change
    case = tested.subject.source[record.trial.case]
    region = tested.regions[record.trial.case]
    before, after = (in_region(boxes_of(decode_values(row[end])), region) for end in ("before", "after"))
    return before_after(case, record.change(case), before, after, pictured=pictured(tested.subject, case))
