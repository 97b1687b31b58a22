"""DeepTest (Tian, Pei, Jana, Ray; ICSE 2018): seven simple changes, fog and rain, coverage-guided pairs of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.campaign import Campaign, Search
from swerve.core.case import Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.gate import Gate
from swerve.core.relation import Correct, Equivariant, Relation, Rule
from swerve.core.space import OneOf, Over, Space, Table
from swerve.core.system import System, WhiteBox
from swerve.core.values import Steering, find
from swerve.coverage.meter import Meter
from swerve.coverage.neuron import NC
from swerve.relations.gates import Legible, MaxFill
from swerve.relations.steering import AngleWithin, SquaredError
from swerve.search.greedy import CHANCE, CODE, EACH, Greedy
from swerve.search.sweep import CASE, CHANGE, Sweep
from swerve.sources.windows import window_length
from swerve.transformations.affine import Enlarge, Rotate, RotateAboutPixel, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.weather import Fog, Rain

NAME = "deeptest"
LAMBDA = 5.0  # the value chosen by the authors (DT-28)
LABEL, OWN, BOTH = "label", "own answer", "both"
SIMPLE, WEATHER, ALL = "simple", "weather", "all"
CUMULATIVE, GUIDED, RANDOM = "cumulative", "guided", "random"
PLAIN, PRINTED, PUBLISHED = "swerve", "deeptest-2018", "deeptest-code"
PAIR = "pairs of changes"
WITHIN = 10.0  # degrees
GREEDY = ("tries", "budget", "images", "depth", "reset", "width")


def table_4() -> dict[str, Space]:
    """The seven simple changes with ten values each (Table 4): 70 follow-ups per image."""
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
    """Table 4 with scale as a larger image and shear about the top-left corner."""
    # D-9, D-10
    scale, shear = Over(Enlarge, x="grid", y="grid"), Over(Shear, x="grid", anchor="top-left")
    return {**table_4(), "scale": scale, "shear": shear}


def table_4_of_the_code() -> dict[str, Space]:
    """The same as in the published code, which shears by minus the parameter and rotates about the middle pixel."""
    # B.1, item 25
    grid = [step for step in Over(Shear, x="grid", anchor="top-left").grid() if isinstance(step, Shear)]
    shear = Table(tuple(replace(step, x=-step.x) for step in grid))
    return {**table_4_of_2018(), "shear": shear, "rotation": Over(RotateAboutPixel, degrees="grid")}


def published_ranges() -> dict[str, Space]:
    """The parameters of the authors' guided search, which differ from Table 4."""  # B.1, item 11
    return {
        "translation": Table(tuple(Translate(float(by), float(by)) for by in range(-50, 50))),
        "scale": Table(tuple(Enlarge(tenth / 10, tenth / 10) for tenth in range(5, 20))),
        "shear": Table(tuple(Shear(-tenth / 10, anchor="top-left") for tenth in range(-5, 5))),  # item 25
        "rotation": Table(tuple(RotateAboutPixel(float(degrees)) for degrees in range(-30, 30))),  # item 25
        "contrast": Table(tuple(Contrast(tenth / 10) for tenth in range(1, 20))),
        "brightness": Table(tuple(Brighten(float(beta)) for beta in range(-21, 21))),
        "blur": blurs(),
    }


def weather() -> dict[str, Space]:
    """Fog and rain, one follow-up each per image: dense enough to change it, light enough to drive in."""  # DT-18
    return {"fog": Over(Fog, visibility=75.0), "rain": Over(Rain, amount=0.6, drop_size=0.15, speed=0.25, slant=8.0)}


# What the paper leaves open follows the profile: Swerve's own choice, the paper of 2018, or the published code.
Changes = Callable[[], dict[str, Space]]
TABLE_OF: Mapping[str, Changes] = {PLAIN: table_4, PRINTED: table_4_of_2018, PUBLISHED: table_4_of_the_code}
PAIRS_OF: Mapping[str, Changes] = {**TABLE_OF, PUBLISHED: published_ranges}
COUNTING_OF: Mapping[str, str] = {PLAIN: "default", PRINTED: "deeptest-2018", PUBLISHED: "deeptest-2018"}
GREEDY_OF: Mapping[str, Greedy] = {PLAIN: Greedy(), PRINTED: Greedy(), PUBLISHED: Greedy(reading=CODE, seeds=EACH)}

# Keys that only some campaigns use, with the searches or oracles that use them.
GREEDY_SEARCHES = (GUIDED, RANDOM)
SEARCHES_OF: Mapping[str, tuple[str, ...]] = {
    **{"changes": (CUMULATIVE,), "coverage": (CUMULATIVE,), "chance": (RANDOM,)},
    **dict.fromkeys(GREEDY, GREEDY_SEARCHES),
}
ORACLES_OF: Mapping[str, tuple[str, ...]] = {"factor": (LABEL,), "mse": (LABEL,), "within": (OWN,)}


def deeptest(
    source: Source,
    system: System,
    *,
    changes: str | None = None,
    search: Annotated[str, OneOfNames(CUMULATIVE, *GREEDY_SEARCHES)] = CUMULATIVE,
    against: str = "",
    factor: float | None = None,
    mse: float | None = None,
    within: float | None = None,
    profile: Annotated[str, OneOfNames(*TABLE_OF)] = PLAIN,
    tries: int | None = None,
    budget: int | None = None,
    images: int | None = None,
    depth: int | None = None,
    reset: bool | None = None,
    width: int | None = None,
    chance: float | None = None,
    threshold: float = 0.2,
    linear: bool = True,
    coverage: bool | None = None,
    seed: int = 0,
    inference_batch: int = 16,
) -> Campaign:
    """DeepTest on any steering system and source, including windows; an unused key is an error.

    Args:
        changes: for a cumulative search: `simple` (Table 4, the default), `weather` (fog and rain) or `all`.
        search: `cumulative` applies every change to every case; `guided` applies pairs of changes guided by coverage
            (Algorithm 1); `random` is the same search guided by chance, and needs a `budget`.
        against: `label` uses λ·MSE of Eq. 2; `own answer` allows a number of degrees from the answer on the unchanged case;
            `both` makes two rules of each change. The default is `label` if the cases have one.
        factor: λ, by default 5; against the label.
        mse: MSE_orig in degrees²; by default that of the system on the cases of `source`.
        within: degrees of the steering wheel, by default 10; against the own answer.
        profile: `swerve`, `deeptest-2018` or `deeptest-code`; see docs/deeptest.md.
        tries, budget, images, depth, reset, width: of the guided and the random search, as in `greedy`.
        chance: the probability of success in the random search.
        threshold: of neuron coverage.
        linear: whether layers without an activation function count, whose neurons may be active on every input.
        coverage: whether a cumulative search measures the coverage of a white-box system; by default yes.
    """
    # against: D-28
    check_known("profile", profile, TABLE_OF)
    check_known("search", search, (CUMULATIVE, *GREEDY_SEARCHES))
    greedy = {"tries": tries, "budget": budget, "images": images, "depth": depth, "reset": reset, "width": width}
    _refuse_unused("search", {"changes": changes, "coverage": coverage, **greedy, "chance": chance}, (search,), SEARCHES_OF)
    label = SquaredError(LAMBDA if factor is None else factor, mse)
    oracles = _oracles(source, against, label, AngleWithin(WITHIN if within is None else within))
    _refuse_unused("against", {"factor": factor, "mse": mse, "within": within}, tuple(oracles), ORACLES_OF)
    meter = Meter((NC(threshold),), counting=COUNTING_OF[profile], linear=linear)
    if search == CUMULATIVE:
        spaces = _chosen(TABLE_OF[profile](), changes or SIMPLE)
        how: Search = Sweep(per_case=1, by=CHANGE if window_length(source) > 1 else CASE)
        measured = meter if coverage is not False and isinstance(system, WhiteBox) else None
    else:
        if len(oracles) > 1:
            raise InputError("a guided search has one rule: give against = 'label' or against = 'own answer'")
        spaces = {PAIR: OneOf(tuple(PAIRS_OF[profile]().values()))}
        how, measured = _greedy(profile, greedy, chance, search), meter
    rules = tuple(_rule(name, space, oracle, oracles) for name, space in spaces.items() for oracle in oracles)
    return Campaign(source, system, rules, how, _gate(profile, search), measured, seed, inference_batch, method=NAME)


def _gate(profile: str, search: str) -> Gate | None:
    """Rejects images that are mostly border and, after several changes, images that show nothing."""
    # D-10
    if profile != PLAIN:
        return None
    return MaxFill(share=0.5) if search == CUMULATIVE else Legible(fill=0.5)


def _refuse_unused(
    name: str, given: Mapping[str, object], chosen: tuple[str, ...], users: Mapping[str, tuple[str, ...]]
) -> None:
    """Reject a given key that none of the chosen searches or oracles uses."""
    for key, value in given.items():
        if value is not None and not {*users[key]} & {*chosen}:
            needed, actual = " or ".join(map(repr, users[key])), " and ".join(map(repr, chosen))
            raise InputError(f"{key} = {value!r} needs {name} = {needed}, but {name} is {actual}")


def _greedy(profile: str, options: Mapping[str, Any], chance: float | None, search: str) -> Greedy:
    given = {name: value for name, value in options.items() if value is not None}
    if profile == PUBLISHED and "reset" in given:
        raise InputError(
            "'reset' cannot be combined with profile 'deeptest-code', which always gives an image all its tries again"
        )
    if search == RANDOM:
        given |= {"follow": CHANCE, "chance": chance or 0.0}
    return replace(GREEDY_OF[profile], **given)


def _chosen(table: dict[str, Space], changes: str) -> dict[str, Space]:
    chosen = {SIMPLE: table, WEATHER: weather(), ALL: {**table, **weather()}}
    check_known("value of 'changes':", changes, chosen)
    return chosen[changes]


def _oracles(source: Source, against: str, label: SquaredError, own: AngleWithin) -> dict[str, Relation]:
    oracles: dict[str, Relation] = {LABEL: Correct(label), OWN: Equivariant(own)}
    name = against or (LABEL if _labelled(source) else OWN)
    check_known("value of 'against':", name, (*oracles, BOTH))
    return oracles if name == BOTH else {name: oracles[name]}


def _rule(name: str, space: Space, oracle: str, oracles: Mapping[str, Relation]) -> Rule:
    """The rule of a change; its name includes the oracle unless that is the label alone, as in the paper."""
    # D-28
    return Rule(name if tuple(oracles) == (LABEL,) else f"{name}, {oracle}", space, oracles[oracle])


def _labelled(source: Source) -> bool:
    """Whether the first readable case has a steering label."""
    for key in source.keys():
        try:
            return find(source[key].truth, Steering.slot) is not None
        except UnreadableCase:
            continue
    return False
