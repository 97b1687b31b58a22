"""Weights from files: what fits is filled in, what does not is told, and code in them never runs."""

from __future__ import annotations

import collections
import os
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from swerve.config import limits
from swerve.core.errors import InputError
from swerve.systems.model_file import check_archive, model_file
from swerve.systems.weights import load, tensors_in, with_weights
from swerve.zoo import steering


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look, self.norm, self.out = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 1)


def seeded(seed: int = 1) -> Net:
    torch.manual_seed(seed)
    return Net()


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def saved(path: Path, thing: object, **how: object) -> Path:
    torch.save(thing, path, **how)
    return path


def test_safetensors_are_filled_in(tmp_path):
    save_file(seeded().state_dict(), tmp_path / "x.safetensors")
    assert same(load(Net, tmp_path / "x.safetensors"), seeded())
    assert not same(Net(), seeded())


@pytest.mark.parametrize("name", ["x.pt", "x.pth", "X.PT", "x.ckpt", "x.bin"])
@pytest.mark.parametrize("zipped", [True, False])
def test_state_dicts_are_filled_in(tmp_path, name, zipped):
    path = saved(tmp_path / name, seeded().state_dict(), _use_new_zipfile_serialization=zipped)
    made = load(Net, path)
    assert same(made, seeded())
    assert not made.training


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_checkpoints_are_unwrapped(tmp_path, key):
    path = saved(tmp_path / "x.pt", {"epoch": 3, key: seeded().state_dict(), "loss": 0.1})
    assert same(load(Net, path), seeded())


def prefixed(prefix: str) -> dict[str, torch.Tensor]:
    return collections.OrderedDict((f"{prefix}{name}", tensor) for name, tensor in seeded().state_dict().items())


@pytest.mark.parametrize("prefix", ["module.", "model.", "net.", "_orig_mod.", "module._orig_mod.", "a.b.c."])
@pytest.mark.parametrize("key", ["", "state_dict"])
def test_shared_prefix_is_dropped(tmp_path, prefix, key):
    state = prefixed(prefix)
    assert same(load(Net, saved(tmp_path / "x.pt", {"epoch": 3, key: state} if key else state)), seeded())


def test_shared_prefix_is_dropped_from_safetensors(tmp_path):
    save_file(dict(prefixed("model.")), tmp_path / "x.safetensors")
    assert same(load(Net, tmp_path / "x.safetensors"), seeded())


def test_own_prefix_stays(tmp_path):
    """A network whose names all begin alike is not mistaken for one that was wrapped."""
    made = nn.Sequential(collections.OrderedDict(model=seeded()))
    loaded = with_weights(nn.Sequential(collections.OrderedDict(model=Net())), saved(tmp_path / "x.pt", made.state_dict()))
    assert same(loaded, made)


@pytest.mark.parametrize("others", [{"loss.weight": torch.ones(2)}, {"scale": torch.ones(2)}])
def test_prefix_of_some_is_no_prefix(tmp_path, others):
    with pytest.raises(InputError, match=r"not the weights of Net: look\.weight is missing"):
        load(Net, saved(tmp_path / "x.pt", {**prefixed("model."), **others}))


def test_prefix_goes_only_where_names_then_fit(tmp_path):
    state = prefixed("model.")
    state["model.head.bias"] = state.pop("model.out.bias")
    with pytest.raises(InputError, match=r"look\.weight is missing, expected 2x1x3x3"):
        load(Net, saved(tmp_path / "x.pt", state))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_single(tmp_path, dtype):
    state = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in seeded().state_dict().items()
    }
    made = load(Net, saved(tmp_path / "x.pt", state))
    assert {tensor.dtype for tensor in made.parameters()} == {torch.float32}
    assert torch.allclose(made.look.weight, seeded().look.weight, atol=2e-3)
    assert made.norm.num_batches_tracked.dtype == torch.int64


def test_other_shapes_are_told(tmp_path):
    state = seeded().state_dict()
    state["look.weight"] = torch.zeros(2, 3, 3, 3)
    del state["out.bias"]
    told = r"not the weights of Net: look\.weight is 2x3x3x3, expected 2x1x3x3 \(2 tensors differ\)"
    with pytest.raises(InputError, match=told):
        load(Net, saved(tmp_path / "x.pt", state))


def test_further_tensors_are_told(tmp_path):
    state = {**seeded().state_dict(), "head.scale": torch.tensor(1.0)}
    with pytest.raises(InputError, match=r"head\.scale is a number, expected missing"):
        load(Net, saved(tmp_path / "x.pt", state))


@pytest.mark.parametrize("thing", [[1, 2], torch.zeros(3), {}, {"a": 1}, {"a": {"b": torch.zeros(1)}}])
def test_anything_else_is_no_state_dict(tmp_path, thing):
    with pytest.raises(InputError, match="expected a state dict, got"):
        tensors_in(saved(tmp_path / "x.pt", thing))


def test_sparse_weights_are_refused(tmp_path):
    state = seeded().state_dict()
    state["out.weight"] = state["out.weight"].to_sparse()
    with pytest.raises(InputError, match=r"x\.pt: "):
        with_weights(Net(), saved(tmp_path / "x.pt", state))


def test_full_pickles_are_refused(tmp_path):
    told = r"x\.pt: a full pickle, which executes code .* \(it refers to tests\.unit\.test_weights\.Net\); "
    told += "save only the state dict"
    with pytest.raises(InputError, match=told):
        load(Net, saved(tmp_path / "x.pt", seeded()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_refused(tmp_path):
    torch.jit.save(torch.jit.trace(nn.Linear(2, 1), torch.zeros(1, 2)), str(tmp_path / "x.pt"))
    with pytest.raises(
        InputError,
        match="a TorchScript archive contains a program, not only weights; export it to ONNX, or save only the state dict",
    ):
        load(Net, tmp_path / "x.pt")


@pytest.mark.parametrize("name", ["x.pkl", "x.joblib", "x.npy", "x.npz"])
def test_formats_of_code_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(InputError, match="execute code when they are loaded; save only the state dict"):
        tensors_in(tmp_path / name)


def test_unknown_suffix_is_told(tmp_path):
    (tmp_path / "x.txt").write_text("weights")
    with pytest.raises(InputError, match=r"expected a file ending in \.safetensors or \.pt or"):
        tensors_in(tmp_path / "x.txt")


@pytest.mark.parametrize("content", [b"", b"no weights", b"\xff" * 64, b"PK\x03\x04torn"])
@pytest.mark.parametrize("name", ["x.pt", "x.safetensors"])
def test_other_content_is_told(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"no weights|invalid archive"):
        tensors_in(tmp_path / name)


def test_only_plain_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "x.pt")
    with pytest.raises(InputError, match="not a regular file"):
        tensors_in(tmp_path / "x.pt")
    with pytest.raises(InputError, match="no such file"):
        tensors_in(tmp_path / "y.pt")


def test_size_is_limited(tmp_path, monkeypatch):
    path = saved(tmp_path / "x.pt", seeded().state_dict())
    monkeypatch.setattr(limits, "MODEL", path.stat().st_size)
    assert tensors_in(path)
    monkeypatch.setattr(limits, "MODEL", path.stat().st_size - 1)
    with pytest.raises(InputError, match=r"bytes, at most .* are read \(swerve list limits\)"):
        model_file(path)


def archive(path: Path, *, size: int, squeezed: bool) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if squeezed else zipfile.ZIP_STORED) as file:
        file.writestr("x/data.pkl", bytes(size))
    return path


def test_bombs_are_refused(tmp_path):
    assert check_archive(archive(tmp_path / "a.zip", size=1 << 20, squeezed=False)) == ["x/data.pkl"]
    with pytest.raises(InputError, match="unpacks to more than is plausible"):
        check_archive(archive(tmp_path / "b.zip", size=1 << 24, squeezed=True))
    with pytest.raises(InputError, match="unpacks to more than is plausible"):
        tensors_in(archive(tmp_path / "c.pt", size=1 << 10, squeezed=True))


def test_zoo_reads_the_same_way():
    assert steering.load is load
