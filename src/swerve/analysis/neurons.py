"""The neurons that single images activate, kept as bits: how much images cover, alone and together, and how they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swerve.core.campaign import Observation
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.coverage.layers import Layout
from swerve.coverage.meter import bits_of


@dataclass(frozen=True, eq=False)
class Sets:
    """One set of neurons per image: `packed` has a row of bits for each of `keys`, out of `size` neurons."""

    size: int
    keys: tuple[Any, ...]
    packed: Array

    @classmethod
    def of(cls, gains: Iterable[tuple[Any, Mapping[str, Any] | None]], criterion: str = "NC") -> Sets:
        """The sets that gains tell, each under its key; an image without a gain is left out."""
        found = [(key, bits_of(gain[criterion])) for key, gain in gains if gain]
        if not found:
            raise InputError("no image tells which neurons it activates: the run was made without coverage")
        sizes = {bits.size for _, bits in found}
        if len(sizes) > 1:
            raise InputError(f"images of one run must have the same neurons, got {sorted(sizes)}")
        return cls(sizes.pop(), tuple(key for key, _ in found), np.stack([bits.packed for _, bits in found]))

    def under(self, members: Array) -> Sets:
        """The same sets with the neurons of one sub-model alone; `members` is a truth value per neuron."""
        return Sets(self.size, self.keys, self.packed & np.packbits(members))

    def only(self, chosen: Sequence[int] | Array) -> Sets:
        """Some of the images, by their places."""
        places = [int(place) for place in chosen]
        return Sets(self.size, tuple(self.keys[place] for place in places), self.packed[places])

    def counts(self) -> Array:
        """How many neurons each image activates."""
        return np.asarray(np.bitwise_count(self.packed).sum(axis=1, dtype=np.int64))

    def union(self) -> Array:
        """The bits of all neurons that any image activates."""
        return np.asarray(np.bitwise_or.reduce(self.packed, axis=0, initial=0), np.uint8)

    def shared(self) -> Array:
        """The bits of the neurons that every image activates; none where there is no image."""
        every = np.bitwise_and.reduce(self.packed, axis=0, initial=np.uint8(255))
        return np.asarray(every if len(self.keys) else np.zeros_like(every), np.uint8)

    def covered(self) -> int:
        """How many neurons the images activate together."""
        return size_of(self.union())

    def growth(self, first: Array) -> Array:
        """How many neurons are covered after each image, those of `first` included."""
        running = np.bitwise_or.accumulate(np.vstack([first, self.packed]), axis=0)
        return np.asarray(np.bitwise_count(running).sum(axis=1, dtype=np.int64)[1:])


def size_of(bits: Array) -> int:
    """How many neurons some bits stand for."""
    return int(np.bitwise_count(bits).sum())


def distances(one: Array, other: Array) -> Array:
    """The Jaccard distance of every pair of rows: 1 - |A ∩ B| / |A ∪ B|, 0 for two empty sets (DT-31)."""
    shared = np.bitwise_count(one & other).sum(axis=-1, dtype=np.float64)
    either = np.bitwise_count(one | other).sum(axis=-1, dtype=np.float64)
    return np.asarray(1 - np.divide(shared, either, out=np.ones_like(shared), where=either > 0))


def originals(baseline: Iterable[Observation]) -> Sets:
    """The sets of the untouched cases, under their keys."""
    return Sets.of((seen.case, seen.gain) for seen in baseline if not seen.fault)


def followups(rows: Iterable[Mapping[str, Any]]) -> Sets:
    """The sets of follow-ups in the order of their trials, under (case, rule, draw)."""
    return Sets.of(((row["case"], row["rule"], row["draw"]), row["gain"]) for row in rows)


@dataclass(frozen=True)
class SubModels:
    """A network whole and in its sub-models (DT-3): names such as `cnn`, and which neurons are theirs."""

    members: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: Layout) -> SubModels:
        """The whole, then every first part of the layers' names that several layers share, if not all do."""
        stems = [name.split(".")[0] for name in layout.names if "." in name]
        shared = [stem for stem in dict.fromkeys(stems) if stems.count(stem) > 1]
        found = {"": np.ones(layout.neurons, bool)}
        return cls(found | ({stem: layout.members(stem) for stem in shared} if len(shared) > 1 else {}))

    def __iter__(self) -> Iterator[tuple[str, Array]]:
        return iter(self.members.items())
