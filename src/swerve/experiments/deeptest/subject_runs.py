"""One system under test with its runs, and what they recorded, read once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from swerve.analysis.angles import angles_of, untouched
from swerve.analysis.growth import SearchCoverage, kept
from swerve.analysis.neurons import SubModels, followups, originals
from swerve.analysis.oracle import Oracle
from swerve.core.case import group_of
from swerve.core.system import WhiteBox
from swerve.core.transformation import Chain
from swerve.coverage.layers import COUNTINGS, Layout, layout_of
from swerve.experiments import Results, SubjectRuns, read_printed
from swerve.methods.deeptest import COUNTING_OF, GUIDED, SIMPLE, WEATHER
from swerve.sources.subset import Subset
from swerve.sources.windows import frames_of
from swerve.store.record_json import record_of
from swerve.store.view import Run

FEWEST_DRIVES = 5  # with fewer, images do not count as independent
PAPER = read_printed(Path(__file__).with_name("paper.toml"))
ALIKE, PAIRS = "alike", "pairs"  # the rivals of guided searches: random of the same shape, random pairs


def search_name(kind: str, number: int) -> str:
    """The step of a search; the first guided one has no number."""
    return kind if kind == GUIDED and not number else f"{kind}-{number}"


class DeepTestRuns(SubjectRuns):
    """A system with its runs; a black box has no searches and no neurons."""

    # The seven simple changes of all images, the first guided search if there is one, and the images searches start from.
    simple = cached_property[Run](lambda self: self.runs[SIMPLE])
    guided = cached_property[Run | None](lambda self: self.runs.get(GUIDED))
    seeds = cached_property(lambda self: Subset(self.subject.source, self.setting.size.of(self.subject).seeds))

    @cached_property
    def searches(self) -> dict[str, list[SearchCoverage]]:
        """The coverage of all searches, by kind."""
        kinds = (GUIDED, ALIKE, PAIRS) if self.guided else ()
        runs = {kind: [run for name, run in self.runs.items() if name.partition("-")[0] == kind] for kind in kinds}
        return {kind: [SearchCoverage(run) for run in some] for kind, some in runs.items()}

    @cached_property
    def layout(self) -> Layout | None:
        """The neurons that count; None for a black box."""
        system, profile = self.subject.system, self.setting.options["profile"]
        if not isinstance(system, WhiteBox):
            return None
        return layout_of(system, self.seeds[self.seeds.keys()[0]], counting=COUNTINGS[COUNTING_OF[profile]])

    # The whole network and its sub-models, none of a black box; and the number of drives or scenes of the cases.
    parts = cached_property(lambda self: SubModels.of(self.layout) if self.layout else SubModels())
    drives = cached_property(lambda self: len({group_of(self.subject.source, key) for key in self.subject.source.keys()}))

    def part_name(self, part: str) -> dict[str, str]:
        """The name of a (sub-)model, and the paper's that it is compared with."""
        return {"model": f"{self.name} {part}".strip(), "_like": f"{self.subject.like} {part}".strip()}

    @cached_property
    def overlapping(self) -> bool:
        """Whether neighbouring cases share frames, so that they are not independent."""
        frames = [set(frames_of(self.subject.source, key)) for key in self.subject.source.keys()]
        return any(one & other for one, other in pairwise(frames))

    # The answers to the follow-ups of the seven simple changes, to those in fog and rain, and to what the search kept.
    angles = cached_property(lambda self: angles_of(self.simple.trials()))
    weather_angles = cached_property(lambda self: angles_of(self.runs[WEATHER].trials()))
    guided_angles = cached_property(lambda self: angles_of(kept(self.guided)) if self.guided else None)
    # The neurons that each untouched case activates, and each follow-up of the simple changes.
    originals = cached_property(lambda self: originals(self.baseline))
    followups = cached_property(lambda self: followups(self.simple.trials()))

    @cached_property
    def guided_steps(self) -> dict[str, tuple[str, ...]]:
        """The chains of the images that the guided search kept, in words, and the words of their steps."""
        if not self.guided:
            return {}
        builder = self.guided.builder()
        changes = (record_of(row, builder).change for row in kept(self.guided))
        return {one.words(): tuple(step.words() for step in one.steps) for one in changes if isinstance(one, Chain)}

    # Labels and answers of the untouched cases that have a label; and Eq. 2 with this system's MSE_orig, which needs them.
    untouched = cached_property(lambda self: untouched(self.baseline))
    oracle = cached_property(lambda self: Oracle.of(self.untouched[0], self.untouched[1], self.setting.options["error"]))


DeepTests = Results[DeepTestRuns]


def white_boxes(results: DeepTests) -> list[DeepTestRuns]:
    """The systems whose neurons are known."""
    return [one for one in results if one.layout]


def judged(results: Iterable[DeepTestRuns]) -> list[DeepTestRuns]:
    """The systems whose cases have labels."""
    return [one for one in results if len(one.untouched[0])]


def few_drives_note(results: DeepTests) -> str:
    """An addition to a note on p if images come from few drives only, and so are similar; otherwise empty."""
    few = [f"{one.name} {one.drives}" for one in results if one.drives < FEWEST_DRIVES]
    words = "Frames of one drive are not independent, so p is too small where there are few drives"
    return f". {words}: {', '.join(few)}" if few else ""
