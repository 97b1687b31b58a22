"""Bad input to learned conditions ends in one line that names the file and says what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from swerve.cli.main import main
from swerve.store.files import png_bytes
from swerve.translation.generator import file_bytes, read_generator
from swerve.translation.translator import MUNIT, UNIT
from swerve.zoo.style_learn import RECIPES, published
from tests.unit.test_style import SMALL, TINY, made, noise, written

CAMPAIGN = """
method = "critical-conditions"
space = { use = "styles", translator = "dusk.safetensors" }
conditions = 1
evaluations = 2

[source]
use = "folder"
folder = "day"

[system]
use = "function"
function = "steer.py:steer"
"""
STEER = """
from swerve.core.values import Image, Steering


def steer(case):
    picture = next(value for value in case.inputs.values() if isinstance(value, Image))
    return Steering(float(picture.pixels.mean()) / 4)
"""
FIXED = """
[source]
use = "folder"
folder = "day"

[system]
use = "function"
function = "steer.py:steer"

[[rule]]
name = "night"
change = { use = "style", translator = "dusk.safetensors", vector = [1.0, 2.0] }
expect = { use = "same-angle", within = 10.0 }
"""


def folder_of(path: Path, count: int, dark: int = 1, scale: int = 1) -> Path:
    """A folder of pictures, each `scale` times as large as usual."""
    path.mkdir()
    for number, picture in enumerate(noise(count, dark)):
        larger = np.kron(picture, np.ones((scale, scale, 1), np.uint8))
        (path / f"{number}.png").write_bytes(png_bytes(larger))
    return path


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A quick training on two folders, the second with pictures of another size."""
    monkeypatch.setattr("swerve.zoo.style_learn.RECIPES", {MUNIT: SMALL})
    day, dusk = folder_of(tmp_path / "day", 10), folder_of(tmp_path / "dusk", 10, 3, 2)
    return ["style", "train", "--from", str(day), "--to", str(dusk), "--out", str(tmp_path / "styles"), "--name", "dusk"]


def line_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line of what was printed to stderr, without what a progress display leaves."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1, lines
    return lines[0]


def test_sizes_may_differ_and_are_told(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given) == 0
    told = "the source has pictures of 32x16, the target of 64x32: their middle is cut to 32:16"
    assert told in capsys.readouterr().out


def test_size_of_pictures_can_be_chosen(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*given, "--size", "24x16"]) == 0
    about = read_generator((tmp_path / "styles" / "dusk.safetensors").read_bytes(), "dusk").about
    assert (about.width, about.height) == (24, 16)
    capsys.readouterr()
    for wrong in ("24", "24x15", "8x8", "axb"):
        assert main([*given, "--size", wrong]) == 2
        assert "--size must be like 128x72" in line_of(capsys)


def test_published_widths_are_the_papers() -> None:
    for kind, style in ((MUNIT, 8), (UNIT, 0)):
        recipe = published(RECIPES[kind])
        assert (recipe.design.width, recipe.design.residuals, recipe.design.style, recipe.critic) == (64, 4, style, 64)
        assert not recipe.design.shared


def test_one_picture_is_too_few(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = folder_of(tmp_path / "one", 1)
    assert main([*given, "--to", str(one)]) == 2
    assert "the target: readable pictures: 1; at least 8 are needed" in line_of(capsys)


@pytest.mark.parametrize("harm", ["cut", "lacking", "other"])
def test_corrupt_checkpoint_is_named(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr("swerve.train.loop.Checkpoint.remove", lambda _: None)
    assert main(given) == 0
    capsys.readouterr()
    file = tmp_path / "styles" / "dusk.checkpoint" / "training.safetensors"
    if harm == "lacking":
        with safe_open(file, "pt") as kept:
            header, tensors = kept.metadata(), {name: kept.get_tensor(name) for name in list(kept.keys())[::2]}
        save_file(tensors, file, header)
    else:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2] if harm == "cut" else b"nothing")
    assert main(given) == 2
    line = line_of(capsys)
    assert str(file) in line
    assert "not a checkpoint" in line
    assert "delete it to train from the start" in line


def campaign_in(folder: Path, text: str) -> Path:
    """A campaign on a few pictures, with a translator and a system of its own."""
    folder_of(folder / "day", 3)
    written(folder)
    (folder / "steer.py").write_text(STEER, encoding="utf-8")
    (folder / "night.toml").write_text(text, encoding="utf-8")
    return folder / "night.toml"


def test_style_that_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = campaign_in(tmp_path, CAMPAIGN)
    into = ["run", str(file), "--into", str(tmp_path / "run"), "--force", "--trust", str(tmp_path / "steer.py")]
    assert main(into) in (0, 1)
    (tmp_path / "dusk.safetensors").write_bytes(file_bytes(*made(replace(TINY, width=6))))
    capsys.readouterr()
    assert main(into) == 2
    assert "dusk.safetensors" in line_of(capsys)


def test_vector_of_the_wrong_length_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = campaign_in(tmp_path, FIXED)
    assert main(["check", str(file), "--trust", str(tmp_path / "steer.py")]) == 2
    line = line_of(capsys)
    assert "its styles have 3 numbers, got 2" in line
    assert "dusk.safetensors" in line
