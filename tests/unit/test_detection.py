from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from swerve.analysis.detection import LIMITS, Precision, average_precision, drop_by_kind, mean_drop, relative_drop
from swerve.core.errors import InputError
from swerve.core.values import Array, Boxes2D

KINDS = ("go", "stop", "warning")
NOTHING = Boxes2D([], ())  # type: ignore[arg-type]


def lights(*boxes: tuple[float, ...], kind: str = "stop", care: bool = True, score: float = 1.0) -> Boxes2D:
    count = len(boxes)
    return Boxes2D(np.array(boxes), (kind,) * count, np.full(count, score), care=np.full(count, care))


def joined(*sets: Boxes2D) -> Boxes2D:
    kinds = tuple(kind for boxes in sets for kind in boxes.kinds)
    parts = {name: np.concatenate([getattr(boxes, name) for boxes in sets]) for name in ("xyxy", "scores", "care")}
    return Boxes2D(parts["xyxy"], kinds, parts["scores"], care=parts["care"])


def random_boxes(rng: np.random.Generator, count: int) -> Array:
    corner = rng.uniform(0, 60, (count, 2))
    return np.hstack([corner, corner + rng.uniform(2, 30, (count, 2))])


def random_image(rng: np.random.Generator) -> tuple[Boxes2D, Boxes2D]:
    """Labels, some of them ignored, and answers: jittered labels, some lost or mislabelled, and ghosts."""
    count, ghosts = int(rng.integers(0, 7)), int(rng.integers(0, 4))
    truth = Boxes2D(random_boxes(rng, count), tuple(rng.choice(KINDS, count)), care=rng.random(count) < 0.8)
    seen = np.flatnonzero(rng.random(count) < 0.85)
    jitter = rng.normal(0, 1.5, (len(seen), 4))
    kinds = [truth.kinds[row] if rng.random() < 0.85 else str(rng.choice([*KINDS, "off"])) for row in seen]
    boxes = np.vstack([truth.xyxy[seen] + jitter, random_boxes(rng, ghosts)])
    scores = np.round(rng.random(len(boxes)), 1)  # with ties
    return truth, Boxes2D(boxes, (*kinds, *rng.choice(KINDS, ghosts)), scores)


def by_pycocotools(truth: list[Boxes2D], said: list[Boxes2D]) -> tuple[float, dict[str, float]]:
    """The mean and the precision of each kind, by the reference implementation with its own defaults."""
    kinds = sorted({kind for boxes in truth for kind in boxes.kinds})

    def page(sets: list[Boxes2D]) -> COCO:
        rows = [(image, *row) for image, b in enumerate(sets) for row in zip(b.xyxy, b.kinds, b.scores, b.care, strict=True)]
        coco = COCO()
        coco.dataset = {
            "images": [{"id": image} for image in range(len(sets))],
            "categories": [{"id": place + 1} for place in range(len(kinds))],
            "annotations": [
                {
                    "id": number,
                    "image_id": image,
                    "category_id": kinds.index(kind) + 1,
                    "bbox": [x1, y1, max(x2 - x1, 0), max(y2 - y1, 0)],
                    "area": max(x2 - x1, 0) * max(y2 - y1, 0),
                    "score": score,
                    "iscrowd": int(not care),
                }
                for number, (image, (x1, y1, x2, y2), kind, score, care) in enumerate(rows, start=1)
                if kind in kinds
            ],
        }
        coco.createIndex()
        return coco

    with contextlib.redirect_stdout(io.StringIO()):
        judge = COCOeval(page(truth), page(said), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    curves = judge.eval["precision"][:, :, :, 0, -1]
    known = {kind: curves[:, :, place] for place, kind in enumerate(kinds) if curves[0, 0, place] > -1}
    return judge.stats[0], {kind: float(curve.mean()) for kind, curve in known.items()}


@pytest.mark.parametrize("seed", range(25))
def test_precision_equals_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, said = map(list, zip(*(random_image(rng) for _ in range(12)), strict=True))
    mean, kinds = by_pycocotools(truth, said)
    ours = average_precision(truth, said)
    assert ours.mean == pytest.approx(mean, abs=1e-9)
    assert dict(ours.by_kind) == pytest.approx(kinds, abs=1e-9)
    assert 0 < mean < 1


@pytest.mark.parametrize("seed", range(5))
def test_kinds_may_not_matter(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    truth, said = zip(*(random_image(rng) for _ in range(12)), strict=True)
    plain = [[Boxes2D(b.xyxy, ("x",) * len(b.kinds), b.scores, care=b.care) for b in sets] for sets in (truth, said)]
    ours = average_precision(truth, said, any_kind=True)
    assert ours.mean == pytest.approx(by_pycocotools(*plain)[0], abs=1e-9)
    assert list(ours.by_kind) == ["object"]


def test_kind_called_object_stays_one() -> None:
    truth, said = lights((0, 0, 9, 9), kind="object"), lights((0, 0, 9, 9), kind="car")
    assert average_precision([truth], [said]).mean == 0.0
    assert average_precision([truth], [said], any_kind=True).mean == 1.0


def test_perfect_is_exactly_one() -> None:
    truth = [lights((0, 0, 9, 9), (20, 0, 40, 9)), lights((3, 3, 8, 30), kind="go")]
    assert average_precision(truth, truth) == Precision(1.0, {"go": 1.0, "stop": 1.0}, dict.fromkeys(LIMITS, 1.0))


def test_silence_scores_zero() -> None:
    assert average_precision([lights((0, 0, 9, 9))], [NOTHING]).mean == 0.0


def test_unlabelled_kind_is_left_out() -> None:
    truth = joined(lights((0, 0, 9, 9)), lights((30, 30, 50, 50), kind="go", care=False))
    said = joined(lights((0, 0, 9, 9)), lights((60, 0, 70, 9), kind="go"), lights((0, 30, 9, 40), kind="off"))
    assert average_precision([truth], [said]).by_kind == {"stop": 1.0}


@pytest.mark.parametrize("truth", [[], [NOTHING], [lights((0, 0, 9, 9), care=False)]])
def test_nothing_demanded_says_nothing(truth: list[Boxes2D]) -> None:
    said = [lights((0, 0, 9, 9))] * len(truth)
    assert average_precision(truth, said) == Precision(None)


def test_ignored_label_absorbs_a_box() -> None:
    wanted, edge = lights((0, 0, 9, 9)), lights((50, 0, 59, 9), care=False)
    both = lights((50, 0, 59, 9), (0, 0, 9, 9))
    assert average_precision([joined(wanted, edge)], [both]).mean == 1.0
    assert average_precision([joined(wanted, edge)], [wanted]).mean == 1.0
    assert average_precision([wanted], [joined(lights((0, 0, 9, 9), score=0.5), lights((50, 0, 59, 9)))]).mean == 0.5


def test_unsure_answer_costs_nothing() -> None:
    said = joined(lights((0, 0, 9, 9), score=0.5), lights((50, 0, 59, 9), care=False))
    assert average_precision([lights((0, 0, 9, 9))], [said]).mean == 1.0


def test_limit_itself_is_a_hit() -> None:
    half = average_precision([lights((0, 0, 2, 1))], [lights((0, 0, 1, 1))])
    assert (half.at(0.5), half.at(0.55), half.mean) == (1.0, 0.0, 0.1)


def test_limits_are_ten() -> None:
    assert LIMITS == (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@pytest.mark.parametrize("limits", [(), (50,), (0.0,), (0.5, float("nan"))])
def test_limits_are_shares(limits: tuple[float, ...]) -> None:
    boxes = [lights((0, 0, 10, 10))]
    with pytest.raises(InputError, match="IoU limits above 0 and at most 1"):
        average_precision(boxes, boxes, limits=limits)


def test_only_best_boxes_count() -> None:
    said = joined(lights((50, 0, 59, 9)), lights((0, 0, 9, 9), score=0.5))
    assert average_precision([lights((0, 0, 9, 9))], [said], most=1).mean == 0.0
    assert average_precision([lights((0, 0, 9, 9))], [said], most=2).mean == 0.5


def test_huge_boxes_are_measured() -> None:
    assert average_precision([lights((0, 0, 1e9, 1e9))], [lights((0, 0, 1e9, 1e9))]).mean == 1.0


def test_measuring_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    average_precision([lights((0, 0, 9, 9))], [lights((0, 0, 9, 9))])
    assert capfd.readouterr() == ("", "")


def test_inputs_are_left_alone() -> None:
    truth, said = lights((0, 0, 9, 9), care=False), lights((0, 0, 9, 8))
    before = Boxes2D(truth.xyxy.copy(), truth.kinds, care=[False]), lights((0, 0, 9, 8))  # type: ignore[arg-type]
    average_precision([truth], [said])
    assert (truth, said) == before


def test_wrong_inputs_are_named() -> None:
    with pytest.raises(InputError, match="got 1 labels and 0 answers"):
        average_precision([NOTHING], [])
    with pytest.raises(InputError, match="answer 2 of 2 must be Boxes2D, got NoneType"):
        average_precision([NOTHING] * 2, [NOTHING, None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="answer 1 of 1 cannot be measured: boxes2d holds a number that is not finite"):
        average_precision([NOTHING], [lights((0, 0, np.nan, 1))])


@pytest.mark.parametrize(
    ("before", "after", "printed"),
    [(0.615, 0.422, 31.4), (0.624, 0.419, 32.8), (0.459, 0.205, 55.4), (0.315, 0.163, 48.3)],
)
def test_published_drops_come_out(before: float, after: float, printed: float) -> None:
    assert 100 * relative_drop(before, after) == pytest.approx(printed, abs=0.1)  # type: ignore[operator]


def test_drop_needs_something_to_lose() -> None:
    assert relative_drop(0.0, 0.0) is None
    assert relative_drop(None, 0.3) is None
    assert relative_drop(0.5, None) is None
    assert relative_drop(0.5, 0.75) == -0.5


def test_drops_average_over_sets() -> None:
    assert mean_drop(Precision(0.5), [Precision(0.25), Precision(0.5), Precision(None)]) == 0.25
    assert mean_drop(Precision(0.0), [Precision(0.25)]) is None


def test_drops_go_by_kind() -> None:
    before, after = Precision(0.5, {"go": 0.5, "stop": 0.8, "off": 0.0}), Precision(0.4, {"go": 0.25, "off": 0.0})
    assert drop_by_kind(before, after) == {"go": 0.5, "off": None}
