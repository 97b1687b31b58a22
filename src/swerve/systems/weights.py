"""Weights from untrusted files: only numbers are read, code in them is never executed."""
# R45, R46

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from swerve.core.errors import InputError, printable
from swerve.systems.model_file import SAFE, check_archive, first_line, model_file

STATE_DICTS = (".pt", ".pth", ".bin", ".ckpt", ".tar")
WRAPPED = ("state_dict", "model_state_dict", "model")  # keys under which training scripts save the state dict
ZIP = b"PK\x03\x04"


def load(net: Callable[[], nn.Module], path: Path) -> nn.Module:
    """A network with the weights of a file, in evaluation mode; raises `InputError` unless names and shapes match."""
    return with_weights(net(), path)


def with_weights(net: nn.Module, path: Path) -> nn.Module:
    """The network with the weights of a file, in single precision."""
    who = type(net).__name__
    wanted = net.state_dict()
    found = strip_prefix(tensors_in(path, who), wanted)
    if wrong := [name for name in {**wanted, **found} if _shape(wanted, name) != _shape(found, name)]:
        given = f"{wrong[0]} is {_shape(found, wrong[0])}, expected {_shape(wanted, wrong[0])}"
        raise InputError(f"{path}: these are not the weights of {who}: {given} ({len(wrong)} tensors differ)")
    try:
        net.load_state_dict({name: tensor.float() for name, tensor in found.items()})
    except RuntimeError as error:  # sparse, quantised or meta tensors
        raise InputError(f"{path}: no weights for {who}: {first_line(error)}") from error
    return net.eval()


def strip_prefix(found: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """The tensors without their common prefix (`module.`, `model.`, `_orig_mod.`), if the names match then."""
    bare = dict(found)
    while bare.keys() != set(wanted) and (prefix := _shared(bare)):
        bare = {name.removeprefix(prefix): tensor for name, tensor in bare.items()}
    return bare if bare.keys() == set(wanted) else dict(found)


def _shared(names: Collection[str]) -> str:
    """The first part of the names with its dot, if it is the same for all."""
    heads = {name[: name.find(".") + 1] for name in names}
    return heads.pop() if len(heads) == 1 else ""


def tensors_in(path: Path, who: str = "the network") -> dict[str, Tensor]:
    """The tensors of a safetensors file or a torch state dict, by name."""
    model_file(path, (".safetensors", *STATE_DICTS))
    if path.suffix.lower() == ".safetensors":
        try:
            return load_file(path)
        except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
            raise InputError(f"{path}: no weights for {who}: {first_line(error)}") from error
    return _state_dict(path)


def _state_dict(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        zipped = file.read(len(ZIP)) == ZIP  # torch checks the same bytes
    if zipped:
        if any("/code/" in name for name in check_archive(path)):
            raise InputError(
                f"{path}: a TorchScript archive contains a program, not only weights; export it to ONNX, or {SAFE}"
            )
        check_archive(path, stored=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about storages in old files
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch may raise anything on a damaged file
        raise InputError(f"{path}: {_refusal(str(error))}; {SAFE}") from error
    return _unwrapped(found, path)


def _refusal(reason: str) -> str:
    if not (calls := re.search(r"GLOBAL (\S+)|unrecognized function|Unsupported class", reason)):
        return f"no weights: {printable(first_line(reason.split('WeightsUnpickler error:')[-1]), 100)}"
    return f"a full pickle, which executes code when it is loaded{f' (it refers to {calls[1]})' if calls[1] else ''}"


def _unwrapped(found: Any, path: Path) -> dict[str, Tensor]:
    """The state dict in a training script's checkpoint."""
    outer = found if isinstance(found, Mapping) else {}
    inner = next((outer[key] for key in WRAPPED if isinstance(outer.get(key), Mapping)), found)
    if not isinstance(inner, Mapping) or not inner or not all(isinstance(item, Tensor) for item in inner.values()):
        raise InputError(f"{path}: expected a state dict, got {type(found).__name__}; {SAFE}")
    return {str(name): tensor for name, tensor in inner.items()}


def _shape(state: Mapping[str, Tensor], name: str) -> str:
    return "x".join(map(str, state[name].shape)) or "a number" if name in state else "missing"
