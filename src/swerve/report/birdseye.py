"""Bird's-eye pictures of sweeps before and after a change: points, the region, and boxes in the paper's colours."""
# LM-1, LM-11

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import cv2
import numpy as np

from swerve.core.case import Case, Fact
from swerve.core.region import Bitmap, region_of
from swerve.core.values import Array, Boxes3D, Region
from swerve.relations.sets import missing_rows
from swerve.report.frontview import dash, outlined
from swerve.transformations.points import clouds_of

Colour = tuple[int, int, int]
COLOURS: Mapping[str, Colour] = MappingProxyType(
    {"car": (60, 200, 80), "pedestrian": (255, 120, 190), "cyclist": (80, 150, 255), "unknown": (170, 100, 230)}
)
OTHER: Colour = COLOURS["unknown"]
NIGHT: Colour = (16, 18, 22)
SHADE: Colour = (38, 48, 58)  # the region
DUST: Colour = (150, 156, 164)  # points of the sweep
ADDED: Colour = (255, 200, 40)
GONE: Colour = (255, 60, 50)
MOVED: Colour = (70, 230, 230)
RETYPED: Colour = (245, 245, 245)
MARKS: Mapping[str, Colour] = MappingProxyType({"lost": GONE, "moved": MOVED, "type_changed": RETYPED})
NOTHING_MARKED: Mapping[str, Boxes3D] = MappingProxyType({})
NO_FACTS: Mapping[str, Fact] = MappingProxyType({})
SIDE = 420  # pixels
GAP = 6
CROWD = 200  # added points beyond which each is drawn as a small dot
BROAD = 40.0  # metres each way of the widest view, which is also the default
LEAST = 12.0  # of the narrowest


@dataclass(frozen=True)
class GroundView:
    """A square of ground: its centre and its reach each way, in metres; ahead is up, left is left."""

    x: float = 0.0
    y: float = 0.0
    reach: float = BROAD
    side: int = SIDE

    def pixels(self, xy: Array) -> Array:
        """Column and row of each point, n x 2, as floats."""
        away = np.asarray(xy, np.float64).reshape(-1, 2)[:, ::-1]
        found: Array = (np.array([self.y, self.x]) + self.reach - away) * self.side / (2 * self.reach)
        return found

    def shaded(self, region: Region) -> Array:
        """Which pixels lie in the region."""
        low, high = (self.x - self.reach, self.y - self.reach), (self.x + self.reach, self.y + self.reach)
        cells = Bitmap.of(region, low, high, 2 * self.reach / self.side).cells
        return np.ascontiguousarray(cells.T[::-1, ::-1])[: self.side, : self.side]


def around(boxes: Boxes3D, rows: Iterable[int], added: Array | None = None) -> GroundView:
    """A view of some boxes and of the nearest added point."""
    chosen = boxes.xyzlwhy[list(rows)]
    if not len(chosen):
        return GroundView()
    x, y = chosen[:, :2].mean(axis=0)
    spread = float(np.abs(chosen[:, :2] - [x, y]).max()) + 8.0
    if added is not None and len(added):
        spread = max(spread, float(np.hypot(*(added[:, :2] - [x, y]).T).min()) + 4.0)
    return GroundView(float(x), float(y), min(max(spread, LEAST), BROAD))


def birdseye(
    xyzi: Array,
    boxes: Boxes3D | None = None,
    *,
    region: Region | None = None,
    added: Array | None = None,
    marked: Mapping[str, Boxes3D] = NOTHING_MARKED,
    view: GroundView | None = None,
) -> Array:
    """The picture of one sweep, RGB: `added` points stand out, `marked` boxes are dashed in the colours of `MARKS`."""
    view = view or GroundView()
    canvas = _ground(view, region)
    _dots(canvas, xyzi, view, DUST)
    _sensor(canvas, view)
    if added is not None:
        _points(canvas, added, view)
    for corners, colour in _outlines(boxes):
        cv2.polylines(canvas, [_drawn(corners[:4], view)], True, colour, 2, cv2.LINE_AA)
        cv2.polylines(canvas, [_drawn(corners[4:], view)], False, colour, 2, cv2.LINE_AA)
    for name, chosen in marked.items():
        for corners, _ in _outlines(chosen):
            _dashed(canvas, view.pixels(corners[:4]), MARKS[name])
    return canvas


@dataclass(frozen=True)
class AnsweredSweep:
    """A sweep, the boxes predicted for it, and the region, if it is known."""

    xyzi: Array
    boxes: Boxes3D
    region: Region | None = None


@dataclass(frozen=True)
class AnsweredPair:
    """A source and its follow-up, and which boxes the verdict misses in the latter.

    `expected` is the answer on the source as the change maps it; without it, it is that answer itself if the change only
    added points, and unknown after any other change. `facts` are the verdict's; without them, boxes are matched as
    `swerve.relations.sets.Superset` matches them.
    """

    source: AnsweredSweep
    followup: AnsweredSweep
    mapped: Boxes3D | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @cached_property
    def added(self) -> Array | None:
        """The points that the change added, if it did nothing else."""
        return appended(self.source.xyzi, self.followup.xyzi)

    @cached_property
    def expected(self) -> Boxes3D | None:
        """The answer that the follow-up should get, None if it is unknown."""
        return self.source.boxes if self.mapped is None and self.added is not None else self.mapped

    @cached_property
    def missing(self) -> dict[str, tuple[int, ...]]:
        """The rows of `expected` that were lost, changed their type or moved."""
        if self.expected is None:
            return {}
        return missing_rows(self.expected, self.followup.boxes, self.followup.region, self.facts)

    @property
    def marked(self) -> dict[str, Boxes3D]:
        """The boxes of `missing`, where there are any."""
        boxes = self.expected
        return {name: _some(boxes, rows) for name, rows in self.missing.items() if rows} if boxes is not None else {}

    def views(self, view: GroundView | None = None) -> tuple[Array, Array]:
        """Both sweeps from above, as wide as what went wrong; what is missing in the follow-up is dashed there."""
        near, far = (view, view) if view else self._views()
        kept = self.followup.xyzi if self.added is None else self.source.xyzi
        after, region = self.followup.boxes, self.followup.region
        return (
            birdseye(self.source.xyzi, self.source.boxes, region=self.source.region, view=near),
            birdseye(kept, after, region=region, added=self.added, marked=self.marked, view=far),
        )

    def _views(self) -> tuple[GroundView, GroundView]:
        """The same obstacles where they were and where they should be, at one scale."""
        rows = sorted({row for rows in self.missing.values() for row in rows})
        far = around(self.expected, rows, self.added) if self.expected is not None else GroundView()
        if self.expected is None or self.expected.kinds != self.source.boxes.kinds:  # the change adds or removes obstacles
            return far, far
        near = around(self.source.boxes, rows, self.added)
        reach = max(near.reach, far.reach)
        return replace(near, reach=reach), replace(far, reach=reach)


def appended(xyzi: Array, changed: Array) -> Array | None:
    """The points of `changed` after those of `xyzi`; None unless it starts with exactly these."""
    return changed[len(xyzi) :] if changed[: len(xyzi)].tobytes() == xyzi.tobytes() else None


def before_after(
    case: Case,
    followup: Case,
    before: Boxes3D,
    after: Boxes3D,
    *,
    expected: Boxes3D | None = None,
    facts: Mapping[str, Fact] = NO_FACTS,
    view: GroundView | None = None,
    pictured: Case | None = None,
) -> Array:
    """A case and its follow-up side by side, as `AnsweredPair` draws them; the camera's image is shown left of them.

    If `case` has no camera, `pictured` is the same case with it. With a calibration, the missing boxes are dashed in the
    image too; an image in which none of them is visible is left out.
    """
    sides = ((case, before), (followup, after))
    source, changed = (AnsweredSweep(next(clouds_of(one)).xyzi, boxes, region_of(one)) for one, boxes in sides)
    pair = AnsweredPair(source, changed, expected, facts)
    panels = pair.views(view)
    marked = [(boxes, MARKS[name]) for name, boxes in pair.marked.items()]
    frame = outlined(pictured or case, marked, panels[0].shape[0])
    return _beside(panels if frame is None else [frame, *panels])


def _beside(panels: Sequence[Array]) -> Array:
    gap = np.full((panels[0].shape[0], GAP, 3), 255, np.uint8)
    return np.hstack([part for panel in panels for part in (panel, gap)][:-1])


def _some(boxes: Boxes3D, rows: Sequence[int]) -> Boxes3D:
    return Boxes3D(boxes.xyzlwhy[list(rows)], tuple(boxes.kinds[row] for row in rows))


def _ground(view: GroundView, region: Region | None) -> Array:
    shade = np.zeros((view.side, view.side), np.uint8) if region is None else view.shaded(region)
    return np.take(np.array([NIGHT, SHADE], np.uint8), shade.astype(np.uint8), axis=0)


def _dots(canvas: Array, xyzi: Array, view: GroundView, colour: Colour) -> None:
    """A pixel for every point, brighter where there are many."""
    with np.errstate(invalid="ignore"):
        column, row = np.floor(view.pixels(xyzi[:, :2])).T
        seen = (column >= 0) & (column < view.side) & (row >= 0) & (row < view.side)
    count = np.bincount((row[seen] * view.side + column[seen]).astype(np.intp))
    lit = np.flatnonzero(count)
    share = np.minimum(np.log1p(count[lit]) / np.log(12), 1)[:, None]
    flat = canvas.reshape(-1, 3)
    flat[lit] = np.rint(flat[lit] * (1 - share) + np.array(colour) * share)


def _points(canvas: Array, added: Array, view: GroundView) -> None:
    size = 1 if len(added) > CROWD else 3
    for column, row in np.rint(view.pixels(added[:, :2])).astype(int).tolist():
        if 0 <= column < view.side and 0 <= row < view.side:
            cv2.circle(canvas, (column, row), size, ADDED, -1, cv2.LINE_AA)


def _sensor(canvas: Array, view: GroundView) -> None:
    """A triangle at the LiDAR, pointing ahead."""
    corners = _drawn(np.array([[1.8, 0.0], [-1.2, 1.0], [-1.2, -1.0]]), view)
    cv2.polylines(canvas, [corners], True, (230, 230, 230), 1, cv2.LINE_AA)


def _outlines(boxes: Boxes3D | None) -> Iterable[tuple[Array, Colour]]:
    """Per box, its four corners followed by the line from its centre to its front."""
    for row, kind in zip(boxes.xyzlwhy, boxes.kinds, strict=True) if boxes else ():
        x, y, _, length, width, _, yaw = row
        shape = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1], [0, 0], [1, 0]]) * [length / 2, width / 2]
        turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
        yield shape @ turn + [x, y], COLOURS.get(kind.casefold(), OTHER)


def _drawn(corners: Array, view: GroundView) -> Array:
    found: Array = np.clip(np.rint(view.pixels(corners)), -9999, 9999).astype(np.int32)
    return found


def _dashed(canvas: Array, corners: Array, colour: Colour) -> None:
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        dash(canvas, start, end, colour)
