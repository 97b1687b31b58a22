from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.transformation import Transformation, params_of
from swerve.core.values import (
    Array,
    Boxes2D,
    Boxes3D,
    Calibration,
    Depth,
    Image,
    Masks,
    PointCloud,
    Region,
    SceneRef,
    Signal,
    Steering,
    Value,
)
from swerve.transformations.affine import BORDERS, Rotate, RotateAboutPixel, Scale, Shear, Translate

AFFINE = (Translate, Scale, Shear, Rotate, RotateAboutPixel)
SIZE = WIDTH, HEIGHT = 80, 60
PAINTED = 7

every_affine = pytest.mark.parametrize("kind", AFFINE, ids=lambda kind: kind.__name__)
changes = st.one_of(
    st.builds(Translate, st.floats(-90, 90), st.floats(-90, 90)),
    st.builds(Scale, st.floats(0.3, 6), st.floats(0.3, 6)),
    st.builds(Shear, st.floats(-1, 1), st.floats(-0.4, 0.4), anchor=st.sampled_from(["centre", "top-left"])),
    st.builds(Rotate, st.floats(-180, 180)),
    st.builds(RotateAboutPixel, st.floats(-180, 180)),
)
rectangles = st.tuples(st.integers(0, 70), st.integers(0, 50), st.integers(4, 30), st.integers(4, 30)).map(
    lambda r: (r[0], r[1], min(r[0] + r[2], WIDTH), min(r[1] + r[3], HEIGHT))
)


def boxes(*xyxy: tuple[float, ...], care: tuple[bool, ...] | None = None) -> Boxes2D:
    return Boxes2D(np.array(xyxy), ("car",) * len(xyxy), size=SIZE, care=None if care is None else np.array(care))


def painted(rectangle: tuple[int, int, int, int]) -> Array:
    left, top, right, bottom = rectangle
    instances = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
    instances[top:bottom, left:right] = PAINTED
    return instances


def as_image(instances: Array) -> Image:
    return Image((instances[..., None] == PAINTED).repeat(3, axis=2).astype(np.uint8) * 255)


def extent(seen: Array) -> tuple[int, int, int, int] | None:
    rows, columns = np.nonzero(seen)
    if not len(rows):
        return None
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def neutral(kind: Any) -> Transformation:
    change: Transformation = kind(**{name: facts.neutral for name, facts in params_of(kind).items()})
    return change


# --- boxes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Translate(10, 5), (30, 25, 50, 35)),
        (Translate(-30, 0), (0, 20, 10, 30)),
        (Scale(2, 2), (0, 10, 40, 30)),
        (Shear(-1), (20, 20, 50, 30)),
        (Shear(1, anchor="top-left"), (39.5, 20, 69.5, 30)),
        (Rotate(180), (40, 30, 60, 40)),
        (Rotate(90), (30, 30, 40, 50)),
    ],
    ids=repr,
)
def test_boxes_move_as_reckoned(change: Transformation, expected: tuple[float, ...]) -> None:
    moved = change.map(boxes((20, 20, 40, 30)))
    assert moved.xyxy[0] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=150)
@given(change=changes, rectangle=rectangles)
def test_boxes_contain_their_pixels(change: Transformation, rectangle: tuple[int, int, int, int]) -> None:
    seen = extent(change.map(as_image(painted(rectangle))).pixels[..., 0] > 127)
    left, top, right, bottom = change.map(boxes(rectangle)).xyxy[0]
    assert 0 <= left <= right <= WIDTH
    assert 0 <= top <= bottom <= HEIGHT
    if seen is not None:
        assert left - 1 <= seen[0]
        assert top - 1 <= seen[1]
        assert seen[2] <= right + 1
        assert seen[3] <= bottom + 1


@settings(max_examples=100)
@given(x=st.integers(-60, 60), y=st.integers(-40, 40), rectangle=rectangles)
def test_whole_shifts_fit_tightly(x: int, y: int, rectangle: tuple[int, int, int, int]) -> None:
    seen = extent(Translate(x, y).map(as_image(painted(rectangle))).pixels[..., 0])
    if seen is not None:
        assert Translate(x, y).map(boxes(rectangle)).xyxy[0].tolist() == list(seen)


@pytest.mark.parametrize(("x", "care"), [(0, True), (49, True), (50, True), (51, False), (200, False), (-45, False)])
def test_half_out_is_uncared(x: float, care: bool) -> None:
    moved = Translate(x, 0).map(boxes((20, 20, 40, 30)))
    assert moved.care is not None
    assert moved.care.tolist() == [care]


def test_boxes_pushed_out_remain() -> None:
    moved = Translate(200, 0).map(boxes((20, 20, 40, 30), (0, 0, 5, 5)))
    assert moved.xyxy.tolist() == [[80, 20, 80, 30], [80, 0, 80, 5]]
    assert moved.kinds == ("car", "car")
    assert moved.care is not None
    assert not moved.care.any()


def test_uncared_boxes_stay_uncared() -> None:
    moved = Rotate(3).map(boxes((20, 20, 40, 30), (20, 20, 40, 30), care=(False, True)))
    assert moved.care is not None
    assert moved.care.tolist() == [False, True]


def test_boxes_without_area_follow() -> None:
    moved = Translate(50, 0).map(boxes((10, 20, 10, 30), (40, 20, 40, 30)))
    assert moved.xyxy.tolist() == [[60, 20, 60, 30], [80, 20, 80, 30]]
    assert moved.care is not None
    assert moved.care.tolist() == [True, False]


def test_scores_and_sizes_stay() -> None:
    source = Boxes2D(np.array([(1, 2, 3, 4)]), ("van",), scores=np.array([0.25]), size=SIZE)
    moved = Rotate(9).map(source)
    assert (moved.kinds, moved.size) == (("van",), SIZE)
    assert moved.scores is not None
    assert moved.scores.tolist() == [0.25]


@every_affine
def test_no_boxes_stay_none(kind: Any) -> None:
    assert kind.grid()[0].map(boxes()) == boxes()


@every_affine
def test_boxes_need_their_size(kind: Any) -> None:
    with pytest.raises(InputError, match="without their image size"):
        kind.grid()[0].map(Boxes2D(np.array([(1, 2, 3, 4)]), ("car",)))


# --- masks and depth ---------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(change=changes, rectangle=rectangles)
def test_masks_follow_their_pixels(change: Transformation, rectangle: tuple[int, int, int, int]) -> None:
    source = painted(rectangle)
    moved = change.map(Masks(source, {PAINTED: "car"}))
    grey = change.map(as_image(source)).pixels[..., 0]
    assert (moved.instances[grey == 255] == PAINTED).all()
    assert (moved.instances[grey == 0] == 0).all()
    assert set(np.unique(moved.instances)) <= {0, PAINTED}
    assert moved.kinds == {PAINTED: "car"}


@pytest.mark.parametrize("border", BORDERS)
def test_new_ground_is_unlabelled(border: str) -> None:
    change = Translate(30, 0, border=border)
    assert not change.map(Masks(np.full((HEIGHT, WIDTH), 3), {3: "car"})).instances[:, :30].any()
    metres = change.map(Depth(np.full((HEIGHT, WIDTH), 4.5))).metres
    assert np.isinf(metres[:, :30]).all()
    assert (metres[:, 30:] == 4.5).all()


def test_depth_is_never_blended() -> None:
    source = np.random.default_rng(0).choice(np.array([2, 50, np.inf], dtype=np.float32), (HEIGHT, WIDTH))
    assert set(np.unique(Rotate(13).map(Depth(source)).metres)) == {2, 50, np.inf}


def test_large_instance_ids_survive() -> None:
    source = np.full((HEIGHT, WIDTH), 2**31 - 1, dtype=np.int32)
    assert Translate(0, 0.4).map(Masks(source, {})).instances.max() == 2**31 - 1


# --- all labels --------------------------------------------------------------------------------------------------


@every_affine
def test_neutral_keeps_every_label(kind: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 9, (HEIGHT, WIDTH))
    for value in (boxes((-5, 20, 140, 30)), Masks(noise, {}), Depth(noise / 3)):
        assert neutral(kind).map(value) == value


@every_affine
def test_declared_slots_are_kept(kind: Any) -> None:
    kept: tuple[Value, ...] = (
        Steering(3),
        Signal("speed", 4),
        PointCloud(np.ones((2, 4))),
        Boxes3D(np.ones((1, 7)), ("car",)),
        Region((np.eye(3, 2),)),
        Calibration({"Tr_velo_to_cam": np.eye(3, 4)}),
        SceneRef("town"),
    )
    followup = kind.grid()[0](Case("k", {"camera": as_image(painted((0, 0, 9, 9)))}, truth=kept))
    assert followup.truth == kept
    assert followup.parent == "k"


@every_affine
@pytest.mark.parametrize("name", ["camera", "P2"])
def test_camera_matrix_leads_to_the_moved_pixels(kind: Any, name: str) -> None:
    rng = np.random.default_rng(3)
    matrix = np.array([[80.0, 0, WIDTH / 2, 3], [0, 80, HEIGHT / 2, 1], [0, 0, 1, 0]])[:, : 3 if name == "camera" else 4]
    known = Calibration({name: matrix, "other": np.eye(3)}, size=(WIDTH, HEIGHT))
    points = np.vstack([rng.uniform(-1, 1, (2, 40)), rng.uniform(3, 9, 40), np.ones(40)])[: matrix.shape[1]]
    for change in kind.grid():
        after = change.map(known)
        before, now = (part[:2] / part[2] for part in (matrix @ points, after.matrices[name] @ points))
        spots = Boxes2D(np.vstack([before, before]).T, ("p",) * 40, size=(WIDTH, HEIGHT))
        inside = ((now > 0) & (now < [[WIDTH], [HEIGHT]])).all(axis=0)
        assert change.map(spots).xyxy[inside, :2] == pytest.approx(now.T[inside])
        assert np.array_equal(after.matrices["other"], np.eye(3))


def test_camera_matrix_without_a_size_is_refused() -> None:
    with pytest.raises(InputError, match="calibration cannot be transformed without its image size"):
        Rotate(3).map(Calibration({"camera": np.eye(3)}))


@settings(max_examples=100)
@given(st.floats(0.5, 30), st.floats(-20, WIDTH), st.floats(-20, HEIGHT), st.floats(5, 60), st.floats(5, 60))
def test_cut_boxes_are_hulls_of_what_is_seen(degrees: float, left: float, top: float, wide: float, high: float) -> None:
    box = boxes((left, top, left + wide, top + high))
    change = Rotate(degrees)
    moved = change.map(box)
    assert isinstance(moved, Boxes2D)
    across, down = np.meshgrid(np.linspace(left, left + wide, 60), np.linspace(top, top + high, 60))
    points = np.stack([across.ravel(), down.ravel()], 1)
    there = points @ change._matrix(WIDTH, HEIGHT)[:, :2].T + change._matrix(WIDTH, HEIGHT)[:, 2]
    seen = there[((there >= 0) & (there <= (WIDTH, HEIGHT))).all(axis=1)]
    if len(seen) > 50:
        tight = np.concatenate([seen.min(axis=0), seen.max(axis=0)])
        assert np.abs(moved.xyxy[0] - tight).max() < 2 * max(wide, high) / 59 + 1e-6
        share = len(seen) / len(there)
        assert abs(share - 0.5) < 0.06 or bool(np.asarray(moved.care)[0]) == (share >= 0.5)


@every_affine
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1)])
@pytest.mark.parametrize("border", BORDERS)
def test_tiny_frames_do_not_crash(kind: Any, size: tuple[int, int], border: str) -> None:
    width, height = size
    flat = np.ones((height, width))
    for row in kind.grid():
        change = kind(**{name: getattr(row, name) for name in params_of(kind)}, border=border)
        truth = (Boxes2D(np.array([(0, 0, width, height)]), ("car",), size=size), Masks(flat, {}), Depth(flat))
        followup = change(Case("k", {"camera": Image(np.ones((height, width, 3), dtype=np.uint8))}, truth=truth))
        assert 0 <= float(followup.facts["fill"]) <= 1
        assert all(value.fault() is None for value in followup.truth)
