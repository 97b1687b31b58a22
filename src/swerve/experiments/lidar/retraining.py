"""Does it help to train with such points? The Apollo team's answer was to fine-tune with augmented data (LM-12).

The network goes on learning from sweeps that share no scene with the tested ones, every other one with points added outside
its region; then the very frames of the series are answered again. Violating frames are written as training data besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from swerve.analysis.statistics import mcnemar, wilson
from swerve.case import Case, Source
from swerve.errors import InputError
from swerve.experiments.lidar.fewest import pictured
from swerve.experiments.lidar.subset import MISSING, fates
from swerve.experiments.lidar.sweeps import kept
from swerve.experiments.lidar.tested import CLOSE, PLACEMENTS, Frame, Tested, Trial, boxes_of, frames_of
from swerve.experiments.setting import DATA, Setting
from swerve.experiments.subjects import Subject
from swerve.files import make_folder
from swerve.methods.lidar import SERIES, lidar
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars
from swerve.report.experiment import Chart, Section, Sheet
from swerve.retrain.export import export
from swerve.rows import record_of
from swerve.seeding import rng_for
from swerve.sources.some import Some
from swerve.store import Run
from swerve.transformations.photometric import images_of
from swerve.transformations.scatter import AddPoints
from swerve.values import Array, Boxes3D, Calibration, find
from swerve.zoo.grid import Grid
from swerve.zoo.learn import Lesson, Recipe, fit
from swerve.zoo.lidar import Lidar
from swerve.zoo.lidar_data import labelled
from swerve.zoo.lidar_learn import Labelled, Pieces, Target, loss, target
from swerve.zoo.lidar_network import BirdNet
from swerve.zoo.lidar_score import GOAL, Tally, compared
from swerve.zoo.train import save_weights

TITLE = "Does training with such points help?"
RETRAINED, VIOLATING = "retrained", "violating"
RATE = 5e-4  # an eighth of the first training's
PIECE = 160  # cells a side
MOST = max(SERIES)
COLUMNS = (
    *("system", "placement", "n", "frames", "missing before", "missing after", "rate before", "low before", "high before"),
    *("rate after", "low after", "high after", "p"),
)
SCORES = ("system", "", "precision", "types right", *(f"{kind} recall" for kind in GOAL))
SHARES = {name: ".1%" for name in COLUMNS if name.startswith(("rate", "low", "high"))}


@dataclass(frozen=True)
class Lessons:
    """How much is learnt: training sweeps, sweeps kept aside, passes, frames tested again, and frames exported at most."""

    sweeps: int
    aside: int
    passes: int
    frames: int
    exported: int


class Noisy(Sequence[Labelled]):
    """Every sweep of a source twice: as it is, and with points added outside its region as in one of the series."""

    def __init__(self, source: Source, seed: int) -> None:
        self._source, self._keys, self._seed = source, source.keys(), seed

    def __len__(self) -> int:
        return 2 * len(self._keys)

    @overload
    def __getitem__(self, number: int) -> Labelled: ...
    @overload
    def __getitem__(self, number: slice) -> list[Labelled]: ...

    def __getitem__(self, number: int | slice) -> Labelled | list[Labelled]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        case = self._source[self._keys[number // 2]]
        return labelled(self.change(number)(case) if number % 2 else case)

    def change(self, number: int) -> AddPoints:
        """The points of a noisy sweep."""
        rng = rng_for(self._seed, "noise", number)
        near = list(PLACEMENTS.values())[int(rng.integers(len(PLACEMENTS)))]
        return AddPoints(int(rng.choice(SERIES)), int(rng.integers(2**31)), near=near)


def section(setting: Setting, all_tested: Sequence[Tested], lessons: Lessons, *, retrain: bool) -> Section:
    """What is exported, and the losses before and after retraining, on frames that never trained."""
    said = tuple(_exported(setting, tested, lessons.exported) for tested in all_tested)
    if not retrain:
        return Section(TITLE, (*said, "Nothing was retrained; --retrain does it at this level too."), answer="not asked")
    chosen = _chosen(all_tested)
    if chosen is None:
        why = "None of the systems is one of the zoo's networks with losses of its own, so none was retrained here."
        return Section(TITLE, (*said, why), answer="it cannot be retrained here")
    before, after = _again(setting, chosen, lessons)
    rows = tuple(_compared(chosen, *both) for both in zip(before.items(), after.items(), strict=True))
    scores = tuple(_scores(setting, chosen, lessons))
    parts = (
        Sheet("Frames with an obstacle missing, before and after", COLUMNS, rows, NOTE, formats={**SHARES, "p": ".2g"},
              csv=setting.table("retrained", COLUMNS, rows)),
        Sheet("What it finds in untouched frames", SCORES, scores, "within the region and 30 m",
              formats=dict.fromkeys(SCORES[2:], ".1%")),
        Chart("Frames with an obstacle missing", bars(_bars(rows), percent=True)),
    )  # fmt: skip
    return Section(TITLE, said, parts, _answer(chosen, rows))


NOTE = (
    "missing: lost, of another type or moved; p: McNemar's test of the same frames in pairs. What further training does by "
    "itself, without such points, is not told apart"
)


def _chosen(all_tested: Sequence[Tested]) -> Tested | None:
    """The network with the most losses; one that shows the region alone has none to lose."""
    able = [one for one in all_tested if isinstance(one.subject.system, Lidar) and not one.subject.system.roi_first]
    return max(able, key=lambda one: sum(_missing(frame) for frame in one.series[CLOSE, MOST]), default=None)


def _missing(frame: Frame) -> bool:
    return fates(frame, MISSING) > 0


def _again(setting: Setting, chosen: Tested, lessons: Lessons) -> tuple[dict[str, list[Frame]], dict[str, list[Frame]]]:
    """The frames of the longest series, by placement, before and after."""
    system = retrained(setting, chosen.subject, lessons)
    some = Some(chosen.subject.source, lessons.frames)
    before: dict[str, list[Frame]] = {}
    after: dict[str, list[Frame]] = {}
    for placement, near in PLACEMENTS.items():
        run = setting.run(_run(chosen, placement), lidar(some, system, n=MOST, near=near, seed=setting.seed))
        now = {frame.case: frame for _, frame in frames_of(run, chosen.regions)}
        was = {frame.case: frame for frame in chosen.series[placement, MOST]}
        both = [key for key in was if key in now]
        before[placement], after[placement] = [was[key] for key in both], [now[key] for key in both]
    return before, after


def _run(chosen: Tested, placement: str) -> str:
    return f"{chosen.name}/{RETRAINED}, {placement}"


def retrained(setting: Setting, subject: Subject, lessons: Lessons) -> Lidar:
    """The system with weights that have seen such points; they are kept, so that this is done once."""
    system = subject.system
    assert isinstance(system, Lidar)
    file = setting.into.absolute() / DATA / RETRAINED / f"{system.name}.safetensors"
    if not file.exists():
        make_folder(file.parent, parents=True)
        train, aside = (
            Noisy(kept(setting, count, split), setting.seed)
            for count, split in ((lessons.sweeps, "train"), (lessons.aside, "val"))
        )
        save_weights(learn(system.net, system.grid, train, aside, lessons.passes, setting.seed), file)
    return replace(system, weights=file)


def learn(net: BirdNet, grid: Grid, train: Sequence[Labelled], aside: Sequence[Labelled], passes: int, seed: int) -> BirdNet:
    """The network after some more passes; the best of them by the loss on sweeps kept aside, or as it was."""
    tuned, rng = deepcopy(net), rng_for(seed, "retrain")
    pieces = Pieces(train, grid, rng, min(PIECE, grid.cells))

    def of(chosen: Array) -> Tensor:
        maps, wanted = pieces.batch(chosen)
        return loss(tuned(maps), maps, wanted)

    lesson = Lesson(len(train), of, _error_on(tuned, aside, grid))
    fit(tuned, lesson, Recipe(passes=passes, batch=4, rate=RATE, decay=1e-3), rng=rng)
    return tuned.eval()


def _error_on(net: BirdNet, aside: Sequence[Labelled], grid: Grid) -> Callable[[], float]:
    def one(given: Labelled) -> float:
        maps, wanted = torch.from_numpy(grid.features(given.xyzi))[None], target(given, grid)
        stacked = Target(*(getattr(wanted, name)[None] for name in Target.__dataclass_fields__))
        return float(loss(net(maps), maps, stacked))

    def of() -> float:
        net.eval()
        with torch.inference_mode():
            return float(np.mean([one(aside[number]) for number in range(len(aside))]))

    return of


def _compared(chosen: Tested, before: tuple[str, list[Frame]], after: tuple[str, list[Frame]]) -> Row:
    placement, was = before
    pairs = [(_missing(one), _missing(other)) for one, other in zip(was, after[1], strict=True)]
    counts = [sum(pair[end] for pair in pairs) for end in (0, 1)]
    shares = [(count / len(pairs), *wilson(count, len(pairs))) if pairs else (None,) * 3 for count in counts]
    only = [sum(pair == way for pair in pairs) for way in ((True, False), (False, True))]
    return (chosen.name, placement, MOST, len(pairs), *counts, *shares[0], *shares[1], mcnemar(*only).p)


def _scores(setting: Setting, chosen: Tested, lessons: Lessons) -> Iterator[Row]:
    """Recall and precision on the untouched frames of both, from the answers in the journals."""
    del lessons
    first = next(iter(PLACEMENTS))
    now = Run(setting.into / "runs" / _run(chosen, first))
    keys = {seen.case for seen in now.baseline()}
    for name, run in (("before", chosen.runs[first]), ("after", now)):
        total = Tally()
        for seen in run.baseline():
            truth = find(seen.truth, Boxes3D.slot)
            if seen.case in keys and not seen.fault and isinstance(truth, Boxes3D):
                total += compared(truth, boxes_of(seen.said))
        yield (chosen.name, name, total.precision, total.typed, *(total.recall(kind) for kind in GOAL))


def _bars(rows: Sequence[Row]) -> dict[str, dict[str, Bar]]:
    return {
        str(row[1]): {"before": Bar.rate(int(row[4]), int(row[3])), "after": Bar.rate(int(row[5]), int(row[3]))}  # type: ignore[arg-type]
        for row in rows
    }


def _answer(chosen: Tested, rows: Sequence[Row]) -> str:
    told = ", ".join(f"{row[4]} → {row[5]} of {row[3]} frames {row[1]}" for row in rows)
    return f"{chosen.name}, {MOST:,} points, frames with an obstacle missing before → after: {told}"


def _exported(setting: Setting, tested: Tested, most: int) -> str:
    """Write violating frames as training data in KITTI's form, unless they are there, and say where."""
    folder = setting.into / DATA / VIOLATING / tested.name
    rows = sorted(_violating(tested), key=lambda row: -row["margin"])[:most]
    if not rows:
        return f"{tested.name}: no frame was violated, so there is none to train on."
    where = f"{DATA}/{VIOLATING}/{tested.name}"
    if not folder.exists():
        make_folder(folder.parent, parents=True)
        try:
            export({"train": (_followup(tested, row) for row in rows)}, folder, "kitti")
        except InputError as error:
            return f"{tested.name}: its {len(rows):,} worst violating frames are not exported: {error}."
    return f"{tested.name}: its {len(rows):,} worst violating frames lie in {where}, in KITTI's form with the true boxes."


def _violating(tested: Tested) -> Iterator[Trial]:
    return (row for run in tested.runs.values() for row in run.trials() if row["status"] == "violated")


def _followup(tested: Tested, row: Trial) -> Case:
    """A violating frame with its true boxes, the camera's frame and how the two are tied."""
    record = record_of(dict(row))
    assert record.change
    case = tested.subject.source[record.trial.case]
    made, seen = record.change(case), pictured(tested.subject, case)
    camera: Mapping[str, Any] = dict(zip(["camera"], images_of(seen), strict=False))
    ties = [value for value in seen.truth if isinstance(value, Calibration)]
    truth = (*(value for value in made.truth if not isinstance(value, Calibration)), *ties)
    facts = {"rule": record.trial.rule, "change": record.change.words()}
    return Case(f"{case.key}~{record.id}", {**made.inputs, **camera}, truth, case.group, case.key, facts)
