"""The counted layers of a network, the positions of their neurons, and their values in a batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError, unknown
from swerve.core.seeding import digest_of
from swerve.core.system import Activations, System, Traced, WhiteBox
from swerve.core.values import Array

KINDS = ("input", "convolution", "dense", "recurrent", "dropout")
CHUNK = 1 << 20  # numbers processed at a time, which bounds the memory
SLACK = 1e-6  # of a layer's range; with other batch sizes, values of the same input differed by up to 5e-7 of it
SAFE = 1e30  # the mean of a feature map of smaller numbers is finite even in single precision


class CoverageWarning(UserWarning):
    """Coverage excluded some layers or inputs."""


@dataclass(frozen=True)
class Spanned(Activations):
    """Activations whose range covers every output of the layer, so that it shows whether all are finite."""


@dataclass(frozen=True)
class Counting:
    """Which kinds of layer have neurons, and whether each time step of a recurrent layer has its own."""

    name: str
    kinds: tuple[str, ...] = ("convolution", "dense", "recurrent")
    scalars: bool = False  # count dense layers of one unit, which min-max scaling never activates (D-5)
    unrolled: bool = True  # one neuron per unit and step (DT-9), or per unit with its mean over time (D-6)
    linear: bool = True  # count layers without an activation function

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise InputError(f"counting '{self.name}': {unknown('kind of layer', kind, KINDS)}")

    def takes(self, activations: Activations) -> bool:
        """Whether the neurons of a layer are counted."""
        alone = activations.kind == "dense" and activations.mean.shape[-1] == 1
        linear = activations.activated is False
        return activations.kind in self.kinds and (self.scalars or not alone) and (self.linear or not linear)

    def values(self, activations: Activations) -> Array:
        """Floating-point values, one row per pass and one column per neuron."""
        mean = activations.mean if activations.mean.dtype.kind == "f" else activations.mean.astype(np.float64)
        if mean.ndim == 2:
            return mean
        with np.errstate(all="ignore"):  # numbers that are not finite are reported later
            return np.asarray(mean.reshape(len(mean), -1) if self.unrolled else mean.mean(axis=1))


DEFAULT = Counting("default")
DEEPTEST_2018 = Counting("deeptest-2018", kinds=KINDS, scalars=True, unrolled=False)
COUNTINGS = {counting.name: counting for counting in (DEFAULT, DEEPTEST_2018)}


@dataclass(frozen=True)
class Layer:
    """A counted layer and its number of neurons.

    A layer without an activation function, such as the last of a residual block, is linear: its mean outputs lie in the
    middle of its range, so that min-max scaling may activate all of its neurons on every input.
    """

    name: str
    kind: str
    neurons: int
    linear: bool = False


def names_under(model: str, names: Sequence[str]) -> list[str]:
    """The layers of the sub-model `model`, given as `cnn` or `cnn.`; '' selects all layers."""
    stem = model.removesuffix(".")
    chosen = [name for name in names if not stem or name == stem or name.startswith(f"{stem}.")]
    if names and not chosen:
        known = {name.split(".")[0] for name in names}
        raise InputError(unknown("sub-model", model, known))
    return chosen


@dataclass(frozen=True)
class LayerValues:
    """The values of one layer's neurons in a batch, and the range of the whole layer in each row."""

    layer: Layer
    neurons: slice  # positions among all neurons
    values: Array  # rows x neurons
    low: Array
    high: Array
    passes: int  # rows per input
    spanned: bool  # whether low and high show every number that is not finite

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.values) // self.passes

    def rows(self, which: slice | Array) -> LayerValues:
        """The selected rows."""
        return replace(self, values=self.values[which], low=self.low[which], high=self.high[which])

    def between(self, start: int, stop: int) -> LayerValues:
        """The rows of the inputs from `start` up to but not including `stop`."""
        return self.rows(slice(start * self.passes, stop * self.passes))

    def slack(self) -> Array:
        """The rounding tolerance of each row: a value beyond a bound by no more than this counts as on it."""
        low, high = np.minimum(self.low, 0.0, dtype=np.float64), np.maximum(self.high, 0.0, dtype=np.float64)
        return np.asarray(SLACK * high - SLACK * low)

    def sound(self) -> Array:
        """Which inputs have only finite numbers."""
        if self._all_sound():
            return np.ones(self.inputs, bool)
        rows = np.isfinite(self.values).all(axis=1) & np.isfinite(self.low) & np.isfinite(self.high)
        return np.asarray(rows.reshape(-1, self.passes).all(axis=1))

    def _all_sound(self) -> bool:
        """Whether a quick test proves that all numbers are finite; False means unknown."""
        if self.spanned:
            return bool(np.abs([self.low, self.high]).max() < SAFE)
        with np.errstate(all="ignore"):
            # NaN and infinity survive in a sum; the sum of squares is the fastest to compute.
            flat = self.values.reshape(-1)
            return bool(np.isfinite(np.dot(flat, flat) + self.low.sum() + self.high.sum()))


@dataclass(frozen=True)
class Layout:
    """The counted layers in order; their neurons are numbered consecutively."""

    counting: Counting
    layers: tuple[Layer, ...]
    _warned: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def neurons(self) -> int:
        """The total number of neurons."""
        return sum(layer.neurons for layer in self.layers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the layers to trace."""
        return tuple(layer.name for layer in self.layers)

    def linear(self) -> dict[str, slice]:
        """The positions of the neurons of each layer without an activation function."""
        ends = np.cumsum([layer.neurons for layer in self.layers]).tolist()
        places = zip(self.layers, ends, strict=True)
        return {layer.name: slice(end - layer.neurons, end) for layer, end in places if layer.linear}

    def under(self, model: str) -> Layout:
        """The layout of one sub-model: `cnn` selects all layers that start with `cnn.`."""
        chosen = names_under(model, self.names)
        return Layout(self.counting, tuple(layer for layer in self.layers if layer.name in chosen))

    def members(self, model: str) -> Array:
        """One boolean per neuron: whether it belongs to the sub-model."""
        chosen = names_under(model, self.names)
        return np.repeat([layer.name in chosen for layer in self.layers], [layer.neurons for layer in self.layers])

    def fingerprint(self) -> str:
        """A hash of the layers and of the counting."""
        return digest_of(asdict(self.counting), [asdict(layer) for layer in self.layers])

    def place_of(self, neuron: int) -> tuple[str, int]:
        """The layer of a neuron and its index in the layer."""
        for layer in self.layers:
            if neuron < layer.neurons:
                return layer.name, neuron
            neuron -= layer.neurons
        raise InputError(f"there is no neuron {neuron + self.neurons}: the layout has {self.neurons} neurons")

    def read(self, traced: Traced, only: int | None = None) -> Iterator[tuple[LayerValues, ...]]:
        """The layers of a batch, or of one of its inputs, a few inputs at a time.

        Inputs with activations that are not finite are excluded, with one warning per layer.
        """
        # R21
        whole = self._readings(traced)
        first, stop = (0, _inputs(whole)) if only is None else (only, only + 1)
        step = max(1, CHUNK // self.neurons)
        for start in range(first, stop, step):
            part = tuple(reading.between(start, min(start + step, stop)) for reading in whole)
            sound = self._sound(part)
            if sound.all():
                yield part
            elif sound.any():
                yield tuple(reading.rows(np.repeat(sound, reading.passes)) for reading in part)

    def inputs(self, traced: Traced) -> int:
        """The number of inputs in a batch."""
        return _inputs(self._readings(traced))

    def _readings(self, traced: Traced) -> tuple[LayerValues, ...]:
        if not traced.answers and not traced.layers:  # no inputs, so no layer ran
            return ()
        readings, start = [], 0
        for layer in self.layers:
            part = self._activations(traced, layer)
            values = self.counting.values(part)
            place = slice(start, start := start + layer.neurons)
            spanned = isinstance(part, Spanned)
            readings.append(LayerValues(layer, place, values, part.low, part.high, part.passes, spanned))
        _check(readings)
        return tuple(readings)

    def _activations(self, traced: Traced, layer: Layer) -> Activations:
        if layer.name not in traced.layers:
            raise InputError(
                f"layer '{layer.name}' is counted but was not traced or did not run; trace {', '.join(self.names)}"
            )
        return traced.layers[layer.name]

    def _sound(self, readings: Sequence[LayerValues]) -> Array:
        sound = np.ones(readings[0].inputs, bool)
        for reading in readings:
            finite = reading.sound()
            if not finite.all():
                self._warn(reading.layer)
                sound &= finite
        return sound

    def _warn(self, layer: Layer) -> None:
        if layer.name not in self._warned:
            self._warned.add(layer.name)
            message = f"the activations of layer '{layer.name}' are not all finite; coverage excludes those inputs"
            warnings.warn(message, CoverageWarning, stacklevel=2)


def _inputs(readings: Sequence[LayerValues]) -> int:
    return readings[0].inputs if readings else 0


def _check(readings: Sequence[LayerValues]) -> None:
    for reading in readings:
        layer, given = reading.layer, reading.values.shape[1]
        if given != layer.neurons:
            raise InputError(
                f"layer '{layer.name}' has {given} neurons instead of {layer.neurons}; if each time step is counted, "
                "all inputs need the same number of steps"
            )
    if len({reading.inputs for reading in readings}) > 1:
        sizes = ", ".join(f"{reading.layer.name} {reading.inputs}" for reading in readings)
        raise InputError(f"all layers of a batch must have the same number of inputs, got {sizes}")


def as_white_box(system: System) -> WhiteBox:
    """`system`, if its activations can be read; raises `InputError` for a black box."""
    if isinstance(system, WhiteBox):
        return system
    raise InputError(
        f"coverage needs activations, but {type(system).__name__} is a black box: use a system with layers() and trace(), "
        "such as TorchSystem, or a search without coverage"
    )


def layout_of(system: System, case: Case, *, counting: Counting = DEFAULT, under: str = "") -> Layout:
    """The counted neurons of `system`, found by tracing one case; `under` selects a sub-model."""
    # TA-8
    box = as_white_box(system)
    names = names_under(under, box.layers())
    traced = box.trace([case], names)
    idle = [name for name in names if name not in traced.layers]
    if idle:
        message = f"layers did not run in the forward pass of {case.key}; coverage excludes {', '.join(idle)}"
        warnings.warn(f"{len(idle)} of {len(names)} {message}", CoverageWarning, stacklevel=2)
    chosen = {name: part for name, part in traced.layers.items() if counting.takes(part)}
    layers = tuple(
        Layer(name, part.kind, counting.values(part).shape[1], part.activated is False) for name, part in chosen.items()
    )
    if not layers:
        whole = f"{type(system).__name__}{f' in {under}' if under else ''}"
        only = "" if counting.linear else " with an activation function"
        raise InputError(
            f"counting '{counting.name}' ({', '.join(counting.kinds)}) counts no layer{only} of "
            f"{whole}; choose another counting"
        )
    return Layout(counting, layers)
