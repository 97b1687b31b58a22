"""YOLOX-nano on real frames: the steps and the head against YOLOX's own way of doing it, written down once more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.analysis.detection import average_precision
from swerve.core.case import Case
from swerve.core.values import Array, Boxes2D, Image
from swerve.systems.detections import Yolox
from swerve.systems.detector import COCO
from swerve.systems.preprocessing import ImageView, Preprocessing
from swerve.systems.steps import Bgr, Float, Letterbox

SIDE = 416
FRAMES = 20
PREPROCESSING = Preprocessing((Bgr(), Letterbox(SIDE, SIDE, at="top-left"), Float()))
LIGHT = "traffic light"
Rows = list[tuple[int, float, list[float]]]


def preproc(bgr: Array) -> tuple[Array, float]:
    """yolox/data/data_augment.py, preproc."""
    padded = np.ones((SIDE, SIDE, 3), dtype=np.uint8) * 114
    r = min(SIDE / bgr.shape[0], SIDE / bgr.shape[1])
    high, wide = int(bgr.shape[0] * r), int(bgr.shape[1] * r)
    padded[:high, :wide] = cv2.resize(bgr, (wide, high), interpolation=cv2.INTER_LINEAR).astype(np.uint8)
    return np.ascontiguousarray(padded.transpose(2, 0, 1), dtype=np.float32), r


def demo_postprocess(outputs: Array) -> Array:
    """yolox/utils/demo_utils.py, demo_postprocess."""
    grids, expanded = [], []
    for stride in (8, 16, 32):
        xv, yv = np.meshgrid(np.arange(SIDE // stride), np.arange(SIDE // stride))
        grids.append(np.stack((xv, yv), 2).reshape(-1, 2))
        expanded.append(np.full((len(grids[-1]), 1), stride))
    grid, stride = np.concatenate(grids), np.concatenate(expanded)
    decoded = outputs.astype(np.float64)
    decoded[:, :2] = (decoded[:, :2] + grid) * stride
    decoded[:, 2:4] = np.exp(decoded[:, 2:4]) * stride
    return decoded


def postprocess(decoded: Array, ratio: float, conf: float, nms: float, only: int | None) -> Rows:
    """yolox/utils/boxes.py, postprocess, its suppression as a plain loop within each kind; boxes clipped to 1280x720."""
    rows: Rows = []
    for cx, cy, w, h, objectness, *classes in decoded.tolist():
        kind = int(np.argmax(classes))
        score = objectness * classes[kind]
        if score > conf and only in (None, kind):
            rows.append((kind, score, [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]))
    kept: Rows = []
    for row in sorted(rows, key=lambda row: -row[1]):
        if all(iou(row[2], other[2]) <= nms for other in kept if other[0] == row[0]):
            kept.append(row)
    ends = (1280, 720, 1280, 720)
    return [(k, s, [min(max(at / ratio, 0), end) for at, end in zip(box, ends, strict=True)]) for k, s, box in kept]


def iou(one: list[float], other: list[float]) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(wide, 0.0) * max(high, 0.0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return shared / (areas - shared)


@pytest.fixture(scope="module")
def lights(data: Path) -> Path:
    if not (data / "lights").is_dir():
        pytest.skip("no real data: there is no folder lights")
    return data / "lights"


@pytest.fixture(scope="module")
def labels(lights: Path) -> Any:
    return json.loads((lights / "china-300" / "labels.json").read_text())


@pytest.fixture(scope="module")
def frames(lights: Path, labels: Any) -> list[tuple[Array, ImageView, Array]]:
    """The frame as BGR, what the network is shown of it, and what it puts out."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(lights / "yolox-nano" / "yolox_nano.onnx"), options)
    name = session.get_inputs()[0].name
    found = []
    for image in labels["images"][:: len(labels["images"]) // FRAMES][:FRAMES]:
        bgr = cv2.imread(str(lights / "china-300" / "images" / image["file_name"]))
        view = PREPROCESSING(Case(image["file_name"], {"camera": Image(np.ascontiguousarray(bgr[..., ::-1]))}))
        found.append((bgr, view, session.run(None, {name: view.numbers[np.newaxis]})[0][0]))
    return found


def test_network_is_shown_the_same(frames: list[tuple[Array, ImageView, Array]]) -> None:
    for bgr, view, _ in frames:
        theirs, ratio = preproc(bgr)
        assert np.array_equal(view.numbers, theirs)
        assert view.scale == pytest.approx((ratio, ratio), abs=1e-12)


@pytest.mark.parametrize(("only", "score", "nms"), [(None, 0.25, 0.45), (9, 0.001, 0.65), (None, 0.01, 0.65)])
def test_boxes_are_the_same(
    frames: list[tuple[Array, ImageView, Array]], only: int | None, score: float, nms: float
) -> None:
    names = () if only is None else (COCO[only],)
    detector = Yolox(kinds="coco", only=names, score=score, iou=nms)
    total = 0
    for bgr, view, head in frames:
        theirs = postprocess(demo_postprocess(head), preproc(bgr)[1], score, nms, only)[: detector.most]
        ours = detector({"output": head}, view)
        assert ours.kinds == tuple(COCO[kind] for kind, _, _ in theirs)
        assert np.allclose(ours.scores, [row[1] for row in theirs], atol=1e-12)
        assert np.allclose(ours.xyxy, np.array([row[2] for row in theirs]).reshape(-1, 4), atol=1e-6)
        total += len(theirs)
    assert total > FRAMES


def test_lights_are_where_the_labels_say(labels: Any, frames: list[tuple[Array, ImageView, Array]]) -> None:
    """Of a network that is right about one in ten, and of none that looks at a shifted or a mirrored picture."""
    shown = labels["images"][:: len(labels["images"]) // FRAMES][:FRAMES]
    truth = [labelled(labels, image["id"]) for image in shown]
    detector = Yolox(kinds="coco", only=(LIGHT,), score=0.001, iou=0.65)
    said = [detector({"output": head}, view) for _, view, head in frames]
    right = average_precision(truth, said).mean or 0.0
    assert 0.05 < right < 0.25
    for wrong in ([Boxes2D(boxes.xyxy + 20, boxes.kinds, boxes.scores) for boxes in said], said[::-1]):
        assert (average_precision(truth, wrong).mean or 0.0) < right / 3


def labelled(labels: Any, image: int) -> Boxes2D:
    boxes = [item["bbox"] for item in labels["annotations"] if item["image_id"] == image]
    xywh = np.array(boxes, float).reshape(-1, 4)
    return Boxes2D(np.hstack([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]]), (LIGHT,) * len(boxes))
