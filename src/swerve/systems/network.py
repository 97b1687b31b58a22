"""A network of any framework, between steps that show it a case and decoders that word its outputs."""

# Annotations are not postponed here: a subclass in another module takes them over, and a TOML table is read by them.

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import EnvironmentFault, InputError, did_you_mean
from swerve.core.seeding import digest_of
from swerve.core.system import Activations, Answer, Traced
from swerve.core.values import Array
from swerve.systems.decoders import Decoder, Outputs
from swerve.systems.function import answer_of
from swerve.systems.preprocessing import ImageView, Preprocessing, Step

Rows = Array | Sequence[Array]  # one array per input, which may differ in length as a detector's do
Pass = tuple[Mapping[str, Rows], Mapping[str, Activations]]
INPUT = "(input)"  # the channels of the picture, for those who count them
CHANNELS = {"chw": 1, "hwc": -1}  # where a batch of pictures or windows of that layout has them
PARTS = ("mean", "low", "high")


class Engine(Protocol):
    """A loaded network: arrays in, arrays out, by name and in order, each with a batch axis in front."""

    batch: int | None  # the one batch size it takes, where it takes but one

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
    """What all frameworks share: `read` shows a case step by step, `say` words the outputs.

    Args:
        read: the steps from a picture to the network's input.
        say: the decoders, each for one value of the answer.
        sensor: the input it looks at.
        layout: `chw` or `hwc`, how rows, columns and channels follow each other.
        frames: `one`, or of a window `stack` (a further axis in front), `channels` (side by side) or `differences`.
        batched: whether every output has a row for each input; where not, cases are shown one at a time, and the outputs
            belong to that case as they are.
    """

    read: tuple[Step, ...]
    say: tuple[Decoder, ...]
    sensor: str = "camera"
    layout: str = "chw"
    frames: str = "one"
    batched: bool = True

    def __post_init__(self) -> None:
        _ = self.reading, self.engine  # a bad file is refused now, not in the middle of a campaign

    @cached_property
    def engine(self) -> Engine:
        """The network itself, loaded once."""
        raise NotImplementedError

    @cached_property
    def reading(self) -> Preprocessing:
        """The way from a case to the network's input."""
        return Preprocessing(self.read, self.sensor, self.layout, self.frames)

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return self.trace(cases, ()).answers

    def sees(self, case: Case) -> Array:
        """The numbers that the network is shown of a case: a change that leaves them alone cannot matter."""
        return self.reading(case).numbers

    def layers(self) -> Sequence[str]:
        return self.engine.layers()

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        known = self.layers() if layers else ()
        for name in layers:
            if name not in known:
                raise InputError(f"{type(self).__name__} has no layer '{name}'; {did_you_mean(name, known)}")
        if not cases:
            return Traced([], {})
        views = [self.reading(case) for case in cases]
        parts = [self._pass(batch, inputs, layers) for batch, inputs in self._batches(cases, views)]
        outputs = [row for rows, _ in parts for row in rows]
        answers = [self._answer(row, view) for row, view in zip(outputs, views, strict=True)]
        return Traced(answers, in_a_row([found for _, found in parts]))

    def fingerprint(self) -> str:
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        parts = type(self).__name__, self.engine.fingerprint(), encode(self.say), encode(self.reading)
        return digest_of(*parts, *([] if self.batched else ["one at a time"]))

    def _batches(self, cases: Sequence[Case], views: Sequence[ImageView]) -> Iterator[tuple[Array, int]]:
        size = self.engine.batch
        if self.batched:
            return _portions(_batch(cases, views), size)
        if size not in (None, 1):
            raise InputError(f"{type(self).__name__}: takes {size} inputs at a time, batched = false is for one")
        return ((view.numbers[None], 1) for view in views)

    def _pass(self, batch: Array, inputs: int, layers: Sequence[str]) -> tuple[list[Outputs], dict[str, Activations]]:
        """One forward pass; of its rows, those of the first `inputs` inputs."""
        outputs, found = self.engine.trace(batch, layers) if layers else (self.engine.run(batch), {})
        if not self.batched:
            # A list has its one row even so: such a network says something of each input by itself.
            own = {name: rows if isinstance(rows, np.ndarray) else rows[0] for name, rows in outputs.items()}
            return [own], dict(found)
        for name, rows in outputs.items():
            count = 0 if isinstance(rows, np.ndarray) and not rows.ndim else len(rows)
            if count != len(batch):
                told = f"output '{name}' has {count} rows for {len(batch)} inputs; it needs one for each"
                raise InputError(f"{type(self).__name__}: {told}, or batched = false")
        return [{name: rows[number] for name, rows in outputs.items()} for number in range(inputs)], first_of(found, inputs)

    def _answer(self, outputs: Outputs, view: ImageView) -> Answer:
        return answer_of(tuple(decoder(outputs, view) for decoder in self.say), type(self).__name__)


def _batch(cases: Sequence[Case], views: Sequence[ImageView]) -> Array:
    """What all cases show, one row each; raises `InputError` naming two that differ in shape."""
    shapes = ["x".join(map(str, view.numbers.shape)) for view in views]
    other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), None)
    if other is not None:
        given = f"{cases[0].key} is {shapes[0]}, {cases[other].key} is {shapes[other]}"
        raise InputError(f"the network is shown inputs of different shapes: {given}; add a step that resizes them")
    return np.stack([view.numbers for view in views])


def _portions(batch: Array, size: int | None) -> Iterator[tuple[Array, int]]:
    """The batch as the network takes it, and how many of the rows count: the last portion is filled up with its last row."""
    size = size or len(batch)
    for start in range(0, len(batch), size):
        rows = batch[start : start + size]
        yield np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)]), len(rows)


def joined(name: str, calls: Sequence[Activations], *, inputs: int) -> Activations:
    """The calls of one layer as one: further steps of a recurrent layer, further passes of any other."""
    rows = {len(call.mean) for call in calls}
    if any(count % inputs for count in rows):
        raise InputError(
            f"layer '{name}' put out {max(rows)} rows for {inputs} inputs; each input needs as many as the others"
        )
    first = calls[0]
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


def first_of(layers: Mapping[str, Activations], inputs: int) -> dict[str, Activations]:
    """The rows of the first `inputs` inputs: what came of padding is left out."""
    return {name: _cut(part, inputs * part.passes) for name, part in layers.items()}


def _cut(part: Activations, end: int) -> Activations:
    return replace(part, mean=part.mean[:end], low=part.low[:end], high=part.high[:end])


def in_a_row(parts: Sequence[Mapping[str, Activations]]) -> dict[str, Activations]:
    """Batches that were traced one after the other as one."""
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(parts: Sequence[Activations]) -> Activations:
    mean, low, high = (np.concatenate([getattr(part, what) for part in parts]) for what in PARTS)
    return replace(parts[0], mean=mean, low=low, high=high)


def library(name: str, extra: str) -> Any:
    """The package called `name`; raises `EnvironmentFault` with what to install where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentFault(f"there is no package '{error.name or name}'; pip install 'swerve[{extra}]'") from error
