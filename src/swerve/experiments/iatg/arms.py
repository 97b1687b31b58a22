"""What is compared: ways to swap, choices of objects and numbers of them, the control, and the rivals; each is a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from swerve.explain.heat import Explanation
from swerve.explain.occlusion import Occlusion
from swerve.relations.gates import SameObjects
from swerve.relations.similar import Similar
from swerve.relations.steering import same_angle
from swerve.similarity.lpips_weights import assets_folder
from swerve.sources.windows import WrappedSource
from swerve.transformations.add_cutout import AddedCutouts
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.object_choice import LargestObjects, NearestObjects, ObjectSelection, RandomObjects
from swerve.transformations.object_library import build_library
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.retouches import BACK, REPLACE, Retouches
from swerve.transformations.salient import SalientObjects
from swerve.transformations.swaps import MODEL, Swaps
from swerve.transformations.swaps import PASTED as PASTED_MODEL
from swerve.transformations.tint_objects import Tints
from swerve.world.source import World

REAL, RERENDERED, PASTED, CONTROL = "real", "rerendered", "rendered and pasted", "paste-back"
COLOUR, ADDED, DEEPTEST = "colour", "added", "deeptest"
SUM, AVERAGE, RANDOM, LARGEST, NEAREST = CHOICES = ("sum", "average", "random", "largest", "nearest")
SALIENT = (SUM, AVERAGE)
COUNTS = (1, 2, 3)
ALPHA = 5.0  # degrees: the paper's smallest
# A layer with more than a row of cells, where the last convolution has one (docs/explain.md).
LAYERS: Mapping[str, str] = MappingProxyType({"dave-orig": "conv3", "dave-objects": "conv3"})
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


S1 = Arm(REAL, SUM, 3)  # the paper's most misleading setting


def is_swap(arm: Arm) -> bool:
    """Whether objects are swapped, or pasted back."""
    return arm.way in (REAL, RERENDERED, PASTED, CONTROL)


def compared(arms: Sequence[Arm], *, added: bool = True) -> list[Arm]:
    """Those of the comparison of methods; added objects make another scene, whose angles are not compared."""
    wanted = {S1, Arm(REAL, RANDOM, 3), Arm(RERENDERED, SUM, 3), Arm(REAL, AVERAGE, 1), Arm(CONTROL, SUM, 3)}
    return [arm for arm in arms if arm in wanted or arm.way in (COLOUR, DEEPTEST) or (added and arm.way == ADDED)]


def arms(source: Source) -> Iterator[Arm]:
    """All of them; frames of the embedded world can be rendered again, others not."""
    # Objects translated from label maps, the paper's second strategy, would be one more way.
    ways = (REAL, RERENDERED) if _is_world(source) else (REAL,)
    for way, choice, count in product(ways, CHOICES, COUNTS):
        yield Arm(way, choice, count)
    for way, choice, count in product((PASTED, CONTROL) if RERENDERED in ways else (CONTROL,), SALIENT, COUNTS):
        yield Arm(way, choice, count)
    yield from (Arm(way, choice, 1) for way in (COLOUR, ADDED) for choice in (AVERAGE, RANDOM))
    yield Arm(DEEPTEST)


def rule(arm: Arm, system: System, library: Asset, similarity: str, *, layer: str = "") -> Rule:
    """The rule of one of them; what keeps its objects must show the same scene, and all record the similarity."""
    gate = Similar(similarity)
    kept = gate if arm.way in (ADDED, DEEPTEST) else AllOf((SameObjects(), gate))
    return Rule(arm.name, _space(arm, system, library, layer), same_angle(ALPHA), gate=kept)


def explanation_for(system: System, layer: str) -> Explanation:
    """Grad-CAM of a network's layer, or occlusion of a black box."""
    return GradCam(layer) if isinstance(system, Differentiable) else Occlusion()


def world_library(width: int) -> Asset:
    """A library of the embedded world's training split, built once on this machine."""
    source = World(OBJECT_DRIVES, split="train", labels=("masks",), width=width, height=width * 9 // 16)
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
    if arm.way == ADDED:
        return AddedCutouts(library, order)
    if arm.way in (RERENDERED, PASTED):
        return Swaps(MODEL if arm.way == RERENDERED else PASTED_MODEL, order, count=arm.count)
    return Retouches(library, BACK if arm.way == CONTROL else REPLACE, order, count=arm.count)


def _order(choice: str, system: System, layer: str) -> ObjectSelection:
    rivals: Mapping[str, ObjectSelection] = {LARGEST: LargestObjects(), NEAREST: NearestObjects()}
    if choice in SALIENT:
        return SalientObjects(explanation_for(system, layer), choice)
    return rivals.get(choice, RandomObjects())


def _is_world(source: Source) -> bool:
    while isinstance(source, WrappedSource):
        source = source.source
    return isinstance(source, World)
