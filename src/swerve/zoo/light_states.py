"""States of traffic lights that a detector has found without them, by a rule on hue, saturation and brightness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, System
from swerve.core.values import Array, Boxes2D, Image, find
from swerve.transformations.lamps import HUES, lamp_strength

OFF = "off"  # no lit lamp
RULE = 1  # counts changes of the rule


@dataclass(frozen=True)
class LightStates:
    """A detector whose boxes of `kind` get the state of the light in them: red, yellow, green or off.

    The rule: of the three ranges of hue, the one whose strongest lamp has most chroma, added up over its pixels.
    """

    detector: System
    kind: str = "traffic light"

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        answers = self.detector(cases)
        return [self._named(case, answer) for case, answer in zip(cases, answers, strict=True)]

    def fingerprint(self) -> str:
        """A hash of the detector's fingerprint and the rule."""
        return digest_of("light states", RULE, self.kind, self.detector.fingerprint())

    def _named(self, case: Case, answer: Answer) -> Answer:
        picture = next((value.pixels for value in case.inputs.values() if isinstance(value, Image)), None)
        boxes = find(answer, Boxes2D.slot)
        if picture is None or not isinstance(boxes, Boxes2D):
            return answer
        rows = zip(boxes.kinds, boxes.xyxy, strict=True)
        kinds = tuple(state_in(picture, box) if kind == self.kind else kind for kind, box in rows)
        return tuple(replace(boxes, kinds=kinds) if value is boxes else value for value in answer)


def state_in(picture: Array, box: Array) -> str:
    """The state of the light in a box of a picture."""
    height, width = picture.shape[:2]
    left, top, right, bottom = (int(edge) for edge in np.rint(np.clip(box, 0, (width, height) * 2)))
    cut = picture[top : max(bottom, top + 1), left : max(right, left + 1)]
    strengths = {state: lamp_strength(cut, state) if cut.size else 0.0 for state in HUES}
    best = max(strengths, key=strengths.__getitem__)
    return best if strengths[best] > 0 else OFF
