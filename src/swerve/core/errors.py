"""Everything Swerve raises on purpose, and the exit code each one ends the command with.

SwerveError
├── InputError            2   a file, key or value the user gave
│   ├── SpecError             a campaign that does not read
│   ├── UnmappedError         a change that does not say what it does to a value
│   ├── UnreadableCase        one case that does not read (a counted skip, not a stop)
│   └── StoreError            a run folder that is another campaign's, torn or not one
├── ModelError            3   the system under test failed, on one case or on every one
│   ├── Timeout               it took too long and was ended
│   ├── OutOfMemory           it asked for more memory than it may have
│   └── Killed                it died by a signal
├── EnvironmentFault      4   disk, permission, lock, missing package
└── NotApplicable         -   a change that cannot be made to this case (a counted skip)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

LONGEST_MESSAGE = 300


class SwerveError(Exception):
    """An error whose message is one sentence for the user; shown without a traceback."""

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__(), LONGEST_MESSAGE)


class InputError(SwerveError):
    """Something the user gave cannot be used."""


class SpecError(InputError):
    """A campaign file or constructor argument that cannot be used."""


class UnmappedError(InputError):
    """A transformation met a value it neither changes nor declares preserved."""


class UnreadableCase(InputError):
    """A case that cannot be read; the campaign counts it as skipped and goes on."""


class StoreError(InputError):
    """A run folder that cannot be continued or read."""


class ModelError(SwerveError):
    """The system under test could not answer; `kind` says how, in the words of `relation.Fault`."""

    exit_code = 3
    kind: ClassVar[str] = "model"


class Timeout(ModelError):
    """The system under test took too long and was ended."""

    kind = "timeout"


class OutOfMemory(ModelError):
    """The system under test asked for more memory than it may have."""

    kind = "oom"


class Killed(ModelError):
    """The system under test died by a signal."""

    kind = "signal"


class EnvironmentFault(SwerveError):
    """The machine refused: disk, permission, lock or a missing package."""

    exit_code = 4


class NotApplicable(SwerveError):
    """A change cannot be made to this case; the trial is recorded as skipped."""


def printable(text: str, longest: int | None = None) -> str:
    """`text` on one line with control characters spelt out, cut to `longest` characters."""
    clean = "".join(ch if ch.isprintable() else f"\\x{ord(ch):02x}" for ch in text)
    if longest is not None and len(clean) > longest:
        return clean[: longest - 1] + "…"
    return clean


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as `did you mean 'rotate'?`, or the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(names) if names else "nothing is known here"
