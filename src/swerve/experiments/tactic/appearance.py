"""What the conditions found look like, in words, and how realistic they are, in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from swerve.core.values import Array
from swerve.experiments import Row, pictures, question
from swerve.experiments.tactic.approaches import (
    APPROACHES,
    ApproachPicture,
    catalogue,
    changes,
    picture,
    scenes,
    shown,
)
from swerve.experiments.tactic.style_runs import (
    EVOLVED,
    RENDERED,
    StyleResults,
    StyleRuns,
    is_rendered,
    measured_step,
    search_step,
    system_table,
)
from swerve.similarity.lpips import Lpips
from swerve.similarity.lpips_weights import has_weights
from swerve.similarity.ssim import Ssim
from swerve.translation.looks import look_distance, most_alike
from swerve.translation.packaged import STYLES
from swerve.translation.scene_reader import scene_reader

FEW = 6  # scenes on which a style is compared with rendered conditions
ACROSS = 5  # pictures in a row
NET = "alex"
SHARES = ("intended",)


@system_table("conditions", "The conditions that TACTIC found", formats={"divergence": ".1f", "apart": ".3f"})
def in_words(one: StyleRuns) -> Iterator[Row]:
    """every condition, and the rendered condition whose pictures of the same scenes look most like it; apart: mean
    difference in colour and contrast, place by place, as a share of the levels; divergence: in degrees"""
    if not is_rendered(one.subject.source):
        return
    keys = scenes(one, FEW)
    cases = [one.subject.source[key] for key in keys]
    known = {words: [picture(change(case)) for case in cases] for words, change in catalogue().items()}
    for style in one.styles:
        translations = iter(changes(one, style)[EVOLVED])
        for number in range(one.setting.size.runs):
            step = search_step(style, one.guides[0], EVOLVED, number)
            measures = one.measures(measured_step(style, one.guides[0], EVOLVED, number))
            for found, rule in zip(one.conditions(step), measures.moved, strict=True):
                change = next(translations)
                words, apart = most_alike([picture(change(case)) for case in cases], known)
                cells = {"divergence": math.degrees(measures.mean(rule)), "looks like": words, "apart": apart}
                yield {"condition": style, "run": number + 1, **cells, "longest allowed": ", ".join(found["on_bounds"])}


@pictures("{name}: conditions found", across=ACROSS)
def examples(one: StyleRuns) -> Iterator[tuple[str, Array]]:
    """A scene as it is, then under the first conditions found for a style."""
    case = one.subject.source[scenes(one, 1)[0]]
    for style in one.styles:
        yield "as it is", picture(case)
        for change in changes(one, style)[EVOLVED][: ACROSS - 1]:
            yield style, picture(change(case))


@question("What are the conditions?", in_words, examples)
def what_are_the_conditions(results: StyleResults) -> str:
    """The numbers of a style have no names, so a condition is described by the rendered one that looks most like it."""
    rows = in_words.rows(results)
    return (
        "; ".join(dict.fromkeys(f"{row['condition']}: {row['looks like']}" for row in rows))
        or "The scenes are not rendered."
    )


@system_table("realism", "Realism in numbers", formats={**dict.fromkeys(SHARES, ".0%"), "look": ".3f", "SSIM": ".2f"})
def realism(one: StyleRuns) -> Iterator[Row]:
    """pictures of the approaches beside the same scenes rendered in the condition. intended: share that the scene reader, a
    network trained on rendered conditions, takes for the condition; look: distance of both sets in colour and contrast,
    place by place, which is no FID, as that needs thousands of pictures; SSIM and LPIPS: mean over pairs"""
    count = one.setting.size.pictures
    for style in one.styles if is_rendered(one.subject.source) else ():
        truth = [item.after for item in shown(one, RENDERED, style, count)]
        for approach in APPROACHES:
            some = list(shown(one, approach, style, count))
            if some and truth:
                yield {"condition": style, "approach": approach, "pictures": len(some), **_numbers(some, truth, style)}


def _numbers(some: Sequence[ApproachPicture], truth: Sequence[Array], style: str) -> Row:
    after = [item.after for item in some]
    pairs = list(zip(after, truth, strict=True))
    named = scene_reader().conditions(after) if style in STYLES else []
    lpips = Lpips(NET) if has_weights(f"lpips-{NET}") else None
    return {
        "intended": float(np.mean([name == style for name in named])) if named else None,
        "look": look_distance(after, truth),
        "SSIM": float(np.mean([Ssim()(*pair) for pair in pairs])),
        "LPIPS": float(np.mean([lpips(*pair) for pair in pairs])) if lpips else None,
    }


@question("How realistic are the pictures?", realism)
def are_they_realistic(results: StyleResults) -> str:
    """Rendered pictures of the same scenes stand for real ones, which do not exist. LPIPS needs weights, which
    `swerve assets get` fetches."""
    rows = [row for row in realism.rows(results) if row["intended"] is not None]
    every = {name: [row["intended"] for row in rows if row["approach"] == name] for name in APPROACHES}
    parts = [f"{name} {np.mean(shares):.0%}" for name, shares in every.items() if shares]
    return f"taken for the intended condition: {', '.join(parts)}" if parts else "The scenes are not rendered."
