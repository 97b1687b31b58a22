"""What the layers of a Keras network put out, by the definition of `swerve.systems.probe`; it is left as it was found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from swerve.core.system import Activations
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import INPUT, joined
from swerve.systems.probe import Call, Watch, shown

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
# By the torch function that does the same, whose way `Watch` knows.
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
    watch = _KerasWatch()
    with torch.inference_mode(), contextlib.ExitStack() as wrapped:
        for name, layer in _named(model):
            for method, around in watch.methods(name, layer, traced=name in layers):
                wrapped.enter_context(_replaced(layer, method, around))
        with watch:
            output = model(batch, training=False)
        said = watch.said() | ({INPUT: [shown(batch, channels)]} if INPUT in layers else {})
    return output, {name: joined(name, said[name], inputs=len(batch)) for name in layers if name in said}


def _named(model: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every layer with its name, those of a model within under the name of that."""
    for layer in _inner(model):
        name = f"{path}{layer.name}"
        yield name, layer
        yield from _named(layer, f"{name}.")


def _inner(layer: Any) -> Sequence[Any]:
    """The layers that a model or a wrapper calls; the cell of a recurrent layer is the layer itself."""
    if isinstance(layer, keras_library().Model):
        return list(layer.layers)
    return [getattr(layer, key) for key in ("layer", "forward_layer", "backward_layer") if hasattr(layer, key)]


def _role(layer: Any, roles: Mapping[str, tuple[str, ...]]) -> str:
    """What a layer is among `roles`, by its class or the one that it was made from."""
    names = {kind.__name__ for kind in type(layer).__mro__ if kind.__module__.startswith("keras.")}
    return next((role for role, kinds in roles.items() if names & set(kinds)), "")


def _axis(layer: Any) -> int:
    return 1 if getattr(layer, "data_format", "") == "channels_first" else -1


@contextlib.contextmanager
def _replaced(layer: Any, method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """A method wrapped for a while, on this one layer: Keras' own way of calling passes torch's hooks by."""
    vars(layer)[method] = around(getattr(layer, method))
    try:
        yield
    finally:
        del vars(layer)[method]


class _KerasWatch(Watch):
    """Follows what layers put out through the layers that come after, and through plain functions in between."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0  # layers whose functions are their own affair

    def methods(self, name: str, layer: Any, *, traced: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
        """What has to be wrapped of a layer, and how."""
        kind, function = _role(layer, KINDS), _role(layer, BETWEEN)
        if kind == "recurrent":
            if traced:
                yield "inner_loop", lambda loop: self._steps(name, layer, loop)
        elif kind:
            yield "call", lambda call: self._said(name, kind, layer, call, traced=traced)
        elif function:
            yield "call", lambda call: self._passed(function, call)

    def __torch_function__(  # type: ignore[no-untyped-def]
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ):
        if self.inside:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def _said(self, name: str, kind: str, layer: Any, call: Callable[..., Any], *, traced: bool) -> Callable[..., Any]:
        linear = getattr(layer, "activation", None) in (None, keras_library().activations.linear)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            output = self._apart(call, *args, **kwargs)
            axis = self._axis(output) if kind == "dropout" else _axis(layer)
            if kind != "dropout":
                self.units.append((axis, output.shape[axis]))
            if traced:
                self._note(Call(name, kind, axis, output), waits=linear and kind != "dropout")
            return output

        return wrapped

    def _note(self, call: Call, *, waits: bool) -> None:
        self.calls.append(call)
        assert call.output is not None
        if waits:
            self.waiting[id(call.output)] = call, call.output, call.output.shape
        else:
            call.settle(call.output)

    def _steps(self, name: str, layer: Any, loop: Callable[..., Any]) -> Callable[..., Any]:
        """Of a recurrent layer every step, also where it hands on the last alone."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before, layer.return_sequences = layer.return_sequences, True
            try:
                last, outputs, states = self._apart(loop, *args, **kwargs)
            finally:
                layer.return_sequences = before
            self.units.append((-1, outputs.shape[-1]))
            self._note(Call(name, "recurrent", -1, outputs), waits=False)
            return last, outputs, states

        return wrapped

    def _passed(self, function: str, call: Callable[..., Any]) -> Callable[..., Any]:
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
