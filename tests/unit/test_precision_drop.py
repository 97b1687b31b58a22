"""The loss of mAP with its intervals: equal to COCO's mAP, exact for cases that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swerve.analysis.detection import average_precision
from swerve.analysis.precision_drop import (
    PicturePair,
    RankedPictures,
    less_lost,
    match_picture,
    mean_drop,
    pair_of,
    precision_drop,
)
from swerve.core.campaign import Record, Trial
from swerve.core.errors import InputError
from swerve.core.relation import Status, Verdict
from swerve.core.seeding import rng_for
from swerve.core.values import Boxes2D
from swerve.store.record_json import record_row

KINDS = ("red", "yellow", "green")
LABEL = Boxes2D(np.array([[0, 0, 10, 30], [50, 0, 60, 30]]), ("red", "green"))
NOTHING = Boxes2D(np.zeros((0, 4)), ())


def random_pair(number: int) -> tuple[Boxes2D, Boxes2D]:
    """A label with ignored boxes, and an answer with shifted, wrong, doubled and invented boxes."""
    rng = rng_for("precision", number)
    count = int(rng.integers(0, 6))
    corner, side = rng.uniform(0, 300, (count, 2)), rng.uniform(8, 60, (count, 2))
    boxes = np.hstack([corner, corner + side])
    kinds = tuple(str(rng.choice(KINDS)) for _ in range(count))
    label = Boxes2D(boxes, kinds, care=rng.random(count) > 0.2)
    invented = rng.uniform(0, 300, (2, 2)).repeat(2, axis=1)
    invented[:, 2:] += 20
    again = np.concatenate([boxes + rng.normal(0, 2, boxes.shape), boxes[: count // 2], invented])
    named = (*kinds, *kinds[: count // 2], "red", "blue")
    said = tuple(str(rng.choice(KINDS)) if rng.random() < 0.15 else kind for kind in named)
    return label, Boxes2D(again, said, rng.random(len(said)).round(2))


def test_precision_is_coco_s() -> None:
    for start in range(0, 60, 12):
        pairs = [random_pair(number) for number in range(start, start + 12)]
        whole = average_precision(*zip(*pairs, strict=True))
        ours = RankedPictures([match_picture(*pair) for pair in pairs]).precisions(np.ones(len(pairs), int))
        assert ours.keys() == whole.by_kind.keys()
        for kind, value in whole.by_kind.items():
            assert ours[kind] == pytest.approx(value, abs=1e-9), (start, kind)


def test_a_picture_may_count_twice() -> None:
    pairs = [random_pair(number) for number in range(6)]
    rows = np.array([0, 0, 3, 5, 5, 5])
    labels, answers = zip(*(pairs[row] for row in rows), strict=True)
    ours = RankedPictures([match_picture(*pair) for pair in pairs]).precisions(np.bincount(rows, minlength=len(pairs)))
    assert np.mean(list(ours.values())) == pytest.approx(average_precision(labels, answers).mean, abs=1e-9)


def pictures(lost: int, of: int = 10) -> list[PicturePair]:
    """Pictures that are answered perfectly before the change; of `lost` of them nothing is found after it."""
    return [PicturePair(f"drive {n}", LABEL, LABEL, LABEL, NOTHING if n < lost else LABEL) for n in range(of)]


def test_drops_can_be_counted_by_hand() -> None:
    none, half, all_lost = (precision_drop(pictures(lost)) for lost in (0, 5, 10))
    assert (none.before.value, none.after.value, none.drop.value) == (1, 1, 0)
    assert (none.drop.low, none.drop.high) == (0, 0)
    assert half.drop.value == pytest.approx(1 - 51 / 101)  # recalls 0 to 0.5
    assert half.drop.low is not None
    assert half.drop.high is not None
    assert 0.05 < half.drop.low < half.drop.value < half.drop.high < 0.95
    assert all_lost.drop.value == 1
    assert all_lost.by_kind == {"red": 1, "green": 1}


def test_intervals_are_of_drives() -> None:
    """Pictures of one drive are no independent evidence: with as many pictures in fewer drives the interval is wider."""
    many = precision_drop(pictures(20, of=40))
    few = precision_drop([replace(pair, group=f"drive {place // 10}") for place, pair in enumerate(pictures(20, of=40))])
    one = precision_drop([replace(pair, group="") for pair in pictures(5)])
    width = [float(drop.drop.high or 0) - float(drop.drop.low or 0) for drop in (many, few)]
    assert width[1] > 1.5 * width[0]
    assert one.drop.low is None


def test_same_seed_same_interval() -> None:
    assert precision_drop(pictures(4), seed=3) == precision_drop(pictures(4), seed=3)
    few = [precision_drop(pictures(4), seed=seed, resamples=9).drop for seed in range(6)]
    assert len({(one.low, one.high) for one in few}) > 1


def test_a_limit_makes_a_verdict() -> None:
    half = precision_drop(pictures(5))
    assert half.judged(0.6).status is Status.HELD
    broken = half.judged(0.1)
    assert broken.status is Status.VIOLATED
    assert broken.margin == pytest.approx(1 - 51 / 101 - 0.1)
    assert "1.000 became 0.505, a fall by 49.5%" in broken.why
    unknown = precision_drop([PicturePair("", LABEL, NOTHING, LABEL, LABEL)])
    assert unknown.judged(0.1).status is Status.SKIPPED


def test_judged_records_alone_count() -> None:
    held, skipped = Verdict.at_most(0, 1, ""), Verdict.skipped("no")
    record = Record(Trial("a", "rule", 0), held, before=(LABEL,), truth=(LABEL,), after=(NOTHING,))
    pair = pair_of(record_row(record), LABEL, "drive")
    assert pair is not None
    assert (pair.group, pair.answer.kinds, pair.new_answer.kinds) == ("drive", LABEL.kinds, ())
    assert pair_of(record_row(replace(record, verdict=skipped)), LABEL, "drive") is None
    assert pair_of(record_row(replace(record, after=())), LABEL, "drive") is None
    with pytest.raises(InputError, match="at least one"):
        precision_drop([])


def test_the_mean_of_losses_has_a_joint_interval() -> None:
    """Two changes that fail on the same drives vary together, so their mean is as uncertain as each of them."""
    drives = [f"drive {n}" for n in range(10)]
    half, same = (precision_drop(pictures(5), drives=drives) for _ in range(2))
    mean = mean_drop([half, same])
    assert (mean.n, mean.value, mean.low, mean.high) == (2, half.drop.value, half.drop.low, half.drop.high)
    other = precision_drop([replace(pair, new_answer=LABEL) for pair in pictures(5)], drives=drives)
    lower = mean_drop([half, other])
    assert lower.value == pytest.approx((half.drop.value or 0) / 2)
    assert mean_drop([]).value is None
    assert mean_drop([precision_drop([PicturePair("a", NOTHING, NOTHING, NOTHING, NOTHING)])]).why


def test_drives_without_a_picture_are_resampled_too() -> None:
    drives = [f"drive {n}" for n in range(20)]
    ours, all_twenty = precision_drop(pictures(3), drives=drives), precision_drop(pictures(3))
    assert ours.drop.value == all_twenty.drop.value
    assert len(ours.samples) == len(all_twenty.samples)
    assert ours.drop.low is not None


def test_less_lost_is_paired() -> None:
    drives = [f"drive {n}" for n in range(10)]
    more, less = (precision_drop(pictures(lost), drives=drives) for lost in (5, 2))
    gap = less_lost(more, less)
    assert gap.value == pytest.approx((more.drop.value or 0) - (less.drop.value or 0))
    assert gap.low is not None
    assert gap.low >= 0  # what the second set loses, the first loses as well
    assert less_lost(more, more).high == 0
