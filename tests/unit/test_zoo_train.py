from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from swerve.cli.zoo_train import main
from swerve.core.errors import InputError
from swerve.train import rendered as cache
from swerve.train.loop import save_weights
from swerve.zoo import steering_data
from swerve.zoo.networks import DEGREES
from swerve.zoo.steering import PACKAGED, STEERING, CameraCrop
from swerve.zoo.steering_data import FramePart, FrameParts, SteeringFrames, default_folder, render_drive, rendered
from swerve.zoo.steering_learn import SteeringRecipe, TrainingFrames, learn, predictions, rmse, samples, varied
from swerve.zoo.steering_train import Score, cards, page_of, scored, train_steering

VIEW = CameraCrop(top=0.5, width=8, height=4, tone="unit", frames=3)
TINY = FramePart("train", 3, 2, width=32, height=18)
QUICK = SteeringRecipe(passes=2, batch=8, memory=1)


pytestmark = pytest.mark.usefixtures("one_thread")


def numbered(drives: int, length: int, first: int = 0) -> SteeringFrames:
    """Frames whose brightness is their number, and whose angle is ten times that."""
    number = first + np.arange(drives * length).reshape(drives, length)
    pixels = np.broadcast_to(number[..., None, None, None], (drives, length, 6, 8, 3)).astype(np.uint8)
    return SteeringFrames(pixels, 10.0 * number.astype(np.float32), cut=3)


def striped(drives: int, length: int, seed: int) -> SteeringFrames:
    """Grey noise with a white stripe; the farther right it stands, the farther right one must steer."""
    rng = np.random.default_rng(seed)
    at = rng.integers(4, 60, (drives, length))
    pixels = rng.integers(40, 90, (drives, length, 23, 64, 3), np.uint8)
    for drive, frame in np.ndindex(drives, length):
        pixels[drive, frame, :, at[drive, frame] - 3 : at[drive, frame] + 3] = 250
    return SteeringFrames(pixels, (32 - at).astype(np.float32), cut=12)


@pytest.fixture(scope="module")
def material() -> TrainingFrames:
    sizes = ((9, 4), (2, 102), (2, 4), (1, 101), (2, 4), (1, 101))
    return TrainingFrames(*(striped(*size, seed) for seed, size in enumerate(sizes)))


def test_windows_end_at_their_angle():
    found = samples(VIEW, numbered(2, 4), numbered(1, 5, first=8), every=(1, 2))
    assert found.windows.tolist() == [[0, 1, 2], [1, 2, 3], [4, 5, 6], [5, 6, 7], [8, 9, 10], [10, 11, 12]]
    assert (found.units * DEGREES).tolist() == pytest.approx([20, 30, 60, 70, 100, 120])
    assert found.pixels(np.array([4]))[0, :, 0, 0, 0].tolist() == [8, 9, 10]


def test_another_drivers_parts_are_half_as_many():
    own, other = FrameParts(), FrameParts().driven_by("cautious")
    assert own.driven_by("standard") == own
    assert [part.drives for part in other.all()] == [round(part.drives / 2) for part in own.all()]
    assert {part.driver for part in other.all()} == {"cautious"}


def test_short_drives_have_no_window():
    assert len(samples(replace(VIEW, frames=5), numbered(2, 4), every=(1,)).units) == 0


def test_variations_keep_order_within_windows():
    window = samples(VIEW, numbered(8, 3, first=90), every=(1,)).pixels(np.arange(8))
    changed = varied(window, np.random.default_rng(0))
    brightness = changed.mean(axis=(2, 3, 4))
    assert (np.diff(brightness, axis=1) >= 0).all()
    assert not np.array_equal(changed, window)
    assert changed.shape == window.shape


def test_variations_never_move_a_stripe():
    window = striped(12, 1, 3).pixels
    changed = varied(window, np.random.default_rng(1))
    before, after = (pixels.mean(axis=(1, 2, 4)).argmax(axis=1) for pixels in (window, changed))
    assert np.abs(after - before).max() <= 5  # the stripe is six pixels wide


def test_loss_goes_down(material):
    net = learn("dave-orig", material, recipe=SteeringRecipe(passes=4, batch=8, every=3), seed=1)
    view = STEERING["dave-orig"].view
    asked = samples(view, material.long, every=(5,))
    assert rmse(predictions(net, view, asked), asked.units) < 0.5 * rmse(np.zeros_like(asked.units), asked.units)


@pytest.mark.parametrize("name", STEERING)
def test_same_seed_same_bytes(material, name, tmp_path):
    small = replace(material, short=striped(2, 4, 0), long=striped(1, 102, 1))
    recipe = SteeringRecipe(passes=1, batch=8, every=40, memory=1)
    for number, seed in enumerate((7, 7, 8)):
        save_weights(learn(name, small, recipe=recipe, seed=seed), tmp_path / f"{number}")
    first, again, other = ((tmp_path / f"{number}").read_bytes() for number in range(3))
    assert first == again != other


def test_torchs_generator_is_left_alone(material):
    before = torch.get_rng_state()
    learn("dave-dropout", replace(material, short=striped(2, 4, 0)), recipe=SteeringRecipe(passes=1, every=50))
    assert torch.equal(before, torch.get_rng_state())


def test_memory_wants_long_drives(material):
    with pytest.raises(InputError, match="long drives must have at least 100 frames, got 50"):
        learn("chauffeur", replace(material, long=striped(1, 50, 0)), recipe=replace(QUICK, passes=1))


def test_card_tells_the_measured(material, tmp_path):
    card = train_steering("dave-dropout", tmp_path, frames=material, recipe=replace(QUICK, every=30), seed=3)
    system = STEERING["dave-dropout"](tmp_path / "dave-dropout.safetensors")
    assert card["held_out"] == scored(system, material.test_short, material.test_long).as_dict()
    assert card["data"]["long"] == "0 drives, 2 runs of 102 frames"
    assert card["recipe"]["seed"] == 3
    assert cards(tmp_path) == {"dave-dropout": card}
    page = (tmp_path / "dave-dropout.md").read_text()
    assert f"| held-out, {card['held_out']['windows']} windows | {card['held_out']['rmse_degrees']:.2f} |" in page


def test_score_is_in_degrees():
    score = Score(rmse=9.0, zero=36.0, windows=5)
    assert score.as_dict() == pytest.approx(
        {"rmse_degrees": 9.0, "mse_rad2": 0.02467, "zero_rmse_degrees": 36.0, "ratio": 0.25, "windows": 5}
    )


def test_unknown_network_is_refused(material, tmp_path):
    with pytest.raises(InputError, match="unknown steering system 'epoc'; did you mean 'epoch'"):
        train_steering("epoc", tmp_path, frames=material)


def test_drive_is_world_without_top():
    made, world = render_drive(TINY, 1), TINY.world()
    cases = [world[f"train/0/1#{number}"] for number in (0, 1)]
    assert np.array_equal(made["pixels"], [case.inputs["camera"].pixels[6:] for case in cases])
    assert made["degrees"] == pytest.approx([steering_data.degrees_of(case.truth) for case in cases])
    assert made["pixels"].shape == drive_shape(TINY)


def drive_shape(part: FramePart) -> tuple[int, int, int, int]:
    """Frames x rows x columns x RGB of one drive."""
    return part.runs * part.frames, part.height - part.cut, part.width, 3


def fake_drive(part: FramePart, drive: int) -> dict[str, np.ndarray]:
    return {"pixels": np.full(drive_shape(part), drive + 1, np.uint8), "degrees": np.full(part.frames, drive, np.float32)}


def test_rendering_goes_on_where_stopped(monkeypatch, tmp_path):
    asked = []

    def stops_after_one(part: FramePart, drive: int) -> dict[str, np.ndarray]:
        if asked:
            raise KeyboardInterrupt
        asked.append(drive)
        return fake_drive(part, drive)

    clock = count(0.0, 30.0)
    monkeypatch.setattr(cache.time, "process_time", lambda: next(clock))
    monkeypatch.setattr(steering_data, "render_drive", stops_after_one)
    with pytest.raises(KeyboardInterrupt):
        rendered(TINY, tmp_path, workers=1)
    monkeypatch.setattr(steering_data, "render_drive", lambda part, drive: asked.append(drive) or fake_drive(part, drive))
    frames = rendered(TINY, tmp_path, workers=1)
    assert asked == [0, 1, 2]
    assert frames.degrees.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert frames.minutes == 1.5


def test_rendered_frames_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(steering_data, "render_drive", fake_drive)
    rendered(TINY, tmp_path, workers=1)
    monkeypatch.setattr(steering_data, "render_drive", lambda part, drive: pytest.fail("rendered twice"))
    frames = rendered(TINY, tmp_path, workers=1)
    assert [int(run[0, 0, 0, 0]) for run in frames.pixels] == [1, 2, 3]
    assert frames.cut == 6
    assert not frames.pixels[0].flags.writeable


def test_two_workers_render_alike(tmp_path):
    part = replace(TINY, drives=2, frames=1)
    one, two = (rendered(part, tmp_path / str(workers), workers=workers) for workers in (1, 2))
    assert np.array_equal(one.pixels[:], two.pixels[:])
    assert np.array_equal(one.degrees, two.degrees)


@pytest.mark.parametrize("other", ["VERSION", "sky", "seed", "code"])
def test_other_frames_are_rendered_beside(monkeypatch, tmp_path, other):
    asked = []
    monkeypatch.setattr(steering_data, "render_drive", lambda part, drive: asked.append(drive) or fake_drive(part, drive))
    rendered(TINY, tmp_path, workers=1)
    if other == "code":
        monkeypatch.setattr(steering_data, "code_digest", lambda: "edited")
    elif other == "VERSION":
        monkeypatch.setattr(steering_data, other, 0.5)
    changed = {"seed": {"seed": 1}, "sky": {"sky": 0.5}}.get(other, {})
    rendered(replace(TINY, **changed), tmp_path, workers=1)
    assert asked == [0, 1, 2, 0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2


def test_fewer_drives_are_shared(monkeypatch, tmp_path):
    monkeypatch.setattr(steering_data, "render_drive", fake_drive)
    rendered(TINY, tmp_path, workers=1)
    monkeypatch.setattr(steering_data, "render_drive", lambda part, drive: pytest.fail("rendered twice"))
    assert len(rendered(replace(TINY, drives=2), tmp_path, workers=1).pixels) == 2


def test_torn_key_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(steering_data, "render_drive", fake_drive)
    rendered(TINY, tmp_path, workers=1)
    (TINY.cache(tmp_path).folder / "key.json").write_text("{")
    with pytest.raises(InputError, match="delete the folder to render it again"):
        rendered(TINY, tmp_path, workers=1)


def test_parts_share_no_scene():
    parts = FrameParts().all()
    assert len({(part.split, part.seed) for part in parts}) == 6
    assert len({part.cache(Path()).folder for part in parts}) == 6
    assert {part.split for part in parts} == {"train", "val", "test"}


def test_runs_of_a_drive_lie_apart(monkeypatch, tmp_path):
    part = replace(TINY, drives=2, frames=3, runs=2, apart=5)
    assert part.keys(1) == [f"train/0/1#{number}" for number in (0, 1, 2, 5, 6, 7)]
    assert set(part.keys(1)) <= set(part.world().keys())
    monkeypatch.setattr(steering_data, "render_drive", numbered_drive)
    frames = rendered(part, tmp_path, workers=1)
    assert frames.degrees.tolist() == [[0, 1, 2], [5, 6, 7], [10, 11, 12], [15, 16, 17]]
    assert [run[:, 0, 0, 0].tolist() for run in frames.pixels] == frames.degrees.tolist()
    assert frames.drives == 2


def numbered_drive(part: FramePart, drive: int) -> dict[str, np.ndarray]:
    """Frames and angles that are their own number."""
    numbers = np.array([10 * drive + int(key.rpartition("#")[2]) for key in part.keys(drive)], np.float32)
    pixels = np.broadcast_to(numbers[:, None, None, None], drive_shape(part)).astype(np.uint8)
    return {"pixels": pixels, "degrees": numbers}


def test_single_frames_are_those_that_are_trained_on(monkeypatch, tmp_path):
    monkeypatch.setattr(steering_data, "render_drive", numbered_drive)
    short, long = replace(TINY, drives=2, frames=3, runs=2, apart=5), replace(TINY, drives=1, frames=8, seed=1)
    single = replace(VIEW, frames=1)
    trained = samples(single, *(rendered(part, tmp_path, workers=1) for part in (short, long)), every=(3, 3))
    stored = [steering_data.stored_frames(part.singles(3), tmp_path, workers=1) for part in (short, long)]
    cases = [source[key] for source in stored for key in source.keys()]
    assert [case.key for case in cases] == [
        *(f"train/0/{drive}#{number}" for drive in (0, 1) for number in (0, 5)),
        *(f"train/1/0#{number}" for number in (0, 3, 6)),
    ]
    angles = [steering_data.degrees_of(case.truth) for case in cases]
    assert angles == pytest.approx(trained.units * DEGREES)
    assert [int(case.inputs["camera"].pixels[0, 0, 0]) for case in cases] == angles  # the pixels are those of the angle
    assert {case.inputs["camera"].size for case in cases} == {(TINY.width, TINY.height)}  # with the sky
    assert [case.group for case in cases] == [stored[case.key[6] == "1"].group(case.key) for case in cases]
    assert len({source.fingerprint() for source in stored}) == 2


def test_stored_frames_are_the_world_s(tmp_path):
    part = replace(TINY, drives=1, frames=3).singles(2)
    source, world = steering_data.stored_frames(part, tmp_path, workers=1), part.world()
    assert source.keys() == ["train/0/0#0", "train/0/0#2"]
    for key in source.keys():
        assert source[key].inputs["camera"].digest == world[key].inputs["camera"].digest
        assert source.group(key) == world.group(key)
    with pytest.raises(KeyError):
        source["train/0/0#1"]


def test_zoo_s_single_frames_are_counted():
    counts = {
        split: [(part.split, part.drives, part.drives * part.runs) for part in parts]
        for split, parts in FrameParts().singles(5).items()
    }
    assert counts == {"train": [("train", 1200, 7200), ("train", 60, 1560)], "val": [("val", 100, 600), ("val", 8, 208)]}


def test_share_keeps_a_drive():
    few = FrameParts(short=FramePart("train", 2200, 4), long=FramePart("train", 9, 130)).scaled(0.01)
    assert (few.short.drives, few.long.drives, few.long.frames) == (22, 1, 130)


def test_cache_folder_follows_xdg(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/swerve/zoo")


@pytest.mark.parametrize(
    ("words", "code"), [(["list"], 0), (["--help"], 0), (["train"], 2), (["dance"], 2), (["render", "--share", "2"], 2)]
)
def test_command_ends_with_code(words, code, capsys):
    assert main(words) == code
    assert "Traceback" not in capsys.readouterr().err


def test_command_refuses_unknown_network(tmp_path):
    with pytest.raises(InputError, match="unknown steering system 'nobody'"):
        main(["train", "nobody", "--data", str(tmp_path)])


def test_listing_names_every_network(capsys):
    main(["list"])
    shown = capsys.readouterr().out
    assert [name for name in STEERING if name not in shown] == []


@pytest.mark.parametrize("name", STEERING)
def test_packaged_page_was_made_from_its_card(name):
    assert (PACKAGED / f"{name}.md").read_text() == page_of(cards()[name])


def overview(by_name) -> str:
    """The cards as one Markdown table."""
    lines = [
        "| name | looks at | parameters | neurons | held-out RMSE | share of never steering |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name, card in by_name.items():
        view, score = card["input"], card["held_out"]
        looks = f"{view['frames']} × {view['width']}×{view['height']} {view['tone']}"
        size = f"{card['parameters']:,} | {card['neurons']['default']:,}"
        lines.append(f"| `{name}` | {looks} | {size} | {score['rmse_degrees']:.2f}° | {score['ratio']:.0%} |")
    return "\n".join(lines)


def test_page_shows_the_cards():
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text()
    shown = re.search(r"<!-- scores -->\n(.*?)\n<!-- end of scores -->", page, re.S)
    assert shown is not None
    assert shown[1] == (overview(found) if (found := cards()) else "No network has been trained yet.")
