"""Pictures of the approaches that are compared for realism: TACTIC, DeepRoad, DeepTest, and rendered scenes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.transformation import Transformation
from swerve.core.values import Array
from swerve.experiments.tactic.style_runs import (
    DEEPROAD,
    EVOLVED,
    RENDERED,
    StyleRuns,
    is_rendered,
    search_step,
    style_files,
)
from swerve.transformations.photometric import images_of
from swerve.transformations.rerender import Rerender, Reshade
from swerve.transformations.style import Style
from swerve.transformations.weather import Fog, Rain
from swerve.world.conditions import PRESETS, conditions
from swerve.zoo.style_weather import RANGES

DEEPTEST = "DeepTest"
APPROACHES = (EVOLVED, DEEPROAD, DEEPTEST, RENDERED)
FILTERS: tuple[Transformation, ...] = (Rain(0.5), Fog(120))  # DeepTest's weather; it has no other


@dataclass(frozen=True, eq=False)
class ApproachPicture:
    """A picture of an approach, the scene it was made from, and the condition that it should show."""

    approach: str
    style: str
    scene: str
    before: Array
    after: Array
    words: str


def changes(one: StyleRuns, style: str) -> dict[str, list[Transformation]]:
    """What each approach does to scenes for a condition; several changes take turns."""
    searches = (search_step(style, one.guides[0], EVOLVED, number) for number in range(one.setting.size.runs))
    vectors = [found["vector"] for step in searches for found in one.conditions(step)]
    unit = style_files(one.setting, unit=True).get(style)
    every: dict[str, list[Transformation]] = {EVOLVED: [Style(one.asset(style), tuple(vector)) for vector in vectors]}
    every[DEEPROAD] = [Style(Asset(unit))] if unit else []
    every[DEEPTEST] = list(FILTERS)
    every[RENDERED] = [Rerender(style)] if style in PRESETS and is_rendered(one.subject.source) else []
    return {name: some for name, some in every.items() if some}


def shown(one: StyleRuns, approach: str, style: str, count: int) -> Iterator[ApproachPicture]:
    """Pictures of an approach; every approach has the same scenes."""
    some = changes(one, style).get(approach, [])
    for place, key in enumerate(scenes(one, count) if some else ()):
        case, change = one.subject.source[key], some[place % len(some)]
        yield ApproachPicture(approach, style, key, picture(case), picture(change(case)), change.words())


def scenes(one: StyleRuns, count: int) -> list[str]:
    """So many scenes, evenly spread."""
    keys = list(one.subject.source.keys())
    return [keys[place * len(keys) // count] for place in range(min(count, len(keys)))]


def picture(case: Case) -> Array:
    """The picture of a case."""
    return next(images_of(case)).pixels


def catalogue() -> Mapping[str, Reshade]:
    """Rendered conditions by their words: the named ones, and the mildest and the strongest of those that styles learnt."""
    named = [conditions(name) for name in PRESETS]
    ends = [
        replace(conditions(name), **{parameter: float(range_[end]) for parameter, range_ in ranges.items()})
        for name, ranges in RANGES.items()
        for end in (0, 1)
    ]
    return {one.words(): Reshade(**one.numbers()) for one in (*named, *ends)}
