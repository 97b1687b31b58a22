"""A network of any framework, between the steps that prepare its input and the decoders of its outputs."""

# No postponed annotations here: subclasses in other modules inherit them, and TOML tables are converted by them.

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Protocol

import numpy as np

from swerve.core.arguments import OneOfNames, take_paths
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import InputError, did_you_mean
from swerve.core.seeding import digest_of
from swerve.core.system import Activations, Answer, Gradients, Traced, Window
from swerve.core.values import Array
from swerve.systems.decoders import Decoder, Outputs, SteeringDecoder, select_output
from swerve.systems.function import answer_of
from swerve.systems.preprocessing import FRAMES, LAYOUTS, ImageView, Preprocessing, Step

Rows = Array | Sequence[Array]  # one array per input, which may differ in length as a detector's do
Pass = tuple[Mapping[str, Rows], Mapping[str, Activations]]
INPUT = "(input)"  # the name of the picture's channels as a layer
CHANNELS = {"chw": 1, "hwc": -1}  # the axis of the channels in a batch, by layout
PARTS = ("mean", "low", "high")


class Engine(Protocol):
    """A loaded network: arrays in, arrays out, by name and in order, each with a batch axis in front."""

    batch: int | None  # its batch size, if that is fixed
    shape: tuple[int | None, ...]  # of one input, None for any size; () if it is not known

    def run(self, batch: Array) -> Mapping[str, Rows]:
        """The outputs of one forward pass."""

    def layers(self) -> Sequence[str]:
        """The layers whose activations can be read."""

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        """Outputs and activations of one forward pass."""

    def fingerprint(self) -> str:
        """A hash of weights and structure."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """What all frameworks share: `read` prepares the input in steps, `say` decodes the outputs.

    Args:
        read: the steps from a picture to the network's input.
        say: the decoders, each for one value of the answer.
        sensor: the name of the input to use.
        layout: the order of the axes, `chw` or `hwc`.
        frames: `one`, or for a window `stack` (a further first axis), `channels` (concatenated) or `differences`.
        batched: whether every output has a row for each input; if not, cases are run one at a time, and the outputs belong
            to that case as a whole.
    """

    read: tuple[Step, ...]
    say: tuple[Decoder, ...]
    sensor: str = "camera"
    layout: Annotated[str, OneOfNames(*LAYOUTS)] = "chw"
    frames: Annotated[str, OneOfNames(*FRAMES)] = "one"
    batched: bool = True

    def __post_init__(self) -> None:
        take_paths(self)
        _ = self.preprocessing, self.engine  # a bad file is refused now, not during a campaign

    @cached_property
    def engine(self) -> Engine:
        """The network itself, loaded once."""
        raise NotImplementedError

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """From a case to the network's input."""
        return Preprocessing(self.read, self.sensor, self.layout, self.frames)

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return self.trace(cases, ()).answers

    def behind(self, read: Sequence[Step], say: Sequence[Decoder] = ()) -> "Network":
        """The same network, which is not loaded again, behind other steps and, if given, before other decoders."""
        other = copy.copy(self)
        for name in ("preprocessing", "_fingerprint"):
            vars(other).pop(name, None)
        object.__setattr__(other, "read", tuple(read))
        object.__setattr__(other, "say", tuple(say) or self.say)
        return other

    def sees(self, case: Case) -> Array:
        """The network's input for a case: a change that does not alter it cannot have an effect."""
        return self.preprocessing(case).numbers

    def layers(self) -> Sequence[str]:
        return self.engine.layers()

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        known = self.layers() if layers else ()
        for name in layers:
            if name not in known:
                raise InputError(f"{type(self).__name__} has no layer '{name}'; {did_you_mean(name, known)}")
        if not cases:
            return Traced([], {})
        views = [self.preprocessing(case) for case in cases]
        parts = [self._pass(batch, inputs, layers) for batch, inputs in self._batches(cases, views)]
        outputs = [row for rows, _ in parts for row in rows]
        answers = [self._answer(row, view) for row, view in zip(outputs, views, strict=True)]
        return Traced(answers, concatenate_batches([found for _, found in parts]))

    def gradients(self, cases: Sequence[Case], layer: str) -> Gradients:
        """Feature maps of a layer, and how the network's number for steering changes with them."""
        take = getattr(self.engine, "gradients", None)
        if take is None:
            raise InputError(f"{type(self).__name__} has no gradients: use a torch or Keras network, or another explanation")
        if layer not in self.layers():
            raise InputError(f"{type(self).__name__} has no layer '{layer}'; {did_you_mean(layer, self.layers())}")
        decoder = next((part for part in self.say if isinstance(part, SteeringDecoder)), None)
        if decoder is None:
            raise InputError(f"{type(self).__name__} has no steering decoder, so there is no angle to explain")
        views = [self.preprocessing(case) for case in cases]
        found: Gradients = take(_batch(cases, views), layer, partial(_steering_number, decoder), [_window(v) for v in views])
        return found

    def fingerprint(self) -> str:
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return self._identify()

    def _identify(self) -> str:
        parts = type(self).__name__, self.engine.fingerprint(), encode(self.say), encode(self.preprocessing)
        return digest_of(*parts, *([] if self.batched else ["one at a time"]))

    def _batches(self, cases: Sequence[Case], views: Sequence[ImageView]) -> Iterator[tuple[Array, int]]:
        size = self.engine.batch
        if self.batched:
            return _fixed_batches(_batch(cases, views), size)
        if size not in (None, 1):
            raise InputError(f"{type(self).__name__}: batched = false needs a batch size of 1, but the network has {size}")
        return ((view.numbers[None], 1) for view in views)

    def _pass(self, batch: Array, inputs: int, layers: Sequence[str]) -> tuple[list[Outputs], dict[str, Activations]]:
        """One forward pass; returns the rows of the first `inputs` inputs."""
        try:
            outputs, found = self.engine.trace(batch, layers) if layers else (self.engine.run(batch), {})
        except Exception as error:
            if not isinstance(error, InputError):  # the framework's words, to which those of a campaign are added
                error.add_note(f"'read' produces {shape_words(batch.shape[1:])} for each case")
            raise
        if not self.batched:
            # A list still has one row per input.
            own = {name: rows if isinstance(rows, np.ndarray) else rows[0] for name, rows in outputs.items()}
            return [own], dict(found)
        for name, rows in outputs.items():
            count = 0 if isinstance(rows, np.ndarray) and not rows.ndim else len(rows)
            if count != len(batch):
                problem = f"output '{name}' has {count} rows for {len(batch)} inputs"
                raise InputError(f"{type(self).__name__}: {problem}; it needs one row per input, or batched = false")
        return [{name: rows[number] for name, rows in outputs.items()} for number in range(inputs)], without_padding(
            found, inputs
        )

    def _answer(self, outputs: Outputs, view: ImageView) -> Answer:
        return answer_of(tuple(decoder(outputs, view) for decoder in self.say), type(self).__name__)


def check_shape(batch: Array, wanted: Sequence[int | None], where: str = "") -> None:
    """Refuse an input of another shape than the network's, in words of `read` and not of a framework."""
    given = batch.shape[1:]
    if wanted and not (len(given) == len(wanted) and all(w in (None, g) for w, g in zip(wanted, given, strict=True))):
        both = f"{where}'read' produces {shape_words(given)} for each case, the model wants {shape_words(wanted)}"
        raise InputError(f"{both}; check resize or crop, grey, and layout = 'chw' or 'hwc'")


def shape_words(shape: Sequence[int | None]) -> str:
    """A shape such as `3x66x200`; `?` is any size."""
    return "x".join("?" if size is None else str(size) for size in shape) or "a number"


def _steering_number(decoder: SteeringDecoder, outputs: Any) -> Any:
    """The tensor of a network's output that the decoder reads, one number per input."""
    named: Mapping[str, Any] = {name or "output": tensor for name, tensor in tensor_leaves(outputs)}
    picked: Any = select_output(named, decoder.output)
    rows = picked.flatten(1)
    return rows if decoder.index is None else rows[:, [decoder.index]]


def tensor_leaves(result: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in nested tuples, lists and dicts; inner ones are named `outer.inner`."""
    if isinstance(result, Mapping | list | tuple):
        parts = result.items() if isinstance(result, Mapping) else enumerate(result)
        for key, part in parts:
            yield from tensor_leaves(part, f"{name}.{key}" if name else str(key))
    elif result is not None:
        yield name, result


def _window(view: ImageView) -> Window:
    """The part of the picture that the network's input shows."""
    left, top, right, bottom = view.back(np.array([0.0, 0.0, *view.shown]))
    return float(left), float(top), float(right), float(bottom)


def _batch(cases: Sequence[Case], views: Sequence[ImageView]) -> Array:
    """The inputs of all cases, one row each; raises `InputError` naming two that differ in shape."""
    shapes = ["x".join(map(str, view.numbers.shape)) for view in views]
    other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), None)
    if other is not None:
        given = f"{cases[0].key} is {shapes[0]}, {cases[other].key} is {shapes[other]}"
        raise InputError(f"the network's inputs have different shapes: {given}; add a step that resizes them")
    return np.stack([view.numbers for view in views])


def _fixed_batches(batch: Array, size: int | None) -> Iterator[tuple[Array, int]]:
    """Batches of the network's size, each with its number of real rows: the last is padded with its last row."""
    size = size or len(batch)
    for start in range(0, len(batch), size):
        rows = batch[start : start + size]
        yield np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)]), len(rows)


def join_calls(name: str, calls: Sequence[Activations], *, inputs: int) -> Activations:
    """The calls of one layer joined: as further steps of a recurrent layer, as further passes of any other."""
    rows = {len(call.mean) for call in calls}
    if any(count % inputs for count in rows):
        raise InputError(f"layer '{name}' returned {max(rows)} rows for {inputs} inputs; every input needs the same number")
    # Without an activation function in one call is without one.
    first = replace(calls[0], activated=min((call.activated for call in calls), key=(False, None, True).index))
    if first.kind == "recurrent":
        mean = np.concatenate([call.mean for call in calls], axis=1)
        low, high = np.min([call.low for call in calls], axis=0), np.max([call.high for call in calls], axis=0)
        return replace(first, mean=mean, low=low, high=high, passes=len(mean) // inputs)
    mean, low, high = (
        np.concatenate([getattr(call, what).reshape(inputs, -1, *getattr(call, what).shape[1:]) for call in calls], axis=1)
        for what in PARTS
    )
    passes = mean.shape[1]
    return replace(first, mean=mean.reshape(inputs * passes, -1), low=low.reshape(-1), high=high.reshape(-1), passes=passes)


def without_padding(layers: Mapping[str, Activations], inputs: int) -> dict[str, Activations]:
    """The rows of the first `inputs` inputs, without those of padding."""
    return {name: _cut(part, inputs * part.passes) for name, part in layers.items()}


def _cut(part: Activations, end: int) -> Activations:
    return replace(part, mean=part.mean[:end], low=part.low[:end], high=part.high[:end])


def concatenate_batches(parts: Sequence[Mapping[str, Activations]]) -> dict[str, Activations]:
    """The activations of successive batches as one."""
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(parts: Sequence[Activations]) -> Activations:
    mean, low, high = (np.concatenate([getattr(part, what) for part in parts]) for what in PARTS)
    return replace(parts[0], mean=mean, low=low, high=high)
