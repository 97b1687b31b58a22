"""Typed values: sensor data, labels and model outputs. Labels and outputs share the same types."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# A steering wheel turns two or three times at most: a larger angle is a broken model, not a wrong answer (R20).
LARGEST_ANGLE = 10_000.0
LARGEST_NUMBER = 1e9
NUMBERS = "biuf"  # numpy's dtype kinds for numbers
MAY_HOLD_ARRAYS = (np.ndarray, tuple, dict, MappingProxyType)
ROUNDING = 1e-3  # tolerance of a score below 0 or above 1


class Value:
    """Base class of all values: compared and hashed by content, never by identity."""

    slot: ClassVar[str] = ""

    @cached_property
    def digest(self) -> str:
        """The sha256 of the value's content."""
        hasher = hashlib.sha256(type(self).__name__.encode())
        for part in _parts(self):
            _feed(hasher, part)
        return hasher.hexdigest()

    def fault(self) -> str | None:
        """Why this value cannot be compared, or None."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _parts(value: Value) -> Iterator[object]:
    for item in fields(value):  # type: ignore[arg-type]
        yield getattr(value, item.name)


def _feed(hasher: Any, part: object) -> None:
    if isinstance(part, np.ndarray):
        hasher.update(f"{part.dtype.str}{part.shape}".encode())
        hasher.update(np.ascontiguousarray(part).data)
    elif isinstance(part, Value):
        hasher.update(part.digest.encode())
    elif isinstance(part, Mapping):
        for key in sorted(part):
            hasher.update(repr(key).encode())
            _feed(hasher, part[key])
    elif isinstance(part, tuple):
        hasher.update(f"({len(part)}".encode())
        for item in part:
            _feed(hasher, item)
    else:
        hasher.update(repr(part).encode() + b";")


def _frozen(array: object, dtype: npt.DTypeLike, shape: tuple[int | None, ...], what: str) -> Array:
    """`array` as a read-only array of `dtype` and `shape` (None: any length)."""
    try:
        raw = np.asarray(array)
        if raw.size and raw.dtype.kind not in NUMBERS:  # numpy would parse strings and drop imaginary parts
            raise TypeError(f"{what}: expected numbers, got {raw.dtype.name}")
        given = _whole(raw, dtype, what) if np.dtype(dtype).kind == "i" else raw.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        named = str(error) if what in str(error) else f"{what}: expected numbers, got {type(array).__name__}"
        raise TypeError(named) from error
    if given.size == 0 and shape[0] is None:
        given = given.reshape([0 if length is None else length for length in shape])
    fits = given.ndim == len(shape) and all(s in (None, g) for s, g in zip(shape, given.shape, strict=True))
    if not fits:
        wanted = "x".join("N" if length is None else str(length) for length in shape)
        raise ValueError(f"{what}: expected shape {wanted}, got {'x'.join(map(str, given.shape))}")
    view = given.view()
    view.flags.writeable = False
    return view


def _whole(raw: Array, dtype: npt.DTypeLike, what: str) -> Array:
    """Whole numbers of `dtype`; others are refused, as numpy would cut them off or let them overflow."""
    with np.errstate(invalid="ignore"):
        given = raw.astype(dtype, copy=False)
    if raw.dtype != given.dtype and not (given == raw).all():
        raise ValueError(f"{what}: expected whole numbers of {8 * given.dtype.itemsize} bits")
    return given


def _number(value: object, what: str) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{what}: expected a number, got {type(value).__name__}")
    return float(value)


def _freeze(target: Value, /, **parts: object) -> None:
    for name, part in parts.items():
        object.__setattr__(target, name, part)


@dataclass(frozen=True, eq=False)
class Image(Value):
    """A camera frame: HxWx3 uint8, RGB. The array is not copied and must not be modified afterwards."""

    pixels: Array
    slot: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if getattr(self.pixels, "dtype", None) != np.uint8:
            raise TypeError(f"image: expected uint8 pixels, got {getattr(self.pixels, 'dtype', type(self.pixels).__name__)}")
        _freeze(self, pixels=_frozen(self.pixels, np.uint8, (None, None, 3), "image"))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.pixels.shape[1], self.pixels.shape[0]


@dataclass(frozen=True, eq=False)
class PointCloud(Value):
    """A LiDAR sweep: Nx4 float32 (x, y, z in metres in the sensor frame, intensity)."""

    xyzi: Array
    slot: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        _freeze(self, xyzi=_frozen(self.xyzi, np.float32, (None, 4), "points"))

    def fault(self) -> str | None:
        return None if np.isfinite(self.xyzi).all() else "points are not all finite"


@dataclass(frozen=True, eq=False)
class Boxes2D(Value):
    """Boxes in pixels (left, top, right, bottom) with kinds and scores; `care` is False for boxes to ignore."""

    xyxy: Array
    kinds: tuple[str, ...]
    scores: Array | None = None
    size: tuple[int, int] | None = None  # width and height of the image
    care: Array | None = None
    hidden: Array | None = None  # occluded share of each box, where the label has it
    slot: ClassVar[str] = "boxes2d"

    def __post_init__(self) -> None:
        size = None if self.size is None else _checked_size(self.size, "boxes2d")
        _freeze(self, xyxy=_frozen(self.xyxy, np.float64, (None, 4), "boxes2d"), size=size)
        _freeze_set(self, len(self.xyxy))
        if self.hidden is not None:
            _freeze(self, hidden=_frozen(self.hidden, np.float64, (len(self.xyxy),), "boxes2d hidden"))

    def fault(self) -> str | None:
        return _set_fault(self.xyxy, self.scores, self.slot)


@dataclass(frozen=True, eq=False)
class Boxes3D(Value):
    """Boxes in metres (centre x, y, z, length, width, height, yaw) with kinds and scores."""

    xyzlwhy: Array
    kinds: tuple[str, ...]
    scores: Array | None = None
    care: Array | None = None
    slot: ClassVar[str] = "boxes3d"

    def __post_init__(self) -> None:
        _freeze(self, xyzlwhy=_frozen(self.xyzlwhy, np.float64, (None, 7), "boxes3d"))
        _freeze_set(self, len(self.xyzlwhy))

    def fault(self) -> str | None:
        return _set_fault(self.xyzlwhy, self.scores, self.slot)


def _checked_size(size: object, what: str) -> tuple[int, int]:
    """Width and height of an image, as whole numbers of pixels."""
    try:
        width, height = map(int, () if isinstance(size, str) else size)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        width = height = 0
    if not (0 < width <= LARGEST_NUMBER and 0 < height <= LARGEST_NUMBER):
        raise ValueError(f"{what}: expected a size of (width, height) in pixels, got {str(size)[:40]}")
    return width, height


def _freeze_set(boxes: Boxes2D | Boxes3D, count: int) -> None:
    given: object = boxes.kinds
    if isinstance(given, str | bytes):  # each letter would be a kind
        raise TypeError(f"{boxes.slot}: kinds must be a list of one kind for each box, got {str(given)[:40]!r}")
    kinds = tuple(str(kind) for kind in boxes.kinds)
    if len(kinds) != count:
        raise ValueError(f"{boxes.slot}: {count} boxes but {len(kinds)} kinds; give one kind for each box")
    scores = np.ones(count) if boxes.scores is None else boxes.scores
    care = np.ones(count, dtype=bool) if boxes.care is None else boxes.care
    _freeze(
        boxes,
        kinds=kinds,
        scores=_frozen(scores, np.float64, (count,), f"{boxes.slot} scores"),
        care=_frozen(care, np.bool_, (count,), f"{boxes.slot} care"),
    )


def _set_fault(numbers: Array, scores: Array | None, slot: str) -> str | None:
    if not (np.isfinite(numbers).all() and np.isfinite(scores).all()):  # type: ignore[arg-type]
        return f"{slot} holds a number that is not finite"
    if len(scores) and not (np.min(scores) >= -ROUNDING and np.max(scores) <= 1 + ROUNDING):  # type: ignore[arg-type]
        return f"{slot} holds a score that is not between 0 and 1"
    if numbers.size and np.abs(numbers).max() > LARGEST_NUMBER:
        return f"{slot} holds a number beyond ±{LARGEST_NUMBER:g}"
    return None


@dataclass(frozen=True, eq=False)
class Masks(Value):
    """An instance id per pixel (0: none) and the kind of each id."""

    instances: Array
    kinds: Mapping[int, str]
    slot: ClassVar[str] = "masks"

    def __post_init__(self) -> None:
        kinds = MappingProxyType({int(key): str(kind) for key, kind in self.kinds.items()})
        _freeze(self, instances=_frozen(self.instances, np.int32, (None, None), "masks"), kinds=kinds)


@dataclass(frozen=True, eq=False)
class Classes(Value):
    """The class of every pixel, such as road or car, as a number (0: not labelled), and the name of each number."""

    numbers: Array
    names: Mapping[int, str]
    slot: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        names = MappingProxyType({int(key): str(name) for key, name in self.names.items()})
        _freeze(self, numbers=_frozen(self.numbers, np.int32, (None, None), "classes"), names=names)


@dataclass(frozen=True, eq=False)
class Region(Value):
    """The drivable area: polygons on the ground plane, each Nx2 metres; holes wind in the opposite direction."""

    polygons: tuple[Array, ...]
    slot: ClassVar[str] = "region"

    def __post_init__(self) -> None:
        _freeze(self, polygons=tuple(_frozen(ring, np.float64, (None, 2), "region") for ring in self.polygons))


@dataclass(frozen=True, eq=False)
class Depth(Value):
    """Depth along the viewing axis per pixel, in metres; infinity for the sky."""

    metres: Array
    slot: ClassVar[str] = "depth"

    def __post_init__(self) -> None:
        _freeze(self, metres=_frozen(self.metres, np.float32, (None, None), "depth"))


@dataclass(frozen=True, eq=False)
class Calibration(Value):
    """Named calibration matrices; `camera`, or KITTI's `P2`, projects to pixels of an image of `size`."""

    matrices: Mapping[str, Array]
    size: tuple[int, int] | None = None  # width and height
    slot: ClassVar[str] = "calibration"

    def __post_init__(self) -> None:
        matrices = {str(name): _frozen(m, np.float64, (None, None), "calibration") for name, m in self.matrices.items()}
        size = None if self.size is None else _checked_size(self.size, "calibration")
        _freeze(self, matrices=MappingProxyType(matrices), size=size)


@dataclass(frozen=True, eq=False)
class SceneRef(Value):
    """The key and conditions of the scene a frame was rendered from, which re-rendering needs."""

    scene: str
    conditions: Mapping[str, float | str] = field(default_factory=dict)
    slot: ClassVar[str] = "scene"

    def __post_init__(self) -> None:
        _freeze(self, conditions=MappingProxyType(dict(self.conditions)))


@dataclass(frozen=True, eq=False)
class Steering(Value):
    """The steering-wheel angle in degrees, left positive."""

    # D-1, D-30

    degrees: float
    slot: ClassVar[str] = "steering"

    def __post_init__(self) -> None:
        _freeze(self, degrees=_number(self.degrees, "steering"))

    def fault(self) -> str | None:
        return _number_fault(self.degrees, "steering", LARGEST_ANGLE)


@dataclass(frozen=True, eq=False)
class Signal(Value):
    """Any other number a driving model outputs: brake, collision probability, speed."""

    name: str
    value: float
    unit: str = ""
    slot: ClassVar[str] = "signal"

    def __post_init__(self) -> None:
        _freeze(self, value=_number(self.value, f"signal {self.name}"))

    def fault(self) -> str | None:
        return _number_fault(self.value, f"signal {self.name}", LARGEST_NUMBER)


def _number_fault(number: float, what: str, largest: float) -> str | None:
    if not math.isfinite(number):
        return f"{what} is {number}"
    if abs(number) > largest:
        return f"{what} is {number:g}, beyond ±{largest:g}"
    return None


@dataclass(frozen=True, eq=False)
class Group(Value):
    """Several values in order: the frames of a window, the answers of an ensemble."""

    values: tuple[Value, ...]
    slot: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        _freeze(self, values=tuple(self.values))

    def fault(self) -> str | None:
        return next((why for why in (value.fault() for value in self.values) if why), None)


KINDS: Mapping[str, type[Value]] = MappingProxyType(
    {
        kind.slot: kind
        for kind in (
            Image,
            PointCloud,
            Boxes2D,
            Boxes3D,
            Masks,
            Classes,
            Region,
            Depth,
            Calibration,
            SceneRef,
            Steering,
            Signal,
            Group,
        )
    }
)
SLOTS = tuple(KINDS)


def find(values: Sequence[Value], slot: str, name: str | None = None) -> Value | None:
    """The first value of `slot` (and, for signals, of `name`), or None."""
    for value in values:
        if value.slot == slot and (name is None or getattr(value, "name", None) == name):
            return value
    return None


def with_own_arrays(part: Any) -> Any:
    """A value, or a part of one, with copies of its arrays, so that whoever made them may use their memory again."""
    if isinstance(part, np.ndarray):
        return part.copy()
    if isinstance(part, tuple):
        return tuple(map(with_own_arrays, part))
    if isinstance(part, dict | MappingProxyType):
        return {key: with_own_arrays(item) for key, item in part.items()}
    if not isinstance(part, Value):
        return part
    copied = {name: with_own_arrays(item) for name, item in vars(part).items() if isinstance(item, MAY_HOLD_ARRAYS)}
    return replace(part, **copied) if copied else part  # type: ignore[type-var]
