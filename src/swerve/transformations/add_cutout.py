"""One more object in a picture: cut out of another one, and pasted where it stood there, as semSensFuzz adds objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from swerve.core.arguments import check_whole
from swerve.core.asset import Asset
from swerve.core.case import Case, Fact
from swerve.core.errors import NotApplicable
from swerve.core.space import BatchSpace, Proposal
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Classes, Image, Masks, SceneRef, Value, find
from swerve.explain.heat import picture_of
from swerve.transformations.cutouts import Cutout
from swerve.transformations.frame_objects import FrameObject, FrameObjects, Span, frame_objects
from swerve.transformations.object_choice import ObjectSelection, RandomObjects
from swerve.transformations.object_library import LibraryObject, ObjectLibrary, is_from, open_library
from swerve.transformations.replace_objects import HIDES, Corners, covered_shares, picture_fault, target
from swerve.transformations.retouch import added, labelled, place

if TYPE_CHECKING:
    from swerve.core.system import System

TRIES = 10  # objects that are tried for a picture (B.4, item 45)
VISIBLE = 0.5  # the least share of an added object that nothing hides
SHAPE = 0.01  # by which width / height of two pictures may differ, in parts: then their cameras are taken to be alike
ROAD = (0.7, 0.8), (1 / 3, 2 / 3)  # rows and columns, in parts of the picture, where the road ahead of a car is
LEVEL, HUE = 2.0, 0.04  # how many times lighter or darker than the road, and how far off its colour, the ground may be
Ground = Callable[[int, int], bool]  # of a column and a row
FOOT = 2  # pixels around the lower left corner whose colour is that of the ground


@dataclass(frozen=True)
class AddCutout(Transformation):
    """The object `name` of a library pasted into the rectangle `span`, of which the part in `box` is visible.

    It is in the light of its new surroundings, with a soft rim and a shadow, behind what is nearer. The steering angle is
    expected to stay, although the scene is another one. The new object is expected to be detected.
    """

    span: Span
    box: Corners
    name: str
    library: Asset
    preserves: ClassVar[tuple[str, ...]] = ("steering", "signal", "calibration", "region")

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in ("span", "box"):
            given = tuple(getattr(self, part))
            if len(given) != 4 or not (given[0] < given[2] and given[1] < given[3]):
                raise ValueError(f"'{part}' is left, top, right and bottom of a rectangle, got {given!r}")
            object.__setattr__(self, part, given)

    def applies(self, case: Case) -> str | None:
        """The reason why nothing can be added to `case`, or None."""
        known = self.name in open_library(self.library).named
        return picture_fault(case) if known else f"the library has no object '{self.name}'"

    def __call__(self, case: Case) -> Case:
        if why := self.applies(case):
            raise NotApplicable(why)
        seen = frame_objects(case)
        item, cut = self._item(case, seen), open_library(self.library).cutout(self.name)
        name, picture = next((name, value) for name, value in case.inputs.items() if isinstance(value, Image))
        after = Image(added(picture.pixels, seen, item, cut))
        truth = tuple(self._label(value, seen, item, cut) for value in case.truth)
        inputs: dict[str, Value] = {key: self.map(value) for key, value in case.inputs.items() if key != name}
        facts: Mapping[str, Fact] = {"changed": float((after.pixels != picture.pixels).any(axis=2).mean())}
        return Case(
            case.key,
            {**inputs, name: after},
            truth,
            group=case.group,
            parent=case.parent or case.key,
            facts={**case.facts, **facts},
        )

    def placed(self) -> Boxes2D:
        """The new object in the changed picture."""
        return Boxes2D(np.array([self.box]), (self._kind,))

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """The boxes of an answer and that of the new object; those that it hides need not be detected."""
        care = np.array(value.care, bool)
        if len(care):
            care &= covered_shares(np.array([self.box], float), value.xyxy) <= HIDES
        more: dict[str, Any] = {
            "xyxy": np.concatenate([value.xyxy, [self.box]]),
            "kinds": (*value.kinds, self._kind),
            "scores": np.append(np.asarray(value.scores), 1.0),
            "care": np.append(care, True),
        }
        if value.hidden is not None:
            more["hidden"] = np.append(value.hidden, 0.0)
        return dataclasses.replace(value, **more)

    def scene(self, value: SceneRef) -> SceneRef:
        """The frame with its change, which cannot be taken for the frame without it."""
        return dataclasses.replace(value, scene=f"{value.scene} ({self.words()})")

    def words(self) -> str:
        """Such as "a car added, drive/0042:26001"."""
        return f"a {self._kind} added, {self.name}"

    @property
    def _kind(self) -> str:
        return open_library(self.library).named[self.name].kind

    def _item(self, case: Case, seen: FrameObjects) -> FrameObject:
        """The new object under a number that nothing in the picture has."""
        masks = [value for value in case.truth if isinstance(value, Masks)]
        taken = [int(seen.instances.max()), *seen.numbered, *(number for one in masks for number in one.kinds)]
        return FrameObject(1 + max(taken), self._kind, self.span, 0)

    def _label(self, value: Value, seen: FrameObjects, item: FrameObject, cut: Cutout) -> Value:
        if not isinstance(value, Masks | Classes):
            return self.map(value)
        placed = [place(cut, item, seen)]
        if isinstance(value, Masks):
            return Masks(labelled(value.instances, seen, placed), {**value.kinds, item.number: item.kind})
        new = labelled(seen.instances, seen, placed) == item.number
        number = next((number for number, name in value.names.items() if name == item.kind), 0)
        return Classes(np.where(new, number, value.numbers), value.names)


@dataclass(frozen=True, eq=False)
class Spots(FrameObjects):
    """Objects of a library where they would stand in a picture; unlike those of a picture, they may overlap."""

    masks: Mapping[int, Array]
    changes: Mapping[int, AddCutout]

    def mask(self, number: int) -> Array:
        """Which pixels would show an object."""
        return self.masks[number]


@dataclass(frozen=True)
class AddedCutouts(BatchSpace):
    """One more object for each picture, out of a library and where it stood in its own picture: semSensFuzz's second change.

    A few objects are drawn. One fits if its own picture has the same shape, if it stands on the road by classes or colours,
    and if half of it would be visible.

    Args:
        library: the objects to add; built by `swerve objects build`.
        choose: which of those that fit comes first: at random, or for example where the system looks.
        kinds: of objects that may be added; all if there are none.
        tries: how many objects are drawn for a picture.
    """

    library: Asset
    choose: ObjectSelection = field(default_factory=RandomObjects)
    kinds: tuple[str, ...] = ()
    tries: int = TRIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        check_whole("tries", self.tries, 1)
        if not isinstance(self.choose, ObjectSelection):
            raise TypeError(f"'choose' must select objects, such as RandomObjects(), got {type(self.choose).__name__}")
        open_library(self.library)

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """One change for each case, or the reason why there is none; the system is asked once for all cases."""
        found = [self._spots(case, rng) for case, rng in zip(cases, rngs, strict=True)]
        able = [at for at, spots in enumerate(found) if isinstance(spots, Spots)]
        spots = [one for one in found if isinstance(one, Spots)]
        ranked = self.choose.rank([cases[at] for at in able], spots, [rngs[at] for at in able], system)
        chosen: dict[int, Proposal] = {
            at: order if isinstance(order, NotApplicable) else one.changes[order[0]]
            for at, one, order in zip(able, spots, ranked, strict=True)
        }
        return [one if isinstance(one, NotApplicable) else chosen[at] for at, one in enumerate(found)]

    def _spots(self, case: Case, rng: np.random.Generator) -> Spots | NotApplicable:
        if why := picture_fault(case):
            return NotApplicable(why)
        library, seen, picture = open_library(self.library), frame_objects(case), picture_of(case)
        able = [one for one in library.items if self._may_come(one, case, picture)]
        if not able:
            what = " or ".join(self.kinds) or "object"
            return NotApplicable(f"the library has no {what} of another picture of this shape; it has {library.summary}")
        drawn = [able[at] for at in rng.permutation(len(able))[: self.tries]]
        classes = find(case.truth, Classes.slot)
        road = _labelled_road(classes) if isinstance(classes, Classes) else _like_road(picture.pixels, seen)
        fitting = [spot for one in drawn if (spot := self._spot(one, library, seen, road))]
        if not fitting:
            return NotApplicable(f"none of {len(drawn)} objects would stand on the road and be visible")
        items, masks, changes = zip(*fitting, strict=True)
        numbered = {number: item for number, item in enumerate(items, 1)}
        own = tuple(dataclasses.replace(item, number=number) for number, item in numbered.items())
        return Spots(np.zeros_like(seen.instances), own, dict(enumerate(masks, 1)), dict(enumerate(changes, 1)))

    def _may_come(self, one: LibraryObject, case: Case, picture: Image) -> bool:
        (width, height), (wide, high) = picture.size, one.frame
        alike = abs(width / height / (wide / high) - 1) <= SHAPE
        return alike and (not self.kinds or one.kind in self.kinds) and not is_from(one, case)

    def _spot(
        self, one: LibraryObject, library: ObjectLibrary, seen: FrameObjects, is_road: Ground
    ) -> tuple[FrameObject, Array, AddCutout] | None:
        """An object where it would stand, its mask and the change; None if it does not fit."""
        item = FrameObject(0, one.kind, _scaled(one, seen), 0)
        if not is_road(item.span[0], item.span[3] - 1):
            return None
        cut = library.cutout(one.name)
        shown, (left, top, right, bottom) = place(cut, item, seen).visible(seen)
        if shown.sum() < max(VISIBLE * cut.mask.mean() * np.prod(item.size), 1):
            return None
        mask = np.zeros(seen.instances.shape, bool)
        mask[top:bottom, left:right] = shown
        change = AddCutout(item.span, target(cut, item, seen), one.name, self.library)
        return dataclasses.replace(item, pixels=int(shown.sum())), mask, change


def _scaled(one: LibraryObject, seen: FrameObjects) -> Span:
    """Where an object stood in its own picture, in pixels of this one."""
    height, width = seen.instances.shape
    ratio = np.array([width / one.frame[0], height / one.frame[1]] * 2)
    left, top, right, bottom = (int(edge) for edge in np.rint(np.array(one.span) * ratio))
    return left, top, max(right, left + 1), max(bottom, top + 1)


def _labelled_road(classes: Classes) -> Ground:
    """Whether a pixel shows the road, by its class."""
    return lambda column, row: classes.names.get(int(classes.numbers[row, column])) == "road"


def _like_road(pixels: Array, seen: FrameObjects) -> Ground:
    """Whether the ground at a pixel is free and about as the road ahead, where classes are not known."""
    free = seen.instances == 0
    ahead = tuple(slice(int(low * side), int(high * side)) for (low, high), side in zip(ROAD, free.shape, strict=True))
    road = _colour(pixels[ahead], free[ahead])

    def is_alike(column: int, row: int) -> bool:
        foot = slice(max(row - FOOT, 0), row + FOOT + 1), slice(max(column - FOOT, 0), column + FOOT + 1)
        ground = _colour(pixels[foot], free[foot])
        if road is None or ground is None:
            return False
        lighter, off = ground.sum() / road.sum(), np.abs(ground / ground.sum() - road / road.sum()).max()
        return bool(1 / LEVEL <= lighter <= LEVEL and off <= HUE)

    return is_alike


def _colour(pixels: Array, free: Array) -> Array | None:
    """The median colour of free pixels, never black; None without any."""
    return np.median(pixels[free], axis=0).astype(float) + 1 if free.any() else None
