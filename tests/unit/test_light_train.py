"""The zoo's light detectors: their frames, recipes, scores, cards and command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from swerve.analysis.detection import average_precision
from swerve.cli.zoo_train import main
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Boxes2D
from swerve.train.detectors import DetectorRecipe
from swerve.train.labelled_pictures import CropRecipe
from swerve.train.loop import save_weights
from swerve.world.signal_heads import designs
from swerve.zoo.lights import light_detectors
from swerve.zoo.lights.light_detectors import LIGHTS, light_net, lights_named
from swerve.zoo.lights.light_frames import KINDS, LightPart, LightParts, stored_lights
from swerve.zoo.lights.light_learn import RECIPES, LightRecipe, LightSets, initial, learn_lights
from swerve.zoo.lights.light_score import LightScore, best_score, chosen, goal_of, sized
from swerve.zoo.lights.light_train import described, key_of, light_cards, page_of, train_lights
from swerve.zoo.steering import PACKAGED
from tests.fixture_painted_lights import painted, pictures

pytestmark = pytest.mark.usefixtures("one_thread")
LOOP = DetectorRecipe(passes=1, repeats=1, batch=2, crops=CropRecipe(side=64))
QUICK = LightRecipe(LOOP)
PARTS = LightParts(
    LightPart("train", 2, 2), LightPart("val", 1, 2), LightPart("test", 1, 2), LightPart("test", 1, 1, streets="B")
)


@pytest.fixture
def quick_frames(monkeypatch) -> list[tuple[LightPart, int]]:
    """Painted pictures instead of rendered ones; tells which junctions were made."""
    made: list[tuple[LightPart, int]] = []

    def cases(part: LightPart, junction: int):
        made.append((part, junction))
        yield from (painted(2 * junction + frame) for frame in range(part.frames))

    monkeypatch.setattr(LightPart, "cases", cases)
    return made


def sets(folder: Path) -> LightSets:
    return LightSets.under(folder, PARTS, workers=1)


def test_frames_are_kept_in_order(quick_frames, tmp_path):
    kept = stored_lights(PARTS.train, tmp_path, workers=1)
    assert len(kept.frames) == 4
    for one, other in zip(kept.frames, pictures(4), strict=True):
        for name in ("pixels", "boxes", "kinds", "care"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    again = stored_lights(PARTS.train, tmp_path, workers=1)
    assert len(quick_frames) == 2
    assert len(again.keys) == len(again.frames)
    assert kept.minutes >= 0


def test_frames_of_a_junction_are_the_worlds(monkeypatch):
    part = LightPart("val", 3, 2, seed=4)
    assert part.world().keys()[2:4] == ["lights-A/val/4/1#0", "lights-A/val/4/1#1"]
    asked = []
    monkeypatch.setattr(type(part.world()), "__getitem__", lambda self, key: asked.append(key) or painted(0))
    assert len(list(part.cases(1))) == 2
    assert asked == ["lights-A/val/4/1#0", "lights-A/val/4/1#1"]


def test_more_junctions_use_the_same_files(tmp_path):
    part = PARTS.train
    folder = part.cache(tmp_path).folder
    assert replace(part, junctions=50).cache(tmp_path).folder == folder
    for other in ({"split": "val"}, {"frames": 3}, {"seed": 1}, {"streets": "B"}, {"conditions": "day"}):
        assert replace(part, **other).cache(tmp_path).folder != folder


def test_parts_share_no_design():
    parts = LightParts().all()
    assert {part.world().split for part in parts} == {"train", "val", "test"}
    for one in parts:
        for other in parts:
            shared = set(designs(one.streets, one.split)) & set(designs(other.streets, other.split))
            assert bool(shared) == ((one.streets, one.split) == (other.streets, other.split))


def test_a_share_has_at_least_one_junction():
    assert [part.junctions for part in LightParts().scaled(0.001).all()] == [1, 1, 1, 1]
    assert [part.frames for part in LightParts().scaled(0.5).all()] == [part.frames for part in LightParts().all()]


@pytest.mark.parametrize("name", list(LIGHTS))
def test_card_tells_the_measured(quick_frames, tmp_path, name):
    card = train_lights(name, tmp_path / "out", sets=sets(tmp_path / "data"), recipe=QUICK, seed=3)
    file = tmp_path / "out" / f"{name}.safetensors"
    frames = stored_lights(PARTS.test, tmp_path / "data", workers=1).frames
    again = LightScore.of(LIGHTS[name](file, score=0.0), frames).as_dict()
    assert {**card["held_out"], "cpu_seconds": 0} == {**again, "cpu_seconds": 0}
    assert card["held_out"]["pictures"] == 2
    assert card["other_streets"]["pictures"] == 1
    assert card["held_out"]["heads"] == 4
    assert card["recipe"]["seed"] == 3
    assert card["recipe"]["side"] == 64
    assert card["data"]["test"] == "1 junctions of 2 frames, streets A"
    assert len(card["validation"]) == 1
    assert light_cards(tmp_path / "out") == {name: json.loads(json.dumps(card))}
    page = (tmp_path / "out" / f"{name}.md").read_text()
    assert f"`{card['network']}`" in page
    assert f"| all |  | {card['held_out']['map']:.3f} / {card['held_out']['map50']:.3f} |" in page
    assert sorted(file.suffix for file in (tmp_path / "out").iterdir()) == [".json", ".md", ".safetensors"]


def test_the_same_seed_gives_the_same_bytes(quick_frames, tmp_path):
    given = sets(tmp_path)
    weights = []
    for seed in (1, 1, 2):
        net, fitted = learn_lights("lights-ssd", given, recipe=QUICK, seed=seed)
        assert len(fitted.errors) == 1
        weights.append(b"".join(part.numpy().tobytes() for part in net.state_dict().values()))
    assert weights[0] == weights[1] != weights[2]


def test_a_detector_begins_with_anothers_pyramid(quick_frames, monkeypatch, tmp_path):
    monkeypatch.setattr(light_detectors, "PACKAGED", tmp_path)
    torch.manual_seed(0)
    save_weights(light_net("lights-yolox"), tmp_path / "lights-yolox.safetensors")
    given = sets(tmp_path / "data")
    theirs = light_net("lights-yolox").state_dict().keys()
    net = initial("lights-ssd", given, LightRecipe(LOOP, "lights-yolox"), seed=3)
    start = LIGHTS["lights-yolox"](tmp_path / "lights-yolox.safetensors").system.engine.net
    taken = dict(net.pyramid.named_parameters())
    assert torch.equal(taken["fine.0.0.0.weight"], start.pyramid.fine[0][0].weight)
    alone = initial("lights-ssd", given, QUICK, seed=3)
    assert not torch.equal(alone.pyramid.fine[0][0][0].weight, start.pyramid.fine[0][0].weight)
    assert torch.equal(alone.scores[0].weight, net.scores[0].weight)
    assert any(name.startswith("pyramid.") for name in theirs)


def test_a_start_that_is_not_trained_is_told(quick_frames, monkeypatch, tmp_path):
    monkeypatch.setattr(light_detectors, "PACKAGED", tmp_path / "none")
    with pytest.raises(InputError, match="lights-yolox is not trained yet"):
        initial("lights-ssd", sets(tmp_path), LightRecipe(LOOP, "lights-yolox"), seed=3)


def test_a_training_is_known_by_all_that_decides_its_weights(monkeypatch, tmp_path):
    monkeypatch.setattr(light_detectors, "PACKAGED", tmp_path)
    file, after = tmp_path / "lights-yolox.safetensors", LightRecipe(LOOP, "lights-yolox")
    file.write_bytes(b"some weights")
    keys = [
        key_of("lights-ssd", after, 7, {"train": "few"}),
        key_of("lights-rcnn", after, 7, {"train": "few"}),
        key_of("lights-ssd", QUICK, 7, {"train": "few"}),
        key_of("lights-ssd", LightRecipe(replace(LOOP, batch=3), "lights-yolox"), 7, {"train": "few"}),
        key_of("lights-ssd", after, 8, {"train": "few"}),
        key_of("lights-ssd", after, 7, {"train": "many"}),
    ]
    assert keys[0] == key_of("lights-ssd", after, 7, {"train": "few"})
    file.write_bytes(b"other weights")
    keys.append(key_of("lights-ssd", after, 7, {"train": "few"}))
    assert len(set(keys)) == len(keys)


def test_every_detector_has_a_recipe():
    assert list(RECIPES) == list(LIGHTS)
    for recipe in RECIPES.values():
        assert recipe.start in ("", "lights-yolox")
    assert not RECIPES["lights-yolox"].start


def test_unknown_detector_is_refused():
    with pytest.raises(InputError, match="unknown light detector 'lights-yolo'; did you mean"):
        lights_named("lights-yolo")


def test_command_trains_one(quick_frames, monkeypatch, tmp_path, capsys):
    """`swerve zoo train lights-yolox` from the command line, its frames painted and its recipe cut short."""
    monkeypatch.setattr("swerve.cli.zoo_train.LIGHT_RECIPES", {"lights-yolox": QUICK})
    words = ["train", "lights-yolox", "--share", "0.01", "--workers", "1", "--data", str(tmp_path / "data")]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert re.search(r"held-out mAP \d\.\d{3}, at an IoU of 0\.5 \d\.\d{3}", capsys.readouterr().out)
    assert sorted(file.suffix for file in (tmp_path / "out").iterdir()) == [".json", ".md", ".safetensors"]


def test_listing_names_all(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in LIGHTS if name not in shown] == []


# --- the score -----------------------------------------------------------------------------------------------------------


class Known:
    """A system that answers with given boxes, picture by picture."""

    def __init__(self, answers: list[Boxes2D]) -> None:
        self.answers = iter(answers)

    def __call__(self, cases: list[Case]):
        return [(next(self.answers),) for _ in cases]


def test_a_perfect_detector_scores_one():
    frames = pictures(4)
    score = LightScore.of(Known([frame.truth(KINDS) for frame in frames]), frames).as_dict()
    assert score["map"] == score["map50"] == score["any_state"] == 1.0
    assert score["heads"] == 8
    assert {kind: value for kind, value in score["kinds"].items() if value is not None} != {}
    assert set(value for value in score["kinds"].values() if value is not None) == {1.0}
    assert score["sizes"]["12–20 px"] == {"heads": 8, "map": 1.0, "map50": 1.0}
    assert score["sizes"]["8–12 px"] == {"heads": 0, "map": None, "map50": None}


def test_wrong_states_count_only_where_states_matter():
    frames = pictures(4)
    turned = {"red": "green", "green": "yellow", "yellow": "red", "off": "off"}
    answers = [frame.truth(KINDS) for frame in frames]
    wrong = [Boxes2D(boxes.xyxy, tuple(turned[kind] for kind in boxes.kinds), size=boxes.size) for boxes in answers]
    score = LightScore.of(Known(wrong), frames).as_dict()
    assert score["any_state"] == 1.0
    assert score["map"] < 0.2


def test_sizes_go_by_the_short_side():
    boxes = Boxes2D(np.array([[0, 0, 9, 30], [0, 0, 30, 12], [0, 0, 25, 60]], float), ("red",) * 3)
    assert sized(boxes, 0, 12).tolist() == [True, False, False]
    assert sized(boxes, 12, 20).tolist() == [False, True, False]
    assert chosen(boxes, sized(boxes, 20, 99)).xyxy.tolist() == [[0, 0, 25, 60]]
    assert sized(Boxes2D(np.zeros((0, 4)), ()), 0, 12).tolist() == []


def test_the_best_score_has_the_greatest_f1():
    """A sure box on the light and doubtful ones beside it: from 0.4 to 0.85, everything is right."""
    truth = [Boxes2D(np.array([[0, 0, 10, 30.0]]), ("red",))] * 2
    rows = np.array([[0, 0, 10, 30], [50, 0, 60, 30], [80, 0, 90, 30.0]])
    answers = [Boxes2D(rows, ("red",) * 3, np.array([0.85, 0.36, 0.1]))] * 2
    assert best_score(truth, answers) == 0.5  # of equally good ones that nearest to a half
    assert best_score(truth, [Boxes2D(rows[:1], ("red",), np.array([0.32]))] * 2) == 0.3


@pytest.mark.parametrize(
    ("name", "score", "said"), [("lights-rcnn", 0.36, "is reached"), ("lights-ssd", 0.36, "is **not**")]
)
def test_goals_are_those_of_the_kind_of_detector(name, score, said):
    card = light_cards()["lights-yolox"]
    page = page_of({**card, "name": name, "held_out": {**card["held_out"], "map": score}})
    assert f"an mAP of {goal_of(name):.2f}, {said}" in page
    assert "that for the best of the four detectors, 0.55, is **not** reached" in page


def test_the_page_gives_the_mean_of_the_colours():
    card = light_cards()["lights-yolox"]
    kinds = {"red": 0.3, "yellow": 0.6, "green": 0.9, "off": 0.0}
    page = page_of({**card, "held_out": {**card["held_out"], "kinds": kinds}})
    assert "| the three colours |  | 0.600 |" in page
    page = page_of({**card, "held_out": {**card["held_out"], "kinds": {**kinds, "yellow": None}}})
    assert "| the three colours |  | 0.600 |" in page


# --- what is packaged ----------------------------------------------------------------------------------------------------


def lights_overview(by_name) -> str:
    """The cards as one Markdown table."""
    if not by_name:
        return "None of them has been trained yet."
    lines = ["| name | parameters | score | mAP | mAP@.5 | streets B | CPU seconds |", "|---|--:|--:|--:|--:|--:|--:|"]
    for name, card in by_name.items():
        score, other = card["held_out"], card["other_streets"]
        cells = (
            f"{card['score']:.2f}",
            f"{score['map']:.3f}",
            f"{score['map50']:.3f}",
            f"{other['map']:.3f}",
            f"{score['cpu_seconds']}",
        )
        lines.append(f"| `{name}` | {card['parameters']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_page_shows_the_cards():
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text()
    shown = re.search(r"<!-- light scores -->\n(.*?)\n<!-- end of light scores -->", page, re.S)
    assert shown is not None
    assert shown[1] == lights_overview(light_cards())


@pytest.mark.parametrize("name", list(light_cards()))
def test_packaged_card_describes_the_file(name):
    card = light_cards()[name]
    file = PACKAGED / f"{name}.safetensors"
    own = described(LIGHTS[name]())
    assert {key: card[key] for key in own} == own
    assert (PACKAGED / f"{name}.md").read_text() == page_of(card)
    assert card["bytes"] == file.stat().st_size <= 8_000_000
    assert card["score"] == LIGHTS[name].usual
    assert card["recipe"] == {**RECIPES[name].numbers(), "seed": 7, "threads": 1}
    assert card["data"] == {part: str(getattr(LightParts(), part)) for part in LightParts.__dataclass_fields__}


@pytest.mark.parametrize("name", list(light_cards()))
def test_packaged_detector_finds_heads(name):
    """On six rendered frames of unseen designs, far better than chance; the card has the figure."""
    world = replace(LightParts().test, junctions=3).world()
    cases = [world[key] for key in world.keys()]
    answers = [answer[0] for answer in LIGHTS[name](score=0.0)(cases)]
    truth = [case.truth[0] for case in cases]
    assert average_precision(truth, answers).at(0.5) > light_cards()[name]["held_out"]["map50"] / 2
