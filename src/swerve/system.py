"""The system under test, and what may be seen of its inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from swerve.case import Case
from swerve.values import Array, Value

Answer = tuple[Value, ...]


@runtime_checkable
class System(Protocol):
    """Anything that answers a batch of cases, saying values shaped like the truth."""

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        """One answer per case, from one forward pass."""

    def fingerprint(self) -> str:
        """A hash of the weights and of everything else that decides the answers."""


@dataclass(frozen=True)
class Traced:
    """Answers together with the activations that led to them."""

    answers: Sequence[Answer]
    layers: Mapping[str, Array]  # n x units, per layer


@runtime_checkable
class WhiteBox(System, Protocol):
    """A system whose activations can be read."""

    def layers(self) -> Sequence[str]:
        """The names of the layers that can be traced."""

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        """Answers and activations of one forward pass; the model is left as it was found."""


@runtime_checkable
class Differentiable(WhiteBox, Protocol):
    """A system whose decision can be traced back to its input."""

    def saliency(self, cases: Sequence[Case], layer: str) -> Sequence[Array]:
        """One heat map over the input per case."""
