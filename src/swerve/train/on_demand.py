"""Sequences of training data whose items are made or read when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnDemand(Sequence[T]):
    """A sequence of what `item` returns for each number from 0; subclasses define it, and their length."""

    def item(self, number: int) -> T:
        """The item with a number below the length."""
        raise NotImplementedError

    @overload
    def __getitem__(self, number: int) -> T: ...
    @overload
    def __getitem__(self, number: slice) -> list[T]: ...

    def __getitem__(self, number: int | slice) -> T | list[T]:
        if isinstance(number, slice):
            return [self.item(one) for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.item(number)
