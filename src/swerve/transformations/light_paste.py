"""Traffic lights of any labelled picture edited in it: another colour or place, one more, turned, or only pasted back.

Each change is fixed: it names the boxes of its lights and their states, so that it maps answers as it maps labels. Pixels
move by whole pixels. `LightPastes` (`swerve.transformations.light_pastes`) proposes these changes.
"""

# TG-12..TG-15, D-23, D-32

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_whole
from swerve.core.case import Case, Fact
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Image, SceneRef
from swerve.transformations.fill import PATCH, TELEA, fill_hole
from swerve.transformations.lamps import RED, TARGETS, colour_of, find_lamp, vivid
from swerve.transformations.light_cut import FIXED_TURN, LEAST_GLOW, LightCut, Span, cut_light, span_of
from swerve.transformations.light_targets import Corners, LightTarget, edited_lights, turned_box

CLEAN, PAPER = STYLES = ("clean", "paper")
HALO_SHARE, HALO_LEAST = 0.2, 2  # how much larger than the light the hole is that it leaves; pixels


@dataclass(frozen=True)
class Pasted(Transformation):
    """A change of the lights with the boxes `old`, whose states were `was`; all other pixels stay.

    Args:
        others: boxes of the other lights of the picture, which nothing is filled with.
        style: "clean" keeps a light's own pixels up to a soft rim; "paper" shifts all hues of a box by 120° and blends
            the whole piece by Poisson's equation, as TigAug does.
    """

    old: tuple[Corners, ...]
    was: tuple[str, ...]
    others: tuple[Corners, ...] = dataclasses.field(default=(), kw_only=True)
    style: Annotated[str, OneOfNames(*STYLES)] = dataclasses.field(default=CLEAN, kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = ("steering", "signal", "points", "region", "calibration", "depth")
    lists: ClassVar[tuple[str, ...]] = ("old", "was")  # fields with an entry for each light

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("style", self.style, STYLES)
        for name in (*self.lists, "others"):
            given = tuple(tuple(item) if isinstance(item, list) else item for item in getattr(self, name))
            if name != "others" and len(given) != len(self.old):
                raise ValueError(f"'{name}' must have an entry for each of the {len(self.old)} lights, got {len(given)}")
            object.__setattr__(self, name, given)
        if not self.old:
            raise ValueError("'old' must have the box of one light or more")
        for box in (*self.old, *self.others):
            if len(box) != 4 or not all(map(math.isfinite, box)) or box[0] >= box[2] or box[1] >= box[3]:
                raise ValueError(f"'old' and 'others' must have boxes (left, top, right, bottom) with an area, got {box!r}")

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        return tuple(LightTarget(box, box, was, was) for box, was in zip(self.old, self.was, strict=True))

    def placed(self) -> Boxes2D:
        """The changed lights in the changed picture, with their new states."""
        return Boxes2D(np.array([one.new for one in self.targets]), tuple(one.now for one in self.targets))

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be changed so, or None."""
        pictures = [value for value in case.inputs.values() if isinstance(value, Image)]
        if len(pictures) != 1:
            return "the case has no single picture to change"
        width, height = pictures[0].size
        beyond = [box for one in self.targets for box in (one.old, one.new) if not is_inside(box, width, height)]
        return f"the box {_describe(beyond[0])} is not inside the picture of {width}x{height} pixels" if beyond else None

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """`changed_lights`: how many; `box_room`: the largest ratio of a box's shorter side to its lit lamp."""
        picture = next((value.pixels for value in source.inputs.values() if isinstance(value, Image)), None)
        rooms = [] if picture is None else [room_in(picture, *pair) for pair in zip(self.old, self.was, strict=True)]
        known = [room for room in rooms if room is not None]
        return {"changed_lights": float(len(self.old)), **({"box_room": round(max(known), 3)} if known else {})}

    def image(self, value: Image) -> Image:
        """The picture with the changed lights."""
        canvas = value.pixels.copy()
        cuts = [cut_light(value.pixels, *one) for one in zip(self.old, self.was, strict=True)]
        for number, cut in enumerate(cuts):
            self._clear(canvas, number, cut)
        for number, cut in enumerate(cuts):
            left, top, _, _ = span_of(self.targets[number].new)
            self._edited(cut, number).paste(canvas, (left, top), seamless=self.style == PAPER)
        return Image(canvas)

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """The boxes of a label, or of an answer as they are expected in the changed picture."""
        return edited_lights(value, self.targets)

    def scene(self, value: SceneRef) -> SceneRef:
        """The frame with its change, which cannot be rendered again as if it had none."""
        return dataclasses.replace(value, scene=f"{value.scene} ({self.words()})")

    def simpler(self) -> Iterator[Transformation]:
        """The same with one light fewer."""
        for place in range(len(self.old) if len(self.old) > 1 else 0):
            shorter: dict[str, Any] = {name: _without(getattr(self, name), place) for name in self.lists}
            yield dataclasses.replace(self, **shorter, others=(*self.others, self.old[place]))

    def words(self) -> str:
        """Such as "2 lights cut out and pasted back"."""
        return f"{self._count()} {self._what()}" + (", as in the paper" if self.style == PAPER else "")

    def _what(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} must define _what")

    def _count(self) -> str:
        return f"{len(self.old)} light{'s' * (len(self.old) > 1)}"

    def _edited(self, cut: LightCut, number: int) -> LightCut:
        """The light as it is pasted."""
        del number
        return cut

    def _clear(self, canvas: Array, number: int, cut: LightCut) -> None:
        """Fill the place of a light from its surroundings, without other lights."""
        paper, span = self.style == PAPER, span_of(self.old[number])
        halo = HALO_LEAST if paper else max(HALO_LEAST, round(HALO_SHARE * _shorter(self.old[number])))
        reach = max(span[2] - span[0], span[3] - span[1]) * 2 + 20
        corner = max(span[0] - reach, 0), max(span[1] - reach, 0)
        window = canvas[corner[1] : span[3] + reach, corner[0] : span[2] + reach]
        hole = np.zeros(window.shape[:2], bool)
        if not paper:
            left, top = span[0] - cut.body[0] - corner[0], span[1] - cut.body[1] - corner[1]
            part = hole[top : top + len(cut.glow), left : left + cut.glow.shape[1]]
            part |= cut.glow[: part.shape[0], : part.shape[1]] > LEAST_GLOW
        _mark(hole, grown(span, halo), corner)
        avoid = vivid(window)
        for other in (*self.others, *self.old):
            _mark(avoid, grown(span_of(other), 2), corner)
        for other in self.others:
            _mark(hole, span_of(other), corner, value=False)
        fill_hole(window, hole, method=TELEA if paper else PATCH, avoid=avoid)


@dataclass(frozen=True)
class PasteState(Pasted):
    """Lights with the states `now`: flipped along their longer side, so that red is on top or to the left."""

    now: tuple[str, ...]
    lists: ClassVar[tuple[str, ...]] = ("old", "was", "now")

    def __post_init__(self) -> None:
        super().__post_init__()
        for state in self.now:
            if colour_of(state) not in TARGETS:
                raise ValueError(f"'now' must be states that are red or green, got {state!r}")

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        return tuple(LightTarget(box, box, was, now) for box, was, now in zip(self.old, self.was, self.now, strict=True))

    def _clear(self, canvas: Array, number: int, cut: LightCut) -> None:
        if self.style == PAPER:
            super()._clear(canvas, number, cut)
        else:  # all of the body is pasted over
            cut.put_out(canvas, span_of(self.old[number])[:2])

    def _edited(self, cut: LightCut, number: int) -> LightCut:
        was, now = (str(colour_of(states[number])) for states in (self.was, self.now))
        if self.style == PAPER:
            new = cut.hue_turned(FIXED_TURN if was == RED else -FIXED_TURN) if was != now else cut
        else:
            new = cut.recoloured(now)
        return new.mirrored() if is_flat(self.old[number]) else new.upside_down()

    def _what(self) -> str:
        pairs = zip(self.was, self.now, strict=True)
        return f"recoloured in the picture: {', '.join(f'{was} to {now}' for was, now in pairs)}"


@dataclass(frozen=True)
class PasteLights(Pasted):
    """Lights cut out, their places filled, and pasted back as they were: what an edit alone does to an answer."""

    def _what(self) -> str:
        return "cut out and pasted back"


@dataclass(frozen=True)
class _Aside(Pasted):
    """Lights pasted `shifts` pixels to the right of their own places."""

    shifts: tuple[int, ...]
    lists: ClassVar[tuple[str, ...]] = ("old", "was", "shifts")

    def __post_init__(self) -> None:
        super().__post_init__()
        for shift in self.shifts:
            check_whole("shifts", shift, -(10**6), 10**6)

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        rows = zip(self.old, self.was, self.shifts, strict=True)
        return tuple(LightTarget(box, aside(box, by), was, was) for box, was, by in rows)

    def _pixels(self) -> str:
        return ", ".join(f"{abs(by)} px to the {'right' if by > 0 else 'left'}" for by in self.shifts)


@dataclass(frozen=True)
class PastePlace(_Aside):
    """Lights moved sideways in the picture."""

    def _what(self) -> str:
        return f"moved in the picture: {self._pixels()}"


@dataclass(frozen=True)
class PasteMore(_Aside):
    """Lights with copies beside them; boxes of the copies follow all others."""

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        return tuple(dataclasses.replace(one, copied=True) for one in super().targets)

    def _clear(self, canvas: Array, number: int, cut: LightCut) -> None:
        """Nothing: the lights stay."""

    def _what(self) -> str:
        return f"copied in the picture: {self._pixels()}"


@dataclass(frozen=True)
class PasteTurned(Pasted):
    """Lights turned by 90° about their middles, so that red is on top or to the left."""

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        rows = [(box, was, -1 if is_flat(box) else 1) for box, was in zip(self.old, self.was, strict=True)]
        return tuple(LightTarget(box, turned_box(box, box, by), was, was, turned=by) for box, was, by in rows)

    def _edited(self, cut: LightCut, number: int) -> LightCut:
        return cut.turned(self.targets[number].turned)

    def _what(self) -> str:
        return "turned by 90° in the picture"


def is_flat(box: Corners) -> bool:
    """Whether a light has its lamps side by side, judged by its box."""
    return box[2] - box[0] > box[3] - box[1]


def is_inside(box: Corners, width: float, height: float) -> bool:
    """Whether a box lies in a picture."""
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def aside(box: Corners, by: float) -> Corners:
    """A box moved to the right."""
    return box[0] + by, box[1], box[2] + by, box[3]


def room_in(picture: Array, box: Corners, state: str) -> float | None:
    """The shorter side of a light's box in diameters of its lit lamp; None if no lamp is found."""
    left, top, right, bottom = span_of(box)
    colour = colour_of(state)
    cut = picture[max(top, 0) : bottom, max(left, 0) : right]
    lamp = find_lamp(cut, colour) if colour and cut.size else None
    return _shorter(box) / lamp.diameter if lamp else None


def grown(span: Span, by: int) -> Span:
    """A span with a margin."""
    return span[0] - by, span[1] - by, span[2] + by, span[3] + by


def _mark(mask: Array, span: Span, corner: tuple[int, int], *, value: bool = True) -> None:
    left, top, right, bottom = span
    mask[max(top - corner[1], 0) : max(bottom - corner[1], 0), max(left - corner[0], 0) : max(right - corner[0], 0)] = value


def _shorter(box: Corners) -> float:
    return min(box[2] - box[0], box[3] - box[1])


def _describe(box: Corners) -> str:
    return "(" + ", ".join(f"{edge:g}" for edge in box) + ")"


def _without(values: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return values[:place] + values[place + 1 :]
