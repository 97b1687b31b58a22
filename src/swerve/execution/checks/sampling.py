"""What checks look at: some of the cases and trials, and simple questions about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from swerve.core.campaign import Record
from swerve.core.relation import Status
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Boxes3D

T = TypeVar("T")


def spread(items: Sequence[T], count: int) -> list[T]:
    """Up to `count` of the items, evenly spaced from first to last."""
    places = np.unique(np.linspace(0, len(items) - 1, min(count, len(items))).astype(int))
    return [items[place] for place in places]


def any_violated(records: Sequence[Record]) -> bool:
    """Whether a rule was violated."""
    return any(record.verdict.status is Status.VIOLATED for record in records)


def is_empty(answer: Answer) -> bool:
    """Whether an answer consists of boxes only, and has none."""
    return all(isinstance(value, Boxes2D | Boxes3D) and not value.kinds for value in answer)
