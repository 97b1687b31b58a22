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
from swerve.transformations.translate_objects import CROP, OTHER, SAME, Translations
from swerve.world.source import World

REAL, RERENDERED, PASTED, CONTROL = "real", "rerendered", "rendered and pasted", "paste-back"
TRANSLATED, OWN_LOOK, OWN_PIXELS = "translated", "drawn as it is", "own pixels"
STRATEGIES, CONTROLS = (REAL, TRANSLATED, RERENDERED), (CONTROL, PASTED, OWN_LOOK, OWN_PIXELS)
COLOUR, ADDED, DEEPTEST = "colour", "added", "deeptest"
SUM, AVERAGE, RANDOM, LARGEST, NEAREST = CHOICES = ("sum", "average", "random", "largest", "nearest")
SALIENT = (SUM, AVERAGE)
COUNTS = (1, 2, 3)
LOOKS: Mapping[str, str] = MappingProxyType({TRANSLATED: OTHER, OWN_LOOK: SAME, OWN_PIXELS: CROP})
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


S1, S2 = Arm(REAL, SUM, 3), Arm(TRANSLATED, AVERAGE, 1)  # the paper's most misleading setting, and its most realistic


@dataclass(frozen=True)
class ArmParts:
    """What the rules of a system share: the library of real objects, the painter of others, and what is measured with."""

    system: System
    library: Asset
    painter: Asset | None
    similarity: str
    layer: str = ""

    @property
    def explanation(self) -> Explanation:
        """Grad-CAM of the layer, or occlusion of a black box."""
        return explanation_for(self.system, self.layer)


def is_swap(arm: Arm) -> bool:
    """Whether objects are swapped, or are only treated as if they were."""
    return arm.way in (*STRATEGIES, *CONTROLS)


def compared(arms: Sequence[Arm], *, added: bool = True) -> list[Arm]:
    """Those of the comparison of methods; added objects make another scene, whose angles are not compared."""
    wanted = {S1, S2, Arm(REAL, RANDOM, 3), Arm(RERENDERED, SUM, 3), Arm(CONTROL, SUM, 3), Arm(OWN_LOOK, AVERAGE, 1)}
    return [arm for arm in arms if arm in wanted or arm.way in (COLOUR, DEEPTEST) or (added and arm.way == ADDED)]


def arms(source: Source, *, painted: bool) -> Iterator[Arm]:
    """All of them; frames of the embedded world can be rendered again, and `painted` tells whether there is a painter."""
    world = is_world(source)
    ways = (REAL, *((TRANSLATED,) if painted else ()), *((RERENDERED,) if world else ()))
    for way, choice, count in product(ways, CHOICES, COUNTS):
        yield Arm(way, choice, count)
    controls = (CONTROL, *((OWN_LOOK,) if painted else ()), *((PASTED,) if world else ()))
    for way, choice, count in product(controls, SALIENT, COUNTS):
        yield Arm(way, choice, count)
    if painted:
        yield Arm(OWN_PIXELS, SUM, 3)
    yield from (Arm(way, choice, 1) for way in (COLOUR, ADDED) for choice in (AVERAGE, RANDOM))
    yield Arm(DEEPTEST)


def rule(arm: Arm, parts: ArmParts) -> Rule:
    """The rule of one of them; what keeps its objects must show the same scene, and all record the similarity."""
    gate = Similar(parts.similarity)
    kept = gate if arm.way in (ADDED, DEEPTEST) else AllOf((SameObjects(), gate))
    return Rule(arm.name, _space(arm, parts), same_angle(ALPHA), gate=kept)


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


def _space(arm: Arm, parts: ArmParts) -> Space:
    order = _order(arm.choice, parts)
    if arm.way == DEEPTEST:  # IA-18: six of DeepTest's seven
        return OneOf(tuple(Over(kind) for kind in (Brighten, Contrast, Rotate, Scale, Shear, Translate)))
    if arm.way == COLOUR:
        return Tints(order, arm.count)
    if arm.way == ADDED:
        return AddedCutouts(parts.library, order)
    if arm.way in (RERENDERED, PASTED):
        return Swaps(MODEL if arm.way == RERENDERED else PASTED_MODEL, order, count=arm.count)
    if arm.way in LOOKS:
        assert parts.painter is not None
        return Translations(parts.painter, LOOKS[arm.way], order, arm.count)
    return Retouches(parts.library, BACK if arm.way == CONTROL else REPLACE, order, count=arm.count)


def _order(choice: str, parts: ArmParts) -> ObjectSelection:
    rivals: Mapping[str, ObjectSelection] = {LARGEST: LargestObjects(), NEAREST: NearestObjects()}
    if choice in SALIENT:
        return SalientObjects(parts.explanation, choice)
    return rivals.get(choice, RandomObjects())


def is_world(source: Source) -> bool:
    """Whether a source shows frames of the embedded world."""
    while isinstance(source, WrappedSource):
        source = source.source
    return isinstance(source, World)
