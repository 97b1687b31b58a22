"""TigAug (TOSEM 2025): twelve changes of pictures of traffic lights, judged by labels and by the detector's own answers.

Eq. 1: under weather and camera effects the answer must stay. Eq. 2: when lights change, it must change as they do.
"""

# TG-2, TG-5..TG-16

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from swerve.core.arguments import OneOfNames, check_known, check_number
from swerve.core.campaign import Campaign
from swerve.core.case import Source
from swerve.core.gate import Gate
from swerve.core.relation import Rule
from swerve.core.system import System
from swerve.relations.boxes import BoxesAlike, PlacedBoxes
from swerve.relations.light_gates import LightsVisible, SnugBoxes
from swerve.search.sweep import Sweep
from swerve.transformations.light_changes import FAMILIES, GRIDS, LIGHTS, NAMES, WEATHER, paste_back, severities, twelve
from swerve.transformations.light_paste import CLEAN, PAPER

NAME = "tigaug"
PLAIN, PRINTED, COLOUR_ONLY = PROFILES = ("swerve", "tigaug-paper", "colour-only")
LABEL, OWN, BOTH = "label", "own answer", "both"
REFERENCES = {LABEL: ("truth",), OWN: ("answer",), BOTH: ("truth", "answer")}
CONTROL = "pasted back"
LEAST_SCORE = 0.3


def tigaug(
    source: Source,
    system: System,
    *,
    profile: Annotated[str, OneOfNames(*PROFILES)] = PLAIN,
    changes: tuple[str, ...] = (),
    against: Annotated[str, OneOfNames(*REFERENCES)] = BOTH,
    natural: bool | None = None,
    curves: bool = False,
    control: bool = False,
    map_may_fall: float | None = None,
    overlap: float = 0.5,
    least_score: float = LEAST_SCORE,
    draws: int = 1,
    seed: int = 0,
    inference_batch: int = 8,
) -> Campaign:
    """The twelve changes on any detector and any source whose labels are boxes with states.

    Args:
        profile: `swerve`; `tigaug-paper`, changes and exposures the paper's own way, without gates; `colour-only`, the
            colour change alone, as in the work before it.
        changes: some of the twelve by name, such as "fog" or "colour"; all if there are none.
        against: labels, the own answer on the untouched picture, or both, one rule for each.
        natural: whether follow-ups are left out whose lights cannot be seen any more or were cut out with too large a
            box; by default in all profiles but the paper's.
        curves: also several strengths of each change that has one.
        control: also lights that are cut out and pasted back unchanged, which shows what the edit alone does.
        map_may_fall: the share of mAP@[.50:.95] that each change may cost, such as 0.1. A rule then fails if it costs more,
            and single findings are tolerated.
        overlap, least_score: when two boxes are the same light, and which boxes of the detector count.
        draws: follow-ups of each picture by each change that is drawn.
    """
    check_known("profile", profile, PROFILES)
    check_known("value of 'against':", against, REFERENCES)
    if map_may_fall is not None:
        check_number("map_may_fall", map_may_fall, 0, 1)
        if against != LABEL:
            raise ValueError("'map_may_fall' compares answers with labels: set against = \"label\"")
    style = PAPER if profile == PRINTED else CLEAN
    filtered = profile != PRINTED if natural is None else natural
    compare = BoxesAlike(overlap, min(0.1, overlap), least_score)
    spaces = {name: twelve(style)[name] for name in _chosen(profile, changes)}
    if control:
        spaces[CONTROL] = paste_back(style)
    if curves:
        spaces |= {f"{name} by strength": severities(name) for name in tuple(spaces) if name in GRIDS}
    fails = () if map_may_fall is None else f"map_drop > {float(map_may_fall)!r}"
    rules = tuple(
        Rule(
            rule_name(name, reference),
            space,
            PlacedBoxes(compare, reference),
            gate=_gate(name) if filtered else None,
            fail_if=fails,
        )
        for name, space in spaces.items()
        for reference in REFERENCES[against]
    )
    return Campaign(source, system, rules, Sweep(draws), seed=seed, inference_batch=inference_batch, method=NAME)


def _chosen(profile: str, changes: Sequence[str]) -> Sequence[str]:
    for name in changes:
        check_known("change", name, NAMES)
    return tuple(changes) or (("colour",) if profile == COLOUR_ONLY else NAMES)


def rule_name(name: str, reference: str = "truth") -> str:
    """Such as `weather, fog` or `weather, fog, own answer`: rules of one family share what is before the first comma."""
    plain = name.removesuffix(" by strength")
    family = next((family for family, names in FAMILIES.items() if plain in names), "control")
    return f"{family}, {name}" + (", own answer" if reference == "answer" else "")


def _gate(name: str) -> Gate | None:
    """What makes a follow-up unnatural: lights lost in the weather, or boxes much larger than their lights."""
    if name.removesuffix(" by strength") in WEATHER:
        return LightsVisible()
    return SnugBoxes() if name in (*LIGHTS[:-1], CONTROL) else None
