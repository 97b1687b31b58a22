"""Activations of a Keras network, as defined in `swerve.systems.probe`; the network is left unchanged."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from swerve.core.system import Activations
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import INPUT, join_calls
from swerve.systems.probe import Call, Tracer, input_activations

RANKS = ("1D", "2D", "3D")
KINDS: Mapping[str, tuple[str, ...]] = {
    "convolution": tuple(
        f"{kind}{rank}{end}"
        for kind, end in (("Conv", ""), ("Conv", "Transpose"), ("SeparableConv", ""), ("DepthwiseConv", ""))
        for rank in RANKS
    ),
    "dense": ("Dense", "EinsumDense"),
    "recurrent": ("LSTM", "GRU", "SimpleRNN"),
    "dropout": ("Dropout", "AlphaDropout", *(f"SpatialDropout{rank}" for rank in RANKS)),
}
# By the equivalent torch function, which `Tracer` handles.
BETWEEN: Mapping[str, tuple[str, ...]] = {
    "relu": ("Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax"),
    "batch_norm": tuple(f"{kind}Normalization" for kind in ("Batch", "Layer", "Group", "RMS", "Unit")),
    "max_pool2d": tuple(
        f"{kind}Pooling{rank}" for kind in ("Max", "Average", "GlobalMax", "GlobalAverage") for rank in RANKS
    ),
    "reshape": ("Flatten", "Reshape"),
}


def layers_of(model: Any) -> list[str]:
    """The names of the layers that can be traced, in the model's order."""
    kinds = {name: kind for name, layer in _named(model) if (kind := _role(layer, KINDS))}
    seen = next((kind for kind in kinds.values() if kind != "dropout"), "")
    return [*([INPUT] if seen == "convolution" else []), *kinds]


def probe(model: Any, batch: Tensor, layers: Sequence[str], *, channels: int = -1) -> tuple[Any, dict[str, Activations]]:
    """The model's output for `batch` and the activations of `layers`, from one forward pass.

    `channels` is the axis of a picture's channels.
    """
    tracer = _KerasTracer()
    with torch.inference_mode(), contextlib.ExitStack() as wrapped:
        for name, layer in _named(model):
            for method, around in tracer.methods(name, layer, traced=name in layers):
                wrapped.enter_context(_replaced(layer, method, around))
        with tracer:
            output = model(batch, training=False)
        found = tracer.activations() | ({INPUT: [input_activations(batch, channels)]} if INPUT in layers else {})
    return output, {name: join_calls(name, found[name], inputs=len(batch)) for name in layers if name in found}


def catching(model: Any, layer: str) -> tuple[Callable[[list[Tensor]], contextlib.AbstractContextManager[None]], int]:
    """Puts the outputs of a layer into a list, in passes of this thread alone; and the axis of its maps."""
    part = dict(_named(model))[layer]

    def around(into: list[Tensor], call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            into.append(call(*args, **kwargs))
            return into[-1]

        return wrapped

    return lambda into: _replaced(part, "call", partial(around, into)), _axis(part)


def _named(model: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every layer with its name; names in a nested model start with that model's name."""
    for layer in _inner(model):
        name = f"{path}{layer.name}"
        yield name, layer
        yield from _named(layer, f"{name}.")


def _inner(layer: Any) -> Sequence[Any]:
    """The layers inside a model or wrapper; the cell of a recurrent layer does not count."""
    if isinstance(layer, keras_library().Model):
        return list(layer.layers)
    return [getattr(layer, key) for key in ("layer", "forward_layer", "backward_layer") if hasattr(layer, key)]


def _role(layer: Any, roles: Mapping[str, tuple[str, ...]]) -> str:
    """The role of a layer among `roles`, by its class or a base class."""
    names = {kind.__name__ for kind in type(layer).__mro__ if kind.__module__.startswith("keras.")}
    return next((role for role, kinds in roles.items() if names & set(kinds)), "")


def _axis(layer: Any) -> int:
    return 1 if getattr(layer, "data_format", "") == "channels_first" else -1


class _PerThread:
    """A method of one layer, replaced for some threads."""

    def __init__(self, method: Callable[..., Any], own: object) -> None:
        self.method, self.own = method, own  # own: what the layer itself had under this name, if anything
        self.replaced: dict[int, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.in_this_thread()(*args, **kwargs)

    def in_this_thread(self) -> Callable[..., Any]:
        return self.replaced.get(threading.get_ident(), self.method)


_REPLACING = threading.Lock()


@contextlib.contextmanager
def _replaced(layer: Any, method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Wrap a method of one layer temporarily, for this thread alone: Keras' calls bypass torch's hooks."""
    thread = threading.get_ident()
    with _REPLACING:
        own = vars(layer).get(method)
        shared = own if isinstance(own, _PerThread) else _PerThread(getattr(layer, method), own)
        vars(layer)[method] = shared
        before = shared.replaced.get(thread)  # a layer may stand in two models, under two names
        shared.replaced[thread] = around(shared.in_this_thread())
    try:
        yield
    finally:
        with _REPLACING:
            _restore(vars(layer), method, shared, before)


def _restore(attributes: dict[str, Any], method: str, shared: _PerThread, before: Callable[..., Any] | None) -> None:
    thread = threading.get_ident()
    if before is not None:
        shared.replaced[thread] = before
        return
    del shared.replaced[thread]
    if shared.replaced:
        return
    if shared.own is None:
        del attributes[method]
    else:
        attributes[method] = shared.own


def _with_every_step(layer: Any, loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop of a recurrent layer, returning every step; on a copy, as other threads may be using the layer."""
    if not isinstance(loop, MethodType):  # wrapped already
        return loop
    copy = object.__new__(type(layer))
    vars(copy).update(vars(layer), return_sequences=True)
    return MethodType(loop.__func__, copy)


class _KerasTracer(Tracer):
    """Follows the outputs of layers through subsequent layers and through functions in between."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0  # depth of layer calls, whose functions are not followed

    def methods(self, name: str, layer: Any, *, traced: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
        """The methods of a layer to wrap, and their wrappers."""
        kind, function = _role(layer, KINDS), _role(layer, BETWEEN)
        if kind == "recurrent":
            if traced:
                yield "inner_loop", lambda loop: self._steps(name, layer, loop)
        elif kind:
            yield "call", lambda call: self._traced(name, kind, layer, call, traced=traced)
        elif function:
            yield "call", lambda call: self._followed(function, call)

    def __torch_function__(  # type: ignore[no-untyped-def]
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ):
        if self.inside:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def _traced(self, name: str, kind: str, layer: Any, call: Callable[..., Any], *, traced: bool) -> Callable[..., Any]:
        linear = getattr(layer, "activation", None) in (None, keras_library().activations.linear)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            output = self._apart(call, *args, **kwargs)
            axis = self._axis(output) if kind == "dropout" else _axis(layer)
            if kind != "dropout":
                self.units.append((axis, output.shape[axis]))
            if traced:
                self._note(Call(name, kind, axis, output), waits=linear and kind != "dropout", activated=kind != "dropout")
            return output

        return wrapped

    def _note(self, call: Call, *, waits: bool, activated: bool) -> None:
        self.calls.append(call)
        assert call.output is not None
        if waits:
            self.waiting[id(call.output)] = call, call.output, call.output.shape
        else:
            call.settle(call.output, activated=activated or None)

    def _steps(self, name: str, layer: Any, loop: Callable[..., Any]) -> Callable[..., Any]:
        """Record every step of a recurrent layer, even if it returns only the last."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            last, outputs, states = self._apart(_with_every_step(layer, loop), *args, **kwargs)
            self.units.append((-1, outputs.shape[-1]))
            self._note(Call(name, "recurrent", -1, outputs), waits=False, activated=True)
            return last, outputs, states

        return wrapped

    def _followed(self, function: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            given = args[0] if args else None
            output = self._apart(call, *args, **kwargs)
            if id(given) in self.waiting and output is not given and isinstance(output, Tensor):
                self._after(function, given, output)
            return output

        return wrapped

    def _apart(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.inside += 1
        try:
            return call(*args, **kwargs)
        finally:
            self.inside -= 1
