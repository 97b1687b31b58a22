"""A thread-safe cache of objects that are expensive to create."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def _one(item: object) -> int:
    del item
    return 1


class SizedLRU:
    """Caches the most recently used objects up to a total weight of `keep`; each weighs 1, or what `weigh` returns."""

    def __init__(self, keep: int, weigh: Callable[[object], int] = _one) -> None:
        self._keep, self._weigh = keep, weigh
        self._kept: OrderedDict[object, object] = OrderedDict()
        self._weight = 0
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[type[SizedLRU], tuple[int, Callable[[object], int]]]:
        """A copy has the same capacity, but starts empty."""
        return SizedLRU, (self._keep, self._weigh)

    def clear(self) -> None:
        """Remove everything."""
        with self._guard:
            self._kept.clear()
            self._weight = 0

    def find(self, key: object) -> object | None:
        """The cached object of `key`, or None."""
        with self._guard:
            return self._kept.get(key)

    def get(self, key: object, make: Callable[[], T]) -> T:
        """The cached object of `key`, created by `make` if needed; other threads are not blocked meanwhile."""
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[return-value]
        item = make()
        with self._guard:
            if key not in self._kept:
                self._kept[key] = item
                self._weight += self._weigh(item)
            kept = self._kept[key]  # two threads that created it at once both get the first one
            self._kept.move_to_end(key)
            while self._weight > self._keep:
                self._weight -= self._weigh(self._kept.popitem(last=False)[1])
        return kept  # type: ignore[return-value]
