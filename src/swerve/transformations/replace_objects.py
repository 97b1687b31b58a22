"""Changes that replace objects of a picture by cut-out ones, or paste the same ones back, as a control."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_whole
from swerve.core.asset import Asset
from swerve.core.case import Case, Fact
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Classes, Group, Image, Masks, SceneRef, Value
from swerve.relations.matching import overlaps
from swerve.transformations.cutouts import Cutout, cutout
from swerve.transformations.fill import METHODS, PATCH
from swerve.transformations.frame_objects import FrameObject, FrameObjects, Span, frame_objects
from swerve.transformations.object_library import open_library
from swerve.transformations.retouch import Placed, labelled, place, retouched
from swerve.transformations.same_objects import object_facts, sizes_of

SAME = 0.5  # IoU from which a detected box is on an object (D-32)
HIDES = 0.25  # share of another box that a wider replacement may hide before it need not be detected
Corners = tuple[float, float, float, float]


@dataclass(frozen=True)
class Retouched(Transformation):
    """Objects with the numbers `things` changed within the picture: boxes `old` around them become boxes `new`.

    The steering angle, and everything that is not on one of these objects, is expected to stay.
    """

    things: tuple[int, ...]
    old: tuple[Corners, ...]
    new: tuple[Corners, ...]
    fill: Annotated[str, OneOfNames(*METHODS)] = dataclasses.field(default=PATCH, kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = ("steering", "signal", "calibration", "region")
    shown_as: ClassVar[str] = "replaced"  # beside the boxes of the changed objects
    lists: ClassVar[tuple[str, ...]] = ("things", "old", "new")  # fields with an entry for each object

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("method of filling:", self.fill, METHODS)
        for name in self.lists:
            given = tuple(tuple(item) if isinstance(item, list) else item for item in getattr(self, name))
            if len(given) != len(self.things):
                raise ValueError(f"'{name}' must have an entry for each of the {len(self.things)} objects, got {len(given)}")
            object.__setattr__(self, name, given)
        if not self.things or len(set(self.things)) < len(self.things):
            raise ValueError(f"'things' must be one or more different numbers of objects, got {self.things!r}")
        for box in (*self.old, *self.new):
            if len(box) != 4:
                raise ValueError(f"a box is left, top, right and bottom, got {box!r}")
        for thing in self.things:
            check_whole("things", thing, 1)

    def cut(self, place: int, case: Case, seen: FrameObjects) -> Cutout:
        """What is pasted for the object at a place of the lists."""
        raise NotImplementedError

    def drawn(self, case: Case, seen: FrameObjects, pixels: Array) -> tuple[Array, list[Placed]]:
        """The changed picture, and the objects that stand elsewhere in it or have another outline."""
        cuts = [(seen.numbered[thing], self.cut(at, case, seen)) for at, thing in enumerate(self.things)]
        return retouched(pixels, seen, cuts, self.fill), [place(cut, item, seen) for item, cut in cuts]

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be changed like this, or None: it must have these objects in these places."""
        if why := picture_fault(case):
            return why
        found = {number: item.span for number, item in frame_objects(case).numbered.items()}
        moved = [
            thing for thing, box in zip(self.things, self.old, strict=True) if tuple(found.get(thing, ())) != tuple(box)
        ]
        return f"the picture has no object {moved[0]} in the box {self.old[self.things.index(moved[0])]}" if moved else None

    def __call__(self, case: Case) -> Case:
        if why := self.applies(case):
            raise NotApplicable(why)
        seen = frame_objects(case)
        name, picture = next((name, value) for name, value in case.inputs.items() if isinstance(value, Image))
        pixels, placed = self.drawn(case, seen, picture.pixels)
        after = Image(pixels)
        truth = tuple(self._label(value, seen, placed) for value in case.truth)
        facts = {**case.facts, **self._facts(picture, after, seen, placed)}
        inputs: dict[str, Value] = {key: self.map(value) for key, value in case.inputs.items() if key != name}
        return Case(case.key, {**inputs, name: after}, truth, group=case.group, parent=case.parent or case.key, facts=facts)

    def placed(self) -> Boxes2D:
        """The changed objects in the changed picture."""
        return Boxes2D(np.array(self.new), (self.shown_as,) * len(self.new))

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """The boxes of an answer: those on replaced objects move with them; those that get hidden are not required."""
        rows, care = value.xyxy.copy(), np.array(value.care, bool)
        if not len(rows):
            return value
        old, new = np.array(self.old, float), np.array(self.new, float)
        shared = overlaps(old, rows)
        best = shared.argmax(axis=0)
        on_one = shared[best, np.arange(len(rows))] >= SAME
        rows[on_one] += (new - old)[best[on_one]]
        more = covered_shares(new, value.xyxy) - covered_shares(old, value.xyxy)
        care &= on_one | (more <= HIDES)
        return dataclasses.replace(value, xyxy=rows, care=care)

    def scene(self, value: SceneRef) -> SceneRef:
        """The frame with its change, which cannot be taken for the frame without it."""
        return dataclasses.replace(value, scene=f"{value.scene} ({self.words()})")

    def simpler(self) -> Iterator[Transformation]:
        """The same with one object fewer."""
        for at in range(len(self.things) if len(self.things) > 1 else 0):
            rest: dict[str, Any] = {name: _without(getattr(self, name), at) for name in self.lists}
            yield dataclasses.replace(self, **rest)

    def _label(self, value: Value, seen: FrameObjects, placed: Sequence[Placed]) -> Value:
        if isinstance(value, Masks):
            return Masks(labelled(value.instances, seen, placed), value.kinds)
        if isinstance(value, Classes):
            return _reclassified(value, seen, labelled(seen.instances, seen, placed))
        return self.map(value)

    def _facts(self, before: Image, after: Image, seen: FrameObjects, placed: Sequence[Placed]) -> Mapping[str, Fact]:
        changed = float((before.pixels != after.pixels).any(axis=2).mean())
        now = labelled(seen.instances, seen, placed)
        return {"changed": changed, **object_facts(seen.instances, now, sizes_of(seen))}


def _reclassified(value: Classes, seen: FrameObjects, now: Array) -> Classes:
    """The classes of a picture whose instance numbers are `now`; what a removed object hid has none."""
    numbers = {name: number for number, name in value.names.items()}
    changed = now != seen.instances
    classes = np.where(changed, 0, value.numbers)
    for item in seen.items:
        classes[changed & (now == item.number)] = numbers.get(item.kind, 0)
    return Classes(classes, value.names)


def picture_fault(case: Case) -> str | None:
    """Why objects of a case cannot be changed within its picture, or None."""
    if any(isinstance(value, Group) for value in case.inputs.values()):
        return "the case is a window of frames, of which the masks show one"
    if sum(isinstance(value, Image) for value in case.inputs.values()) != 1:
        return "the case must have one camera picture"
    try:
        frame_objects(case)
    except NotApplicable as why:
        return str(why)
    return None


def _without(entries: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return entries[:at] + entries[at + 1 :]


def covered_shares(boxes: Array, others: Array) -> Array:
    """The largest share of each of `others` that one of `boxes` covers."""
    low, high = np.maximum(boxes[:, None, :2], others[None, :, :2]), np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    area = np.maximum((others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1]), 1e-9)
    return np.asarray((np.clip(high - low, 0, None).prod(axis=2) / area).max(axis=0))


@dataclass(frozen=True)
class PasteObjects(Retouched):
    """Objects of a picture removed, and objects `names` of a library pasted in their places.

    A pasted object is as high as the removed one and stands on the same spot, behind what was in front of it, in the light
    of its new surroundings, with a soft rim and a shadow where it touches the ground.
    """

    # IA-7, IA-8, D-36

    names: tuple[str, ...]
    library: Asset
    lists: ClassVar[tuple[str, ...]] = (*Retouched.lists, "names")

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be changed like this, or None."""
        missing = [name for name in self.names if name not in open_library(self.library).named]
        return f"the library has no object '{missing[0]}'" if missing else super().applies(case)

    def cut(self, place: int, case: Case, seen: FrameObjects) -> Cutout:
        """The library's object."""
        del case, seen
        return open_library(self.library).cutout(self.names[place])

    def words(self) -> str:
        """Such as "object 26003 replaced by drive/0042:26001"."""
        pairs = zip(self.things, self.names, strict=True)
        return ", ".join(f"object {thing} replaced by {name}" for thing, name in pairs)


@dataclass(frozen=True)
class PasteBack(Retouched):
    """Objects of a picture removed and pasted back: the control, which shows what the cutting and pasting alone does."""

    shown_as: ClassVar[str] = "pasted back"

    def cut(self, place: int, case: Case, seen: FrameObjects) -> Cutout:
        """The object itself."""
        picture = next(value for value in case.inputs.values() if isinstance(value, Image))
        return cutout(picture, seen, seen.numbered[self.things[place]])

    def words(self) -> str:
        """Such as "object 26003 pasted back"."""
        return ", ".join(f"object {thing} pasted back" for thing in self.things)


def target(cut: Cutout, item: FrameObject, seen: FrameObjects) -> Span:
    """The box around the visible part of a pasted object; raises `NotApplicable` if nothing of it would be visible."""
    shown, (left, top, _, _) = place(cut, item, seen).visible(seen)
    if not shown.any():
        raise NotApplicable(f"nothing of the replacement of object {item.number} would be visible")
    rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
    return left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1
