"""The series of one system, and what happened to the obstacles of every frame, from the facts of the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from swerve.analysis.obstacle_frames import Frame
from swerve.config.toml import Builder
from swerve.core.region import region_of
from swerve.core.relation import Status
from swerve.experiments import Results, SubjectRuns, read_printed, table
from swerve.methods.lidar import SERIES, rule_name
from swerve.store.view import Run

PAPER = read_printed(Path(__file__).with_name("paper.toml"))
RANKING = ("car", "pedestrian", "cyclist", "unknown")  # by error rate in the paper, highest first, all above 0: Fig. 3
NEAR = 5.0  # metres from the border
ANYWHERE, CLOSE = "anywhere", f"within {NEAR:g} m"
PLACEMENTS: Mapping[str, float | None] = {ANYWHERE: None, CLOSE: NEAR}
MOST = max(SERIES)
NOTHING = "none (A/A)"
Trial = Mapping[str, Any]  # a row of the journal


class LidarRuns(SubjectRuns):
    """A system with its series: points anywhere outside, and points near the border."""

    # Whether no point outside the region can have an effect on the system, by construction.
    is_safe = property(lambda self: bool(getattr(self.subject.system, "roi_first", False)))

    def trials(self) -> Iterator[tuple[tuple[str, int], Trial]]:
        """The judged trials of both runs, with placement and n."""
        for placement, near in PLACEMENTS.items():
            numbers = {rule_name(n, near): n for n in SERIES}
            yield from (((placement, numbers[row["rule"]]), row) for row in judged(self.runs[placement]))

    @cached_property
    def builders(self) -> Mapping[str, Builder]:
        """What rebuilds the changes of each rule."""
        each = {placement: self.runs[placement].builder() for placement in PLACEMENTS}
        return {rule_name(n, near): each[placement] for placement, near in PLACEMENTS.items() for n in SERIES}

    @cached_property
    def series(self) -> Mapping[tuple[str, int], list[Frame]]:
        """The judged frames of every placement and n."""
        found: dict[tuple[str, int], list[Frame]] = {(placement, n): [] for placement in PLACEMENTS for n in SERIES}
        for key, row in self.trials():
            found[key].append(Frame.of_row(row))
        return found

    @cached_property
    def again(self) -> list[Frame]:
        """A/A: the untouched frames, answered once in each run."""  # X-12, D-20
        baselines = (self.runs[placement].baseline() for placement in PLACEMENTS)
        first, second = ({seen.case: seen for seen in baseline if not seen.fault} for baseline in baselines)
        both = [(case, seen, second[case].answer) for case, seen in first.items() if case in second]
        regions = {case: region_of(self.subject.source[case]) for case, *_ in both}
        return [Frame.of(case, seen.answer, after, seen.truth, regions[case]) for case, seen, after in both]

    @property
    def every(self) -> Mapping[tuple[str, int], list[Frame]]:
        """A/A, then all series."""
        return {(NOTHING, 0): self.again, **self.series}

    @cached_property
    def kinds(self) -> list[str]:
        """The types that occur: the paper's in their order, then others."""
        names = {name.partition(".") for frames in self.every.values() for frame in frames for name in frame.facts}
        found = {kind for end, _, kind in names if kind and end in ("before", "after")}
        return [*(kind for kind in RANKING if kind in found), *sorted(found - {*RANKING})]


Lidars = Results[LidarRuns]
system_table = partial(table, each="system")


def judged(run: Run) -> Iterator[Trial]:
    """The judged trials of a run."""
    return (row for row in run.trials() if row["status"] in (Status.HELD.value, Status.VIOLATED.value))
