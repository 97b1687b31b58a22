"""IATG's experiment: its subjects, sizes, the campaign with all arms, and its questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from swerve.core.arguments import check_known
from swerve.core.asset import Asset
from swerve.core.campaign import Campaign
from swerve.core.errors import EnvironmentFault
from swerve.execution.cost import measured
from swerve.experiments import FULL, QUICK, USUAL, CampaignStep, Cost, Experiment, Setting, Subject
from swerve.experiments.iatg.arms import LAYERS, ArmParts, rule, world_library
from swerve.experiments.iatg.examples import examples
from swerve.experiments.iatg.misled_runs import STEP, MisledRuns
from swerve.experiments.iatg.questions import can_pasted_be_trusted, how_similar, is_explanation_better, which_mislead
from swerve.relations.similar import MEASURES, MS_SSIM, SIMILARITIES
from swerve.search.sweep import Sweep
from swerve.similarity.lpips_weights import has_weights
from swerve.sources.subset import Subset
from swerve.world.drives import CAUTIOUS, LONGEST, STANDARD
from swerve.world.source import World
from swerve.zoo.steering import STEERING

SYSTEMS = ("dave-orig", "epoch", "dave-objects")
DRIVERS: Mapping[str, str] = MappingProxyType(
    {"dave-objects": CAUTIOUS}
)  # whom a network was trained on, if not on the standard driver
LABELS = ("steering", "masks", "classes")
EACH = 3  # frames of a drive
MEASURED = 6  # pictures that an estimate of the cost is measured on: some have three objects, some none


@dataclass(frozen=True)
class SwapSize:
    """The size of the experiment: pictures, three of each drive, and their width."""

    pictures: int
    width: int


SIZES = {QUICK: SwapSize(12, 320), USUAL: SwapSize(300, 320), FULL: SwapSize(2975, 640)}


def _subjects(setting: Setting) -> list[Subject]:
    frames = partial(_frames, width=setting.size.width)
    return [
        Subject(
            name,
            STEERING[name](),
            frames(setting.size.pictures, seed=setting.seed, driver=DRIVERS.get(name, STANDARD)),
            few=frames(MEASURED, seed=1, driver=DRIVERS.get(name, STANDARD)),
        )
        for name in SYSTEMS
        if name in STEERING
    ]


def _frames(pictures: int, *, width: int, seed: int, driver: str = STANDARD) -> Subset:
    """Frames of drives, several seconds apart, as a drive costs more than a frame; networks read small ones as well."""
    drives = math.ceil(pictures / EACH)
    return Subset(
        World(drives, LONGEST, labels=LABELS, width=width, height=width * 9 // 16, seed=seed, driver=driver), pictures
    )


def _campaign(one: MisledRuns) -> Campaign:
    """One sweep with a rule for every arm, so that every picture is read once, and rendered swaps are shared."""
    options, system, source = one.setting.options, one.subject.system, one.subject.source
    library = Asset(Path(options["library"])) if options["library"] else world_library(one.setting.size.width)
    parts = ArmParts(system, library, one.painter, options["similarity"], LAYERS.get(one.name, ""))
    rules = tuple(rule(arm, parts) for arm in one.arms)
    return Campaign(source, system, rules, Sweep(per_case=1), seed=one.setting.seed)


def _check(setting: Setting) -> None:
    measure = setting.options["similarity"]
    check_known("measure of similarity:", measure, MEASURES)
    if measure not in SIMILARITIES and not has_weights(measure):
        raise EnvironmentFault(
            f"the weights of {measure} are not here: run 'swerve assets get {measure}' once, or use ms-ssim"
        )


def _preparation(setting: Setting) -> Cost:
    """Every system's pictures are rendered twice: for its own answers, and for the trials."""
    size: SwapSize = setting.size
    few = _frames(MEASURED, width=size.width, seed=2)
    each = measured(lambda: [few[key] for key in few.keys()], lambda _: 0.0)[0] * (1 / MEASURED)
    return each * (2 * size.pictures * sum(name in STEERING for name in SYSTEMS))


LEAD = (
    "IATG replaces the objects on which a network's explanation lies by others of their kinds, and counts how often "
    "the answer moves. This page repeats it on the embedded world, where swaps can also be rendered, with the control "
    "that shows what cutting and pasting alone does, and with two rivals of the explanation. Its second strategy draws "
    "objects anew from the label map."
)

IATG = Experiment(
    "iatg",
    "IATG",
    subjects=_subjects,
    cases=lambda setting: int(setting.size.pictures),
    sizes=SIZES,
    steps=(CampaignStep(STEP),),
    campaign=_campaign,
    reads=MisledRuns,
    questions=(which_mislead, is_explanation_better, how_similar, can_pasted_be_trusted, examples),
    lead=(LEAD,),
    options={"similarity": MS_SSIM, "library": "", "painter": ""},
    check=_check,
    preparation=_preparation,
)
