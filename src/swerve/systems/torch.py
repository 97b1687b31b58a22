"""Torch networks as systems: a module given by its factory, or one that a Python user holds already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from swerve.core.case import Case
from swerve.core.errors import InputError, did_you_mean
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, Traced
from swerve.core.values import Array, Value
from swerve.systems.function import answer_of, identity_of, state_of, weights_of
from swerve.systems.network import CHANNELS, Engine, Network, Pass, Rows
from swerve.systems.probe import layers_of, probe
from swerve.systems.weights import filled

DEVICES = ("auto", "cuda", "mps", "cpu")


class TorchSystem:
    """A network between `read`, which makes one input without a batch axis, and `say`, which words one output row."""

    def __init__(
        self,
        net: torch.nn.Module,
        read: Callable[[Case], torch.Tensor],
        say: Callable[[torch.Tensor], Value | Answer],
    ) -> None:
        self.net = net.eval()
        self.read = read
        self.say = say

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        if not cases:
            return []
        batch = torch.stack([self.read(case) for case in cases])
        self.net.eval()  # somebody may have trained it since
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
        rows, activations = probe(self.net, torch.stack([self.read(case) for case in cases]), layers)
        who = type(self.net).__name__
        return Traced([answer_of(self.say(row), who) for _, row in zip(cases, rows, strict=True)], activations)

    def fingerprint(self) -> str:
        """A hash of the weights, of the network's own classes, and of how it is fed and read out."""
        return digest_of(*_identity(self.net), state_of(self.read), state_of(self.say))


def _identity(net: nn.Module) -> tuple[object, ...]:
    """The weights, the network's own classes, and the plain numbers it holds."""
    kinds = sorted({type(module) for module in net.modules()}, key=repr)
    # torch's own classes by name alone: their source changes with every release, not what they do.
    own = [identity_of(kind) if not kind.__module__.startswith("torch.") else kind.__qualname__ for kind in kinds]
    plain = {
        name: item for name, item in vars(net).items() if name != "training" and isinstance(item, bool | int | float | str)
    }
    return weights_of(net), own, state_of(plain)


@dataclass(frozen=True, kw_only=True)
class Torch(Network):
    """A torch network made by a factory, with weights from a file.

    Args:
        net: the factory, in TOML as `module:factory`.
        arguments: what the factory is called with.
        weights: a `.safetensors` file or a state dict (`.pt`, `.pth`); None where the factory fills in its own.
        device: `auto`, `cuda`, `mps` or `cpu`.
    """

    net: Callable[..., nn.Module]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | None = None
    device: str = "auto"

    @cached_property
    def engine(self) -> Engine:
        made = self.net(**self.arguments)
        if not isinstance(made, nn.Module):
            raise InputError(f"the factory must return a torch module, it returned {type(made).__name__}")
        ready = made if self.weights is None else filled(made, self.weights)
        return TorchEngine(ready, device_named(self.device), self.layout)


class TorchEngine:
    """A torch module in single precision, ready to answer; `layout` is that of the pictures it is shown."""

    batch: int | None = None

    def __init__(self, net: nn.Module, device: torch.device, layout: str = "chw") -> None:
        self.net = net.eval().float().to(device)
        self.device, self.channels = device, CHANNELS[layout]

    def run(self, batch: Array) -> Mapping[str, Rows]:
        with torch.inference_mode():
            return outputs_of(self.net.eval()(self._input(batch)), len(batch))

    def layers(self) -> Sequence[str]:
        return layers_of(self.net)

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        said, found = probe(self.net.eval(), self._input(batch), layers, channels=self.channels)
        return outputs_of(said, len(batch)), found

    def fingerprint(self) -> str:
        return digest_of(*_identity(self.net))

    def _input(self, batch: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(batch, np.float32)).to(self.device)


def device_named(name: str) -> torch.device:
    """The device called `name`, of which `auto` is the fastest there is; raises `InputError` where there is none."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name not in DEVICES:
        raise InputError(f"device = '{name}' is not known; {did_you_mean(name, DEVICES)}")
    if not there.get(name, True):
        raise InputError(f"device = '{name}': this machine has none; leave it at 'auto'")
    return torch.device(next(kind for kind, found in there.items() if found) if name == "auto" else name)


def outputs_of(said: Any, inputs: int) -> dict[str, Rows]:
    """What a module returned, by name: a tensor, several in a tuple, list or dict, or a dict for each input."""
    if isinstance(said, list) and len(said) == inputs and all(isinstance(item, Mapping) for item in said):
        return {str(name): [_array(item[name]) for item in said] for name in said[0]}
    return {name or "output": _array(tensor) for name, tensor in _leaves(said)}


def _leaves(said: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of nested tuples, lists and dicts; the inner ones are named as `outer.inner`."""
    if isinstance(said, Tensor):
        yield name, said
    elif isinstance(said, Mapping | list | tuple):
        parts = said.items() if isinstance(said, Mapping) else enumerate(said)
        for key, part in parts:
            yield from _leaves(part, f"{name}.{key}" if name else str(key))
    elif said is not None:
        raise InputError(f"the network returned {type(said).__name__}, expected tensors")


def _array(tensor: Tensor) -> Array:
    numbers: Array = tensor.detach().float().cpu().numpy()
    return numbers
