from __future__ import annotations

import pytest
import torch

from swerve.case import Case
from swerve.errors import InputError
from swerve.sources.roads import Roads
from swerve.systems.torch import TorchSystem
from swerve.values import Signal
from swerve.zoo import lane_keeper as recipe
from swerve.zoo.lane_keeper import PACKAGED, LaneKeeper, LaneNet, degrees_of, save, score, train


@pytest.fixture(scope="module")
def keeper() -> TorchSystem:
    return LaneKeeper().system


def test_unseen_roads_are_steered(keeper):
    error, baseline = score(keeper, Roads(drives=60, frames=1, split="test"))
    assert baseline > 15
    assert error < 0.4 * baseline


def test_score_sees_bad_steering():
    error, baseline = score(recipe.system(LaneNet()), Roads(drives=20, frames=1))
    assert error > 0.8 * baseline


def test_batch_answers_like_single(keeper):
    source = Roads(drives=9, frames=1)
    cases = [source[key] for key in source.keys()]
    alone = [degrees_of(keeper([case])[0]) for case in cases]
    assert [degrees_of(answer) for answer in keeper(cases)] == pytest.approx(alone, abs=1e-4)


def test_fingerprint_is_stable(keeper):
    assert LaneKeeper().fingerprint() == LaneKeeper(PACKAGED).fingerprint() == keeper.fingerprint()
    assert recipe.system(LaneNet()).fingerprint() != keeper.fingerprint()


def test_packaged_weights_are_small(keeper):
    assert PACKAGED.stat().st_size < 300_000
    assert {part.dtype for part in keeper.net.parameters()} == {torch.float32}


@pytest.mark.parametrize("kept", [0, 7, 500, -1])
def test_truncated_weights_are_refused(tmp_path, kept):
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(PACKAGED.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"torn\.safetensors"):
        LaneKeeper(torn)


def test_missing_weights_are_refused(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        LaneKeeper(tmp_path / "nowhere")


def test_foreign_weights_are_refused(tmp_path):
    save(torch.nn.Linear(2, 1), str(tmp_path / "other.safetensors"))
    with pytest.raises(InputError, match=r"other\.safetensors"):
        LaneKeeper(tmp_path / "other.safetensors")


def test_case_without_camera_is_refused(keeper):
    with pytest.raises(InputError, match="image named 'camera', got speed"):
        keeper([Case("k", {"speed": Signal("speed", 3.0)})])


def test_training_keeps_to_itself():
    before = torch.get_rng_state()
    source = Roads(drives=8, frames=1, split="train")
    first, again, other = (recipe.system(train(source, epochs=1, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()
    assert not first.net.training


def test_saved_weights_come_back(tmp_path, keeper):
    save(keeper.net, str(tmp_path / "copy.safetensors"))
    assert LaneKeeper(tmp_path / "copy.safetensors").fingerprint() == keeper.fingerprint()


def test_training_lowers_the_error(monkeypatch):
    monkeypatch.setattr(recipe, "BATCH", 12)
    source = Roads(drives=12, frames=1, split="train")
    error, baseline = score(recipe.system(train(source, epochs=60)), source)
    assert error < 0.5 * baseline
