"""The 2-D boxes of a finding over its pictures, each in the state that the recorded verdict gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swerve.analysis.groups import relation_parts
from swerve.config.toml import Builder
from swerve.config.trust import Trust
from swerve.core.case import Case
from swerve.core.errors import SwerveError
from swerve.core.relation import Pair, Relation
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Boxes2D, find
from swerve.relations.box_states import BoxState, BoxVerdict, box_verdict
from swerve.report.box_closeups import JudgedBoxes
from swerve.report.overlay import ORDER, Outline, box, rounded
from swerve.report.sweep_pictures import change_of, is_registered
from swerve.store.record_json import Finding
from swerve.store.view import Run

MOST = 100  # boxes of an answer
MOST_JUDGED = 2000  # boxes of an answer that are compared again; a foreign journal may hold any number
OF_BOXES = ("equivariant", "correct", "placed-boxes", "superset", "no-fewer")
# How expected boxes are drawn if they are labels. A lost one is drawn as lost.
LABELS = dict.fromkeys(BoxState, "label") | {BoxState.IGNORED: "ignored", BoxState.LOST: ""}
OWN = dict.fromkeys(BoxState, "") | {BoxState.DRIFTED: "expected"}
BY_LABELS = {BoxState.KEPT: "found", BoxState.LOST: "missed"}
UNSCORED = ("missed", "label")  # boxes that are labels
Outlines = tuple[Outline, ...]
Drawn = Sequence["_Box"]


class _Box(NamedTuple):
    """A box to be drawn: where its numbers are, and what its text says around its kind and score."""

    kind: str  # of the shape
    boxes: Boxes2D
    row: int
    prefix: str = ""
    suffix: str = ""

    def text(self, score: float, named: bool) -> str:
        """State, kind and score; without the kind if all objects are of one. Labels and places have no score."""
        if self.kind in ("expected", "ignored") or (self.kind == "label" and not (self.prefix and named)):
            return ""
        kind = self.boxes.kinds[self.row] if named else ""
        number = "" if self.prefix in UNSCORED else f"{score:.2f}"
        return " ".join(part for part in (self.prefix, kind, number) if part) + self.suffix


class BoxOverlays:
    """Draws the boxes of a run's findings; the relations of its rules are built once, none of them from foreign code."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._last: tuple[Finding | None, JudgedBoxes | None] = None, None

    def of(self, finding: Finding, label: Answer) -> tuple[Outlines, Outlines]:
        """The shapes over source and follow-up; `label` is the source's. Without boxes, there are none."""
        answers = [boxes for boxes in map(_boxes, (finding.before, finding.after, label, finding.truth)) if boxes]
        named = len({kind for boxes in answers for kind in boxes.kinds}) > 1
        source, followup = self._drawn(finding, label) if answers else ((), ())
        return _shapes(source, named), _shapes(followup, named)

    def _drawn(self, finding: Finding, label: Answer) -> tuple[Drawn, Drawn]:
        if judged := self.judged(finding, label):
            return _judged_boxes(finding, label, judged.alone, judged.found)
        return _plain("before", finding.before, label), _plain("after", finding.after, finding.truth)

    def judged(self, finding: Finding, label: Answer) -> JudgedBoxes | None:
        """The boxes as the recorded verdict has them; None if no relation repeats it."""
        if self._last[0] is not finding:
            self._last = finding, self._judge(finding, label)
        return self._last[1]

    def _judge(self, finding: Finding, label: Answer) -> JudgedBoxes | None:
        answers = map(_boxes, (finding.before, finding.after, label, finding.truth))
        if any(len(boxes.kinds) > MOST_JUDGED for boxes in answers if boxes):
            return None
        if change := change_of(finding):
            for relation in self._relations.get(finding.rule, ()):
                if (found := _judged(relation, finding, label, change)) and _is_recorded(found.found, finding):
                    return found
        return None

    @cached_property
    def _relations(self) -> Mapping[str, Sequence[Relation]]:
        rules = self._run.identity["campaign"].get("rule", ())
        return {rule["name"]: list(_box_relations(rule.get("expect"))) for rule in rules}


def _box_relations(expect: object) -> Iterator[Relation]:
    """The parts of a relation that judge 2-D boxes, built if all their names are registered."""
    builder = Builder("expect", trust=Trust(foreign=True))
    for part in relation_parts(expect):
        if part.get("use") in OF_BOXES and is_registered(part):
            try:
                yield builder.component(part, Relation)
            except SwerveError:  # written by another version
                continue


def _judged(relation: Relation, finding: Finding, label: Answer, change: Transformation) -> JudgedBoxes | None:
    """The verdict of `relation` on the finding, and on its source alone if it goes by the labels."""
    source, followup = Case(finding.case, {}, label), Case(finding.case, {}, finding.truth)
    try:
        found = box_verdict(relation, Pair(source, followup, change, finding.before, finding.after))
        if found is None:
            return None
        alone = Pair(source, source, Unchanged(), finding.before, finding.before)
        return JudgedBoxes(found, box_verdict(relation, alone) if found.labelled else None, change)
    except Exception:  # a change of an installed package may raise anything
        return None


def _is_recorded(found: BoxVerdict, finding: Finding) -> bool:
    """Whether this is the verdict in the record, so that the states drawn are those that were counted."""
    return found.verdict.why == finding.why and found.verdict.margin == finding.margin


def _judged_boxes(finding: Finding, label: Answer, alone: BoxVerdict | None, found: BoxVerdict) -> tuple[Drawn, Drawn]:
    """The boxes over source and follow-up; those that the verdict ignores for their low score are left out."""
    if found.labelled:
        return _plain("before", finding.before, label) if alone is None else _against(alone), _against(found)
    if (before := found.before) is None:
        source = _plain("before", finding.before, label)
    else:
        states = enumerate(found.of_expected)
        source = [*_labels(label), *(_state_box(found, state, before, row) for row, state in states)]
    return source, [*_labels(finding.truth), *_against(found)]


def _against(found: BoxVerdict) -> Drawn:
    """What was detected, and what was expected and is not detected as expected."""
    places = LABELS if found.labelled else OWN
    rows, columns = list(enumerate(found.of_expected)), list(enumerate(found.of_detected))
    drawn = [_Box(places[state], found.expected, row) for row, state in rows if places[state]]
    drawn += [_state_box(found, state, found.expected, row) for row, state in rows if state is BoxState.LOST]
    for column, state in columns:
        one = _state_box(found, state, found.detected, column)
        if state is BoxState.MISLABELLED:
            one = one._replace(prefix="", suffix=f", expected {found.expected.kinds[found.expected_of[column]]}")
        drawn.append(one)
    return drawn


def _state_box(found: BoxVerdict, state: BoxState, boxes: Boxes2D, row: int) -> _Box:
    """A box in its state; against labels, objects are found and missed, not kept and lost."""
    kind = BY_LABELS.get(state, str(state)) if found.labelled else str(state)
    return _Box(kind, boxes, row, "" if state in (BoxState.KEPT, BoxState.IGNORED) else kind)


def _labels(label: Answer) -> Drawn:
    boxes = _boxes(label)
    return [_Box("label", boxes, row, "label") for row in range(len(boxes.kinds))] if boxes else []


def _plain(kind: str, answer: Answer, label: Answer) -> Drawn:
    """The boxes of an answer without a state, and the labels."""
    boxes = _boxes(answer)
    return (
        [*_labels(label), *(_Box(kind, boxes, row) for row in range(len(boxes.kinds)) if boxes)] if boxes else _labels(label)
    )


def _shapes(drawn: Sequence[_Box], named: bool) -> Outlines:
    """The shapes of finite boxes, errors first, then the surest."""
    answers = {id(one.boxes): one.boxes for one in drawn}
    # As plain numbers: a page has tens of thousands of boxes.
    edges = {key: rounded(boxes.xyxy) for key, boxes in answers.items()}
    finite = {key: list(np.asarray(np.isfinite(boxes.xyxy).all(axis=1))) for key, boxes in answers.items()}
    scores = {key: list(map(float, np.asarray(boxes.scores))) for key, boxes in answers.items()}
    found = [(-ORDER[one.kind], -scores[id(one.boxes)][one.row], one) for one in drawn if finite[id(one.boxes)][one.row]]
    found.sort(key=lambda item: item[:2])
    return tuple(box(one.kind, edges[id(one.boxes)][one.row], one.text(-score, named)) for _, score, one in found[:MOST])


def _boxes(answer: Answer) -> Boxes2D | None:
    boxes = find(answer, Boxes2D.slot)
    return boxes if isinstance(boxes, Boxes2D) else None
