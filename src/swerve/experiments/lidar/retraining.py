"""Does training with added points help? The Apollo team's answer was to fine-tune with augmented data.

The network is trained further in two ways on sweeps that share no scene with the tested ones: on the sweeps as they are, as
a control, and with points added outside the region of every other sweep. Then the frames of the series are answered again.
Violating frames are also exported as training data.
"""
# LM-12

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

from swerve.analysis.statistics import mcnemar, wilson
from swerve.core.case import Case, Source
from swerve.core.errors import InputError
from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Boxes3D, Calibration, find
from swerve.experiments.lidar.fewest import pictured
from swerve.experiments.lidar.subject_runs import CLOSE, PLACEMENTS, Frame, LidarRuns, Trial, boxes_of, frames_of
from swerve.experiments.lidar.subjects import cached_sweeps
from swerve.experiments.lidar.subset_check import MISSING, fates
from swerve.experiments.setting import DATA, RUNS, Setting
from swerve.experiments.subjects import Subject
from swerve.methods.lidar import SERIES, lidar
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars
from swerve.report.experiment_page import ChartPanel, Section, TablePanel
from swerve.sources.export import export
from swerve.sources.subset import Subset
from swerve.store.files import make_folder
from swerve.store.record_json import record_of
from swerve.store.view import Run
from swerve.train.loop import Checkpoint, Recipe, fit, save_weights
from swerve.transformations.photometric import images_of
from swerve.transformations.scatter import AddPoints
from swerve.zoo.grid import Grid
from swerve.zoo.lidar import Lidar
from swerve.zoo.lidar_data import labelled
from swerve.zoo.lidar_learn import PATIENCE, Labelled, Pieces, sweep_task
from swerve.zoo.lidar_network import BirdNet
from swerve.zoo.lidar_score import GOAL, DetectionTally, compared

TITLE = "Does training with added points help?"
VIOLATING = "violating"
RATE = 5e-4  # an eighth of that of the first training
PIECE = 160  # cells a side
MOST = max(SERIES)
BEFORE, CLEAN, NOISE = "none", "clean sweeps", "noise points"
ARMS = {CLEAN: "retrained clean", NOISE: "retrained"}  # training data, and the name of its weights and runs
STEPS = "no further training → clean sweeps → noise points"
COLUMNS = (
    *("system", "placement", "n", "further training", "frames", "missing", "rate", "low", "high"),
    *("p against none", "p against clean"),
)
SCORES = ("system", "further training", "precision", "types right", *(f"{kind} recall" for kind in GOAL))
FORMATS = {"rate": ".1%", "low": ".1%", "high": ".1%", "p against none": ".2g", "p against clean": ".2g"}

Again = Mapping[str, Mapping[str, list[Frame]]]  # the same frames by placement and by training


@dataclass(frozen=True)
class Lessons:
    """The size of retraining: training sweeps, validation sweeps, passes, frames tested again, and exported frames."""

    sweeps: int
    aside: int
    passes: int
    frames: int
    exported: int


class Twice(Sequence[Labelled]):
    """Every sweep of a source twice: as it is and, if `noisy`, with points added outside its region as in the series."""

    def __init__(self, source: Source, seed: int, *, noisy: bool = True) -> None:
        self._source, self._keys, self._seed, self._noisy = source, source.keys(), seed, noisy

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
        return labelled(self.change(number)(case) if self._noisy and number % 2 else case)

    def change(self, number: int) -> AddPoints:
        """The change that adds the points of a noisy sweep."""
        rng = rng_for(self._seed, "noise", number)
        near = list(PLACEMENTS.values())[int(rng.integers(len(PLACEMENTS)))]
        return AddPoints(int(rng.choice(SERIES)), int(rng.integers(2**31)), near=near)


def section(setting: Setting, all_tested: Sequence[LidarRuns], lessons: Lessons, *, retrain: bool) -> Section:
    """The exported frames, and the losses before and after retraining on held-out frames."""
    text = tuple(_export(setting, tested, lessons.exported) for tested in all_tested)
    if not retrain:
        return Section(TITLE, (*text, "Nothing was retrained; use --retrain to do so at this level."), answer="not run")
    chosen = _chosen(all_tested)
    if chosen is None:
        why = "None of the systems is a network of the zoo that can lose obstacles, so none was retrained."
        return Section(TITLE, (*text, why), answer="it cannot be retrained")
    again = _again(setting, chosen, lessons)
    rows = tuple(row for placement, frames in again.items() for row in _compared(chosen, placement, frames))
    scores = tuple(_scores(setting, chosen))
    parts = (
        TablePanel("Frames with an obstacle missing, before and after", COLUMNS, rows, NOTE, formats=FORMATS,
              csv=setting.table("retrained", COLUMNS, rows)),
        TablePanel("Detections in untouched frames", SCORES, scores, "within the region and 30 m",
              formats=dict.fromkeys(SCORES[2:], ".1%")),
        ChartPanel("Frames with an obstacle missing", bars(_bars(again), percent=True)),
    )  # fmt: skip
    return Section(TITLE, text, parts, _answer(chosen, again))


NOTE = (
    f"missing: lost, of another type or moved; p: McNemar's test, paired by frame. {CLEAN}: the control, trained with the "
    f"same passes, rate, steps and seed but without added points; the effect of {NOISE} is the difference to it"
)


def _chosen(all_tested: Sequence[LidarRuns]) -> LidarRuns | None:
    """The network with the most losses; one with `roi_first` cannot have any."""
    able = [one for one in all_tested if isinstance(one.subject.system, Lidar) and not one.subject.system.roi_first]
    return max(able, key=lambda one: sum(_missing(frame) for frame in one.series[CLOSE, MOST]), default=None)


def _missing(frame: Frame) -> bool:
    return fates(frame, MISSING) > 0


def _again(setting: Setting, chosen: LidarRuns, lessons: Lessons) -> Again:
    """The frames of the series with most points, by placement and training, if they were judged every time."""
    some = Subset(chosen.subject.source, lessons.frames)
    systems = {arm: retrained(setting, chosen.subject, lessons, arm) for arm in ARMS}
    found: dict[str, dict[str, list[Frame]]] = {}
    for placement, near in PLACEMENTS.items():
        judged = {BEFORE: {frame.case: frame for frame in chosen.series[placement, MOST]}}
        for arm, system in systems.items():
            run = setting.run(_run(chosen, arm, placement), lidar(some, system, n=MOST, near=near, seed=setting.seed))
            judged[arm] = {frame.case: frame for _, frame in frames_of(run, chosen.regions)}
        every = [key for key in judged[BEFORE] if all(key in frames for frames in judged.values())]
        found[placement] = {arm: [frames[key] for key in every] for arm, frames in judged.items()}
    return found


def _run(chosen: LidarRuns, arm: str, placement: str) -> str:
    return f"{chosen.name}/{ARMS[arm]}, {placement}"


def retrained(setting: Setting, subject: Subject, lessons: Lessons, arm: str = NOISE) -> Lidar:
    """The system with further trained weights, which are stored, so that this is done once."""
    system = subject.system
    assert isinstance(system, Lidar)
    file = setting.into.absolute() / DATA / ARMS[arm] / f"{system.name}.safetensors"
    if not file.exists():
        make_folder(file.parent, parents=True)
        train, val = (
            Twice(cached_sweeps(setting, count, split), setting.seed, noisy=arm == NOISE)
            for count, split in ((lessons.sweeps, "train"), (lessons.aside, "val"))
        )
        key = digest_of(system.fingerprint(), arm, asdict(lessons), setting.seed)
        checkpoint = Checkpoint(file.with_name(f"{system.name}-{key[:12]}.checkpoint"), key)
        save_weights(learn(system.net, system.grid, train, val, lessons.passes, setting.seed, checkpoint), file)
        checkpoint.remove()
    return replace(system, weights=file)


def learn(
    net: BirdNet,
    grid: Grid,
    train: Sequence[Labelled],
    val: Sequence[Labelled],
    passes: int,
    seed: int,
    checkpoint: Checkpoint | None = None,
) -> BirdNet:
    """The network after some more passes; the best of them by the loss on the validation sweeps."""
    tuned, rng = deepcopy(net), rng_for(seed, "retrain")
    recipe = Recipe(passes, batch=4, rate=RATE, decay=1e-3, patience=PATIENCE, one_cycle=True)
    pieces = Pieces(train, grid, rng, min(PIECE, grid.cells))
    task = sweep_task(tuned, pieces, val, count=len(train), batch=recipe.batch)
    fit(tuned, task, recipe, rng=rng, checkpoint=checkpoint)
    return tuned


def _compared(chosen: LidarRuns, placement: str, again: Mapping[str, list[Frame]]) -> Iterator[Row]:
    """A row for each training, with tests against the previous ones."""
    missing = {arm: [_missing(frame) for frame in frames] for arm, frames in again.items()}
    for arm, flags in missing.items():
        share = (sum(flags) / len(flags), *wilson(sum(flags), len(flags))) if flags else (None,) * 3
        tests = (
            None if arm == BEFORE else _p(missing[BEFORE], flags),
            _p(missing[CLEAN], flags) if arm == NOISE else None,
        )
        yield (chosen.name, placement, MOST, arm, len(flags), sum(flags), *share, *tests)


def _p(one: Sequence[bool], other: Sequence[bool]) -> float | None:
    """McNemar's test of the same frames; None if no frame differs."""
    pairs = list(zip(one, other, strict=True))
    return mcnemar(pairs.count((True, False)), pairs.count((False, True))).p


def _scores(setting: Setting, chosen: LidarRuns) -> Iterator[Row]:
    """Recall and precision on the same untouched frames, from the journals."""
    first = next(iter(PLACEMENTS))
    runs = {arm: Run(setting.into / RUNS / _run(chosen, arm, first)) for arm in ARMS}
    keys = {seen.case for seen in runs[NOISE].baseline()}
    for arm, run in {BEFORE: chosen.runs[first], **runs}.items():
        total = DetectionTally()
        for seen in run.baseline():
            truth = find(seen.truth, Boxes3D.slot)
            if seen.case in keys and not seen.fault and isinstance(truth, Boxes3D):
                total += compared(truth, boxes_of(seen.said))
        yield (chosen.name, arm, total.precision, total.typed, *(total.recall(kind) for kind in GOAL))


def _bars(again: Again) -> dict[str, dict[str, Bar]]:
    return {
        placement: {arm: Bar.rate(sum(map(_missing, frames)), len(frames)) for arm, frames in arms.items()}
        for placement, arms in again.items()
    }


def _answer(chosen: LidarRuns, again: Again) -> str:
    """Such as `lidar, 1,000 points, …: 30 → 28 → 12 of 200 frames anywhere`."""
    counts = {
        placement: " → ".join(str(sum(map(_missing, frames))) for frames in arms.values())
        for placement, arms in again.items()
    }
    parts = (f"{counts[placement]} of {len(arms[BEFORE])} frames {placement}" for placement, arms in again.items())
    return f"{chosen.name}, {MOST:,} points, frames with an obstacle missing ({STEPS}): {', '.join(parts)}"


def _export(setting: Setting, tested: LidarRuns, most: int) -> str:
    """Export violating frames as training data in KITTI's format, unless they are there; returns a sentence about it."""
    folder = setting.into / DATA / VIOLATING / tested.name
    rows = sorted(_violating(tested), key=lambda row: -row["margin"])[:most]
    if not rows:
        return f"{tested.name}: no frame is violated, so none is exported."
    where = f"{DATA}/{VIOLATING}/{tested.name}"
    if not folder.exists():
        make_folder(folder.parent, parents=True)
        try:
            export({"train": (_followup(tested, row) for row in rows)}, folder, "kitti")
        except InputError as error:
            return f"{tested.name}: its {len(rows):,} worst violating frames were not exported: {error}."
    return f"{tested.name}: its {len(rows):,} worst violating frames are in {where}, in KITTI's format with labelled boxes."


def _violating(tested: LidarRuns) -> Iterator[Trial]:
    return (row for run in tested.runs.values() for row in run.trials() if row["status"] == "violated")


def _followup(tested: LidarRuns, row: Trial) -> Case:
    """A violating frame with its labelled boxes, the camera image and the calibration."""
    record = record_of(dict(row))
    assert record.change
    case = tested.subject.source[record.trial.case]
    made, seen = record.change(case), pictured(tested.subject, case)
    camera: Mapping[str, Any] = dict(zip(["camera"], images_of(seen), strict=False))
    ties = [value for value in seen.truth if isinstance(value, Calibration)]
    truth = (*(value for value in made.truth if not isinstance(value, Calibration)), *ties)
    facts = {"rule": record.trial.rule, "change": record.change.words()}
    return Case(f"{case.key}~{record.id}", {**made.inputs, **camera}, truth, case.group, case.key, facts)
