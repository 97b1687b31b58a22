"""TigAug's experiment: the zoo's light detectors on two sets of streets, its sizes, steps and questions."""

# TG-17..TG-27

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

from swerve.core.errors import InputError
from swerve.core.values import Image
from swerve.execution.cost import measured
from swerve.experiments import FULL, QUICK, USUAL, CampaignStep, Cost, Experiment, Setting, Step, Subject
from swerve.experiments.tigaug.light_campaigns import CHANGES, CURVES, changed, strengths
from swerve.experiments.tigaug.light_robustness import how_robust
from swerve.experiments.tigaug.light_runs import LightResults, LightRuns
from swerve.experiments.tigaug.light_times import timing_step, what_it_costs
from swerve.experiments.tigaug.light_training import FRAMES, LightLessons, afterwards, pictures, training_steps
from swerve.experiments.tigaug.natural_lights import how_natural
from swerve.experiments.tigaug.retrained_lights import do_unnatural_pictures_harm, does_retraining_help
from swerve.store.files import png_bytes
from swerve.transformations.light_changes import NAMES
from swerve.world.light_source import ALL, LightWorld
from swerve.zoo.lights.light_detectors import LIGHTS, packaged

FIRST = "lights-yolox, A"  # the subject that is retrained where not all are
EVERY = tuple(f"{name}, {streets}" for name in LIGHTS for streets in "AB")


@dataclass(frozen=True)
class LightSize:
    """The size of the experiment: changes, detectors and streets, pictures of each set, and of curves, and retraining."""

    changes: tuple[str, ...]
    detectors: int
    streets: str
    pictures: int
    curved: int
    lessons: LightLessons


SIZES = {
    QUICK: LightSize(("fog", "colour", "rotate"), 1, "A", 12, 0, LightLessons(24, 4, 4, (FIRST,), ("fog",))),
    USUAL: LightSize(NAMES, 4, "AB", 24, 12, LightLessons(160, 12, 4, (FIRST,), ("fog", "snow", "rain"))),
    FULL: LightSize(NAMES, 4, "AB", 480, 60, LightLessons(720, 48, 8, EVERY, NAMES)),
}


def _names() -> list[str]:
    """The detectors with packaged weights."""
    return [name for name in LIGHTS if _is_packaged(name)]


def _is_packaged(name: str) -> bool:
    try:
        return packaged(name).is_file()
    except InputError:
        return False


def _subjects(setting: Setting) -> list[Subject]:
    """The detectors, whose answers are scored, on held-out pictures of each set of streets."""
    size: LightSize = setting.size
    found = []
    for name in _names()[: size.detectors]:
        for streets in size.streets:
            few = LightWorld(1, FRAMES, streets, conditions=ALL, seed=setting.seed)
            source = partial(pictures, setting, streets, "test", size.pictures)
            found.append(Subject(f"{name}, {streets}", LIGHTS[name](score=0.0), source, name, few, size.pictures))
    return found


def _steps(subject: Subject, setting: Setting) -> Iterator[Step]:
    yield CampaignStep(CHANGES, changed)
    if setting.size.curved and (subject.name in setting.size.lessons.subjects or not subject.like):
        yield CampaignStep(CURVES, strengths, when=afterwards)
    yield timing_step(setting)
    yield from training_steps(subject, setting)


def _preparation(setting: Setting) -> Cost:
    """The pictures to render: those of the tests of each set of streets, and those of retraining."""
    size: LightSize = setting.size
    lessons = [name.rpartition(" ")[2] for name in size.lessons.subjects if name in [one.name for one in _subjects(setting)]]
    learnt = (size.lessons.pictures + size.lessons.aside) * len(set(lessons))
    return sum((_picture_cost(streets) * size.pictures for streets in size.streets), _picture_cost("A") * learnt)


@cache
def _picture_cost(streets: str) -> Cost:
    """The cost of one picture."""
    world = LightWorld(1, FRAMES, streets, seed=2)

    def render() -> Image:
        images = [world[key].inputs["camera"] for key in world.keys()]
        assert isinstance(images[-1], Image)
        return images[-1]

    cost, _ = measured(render, lambda shown: FRAMES * len(png_bytes(shown.pixels)))
    return cost * (1 / FRAMES)


LEAD = (
    "TigAug changes labelled pictures of traffic lights in twelve ways and looks for detectors whose answers change as they "
    "should not, then trains them with such pictures. This page repeats its four questions on rendered junctions: streets A "
    "and B stand for the paper's two data sets, with intervals, a control that pastes lights back unchanged, and a training "
    "that is as long without changed pictures. The paper's numbers are of other data and stand beside ours for comparison."
)
TUNED = (
    "Retrained detectors are trained further from their own weights, unlike in the paper, which trains from new weights; "
    "what is due to the further steps alone is shown by the control. `--scratch` trains from new weights."
)
ANEW = "Retrained detectors are trained from new weights, as in the paper."
MISSING = "Not tested, as there are no packaged weights: {}."


def _lead(results: LightResults) -> Iterator[str]:
    yield LEAD
    yield ANEW if results.setting.options["scratch"] else TUNED
    missing = [name for name in LIGHTS if not _is_packaged(name)]
    if missing and any(one.subject.like for one in results):
        yield MISSING.format(", ".join(missing))


TIGAUG = Experiment(
    "tigaug",
    "TigAug",
    subjects=_subjects,
    cases=lambda setting: int(setting.size.pictures),
    sizes=SIZES,
    steps=_steps,
    campaign=changed,
    reads=LightRuns,
    questions=(how_robust, does_retraining_help, do_unnatural_pictures_harm, what_it_costs, how_natural),
    lead=(_lead,),
    options={"scratch": False},
    preparation=_preparation,
)
