"""Pictures with labelled boxes, whatever the format: one set of checks for all readers.

A case is skipped, with a reason that names the file and the box, if a box has a number that is not finite, has no positive
width and height, lies completely outside the picture, or has a kind or state that the data set does not define. A box that
is partly outside is clipped to the picture; if less than half of it remains, it is ignored (neither required nor counted as
an error), as after a transformation (`swerve.transformations.affine`). Boxes of unselected kinds are not checked.
"""
# R42

from __future__ import annotations

import math
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from swerve.config import limits
from swerve.core.arguments import OneOfNames
from swerve.core.errors import InputError, UnreadableCase, printable, unknown
from swerve.core.extras import optional_package
from swerve.core.values import Array, Boxes2D, Image, Masks, Value
from swerve.sources.listed import CAMERA, Entry, ListedSource
from swerve.sources.root import Root
from swerve.sources.texts import number

LEAST_INSIDE = 0.5  # share of a box inside the picture, below which the box is ignored
LONGEST_OUTLINE = 1_000_000  # pixels, the length of all polygons of an object: drawing takes memory for each
COLOURS = ("red", "yellow", "green", "off")
COLOUR, FULL = "colour", "full"

Size = tuple[int, int]
Corners = tuple[float, float, float, float]


class LabelledBox(NamedTuple):
    """A box as the label file defines it, before any check."""

    place: str  # the file and the number of the box: every message starts with it
    xyxy: Corners
    kind: str
    care: bool = True
    outline: Any = None  # COCO's segmentation: polygons in pixels, or run lengths


@dataclass(frozen=True)
class LabelledSource(ListedSource):
    """A source of labelled objects: `kinds` selects some, by the data set's own names; `rename` maps those to others."""

    kinds: tuple[str, ...] = field(default=(), kw_only=True)
    rename: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def check_kinds(self, known: Collection[str]) -> None:
        """Raise `InputError` if `kinds` or `rename` names a kind that the data set does not have."""
        for kind in (*self.kinds, *self.rename):
            if kind not in known:
                raise InputError(f"{self.folder}: {unknown('kind', kind, known)}")

    def wanted(self, kind: str) -> bool:
        """Whether a kind is selected."""
        return not self.kinds or kind in self.kinds

    def named(self, kind: str) -> str:
        """The kind's name after `rename`."""
        return self.rename.get(kind, kind)


@dataclass(frozen=True)
class Boxed(LabelledSource):
    """A source of pictures with boxes: a reader yields them in `label_boxes`, and they are checked here."""

    def label_boxes(self, entry: Entry, size: Size) -> Iterable[LabelledBox]:
        """The boxes in the label of an entry, whose picture has the given size."""
        raise NotImplementedError

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        size = _size(inputs)
        return (self._boxes(self._kept(entry, size), size),)

    def _kept(self, entry: Entry, size: Size) -> list[LabelledBox]:
        return [box for box in self.label_boxes(entry, size) if self.wanted(box.kind)]

    def _boxes(self, labelled: Sequence[LabelledBox], size: Size) -> Boxes2D:
        cut = [clip_box(box, size) for box in labelled]
        care = [box.care and mostly_inside for box, (_, mostly_inside) in zip(labelled, cut, strict=True)]
        return Boxes2D([corners for corners, _ in cut], self._named(labelled), size=size, care=care)  # type: ignore[arg-type]

    def _named(self, labelled: Sequence[LabelledBox]) -> tuple[str, ...]:
        return tuple(self.named(box.kind) for box in labelled)


@dataclass(frozen=True)
class Outlined(Boxed):
    """A source whose labels may also contain the pixels of each object; `masks` reads them.

    Masks are numbered like the boxes, from 1. A pixel that belongs to two objects is assigned to the smaller one, and to an
    ignored object, such as a crowd, only if no other has it.
    """

    masks: bool = field(default=False, kw_only=True)

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        size = _size(inputs)
        labelled = self._kept(entry, size)
        boxes = self._boxes(labelled, size)
        return (boxes, self._masks(labelled, size)) if self.masks else (boxes,)

    def _masks(self, labelled: Sequence[LabelledBox], size: Size) -> Masks:
        # Each mask is drawn twice, so that only one is in memory at a time.
        areas = [int(object_pixels(box, size).sum()) for box in labelled]
        instances = np.zeros(size[::-1], dtype=np.int32)
        for place in sorted(range(len(labelled)), key=lambda place: (labelled[place].care, -areas[place])):
            instances[object_pixels(labelled[place], size)] = place + 1
        return Masks(instances, dict(enumerate(self._named(labelled), start=1)))


@dataclass(frozen=True)
class Lights(Boxed):
    """A source of traffic lights: a kind is a colour, or with `states = "full"` the data set's own name of the state."""

    states: Annotated[str, OneOfNames(COLOUR, FULL)] = field(default=COLOUR, kw_only=True)
    colours: ClassVar[Mapping[str, str]] = {}  # the colour of every state

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.states not in (COLOUR, FULL):
            raise ValueError(f"'states' must be '{COLOUR}' or '{FULL}', got {self.states!r}")

    def check_states(self) -> None:
        """Raise `InputError` if `kinds` or `rename` names something that is not a state of these lights."""
        self.check_kinds(COLOURS if self.states == COLOUR else self.colours)

    def state(self, value: object, place: str) -> str:
        """The kind of a light, from the data set's name of its state."""
        value = known_kind(value, self.colours, place)
        return self.colours[value] if self.states == COLOUR else value


def state_name(kind: str, names: Mapping[str, str], known: Collection[str], key: str) -> str:
    """A data set's name of a state, for a kind that is a colour or such a name already."""
    name = names.get(kind, kind)
    if name not in known:
        raise InputError(f"'{key}' cannot be written: {unknown('state', kind, (*names, *known))}")
    return name


def clip_box(box: LabelledBox, size: Size) -> tuple[Corners, bool]:
    """The part of a box inside the picture, and whether that is enough for the box to be required."""
    left, top, right, bottom = box.xyxy
    if not all(map(math.isfinite, box.xyxy)):
        raise UnreadableCase(f"{box.place} has a number that is not finite: {_format_box(box.xyxy)}")
    if right <= left or bottom <= top:
        raise UnreadableCase(f"{box.place} must have a positive width and height, got {_format_box(box.xyxy)}")
    seen = max(left, 0.0), max(top, 0.0), min(right, float(size[0])), min(bottom, float(size[1]))
    if seen[2] <= seen[0] or seen[3] <= seen[1]:
        raise UnreadableCase(f"{box.place} is outside the picture of {_format_size(size)}: {_format_box(box.xyxy)}")
    share = (seen[2] - seen[0]) / (right - left) * ((seen[3] - seen[1]) / (bottom - top))
    return seen, share >= LEAST_INSIDE


def object_pixels(box: LabelledBox, size: Size) -> Array:
    """The mask of an object: one boolean per pixel of the picture."""
    try:
        return np.asarray(_coco_masks().decode(_run_lengths(box, size)), dtype=bool)
    except (ValueError, RuntimeError) as error:
        raise UnreadableCase(f"{box.place} has an outline that cannot be drawn: {error}") from error


def _coco_masks() -> Any:
    return optional_package("faster_coco_eval.core", "detection").mask


def _run_lengths(box: LabelledBox, size: Size) -> Any:
    """An outline as COCO's compressed run lengths; one that could crash the decoder or fill the memory is refused."""
    width, height = size
    if not isinstance(box.outline, Mapping):
        return _coco_masks().merge(_coco_masks().frPyObjects(_polygons(box, size), height, width))
    value, counts = box.outline.get("size"), box.outline.get("counts")
    if value != [height, width]:
        theirs = printable(str(value), 40)
        raise UnreadableCase(f"{box.place} has a mask of [height, width] {theirs}, but the picture is {_format_size(size)}")
    if isinstance(counts, str):
        return {"size": value, "counts": counts.encode()}
    if not isinstance(counts, list) or not all(_is_count(count, width * height) for count in counts):
        raise UnreadableCase(f"{box.place} has a mask whose counts are not valid numbers of pixels")
    return _coco_masks().frPyObjects({"size": value, "counts": counts}, height, width)


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _polygons(box: LabelledBox, size: Size) -> list[list[float]]:
    if not isinstance(box.outline, list) or not box.outline:
        raise UnreadableCase(f"{box.place} has no outline; set masks = false")
    polygons = [_polygon(ring, box.place, size) for ring in box.outline]
    if sum(np.abs(np.diff(ring, axis=0, append=ring[:1])).sum() for ring in polygons) > LONGEST_OUTLINE:
        raise UnreadableCase(f"{box.place} has an outline longer than {LONGEST_OUTLINE:,} pixels")
    return [ring.ravel().tolist() for ring in polygons]


def _polygon(value: Any, place: str, size: Size) -> Array:
    """The corners of a polygon, none further outside the picture than the picture's own size."""
    if not isinstance(value, list) or len(value) < 6 or len(value) % 2:
        raise UnreadableCase(f"{place} has a polygon that is not a list of at least three pairs of numbers")
    ring = np.array([number(item, place) for item in value]).reshape(-1, 2)
    if (ring < -np.array(size)).any() or (ring > 2 * np.array(size)).any():
        raise UnreadableCase(f"{place} has an outline far outside the picture of {_format_size(size)}")
    return ring


def known_kind(value: object, known: Collection[str], place: str) -> str:
    """`value` if it is one of `known`."""
    if not isinstance(value, str) or value not in known:
        raise UnreadableCase(f"{place} has the {unknown('kind', str(value), known)}")
    return value


def check_size(place: str, value: tuple[Any, Any], size: Size) -> None:
    """Raise `UnreadableCase` if a label is for a picture of another size."""
    theirs = tuple(number(item, f"{place}, size") for item in value)
    if theirs != size:
        raise UnreadableCase(f"{place} is labelled as {theirs[0]:g}x{theirs[1]:g}, but the picture is {_format_size(size)}")


def corner_values(value: Any, names: Sequence[str], place: str) -> tuple[float, ...]:
    """The numbers of a box that a label stores under names."""
    value = as_table(value, place)
    return tuple(number(value.get(name), f"{place}, {name}") for name in names)


def as_table(value: Any, place: str) -> Mapping[str, Any]:
    """`value` if it is a mapping."""
    if not isinstance(value, Mapping):
        raise UnreadableCase(f"{place}: expected a mapping of names to values, got {type(value).__name__}")
    return value


def as_rows(value: Any, place: str) -> list[Any]:
    """`value` if it is a list within the limit of rows."""
    if not isinstance(value, list):
        raise UnreadableCase(f"{place}: expected a list, got {'nothing' if value is None else type(value).__name__}")
    if len(value) > limits.ROWS:
        raise UnreadableCase(f"{place}: {len(value):,} labels, at most {limits.ROWS:,} are read (swerve list limits)")
    return value


def as_text(value: Any, place: str) -> str:
    """`value` if it is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise UnreadableCase(f"{place}: expected a string that is not empty, got {printable(repr(value), 40)}")
    return value


def read_lines(root: Root, name: str) -> list[str]:
    """The lines of a text file, stripped; empty ones stay, so that line numbers match an editor's."""
    try:
        found = root.bytes(name, most=limits.MANIFEST).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableCase(f"{name}: not UTF-8 text at byte {error.start}") from error
    return as_rows([line.strip() for line in found], name)


def list_files(root: Root, *suffixes: str, under: str) -> list[str]:
    """The files with the given suffixes below a folder that the user named; it must lie inside the data set."""
    if posixpath.isabs(under) or ".." in PurePosixPath(under).parts:
        raise InputError(f"{root.folder}: {printable(under, 80)} is outside the data set's folder; use one below it")
    with fatal(root):
        return root.names(*suffixes, under=under)


@contextmanager
def fatal(root: Root) -> Iterator[None]:
    """Turn an unreadable file, without which no case can be read, into an `InputError` with the full path."""
    try:
        yield
    except UnreadableCase as error:
        raise InputError(f"{root.folder}/{error}") from error


def _size(inputs: Mapping[str, Value]) -> Size:
    picture = inputs[CAMERA]
    assert isinstance(picture, Image)
    return picture.size


def _format_size(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _format_box(xyxy: Corners) -> str:
    return "({:g}, {:g}) to ({:g}, {:g})".format(*xyxy)
