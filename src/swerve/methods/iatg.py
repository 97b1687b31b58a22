"""IATG (Xie et al., Journal of Software, 2024): the objects that a network looks at are replaced.

The network's own explanation of a picture tells which objects matter for its answer; these are replaced by others of their
kinds. The scene stays the same, so the answer must stay within a few degrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from swerve.core.arguments import OneOfNames, check_known, check_whole
from swerve.core.asset import Asset
from swerve.core.campaign import Campaign
from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.gate import AllOf, Gate
from swerve.core.relation import Rule
from swerve.core.space import Space
from swerve.core.system import Differentiable, System
from swerve.explain.grad_cam import GradCam
from swerve.explain.heat import Explanation
from swerve.explain.occlusion import Occlusion
from swerve.relations.gates import SameObjects
from swerve.relations.similar import MEASURES, Similar
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.transformations.object_choice import LargestObjects, NearestObjects, ObjectSelection, RandomObjects
from swerve.transformations.retouches import BACK, REPLACE, Retouches
from swerve.transformations.salient import AVERAGE, SUM, SalientObjects
from swerve.transformations.swaps import Swaps
from swerve.transformations.translate_objects import OTHER, SAME, Translations
from swerve.translation.packaged import packaged_painter

NAME = "iatg"
REAL, RERENDERED, TRANSLATED = "real", "rerendered", "translation"
STRATEGIES = (REAL, TRANSLATED, RERENDERED)
SALIENT, RANDOM, LARGEST, NEAREST = CHOICES = ("salient", "random", "largest", "nearest")
MISLEADING, MEAN = "iatg-s1", "iatg-s2"
CONTROL, DRAWN_AS_IS = "pasted back", "drawn as it is"
# What the paper recommends: most misleading, and most alike.
PROFILES: Mapping[str, tuple[str, int, str]] = MappingProxyType({MISLEADING: (SUM, 3, REAL), MEAN: (AVERAGE, 1, TRANSLATED)})


def iatg(
    source: Source,
    system: System,
    *,
    library: Asset | None = None,
    painter: Asset | None = None,
    profile: Annotated[str, OneOfNames(*PROFILES)] = MISLEADING,
    strategy: str = "",
    choose: Annotated[str, OneOfNames(*CHOICES)] = SALIENT,
    by: str = "",
    count: int = 0,
    explanation: Explanation | None = None,
    layer: str = "",
    within: float = 5.0,
    similarity: str = "",
    control: bool | None = None,
    seed: int = 0,
    inference_batch: int = 16,
) -> Campaign:
    """IATG on any steering system and pictures with instance masks; every picture has one follow-up of each rule.

    Args:
        library: the objects to paste, a file that `swerve objects build` wrote; of the real strategy.
        painter: what draws objects, of the strategy `translation`; by default the packaged one, of the embedded world.
            `swerve translate train` trains others.
        profile: `iatg-s1` replaces the three objects with the most heat by real ones; `iatg-s2` translates one object.
        strategy: `real` pastes objects of a library; `translation` draws them from the label map; `rerendered` renders
            frames of the embedded world again, which is a true follow-up. The default is that of the profile.
        choose: `salient`, by the explanation; or its rivals `random` (the paper's IATG_rand), `largest` and `nearest`.
        by: `sum`, the heat on an object, or `average`, the heat of one of its pixels; of `salient`.
        count: how many objects are replaced; a picture with fewer has no follow-up.
        explanation: how heat is found; by default Grad-CAM, or occlusion for systems without gradients.
        layer: of Grad-CAM; the last convolution if it is empty.
        within: degrees of the wheel by which the answer may move.
        similarity: a measure to record with every trial: `ms-ssim`, `ssim`, `lpips-vgg` or `lpips-alex`.
        control: whether the same objects are also pasted back, or drawn in their own look, as a second rule; by default
            wherever they are pasted.
    """
    # profile: IA-16; strategy: IA-8; choose: IA-17; within: IA-12, D-39
    by, count, strategy = _settled(profile, strategy, by, count)
    check_known("choose", choose, CHOICES)
    order = _order(choose, by, explanation or _usual_explanation(system, layer))
    files = {REAL: library, TRANSLATED: painter}
    change = _change(strategy, order, count, files)
    rules = [Rule(rule_name(count, choose), change, same_angle(within))]
    if control is None:
        control = strategy in files
    if control:
        rules.append(_control(strategy, order, count, files, within))
    return Campaign(
        source,
        system,
        tuple(rules),
        Sweep(per_case=1),
        _gate(similarity),
        seed=seed,
        inference_batch=inference_batch,
        method=NAME,
    )


def rule_name(count: int, choose: str) -> str:
    """Such as "3 salient objects replaced"."""
    return f"{count} {choose} object{'' if count == 1 else 's'} replaced"


def _settled(profile: str, strategy: str, by: str, count: int) -> tuple[str, int, str]:
    """What a profile says, or what the user gave instead."""
    check_known("profile", profile, PROFILES)
    usual_by, usual_count, usual_strategy = PROFILES[profile]
    chosen = strategy or usual_strategy
    check_known("strategy", chosen, STRATEGIES)
    check_whole("count", count, 0)
    return by or usual_by, count or usual_count, chosen


def _usual_explanation(system: System, layer: str) -> Explanation:
    if isinstance(system, Differentiable):
        return GradCam(layer)
    if layer:
        raise InputError(f"layer = '{layer}' needs a network with gradients, not {type(system).__name__}")
    return Occlusion()


def _order(choose: str, by: str, explanation: Explanation) -> ObjectSelection:
    rivals: Mapping[str, ObjectSelection] = {
        RANDOM: RandomObjects(),
        LARGEST: LargestObjects(),
        NEAREST: NearestObjects(),
    }
    return rivals[choose] if choose in rivals else SalientObjects(explanation, by)


def _change(strategy: str, order: ObjectSelection, count: int, files: Mapping[str, Asset | None]) -> Space:
    if strategy == RERENDERED:
        return Swaps(choose=order, count=count)
    if strategy == TRANSLATED:
        return Translations(_needed(strategy, files), OTHER, order, count)
    return Retouches(_needed(strategy, files), REPLACE, order, count=count)


def _control(strategy: str, order: ObjectSelection, count: int, files: Mapping[str, Asset | None], within: float) -> Rule:
    """What the editing alone does: an object pasted back, or drawn in the look that it has."""
    if strategy == TRANSLATED:
        return Rule(DRAWN_AS_IS, Translations(_needed(strategy, files), SAME, order, count), same_angle(within))
    return Rule(CONTROL, Retouches(_needed(REAL, files), BACK, order, count=count), same_angle(within))


def _needed(strategy: str, files: Mapping[str, Asset | None]) -> Asset:
    if (file := files[strategy]) is not None:
        return file
    if strategy == TRANSLATED:
        return packaged_painter()
    raise InputError("'library' is missing: a file that 'swerve objects build' wrote; or give strategy = 'rerendered'")


def _gate(similarity: str) -> Gate:
    if not similarity:
        return SameObjects()
    check_known("measure of similarity:", similarity, MEASURES)
    return AllOf((SameObjects(), Similar(similarity)))
