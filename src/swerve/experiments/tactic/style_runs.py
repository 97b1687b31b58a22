"""The runs of one system: for every style what each search finds, measured again, beside random styles and references."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from swerve.analysis.angles import angles_of
from swerve.analysis.numbers import SUMMARY, TIMINGS
from swerve.core.asset import Asset
from swerve.core.campaign import Campaign
from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.gate import AllOf, Gate
from swerve.core.relation import Rule
from swerve.core.seeding import rng_for
from swerve.core.system import WhiteBox
from swerve.core.transformation import Transformation
from swerve.core.values import SceneRef, find
from swerve.coverage.meter import Meter
from swerve.coverage.profiled import KMNC, NBC
from swerve.experiments import CampaignStep, Results, Setting, Subject, SubjectRuns, table
from swerve.methods.critical_conditions import NONE, critical_conditions, network_part
from swerve.relations.gates import Legible
from swerve.relations.road_kept import RoadKept
from swerve.relations.steering import same_angle
from swerve.search.critical import DEGREES, errors
from swerve.search.evolve import EVOLVE, RANDOM
from swerve.search.sweep import CHANGE, Sweep
from swerve.store.files import read_json
from swerve.transformations.rerender import Rerender
from swerve.transformations.style import Reconstructed, Style, Styles
from swerve.translation.packaged import UNIT_SUFFIX, WEIGHTS
from swerve.translation.scene_reader import READER
from swerve.world.conditions import PRESETS

EVOLVED, SEARCHED, DRAWN = "TACTIC", "random search", "random styles"
STRATEGIES: Mapping[str, str] = {EVOLVED: EVOLVE, SEARCHED: RANDOM}
DEEPROAD, CONTROL, RENDERED = "DeepRoad", "reconstruction", "rendered"
CRITERIA = (KMNC(sections=1000), NBC())  # TA-6, TA-7
ERRORS = tuple(f"{limit}°" for limit in DEGREES)
GATE: Gate = AllOf((Legible(), RoadKept()))
Found = Mapping[str, Any]  # a condition as `summary.json` has it
system_table = partial(table, each="system")


def style_files(setting: Setting, *, unit: bool = False) -> dict[str, Path]:
    """The trained styles by name: the packaged ones, or those of the folder that the option `styles` names."""
    folder = Path(setting.options["styles"] or WEIGHTS)
    if not folder.is_dir():
        raise InputError(f"--styles {folder}: is not a folder; give one that `swerve style train` has written to")
    end = UNIT_SUFFIX if unit else ""
    names = (file.stem for file in sorted(folder.glob("*.safetensors")))
    plain = [name.removesuffix(UNIT_SUFFIX) for name in names if name.endswith(UNIT_SUFFIX) == unit]
    return {name: folder / f"{name}{end}.safetensors" for name in plain if name != READER}


def chosen_styles(setting: Setting) -> list[str]:
    """The styles of this experiment, as many as its size has."""
    found = list(style_files(setting))
    if not found:
        where = setting.options["styles"] or WEIGHTS
        raise InputError(f"{where}: has no trained styles; `swerve style train` or `swerve zoo train night` makes them")
    return found[: setting.size.styles]


def search_step(style: str, guide: str, strategy: str, number: int) -> str:
    """The name of a search."""
    return f"{style}, {guide}, {strategy} {number + 1}"


def measured_step(style: str, guide: str, strategy: str, number: int) -> str:
    """The name of the step that measures what a strategy found; random styles know no guide."""
    if strategy == DRAWN:
        return f"{style}, {DRAWN} {number + 1}"
    return f"{search_step(style, guide, strategy, number)}, measured"


def reference_step(style: str, what: str) -> str:
    """The name of the step with translations by DeepRoad and reconstructions, or with rendered pictures."""
    return f"{style}, {what}"


def guides_of(subject: Subject, setting: Setting) -> tuple[str, ...]:
    """The criteria that guide searches; none for a system that cannot be looked into."""
    return tuple(setting.size.guides) if isinstance(subject.system, WhiteBox) else (NONE,)


def is_rendered(source: Source) -> bool:
    """Whether the scenes are the embedded world's, which can be rendered in other conditions."""
    return isinstance(find(source[source.keys()[0]].truth, SceneRef.slot), SceneRef)


def steps(subject: Subject, setting: Setting) -> Iterator[CampaignStep]:
    """For every style: references, then random styles and searches from every seed."""
    size, in_world = setting.size, is_rendered(subject.source)
    for style in chosen_styles(setting):
        yield CampaignStep(reference_step(style, CONTROL), controls, {"style": style})
        if style in PRESETS and in_world:
            yield CampaignStep(reference_step(style, RENDERED), rendered, {"style": style})
        for number in range(size.runs):
            yield CampaignStep(measured_step(style, "", DRAWN, number), drawn, {"style": style, "number": number})
            for guide in guides_of(subject, setting):
                yield from _searches(style, guide, number, size)


def _searches(style: str, guide: str, number: int, size: Any) -> Iterator[CampaignStep]:
    for strategy in STRATEGIES:
        name, values = search_step(style, guide, strategy, number), {"style": style, "guide": guide, "number": number}
        yield CampaignStep(name, searching, {**values, "strategy": strategy})
        done = measured_step(style, guide, strategy, number)
        yield CampaignStep(done, measuring, {"search": name}, after=(name,), trials=size.conditions * size.scenes)


def searching(one: StyleRuns, style: str, guide: str, strategy: str, number: int) -> Campaign:
    """A search; those with the same number start at the same style."""
    size = one.setting.size
    return critical_conditions(
        one.subject.source,
        one.subject.system,
        space=Styles(one.asset(style)),
        search=STRATEGIES[strategy],
        conditions=size.conditions,
        evaluations=size.evaluations,
        patience=size.patience,
        criterion=guide,
        around=0,
        gate=GATE,
        seed=one.setting.seed + number,
    )


def fixed(one: StyleRuns, changes: Mapping[str, Transformation], gate: Gate | None = GATE) -> Campaign:
    """Every scene under some changes, with both coverage criteria."""
    source, system = one.subject.source, one.subject.system
    rules = tuple(Rule(name, change, same_angle(DEGREES[0])) for name, change in changes.items())
    known = Meter(CRITERIA, under=network_part(system), profile=source) if isinstance(system, WhiteBox) else None
    return Campaign(source, system, rules, Sweep(by=CHANGE), gate, known, one.setting.seed)


def measuring(one: StyleRuns, search: str) -> Campaign:
    """The conditions that a search found."""
    builder = one.runs[search].builder()
    return fixed(one, {condition_name(k): builder.change(found["change"]) for k, found in enumerate(one.conditions(search))})


def drawn(one: StyleRuns, style: str, number: int) -> Campaign:
    """Random styles, as many as a search finds conditions."""
    where = Styles(one.asset(style)).coordinates(0)
    rng = rng_for(one.setting.seed + number, "random styles", style)
    return fixed(one, {condition_name(k): where.change(where.draw(rng)) for k in range(one.setting.size.conditions)})


def controls(one: StyleRuns, style: str) -> Campaign:
    """Reconstructions, and DeepRoad's translations where there is a translator of kind `unit`."""
    unit = style_files(one.setting, unit=True).get(style)
    road: dict[str, Transformation] = {DEEPROAD: Style(Asset(unit))} if unit else {}
    return fixed(one, {CONTROL: Reconstructed(one.asset(style)), **road})


def rendered(one: StyleRuns, style: str) -> Campaign:
    """The scenes rendered in the condition itself, without a gate: their labels are exact."""
    return fixed(one, {RENDERED: Rerender(style)}, None)


def condition_name(place: int) -> str:
    """The rule of a condition."""
    return f"condition {place + 1}"


@dataclass(frozen=True)
class Measures:
    """What some changes do to all scenes: how far answers move, in radians, by rule, and what is covered, as shares."""

    moved: Mapping[str, list[float]]
    scenes: int  # for each rule
    covered: Mapping[str, float]  # with all rules, by criterion
    covered_by: Mapping[str, Mapping[str, float]]  # with each rule

    def mean(self, rule: str) -> float:
        """The mean distance of one rule; 0 where every follow-up was refused."""
        return float(np.mean(self.moved[rule])) if self.moved[rule] else 0.0

    def shares(self, *rules: str) -> dict[str, float]:
        """The share of all follow-ups, refused ones included, that reach each limit."""
        every = [distance for rule in rules or self.moved for distance in self.moved[rule]]
        total = self.scenes * len(rules or self.moved)
        return {f"{limit}°": count / total for limit, count in errors(every).items()}

    def refused(self, *rules: str) -> float:
        """The share of follow-ups that the gate refused or that have no answer."""
        total = self.scenes * len(rules or self.moved)
        return 1 - sum(len(self.moved[rule]) for rule in rules or self.moved) / total


class StyleRuns(SubjectRuns):
    """A system with its runs; what they found is read once."""

    def asset(self, style: str) -> Asset:
        """The translator of a style."""
        return Asset(style_files(self.setting)[style])

    @cached_property
    def guides(self) -> tuple[str, ...]:
        """The criteria that guide its searches."""
        return guides_of(self.subject, self.setting)

    @cached_property
    def styles(self) -> list[str]:
        """The styles of this experiment."""
        return chosen_styles(self.setting)

    def conditions(self, search: str) -> list[Found]:
        """The conditions that a search found."""
        return list(self.summary(search)["conditions"])

    def summary(self, step: str) -> Mapping[str, Any]:
        """What a run wrote at its end."""
        return self._file(step, SUMMARY)

    def stages(self, step: str) -> Mapping[str, float]:
        """The seconds that a run spent on changes, on answers and on its search."""
        found: Mapping[str, float] = self._file(step, TIMINGS)["stages"]
        return found

    def _file(self, step: str, name: str) -> Mapping[str, Any]:
        key = step, name
        if key not in self.memory:
            self.memory[key] = read_json(self.runs[step].folder / name)
        found: Mapping[str, Any] = self.memory[key]
        return found

    def measures(self, step: str) -> Measures:
        """What the fixed changes of a step do."""
        if step not in self.memory:
            self.memory[step] = self._measures(step)
        found: Measures = self.memory[step]
        return found

    def _measures(self, step: str) -> Measures:
        run = self.runs[step]
        angles = angles_of(run.trials())
        rules = [rule["name"] for rule in run.identity["campaign"]["rule"]]
        distances = {rule: np.abs(angles.of(rule).after - angles.of(rule).before).tolist() for rule in rules}
        before = [seen for seen in run.untouched() if not seen.fault]
        gains: dict[str, list[Any]] = {rule: [] for rule in rules}
        for row in run.trials():
            gains[row["rule"]].append(row["gain"])
        whole = {key: count["covered"] / count["total"] for key, count in self.summary(step).get("coverage", {}).items()}
        meter, known = Meter(CRITERIA), [seen.gain for seen in before]
        each = {rule: meter.counts(meter.joined([*known, *some])) for rule, some in gains.items()}
        shares = {rule: {key: one["covered"] / one["total"] for key, one in found.items()} for rule, found in each.items()}
        return Measures(distances, len(before), whole, shares)

    def worst(self, style: str, guide: str, strategy: str) -> list[float]:
        """The largest mean divergence in degrees of the conditions of every run."""
        runs = range(self.setting.size.runs)
        every = [self.measures(measured_step(style, guide, strategy, number)) for number in runs]
        return [math.degrees(max(found.mean(rule) for rule in found.moved)) for found in every]


StyleResults = Results[StyleRuns]
