"""Frames cast once and shaded often: the bytes of rendering afresh, within a bound on memory, without their scene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.lru import SizedLRU
from swerve.core.values import SceneRef
from swerve.transformations.rerender import SKIES, Rerender, skies
from swerve.world import drives, frames
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, Conditions, declared
from swerve.world.drives import drive
from swerve.world.render import render
from swerve.world.source import World

SMALL = Camera(96, 54)
REFS = [SceneRef(f"test/0/{number}#7", {}) for number in range(3)]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """No test finds what another one has kept, or expects."""
    frames.forget()
    yield
    frames.forget()


def afresh(ref: SceneRef, conditions: Conditions, camera: Camera = SMALL) -> np.ndarray:
    way = drive(ref.scene.partition("#")[0])
    return render(way.scene, way.poses[7], conditions, camera).pixels


@pytest.mark.parametrize("ref", REFS, ids=lambda ref: ref.scene)
def test_shading_again_gives_the_bytes_of_rendering(ref: SceneRef) -> None:
    kept = frames.render_frame(ref, SMALL, PRESETS["clear"])
    for name, sky in PRESETS.items():
        again = frames.render_frame(ref, SMALL, sky)
        assert again.pixels.tobytes() == afresh(ref, sky).tobytes(), name
        assert again.things is kept.things
        assert again.depth is kept.depth


anywhere = st.builds(Conditions, **{name: st.floats(facts.low, facts.high) for name, facts in declared().items()})


@settings(max_examples=25, deadline=None)
@given(st.lists(anywhere, min_size=2, max_size=4))
def test_no_conditions_leave_a_trace(asked: list[Conditions]) -> None:
    """Whatever a frame was shaded under before, it looks as if rendered for the first time."""
    frames.forget()
    for conditions in (*asked, asked[0]):
        shaded = frames.render_frame(REFS[1], SMALL, conditions).pixels
        assert shaded.tobytes() == afresh(REFS[1], conditions).tobytes()


def test_expected_skies_need_no_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once taken, a frame is rendered under every sky that was expected although its drive is gone."""
    source = World(drives=2, width=96, height=54)
    changes = skies().changes
    cases = [source[key] for key in source.keys()]
    wanted = [[change(case).inputs for change in changes] for case in cases]
    frames._KEPT.clear()
    source._recent.clear()
    cases = [source[key] for key in source.keys()]

    def gone(key: str) -> None:
        raise AssertionError(f"the drive of {key} was built again")

    monkeypatch.setattr(frames, "drive", gone)
    assert [[change(case).inputs for change in changes] for case in cases] == wanted


def test_drives_are_built_and_cast_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More drives than are kept, under all skies one after the other."""
    counts: Counter[str] = Counter()
    for module, name in ((drives, "scene"), (frames, "cast")):
        work = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, name=name, work=work: counts.update([name]) or work(*given))
    monkeypatch.setattr(drives, "_DRIVES", SizedLRU(2))
    changes, source = skies().changes, World(drives=4, width=64, height=36, seed=3)
    cases = [source[key] for key in source.keys()]
    for change in changes:
        for case in cases:
            change(case)
    assert counts == {"scene": 4, "cast": 4}


def test_shadows_of_any_sun_need_no_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trees of a frame are kept, and only they cast shadows: the same bytes after its drive is gone."""
    suns = [Conditions(sun=height, azimuth=turn) for height, turn in ((3.0, -50.0), (25.0, 10.0), (58.0, 40.0))]
    other = SceneRef(REFS[1].scene.replace("#7", "#90"), {})  # other vehicles stand in the same static scene
    for ref in (REFS[1], other):
        frames.render_frame(ref, SMALL, PRESETS["clear"])
    way = drive("test/0/1")
    wanted = [render(way.scene, way.poses[number], sun, SMALL).pixels for number in (7, 90) for sun in suns]

    def gone(key: str) -> None:
        raise AssertionError(f"the drive of {key} was built again")

    monkeypatch.setattr(frames, "drive", gone)
    again = [frames.render_frame(ref, SMALL, sun).pixels for ref in (REFS[1], other) for sun in suns]
    assert [pixels.tobytes() for pixels in again] == [pixels.tobytes() for pixels in wanted]
    assert len({pixels.tobytes() for pixels in again}) == len(again)


def test_trees_stay_below_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a drive share the tree of what stands; frames beyond the bound still get the same bytes."""
    frames.render_frame(REFS[0], SMALL, PRESETS["clear"])
    one = frames._TREES._weight
    frames.render_frame(replace(REFS[0], scene=REFS[0].scene.replace("#7", "#8")), SMALL, PRESETS["clear"])
    assert one < frames._TREES._weight < 1.3 * one
    for ref in REFS:
        frames.render_frame(ref, SMALL, PRESETS["clear"])
    most = frames._TREES._weight * 2 // 3
    monkeypatch.setattr(frames, "_TREES", SizedLRU(most, weigh=frames._bytes_of_trees))
    for ref in (*REFS, *REFS):
        frames._KEPT.clear()
        assert frames.render_frame(ref, SMALL, PRESETS["clear"]).pixels.tobytes() == afresh(ref, PRESETS["clear"]).tobytes()
        assert 0 < frames._TREES._weight <= most


def kept_bytes() -> int:
    return sum(map(frames._bytes_of, frames._KEPT._kept.values()))


def test_kept_bytes_stay_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_KEPT", SizedLRU(1_200_000, weigh=frames._bytes_of))
    for number in range(6):
        for name in ("clear", "rain", "sunshine"):
            frames.render_frame(SceneRef(f"test/0/1#{number}", {}), SMALL, PRESETS[name])
            assert 0 < kept_bytes() == frames._KEPT._weight <= 1_200_000
    assert len({key[0] for key in frames._KEPT._kept}) > 1


def test_bytes_of_arrays_are_all_counted() -> None:
    """A view would keep alive more than it counts."""
    frames.render_frame(REFS[0], SMALL, PRESETS["rain"])

    def arrays(item: object) -> Iterator[np.ndarray]:
        if isinstance(item, np.ndarray):
            yield item
        elif is_dataclass(item):
            for part in fields(item):
                yield from arrays(getattr(item, part.name))

    found = [array for item in frames._KEPT._kept.values() for array in arrays(item)]
    owners = {id(array if array.base is None else array.base): array for array in found}
    real = sum((array if array.base is None else array.base).nbytes for array in owners.values())
    assert real <= kept_bytes() * 1.05


@pytest.mark.parametrize("size", [(320, 180), (640, 360)])
def test_frames_need_no_more_than_was_estimated(size: tuple[int, int]) -> None:
    camera = Camera(*size)
    for name in SKIES:
        frames.expect(PRESETS[name])
    for ref in REFS:
        frames._KEPT.clear()
        frames.take_frame(ref, camera, PRESETS["clear"], among=1)
        assert kept_bytes() <= frames.BYTES_PER_PIXEL * size[0] * size[1]


def test_nothing_is_kept_if_nothing_is_expected() -> None:
    frames.take_frame(REFS[0], SMALL, PRESETS["clear"], among=1)
    assert kept_bytes() == 0
    Rerender("fog")
    frames.take_frame(REFS[0], SMALL, PRESETS["clear"], among=1)
    assert kept_bytes() > 0


def test_frames_that_do_not_fit_are_not_kept() -> None:
    """The first would be gone before it is used again."""
    most = frames.BOUND // (frames.BYTES_PER_PIXEL * SMALL.width * SMALL.height)
    Rerender("fog")
    frames.take_frame(REFS[0], SMALL, PRESETS["clear"], among=most + 1)
    assert kept_bytes() == 0
    frames.take_frame(REFS[0], SMALL, PRESETS["clear"], among=most)
    assert kept_bytes() > 0


def test_few_conditions_are_expected() -> None:
    for step in range(50):
        Rerender("fog", visibility=20.0 + step)
    assert len(frames._EXPECTED) == frames.MOST_EXPECTED


def test_taking_a_frame_gives_the_bytes_of_rendering() -> None:
    for name in ("clear", "night"):
        sky = replace(PRESETS[name], clouds=0.2)
        plain = frames.take_frame(REFS[2], SMALL, sky, among=1).pixels
        Rerender("rain")
        kept = frames.take_frame(REFS[2], SMALL, sky, among=1).pixels
        assert plain.tobytes() == kept.tobytes() == afresh(REFS[2], sky).tobytes()
        frames.forget()
