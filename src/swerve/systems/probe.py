"""One forward pass of a torch network with the activations of its layers; the network is left unchanged.

A layer is a convolutional, dense or recurrent module, identified by its type. Its activation is the output of the activation
function that follows it, as a module or a function, possibly after normalisation, pooling or dropout; if none follows, its
own output, after a normalisation if there is one. Flattening in between does not matter.

Threads may use a network at the same time: a trace sees the pass of its own thread alone.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from swerve.core.errors import InputError, did_you_mean
from swerve.core.system import Activations
from swerve.core.values import Array
from swerve.coverage.layers import CoverageWarning, Spanned
from swerve.systems.network import INPUT, join_calls

CACHED = 1 << 19  # numbers that stay in the cache between two passes over them
MODULES: dict[str, tuple[type[nn.Module], ...]] = {
    "convolution": (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    "dense": (nn.Linear, nn.Bilinear),
    "recurrent": (nn.RNNBase, nn.RNNCellBase),
    "dropout": (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
}
AXES = {"input": 1, "convolution": 1, "dense": -1, "recurrent": -1}  # the axis of the units in a layer's output
# Names of torch functions and methods; the corresponding modules call them.
ACTIVATIONS = frozenset(
    (
        *("relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "leaky_relu", "rrelu", "prelu", "tanh", "sigmoid"),
        *("hardtanh", "hardswish", "hardsigmoid", "softplus", "softsign", "softmax", "log_softmax", "softmin", "atan"),
        *("logsigmoid", "log_sigmoid", "threshold", "_threshold", "hardshrink", "softshrink", "tanhshrink"),
    )
)
NORMALISATIONS = frozenset(("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm", "local_response_norm"))
BETWEEN = frozenset(("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")) | {
    f"{kind}_pool{rank}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg", "lp") for rank in (1, 2, 3)
}
RESHAPES = frozenset(("flatten", "unflatten", "view", "view_as", "reshape", "reshape_as", "squeeze", "unsqueeze"))
Hook = Callable[[nn.Module, Any, Any], None]  # takes a module, its inputs and its output
_REGISTERING = threading.Lock()  # torch could give the hooks of two threads the same number, and lose one


def layers_of(net: nn.Module) -> list[str]:
    """The names of the layers that can be traced, in the order of the network's modules."""
    kinds = {name: kind for name, module in _named(net) if (kind := _kind_of(module))}
    seen = next((kind for kind in kinds.values() if kind != "dropout"), "")
    return [*([INPUT] if seen == "convolution" else []), *kinds]


def _named(net: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name or type(module).__name__, module) for name, module in net.named_modules()]


def _kind_of(module: nn.Module) -> str:
    return next((kind for kind, types in MODULES.items() if isinstance(module, types)), "")


def probe(
    net: nn.Module, batch: Tensor, layers: Sequence[str], *, channels: int = AXES["input"]
) -> tuple[Any, dict[str, Activations]]:
    """The network's output for `batch` and the activations of `layers`, from one forward pass without gradients.

    A layer that was not used in the pass is omitted. `channels` is the axis of a picture's channels.
    """
    modules = _chosen(net, layers)
    tracer = Tracer()
    hooks = [(module, tracer.hook(name, module)) for name, module in modules.items()]
    hooks += [(module, tracer.passed) for module in net.modules() if _kind_of(module) in AXES]
    with hooked(hooks), torch.inference_mode(), tracer:
        output = net(batch)
    with torch.inference_mode():
        found = tracer.activations() | ({INPUT: [input_activations(batch, channels)]} if INPUT in layers else {})
    return output, {name: join_calls(name, found[name], inputs=len(batch)) for name in layers if name in found}


@contextmanager
def hooked(hooks: Iterable[tuple[nn.Module, Hook]]) -> Iterator[None]:
    """Run hooks after their modules, in passes of this thread alone, until the end of the block."""
    handles = []
    try:
        with _REGISTERING:
            handles += [module.register_forward_hook(_in_this_thread(hook)) for module, hook in hooks]
        yield
    finally:
        with _REGISTERING:
            for handle in handles:
                handle.remove()


def catching(net: nn.Module, layer: str) -> Callable[[list[Tensor]], AbstractContextManager[None]]:
    """Puts the outputs of a layer into a list, in passes of this thread alone."""
    module = _chosen(net, [layer]).get(layer)
    if module is None:
        raise InputError(f"layer '{layer}' of {type(net).__name__} is not a module")

    def catch(into: list[Tensor]) -> AbstractContextManager[None]:
        return hooked([(module, lambda _module, _inputs, output: into.append(output))])

    return catch


def _in_this_thread(hook: Hook) -> Hook:
    own = threading.get_ident()

    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == own:
            hook(module, inputs, output)

    return after


def _chosen(net: nn.Module, layers: Sequence[str]) -> Mapping[str, nn.Module]:
    known = layers_of(net)
    for name in layers:
        if name not in known:
            raise InputError(f"{type(net).__name__} has no layer '{name}'; {did_you_mean(name, known)}")
    return {name: module for name, module in _named(net) if name in layers}


@dataclass
class Call:
    """One call of a layer: its output so far, until the activation that follows settles it."""

    layer: str
    kind: str
    axis: int
    output: Tensor | None  # None once settled
    activations: Activations | None = None

    def settle(self, output: Tensor, *, activated: bool | None) -> None:
        self.activations = replace(summarise(self.kind, output, self.axis), activated=activated)
        self.output = None


class Tracer(TorchFunctionMode):
    """Follows the outputs of layers through the functions of the pass, and keeps a summary of each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        # By the tensor's id, which stays unique while the tensor is held; with its shape before it was flattened.
        self.waiting: dict[int, tuple[Call, Tensor, torch.Size]] = {}
        self.units: list[tuple[int, int]] = []  # axis and number of units of every layer so far, traced or not

    def hook(self, name: str, module: nn.Module) -> Hook:
        kind = _kind_of(module)
        # Only outputs that an activation may still follow have to wait.
        waits = kind in ("convolution", "dense")

        def after(module: nn.Module, inputs: Any, output: Any) -> None:
            del inputs
            result = _sequence(name, module, output) if kind == "recurrent" else output
            call = Call(name, kind, AXES[kind] if kind in AXES else self._axis(result), result)
            self.calls.append(call)
            if waits:
                self.waiting[id(result)] = call, result, result.shape
            else:
                call.settle(result, activated=True if kind == "recurrent" else None)

        return after

    def passed(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Record the axis of a layer's units, for a dropout that may follow."""
        del inputs
        axis, result = AXES[_kind_of(module)], output[0] if isinstance(output, tuple) else output
        if isinstance(result, Tensor):
            self.units.append((axis, result.shape[axis]))

    def _axis(self, output: Tensor) -> int:
        """The axis of a dropout's units: that of the last layer with the same number of them."""
        found = (axis for axis, units in reversed(self.units) if output.shape[axis] == units)
        return next(found, 1 if output.ndim > 3 else -1)

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
        """Settle an output that is about to be changed in place by something other than its activation."""
        in_place = function.endswith("_") and not function.endswith("__")
        if function == "__setitem__" or (in_place and function.removesuffix("_") not in ACTIVATIONS):
            call = self.waiting[id(given)][0]
            assert call.output is not None
            self._settle(call, call.output, activated=False)

    def _after(self, function: str, given: Any, result: Tensor) -> None:
        call, _, shape = self.waiting[id(given)]
        if function in ACTIVATIONS:
            self._settle(call, result.reshape(shape), activated=True)
        elif function in RESHAPES:
            self.waiting[id(result)] = call, result, shape  # beside the original: either may be activated
        elif function in NORMALISATIONS or function in BETWEEN:
            del self.waiting[id(given)]
            if function in NORMALISATIONS and given is call.output:
                call.output = result
            if given.shape in (shape, result.shape):  # pooling after flattening loses the shape
                self.waiting[id(result)] = call, result, result.shape if given.shape == shape else shape

    def _settle(self, call: Call, output: Tensor, *, activated: bool) -> None:
        call.settle(output, activated=activated)
        self.waiting = {key: entry for key, entry in self.waiting.items() if entry[0] is not call}

    def activations(self) -> dict[str, list[Activations]]:
        """The activations of every call, by layer."""
        found: dict[str, list[Activations]] = {}
        for call in self.calls:
            if call.output is not None:
                call.settle(call.output, activated=False)
            assert call.activations is not None
            found.setdefault(call.layer, []).append(call.activations)
        return found


def _sequence(name: str, module: nn.Module, output: Any) -> Tensor:
    """The outputs of a recurrent module as inputs x steps x units; one call of a cell is one step."""
    first = output[0] if isinstance(output, tuple) else output
    if isinstance(module, nn.RNNBase) and module.num_layers > 1:
        problem = f"returns only the outputs of the last of its {module.num_layers} layers, so coverage omits the others"
        warnings.warn(f"layer '{name}' {problem}; use modules with one layer each", CoverageWarning, stacklevel=2)
    if isinstance(module, nn.RNNCellBase):
        return first[:, None]  # type: ignore[no-any-return]
    if not isinstance(first, Tensor) or first.ndim != 3:
        raise InputError(f"layer '{name}' must return a plain batch of sequences to be traced, got {type(first).__name__}")
    return first if module.batch_first else first.transpose(0, 1)


def summarise(kind: str, output: Tensor, axis: int) -> Activations:
    """The output of a layer as one number per unit, with units along `axis`, and the range of each row."""
    numbers = output if output.dtype in (torch.float32, torch.float64) else output.float()
    low, high = span(numbers)
    others = [other for other in range(1, numbers.ndim) if other != axis % numbers.ndim]
    mean = numbers.mean(others) if others and kind != "recurrent" else numbers
    return Spanned(kind, _array(mean), _array(low), _array(high))


def span(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number of each row."""
    flat = numbers.flatten(1)
    # As many rows at a time as fit into the cache for the second pass; torch's aminmax, one pass, is six times slower.
    parts = [(rows.amin(1), rows.amax(1)) for rows in torch.split(flat, max(1, CACHED // flat.shape[1]))]
    low, high = zip(*parts, strict=True)
    return torch.cat(low), torch.cat(high)


def _array(tensor: Tensor) -> Array:
    # A copy: a dense layer's mean is its output itself, which may still be changed in place.
    return tensor.detach().cpu().numpy().copy()


def input_activations(batch: Tensor, axis: int = AXES["input"]) -> Activations:
    """The channels of the pictures as activations; each frame of a window is a pass."""
    return summarise("input", batch.flatten(0, 1) if batch.ndim == 5 else batch, axis)
