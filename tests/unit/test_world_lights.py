"""Junctions with traffic lights: designs kept apart, exact boxes and states, and what a change of state touches."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.values import Masks, SceneRef, find
from swerve.testing.contracts import SourceContract
from swerve.transformations.rerender import Rerender
from swerve.world import frames
from swerve.world.conditions import PRESETS, conditions
from swerve.world.gbuffer import cast
from swerve.world.light_labels import VisibleHead, head_pixels, in_view, visible_heads
from swerve.world.light_source import LightWorld
from swerve.world.light_views import FARTHEST, NEAREST, OTHER, View, camera_of, view
from swerve.world.mesh import Material
from swerve.world.render import Rendered, render, shade
from swerve.world.secondary_rays import SecondaryRays
from swerve.world.signal_heads import ASPECTS, COLOURS, STATES, STREETS, SignalHead, catalogue, designs, head_mesh
from swerve.world.source import SPLITS

KEYS = [f"lights-{streets}/{split}/0/1#{number}" for streets in STREETS for split in ("train", "test") for number in (0, 2)]
HUES = {"red": 5.0, "yellow": 48.0, "green": 165.0}  # degrees
CLEAR = conditions("clear")


def small(key: str) -> View:
    found = view(key)
    return replace(found, camera=camera_of(key, (480, 270)))


@cache
def frame(key: str, name: str = "clear") -> Rendered:
    here = small(key)
    return render(here.scene, here.pose, conditions(name), here.camera)


@pytest.mark.parametrize("streets", STREETS)
def test_splits_share_no_design(streets: str) -> None:
    parts = [designs(streets, split) for split in SPLITS]
    assert sum(map(len, parts)) == len(catalogue(streets))
    assert [len(part) for part in parts] == [36, 12, 12]
    signatures = [{each.signature for each in part} for part in parts]
    assert len(set.union(*signatures)) == len(catalogue(streets))
    for part in parts:
        assert {each.flat for each in part} == {True, False}


def test_sets_of_streets_share_no_design() -> None:
    first, second = ({each.signature for each in catalogue(streets)} for streets in STREETS)
    assert not first & second


def test_scenes_use_designs_of_their_split() -> None:
    for key in KEYS:
        streets, split = key.removeprefix("lights-").split("/")[:2]
        assert {head.design for head in view(key).scene.heads.values()} <= set(designs(streets, split))


@pytest.mark.parametrize("aspect", ASPECTS)
def test_states_differ_in_paint_alone(aspect: str) -> None:
    design = catalogue("A")[0]
    off, *lit = (head_mesh(design, aspect, state) for state in ("off", *COLOURS))
    for one in lit:
        assert np.array_equal(one.corners, off.corners)
        assert np.array_equal(one.normals, off.normals)
        assert (one.material != off.material).any()


@pytest.mark.parametrize("key", KEYS)
def test_boxes_are_those_of_the_pixels(key: str) -> None:
    here, seen = small(key), frame(key)
    found = visible_heads(here.scene, here.pose, here.camera, seen)
    assert found
    for item in found:
        rows, columns = np.nonzero(seen.things == item.number)
        mask = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert item.visible == len(rows)
        assert item.kind == here.scene.heads[item.number].state
        if item.hidden == 0:
            assert item.box == mask
        assert np.all(np.array(item.box[:2]) <= mask[:2])
        assert np.all(np.array(item.box[2:]) >= mask[2:])
    assert any(item.hidden == 0 for item in found)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "clear"])
def test_masks_are_the_same_in_all_conditions(name: str) -> None:
    for key in KEYS[:1] + KEYS[-1:]:
        assert np.array_equal(frame(key).things, frame(key, name).things)
        assert not np.array_equal(frame(key).pixels, frame(key, name).pixels)


def test_camera_is_before_the_junction() -> None:
    for key in KEYS:
        here = view(key)
        road = here.scene.road
        s = road.locate(*(np.array([part]) for part in here.camera.eye(here.pose)[:2]))[0, 0]
        away = road.junctions[0].s - road.junctions[0].half - s
        assert NEAREST - 0.2 <= away <= FARTHEST + 0.2


def lamp_hues(here: View) -> dict[int, float]:
    """The hue of the lit lamp of each head in degrees: that of the pixels whose rays meet the lamp."""
    snapshot = here.scene.at(0)
    buffer = cast(snapshot, here.pose, here.camera)
    seen, found = shade(buffer, CLEAR, SecondaryRays(lambda: snapshot)), buffer.pixels.found
    hues = {}
    for number in here.scene.heads:
        lamp = found.ray[(found.owner == number) & (found.material == Material.SIGNAL_ON)]
        if len(lamp):
            mean = seen.pixels.reshape(-1, 3)[lamp].mean(axis=0)
            hues[number] = float(cv2.cvtColor(np.uint8([[mean]]), cv2.COLOR_RGB2HSV)[0, 0, 0]) * 2
    return hues


def nearest_state(hue: float) -> str:
    return min(HUES, key=lambda name: min(abs(hue - HUES[name]), 360 - abs(hue - HUES[name])))


@pytest.mark.parametrize("streets", STREETS)
def test_lit_lamp_has_the_hue_of_its_state(streets: str) -> None:
    checked = 0
    for number in range(4):
        here = view(f"lights-{streets}/val/0/{number // 2}#{number % 2}")
        required = [item.number for item in in_view(here.scene, here.pose, here.camera) if item.care]
        for head, hue in lamp_hues(here).items():
            if head in required:
                assert nearest_state(hue) == here.scene.heads[head].state
                checked += 1
    assert checked >= 5


def test_state_change_keeps_the_tree_and_the_surroundings() -> None:
    key = KEYS[2]
    here = small(key)
    number, head = next(iter(here.scene.heads.items()))
    other = next(state for state in COLOURS if state != head.state)
    changed = here.scene.relit({number: other})
    assert changed.actors.tree is here.scene.actors.tree
    assert changed.heads[number].state == other
    assert here.scene.heads[number].state == head.state
    before, after = frame(key), render(changed, here.pose, CLEAR, here.camera)
    afresh = render(here.scene.with_heads({number: head.changed(state=other)}), here.pose, CLEAR, here.camera)
    assert np.array_equal(after.pixels, afresh.pixels)
    assert np.array_equal(before.things, after.things)
    where = head_pixels(head, here.pose, here.camera)
    assert where is not None
    near = np.zeros(before.things.shape, bool)
    left, top, right, bottom = map(int, where.box)
    grown = 40  # pixels of glow
    near[max(top - grown, 0) : bottom + grown, max(left - grown, 0) : right + grown] = True
    difference = np.abs(before.pixels.astype(int) - after.pixels).max(axis=2)
    assert difference[near].max() > 40
    assert difference[~near].max() <= 2


class TestSource(SourceContract):
    def source(self) -> Source:
        return LightWorld(junctions=2, frames=2, conditions="all", width=160, height=90)


HEAD = VisibleHead(7, "red", (10.0, 10.0, 18.0, 34.0), 100, 0.0, (20.0, 0.0, 3.0, 0.2, 0.4, 1.0, 0.0))


@pytest.mark.parametrize(
    ("changed", "care"),
    [
        ({}, True),
        ({"box": (10.0, 10.0, 17.0, 34.0)}, False),
        ({"box": (10.0, 10.0, 34.0, 17.0)}, False),
        ({"hidden": 0.5}, True),
        ({"hidden": 0.51}, False),
        ({"inside": 0.5}, True),
        ({"inside": 0.49}, False),
    ],
)
def test_small_and_hidden_heads_are_ignored(changed: dict[str, Any], care: bool) -> None:
    assert replace(HEAD, **changed).care is care


def test_lights_of_other_traffic_have_no_box() -> None:
    others = 0
    for key in KEYS:
        scene = view(key).scene
        turned = [thing for thing in scene.things if isinstance(thing, SignalHead) and thing.kind == OTHER]
        others += len(turned)
        assert not set(turned) & set(scene.heads.values())
        facing = [float(np.cos(head.yaw - view(key).pose.yaw)) for head in scene.heads.values()]
        assert min(facing) > 0.9
        assert all(float(np.cos(head.yaw - view(key).pose.yaw)) < 0.5 for head in turned)
    assert others


def test_views_of_a_junction_share_their_tree() -> None:
    first, second = (view(f"lights-A/train/0/1#{number}") for number in (0, 2))
    assert first.scene.static is second.scene.static
    assert first.scene.things != second.scene.things


def test_cars_keep_clear_of_the_camera() -> None:
    for key in KEYS:
        here = view(key)
        near = [head for head in here.scene.things if head.kind in ("car", "van", "bus", "truck")]
        eye = here.camera.eye(here.pose)
        for thing in near:
            ahead = (thing.x - eye[0]) * np.cos(here.pose.yaw) + (thing.y - eye[1]) * np.sin(here.pose.yaw)
            aside = abs(-(thing.x - eye[0]) * np.sin(here.pose.yaw) + (thing.y - eye[1]) * np.cos(here.pose.yaw))
            assert aside > 1.5 or not -8 < ahead < 3, (key, thing.kind, ahead, aside)


def test_source_gives_the_same_bytes_again() -> None:
    first, second = (LightWorld(junctions=1, frames=1, conditions="all", width=240, height=135) for _ in range(2))
    (key,) = first.keys()
    assert first[key].inputs["camera"] == second[key].inputs["camera"]
    assert first[key].truth == second[key].truth
    assert first.fingerprint() == second.fingerprint()


def test_frames_are_rendered_again_by_their_own_camera() -> None:
    frames.forget()
    source = LightWorld(junctions=1, frames=1, conditions="clear", labels=("boxes2d", "masks"), width=240, height=135)
    case = source[source.keys()[0]]
    again = Rerender("night")(case)
    at_night = LightWorld(junctions=1, frames=1, conditions="night", labels=("boxes2d", "masks"), width=240, height=135)
    assert again.inputs["camera"] == at_night[case.key].inputs["camera"]
    assert find(again.truth, "boxes2d") == find(case.truth, "boxes2d")
    masks, ref = find(again.truth, "masks"), find(again.truth, "scene")
    assert isinstance(masks, Masks)
    assert set(masks.kinds.values()) <= set(STATES)
    assert isinstance(ref, SceneRef)
    assert ref.conditions["sun"] < 0
    frames.forget()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"streets": "C"}, "streets"),
        ({"split": "tset"}, "did you mean 'test'"),
        ({"conditions": "dya"}, "did you mean 'day'"),
        ({"junctions": 0}, "at least 1"),
        ({"frames": True}, "whole number"),
        ({"labels": "boxes2d"}, "must be a list"),
        ({"width": 8}, "from 16 to 4096"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LightWorld(**given)  # type: ignore[arg-type]
