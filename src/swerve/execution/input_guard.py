"""Whether somebody wrote into values that were only shown to them: a mark of every number, taken before and after (R26).

A mark costs less than a copy and takes no memory, so it is taken of all that a system is shown. It is no hash, but sums by
place: any one number that changes shows, and so do pixels that change places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array, Value

WORD = np.dtype(np.uint64)
PLACES = 509  # words summed apart from each other: they fit a core's cache; a prime, which no picture's row divides
ROW = PLACES * WORD.itemsize


def marks_of(cases: Sequence[Case]) -> list[int]:
    """A mark of each case's inputs, the same as long as nobody writes into them."""
    known: dict[int, int] = {}  # by identity: cases may share frames
    return [hash(tuple(_known(array, known) for array in arrays_of(case))) for case in cases]


def share(one: Case, other: Case) -> bool:
    """Whether an input of one may lie in the memory of an input of the other."""
    return any(np.may_share_memory(mine, theirs) for mine in arrays_of(one) for theirs in arrays_of(other))


def arrays_of(case: Case) -> list[Array]:
    """Every array of its inputs."""
    found: list[Array] = []
    for value in case.inputs.values():
        _collect(value, found)
    return found


def _collect(thing: object, found: list[Array]) -> None:
    if isinstance(thing, np.ndarray):
        found.append(thing)
    elif isinstance(thing, Value | Mapping | tuple):  # what else there is, numbers and texts, nobody can write into
        parts = thing if isinstance(thing, tuple) else (vars(thing) if isinstance(thing, Value) else thing).values()
        for part in parts:
            _collect(part, found)


def _known(array: Array, known: dict[int, int]) -> int:
    if id(array) not in known:
        known[id(array)] = _mark(array)
    return known[id(array)]


def _mark(array: Array) -> int:
    data = (array if array.flags.c_contiguous else np.ascontiguousarray(array)).reshape(-1).view(np.uint8)
    rows = data.size // ROW
    whole = data[: rows * ROW]
    # The reduction over no rows at all costs more than all the rest.
    sums = np.add.reduce(whole.view(WORD).reshape(rows, PLACES), axis=0).tobytes() if rows else b""
    return hash((array.shape, sums, data[rows * ROW :].tobytes()))
