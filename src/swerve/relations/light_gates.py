"""Gates for pictures of traffic lights: those in which a light cannot be seen any more, or was cut out far too large."""

# TG-27

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case
from swerve.core.gate import Admission
from swerve.core.values import Array, Boxes2D, find
from swerve.transformations.photometric import images_of

RING = 0.5  # of the longer side: how far around a light its surroundings reach
FAINT = 6.0  # grey levels: lights with less contrast are invisible from the start


@dataclass(frozen=True)
class LightsVisible:
    """Refuses a follow-up in which a required light has kept less than `least` of its contrast to its surroundings.

    At most a share `lost` of the lights may be so. Follow-ups with another number of boxes are not measured.
    """

    least: float = 0.2
    lost: float = 0.0

    def __post_init__(self) -> None:
        check_number("least", self.least, 0, 1)
        check_number("lost", self.lost, 0, 1)

    def admit(self, source: Case, followup: Case) -> Admission:
        """A reason to refuse `followup`, if any, and the smallest share of contrast that a light has kept."""
        before, after = _contrasts(source), _contrasts(followup)
        if before is None or after is None or len(before) != len(after):
            return Admission()
        seen = before >= FAINT
        if not seen.any():
            return Admission()
        kept = after[seen] / before[seen]
        facts = {"least_contrast_kept": round(float(kept.min()), 3)}
        gone = int((kept < self.least).sum())
        if gone <= self.lost * len(kept):
            return Admission("", facts)
        return Admission(f"lights that cannot be seen any more, with less than {self.least:.0%} of their contrast", facts)


@dataclass(frozen=True)
class SnugBoxes:
    """Refuses a follow-up with a changed light whose box is more than `most` lamps wide: more than a light was cut out.

    A lit arrow covers a third of its lens, and a wide back plate is 2.4 lenses wide, so lights may be 4.1 lamps wide.
    """

    most: float = 4.5

    def __post_init__(self) -> None:
        check_number("most", self.most, 1)

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to refuse `followup`, or None; without a measured box it has none."""
        del source
        room = followup.facts.get("box_room")
        too_large = isinstance(room, int | float) and room > self.most
        return f"a changed light's box is more than {self.most:g} lamps wide" if too_large else None


def _contrasts(case: Case) -> Array | None:
    """How much each required light differs from what surrounds it, in grey levels; None without picture or lights."""
    image, label = next(images_of(case), None), find(case.truth, Boxes2D.slot)
    if image is None or not isinstance(label, Boxes2D):
        return None
    boxes = label.xyxy[np.asarray(label.care, bool)]
    return np.array([_contrast(image.pixels, box) for box in boxes])


def _contrast(pixels: Array, box: Array) -> float:
    height, width = pixels.shape[:2]
    left, top, right, bottom = (int(edge) for edge in np.rint(np.clip(box, 0, (width, height) * 2)))
    if left >= right or top >= bottom:
        return 0.0
    more = int(np.ceil(RING * max(right - left, bottom - top)))
    x, y = max(left - more, 0), max(top - more, 0)
    window = pixels[y : bottom + more, x : right + more].astype(np.float32)
    around = np.ones(window.shape[:2], bool)
    around[top - y : bottom - y, left - x : right - x] = False
    ground = np.median(window[around], axis=0) if around.any() else window.mean(axis=(0, 1))
    return float(np.abs(pixels[top:bottom, left:right] - ground).max(axis=2).mean())
