"""Examples of misled answers: heat and replaced objects, before and after, with both steering angles as arrows."""
# IA-15b

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array
from swerve.experiments import pictures, question
from swerve.experiments.iatg.arms import LAYERS, RERENDERED, S1, S2, SUM, Arm, explanation_for
from swerve.experiments.iatg.misled_runs import STEP, MisledResults, MisledRuns, MisledTest
from swerve.explain.heat import picture_of
from swerve.explain.known_heat import heat_maps
from swerve.report.answer_pictures import BLUE, GREEN, RED, with_arrows
from swerve.transformations.frame_objects import frame_objects

EACH = 2  # of a system and a way to swap


@pictures(across=1)
def _examples(one: MisledRuns) -> Iterator[tuple[str, Array]]:
    for arm in (S1, S2, Arm(RERENDERED, SUM, 3)):
        farthest = sorted(one.samples.get(arm.name, ()), key=lambda test: (-abs(test.degrees), test.case))
        for test in farthest[:EACH]:
            moved = f"the answer moves by {test.degrees:+.1f}°, out of the lane after: {one.departure(abs(test.degrees))}"
            yield f"{arm.name}: {test.case}, {moved}", pictured(one, arm, test)


def pictured(one: MisledRuns, arm: Arm, test: MisledTest) -> Array:
    """A follow-up of an arm: the heat on its source, the source, and the follow-up, side by side."""
    row = next(row for row in one.runs[STEP].trials() if (row["rule"], row["case"]) == (arm.name, test.case))
    system, case = one.subject.system, one.subject.source[test.case]
    followup = one.runs[STEP].builder().change(row["change"])(case)
    (heat,) = heat_maps(explanation_for(system, LAYERS.get(one.name, "")), [case], system)
    before = float(row["before"][0]["degrees"])
    after = before + test.degrees
    hot = with_arrows(_boxed(heat.over(picture_of(case).pixels), case, test.objects), [(before, BLUE)])
    plain = with_arrows(_boxed(picture_of(case).pixels, case, test.objects), [(before, BLUE)])
    changed = _boxed(picture_of(followup).pixels, followup, test.objects)
    return np.hstack([hot, plain, with_arrows(changed, [(before, BLUE), (after, RED)])])


def _boxed(pixels: Array, case: Case, objects: tuple[int, ...]) -> Array:
    """The picture with a green box around each of the objects."""
    drawn, seen = np.ascontiguousarray(pixels).copy(), frame_objects(case).numbered
    for left, top, right, bottom in (seen[number].span for number in objects if number in seen):
        cv2.rectangle(drawn, (left - 1, top - 1), (right, bottom), GREEN, max(1, pixels.shape[1] // 320))
    return drawn


@question("Examples", _examples)
def examples(results: MisledResults) -> str:
    """The follow-ups that mislead most: heat on the picture, the picture, and the follow-up."""
    del results
    return "Green boxes are around the swapped objects; the arrows are the answers, blue before and red after the swap"
