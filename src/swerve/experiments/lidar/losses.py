"""Are obstacles lost? The paper's table and Fig. 3 by counting, beside the counts of unchanged frames (A/A)."""
# LM-6 to LM-9

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from swerve.analysis.statistics import sign_test, wilson
from swerve.experiments.lidar.paper_values import FRAMES, RANKING, TABLE
from swerve.experiments.lidar.subject_runs import ANYWHERE, NOTHING, Frame, LidarRuns
from swerve.experiments.setting import Setting
from swerve.relations.obstacles import ALL
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars, stacked
from swerve.report.experiment_page import ChartPanel, Section, TablePanel

OUTCOMES = ("lost", "equal", "gained")
PRINTED = tuple(f"printed {name}" for name in OUTCOMES)
COLUMNS = (
    *("system", "placement", "n", "frames", *OUTCOMES, "rate", "low", "high", "A/A rate", "sign test p"),
    *("answers changed", *PRINTED),
)
FIG_3 = ("system", "placement", "n", "type", "frames", *OUTCOMES, "rate", "low", "high", "A/A rate", "before", "after")
FORMATS = {"rate": ".1%", "low": ".1%", "high": ".1%", "A/A rate": ".1%"}
MOST = max(TABLE)


def section(setting: Setting, all_tested: Sequence[LidarRuns]) -> Section:
    """Lost, equal and gained for every system, placement and n; and per type."""
    rows = tuple(row for tested in all_tested for row in _table(tested))
    types = tuple(row for tested in all_tested for row in _figure_3(tested))
    parts = (
        TablePanel("Table: frames with fewer, equally many and more obstacles than before", COLUMNS, rows, NOTE,
              printed=PRINTED, csv=setting.table("table", COLUMNS, rows), formats={**FORMATS, "sign test p": ".2g"}),
        ChartPanel("Frames that lost obstacles, by counting", bars(_bars(all_tested), percent=True), "95% Wilson intervals"),
        ChartPanel(f"Fig. 3: lost, equal and gained, {MOST:,} points anywhere", stacked(_shares(all_tested))),
        TablePanel("Fig. 3: the same by type", FIG_3, types, NOTE_3, csv=setting.table("fig3", FIG_3, types),
              formats=FORMATS, main=False),
    )  # fmt: skip
    return Section("Do points outside the region hide obstacles within it?", TEXT, parts, _answer(all_tested))


TEXT = (
    "MR1: every obstacle detected in a sweep must still be detected when points are added outside the region of interest. "
    "As in the paper, numbers are compared: fewer obstacles than before are a violation. In the A/A row each untouched "
    "frame is answered a second time: its losses are noise of the system, not an effect of points. Obstacles that do not "
    "touch the region do not count.",
)
# D-20
NOTE = (
    "rate: frames with fewer obstacles, with its 95% Wilson interval; sign test: whether losses and gains are equally "
    "likely, as they would be by noise; answers changed: frames whose answers before and after differ in any bit of boxes, "
    "types or scores. The printed numbers are of Apollo on real sweeps: compare their pattern, not their size"
)
NOTE_3 = f"before and after: obstacles of the type in all frames; the paper ranks error rates {' > '.join(RANKING)}"


def outcomes(frames: Sequence[Frame], kind: str = ALL) -> Counter[str]:
    """The numbers of frames with fewer, equally many and more obstacles of a type."""
    return Counter(frame.counts[kind].outcome if kind in frame.counts else "equal" for frame in frames)


def rate(frames: Sequence[Frame], kind: str = ALL) -> float | None:
    """The share of frames with fewer obstacles."""
    return outcomes(frames, kind)["lost"] / len(frames) if frames else None


def changed(frames: Sequence[Frame]) -> int:
    """The number of frames whose answers before and after differ in any bit."""
    return sum(frame.changed for frame in frames)


def _interval(successes: int, trials: int) -> tuple[float | None, float | None]:
    return wilson(successes, trials) if trials else (None, None)


def _row(frames: Sequence[Frame], kind: str = ALL) -> Row:
    """Frames, the three columns, and the rate with its interval."""
    counts = outcomes(frames, kind)
    return (len(frames), *(counts[name] for name in OUTCOMES), rate(frames, kind), *_interval(counts["lost"], len(frames)))


def _table(tested: LidarRuns) -> Iterator[Row]:
    floor = rate(tested.again)
    yield (tested.name, NOTHING, 0, *_row(tested.again), floor, _p(tested.again), changed(tested.again), None, None, None)
    for (placement, n), frames in tested.series.items():
        printed = TABLE.get(n, (None,) * 3) if placement == ANYWHERE else (None,) * 3
        yield (tested.name, placement, n, *_row(frames), floor, _p(frames), changed(frames), *printed)


def _p(frames: Sequence[Frame]) -> float | None:
    counts = outcomes(frames)
    return sign_test(counts["lost"], counts["gained"]).p


def _figure_3(tested: LidarRuns) -> Iterator[Row]:
    every = {(NOTHING, 0): tested.again, **tested.series}
    for (placement, n), frames in every.items():
        for kind in kinds_of(tested):
            counts = [frame.counts[kind] for frame in frames if kind in frame.counts]
            totals = sum(count.before for count in counts), sum(count.after for count in counts)
            yield (tested.name, placement, n, kind, *_row(frames, kind), rate(tested.again, kind), *totals)


def kinds_of(tested: LidarRuns) -> list[str]:
    """The types that occur: the paper's in their order, then others."""
    frames = [frame for series in (tested.again, *tested.series.values()) for frame in series]
    found = {kind for frame in frames for kind in frame.counts if kind != ALL}
    return [*(kind for kind in RANKING if kind in found), *sorted(found - {*RANKING})]


def _bars(all_tested: Sequence[LidarRuns]) -> dict[str, dict[str, Bar]]:
    return {
        f"{tested.name}, {placement}": {
            f"{n:,} points": _bar(frames, TABLE[n][0] / FRAMES if placement == ANYWHERE and n in TABLE else None)
            for (where, n), frames in tested.series.items()
            if where == placement
        }
        for tested in all_tested
        for placement in tested.runs
    }


def _bar(frames: Sequence[Frame], printed: float | None) -> Bar:
    return Bar.rate(outcomes(frames)["lost"], len(frames), printed=printed)


def _shares(all_tested: Sequence[LidarRuns]) -> dict[str, dict[str, float]]:
    found = {}
    for tested in all_tested:
        frames = tested.series[ANYWHERE, MOST]
        for kind in (ALL, *kinds_of(tested)):
            counts = outcomes(frames, kind)
            found[f"{tested.name}, {kind}"] = {name: float(counts[name]) for name in OUTCOMES}
    return found


def _answer(all_tested: Sequence[LidarRuns]) -> str:
    return "; ".join(_describe_losses(tested) for tested in all_tested)


def _describe_losses(tested: LidarRuns) -> str:
    """Such as `lidar lost obstacles in 0.2/1.0/6.0% anywhere and … of the frames (10/100/1,000 points; A/A 0.0%)`."""
    parts = []
    for placement in tested.runs:
        series = {n: frames for (where, n), frames in tested.series.items() if where == placement}
        shares = "/".join("–" if (share := rate(frames)) is None else f"{100 * share:.1f}" for frames in series.values())
        parts.append(f"{shares}% {placement}")
    floor = rate(tested.again)
    aa = "unknown" if floor is None else f"{floor:.1%}"
    text = f"{tested.name} lost obstacles in {' and '.join(parts)} of the frames (10/100/1,000 points; A/A {aa})"
    return f"{text}, {_describe_changed(tested)}" if tested.safe else text


def _describe_changed(tested: LidarRuns) -> str:
    """How many answers of a system that no outside point can reach differ: no bit may."""
    frames = [frame for series in tested.series.values() for frame in series]
    count = changed(frames)
    if not count:
        return f"and of its {len(frames):,} answers exactly 0 differ in any bit"
    return f"but {count:,} of its {len(frames):,} answers differ, although no point outside should reach it"
