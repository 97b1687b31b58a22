"""DeepTest's oracle (Eq. 2 and 3) over a whole run: every λ and ε from the recorded answers."""
# DT-27

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swerve.analysis.angles import Angles
from swerve.core.errors import InputError
from swerve.core.origin import LEAST_DEGREES, SHARE_OF_RMSE, Origin, origin_by_shift
from swerve.core.values import Array

LAMBDAS = tuple(range(1, 11))
EPSILONS = (0.01, 0.02, 0.03, 0.04, 0.05)  # rad²
MSE, RMSE = "mse", "rmse"


@dataclass(frozen=True)
class Oracle:
    """MSE_orig of a system and the error of Eq. 3: `mse`, or `rmse`, which the authors' own figures use."""

    # DT-24, D-3

    mse: float  # rad² of the wheel
    metric: str = MSE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mse) and self.mse > 0):
            raise InputError(f"the oracle λ·MSE_orig needs a finite MSE_orig above 0, got {self.mse:g}")
        if self.metric not in (MSE, RMSE):
            raise InputError(f"metric must be '{MSE}' or '{RMSE}', got {self.metric!r}")

    @classmethod
    def of(cls, labels: Array, answers: Array, metric: str = MSE) -> Oracle:
        """The oracle of the labels and answers of the untouched cases."""
        if not len(labels):
            raise InputError(
                "the oracle λ·MSE_orig needs steering labels, and no case has one; use a source with steering labels"
            )
        return cls(float(np.mean((labels - answers) ** 2)), metric)

    def violated(self, squared: Array, factor: float) -> Array:
        """Which squared errors violate Eq. 2, that is, exceed λ·MSE_orig."""
        return np.asarray(squared > factor * self.mse)

    def mean_errors(self, angles: Angles) -> Array:
        """MSE_(trans,param), or its root, of each change; NaN without labelled follow-ups."""
        squared = angles.squared_errors()
        known = np.isfinite(squared)
        count = np.bincount(angles.change[known], minlength=len(angles.changes))
        total = np.bincount(angles.change[known], weights=squared[known], minlength=len(angles.changes))
        mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
        return np.asarray(np.sqrt(mean) if self.metric == RMSE else mean)

    def kept(self, angles: Angles, epsilon: float) -> Array:
        """Which changes pass Eq. 3: their mean error differs by at most ε from that of the untouched cases."""
        original = math.sqrt(self.mse) if self.metric == RMSE else self.mse
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.mean_errors(angles) - original) <= epsilon)

    def admitted(self, angles: Angles, epsilon: float) -> Angles:
        """The follow-ups of the changes that pass Eq. 3."""
        return angles.where(self.kept(angles, epsilon)[angles.change])

    def counts(self, squared: Array, lambdas: Sequence[float] = LAMBDAS) -> list[int]:
        """The number of violations among squared errors, for each λ."""
        known = squared[np.isfinite(squared)]
        return [int(self.violated(known, factor).sum()) for factor in lambdas]

    def introduced(self, angles: Angles, factor: float) -> Array:
        """Which follow-ups violate Eq. 2 although their untouched images do not."""
        before = (angles.label - angles.before) ** 2
        return np.asarray(self.violated(angles.squared_errors(), factor) & ~self.violated(before, factor))

    def originals(self, angles: Angles, factor: float) -> set[str]:
        """The untouched images with a follow-up that violates Eq. 2."""
        wrong = angles.case[self.violated(angles.squared_errors(), factor)]
        return {angles.cases[case] for case in wrong.tolist()}

    def origins(self, angles: Angles, factor: float) -> Counter[Origin]:
        """The violations of Eq. 2 by origin, with the least shift that a rule has by default."""
        wrong = angles.where(self.violated(angles.squared_errors(), factor))
        before, after = np.abs(wrong.label - wrong.before), np.abs(wrong.label - wrong.after)
        moved, held = np.abs(wrong.after - wrong.before), ~self.violated(before**2, factor)
        least = max(math.radians(LEAST_DEGREES), SHARE_OF_RMSE * math.sqrt(self.mse))
        numbers = zip(held.tolist(), moved.tolist(), (after - before).tolist(), strict=True)
        return Counter(origin_by_shift(held=was, moved=far, grown=more, least=least) for was, far, more in numbers)

    def table(
        self, angles: Angles, lambdas: Sequence[float] = LAMBDAS, epsilons: Sequence[float] = EPSILONS
    ) -> dict[float, list[int]]:
        """The λ×ε table: for each ε the counts by λ, over the changes that pass Eq. 3."""
        return {epsilon: self.counts(self.admitted(angles, epsilon).squared_errors(), lambdas) for epsilon in epsilons}
