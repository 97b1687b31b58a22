"""Does training with added points help? The Apollo team's answer was to fine-tune with augmented data.

The network with the most losses is trained further in two ways on sweeps that share no scene with the tested ones: on the
sweeps as they are, as a control, and with points added outside the region of every other sweep. Then the frames of the
series are answered again. Violating frames are also exported as training data.
"""
# LM-12

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from markupsafe import Markup

from swerve.analysis.obstacle_frames import MISSING, Frame, struck
from swerve.analysis.statistics import mcnemar
from swerve.core.campaign import Campaign
from swerve.core.errors import InputError
from swerve.core.seeding import digest_of
from swerve.core.values import Boxes3D, find
from swerve.experiments import DATA, QUICK, CampaignStep, Row, Setting, Subject, TrainingStep, chart, question, rated
from swerve.experiments.lidar.subject_runs import CLOSE, MOST, PLACEMENTS, LidarRuns, Lidars, judged, system_table
from swerve.methods.lidar import lidar
from swerve.relations.obstacles import boxes_of
from swerve.report.charts import Bar, bars
from swerve.report.followups import labelled_followup
from swerve.retrain.sweeps import Twice, learn
from swerve.sources.export import export
from swerve.sources.subset import Subset
from swerve.store.files import make_folder
from swerve.train.loop import Checkpoint, save_weights
from swerve.train.rendered_sweeps import CachedSweeps
from swerve.world.lidar_source import LidarWorld
from swerve.zoo.lidar import Lidar
from swerve.zoo.lidar_score import GOAL, DetectionTally, compared

VIOLATING, SWEEPS = "violating", "sweeps"
LEARNING = 1.5  # forward passes to train on one piece of a sweep, estimated
BEFORE, CLEAN, NOISE = "none", "clean sweeps", "noise points"
ARMS = {CLEAN: "retrained clean", NOISE: "retrained"}  # training data, and the name of its weights and runs
STEPS = "no further training → clean sweeps → noise points"


@dataclass(frozen=True)
class Lessons:
    """The size of retraining: training sweeps, validation sweeps, passes, frames tested again, and exported frames."""

    sweeps: int
    aside: int
    passes: int
    frames: int
    exported: int


def cached_sweeps(setting: Setting, frames: int, split: str = "test") -> CachedSweeps:
    """`frames` sweeps, each of another scene, stored in the experiment's folder."""
    world = LidarWorld(drives=frames, split=split, seed=setting.seed)
    return CachedSweeps(world, setting.into.absolute() / DATA / SWEEPS)


def is_retrained(setting: Setting) -> bool:
    """Whether anything is to be retrained."""
    return bool(setting.options["retrain"] or setting.level != QUICK)


def retraining_steps(subject: Subject, setting: Setting) -> Iterator[CampaignStep | TrainingStep]:
    """Two trainings of the network with the most losses, and its series with most points after each."""
    lessons: Lessons = setting.size.lessons
    once = type(subject.system) is Lidar  # of several networks one is trained, so one counts in the estimate
    for arm, name in ARMS.items() if _is_able(subject) and is_retrained(setting) else ():
        weights, trials = f"{name}.safetensors", 2 * lessons.sweeps * lessons.passes * LEARNING * once
        yield TrainingStep(weights, partial(_train, arm), partial(_key, arm), trials=trials, when=is_worst)
        for placement, near in PLACEMENTS.items():
            make = partial(_series, weights, near)
            yield CampaignStep(_run(arm, placement), make, after=(weights,), trials=2 * lessons.frames * once, when=is_worst)


def _is_able(subject: Subject) -> bool:
    return isinstance(subject.system, Lidar) and not subject.system.roi_first  # whose points cannot have an effect


def is_worst(results: Lidars, one: LidarRuns) -> bool:
    """Whether this is the network with the most frames that miss an obstacle."""
    able = [other for other in results if _is_able(other.subject)]
    return one is max(able, key=lambda other: struck(other.series[CLOSE, MOST], MISSING))


def _run(arm: str, placement: str) -> str:
    return f"{ARMS[arm]}, {placement}"


def _key(arm: str, one: LidarRuns) -> str:
    return digest_of(one.subject.system.fingerprint(), arm, asdict(one.setting.size.lessons), one.setting.seed)


def _train(arm: str, one: LidarRuns, file: Path, checkpoint: Checkpoint) -> None:
    system, lessons, seed = one.subject.system, one.setting.size.lessons, one.setting.seed
    assert isinstance(system, Lidar)
    train, val = (
        Twice(cached_sweeps(one.setting, count, split), seed, noisy=arm == NOISE)
        for count, split in ((lessons.sweeps, "train"), (lessons.aside, "val"))
    )
    save_weights(learn(system.net, system.grid, train, val, lessons.passes, seed, checkpoint), file)


def _series(weights: str, near: float | None, one: LidarRuns) -> Campaign:
    assert isinstance(one.subject.system, Lidar)
    system = replace(one.subject.system, weights=one.trained[weights])
    some = Subset(one.subject.source, one.setting.size.lessons.frames)
    return lidar(some, system, n=MOST, near=near, seed=one.setting.seed)


def retrained(results: Lidars) -> list[LidarRuns]:
    """The systems that were retrained."""
    return [one for one in results if _run(NOISE, CLOSE) in one.runs]


def missed(one: LidarRuns, placement: str) -> Mapping[str, list[bool]]:
    """By training: which frames of the series with most points miss an obstacle, of those that were judged every time."""
    frames = {BEFORE: one.series[placement, MOST]}
    frames |= {arm: [Frame.of_row(row) for row in judged(one.runs[_run(arm, placement)])] for arm in ARMS}
    flags = {arm: {frame.case: frame.count(MISSING) > 0 for frame in some} for arm, some in frames.items()}
    every = [case for case in flags[BEFORE] if all(case in some for some in flags.values())]
    return {arm: [some[case] for case in every] for arm, some in flags.items()}


@system_table("retrained", "Frames with an obstacle missing, before and after", of=retrained, optional=True)
def _retrained(one: LidarRuns) -> Iterator[Row]:
    """missing: lost, of another type or moved; p: McNemar's test, paired by frame. {CLEAN}: the control, trained with the
    same passes, rate, steps and seed but without added points; the effect of {NOISE} is the difference to it"""
    for placement in PLACEMENTS:
        missing = missed(one, placement)
        for arm, flags in missing.items():
            yield {
                **{"placement": placement, "n": MOST, "further training": arm, "frames": len(flags)},
                **{"missing": sum(flags), **rated(sum(flags), len(flags))},
                "p against none": None if arm == BEFORE else _p(missing[BEFORE], flags),
                "p against clean": _p(missing[CLEAN], flags) if arm == NOISE else None,
            }


def _p(one: Sequence[bool], other: Sequence[bool]) -> float | None:
    """McNemar's test of the same frames; None if no frame differs."""
    pairs = list(zip(one, other, strict=True))
    return mcnemar(pairs.count((True, False)), pairs.count((False, True))).p


SHARES = dict.fromkeys(("precision", "types right", *(f"{kind} recall" for kind in GOAL)), ".1%")


DETECTIONS = "Detections in untouched frames"


@system_table(title=DETECTIONS, note="within the region and 30 m", of=retrained, formats=SHARES, optional=True)
def _scores(one: LidarRuns) -> Iterator[Row]:
    """Recall and precision on the same untouched frames, from the journals."""
    first = next(iter(PLACEMENTS))
    runs = {BEFORE: one.runs[first], **{arm: one.runs[_run(arm, first)] for arm in ARMS}}
    keys = {seen.case for seen in runs[NOISE].baseline()}
    for arm, run in runs.items():
        total = DetectionTally()
        for seen in run.baseline():
            truth = find(seen.truth, Boxes3D.slot)
            if seen.case in keys and not seen.fault and isinstance(truth, Boxes3D):
                total += compared(truth, boxes_of(seen.answer))
        recall = {f"{kind} recall": total.recall(kind) for kind in GOAL}
        yield {"further training": arm, "precision": total.precision, "types right": total.typed, **recall}


@chart("Frames with an obstacle missing", of=retrained)
def _bars(one: LidarRuns) -> Markup:
    rates = {
        where: {arm: Bar.rate(sum(some), len(some)) for arm, some in missed(one, where).items()} for where in PLACEMENTS
    }
    return bars(rates, percent=True)


def _texts(results: Lidars) -> Iterator[str]:
    yield from map(_export, results)
    if not is_retrained(results.setting):
        yield "Nothing was retrained; use --retrain to do so at this level."
    elif not any(_is_able(one.subject) for one in results):
        yield "None of the systems is a network of the zoo that can lose obstacles, so none was retrained."


@question("Does training with added points help?", _retrained, _scores, _bars, text=(_texts,))
def does_training_help(results: Lidars) -> str:
    """The network with the most losses is trained further, on sweeps with added points and, as a control, without."""
    for one in retrained(results):
        counts = {placement: missed(one, placement).values() for placement in PLACEMENTS}
        parts = (
            f"{' → '.join(str(sum(flags)) for flags in some)} of {len(next(iter(some)))} frames {placement}"
            for placement, some in counts.items()
        )
        return f"{one.name}, {MOST:,} points, frames with an obstacle missing ({STEPS}): {', '.join(parts)}"
    return "it cannot be retrained" if is_retrained(results.setting) else "not run"


def _export(one: LidarRuns) -> str:
    """Export violating frames as training data in KITTI's format, unless they are there; returns a sentence about it."""
    where = f"{DATA}/{VIOLATING}/{one.name}"
    violating = (row for _, row in one.trials() if row["status"] == "violated")
    rows = sorted(violating, key=lambda row: -row["margin"])[: one.setting.size.lessons.exported]
    if not rows:
        return f"{one.name}: no frame is violated, so none is exported."
    folder = one.setting.into / where
    if not folder.exists():
        make_folder(folder.parent, parents=True)
        try:
            followups = (labelled_followup(one.subject.source, row, one.builders[row["rule"]]) for row in rows)
            export({"train": followups}, folder, "kitti")
        except InputError as error:
            return f"{one.name}: its {len(rows):,} worst violating frames were not exported: {error}."
    return f"{one.name}: its {len(rows):,} worst violating frames are in {where}, in KITTI's format with labelled boxes."
