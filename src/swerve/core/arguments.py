"""Checks of constructor arguments, with one wording for all parts."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

from swerve.core.errors import InputError, unknown


@dataclass(frozen=True)
class OneOfNames:
    """The names that an argument may be, for `swerve list`: `by: Annotated[str, OneOfNames("case", "change")]`."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


def check_known(what: str, given: object, known: Collection[str]) -> None:
    """Raise `InputError` unless `given` is one of the `known` names."""
    if given not in known:
        raise InputError(unknown(what, given, known))


def check_whole(
    name: str, value: object, low: int = 0, high: int | None = None, *, error: type[Exception] = ValueError
) -> None:
    """Raise `error` unless `value` is a whole number from `low` to `high`."""
    wrong_type = isinstance(value, bool) or not isinstance(value, Integral)
    if wrong_type or value < low or (high is not None and value > high):  # type: ignore[operator]
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise error(f"{_quoted(name)} must be a whole number {bounds}, got {value!r}")


def check_number(
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    error: type[Exception] = ValueError,
) -> None:
    """Raise `error` unless `value` is a finite number from `low` to `high`; `above` excludes `low` itself."""
    fits = _is_finite(value) and (low < value if above else low <= value) and value <= high  # type: ignore[operator]
    if not fits:
        raise error(f"{_quoted(name)} must be {_range(low, high, above=above)}, got {value!r}")


def take_paths(part: object) -> None:
    """Turn the texts that a new dataclass was given for its fields of type `Path` into paths, as a campaign file may."""
    for item in dataclasses.fields(part):  # type: ignore[arg-type]
        if isinstance(given := getattr(part, item.name, None), str) and Path in _types_of(type(part), item.name):
            object.__setattr__(part, item.name, Path(given))


def _types_of(kind: type, name: str) -> tuple[object, ...]:
    hint = typing.get_type_hints(kind).get(name)
    return typing.get_args(hint) or (hint,)


def _quoted(name: str) -> str:
    """A parameter's name in quotes, because `near` or `by` would read as a word of the sentence."""
    place, colon, last = name.rpartition(": ")
    return f"{place}{colon}'{last}'" if last.isidentifier() else name


def _is_finite(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _range(low: float, high: float, *, above: bool) -> str:
    least = "" if low == -math.inf else f" above {low:g}" if above else f" of at least {low:g}"
    if high == math.inf:
        return f"a number{least}" if least else "a finite number"
    if not least:
        return f"a number of at most {high:g}"
    return f"a number above {low:g} and at most {high:g}" if above else f"a number from {low:g} to {high:g}"
