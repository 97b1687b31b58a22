"""Average precision by centre distance, on cases that can be counted by hand, and the baseline's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.baseline import baseline_error
from swerve.analysis.detection import METRES, centre_precision
from swerve.core.campaign import Observation
from swerve.core.convention import Convention
from swerve.core.errors import InputError
from swerve.core.values import Boxes2D, Boxes3D, Steering
from swerve.testing import FakeSource


def boxes(
    *places: tuple[float, float], kinds: str = "car", scores: list[float] | None = None, care: object = None
) -> Boxes3D:
    rows = np.array([[x, y, 0, 4, 2, 1.5, 0] for x, y in places]).reshape(-1, 7)
    return Boxes3D(rows, (kinds,) * len(places), None if scores is None else np.array(scores), care)  # type: ignore[arg-type]


def test_exact_boxes_are_perfect() -> None:
    found = centre_precision([boxes((10, 0), (20, 3))], [boxes((10, 0), (20, 3))])
    assert (found.mean, dict(found.by_kind)) == (1.0, {"car": 1.0})


def test_distance_decides_limit_by_limit() -> None:
    found = centre_precision([boxes((10, 0))], [boxes((10, 1.5))])
    assert dict(found.by_limit) == {0.5: 0.0, 1.0: 0.0, 2.0: 1.0, 4.0: 1.0}


def test_limit_itself_is_a_miss() -> None:
    assert centre_precision([boxes((10, 0))], [boxes((10, 2.0))], limits=[2.0]).mean == 0.0


def test_half_found_is_half() -> None:
    """Recalls 0 to 0.50 are reached with precision 1: 51 of 101."""
    found = centre_precision([boxes((10, 0), (20, 0))], [boxes((10, 0))])
    assert found.mean == pytest.approx(51 / 101)


def test_wrong_box_before_a_right_one_halves_precision() -> None:
    found = centre_precision([boxes((10, 0))], [boxes((50, 0), (10, 0), scores=[0.9, 0.8])])
    assert found.mean == pytest.approx(0.5)


def test_second_box_on_one_label_is_wrong() -> None:
    two = boxes((10, 0), (10.1, 0), scores=[0.9, 0.8])
    assert centre_precision([boxes((10, 0), (30, 0))], [two]).mean == pytest.approx(51 / 101)


def test_label_without_care_is_neither() -> None:
    truth = boxes((10, 0), (30, 0), care=[True, False])
    assert centre_precision([truth], [boxes((10, 0), (30, 0))]).mean == 1.0
    assert centre_precision([truth], [boxes((10, 0))]).mean == 1.0


def test_other_kind_counts_only_with_any() -> None:
    truth, said = [boxes((10, 0))], [boxes((10, 0), kinds="van")]
    assert centre_precision(truth, said).mean == 0.0
    assert centre_precision(truth, said, any_kind=True).mean == 1.0


def test_no_labels_no_precision() -> None:
    assert centre_precision([boxes()], [boxes((1, 1))]).mean is None


def test_answers_must_match_labels() -> None:
    with pytest.raises(InputError, match="one answer per label"):
        centre_precision([boxes()], [])


places = st.lists(st.tuples(st.floats(-30, 30), st.floats(-30, 30)), max_size=6)


@given(places, places)
def test_precision_stays_a_share(truth: list[tuple[float, float]], said: list[tuple[float, float]]) -> None:
    found = centre_precision([boxes(*truth)], [boxes(*said)])
    if found.mean is None:
        assert not truth
    else:
        assert 0 <= found.mean <= 1
        assert [found.by_limit[limit] for limit in METRES] == sorted(found.by_limit.values())  # wider finds no fewer


def seen(truth: object, said: object, fault: str = "") -> Observation:
    return Observation("a", "", (truth,), (said,), fault=fault)  # type: ignore[arg-type]


class Radians(FakeSource):
    convention = Convention("radians", "left", "wheel", None)


def test_error_is_told_in_the_labels_unit() -> None:
    rows = [seen(Steering(np.degrees(0.3)), Steering(np.degrees(0.1))), seen(Steering(0), Steering(np.degrees(0.2)))]
    told = baseline_error(Radians(), [*rows, seen(Steering(0), Steering(9), fault="torn")])
    assert (told["cases"], told["unusable"], told["unit"]) == (2, 1, "radians")
    assert told["mse"] == pytest.approx(0.04)
    assert told["mse_of_zero"] == pytest.approx(0.045)
    assert told["rmse_degrees"] == pytest.approx(np.degrees(0.2))
    assert baseline_error(FakeSource(), rows)["unit"] == "degrees"


class Road(FakeSource):
    convention = Convention("radians", "right", "road", 15.0)


def test_road_wheels_are_told_in_their_own_unit() -> None:
    told = baseline_error(Road(), [seen(Road.convention.steering(0.02), Road.convention.steering(0.03))])
    assert (told["unit"], told["of"]) == ("radians", "the road wheels")
    assert told["mse"] == pytest.approx(1e-4)
    assert told["mse_of_zero"] == pytest.approx(4e-4)


def test_flat_and_solid_boxes_are_told_apart() -> None:
    flat = Boxes2D(np.array([[0, 0, 10, 10]]), ("car",), size=(20, 20))
    both = Observation("a", "", (flat, boxes((10, 0))), (flat, boxes((10, 3))))
    told = baseline_error(FakeSource(), [both])
    assert (told["map"], told["map_3d"]) == (1.0, 0.25)


def test_kinds_that_never_meet_are_measured_by_place() -> None:
    truth = Boxes2D(np.array([[0, 0, 10, 10]]), ("red",), size=(20, 20))
    said = Boxes2D(np.array([[0, 0, 10, 10]]), ("traffic light",), size=(20, 20))
    assert baseline_error(FakeSource(), [seen(truth, said)]) == {
        **{"cases": 1, "unusable": 0, "map": 1.0, "map_50": 1.0, "labels": 1, "kinds": "any"}
    }
    assert baseline_error(FakeSource(), [seen(truth, truth)])["kinds"] == "same"


def test_solid_boxes_are_measured_by_distance() -> None:
    told = baseline_error(FakeSource(), [seen(boxes((10, 0)), boxes((10, 0.2)))])
    assert (told["map"], told["kinds"]) == (1.0, "same")
