"""A gate that measures how similar a follow-up looks to its source, and may refuse what has changed too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

from swerve.core.arguments import OneOfNames, check_known, check_number
from swerve.core.case import Case
from swerve.core.gate import Admission
from swerve.core.values import Array
from swerve.similarity.ssim import MsSsim, Ssim
from swerve.transformations.photometric import images_of

MS_SSIM, SSIM, VGG, ALEX = "ms-ssim", "ssim", "lpips-vgg", "lpips-alex"
SIMILARITIES = (MS_SSIM, SSIM)  # larger is more similar; the others are distances
MEASURES = (*SIMILARITIES, VGG, ALEX)


def _lpips(net: str) -> Callable[[Array, Array], float]:
    from swerve.similarity.lpips import Lpips  # torch, which the other measures do not need

    return Lpips(net)


MAKE: Mapping[str, Callable[[], Callable[[Array, Array], float]]] = MappingProxyType(
    {MS_SSIM: MsSsim, SSIM: Ssim, VGG: lambda: _lpips("vgg"), ALEX: lambda: _lpips("alex")}
)


@dataclass(frozen=True)
class Similar:
    """Records how similar a follow-up's picture is to its source's, and refuses less similar ones if there is a `limit`.

    Args:
        by: "ms-ssim" or "ssim", 1 for equal pictures, or the distances "lpips-vgg" or "lpips-alex", 0 for equal ones, whose
            weights `swerve assets get` fetches.
        limit: the least similarity, or the largest distance.
    """

    by: Annotated[str, OneOfNames(*MEASURES)] = MS_SSIM
    limit: float | None = None
    first_frame: ClassVar[bool] = True  # of a window

    def __post_init__(self) -> None:
        check_known("measure of similarity:", self.by, MEASURES)
        if self.limit is not None:
            check_number("limit", self.limit, 0)

    @property
    def fact(self) -> str:
        """The name under which records have the number, such as `lpips_vgg`."""
        return self.by.replace("-", "_")

    def admit(self, source: Case, followup: Case) -> Admission:
        """The number, and a reason to refuse `followup` if it is beyond the limit."""
        before, after = (next(images_of(case), None) for case in (source, followup))
        if before is None or after is None:
            return Admission("the case has no picture")
        if before.size != after.size:
            return Admission("the follow-up has another size than its source, so they cannot be compared")
        found = MAKE[self.by]()(before.pixels, after.pixels)
        return Admission(self._reason(found), {self.fact: found})

    def _reason(self, found: float) -> str:
        if self.limit is None:
            return ""
        if self.by in SIMILARITIES:
            return f"{self.by} is {found:.3f}, less than {self.limit:g}" if found < self.limit else ""
        return f"{self.by} is {found:.3f}, more than {self.limit:g}" if found > self.limit else ""
