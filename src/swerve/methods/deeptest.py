"""DeepTest (Tian, Pei, Jana, Ray; ICSE 2018) as campaigns: seven simple changes, fog and rain, pairs guided by coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from swerve.core.campaign import Campaign, Search
from swerve.core.case import Source
from swerve.core.errors import InputError, UnreadableCase, did_you_mean
from swerve.core.relation import Correct, Equivariant, Gate, Relation, Rule
from swerve.core.space import OneOf, Over, Space, Table
from swerve.core.system import System, WhiteBox
from swerve.core.values import Steering, find
from swerve.coverage.meter import Meter
from swerve.coverage.neuron import NC
from swerve.relations.gates import Legible, MaxFill
from swerve.relations.steering import AngleWithin, SquaredError
from swerve.search.greedy import CHANCE, CODE, EACH, Greedy
from swerve.search.sweep import CASE, CHANGE, Sweep
from swerve.sources.windows import frames_of
from swerve.transformations.affine import Enlarge, Rotate, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.weather import Fog, Rain

NAME = "deeptest"
LAMBDA = 5.0  # the authors' operating point (DT-28)
LABEL, OWN, BOTH = "label", "own answer", "both"
SIMPLE, WEATHER, ALL = "simple", "weather", "all"
CUMULATIVE, GUIDED, RANDOM = "cumulative", "guided", "random"
PLAIN, PRINTED, PUBLISHED = "swerve", "deeptest-2018", "deeptest-code"
PAIR = "pairs of changes"
WITHIN = 10.0  # degrees
GREEDY = ("tries", "budget", "images", "depth", "reset", "width")


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


def table_4_of_the_code() -> dict[str, Space]:
    """The same as the published code makes it, which shears by minus the parameter (B.1, item 25)."""
    grid = [step for step in Over(Shear, x="grid", anchor="top-left").grid() if isinstance(step, Shear)]
    return {**table_4_of_2018(), "shear": Table(tuple(replace(step, x=-step.x) for step in grid))}


def published_ranges() -> dict[str, Space]:
    """The parameters of the authors' guided search (B.1, item 11), which are not Table 4's."""
    return {
        "translation": Table(tuple(Translate(float(by), float(by)) for by in range(-50, 50))),
        "scale": Table(tuple(Enlarge(tenth / 10, tenth / 10) for tenth in range(5, 20))),
        "shear": Table(tuple(Shear(-tenth / 10, anchor="top-left") for tenth in range(-5, 5))),  # item 25
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
    {PLAIN: table_4, PRINTED: table_4_of_2018, PUBLISHED: table_4_of_the_code}
)
PAIRS_OF: Mapping[str, Callable[[], dict[str, Space]]] = MappingProxyType(
    {PLAIN: table_4, PRINTED: table_4_of_2018, PUBLISHED: published_ranges}
)
COUNTING_OF: Mapping[str, str] = MappingProxyType({PLAIN: "default", PRINTED: "deeptest-2018", PUBLISHED: "deeptest-2018"})
GREEDY_OF: Mapping[str, Greedy] = MappingProxyType(
    {PLAIN: Greedy(), PRINTED: Greedy(), PUBLISHED: Greedy(reading=CODE, seeds=EACH)}
)


# Keys that not every campaign uses, and the searches or readings that do.
LED = (GUIDED, RANDOM)
SEARCHES_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {**dict.fromkeys(("changes", "coverage"), (CUMULATIVE,)), **dict.fromkeys(GREEDY, LED), "chance": (RANDOM,)}
)
READINGS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType({"factor": (LABEL,), "mse": (LABEL,), "within": (OWN,)})


def deeptest(
    source: Source,
    system: System,
    *,
    changes: str | None = None,
    search: str = CUMULATIVE,
    against: str = "",
    factor: float | None = None,
    mse: float | None = None,
    within: float | None = None,
    profile: str = PLAIN,
    tries: int | None = None,
    budget: int | None = None,
    images: int | None = None,
    depth: int | None = None,
    reset: bool | None = None,
    width: int | None = None,
    chance: float | None = None,
    threshold: float = 0.2,
    coverage: bool | None = None,
    seed: int = 0,
    inference_batch: int = 16,
) -> Campaign:
    """DeepTest on any steering system and source, windows included; a key that nothing would use is refused.

    Args:
        changes: `simple` (Table 4), the default, `weather` (fog and rain) or `all`; of a cumulative search.
        search: `cumulative`: every change of every case; `guided`: pairs led by coverage (Algorithm 1); `random`: the same
            search led by a coin, which needs a `budget`.
        against: `label`: λ·MSE of Eq. 2; `own answer`: within so many degrees of what was said of the untouched case (D-28);
            `both`: two rules for each change. By default `label` where cases have one.
        factor: λ, by default 5; against the label.
        mse: MSE_orig in degrees²; by default that of the system on the cases of `source`.
        within: degrees of the wheel, by default 10; against the own answer.
        profile: `swerve`, `deeptest-2018` or `deeptest-code`; see docs/deeptest.md.
        tries, budget, images, depth, reset, width: of the guided and the random search, as of `greedy`.
        chance: of the coin of the random search.
        threshold: of neuron coverage.
        coverage: whether a cumulative search measures what its follow-ups cover, of a system that can be looked into; by
            default yes.
    """
    if profile not in TABLE_OF:
        raise InputError(f"profile '{profile}' is not known; {did_you_mean(profile, TABLE_OF)}")
    if search not in (CUMULATIVE, *LED):
        raise InputError(f"search '{search}' is not known; {did_you_mean(search, (CUMULATIVE, *LED))}")
    led = {"tries": tries, "budget": budget, "images": images, "depth": depth, "reset": reset, "width": width}
    _refuse_unused("search", {"changes": changes, "coverage": coverage, **led, "chance": chance}, (search,), SEARCHES_OF)
    label = SquaredError(LAMBDA if factor is None else factor, mse)
    readings = _readings(source, against, label, AngleWithin(WITHIN if within is None else within))
    _refuse_unused("against", {"factor": factor, "mse": mse, "within": within}, tuple(readings), READINGS_OF)
    meter = Meter((NC(threshold),), counting=COUNTING_OF[profile])
    if search == CUMULATIVE:
        spaces = _chosen(TABLE_OF[profile](), changes or SIMPLE)
        how: Search = Sweep(per_case=1, by=CHANGE if _windowed(source) else CASE)
        measured = meter if coverage is not False and isinstance(system, WhiteBox) else None
    else:
        if len(readings) > 1:
            raise InputError("a guided search has one rule: say against = 'label' or against = 'own answer'")
        spaces = {PAIR: OneOf(tuple(PAIRS_OF[profile]().values()))}
        how, measured = _greedy(profile, led, chance, search), meter
    rules = tuple(_rule(name, space, reading, readings) for name, space in spaces.items() for reading in readings)
    return Campaign(source, system, rules, how, _gate(profile, search), measured, seed, inference_batch, method=NAME)


def _gate(profile: str, search: str) -> Gate | None:
    """What is too little of a picture to judge by: mostly border (D-10), and where changes pile up, nothing to be seen."""
    if profile != PLAIN:
        return None
    return MaxFill(share=0.5) if search == CUMULATIVE else Legible(fill=0.5)


def _refuse_unused(
    name: str, given: Mapping[str, object], chosen: tuple[str, ...], users: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse a key that was given although nothing that was chosen uses it."""
    for key, value in given.items():
        if value is not None and not {*users[key]} & {*chosen}:
            told = " or ".join(map(repr, users[key]))
            raise InputError(f"{key} = {value!r} is for {name} = {told}, and here it is {' and '.join(map(repr, chosen))}")


def _greedy(profile: str, led: Mapping[str, Any], chance: float | None, search: str) -> Greedy:
    given = {name: value for name, value in led.items() if value is not None}
    if profile == PUBLISHED and "reset" in given:
        raise InputError("reset is for the paper's reading; profile 'deeptest-code' gives an image all its tries again")
    if search == RANDOM:
        given |= {"follow": CHANCE, "chance": chance or 0.0}
    return replace(GREEDY_OF[profile], **given)


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
    """The rule of a change; its name says how it is judged unless that is the paper's way, the label alone (D-28)."""
    return Rule(name if tuple(readings) == (LABEL,) else f"{name}, {reading}", space, readings[reading])


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
