"""R45: no model file runs code; each that would is refused with the reason and the safe way."""

from __future__ import annotations

import base64
import builtins
import gzip
import io
import json
import marshal
import os
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from swerve.core.errors import InputError
from swerve.systems.decoders import SteeringDecoder
from swerve.systems.keras import Keras
from swerve.systems.onnx import Onnx
from swerve.systems.torch import Torch

SAY = (SteeringDecoder(unit="degrees", positive="left", kind="wheel", index=0),)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 1))


def as_torch(path: Path) -> Torch:
    return Torch(net=net, weights=path, read=(), say=SAY)


def as_onnx(path: Path) -> Onnx:
    return Onnx(model=path, read=(), say=SAY)


def as_keras(path: Path) -> Keras:
    if path.suffix == ".json":
        return Keras(structure=path, weights=path.with_suffix(".h5"), read=(), say=SAY)
    return Keras(model=path, read=(), say=SAY)


class Call:
    """What a pickle does when it is read: it calls a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def touch(canary: Path) -> Call:
    return Call(os.system, f"touch '{canary}'")


def opened(canary: Path) -> Call:
    return Call(builtins.open, str(canary), "w")


def evaluated(canary: Path) -> Call:
    return Call(builtins.eval, f"open({str(canary)!r}, 'w')")


def executed(canary: Path) -> Call:
    return Call(builtins.exec, f"open({str(canary)!r}, 'w')")


def pickled(make: Callable[[Path], Call] = touch, protocol: int = 2) -> Callable[[Path], bytes]:
    return lambda canary: pickle.dumps({"w": make(canary)}, protocol=protocol)


def torch_saved(thing: Callable[[Path], Any], **how: Any) -> Callable[[Path], bytes]:
    def made(canary: Path) -> bytes:
        buffer = io.BytesIO()
        torch.save(thing(canary), buffer, **how)
        return buffer.getvalue()

    return made


class Infected(nn.Linear):
    """A module that carries a call along."""

    def __init__(self, call: Call) -> None:
        super().__init__(1, 1)
        self.call = call


def object_array(canary: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([touch(canary)], object), allow_pickle=True)
    return buffer.getvalue()


def zipped(**parts: Callable[[Path], bytes]) -> Callable[[Path], bytes]:
    def made(canary: Path) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name.replace("__", "/").replace("_dot_", "."), content(canary))
        return buffer.getvalue()

    return made


def tarred(canary: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            content = pickled()(canary)
            archive.addfile(_entry(name, len(content)), io.BytesIO(content))
    return buffer.getvalue()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry


def scripted(canary: Path) -> bytes:
    del canary
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(nn.Linear(2, 1), torch.zeros(1, 2)), buffer)
    return buffer.getvalue()


def layer(kind: str, name: str = "evil", module: str = "keras.layers", **config: Any) -> dict[str, Any]:
    spec = {"class_name": kind, "config": {"name": name, "batch_input_shape": [None, 3], **config}}
    return {"module": module, "registered_name": None, **spec}


def lambda_layer(canary: Path) -> dict[str, Any]:
    code = compile(f"open({str(canary)!r}, 'w')", "<evil>", "eval")
    text = base64.b64encode(marshal.dumps(code)).decode()
    return layer(
        "Lambda", function={"class_name": "__lambda__", "config": {"code": text, "defaults": None, "closure": None}}
    )


def wrapped_module(canary: Path) -> dict[str, Any]:
    """Keras' layer for a torch module reads it with pickle."""
    return layer("TorchModuleWrapper", module_=base64.b64encode(torch_saved(touch)(canary)).decode())


def called(module: str, name: str) -> Callable[[Path], dict[str, Any]]:
    """CVE-2025-1550 and its like: a layer that is any function of any module."""
    return lambda canary: {"module": module, "class_name": name, "config": {"name": str(canary)}, "registered_name": None}


def activated(module: str, name: str) -> Callable[[Path], dict[str, Any]]:
    function = {"module": module, "class_name": "function", "config": name, "registered_name": "function"}
    return lambda canary: layer("Dense", units=1, activation=function)


def described(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], bytes]:
    return lambda canary: json.dumps(
        {"class_name": "Sequential", "config": {"name": "m", "layers": [make(canary)]}}
    ).encode()


def h5(attributes: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs.update(attributes)
    return buffer.getvalue()


def whole(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], bytes]:
    return lambda canary: h5({"model_config": described(make)(canary).decode(), "keras_version": "2.0.2"})


def archived(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], bytes]:
    return zipped(config_dot_json=described(make), model_dot_weights_dot_h5=lambda canary: h5({}))


def own_operator(canary: Path) -> bytes:
    node = helper.make_node("PyCustomOp", ["x"], ["y"], domain="ai.onnx.contrib", code=f"open({str(canary)!r}, 'w')")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    return helper.make_model(helper.make_graph([node], "evil", ends[:1], ends[1:])).SerializeToString()


LEGACY = {"_use_new_zipfile_serialization": False}
PAYLOADS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], bytes]]] = {
    "pickle.pkl": (as_torch, pickled()),
    "pickle.pickle": (as_torch, pickled(opened)),
    "pickle.joblib": (as_torch, pickled(evaluated)),
    "pickle.dill": (as_torch, pickled(executed)),
    "protocol0.pt": (as_torch, pickled(protocol=0)),
    "protocol2.pt": (as_torch, pickled(protocol=2)),
    "protocol4.pth": (as_torch, pickled(opened, protocol=4)),
    "protocol5.bin": (as_torch, pickled(evaluated, protocol=5)),
    "pickle.ckpt": (as_torch, pickled(executed)),
    "pickle.safetensors": (as_torch, pickled()),
    "zipped.pt": (as_torch, torch_saved(touch)),
    "in a dict.pth": (as_torch, torch_saved(lambda canary: {"0.weight": touch(canary)})),
    "beside weights.pt": (as_torch, torch_saved(lambda canary: {**net().state_dict(), "evil": opened(canary)})),
    "module.pt": (as_torch, torch_saved(lambda canary: Infected(touch(canary)))),
    "legacy.pt": (as_torch, torch_saved(touch, **LEGACY)),
    "legacy module.pth": (
        as_torch,
        torch_saved(lambda canary: Infected(opened(canary)), _use_new_zipfile_serialization=False),
    ),
    "by hand.pth": (as_torch, zipped(evil__data_dot_pkl=pickled(), evil__version=lambda canary: b"3")),
    "with code.pth": (as_torch, zipped(evil__code__run_dot_py=pickled(), evil__data_dot_pkl=pickled())),
    "script.pt": (as_torch, scripted),
    "legacy.tar": (as_torch, tarred),
    "squeezed.pt": (as_torch, lambda canary: gzip.compress(pickled()(canary))),
    "objects.npy": (as_torch, object_array),
    "objects.npz": (as_torch, zipped(arr_0_dot_npy=object_array)),
    "objects.pt": (as_torch, object_array),
    "pickle.onnx": (as_onnx, pickled()),
    "operator.onnx": (as_onnx, own_operator),
    "lambda.h5": (as_keras, whole(lambda_layer)),
    "lambda.keras": (as_keras, archived(lambda_layer)),
    "lambda.json": (as_keras, described(lambda_layer)),
    "torch module.keras": (as_keras, archived(wrapped_module)),
    "torch module.h5": (as_keras, whole(wrapped_module)),
    "function.keras": (as_keras, archived(called("os", "system"))),
    "download.keras": (as_keras, archived(called("keras.utils", "get_file"))),
    "activation.keras": (as_keras, archived(activated("os", "system"))),
    "activation.h5": (as_keras, whole(activated("builtins", "eval"))),
    "pickle.h5": (as_keras, pickled()),
    "pickle.keras": (as_keras, pickled(opened)),
    "pickled weights.keras": (as_keras, zipped(config_dot_json=lambda canary: b"{}", model_dot_weights_dot_h5=pickled())),
    "pickle.json": (as_keras, pickled()),
}
SAFE_WAY = "save only the state dict|net = 'module:factory'|export the model with ONNX's own operators"
# Something else under a name that it has no right to: that it is something else is all there is to say.
MISNAMED = {
    **{"pickle.safetensors": "no weights for", "pickle.onnx": "not an ONNX model", "pickle.h5": "invalid HDF5 file"},
    **{"pickle.keras": "invalid archive", "pickled weights.keras": "invalid HDF5 file", "pickle.json": "not UTF-8"},
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_payloads_never_run(tmp_path: Path, name: str) -> None:
    read, make = PAYLOADS[name]
    canary, path = tmp_path / "canary", tmp_path / name
    path.write_bytes(make(canary))
    if path.suffix == ".json":
        path.with_suffix(".h5").write_bytes(h5({}))
    with pytest.raises(InputError, match=MISNAMED.get(name, SAFE_WAY)) as refused:
        read(path)
    assert not canary.exists()
    assert str(path) in str(refused.value)


def test_there_are_payloads_enough() -> None:
    assert len(PAYLOADS) >= 30


LOADERS: dict[str, Callable[[Path], Any]] = {
    "pickle.pkl": lambda path: pickle.loads(path.read_bytes()),
    "protocol4.pth": lambda path: pickle.loads(path.read_bytes()),
    "pickle.ckpt": lambda path: pickle.loads(path.read_bytes()),
    "module.pt": lambda path: torch.load(path, weights_only=False),
    "legacy.pt": lambda path: torch.load(path, weights_only=False),
    "objects.npy": lambda path: np.load(path, allow_pickle=True),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.filterwarnings("ignore")
def test_payloads_are_live(tmp_path: Path, name: str) -> None:
    """A reader that trusts them runs them; otherwise the test above would tell nothing."""
    canary, path = tmp_path / "canary", tmp_path / name
    path.write_bytes(PAYLOADS[name][1](canary))
    LOADERS[name](path)
    assert canary.exists()
