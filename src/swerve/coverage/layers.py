"""Which layers of a network count, where their neurons stand among all, and what a batch says of each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError, did_you_mean
from swerve.core.seeding import digest_of
from swerve.core.system import Activations, System, Traced, WhiteBox
from swerve.core.values import Array

KINDS = ("input", "convolution", "dense", "recurrent", "dropout")
CHUNK = 1 << 20  # numbers handled at a time, so that memory does not grow with the batch
SLACK = 1e-6  # of a layer's span; the same input in batches of other sizes gave values up to 5e-7 of it apart
SAFE = 1e30  # the mean of a map of such numbers is finite, in single precision too


class CoverageWarning(UserWarning):
    """Coverage left something out."""


@dataclass(frozen=True)
class Spanned(Activations):
    """Activations whose span was taken over every number of the layer, so that it alone tells whether all are finite."""


@dataclass(frozen=True)
class Counting:
    """Which kinds of layer have neurons, and whether each step of a recurrent layer has its own."""

    name: str
    kinds: tuple[str, ...] = ("convolution", "dense", "recurrent")
    scalars: bool = False  # a dense layer of one unit, which min-max scaling never lets activate (D-5)
    unrolled: bool = True  # a neuron per unit and step (DT-9), or one per unit, its mean over time (D-6)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise InputError(f"counting '{self.name}': no layer is of kind '{kind}'; {did_you_mean(kind, KINDS)}")

    def takes(self, activations: Activations) -> bool:
        """Whether a layer has neurons under this rule."""
        alone = activations.kind == "dense" and activations.mean.shape[-1] == 1
        return activations.kind in self.kinds and (self.scalars or not alone)

    def values(self, activations: Activations) -> Array:
        """One row per pass, one column per neuron, as floating-point numbers."""
        mean = activations.mean if activations.mean.dtype.kind == "f" else activations.mean.astype(np.float64)
        if mean.ndim == 2:
            return mean
        with np.errstate(all="ignore"):  # what is not finite is found later, and said in a sentence
            return np.asarray(mean.reshape(len(mean), -1) if self.unrolled else mean.mean(axis=1))


DEFAULT = Counting("default")
DEEPTEST_2018 = Counting("deeptest-2018", kinds=KINDS, scalars=True, unrolled=False)
COUNTINGS = {counting.name: counting for counting in (DEFAULT, DEEPTEST_2018)}


@dataclass(frozen=True)
class Layer:
    """A layer that counts, and how many neurons it has."""

    name: str
    kind: str
    neurons: int


def names_under(model: str, names: Sequence[str]) -> list[str]:
    """The layers of the sub-model `model`, given as `cnn` or `cnn.`; everything is part of ''."""
    stem = model.removesuffix(".")
    chosen = [name for name in names if not stem or name == stem or name.startswith(f"{stem}.")]
    if names and not chosen:
        known = {name.split(".")[0] for name in names}
        raise InputError(f"no layer belongs to the sub-model '{model}'; {did_you_mean(model, known)}")
    return chosen


@dataclass(frozen=True)
class LayerValues:
    """One layer in a batch: its neurons' values, and the span of the whole layer in each row."""

    layer: Layer
    neurons: slice  # where they stand among all neurons
    values: Array  # rows x neurons
    low: Array
    high: Array
    passes: int  # rows per input
    spanned: bool  # whether the span tells of every number that is not finite

    @property
    def inputs(self) -> int:
        """How many inputs the rows belong to."""
        return len(self.values) // self.passes

    def rows(self, which: slice | Array) -> LayerValues:
        """Some of its rows."""
        return replace(self, values=self.values[which], low=self.low[which], high=self.high[which])

    def between(self, start: int, stop: int) -> LayerValues:
        """The rows of the inputs from `start` to before `stop`."""
        return self.rows(slice(start * self.passes, stop * self.passes))

    def slack(self) -> Array:
        """How far beyond a bound a value of each row may be and still count as on it, as rounding may have put it there."""
        low, high = np.minimum(self.low, 0.0, dtype=np.float64), np.maximum(self.high, 0.0, dtype=np.float64)
        return np.asarray(SLACK * high - SLACK * low)

    def sound(self) -> Array:
        """Which inputs have finite numbers only."""
        if self._all_sound():
            return np.ones(self.inputs, bool)
        rows = np.isfinite(self.values).all(axis=1) & np.isfinite(self.low) & np.isfinite(self.high)
        return np.asarray(rows.reshape(-1, self.passes).all(axis=1))

    def _all_sound(self) -> bool:
        """Whether one quick look says so; if not, a closer one is due."""
        if self.spanned:
            return bool(np.abs([self.low, self.high]).max() < SAFE)
        with np.errstate(all="ignore"):
            # A NaN or an infinity never leaves a sum, here the fastest there is, that of squares.
            flat = self.values.reshape(-1)
            return bool(np.isfinite(np.dot(flat, flat) + self.low.sum() + self.high.sum()))


@dataclass(frozen=True)
class Layout:
    """The layers that count and their neurons, one after the other."""

    counting: Counting
    layers: tuple[Layer, ...]
    _warned: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def neurons(self) -> int:
        """How many there are in all."""
        return sum(layer.neurons for layer in self.layers)

    @property
    def names(self) -> tuple[str, ...]:
        """The layers to trace."""
        return tuple(layer.name for layer in self.layers)

    def under(self, model: str) -> Layout:
        """The layers of one sub-model, `cnn` for all that start with `cnn.`."""
        chosen = names_under(model, self.names)
        return Layout(self.counting, tuple(layer for layer in self.layers if layer.name in chosen))

    def members(self, model: str) -> Array:
        """One truth value per neuron: whether it is part of the sub-model."""
        chosen = names_under(model, self.names)
        return np.repeat([layer.name in chosen for layer in self.layers], [layer.neurons for layer in self.layers])

    def fingerprint(self) -> str:
        """A hash of what is counted and how."""
        return digest_of(asdict(self.counting), [asdict(layer) for layer in self.layers])

    def place_of(self, neuron: int) -> tuple[str, int]:
        """The layer of a neuron, and its number within."""
        for layer in self.layers:
            if neuron < layer.neurons:
                return layer.name, neuron
            neuron -= layer.neurons
        raise InputError(f"there are {self.neurons} neurons, none is number {neuron + self.neurons}")

    def read(self, traced: Traced, only: int | None = None) -> Iterator[tuple[LayerValues, ...]]:
        """The layers of a batch, or of one of its inputs, a few inputs at a time.

        Inputs with a number that is not finite are left out, with a warning once per layer (R21).
        """
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
        """How many inputs a batch holds."""
        return _inputs(self._readings(traced))

    def _readings(self, traced: Traced) -> tuple[LayerValues, ...]:
        if not traced.answers and not traced.layers:  # no inputs, and so no layer that took part
            return ()
        readings, start = [], 0
        for layer in self.layers:
            part = self._found(traced, layer)
            values = self.counting.values(part)
            place = slice(start, start := start + layer.neurons)
            spanned = isinstance(part, Spanned)
            readings.append(LayerValues(layer, place, values, part.low, part.high, part.passes, spanned))
        _check(readings)
        return tuple(readings)

    def _found(self, traced: Traced, layer: Layer) -> Activations:
        if layer.name not in traced.layers:
            raise InputError(
                f"layer '{layer.name}' counts but was not traced, or took no part this time; trace {', '.join(self.names)}"
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
            said = f"layer '{layer.name}' put out numbers that are not finite; coverage leaves those inputs out"
            warnings.warn(said, CoverageWarning, stacklevel=2)


def _inputs(readings: Sequence[LayerValues]) -> int:
    return readings[0].inputs if readings else 0


def _check(readings: Sequence[LayerValues]) -> None:
    for reading in readings:
        layer, given = reading.layer, reading.values.shape[1]
        if given != layer.neurons:
            raise InputError(
                f"layer '{layer.name}' was counted with {layer.neurons} neurons and now has {given}; unrolled, every input "
                "needs as many steps as the first"
            )
    if len({reading.inputs for reading in readings}) > 1:
        sizes = ", ".join(f"{reading.layer.name} {reading.inputs}" for reading in readings)
        raise InputError(f"the layers of one batch must have seen the same inputs, got {sizes}")


def white(system: System) -> WhiteBox:
    """`system`, if its activations can be read; raises `InputError` for a black box."""
    if isinstance(system, WhiteBox):
        return system
    raise InputError(
        f"{type(system).__name__} is a black box, and coverage looks at activations: use a system with layers() and "
        "trace(), such as TorchSystem, or a search that needs no coverage"
    )


def layout_of(system: System, case: Case, *, counting: Counting = DEFAULT, under: str = "") -> Layout:
    """The neurons of `system` under a counting rule, found by tracing one case; `under` picks a sub-model (TA-8)."""
    box = white(system)
    names = names_under(under, box.layers())
    traced = box.trace([case], names)
    idle = [name for name in names if name not in traced.layers]
    if idle:
        said = f"took no part in the forward pass of {case.key}; coverage leaves out {', '.join(idle)}"
        warnings.warn(f"{len(idle)} of {len(names)} layers {said}", CoverageWarning, stacklevel=2)
    chosen = {name: part for name, part in traced.layers.items() if counting.takes(part)}
    layers = tuple(Layer(name, part.kind, counting.values(part).shape[1]) for name, part in chosen.items())
    if not layers:
        whole = f"{type(system).__name__}{f' in {under}' if under else ''}"
        raise InputError(f"no layer of {whole} counts under '{counting.name}' ({', '.join(counting.kinds)})")
    return Layout(counting, layers)
