"""How good a detector of solid boxes is: average precision by the distance of centres on the ground, as nuScenes counts.

A box is right when its centre lies nearer than a limit to that of a label of its kind which no better box has taken.
Precision is averaged over COCO's 101 recalls; nuScenes itself leaves out recall and precision below a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from swerve.analysis.detection import ANY, Precision, check_sets, tidy
from swerve.core.values import Array, Boxes3D

METRES = (0.5, 1.0, 2.0, 4.0)
RECALLS = np.linspace(0, 1, 101)


def centre_precision(
    truth: Sequence[Boxes3D], said: Sequence[Boxes3D], *, any_kind: bool = False, limits: Sequence[float] = METRES
) -> Precision:
    """The mean over kinds and `limits` in metres of what was `said` of each sweep against its `truth`.

    A label without care is neither missed nor wrongly found, as in COCO's crowds. With `any_kind`, kinds do not matter.
    """
    check_sets(truth, said, Boxes3D)
    demanded = {kind for boxes in truth for kind, care in zip(boxes.kinds, _care(boxes), strict=True) if care}
    kinds = [ANY] if any_kind and demanded else sorted(demanded)
    if not kinds:
        return Precision(None)
    table = np.array([[_precision(truth, said, kind, limit) for limit in limits] for kind in kinds])
    return Precision(
        tidy(table.mean()),
        MappingProxyType({kind: tidy(row.mean()) for kind, row in zip(kinds, table, strict=True)}),
        MappingProxyType({limit: tidy(column.mean()) for limit, column in zip(limits, table.T, strict=True)}),
    )


def _precision(truth: Sequence[Boxes3D], said: Sequence[Boxes3D], kind: str, limit: float) -> float:
    """The average precision of one kind at one limit."""
    outcomes = [_outcomes(*pair, kind, limit) for pair in zip(truth, said, strict=True)]
    scores = np.concatenate([scores for scores, _ in outcomes])
    hits = np.concatenate([hits for _, hits in outcomes])
    wanted = sum(int(_care(boxes)[_of(boxes, kind)].sum()) for boxes in truth)
    hits = hits[np.argsort(-scores, kind="stable")]
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(found / wanted, RECALLS, side="left")
    return float(np.append(best_from_here, 0.0)[places].mean())


def _outcomes(truth: Boxes3D, said: Boxes3D, kind: str, limit: float) -> tuple[Array, Array]:
    """Score and hit of every box of one sweep that counts, best first: each takes the nearest label still free."""
    labels, mine = _of(truth, kind), _of(said, kind) & _care(said)
    care, scores = _care(truth)[labels], np.asarray(said.scores)[mine]
    apart = np.linalg.norm(said.xyzlwhy[mine, None, :2] - truth.xyzlwhy[None, labels, :2], axis=2)
    free = np.ones(len(care), dtype=bool)
    counted: list[tuple[float, bool]] = []
    for row in np.argsort(-scores, kind="stable"):
        near = np.where(free & (apart[row] < limit), apart[row], np.inf)
        demanded = np.where(care, near, np.inf)
        if np.isfinite(demanded).any():
            free[np.argmin(demanded)] = False
            counted.append((scores[row], True))
        elif not np.isfinite(near).any():
            counted.append((scores[row], False))
    return np.array([score for score, _ in counted]), np.array([hit for _, hit in counted], dtype=bool)


def _of(boxes: Boxes3D, kind: str) -> Array:
    return np.array([kind in (ANY, one) for one in boxes.kinds], dtype=bool)


def _care(boxes: Boxes3D) -> Array:
    return np.asarray(boxes.care, dtype=bool)
