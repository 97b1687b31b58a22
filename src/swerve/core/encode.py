"""Encodes values and components as plain JSON, and decodes values; floats survive exactly."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import os
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from swerve.core.asset import Asset
from swerve.core.errors import InputError, StoreError
from swerve.core.names import name_of
from swerve.core.seeding import digest_of
from swerve.core.space import Choices, Over, Range, options
from swerve.core.transformation import Chain, Transformation, cached, check_declared
from swerve.core.values import KINDS, Calibration, Classes, Depth, Group, Image, Masks, PointCloud, Region, Value

JSON = Any
PLAIN = frozenset({type(None), bool, int, str})
MAPPINGS = frozenset({dict, MappingProxyType})
NUMBERS = "biuf"  # kinds of arrays: truth values, whole numbers and floats
ENCODED = "_encoded"
ASSET = "asset"  # the key of an asset's hash
SPEC = "_swerve_spec"  # attribute of an object that is not a dataclass: the table it was built from
CLOSE, CLOSE_RELATIVE = 1e-4, 1e-5  # absolute and relative tolerance
# Too large for a journal line and never part of an answer: the record keeps their hash.
BY_HASH: tuple[type[Value], ...] = (Image, PointCloud, Masks, Classes, Depth, Calibration, Region)


def encode(thing: Any, base: Path | None = None) -> JSON:
    """Plain JSON for a number, a value, a transformation or any component made of dataclass fields.

    Paths are encoded relative to `base`, so that moving a campaign's folder does not change its encoding.
    """
    kind = type(thing)
    if kind in PLAIN or (kind is float and math.isfinite(thing)):
        return thing
    if kind in MAPPINGS:  # as below, and sooner
        return {str(key): encode(item, base) for key, item in thing.items()}
    if kind is tuple or kind is list:
        return [encode(item, base) for item in thing]
    if kind is np.ndarray and thing.dtype.kind in NUMBERS and np.isfinite(thing).all():
        return thing.tolist()  # as below, and far sooner than one number at a time
    if isinstance(thing, Value):
        return encode_value(thing)
    if isinstance(thing, Over):
        return {"use": name_of(thing.kind), **encode(dict(thing.domains), base)}
    if isinstance(thing, Range):
        return [thing.low, thing.high]
    if isinstance(thing, Choices):
        return {"choices": encode(thing.values, base)}
    if isinstance(thing, Asset):
        return {ASSET: thing.sha256}
    if (spec := getattr(thing, SPEC, None)) is not None:
        return spec
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {"use": name_of(type(thing)), **_fields(thing, base)}
    return _plain(thing, base)


def encode_change(change: Transformation | None) -> JSON:
    """`encode` with a cache, as one change of a grid is applied to every case."""
    return None if change is None else _cached_encoding(change, _change_row)


def _change_row(change: Transformation) -> JSON:
    check_declared(type(change))
    if type(change) is Chain:  # a search extends a chain again and again
        return {"use": name_of(Chain), "steps": [encode_change(step) for step in change.steps]}
    row = encode(change)
    if is_live(row):
        raise InputError(
            f"{type(change).__name__} cannot be saved as JSON: its fields must be numbers, strings, tuples or values"
        )
    return row


def _cached_encoding(thing: Any, encoder: Callable[[Any], JSON]) -> JSON:
    """The encoding of an immutable `thing`, cached as its attribute; callers must not modify it."""
    row = vars(thing).get(ENCODED)
    if row is None:
        row = encoder(thing)
        object.__setattr__(thing, ENCODED, row)
    return row


def _fields(thing: Any, base: Path | None = None) -> dict[str, JSON]:
    floats, functions = _float_fields(type(thing)), _function_fields(type(thing))
    given = {name: getattr(thing, name) for name in _field_names(type(thing))}
    named = {name: name_of(given[name]) for name in functions if _is_importable(given[name])}
    plain = {name: float(item) if name in floats and _is_whole(item) else item for name, item in given.items()}
    return {name: named[name] if name in named else encode(item, base) for name, item in plain.items()}


@cached
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind) if item.init)


@cached
def _float_fields(kind: type[Any]) -> frozenset[str]:
    """Fields declared as floats, in which 15 and 15.0 must have the same encoding."""
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):  # an annotation that only a type checker can resolve
        return frozenset()
    return frozenset(name for name, hint in hints.items() if hint is float)


@cached
def _function_fields(kind: type[Any]) -> frozenset[str]:
    """Fields declared as functions; an importable function is encoded as its name."""
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):
        return frozenset()
    return frozenset(name for name in _field_names(kind) if any(map(_is_callable, options(hints.get(name)))))


def _is_callable(hint: Any) -> bool:
    return typing.get_origin(hint) is collections.abc.Callable


def _is_importable(thing: object) -> bool:
    name = getattr(thing, "__qualname__", "")
    return callable(thing) and name.isidentifier() and getattr(thing, "__module__", "__main__") != "__main__"


def _is_whole(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _plain(thing: Any, base: Path | None) -> JSON:
    if isinstance(thing, float):
        # JSON has no NaN or infinity; float() reads the string back.
        return float(thing) if math.isfinite(thing) else str(float(thing))
    if isinstance(thing, Enum):
        return thing.value
    if isinstance(thing, bool | str | int):
        return thing
    if isinstance(thing, np.ndarray | np.generic):
        return encode(thing.tolist(), base)
    if isinstance(thing, Mapping):
        return {str(key): encode(item, base) for key, item in thing.items()}
    if isinstance(thing, tuple | list):
        return [encode(item, base) for item in thing]
    if isinstance(thing, Path):
        return Path(os.path.relpath(thing, base) if base else thing).as_posix()
    # A function, class or live object: its name distinguishes two campaigns, but cannot rebuild it.
    return {"live": name_of(thing) if hasattr(thing, "__qualname__") else name_of(type(thing))}


def storable(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values small enough for a journal line; a new run drops the others too, so that it equals a resumed run."""
    return tuple(value for value in values if not _is_large(value))


def digest_of_large(values: tuple[Value, ...]) -> str:
    """One hash of the values that `storable` drops; "" if there are none."""
    large = [encode_value(value) for value in values if _is_large(value)]
    return digest_of(large) if large else ""


def _is_large(value: Value) -> bool:
    return isinstance(value, BY_HASH) or (isinstance(value, Group) and any(map(_is_large, value.values)))


def close(one: JSON, other: JSON) -> bool:
    """Whether two encoded answers agree up to rounding, which may depend on the batch size (R16)."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE_RELATIVE, abs_tol=CLOSE)
    return bool(one == other)


def is_live(spec: JSON) -> bool:
    """Whether an encoded component contains an object that cannot be rebuilt from JSON."""
    if isinstance(spec, Mapping):
        return "live" in spec or any(is_live(item) for item in spec.values())
    return isinstance(spec, list) and any(is_live(item) for item in spec)


def encode_value(value: Value) -> JSON:
    """A value as `{slot: ..., field: ...}`; a large value as its hash."""
    return _cached_encoding(value, _value_row)


def _value_row(value: Value) -> JSON:
    if _is_large(value):
        return {"slot": value.slot, "sha": value.digest}
    return {"slot": value.slot, **_fields(value)}


def decode_value(row: Mapping[str, JSON]) -> Value | None:
    """The value that `encode_value` wrote, or None if only its hash was kept."""
    try:
        if "sha" in row:
            return None
        given = {name: item for name, item in row.items() if name != "slot"}
        if "values" in given:
            given["values"] = decode_values(given["values"])
        kind = KINDS[row["slot"]]
        names = {"degrees", "value"} & given.keys()
        return _build(kind, {**given, **{name: float(given[name]) for name in names}})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StoreError(f"a stored value cannot be read: {error}") from error


def _build(kind: type[Value], given: Mapping[str, Any]) -> Value:
    try:
        return kind(**given)
    except TypeError:  # NaN and infinity are stored as strings
        return kind(**{name: _numbers_of(item) for name, item in given.items()})


def _numbers_of(item: JSON) -> JSON:
    if isinstance(item, list):
        return [_numbers_of(part) for part in item]
    return float(item) if item in ("nan", "inf", "-inf") else item


def decode_values(rows: list[Mapping[str, JSON]]) -> tuple[Value, ...]:
    """The values of a record, without those of which only the hash was kept."""
    return tuple(value for value in map(decode_value, rows) if value is not None)
