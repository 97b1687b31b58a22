import math

import numpy as np
import pytest

from swerve.core.encode import decode_value, decode_values, encode_value, storable
from swerve.core.values import (
    KINDS,
    SLOTS,
    Boxes2D,
    Boxes3D,
    Calibration,
    Group,
    Image,
    Masks,
    PointCloud,
    Region,
    SceneRef,
    Signal,
    Steering,
    find,
)
from swerve.testing import sample_case


def image(level: int = 7) -> Image:
    return Image(np.full((4, 6, 3), level, np.uint8))


def test_equal_content_is_equal() -> None:
    assert image(7) == image(7)
    assert hash(image(7)) == hash(image(7))
    assert image(7) != image(8)


def test_other_type_is_not_equal() -> None:
    assert Boxes2D(np.zeros((0, 4)), ()) != Boxes3D(np.zeros((0, 7)), ())
    assert Steering(1) != Signal("steering", 1)


def test_shape_counts_in_digest() -> None:
    flat = Image(np.zeros((2, 8, 3), np.uint8))
    tall = Image(np.zeros((8, 2, 3), np.uint8))
    assert flat.digest != tall.digest


def test_group_boundaries_count_in_digest() -> None:
    one, two = Steering(1), Steering(2)
    assert Group((Group((one,)), two)) != Group((one, Group((two,))))


def test_pixels_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        image().pixels[0, 0] = 1


@pytest.mark.parametrize("wrong", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), [[1, 2, 3]], None, "pixels"])
def test_wrong_pixels_are_refused(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="image"):
        Image(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, "left", 1j, True, [1.0], {}])
def test_steering_must_be_number(wrong: object) -> None:
    with pytest.raises(TypeError, match="steering: expected a number"):
        Steering(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308, -20_000.0])
def test_impossible_angle_is_fault(odd: float) -> None:
    assert Steering(odd).fault()
    assert Group((Steering(0), Steering(odd))).fault()


def test_ordinary_values_have_no_fault() -> None:
    assert Steering(-480).fault() is None
    assert all(value.fault() is None for value in sample_case().truth)


def test_non_finite_boxes_are_fault() -> None:
    assert Boxes2D(np.array([[0, 0, np.nan, 1]]), ("car",)).fault()
    assert Boxes2D(np.array([[0, 0, 1, 1]]), ("car",), scores=np.array([np.inf])).fault()
    assert PointCloud(np.array([[0, 0, np.inf, 1]], np.float32)).fault()


def test_kinds_must_match_boxes() -> None:
    with pytest.raises(ValueError, match="1 boxes but 2 kinds"):
        Boxes2D(np.zeros((1, 4)), ("car", "van"))


def test_no_boxes_is_a_value() -> None:
    empty = Boxes2D([], ())  # type: ignore[arg-type]
    assert empty.xyxy.shape == (0, 4)
    assert empty.care is not None
    assert empty.care.shape == (0,)


def test_care_defaults_to_all() -> None:
    assert Boxes3D(np.zeros((2, 7)), ("car", "car")).care.all()  # type: ignore[union-attr]


def test_every_slot_has_a_kind() -> None:
    assert set(SLOTS) == {kind.slot for kind in KINDS.values()}
    assert len(SLOTS) == 13


@pytest.mark.parametrize(
    "value",
    [
        Steering(0.1 + 0.2),
        Steering(math.nan),
        Steering(-math.inf),
        Signal("collision", 0.25, "probability"),
        Boxes2D(np.array([[1, 2, 3, 4.5]]), ("car",), np.array([0.3]), (10, 20), np.array([False])),
        Boxes2D(np.zeros((0, 4)), ()),
        Boxes3D(np.array([[1, 2, 3, 4, 5, 6, 0.5]]), ("van",)),
        SceneRef("scene-1", {"visibility": 40.0, "sky": "dusk"}),
        Group((Steering(1.5), Signal("brake", 1.0))),
    ],
)
def test_json_brings_answer_back(value: object) -> None:
    again = decode_value(encode_value(value))  # type: ignore[arg-type]
    assert again == value


def test_sensor_values_go_by_hash() -> None:
    large = (
        image(),
        PointCloud(np.zeros((2, 4))),
        Masks(np.zeros((2, 2)), {1: "car"}),
        Region((np.zeros((3, 2)),)),
        Calibration({"P2": np.eye(3)}),
    )
    assert [encode_value(value) for value in large] == [{"slot": v.slot, "sha": v.digest} for v in large]
    assert decode_values([encode_value(value) for value in large]) == ()


def test_find_goes_by_slot_and_name() -> None:
    said = (Steering(1), Signal("brake", 0.0), Signal("speed", 9.0))
    assert find(said, "signal", "speed") is said[2]
    assert find(said, "steering") is said[0]
    assert find(said, "boxes2d") is None


def test_group_of_sensor_values_goes_by_hash() -> None:
    group = Group((Masks(np.zeros((2, 2)), {}), Steering(1)))
    assert storable((group, Steering(2))) == (Steering(2),)
    assert encode_value(group) == {"slot": "group", "sha": group.digest}
