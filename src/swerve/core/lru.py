"""The last few of something dear to make, for all threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def _one(made: object) -> int:
    del made
    return 1


class SizedLRU:
    """Remembers what was made last, up to `keep` in all; each counts as one, or as much as `weigh` says."""

    def __init__(self, keep: int, weigh: Callable[[object], int] = _one) -> None:
        self._keep, self._weigh = keep, weigh
        self._kept: OrderedDict[object, object] = OrderedDict()
        self._weight = 0
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[type[SizedLRU], tuple[int, Callable[[object], int]]]:
        """A copy remembers as much, but starts with nothing."""
        return SizedLRU, (self._keep, self._weigh)

    def clear(self) -> None:
        """Remember nothing."""
        with self._guard:
            self._kept.clear()
            self._weight = 0

    def get(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gives, made once as long as it is remembered; others are not kept waiting while it is made."""
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[return-value]
        made = make()
        with self._guard:
            if key not in self._kept:
                self._kept[key] = made
                self._weight += self._weigh(made)
            kept = self._kept[key]  # of two threads that made it at once, both get the first one's
            self._kept.move_to_end(key)
            while self._weight > self._keep:
                self._weight -= self._weigh(self._kept.popitem(last=False)[1])
        return kept  # type: ignore[return-value]
