"""A light detector of the zoo on photographs, before and after it is trained further with some of them.

The first frames of a COCO set are trained with, the next validate, the last test. Printed are mAP@[.50:.95] before and after
with 95% bootstrap intervals, on untouched frames and after some of TigAug's changes, and what each change costs. With
--pictures, the test frames with the most errors are written there: labels in green, answers in red.

    python bench/light_photographs.py FOLDER [--train 200] [--val 20] [--test 80] [--passes 3] [--pictures DIR]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import torch

from swerve.analysis.precision_drop import PicturePair, PrecisionDrop, precision_drop
from swerve.analysis.statistics import Estimate
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.system import System
from swerve.core.values import Boxes2D, Image, find
from swerve.relations.boxes import BoxesAlike
from swerve.sources.coco import Coco
from swerve.store.files import png_bytes
from swerve.systems.weights import load
from swerve.train.detectors import DetectorRecipe, train_detector
from swerve.train.labelled_pictures import CropRecipe
from swerve.train.loop import save_weights
from swerve.transformations.light_changes import twelve
from swerve.zoo.lights.light_detectors import LIGHTS, light_net, packaged
from swerve.zoo.lights.light_frames import KINDS

SHOWN = 6
RECIPE = DetectorRecipe(repeats=1, batch=12, rate=5e-4, average=0.95, bfloat16=True, crops=CropRecipe(side=256, mosaic=0.25))
GREEN, RED = (40, 180, 70), (235, 40, 40)


class Some:
    """Some of the frames of a source."""

    def __init__(self, source: Coco, keys: Sequence[str]) -> None:
        self.source, self.chosen = source, list(keys)

    def keys(self) -> Sequence[str]:
        return self.chosen

    def __getitem__(self, key: str) -> Case:
        return self.source[key]

    def fingerprint(self) -> str:
        return self.source.fingerprint()


def boxes_of(case: Case) -> Boxes2D:
    label = find(case.truth, Boxes2D.slot)
    assert isinstance(label, Boxes2D)
    return label


def answer_of(system: System, case: Case) -> Boxes2D:
    answer = find(system([case])[0], Boxes2D.slot)
    assert isinstance(answer, Boxes2D)
    return answer


def followups(cases: Sequence[Case], change: str) -> Iterator[tuple[Case, Case]]:
    """The cases that a change applies to, with their follow-ups."""
    space = twelve()[change]
    for case in cases:
        try:
            yield case, space.propose(case, rng_for("photographs", change, case.key), LIGHTS["lights-yolox"]())(case)
        except NotApplicable:
            continue


def shown(estimate: Estimate, form: str = ".3f") -> str:
    if estimate.value is None:
        return "unknown"
    ends = f" ({estimate.low:{form}} to {estimate.high:{form}})" if estimate.low is not None else ""
    return f"{estimate.value:{form}}{ends}"


def compare(systems: Sequence[System], cases: Sequence[Case], changes: Sequence[str]) -> Iterator[str]:
    """Lines about both systems on untouched frames, and on the follow-ups of each change."""
    seen = {case.key: [answer_of(system, case) for system in systems] for case in cases}
    label = {case.key: boxes_of(case) for case in cases}
    gain = precision_drop([PicturePair(key, label[key], before, label[key], after) for key, (before, after) in seen.items()])
    yield line(f"untouched, {len(cases)} frames", gain)
    for change in changes:
        pairs: list[list[PicturePair]] = [[], [], []]
        for case, followup in followups(cases, change):
            now = [answer_of(system, followup) for system in systems]
            mapped = boxes_of(followup)
            for place, (then, answer) in enumerate(zip(seen[case.key], now, strict=True)):
                pairs[place].append(PicturePair(case.key, label[case.key], then, mapped, answer))
            pairs[2].append(PicturePair(case.key, mapped, now[0], mapped, now[1]))
        losses = [shown(precision_drop(some).drop, ".1%") for some in pairs[:2]]
        found = line(f"{change}, {len(pairs[2])} frames", precision_drop(pairs[2]))
        yield f"{found}; the change costs {' and '.join(losses)}"


def line(what: str, gain: PrecisionDrop) -> str:
    return f"{what}: mAP {shown(gain.before)} before, {shown(gain.after)} after further training"


def write_errors(system: System, cases: Sequence[Case], folder: Path) -> None:
    """The frames with the most errors of the boxes that a verdict counts."""
    folder.mkdir(parents=True, exist_ok=True)
    compare = BoxesAlike(least_score=0.3)
    rated = []
    for case in cases:
        answer = answer_of(system, case)
        verdict = compare.compare(boxes_of(case), answer)
        rated.append((float(verdict.margin or 0), case, replace(answer), verdict.why))
    rated.sort(key=lambda one: -one[0])
    for place, (_, case, answer, why) in enumerate(rated[:SHOWN]):
        image = case.inputs["camera"]
        assert isinstance(image, Image)
        pixels = np.array(image.pixels)
        for boxes, colour in ((boxes_of(case), GREEN), (answer, RED)):
            for (left, top, right, bottom), score in zip(
                boxes.xyxy.round().astype(int), np.asarray(boxes.scores), strict=True
            ):
                if colour == GREEN or score >= 0.3:
                    cv2.rectangle(pixels, (int(left), int(top)), (int(right), int(bottom)), colour, 2)
        (folder / f"{place}.png").write_bytes(png_bytes(pixels))
        print(f"{folder / f'{place}.png'}: {case.key}: {why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, usual in (("train", 200), ("val", 20), ("test", 80), ("passes", 3)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--detector", default="lights-yolox", choices=list(LIGHTS))
    parser.add_argument("--changes", nargs="*", default=["fog", "colour", "rotate"], choices=list(twelve()))
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    source = Coco(options.folder)
    keys = list(source.keys())
    parts = np.cumsum([0, options.train, options.val, options.test])
    train, val, test = (Some(source, keys[start:end]) for start, end in pairwise(parts))
    net = load(lambda: light_net(options.detector), packaged(options.detector))
    recipe = replace(RECIPE, passes=options.passes, patience=options.passes)
    fitted = train_detector(net, train, val, kinds=KINDS, recipe=recipe, initial=True)
    print(f"{len(train.keys())} frames, pass {fitted.best} of {options.passes} kept, {fitted.minutes:.1f} CPU minutes")
    kind = LIGHTS[options.detector]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tuned.safetensors"
        save_weights(net, file)
        before, after = kind(score=0.0), kind(file, score=0.0)
        cases = [test[key] for key in test.keys()]
        for text in compare((before, after), cases, options.changes):
            print(text)
        if options.pictures:
            write_errors(after, cases, options.pictures)


if __name__ == "__main__":
    main()
