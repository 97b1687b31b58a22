"""What a part of a campaign is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from swerve.core.case import Case
from swerve.core.transformation import cached
from swerve.core.values import Value

_DATA = (str, bytes, int, float, type(None), np.ndarray, np.generic, Value, Case)  # data, which no part hides in


def parts_in(part: object) -> Iterator[object]:
    """`part` and all that it is made of, each once: fields and items at any depth, and the attributes of other objects.

    The attributes of an attribute are not looked at, as a model may hold a million objects.
    """
    waiting: list[tuple[Any, bool]] = [(part, True)]
    seen: set[int] = set()
    while waiting:
        item, open_up = waiting.pop()
        if isinstance(item, _DATA) or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, type):
            continue
        names = _field_names(type(item))
        waiting += [(getattr(item, name, None), True) for name in reversed(names)]
        if "__dataclass_fields__" in vars(type(item)):
            continue
        if isinstance(item, Mapping | list | tuple | set | frozenset):
            waiting += [(inner, open_up) for inner in reversed(list(_items(item)))]
        elif open_up:
            waiting += [(inner, False) for inner in getattr(item, "__dict__", {}).values()]


@cached
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind) if item.init) if dataclasses.is_dataclass(kind) else ()


def _items(many: Iterable[object]) -> Iterable[object]:
    return many.values() if isinstance(many, Mapping) else many
