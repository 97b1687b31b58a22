"""Grad-CAM for steering: the feature maps of a convolution, weighted by how much the angle depends on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import Differentiable, Gradients, System
from swerve.core.values import Array, Steering, find
from swerve.explain.heat import HeatMap, normalised, picture_of


@dataclass(frozen=True)
class GradCam:
    """What the steering angle depends on, in the direction in which it is steered.

    The gradient of the angle counts as it is when the wheel is turned to the positive side, and with the opposite sign
    when it is turned to the other, so that hot always means "for the decision taken".

    Args:
        layer: a convolution; the last one if it is empty.
        straight: degrees of the wheel below which going straight is explained instead, by what keeps the angle small; 0 for
            never.
    """

    # IA-2, IA-3 (Eq. 1); straight: B.5, item 49

    layer: str = ""
    straight: float = 0.0

    def __post_init__(self) -> None:
        check_number("straight", self.straight, 0)

    def explain(self, cases: Sequence[Case], system: System) -> Sequence[HeatMap]:
        """A heat map of each case's picture, from one pass."""
        if not isinstance(system, Differentiable):
            raise InputError(f"grad-cam needs a network with gradients, not {type(system).__name__}; use 'occlusion'")
        if not cases:
            return []
        found = system.gradients(cases, self.layer or last_convolution(system, cases[0]))
        signs = np.sign(found.outputs) + (found.outputs == 0)  # θ ≥ 0 counts as positive
        if self.straight:
            signs = np.where(self._are_straight(system, cases), -signs, signs)
        heats = weighted_maps(found, signs)
        places = zip(cases, heats, found.windows, strict=True)
        return [HeatMap(normalised(heat), window, picture_of(case).size) for case, heat, window in places]

    def _are_straight(self, system: System, cases: Sequence[Case]) -> Array:
        angles = (find(answer, Steering.slot) for answer in system(cases))
        return np.array([isinstance(angle, Steering) and abs(angle.degrees) < self.straight for angle in angles])


def weighted_maps(found: Gradients, signs: Array) -> Array:
    """The sum of the maps, each weighted by its mean slope times the case's sign: cases x rows x columns."""
    weights = found.slopes.mean(axis=(2, 3)) * signs[:, None]
    return np.asarray(np.einsum("nc,nchw->nhw", weights, found.features))


def convolutions(system: Differentiable, case: Case) -> list[str]:
    """The convolution layers that run on a case, in order."""
    traced = system.trace([case], system.layers())
    return [name for name, layer in traced.layers.items() if layer.kind == "convolution"]


def last_convolution(system: Differentiable, case: Case) -> str:
    """The last convolution that runs; raises `InputError` if there is none."""
    if names := convolutions(system, case):
        return names[-1]
    raise InputError(f"grad-cam needs a network with convolutions, and {type(system).__name__} has none; use 'occlusion'")
