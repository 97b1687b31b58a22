"""The ground: asphalt with markings and wear, kerbs, pavements and verges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, column, mesh
from swerve.world.road import CELL, Junction, Road
from swerve.world.textures import coverage, hashed, look_up, tile

WHITE, YELLOW = column(0.62, 0.62, 0.6), column(0.6, 0.42, 0.07)
LINE = 0.13  # metres
KERB_HEIGHT, KERB_WIDTH = 0.12, 0.28
STOP = 0.45  # metres: width of a stop line
GAP = 3.0  # metres between a marking and a side road


@dataclass(frozen=True)
class Floor:
    """The appearance of a scene's ground."""

    asphalt: float = 0.11  # reflectance
    wear: float = 0.3  # share of the markings that is worn off
    cracks: float = 0.5
    verge: tuple[float, float, float] = (0.09, 0.13, 0.04)
    dry: tuple[float, float, float] = (0.2, 0.17, 0.09)
    paved: bool = True  # pavements beside the road
    town: float = 0.5  # paving instead of grass beyond the pavement
    edge_lines: bool = True
    dash: float = 9.0  # metres from one dash to the next
    shift: tuple[float, float] = (0.0, 0.0)  # of the noise, so that every scene has its own stains


@dataclass(frozen=True, eq=False)
class Footprint:
    """The ground area of a pixel: metres across and along the line of sight, and that line's direction."""

    across: Array
    along: Array
    direction: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class PaintedGround:
    """The ground at each point: reflectance, position on the road, and shares of road and marking."""

    colour: Array  # 3 rows of n, as `place`
    place: Array  # s, d, metres beyond the edge
    road: Array
    mark: Array
    grain: Array  # fine noise, for snow and puddles to follow


def paint(road: Road, floor: Floor, x: Array, y: Array, seen: Footprint) -> PaintedGround:
    """The reflectance of the ground at each point, without light or weather."""
    place = np.ascontiguousarray(road.locate(x, y).T)
    s, d, edge = place
    wide_s, wide_d = _spread(road, s, seen)
    fine, coarse = _grain(floor, x, y, seen)
    smear = np.minimum(seen.along, 6.0) * 0.35 + seen.across  # of the edge, whatever its direction
    on_road = coverage(edge, -1e3, 0.0, smear)
    colour = np.zeros((3, len(s)), np.float32)
    off, on = np.flatnonzero(on_road < 1), np.flatnonzero(on_road > 0)
    size = smear[off], seen.across[off]
    colour[:, off] = _roadside_colour(road, floor, (x[off], y[off], edge[off]), (fine[off], coarse[off]), size)
    stones, share = _asphalt(floor, s[on], d[on], fine[on], coarse[on], road), on_road[on]
    colour[:, on] = np.take(colour, on, axis=1) * (1 - share) + stones * share
    mark = np.zeros(len(s), np.float32)
    worn = np.clip(1.15 - floor.wear - floor.wear * 0.9 * np.maximum(coarse * 0.7 + fine * 0.5, 0), 0.05, 1)
    for covered, tint in markings(road, floor, (s[on], d[on], edge[on]), (wide_s[on], wide_d[on])):
        rows = np.flatnonzero(covered)
        _paint_over(colour, mark, on[rows], covered[rows] * worn[on[rows]] * on_road[on[rows]], tint)
    for junction in road.junctions:
        near = on[np.abs(s[on] - junction.s) < 60]
        covered = _side_markings(road, junction, (x[near], y[near]), seen.across[near] + 0.3 * seen.along[near])
        _paint_over(colour, mark, near, covered * worn[near] * (edge[near] < 0), WHITE)
    return PaintedGround(colour, place, on_road, mark, coarse)


def _paint_over(colour: Array, mark: Array, rows: Array, share: Array, tint: Array) -> None:
    """Paint a marking over the existing colour."""
    colour[:, rows] = np.take(colour, rows, axis=1) * (1 - share) + share * tint
    mark[rows] = np.maximum(mark[rows], share)


def _roadside_colour(
    road: Road,
    floor: Floor,
    place: tuple[Array, Array, Array],
    noise: tuple[Array, Array],
    size: tuple[Array, Array],
) -> Array:
    """Pavement and verge."""
    x, y, edge = place
    smear, across = size
    colour = _verge(floor, x, y, *noise)
    if not floor.paved:
        gravel = coverage(edge, -1.0, 0.9 + 0.25 * noise[1], smear) * 0.8
        colour = colour * (1 - gravel) + column(0.2, 0.185, 0.16) * (gravel * (1 + 0.3 * noise[0]))
    else:
        walk = coverage(edge, -1.0, KERB_WIDTH + road.profile.walk, smear)
        rows = np.flatnonzero(walk)
        paving = _paving(x[rows], y[rows], noise[0][rows], noise[1][rows], across[rows])
        colour[:, rows] = np.take(colour, rows, axis=1) * (1 - walk[rows]) + walk[rows] * paving
    return colour


def _spread(road: Road, s: Array, seen: Footprint) -> tuple[Array, Array]:
    """A pixel's extent along and across the road."""
    yaw = road.heading(s)
    turn = np.abs(np.cos(yaw) * seen.direction[1] - np.sin(yaw) * seen.direction[0])
    straight = np.sqrt(np.maximum(1 - turn**2, 0))
    return seen.along * straight + seen.across * turn, seen.across * straight + seen.along * turn


def _grain(floor: Floor, x: Array, y: Array, seen: Footprint) -> tuple[Array, Array]:
    """Noise of stones and of stains, faded where a pixel covers more than its structures."""
    u, v = x + floor.shift[0], y + floor.shift[1]
    fine = look_up(tile("grain", 0.45), u, v, 9.0) * np.clip(0.03 / (seen.along + 1e-3), 0.0, 1)
    coarse = look_up(tile("stains", 1.25), u, v, 61.0) * np.clip(1.5 / (seen.along + 1e-3), 0.1, 1)
    return fine, coarse


def _verge(floor: Floor, x: Array, y: Array, fine: Array, coarse: Array) -> Array:
    patch = look_up(tile("meadow", 1.6), x + floor.shift[1], y + floor.shift[0], 140.0)
    dry = np.clip(0.35 + 0.45 * patch + 0.2 * coarse, 0, 1)
    share = np.clip((floor.town - 0.5) * 6 + patch * 0.8, 0, 1)
    shade = np.clip(1 + 0.32 * fine + 0.25 * coarse, 0.3, 2) * (1 - share)
    green = column(*floor.verge) * ((1 - dry) * shade) + column(*floor.dry) * (dry * shade)
    return green + column(0.19, 0.185, 0.175) * (np.clip(1 + 0.12 * fine + 0.18 * coarse, 0.5, 1.6) * share)


def _paving(x: Array, y: Array, fine: Array, coarse: Array, across: Array) -> Array:
    slab = 0.9
    joint = np.maximum(*(coverage(np.abs(np.mod(part, slab) - slab / 2), slab / 2 - 0.02, slab, across) for part in (x, y)))
    tone = hashed(np.floor(x / slab), np.floor(y / slab)) * np.clip(0.1 / across, 0, 1)
    shade = (1 + 0.1 * fine + 0.1 * coarse + 0.16 * (tone - 0.5)) * (1 - 0.3 * joint * np.clip(0.05 / across, 0, 1))
    return column(0.27, 0.26, 0.245) * np.clip(shade, 0.4, 1.5)


def _asphalt(floor: Floor, s: Array, d: Array, fine: Array, coarse: Array, road: Road) -> Array:
    """Dark stones, worn lighter where wheels run and darker between them, patched and cracked."""
    lane = np.mod(d / np.float32(road.profile.lane), 1.0) - 0.5
    wheels = np.exp(-(((np.abs(lane) - 0.25) / 0.11) ** 2))
    oil = np.exp(-((lane / 0.09) ** 2))
    patch = hashed(np.floor(s / 7.3), np.floor(d / road.profile.lane)) < 0.07
    crack = look_up(tile("cracks", 0.9), s, d * 1.6, 47.0)
    seam = np.clip(1 - np.abs(crack) / 0.035, 0, 1) * floor.cracks * np.clip(coarse, 0, 1)
    shade = np.float32(1) + 0.24 * fine + 0.2 * coarse + 0.1 * wheels - 0.12 * oil - np.float32(0.25) * patch - 0.4 * seam
    return column(1.0, 1.0, 1.03) * (floor.asphalt * np.clip(shade, 0.25, 2))


def markings(
    road: Road, floor: Floor, place: tuple[Array, Array, Array], wide: tuple[Array, Array]
) -> list[tuple[Array, Array]]:
    """Every marking along the road as (share covered, colour)."""
    s, d, edge = place
    wide_s, wide_d = wide
    profile = road.profile
    away: Array = np.ones(len(s), np.float32)
    for junction in road.junctions:
        away = away * (1 - coverage(s, junction.s - junction.half - GAP, junction.s + junction.half + GAP, wide_s))
    for crossing in road.crossings:
        away = away * (1 - coverage(s, crossing - 1.0, crossing + 5.0, wide_s))
    centre = YELLOW if profile.yellow else WHITE
    dashes = coverage(np.mod(s, floor.dash), 0.0, floor.dash * 0.4, wide_s)
    drawn: list[tuple[Array, Array]] = []
    if profile.solid:
        drawn += [(coverage(d, at - LINE / 2, at + LINE / 2, wide_d) * away, centre) for at in (-0.16, 0.16)]
    else:
        drawn.append((coverage(d, -LINE / 2, LINE / 2, wide_d) * dashes * away, centre))
    for lane in range(1, profile.lanes):
        at = lane * profile.lane
        drawn.append((coverage(np.abs(d), at - LINE / 2, at + LINE / 2, wide_d) * dashes * away, WHITE))
    if floor.edge_lines or profile.bay:
        at = profile.lanes * profile.lane + 0.1
        drawn.append((coverage(np.abs(d), at - LINE / 2, at + LINE / 2, wide_d) * away, WHITE))
    if profile.bay:
        between = coverage(np.mod(s, 6.2), 0.0, LINE, wide_s) * (np.abs(d) > profile.lanes * profile.lane + 0.1) * away
        drawn.append((between, WHITE))
    for crossing in road.crossings:
        bars = coverage(np.mod(d, 1.1), 0.0, 0.55, wide_d)
        drawn.append((coverage(s, crossing, crossing + 3.6, wide_s) * bars * (edge < -0.4), WHITE))
    for stop, way in road.stops:
        lanes = coverage(d * (road.side * way), 0.2, profile.lanes * profile.lane, wide_d)
        drawn.append((coverage(s, stop, stop + STOP, wide_s) * lanes, WHITE))
    return drawn


def _side_markings(road: Road, junction: Junction, place: tuple[Array, Array], wide: Array) -> Array:
    """The stop line of each arm of a side road, and its dashed middle."""
    along, across = (part.astype(np.float32) for part in road.side_place(junction, *place))
    out = np.abs(along) - road.profile.half
    arm = np.where(along > 0, junction.left, junction.right)
    waiting = np.where(along > 0, across * road.side > 0, across * road.side < 0)  # the lane towards the junction
    line = 6.2 if junction.zebra else 2.2
    stop = coverage(out, line, line + 0.5, wide) * waiting
    dashes = coverage(np.mod(out, 6.0), 0.0, 3.0, wide) * (out > line + 0.5)
    drawn = np.maximum(stop, coverage(across, -LINE / 2, LINE / 2, wide) * dashes)
    if junction.zebra:
        bars = coverage(np.mod(across, 1.1), 0.0, 0.55, wide)
        drawn = np.maximum(drawn, coverage(out, 1.6, 4.8, wide) * bars)
    return drawn * arm * (np.abs(across) < junction.half - 0.15)


def kerbs(road: Road, floor: Floor) -> Mesh:
    """A kerb along every border of the carriageway; on a country road it is almost level with the ground."""
    tall = KERB_HEIGHT if floor.paved else 0.02
    low, grid = road._map
    start, end, outward = _contour(grid[..., 2])
    start, end = (part * CELL + low for part in (start, end))
    profile = [(0.0, 0.0), (0.0, tall), (KERB_WIDTH, tall), (KERB_WIDTH + 0.1, 0.0)]
    strips = []
    for (out_a, up_a), (out_b, up_b) in pairwise(profile):
        a, b, c, e = (
            np.column_stack([point + outward * out, np.full(len(point), up)])
            for point, out, up in ((start, out_a, up_a), (end, out_a, up_a), (end, out_b, up_b), (start, out_b, up_b))
        )
        strips += [np.stack([a, b, c], 1), np.stack([a, c, e], 1)]
    stone = (0.33, 0.32, 0.3) if floor.paved else (0.14, 0.13, 0.115)
    return mesh(np.concatenate(strips), stone, Material.KERB)


def _contour(field: Array) -> tuple[Array, Array, Array]:
    """The zero contour of `field` as segments (column, row), each with the direction in which it grows."""
    corners = np.stack([field[:-1, :-1], field[:-1, 1:], field[1:, 1:], field[1:, :-1]], -1).reshape(-1, 4)
    rows, columns = (part.ravel() for part in np.indices((field.shape[0] - 1, field.shape[1] - 1)))
    crossed = (corners < 0).any(1) & (corners >= 0).any(1)
    corners, base = corners[crossed].astype(float), np.column_stack([columns, rows])[crossed]
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)
    following = np.roll(corners, -1, axis=1)
    changes = (corners < 0) != (following < 0)
    share = np.where(changes, corners / np.where(changes, corners - following, 1), 0)[..., None]
    points = square + share * (np.roll(square, -1, axis=0) - square)
    simple = changes.sum(1) == 2  # a saddle has four crossings; a road has none
    corners, base, points, changes = corners[simple], base[simple], points[simple], changes[simple]
    first = changes.argmax(1)
    second = 3 - changes[:, ::-1].argmax(1)
    pick = np.arange(len(base))
    start, end = base + points[pick, first], base + points[pick, second]
    slope = np.column_stack(
        [
            corners[:, 1] + corners[:, 2] - corners[:, 0] - corners[:, 3],
            corners[:, 2] + corners[:, 3] - corners[:, 0] - corners[:, 1],
        ]
    )
    outward = slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-9)
    ahead = end - start
    swap = (ahead[:, 0] * outward[:, 1] - ahead[:, 1] * outward[:, 0]) > 0  # seen from the road, left to right
    start[swap], end[swap] = end[swap], start[swap].copy()
    return start, end, outward
