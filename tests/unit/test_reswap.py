"""Swaps of objects as changes: exact labels before and after, expected answers, spaces that choose the objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.relation import Equivariant, Pair, Status
from swerve.core.seeding import rng_for
from swerve.core.space import Space, propose_all
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Array, Boxes2D, Boxes3D, Depth, Group, Image, Masks, SceneRef, Signal, Steering, find
from swerve.relations.boxes import BoxesAlike, right_boxes
from swerve.relations.gates import LabelKept
from swerve.relations.steering import same_angle
from swerve.sources.windows import Windows
from swerve.testing import FakeSystem, SpaceContract, TransformationContract
from swerve.transformations.additions import Additions
from swerve.transformations.edited_boxes import in_order
from swerve.transformations.frame_objects import frame_objects
from swerve.transformations.object_choice import LargestObjects, NearestObjects, RandomObjects
from swerve.transformations.pasted_reswap import PastedReswap
from swerve.transformations.photometric import Brighten
from swerve.transformations.rerender import Rerender
from swerve.transformations.reswap import AddObjects, Recolour, RemoveObjects, Reswap, SceneEdited
from swerve.transformations.swaps import Swaps
from swerve.world.camera import Camera
from swerve.world.driver import driver
from swerve.world.drives import drive
from swerve.world.free_ground import is_free
from swerve.world.model_sizes import model_sizes
from swerve.world.objects import objects_in, objects_of
from swerve.world.source import World

LABELS = ("steering", "boxes2d", "boxes3d", "masks", "depth", "calibration")
WORLD = World(drives=14, frames=40, width=160, height=90, labels=LABELS)
KEYS = [f"test/0/{number}#20" for number in (0, 3, 4, 7, 11)]


@cache
def case_of(key: str) -> Case:
    return WORLD[key]


def _is_passed(key: str) -> bool:
    """Whether the driver goes around the largest object of a frame, which is not cut off by the frame."""
    item = max(objects_of(case_of(key)).items, key=lambda item: (item.visible, item.number), default=None)
    if item is None or item.box[2] >= 160 or item.box[0] <= 0:
        return False
    before, after = RemoveObjects(key, (item.number,)).labels
    return abs(after - before) > 5


@cache
def passed() -> str:
    """A frame in which the driver goes around the largest object."""
    keys = (f"test/0/{number}#{frame}" for number in range(14) for frame in (20, 8))
    return next(key for key in keys if _is_passed(key))


def value(case: Case, slot: str):
    return find(case.truth, slot)


@cache
def drawn(key: str, space: Space, draw: int = 0) -> Transformation:
    return space.propose(case_of(key), rng_for("swaps", draw), FakeSystem())


@cache
def followup(change: Transformation) -> Case:
    assert isinstance(change, SceneEdited)
    return change(case_of(change.frame))


def all_changes(key: str) -> list[SceneEdited]:
    spaces = [Swaps(change, LargestObjects()) for change in ("model", "colour", "remove")]
    return [drawn(key, space) for space in (*spaces, Swaps("model", size="any"), Additions())]


class TestReswapChanges(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        numbers = tuple(item.number for item in objects_of(self.case()).items[:2])
        return [
            *all_changes(KEYS[0])[-2:],
            Reswap(KEYS[0], numbers, (1, 2)),
            PastedReswap(KEYS[0], numbers, (1, 2)),
            Recolour(KEYS[0], numbers, ("red", "white")),
            RemoveObjects(KEYS[0], numbers),
            AddObjects(KEYS[0], ("car", "bus"), (4, 1), ((20, 3.0, 180), (30, -6, 0))),
        ]

    def case(self) -> Case:
        return case_of(KEYS[0])


class TestSwaps(SpaceContract):
    draws = 4

    def space(self) -> Space:
        return Swaps("model", size="any")

    def cases(self) -> Sequence[Case]:
        return [case_of(key) for key in KEYS[:3]]


class TestAdditions(SpaceContract):
    draws = 3

    def space(self) -> Space:
        return Additions()

    def cases(self) -> Sequence[Case]:
        return [case_of(key) for key in KEYS[:3]]


@pytest.mark.parametrize("key", KEYS)
def test_labels_are_those_of_the_edited_scene(key: str) -> None:
    """As a source would label it: the driver, the boxes and the masks know nothing of the scene before."""
    for change in all_changes(key):
        after = followup(change)
        seen = objects_in(key, Camera(160, 90), change.edits)
        items = in_order(objects_in(key, Camera(160, 90)), seen)
        assert sorted(item.number for item in items) == sorted(seen.numbered)
        boxes, masks = value(after, "boxes2d"), value(after, "masks")
        assert len(boxes.kinds) == len(value(after, "boxes3d").kinds) == len(items)
        assert set(masks.kinds) == set(seen.numbered)
        for row, item in enumerate(items):
            assert boxes.xyxy[row] == pytest.approx(item.box)
            rows, columns = np.nonzero(masks.instances == item.number)
            assert len(rows) == item.visible
            left, top, right, bottom = boxes.xyxy[row]
            assert left - 1 <= columns.min() <= columns.max() < right + 1
            assert top - 1 <= rows.min() <= rows.max() < bottom + 1


@pytest.mark.parametrize("key", KEYS)
def test_untouched_objects_keep_box_and_place(key: str) -> None:
    for change in all_changes(key):
        old, new = value(case_of(key), "boxes3d"), value(followup(change), "boxes3d")
        if len(new.kinds) < len(old.kinds):
            continue
        same = (old.xyzlwhy == new.xyzlwhy[: len(old.kinds)]).all(axis=1)
        assert (~same).sum() <= len(change._numbers)


def test_removed_object_releases_the_driver() -> None:
    change = drawn(passed(), Swaps("remove", LargestObjects()))
    after, way = followup(change), drive(passed().partition("#")[0])
    alone = replace(
        way.scene, things=tuple(thing for number, thing in enumerate(way.scene.things, 1) if number not in change.things)
    )
    label = driver(alone).wheel(way.poses[int(passed().partition("#")[2])])
    assert value(after, "steering").degrees == label
    assert abs(label - value(case_of(passed()), "steering").degrees) > 5
    assert after.facts["label_moved"] == abs(label - value(case_of(passed()), "steering").degrees)
    assert after.facts["label_kept"] == "no"


def test_colours_move_no_label() -> None:
    for key in KEYS:
        after = followup(drawn(key, Swaps("colour", LargestObjects())))
        before = case_of(key)
        for slot in ("steering", "boxes2d", "boxes3d", "masks", "depth", "calibration"):
            assert value(after, slot) == value(before, slot), slot
        assert after.input_sha != before.input_sha
        assert after.facts["label_moved"] == 0
        assert after.facts["box_overlap"] == 1


def test_gate_tells_moved_labels_apart() -> None:
    kept, moved = (drawn(passed(), Swaps(change, LargestObjects())) for change in ("colour", "remove"))
    assert LabelKept().admit(case_of(passed()), followup(kept)) is None
    assert "the label moved by" in str(LabelKept().admit(case_of(passed()), followup(moved)))
    limit = float(followup(moved).facts["label_moved"])
    assert LabelKept(limit).admit(case_of(passed()), followup(moved)) is None
    with pytest.raises(ValueError, match="degrees"):
        LabelKept(-1)


def test_answers_move_as_the_label_does() -> None:
    change = drawn(passed(), Swaps("remove", LargestObjects()))
    before, after = change.labels
    assert change.map(Steering(before)) == Steering(after)
    assert change.map(Steering(before + 3)).degrees == pytest.approx(after + 3)
    assert change.map(Group((Steering(before), Steering(1.0)))).values[0] == Steering(after)
    assert change.map(Signal("speed", 3.0)) == Signal("speed", 3.0)


@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_steady_driver_holds_every_swap(offset: float) -> None:
    """A system that is right up to a constant is right again after the change, by its own answer and by the label."""
    for key in KEYS:
        for change in all_changes(key):
            answers = [(Steering(value(case, "steering").degrees + offset),) for case in (case_of(key), followup(change))]
            pair = Pair(case_of(key), followup(change), change, *answers)
            assert same_angle(0.001).check(pair).status is Status.HELD


def test_blind_driver_fails_the_removal() -> None:
    change = drawn(passed(), Swaps("remove", LargestObjects()))
    same = (value(case_of(passed()), "steering"),)
    pair = Pair(case_of(passed()), followup(change), change, same, same)
    assert same_angle(5.0).check(pair).status is Status.VIOLATED


def detections(case: Case) -> tuple[Boxes2D]:
    """What a perfect detector answers: every object that must be detected."""
    boxes = value(case, "boxes2d")
    rows = np.flatnonzero(boxes.care)
    return (Boxes2D(boxes.xyxy[rows], tuple(boxes.kinds[row] for row in rows), size=boxes.size),)


@pytest.mark.parametrize("key", KEYS)
def test_perfect_detector_holds_every_swap(key: str) -> None:
    for change in all_changes(key):
        before, after = detections(case_of(key)), detections(followup(change))
        pair = Pair(case_of(key), followup(change), change, before, after)
        for relation in (Equivariant(BoxesAlike()), right_boxes()):
            verdict = relation.check(pair)
            assert verdict.status is Status.HELD, (change, verdict.why)


def test_detector_that_ignores_swaps_is_caught() -> None:
    number = objects_of(case_of(passed())).numbered[drawn(passed(), Swaps("remove", LargestObjects())).things[0]].number
    kind = drive(passed().partition("#")[0]).scene.things[number - 1].kind
    longest = int(model_sizes(kind).prod(axis=1).argmax())
    shortest = int(model_sizes(kind).prod(axis=1).argmin())
    models = [Reswap(passed(), (number,), (model,)) for model in (shortest, longest)]
    boldest = min(models, key=lambda change: float(followup(change).facts["box_overlap"]))
    for change in (RemoveObjects(passed(), (number,)), boldest):
        before = detections(case_of(passed()))
        verdict = Equivariant(BoxesAlike(0.95)).check(Pair(case_of(passed()), followup(change), change, before, before))
        assert verdict.status is Status.VIOLATED, change


def test_removed_object_still_reported_is_a_ghost() -> None:
    change = drawn(passed(), Swaps("remove", LargestObjects()))
    before, after = detections(case_of(passed())), detections(followup(change))[0]
    lorry = objects_of(case_of(passed())).numbered[change.things[0]]
    kept = Boxes2D([*after.xyxy.tolist(), lorry.box], (*after.kinds, lorry.kind), size=after.size)
    verdict = Equivariant(BoxesAlike()).check(Pair(case_of(passed()), followup(change), change, before, (kept,)))
    assert verdict.status is Status.VIOLATED
    assert "ghost" in verdict.why


def test_prediction_keeps_its_own_error() -> None:
    change = drawn(passed(), Swaps("model", LargestObjects(), size="any"), 3)
    number = change.things[0]
    old, new = (objects_in(passed(), Camera(160, 90), edits).numbered[number] for edits in ((), change.edits))
    said = Boxes2D([np.add(old.box, (1, 0, 1, 0))], ("whatever",), size=(160, 90), scores=[0.7])
    moved = change.map(said)
    assert moved.xyxy[0] == pytest.approx(np.add(new.box, (1, 0, 1, 0)))
    assert moved.kinds[0] == "whatever"
    assert moved.scores[0] == 0.7


def test_depth_and_masks_change_where_objects_do() -> None:
    for change in all_changes(passed()):
        before, after = case_of(passed()), followup(change)
        assert change.map(value(before, "masks")).instances.tolist() == value(after, "masks").instances.tolist()
        assert np.array_equal(change.map(value(before, "depth")).metres, value(after, "depth").metres)
        guess = np.full((90, 160), 7.0, np.float32)
        mapped = change.map(Depth(guess)).metres
        same = value(before, "depth").metres == value(after, "depth").metres
        assert (mapped[same] == 7).all()
        assert np.array_equal(mapped[~same], value(after, "depth").metres[~same])


def test_boxes3d_of_answers_follow() -> None:
    change = drawn(passed(), Swaps("remove", LargestObjects()))
    truth = value(case_of(passed()), "boxes3d")
    mapped = change.map(Boxes3D(truth.xyzlwhy, truth.kinds))
    assert len([care for care in mapped.care if care]) < len(truth.kinds)


def test_windows_are_edited_frame_by_frame() -> None:
    windows = Windows(WORLD, 3)
    case = windows[passed()]
    change = drawn(passed(), Swaps("remove", LargestObjects()))
    assert Swaps("remove", LargestObjects()).propose(case, rng_for("swaps", 0), FakeSystem()) == change
    camera = change(case).inputs["camera"]
    assert isinstance(camera, Group)
    assert len(camera.values) == 3
    assert camera.values[-1] == followup(change).inputs["camera"]
    key, _, last = passed().partition("#")
    for number, image in zip((int(last) - 2, int(last) - 1), camera.values[:2], strict=True):
        frame = f"{key}#{number}"
        assert replace(change, frame=frame)(WORLD[frame]).inputs["camera"] == image


def test_edited_frame_is_not_taken_for_another() -> None:
    change = drawn(passed(), Swaps("colour", LargestObjects()))
    ref = value(followup(change), "scene")
    assert isinstance(ref, SceneRef)
    assert ref.scene != passed()
    assert ref.conditions == value(case_of(passed()), "scene").conditions
    with pytest.raises(NotApplicable, match="already changed"):
        Rerender("fog")(followup(change))
    with pytest.raises(NotApplicable, match="already changed"):
        change(followup(change))


def test_later_changes_may_follow() -> None:
    change = drawn(passed(), Swaps("colour", LargestObjects()))
    both = Chain((change, Brighten(10)))
    assert both(case_of(passed())).inputs == Brighten(10)(followup(change)).inputs


def test_weather_of_the_frame_stays() -> None:
    night = World(drives=14, frames=21, width=96, height=54, conditions="night")
    case = night[passed()]
    number = objects_of(case).items[0].number
    dark = Recolour(passed(), (number,), ("white",))(case)
    image = dark.inputs["camera"]
    assert isinstance(image, Image)
    elsewhere = ~objects_of(case).mask(number)
    before = case.inputs["camera"].pixels[elsewhere].astype(float)
    assert np.abs(image.pixels[elsewhere] - before).mean() < 3


def test_impossible_changes_say_why() -> None:
    for change, why in (
        (Reswap("test/0/3#21", (1,), (1,)), "edits the frame test/0/3#21"),
        (RemoveObjects(passed(), (99999,)), "no object 99999"),
        (Recolour(passed(), (1,), ("red",)), "object 1 is a"),
        (AddObjects(passed(), ("car",), (5000,), ((9, 0, 0),)), "no car model 5000"),
    ):
        with pytest.raises(NotApplicable, match=why):
            change(case_of(passed()))


def test_other_cases_say_why() -> None:
    plain = Case("a", {"camera": Image(np.zeros((32, 32, 3), np.uint8))})
    swept = Case("a", {"camera": Image(np.zeros((32, 32, 3), np.uint8))}, (SceneRef("lidar-test/0/0#0", {}),))
    blind = Case("a", {}, (SceneRef(passed(), {}),))
    for case, why in ((plain, "no scene reference"), (swept, "LiDAR"), (blind, "no camera image")):
        assert why in str(RemoveObjects(passed(), (1,)).applies(case))
        for space in (Swaps(), Additions()):
            with pytest.raises(NotApplicable, match=why):
                space.propose(case, rng_for(0), FakeSystem())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Reswap("nonsense", (1,), (1,)),
        lambda: Reswap(KEYS[0], (), ()),
        lambda: Reswap(KEYS[0], (1, 1), (2, 3)),
        lambda: Reswap(KEYS[0], (1, 2), (2,)),
        lambda: Reswap(KEYS[0], (0,), (2,)),
        lambda: Reswap(KEYS[0], (1,), (-2,)),
        lambda: Recolour(KEYS[0], (1,), ("mauve",)),
        lambda: AddObjects(KEYS[0], ("tree",), (1,), ((1, 2, 3),)),
        lambda: AddObjects(KEYS[0], ("car",), (1,), ((1, 2),)),
        lambda: AddObjects(KEYS[0], ("car",), (1,), ((1, 2, float("nan")),)),
        lambda: AddObjects(KEYS[0], (), (), ()),
        lambda: Swaps("size"),
        lambda: Swaps(size="huge"),
        lambda: Swaps(count=0),
        lambda: Swaps(kinds=("tree",)),
        lambda: Swaps(least=-1),
        lambda: Additions(kinds=()),
        lambda: Additions(near=9, far=9),
    ],
)
def test_wrong_arguments_are_refused(wrong) -> None:
    with pytest.raises((ValueError, InputError)):
        wrong()


def test_choose_must_select() -> None:
    with pytest.raises(TypeError, match="select objects"):
        Swaps(choose="largest")  # type: ignore[arg-type]


def test_selections_rank_all_objects() -> None:
    cases = [case_of(key) for key in KEYS]
    seen = [frame_objects(case) for case in cases]
    rngs = [rng_for("rank", number) for number in range(len(cases))]
    for selection in (RandomObjects(), LargestObjects(), NearestObjects()):
        for numbers, objects in zip(selection.rank(cases, seen, rngs, FakeSystem()), seen, strict=True):
            assert sorted(numbers) == sorted(objects.numbered)  # type: ignore[arg-type]
    (largest,), (nearest,) = (
        one.rank(cases[:1], seen[:1], rngs[:1], FakeSystem()) for one in (LargestObjects(), NearestObjects())
    )
    known = objects_of(cases[0]).numbered
    pixels = [known[number].visible for number in largest]  # type: ignore[union-attr]
    metres = [np.hypot(*known[number].place[:2]) for number in nearest]  # type: ignore[union-attr]
    assert pixels == sorted(pixels, reverse=True)
    assert metres == sorted(metres)


def test_random_choices_differ_by_draw() -> None:
    key = max(KEYS, key=lambda key: len(objects_of(case_of(key)).items))
    changes = {drawn(key, Swaps("remove", least=0.0, hidden=1.0), draw) for draw in range(12)}
    assert len(changes) > 2


def test_nearest_size_moves_boxes_least() -> None:
    for key in KEYS:
        near, other = (drawn(key, Swaps("model", LargestObjects(), size=size), 1) for size in ("nearest", "any"))
        number = near.things[0]
        sizes = [
            objects_in(key, Camera(160, 90), edits).numbered[number].place[3:6] for edits in ((), near.edits, other.edits)
        ]
        gaps = [np.abs(np.subtract(size, sizes[0])).sum() for size in sizes[1:]]
        assert gaps[0] <= gaps[1]


def test_small_and_hidden_objects_are_left_alone() -> None:
    cases = {key: case_of(key) for key in KEYS}
    for space in (Swaps("remove", count=2, hidden=0.3), Swaps("remove", count=1, least=0.1)):
        proposals = propose_all(space, list(cases.values()), [rng_for(0)] * len(cases), FakeSystem())
        changes = [one for one in proposals if isinstance(one, RemoveObjects)]
        assert changes
        for change in changes:
            seen = objects_of(cases[change.frame])
            for number in change.things:
                rows, columns = np.nonzero(seen.mask(number))
                assert seen.numbered[number].hidden <= space.hidden
                assert min(np.ptp(rows), np.ptp(columns)) + 1 >= space.least * 160
    with pytest.raises(NotApplicable, match="visible pixels, 50 are needed"):
        drawn(KEYS[0], Swaps(count=50))


def test_kinds_limit_the_choice() -> None:
    for proposal in propose_all(
        Swaps("remove", kinds=("car",)), [case_of(key) for key in KEYS], [rng_for(0)] * 5, FakeSystem()
    ):
        if isinstance(proposal, RemoveObjects):
            things = drive(proposal.frame.partition("#")[0]).scene.things
            assert {things[number - 1].kind for number in proposal.things} == {"car"}


def test_additions_stand_in_free_places() -> None:
    for key in KEYS:
        for draw in range(3):
            change = drawn(key, Additions(), draw)
            way, (edit,) = drive(key.partition("#")[0]), change.edits
            low, high = edit_bounds(edit)
            assert is_free(way.scene, (edit.x, edit.y, edit.yaw), (high[0] - low[0], high[1] - low[1]), way.poses[20].time)
            taken = next(thing for thing in way.scene.things if thing.kind == "building" or thing.kind == "car")
            assert not is_free(way.scene, taken.pose(way.scene.road, way.poses[20].time), (4.0, 1.8), way.poses[20].time)
            assert objects_in(key, Camera(160, 90), change.edits).numbered[len(way.scene.things) + 1].visible >= 12


def edit_bounds(edit) -> tuple[np.ndarray, np.ndarray]:
    from swerve.world.models import build_model

    return build_model(edit.kind, edit.model).bounds()


def test_masks_are_reachable_without_their_label() -> None:
    bare = World(drives=14, frames=21, width=160, height=90)[passed()]
    masks = value(case_of(passed()), "masks")
    assert isinstance(masks, Masks)
    assert objects_of(bare).masks == masks


def test_a_pasted_swap_shows_the_rendered_object_and_has_its_labels() -> None:
    """Within the new object both pictures are equal; beside both objects the pasted one is the frame as it was."""
    case = case_of(KEYS[1])
    swaps = {
        change: Swaps(change, LargestObjects()).propose(case, rng_for("paste"), FakeSystem())
        for change in ("model", "pasted-model")
    }
    rendered, pasted = swaps["model"](case), swaps["pasted-model"](case)
    assert isinstance(swaps["pasted-model"], PastedReswap)
    both = zip(pasted.truth, rendered.truth, strict=True)
    assert [one == other for one, other in both] == [one.slot != SceneRef.slot for one in rendered.truth]
    (thing,) = swaps["pasted-model"].things
    before, after = (ids_in(one) == thing for one in (case, rendered))
    far = cv2.dilate((before | after).astype(np.uint8), np.ones((41, 41), np.uint8)) == 0
    inner = cv2.erode(after.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    frame, one, other = (seen_in(made) for made in (case, rendered, pasted))
    assert inner.sum() > 10
    assert np.array_equal(other[inner], one[inner])
    assert np.array_equal(other[far], frame[far])
    assert not np.array_equal(other[before & ~after], frame[before & ~after])


def test_a_pasted_swap_refuses_windows() -> None:
    (number, *_) = (item.number for item in objects_of(case_of(KEYS[0])).items)
    window = Case("w", {"camera": Group((case_of(KEYS[0]).inputs["camera"],) * 2)}, case_of(KEYS[0]).truth)
    with pytest.raises(NotApplicable, match="window"):
        PastedReswap(KEYS[0], (number,), (1,))(window)


def ids_in(case: Case) -> Array:
    masks = find(case.truth, "masks")
    assert isinstance(masks, Masks)
    return masks.instances


def seen_in(case: Case) -> Array:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels
