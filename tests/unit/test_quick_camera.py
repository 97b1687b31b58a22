"""The quick camera: the same scene as the full one, fewer rays."""

from __future__ import annotations

import numpy as np
import pytest

from swerve.core.errors import InputError
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS
from swerve.world.drives import Drive, drive
from swerve.world.edits import Remove, edited
from swerve.world.gbuffer import cast
from swerve.world.quick_camera import quick_picture, quick_snapshot
from swerve.world.render import render
from swerve.world.scene import Snapshot

FULL, CUT = Camera(128, 72), Camera(128, 72, cut=25)
KEYS = ("test/0/1", "test/0/2", "test/0/4")


def pictures(way: Drive, number: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    pose, sky = way.poses[number], PRESETS[name]
    return quick_picture(way.scene, pose, sky, CUT), render(way.scene, pose, sky, FULL).pixels[CUT.cut :]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["clear", "night", "fog"])
def test_surfaces_look_as_in_the_full_picture(key: str, name: str) -> None:
    """Most pixels that are not on an outline have the colour of the full picture, up to rounding and glow."""
    way = drive(key)
    quick, full = pictures(way, 20, name)
    assert quick.shape == full.shape == (47, 128, 3)
    pose = way.poses[20]
    inner = np.ones(72 * 128, bool)
    inner[cast(way.scene.at(pose.time), pose, FULL).outline] = False
    inner = inner.reshape(72, 128)[CUT.cut :]
    assert inner.mean() > 0.2
    away = np.abs(quick.astype(int) - full).max(axis=2)
    assert np.median(away[inner]) <= 3
    assert np.median(np.abs(quick[1:].astype(int) - full[:-1]).max(axis=2)[inner[:-1]]) > np.median(away[inner])


@pytest.mark.parametrize("name", ["clear", "rain", "snow-night"])
def test_same_arguments_same_bytes(name: str) -> None:
    way = drive(KEYS[0])
    one, two = (quick_picture(way.scene, way.poses[9], PRESETS[name], CUT).tobytes() for _ in range(2))
    assert one == two


@pytest.mark.parametrize("size", [(64, 36, 0), (200, 112, 43), (257, 101, 30)])
def test_any_size_is_rendered(size: tuple[int, int, int]) -> None:
    width, height, cut = size
    way = drive(KEYS[1])
    quick = quick_picture(way.scene, way.poses[3], PRESETS["clear"], Camera(width, height, cut=cut))
    assert quick.shape == (height - cut, width, 3)
    assert quick.dtype == np.uint8


@pytest.mark.parametrize("key", KEYS)
def test_movers_are_hit_where_their_tree_would_be(key: str) -> None:
    """Rays cast in the frame of each moving object meet what a tree of all of them meets."""
    way = drive(key)
    pose = way.poses[15]
    exact, quick = (
        cast(one, pose, FULL, refined=False) for one in (way.scene.at(pose.time), quick_snapshot(way.scene, pose, FULL))
    )
    near = (exact.depth < 80) & (quick.depth < 80)
    other = (exact.things != quick.things) & near
    assert other.mean() < 1e-3  # a ray along an edge
    same = near & ~other
    assert np.abs(exact.depth[same] - quick.depth[same]).max() < 0.02


def test_rendered_rows_are_those_of_the_frame() -> None:
    way = drive(KEYS[0])
    pose = way.poses[15]
    snapshot = way.scene.at(pose.time)
    whole, part = (cast(snapshot, pose, camera, refined=False) for camera in (FULL, CUT))
    assert np.array_equal(whole.things[CUT.cut :], part.things)
    assert np.array_equal(whole.depth[CUT.cut :], part.depth)


def test_no_tree_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    way = drive(KEYS[0])
    quick_picture(way.scene, way.poses[15], PRESETS["clear"], CUT)
    monkeypatch.setattr("swerve.world.scene.TriangleMesh", None)
    quick_picture(way.scene, way.poses[15], PRESETS["rain"], CUT)


def test_scene_without_traffic_is_rendered() -> None:
    way = drive(KEYS[0])
    gone = tuple(Remove(number) for number, thing in enumerate(way.scene.things, 1) if thing.track is not None)
    empty = edited(way.scene, gone)
    snapshot = quick_snapshot(empty, way.poses[15], CUT)
    assert isinstance(snapshot, Snapshot)
    assert len(snapshot.solids) == 1
    assert quick_picture(empty, way.poses[15], PRESETS["clear"], CUT).shape == (47, 128, 3)


def test_too_much_cut_is_refused() -> None:
    for cut in (-1, 57):
        with pytest.raises(InputError, match="at least 16 of 72 rows"):
            Camera(128, 72, cut=cut)
