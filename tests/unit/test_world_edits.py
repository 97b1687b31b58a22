"""Edited scenes: what is not edited stays what it is, pixel by pixel; what is edited looks as if it had always been so."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from swerve.core.values import SceneRef
from swerve.world import lens
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, Conditions
from swerve.world.drives import drive
from swerve.world.edits import Add, Edit, EditedScene, Paint, Remove, SwapModel, edited
from swerve.world.frames import forget, render_edited, render_frame
from swerve.world.gbuffer import REACH, cast
from swerve.world.light import light
from swerve.world.model_sizes import model_of, model_sizes, models_by_size
from swerve.world.models import build_model, model_count
from swerve.world.objects import SeenObjects, objects_in
from swerve.world.paint import COLOURS, other_colours, painted
from swerve.world.render import render
from swerve.world.scene import LABELLED, Scene, Solid, Thing
from swerve.world.secondary_rays import SecondaryRays

VIEW = Camera(128, 72)
FRAMES = ("test/0/0#20", "test/0/3#20", "test/0/7#20")


def scene_at(frame: str) -> Scene:
    return drive(frame.partition("#")[0]).scene


def pose_at(frame: str):
    key, _, number = frame.partition("#")
    return drive(key).poses[int(number)]


@cache
def targets(frame: str) -> list[int]:
    """The largest visible object that stands, and the largest that moves."""
    things, items = scene_at(frame).things, objects_in(frame, VIEW).items
    sides = [[item for item in items if (things[item.number - 1].track is None) == parked] for parked in (True, False)]
    return [max(side, key=lambda item: (item.visible, item.number)).number for side in sides if side]


@cache
def parked() -> tuple[str, int]:
    """A frame, and a parked object in it."""
    found = ((frame, number) for frame in FRAMES for number in targets(frame))
    return next((frame, number) for frame, number in found if scene_at(frame).things[number - 1].track is None)


def edits_of(frame: str) -> list[Edit]:
    """A swap, another colour and the removal of each target."""
    found: list[Edit] = []
    for number in targets(frame):
        thing = scene_at(frame).things[number - 1]
        found += [SwapModel(number, models_by_size(thing)[0]), Paint(number, other_colours(thing.mesh)[2]), Remove(number)]
    assert found
    return found


@pytest.mark.parametrize("frame", FRAMES)
def test_edits_equal_a_scene_built_so(frame: str) -> None:
    """Whatever trees are shared, the bytes are those of a scene of its own."""
    scene, pose = scene_at(frame), pose_at(frame)
    for edit in edits_of(frame):
        other = edited(scene, (edit,))
        whole = Scene(**{name: getattr(other, name) for name in Scene.__dataclass_fields__})
        one, two = (render(each, pose, PRESETS["clear"], VIEW) for each in (other, whole))
        assert one.pixels.tobytes() == two.pixels.tobytes(), edit
        assert np.array_equal(one.things, two.things)
        assert np.array_equal(one.depth, two.depth)


@pytest.mark.parametrize("frame", FRAMES)
def test_own_model_and_no_edit_change_nothing(frame: str) -> None:
    plain = render_frame(SceneRef(frame, {}), VIEW, PRESETS["clear"])
    swaps = [SwapModel(number, model_of(scene_at(frame).things[number - 1])) for number in targets(frame)]
    for edits in (tuple(swaps), ()):
        again = render_edited(SceneRef(frame, {}), edits, VIEW, PRESETS["clear"])
        assert again.pixels.tobytes() == plain.pixels.tobytes()


def own_solid(scene: Scene, number: int, time: float) -> Solid | None:
    """A thing alone, where it stands."""
    if number > len(scene.things) or not len(scene.things[number - 1].mesh):
        return None
    thing = scene.things[number - 1]
    x, y, yaw = thing.pose(scene.road, time)
    return Solid.of([(thing.mesh.placed(x, y, yaw=yaw), number)])


def affected(scenes: tuple[Scene, Scene], number: int, frame: str, weather: Conditions) -> np.ndarray:
    """Pixels where an object is seen, casts its shadow, dims the sky or is reflected, in either scene."""
    pose, shape = pose_at(frame), (VIEW.height, VIEW.width)
    near, far = (np.zeros(shape, bool) for _ in range(2))
    buffers = [cast(scene.at(pose.time), pose, VIEW) for scene in scenes]
    solids = [solid for scene in scenes if (solid := own_solid(scene, number, pose.time)) is not None]
    sun = light(scenes[0].site, weather, yaw=pose.yaw).sun
    for scene, buffer in zip(scenes, buffers, strict=True):
        near |= buffer.things == number
        found = buffer.pixels.found
        for solid in solids:
            start = found.point + found.normal * np.float32(0.02) - found.toward * np.float32(1e-3)
            shaded = solid.is_hit(start, np.broadcast_to(sun[:, None], start.shape))
            near.flat[found.ray[shaded]] = True
            low, high = solid.mesh.bounds()
            gap = np.linalg.norm(np.maximum(np.maximum(low[:, None] - found.point, found.point - high[:, None]), 0), axis=0)
            far.flat[found.ray[gap < REACH]] = True
        if weather.wet > 0:
            mirror = SecondaryRays(lambda scene=scene: scene.at(pose.time)).mirror("", buffer.pixels, VIEW.pixels)
            rows = buffer.pixels.ground.rows[mirror.ground[mirror.found.ray]]
            near.flat[found.ray[rows[mirror.found.owner == number]]] = True
    # An outline's pixel has rays of its own, a tile of sky light is shared by its neighbours.
    grown = [cv2.dilate(part.astype(np.uint8), np.ones((size, size))) for part, size in ((near, 5), (far, 9))]
    return (grown[0] | grown[1]).astype(bool)


@pytest.mark.parametrize("name", ["clear", "rain"])
@pytest.mark.parametrize("frame", FRAMES)
def test_pixels_change_only_where_edits_are(frame: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects, their shadows and reflections; the glow of bright surfaces in the lens, which reaches far, aside."""
    monkeypatch.setattr(lens, "_bloom", lambda picture, here: picture)
    forget()
    weather, ref = PRESETS[name], SceneRef(frame, {})
    before = render_frame(ref, VIEW, weather)
    for edit in edits_of(frame):
        after = render_edited(ref, (edit,), VIEW, weather)
        changed = (before.pixels != after.pixels).any(axis=2)
        allowed = affected((scene_at(frame), edited(scene_at(frame), (edit,))), edit.thing, frame, weather)
        assert changed.any()
        assert not (changed & ~allowed).any(), edit
        assert not allowed.all()
    forget()


@pytest.mark.parametrize("frame", FRAMES)
def test_glow_moves_far_pixels_little(frame: str) -> None:
    ref, weather = SceneRef(frame, {}), PRESETS["clear"]
    before = render_frame(ref, VIEW, weather)
    for edit in edits_of(frame):
        after = render_edited(ref, (edit,), VIEW, weather)
        allowed = affected((scene_at(frame), edited(scene_at(frame), (edit,))), edit.thing, frame, weather)
        moved = np.abs(before.pixels.astype(int) - after.pixels).max(axis=2)
        assert moved[~allowed].max() <= 6, edit


def seen(frame: str, *edits: Edit) -> SeenObjects:
    return objects_in(frame, VIEW, edits)


def test_numbers_of_things_stay() -> None:
    frame = FRAMES[1]
    scene, before = scene_at(frame), objects_in(frame, VIEW)
    number = before.items[0].number
    gone = edited(scene, (Remove(number),))
    more = edited(scene, (Add("car", 3, 0.0, 0.0, 0.0),))
    assert len(gone.things) == len(scene.things)
    assert len(more.things) == len(scene.things) + 1
    assert [thing for place, thing in enumerate(gone.things, 1) if place != number] == [
        thing for place, thing in enumerate(scene.things, 1) if place != number
    ]
    assert more.things[:-1] == scene.things
    assert number not in seen(frame, Remove(number)).numbered


def test_seen_objects_are_those_of_the_frame() -> None:
    for frame in FRAMES:
        rendered = render_frame(SceneRef(frame, {}), VIEW, PRESETS["clear"])
        looked = objects_in(frame, VIEW)
        assert np.array_equal(looked.things, rendered.things)
        assert np.array_equal(looked.depth, rendered.depth)
        assert set(looked.masks.kinds) == {item.number for item in looked.items}
        for item in looked.items:
            assert looked.mask(item.number).sum() == item.visible


def test_added_object_is_where_it_should() -> None:
    frame = FRAMES[0]
    pose, scene = pose_at(frame), scene_at(frame)
    spot = pose.x + 14 * np.cos(pose.yaw), pose.y + 14 * np.sin(pose.yaw)
    item = seen(frame, Add("car", 5, *spot, pose.yaw)).numbered[len(scene.things) + 1]
    assert item.kind == "car"
    low, high = build_model("car", 5).bounds()
    assert item.place[:2] == pytest.approx((14 + (low[0] + high[0]) / 2 - VIEW.forward, 0), abs=1e-3)
    assert item.place[3:6] == pytest.approx(high - low, abs=1e-5)


def test_parked_objects_have_no_lights() -> None:
    frame, number = parked()
    thing = edited(scene_at(frame), (SwapModel(number, 1),)).things[number - 1]
    assert np.array_equal(thing.mesh.material, build_model(thing.kind, 1).unlit().material)


def test_repainting_builds_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, number = parked()
    scene = scene_at(frame)
    scene.at(pose_at(frame).time)
    monkeypatch.setattr(Scene, "standing", None)
    assert edited(scene, (Paint(number, "red"),)).static.tree is scene.static.tree


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Remove(9999), "no object 9999"),
        (Remove(0), "no object 0"),
        (SwapModel(1, 0), "object 1 is a"),
        (Add("tree", 0, 0.0, 0.0, 0.0), "a tree cannot be added"),
        (Add("car", 96, 0.0, 0.0, 0.0), "no car model 96"),
    ],
)
def test_impossible_edits_say_why(edit: Edit, why: str) -> None:
    scene = scene_at(FRAMES[0])
    assert scene.things[0].kind not in LABELLED
    assert why in str(edit.fault(scene))


def test_possible_edits_have_no_fault() -> None:
    frame = FRAMES[0]
    for edit in edits_of(frame):
        assert edit.fault(scene_at(frame)) is None


@pytest.mark.parametrize("kind", LABELLED)
def test_nearest_models_come_first(kind: str) -> None:
    thing = Thing(kind, build_model(kind, 2).unlit(), 0.0, 0.0, 0.0)
    order, sizes = models_by_size(thing), model_sizes(kind)
    assert model_of(thing) == 2
    assert sorted(order) == [number for number in range(model_count(kind)) if number != 2]
    away = np.abs(sizes[order] - sizes[2]).sum(axis=1)
    assert (np.diff(away) >= 0).all()


@pytest.mark.parametrize("kind", LABELLED)
def test_every_model_takes_every_colour(kind: str) -> None:
    for number in range(0, model_count(kind), 7):
        mesh = build_model(kind, number)
        for colour in COLOURS:
            other = painted(mesh, colour)
            rows = (other.colour == np.array(COLOURS[colour], np.float32)).all(axis=1)
            assert rows.any()
            assert np.array_equal(other.colour[~rows], mesh.colour[~rows])
        assert len(other_colours(mesh)) == len(COLOURS) - 1


def test_edited_scene_of_edits_stays_cheap() -> None:
    """Objects that move need no tree of what stands."""
    scene = scene_at(FRAMES[1])
    number = next(place for place, thing in enumerate(scene.things, 1) if thing.track and thing.kind in LABELLED)
    other = edited(scene, (Remove(number),))
    assert isinstance(other, EditedScene)
    assert other.static is scene.static
    assert replace(other, base=scene).is_loose(number) is False
