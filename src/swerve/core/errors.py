"""The errors that Swerve raises, and the exit code of each.

SwerveError
├── InputError            2   a file, key or value given by the user
│   ├── SpecError             a campaign that cannot be read
│   ├── UnmappedError         a change that does not define what it does to a value
│   ├── UnreadableCase        one case that cannot be read (skipped and counted)
│   └── StoreError            a run folder that is damaged, belongs to another campaign, or is not one
├── ModelError            3   the system under test failed, on one case or on all
│   ├── Timeout               it took too long and was stopped
│   ├── OutOfMemory           it exceeded its memory limit
│   └── Killed                it was killed by a signal
├── EnvironmentFault      4   disk, permission, lock, missing package
└── NotApplicable         -   a change that cannot be applied to this case (skipped and counted)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

LONGEST_MESSAGE = 300


class SwerveError(Exception):
    """An error whose message is shown to the user as one sentence, without a traceback; `details` are lines below it."""

    exit_code = 2
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return printable(super().__str__(), LONGEST_MESSAGE)


class InputError(SwerveError):
    """An input given by the user cannot be used."""


class SpecError(InputError):
    """A campaign file or constructor argument that cannot be used."""


class UnmappedError(InputError):
    """A transformation was applied to a value that it neither changes nor declares as preserved."""


class UnreadableCase(InputError):
    """A case that cannot be read; the campaign counts it as skipped and continues."""


class StoreError(InputError):
    """A run folder that cannot be resumed or read."""


class ModelError(SwerveError):
    """The system under test could not answer; `kind` is a value of `relation.Fault`."""

    exit_code = 3
    kind: ClassVar[str] = "model"


class Timeout(ModelError):
    """The system under test took too long and was stopped."""

    kind = "timeout"


class OutOfMemory(ModelError):
    """The system under test exceeded its memory limit."""

    kind = "oom"


class Killed(ModelError):
    """The system under test was killed by a signal."""

    kind = "signal"


class EnvironmentFault(SwerveError):
    """The environment failed: disk, permission, lock or a missing package."""

    exit_code = 4


class NotApplicable(SwerveError):
    """A change cannot be applied to this case; the trial is recorded as skipped."""


def printable(text: str, longest: int | None = None) -> str:
    """`text` on one line with control characters escaped, truncated to `longest` characters."""
    shown = text if longest is None else text[: longest + 1]  # a text of the user's may have millions of characters
    clean = "".join(ch if ch.isprintable() else f"\\x{ord(ch):02x}" for ch in shown)
    if longest is not None and len(clean) > longest:
        return clean[: longest - 1] + "…"
    return clean


def unknown(what: str, given: object, known: Iterable[str]) -> str:
    """The message for a name that is not in a list: `unknown kind 'sourcs'; did you mean 'sources'?`."""
    return f"unknown {what} {printable(repr(given), 40)}; {did_you_mean(str(given), known)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as `did you mean 'rotate'?`, or the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(names) if names else "no names are known"
