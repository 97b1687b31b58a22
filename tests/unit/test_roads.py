from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest

from swerve.case import Case, Source, group_of
from swerve.sources import roads
from swerve.sources.roads import Roads
from swerve.values import Image, Steering

STRAIGHT = roads._Path(bend=0.0, wave=0.0, pulse=0.02, phase=0.0, drift=0.0, sway=0.1, start=0.0)


def pixels(case: Case) -> np.ndarray:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels.astype(float)


def degrees(case: Case) -> float:
    (said,) = case.truth
    assert isinstance(said, Steering)
    return said.degrees


def columns_of_road(path: roads._Path, row: int) -> np.ndarray:
    """Where changing the asphalt alone changes the picture."""
    scene = dataclasses.replace(roads._scene(7, "test", 0), path=path, horizon=65.0, sight=1e6)
    black, white = (dataclasses.replace(scene, asphalt=roads._colour([grey] * 3)) for grey in (10, 240))
    pair = [roads._render(each, 0.0, np.random.default_rng(1)).astype(float) for each in (black, white)]
    return np.flatnonzero(np.abs(pair[1] - pair[0]).mean(axis=2)[row] > 80)


@pytest.mark.parametrize("bend", [0.005, 0.015])
def test_left_bend_steers_left(bend):
    left, right = (dataclasses.replace(STRAIGHT, bend=sign * bend) for sign in (1, -1))
    assert roads._steer(left, 0.0) == pytest.approx(15 * math.degrees(math.atan(2.8 * bend)), rel=0.02)
    assert roads._steer(right, 0.0) == pytest.approx(-roads._steer(left, 0.0))


def test_left_bend_lies_left():
    left, straight, right = (dataclasses.replace(STRAIGHT, bend=bend) for bend in (0.015, 0.0, -0.015))
    places = [columns_of_road(path, 75).mean() for path in (left, straight, right)]
    assert places[0] < places[1] - 20
    assert places[2] > places[1] + 20


def test_car_left_of_lane_returns():
    off_centre = dataclasses.replace(STRAIGHT, drift=0.5, start=math.pi / 2)
    assert off_centre.offset(0.0) == pytest.approx(0.5)
    assert roads._steer(off_centre, 0.0) < -10
    assert columns_of_road(off_centre, 110).max() > columns_of_road(STRAIGHT, 110).max()


def test_labels_spread_like_driving():
    angles = [roads._steer(roads._scene(7, "test", drive).path, 0.0) for drive in range(400)]
    assert 18 < np.std(angles) < 26
    assert np.max(np.abs(angles)) < 100
    assert abs(np.mean(angles)) < 4


def test_same_key_same_bytes():
    first = Roads(drives=3)["test-0002/0001"]
    roads._scene.cache_clear()
    again = Roads(drives=9, frames=5)["test-0002/0001"]
    assert first.input_sha == again.input_sha
    assert first.truth == again.truth


def test_splits_share_no_frame():
    seen = [{source[key].input_sha for key in source.keys()} for source in map(splits, ("train", "val", "test"))]
    assert len(set.union(*seen)) == sum(map(len, seen)) == 18
    angles = {degrees(source[source.keys()[0]]) for source in map(splits, ("train", "val", "test"))}
    assert len(angles) == 3


def splits(name: str) -> Roads:
    return Roads(drives=6, frames=1, split=name)


def test_frames_of_drive_flow():
    source = Roads(drives=4, frames=4)
    cases = [source[key] for key in source.keys()]
    for before, after in pairwise(cases):
        change = np.abs(pixels(after) - pixels(before)).mean()
        if before.group == after.group:
            assert 1 < change < 10
            assert 0 < abs(degrees(after) - degrees(before)) < 3
        else:
            assert change > 10


def test_source_knows_its_keys():
    source = Roads(drives=2, frames=2)
    assert isinstance(source, Source)
    assert source.keys() == ["test-0000/0000", "test-0000/0001", "test-0001/0000", "test-0001/0001"]
    assert group_of(source, "test-0001/0000") == source["test-0001/0000"].group == "test-0001"
    assert pixels(source["test-0001/0000"]).shape == (160, 320, 3)


@pytest.mark.parametrize("key", ["test-0002/0000", "test-0000/0002", "train-0000/0000", "test-0/0", ""])
def test_unknown_key_is_refused(key):
    source = Roads(drives=2, frames=2)
    with pytest.raises(KeyError, match="keys run from test-0000/0000 to test-0001/0001"):
        source[key]
    with pytest.raises(KeyError):
        source.group(key)


@pytest.mark.parametrize(
    ("field", "value"),
    [("drives", 0), ("drives", 10_000), ("frames", 1.5), ("frames", True), ("seed", -1), ("split", "a/b"), ("split", "")],
)
def test_bad_field_is_named(field, value):
    with pytest.raises(ValueError, match=rf"^{field} must be .*got {value!r}$"):
        Roads(**{field: value})


@pytest.mark.parametrize("change", [{"drives": 21}, {"frames": 3}, {"seed": 8}, {"split": "val"}])
def test_fingerprint_follows_fields(change):
    assert Roads().fingerprint() == Roads().fingerprint()
    assert Roads(**change).fingerprint() != Roads().fingerprint()
