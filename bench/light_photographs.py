"""Photographs changed in TigAug's ways, and the errors of a light detector on photographs, as pictures to look at.

One sheet for each change shows lights of several frames, before on the left and after it on the right. With --weights, such
as those of `swerve retrain examples/photographs.toml`, the test frames with the most errors are written: labels in green,
answers in red; before on the left, with those weights on the right.

    python bench/light_photographs.py FOLDER --into DIR [--each 4] [--changes NAME ...] [--weights FILE --split CSV]
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import torch

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.system import System
from swerve.core.values import Array, Boxes2D, Image, find
from swerve.relations.boxes import BoxesAlike, placed_by
from swerve.sources.coco import Coco
from swerve.store.files import png_bytes
from swerve.testing.fakes import FakeSystem
from swerve.transformations.light_changes import LIGHTS as OF_LIGHTS
from swerve.transformations.light_changes import twelve
from swerve.zoo.lights.light_detectors import LIGHTS

SHOWN, LEAST_SCORE = 6, 0.3
SIDE = 260  # pixels of a window around a light, magnified to twice that
GREEN, RED = (40, 180, 70), (235, 40, 40)


def pixels_of(case: Case) -> Array:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels


def boxes_of(case: Case) -> Boxes2D:
    label = find(case.truth, Boxes2D.slot)
    assert isinstance(label, Boxes2D)
    return label


def sheet(source: Coco, name: str, each: int) -> tuple[Array, list[str]]:
    """Windows around a changed light of some frames, before and after a change; and what was done."""
    rows, words = [], []
    keys = list(source.keys())
    for key in keys[rng_for("sheet", name).integers(20) :: max(len(keys) // (2 * each), 1)]:
        case = source[key]
        try:
            change = twelve()[name].propose(case, rng_for("sheet", name, key), FakeSystem())
            followup = change(case)
        except NotApplicable:
            continue
        placed = placed_by(change)
        boxes = placed if placed is not None else boxes_of(followup)
        largest = max(boxes.xyxy.tolist(), key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))
        rows.append(np.hstack([window(pixels_of(one), largest) for one in (case, followup)]))
        words.append(f"{name}, {key}: {change.words()}")
        if len(rows) == each:
            break
    return np.vstack(rows), words


def window(pixels: Array, box: Sequence[float]) -> Array:
    """The square around a box, magnified."""
    side = max(SIDE, int(3 * (box[3] - box[1])))
    left, top = (int(np.clip((box[n] + box[n + 2]) / 2 - side / 2, 0, pixels.shape[1 - n] - side)) for n in (0, 1))
    return cv2.resize(pixels[top : top + side, left : left + side], (2 * SIDE, 2 * SIDE), interpolation=cv2.INTER_CUBIC)


def errors(systems: Sequence[System], cases: Sequence[Case]) -> Iterator[tuple[Array, str]]:
    """The frames with the most errors of the last system, with the answers of all."""
    compare = BoxesAlike(least_score=LEAST_SCORE)
    rated = []
    for case in cases:
        answers = [find(system([case])[0], Boxes2D.slot) for system in systems]
        assert isinstance(answers[-1], Boxes2D)
        verdict = compare.compare(boxes_of(case), answers[-1])
        rated.append((float(verdict.margin or 0), case, answers, verdict.why))
    for _, case, answers, why in sorted(rated, key=lambda one: -one[0])[:SHOWN]:
        drawn = [with_boxes(pixels_of(case), boxes_of(case), answer) for answer in answers if isinstance(answer, Boxes2D)]
        yield np.hstack(drawn), f"{case.key}: {why}"


def with_boxes(pixels: Array, label: Boxes2D, answer: Boxes2D) -> Array:
    drawn = np.array(pixels)
    for boxes, colour in ((label, GREEN), (answer, RED)):
        for corners, score in zip(boxes.xyxy.round().astype(int).tolist(), np.asarray(boxes.scores), strict=True):
            if colour == GREEN or score >= LEAST_SCORE:
                cv2.rectangle(drawn, tuple(corners[:2]), tuple(corners[2:]), colour, 2)
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--changes", nargs="*", default=list(OF_LIGHTS), choices=list(twelve()))
    parser.add_argument("--detector", default="lights-yolox", choices=list(LIGHTS))
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--split", type=Path, help="tables/split.csv of that retraining")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    options.into.mkdir(parents=True, exist_ok=True)
    source = Coco(options.folder)
    for name in options.changes:
        pixels, words = sheet(source, name, options.each)
        (options.into / f"{name}.png").write_bytes(png_bytes(pixels))
        print("\n".join(words))
    if options.weights and options.split:
        with options.split.open(newline="") as file:
            tested = [row["case"] for row in csv.DictReader(file) if row["side"] == "test"]
        kind = LIGHTS[options.detector]
        systems = (kind(score=0.0), kind(options.weights, score=0.0))
        for place, (pixels, why) in enumerate(errors(systems, [source[key] for key in tested])):
            (options.into / f"error-{place}.png").write_bytes(png_bytes(pixels))
            print(f"error-{place}.png: {why}")


if __name__ == "__main__":
    main()
