"""A gate for translated pictures: the road must still be where it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from swerve.core.arguments import check_number
from swerve.core.case import Case, Fact
from swerve.core.gate import Admission
from swerve.core.values import SceneRef, find
from swerve.transformations.photometric import images_of
from swerve.translation.edges import edge_correlation, overlap

if TYPE_CHECKING:
    from swerve.translation.scene_reader import SceneReader


@dataclass(frozen=True)
class RoadKept:
    """Refuses a follow-up that lost the edges of the road, or in which the road is no longer seen where it was.

    Both numbers are facts of the record, `edge_correlation` and `road_overlap`. Only for changes that leave everything in
    its place.

    Args:
        edges: the smallest correlation of edge strengths below the horizon. Pictures of different streets reach 0.23 on
            average, by day and in rendered snow 0.37.
        overlap: the smallest overlap (IoU) of the road that a small network sees before and after. It knows the embedded
            world alone, so other pictures are judged by their edges.
    """

    edges: float = 0.3
    overlap: float = 0.9
    first_frame: ClassVar[bool] = True  # only the first frame of a window is checked

    def __post_init__(self) -> None:
        check_number("edges", self.edges, -1, 1)
        check_number("overlap", self.overlap, 0, 1)

    def admit(self, source: Case, followup: Case) -> Admission:
        """A reason to refuse `followup`, if there is one, and what was measured."""
        before, after = (next(images_of(case), None) for case in (source, followup))
        if before is None or after is None or before.size != after.size or not before.pixels.size:
            return Admission()
        kept = edge_correlation(before.pixels, after.pixels)
        facts: dict[str, Fact] = {"edge_correlation": round(kept, 4)}
        if kept < self.edges:
            return Admission(f"the road's edges correlate with those before by {kept:.2f}, less than {self.edges:g}", facts)
        if not isinstance(find(source.truth, SceneRef.slot), SceneRef):
            return Admission("", facts)
        share = overlap(*_reader().roads([before.pixels, after.pixels]))
        if share is None:
            return Admission("", facts)
        facts["road_overlap"] = round(share, 4)
        lost = share < self.overlap
        return Admission(
            f"the road overlaps with that before by {share:.0%}, less than {self.overlap:.0%}" if lost else "", facts
        )


def _reader() -> SceneReader:
    from swerve.translation.scene_reader import scene_reader  # imports torch

    return scene_reader()
