"""One system under test with its runs, and what they recorded, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from swerve.analysis.angles import Angles, angles_of, untouched
from swerve.analysis.growth import kept
from swerve.analysis.neurons import Sets, SubModels, followups, originals
from swerve.analysis.oracle import MSE, Oracle
from swerve.core.campaign import Observation
from swerve.core.case import group_of
from swerve.core.transformation import Chain
from swerve.core.values import Array
from swerve.coverage.layers import Layer
from swerve.experiments.subjects import Subject
from swerve.sources.windows import frames_of
from swerve.store.record_json import record_of
from swerve.store.view import Run

FEWEST_DRIVES = 5  # with fewer, images do not count as independent


@dataclass(frozen=True, eq=False)
class Guidance:
    """Searches with equal numbers of trials: guided by coverage, random with the same shape, and random pairs."""

    guided: tuple[Run, ...]
    alike: tuple[Run, ...]
    pairs: tuple[Run, ...]


@dataclass(frozen=True, eq=False)
class DeepTestRuns:
    """A subject and its runs; `parts` and `guidance` are None for a black box."""

    subject: Subject
    simple: Run
    weather: Run
    seeds: tuple[str, ...]  # the cases that the search started from
    parts: SubModels | None = None
    layers: tuple[Layer, ...] = ()  # that count
    guidance: Guidance | None = None
    metric: str = MSE  # of Eq. 3 (D-3)

    @property
    def name(self) -> str:
        """The system's name."""
        return self.subject.name

    @cached_property
    def overlapping(self) -> bool:
        """Whether neighbouring cases share frames, so that they are not independent."""
        frames = [set(frames_of(self.subject.source, key)) for key in self.subject.source.keys()]
        return any(one & other for one, other in pairwise(frames))

    @cached_property
    def drives(self) -> int:
        """The number of drives or scenes of the cases."""
        return len({group_of(self.subject.source, key) for key in self.subject.source.keys()})

    @cached_property
    def baseline(self) -> list[Observation]:
        """The untouched cases that the system answered."""
        return [seen for seen in self.simple.baseline() if not seen.fault]

    @cached_property
    def angles(self) -> Angles:
        """The answers to the follow-ups of the seven simple changes."""
        return angles_of(self.simple.trials())

    @cached_property
    def weather_angles(self) -> Angles:
        """The answers to the follow-ups in fog and rain."""
        return angles_of(self.weather.trials())

    @cached_property
    def guided_angles(self) -> Angles | None:
        """The answers to the images that the guided search kept."""
        return None if self.guidance is None else angles_of(kept(self.guidance.guided[0]))

    @cached_property
    def guided_steps(self) -> dict[str, tuple[str, ...]]:
        """The chains of the images that the guided search kept, in words, and the words of their steps."""
        rows = () if self.guidance is None else kept(self.guidance.guided[0])
        changes = (record_of(row).change for row in rows)
        return {one.words(): tuple(step.words() for step in one.steps) for one in changes if isinstance(one, Chain)}

    @cached_property
    def oracle(self) -> Oracle | None:
        """Eq. 2 with this system's MSE_orig; None without labels."""
        labels, answers = untouched(self.baseline)
        return Oracle.of(labels, answers, self.metric) if len(labels) else None

    @cached_property
    def squared_untouched(self) -> Array:
        """(label - answer)² of the untouched cases, rad²."""
        labels, answers = untouched(self.baseline)
        return np.asarray((labels - answers) ** 2)

    @cached_property
    def originals(self) -> Sets:
        """The neurons that each untouched case activates."""
        return originals(self.baseline)

    @cached_property
    def followups(self) -> Sets:
        """The neurons that each follow-up of the simple changes activates."""
        return followups(self.simple.trials())


def few_drives_note(all_tested: Sequence[DeepTestRuns]) -> str:
    """An addition to a note on p if images come from few drives only, and so are similar; otherwise empty."""
    few = [f"{tested.name} {tested.drives}" for tested in all_tested if tested.drives < FEWEST_DRIVES]
    return (
        f". Frames of one drive are not independent, so p is too small where there are few drives: {', '.join(few)}"
        if few
        else ""
    )


def part_name(tested: DeepTestRuns, part: str, *, like: bool = False) -> str:
    """The name of a (sub-)model: ours, or the paper's that it is compared with."""
    first = tested.subject.like if like else tested.name
    return f"{first} {part}".strip()
