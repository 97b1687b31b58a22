"""Swaps whose rendered objects are pasted into the picture: what pasting alone does to answers, beside true swaps."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array
from swerve.explain.heat import picture_of
from swerve.transformations.cutouts import Cutout, light_around
from swerve.transformations.frame_objects import Span, frame_objects
from swerve.transformations.replace_objects import picture_fault
from swerve.transformations.reswap import Reswap
from swerve.transformations.retouch import retouched
from swerve.world.render import Rendered


@dataclass(frozen=True)
class PastedReswap(Reswap):
    """The same swaps, but the old objects are removed from the picture and the rendered ones pasted on the filled holes.

    The scene is that of the `Reswap`, so how far their answers agree is how far pasted objects can be trusted.
    """

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be rendered and pasted into, or None."""
        return picture_fault(case) or super().applies(case)

    def drawn(self, case: Case, taken: Rendered) -> Array:
        """The picture of the frame with the rendered objects on filled holes."""
        before, seen = picture_of(case).pixels, frame_objects(case)
        items = [seen.numbered[thing] for thing in self.things]
        spans = {item.number: _span(taken.things == item.number, item.span) for item in items}
        cuts = []
        for item in items:
            left, top, right, bottom = spans[item.number]
            part = slice(top, bottom), slice(left, right)
            light = light_around(before, seen, spans[item.number])  # where it stands already: colours stay
            cuts.append((item, Cutout(taken.pixels[part], taken.things[part] == item.number, light)))
        return retouched(before, seen, cuts, spans=spans)

    def words(self) -> str:
        """Such as "object 57 swapped for model 12, pasted"."""
        return f"{super().words()}, pasted"


def _span(mask: Array, otherwise: Span) -> Span:
    """The rectangle around a mask; one with nothing to paste if it is empty."""
    left, top, wide, high = cv2.boundingRect(mask.astype(np.uint8))
    return (left, top, left + wide, top + high) if wide else otherwise
