"""Gates refuse follow-ups in which the road cannot be recognised, or whose label moved."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import cv2
import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case
from swerve.core.values import Image
from swerve.transformations.photometric import images_of


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


def _entropy(image: Image) -> float:
    """The entropy of the grey levels, rounded because sums of logarithms differ between machines in the last digit."""
    if not image.pixels.size:
        return 0.0
    counts = np.bincount(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY).ravel(), minlength=256)
    shares = counts[counts > 0] / counts.sum()
    return round(float((shares * np.log2(1 / shares)).sum()), 9)
