"""Run folders made by hand whose findings are of 2-D boxes, judged by the relations themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swerve.core.campaign import Observation, Record, Trial
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.origin import Origin
from swerve.core.relation import Pair, Relation, Status
from swerve.core.seeding import digest_of
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D
from swerve.relations.boxes import same_boxes
from swerve.store.record_json import Finding
from swerve.store.view import Run
from swerve.transformations.affine import Translate
from tests.fixture_runs import Made, keep_pictures, noise

SIZE = (320, 160)
SHIFT = Translate(10.0, 0.0)
LABELLED = ((20, 20, 40, 60), (80, 20, 100, 60), (140, 20, 160, 60), (200, 20, 220, 60), (250, 90, 290, 130))
KINDS = ("stop", "go", "stop", "go", "stop")


def lights(places: Sequence[Sequence[float]], kinds: Sequence[str], scores: Sequence[float] | None = None) -> Boxes2D:
    given = None if scores is None else np.array(scores, dtype=float)
    return Boxes2D(np.array(places, dtype=float).reshape(-1, 4), tuple(kinds), given, SIZE)


LABEL = lights(LABELLED, KINDS)
BEFORE = lights(LABELLED, KINDS, (0.9, 0.8, 0.7, 0.6, 0.2))
# After a shift by 10: kept, lost, of another state, drifted; not sure enough; and a ghost.
AFTER = lights(
    ((30, 20, 50, 60), (150, 20, 170, 60), (219, 20, 239, 60), (260, 90, 300, 130), (50, 100, 70, 140)),
    ("stop", "go", "go", "stop", "go"),
    (0.95, 0.85, 0.75, 0.1, 0.65),
)


@dataclass(frozen=True)
class Judged:
    """A detector's answers to a case and its follow-up, judged by `expect`."""

    expect: Relation
    before: Boxes2D = BEFORE
    after: Boxes2D = AFTER
    label: Boxes2D | None = LABEL
    change: Transformation = SHIFT

    @property
    def pair(self) -> Pair:
        source = Case("case", {}, () if self.label is None else (self.label,))
        followup = Case("case", {}, tuple(self.change.map(value) for value in source.truth))
        return Pair(source, followup, self.change, (self.before,), (self.after,))

    def record(self, rule: str = "lights") -> Record:
        pair, verdict = self.pair, self.expect.check(self.pair)
        assert verdict.status is Status.VIOLATED
        shas = {"source_sha": digest_of("case"), "input_sha": digest_of("case", rule)}
        trial = Trial("case", rule, 0, self.change)
        truth = pair.followup.truth
        return Record(
            trial,
            verdict,
            self.change,
            pair.before,
            pair.after,
            truth,
            origin=Origin.INTRODUCED,
            facts=dict(verdict.facts),
            **shas,
        )

    def run(self, folder: Path) -> Run:
        """A run with this one finding and its pictures."""
        record = self.record()
        seen = [Observation("case", "", self.pair.source.truth, (self.before,))]
        run = Made([record], seen, expects={"lights": encode(self.expect)}).write(folder)
        keep_pictures(run, record, noise(1, SIZE), noise(2, SIZE))
        return run


def detector_run(folder: Path, expect: Relation | None = None) -> Run:
    """A run with a finding of every kind of error."""
    return Judged(expect or same_boxes(least_score=0.3)).run(folder)


def only(run: Run) -> Finding:
    (found,) = run.findings()
    return found
