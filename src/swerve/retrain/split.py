"""Which cases train, which choose among the passes, and which are only ever tested (X-10, D-33).

A split goes by units: whole drives (`groups`), contiguous blocks of a drive with guard gaps between them (`blocks`), or
single cases at random, as DeepTest printed it (`random`: neighbours in a drive end up on both sides, so its scores
flatter). Which side a unit falls on depends on its name and the seed alone, never on the order of keys or on how many
follow-ups are made of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from swerve.case import Source, group_of
from swerve.errors import InputError, did_you_mean
from swerve.seeding import digest_of
from swerve.sources.windows import Windows
from swerve.values import Array

TRAIN, VAL, TEST, GUARD = "train", "val", "test", "guard"
SIDES = (TEST, VAL, TRAIN)
GROUPS, BLOCKS, RANDOM = "groups", "blocks", "random"
WAYS = (GROUPS, BLOCKS, RANDOM)

Unit = tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """The side of every key: train, val, test, or guard for the frames of a gap, which nobody may use."""

    way: str
    sides: Mapping[str, str]
    groups: Mapping[str, str]  # the drive or scene of every key

    def keys(self, side: str) -> tuple[str, ...]:
        """The keys of one side, in the order of their names."""
        return tuple(key for key, where in self.sides.items() if where == side)

    @cached_property
    def held_groups(self) -> frozenset[str]:
        """The drives that have a test case."""
        return frozenset(self.groups[key] for key in self.keys(TEST))

    def counts(self) -> dict[str, int]:
        """How many keys each side has."""
        found = Counter(self.sides.values())
        return {side: found[side] for side in (TRAIN, VAL, TEST, GUARD)}


@dataclass(frozen=True)
class Cut:
    """How to split: shares of the cases for `test` and `val`, the rest trains.

    Args:
        way: groups, blocks or random; None takes groups where there are at least three, blocks elsewhere.
        blocks: into how many blocks each drive is cut.
        gap: frames on either side of a test block (and of a validation block towards training) that nobody may use;
            60 are three seconds at 20 frames a second.
    """

    way: str | None = None
    test: float = 0.2
    val: float = 0.1
    blocks: int = 10
    gap: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        if self.way is not None and self.way not in WAYS:
            raise InputError(f"a split cannot go by '{self.way}'; {did_you_mean(self.way, WAYS)}")
        if not (0 < self.test < 1 and 0 <= self.val < 1 and self.test + self.val < 1):
            raise InputError(
                f"the test share must lie above 0 and leave room for val and train below 1, "
                f"got test {self.test:g} and val {self.val:g}"
            )
        if self.blocks < 2 or self.gap < 0:
            raise InputError(
                f"a drive is cut into 2 blocks at least, with gaps of 0 frames at least, got {self.blocks} and {self.gap}"
            )

    def split(self, groups: Mapping[str, str], *, look_back: int = 0) -> Split:
        """The side of every key of `groups`, which says its drive; windows look `look_back` frames back."""
        if not groups:
            raise InputError("the training set is empty: the source has no cases")
        way = self.way or (GROUPS if len(set(groups.values())) >= len(SIDES) else BLOCKS)
        drives = _drives(groups)
        units = {GROUPS: _whole, BLOCKS: self._in_blocks, RANDOM: _alone}[way](drives)
        sides = self._assigned(units, way)
        if way == BLOCKS:
            for keys in drives.values():
                _guard(sides, keys, max(self.gap, look_back))
        found = Split(way, MappingProxyType(sides), MappingProxyType({key: groups[key] for key in sides}))
        self._check(found)
        return found

    def _in_blocks(self, drives: Mapping[str, Sequence[str]]) -> dict[str, Unit]:
        return {
            key: (drive, str(place * self.blocks // len(keys)))
            for drive, keys in drives.items()
            for place, key in enumerate(keys)
        }

    def _assigned(self, units: Mapping[str, Unit], way: str) -> dict[str, str]:
        """The side of every key, units in an order that their names and the seed decide."""
        sizes = Counter(units.values())
        order = sorted(sizes, key=lambda unit: digest_of(self.seed, "split", unit))
        wanted = 2 if self.val == 0 else 3
        if len(order) < wanted:
            one = "blocks" if way == BLOCKS else "drives" if way == GROUPS else "cases"
            hint = "; split by blocks instead" if way == GROUPS else ""
            raise InputError(f"{len(order)} {one} cannot be split into {wanted} sides{hint}")
        middles = (np.cumsum([sizes[unit] for unit in order]) - [sizes[unit] / 2 for unit in order]) / len(units)
        least = int(self.val > 0)
        tested = int(np.clip(np.sum(middles < self.test), 1, len(order) - 1 - least))
        chosen = int(np.clip(np.sum(middles < self.test + self.val) - tested, least, len(order) - 1 - tested))
        side = dict(zip(order, [TEST] * tested + [VAL] * (chosen if least else 0) + [TRAIN] * len(order), strict=False))
        return {key: side[unit] for key, unit in units.items()}

    def _check(self, found: Split) -> None:
        counts = found.counts()
        for side, what in ((TRAIN, "training"), (VAL, "validation")):
            if not counts[side] and (side == TRAIN or self.val):
                kept = f"{counts[TEST]} of {len(found.sides)} cases are kept for testing"
                gaps = f" and {counts[GUARD]} lie in guard gaps; make --gap or --blocks smaller" if counts[GUARD] else ""
                raise InputError(f"the {what} set is empty: {kept}{gaps}")


def split_source(source: Source, cut: Cut | None = None) -> Split:
    """`source` split as `cut` says; a gap is never shorter than what a window looks back."""
    keys = source.keys()
    if twice := [key for key, count in Counter(keys).items() if count > 1]:
        raise InputError(f"the source lists '{twice[0]}' twice; every key must be there once")
    look_back = source.length - 1 if isinstance(source, Windows) else 0
    return (cut or Cut()).split({key: group_of(source, key) for key in keys}, look_back=look_back)


def _drives(groups: Mapping[str, str]) -> dict[str, list[str]]:
    """The keys of every drive in the order of their names, in which numbers count as numbers."""
    drives: dict[str, list[str]] = {}
    for key in sorted(groups, key=_natural):
        drives.setdefault(groups[key], []).append(key)
    return drives


def _natural(key: str) -> tuple[list[tuple[int, str]], str]:
    parts = [part.lstrip("0") if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", key))]
    # Of two numbers the longer one is larger; the key itself tells 07 from 7.
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)], key


def _whole(drives: Mapping[str, Sequence[str]]) -> dict[str, Unit]:
    return {key: (drive,) for drive, keys in drives.items() for key in keys}


def _alone(drives: Mapping[str, Sequence[str]]) -> dict[str, Unit]:
    return {key: (drive, key) for drive, keys in drives.items() for key in keys}


def _guard(sides: dict[str, str], keys: Sequence[str], gap: int) -> None:
    """Take the frames of a drive out of use that lie within `gap` of a side they must not touch."""
    for held, freed in ((TEST, (VAL, TRAIN)), (VAL, (TRAIN,))):
        near = _near(np.array([sides[key] == held for key in keys]), gap)
        for key in (key for key, close in zip(keys, near, strict=True) if close and sides[key] in freed):
            sides[key] = GUARD


def _near(held: Array, gap: int) -> Array:
    """Whether each place lies within `gap` of one that is held."""
    total = np.concatenate([[0], np.cumsum(held)])
    place = np.arange(len(held))
    low, high = np.maximum(place - gap, 0), np.minimum(place + gap + 1, len(held))
    return np.asarray(total[high] > total[low])
