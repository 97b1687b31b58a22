"""Matching two sets of boxes: overlaps, an optimal one-to-one assignment, and the differences.

Rows are expected boxes, columns detected boxes. An expected box with `care` False is neither required nor an error: it may
be matched, and it is never missed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from swerve.core.arguments import check_number
from swerve.core.values import Array, Boxes2D, Boxes3D

Boxes = Boxes2D | Boxes3D
B = TypeVar("B", Boxes2D, Boxes3D)
Pairs = tuple[tuple[int, int], ...]
SLACK = 1e-9  # metres: rounding error of a corner's position


def overlaps(first: Array, second: Array) -> Array:
    """IoU of each upright box (left, top, right, bottom) of `first` with each of `second`.

    Boxes without area overlap nothing, but equal boxes always have an IoU of 1.
    """
    shared = _shared(first, second)
    union = _areas(first)[:, None] + _areas(second) - shared
    return np.where(_equal(first, second), 1.0, _ratio(shared, union))


def ground_overlaps(first: Array, second: Array) -> Array:
    """Bird's-eye IoU of each rotated box (x, y, z, length, width, height, yaw) of `first` with each of `second`."""
    shared = _ground_shared(first, second)
    union = _footprints(first)[:, None] + _footprints(second) - shared
    return np.where(_equal(first, second), 1.0, np.clip(_ratio(shared, union), 0, 1))


def box_overlaps(first: Boxes, second: Boxes) -> Array:
    """IoU in the image, or on the ground for boxes in metres."""
    ours, theirs = _numbers(first), _numbers(second)
    return overlaps(ours, theirs) if isinstance(first, Boxes2D) else ground_overlaps(ours, theirs)


def box_distances(first: Boxes, second: Boxes) -> Array:
    """The distance between centres: pixels in the image, metres on the ground."""
    return _distances(_centres(first), _centres(second))


def box_shares(first: Boxes, second: Boxes) -> Array:
    """The share of each box of `second` that lies inside each of `first`."""
    ours, theirs = _numbers(first), _numbers(second)
    if isinstance(first, Boxes2D):
        shared, whole = _shared(ours, theirs), _areas(theirs)
    else:
        shared, whole = _ground_shared(ours, theirs), _footprints(theirs)
    return np.where(_equal(ours, theirs), 1.0, _ratio(shared, np.broadcast_to(whole, shared.shape)))


def same_kinds(first: Boxes, second: Boxes) -> Array:
    """Which pairs have the same kind."""
    ours, theirs = np.array(first.kinds, dtype=object), np.array(second.kinds, dtype=object)
    return np.asarray(ours[:, None] == theirs[None], dtype=bool)


@dataclass(frozen=True)
class Matching:
    """One-to-one `pairs` (row, column) in order of rows, the unmatched required rows, and the unmatched columns."""

    pairs: Pairs
    missed: tuple[int, ...]
    extra: tuple[int, ...]


def match(affinity: Array, allowed: Array, care: Array | None = None) -> Matching:
    """Pair rows with columns: first as many required rows as possible, then as many rows, then the greatest `affinity`.

    `affinity` is from 0 to 1; only `allowed` pairs are made; rows whose `care` is False are not required.
    """
    from scipy.optimize import linear_sum_assignment  # takes 0.5 s to import

    demanded = np.ones(len(affinity), dtype=bool) if care is None else np.asarray(care, dtype=bool)
    step = min(affinity.shape) + 1  # more than the sum of all affinities: each tier outweighs the ones below
    weights = np.where(allowed, affinity + step * (1 + step * demanded[:, None]), 0.0)
    rows, columns = linear_sum_assignment(weights, maximize=True)
    pairs = tuple((int(row), int(column)) for row, column in zip(rows, columns, strict=True) if allowed[row, column])
    taken_rows, taken_columns = {row for row, _ in pairs}, {column for _, column in pairs}
    return Matching(
        pairs,
        tuple(row for row in range(affinity.shape[0]) if demanded[row] and row not in taken_rows),
        tuple(column for column in range(affinity.shape[1]) if column not in taken_columns),
    )


class Likeness(NamedTuple):
    """Per pair of boxes: their affinity from 0 to 1, whether they are the same object, and whether one may have drifted."""

    affinity: Array
    same: Array
    near: Array
    spare: Array  # affinity beyond the limit


@dataclass(frozen=True)
class Same:
    """When two boxes are the same object: IoU ≥ `overlap`, or, for `small` kinds, centres at most `within` apart.

    A box of the same kind that misses this limit has drifted if its IoU is at least `near` or, for `small` kinds, if it is
    less than twice `within` away.
    """

    # D-21, D-17
    overlap: float = 0.5
    near: float = 0.1
    within: float = 1.0
    small: tuple[str, ...] = ()
    any_kind: bool = False  # boxes of different kinds may be one object

    def __post_init__(self) -> None:
        check_number("overlap", self.overlap, 0, 1, above=True)
        check_number("near", self.near, 0, 1, above=True)
        if self.near > self.overlap:
            raise ValueError(f"'near' must be at most 'overlap' ({self.overlap:g}), got {self.near:g}")
        check_number("within", self.within, 0, above=True)
        if not isinstance(self.small, tuple | list):
            raise TypeError(f"'small' must be a list of kinds, got {self.small!r}")
        object.__setattr__(self, "small", tuple(str(kind) for kind in self.small))

    def likeness(self, expected: Boxes, seen: Boxes) -> Likeness:
        """The likeness of every pair; the kind of the expected box decides how it is measured."""
        affinity = box_overlaps(expected, seen)
        limit = np.full((len(expected.kinds), 1), self.overlap)
        near = affinity >= self.near
        by_centre = {kind.casefold() for kind in self.small}  # KITTI writes 'Pedestrian', others 'pedestrian'
        small = np.array([kind.casefold() in by_centre for kind in expected.kinds], dtype=bool)
        if small.any():
            # Exactly 0.5 at the limit, and 0 at twice the limit.
            close = np.clip(1 - box_distances(expected, seen) / (2 * self.within), 0, 1)
            affinity, near = np.where(small[:, None], close, affinity), np.where(small[:, None], close > 0, near)
            limit[small] = 0.5
        return Likeness(affinity, affinity >= limit, near, affinity - limit)


@dataclass(frozen=True)
class Differences:
    """Pairs (row, column), rows or columns by kind of difference; each object is listed once."""

    found: Pairs = ()
    mislabelled: Pairs = ()  # in place, but of another kind
    drifted: Pairs = ()  # of its kind, but with too different a box
    missed: tuple[int, ...] = ()
    ghosts: tuple[int, ...] = ()  # detected where no such object is expected
    doubled: tuple[int, ...] = ()  # a further box on an object that was found or mislabelled
    demanded: int = 0
    spare: float = 1.0  # affinity above the limit, of the pair nearest to being lost

    @property
    def lost(self) -> int:
        """The number of required objects that were not found correctly."""
        return len(self.missed) + len(self.mislabelled) + len(self.drifted)

    @property
    def gained(self) -> int:
        """The number of detected boxes without a required object."""
        return len(self.ghosts) + len(self.doubled)


def differences(expected: Boxes, seen: Boxes, same: Same) -> Differences:
    """Match found objects first, then wrong kinds, ignored places and drift; the rest is missed, doubled or a ghost."""
    likeness, kinds = same.likeness(expected, seen), same_kinds(expected, seen) | same.any_kind
    care = np.asarray(expected.care)
    unmatched = _Unmatched(np.ones(len(care), dtype=bool), np.ones(len(seen.kinds), dtype=bool))
    found = unmatched.take(likeness.affinity, likeness.same & kinds, care)
    mislabelled = unmatched.take(likeness.affinity, likeness.same & ~kinds, care)
    unmatched.columns &= ~_on_ignored(expected, seen, same.overlap)
    drifted = unmatched.take(likeness.affinity, likeness.near & kinds & care[:, None], care)
    unmatched.columns &= np.asarray(seen.care)
    met = np.array([row for row, _ in (*found, *mislabelled) if care[row]], dtype=int)
    doubled = unmatched.columns & likeness.same[met].any(axis=0)
    found, mislabelled = _demanded(found, care), _demanded(mislabelled, care)
    return Differences(
        found,
        mislabelled,
        drifted,
        missed=_indices(unmatched.rows & care),
        ghosts=_indices(unmatched.columns & ~doubled),
        doubled=_indices(doubled),
        demanded=int(care.sum()),
        spare=min((float(likeness.spare[pair]) for pair in found), default=1 - same.overlap),
    )


def above_score(boxes: B, least_score: float) -> B:
    """The boxes whose score is at least `least_score`."""
    kept = np.asarray(boxes.scores) >= least_score
    return boxes if kept.all() else take(boxes, np.flatnonzero(kept))


def take(boxes: B, places: Array) -> B:
    """The boxes at `places`."""
    arrays = {item.name: getattr(boxes, item.name) for item in fields(boxes)}
    some: dict[str, Any] = {name: part[places] for name, part in arrays.items() if isinstance(part, np.ndarray)}
    return replace(boxes, kinds=tuple(boxes.kinds[place] for place in places), **some)


@dataclass
class _Unmatched:
    """The rows and columns that are not yet in a pair."""

    rows: Array
    columns: Array

    def take(self, affinity: Array, allowed: Array, care: Array) -> Pairs:
        pairs = match(affinity, allowed & self.rows[:, None] & self.columns, care).pairs
        for row, column in pairs:
            self.rows[row] = self.columns[column] = False
        return pairs


def _on_ignored(expected: Boxes, seen: Boxes, least: float) -> Array:
    """Which detected boxes lie on an expected box with `care` False; one such box may cover several."""
    if np.all(expected.care):
        return np.zeros(len(seen.kinds), dtype=bool)
    inside = box_shares(expected, seen) >= least
    return np.asarray(inside[~np.asarray(expected.care)].any(axis=0))


def _demanded(pairs: Pairs, care: Array) -> Pairs:
    return tuple(pair for pair in pairs if care[pair[0]])


def _indices(mask: Array) -> tuple[int, ...]:
    return tuple(int(place) for place in np.flatnonzero(mask))


def _numbers(boxes: Boxes) -> Array:
    return boxes.xyxy if isinstance(boxes, Boxes2D) else boxes.xyzlwhy


def _centres(boxes: Boxes) -> Array:
    if isinstance(boxes, Boxes2D):
        return np.asarray((boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2)
    return np.asarray(boxes.xyzlwhy[:, :2])


def _distances(first: Array, second: Array) -> Array:
    gaps = first[:, None] - second[None]
    return np.asarray(np.hypot(gaps[..., 0], gaps[..., 1]))


def _equal(first: Array, second: Array) -> Array:
    return np.asarray((first[:, None] == second[None]).all(axis=-1))


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _areas(xyxy: Array) -> Array:
    return np.asarray(np.prod(np.maximum(xyxy[:, 2:] - xyxy[:, :2], 0), axis=1))


def _shared(first: Array, second: Array) -> Array:
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    return np.asarray(np.prod(np.maximum(high - low, 0), axis=-1))


def _footprints(boxes: Array) -> Array:
    return np.asarray(np.abs(boxes[:, 3] * boxes[:, 4]))


def _ground_shared(first: Array, second: Array) -> Array:
    """The common area of rotated rectangles; only pairs whose circumscribed circles touch are computed."""
    reach = np.hypot(first[:, 3], first[:, 4])[:, None] + np.hypot(second[:, 3], second[:, 4])
    rows, columns = np.nonzero(_distances(first[:, :2], second[:, :2]) < reach / 2)
    shared = np.zeros((len(first), len(second)))
    shared[rows, columns] = _common_area(first[rows], second[columns])
    return shared


def _common_area(first: Array, second: Array) -> Array:
    """Row by row: the common polygon's corners are the corners of either inside the other, and the crossings of edges."""
    origin = first[:, :2]  # near 0, for precision
    ours, theirs = _corners(first, origin), _corners(second, origin)
    crossings, cross = _crossings(ours, theirs)
    corners = np.concatenate([ours, theirs, crossings], axis=1)
    real = np.concatenate([_inside(ours, theirs), _inside(theirs, ours), cross], axis=1)
    return _convex_area(corners, real)


def ground_corners(box: Array) -> Array:
    """The four corners of one box (x, y, z, length, width, height, yaw) on the ground, counter-clockwise."""
    return np.asarray(_corners(box[None], np.zeros((1, 2)))[0])


def _corners(boxes: Array, origin: Array) -> Array:
    """The corners on the ground, counter-clockwise."""
    half = np.abs(boxes[:, None, 3:5]) / 2 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    cos, sin = np.cos(boxes[:, 6])[:, None], np.sin(boxes[:, 6])[:, None]
    turned = np.stack([half[..., 0] * cos - half[..., 1] * sin, half[..., 0] * sin + half[..., 1] * cos], axis=-1)
    return np.asarray(turned + (boxes[:, :2] - origin)[:, None])


def _cross(first: Array, second: Array) -> Array:
    return np.asarray(first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0])


def _edges(corners: Array) -> Array:
    return np.roll(corners, -1, axis=1) - corners


def _inside(points: Array, polygon: Array) -> Array:
    edges = _edges(polygon)
    side = _cross(edges[:, None], points[:, :, None] - polygon[:, None])
    return np.asarray((side >= -SLACK * (1 + np.linalg.norm(edges, axis=-1))[:, None]).all(axis=-1))


def _crossings(first: Array, second: Array) -> tuple[Array, Array]:
    """The 16 possible crossings of edges, and which of them exist."""
    ours, theirs = _edges(first)[:, :, None], _edges(second)[:, None]
    gap = second[:, None] - first[:, :, None]
    turn = _cross(ours, theirs)
    # Collinear edges would cross anywhere by rounding; their ends are already corners.
    meets = np.abs(turn) > SLACK * np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
    safe = np.where(meets, turn, 1.0)
    along, across = _cross(gap, theirs) / safe, _cross(gap, ours) / safe
    meets &= (along >= 0) & (along <= 1) & (across >= 0) & (across <= 1)
    points = first[:, :, None] + np.where(meets, along, 0.0)[..., None] * ours
    return points.reshape(len(first), 16, 2), meets.reshape(len(first), 16)


def _convex_area(points: Array, real: Array) -> Array:
    """The area of each convex polygon whose corners are the `real` ones among `points`, in any order and repeated."""
    some = np.take_along_axis(points, real.argmax(axis=1)[:, None, None], axis=1)
    points = np.where(real[..., None], points, some)
    spokes = points - points.mean(axis=1, keepdims=True)
    order = np.argsort(np.arctan2(spokes[..., 1], spokes[..., 0]), axis=1)
    ring = np.take_along_axis(spokes, order[..., None], axis=1)
    area = _cross(ring, np.roll(ring, -1, axis=1)).sum(axis=1) / 2
    return np.where(real.any(axis=1), np.maximum(area, 0), 0.0)
