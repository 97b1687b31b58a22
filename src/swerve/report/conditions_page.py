"""The page of critical conditions: each in words, with its worst scenes, its neighbourhood, and the course of the search."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swerve.analysis.numbers import SUMMARY, derived_file
from swerve.config.limits import FILE
from swerve.core.errors import UnreadableCase
from swerve.core.system import Answer
from swerve.core.values import Array, Steering, find
from swerve.report.answer_pictures import BLUE, RED, with_arrows
from swerve.report.condition_words import DAMAGED, sentence
from swerve.report.experiment_page import ChartPanel, Page, Part, PicturePanel, Section, TablePanel, write_page
from swerve.report.plane import Spot, lines
from swerve.report.words import in_words, title_of
from swerve.search.critical import best_so_far
from swerve.search.neighbourhood import TOWARDS_NEUTRAL as SHARES
from swerve.sources.images import decode_image
from swerve.store.artifacts import FINDINGS, SHA_DIGITS
from swerve.store.record_json import Finding
from swerve.store.view import Run

CONDITIONS_PAGE = "report/conditions.html"
PICTURES = "conditions"
WORST = 3  # scenes shown of each condition
MOST_LINES = 5
LEGEND = "Blue: the answer to the unchanged scene. Red: the answer under the condition."


def write_conditions_page(run: Run) -> Path | None:
    """Write `report/conditions.html` of a run that searched for conditions; None for any other run."""
    summary = derived_file(run, SUMMARY)
    try:
        page = _page(run, summary) if summary.get("conditions") else None
    except DAMAGED:  # a summary is derived, and may have been edited
        return None
    return write_page(page, run.folder, name=CONDITIONS_PAGE, pictures=PICTURES) if page else None


def _page(run: Run, summary: Mapping[str, Any]) -> Page:
    conditions = summary["conditions"]
    campaign = run.identity["campaign"]
    found = _with_pictures(run, _findings(run, conditions))
    sections = [_section(run, number, one, found[number][:WORST]) for number, one in enumerate(conditions)]
    gallery = _same_scene(run, found)
    facts = {name: in_words(campaign.get(name)) for name in ("system", "source")}
    return Page(
        title=f"Critical conditions: {title_of(campaign)}",
        lead=tuple(f"{number}. {sentence(one)}" for number, one in enumerate(conditions, 1)),
        sections=(*gallery, *sections, _course(summary)),
        facts={**facts, "seed": summary["seed"]},
    )


def _section(run: Run, number: int, condition: Mapping[str, Any], worst: Sequence[Finding]) -> Section:
    both = ((_source(run, one), _followup(run, one, f"{one.case}: {one.why}")) for one in worst)
    pictures = [picture for pair in both for picture in pair if picture]
    shown = PicturePanel("The scenes that it moves most, without and with it", tuple(pictures), across=2)
    return Section(
        f"Condition {number + 1}",
        tuple(_remarks(condition)),
        ((shown,) if pictures else ()) + tuple(_neighbourhood(condition)),
        sentence(condition) + ".",
    )


def _remarks(condition: Mapping[str, Any]) -> Iterator[str]:
    mean = float(condition["divergence"])
    angle = f" ({math.degrees(mean):.1f}° of the steering wheel)" if "10" in condition["errors"] else ""
    share = float(condition["coverage_share"])
    yield (
        f"On average over {condition['scenes']} scenes the answer moves by {mean:.3f}{angle}. "
        f"Fitness {float(condition['fitness']):.3f}, of which {share:.0%} from new coverage."
    )
    if condition["refused"]:
        yield f"{condition['refused']} scenes were rejected by the gate or got no answer; they count as not moved."
    if condition.get("same_as") is not None:
        yield f"The search found condition {condition['same_as'] + 1} again; it was not run twice."
    if condition.get("numbers"):
        yield f"In numbers: {', '.join(condition['numbers'])}."
    if condition.get("marks"):
        yield f"Look twice: {'; '.join(condition['marks'])}."
    if condition["on_bounds"]:
        yield f"On a bound of the space: {', '.join(condition['on_bounds'])}. Wider limits might give a worse condition."
    if "lines" in condition:
        holds = condition["holds"]
        yield f"The nearest condition that holds has {holds}." if holds else "No move of a single parameter makes it hold."


def _neighbourhood(condition: Mapping[str, Any]) -> Iterator[Part]:
    if condition.get("lines"):
        centre = Spot(0.0, float(condition["centre"]))
        series = {name: [centre, *_line(points)] for name, points in condition["lines"].items()}
        telling = sorted(series, key=lambda name: -max(abs(spot.y - centre.y) for spot in series[name]))
        yield ChartPanel(
            "Towards neutral, one parameter at a time",
            lines({name: series[name] for name in telling[:MOST_LINES]}, x="share of the way there", y="mean divergence"),
            f"On up to {_scenes(condition)} scenes; the {MOST_LINES} parameters that matter most.",
        )
    if (found := condition.get("map")) and found["points"]:
        yield _map(found, condition)


def _line(points: Sequence[Mapping[str, Any]]) -> Iterator[Spot]:
    """The mean divergence towards neutral, where the gate admits any scene."""
    for share, point in zip(SHARES, points, strict=False):
        if point["scenes"]:
            yield Spot(share, float(point["divergence"]))


def _map(found: Mapping[str, Any], condition: Mapping[str, Any]) -> TablePanel:
    """The share of scenes beyond the first limit over two parameters, one in rows and one in columns."""
    first = next(iter(condition["errors"]))
    judged = [point for point in found["points"] if point["scenes"]]
    cells = {tuple(point["at"]): int(point["errors"][first]) / int(point["scenes"]) for point in judged}
    across, down = (list(dict.fromkeys(point["at"][place] for point in found["points"])) for place in (0, 1))
    rows = tuple((row, *(cells.get((column, row)) for column in across)) for row in down)
    formats = dict.fromkeys(across, ".0%")
    title = f"Scenes beyond {first}{'°' if first == '10' else ''} around it"
    note = f"Of up to {_scenes(condition)} scenes; – where the gate refuses all."
    return TablePanel(title, (found["axes"][1], *across), rows, note, formats=formats)


def _scenes(condition: Mapping[str, Any]) -> int:
    """The scenes on which the neighbourhood was explored."""
    return max(int(point["scenes"]) for line in condition["lines"].values() for point in line)


def _course(summary: Mapping[str, Any]) -> Section:
    search, between = summary["condition_search"], summary["between_conditions"]
    courses = {f"condition {number}": course for number, course in enumerate(search["fitness"], 1) if course}
    best = {
        name: [Spot(place, value) for place, value in enumerate(best_so_far(course), 1)] for name, course in courses.items()
    }
    charts = (ChartPanel("Best fitness", lines(best, x="candidate", y="fitness")),) if best else ()
    pairs = ", ".join(f"{count} beyond {limit}" for limit, count in between["errors"].items())
    text = (
        f"Search: {search['strategy']}. Candidates were run on {search['scene_evaluations']:,} scenes; all candidates "
        f"on all scenes would have been {search['without_race']:,}. {search['explored']:,} more explored what lies around.",
        f"Between conditions: the answers to one scene differ by {float(between['mean_spread']):.3f} on average; "
        f"of {between['pairs']} pairs {pairs}.",
    )
    return Section("The search", text, charts)


def _findings(run: Run, conditions: Sequence[Mapping[str, Any]]) -> list[list[Finding]]:
    """The findings of each condition, the largest margins first."""
    found: list[list[Finding]] = [[] for _ in conditions]
    for finding in run.findings():
        for place, condition in enumerate(conditions):
            if dict(finding.change) == condition["change"]:
                found[place].append(finding)
    return [sorted(some, key=lambda finding: -finding.margin) for some in found]


def _with_pictures(run: Run, found: Sequence[Sequence[Finding]]) -> list[list[Finding]]:
    """The findings whose pictures were kept."""
    kept = {file.name.partition("-")[0] for file in (run.folder / FINDINGS).glob("*.png")}
    return [[one for one in some if one.input_sha[:SHA_DIGITS] in kept] for some in found]


def _same_scene(run: Run, found: Sequence[Sequence[Finding]]) -> Iterator[Section]:
    """The scene that most conditions move too far, without a change and under each of them."""
    under = [{one.case: one for one in some} for some in found]
    counts = Counter(case for some in under for case in some)
    if len(found) < 2 or not counts:
        return
    margin = {case: sum(some[case].margin for some in under if case in some) for case in counts}
    case = max(counts, key=lambda one: (counts[one], margin[one]))
    shown = [(number, some[case]) for number, some in enumerate(under, 1) if case in some]
    followups = [_followup(run, one, f"condition {number}: {one.why}") for number, one in shown]
    pictures = [picture for picture in (_source(run, shown[0][1]), *followups) if picture]
    title = f"{case}, unchanged and under {len(shown)} of {len(found)} conditions"
    yield Section("One scene under all conditions", (LEGEND,), (PicturePanel(title, tuple(pictures), across=3),))


def _source(run: Run, finding: Finding) -> tuple[str, Array] | None:
    """The unchanged scene, with the answer to it in blue."""
    return _with_angles(run, finding.source_sha, f"{finding.case}: unchanged", ((finding.before, BLUE),))


def _followup(run: Run, finding: Finding, caption: str) -> tuple[str, Array] | None:
    """The scene under the condition, with the answer to it in red and the one before in blue."""
    return _with_angles(run, finding.input_sha, caption, ((finding.before, BLUE), (finding.after, RED)))


def _with_angles(
    run: Run, sha: str, caption: str, answers: Sequence[tuple[Answer, tuple[int, int, int]]]
) -> tuple[str, Array] | None:
    pixels = _picture(run, sha)
    if pixels is None:
        return None
    angles = [(find(answer, Steering.slot), colour) for answer, colour in answers]
    known = [(angle.degrees if isinstance(angle, Steering) else None, colour) for angle, colour in angles]
    return caption, with_arrows(pixels, known)


def _picture(run: Run, sha: str) -> Array | None:
    """A kept picture, within the limits of any picture that Swerve reads; None if there is none, or it is damaged."""
    file = next(iter(sorted((run.folder / FINDINGS).glob(f"{sha[:SHA_DIGITS]}-*.png"))), None)
    try:
        return None if file is None or file.stat().st_size > FILE else decode_image(file.read_bytes(), file.name).pixels
    except (OSError, UnreadableCase):
        return None
