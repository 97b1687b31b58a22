"""The system under test, and optional access to its activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from swerve.core.case import Case
from swerve.core.values import Array, Value

Answer = tuple[Value, ...]


@runtime_checkable
class System(Protocol):
    """Anything that answers a batch of cases with values of the same types as labels."""

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        """One answer per case, from one forward pass."""

    def fingerprint(self) -> str:
        """A hash of the weights and everything else that determines the answers."""


@dataclass(frozen=True)
class Activations:
    """The output of one layer for a batch: one number per neuron, and the range of all its outputs.

    A row is one pass through the layer. If a layer runs several times per input, such as an encoder over the frames of a
    window, `passes` consecutive rows belong to each input.
    """

    kind: str  # input, convolution, dense, recurrent or dropout
    mean: Array  # rows x units (feature maps averaged); rows x steps x units for a recurrent layer
    low: Array  # per row, the smallest output of the whole layer
    high: Array  # per row, the largest output
    passes: int = 1
    activated: bool | None = None  # whether the outputs are those of an activation function; None if unknown or no question


@dataclass(frozen=True)
class Traced:
    """Answers together with the activations that produced them."""

    answers: Sequence[Answer]
    layers: Mapping[str, Activations]


@runtime_checkable
class WhiteBox(System, Protocol):
    """A system whose activations can be read.

    The rows of a layer must be in the order of the cases: all passes of the first, then as many of the second. This cannot
    be checked, so a layer that processes the first frame of every window before the second, or has a row per detected
    object, must be reordered or left out. A layer that did not run is not in the trace.
    """

    def layers(self) -> Sequence[str]:
        """The names of the layers that can be traced."""

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        """Answers and activations of one forward pass; the model is left unchanged."""


Window = tuple[float, float, float, float]  # left, top, right, bottom in pixels


@dataclass(frozen=True, eq=False)
class Gradients:
    """The feature maps of one layer, and how a network's number for steering changes with them.

    Args:
        outputs: the number of each case, in the network's own unit and sign.
        features: cases x maps x rows x columns.
        slopes: the derivative of each case's number by its features, of the same shape.
        windows: the part of each case's picture that the maps extend over; it may reach beyond the picture.
    """

    outputs: Array
    features: Array
    slopes: Array
    windows: Sequence[Window]


@runtime_checkable
class Differentiable(WhiteBox, Protocol):
    """A white box through which gradients can be taken."""

    def gradients(self, cases: Sequence[Case], layer: str) -> Gradients:
        """Feature maps and gradients of a convolution layer; the model is left unchanged."""
