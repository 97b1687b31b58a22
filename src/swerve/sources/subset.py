"""Some cases of a source: a sample for a quick test, or the seeds of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from swerve.core.arguments import check_whole
from swerve.core.case import Case
from swerve.core.convention import Convention
from swerve.core.seeding import digest_of, rng_for
from swerve.sources.windows import WrappedSource


@dataclass(frozen=True)
class Subset(WrappedSource):
    """At most `count` cases of `source`, in its order: evenly spaced, or drawn at random if there is a `seed`."""

    count: int
    seed: int | None = None

    def __post_init__(self) -> None:
        check_whole("count", self.count, 1)

    @property
    def convention(self) -> Convention | None:
        """The source's steering convention, if it declares one."""
        return getattr(self.source, "convention", None)

    def keys(self) -> Sequence[str]:
        return list(self._chosen)

    def __getitem__(self, key: str) -> Case:
        if key not in self._chosen:
            raise KeyError(key)
        return self.source[key]

    def fingerprint(self) -> str:
        return digest_of("some", self.source.fingerprint(), list(self._chosen))

    @cached_property
    def _chosen(self) -> dict[str, None]:
        keys = self.source.keys()
        if len(keys) <= self.count:
            places: Sequence[int] = range(len(keys))
        elif self.seed is None:
            places = [place * len(keys) // self.count for place in range(self.count)]
        else:
            drawn = rng_for(self.seed, "some", len(keys)).choice(len(keys), self.count, replace=False)
            places = sorted(int(place) for place in drawn)
        return {keys[place]: None for place in places}
