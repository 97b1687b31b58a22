"""Activations of an ONNX graph, as defined in `swerve.systems.probe`, as additional outputs of the graph.

Of a feature map only a few numbers are returned: its mean, and the range of the whole layer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swerve.systems.onnx_file import onnx_library

LAYERS = {
    **dict.fromkeys(("Conv", "ConvTranspose", "DeformConv"), "convolution"),
    **dict.fromkeys(("Gemm", "MatMul"), "dense"),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), "recurrent"),
}
ACTIVATIONS = frozenset(
    (
        *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Gelu", "Sigmoid", "HardSigmoid", "Tanh", "Softplus", "Atan"),
        *("Softsign", "HardSwish", "Swish", "Mish", "Clip", "Softmax", "LogSoftmax", "ThresholdedRelu", "Shrink"),
        *("QuickGelu", "FastGelu"),
    )
)
NORMALISATIONS = frozenset(
    f"{kind}Normalization" for kind in ("Batch", "Instance", "Group", "Layer", "SimplifiedLayer", "RMS")
) | {"LRN"}
POOLS = frozenset(f"{whole}{kind}Pool" for whole in ("", "Global") for kind in ("Max", "Average", "Lp"))
RESHAPES = frozenset(
    ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast", "QuantizeLinear", "DequantizeLinear")
)
# SiLU, GELU and Mish are exported as the product of a tensor with a curve of itself.
CURVES, ARITHMETIC = (
    frozenset(("Sigmoid", "HardSigmoid", "Tanh", "Erf", "Softplus")),
    frozenset(("Mul", "Div", "Add", "Sub", "Pow")),
)
MEAN, LOW, HIGH = "mean", "low", "high"


@dataclass
class Tap:
    """One call of a layer, and the tensor with its activations."""

    layer: str
    kind: str
    node: int  # its index in the graph
    tensor: str
    shaped_like: str = ""  # a tensor with the shape it had before it was flattened
    lacks_bias: bool = False  # the bias is added by a later node
    normalised: bool = False
    rounded: str = ""  # its quantised output
    activated: bool | None = False


def taps_of(graph: Any) -> list[Tap]:
    """Every call of every layer, in graph order; nodes with the same weights are calls of one layer."""
    tracer = _GraphTracer(graph)
    for place, node in enumerate(graph.node):
        tracer.see(place, node)
    return tracer.taps


class _GraphTracer:
    """Follows the outputs of layers from node to node, as `probe.Tracer` does from function to function."""

    def __init__(self, graph: Any) -> None:
        self.taps: list[Tap] = []
        self.waiting: dict[str, tuple[Tap, str]] = {}  # by tensor; with a tensor of its shape before it was flattened
        self.constants = {tensor.name for tensor in graph.initializer}
        self.halves = {tensor.name for tensor in graph.initializer if _is_half(tensor)}
        self.names: dict[str, str] = {}  # of layers, by their weights
        self.consumers: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.consumers[name].append(node)

    def see(self, place: int, node: Any) -> None:
        """Process the next node."""
        if all(name in self.constants for name in node.input if name):
            self._note_constant(node)
            return
        given = next((name for name in node.input if name in self.waiting), None)
        if given is not None:
            self._follow(node, given)
        if node.op_type in LAYERS and node.input[1] in self.constants:
            self._add(place, node)

    def _note_constant(self, node: Any) -> None:
        if node.input or node.op_type == "Constant":
            self.constants.update(node.output)
            self.halves.update(node.output[0] for item in node.attribute if item.name == "value" and _is_half(item.t))

    def _add(self, place: int, node: Any) -> None:
        kind, output = LAYERS[node.op_type], node.output[0]
        lacks_bias = node.op_type == "MatMul" or (kind == "convolution" and len(node.input) < 3)
        tap = Tap(self._name(node, place), kind, place, output or f"swerve:steps:{place}", lacks_bias=lacks_bias)
        tap.activated = kind == "recurrent"
        self.taps.append(tap)
        if kind != "recurrent":
            self.waiting[output] = tap, output

    def _name(self, node: Any, place: int) -> str:
        weights = node.input[1]
        if weights not in self.names:
            name = _readable(node, weights, place)
            taken = set(self.names.values())
            again = (f"{name}_{number}" for number in range(2, len(taken) + 3))
            self.names[weights] = name if name not in taken else next(other for other in again if other not in taken)
        return self.names[weights]

    def _follow(self, node: Any, given: str) -> None:
        tap, like = self.waiting[given]
        kind, result = node.op_type, node.output[0]
        if kind in CURVES | ARITHMETIC and (product := self._gated(given)):
            self._settle(tap, product, like if like != given else "")
        elif kind in ACTIVATIONS:
            self._settle(tap, result, like if like != given else "")
        elif kind == "DequantizeLinear" and given == tap.rounded:
            # Quantisation also clips: quantisers omit an activation that only clips.
            tap.tensor, tap.activated = result, None
            self.waiting[result] = tap, result
        elif kind in RESHAPES:
            tap.rounded = result if kind == "QuantizeLinear" and given == tap.tensor else tap.rounded
            self.waiting[result] = tap, like
        elif kind in NORMALISATIONS or self._completes(node, tap):
            self._move(given, result, keeps=True)
            tap.tensor = result if given == tap.tensor else tap.tensor
            tap.normalised, tap.lacks_bias = tap.normalised or kind in NORMALISATIONS, False
        elif kind in POOLS or kind == "Dropout":
            self._move(given, result, keeps=kind == "Dropout")

    def _completes(self, node: Any, tap: Tap) -> bool:
        """Whether the node adds the layer's bias or completes a normalisation."""
        others = [name for name in node.input if name in self.constants]
        return len(others) == 1 and (
            (node.op_type == "Add" and tap.lacks_bias) or (node.op_type in ("Mul", "Add") and tap.normalised)
        )

    def _move(self, given: str, result: str, *, keeps: bool) -> None:
        tap, like = self.waiting.pop(given)
        if like == given:
            self.waiting[result] = tap, result
        elif keeps:  # pooling after flattening loses the shape
            self.waiting[result] = tap, like

    def _settle(self, tap: Tap, tensor: str, like: str) -> None:
        tap.tensor, tap.shaped_like, tap.activated = tensor, like, True
        self.waiting = {name: entry for name, entry in self.waiting.items() if entry[0] is not tap}

    def _gated(self, tensor: str) -> str:
        """The product of a tensor with a curve of itself; '' if there is none."""
        curved, pending = {tensor: False}, [tensor]
        while pending:
            for node in self.consumers[pending.pop(0)]:
                mine = [name for name in node.input if name in curved]
                strange = any(name and name not in curved and name not in self.constants for name in node.input)
                result = node.output[0]
                if strange or result in curved or node.op_type not in CURVES | ARITHMETIC:
                    continue
                if node.op_type == "Mul" and {curved[name] for name in mine} == {True, False}:
                    return self._halved(result)
                curved[result] = node.op_type in CURVES or any(curved[name] for name in mine)
                pending.append(result)
        return ""

    def _halved(self, product: str) -> str:
        """The product, or its half if GELU multiplies by a half at the end."""
        after = self.consumers[product]
        halved = len(after) == 1 and after[0].op_type == "Mul" and any(name in self.halves for name in after[0].input)
        return after[0].output[0] if halved else product


def _is_half(tensor: Any) -> bool:
    if len(tensor.dims) > 1 or any(dim != 1 for dim in tensor.dims):
        return False
    try:
        return float(onnx_library().numpy_helper.to_array(tensor).reshape(-1)[0]) == 0.5
    except (ValueError, TypeError, IndexError):
        return False


def _readable(node: Any, weights: str, place: int) -> str:
    """The module's name if its weights still have it, otherwise the node's name without the operator."""
    stem = weights.removesuffix("_DequantizeLinear_Output").removeprefix("ConvBnFusion_W_")
    if stem.endswith(".weight") and not stem.startswith("onnx::"):
        return stem.removesuffix(".weight")
    parts: list[str] = []
    for part in node.name.removeprefix("node_").strip("/").split("/"):
        if parts and part.startswith(f"{parts[-1]}."):  # torch repeats the name of a sequence before those of its members
            parts.pop()
        parts.append(part)
    if len(parts) > 1 and parts[-1].rstrip("_0123456789") in (node.op_type, "Conv2D", "BiasAdd"):
        parts.pop()
    return ".".join(part for part in parts if part) or f"{node.op_type}_{place}"


def outputs_of(tap: Tap) -> tuple[str, str, str]:
    """The names of the additional outputs: mean, low and high."""
    mean, low, high = (f"swerve:{what}:{tap.node}" for what in (MEAN, LOW, HIGH))
    return mean, low, high


def add_taps(model: Any, taps: Sequence[Tap]) -> None:
    """Add the activations of `taps` to the model's outputs."""
    onnx = onnx_library()
    version = max((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), default=1)
    shapes = {"units": [0, 0, -1], "rows": [0, -1], "last": [-1], "first axis": [1], "second axis": [2]}
    for name, numbers in shapes.items():
        model.graph.initializer.append(
            onnx.helper.make_tensor(f"swerve:{name}", onnx.TensorProto.INT64, [len(numbers)], numbers)
        )
    for tap in taps:
        node = model.graph.node[tap.node]
        if tap.kind == "recurrent" and not node.output[0]:
            node.output[0] = tap.tensor
        model.graph.node.extend(_reducing(tap, node, onnx.helper.make_node, axes_are_inputs=version >= 18))
        for name in outputs_of(tap):
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))


def _reducing(tap: Tap, layer: Any, make: Any, *, axes_are_inputs: bool) -> Iterator[Any]:
    """Nodes that reduce a layer's activations to one number per unit and the range of each row."""
    mean, low, high = outputs_of(tap)
    at = f"swerve:{tap.node}"

    def reduced(kind: str, given: str, result: str, axis: int) -> Any:
        if axes_are_inputs:
            return make(kind, [given, f"swerve:{'first' if axis == 1 else 'second'} axis"], [result], keepdims=0)
        return make(kind, [given], [result], keepdims=0, axes=[axis])

    yield make("Cast", [tap.tensor], [f"{at}:output"], to=1)
    whole = f"{at}:output"
    if tap.shaped_like:
        yield make("Shape", [tap.shaped_like], [f"{at}:shape"])
        yield make("Reshape", [whole, f"{at}:shape"], [f"{at}:whole"])
        whole = f"{at}:whole"
    if tap.kind == "recurrent":
        batch_first = any(item.name == "layout" and item.i == 1 for item in layer.attribute)
        yield make("Transpose", [whole], [f"{at}:turned"], perm=[0, 1, 2, 3] if batch_first else [2, 0, 1, 3])
        whole = f"{at}:turned"
        yield make("Reshape", [whole, "swerve:units"], [mean])
    elif tap.kind == "convolution":
        yield make("Reshape", [whole, "swerve:units"], [f"{at}:units"])
        yield reduced("ReduceMean", f"{at}:units", mean, 2)
    else:
        yield make("Shape", [whole], [f"{at}:sizes"])
        yield make("Gather", [f"{at}:sizes", "swerve:last"], [f"{at}:count"])
        yield make("Concat", ["swerve:rows", f"{at}:count"], [f"{at}:three"], axis=0)
        yield make("Reshape", [whole, f"{at}:three"], [f"{at}:units"])
        yield reduced("ReduceMean", f"{at}:units", mean, 1)
    yield make("Reshape", [whole, "swerve:rows"], [f"{at}:rows"])
    yield reduced("ReduceMin", f"{at}:rows", low, 1)
    yield reduced("ReduceMax", f"{at}:rows", high, 1)
