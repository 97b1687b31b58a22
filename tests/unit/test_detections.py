"""Heads of detectors become boxes: held against plain loops over the networks' own definitions."""

from __future__ import annotations

import math
import re
import time
import tomllib
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.config.toml import Builder
from swerve.core.encode import encode
from swerve.core.errors import InputError
from swerve.core.values import Array, Boxes2D
from swerve.systems.decoders import Decoder
from swerve.systems.detections import COLUMNS, EndToEnd, SeparateOutputs, Ssd, YoloV5, YoloV8, Yolox
from swerve.systems.detector import COCO, COCO_91, Detector, suppress_overlaps
from swerve.systems.preprocessing import ImageView

NAMES = ("car", "light", "sign")
VIEW = ImageView(np.zeros((64, 96, 3), np.uint8), (192, 100), (0.5, 0.5), (0.0, 7.0))  # 192x100, halved, 7 pixels above
PLAIN = ImageView(np.zeros((64, 96, 3), np.uint8), (96, 64))


def iou_of(one: Sequence[float], other: Sequence[float]) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(wide, 0) * max(high, 0)
    area = [max(box[2] - box[0], 0) * max(box[3] - box[1], 0) for box in (one, other)]
    union = area[0] + area[1] - shared
    return shared / union if union > 0 else 0.0


def plain_nms(boxes: Array, scores: Array, labels: Array | None, iou: float, most: int) -> list[int]:
    """Every box against every better one that was kept."""
    kept: list[int] = []
    rows = boxes.astype(float).tolist()  # Python's floats are the same numbers, in a tenth of the time
    for place in sorted(range(len(rows)), key=lambda place: (-scores[place], place)):
        rivals = [other for other in kept if labels is None or labels[other] == labels[place]]
        if all(iou_of(rows[place], rows[other]) <= iou for other in rivals):
            kept.append(place)
    return kept[:most]


def random_boxes(rng: np.random.Generator, count: int, wide: float = 96, high: float = 64) -> Array:
    corner = rng.uniform((-5, -5), (wide, high), (count, 2))
    return np.hstack([corner, corner + rng.uniform(2, 30, (count, 2))])


def centred(xyxy: Array) -> Array:
    return np.hstack([(xyxy[:, :2] + xyxy[:, 2:]) / 2, xyxy[:, 2:] - xyxy[:, :2]])


def plainly(
    rows: list[tuple[Array, float, int]], view: ImageView, detector: Detector
) -> list[tuple[str, float, list[float]]]:
    """Box, score and label of each row, said one after the other."""
    rows = [row for row in rows if row[1] > detector.score]
    boxes, scores, labels = (np.array([row[part] for row in rows]) for part in range(3))
    said = []
    for place in plain_nms(boxes, scores, None if detector.across else labels, detector.iou, detector.most):
        left, top, right, bottom = boxes[place]
        (sx, sy), (ox, oy), (width, height) = view.scale, view.shift, view.size
        ends = [(left - ox) / sx, (top - oy) / sy, (right - ox) / sx, (bottom - oy) / sy]
        box = [min(max(end, 0), most) for end, most in zip(ends, (width, height, width, height), strict=True)]
        if box[2] > box[0] and box[3] > box[1]:
            said.append((detector.kinds[labels[place]], float(scores[place]), box))
    return said


def check(made: Boxes2D, wanted: list[tuple[str, float, list[float]]]) -> None:
    assert made.fault() is None
    assert made.kinds == tuple(kind for kind, _, _ in wanted)
    assert np.allclose(made.scores, [score for _, score, _ in wanted], atol=1e-12)
    assert np.allclose(made.xyxy, np.array([box for _, _, box in wanted]).reshape(-1, 4), atol=1e-9)


@pytest.mark.parametrize(
    "table",
    [
        {
            "use": "swerve.systems.detections:Yolox",
            "kinds": "coco",
            "only": ["traffic light"],
            "strides": [8, 16],
            "iou": 0.65,
        },
        {"use": "swerve.systems.detections:SeparateOutputs", "kinds": list(NAMES), "rename": {"light": "lamp"}, "boxes": 0},
        {
            "use": "swerve.systems.detections:SeparateOutputs",
            "kinds": "coco-91",
            "count": "num",
            "order": "yxyx",
            "normalised": True,
        },
        {"use": "swerve.systems.detections:SeparateOutputs", "kinds": "coco", "first": 1},
        {"use": "swerve.systems.detections:Ssd", "kinds": "coco-91"},
        {"use": "swerve.systems.detections:EndToEnd", "kinds": "coco", "columns": ["batch", *COLUMNS], "first": 0},
        {"use": "swerve.systems.steps:Normalise", "mean": [123.0, 116.0, 103.0], "std": [58.0]},
        {
            "use": "swerve.systems.decoders:SteeringDecoder",
            "unit": 40,
            "positive": "left",
            "kind": "wheel",
            "output": "angle",
        },
    ],
    ids=lambda table: table["use"],
)
def test_tables_make_them(table: dict[str, Any]) -> None:
    made = Builder().component(table)
    assert Builder().component(encode(made)) == made


PAGE = (Path(__file__).parents[2] / "docs" / "systems.md").read_text()
ITEMS = re.findall(r"\| `(\{ use = .*? \})` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("item", ITEMS)
def test_page_makes_decoders(item: str) -> None:
    assert isinstance(Builder().component(tomllib.loads(f"item = {item}")["item"]), Detector)


def test_page_has_its_items() -> None:
    assert len(ITEMS) == 4


def test_coco_has_its_names() -> None:
    assert len(COCO) == len(set(COCO)) == 80
    assert (COCO[0], COCO[2], COCO[9], COCO[11], COCO[79]) == ("person", "car", "traffic light", "stop sign", "toothbrush")
    assert YoloV8(kinds="coco").kinds == COCO


def test_coco_has_its_own_numbers() -> None:
    """Ids of COCO's instances_val2017.json."""
    ids = {1: "person", 3: "car", 10: "traffic light", 11: "fire hydrant", 13: "stop sign", 25: "giraffe", 27: "backpack"}
    ids |= {28: "umbrella", 31: "handbag", 44: "bottle", 46: "wine glass", 62: "chair", 65: "bed", 67: "dining table"}
    ids |= {70: "toilet", 72: "tv", 82: "refrigerator", 84: "book", 90: "toothbrush"}
    assert {number: COCO_91[number] for number in ids} == ids
    assert len(COCO_91) == 91
    assert tuple(name for name in COCO_91 if name not in ("__background__", "N/A")) == COCO


def test_heads_are_decoders() -> None:
    for kind in (Yolox, YoloV5, YoloV8, Ssd, SeparateOutputs, EndToEnd):
        assert isinstance(kind(kinds=NAMES), Decoder)
        assert encode(kind(kinds="coco-91", rename={"car": "vehicle"}))["rename"] == {"car": "vehicle"}


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_yolox_by_its_definition(seed: int, across: bool) -> None:
    rng = np.random.default_rng(seed)
    detector = Yolox(kinds=NAMES, score=0.3, iou=0.3, across=across)
    cells = [(stride, x, y) for stride in (8, 16, 32) for y in range(64 // stride) for x in range(96 // stride)]
    raw = np.hstack([rng.normal(0, 1, (len(cells), 4)), rng.random((len(cells), 4))]).astype(np.float32)
    rows = []
    for (stride, column, row), numbers in zip(cells, raw.astype(float), strict=True):
        x, y = (numbers[0] + column) * stride, (numbers[1] + row) * stride
        w, h = math.exp(numbers[2]) * stride, math.exp(numbers[3]) * stride
        label = max(range(3), key=lambda kind: numbers[5 + kind])
        rows.append((np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]), numbers[4] * numbers[5 + label], label))
    wanted = plainly(rows, VIEW, detector)
    assert 3 < len(wanted) < len([row for row in rows if row[1] > 0.3])
    check(detector({"out": raw}, VIEW), wanted)


def test_yolox_cell_lies_in_its_row() -> None:
    """One bright cell at column 3, row 1 of stride 16: its box is centred there, 32 wide and 16 high."""
    raw = np.zeros((12 * 8 + 6 * 4 + 3 * 2, 8))
    raw[12 * 8 + 1 * 6 + 3] = [0.5, 0.25, math.log(2), 0, 0.9, 0.1, 1.0, 0.2]
    made = Yolox(kinds=NAMES)({"out": raw}, PLAIN)
    assert made.kinds == ("light",)
    assert made.scores == pytest.approx([0.9])
    assert np.allclose(made.xyxy, [[3.5 * 16 - 16, 1.25 * 16 - 8, 3.5 * 16 + 16, 1.25 * 16 + 8]])


@pytest.mark.parametrize("seed", range(5))
def test_yolov5_by_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    detector = YoloV5(kinds=NAMES, output="out", score=0.2)
    boxes, scores = random_boxes(rng, 60), rng.random((60, 4))
    rows = [(box, row[0] * max(row[1:]), int(np.argmax(row[1:]))) for box, row in zip(boxes, scores, strict=True)]
    check(detector({"aux": np.zeros(3), "out": np.hstack([centred(boxes), scores])}, VIEW), plainly(rows, VIEW, detector))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("count", [7, 60])  # 7: as many boxes as numbers, the exported way counts
def test_yolov8_by_its_definition(count: int, turned: bool) -> None:
    rng = np.random.default_rng(count)
    detector = YoloV8(kinds=NAMES, score=0.6)
    boxes, scores = random_boxes(rng, count), rng.random((count, 3))
    rows = [(box, max(row), int(np.argmax(row))) for box, row in zip(boxes, scores, strict=True)]
    head = np.hstack([centred(boxes), scores])
    check(detector({"out": head if turned and count != 7 else head.T}, VIEW), plainly(rows, VIEW, detector))


@pytest.mark.parametrize(("order", "columns"), [("xyxy", [0, 1, 2, 3]), ("yxyx", [1, 0, 3, 2])])
@pytest.mark.parametrize("background", [True, False])
def test_ssd_by_its_definition(order: str, columns: list[int], background: bool) -> None:
    rng = np.random.default_rng(3)
    detector = Ssd(kinds=NAMES, order=order, background=background, score=0.4)
    boxes, scores = random_boxes(rng, 30), rng.random((30, 3 + background))
    rows = [
        (boxes[place], scores[place, background + label], label) for place in range(30) for label in range(3)
    ]  # a box counts once for each kind
    outputs = {"boxes": (boxes / (96, 64, 96, 64))[:, columns], "scores": scores}
    check(detector(outputs, VIEW), plainly(rows, VIEW, detector))


@pytest.mark.parametrize(
    ("order", "box"), [("xywh", [10, 20, 30, 16]), ("cxcywh", [25, 28, 30, 16]), ("xyxy", [10, 20, 40, 36])]
)
def test_ssd_orders_mean_one_box(order: str, box: list[float]) -> None:
    outputs = {"b": np.array([box], float), "s": np.array([[0.1, 0.0, 0.9, 0.0]])}
    made = Ssd(kinds=NAMES, order=order, normalised=False, boxes="b", scores="s")(outputs, PLAIN)
    assert made == Boxes2D([[10, 20, 40, 36]], ("light",), [0.9], (96, 64))  # type: ignore[arg-type]


def test_dicts_say_what_they_hold() -> None:
    rng = np.random.default_rng(1)
    boxes, labels, scores = random_boxes(rng, 40), rng.integers(0, 3, 40), np.round(rng.random(40), 1)
    detector = SeparateOutputs(kinds=NAMES, score=0.3, most=25)
    outputs = {"scores": scores, "boxes": boxes, "labels": labels}
    wanted = plainly(list(zip(boxes, scores, labels, strict=True)), VIEW, detector)
    check(detector(outputs, VIEW), wanted)
    rows = np.column_stack([boxes, scores, labels])
    check(EndToEnd(kinds=NAMES, score=0.3, most=25)({"out": rows}, VIEW), wanted)
    shares = np.column_stack([boxes / (96, 64, 96, 64), scores, labels])
    check(EndToEnd(kinds=NAMES, score=0.3, most=25, normalised=True)({"out": shares}, VIEW), wanted)


@pytest.mark.parametrize("outputs", [{"out": np.zeros((0, 6))}, {"out": np.array([[1, 1, 9, 9, 0.1, 2]])}])
def test_nothing_found_is_an_answer(outputs: dict[str, Array]) -> None:
    made = EndToEnd(kinds=NAMES)(outputs, PLAIN)
    assert (made.kinds, made.xyxy.shape, made.size, made.fault()) == ((), (0, 4), (96, 64), None)
    none = {"boxes": np.zeros((0, 4)), "labels": np.zeros(0), "scores": np.zeros(0)}
    assert SeparateOutputs(kinds=NAMES)(none, PLAIN) == made


def said(*rows: tuple[float, ...], **options: Any) -> Boxes2D:
    return EndToEnd(**{"kinds": NAMES, **options})({"out": np.array(rows, float)}, PLAIN)


def listed(boxes: Any, labels: Any, scores: Any = 0.9, count: Any = None, **options: Any) -> Boxes2D:
    given = {"boxes": np.array(boxes, float), "labels": np.array(labels), "scores": np.full(len(boxes), scores)}
    if count is not None:
        given["num"] = np.array(count, float)
        options["count"] = "num"
    return SeparateOutputs(**{"kinds": NAMES, **options})(given, PLAIN)


BOX = [10, 20, 40, 36]


@pytest.mark.parametrize(
    ("options", "light"),
    [
        ({"kinds": "coco-91"}, 10),  # torchvision, TensorFlow
        ({"kinds": "coco-91", "first": -1}, 9),  # TensorFlow Lite
        ({"kinds": "coco", "first": 1}, 10),  # ONNX zoo's SSD: 80 kinds after a background
        ({"kinds": "coco", "first": 0}, 9),
        ({"kinds": COCO}, 9),
        ({"kinds": ("__background__", *COCO)}, 10),
    ],
    ids=str,
)
def test_labels_count_as_told(options: dict[str, Any], light: int) -> None:
    assert listed([BOX], [light], **options).kinds == ("traffic light",)
    assert listed([BOX], [light], only=("traffic light",), **options).kinds == ("traffic light",)
    assert said((*BOX, 0.9, light), **options).kinds == ("traffic light",)
    assert listed([BOX], [light + 1], only=("traffic light",), **options).kinds == ()


def test_coco_labels_must_say_how_they_count() -> None:
    with pytest.raises(InputError, match=r"set kinds = 'coco-91' .* first = 1 .* or first = 0$") as told:
        SeparateOutputs(kinds="coco")
    assert len(str(told.value)) <= 300


@pytest.mark.parametrize(("label", "name"), [(0, "__background__"), (12, "N/A"), (83, "N/A")])
def test_gaps_are_no_kinds(label: int, name: str) -> None:
    with pytest.raises(InputError, match=f"^a box has the class number {label}, which 'kinds' calls '{name}'"):
        listed([BOX, BOX], [1, label], kinds="coco-91", only=("car",))
    assert listed([BOX, BOX], [1, label], [0.9, 0.2], kinds="coco-91").kinds == ("person",)


@pytest.mark.parametrize("label", [0, 4, 91])
def test_numbers_are_told_as_the_network_counts(label: int) -> None:
    with pytest.raises(InputError, match=f"^a box has the class number {label}, but 'kinds' names only 1 to 3$"):
        listed([BOX], [label], first=1)


@pytest.mark.parametrize("background", [True, False])
def test_ssd_reads_the_background_in_kinds(background: bool) -> None:
    scores = np.zeros((1, 91))
    scores[0, [0, 10]] = 0.4, 0.6
    outputs = {"b": np.array([[0.1, 0.1, 0.5, 0.5]]), "s": scores}
    if background:
        assert Ssd(kinds="coco-91")(outputs, PLAIN).kinds == ("traffic light",)
    else:
        with pytest.raises(InputError, match="a box has the class number 0, which 'kinds' calls '__background__'"):
            Ssd(kinds="coco-91", background=False)(outputs, PLAIN)


@pytest.mark.parametrize(("order", "columns"), [("xyxy", [0, 1, 2, 3]), ("yxyx", [1, 0, 3, 2])])
@pytest.mark.parametrize("count", [None, 40, 25, 0, [25.0]])
def test_lists_of_shares_by_their_definition(order: str, columns: list[int], count: Any) -> None:
    rng = np.random.default_rng(1)
    boxes, labels, scores = random_boxes(rng, 40), rng.integers(0, 3, 40), rng.random(40)
    options = {"order": order, "normalised": True, "first": 1, "count": None if count is None else "num"}
    detector = SeparateOutputs(kinds=NAMES, score=0.3, **options)  # type: ignore[arg-type]
    shares = (boxes / (96, 64, 96, 64))[:, columns]
    outputs = {"num": np.array(count or 0), "scores": scores, "labels": labels + 1.0, "boxes": shares}
    rows = list(zip(boxes, scores, labels, strict=True))[: 40 if count is None else int(np.sum(count))]
    check(detector(outputs, VIEW), plainly(rows, VIEW, detector))


def test_rows_beyond_the_count_are_not_looked_at() -> None:
    rows = [BOX, [math.nan] * 4, [math.inf] * 4]
    made = listed(rows, [1, 77, -5], [0.9, 5.0, math.nan], 1)
    assert (made.kinds, made.xyxy.tolist(), made.fault()) == (("light",), [BOX], None)
    assert listed(rows[:2], [1, 1], 0.9, 2).fault()


@pytest.mark.parametrize("count", [-1, 3, 1.5, math.nan, [1, 1], []])
def test_counts_that_cannot_be_are_refused(count: Any) -> None:
    with pytest.raises(InputError, match=r"^output 'num' must be a count of 0 to 2 rows, got "):
        listed([BOX, BOX], [1, 1], 0.9, count)


SHARE = [0.1, 0.3, 0.4, 0.55]


@pytest.mark.parametrize("rest", [SHARE, [-0.02, 0.5, 1.04, 1.0]])
def test_shares_are_no_pixels(rest: list[float]) -> None:
    told = "^all 2 boxes lie within the first pixel, so they must be fractions; set normalised = true$"
    with pytest.raises(InputError, match=told):
        listed([SHARE, rest], [1, 1])
    with pytest.raises(InputError, match=told):
        said((*SHARE, 0.9, 1), (*rest, 0.8, 1), (0, 0, 0, 0, 0, 0))
    with pytest.raises(InputError, match=told):
        Ssd(kinds=NAMES, normalised=False)({"b": np.array([SHARE, rest]), "s": np.full((2, 4), 0.5)}, PLAIN)
    assert listed([SHARE, rest], [1, 1], normalised=True).kinds == ("light", "light")


@pytest.mark.parametrize(
    ("rest", "score"), [([10, 10, 30, 30], 0.9), ([0, 0, 1.6, 1], 0.9), ([0, 0, 0, 0], 0.9), (SHARE, 0.1), ([0] * 4, 0.0)]
)
def test_small_boxes_are_pixels_among_others(rest: list[float], score: float) -> None:
    """One small box alone is strange but not impossible, and rows of zeros fill up."""
    assert listed([SHARE, rest], [1, 1], [0.9, score]).kinds[0] == "light"


@pytest.mark.parametrize("row", [(0, 0, 0, 0, -1, 0), (-1, -1, -1, -1, -1, -1), (5, 5, 9, 9, 0.9, -1), (5, 5, 9, 9, -1, 99)])
def test_rows_that_fill_up_are_left_out(row: tuple[float, ...]) -> None:
    assert said((*BOX, 0.9, 1), row, row).kinds == ("light",)
    assert said(row).kinds == ()
    assert listed([BOX, row[:4]], [1, row[5]], [0.9, row[4]]).kinds == ("light",)


def test_logits_do_not_pass_as_fillers() -> None:
    with pytest.raises(InputError, match=r"^a score is -0.9, expected 0 to 1"):
        said((*BOX, 0.9, 1), (5, 5, 9, 9, -0.9, 1))
    assert said((*BOX, 0.9, 1), (math.nan, 0, 0, 0, -1, -1)).fault()


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (("batch", "left", "top", "right", "bottom", "kind", "score"), (7, *BOX, 1, 0.9)),  # YOLOv7
        (("kind", "score", "left", "top", "right", "bottom"), (1, 0.9, *BOX)),  # MXNet
        (("top", "left", "bottom", "right", "score", "kind"), (20, 10, 36, 40, 0.9, 1)),
    ],
)
def test_columns_are_read_by_name(columns: tuple[str, ...], row: tuple[float, ...]) -> None:
    assert said(row, columns=columns) == said((*BOX, 0.9, 1))


@pytest.mark.parametrize("columns", [COLUMNS[:5], (*COLUMNS, "kind"), (*COLUMNS[:4], "socre", "kind"), ()])
def test_columns_must_be_complete(columns: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"^'columns' must name each of left, top, right, bottom, score, kind once, got"):
        EndToEnd(kinds=NAMES, columns=columns)


def test_kinds_are_chosen_and_renamed() -> None:
    rows = [(0, 0, 9, 9, 0.9, 0), (0, 0, 9, 9, 0.8, 1), (0, 0, 9, 9, 0.7, 2)]
    assert said(*rows, only=("light", "sign"), rename={"sign": "plate"}).kinds == ("light", "plate")
    assert said(*rows, iou=0.5).kinds == NAMES
    assert said(*rows, iou=0.5, across=True).kinds == ("car",)
    assert said(*rows, only=("sign",), iou=0.5, across=True).kinds == ("sign",)
    assert said(*rows, most=2).kinds == ("car", "light")


def test_scores_count_above_the_limit() -> None:
    assert said((0, 0, 9, 9, 0.25, 0)).kinds == ()
    assert said((0, 0, 9, 9, 0.2500001, 0)).kinds == ("car",)
    assert said((0, 0, 9, 9, 0.0, 0), score=0.0).kinds == ()


def test_boxes_are_clipped() -> None:
    assert said((-5, -6, 200, 300, 0.9, 0)).xyxy.tolist() == [[0, 0, 96, 64]]


@pytest.mark.parametrize(
    "box", [(100, 5, 120, 9), (-9, 5, -2, 9), (5, 64, 9, 70), (9, 5, 5, 9), (5, 9, 9, 5), (5, 5, 5, 9), (5, 9, 9, 9)]
)
def test_boxes_that_show_nothing_are_left_out(box: tuple[float, ...]) -> None:
    assert said((*box, 0.9, 0), (5, 5, 9, 9, 0.8, 1)).kinds == ("light",)


def test_doubled_boxes_go_by_suppression() -> None:
    twice = [(5, 5, 9, 9, 0.9, 0), (5, 5, 9, 9, 0.9, 0)]
    assert said(*twice).kinds == ("car", "car")
    assert said(*twice, iou=0.99).kinds == ("car",)
    head = np.array([[7, 7, 4, 4, 0.9, 0.9, 0, 0]] * 3)
    assert YoloV5(kinds=NAMES)({"out": head}, PLAIN).kinds == ("car",)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e10, -1e308])
@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("detector", [Yolox(kinds=NAMES), YoloV5(kinds=NAMES), YoloV8(kinds=NAMES)], ids=repr)
def test_broken_coordinates_are_found(detector: Any, column: int, number: float) -> None:
    """Even in a row whose score nobody would look at."""
    raw = np.zeros((126, 7 if isinstance(detector, YoloV8) else 8))
    assert detector({"out": raw}, PLAIN).fault() is None
    raw[100, column] = number
    assert detector({"out": raw}, PLAIN).fault()


@pytest.mark.parametrize("column", range(4, 8))
@pytest.mark.parametrize("kind", [Yolox, YoloV5])
def test_broken_scores_are_found(kind: Any, column: int) -> None:
    raw = np.zeros((126, 8))
    raw[100, column] = math.nan
    assert kind(kinds=NAMES)({"out": raw}, PLAIN).fault()
    for number in (math.inf, -math.inf, 1e308, 1.5, -0.2):
        raw[100, column] = number
        with pytest.raises(InputError, match=r"^a score is .*, expected 0 to 1"):
            kind(kinds=NAMES)({"out": raw}, PLAIN)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("kind", [Ssd, SeparateOutputs, EndToEnd])
def test_broken_lists_are_found(kind: Any, place: int) -> None:
    boxes, labels, scores = np.ones((5, 4)), np.ones(5), np.zeros(5)
    (boxes[3], labels[3:4], scores[3:4])[place][...] = math.nan
    outputs = {
        Ssd: {"b": boxes, "s": np.column_stack([labels * 0, scores, scores, scores])},
        SeparateOutputs: {"boxes": boxes, "labels": labels, "scores": scores},
        EndToEnd: {"out": np.column_stack([boxes, scores, labels])},
    }[kind]
    assert kind(kinds=NAMES)(outputs, PLAIN).fault()


def test_scores_are_rounded_into_range() -> None:
    assert said((0, 0, 9, 9, 1.0004, 0), (20, 20, 30, 30, -0.0004, 0)).scores.tolist() == [1.0]


@pytest.mark.parametrize("kind", [-2, 3, 1.5, 90])
def test_kinds_without_names_are_refused(kind: float) -> None:
    with pytest.raises(InputError, match=rf"^a box has the class number {kind:g}, but 'kinds' names only 0 to 2$"):
        said((0, 0, 9, 9, 0.9, kind))
    assert said((0, 0, 9, 9, 0.0, kind)).kinds == ()  # a row that only fills up


@pytest.mark.parametrize(
    ("detector", "outputs", "why"),
    [
        (Yolox(kinds=NAMES), {"o": np.zeros((125, 8))}, "output 0 has 125 rows, but an input of 96x64 has 126 cells"),
        (Yolox(kinds=NAMES), {"o": np.zeros((126, 85))}, "output 0 must be rows of 8 numbers .* it is 126x85"),
        (YoloV5(kinds=NAMES), {"o": np.zeros((0, 8))}, "must be rows of 8 numbers .* it is 0x8"),
        (YoloV5(kinds=NAMES), {"o": np.zeros((1, 9, 8))}, "it is 1x9x8"),
        (YoloV8(kinds=NAMES), {"o": np.zeros((8, 9))}, "must be rows of 7 numbers"),
        (YoloV8(kinds=NAMES), {"o": np.float64(3)}, "it is one number"),
        (Ssd(kinds=NAMES), {"b": np.zeros((5, 4)), "s": np.zeros((4, 4))}, "lengths differ: 5 boxes, 4 scores"),
        (Ssd(kinds=NAMES), {"b": np.zeros((5, 4))}, "the model has no output 1"),
        (
            SeparateOutputs(kinds=NAMES),
            {"boxes": np.zeros((2, 4)), "labels": np.zeros(3), "scores": np.zeros(2)},
            "2 boxes, 3 labels, 2 scores",
        ),
        (EndToEnd(kinds=NAMES), {"o": np.zeros((2, 7))}, "must be rows of 6 numbers"),
        (EndToEnd(kinds=NAMES, output="boxes"), {"box": np.zeros((2, 7))}, "did you mean 'box'"),
    ],
)
def test_wrong_outputs_are_refused(detector: Any, outputs: dict[str, Array], why: str) -> None:
    with pytest.raises(InputError, match=why):
        detector(outputs, PLAIN)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kinds": "voc"}, "'kinds' must be a list of one or more names, or one of coco, coco-91, got 'voc'"),
        ({"kinds": ()}, "'kinds' must be"),
        ({"kinds": (1, 2)}, "'kinds' must be"),
        ({"only": ("lihgt",)}, "did you mean 'light'"),
        ({"rename": {"bus": "car"}}, "the network has no kind 'bus'"),
        ({"score": 1.5}, "'score' must be a number from 0 to 1"),
        ({"iou": math.nan}, "'iou' must be a number from 0 to 1"),
        ({"most": 0}, "'most' must be a whole number"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        YoloV8(**{"kinds": NAMES, **options})


@pytest.mark.parametrize("kind", [Ssd, SeparateOutputs])
def test_unknown_orders_are_refused(kind: Any) -> None:
    with pytest.raises(InputError, match="did you mean 'cxcywh'"):
        kind(kinds=NAMES, order="cxywh")


@pytest.mark.parametrize("kind", [SeparateOutputs, EndToEnd])
def test_wrong_firsts_are_refused(kind: Any) -> None:
    for first in (True, 1.0, "1"):
        with pytest.raises(InputError, match=r"^'first' must be a whole number, got"):
            kind(kinds=NAMES, first=first)
    with pytest.raises(
        InputError, match=r"^'kinds' starts with '__background__', so the class numbers start at 0; remove first = 1$"
    ):
        kind(kinds="coco-91", first=1)


sets = st.lists(
    st.tuples(*[st.integers(0, 12)] * 4, st.integers(0, 4), st.integers(0, 2)), max_size=24
)  # whole numbers: many ties and many exact overlaps


@given(sets, st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), st.booleans(), st.integers(1, 30))
def test_suppression_is_the_plain_one(rows: list[tuple[int, ...]], iou: float, across: bool, most: int) -> None:
    numbers = np.array(rows, float).reshape(-1, 6)
    boxes, scores, labels = numbers[:, :4], numbers[:, 4] / 4, numbers[:, 5] * (not across)
    made = suppress_overlaps(boxes, scores, labels, iou=iou, most=most).tolist()
    assert made == plain_nms(boxes, scores, labels, iou, most)


@pytest.mark.parametrize("count", [256, 257, 520])
def test_blocks_leave_no_seam(count: int) -> None:
    rng = np.random.default_rng(count)
    boxes, scores, labels = random_boxes(rng, count, 300, 300), np.round(rng.random(count), 1), rng.integers(0, 3, count)
    whole = plain_nms(boxes, scores, labels, 0.3, count)
    for most in (5, count):
        assert suppress_overlaps(boxes, scores, labels, iou=0.3, most=most).tolist() == whole[:most]


def test_suppression_agrees_with_opencv() -> None:
    rng = np.random.default_rng(2)
    boxes, scores = random_boxes(rng, 300).round(), (rng.permutation(300) + 1) / 300
    sized = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]])
    theirs = cv2.dnn.NMSBoxes(sized.tolist(), scores.tolist(), 0.0, 0.4)
    assert suppress_overlaps(boxes, scores, np.zeros(300), iou=0.4, most=300).tolist() == list(theirs)


def test_equal_scores_keep_their_order() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [50, 50, 60, 60], [0, 0, 10, 10]], float)
    assert suppress_overlaps(boxes, np.full(4, 0.5), np.zeros(4), iou=0.5, most=9).tolist() == [0, 2]


@pytest.mark.parametrize("spread", [0.0, 3000.0])  # all on one place, and hardly two that touch
def test_100000_boxes_are_no_burden(spread: float) -> None:
    rng = np.random.default_rng(4)
    corner = rng.uniform(0, spread, (100_000, 2)) if spread else np.zeros((100_000, 2))
    head = np.hstack([corner + 5, np.full((100_000, 2), 10.0), rng.random((100_000, 4))]).astype(np.float32)
    view = ImageView(np.zeros((1, 1, 3), np.uint8), (4000, 4000), laid_out=(4000, 4000))
    tracemalloc.start()
    begin = time.process_time()
    made = YoloV5(kinds=NAMES, score=0.0)({"out": head}, view)
    spent, (_, most) = time.process_time() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made.kinds) == (300 if spread else 3)
    assert most < 100e6  # all pairs of 30,000 would take gigabytes
    assert spent < 20
