"""The split into training, validation and test cases.

It goes by units: whole drives (`groups`), contiguous blocks of a drive with guard gaps between them (`blocks`), or single
cases at random as in the DeepTest paper (`random`: neighbours in a drive end up on both sides, so the scores are too good).
The order of a drive is that of the source's keys. The split depends on the source and the seed only, not on the number of
follow-ups.
"""
# X-10, D-33

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from swerve.core.case import Case, Source, group_of
from swerve.core.errors import InputError, unknown
from swerve.core.seeding import digest_of
from swerve.core.values import Array
from swerve.sources.subset import Subset
from swerve.sources.windows import frames_of

TRAIN, VAL, TEST, GUARD = "train", "val", "test", "guard"
SIDES = (TEST, VAL, TRAIN)
GROUPS, BLOCKS, RANDOM = "groups", "blocks", "random"
WAYS = (GROUPS, BLOCKS, RANDOM)
FAR = 0.5  # of its share: a side that is off by more gets a note
FIRST = ((TEST, (VAL, TRAIN)), (VAL, (TRAIN,)))  # a side, and those that must keep away from it

Unit = tuple[str, ...]
Frames = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Split:
    """The side of every key: train, val, test, or guard for the unused cases of a gap."""

    way: str
    sides: Mapping[str, str]
    groups: Mapping[str, str]  # the drive or scene of every key
    frames: Mapping[str, str] = field(default_factory=dict)  # the side whose cases contain a frame; empty if split at random
    notes: tuple[str, ...] = ()  # about sides whose share is far off

    def keys(self, side: str) -> tuple[str, ...]:
        """The keys of one side, in the order of the source."""
        return tuple(key for key, where in self.sides.items() if where == side)

    @cached_property
    def drives(self) -> Mapping[str, frozenset[str]]:
        """The sides of the cases of each drive that has a name."""
        found: dict[str, frozenset[str]] = {}
        for key, side in self.sides.items():
            if drive := self.groups[key]:
                found[drive] = found.get(drive, frozenset()) | {side}
        return found

    def refuse(self, what: str, name: str, side: str) -> None:
        """Refuse data derived from the case or frame `name` if that is known to be on another side."""
        where = self.sides.get(name, self.frames.get(name, side))
        if where != side:
            drive = self.groups.get(name)
            of = f" (drive '{drive}')" if drive else ""
            raise InputError(f"{what} cannot enter the {side} set: '{name}'{of} is in the {where} set of the split")

    def refuse_frames(self, what: str, frames: Sequence[str], side: str) -> None:
        """Refuse a case that contains a frame of another side's cases."""
        for frame in frames:
            if (where := self.frames.get(frame, side)) != side:
                raise InputError(
                    f"{what} cannot enter the {side} set: it contains frame '{frame}', which is in the {where} set"
                )

    def refuse_origin(self, case: Case, side: str) -> None:
        """Refuse a case whose own parent or drive is on another side."""
        if case.parent is not None:
            self.refuse(f"'{case.key}', itself a follow-up,", case.parent, side)
        self.refuse_drive(f"'{case.key}'", case.group, side)

    def refuse_drive(self, what: str, drive: str, side: str, *, whole: bool = False) -> None:
        """Refuse data of a drive without cases on `side`; if `whole`, also of a drive with cases on other sides."""
        sides = self.drives.get(drive, {side})
        if side not in sides or (whole and sides != {side}):
            others = ", ".join(sorted(sides - {side}))
            raise InputError(f"{what} belongs to drive '{drive}', which has cases in the {others} set")

    def counts(self) -> dict[str, int]:
        """How many keys each side has."""
        found = Counter(self.sides.values())
        return {side: found[side] for side in (TRAIN, VAL, TEST, GUARD)}


@dataclass(frozen=True)
class Cut:
    """How to split: shares of the cases for `test` and `val`; the rest is for training.

    Args:
        way: groups, blocks or random; None takes groups if there are at least three, otherwise blocks.
        blocks: number of blocks of each drive.
        gap: unused frames on either side of a test block (and between a validation block and training); 60 are three
            seconds at 20 frames a second.
    """

    way: str | None = None
    test: float = 0.2
    val: float = 0.1
    blocks: int = 10
    gap: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        if self.way is not None and self.way not in WAYS:
            raise InputError(unknown("way to split", self.way, WAYS))
        if not (0 < self.test < 1 and 0 <= self.val < 1 and self.test + self.val < 1):
            raise InputError(
                "the test share must be above 0, the val share at least 0, and both together below 1, "
                f"got test {self.test:g} and val {self.val:g}"
            )
        if self.blocks < 2 or self.gap < 0:
            raise InputError(
                f"'blocks' must be at least 2 and 'gap' at least 0 frames, got {self.blocks} blocks and a gap of {self.gap}"
            )

    def split(self, groups: Mapping[str, str], *, frames: Frames = lambda key: (key,)) -> Split:
        """The side of every key; `groups` gives the drive of each, `frames` the frames of a case."""
        if not groups:
            raise InputError("the training set is empty: the source has no cases")
        way = self.way or (GROUPS if len(set(groups.values())) >= len(SIDES) else BLOCKS)
        drives = _drives(groups)
        units = {GROUPS: _by_drive, BLOCKS: self._by_block, RANDOM: _by_case}[way](drives)
        side = self._deal(Counter(units.values()), way)
        sides = {key: side[units[key]] for key in groups}
        if way == BLOCKS:
            for keys in drives.values():
                _guard_gaps(sides, keys, self.gap)
        seen = {} if way == RANDOM else _guard_frames(sides, frames)
        found = Split(way, MappingProxyType(sides), MappingProxyType(dict(groups)), MappingProxyType(seen))
        self._check(found)
        return replace(found, notes=tuple(self._notes(found.counts())))

    def _by_block(self, drives: Mapping[str, Sequence[str]]) -> dict[str, Unit]:
        return {
            key: (drive, str(place * self.blocks // len(keys)))
            for drive, keys in drives.items()
            for place, key in enumerate(keys)
        }

    @property
    def _shares(self) -> dict[str, float]:
        return {TEST: self.test, **({VAL: self.val} if self.val else {}), TRAIN: 1 - self.test - self.val}

    def _deal(self, sizes: Mapping[Unit, int], way: str) -> dict[Unit, str]:
        """The side of every unit: each side takes its share in an order by names and seed; training gets the rest."""
        left = sorted(sizes, key=lambda unit: digest_of(self.seed, "split", unit))
        shares = self._shares
        if len(left) < len(shares):
            one = "blocks" if way == BLOCKS else "drives" if way == GROUPS else "cases"
            hint = "; split by blocks instead" if way == GROUPS else ""
            raise InputError(f"{len(left)} {one} cannot be split into {len(shares)} sets{hint}")
        dealt = dict.fromkeys(left, TRAIN)
        total = sum(sizes.values())
        for still, side in zip(range(len(shares) - 1, 0, -1), shares, strict=False):
            taken = _nearest({unit: sizes[unit] for unit in left}, shares[side] * total, len(left) - still)
            dealt.update(dict.fromkeys(taken, side))
            left = [unit for unit in left if unit not in taken]
        return dealt

    def _notes(self, counts: Mapping[str, int]) -> Iterator[str]:
        total = sum(counts.values())
        for side, share in self._shares.items():
            if abs(counts[side] / total - share) > FAR * share:
                got = f"{counts[side]:,} of {total:,} cases: {counts[side] / total:.0%}"
                yield f"the {side} set has {got}, instead of {share:.0%}"

    def _check(self, found: Split) -> None:
        counts = found.counts()
        for side, what in ((TRAIN, "training"), (VAL, "validation")):
            if not counts[side] and (side == TRAIN or self.val):
                kept = f"{counts[TEST]} of {len(found.sides)} cases are for testing"
                gaps = f" and {counts[GUARD]} lie in guard gaps; make --gap or --blocks smaller" if counts[GUARD] else ""
                raise InputError(f"the {what} set is empty: {kept}{gaps}")


def split_source(source: Source, cut: Cut | None = None) -> Split:
    """The split of `source`; unless it is random, no frame is on two sides."""
    keys = source.keys()
    if twice := [key for key, count in Counter(keys).items() if count > 1]:
        raise InputError(f"the source lists '{twice[0]}' twice; keys must be unique")
    groups = {key: group_of(source, key) for key in keys}
    return (cut or Cut()).split(groups, frames=lambda key: frames_of(source, key))


def split_of(sides: Mapping[str, Source]) -> Split:
    """The split whose sides are sources of their own; a drive in two of them is refused."""
    groups = {key: group_of(source, key) for source in sides.values() for key in source.keys()}
    split = Split(GROUPS, {key: side for side, source in sides.items() for key in source.keys()}, groups)
    for key, side in split.sides.items():
        split.refuse_drive(f"'{key}'", groups[key], side, whole=True)
    return split


def fitting_gap(source: Source) -> int:
    """Unused cases beside a block: three seconds of the full drive, but at most a third of a block."""
    keys = source.keys()
    whole = len(source.source.keys()) if isinstance(source, Subset) else len(keys)
    shortest = min(Counter(group_of(source, key) for key in keys).values())
    return min(math.ceil(Cut.gap * len(keys) / whole), shortest // (3 * Cut.blocks))


def _drives(groups: Mapping[str, str]) -> dict[str, list[str]]:
    """The keys of every drive in the order of the source."""
    drives: dict[str, list[str]] = {}
    for key, drive in groups.items():
        drives.setdefault(drive, []).append(key)
    return drives


def _by_drive(drives: Mapping[str, Sequence[str]]) -> dict[str, Unit]:
    return {key: (drive,) for drive, keys in drives.items() for key in keys}


def _by_case(drives: Mapping[str, Sequence[str]]) -> dict[str, Unit]:
    return {key: (drive, key) for drive, keys in drives.items() for key in keys}


def _nearest(sizes: Mapping[Unit, int], wanted: float, most: int) -> set[Unit]:
    """One to `most` units of about `wanted` cases: the first that fit, and one that is too large if that comes nearer."""
    taken: set[Unit] = set()
    for unit, size in sizes.items():
        if size <= wanted and len(taken) < most:
            taken.add(unit)
            wanted -= size
    best = min((unit for unit in sizes if unit not in taken), key=lambda unit: abs(sizes[unit] - wanted))
    if not taken or (len(taken) < most and abs(sizes[best] - wanted) < wanted):
        taken.add(best)
    return taken


def _guard_frames(sides: dict[str, str], frames: Frames) -> dict[str, str]:
    """Move cases that share a frame with another side to the guard; returns the side of every frame."""
    for held, freed in FIRST:
        seen = {frame for key, side in sides.items() if side == held for frame in frames(key)}
        shared = [key for key, side in sides.items() if side in freed and not seen.isdisjoint(frames(key))]
        sides.update(dict.fromkeys(shared, GUARD))
    return {frame: side for key, side in sides.items() if side != GUARD for frame in frames(key)}


def _guard_gaps(sides: dict[str, str], keys: Sequence[str], gap: int) -> None:
    """Move cases of a drive that lie within `gap` of another side to the guard."""
    for held, freed in FIRST:
        near = _near(np.array([sides[key] == held for key in keys]), gap)
        for key in (key for key, close in zip(keys, near, strict=True) if close and sides[key] in freed):
            sides[key] = GUARD


def _near(held: Array, gap: int) -> Array:
    """Whether each place lies within `gap` of one where `held` is true."""
    total = np.concatenate([[0], np.cumsum(held)])
    place = np.arange(len(held))
    low, high = np.maximum(place - gap, 0), np.minimum(place + gap + 1, len(held))
    return np.asarray(total[high] > total[low])
