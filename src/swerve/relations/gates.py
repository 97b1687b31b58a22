"""Gates: follow-ups that are refused because nobody could say where the road goes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.values import Image
from swerve.transformations.photometric import images_of


@dataclass(frozen=True)
class MaxFill:
    """Refuses a follow-up of which more than `share` is border fill rather than image (D-10)."""

    share: float = 0.5
    first_frame: ClassVar[bool] = True  # of a window, it goes by that alone

    def __post_init__(self) -> None:
        wrong_type = isinstance(self.share, bool) or not isinstance(self.share, int | float)
        if wrong_type or not 0 <= self.share <= 1:
            raise ValueError(f"share must be a number from 0 to 1, got {self.share!r}")

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None; one that recorded no fill has none."""
        del source
        fill = float(followup.facts.get("fill", 0.0))
        return f"{fill:.1%} of the image is border fill, more than {self.share:.1%}" if fill > self.share else None


@dataclass(frozen=True)
class Legible:
    """Refuses a follow-up that is mostly border, shows next to nothing of the picture, or is all but one colour.

    Changes pile up along a chain: two zooms by 6 leave a thousandth of a picture, two contrasts by 3 a white one.

    Args:
        fill: the largest share of the follow-up that may be border (D-10).
        view: the least share of the picture that must still be seen; a zoom by 6, the largest of Table 4, leaves 0.028.
        detail: the least information of a grey level (Shannon's entropy), as a share of that in the picture: a border does
            not make up for a lack of it, as it would with the spread of levels, and a blur takes little of it away.
    """

    fill: float = 0.5
    view: float = 0.025
    detail: float = 0.25
    first_frame: ClassVar[bool] = True  # of a window, it goes by that alone

    def __post_init__(self) -> None:
        for item in fields(self):
            share = getattr(self, item.name)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise ValueError(f"{item.name} must be a number from 0 to 1, got {share!r}")

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None."""
        if why := MaxFill(self.fill).admit(source, followup):
            return why
        view = float(followup.facts.get("view", 1.0))
        if view < self.view:
            return f"{view:.2%} of the picture is still seen, less than {self.view:.2%}"
        before, after = (next(images_of(case), None) for case in (source, followup))
        if before is None or after is None or (bits := _bits(after)) >= self.detail * (usual := _bits(before)):
            return None
        return f"grey levels tell {bits:.2f} bits a pixel, less than {self.detail:.0%} of the {usual:.2f} of the picture"


def _bits(image: Image) -> float:
    """The entropy of grey levels, rounded as sums of logarithms are not the same everywhere to the last digit."""
    if not image.pixels.size:
        return 0.0
    counts = np.bincount(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY).ravel(), minlength=256)
    shares = counts[counts > 0] / counts.sum()
    return round(float((shares * np.log2(1 / shares)).sum()), 9)
