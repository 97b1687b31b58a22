"""DeepTest (Tian, Pei, Jana, Ray; ICSE 2018) as campaigns: seven simple changes, fog and rain, pairs guided by coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from swerve.campaign import Campaign, Search
from swerve.case import Source
from swerve.coverage.meter import Meter
from swerve.coverage.neuron import NC
from swerve.errors import InputError, UnreadableCase, did_you_mean
from swerve.gates.fill import MaxFill
from swerve.relation import Correct, Equivariant, Relation, Rule
from swerve.relations.steering import AngleWithin, SquaredError
from swerve.search.greedy import CHANCE, CODE, EACH, Greedy
from swerve.search.sweep import CASE, CHANGE, Sweep
from swerve.sources.windows import frames_of
from swerve.space import OneOf, Over, Space, Table
from swerve.system import System, WhiteBox
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.resize import Enlarge
from swerve.transformations.weather import Fog, Rain
from swerve.values import Steering, find

NAME = "deeptest"
LAMBDA = 5.0  # the authors' operating point (DT-28)
LABEL, OWN, BOTH = "label", "own answer", "both"
SIMPLE, WEATHER, ALL = "simple", "weather", "all"
CUMULATIVE, GUIDED, RANDOM = "cumulative", "guided", "random"
PLAIN, PRINTED, PUBLISHED = "swerve", "deeptest-2018", "deeptest-code"
PAIR = "pairs of changes"


def table_4() -> dict[str, Space]:
    """The seven simple changes, ten parameters each (Table 4), 70 follow-ups of every image."""
    return {
        "translation": Over(Translate, x="grid", y="grid"),
        "scale": Over(Scale, x="grid", y="grid"),
        "shear": Over(Shear, x="grid"),
        "rotation": Over(Rotate, degrees="grid"),
        "contrast": Over(Contrast, alpha="grid"),
        "brightness": Over(Brighten, beta="grid"),
        "blur": blurs(),
    }


def table_4_of_2018() -> dict[str, Space]:
    """Table 4 with scale as a larger picture (D-9) and shear about the top-left corner (D-10)."""
    scale, shear = Over(Enlarge, x="grid", y="grid"), Over(Shear, x="grid", anchor="top-left")
    return {**table_4(), "scale": scale, "shear": shear}


def published_ranges() -> dict[str, Space]:
    """The parameters of the authors' guided search (B.1, item 11), which are not Table 4's."""
    return {
        "translation": Table(tuple(Translate(float(by), float(by)) for by in range(-50, 50))),
        "scale": Table(tuple(Enlarge(tenth / 10, tenth / 10) for tenth in range(5, 20))),
        "shear": Table(tuple(Shear(tenth / 10, anchor="top-left") for tenth in range(-5, 5))),
        "rotation": Table(tuple(Rotate(float(degrees)) for degrees in range(-30, 30))),
        "contrast": Table(tuple(Contrast(tenth / 10) for tenth in range(1, 20))),
        "brightness": Table(tuple(Brighten(float(beta)) for beta in range(-21, 21))),
        "blur": blurs(),
    }


def weather() -> dict[str, Space]:
    """Fog and rain, one of each for every image (DT-18): thick enough to change the picture, thin enough to drive in."""
    return {"fog": Over(Fog, visibility=75.0), "rain": Over(Rain, amount=0.6, drop_size=0.15, speed=0.25, slant=8.0)}


# How the open points of the paper are read: Swerve's own way, as printed in 2018, or as the published code does it.
TABLE_OF: Mapping[str, Callable[[], dict[str, Space]]] = MappingProxyType(
    {PLAIN: table_4, PRINTED: table_4_of_2018, PUBLISHED: table_4_of_2018}
)
PAIRS_OF: Mapping[str, Callable[[], dict[str, Space]]] = MappingProxyType(
    {PLAIN: table_4, PRINTED: table_4_of_2018, PUBLISHED: published_ranges}
)
COUNTING_OF: Mapping[str, str] = MappingProxyType({PLAIN: "default", PRINTED: "deeptest-2018", PUBLISHED: "deeptest-2018"})
GREEDY_OF: Mapping[str, Greedy] = MappingProxyType(
    {PLAIN: Greedy(), PRINTED: Greedy(), PUBLISHED: Greedy(reading=CODE, seeds=EACH)}
)


def deeptest(
    source: Source,
    system: System,
    *,
    changes: str = SIMPLE,
    search: str = CUMULATIVE,
    against: str = "",
    factor: float = LAMBDA,
    mse: float | None = None,
    within: float = 10.0,
    profile: str = PLAIN,
    tries: int = 10,
    budget: int = 0,
    chance: float = 0.0,
    width: int = 1,
    threshold: float = 0.2,
    coverage: bool = True,
    seed: int = 0,
    inference_batch: int = 16,
) -> Campaign:
    """DeepTest on any steering system and source, windows included.

    Args:
        changes: `simple` (Table 4), `weather` (fog and rain) or `all`; for a cumulative search.
        search: `cumulative`: every change of every case; `guided`: pairs led by coverage (Algorithm 1); `random`: the same
            search led by a coin, which needs a `budget`.
        against: `label`: λ·MSE of Eq. 2; `own answer`: within so many degrees of what was said of the untouched case (D-28);
            `both`: two rules for each change. By default `label` where cases have one.
        factor: λ.
        mse: MSE_orig in degrees²; by default that of the system on the cases of `source`.
        within: degrees of the wheel, for `own answer`.
        profile: `swerve`, `deeptest-2018` or `deeptest-code`; see docs/deeptest.md.
        tries, budget, chance, width: of the guided and the random search.
        threshold: of neuron coverage.
        coverage: whether a cumulative search measures what its follow-ups cover, of a system that can be looked into.
    """
    if profile not in TABLE_OF:
        raise InputError(f"profile '{profile}' is not known; {did_you_mean(profile, TABLE_OF)}")
    readings = _readings(source, against, SquaredError(factor, mse), AngleWithin(within))
    meter = Meter((NC(threshold),), counting=COUNTING_OF[profile])
    if search == CUMULATIVE:
        chosen = _chosen(TABLE_OF[profile](), changes)
        rules = tuple(_rule(name, space, reading, readings) for name, space in chosen.items() for reading in readings)
        how: Search = Sweep(per_case=1, by=CHANGE if _windowed(source) else CASE)
        measured = meter if coverage and isinstance(system, WhiteBox) else None
    elif search in (GUIDED, RANDOM):
        if len(readings) > 1:
            raise InputError("a guided search has one rule: say against = 'label' or against = 'own answer'")
        rules = tuple(Rule(PAIR, OneOf(tuple(PAIRS_OF[profile]().values())), relation) for relation in readings.values())
        led = replace(GREEDY_OF[profile], tries=tries, budget=budget, width=width)
        how, measured = replace(led, follow=CHANCE, chance=chance) if search == RANDOM else led, meter
    else:
        raise InputError(f"search '{search}' is not known; {did_you_mean(search, (CUMULATIVE, GUIDED, RANDOM))}")
    gate = MaxFill(share=0.5) if profile == PLAIN else None  # D-10: beyond, a picture is mostly border
    return Campaign(source, system, rules, how, gate, measured, seed, inference_batch, method=NAME)


def _chosen(table: dict[str, Space], changes: str) -> dict[str, Space]:
    chosen = {SIMPLE: table, WEATHER: weather(), ALL: {**table, **weather()}}
    if changes not in chosen:
        raise InputError(f"changes '{changes}' are not known; {did_you_mean(changes, chosen)}")
    return chosen[changes]


def _readings(source: Source, against: str, label: SquaredError, own: AngleWithin) -> dict[str, Relation]:
    every: dict[str, Relation] = {LABEL: Correct(label), OWN: Equivariant(own)}
    told = against or (LABEL if _labelled(source) else OWN)
    if told not in (*every, BOTH):
        raise InputError(f"against '{told}' is not known; {did_you_mean(told, (*every, BOTH))}")
    return every if told == BOTH else {told: every[told]}


def _rule(name: str, space: Space, reading: str, readings: Mapping[str, Relation]) -> Rule:
    return Rule(name if len(readings) == 1 else f"{name}, {reading}", space, readings[reading])


def _labelled(source: Source) -> bool:
    """Whether the first case that reads has a steering label."""
    for key in source.keys():
        try:
            return find(source[key].truth, Steering.slot) is not None
        except UnreadableCase:
            continue
    return False


def _windowed(source: Source) -> bool:
    keys = source.keys()
    return bool(keys) and len(frames_of(source, keys[0])) > 1
