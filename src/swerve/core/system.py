"""The system under test, and what may be seen of its inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from swerve.core.case import Case
from swerve.core.values import Array, Value

Answer = tuple[Value, ...]


@runtime_checkable
class System(Protocol):
    """Anything that answers a batch of cases, saying values shaped like the truth."""

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        """One answer per case, from one forward pass."""

    def fingerprint(self) -> str:
        """A hash of the weights and of everything else that decides the answers."""


@dataclass(frozen=True)
class Activations:
    """What one layer put out for a batch: a number per neuron, and the span of everything the layer put out.

    A row is one pass through the layer. Where a layer runs several times for an input, as an encoder does over the
    frames of a window, `passes` neighbouring rows belong to that input.
    """

    kind: str  # input, convolution, dense, recurrent or dropout
    mean: Array  # rows x units, a feature map as its mean; rows x steps x units of a recurrent layer
    low: Array  # per row, the smallest number of the whole layer
    high: Array  # per row, the largest
    passes: int = 1


@dataclass(frozen=True)
class Traced:
    """Answers together with the activations that led to them."""

    answers: Sequence[Answer]
    layers: Mapping[str, Activations]


@runtime_checkable
class WhiteBox(System, Protocol):
    """A system whose activations can be read.

    The rows of a layer are in the order of the cases: all passes of the first, then as many of the second. Nothing in the
    numbers tells whether they are, so a layer that takes the first frame of every window before the second, or has a row
    per object found, must be brought into this order or left out. A layer that took no part is not in the trace.
    """

    def layers(self) -> Sequence[str]:
        """The names of the layers that can be traced."""

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        """Answers and activations of one forward pass; the model is left as it was found."""


@runtime_checkable
class Differentiable(WhiteBox, Protocol):
    """A system whose decision can be traced back to its input."""

    def saliency(self, cases: Sequence[Case], layer: str) -> Sequence[Array]:
        """One heat map over the input per case."""
