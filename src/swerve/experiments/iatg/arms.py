"""What is compared: ways to swap, choices of objects and numbers of them, the control, and the rivals; each is a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from swerve.core.asset import Asset
from swerve.core.case import Source
from swerve.core.gate import AllOf
from swerve.core.relation import Rule
from swerve.core.space import OneOf, Over, Space
from swerve.core.system import Differentiable, System
from swerve.explain.grad_cam import GradCam
from swerve.explain.occlusion import Occlusion
from swerve.relations.gates import SameObjects
from swerve.relations.similar import Similar
from swerve.relations.steering import same_angle
from swerve.similarity.lpips_weights import assets_folder
from swerve.sources.windows import WrappedSource
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.object_choice import LargestObjects, NearestObjects, ObjectSelection, RandomObjects
from swerve.transformations.object_library import build_library
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.retouches import BACK, REPLACE, Retouches
from swerve.transformations.salient import SalientObjects
from swerve.transformations.swaps import Swaps
from swerve.transformations.tint_objects import Tints
from swerve.world.source import World

REAL, RERENDERED, CONTROL, COLOUR, DEEPTEST = "real", "rerendered", "paste-back", "colour", "deeptest"
SUM, AVERAGE, RANDOM, LARGEST, NEAREST = CHOICES = ("sum", "average", "random", "largest", "nearest")
SALIENT = (SUM, AVERAGE)
COUNTS = (1, 2, 3)
ALPHA = 5.0  # degrees: the paper's smallest
# A layer with more than a row of cells, where the last convolution has one (docs/explain.md).
LAYERS: Mapping[str, str] = MappingProxyType({"dave-orig": "conv3"})
OBJECT_DRIVES = 24  # of the world's training split: what the library is cut out of


@dataclass(frozen=True)
class Arm:
    """A way to change pictures, which objects, and how many of them; the rivals without objects have no number."""

    way: str
    choice: str = ""
    count: int = 0

    @property
    def name(self) -> str:
        """The name of its rule."""
        objects = f"{self.count} object{'' if self.count == 1 else 's'}" if self.count else ""
        return ", ".join(part for part in (self.way, self.choice, objects) if part)


def arms(source: Source) -> Iterator[Arm]:
    """All of them; frames of the embedded world can be rendered again, others not."""
    # Objects translated from label maps, the paper's second strategy, would be one more way.
    ways = (REAL, RERENDERED) if _is_world(source) else (REAL,)
    for way, choice, count in product(ways, CHOICES, COUNTS):
        yield Arm(way, choice, count)
    yield from (Arm(CONTROL, SUM, count) for count in COUNTS)
    yield from (Arm(COLOUR, choice, 1) for choice in (AVERAGE, RANDOM))
    yield Arm(DEEPTEST)


def rule(arm: Arm, system: System, library: Asset, similarity: str, *, layer: str = "") -> Rule:
    """The rule of one of them; what keeps its objects must show the same scene, and all record the similarity."""
    gate = Similar(similarity)
    kept = gate if arm.way == DEEPTEST else AllOf((SameObjects(), gate))
    return Rule(arm.name, _space(arm, system, library, layer), same_angle(ALPHA), gate=kept)


def world_library() -> Asset:
    """A library of the embedded world's training split, built once on this machine."""
    source = World(drives=OBJECT_DRIVES, frames=1, split="train", labels=("masks",))
    path = assets_folder() / f"world-{source.fingerprint()[:16]}.objects"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        build_library((source[key] for key in source.keys()), path)
    return Asset(path)


def _space(arm: Arm, system: System, library: Asset, layer: str) -> Space:
    order = _order(arm.choice, system, layer)
    if arm.way == DEEPTEST:  # IA-18: six of DeepTest's seven
        return OneOf(tuple(Over(kind) for kind in (Brighten, Contrast, Rotate, Scale, Shear, Translate)))
    if arm.way == COLOUR:
        return Tints(order, arm.count)
    if arm.way == RERENDERED:
        return Swaps(choose=order, count=arm.count)
    return Retouches(library, BACK if arm.way == CONTROL else REPLACE, order, count=arm.count)


def _order(choice: str, system: System, layer: str) -> ObjectSelection:
    rivals: Mapping[str, ObjectSelection] = {LARGEST: LargestObjects(), NEAREST: NearestObjects()}
    if choice in SALIENT:
        explanation = GradCam(layer) if isinstance(system, Differentiable) else Occlusion()
        return SalientObjects(explanation, choice)
    return rivals.get(choice, RandomObjects())


def _is_world(source: Source) -> bool:
    while isinstance(source, WrappedSource):
        source = source.source
    return isinstance(source, World)
