"""One small scene, looked at closely: what pixels, masks, boxes and depth say of each other."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from swerve.core.errors import InputError, NotApplicable
from swerve.core.transformation import Chain
from swerve.core.values import Boxes2D, Boxes3D, Calibration, Classes, Depth, Masks, SceneRef, Steering, find
from swerve.sources.windows import Windows
from swerve.transformations.photometric import Brighten
from swerve.transformations.rerender import Rerender
from swerve.world import labels
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, conditions
from swerve.world.driver import driver
from swerve.world.drives import drive, parse_frame_key
from swerve.world.plan import scene
from swerve.world.render import render
from swerve.world.scene import LABELLED
from swerve.world.source import LABELS, World

SMALL = Camera(192, 108)
KEYS = [f"test/0/{number}" for number in range(6)]


@cache
def looked(key: str, weather: str = "clear", frame: int = 8):
    way = drive(key)
    pose = way.poses[frame]
    return way.scene, pose, render(way.scene, pose, conditions(weather), SMALL)


@cache
def labelled(number: int = 2):
    source = World(drives=6, labels=LABELS, width=192, height=108)
    return source[source.keys()[number]]


def test_same_key_gives_the_same_bytes() -> None:
    once, again = (render(scene("k"), driver(scene("k")).drive(3)[2], conditions("rain"), SMALL) for _ in range(2))
    assert once.pixels.tobytes() == again.pixels.tobytes()
    assert once.depth.tobytes() == again.depth.tobytes()


def test_other_keys_give_other_places() -> None:
    frames = [looked(key)[2].pixels.astype(int) for key in KEYS]
    assert all(np.abs(one - two).mean() > 8 for one, two in pairwise(frames))


@pytest.mark.parametrize("weather", PRESETS)
@pytest.mark.parametrize("key", KEYS[:3])
def test_conditions_keep_what_is_where(key: str, weather: str) -> None:
    clear, other = looked(key)[2], looked(key, weather)[2]
    assert np.array_equal(clear.things, other.things)
    assert np.array_equal(clear.depth, other.depth)
    assert weather == "clear" or not np.array_equal(clear.pixels, other.pixels)


@pytest.mark.parametrize("weather", PRESETS)
def test_exposure_is_sensible(weather: str) -> None:
    for key in KEYS[:3]:
        pixels = looked(key, weather)[2].pixels
        assert (pixels == 255).all(axis=2).mean() < 0.03, "burnt out"
        assert 20 < pixels.mean() < 200
        assert pixels.std() > 12


def test_night_is_darker_than_day() -> None:
    for key in KEYS[:3]:
        clear, dusk, night = (looked(key, weather)[2].pixels.mean() for weather in ("clear", "dusk", "night"))
        assert night < dusk < clear


def test_fog_hides_the_distance_first() -> None:
    clear, foggy = looked(KEYS[2], "overcast")[2], looked(KEYS[2], "fog")[2]
    far, near = clear.depth > 90, clear.depth < 12
    spread = [np.std(frame.pixels[part].astype(float)) for frame in (foggy, clear) for part in (far, near)]
    assert spread[0] / spread[2] < 0.5 * spread[1] / spread[3]


@pytest.mark.parametrize("key", KEYS)
def test_masks_lie_in_their_boxes(key: str) -> None:
    place, pose, frame = looked(key)
    items = labels.visible_things(place, pose, SMALL, frame)
    assert items
    for item in items:
        rows, columns = np.nonzero(frame.things == item.number)
        left, top, right, bottom = item.box
        assert left - 1e-3 <= columns.min() + 0.5
        assert columns.max() + 0.5 <= right + 1e-3
        assert top - 1e-3 <= rows.min() + 0.5
        assert rows.max() + 0.5 <= bottom + 1e-3


def test_boxes_of_unhidden_things_are_tight() -> None:
    checked = 0
    for key in KEYS:
        place, pose, frame = looked(key)
        for item in labels.visible_things(place, pose, SMALL, frame):
            if item.hidden < 0.02 and item.visible > 150:
                rows, columns = np.nonzero(frame.things == item.number)
                around = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
                assert np.abs(np.array(around) - item.box).max() <= 1.5, (key, item)
                checked += 1
    assert checked >= 3


def test_hidden_share_sees_what_stands_before() -> None:
    place, pose, frame = looked(KEYS[2])
    items = {item.number: item for item in labels.visible_things(place, pose, SMALL, frame)}
    number, item = max(items.items(), key=lambda pair: pair[1].visible)
    alone = replace(place, things=tuple(
        thing if index == number else replace(thing, mesh=thing.mesh.scaled(1e-3, 1e-3, 1e-3))
        for index, thing in enumerate(place.things, 1)))  # fmt: skip
    free = (render(alone, pose, conditions(), SMALL).things == number).sum()
    assert 1 - item.visible / free == pytest.approx(item.hidden, abs=0.08)


@pytest.mark.parametrize("key", KEYS)
def test_ground_boxes_project_onto_the_frame_boxes(key: str) -> None:
    place, pose, frame = looked(key)
    for item in labels.visible_things(place, pose, SMALL, frame):
        x, y, z, length, width, height, yaw = item.place
        if x - length < 3:
            continue
        signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) / 2
        corner = signs * [length, width, height]
        turned = np.stack([corner[:, 0] * np.cos(yaw) - corner[:, 1] * np.sin(yaw),
                           corner[:, 0] * np.sin(yaw) + corner[:, 1] * np.cos(yaw), corner[:, 2]], 1)  # fmt: skip
        points = turned + np.array([x, y, z])
        columns = SMALL.width / 2 - points[:, 1] / points[:, 0] * SMALL.pixels
        assert item.box[0] >= np.clip(columns.min(), 0, SMALL.width) - 0.01
        assert item.box[2] <= np.clip(columns.max(), 0, SMALL.width) + 0.01


def test_depth_is_along_the_axis() -> None:
    frame = looked(KEYS[0])[2]
    flat = Camera(192, 108)
    row = flat.height - 1
    below = (row + 0.5 - flat.horizon * flat.height) / flat.pixels
    middle = frame.depth[row, flat.width // 2]
    assert middle == pytest.approx(flat.above / below, rel=2e-3)
    aside = frame.depth[row, 20:172:8]  # off the axis, level ground is as far along it
    assert np.median(aside) == pytest.approx(flat.above / below, rel=2e-3)


def test_project_inverts_the_rays() -> None:
    _, pose, frame = looked(KEYS[3])
    rays = SMALL.rays(pose).T.astype(float)
    forward = rays @ [np.cos(pose.yaw), np.sin(pose.yaw), 0]
    near = np.flatnonzero(np.isfinite(frame.depth.ravel()))[::97]
    points = SMALL.eye(pose) + rays[near] * (frame.depth.ravel()[near] / forward[near])[:, None]
    at, ahead = SMALL.project(pose, points)
    assert at == pytest.approx(np.stack([near % SMALL.width + 0.5, near // SMALL.width + 0.5], 1), abs=0.01)
    assert ahead == pytest.approx(frame.depth.ravel()[near], rel=1e-4)


@pytest.mark.parametrize("key", KEYS[:4])
def test_mirrored_scene_mirrors_the_frame(key: str) -> None:
    place, pose, frame = looked(key)
    other = render(place.mirrored(), replace(pose, y=-pose.y, yaw=-pose.yaw), conditions(), SMALL)
    assert (np.flip(other.things, 1) == frame.things).mean() > 0.995
    there, here = np.flip(other.depth, 1), frame.depth
    both = np.isfinite(there) & np.isfinite(here)
    assert (np.abs(there[both] / here[both] - 1) < 0.02).mean() > 0.99
    assert (np.isfinite(there) == np.isfinite(here)).mean() > 0.98  # outlines of far leaves may fall either way


def test_case_has_every_label_asked_for() -> None:
    case = labelled()
    kinds = [type(value) for value in case.truth]
    assert kinds == [Steering, SceneRef, Boxes2D, Boxes3D, Masks, Classes, Depth, Calibration]
    assert case.group == "test/0/2"


def test_masks_name_labelled_kinds_alone() -> None:
    masks, boxes = (find(labelled().truth, slot) for slot in ("masks", "boxes2d"))
    assert set(np.unique(masks.instances)) - {0} == set(masks.kinds)
    assert set(masks.kinds.values()) <= set(LABELLED)
    assert sorted(boxes.kinds) == sorted(masks.kinds.values())


def test_splits_share_no_scene() -> None:
    names = {split: {World(drives=5, split=split).group(key) for key in World(drives=5, split=split).keys()}
             for split in ("train", "val", "test")}  # fmt: skip
    assert not names["train"] & names["val"] | names["train"] & names["test"] | names["val"] & names["test"]
    roads = {scene(name).road.curvature.tobytes() for split in names for name in names[split]}
    assert len(roads) == 15


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"split": "tset"}, "did you mean 'test'"),
        ({"conditions": "nigth"}, "did you mean 'night'"),
        ({"labels": ("boxes",)}, "unknown labels 'boxes'"),
        ({"frames": 1000}, "1 to 300"),
        ({"drives": 0}, "at least 1"),
        ({"drives": 2.5}, "drives must be a whole number"),
        ({"labels": "masks"}, "labels must be a list"),
        ({"labels": ("depth", "depth")}, "without repetitions"),
        ({"width": 8}, "from 16 to 4096"),
    ],
)
def test_wrong_worlds_are_refused(given, said: str) -> None:
    with pytest.raises(InputError, match=said):
        World(**given)


def test_day_differs_between_drives() -> None:
    source = World(drives=3, conditions="day")
    assert source.weather("test/0/0") != source.weather("test/0/1")
    assert source.weather("test/0/1") == source.weather("test/0/1")


def test_no_frame_of_the_world_is_refused() -> None:
    with pytest.raises(InputError, match="expected a key such as"):
        parse_frame_key("test/0/1")


def test_rerender_keeps_every_label() -> None:
    case = labelled()
    after = Rerender("snow")(case)
    kept = [value for value in case.truth if not isinstance(value, SceneRef)]
    assert [value for value in after.truth if not isinstance(value, SceneRef)] == kept
    assert after.inputs["camera"] != case.inputs["camera"]
    assert find(after.truth, "scene").conditions["snow"] == PRESETS["snow"].snow
    assert after.parent == case.key


def test_rerender_equals_the_source_under_it() -> None:
    rainy = World(drives=3, conditions="rain", width=192, height=108)
    clear = World(drives=3, width=192, height=108)
    key = clear.keys()[1]
    assert Rerender("rain")(clear[key]).inputs["camera"] == rainy[key].inputs["camera"]


def test_rerender_serves_whole_windows() -> None:
    frames = World(drives=1, frames=4, width=96, height=54)
    window = Windows(frames, 3)
    after = Rerender("night")(window["test/0/0#3"]).inputs["camera"]
    single = [Rerender("night")(frames[f"test/0/0#{number}"]).inputs["camera"] for number in (1, 2, 3)]
    assert list(after.values) == single


def test_rerender_limits_the_visibility() -> None:
    assert Rerender("rain", visibility=100.0).weather.visibility == 100
    assert Rerender("fog", visibility=500.0).weather.visibility == PRESETS["fog"].visibility


def test_rerender_needs_an_untouched_world() -> None:
    case = labelled()
    with pytest.raises(NotApplicable, match="rerender must be the first step"):
        Chain((Brighten(10), Rerender("rain")))(case)
    with pytest.raises(NotApplicable, match="no scene"):
        Rerender("rain")(replace(case, truth=()))
    with pytest.raises(InputError, match="unknown conditions"):
        Rerender("drizzle")


@pytest.mark.parametrize("wrong", [0.0, float("nan"), -3.0, "thick", True])
def test_impossible_conditions_are_refused(wrong) -> None:
    with pytest.raises(InputError, match="'visibility' must be a number from 5 to 20000"):
        conditions("fog", visibility=wrong)


def test_foreign_keys_are_refused() -> None:
    with pytest.raises(KeyError):
        World(drives=2)["test/0/2#0"]


def test_worlds_can_be_copied() -> None:
    source = World(drives=1, width=64, height=36)
    key = source.keys()[0]
    assert pickle.loads(pickle.dumps(source))[key] == deepcopy(source)[key] == source[key]


def test_threads_see_the_same_frames() -> None:
    source = World(drives=2, frames=2, width=64, height=36, seed=91)
    cases = [source[key] for key in source.keys()]
    with ThreadPoolExecutor(4) as pool:
        wet = list(pool.map(Rerender("rain"), cases))
    assert [case.inputs for case in wet] == [Rerender("rain")(case).inputs for case in cases]


def test_unknown_condition_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'clouds'"):
        conditions("clear", cloud=1.0)
