"""Cases of the embedded world, each rendered into a cache when it is first asked for: what cached sources share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from swerve.core.case import Case
from swerve.core.values import Array
from swerve.train.rendered import Arrays, RenderedCache


class CachedCases:
    """The cases of a world under the same keys; a subclass says which arrays of a case are stored, and reads them.

    A field `world` is the source, a field `folder` that of the cache.
    """

    if TYPE_CHECKING:

        @property
        def world(self) -> Any: ...

        @property
        def folder(self) -> Path: ...

    kind: ClassVar[str]  # of what is stored
    stored: ClassVar[tuple[str, ...]]  # the names of the arrays

    def keys(self) -> Sequence[str]:
        keys: Sequence[str] = self.world.keys()
        return keys

    def group(self, key: str) -> str:
        """The scene of a case."""
        return str(self.world.group(key))

    def __getitem__(self, key: str) -> Case:
        if key not in self.keys():
            raise KeyError(key)
        entry = key.replace("/", "-")
        if not self.cache.file(entry).exists():
            self.cache.state_key()
            self.cache.render(lambda _: self.arrays(self.world[key]), entry)
        return self.case(key, dict(zip(self.stored, self.cache.load(entry, self.stored), strict=True)))

    @cached_property
    def cache(self) -> RenderedCache:
        """The files of this world."""
        name = self.kind.partition(" ")[0]
        return RenderedCache(self.folder, name, {"kind": self.kind, "world": self.world.fingerprint()})

    def fingerprint(self) -> str:
        return str(self.world.fingerprint())

    def arrays(self, case: Case) -> Arrays:
        """What is stored of a case."""
        raise NotImplementedError

    def case(self, key: str, stored: Mapping[str, Array]) -> Case:
        """The case that was stored."""
        raise NotImplementedError
