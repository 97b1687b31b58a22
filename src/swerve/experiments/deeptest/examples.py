"""Examples of violations: image and follow-up side by side, with the answers as arrows."""
#

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from swerve.analysis.oracle import Oracle
from swerve.core.values import Array
from swerve.experiments.deeptest.subject_runs import DeepTestRuns
from swerve.experiments.deeptest.violations import EPSILON, FACTOR
from swerve.report.experiment_page import PicturePanel, Section
from swerve.store.record_json import record_of
from swerve.store.view import Run
from swerve.transformations.photometric import images_of

EACH = 6  # examples of a system
BLUE, RED, GREEN = (40, 90, 255), (235, 40, 40), (40, 180, 70)
HIGH = 270  # pixels of a picture
STEEPEST = 80.0  # degrees from upright


def section(all_tested: Sequence[DeepTestRuns]) -> Section:
    """The worst violation that each kind of change introduced."""
    parts = tuple(made for tested in all_tested if (made := _pictures(tested)).items)
    text = (
        "Left: the image; right: its follow-up. Blue: the answer to the image; red: to the follow-up; green: the label. "
        "Each is the worst violation that a change introduced: the answer to the untouched image was within the limit.",
    )
    return Section("Examples of violations", text, parts, f"λ = {FACTOR}, simple changes with ε = {EPSILON:g}")


def _pictures(tested: DeepTestRuns) -> PicturePanel:
    rows = sorted(_worst(tested), key=lambda row: -row["margin"])[:EACH]
    items = tuple((_caption(row), _picture(tested, row)) for row in rows)
    return PicturePanel(tested.name, items, across=2)


def _worst(tested: DeepTestRuns) -> Iterator[Mapping[str, Any]]:
    """The worst introduced violation of each rule; simple changes must pass Eq. 3."""
    if tested.oracle is None:
        return
    admitted = _admitted(tested, tested.oracle)
    runs: list[Run] = [tested.simple, tested.weather]
    if tested.guidance:
        runs.append(tested.guidance.guided[0])
    for run in runs:
        best: dict[str, Mapping[str, Any]] = {}
        for row in run.trials():
            counts = row["status"] == "violated" and row["introduced"] is True
            if not counts or (run is tested.simple and (row["rule"], row["words"]) not in admitted):
                continue
            if row["rule"] not in best or row["margin"] > best[row["rule"]]["margin"]:
                best[row["rule"]] = row
        yield from best.values()


def _admitted(tested: DeepTestRuns, oracle: Oracle) -> set[tuple[str, str]]:
    kept = oracle.kept(tested.angles, EPSILON)
    return {change for change, keep in zip(tested.angles.changes, kept, strict=True) if keep}


def _caption(row: Mapping[str, Any]) -> str:
    return f"{row['rule']}: {row['words']}. {row['why']}"


def _picture(tested: DeepTestRuns, row: Mapping[str, Any]) -> Array:
    record = record_of(dict(row))
    assert record.change
    case = tested.subject.source[record.trial.case]
    both = [list(images_of(one))[-1].pixels for one in (case, record.change(case))]
    angles = [_degrees(values) for values in (row["before"], row["after"], row["truth"])]
    sides = [_resized(pixels) for pixels in both]
    _arrows(sides[0], ((angles[2], GREEN), (angles[0], BLUE)))
    _arrows(sides[1], ((angles[2], GREEN), (angles[0], BLUE), (angles[1], RED)))
    return np.hstack(sides)


def _degrees(values: Sequence[Mapping[str, Any]]) -> float | None:
    return next((float(value["degrees"]) for value in values if value["slot"] == "steering"), None)


def _resized(pixels: Array) -> Array:
    wide = round(pixels.shape[1] * HIGH / pixels.shape[0])
    return np.ascontiguousarray(cv2.resize(pixels, (wide, HIGH), interpolation=cv2.INTER_AREA))


def _arrows(pixels: Array, angles: Sequence[tuple[float | None, tuple[int, int, int]]]) -> None:
    """Arrows from the lower edge: straight up for 0°, to the left for positive degrees of the wheel."""
    height, width = pixels.shape[:2]
    foot, length = (width // 2, height - 6), height * 0.45
    for degrees, colour in angles:
        if degrees is None:
            continue
        turn = math.radians(min(max(degrees, -STEEPEST), STEEPEST))
        tip = round(foot[0] - length * math.sin(turn)), round(foot[1] - length * math.cos(turn))
        cv2.arrowedLine(pixels, foot, tip, (255, 255, 255), 6, cv2.LINE_AA, tipLength=0.12)
        cv2.arrowedLine(pixels, foot, tip, colour, 3, cv2.LINE_AA, tipLength=0.12)
