"""The review page: one HTML file that contains its data, for the local server or to send to a reviewer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from markupsafe import Markup

from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.report.finding_overlays import FindingOverlays
from swerve.report.html import labels_of
from swerve.report.overlay import KINDS
from swerve.report.templating import CONTROLS, clip, render_page
from swerve.report.words import answer_words, expectation, title_of
from swerve.review.marks import LONGEST_COMMENT, LONGEST_NAME, OF_FINDINGS, Judgement, Judgements
from swerve.review.pictures import FindingPictures, ReviewPictures, Shot, data_address
from swerve.review.queue import is_held
from swerve.store.record_json import Finding
from swerve.store.view import Run

LONGEST = 400  # characters of a text that a user or a data set gave
SIDES = ("source", "followup")
# Inside a script element nothing may look like markup; JSON has its own escapes for these.
_MARKUP = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


@dataclass(frozen=True)
class Desk:
    """A reviewer's session: findings in order, their own marks, and the marks of others they may see."""

    reviewer: str
    findings: Sequence[Finding]
    own: Judgements = field(default_factory=dict)
    others: Mapping[str, Judgements] = field(default_factory=dict)
    blind: bool = True  # show others' marks only on findings that this reviewer has marked
    pictures: ReviewPictures | None = None  # if given, the page contains them and needs no server


def render(run: Run, desk: Desk) -> str:
    """The page of `desk`."""
    data = page_data(run, desk)
    return render_page(
        "review.html",
        styles=("style.css", "viewer.css", "review.css"),
        scripts=("viewer.js", "review.js"),
        data=_embedded(data),
        title=data["title"],
        reviewer=desk.reviewer,
        offline=desk.pictures is not None,
        marks=OF_FINDINGS,
        kinds=KINDS,
        rules=list(dict.fromkeys(finding.rule for finding in desk.findings)),
        longest_comment=LONGEST_COMMENT,
        longest_name=LONGEST_NAME,
        version=run.identity.get("swerve", "?"),
    )


def page_data(run: Run, desk: Desk) -> dict[str, Any]:
    """The page's data as plain JSON."""
    campaign = run.identity["campaign"]
    expects = {rule["name"]: expectation(rule.get("expect")) for rule in campaign.get("rule", ())}
    labels = labels_of(run, {finding.case for finding in desk.findings})
    return {
        "title": _clip(title_of(campaign)),
        "reviewer": desk.reviewer,
        "key": digest_of(run.identity, [finding.id for finding in desk.findings])[:16],
        "offline": desk.pictures is not None,
        "items": [_item(one, expects.get(one.rule, ""), labels.get(one.case, ())) for one in desk.findings],
        "marks": {one.finding: judgement_json(one) for one in desk.own.values()},
        "others": dict(_visible_others(desk)),
        "pictures": dict(_embedded_pictures(desk, Drawings(run, labels))),
    }


def judgement_json(one: Judgement) -> dict[str, Any]:
    """A judgement as JSON for the page."""
    return {"mark": one.mark, "comment": one.comment}


def others_on(finding: str, others: Mapping[str, Judgements]) -> list[dict[str, Any]]:
    """The other reviewers' marks of `finding`."""
    given = ((name, marks[finding]) for name, marks in others.items() if finding in marks)
    return [{"reviewer": name, **judgement_json(one)} for name, one in given if one.mark]


def _visible_others(desk: Desk) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for finding in desk.findings:
        own = desk.own.get(finding.id)
        marks = others_on(finding.id, desk.others)
        if marks and (not desk.blind or (own and own.mark)):
            yield finding.id, marks


def _item(finding: Finding, expected: str, label: Answer) -> dict[str, Any]:
    answers = {"before": finding.before, "after": finding.after, "label": label, "truth": finding.truth}
    texts = {"rule": finding.rule, "case": finding.case, "words": finding.words, "why": finding.why, "expects": expected}
    return {
        "id": finding.id,
        **{name: _clip(text) for name, text in texts.items()},
        "key": finding.rule,  # not cut, for the filter
        "origin": "held" if is_held(finding) else finding.origin.words,
        "held": is_held(finding),
        "said": {name: _clip(answer_words(answer)) for name, answer in answers.items()},
    }


def _clip(text: str) -> str:
    return clip(text.translate(CONTROLS), LONGEST)


class Drawings:
    """What is drawn over the pictures of findings; `labels` are those of their cases."""

    def __init__(self, run: Run, labels: Mapping[str, Answer]) -> None:
        self._overlays, self._labels = FindingOverlays(run), labels

    def of(self, finding: Finding, shot: Shot) -> dict[str, str]:
        """The drawings over source and follow-up of a camera's shot, as SVG, and single objects of it enlarged."""
        if shot.behind is None:
            return {}
        label = self._labels.get(finding.case, ())
        drawn = self._overlays.of(finding, label, *shot.behind)
        strip = self._overlays.closeups(finding, label, *shot.behind).html([{"data-side": side} for side in SIDES])
        return {**{side: str(one.svg) for side, one in zip(SIDES, drawn, strict=True)}, "closeups": str(strip)}


def _embedded_pictures(desk: Desk, drawings: Drawings) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pictures by finding, embedded in the page, each content once under its hash."""
    if desk.pictures is None:
        return
    contents: dict[str, str] = {}
    for finding in desk.findings:
        shown = replace(
            desk.pictures.of(finding), reason=""
        )  # the page may be sent elsewhere, and the reason may name local files
        yield finding.id, pictures_json(finding, shown, partial(_add_content, contents, shown), drawings)
    yield "", contents


def _add_content(contents: dict[str, str], shown: FindingPictures, shot: int, side: str) -> str:
    data = shot_bytes(shown, shot, side)
    name = hashlib.sha256(data).hexdigest()[:16]
    contents.setdefault(name, data_address(data))
    return name


def shot_bytes(shown: FindingPictures, shot: int, side: str) -> bytes:
    """The PNG of one side, `source` or `followup`, of a shot."""
    return shown.shots[shot].source if side == "source" else shown.shots[shot].followup


def pictures_json(
    finding: Finding, shown: FindingPictures, address: Callable[[int, str], str], drawings: Drawings
) -> dict[str, Any]:
    """The pictures as JSON for the page: `address(shot, side)` is where each one is."""
    shots = [
        {
            "sensor": shot.sensor,
            **{side: address(index, side) for side in SIDES},
            "drawn": drawings.of(finding, shot),
        }
        for index, shot in enumerate(shown.shots)
    ]
    return {"shots": shots, "why": f"{shown.why} {shown.reason}".strip()}


def _embedded(data: Mapping[str, Any]) -> Markup:
    return Markup(json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_MARKUP))
