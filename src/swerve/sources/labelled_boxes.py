"""Pictures with boxes, whatever the format: one rule for what a label may say (R42).

A case is left out, with a line that names the file and the box, where a box has a number that is not finite, ends where it
begins or before, lies wholly outside the picture, or is of a kind or state that the data set does not know. A box that is
partly outside is cut to the picture; where less than half of it is left it is neither demanded nor forbidden, as after a
change (`swerve.transformations.affine`). Boxes of kinds that are not asked for are not looked at.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, NamedTuple

import numpy as np
from faster_coco_eval.core import mask as coco_mask

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase, did_you_mean, printable
from swerve.core.values import Array, Boxes2D, Image, Masks, Value
from swerve.sources.listed import CAMERA, Entry, ListedSource
from swerve.sources.root import Root
from swerve.sources.texts import number

# A box of which less lies in the picture is neither demanded nor forbidden.
LEAST_INSIDE = 0.5
LONGEST_OUTLINE = 1_000_000  # pixels round all polygons of an object: drawing them takes memory for each
COLOURS = ("red", "yellow", "green", "off")
COLOUR, FULL = "colour", "full"

Size = tuple[int, int]
Corners = tuple[float, float, float, float]


class LabelledBox(NamedTuple):
    """A box as a label draws it."""

    place: str  # the file and the number of the box: it leads every message
    xyxy: Corners
    kind: str
    care: bool = True
    outline: Any = None  # COCO's segmentation: polygons in pixels, or run lengths


@dataclass(frozen=True)
class LabelledSource(ListedSource):
    """A source of labelled things: `kinds` keeps only some, by the data set's own names; `rename` gives them others."""

    kinds: tuple[str, ...] = field(default=(), kw_only=True)
    rename: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse `kinds` and `rename` that name what the data set does not have."""
        for kind in (*self.kinds, *self.rename):
            if kind not in known:
                hint = did_you_mean(kind, known)
                raise InputError(f"{self.folder}: there is no kind '{printable(kind, 40)}' here; {hint}")

    def wanted(self, kind: str) -> bool:
        """Whether a kind is asked for."""
        return not self.kinds or kind in self.kinds

    def named(self, kind: str) -> str:
        """What a kind is called from here on."""
        return self.rename.get(kind, kind)


@dataclass(frozen=True)
class Boxed(LabelledSource):
    """A source of pictures with boxes: a reader says in `drawn` which ones, here they are checked."""

    def drawn(self, entry: Entry, size: Size) -> Iterable[LabelledBox]:
        """The boxes that the label of an entry draws on its picture of `size`."""
        raise NotImplementedError

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        size = _size(inputs)
        return (self._boxes(self._kept(entry, size), size),)

    def _kept(self, entry: Entry, size: Size) -> list[LabelledBox]:
        return [box for box in self.drawn(entry, size) if self.wanted(box.kind)]

    def _boxes(self, drawn: Sequence[LabelledBox], size: Size) -> Boxes2D:
        cut = [clipped(box, size) for box in drawn]
        care = [box.care and whole_enough for box, (_, whole_enough) in zip(drawn, cut, strict=True)]
        return Boxes2D([corners for corners, _ in cut], self._named(drawn), size=size, care=care)  # type: ignore[arg-type]

    def _named(self, drawn: Sequence[LabelledBox]) -> tuple[str, ...]:
        return tuple(self.named(box.kind) for box in drawn)


@dataclass(frozen=True)
class Outlined(Boxed):
    """A source whose labels may also tell the pixels of each object; `masks` asks for them.

    They are numbered as the boxes are, from 1. Where two objects share a pixel the smaller one has it, and a box without
    care, such as a crowd, has it last.
    """

    masks: bool = field(default=False, kw_only=True)

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        size = _size(inputs)
        drawn = self._kept(entry, size)
        boxes = self._boxes(drawn, size)
        return (boxes, self._masks(drawn, size)) if self.masks else (boxes,)

    def _masks(self, drawn: Sequence[LabelledBox], size: Size) -> Masks:
        # Drawn twice, so that however many there are only one is in memory.
        areas = [int(inside(box, size).sum()) for box in drawn]
        instances = np.zeros(size[::-1], dtype=np.int32)
        for place in sorted(range(len(drawn)), key=lambda place: (drawn[place].care, -areas[place])):
            instances[inside(drawn[place], size)] = place + 1
        return Masks(instances, dict(enumerate(self._named(drawn), start=1)))


@dataclass(frozen=True)
class Lights(Boxed):
    """A source of traffic lights: a kind is a colour, or with `states = "full"` the data set's own word for the state."""

    states: str = field(default=COLOUR, kw_only=True)
    colours: ClassVar[Mapping[str, str]] = {}  # of every state

    def __post_init__(self) -> None:
        if self.states not in (COLOUR, FULL):
            raise ValueError(f"states must be {COLOUR} or {FULL}, got {self.states!r}")

    def refuse_unknown_states(self) -> None:
        """Refuse `kinds` and `rename` that are no state of these lights."""
        self.refuse_unknown(COLOURS if self.states == COLOUR else self.colours)

    def state(self, told: object, place: str) -> str:
        """The kind of a light, from the data set's word for its state."""
        told = known_kind(told, self.colours, place)
        return self.colours[told] if self.states == COLOUR else told


def clipped(box: LabelledBox, size: Size) -> tuple[Corners, bool]:
    """The part of a box that lies in the picture, and whether that is enough of it to be demanded."""
    left, top, right, bottom = box.xyxy
    if not all(map(math.isfinite, box.xyxy)):
        raise UnreadableCase(f"{box.place} has a number that is not finite: {_told(box.xyxy)}")
    if right <= left or bottom <= top:
        raise UnreadableCase(f"{box.place} ends before it begins: {_told(box.xyxy)}")
    seen = max(left, 0.0), max(top, 0.0), min(right, float(size[0])), min(bottom, float(size[1]))
    if seen[2] <= seen[0] or seen[3] <= seen[1]:
        raise UnreadableCase(f"{box.place} lies outside the picture of {_by(size)}: {_told(box.xyxy)}")
    share = (seen[2] - seen[0]) / (right - left) * ((seen[3] - seen[1]) / (bottom - top))
    return seen, share >= LEAST_INSIDE


def inside(box: LabelledBox, size: Size) -> Array:
    """The pixels of an object, one boolean for each of the picture."""
    try:
        return np.asarray(coco_mask.decode(_run_lengths(box, size)), dtype=bool)
    except (ValueError, RuntimeError) as error:
        raise UnreadableCase(f"{box.place} has an outline that cannot be drawn: {error}") from error


def _run_lengths(box: LabelledBox, size: Size) -> Any:
    """An outline as COCO's packed run lengths; what would be dangerous to draw is refused."""
    width, height = size
    if not isinstance(box.outline, Mapping):
        return coco_mask.merge(coco_mask.frPyObjects(_polygons(box, size), height, width))
    told, counts = box.outline.get("size"), box.outline.get("counts")
    if told != [height, width]:
        theirs = printable(str(told), 40)
        raise UnreadableCase(f"{box.place} has a mask of height and width {theirs}, the picture is {_by(size)}")
    if isinstance(counts, str):
        return {"size": told, "counts": counts.encode()}
    if not isinstance(counts, list) or not all(_is_count(count, width * height) for count in counts):
        raise UnreadableCase(f"{box.place} has a mask whose counts are no numbers of pixels")
    return coco_mask.frPyObjects({"size": told, "counts": counts}, height, width)


def _is_count(told: object, most: int) -> bool:
    return isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= most


def _polygons(box: LabelledBox, size: Size) -> list[list[float]]:
    if not isinstance(box.outline, list) or not box.outline:
        raise UnreadableCase(f"{box.place} has no outline; leave masks out")
    polygons = [_polygon(ring, box.place, size) for ring in box.outline]
    if sum(np.abs(np.diff(ring, axis=0, append=ring[:1])).sum() for ring in polygons) > LONGEST_OUTLINE:
        raise UnreadableCase(f"{box.place} has an outline of more than {LONGEST_OUTLINE:,} pixels")
    return [ring.ravel().tolist() for ring in polygons]


def _polygon(told: Any, place: str, size: Size) -> Array:
    """The corners of a polygon; none lies further outside the picture than the picture is long."""
    if not isinstance(told, list) or len(told) < 6 or len(told) % 2:
        raise UnreadableCase(f"{place} has a polygon that is not three or more pairs of numbers")
    ring = np.array([number(item, place) for item in told]).reshape(-1, 2)
    if (ring < -np.array(size)).any() or (ring > 2 * np.array(size)).any():
        raise UnreadableCase(f"{place} has an outline that lies outside the picture of {_by(size)}")
    return ring


def known_kind(told: object, known: Collection[str], place: str) -> str:
    """`told` if it is one of `known`."""
    if not isinstance(told, str) or told not in known:
        raise UnreadableCase(f"{place} is of unknown kind '{printable(str(told), 40)}'; {did_you_mean(str(told), known)}")
    return told


def refuse_size(place: str, told: tuple[Any, Any], size: Size) -> None:
    """Refuse a label that was made for a picture of another size."""
    theirs = tuple(number(item, f"{place}, size") for item in told)
    if theirs != size:
        raise UnreadableCase(f"{place} is labelled as {theirs[0]:g}x{theirs[1]:g}, the picture is {_by(size)}")


def corners(told: Any, names: Sequence[str], place: str) -> tuple[float, ...]:
    """Numbers by their names, as a label tells a box."""
    told = table(told, place)
    return tuple(number(told.get(name), f"{place}, {name}") for name in names)


def table(told: Any, place: str) -> Mapping[str, Any]:
    """`told` if it is names and values."""
    if not isinstance(told, Mapping):
        raise UnreadableCase(f"{place}: expected names and values, got {type(told).__name__}")
    return told


def rows(told: Any, place: str) -> list[Any]:
    """`told` if it is a list of bearable length."""
    if not isinstance(told, list):
        raise UnreadableCase(f"{place}: expected a list, got {'nothing' if told is None else type(told).__name__}")
    if len(told) > limits.ROWS:
        raise UnreadableCase(f"{place}: {len(told):,} labels, at most {limits.ROWS:,} are read (swerve list limits)")
    return told


def text(told: Any, place: str) -> str:
    """`told` if it is a text with something in it."""
    if not isinstance(told, str) or not told:
        raise UnreadableCase(f"{place}: expected a text, got {printable(repr(told), 40)}")
    return told


def lines(root: Root, name: str) -> list[str]:
    """The lines of a text file, numbered as an editor does."""
    try:
        found = root.bytes(name, most=limits.MANIFEST).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableCase(f"{name}: not UTF-8 text at byte {error.start}") from error
    return rows([line.strip() for line in found], name)


def files(root: Root, *suffixes: str, under: str) -> list[str]:
    """The files below a folder that end so; the folder was given by somebody and may not lead out."""
    if posixpath.isabs(under) or ".." in PurePosixPath(under).parts:
        raise InputError(f"{root.folder}: {printable(under, 80)} is outside the data set's folder; give one below it")
    with needed(root):
        return root.names(*suffixes, under=under)


@contextmanager
def needed(root: Root) -> Iterator[None]:
    """Without what is read in here nothing of the data set can be used: the error names its path."""
    try:
        yield
    except UnreadableCase as error:
        raise InputError(f"{root.folder}/{error}") from error


def _size(inputs: Mapping[str, Value]) -> Size:
    picture = inputs[CAMERA]
    assert isinstance(picture, Image)
    return picture.size


def _by(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _told(xyxy: Corners) -> str:
    return "({:g}, {:g}) to ({:g}, {:g})".format(*xyxy)
