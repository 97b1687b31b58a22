"""The robustness score: sums that equal the direct computation, scores of planted losses, and their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.analysis.detection import average_precision, centre_precision
from swerve.analysis.quality import METRES, BoxPrecision, Measure, SteeringError, Sums, measure_of
from swerve.analysis.robustness import RobustnessTally, family_of
from swerve.core.encode import encode
from swerve.core.values import Boxes2D, Boxes3D, Steering, Value


def added(measure: Measure, pairs: list[tuple[Value, Value]]) -> float | None:
    sums: Sums = {}
    for label, answer in pairs:
        samples = measure.samples(encode((label,)), encode((answer,)))
        assert samples is not None
        for sample in samples:
            cell = sums.setdefault(sample.kind, np.zeros(measure.size))
            if sample.places is None:
                cell += sample.amounts
            else:
                np.add.at(cell, sample.places, sample.amounts)
    return measure.value(sums)


def crowd(rng: np.random.Generator, count: int, *, sure: bool = False) -> Boxes2D:
    corner = rng.uniform(0, 60, (count, 2))
    boxes = np.hstack([corner, corner + rng.uniform(10, 40, (count, 2))])
    scores = None if sure else rng.permutation(count * 20)[:count] / 1000 + 0.0005  # no two in one step
    return Boxes2D(boxes, tuple(rng.choice(["car", "bus"], count)), scores, care=rng.random(count) < 0.8 if sure else None)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_map_is_that_of_coco(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, scores = [crowd(rng, 5, sure=True) for _ in range(6)], rng.permutation(900)[:48].reshape(6, 8) / 1000 + 0.0005
    answers = []
    for label, sure in zip(labels, scores, strict=True):
        noise, stray = label.xyxy + rng.normal(0, 4, label.xyxy.shape), crowd(rng, 3).xyxy
        boxes = np.vstack([np.sort(noise.reshape(-1, 2, 2), axis=1).reshape(-1, 4), stray])
        answers.append(Boxes2D(boxes, (*label.kinds, *rng.choice(["car", "bus"], 3)), sure))
    expected = average_precision(labels, answers, limits=(0.5,)).mean
    found = added(BoxPrecision(Boxes2D.slot), list(zip(labels, answers, strict=True)))
    assert (expected is None) == (found is None)
    if expected is not None:
        assert found == pytest.approx(expected, abs=1e-9)


def test_solid_boxes_are_measured_by_centres() -> None:
    rng = np.random.default_rng(3)
    place = rng.uniform(-30, 30, (6, 7))
    labels = [Boxes3D(place, ("car",) * 6)]
    answers = [Boxes3D(place + rng.normal(0, 1.2, (6, 7)), ("car",) * 6, np.linspace(0.9, 0.1, 6))]
    expected = centre_precision(labels, answers, limits=(METRES,)).mean
    assert added(BoxPrecision(Boxes3D.slot), list(zip(labels, answers, strict=True))) == pytest.approx(expected)


def test_rmse_is_exact() -> None:
    assert added(SteeringError(), [(Steering(0.0), Steering(3.0)), (Steering(5.0), Steering(1.0))]) == 12.5**0.5


def seen(case: str, label: float, said: float, drive: str = "") -> dict[str, Any]:
    pair = {"truth": encode((Steering(label),)), "said": encode((Steering(said),))}
    return {"case": case, "group": drive, "fault": "", **pair}


def trial(case: str, rule: str, label: float, said: float, status: str = "held") -> dict[str, Any]:
    pair = {"truth": encode((Steering(label),)), "after": encode((Steering(said),))}
    return {"case": case, "rule": rule, "status": status, **pair}


def tally(worse: dict[str, float], cases: int = 20) -> RobustnessTally:
    """Every rule multiplies the errors of all cases, each in its own drive."""
    made = RobustnessTally()
    errors = [1.0 + place % 3 for place in range(cases)]
    for place, error in enumerate(errors):
        made.add_case(seen(f"c{place}", 10.0, 10.0 + error, f"drive {place}"))
    for rule, factor in worse.items():
        for place, error in enumerate(errors):
            made.add_trial(trial(f"c{place}", rule, 10.0, 10.0 - factor * error))
    return made


def test_score_is_the_untouched_error_over_the_changed() -> None:
    found = tally({"rotation, label": 4.0, "rotation, own answer": 4.0, "blur": 1.0}).robustness()
    assert found is not None
    assert (found.measure, found.unit, found.falls) == ("RMSE", "°", True)
    assert [(kept.name, kept.trials, kept.cases) for kept in found.families] == [("rotation", 40, 20), ("blur", 20, 20)]
    assert [kept.score.value for kept in found.families] == [pytest.approx(0.25), pytest.approx(1.0)]
    assert [kept.name for kept in found.rules] == ["rotation, label", "rotation, own answer", "blur"]
    assert found.overall.value == pytest.approx(0.625)
    # Every drive loses the same share, so leaving some out changes nothing.
    assert (found.overall.low, found.overall.high) == (pytest.approx(0.625), pytest.approx(0.625))


def test_intervals_cover_the_truth() -> None:
    """Of 200 samples of drives, about 95% of the intervals hold the score of all drives."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(200):
        made = RobustnessTally()
        errors = rng.normal(0, 2, (40, 2))
        for place, (before, _) in enumerate(errors):
            made.add_case(seen(f"c{place}", 0.0, before, f"d{place}"))
        for place, (_, after) in enumerate(errors):
            made.add_trial(trial(f"c{place}", "r", 0.0, 2 * after))
        found = made.robustness()
        assert found is not None
        assert found.overall.low is not None
        assert found.overall.high is not None
        covered += found.overall.low <= 0.5 <= found.overall.high
    assert 180 <= covered <= 199


def test_few_drives_are_split_by_case() -> None:
    made = RobustnessTally()
    for place in range(12):
        made.add_case(seen(f"c{place}", 0.0, 1.0, "one drive"))
    for place in range(12):
        made.add_trial(trial(f"c{place}", "r", 0.0, 2.0))
    found = made.robustness()
    assert found is not None
    assert found.overall.low is not None
    short = tally({"r": 2.0}, cases=3).robustness()
    assert short is not None
    assert (short.overall.value, short.overall.low) == (0.5, None)


def test_cases_without_labels_have_no_score() -> None:
    made = RobustnessTally()
    made.add_case({"case": "a", "group": "", "fault": "", "truth": [], "said": encode((Steering(1.0),))})
    made.add_trial({"case": "a", "rule": "r", "status": "held", "truth": [], "after": encode((Steering(1.0),))})
    assert made.robustness() is None
    assert measure_of([]) is None


def test_unjudged_trials_do_not_count() -> None:
    made = tally({"r": 2.0})
    made.add_trial(trial("c0", "r", 10.0, 9000.0, "skipped"))
    made.add_trial(trial("c0", "r", 10.0, 9000.0, "error"))
    found = made.robustness()
    assert found is not None
    assert found.overall.value == pytest.approx(0.5)


def test_family_is_the_name_before_the_comma() -> None:
    assert [family_of(name) for name in ("rotation, label", "rotation", "a,b, c")] == ["rotation", "rotation", "a,b"]
