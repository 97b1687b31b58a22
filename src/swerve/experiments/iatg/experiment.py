"""IATG's experiment: its subjects, sizes, the campaign with all arms, and its questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swerve.core.arguments import check_known
from swerve.core.asset import Asset
from swerve.core.campaign import Campaign
from swerve.core.errors import EnvironmentFault
from swerve.experiments import FULL, QUICK, SAMPLED, USUAL, CampaignStep, Cost, Experiment, Setting, Subject
from swerve.experiments.iatg.arms import LAYERS, arms, rule, world_library
from swerve.experiments.iatg.misled_runs import STEP, MisledRuns
from swerve.experiments.iatg.questions import how_similar, is_explanation_better, which_mislead
from swerve.experiments.steering_subjects import frame_cost
from swerve.relations.similar import MEASURES, MS_SSIM, SIMILARITIES
from swerve.search.sweep import Sweep
from swerve.similarity.lpips_weights import has_weights
from swerve.world.source import World
from swerve.zoo.steering import STEERING

SYSTEMS = ("dave-orig", "epoch")
LABELS = ("steering", "masks")


@dataclass(frozen=True)
class SwapSize:
    """The size of the experiment: pictures, each of another drive."""

    pictures: int


SIZES = {QUICK: SwapSize(12), USUAL: SwapSize(300), FULL: SwapSize(2975)}


def _subjects(setting: Setting) -> list[Subject]:
    source = World(drives=setting.size.pictures, frames=1, labels=LABELS, seed=setting.seed)
    few = World(drives=SAMPLED, frames=1, labels=LABELS, seed=1)
    return [Subject(name, STEERING[name](), source, few=few) for name in SYSTEMS]


def _campaign(one: MisledRuns) -> Campaign:
    """One sweep with a rule for every arm, so that every picture is read once."""
    options, system, source = one.setting.options, one.subject.system, one.subject.source
    library = Asset(Path(options["library"])) if options["library"] else world_library()
    rules = (rule(arm, system, library, options["similarity"], layer=LAYERS.get(one.name, "")) for arm in arms(source))
    return Campaign(source, system, tuple(rules), Sweep(per_case=1), seed=one.setting.seed)


def _check(setting: Setting) -> None:
    measure = setting.options["similarity"]
    check_known("measure of similarity:", measure, MEASURES)
    if measure not in SIMILARITIES and not has_weights(measure):
        raise EnvironmentFault(
            f"the weights of {measure} are not here: run 'swerve assets get {measure}' once, or use ms-ssim"
        )


def _preparation(setting: Setting) -> Cost:
    size: SwapSize = setting.size
    return frame_cost()[0] * size.pictures


LEAD = (
    "IATG replaces the objects on which a network's explanation lies by others of their kinds, and counts how often "
    "the answer moves. This page repeats it on the embedded world, where swaps can also be rendered, with the control "
    "that shows what cutting and pasting alone does, and with two rivals of the explanation. Objects translated from "
    "label maps are not part of it yet."
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
    questions=(which_mislead, is_explanation_better, how_similar),
    lead=(LEAD,),
    options={"similarity": MS_SSIM, "library": ""},
    check=_check,
    preparation=_preparation,
)
