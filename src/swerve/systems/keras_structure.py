"""Keras networks rebuilt from their JSON structure: only known layers, with numbers and names as arguments, never code.

Keras 3 does not read the `model.to_json()` of Keras 1 and 2, and its safe mode has executed code more than once; so the
structures of all versions are parsed here, each with the semantics of its version.
"""
# R45

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.extras import optional_package

JSON = Any
Source = tuple[str, int, int]
SAME = (
    *("Conv1D", "Conv2D", "Conv3D", "SeparableConv1D", "SeparableConv2D", "DepthwiseConv1D", "DepthwiseConv2D"),
    *("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "Dense", "BatchNormalization", "LayerNormalization"),
    *("GroupNormalization", "UnitNormalization", "Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax", "Flatten"),
    *("Reshape", "Permute", "RepeatVector", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
    *("GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization", "Add", "Subtract", "Multiply"),
    *("Average", "Maximum", "Minimum", "Concatenate", "Dot", "LSTM", "GRU", "SimpleRNN", "Rescaling", "Resizing"),
    *("TimeDistributed", "Bidirectional", "Normalization", "CenterCrop", "RMSNormalization", "Identity"),
    *(f"{kind}{rank}D" for kind in ("ZeroPadding", "Cropping", "UpSampling") for rank in (1, 2, 3)),
    *(f"{kind}Pooling{rank}D" for kind in ("Max", "Average", "GlobalMax", "GlobalAverage") for rank in (1, 2, 3)),
)
INNER = ("layer", "backward_layer")
MODELS = ("Sequential", "Model", "Functional")
LAYERS: Mapping[str, str] = {name: name for name in SAME} | {
    **{
        "Convolution1D": "Conv1D",
        "Convolution2D": "Conv2D",
        "Convolution3D": "Conv3D",
        "Deconvolution2D": "Conv2DTranspose",
    },
    **{
        "SeparableConvolution2D": "SeparableConv2D",
        "AtrousConvolution2D": "Conv2D",
        "BatchNormalizationV1": "BatchNormalization",
    },
}
MERGES = {"sum": "Add", "mul": "Multiply", "ave": "Average", "max": "Maximum", "concat": "Concatenate"}
OPERATIONS: Mapping[str, tuple[str, dict[str, JSON]]] = {
    **{name: (name, {}) for name in ("Add", "Subtract", "Multiply", "Maximum", "Minimum")},
    **{
        name.capitalize(): ("Activation", {"activation": name})
        for name in ("relu", "sigmoid", "tanh", "silu", "gelu", "elu")
    },
}
RENAMED = {
    **{"nb_filter": "filters", "output_dim": "units", "border_mode": "padding", "subsample": "strides", "bias": "use_bias"},
    **{"p": "rate", "dim_ordering": "data_format", "inner_activation": "recurrent_activation", "pool_length": "pool_size"},
    **{"stride": "strides", "filter_length": "kernel_size", "subsample_length": "strides", "atrous_rate": "dilation_rate"},
    **{"sigma": "stddev", "concat_axis": "axis"},
}
ORDERS = {"tf": "channels_last", "th": "channels_first", "default": None}
# Arguments that matter only in training, and those that later versions infer.
IDLE_ENDS = ("_initializer", "_regularizer", "_constraint", "_init")
IDLE = frozenset(
    (
        *(
            "dtype",
            "batch_input_shape",
            "batch_shape",
            "input_shape",
            "input_dim",
            "input_length",
            "input_dtype",
        ),
        *("init", "weights", "consume_less", "implementation", "unit_forget_bias", "dropout_W", "dropout_U", "sparse"),
        *("ragged", "fused", "renorm", "virtual_batch_size", "adjustment", "synchronized", "optional", "name"),
        *("noise_shape", "seed"),
    )
)
# Other values would change what the layer computes.
EXPECTED = {"stateful": (False,), "time_major": (False,), "mode": (0, 2)}
ACTIVATIONS = frozenset(
    (
        *("linear", "relu", "relu6", "elu", "selu", "gelu", "tanh", "sigmoid", "hard_sigmoid", "softmax", "softplus"),
        *("softsign", "exponential", "swish", "silu", "mish", "leaky_relu"),
    )
)
ROUND_TRIP = "use net = 'module:factory' instead"


def keras_library() -> Any:
    """Keras on its torch backend; raises `EnvironmentFault` if it already runs on another."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = optional_package("keras", "keras")
    if (backend := keras.backend.backend()) != "torch":
        raise EnvironmentFault(f"Keras runs on {backend}; set KERAS_BACKEND=torch before it is imported")
    return keras


def hard_sigmoid(x: Any) -> Any:
    """The hard sigmoid of Keras 1 and 2: its slope is 0.2, that of Keras 3 is 1/6."""
    ops = keras_library().ops
    return ops.clip(0.2 * x + 0.5, 0.0, 1.0)


def rebuild(described: JSON) -> Any:
    """The model that `to_json()` describes; raises `InputError` naming a layer that cannot be rebuilt."""
    try:
        return _Builder(new="batch_shape" in json.dumps(described)).model(described["class_name"], described["config"])
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise InputError(f"not the structure of a Keras model: {type(error).__name__} {error}") from error


def plain_name(name: str) -> str:
    """A layer's name without characters that Keras 3 does not allow."""
    return str(name).replace("/", "_").replace(".", "_")


@dataclass(frozen=True)
class _Builder:
    """Builds layers and models from their configurations; `new` means Keras 3."""

    new: bool

    def model(self, kind: str, config: JSON) -> Any:
        if kind not in MODELS:
            raise InputError(f"the structure is a {kind}, expected {', '.join(MODELS)}")
        given = config.get("name") if isinstance(config, Mapping) else None
        name = {"name": plain_name(given)} if given else {}
        if kind == "Sequential":  # of that class: Keras 3 finds weights by class names
            model = keras_library().Sequential(self._sequence(_members(config)), **name)
        else:
            model = keras_library().Model(*self._functional(config), **name)
        if isinstance(config, Mapping) and config.get("trainable") is False:  # this decides the order of its weights
            model.trainable = False
        return model

    def _sequence(self, specs: JSON) -> list[Any]:
        """The input and the layers of a sequential model; its first layer, however deeply nested, has the input's shape."""
        first = specs[0]
        while first["class_name"] in MODELS:
            first = _members(first["config"])[0]
        layers = [self.layer(spec) for spec in specs if spec["class_name"] != "InputLayer"]
        return [_input(first["config"], "sequential_input"), *layers]

    def _functional(self, config: JSON) -> tuple[Any, Any]:
        """Inputs and outputs; each layer is called as soon as its inputs exist."""
        tensors: dict[tuple[str, int], Any] = {}
        waiting: list[tuple[tuple[str, int], Any, Sequence[Source]]] = []
        for spec in config["layers"]:
            name = spec.get("name") or spec["config"]["name"]
            if spec["class_name"] == "InputLayer":
                tensors[name, 0] = _input(spec["config"], name)
                continue
            layer = self.layer(spec)
            waiting += [((name, number), layer, _sources(node, name)) for number, node in enumerate(spec["inbound_nodes"])]
        while waiting:
            ready = [item for item in waiting if all(source[:2] in tensors for source in item[2])]
            if not ready:
                raise InputError(f"layer '{waiting[0][0][0]}' depends on a layer that does not exist")
            for place, layer, sources in ready:
                given = [_one(tensors[source[:2]], source[2]) for source in sources]
                tensors[place] = layer(given[0] if len(given) == 1 else given)
            waiting = [item for item in waiting if item[0] not in tensors]
        inputs, outputs = (_ends(config[key], tensors) for key in ("input_layers", "output_layers"))
        return inputs, outputs

    def layer(self, spec: JSON) -> Any:
        """One layer, with the arguments that affect what it computes."""
        kind, config = spec["class_name"], spec["config"]
        if kind in MODELS:
            return self.model(kind, config)
        name = spec.get("name") or config.get("name", "")
        if str(spec.get("module", "")).startswith("keras.src.ops.") and kind in OPERATIONS:
            kind, config = OPERATIONS[kind]
        if kind == "Merge" and config.get("mode") in MERGES:
            kind = MERGES[config["mode"]]
            config = {"axis": config.get("concat_axis", -1)} if kind == "Concatenate" else {}
        if kind not in LAYERS:
            code = "Lambda" in str(kind) or kind == "Marshal"
            why = "which contains code" if code else "which cannot be rebuilt"
            raise InputError(f"layer '{name}' is a {kind}, {why}; {ROUND_TRIP}")
        try:
            return getattr(keras_library().layers, LAYERS[kind])(
                name=plain_name(name), **self._arguments(LAYERS[kind], config)
            )
        except (TypeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"layer '{name}' ({kind}) cannot be rebuilt: {reason}; {ROUND_TRIP}") from error

    def _arguments(self, kind: str, config: Mapping[str, JSON]) -> dict[str, Any]:
        for key, allowed in EXPECTED.items():
            if key in config and config[key] not in allowed:
                raise ValueError(f"{key} = {config[key]!r} is not supported")
        given = {
            RENAMED.get(key, key): value
            for key, value in config.items()
            if key not in IDLE and key not in EXPECTED and not key.endswith(IDLE_ENDS)
        }
        if {"nb_row", "nb_col"} <= given.keys():
            given["kernel_size"] = (given.pop("nb_row"), given.pop("nb_col"))
        if kind == "LeakyReLU" and "alpha" in given:
            given["negative_slope"] = given.pop("alpha")
        if kind == "GRU":
            given.setdefault("reset_after", self.new)
        if isinstance(given.get("axis"), list) and len(given["axis"]) == 1:
            given["axis"] = given["axis"][0]
        if given.get("data_format") in ORDERS:
            given["data_format"] = ORDERS[given["data_format"]]
        return {key: self._argument(key, value) for key, value in given.items()}

    def _argument(self, key: str, value: JSON) -> Any:
        if key in INNER:
            return self.layer(value)
        return self._activation(value) if key.endswith("activation") else value

    def _activation(self, value: JSON) -> Any:
        name = str(value.get("class_name")).lower() if isinstance(value, Mapping) else value
        if name is not None and name not in ACTIVATIONS:
            raise ValueError(f"unknown activation {name!r}")
        return hard_sigmoid if name == "hard_sigmoid" and not self.new else name


def _members(config: JSON) -> Any:
    """The layers of a model, which in early versions are the whole configuration."""
    return config if isinstance(config, list) else config["layers"]


def _sources(node: JSON, layer: str) -> list[Source]:
    """The tensors a layer is called with: each by its layer, the number of the call, and the number of the output."""
    if isinstance(node, Mapping):
        given = [item for part in node["args"] for item in (part if isinstance(part, list) else [part])]
        extra = [key for key, value in node.get("kwargs", {}).items() if value is not None]
        extra += ["a number" for item in given if not isinstance(item, Mapping)]
        found = [item["config"]["keras_history"] for item in given if isinstance(item, Mapping)]
    else:
        found = [source[:3] for source in node]
        extra = [key for source in node for key, value in dict(*source[3:]).items() if value is not None]
    if strange := set(extra) - {"training", "mask"}:
        raise InputError(f"layer '{layer}' is called with {', '.join(sorted(strange))}; {ROUND_TRIP}")
    return [(str(name), int(call), int(output)) for name, call, output in found]


def _one(outputs: Any, number: int) -> Any:
    return outputs[number] if isinstance(outputs, list | tuple) else outputs


def _ends(named: JSON, tensors: Mapping[tuple[str, int], Any]) -> Any:
    if isinstance(named, Mapping):
        return {key: _ends(item, tensors) for key, item in named.items()}
    if isinstance(named[0], str):
        return _one(tensors[named[0], named[1]], named[2])
    found = [_ends(item, tensors) for item in named]
    return found[0] if len(found) == 1 else found


def _input(config: Mapping[str, JSON], name: str) -> Any:
    shape = config.get("batch_input_shape") or config.get("batch_shape")
    if not isinstance(shape, list) or not all(size is None or (isinstance(size, int) and size > 0) for size in shape):
        raise InputError("the model's structure has no valid input shape; export the model again")
    return keras_library().Input(shape=tuple(shape[1:]), batch_size=shape[0], name=plain_name(name))
