"""RQ5: does training on fog and rain images improve the system in fog and rain? Table 9 of the paper.

Some frames that the network was trained with stand for the paper's original training data.
"""
# DT-38, D-33

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from swerve.core.errors import InputError
from swerve.experiments import DATA, ChartPanel, Cost, Row, Setting, Subject, TrainingStep, question, table
from swerve.experiments.deeptest.subject_runs import PAPER, DeepTestRuns, DeepTests
from swerve.experiments.steering_subjects import SCENE_FRAMES, SCENES, drive_cost, rendered
from swerve.methods.deeptest import WEATHER, deeptest
from swerve.report.charts import Bar, bars
from swerve.retrain import ways
from swerve.retrain.before_after import Compared
from swerve.retrain.dataset import Joined
from swerve.retrain.finetune import torch_of
from swerve.retrain.ways import LEAK_FREE, TEST, VAL, WAYS, WHOLE, WORSE, OwnFrames, Retrained, Retraining
from swerve.sources.writing import slug
from swerve.store.files import json_bytes, write_whole
from swerve.train.loop import Checkpoint
from swerve.world.source import World
from swerve.zoo.steering import STEERING
from swerve.zoo.steering_data import FramePart, FrameParts, stored_frames
from swerve.zoo.steering_learn import RECIPES

EPOCH, LIKE_EPOCH = "epoch", "Epoch"  # the paper's Table 9 is of Epoch
FRAMES = "frames"  # folder of the frames that it was trained with
BETTER = 0.3  # the goal: fog and rain errors down by at least, the original error up by at most `WORSE`
ORIGINAL = "original"
FORMATS = {"before": ".4f", "after": ".4f", "change": "+.1%", "low": "+.4f", "high": "+.4f"}


def asked(one: DeepTestRuns) -> Retraining:
    """A given network on its own cases; of the zoo Epoch, on every frame of the test scenes, as in the paper."""
    size, setting = one.setting.size, one.setting
    wet = partial(deeptest, system=one.subject.system, changes=WEATHER, coverage=False, seed=setting.seed)
    if not one.subject.like:
        return Retraining(one.subject.system, one.subject.source, wet, passes=size.passes)
    scenes = rendered(setting, SCENES, World(size.frames.scenes, SCENE_FRAMES, seed=setting.seed))
    folder = setting.into.absolute() / DATA / FRAMES
    train, val = (
        Joined(tuple(stored_frames(part, folder, workers=setting.workers, progress=setting.progress) for part in parts))
        for parts in own_parts(size).values()
    )
    own = OwnFrames(train, val, size.frames.training, size.share)
    return Retraining(one.subject.system, scenes, wet, own, size.passes)


def own_parts(size: Any) -> dict[str, tuple[FramePart, ...]]:
    """The drives that Epoch was trained and validated with, or a share of them."""
    return FrameParts().scaled(size.share).singles(RECIPES[EPOCH].every)


def own_counts(size: Any) -> tuple[int, int, int]:
    """How many frames of its own are added untouched, trained and validated on."""
    train, val = (sum(part.drives * part.runs for part in parts) for parts in own_parts(size).values())
    return size.frames.training, train, val


def retraining_steps(subject: Subject, setting: Setting) -> Iterator[TrainingStep]:
    """A training for every split."""
    own = subject.like == LIKE_EPOCH
    if subject.like and not own:
        return
    try:
        torch_of(subject.system)
    except InputError:
        return
    images = subject.count * SCENE_FRAMES if own else subject.count
    chosen = WAYS if own else WAYS[:2]
    for way in chosen:
        trials = ways.training_trials(images, setting.size.passes, own_counts(setting.size) if own else None) / len(chosen)
        yield TrainingStep(file_of(way), partial(_train, way), partial(_key, way), trials=trials)


def file_of(way: str) -> str:
    """The file with the result of a split."""
    return f"retrained-{slug(way)}.json"


def own_cost(size: Any) -> Cost:
    """The cost of the frames that Epoch was trained with: their rendering, and the largest set of inputs on disk."""
    parts = [part for some in own_parts(size).values() for part in some]
    frames, view = sum(part.drives * part.runs for part in parts), STEERING[EPOCH].view
    inputs = Cost(size=(1 + ways.MIX) * frames * view.width * view.height * 3 * 4)  # float32
    return sum((drive_cost(part) * part.drives for part in parts), inputs)


def _train(way: str, one: DeepTestRuns, file: Path, checkpoint: Checkpoint) -> None:
    result = ways.retrain(one.once(asked), way, one.setting.seed, checkpoint, one.setting.progress)
    write_whole(file, json_bytes(asdict(result)))


def _key(way: str, one: DeepTestRuns) -> str:
    return ways.made_of(one.once(asked), way, one.setting.seed, one.setting.base)


def retrained(results: DeepTests) -> dict[str, Retrained]:
    """The result of every split that was possible."""
    files = {way: one.trained[file_of(way)] for one in results for way in WAYS if file_of(way) in one.trained}
    return {way: Retrained.of(json.loads(file.read_text())) for way, file in files.items()}


def _note(results: DeepTests) -> str:
    """The note of Table 9."""
    one = next((one for one in results if any(file_of(way) in one.trained for way in WAYS)), None)
    if one is None:
        return ""
    what, base, whole = one.once(asked), "the training images are added untouched too", ""
    if what.own:
        base = f"{what.own.some:,} frames that the network was trained with are added"
        whole = (
            f" {WHOLE}: trained on {what.own.describe()} of the zoo's recipe with their fog and rain versions; measured on "
            "all images, whose scenes are in neither set."
        )
    # D-3
    return (
        f"MSE in rad² of the wheel of {one.name}, before and after fine-tuning on fog and rain versions of "
        f"{1 - TEST - VAL:.0%} of the images, with {VAL:.0%} for early stopping, {1 - TEST:.0%} together; "
        f"{base}; measured on the other {TEST:.0%} and "
        f"their fog and rain versions. best pass: the one with the smallest validation error among those that raise the "
        f"error on untouched validation images by at most {WORSE:.0%}; 0 is the network as it was, and then nothing "
        "follows. Images of one scene or drive are similar, so they are grouped: groups is the number "
        "of scenes or drives tested, low and high are the 95% interval of the difference from resampled groups, p is "
        "Wilcoxon's signed-rank test of each group's mean difference, and a single group has neither. What the paper prints "
        f"as MSE are roots: compare its ratios with ours, not its sizes. {LEAK_FREE}: {ways.describe_split(what.source)}."
        f"{whole}"
    )


@table("table9", "Table 9", note=_note, formats=FORMATS, printed=PAPER["table9"])
def table_9(results: DeepTests) -> Iterator[Row]:
    """The errors before and after; of a network that is unchanged nothing after retraining can be measured."""
    for way, result in retrained(results).items():
        for row in result.rows:
            after = {"after": row.after, "change": _share(row), "low": row.change.low, "high": row.change.high}
            after |= {"p": row.test.p}
            yield {
                **{"split": way, "images": _images(row), "cases": row.cases, "groups": row.groups, "before": row.before},
                **(after if result.best else dict.fromkeys(after)),
                **{"best pass": result.best, "passes": result.passes},
            }


def _images(row: Compared) -> str:
    return row.data.removeprefix("synthetic, ")


def _share(row: Compared) -> float | None:
    return row.after / row.before - 1 if row.before and row.after is not None else None


def _chart(results: DeepTests) -> Iterator[ChartPanel]:
    found = retrained(results)
    for way in [way for way in (WHOLE, LEAK_FREE) if way in found][:1]:
        after = "after" if found[way].best else "after (unchanged)"
        groups = {_images(row): {"before": Bar(row.before), after: Bar(row.after)} for row in found[way].rows}
        yield ChartPanel(f"MSE before and after, {way}", bars(groups, axis="rad²"))


def _texts(results: DeepTests) -> Iterator[str]:
    found = retrained(results)
    yield from (f"{way}: {result.outcome}." for way, result in found.items())
    if not found and not any(one.refused for one in results):
        yield "Nothing was retrained: none of the systems is a torch network."


@question("RQ5: does retraining help?", table_9, _chart, text=(_texts,))
def rq5(results: DeepTests) -> str:
    """A network is trained further with fog and rain versions of some images, and tested on others."""
    found = retrained(results)
    if not found:
        return "it cannot be retrained" if any(one.refused for one in results) else "not run"
    answers = (f"{way}: {_describe(found[way])}" for way in (WHOLE, LEAK_FREE) if way in found)
    return ". ".join(answers) or f"there is no {LEAK_FREE} result"


def _describe(result: Retrained) -> str:
    if not result.best:
        return result.outcome
    shares = {_images(row): _share(row) for row in result.rows}
    errors = ", ".join(f"{name} {share:+.0%}" for name, share in shares.items() if share is not None)
    wet = [share for name, share in shares.items() if name != ORIGINAL]
    original = shares.get(ORIGINAL) or 0.0
    fine = bool(wet) and all(share is not None and share <= -BETTER for share in wet) and original <= WORSE
    goal = f"errors in fog and rain down by at least {BETTER:.0%}, the original error up by at most {WORSE:.0%}"
    grown = "" if original <= WORSE else f"; the original error grew by more than {WORSE:.0%}"
    return f"{errors} with pass {result.best}; the goal ({goal}) is {'' if fine else 'not '}reached{grown}"
