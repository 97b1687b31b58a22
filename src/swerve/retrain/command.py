"""Runs the user's own training command on an exported set: without a shell, with a time limit, its output in a log."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from swerve.core.errors import EnvironmentFault, InputError, did_you_mean, printable

IN_BRACES = re.compile(r"\{([a-z_]+)\}")
LAST_LINES = 8
LONGEST_LINE = 200
GRACE = 5.0  # seconds between SIGTERM and SIGKILL


class CommandFailed(InputError):
    """A command failed; `changed` holds the last lines of its output."""

    def __init__(self, why: str, log: Path) -> None:
        self.details = tuple(last_lines(log))
        super().__init__(f"{why}; its full output is in {log}")


def arguments_of(command: str, places: Mapping[str, object]) -> list[str]:
    """The command as arguments; `{train}` and the like are replaced after splitting, so that no path becomes two words."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command cannot be parsed ({error}): {command}") from error
    if not words:
        raise InputError("the training command (--command) is empty")

    def place(found: re.Match[str]) -> str:
        if found[1] not in places:
            raise InputError(f"the command has an unknown placeholder {found[0]}; {did_you_mean(found[1], places)}")
        return str(places[found[1]])

    return [IN_BRACES.sub(place, word) for word in words]


def run_command(
    arguments: Sequence[str], log: Path, *, seconds: float | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Run a command with its output in `log`; raises unless it exits with code 0 within `seconds`."""
    who = printable(arguments[0], 80)
    try:
        with (
            log.open("wb") as file,
            subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # a process group of its own, so that its children can be stopped too
            ) as process,
        ):
            code = _wait(process, seconds)
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        if error.filename and str(error.filename) == str(log):
            raise EnvironmentFault(f"{log}: cannot be written: {error.strerror}") from error
        raise InputError(f"the command '{who}' cannot be run: {error.strerror}") from error
    if code is None:
        raise CommandFailed(f"the command '{who}' was stopped after {seconds:g} seconds", log)
    if code:
        how = f"failed with exit code {code}" if code > 0 else f"was ended by signal {signal.Signals(-code).name}"
        raise CommandFailed(f"the command '{who}' {how}", log)


def _wait(process: subprocess.Popen[bytes], seconds: float | None) -> int | None:
    """The exit code, or None after `seconds`; a command that is stopped is stopped with all its children."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        _stop(process)
        return None
    except BaseException:
        _stop(process)
        raise


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        os.killpg(process.pid, signal.SIGKILL)


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """The last lines of a log that are not empty, each cut to a readable length."""
    with log.open(encoding="utf-8", errors="replace") as file:
        return [printable(line.rstrip(), LONGEST_LINE) for line in deque((line for line in file if line.strip()), count)]
