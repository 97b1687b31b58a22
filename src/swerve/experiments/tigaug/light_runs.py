"""The runs of one detector on one set of streets: the pictures of every change, and the precision before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from swerve.analysis.precision_drop import PicturePair, PrecisionDrop, pair_of, precision_drop
from swerve.analysis.statistics import Estimate
from swerve.core.origin import Origin
from swerve.core.values import Boxes2D, find
from swerve.experiments import Measured, Results, SubjectRuns
from swerve.experiments.tigaug.light_campaigns import CHANGES, REFUSED
from swerve.experiments.tigaug.light_training import TrainingArm, arms
from swerve.methods.tigaug import rule_name
from swerve.relations.boxes import Flaw
from swerve.review.agreement import verdicts
from swerve.review.marks import Mark

UNKNOWN = PrecisionDrop(Estimate(0), Estimate(0), Estimate(0), {})  # without pictures
HELD_BEFORE = (Origin.INTRODUCED.value, Origin.MARGINAL.value)


@dataclass(frozen=True, eq=False)
class TestedPicture:
    """A judged follow-up: the labels and answers before and after, whether it is natural, and what is wrong with it."""

    id: str  # of the change of this picture, the same for every detector
    case: str
    words: str
    pair: PicturePair
    natural: bool
    violated: bool
    introduced: bool
    flaw: str


Which = Callable[[TestedPicture], bool]


def every(picture: TestedPicture) -> bool:
    """All follow-ups."""
    del picture
    return True


def is_natural(picture: TestedPicture) -> bool:
    """Those that neither a filter nor reviewers find unnatural."""
    return picture.natural


class LightRuns(SubjectRuns):
    """A detector on one set of streets, with its runs."""

    @property
    def detector(self) -> str:
        """The name of the zoo's detector, or of a given one."""
        return self.subject.like or self.name

    @property
    def streets(self) -> str:
        """The set of streets; empty for a given source."""
        return self.name.rpartition(" ")[2] if self.subject.like else ""

    @property
    def key(self) -> dict[str, str]:
        """The first cells of its rows."""
        return {"detector": self.detector, "streets": self.streets}

    @cached_property
    def states(self) -> Sequence[str]:
        """The states of the lights that must be found, over which mAP is the mean."""
        labels = (find(seen.truth, Boxes2D.slot) for seen in self.runs[CHANGES].baseline())
        pairs = (zip(one.kinds, np.asarray(one.care), strict=True) for one in labels if isinstance(one, Boxes2D))
        return sorted({kind for pair in pairs for kind, care in pair if care})

    def arms(self) -> Iterator[TrainingArm]:
        """The trainings that were made and tested."""
        return (arm for arm in arms(self.setting) if arm.step in self.runs)

    def pictures(self, step: str, change: str) -> Sequence[TestedPicture]:
        """The judged follow-ups of a change in a step."""
        if ("pictures", step) not in self.memory:
            self.memory["pictures", step] = self._read(step)
        return self.memory["pictures", step].get(rule_name(change), ())  # type: ignore[no-any-return]

    def skipped(self, step: str, change: str) -> Counter[str]:
        """Why pictures were left as they are."""
        rows = (row for row in self.runs[step].trials() if row["rule"] == rule_name(change) and row["status"] == "skipped")
        return Counter(row["why"] for row in rows)

    def drop(self, step: str, change: str, which: Which = every) -> PrecisionDrop:
        """The loss of precision under a change, of the follow-ups that are chosen by `which`."""
        return self._remembered(
            (step, change, which), lambda: [one.pair for one in self.pictures(step, change) if which(one)]
        )

    def drop_of(self, pictures: Iterable[TestedPicture]) -> PrecisionDrop:
        """The loss of precision on some follow-ups."""
        return self._drop_of([picture.pair for picture in pictures])

    @cached_property
    def untouched(self) -> Estimate:
        """The precision on all untouched pictures."""
        return self.on_untouched(CHANGES, CHANGES).before

    def on_untouched(self, step: str, other: str) -> PrecisionDrop:
        """The precision on untouched pictures in a step, and in another one."""
        return self._remembered(("untouched", step, other), lambda: self._untouched_pairs(step, other))

    def _untouched_pairs(self, step: str, other: str) -> list[PicturePair]:
        first, second = (
            {seen.case: seen for seen in self.runs[name].baseline() if not seen.fault} for name in (step, other)
        )
        pairs = []
        for case in (case for case in first if case in second):
            label, answer, now = (
                find(values, Boxes2D.slot) for values in (first[case].truth, first[case].answer, second[case].answer)
            )
            if isinstance(label, Boxes2D) and isinstance(answer, Boxes2D) and isinstance(now, Boxes2D):
                pairs.append(PicturePair(first[case].group or case, label, answer, label, now))
        return pairs

    def compared(self, steps: tuple[str, str], change: str, which: Which = every) -> PrecisionDrop:
        """The precision on the same follow-ups of a change in two steps, as its value before and after."""
        return self._remembered((steps, change, which), lambda: self._compared_pairs(steps, change, which))

    def _compared_pairs(self, steps: tuple[str, str], change: str, which: Which) -> list[PicturePair]:
        first, second = ({one.id: one for one in self.pictures(step, change) if which(one)} for step in steps)
        return [
            replace(one.pair, label=one.pair.new_label, answer=one.pair.new_answer, new_answer=second[name].pair.new_answer)
            for name, one in first.items()
            if name in second
        ]

    def _remembered(self, key: tuple[object, ...], pairs: Callable[[], Sequence[PicturePair]]) -> PrecisionDrop:
        """The loss over some pairs, which takes long to compute and is asked for by several tables."""
        if key not in self.memory:
            self.memory[key] = self._drop_of(pairs())
        found: PrecisionDrop = self.memory[key]
        return found

    def _drop_of(self, pairs: Sequence[PicturePair]) -> PrecisionDrop:
        return precision_drop(pairs, seed=self.setting.seed, drives=self._junctions) if pairs else UNKNOWN

    @cached_property
    def _junctions(self) -> Sequence[str]:
        """The drives of all pictures, so that the losses of all changes are resampled together."""
        return tuple(dict.fromkeys(seen.group or seen.case for seen in self.runs[CHANGES].baseline()))

    def _read(self, step: str) -> Mapping[str, Sequence[TestedPicture]]:
        run = self.runs[step]
        labels = {seen.case: (find(seen.truth, Boxes2D.slot), seen.group) for seen in run.baseline()}
        marks = verdicts(self.runs[CHANGES])  # of follow-ups, which are the same for a retrained detector
        found: dict[str, list[TestedPicture]] = {}
        for row in run.trials():
            label, group = labels.get(row["case"], (None, ""))
            pair = pair_of(row, label, group) if isinstance(label, Boxes2D) else None
            if pair:
                natural = not row["facts"].get(REFUSED) and marks.get(row["id"]) is not Mark.UNNATURAL
                found.setdefault(row["rule"], []).append(_picture(row, pair, natural))
        return found


def _picture(row: Mapping[str, Any], pair: PicturePair, natural: bool) -> TestedPicture:
    flaw = str(row["facts"].get("flaw", ""))
    return TestedPicture(
        row["id"],
        row["case"],
        row["words"],
        pair,
        natural,
        violated=row["status"] == "violated",
        introduced=row["origin"] in HELD_BEFORE,
        flaw=flaw if flaw in {kind.value for kind in Flaw} else "",
    )


def measured(estimate: Estimate, *, sign: int = 1) -> Measured:
    """An estimate as a cell; with `sign` -1 a loss becomes a gain."""
    low, high = (None if end is None else sign * end + 0.0 for end in (estimate.low, estimate.high)[::sign])
    return Measured(None if estimate.value is None else sign * estimate.value + 0.0, low, high)


LightResults = Results[LightRuns]
