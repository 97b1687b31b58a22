"""How few points hide an obstacle? A search around the weakest; each find is shrunk by delta debugging and confirmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swerve.core.campaign import Campaign
from swerve.core.region import region_of
from swerve.core.values import Array
from swerve.execution.fewest_points import AttackOutcome, FewestPoints, fewest_points
from swerve.experiments import Row, Subject, pictures, question
from swerve.experiments.lidar.subject_runs import NEAR, LidarRuns, Lidars, system_table
from swerve.methods.lidar import lidar
from swerve.relations.obstacles import in_region
from swerve.report.birdseye import around, before_after
from swerve.report.followups import pictured
from swerve.sources.subset import Subset

RUN = "fewest"
SHOWN = 6


def search_for_fewest(one: LidarRuns) -> Campaign:
    """The campaign of the search."""
    search, some = one.setting.size.search, Subset(one.subject.source, one.setting.size.searched)
    return lidar(some, one.subject.system, n=search.points, near=NEAR, search=search, seed=one.setting.seed)


def searched(results: Lidars) -> list[LidarRuns]:
    """The systems that were searched."""
    return [one for one in results if RUN in one.runs]


def found_by(one: LidarRuns) -> FewestPoints:
    """What came of the search."""
    return fewest_points(search_for_fewest(one), one.runs[RUN], one.setting.progress)


@system_table(title="The search", of=searched, formats={"median": ".1f"}, optional=True)
def _summary(one: LidarRuns) -> Iterator[Row]:
    """considered: obstacles that could be hidden; tried: those that the search tried to hide; tries: forward passes of the
    search, without those of shrinking; vanished: confirmed ones without another box in their place, while the others were
    merged into a neighbour or split; points: of the hidden obstacles, after shrinking"""
    found = one.once(found_by)
    counts = [len(item.places) for item in found.hidden]
    fates = {"confirmed": sum(item.confirmed for item in found.hidden), "vanished": len(found.vanished)}
    points = (min(counts), float(np.median(counts)), max(counts)) if counts else (None,) * 3
    yield {
        **{"frames": found.frames, "considered": found.considered, "tried": len(found.targets), "tries": found.tries},
        **{"hidden": len(counts), **fates, **dict(zip(("fewest", "median", "most points"), points, strict=True))},
    }


PLACES = {"x": ".1f", "y": ".1f", "score": ".2f", "metres to the nearest": ".1f"}
TRIED = "Obstacles that the search tried to hide"


@system_table("fewest", TRIED, of=searched, formats=PLACES, main=False, optional=True)
def _fewest(one: LidarRuns) -> Iterator[Row]:
    for item in one.once(found_by).targets:
        attack, hidden = item.attack, item.points is not None
        x, y = (float(part) for part in attack.box[:2])
        fate = len(item.places), item.shrunk.tries if item.shrunk else None, item.confirmed, item.vanished
        columns = ("points", "shrinking tries", "confirmed", "vanished")
        away = np.hypot(*(item.places[:, :2] - attack.box[:2]).T)
        yield {
            **{"case": attack.case, "type": item.kind, "x": x, "y": y, "score": attack.score, "tries": attack.tries},
            **{"hidden": hidden, **dict(zip(columns, fate if hidden else (None,) * 4, strict=True))},
            **{"real": item.real, "metres to the nearest": float(away.min()) if len(away) else None},
        }


def shown(found: FewestPoints) -> list[AttackOutcome]:
    """The examples to show: vanished ones first, by the number of points."""
    return sorted((item for item in found.hidden if item.confirmed), key=lambda item: not item.vanished)[:SHOWN]


@pictures("{name}: before and after the fewest points", of=searched)
def _pictures(one: LidarRuns) -> Iterator[tuple[str, Array]]:
    return ((_caption(item), _picture(one.subject, item)) for item in shown(one.once(found_by)))


def _caption(item: AttackOutcome) -> str:
    points = f"{len(item.places)} point{'' if len(item.places) == 1 else 's'}"
    x, y = item.attack.box[:2]
    name, fate = item.kind.replace("unknown", "obstacle"), "has vanished" if item.vanished else "was merged or split"
    return f"{points} outside the region: the {name} at ({x:.1f}, {y:.1f}) m {fate}; {item.attack.case}"


def _picture(subject: Subject, item: AttackOutcome) -> Array:
    assert item.seen
    seen = item.seen
    view, camera = around(seen.before, [item.attack.row], item.places), pictured(subject.source, seen.case)
    before, after = (in_region(boxes, region_of(seen.case)) for boxes in (seen.before, seen.after))
    return before_after(seen.case, seen.followup, before, after, view=view, pictured=camera)


@question("How few points does it take?", _summary, _fewest, _pictures)
def how_few_points(results: Lidars) -> str:
    """Sets of points are placed beside the weakest labelled obstacles (low scores, few beams). An evolutionary search keeps
    the sets that weaken their obstacle most, and a set that hides one is shrunk by delta debugging until no single point can
    be left out. Then the points are placed one by one and the whole frame is answered once more. All points lie outside the
    region. Obstacles that do not touch the region are left out."""
    return "; ".join(f"{one.name}: {_describe(one.once(found_by))}" for one in searched(results)) or "not run"


def _describe(one: FewestPoints) -> str:
    """Such as `4 hidden with 1 to 7 points each (4 confirmed, 2 vanished with 3 points each) of 24 …`."""
    tried = f"{len(one.targets)} obstacles tried ({one.considered} considered, {one.tries:,} forward passes)"
    if not one.hidden:
        return f"none hidden of {tried}"
    confirmed, kinds = sum(item.confirmed for item in one.hidden), {"hidden": one.hidden, "vanished": one.vanished}
    hidden, vanished = (f"{len(items)} {how}{_with_points(items)}" for how, items in kinds.items())
    return f"{hidden} ({confirmed} confirmed, {vanished}) of {tried}"


def _with_points(items: Sequence[AttackOutcome]) -> str:
    """Such as ` with 1 to 7 points each`, empty without items; they come fewest points first."""
    if not items:
        return ""
    least, most = len(items[0].places), len(items[-1].places)
    return f" with {least if least == most else f'{least} to {most}'} point{'' if most == 1 else 's'} each"
