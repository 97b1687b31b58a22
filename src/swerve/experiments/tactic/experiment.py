"""TACTIC's experiments: their subjects, sizes, steps and questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swerve.execution.cost import Cost
from swerve.experiments import FULL, QUICK, SAMPLED, USUAL, Experiment, Setting, Subject
from swerve.experiments.steering_subjects import frame_cost
from swerve.experiments.tactic import appearance, comparisons, opinions
from swerve.experiments.tactic.style_runs import StyleResults, StyleRuns, chosen_styles, fixed, steps, style_files
from swerve.sources.subset import Subset
from swerve.translation.packaged import STYLES
from swerve.world.source import World
from swerve.zoo.steering import STEERING

SYSTEMS = ("dave-orig", "dave-dropout", "chauffeur")
WIDE = 320  # pixels of a scene
APART = 20  # frames between two scenes of one drive


@dataclass(frozen=True)
class StyleSize:
    """How much is searched.

    Args:
        scenes: that every style is tried on.
        runs: of every search and of the random styles.
        conditions: found by each search, one after the other.
        evaluations: candidates for each condition, at most; 0 for no limit but `patience`.
        patience: candidates in a row without improvement.
        guides: the coverage criteria that guide searches.
        styles: kinds of conditions.
        systems: subjects.
        pictures: of each approach in the questionnaires.
    """

    scenes: int
    runs: int
    conditions: int
    evaluations: int
    patience: int
    guides: tuple[str, ...]
    styles: int
    systems: int
    pictures: int


SIZES = {
    QUICK: StyleSize(12, 2, 1, 8, 8, ("nbc",), 2, 1, 4),
    USUAL: StyleSize(24, 3, 2, 30, 30, ("nbc",), len(STYLES), 2, 10),  # KMNC hardly guides so few scenes (D-35)
    FULL: StyleSize(5614, 10, 4, 0, 100, ("kmnc", "nbc"), len(STYLES), len(SYSTEMS), 20),
}


def scenes_of(setting: Setting) -> Subset:
    """The scenes: frames of drives by day, in different light."""
    count = setting.size.scenes
    return Subset(World(min(count, 1000), APART * -(-count // 1000), "test", width=WIDE, height=WIDE * 9 // 16), count)


def _subjects(setting: Setting) -> list[Subject]:
    few = World(drives=SAMPLED, width=WIDE, height=WIDE * 9 // 16, seed=1)
    names = SYSTEMS[: setting.size.systems]
    return [Subject(name, STEERING[name](), scenes_of(setting), few=few) for name in names]


def _preparation(setting: Setting) -> Cost:
    """The scenes, and those of the rendered references."""
    size: StyleSize = setting.size
    return frame_cost()[0] * (size.scenes * (1 + len(chosen_styles(setting))))


def _lacking(results: StyleResults) -> Iterator[str]:
    setting = results.setting
    if setting.options["styles"]:
        yield f"The styles are those in {setting.options['styles']}: {', '.join(chosen_styles(setting))}."
        return
    known, unit = style_files(setting), style_files(setting, unit=True)
    if missing := [name for name in STYLES if name not in known]:
        yield f"Not trained yet, and so not in the tables: {', '.join(missing)}."
    if missing := [name for name in known if name not in unit]:
        yield f"DeepRoad has no translator yet for {', '.join(missing)}."


LEAD = (
    "TACTIC (Li and others, 2021) learns how frames look in another condition and searches the styles of that condition for "
    "those in which a driving network's answers move most. This page compares the search with random styles, DeepRoad's "
    "single translation, and with random search at as many candidates. A style that loses the road is refused and counts as "
    "no error. Every table has the control: frames decoded as what they are, which alone moves answers.",
    "Shares are of all scenes under all conditions, refused ones included. The paper's scenes, networks and translators are "
    "others, so its numbers show the order of magnitude at most.",
)

TACTIC = Experiment(
    "tactic",
    "TACTIC: learned conditions",
    subjects=_subjects,
    cases=lambda setting: setting.size.scenes,
    sizes=SIZES,
    steps=steps,
    campaign=fixed,
    reads=StyleRuns,
    questions=(
        comparisons.worse_than_random,
        comparisons.worse_than_deeproad,
        comparisons.worse_than_random_search,
        appearance.what_are_the_conditions,
        appearance.are_they_realistic,
        opinions.what_do_people_say,
        comparisons.where_does_the_time_go,
    ),
    lead=(*LEAD, _lacking),
    options={"styles": ""},
    check=chosen_styles,
    preparation=_preparation,
)
