"""Vehicle bodies: a shell with wheel arches, a cabin of glass and pillars, and patches on the shell.

Positions along a body are shares of its length, 0 at the nose and 1 at the tail. Seen from above, the shell is a
superellipse; each height has its own inset, at the sides and at the ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.shapes import box, grid, lathe, lying, net, recoloured

ROUND = 3.0  # the superellipse's exponent across
LEDGE = 0.002  # metres between the cabin's foot and the shell's upper edge
CROWN = 0.05  # metres by which a roof is higher in its middle
GLASS = (0.018, 0.026, 0.036)
BLACK = (0.012, 0.012, 0.013)
WELL = (0.006, 0.006, 0.006)
RUBBER = (0.018, 0.018, 0.019)
ENDS = np.array([0, 0.42, 0.76, 0.93])  # where nose and tail bend, as shares of the half width
ARCH_ANGLES = np.radians([0, 36, 72, 108, 144, 180])


@dataclass(frozen=True)
class Body:
    """The dimensions of a body; lengths in metres.

    Args:
        size: length, width and height.
        belt: the shell's upper edge as (share, height), from nose to tail.
        cabin: the shares of the windscreen's foot and head and of the rear window's head and foot.
        section: per height, the insets at the sides, the nose and the tail; the first height is the sill's.
        corners: how square nose and tail are, seen from above.
        axles: their positions, followed by the wheel radius.
        roof: the roof's width as a share of the body's, ahead and behind.
        windows: side windows as ranges along the cabin, then their lower and upper edge as shares of its height.
        back: the same for the rear window, ranges from -1 to 1.
        dome: metres by which bonnet and boot are higher in their middle.
    """

    size: tuple[float, float, float]
    belt: tuple[tuple[float, float], ...]
    cabin: tuple[float, float, float, float]
    section: tuple[tuple[float, float, float, float], ...]
    corners: tuple[float, float]
    axles: tuple[float, ...]
    roof: tuple[float, float]
    windows: tuple[tuple[tuple[float, float], ...], tuple[float, float]]
    back: tuple[tuple[tuple[float, float], ...], tuple[float, float]]
    dome: float = 0.04
    bows: tuple[float, float] = (0.16, 0.08)

    def x(self, share: float) -> float:
        """The x coordinate of a share of the length."""
        return self.size[0] * (0.5 - share)

    @property
    def wheels(self) -> tuple[float, ...]:
        """The x coordinates of the axles."""
        return tuple(self.x(share) for share in self.axles[:-1])

    @property
    def arch(self) -> float:
        """The radius of the wheel arches."""
        return self.axles[-1] * 1.13

    def top(self, x: Array) -> Array:
        """The height of the shell's upper edge."""
        shares, heights = np.array(self.belt).T
        return np.asarray(np.interp(0.5 - x / self.size[0], shares, heights))

    def low(self, x: Array) -> Array:
        """The height of the shell's lower edge: the sill, and the arches."""
        lowest = np.full(np.shape(x), self.section[0][0])
        for axle in self.wheels:
            room = self.arch**2 - (x - axle) ** 2
            lowest = np.where(room > -1e-9, np.maximum(lowest, self.axles[-1] + np.sqrt(np.maximum(room, 0))), lowest)
        return lowest

    def at_side(self, x: object) -> Array:
        """Points (x, y) of the left outline for these x."""
        xs = np.asarray(x, float)
        power = np.where(xs > 0, *self.corners)
        y = self.size[1] / 2 * (1 - np.abs(2 * xs / self.size[0]) ** power) ** (1 / ROUND)
        return np.stack([xs, y], axis=-1)

    def at_end(self, across: object, *, front: bool) -> Array:
        """Points (x, y) of nose or tail for these shares of the half width."""
        share = np.asarray(across, float)
        power = self.corners[0 if front else 1]
        x = self.size[0] / 2 * (1 - np.abs(share) ** ROUND) ** (1 / power)
        return np.stack([x if front else -x, share * self.size[1] / 2], axis=-1)

    def skin(self, outline: Array, z: object, *, lift: float = 0.0) -> Array:
        """Points of the shell: one row per point of the outline, one column per height; `lift` moves them outwards."""
        levels_of = np.asarray(z, float)
        heights = np.broadcast_to(levels_of, (len(outline), levels_of.shape[-1]))
        levels, side, nose, tail = np.array(self.section).T
        outward = self._outward(outline)[:, None]
        end = np.where(outline[:, :1] > 0, np.interp(heights, levels, nose), np.interp(heights, levels, tail))
        inset = np.abs(outward[..., 1]) * np.interp(heights, levels, side) + np.abs(outward[..., 0]) * end - lift
        return np.concatenate([outline[:, None] - outward * inset[..., None], heights[..., None]], axis=2)

    def _outward(self, outline: Array) -> Array:
        half = np.array(self.size[:2]) / 2
        power = np.stack([np.where(outline[:, 0] > 0, *self.corners), np.full(len(outline), ROUND)], axis=1)
        slope = np.sign(outline) * power / half * np.abs(outline / half) ** (power - 1)
        return np.asarray(slope / np.linalg.norm(slope, axis=1, keepdims=True))

    def outline(self, *, arches: bool = True) -> Array:
        """The left half's outline from the nose's middle to the tail's, with a point wherever an edge bends."""
        front, rear = self.at_end(ENDS, front=True), self.at_end(ENDS[::-1], front=False)
        bends = [self.x(share) for share, _ in self.belt] + [self.x(self.cabin[0]), self.x(self.cabin[3])]
        around = np.array([1.004, *np.cos(ARCH_ANGLES), -1.004]) if arches else np.array([-1.004, 1.004])
        wheels = [axle + self.arch * around for axle in self.wheels]
        along = np.unique(np.round(np.concatenate([bends, *wheels]), 4))[::-1]
        inside = (along < front[-1, 0] - 0.02) & (along > rear[0, 0] + 0.02)
        return np.concatenate([front, self.at_side(along[inside]), rear])

    def rim(self, x: object) -> Array:
        """Points of the shell's upper edge on the left, at the cabin's foot."""
        outline = self.at_side(x)
        edge = self.skin(outline, self.top(outline[:, 0])[:, None])[:, 0]
        return np.asarray(edge - [0, LEDGE, 0])

    def foot(self, along: object, across: object) -> Array:
        """Points where the cabin meets the shell: `along` 0 at the windscreen, 1 at the rear window."""
        s, q = np.broadcast_arrays(np.asarray(along, float), np.asarray(across, float))
        edge = self.rim((self.x(self.cabin[0]) * (1 - s) + self.x(self.cabin[3]) * s).ravel()).reshape(*s.shape, 3)
        x = edge[..., 0] + (1 - q**2) * (self.bows[0] * (1 - s) - self.bows[1] * s)
        return np.stack([x, edge[..., 1] * q, self.top(x) + (self.rise(x) - 0.015) * (1 - q**2)], axis=-1)

    def rise(self, x: Array) -> Array:
        """The rise of bonnet or boot in their middle; 0 at the ends."""
        return np.asarray(self.dome * np.clip((self.size[0] / 2 - 0.08 - np.abs(x)) / 0.35, 0, 1))

    def head(self, along: object, across: object) -> Array:
        """Points of the roof."""
        s, q = np.broadcast_arrays(np.asarray(along, float), np.asarray(across, float))
        x = self.x(self.cabin[1]) * (1 - s) + self.x(self.cabin[2]) * s
        x = x + (1 - q**2) * (self.bows[0] * (1 - s) - self.bows[1] * s) * 0.6
        half = self.size[1] / 2 * (self.roof[0] * (1 - s) + self.roof[1] * s)
        z = self.size[2] - CROWN * q**2 - 0.05 * (1.6 * s - 0.8) ** 2 - 0.01 * q**4
        return np.stack([x, half * q, z], axis=-1)


def shell(body: Body, paint: object, trim: object) -> Mesh:
    """Sides, nose, tail, bonnet and boot; the lowest strip in `trim`."""
    outline = body.outline()
    levels = np.array([height for height, *_ in body.section])
    low, top = body.low(outline[:, 0])[:, None], body.top(outline[:, 0])[:, None]
    heights = np.hstack([np.clip(levels[None], low, top), top])
    side = _patch(body.skin(outline, heights), paint, Material.PAINT)
    strip = side.corners[..., 2].max(axis=1) < levels[1] + 1e-4
    side = recoloured(side, strip, trim, Material.PLASTIC)
    return joined([side, side.mirrored(), *_decks(body, paint)])


def _decks(body: Body, paint: object) -> list[Mesh]:
    """Bonnet and boot, each from the cabin to its end."""
    outline = body.outline(arches=False)
    front, rear = body.x(body.cabin[0]), body.x(body.cabin[3])
    bonnet = np.concatenate([outline[outline[:, 0] > front + 0.005], body.at_side([front])])
    boot = np.concatenate([body.at_side([rear]), outline[outline[:, 0] < rear - 0.005]])
    return [_patch(_domed(body, part), paint, Material.PAINT) for part in (bonnet, boot)]


def _domed(body: Body, outline: Array) -> Array:
    across = np.array([1, 0.55, 0, -0.55, -1])
    edge = body.skin(outline, body.top(outline[:, 0])[:, None])
    lifted = body.rise(edge[..., 0]) * (1 - across**2)
    return np.asarray(edge * np.stack([np.ones(5), across, np.ones(5)], axis=1) + lifted[..., None] * [0, 0, 1])


def _patch(points: Array, colour: object, material: Material) -> Mesh:
    return mesh(net(points), colour, material, smooth=True)


def cabin(body: Body, paint: object, *, roof: object, pillar: object) -> Mesh:
    """Windscreen, side windows, rear window and roof, with the pillars between."""
    left = _side_windows(body, paint, pillar)
    across = np.array([1, 0.75, 0, -0.75, -1])
    cover = body.head(np.array([0, 0.3, 0.7, 1])[:, None], across[None])
    return joined(
        [left, left.mirrored(), _windscreen(body, pillar), _rear_window(body, paint), _patch(cover, roof, Material.PAINT)]
    )


def _side_windows(body: Body, paint: object, pillar: object) -> Mesh:
    panes, (low, high) = body.windows
    # A long panel needs more points to follow the shell and the roof.
    more = (0.3, 0.5, 0.7, 0.93) if np.max(panes) < 0.7 else ()
    along = np.unique(np.round([0.0, 1.0, *np.ravel(panes), *more], 4))
    up = np.array([0.0, low, high, 1.0])
    part, cells = _wall(body, along[:, None], np.ones((1, 1)), up)
    frame = np.zeros(cells, bool)
    frame[:, 1] = (along[:-1] >= np.min(panes) - 1e-6) & (along[1:] <= np.max(panes) + 1e-6)
    return _glazed(_glazed(part, paint, frame, (pillar, Material.PLASTIC)), paint, _panes(along, panes, cells), None)


def _windscreen(body: Body, pillar: object) -> Mesh:
    across = np.array([-1, -0.93, -0.5, 0, 0.5, 0.93, 1])
    part, cells = _wall(body, np.zeros((1, 1)), across[:, None], np.array([0.0, 1.0]))
    return _glazed(part, pillar, _panes(across, ((-0.93, 0.93),), cells, row=0), None)


def _rear_window(body: Body, paint: object) -> Mesh:
    panes, (low, high) = body.back
    across = np.unique([-1.0, 1.0, *np.ravel(panes), *(() if len(panes) > 1 else (-0.4, 0.4))])[::-1]
    part, cells = _wall(body, np.ones((1, 1)), across[:, None], np.array([0, low, high, 1]))
    return _glazed(part, paint, _panes(across, panes, cells), None)


def _panes(edges: Array, panes: tuple[tuple[float, float], ...], cells: tuple[int, int], *, row: int = 1) -> Array:
    """Which cells of a wall are glass."""
    middle = (edges[:-1] + edges[1:]) / 2
    glass = np.zeros(cells, bool)
    glass[:, row] = np.any([(middle > low) & (middle < high) for low, high in panes], axis=0) if panes else False
    return glass


def _wall(body: Body, along: Array, across: Array, up: Array) -> tuple[Array, tuple[int, int]]:
    """A ruled surface from the cabin's foot to the roof, bulging a little, and its number of cells."""
    foot, head = body.foot(along, across), body.head(along, across)
    points = foot * (1 - up)[:, None] + head * up[:, None]
    return points, (len(points) - 1, len(up) - 1)


def _glazed(part: Array | Mesh, paint: object, cells: Array, fill: tuple[object, Material] | None) -> Mesh:
    if not isinstance(part, Mesh):
        part = mesh(grid(part), paint, Material.PAINT, smooth=True)
    colour, material = fill or (GLASS, Material.GLASS)
    return recoloured(part, np.repeat(cells.ravel(), 2), colour, material)


def on_end(body: Body, across: object, heights: object, *, front: bool, lift: float = 0.006) -> Array:
    """A patch on nose or tail: shares of the half width from left to right, and heights (per share, if 2-D)."""
    shares = np.sort(np.asarray(across, float))
    if np.asarray(heights).ndim == 1:
        bends = np.concatenate([-ENDS, ENDS])
        shares = np.unique([*shares, *bends[(bends > shares[0]) & (bends < shares[-1])]])
        heights = _with_bends(body, heights)
    return net(body.skin(body.at_end(shares if front else shares[::-1], front=front), heights, lift=lift))


def _with_bends(body: Body, heights: object) -> Array:
    """The heights and the bends of the shell between them, so that a patch does not cut into it."""
    low, high = np.asarray(heights, float)
    levels = np.array([level for level, *_ in body.section])
    return np.array([low, *levels[(levels > low + 0.01) & (levels < high - 0.01)], high])


def on_side(body: Body, along: object, heights: object, *, lift: float = 0.004) -> Array:
    """A patch on the left side between shares of the length."""
    shares = np.sort(np.asarray(along, float))
    return net(body.skin(body.at_side(body.size[0] * (0.5 - shares)), _with_bends(body, heights), lift=lift))


def mirrored_pair(corners: Array, colour: object, material: Material, *, smooth: bool = False) -> Mesh:
    """A part of the left side and its mirror image."""
    left = mesh(corners, colour, material, smooth=smooth)
    return joined([left, left.mirrored()])


def wheel(radius: float, width: float, *, rim: object = (0.42, 0.42, 0.44), segments: int = 12) -> Mesh:
    """A wheel on the left side, its outer face in the plane y = 0, its axle in the origin."""
    inner = radius * 0.66
    tread = lying(lathe([(0.0, -width + 0.02), (radius, -width), (radius, -0.025)], segments))
    shoulder = lying(lathe([(radius, -0.025), (inner, 0.0)], segments))
    hub = mesh(lying(lathe([(inner, 0.0), (0.0, -0.03)], segments)), rim, Material.METAL, smooth=True)
    gaps = np.arange(segments) % 2 == 1
    return joined(
        [
            mesh(tread, RUBBER, Material.TYRE),
            mesh(shoulder, RUBBER, Material.TYRE),
            recoloured(hub, gaps, (0.03, 0.03, 0.03), Material.PLASTIC),
        ]
    )


def running_gear(body: Body, *, width: float = 0.22, rim: object = (0.42, 0.42, 0.44), segments: int = 12) -> Mesh:
    """The wheels in their wells, and the dark block between them."""
    radius, half = body.axles[-1], body.size[1] / 2
    left = [_well(body, axle, width) for axle in body.wheels]
    single = wheel(radius, width, rim=rim, segments=segments)
    left += [single.placed(axle, half - 0.035, z=radius) for axle in body.wheels]
    reach, inside = body.size[0] * 0.45, half - width - 0.06
    block = box((-reach, -inside, body.section[0][0] - 0.02), (reach, inside, body.axles[-1] * 2.2))
    side = joined(left)
    return joined([side, side.mirrored(), mesh(block, WELL, Material.PLASTIC)])


def _well(body: Body, axle: float, width: float) -> Mesh:
    outline = body.at_side(axle + body.arch * np.cos(ARCH_ANGLES))
    edge = body.skin(outline, body.low(outline[:, 0])[:, None])[:, 0]
    inside = edge * [1, 0, 1] + [0, body.size[1] / 2 - width - 0.06, 0]
    return mesh(net(np.stack([inside, edge], axis=1)), WELL, Material.PLASTIC)


def on_cabin(body: Body, ends: tuple[float, float], *, across: object, up: object, lift: float = 0.02) -> Array:
    """A patch on the cabin's front (`ends` 0, 0) or back (1, 1), or on its left side (`across` 1)."""
    along = np.linspace(*ends, 2)[:, None] if ends[0] != ends[1] else np.full((1, 1), ends[0])
    points, _ = _wall(body, along, np.asarray(across, float).reshape(-1, 1), np.asarray(up, float))
    away = [0, lift, 0] if ends[0] != ends[1] else [lift * (1 - 2 * ends[0]), 0, 0]
    return net(points + away)
