"""Styles learnt from pairs, the scene reader, and the gate that asks whether the road is still there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from swerve.cli.main import main
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Array, Image, SceneRef
from swerve.execution.engine import NoProgress
from swerve.relations import road_kept
from swerve.relations.road_kept import RoadKept
from swerve.sources.folders import Folder
from swerve.store.files import png_bytes
from swerve.train.card import read_cards
from swerve.train.loop import Recipe
from swerve.transformations.style import packaged_styles
from swerve.translation.edges import overlap
from swerve.translation.packaged import packaged
from swerve.translation.scene_reader import READER, SceneReader, SceneReaderNet, read_reader, reader_bytes
from swerve.translation.translator import Design, pictures_of
from swerve.world.conditions import PRESETS, declared
from swerve.zoo.reader_train import KINDS, reader_scores, train_reader, varied_light
from swerve.zoo.style_data import PictureSize, paired_sets
from swerve.zoo.style_frames import CONDITIONS, ROAD, PairedFrames, PairPart, StyleFrames, render_place
from swerve.zoo.style_learn import PAIRED, PictureSets, learn_style, translations
from swerve.zoo.style_weather import RANGES, VariedWorld, varied

TINY = Design(width=4, residuals=1, style=3, hidden=8)
SMALL = replace(PAIRED["munit"], design=TINY, width=32, height=16, passes=6, steps=20, warm=100, critic=4, pool=4)


def noise(count: int, seed: int = 0) -> Array:
    """Smooth random pictures."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (count, 4, 8, 3), dtype=np.uint8)
    return np.stack([cv2.resize(one, (32, 16), interpolation=cv2.INTER_LINEAR) for one in coarse])


def test_partner_is_learnt() -> None:
    ours, held = noise(12), noise(4, 2)
    net = learn_style(PictureSets(ours, 255 - ours, held, 255 - held), SMALL).net
    shown = translations(net, held, np.zeros((4, 3), np.float32)).astype(float)
    wrong, untouched = (float(np.abs(pixels - (255.0 - held)).mean()) for pixels in (shown, held))
    assert wrong < 0.6 * untouched


def folder(path: Path, names: list[str], dark: int) -> Folder:
    path.mkdir()
    for name, pixels in zip(names, noise(len(names)), strict=True):
        (path / f"{name}.png").write_bytes(png_bytes(pixels // dark))
    return Folder(path)


def test_pairs_have_one_name(tmp_path: Path) -> None:
    names = [f"p{number:02}" for number in range(12)]
    ours, theirs = folder(tmp_path / "a", names, 1), folder(tmp_path / "b", names, 2)
    sets = paired_sets(ours, theirs, PictureSize(32, 16), progress=NoProgress())
    assert len(sets.source) + len(sets.val_source) == 12
    assert (sets.target == sets.source // 2).all()
    assert (sets.val_target == sets.val_source // 2).all()


def test_pairs_need_common_names(tmp_path: Path) -> None:
    ours, theirs = folder(tmp_path / "a", ["p", "q"], 1), folder(tmp_path / "b", ["r"], 1)
    with pytest.raises(InputError, match="the sources have no key in common"):
        paired_sets(ours, theirs, PictureSize(32, 16), progress=NoProgress())
    again = folder(tmp_path / "c", ["p", "q"], 1)
    with pytest.raises(InputError, match=r"^sources: pairs: 2; at least 8 are needed"):
        paired_sets(ours, again, PictureSize(32, 16), progress=NoProgress())


def test_pairs_of_other_names_end_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder(tmp_path / "a", ["p"], 1)
    folder(tmp_path / "b", ["q"], 1)
    given = ["--from", str(tmp_path / "a"), "--to", str(tmp_path / "b"), "--name", "n", "--out", str(tmp_path / "out")]
    assert main(["style", "train", "--paired", *given]) == 2
    assert "pictures of the same place must have the same name in both" in capsys.readouterr().err


@pytest.mark.parametrize("name", RANGES)
def test_varied_conditions_stay_in_their_ranges(name: str) -> None:
    every = [varied(name, f"train/0/{number}") for number in range(20)]
    assert len(set(every)) == 20
    for parameter in declared():
        low, high = RANGES[name].get(parameter, (getattr(PRESETS[name], parameter),) * 2)
        found = [getattr(one, parameter) for one in every]
        assert low - 1 <= min(found) <= max(found) <= high + 1
    assert all((one.dark == 1) == name.endswith("night") for one in every)


def test_varied_world_is_another_source() -> None:
    plain = VariedWorld(2, 1, "train", "night").fingerprint()
    assert plain != VariedWorld(2, 1, "train", "rain").fingerprint()
    assert VariedWorld(2, 1, "train").weather("train/0/1") == VariedWorld(2, 1, "train").weather("train/0/1")


def test_place_is_one_in_all_conditions() -> None:
    part = PairPart("val", drives=1, width=64, height=36)
    found = render_place(part, 0)
    assert {*found} == {*CONDITIONS, ROAD}
    assert found[ROAD][-1, 20:44].all()
    assert not found[ROAD][:12].any()
    assert found["night"][:6].mean() < 0.5 * found["day"][:6].mean()  # the sky
    again = part.world("night")
    assert np.abs(found["night"].astype(int) - cv2.resize(
        again[again.keys()[0]].inputs["camera"].pixels, (64, 36), interpolation=cv2.INTER_AREA)).max() == 0  # type: ignore[attr-defined]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "two", "share"), [("1100", "1100", 1.0), ("1100", "0110", 1 / 3), ("1100", "0011", 0.0), ("0000", "1000", None)]
)
def test_overlap_of_masks(one: str, two: str, share: float | None) -> None:
    masks = (np.array([digit == "1" for digit in text]) for text in (one, two))
    assert overlap(*masks) == share


def reader(kinds: tuple[str, ...] = KINDS) -> SceneReader:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return SceneReader(SceneReaderNet(len(kinds)).eval(), kinds)


def test_reader_file_goes_there_and_back() -> None:
    ours = reader()
    again = read_reader(reader_bytes(ours), "x")
    pictures = [noise(1)[0], noise(2)[1]]
    assert again.kinds == KINDS
    assert (again.roads(pictures) == ours.roads(pictures)).mean() > 0.99
    assert again.roads(pictures).shape == (2, 36, 64)


@pytest.mark.parametrize("content", [b"", b"12345678abc", png_bytes(noise(1)[0]), reader_bytes(reader())[:-9]])
def test_damaged_reader_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match=r"^x: not a scene reader"):
        read_reader(content, "x")


def test_light_of_samples_varies() -> None:
    rng = np.random.default_rng(0)
    pixels = np.concatenate([np.full((40, 4, 4, 3), 20, np.uint8), np.full((40, 4, 4, 3), 160, np.uint8)])
    means = varied_light(pixels, rng).mean((1, 2, 3))
    assert means.shape == (80,)
    assert float(means[:40].max()) > float(means[40:].min())  # the dark ones are not always darker
    assert torch.equal(pictures_of(torch.from_numpy(pixels))[0], pictures_of(torch.from_numpy(pixels[:1]))[0])


def stripes(count: int, seed: int) -> PairedFrames:
    """Every condition has stripes of its own width, and the lower half is road."""
    rng, pictures = np.random.default_rng(seed), {}
    for place, name in enumerate(CONDITIONS):
        wave = 110 + 80 * np.sign(np.sin(np.arange(128) * (place + 1) / 8))
        rows = np.repeat(wave[None, :, None], 72, 0) + rng.normal(0, 8, (count, 72, 128, 3))
        rows[:, :36, :, 2] += 40
        pictures[name] = rows.clip(0, 255).astype(np.uint8)
    road = np.zeros((count, 72, 128), bool)
    road[:, 36:] = True
    return PairedFrames(pictures, road)


def test_reader_learns_and_its_card_is_true(tmp_path: Path) -> None:
    frames = StyleFrames(stripes(8, 0), stripes(2, 1))
    card = train_reader(tmp_path, frames, recipe=Recipe(8, 8, 3e-3, patience=8, one_cycle=True))
    written = read_reader((tmp_path / f"{READER}.safetensors").read_bytes(), READER)
    assert card["held_out"] == reader_scores(written, frames.test)
    assert card["held_out"]["conditions"] > 0.6
    assert card["held_out"]["road_overlap"] > 0.8
    assert read_cards(tmp_path, [READER])[READER]["bytes"] == card["bytes"]
    assert f"swerve zoo train {READER}" in (tmp_path / f"{READER}.md").read_text()


class FakeReader:
    """Sees the road in bright pixels."""

    def roads(self, pictures: list[Array]) -> Array:
        return np.stack([pixels[..., 0] > 100 for pixels in pictures])


def case(pixels: Array, *, world: bool = True) -> Case:
    return Case("a", {"camera": Image(pixels)}, (SceneRef("test/0/0#0"),) if world else ())


def test_road_must_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(road_kept, "_reader", FakeReader)
    pixels = np.full((40, 40, 3), 50, np.uint8)
    pixels[20:, 10:30] = 200
    less = pixels.copy()
    less[20:24] = 50
    gate = RoadKept()
    kept = gate.admit(case(pixels), case(pixels))
    assert (kept.why, dict(kept.facts)) == ("", {"edge_correlation": 1.0, "road_overlap": 1.0})
    lost = gate.admit(case(pixels), case(less))
    assert lost.why == "the road overlaps with that before by 80%, less than 90%"
    assert lost.facts["road_overlap"] == 0.8
    assert not RoadKept(overlap=0.8).admit(case(pixels), case(less)).why  # the limit itself is enough
    gone = gate.admit(case(pixels), case(np.full_like(pixels, 90)))
    assert gone.why.startswith("the road's edges correlate with those before by 0.00, less than 0.3")


def test_other_pictures_are_judged_by_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(road_kept, "_reader", FakeReader)
    pixels = noise(1)[0]
    found = RoadKept().admit(case(pixels, world=False), case(pixels // 2, world=False))
    assert not found.why
    assert {*found.facts} == {"edge_correlation"}


def test_untrained_style_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"^fog is not trained yet: run `swerve zoo train fog`"):
        packaged("fog")
    with pytest.raises(InputError, match="style"):
        packaged_styles("fog")
