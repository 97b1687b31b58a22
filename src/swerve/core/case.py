"""A case: sensor inputs, labels, and the source they come from."""

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
    """One driving situation: named sensor inputs, labels, and the drive or scene it belongs to."""

    key: str
    inputs: Mapping[str, Value]
    truth: tuple[Value, ...] = ()
    group: str = ""  # drive or scene; splits keep a group together to avoid leaks
    parent: str | None = None  # key of the source case, if this is a follow-up
    facts: Mapping[str, Fact] = field(default_factory=dict)  # measured while the change was applied

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise TypeError(f"the key of a case must be a string, got {type(self.key).__name__}")
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
        """The sha256 of all inputs."""
        return digest_of({name: value.digest for name, value in self.inputs.items()})


@runtime_checkable
class Source(Protocol):
    """A collection of cases.

    A source may also have `group(key)`, which returns the drive of a case without reading it, `holds(key)`, which
    returns the frames of a case that consists of several, and `columns(key)`, which returns what the data set says of a
    case besides its labels, such as the weather, by name.
    """

    def keys(self) -> Sequence[str]:
        """The keys of all cases, in a stable order."""

    def __getitem__(self, key: str) -> Case:
        """The case of that key; raises `UnreadableCase` if it cannot be read."""

    def fingerprint(self) -> str:
        """A hash that changes when any case changes."""


def group_of(source: Source, key: str) -> str:
    """The drive or scene of `key`, without reading the case if the source has `group`."""
    group = getattr(source, "group", None)
    return str(group(key)) if callable(group) else source[key].group


def columns_of(source: Source, key: str) -> dict[str, Fact]:
    """What the data set says of `key` besides its labels, if the source, or the one that it wraps, has `columns`."""
    columns = getattr(source, "columns", None)
    if callable(columns):
        return dict(columns(key))
    inner = getattr(source, "source", None)
    return columns_of(inner, key) if isinstance(inner, Source) else {}
