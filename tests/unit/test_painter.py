"""Painters: maps of classes, networks, files, training and drawn objects, at sizes that cost milliseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from swerve.cli.main import main
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.gate import admission
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.values import Array, Boxes2D, Classes, Group, Image, Masks, Steering, find
from swerve.execution.engine import NoProgress
from swerve.methods.iatg import DRAWN_AS_IS, iatg
from swerve.relations.gates import SameObjects
from swerve.testing import FakeSource, FakeSystem, SpaceContract
from swerve.transformations.translate_objects import CROPPED, TranslateObjects, Translations
from swerve.translation.label_window import OWN, Square, square_around, window
from swerve.translation.packaged import PAINTER, is_packaged, packaged_painter
from swerve.translation.painter import FeatureCritic, Painter, PainterDesign, region_means
from swerve.translation.painting import PainterAbout, Painting, painter_bytes, painting_of, read_painting
from swerve.translation.window_batch import batch_of, outlines
from swerve.world.class_map import NAMES as CLASSES
from swerve.world.source import World
from swerve.zoo.object_kinds import score_kinds
from swerve.zoo.paint_data import ObjectWindows, WindowSets, window_sets
from swerve.zoo.paint_learn import PainterLearner, PainterLoss, PainterRecipe, learn_painter, looks_of
from swerve.zoo.paint_train import train_painter

NAMES = ("unlabelled", "road", "car", "van")
TINY = PainterDesign(len(NAMES), width=4, residuals=1, appearance=2)
SMALL = PainterRecipe(side=32, passes=2, batch=4, width=4, residuals=1, appearance=2, critic=4)
LOOKS = {"car": ((0.5, -0.5), (-0.9, 0.9)), "van": ((0.0, 0.0),)}
BOXES = {7: (100, 80, 150, 110), 8: (180, 90, 240, 125)}


def street(key: str = "a", kind: str = "car", group: str = "") -> Case:
    """A noisy picture of 320 x 180 with two boxes, their masks and the classes of all pixels."""
    rng = rng_for(0, key)
    coarse = rng.integers(40, 200, (12, 20, 3), dtype=np.uint8)
    pixels = cv2.resize(coarse, (320, 180), interpolation=cv2.INTER_LINEAR)
    ids = np.zeros((180, 320), np.int32)
    for number, (left, top, right, bottom) in BOXES.items():
        ids[top:bottom, left:right] = number
    classes = np.where(ids > 0, NAMES.index(kind), 1)
    boxes = Boxes2D(np.array(list(BOXES.values()), float), (kind,) * 2, size=(320, 180))
    truth = (Steering(3.0), Masks(ids, dict.fromkeys(BOXES, kind)), Classes(classes, dict(enumerate(NAMES))), boxes)
    return Case(key, {"camera": Image(pixels)}, truth, group=group or key)


class Streets:
    """A source of some streets, each a drive of its own, every second one with vans."""

    def __init__(self, count: int) -> None:
        self.count = count

    def keys(self) -> Sequence[str]:
        return [f"s{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        return street(key, ("car", "van")[int(key[1:]) % 2])

    def fingerprint(self) -> str:
        return "streets"


def made() -> tuple[Painter, PainterAbout]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Painter(TINY), PainterAbout("tiny", TINY, 32, NAMES, LOOKS, "streets")


@pytest.fixture
def painter(tmp_path: Path) -> Asset:
    (tmp_path / "tiny.safetensors").write_bytes(painter_bytes(*made()))
    return Asset(tmp_path / "tiny.safetensors")


def sets() -> WindowSets:
    return window_sets(Streets(12), side=32, progress=NoProgress())


def pixels_of(case: Case) -> Array:
    picture = case.inputs["camera"]
    assert isinstance(picture, Image)
    return picture.pixels


def proposed(space: Space, case: Case, draw: int = 0) -> TranslateObjects:
    change = space.propose(case, rng_for("painter", draw), FakeSystem())
    assert isinstance(change, TranslateObjects)
    return change


# ObjectWindows


def test_a_square_is_centred_on_its_object_and_read_with_what_lies_beyond_the_picture() -> None:
    square = square_around((0, 0, 10, 4))
    assert (square.left, square.top, square.side) == (-4, -7, 17)
    numbers = np.arange(1, 7).reshape(2, 3)
    assert Square(-1, -1, 3).read(numbers).tolist() == [[0, 0, 0], [0, 1, 2], [0, 4, 5]]
    assert Square(2, 1, 2).read(numbers, border=cv2.BORDER_REPLICATE).tolist() == [[6, 6], [6, 6]]


def test_a_window_of_the_pictures_own_size_is_the_picture() -> None:
    case = street()
    masks, classes = find(case.truth, "masks"), find(case.truth, "classes")
    assert isinstance(masks, Masks)
    assert isinstance(classes, Classes)
    seen = window(pixels_of(case), classes.numbers, masks.instances, Square(90, 60, 64), 64)
    assert (seen.pixels == pixels_of(case)[60:124, 90:154]).all()
    assert (seen.instances == masks.instances[60:124, 90:154]).all()


def test_outlines_lie_on_both_sides_of_a_border() -> None:
    regions = torch.tensor([[[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 1, 1]]])
    assert outlines(regions)[0, 0].int().tolist() == [[0, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]]


def test_regions_are_objects_and_the_classes_of_the_rest_and_are_counted_in_the_batch() -> None:
    everything = sets().train
    batch = batch_of([everything.at(0), everything.at(1)], len(NAMES))
    assert batch.regions[0].max() < batch.regions[1].min()
    layers = batch.layers[:, : len(NAMES)]
    assert (layers.sum(1) == 1).all()
    assert (layers[0].argmax(0).numpy() == everything.classes[0]).all()


def test_the_appearance_of_a_region_is_the_mean_of_its_pixels() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [10.0, 0.0]])
    assert region_means(rows, torch.tensor([0, 0, 1])).tolist() == [[2.0, 3.0], [10.0, 0.0]]


def test_windows_of_one_drive_are_never_learnt_from_and_measured_with() -> None:
    both = sets()
    assert len(both.train) + len(both.held) == 24
    seen = {pixels.tobytes() for pixels in both.train.pixels}
    assert not any(pixels.tobytes() in seen for pixels in both.held.pixels)
    assert both.classes == ("unlabelled", "road", "car", "van")


def test_a_source_without_classes_is_told_what_it_needs() -> None:
    with pytest.raises(InputError, match="has no instance masks"):
        window_sets(FakeSource(9), side=32, progress=NoProgress())
    source = World(9, 1, labels=("masks",), width=64, height=36)
    with pytest.raises(InputError, match=r'add "classes" to the labels of the world, or classes = true to cityscapes'):
        window_sets(source, side=32, progress=NoProgress())


# Networks and files


def test_a_painter_draws_pictures_of_the_size_of_its_maps() -> None:
    net, _ = made()
    painted = net(torch.rand(2, TINY.inputs, 32, 48))
    assert painted.shape == (2, 3, 32, 48)
    assert painted.abs().max() <= 1
    assert net.small(torch.rand(2, TINY.inputs, 32, 48)).shape == (2, 3, 16, 24)


def test_discriminators_judge_at_several_sizes_and_tell_what_they_found() -> None:
    found = FeatureCritic(5, 4, scales=2)(torch.rand(1, 5, 32, 32))
    assert [len(scale) for scale in found] == [4, 4]
    assert found[0][-1].shape[1] == 1
    assert found[0][-1].shape[-1] == 2 * found[1][-1].shape[-1]


def test_a_file_has_the_same_painter(painter: Asset) -> None:
    net, about = made()
    again = painting_of(painter)
    assert again.about == about
    seen, number = sets().train.at(0), int(sets().train.number[0])
    drawn = Painting(net.half().float(), about).drawn(seen, number, "car", 1)
    assert (again.drawn(seen, number, "car", 1) == drawn).all()


@pytest.mark.parametrize("damage", ["short", "header", "nan", "looks", "side"])
def test_a_damaged_file_is_refused_by_name(damage: str) -> None:
    net, about = made()
    if damage == "nan":
        with torch.no_grad():
            net.coarse.last.bias.fill_(float("nan"))  # type: ignore[union-attr]
    content = painter_bytes(net, about)
    if damage == "short":
        content = content[:-20]
    if damage == "header":
        content = content.replace(b'{\\"appearance\\": 2', b'{\\"appearance\\": x')
    if damage == "looks":
        content = content.replace(b"[[0.5, -0.5]", b"[[0.5]      ")
    if damage == "side":
        content = content.replace(b'\\"side\\": 32', b'\\"side\\": 33')
    with pytest.raises(InputError, match=r"tiny.*: not a painter"):
        read_painting(content, "tiny.safetensors")


def test_a_kind_that_was_not_learnt_is_named(painter: Asset) -> None:
    seen = sets().train
    with pytest.raises(NotApplicable, match="has not learnt to draw 'bus'; it knows car, van"):
        painting_of(painter).drawn(seen.at(0), int(seen.number[0]), "bus", 0)


# Training


def test_the_same_seed_gives_the_same_painter() -> None:
    both = sets()
    one, two, other = (learn_painter(both, SMALL, seed=seed)[0] for seed in (1, 1, 2))
    weights = [torch.cat([part.ravel() for part in net.parameters()]) for net in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_training_learns_the_colours_of_its_classes() -> None:
    both = sets()
    fitted = learn_painter(both, PainterRecipe(**{**vars(SMALL), "passes": 12, "rate": 5e-3}), seed=1)[1]
    assert min(fitted.errors[1:]) < 0.6 * fitted.errors[0]


def test_a_painter_trained_further_begins_with_what_it_knew_of_each_class(painter: Asset) -> None:
    """The new source has another order of classes, and one more: layers of classes with the same name are taken over."""
    start, names = painting_of(painter), ("unlabelled", "van", "tram", "road", "car")
    recipe = SMALL.further(start)
    assert recipe.design(4) == start.about.design
    learner = PainterLearner(recipe, len(names))
    fresh = learner.painter.coarse.body[0].weight.detach().clone()  # type: ignore[union-attr,operator]
    learner.begin_with(start, names)
    taken, known = learner.painter.coarse.body[0].weight, start.net.coarse.body[0].weight
    for place, name in enumerate(names):
        same = fresh[:, place] if name == "tram" else known[:, NAMES.index(name)]  # type: ignore[index]
        assert torch.equal(taken[:, place], same)  # type: ignore[index]
    assert torch.equal(taken[:, len(names) :], known[:, len(NAMES) :])  # type: ignore[index]
    assert torch.equal(learner.painter.coarse.last.weight, start.net.coarse.last.weight)


def test_a_step_moves_the_painter_its_encoder_and_the_discriminators() -> None:
    both = sets()
    learner = PainterLearner(SMALL, len(both.classes))
    loss = PainterLoss(learner, both, SMALL, np.random.default_rng(0))
    loss(np.arange(4)).backward()
    still = [name for name, part in learner.named_parameters() if part.grad is None or not part.grad.abs().sum() > 0]
    assert not [name for name in still if name.endswith("weight")]


def test_the_critic_is_not_moved_by_what_the_painter_wants() -> None:
    both = sets()
    learner = PainterLearner(SMALL, len(both.classes))
    loss = PainterLoss(learner, both, SMALL, np.random.default_rng(0))
    batch = batch_of([both.train.at(0)], len(both.classes))
    painted = learner.painter(batch.maps(learner.painter.encoder(batch.pictures, batch.regions)))
    fooled, features = loss._fooled(batch, painted)
    (fooled + features).backward()  # type: ignore[no-untyped-call]
    assert all(part.grad is None for part in learner.critic.parameters())


def test_a_rare_kind_has_no_looks() -> None:
    both = sets()
    few = [place for place, kind in enumerate(both.train.kind) if kind == "car"]
    few += [place for place, kind in enumerate(both.train.kind) if kind == "van"][:2]
    looks = looks_of(made()[0], both.train.some(few), len(both.classes), seed=1)
    assert set(looks) == {"car"}
    assert {len(row) for row in looks["car"]} == {2}


def test_a_classifier_tells_kinds_apart_by_what_objects_look_like() -> None:
    """Cars are red and vans blue: drawn in the other's colour, they are taken for it."""

    def windows(seed: int, swapped: bool = False) -> ObjectWindows:
        rng = np.random.default_rng(seed)
        kinds = ["car", "van"] * 24
        pixels = rng.integers(90, 110, (48, 32, 32, 3), dtype=np.uint8)
        red = [(kind == "car") != swapped for kind in kinds]
        for place, is_red in enumerate(red):
            pixels[place, 8:24, 8:24] = (200, 30, 30) if is_red else (30, 30, 200)
        ids = np.zeros((48, 32, 32), np.int32)
        ids[:, 8:24, 8:24] = 1
        return ObjectWindows(pixels, np.zeros((48, 32, 32), np.uint8), ids, np.ones(48, int), tuple(kinds))

    held = windows(2)
    score = score_kinds(windows(1), held, windows(2, swapped=True).pixels, seed=1)
    assert score.real > 0.9
    assert score.drawn < 0.1
    assert score.flat > 0.9  # here the mean colour is all there is
    assert (score.chance, score.count) == (0.5, 48)


def test_training_writes_weights_card_and_samples(tmp_path: Path) -> None:
    card = train_painter("t", "streets", tmp_path, sets(), recipe=SMALL, seed=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.json", "t.md", "t.png", "t.safetensors"]
    assert json.loads((tmp_path / "t.json").read_text()) == json.loads(json.dumps(card))
    page = (tmp_path / "t.md").read_text()
    assert f"{card['held_out']['recognised']['real']:.0%}" in page
    assert painting_of(Asset(tmp_path / "t.safetensors")).about.looks.keys() == card["looks"].keys()


def test_the_verb_trains_on_a_source_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('[source]\nuse = "tests.unit.test_painter:Streets"\ncount = 12\n')
    assert main(["translate", "train", "--source", str(tmp_path / "mine.toml"), "--name", "a/b"]) == 2
    assert "--name must consist of" in capsys.readouterr().err
    words = ["translate", "train", "--source", str(tmp_path / "mine.toml"), "--name", "mine", "--out", str(tmp_path)]
    assert main([*words, "--passes", "1", "--side", "32", "--width", "4"]) == 0
    assert "objects drawn in another look whose kind it knows" in capsys.readouterr().out
    assert (tmp_path / "mine.safetensors").is_file()
    words = [*words[:4], "--out", str(tmp_path), "--start", str(tmp_path / "mine.safetensors"), "--name", "further"]
    assert main([*words, "--width", "8"]) == 2
    assert "leave them out" in capsys.readouterr().err
    assert main([*words, "--passes", "1"]) == 0
    assert json.loads((tmp_path / "further.json").read_text())["begun_with"].startswith("mine, SHA-256 ")


# Changes


def test_only_the_outline_of_the_object_changes_and_all_labels_stay(painter: Asset) -> None:
    case = street()
    change = proposed(Translations(painter), case)
    after = change(case)
    masks = find(case.truth, "masks")
    assert isinstance(masks, Masks)
    changed = (pixels_of(after) != pixels_of(case)).any(axis=2)
    assert changed.any()
    assert (masks.instances[changed] == change.things[0]).all()
    assert after.truth == case.truth
    assert (after.facts["objects_lost"], after.facts["object_shift"]) == (0.0, 0.0)
    assert admission(SameObjects(), case, after).why == ""
    assert "translated (look" in change.words()


def test_pixels_that_are_pasted_back_leave_the_picture_as_it_was(painter: Asset) -> None:
    case = street()
    change = proposed(Translations(painter, "crop", count=2), case)
    assert change.looks == (CROPPED, CROPPED)
    assert (pixels_of(change(case)) == pixels_of(case)).all()


def test_the_other_look_is_never_the_nearest_to_the_objects_own(painter: Asset) -> None:
    case, painting = street(), painting_of(painter)
    everything = sets().train
    own = painting.own_look(everything.at(0), int(everything.number[0]))
    apart = [np.abs(np.array(row) - own).sum() for row in LOOKS["car"]]
    assert painting.others(everything.at(0), int(everything.number[0]), "car") == [int(np.argmax(apart))]
    assert {proposed(Translations(painter), case, draw).looks for draw in range(5)} <= {(0,), (1,)}


def test_the_look_changes_the_picture(painter: Asset) -> None:
    case = street()
    box = tuple(float(edge) for edge in BOXES[7])
    pictures = [pixels_of(TranslateObjects((7,), (box,), (box,), (look,), painter)(case)) for look in (0, 1, OWN)]  # type: ignore[arg-type]
    assert not (pictures[0] == pictures[1]).all()
    assert not (pictures[0] == pictures[2]).all()


def test_what_cannot_be_translated_is_skipped_with_the_reason(painter: Asset) -> None:
    space, plain = Translations(painter), street()
    bare = Case("a", plain.inputs, tuple(value for value in plain.truth if not isinstance(value, Classes)))
    films = Case("a", {"camera": Group((plain.inputs["camera"],))}, plain.truth)
    for case, why in ((bare, "classes = true"), (films, "window of frames"), (street(kind="road"), "0 car or van")):
        with pytest.raises(NotApplicable, match=why):
            space.propose(case, rng_for(1), FakeSystem())


def test_wrong_arguments_are_refused(painter: Asset) -> None:
    box, moved = (0.0, 0.0, 9.0, 9.0), (1.0, 0.0, 9.0, 9.0)
    with pytest.raises(ValueError, match="keeps its outline"):
        TranslateObjects((1,), (box,), (moved,), (0,), painter)
    with pytest.raises(ValueError, match="looks"):
        TranslateObjects((1,), (box,), (box,), (-3,), painter)
    with pytest.raises(InputError, match="unknown look 'strange'; known: crop, other, own"):
        Translations(painter, "strange")


class TestTranslations(SpaceContract):
    @pytest.fixture(autouse=True)
    def _with_painter(self, painter: Asset) -> None:
        self.painter = painter

    def space(self) -> Space:
        return Translations(self.painter)

    def cases(self) -> Sequence[Case]:
        return [street("a"), street("b", "van"), street("c", "road")]


def test_the_profile_s2_translates_one_object_by_average_heat_with_its_control(painter: Asset) -> None:
    campaign = iatg(Streets(2), FakeSystem(), painter=painter, profile="iatg-s2")
    assert [rule.name for rule in campaign.rules] == ["1 salient object replaced", DRAWN_AS_IS]
    spaces = [rule.change for rule in campaign.rules]
    assert all(isinstance(space, Translations) for space in spaces)
    assert [(space.look, space.count, space.choose.by) for space in spaces] == [  # type: ignore[union-attr]
        ("other", 1, "average"),
        ("own", 1, "average"),
    ]


PACKAGED = pytest.mark.skipif(not is_packaged(PAINTER), reason="the painter is not trained yet: swerve zoo train painter")


@PACKAGED
def test_the_profile_s2_needs_no_file() -> None:
    usual = iatg(Streets(2), FakeSystem(), profile="iatg-s2").rules[0].change
    assert isinstance(usual, Translations)
    assert painting_of(usual.painter).about.name == PAINTER


@PACKAGED
def test_the_packaged_painter_knows_the_classes_of_the_world_and_is_small() -> None:
    file = packaged_painter()
    about = painting_of(file).about
    assert set(about.classes) <= set(CLASSES)
    assert {"car", "van", "pedestrian"} <= set(about.looks)
    assert file.path.stat().st_size <= 8e6
    assert all(file.path.with_suffix(suffix).is_file() for suffix in (".md", ".json", ".png"))
