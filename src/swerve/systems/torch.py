"""Torch networks as systems: a module from a factory, or an existing one in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, Gradients, Traced, Window
from swerve.core.values import Array, Value
from swerve.systems.function import answer_of, identity_of, state_of, weights_of
from swerve.systems.gradients import Pick, gradients_of
from swerve.systems.network import CHANNELS, Engine, Network, Pass, Rows, tensor_leaves
from swerve.systems.probe import catching, layers_of, probe
from swerve.systems.weights import with_weights

DEVICES = ("auto", "cuda", "mps", "cpu")


class TorchSystem:
    """A torch module with `read`, from a case to one input without batch axis, and `say`, from an output row to values.

    `read_all` reads a batch at once where that is faster, or gives a memory layout that stacked inputs would lose.
    """

    def __init__(
        self,
        net: torch.nn.Module,
        read: Callable[[Case], torch.Tensor],
        say: Callable[[torch.Tensor], Value | Answer],
        read_all: Callable[[Sequence[Case]], torch.Tensor] | None = None,
    ) -> None:
        self.net = net.eval()
        self.read, self.read_all = read, read_all
        self.say = say

    def batch(self, cases: Sequence[Case]) -> torch.Tensor:
        """The input of the network for several cases."""
        return self.read_all(cases) if self.read_all else torch.stack([self.read(case) for case in cases])

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        if not cases:
            return []
        batch = self.batch(cases)
        self.net.eval()  # it may have been trained since
        with torch.inference_mode():
            rows = self.net(batch)
        who = type(self.net).__name__
        return [answer_of(self.say(row), who) for _, row in zip(cases, rows, strict=True)]

    def layers(self) -> Sequence[str]:
        """The layers whose activations can be read."""
        return layers_of(self.net)

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        """Answers and activations of one forward pass."""
        if not cases:
            return Traced([], {})
        self.net.eval()
        rows, activations = probe(self.net, self.batch(cases), layers)
        who = type(self.net).__name__
        return Traced([answer_of(self.say(row), who) for _, row in zip(cases, rows, strict=True)], activations)

    def fingerprint(self) -> str:
        """A hash of the weights, the network's own classes, and the functions `read`, `say` and `read_all`."""
        functions = [self.read, self.say, *([self.read_all] if self.read_all else [])]
        return digest_of(*_identity(self.net), *map(state_of, functions))


def _identity(net: nn.Module) -> tuple[object, ...]:
    """The weights, the network's own classes, and its plain attributes."""
    kinds = sorted({type(module) for module in net.modules()}, key=repr)
    # torch's own classes only by name: their source changes with every release, but not what they compute.
    own = [identity_of(kind) if not kind.__module__.startswith("torch.") else kind.__qualname__ for kind in kinds]
    plain = {
        name: item for name, item in vars(net).items() if name != "training" and isinstance(item, bool | int | float | str)
    }
    return weights_of(net), own, state_of(plain)


@dataclass(frozen=True, kw_only=True)
class Torch(Network):
    """A torch network from a factory, with weights from a file.

    Args:
        net: the factory, in TOML as `module:factory`.
        arguments: the factory's arguments.
        weights: a `.safetensors` file or a state dict (`.pt`, `.pth`); None if the factory loads its own.
        device: `auto`, `cuda`, `mps` or `cpu`.
    """

    net: Callable[..., nn.Module]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | None = None
    device: Annotated[str, OneOfNames(*DEVICES)] = "auto"

    @cached_property
    def engine(self) -> Engine:
        net = self._build()
        ready = _with_own_weights(net, self._build()) if self.weights is None else with_weights(net, self.weights)
        return TorchEngine(ready, device_named(self.device), self.layout)

    def _build(self) -> nn.Module:
        net = self.net(**self.arguments)
        if not isinstance(net, nn.Module):
            raise InputError(f"the factory must return a torch module, got {type(net).__name__}")
        return net


@dataclass(frozen=True, kw_only=True)
class LiveTorch(Network):
    """A torch module of this process, where it lies; a campaign with it runs in this process alone."""

    module: nn.Module

    @cached_property
    def engine(self) -> Engine:
        weights = next(self.module.parameters(), None)
        return TorchEngine(self.module, torch.device("cpu") if weights is None else weights.device, self.layout)

    def fingerprint(self) -> str:
        """Computed anew each time: the module may have been trained since."""
        return self._identify()


def _with_own_weights(net: nn.Module, again: nn.Module) -> nn.Module:
    """The network of a factory that loads its weights itself; refused if those of the next one are others."""
    if net is not again and weights_of(net) != weights_of(again):
        fix = "set 'weights' to the file of trained ones (swerve init: that file as MODEL, and the factory as --net)"
        raise InputError(f"the factory returns random weights, others each time: {fix}")
    return net


def is_module(net: object) -> bool:
    """Whether a network is a live module."""
    return isinstance(net, nn.Module)


class TorchEngine:
    """A torch module in single precision and evaluation mode; `layout` is that of its input pictures."""

    batch: int | None = None
    shape: tuple[int | None, ...] = ()  # any that its layers take

    def __init__(self, net: nn.Module, device: torch.device, layout: str = "chw") -> None:
        self.net = net.eval().float().to(device)
        self.device, self.channels = device, CHANNELS[layout]

    def run(self, batch: Array) -> Mapping[str, Rows]:
        with torch.inference_mode():
            return outputs_of(self.net.eval()(self._input(batch)), len(batch))

    def layers(self) -> Sequence[str]:
        return layers_of(self.net)

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        result, found = probe(self.net.eval(), self._input(batch), layers, channels=self.channels)
        return outputs_of(result, len(batch)), found

    def gradients(self, batch: Array, layer: str, pick: Pick, windows: Sequence[Window]) -> Gradients:
        """Feature maps of a layer, and the derivative of the picked output by them."""
        return gradients_of(self.net.eval(), self._input(batch), catching(self.net, layer), pick, windows=windows)

    def fingerprint(self) -> str:
        return digest_of(*_identity(self.net))

    def _input(self, batch: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(batch, np.float32)).to(self.device)


def device_named(name: str) -> torch.device:
    """The device with a name; `auto` is the fastest available. Raises `InputError` if it is not available."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    check_known("device", name, DEVICES)
    if not there.get(name, True):
        raise InputError(f"device = '{name}' is not available on this machine; use 'auto'")
    return torch.device(next(kind for kind, found in there.items() if found) if name == "auto" else name)


def outputs_of(result: Any, inputs: int) -> dict[str, Rows]:
    """A module's outputs by name: a tensor, several in a tuple, list or dict, or a list with one dict per input."""
    if isinstance(result, list) and len(result) == inputs and all(isinstance(item, Mapping) for item in result):
        return {str(name): [_array(item[name]) for item in result] for name in result[0]}
    return {name or "output": _array(tensor) for name, tensor in tensor_leaves(result)}


def _array(tensor: Any) -> Array:
    if not isinstance(tensor, Tensor):
        raise InputError(f"the network must return tensors, got {type(tensor).__name__}")
    numbers: Array = tensor.detach().float().cpu().numpy()
    return numbers
