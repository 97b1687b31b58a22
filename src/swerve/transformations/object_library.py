"""A library of objects cut out of labelled pictures: one file, from which the best replacement of an object is taken.

The file is a safetensors file with two arrays of bytes: `index`, JSON that describes every object, and `pictures`, their
pictures as PNG and their masks as bits. The index is read at once, a picture only when it is needed.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import load, save

from swerve.config import limits
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.lru import SizedLRU
from swerve.core.values import Array
from swerve.explain.heat import picture_of
from swerve.sources.images import decode_image
from swerve.store.files import png_bytes, write_whole
from swerve.transformations.cutouts import Complete, Cutout, cutouts
from swerve.transformations.frame_objects import FrameObject, Span

VERSION = "swerve objects 1"
ALIKE = 0.05  # of the logarithm of width / height: closer shapes count as equal, so that the area decides
_OPEN, _CUT = SizedLRU(4), SizedLRU(64)


@dataclass(frozen=True)
class LibraryObject:
    """An object of a library: what it is, where it stood, and where its picture and its mask lie in the file."""

    name: str
    kind: str
    key: str  # of the case that it was cut out of
    group: str
    span: Span
    frame: tuple[int, int]  # width and height of that picture
    pixels: int
    light: tuple[float, float, float]
    at: tuple[int, int, int]  # begin of the picture, of the mask, and end

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        left, top, right, bottom = self.span
        return right - left, bottom - top

    @property
    def aspect(self) -> float:
        """Width divided by height."""
        width, height = self.size
        return width / height


@dataclass(frozen=True, eq=False)
class ObjectLibrary:
    """The objects of a file, in the order of their names."""

    items: tuple[LibraryObject, ...]
    pictures: Array
    sha256: str = ""

    @cached_property
    def named(self) -> Mapping[str, LibraryObject]:
        """Every object by its name."""
        return {item.name: item for item in self.items}

    @cached_property
    def kinds(self) -> Counter[str]:
        """How many objects of each kind there are."""
        return Counter(item.kind for item in self.items)

    def nearest(self, item: FrameObject, case: Case) -> LibraryObject:
        """The replacement of an object: same kind, nearest shape, then nearest area, then first name.

        Objects of the same picture or drive are left out; raises `NotApplicable` if there is no other.
        """
        # D-13e
        return self.ranked(item, case)[0]

    def ranked(self, item: FrameObject, case: Case) -> list[LibraryObject]:
        """The possible replacements of an object, the best first; raises `NotApplicable` if there is none."""
        able = [one for one in self._of_kind.get(item.kind, ()) if not is_from(one, case)]
        if not able:
            raise NotApplicable(f"the library has no {item.kind} from another picture; it has {self.summary}")
        width, height = item.size
        apart = np.abs(np.log([one.aspect for one in able]) - np.log(width / height))
        area = np.abs(np.array([one.pixels for one in able]) - item.pixels)
        order = np.lexsort((np.arange(len(able)), area, np.floor(apart / ALIKE)))
        return [able[place] for place in order.tolist()]

    @property
    def summary(self) -> str:
        """Such as "12 cars, 3 persons"."""
        counts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in sorted(self.kinds.items())]
        return ", ".join(counts) or "no objects"

    def cutout(self, name: str) -> Cutout:
        """The picture of an object; raises `InputError` if there is none of that name, or if it is damaged."""
        if name not in self.named:
            raise InputError(f"the library has no object '{name}'")
        return _CUT.get((self.sha256, name), lambda: self._cut(self.named[name]))

    @cached_property
    def _of_kind(self) -> Mapping[str, list[LibraryObject]]:
        return {kind: [item for item in self.items if item.kind == kind] for kind in self.kinds}

    def _cut(self, item: LibraryObject) -> Cutout:
        start, middle, end = item.at
        width, height = item.size
        picture = decode_image(self.pictures[start:middle].tobytes(), f"object '{item.name}'").pixels
        bits = np.frombuffer(_inflated(self.pictures[middle:end].tobytes(), (width * height + 7) // 8), np.uint8)
        if picture.shape[:2] != (height, width) or len(bits) != (width * height + 7) // 8:
            raise InputError(f"object '{item.name}' of the library is damaged: its picture has another size than listed")
        mask = np.unpackbits(bits, count=width * height).reshape(height, width).astype(bool)
        return Cutout(picture, mask, item.light)


def open_library(file: Asset) -> ObjectLibrary:
    """The library in a file; the last few are kept open. Raises `InputError` if it is none."""
    return _OPEN.get(file, lambda: _parsed(file))


def build_library(
    cases: Iterable[Case], path: Path, rule: Complete | None = None, *, progress: Callable[[], None] = lambda: None
) -> tuple[ObjectLibrary, Counter[str]]:
    """Write the complete objects of `cases` to a file; also returns how many were left out, by reason."""
    found: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    left_out: Counter[str] = Counter()
    start = 0
    for case in cases:
        for item, cut in _objects(case, rule or Complete(), left_out):
            picture, bits = png_bytes(np.ascontiguousarray(cut.pixels)), zlib.compress(np.packbits(cut.mask).tobytes(), 6)
            middle, end = start + len(picture), start + len(picture) + len(bits)
            found.append(asdict(_entry(case, item, cut, (start, middle, end))))
            blobs += [picture, bits]
            start = end
        progress()
    if not found:
        reasons = ", ".join(f"{count} {why}" for why, count in left_out.most_common()) or "no labelled objects"
        raise InputError(f"no object can be cut out: {reasons}")
    found.sort(key=lambda row: str(row["name"]))
    index = json.dumps({"format": VERSION, "objects": found}, separators=(",", ":")).encode()
    arrays = {"index": np.frombuffer(index, np.uint8), "pictures": np.frombuffer(b"".join(blobs), np.uint8)}
    write_whole(path, save(arrays))
    return open_library(Asset(path)), left_out


def _objects(case: Case, rule: Complete, left_out: Counter[str]) -> Iterable[tuple[FrameObject, Cutout]]:
    try:
        for item, cut in cutouts(case, rule):
            if isinstance(cut, Cutout):
                yield item, cut
            else:
                left_out[cut] += 1
    except NotApplicable as why:
        left_out[str(why)] += 1


def _entry(case: Case, item: FrameObject, cut: Cutout, at: tuple[int, int, int]) -> LibraryObject:
    red, green, blue = (round(level, 1) for level in cut.light)
    name, frame = f"{case.key}:{item.number}", picture_of(case).size
    return LibraryObject(name, item.kind, case.key, case.group, item.span, frame, item.pixels, (red, green, blue), at)


def is_from(item: LibraryObject, case: Case) -> bool:
    """Whether an object was cut out of the picture of a case, or out of its drive, where it may show the same object."""
    return item.key == case.key or bool(item.group and item.group == case.group)


def _parsed(file: Asset) -> ObjectLibrary:
    try:
        arrays = load(file.read())
        index = json.loads(arrays["index"].tobytes())
        if index["format"] != VERSION:
            raise ValueError(f"its format is {str(index['format'])[:40]!r}")
        items = tuple(_checked(row, len(arrays["pictures"])) for row in index["objects"])
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{file.path}: is no library of objects ({error}); make one with 'swerve objects build'") from error
    return ObjectLibrary(tuple(sorted(items, key=lambda item: item.name)), arrays["pictures"], file.sha256)


def _checked(row: Mapping[str, Any], room: int) -> LibraryObject:
    """An object of an index that may have been written by anybody."""
    texts = {name: row[name] for name in ("name", "kind", "key", "group")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("a name that is no text")
    left, top, right, bottom = (_whole(number) for number in row["span"])
    width, height = (_whole(number) for number in row["frame"])
    start, middle, end = (_whole(number) for number in row["at"])
    red, green, blue = (float(level) for level in row["light"])
    whole = left < right and top < bottom and start < middle < end <= room
    if not whole or (right - left) * (bottom - top) > limits.PIXELS or not all(1 <= x <= 255 for x in (red, green, blue)):
        raise ValueError(f"object '{texts['name'][:40]}' has impossible numbers")
    span, light, at = (left, top, right, bottom), (red, green, blue), (start, middle, end)
    return LibraryObject(**texts, span=span, frame=(width, height), pixels=_whole(row["pixels"]), light=light, at=at)


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**62:
        raise ValueError(f"{str(number)[:40]!r} is no whole number")
    return number


def _inflated(data: bytes, most: int) -> bytes:
    """At most `most` bytes of compressed data and one more, so that a bomb does no harm."""
    try:
        return zlib.decompressobj().decompress(data, most + 1)
    except zlib.error as error:
        raise InputError("a mask of the library is damaged") from error
