"""A case: what the sensors saw, what is true of it, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from swerve.core.seeding import digest_of
from swerve.core.values import Value

Fact = float | str


@dataclass(frozen=True)
class Case:
    """One situation: sensor inputs by name, the truth, and the drive or scene it belongs to."""

    key: str
    inputs: Mapping[str, Value]
    truth: tuple[Value, ...] = ()
    group: str = ""  # drive or scene: leak-free splits go by it
    parent: str | None = None  # the source's key, on a follow-up
    facts: Mapping[str, Fact] = field(default_factory=dict)  # what the change measured while it was made

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise TypeError(f"a case's key must be a text, got {type(self.key).__name__}")
        for what, value in (
            *((f"input '{name}'", item) for name, item in self.inputs.items()),
            *(("truth", v) for v in self.truth),
        ):
            if not isinstance(value, Value):
                raise TypeError(
                    f"{what} of {self.key!r} must be a value such as Image or Steering, got {type(value).__name__}"
                )
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        object.__setattr__(self, "truth", tuple(self.truth))

    @property
    def input_sha(self) -> str:
        """The sha256 of all inputs: two cases with the same one look alike to any system."""
        return digest_of({name: value.digest for name, value in self.inputs.items()})


@runtime_checkable
class Source(Protocol):
    """Where cases come from.

    A source may also offer `group(key)`, the drive of a key without reading its case, and `holds(key)`, the frames that a
    case is made of, where it is made of several.
    """

    def keys(self) -> Sequence[str]:
        """Every case's key, in a stable order."""

    def __getitem__(self, key: str) -> Case:
        """The case; raises `UnreadableCase` for one that cannot be read."""

    def fingerprint(self) -> str:
        """A hash that changes when any case changes."""


def group_of(source: Source, key: str) -> str:
    """The drive or scene of `key`, without reading the case where the source can tell."""
    tell = getattr(source, "group", None)
    return str(tell(key)) if callable(tell) else source[key].group
