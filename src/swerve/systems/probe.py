"""One forward pass of a torch network with the activations of its layers; the network is left as it was found.

A layer is a convolution, a dense or a recurrent module, known by its type. What it says is the output of the activation
that follows it, be that a module or a function, with normalisation, pooling or dropout in between; where none follows,
its own output, normalised where a normalisation follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from swerve.errors import InputError, did_you_mean
from swerve.system import Activations
from swerve.values import Array

INPUT = "(input)"  # the channels of the picture, for those who count them
MODULES: dict[str, tuple[type[nn.Module], ...]] = {
    "convolution": (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    "dense": (nn.Linear, nn.Bilinear),
    "recurrent": (nn.RNNBase, nn.RNNCellBase),
    "dropout": (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
}
# Names of torch functions and methods; a module of the same purpose calls one of them.
ACTIVATIONS = frozenset(
    (
        *("relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "leaky_relu", "rrelu", "prelu", "tanh", "sigmoid"),
        *("hardtanh", "hardswish", "hardsigmoid", "softplus", "softsign", "logsigmoid", "softmax", "log_softmax", "atan"),
    )
)
NORMALISATIONS = frozenset(("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm", "local_response_norm"))
BETWEEN = frozenset(("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")) | {
    f"{kind}_pool{rank}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg", "lp") for rank in (1, 2, 3)
}


def layers_of(net: nn.Module) -> list[str]:
    """The names of the layers that can be traced, in the order of the network's modules."""
    kinds = {name: kind for name, module in _named(net) if (kind := _kind_of(module))}
    seen = next((kind for kind in kinds.values() if kind != "dropout"), "")
    return [*([INPUT] if seen == "convolution" else []), *kinds]


def _named(net: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name or type(module).__name__, module) for name, module in net.named_modules()]


def _kind_of(module: nn.Module) -> str:
    return next((kind for kind, types in MODULES.items() if isinstance(module, types)), "")


def probe(net: nn.Module, batch: Tensor, layers: Sequence[str]) -> tuple[Any, dict[str, Activations]]:
    """The network's output for `batch` and the activations of `layers`, from one forward pass without gradients."""
    modules = _chosen(net, layers)
    watch = _Watch()
    hooks = [module.register_forward_hook(watch.hook(name, module)) for name, module in modules.items()]
    try:
        with torch.inference_mode(), watch:
            output = net(batch)
    finally:
        for hook in hooks:
            hook.remove()
    with torch.inference_mode():
        said = watch.said() | ({INPUT: [_input(batch)]} if INPUT in layers else {})
    return output, {name: _joined(name, said, inputs=len(batch)) for name in layers}


def _chosen(net: nn.Module, layers: Sequence[str]) -> Mapping[str, nn.Module]:
    known = layers_of(net)
    for name in layers:
        if name not in known:
            raise InputError(f"{type(net).__name__} has no layer '{name}'; {did_you_mean(name, known)}")
    return {name: module for name, module in _named(net) if name in layers}


@dataclass
class _Call:
    """One call of a layer: what it said so far, until the activation that follows has settled it."""

    layer: str
    kind: str
    output: Tensor | None  # None once settled
    activations: Activations | None = None

    def settle(self, output: Tensor) -> None:
        if self.output is not None:
            self.activations, self.output = _reduced(self.kind, output), None


class _Watch(TorchFunctionMode):
    """Follows what layers put out through the functions of the pass, and keeps a few numbers of it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []
        self.waiting: dict[int, tuple[_Call, Tensor]] = {}  # by the tensor's id; holding the tensor keeps the id its own

    def hook(self, name: str, module: nn.Module) -> Callable[[nn.Module, Any, Any], None]:
        kind = _kind_of(module)
        # Only outputs that an activation may still follow have to wait for it.
        waits = kind in ("convolution", "dense")

        def after(module: nn.Module, inputs: Any, output: Any) -> None:
            del inputs
            said = _sequence(name, module, output) if kind == "recurrent" else output
            call = _Call(name, kind, said)
            self.calls.append(call)
            if waits:
                self.waiting[id(said)] = call, said
            else:
                call.settle(said)

        return after

    def __torch_function__(  # type: ignore[no-untyped-def]
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ):
        del types
        kwargs = kwargs or {}
        given = args[0] if args else kwargs.get("input")
        if id(given) not in self.waiting:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        self._before(name, given)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and id(given) in self.waiting:
            self._after(name.removesuffix("_"), given, result)
        return result

    def _before(self, function: str, given: Any) -> None:
        """An output that is about to be changed in place, other than by its activation, is settled first."""
        in_place = function.endswith("_") and not function.endswith("__")
        if function == "__setitem__" or (in_place and function.removesuffix("_") not in ACTIVATIONS):
            call, _ = self.waiting.pop(id(given))
            if call.output is not None and given is call.output:
                call.settle(call.output)

    def _after(self, function: str, given: Any, result: Tensor) -> None:
        if function in ACTIVATIONS:
            self.waiting.pop(id(given))[0].settle(result)
        elif function in NORMALISATIONS or function in BETWEEN:
            call, _ = self.waiting.pop(id(given))
            if function in NORMALISATIONS and given is call.output:
                call.output = result
            self.waiting[id(result)] = call, result

    def said(self) -> dict[str, list[Activations]]:
        """The activations of every call, by layer."""
        found: dict[str, list[Activations]] = {}
        for call in self.calls:
            if call.output is not None:
                call.settle(call.output)
            assert call.activations is not None
            found.setdefault(call.layer, []).append(call.activations)
        return found


def _sequence(name: str, module: nn.Module, output: Any) -> Tensor:
    """The outputs of a recurrent module as inputs x steps x units; one call of a cell is one step."""
    first = output[0] if isinstance(output, tuple) else output
    if isinstance(module, nn.RNNCellBase):
        return first[:, None]  # type: ignore[no-any-return]
    if not isinstance(first, Tensor) or first.ndim != 3:
        raise InputError(f"layer '{name}' must put out a plain batch of sequences to be traced, got {type(first).__name__}")
    return first if module.batch_first else first.transpose(0, 1)


def _reduced(kind: str, output: Tensor) -> Activations:
    numbers = output if output.dtype in (torch.float32, torch.float64) else output.float()
    flat = numbers.flatten(1)
    low, high = flat.amin(1), flat.amax(1)
    if kind == "recurrent":
        mean = numbers
    elif kind in ("convolution", "input") or numbers.ndim > 3:
        mean = numbers.flatten(2).mean(2) if numbers.ndim > 2 else numbers
    else:
        mean = numbers.flatten(1, -2).mean(1) if numbers.ndim > 2 else numbers
    return Activations(kind, _array(mean), _array(low), _array(high))


def _array(tensor: Tensor) -> Array:
    # A copy: a dense layer's mean is its output itself, which somebody may yet change in place.
    return tensor.detach().cpu().numpy().copy()


def _input(batch: Tensor) -> Activations:
    return _reduced("input", batch.flatten(0, 1) if batch.ndim == 5 else batch)


def _joined(name: str, said: Mapping[str, Sequence[Activations]], *, inputs: int) -> Activations:
    """The calls of one layer as one: further steps of a recurrent layer, further passes of any other."""
    if name not in said:
        raise InputError(f"layer '{name}' took no part in the forward pass; leave it out of the layers to trace")
    calls = said[name]
    rows = {len(call.mean) for call in calls}
    if any(count % inputs for count in rows):
        raise InputError(
            f"layer '{name}' put out {max(rows)} rows for {inputs} inputs; each input needs as many as the others"
        )
    if calls[0].kind == "recurrent":
        mean = np.concatenate([call.mean for call in calls], axis=1)
        low, high = np.min([call.low for call in calls], axis=0), np.max([call.high for call in calls], axis=0)
        return Activations("recurrent", mean, low, high, len(mean) // inputs)
    mean, low, high = (
        np.concatenate([getattr(call, what).reshape(inputs, -1, *getattr(call, what).shape[1:]) for call in calls], axis=1)
        for what in ("mean", "low", "high")
    )
    passes = mean.shape[1]
    return Activations(calls[0].kind, mean.reshape(inputs * passes, -1), low.reshape(-1), high.reshape(-1), passes)
