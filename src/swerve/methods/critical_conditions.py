"""Critical conditions, the search of TACTIC (ICML 2021): the weather and light in which a network's answers move most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from swerve.core.arguments import check_known
from swerve.core.campaign import Campaign
from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.gate import AllOf, Gate
from swerve.core.relation import Relation, Rule
from swerve.core.space import Over, Space
from swerve.core.system import System, WhiteBox
from swerve.coverage.criterion import Criterion
from swerve.coverage.meter import Meter
from swerve.coverage.neuron import NC
from swerve.coverage.profiled import KMNC, NBC, SNAC
from swerve.relations.gates import Legible, Visible
from swerve.relations.road_kept import RoadKept
from swerve.relations.steering import same_angle, same_decision
from swerve.relations.unjudged import Unjudged
from swerve.search.critical import DEGREES
from swerve.search.evolve import EVOLVE, Evolve
from swerve.sources.windows import WrappedSource
from swerve.transformations.rerender import RenderedAgain, rendered_conditions
from swerve.transformations.style import Styles
from swerve.transformations.weather import filtered_conditions
from swerve.world.source import World

NAME = "critical-conditions"
JUDGED, TRIED = "critical conditions", "conditions tried by the search"
PLAIN, PRINTED, PUBLISHED = "swerve", "tactic-paper", "tactic-code"
MANY = 500  # scenes from which KMNC guides the search noticeably (D-35)
NONE = "none"
CRITERIA: Mapping[str, Criterion | None] = MappingProxyType(
    {"nbc": NBC(), "kmnc": KMNC(sections=1000), "snac": SNAC(), "nc": NC(), NONE: None}
)
# What the paper leaves open follows the profile: Swerve's own choice, the paper of 2021, or the published code (B.3).
SEARCH_OF: Mapping[str, Evolve] = MappingProxyType(
    {
        PLAIN: Evolve(),
        PRINTED: Evolve(evaluations=0, patience=100, race=False, around=0),
        PUBLISHED: Evolve(evaluations=150, patience=60, step=5.0, adapt=False, race=False, around=0),
    }
)
ENOUGH: Mapping[str, float] = MappingProxyType({"kmnc": 0.80, "nbc": 0.40})  # in the published code (B.3, item 35)
PUBLISHED_NBC_WEIGHT = 10.0  # B.3, item 34


def critical_conditions(
    source: Source,
    system: System,
    *,
    space: Space | None = None,
    search: str = EVOLVE,
    conditions: int = 4,
    evaluations: int | None = None,
    patience: int | None = None,
    criterion: str = "",
    training: Source | None = None,
    signal: str = "",
    threshold: float = 0.5,
    race: bool | None = None,
    around: int | None = None,
    scenes_cover: bool | None = None,
    profile: str = PLAIN,
    gate: Gate | None = None,
    seed: int = 0,
    inference_batch: int = 16,
) -> Campaign:
    """Searches for the conditions, each the same for all scenes, under which the answers move most and cover most.

    Args:
        space: the conditions to search in; by default those of the embedded world for its own frames, image filters else.
        search: `evolve`, `random`, `cma`, or `random-conditions` for conditions without a search.
        conditions: the number of conditions to find.
        evaluations: candidates tried for each condition, at most.
        patience: candidates in a row without improvement, after which a condition is taken as found.
        criterion: the coverage that guides the search besides the answers: `nbc` by default, `kmnc` from 500 scenes on,
            `snac`, `nc`, or `none`, which is also the choice for systems that cannot be looked into.
        training: the data from which ranges of neurons are taken; the scenes themselves by default.
        signal: a signal to move instead of the steering angle, such as `collision`, decided at `threshold`.
        race: whether candidates that can hardly become the best are dropped after some of the scenes.
        around: scenes on which the neighbourhood of every condition is explored; 0 for none.
        scenes_cover: whether what the unchanged scenes cover counts as covered from the start, as it does by default.
        profile: `swerve`; `tactic-paper`, as printed; `tactic-code`, as published.
        gate: which follow-ups count; by default pictures must stay legible, and filtered ones `visible`.
    """
    # signal: TA-10; training: TA-5; profile: B.3
    check_known("profile", profile, SEARCH_OF)
    where = space or _usual_space(source)
    guide = _criterion(criterion, source, system)
    how = replace(_guided(SEARCH_OF[profile], profile, guide), strategy=search, conditions=conditions, signal=signal)
    given = {"evaluations": evaluations, "patience": patience, "race": race, "around": around, "scenes_cover": scenes_cover}
    how = replace(how, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    expect: Relation = same_decision(signal, threshold) if signal else same_angle(DEGREES[0])
    rules = (Rule(JUDGED, where, expect), Rule(TRIED, where, Unjudged()))
    measured = CRITERIA[guide]
    meter = Meter((measured,), under=network_part(system), profile=training or source) if measured else None
    admitted = gate or (_usual_gate(where) if profile == PLAIN else None)
    return Campaign(source, system, rules, how, admitted, meter, seed, inference_batch, method=NAME)


def _usual_space(source: Source) -> Space:
    inner = source
    while isinstance(inner, WrappedSource):
        inner = inner.source
    return rendered_conditions() if isinstance(inner, World) else filtered_conditions()


def _usual_gate(space: Space) -> Gate:
    """Legible pictures; filters must leave the road visible, while another light may show it in other contrasts.

    A learned style may erase the road, so that must be where it was.
    """
    if isinstance(space, Styles):
        return AllOf((Legible(), RoadKept()))
    rendered = isinstance(space, Over) and issubclass(space.kind, RenderedAgain)
    return Legible() if rendered else AllOf((Legible(), Visible()))


def _criterion(given: str, source: Source, system: System) -> str:
    if given:
        check_known("criterion", given, CRITERIA)
        if CRITERIA[given] is not None and not isinstance(system, WhiteBox):
            raise InputError(f"criterion = '{given}' needs a system whose layers can be read; give criterion = 'none'")
        return given
    if not isinstance(system, WhiteBox):
        return NONE
    return "kmnc" if len(source.keys()) >= MANY else "nbc"


def network_part(system: System) -> str:
    """The part of a network that coverage counts: the CNN where there is an RNN as well."""  # TA-8
    parts = {name.split(".")[0] for name in system.layers()} if isinstance(system, WhiteBox) else set()
    return "cnn" if {"cnn", "lstm"} <= parts else ""


def _guided(search: Evolve, profile: str, criterion: str) -> Evolve:
    if profile != PUBLISHED:
        return search
    weight = PUBLISHED_NBC_WEIGHT if criterion == "nbc" else 1.0
    return replace(search, coverage_weight=weight, enough=ENOUGH.get(criterion, 1.0))
