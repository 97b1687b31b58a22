"""R20 and R22: whatever a system says, it is a sound answer or a typed ERROR; never held, violated or a traceback.

100,000 random box sets with SWERVE_SOAK=1, 2,000 otherwise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from swerve.analysis.detection import average_precision
from swerve.core.case import Case
from swerve.core.relation import Fault, Status, Verdict
from swerve.core.seeding import rng_for
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Boxes3D, Image, Signal, Steering, Value
from swerve.execution.answers import answer_all
from swerve.systems.decoders import SteeringDecoder
from swerve.systems.detections import EndToEnd, SeparateOutputs, Ssd, YoloV5, YoloV8, Yolox
from swerve.systems.detector import Detector
from swerve.systems.function import FunctionSystem
from swerve.systems.preprocessing import ImageView

SETS = 100_000 if os.environ.get("SWERVE_SOAK") == "1" else 2_000
SETS_AT_ONCE = 100
HEADS: tuple[type[Detector], ...] = (EndToEnd, SeparateOutputs, YoloV5, YoloV8, Ssd, Yolox)
ROUNDS = math.ceil(SETS / len(HEADS) / SETS_AT_ONCE)
BAD = (
    *("nan", "inf", "minus inf", "none", "string", "wrong shape", "empty", "complex", "1e308", "object"),
    *("too few rows", "too many rows", "wrong type"),
)
NUMBERS = {"nan": math.nan, "inf": math.inf, "minus inf": -math.inf, "1e308": 1e308}
NAMES = ("car", "light")
CASES = [Case(f"case {number}", {"speed": Signal("speed", number)}) for number in range(3)]
VIEW = ImageView(np.zeros((32, 64, 3), np.uint8), (64, 32))
# The warnings of a system's own code are not errors outside of tests.
pytestmark = pytest.mark.filterwarnings("ignore")


def spoiled(sound: Array, kind: str) -> Any:
    """What a network put out, once it is broken in one way."""
    rows = np.atleast_2d(sound)
    if kind in NUMBERS:
        broken = sound.astype(float)
        broken.reshape(-1)[-1 if sound.ndim == 1 else 2] = NUMBERS[kind]  # 2: a coordinate of the first box
        return broken
    return {
        "none": None,
        "string": "left",
        "wrong shape": sound[np.newaxis, np.newaxis, ..., :-1],
        "empty": np.zeros(0),
        "complex": sound + 1j,
        "object": object(),
        "too few rows": rows[:-1],
        "too many rows": np.vstack([rows, rows]),
        "wrong type": {"said": sound},
    }[kind]


TASKS: Mapping[str, tuple[Array, Callable[[Any], Value]]] = {
    "steering": (np.array([3.0]), lambda raw: Steering(raw.item() if isinstance(raw, np.ndarray) else raw)),
    "boxes2d": (np.array([[1.0, 2, 9, 9], [4, 4, 8, 8]]), lambda raw: Boxes2D(raw, NAMES)),
    "boxes3d": (np.array([[1.0, 2, 3, 4, 2, 1, 0], [9, 2, 3, 4, 2, 1, 0]]), lambda raw: Boxes3D(raw, NAMES)),
}
WRAPPED = [(task, kind) for task in TASKS for kind in BAD]


def head(rows: int, width: int) -> Array:
    return np.hstack([np.tile([1.0, 1.0, 9.0, 9.0], (rows, 1)), np.full((rows, width - 4), 0.9)])


DECODERS: Mapping[str, tuple[Any, Mapping[str, Array], str]] = {
    "steering": (SteeringDecoder(unit="radians", positive="left", kind="wheel"), {"out": np.array([0.5])}, "out"),
    "yolox": (Yolox(kinds=NAMES), {"out": head(42, 7)}, "out"),
    "yolov5": (YoloV5(kinds=NAMES), {"out": head(9, 7)}, "out"),
    "yolov8": (YoloV8(kinds=NAMES), {"out": head(9, 6)}, "out"),
    "ssd": (Ssd(kinds=NAMES, normalised=False), {"b": head(9, 4), "s": np.full((9, 3), 0.5)}, "b"),
    "ssd scores": (Ssd(kinds=NAMES, normalised=False), {"b": head(9, 4), "s": np.full((9, 3), 0.5)}, "s"),
    "dicts": (SeparateOutputs(kinds=NAMES), {"boxes": head(9, 4), "labels": np.ones(9), "scores": np.full(9, 0.5)}, "boxes"),
    "dicts scores": (
        SeparateOutputs(kinds=NAMES),
        {"boxes": head(9, 4), "labels": np.ones(9), "scores": np.full(9, 0.5)},
        "scores",
    ),
    "end to end": (EndToEnd(kinds=NAMES), {"out": np.array([[1, 1, 9, 9, 0.5, 1.0]] * 3)}, "out"),
}
# A head whose rows nobody counts may have any number of them.
UNCOUNTED = {(name, count) for name in ("yolov5", "yolov8", "end to end") for count in ("too few rows", "too many rows")}


def check_error(answer: Answer | Verdict) -> str:
    assert isinstance(answer, Verdict), f"passed as {answer}"
    assert (answer.status, answer.kind) == (Status.ERROR, Fault.MODEL)
    assert answer.margin is None
    assert 0 < len(answer.why) <= 300
    assert "\n" not in answer.why
    return answer.why


def among_good(say: Callable[[], Any], good: Answer) -> Answer | Verdict:
    """The answer of a system that is wrong about the second of three cases, and right about the others."""
    system = FunctionSystem(lambda case: say() if case is CASES[1] else good, "pilot")
    first, second, third = answer_all(system, CASES)
    assert first == third == good
    assert answer_all(system, CASES[1:2]) == [second]
    return second


@pytest.mark.parametrize("task", TASKS)
def test_sound_answers_pass(task: str) -> None:
    sound, make = TASKS[task]
    assert isinstance(among_good(lambda: make(sound), (make(sound),)), tuple)


@pytest.mark.parametrize(("task", "kind"), WRAPPED)
def test_bad_values_are_errors(task: str, kind: str) -> None:
    sound, make = TASKS[task]
    if (task, kind) == ("steering", "too few rows"):
        check_error(among_good(lambda: (), (make(sound),)))  # no angle at all
    else:
        check_error(among_good(lambda: make(spoiled(sound, kind)), (make(sound),)))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", BAD)
def test_bare_outputs_are_errors(task: str, kind: str) -> None:
    sound, make = TASKS[task]
    for wrap in (lambda raw: raw, lambda raw: (raw,), lambda raw: (make(sound), raw)):
        why = check_error(among_good(lambda wrap=wrap: wrap(spoiled(sound, kind)), (make(sound),)))
        assert "pilot must return a Value" in why


@pytest.mark.parametrize("task", TASKS)
def test_pictures_are_no_answers(task: str) -> None:
    sound, make = TASKS[task]
    check_error(among_good(lambda: Image(np.zeros((2, 2, 3), np.uint8)), (make(sound),)))
    check_error(among_good(lambda: (), (make(sound),)))


@pytest.mark.parametrize("count", [0, 1, 2, 4, 9])
def test_wrong_counts_are_errors(count: int) -> None:
    class Miscounting:
        def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
            return [(Steering(1.0),)] * count

        def fingerprint(self) -> str:
            return ""

    for answer in answer_all(Miscounting(), CASES):
        assert "answers to 3 cases" in check_error(answer)


OTHER_TYPES = (None, 3, "left", object(), np.float64(1), {1: 2, 2: 3, 3: 4}, [None] * 3, [[Steering(1)]] * 3)


@pytest.mark.parametrize("said", OTHER_TYPES, ids=range(len(OTHER_TYPES)))
def test_whole_answers_of_other_types_are_errors(said: Any) -> None:
    for answer in answer_all(lambda cases: said, CASES):  # type: ignore[arg-type]
        check_error(answer)


@pytest.mark.parametrize("name", DECODERS)
def test_sound_outputs_are_worded(name: str) -> None:
    decoder, outputs, _ = DECODERS[name]
    said = among_good(lambda: decoder(outputs, VIEW), (Steering(1.0),))
    assert isinstance(said, tuple)
    assert isinstance(said[0], Steering) or said[0].kinds  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in DECODERS for kind in BAD if (name, kind) not in UNCOUNTED]
)
def test_bad_outputs_are_errors(name: str, kind: str) -> None:
    decoder, outputs, which = DECODERS[name]
    raw = spoiled(outputs[which], kind)
    why = check_error(among_good(lambda: decoder({**outputs, which: raw}, VIEW), (Steering(1.0),)))
    told = (
        "output",
        "a score is",
        "the outputs must have one row for each box, but their lengths differ",
        "boxes2d",
        "steering",
    )
    assert why.startswith(told)


@pytest.mark.parametrize("name", DECODERS)
def test_missing_outputs_are_errors(name: str) -> None:
    decoder, _, _ = DECODERS[name]
    assert "the model has no output" in check_error(among_good(lambda: decoder({}, VIEW), (Steering(1.0),)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Boxes2D(np.array([["1", "2", "3", "4"]]), ("car",)),
        lambda: Boxes3D(np.array([["1"] * 7]), ("car",)),
        lambda: Boxes2D(np.ones((1, 4)), ("car",), np.array([1e308])),
        lambda: Boxes3D(np.ones((1, 7)), ("car",), np.array([1e308])),
    ],
)
def test_texts_and_endless_scores_are_errors(make: Callable[[], Value]) -> None:
    check_error(among_good(make, (Steering(1.0),)))


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("nothing to say")


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


class Moody(Steering):
    def fault(self) -> str | None:
        raise RuntimeError("nothing to say")


def raising(cases: Sequence[Case]) -> Sequence[Answer]:
    raise MuteError


@pytest.mark.parametrize("system", [lambda cases: [Mute()] * 3, lambda cases: [(Moody(1.0),)] * 3, raising])
def test_objects_that_break_when_told_are_errors(system: Any) -> None:
    for answer in answer_all(system, CASES):
        check_error(answer)


def drawn(rng: np.random.Generator) -> Array:
    """Rows of left, top, right, bottom, score and kind; some of them as no detector should say them."""
    count = int(rng.choice([0, 1, 2, 5, 20, 60]))
    corner = rng.uniform(-20, 84, (count, 2))
    rows = np.column_stack([corner, corner + rng.uniform(-5, 30, (count, 2)), rng.random(count), rng.integers(0, 2, count)])
    for _ in range(int(rng.integers(0, 4)) if count else 0):
        rows[rng.integers(count)] = rows[rng.integers(count)]  # said twice
    if count and rng.random() < 0.3:
        strange = (math.nan, math.inf, -math.inf, 1e308, -1.0, 1.0, 1.0005, 1.5, 2.0, 1e6, -1e6, 0.0)
        rows[rng.integers(count), rng.integers(6)] = strange[rng.integers(len(strange))]
    return rows


def outputs_of(rows: Array, kind: type[Detector]) -> dict[str, Array]:
    boxes, scores, labels = rows[:, :4], rows[:, 4], rows[:, 5]
    centred = np.hstack([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]])
    by_kind = np.column_stack([np.where(labels == number, scores, 0.0) for number in range(2)])
    return {
        EndToEnd: {"out": rows},
        SeparateOutputs: {"boxes": boxes, "labels": labels, "scores": scores},
        YoloV5: {"out": np.column_stack([centred, scores, by_kind])},
        YoloV8: {"out": np.column_stack([centred, by_kind]).T},
        Ssd: {"boxes": boxes / (64, 32, 64, 32), "scores": np.column_stack([1 - scores, by_kind])},
        Yolox: {"out": gridded(np.column_stack([centred, scores, by_kind])[:CELLS])},
    }[kind]


CELLS = 8 * 4 + 4 * 2 + 2  # of 64x32 pixels at strides 8, 16 and 32


def gridded(rows: Array) -> Array:
    """The first rows as YOLOX puts them out: relative to their cells, sizes as logarithms; the other cells are quiet."""
    cells = [(x, y, stride) for stride in (8, 16, 32) for y in range(32 // stride) for x in range(64 // stride)]
    raw = np.zeros((CELLS, rows.shape[1]))
    for place, row in enumerate(rows):
        x, y, stride = cells[place]
        sizes = np.log(np.maximum(row[2:4] / stride, 1e-9))
        raw[place] = [row[0] / stride - x, row[1] / stride - y, *sizes, *row[4:]]
    return raw


def check_boxes(said: Boxes2D, most: int) -> None:
    assert said.size == (64, 32)
    assert len(said.kinds) <= most
    assert set(said.kinds) <= set(NAMES)
    assert ((said.xyxy >= 0) & (said.xyxy <= (64, 32, 64, 32))).all()
    assert (said.xyxy[:, 2:] > said.xyxy[:, :2]).all()
    assert ((said.scores > 0.1) & (said.scores <= 1)).all()
    assert (np.diff(said.scores) <= 0).all()


def random_answer(kind: type[Detector], rng: np.random.Generator) -> Answer | Verdict:
    iou, across = float(rng.choice([0.0, 0.45, 1.0])), bool(rng.integers(2))
    detector = kind(kinds=NAMES, score=0.1, iou=iou, across=across, most=40)
    outputs = outputs_of(drawn(rng), kind)
    return answer_all(FunctionSystem(lambda case: detector(outputs, VIEW), "head"), CASES[:1])[0]


def random_truth(rng: np.random.Generator) -> Boxes2D:
    corner = rng.uniform(0, (50, 20), (3, 2))
    return Boxes2D(np.hstack([corner, corner + rng.uniform(2, 12, (3, 2))]), tuple(rng.choice(NAMES, 3)))


@pytest.mark.parametrize("kind", HEADS)
def test_random_boxes_are_said_or_refused(kind: type[Detector]) -> None:
    rng = rng_for("boxes", kind.__name__)
    refused = 0
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            answers = [random_answer(kind, rng) for _ in range(SETS_AT_ONCE)]
            said = [answer[0] for answer in answers if isinstance(answer, tuple)]
            for answer in answers:
                if isinstance(answer, Verdict):
                    check_error(answer)
            for boxes in said:
                check_boxes(boxes, most=40)  # type: ignore[arg-type]
            refused += len(answers) - len(said)
            mean = average_precision([random_truth(rng) for _ in said], said).mean  # type: ignore[arg-type]
            assert mean is not None
            assert 0 <= mean <= 1
    assert 0.05 < refused / (ROUNDS * SETS_AT_ONCE) < 0.5


def test_every_set_is_drawn() -> None:
    assert ROUNDS * SETS_AT_ONCE * len(HEADS) >= SETS


def test_gridded_boxes_are_the_drawn_ones() -> None:
    rows = np.array([[20.0, 10, 12, 6, 0.9, 0.0, 0.9], [40, 20, 5, 7, 0.8, 0.9, 0.0]])
    said = Yolox(kinds=NAMES)({"out": gridded(rows)}, VIEW)
    assert said.kinds == ("light", "car")
    assert np.allclose(said.xyxy, [[14, 7, 26, 13], [37.5, 16.5, 42.5, 23.5]])


@pytest.mark.parametrize("size", [20.0, 50.0, 88.8, 89.0, 709.0, 710.0, 1e5, 1e9, math.inf, math.nan])
@pytest.mark.parametrize("column", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", [0.0, 0.9])
def test_endless_sizes_of_yolox_are_errors(size: float, column: int, dtype: type, score: float) -> None:
    raw = gridded(np.array([[20.0, 10, 12, 6, score, 0.0, score]])).astype(dtype)
    raw[0, column] = size
    check_error(among_good(lambda: Yolox(kinds=NAMES)({"out": raw}, VIEW), (Steering(1.0),)))


@pytest.mark.parametrize(("size", "wanted"), [(15.0, [[0, 7, 64, 13]]), (-700.0, []), (-1e9, [])])
def test_extreme_sizes_of_yolox_are_said(size: float, wanted: list[list[float]]) -> None:
    raw = gridded(np.array([[20.0, 10, 12, 6, 1.0, 0.0, 0.9]]))
    raw[0, 2] = size
    said = among_good(lambda: Yolox(kinds=NAMES)({"out": raw}, VIEW), (Steering(1.0),))
    assert isinstance(said, tuple)
    assert said[0].xyxy.tolist() == wanted  # type: ignore[attr-defined]
