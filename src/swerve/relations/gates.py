"""Gates refuse follow-ups in which the road cannot be recognised, or whose label moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import cv2
import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case, Fact
from swerve.core.gate import Admission
from swerve.core.values import Array, Image, Masks, find
from swerve.transformations.frame_objects import frame_objects
from swerve.transformations.photometric import images_of
from swerve.transformations.same_objects import AREA, LOST, SHIFT, object_facts, sizes_of

COARSE = (40, 20)  # columns and rows of the lower half
FLAT = 1.0  # the variance of grey levels below which a picture has no contrast


@dataclass(frozen=True)
class MaxFill:
    """Refuses a follow-up of which more than `share` is border fill rather than image."""

    # D-10
    share: float = 0.5
    first_frame: ClassVar[bool] = True  # only the first frame of a window is checked

    def __post_init__(self) -> None:
        check_number("share", self.share, 0, 1)

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None; without a recorded fill it has none."""
        del source
        fill = float(followup.facts.get("fill", 0.0))
        return f"{fill:.1%} of the image is border fill, more than {self.share:.1%}" if fill > self.share else None


@dataclass(frozen=True)
class LabelKept:
    """Refuses a follow-up whose steering label moved by more than `degrees`, as an edit of the scene can do."""

    degrees: float = 1.0

    def __post_init__(self) -> None:
        check_number("degrees", self.degrees, 0)

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None; without a recorded move it has none."""
        del source
        moved = float(followup.facts.get("label_moved", 0.0))
        return f"the label moved by {moved:.2f}°, more than {self.degrees:g}°" if moved > self.degrees else None


@dataclass(frozen=True)
class SameObjects:
    """Refuses a follow-up with other objects than its source, or with one of them in another place or size.

    Objects are compared by their instance masks, or where a case has none, by what the change recorded.

    Args:
        shift: the farthest that the centre of an object's visible part may move, in parts of its longer side.
        area: how many times larger or smaller that part may become.
    """

    # IA-23

    shift: float = 0.25
    area: float = 2.0

    def __post_init__(self) -> None:
        check_number("shift", self.shift, 0)
        check_number("area", self.area, 1)

    def admit(self, source: Case, followup: Case) -> str | Admission:
        """A reason to refuse `followup`, or an admission with how far objects moved and changed in size."""
        before, after = (find(case.truth, Masks.slot) for case in (source, followup))
        facts: Mapping[str, Fact] = followup.facts
        if isinstance(before, Masks) and isinstance(after, Masks):
            if why := _other_kinds(before, after):
                return why
            facts = object_facts(before.instances, after.instances, sizes_of(frame_objects(source)))
        if SHIFT not in facts:
            return "whether its objects are the same is not known: there are no instance masks"
        shift, area, lost = (float(facts[name]) for name in (SHIFT, AREA, LOST))
        found = {"object_shift": shift, "object_area": area}
        if lost:
            return Admission(
                f"{lost:.0f} object{'s are' if lost > 1 else ' is'} visible only before or only after the change", found
            )
        if shift > self.shift:
            return Admission(f"an object moved by {shift:.2f} of its size, more than {self.shift:g}", found)
        return Admission(f"an object changed its area by a factor of {area:.2f}" if area > self.area else "", found)


def _other_kinds(before: Masks, after: Masks) -> str:
    """Why the objects of two pictures are not of the same kinds; empty if they are."""
    for number in sorted({*before.kinds} & {*after.kinds}):
        if before.kinds[number] != after.kinds[number]:
            return f"object {number} was a {before.kinds[number]} and is a {after.kinds[number]}"
    shown = sorted({int(number) for number in np.unique(after.instances) if number} - {*before.kinds})
    return f"object {shown[0]} is new" if shown else ""


@dataclass(frozen=True)
class Legible:
    """Refuses a follow-up that is mostly border, shows very little of the image, or has almost no detail left.

    Changes accumulate along a chain: two zooms by 6 leave a thousandth of the image, two contrasts by 3 a white one.

    Args:
        fill: the largest share of the follow-up that may be border.
        view: the smallest share of the image that must stay visible; a zoom by 6, the largest of Table 4, leaves 0.028.
        detail: the smallest entropy of the grey levels, as a share of the source's. Unlike the spread of levels, it is not
            raised by a border, and a blur hardly lowers it.
    """

    # D-10
    fill: float = 0.5
    view: float = 0.025
    detail: float = 0.25
    first_frame: ClassVar[bool] = True  # only the first frame of a window is checked

    def __post_init__(self) -> None:
        for item in fields(self):
            check_number(item.name, getattr(self, item.name), 0, 1)

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None."""
        if why := MaxFill(self.fill).admit(source, followup):
            return why
        view = float(followup.facts.get("view", 1.0))
        if view < self.view:
            return f"{view:.2%} of the image is still visible, less than {self.view:.2%}"
        before, after = (next(images_of(case), None) for case in (source, followup))
        if before is None or after is None or (bits := _entropy(after)) >= self.detail * (usual := _entropy(before)):
            return None
        return f"the grey levels have an entropy of {bits:.2f} bits, less than {self.detail:.0%} of the source's {usual:.2f}"


@dataclass(frozen=True)
class Visible:
    """Refuses a follow-up in which hardly anything of the source can be seen, as in dense fog or the dark.

    What remains is the contrast that both have in common, in the lower half of the picture, where the road is: the slope of
    the follow-up's grey levels over those of the source. Brightness does not change it, and neither do noise, streaks or
    flakes, which raise the entropy. It is a fact of the record, `contrast_left`. Only for changes that leave everything in
    its place.

    Args:
        least: the smallest share of contrast; things 20 m away keep a quarter of theirs in fog with a visibility of 60 m.
    """

    least: float = 0.25
    first_frame: ClassVar[bool] = True  # only the first frame of a window is checked

    def __post_init__(self) -> None:
        check_number("least", self.least, 0, 1)

    def admit(self, source: Case, followup: Case) -> Admission:
        """A reason to refuse `followup`, if there is one, and the share of contrast that is left."""
        before, after = (next(images_of(case), None) for case in (source, followup))
        left = None if before is None or after is None else contrast_left(before.pixels, after.pixels)
        if left is None:
            return Admission()
        share = round(left, 4)
        why = f"{share:.0%} of the contrast is left, less than {self.least:.0%}" if share < self.least else ""
        return Admission(why, {"contrast_left": share})


def contrast_left(before: Array, after: Array) -> float | None:
    """The share of a picture's contrast that another has left, in the lower half; None for a picture without contrast."""
    ours, theirs = (_coarse(pixels) for pixels in (before, after))
    ours = ours - ours.mean()
    spread = float((ours * ours).mean())
    return float((ours * (theirs - theirs.mean())).mean()) / spread if spread > FLAT else None


def _coarse(pixels: Array) -> Array:
    """The grey levels of the lower half, averaged so far that streaks and flakes cancel out."""
    grey = cv2.cvtColor(pixels[pixels.shape[0] // 2 :], cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, COARSE, interpolation=cv2.INTER_AREA).astype(np.float64)


def _entropy(image: Image) -> float:
    """The entropy of the grey levels, rounded because sums of logarithms differ between machines in the last digit."""
    if not image.pixels.size:
        return 0.0
    counts = np.bincount(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY).ravel(), minlength=256)
    shares = counts[counts > 0] / counts.sum()
    return round(float((shares * np.log2(1 / shares)).sum()), 9)
