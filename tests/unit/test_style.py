"""Styles: networks, files, changes and training, at sizes that cost milliseconds."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from swerve.cli.main import main
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.encode import encode_change
from swerve.core.errors import InputError
from swerve.core.values import Array, Image, Steering
from swerve.execution.engine import NoProgress
from swerve.search.coordinates import coordinates_of
from swerve.sources.folders import Folder
from swerve.store.files import png_bytes
from swerve.train.loop import Checkpoint
from swerve.transformations.style import Reconstructed, Style, Styles
from swerve.translation.edges import edge_correlation
from swerve.translation.generator import About, Generator, file_bytes, generator_of, read_generator
from swerve.translation.looks import look_distance
from swerve.translation.translator import MUNIT, PUBLISHED, UNIT, Critic, Design, Translator, pictures_of, pixels_of
from swerve.zoo.style_data import PictureSize, fitted, picture_sets
from swerve.zoo.style_learn import RECIPES, PictureSets, StyleLearner, StyleLoss, learn_style, look_error
from swerve.zoo.style_train import Named, train_style

TINY = Design(width=4, residuals=1, style=3, hidden=8)
PLAIN = replace(TINY, guided=False, shared=False)
SMALL = replace(RECIPES[MUNIT], design=TINY, width=32, height=16, passes=2, steps=3, warm=2, critic=4, pool=4)


def noise(count: int, dark: int = 1, seed: int = 0) -> Array:
    """Smooth random pictures."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (count, 4, 8, 3), dtype=np.uint8)
    return np.stack([cv2.resize(one, (32, 16), interpolation=cv2.INTER_LINEAR) // dark for one in coarse])


def sets() -> PictureSets:
    return PictureSets(noise(12), noise(12, 3, 1), noise(4, 1, 2), noise(4, 3, 3))


def made(design: Design = TINY, kind: str = MUNIT) -> tuple[Translator, About]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Translator(design), About(kind, design, 32, 16, "dusk", "day", "dusk")


def written(folder: Path, design: Design = TINY, kind: str = MUNIT) -> Asset:
    (folder / "dusk.safetensors").write_bytes(file_bytes(*made(design, kind)))
    return Asset(folder / "dusk.safetensors")


@pytest.mark.parametrize("design", [TINY, PLAIN, replace(TINY, style=0), replace(PLAIN, style=0)])
def test_pictures_keep_their_shape(design: Design) -> None:
    net, _ = made(design, MUNIT if design.style else UNIT)
    pictures = pictures_of(torch.from_numpy(noise(2)))
    for side in (0, 1):
        shown = net.decode(net.content(pictures, side), net.style(pictures, side), pictures[:, :1], 1 - side)
        assert shown.shape == pictures.shape
        assert float(shown.detach().abs().max()) <= 1


def test_published_sizes_are_the_papers() -> None:
    assert (PUBLISHED.width, PUBLISHED.residuals, PUBLISHED.style) == (64, 4, 8)
    net = Translator(PUBLISHED)
    assert len(net.encoders) == len(net.blocks) == len(net.decoders) == 2
    assert net.encoders[0][0].in_channels == 3


def test_shared_parts_are_one() -> None:
    net, _ = made()
    pictures = pictures_of(torch.from_numpy(noise(1)))
    assert torch.equal(net.content(pictures, 0), net.content(pictures, 1))
    assert not torch.equal(*(made(PLAIN)[0].content(pictures, side) for side in (0, 1)))


def test_bytes_go_there_and_back() -> None:
    every = torch.arange(256, dtype=torch.uint8).repeat(3).reshape(1, 16, 16, 3)
    assert torch.equal(pixels_of(pictures_of(every)), every)


def test_style_moves_the_picture_and_not_by_chance(tmp_path: Path) -> None:
    asset, image = written(tmp_path), Image(noise(1)[0])
    one, two = Style(asset, (0.0, 0.0, 0.0)), Style(asset, (2.0, -1.0, 1.0))
    assert one.image(image) == one.image(Image(image.pixels.copy()))
    assert one.image(image) != two.image(image)
    generator_of.cache_clear()
    assert two.image(image) == Style(Asset(asset.path), (2.0, -1.0, 1.0)).image(image)


@pytest.mark.parametrize("size", [(32, 16), (47, 31), (64, 36), (9, 7)])
@pytest.mark.parametrize("design", [TINY, PLAIN])
def test_any_size_stays(tmp_path: Path, size: tuple[int, int], design: Design) -> None:
    image = Image(cv2.resize(noise(1)[0], size))
    for change in (Style(written(tmp_path, design), (1.0, 0.0, 0.0)), Reconstructed(written(tmp_path, design))):
        assert change.image(image).size == size


def test_labels_stay(tmp_path: Path) -> None:
    case = Case("a", {"camera": Image(noise(1)[0])}, (Steering(4.0),))
    changed = Style(written(tmp_path), (1.0, 1.0, 1.0))(case)
    assert changed.truth == case.truth
    assert changed.inputs != case.inputs


def test_equal_vectors_have_one_id(tmp_path: Path) -> None:
    asset = written(tmp_path)
    assert encode_change(Style(asset, (0.1, -0.0, 1))) == encode_change(Style(asset, (0.10001, 0.0, 1.0)))
    row = encode_change(Style(asset, (0.1, 0.0, 1.0)))
    assert str(tmp_path) not in json.dumps(row)


def test_wrong_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"its styles have 3 numbers, got 2"):
        Style(written(tmp_path), (1.0, 2.0))


@pytest.mark.parametrize("harm", ["cut", "other", "lacking", "empty", "not finite"])
def test_damaged_files_are_refused(tmp_path: Path, harm: str) -> None:
    content = file_bytes(*made())
    if harm == "cut":
        content = content[: len(content) // 2]
    elif harm == "empty":
        content = b""
    elif harm == "other":
        content = png_bytes(noise(1)[0])
    elif harm == "lacking":
        content = file_bytes(made()[0], replace(made()[1], design=replace(TINY, width=6)))
    else:
        net, about = made()
        with torch.no_grad():
            net.decoders[1].last.bias[0] = float("nan")
        content = file_bytes(net, about)
    with pytest.raises(InputError, match=r"^x: not a translator"):
        read_generator(content, "x")


def test_random_styles_stay_within_their_norm(tmp_path: Path) -> None:
    space = Styles(written(tmp_path), norm=1.5)
    where = coordinates_of(space, 0)
    rng = np.random.default_rng(0)
    drawn = np.stack([where.draw(rng) for _ in range(50)])
    lengths = np.linalg.norm(drawn, axis=1)
    assert lengths.max() <= 1.5 + 1e-9
    assert lengths.min() < 1.4
    assert where.on_bounds(np.array([1.5, 0.0, 0.0])) == ["length 1.5"]
    assert where.on_bounds(np.array([0.5, 0.0, 0.0])) == []
    assert where.change(np.array([1.0, 0.5, 0.0])) == Style(space.translator, (1.0, 0.5, 0.0))


def test_unit_has_one_style(tmp_path: Path) -> None:
    space = Styles(written(tmp_path, replace(TINY, style=0), UNIT))
    assert space.grid() == (Style(space.translator),)
    with pytest.raises(InputError, match="has no styles to search in"):
        space.coordinates(0)


def test_kinds_and_styles_fit_together() -> None:
    with pytest.raises(ValueError, match="kind 'unit' cannot have 3 numbers"):
        About(UNIT, TINY, 32, 16, "x")
    with pytest.raises(ValueError, match="'width' must be a multiple of 4"):
        About(MUNIT, TINY, 33, 16, "x")


def test_edges_correlate_with_themselves() -> None:
    picture = cv2.resize(noise(1, seed=5)[0], (64, 36))
    assert edge_correlation(picture, picture) == pytest.approx(1.0)
    assert edge_correlation(picture, picture // 2) > 0.9  # darker, with the same edges
    assert edge_correlation(picture, cv2.resize(noise(1, seed=9)[0], (64, 36))) < 0.6
    assert edge_correlation(picture, np.full_like(picture, 90)) == 0.0
    mirrored = np.ascontiguousarray(picture[:, ::-1])
    assert edge_correlation(picture, mirrored) < 0.9


def test_look_tells_dark_from_bright() -> None:
    bright, dark = noise(30), noise(30, 3, 1)
    assert look_distance(bright, bright) == 0.0
    assert look_distance(bright, noise(30, 1, 4)) < look_distance(bright, dark) / 2


@pytest.mark.parametrize("kind", [MUNIT, UNIT])
def test_learning_comes_closer(kind: str) -> None:
    recipe = replace(SMALL, kind=kind, design=replace(TINY, style=3 if kind == MUNIT else 0), passes=5, steps=30, rate=2e-3)
    recipe = replace(
        recipe, **({} if kind == MUNIT else {"style": 0.0, "axes": 0.0, "cycle": 2.0, "noise": 0.3, "prior": 0.01})
    )
    pictures = sets()
    learner = StyleLearner(recipe)
    before = look_error(learner, pictures)
    learner.average = learn_style(pictures, recipe).net
    assert look_error(learner, pictures) < 0.8 * before


def test_same_seed_same_bytes() -> None:
    one, two, other = (learn_style(sets(), SMALL, seed=seed).net for seed in (1, 1, 2))
    about = made()[1]
    assert file_bytes(one, about) == file_bytes(two, about) != file_bytes(other, about)


def test_stopped_training_resumes(tmp_path: Path) -> None:
    class Cut(NoProgress):
        steps = 0

        def advance(self, done: int, failed: int) -> None:
            self.steps += 1
            if self.steps == 6:
                raise KeyboardInterrupt

    checkpoint = Checkpoint(tmp_path / "state", "key", every=1)
    with pytest.raises(KeyboardInterrupt):
        learn_style(sets(), SMALL, progress=Cut(), checkpoint=checkpoint)
    resumed = learn_style(sets(), SMALL, checkpoint=checkpoint).net
    about = made()[1]
    assert file_bytes(resumed, about) == file_bytes(learn_style(sets(), SMALL).net, about)


def test_losses_of_critics_leave_the_translator_alone() -> None:
    """The two sides of the game touch different weights, so that one step can serve both."""
    learner = StyleLearner(SMALL)
    loss = StyleLoss(learner, sets(), np.random.default_rng(0))
    pictures = pictures_of(torch.from_numpy(noise(2)))
    loss._judged(pictures, pictures.flip(2), 1).backward()  # type: ignore[no-untyped-call]
    assert all(part.grad is None for part in learner.net.parameters())
    assert all(part.grad is not None for part in learner.critics[1].parameters())
    learner.zero_grad()
    shown = learner.net.decode(learner.net.content(pictures, 0), torch.zeros(2, 3), pictures[:, :1], 1)
    loss._fooled(shown, 1).backward()  # type: ignore[no-untyped-call]
    assert all(part.grad is None or not part.grad.any() for part in learner.critics.parameters())
    assert any(part.grad is not None and part.grad.any() for part in learner.net.parameters())


def test_critics_see_the_pool() -> None:
    learner = StyleLearner(SMALL)
    loss = StyleLoss(learner, sets(), np.random.default_rng(0))
    shown = pictures_of(torch.from_numpy(noise(2)))
    assert len(loss._seen_before(shown, 1)) == 0
    assert len(loss._seen_before(shown, 1)) == 2
    assert learner.seen_count.tolist() == [0, 4]
    assert torch.equal(learner.seen[1][:2], torch.from_numpy(noise(2)))


def test_critic_judges_at_two_scales() -> None:
    found = Critic(4)(pictures_of(torch.from_numpy(noise(2))))
    assert [tuple(one.shape) for one in found] == [(2, 1, 2, 4), (2, 1, 1, 2)]


def test_held_out_pictures_are_of_other_groups(tmp_path: Path) -> None:
    for drive in range(7):
        (tmp_path / f"d{drive}").mkdir()
        for number in range(3):
            picture = np.full((20, 40, 3), 30 * drive + number, np.uint8)
            (tmp_path / f"d{drive}" / f"{number}.png").write_bytes(png_bytes(picture))
    found = picture_sets(Folder(tmp_path), Folder(tmp_path), PictureSize(32, 16), progress=NoProgress())
    learnt, held = (set(part[:, 0, 0, 0].astype(int) // 30) for part in (found.source, found.val_source))
    assert len(found.source) + len(found.val_source) == 21
    assert held
    assert not learnt & held


def test_too_few_pictures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(png_bytes(noise(1)[0]))
    with pytest.raises(InputError, match=r"^the source: readable pictures: \d; at least 8 are needed"):
        picture_sets(Folder(tmp_path), Folder(tmp_path), PictureSize(32, 16), progress=NoProgress())


def test_pictures_are_cut_to_shape() -> None:
    wide = np.zeros((10, 40, 3), np.uint8)
    wide[:, 10:30] = 200
    assert (fitted(wide, 16, 8) == 200).all()  # the middle
    assert fitted(wide[:, :4], 16, 8).shape == (8, 16, 3)


def test_card_and_sheet_are_written(tmp_path: Path) -> None:
    card = train_style(Named("dusk", "day", "dusk"), tmp_path, sets(), recipe=SMALL)
    assert {file.name for file in tmp_path.iterdir()} == {
        f"dusk.{suffix}" for suffix in ("safetensors", "json", "md", "png")
    }
    assert json.loads((tmp_path / "dusk.json").read_text()) == card
    assert card["pictures"] == {"source": 12, "target": 12, "val_source": 4, "val_target": 4}
    assert "swerve style train --name dusk" in (tmp_path / "dusk.md").read_text()
    generator = generator_of(Asset(tmp_path / "dusk.safetensors"))
    assert isinstance(generator, Generator)
    assert asdict(generator.about)["name"] == "dusk"


def test_command_trains_on_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swerve.zoo.style_learn.RECIPES", {MUNIT: SMALL})
    for name, dark in (("day", 1), ("dusk", 3)):
        (tmp_path / name).mkdir()
        for number, picture in enumerate(noise(10, dark)):
            (tmp_path / name / f"{number}.png").write_bytes(png_bytes(picture))
    given = ["--from", str(tmp_path / "day"), "--to", str(tmp_path / "dusk"), "--out", str(tmp_path / "styles")]
    assert main(["style", "train", *given, "--name", "dusk"]) == 0
    assert "correlation of the road's edges" in capsys.readouterr().out
    assert (tmp_path / "styles" / "dusk.safetensors").exists()
    assert main(["style", "train", *given, "--name", "../dusk"]) == 2
    assert "--name must consist of letters" in capsys.readouterr().err
    assert main(["style", "train", "--from", str(tmp_path / "none"), "--to", "world:night", "--name", "x"]) == 2
    assert "no folder of pictures" in capsys.readouterr().err
