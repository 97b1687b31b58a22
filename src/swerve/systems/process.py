"""Any external program as a system: started on first use, limited in time and memory, restarted when it fails."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swerve.config.limits import MEMORY, SECONDS
from swerve.core.arguments import check_number, take_paths
from swerve.core.case import Case
from swerve.core.encode import JSON
from swerve.core.errors import InputError, ModelError, did_you_mean, printable
from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.systems.child import Child, brief
from swerve.systems.wire import PROTOCOL, pack_frame, values_of

PYTHON = "python"


@dataclass(frozen=True)
class Process:
    """A program that replies to frames on its stdin with frames on its stdout (docs/process.md).

    Args:
        command: the program and its arguments, as a list; no shell is involved. `python` is the Python that runs Swerve.
        seconds: the time limit to start, and then for each batch.
        memory: the limit of its address space in bytes.
        restarts: the maximum number of consecutive restarts after failures.
        sensors: the inputs it receives; all if empty.
        folder: its working directory, to which file names in `command` are relative.
    """

    command: tuple[str, ...]
    seconds: float = SECONDS
    memory: int = MEMORY
    restarts: int = 3
    sensors: tuple[str, ...] = ()
    folder: Path | None = None
    _program: _Program = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        take_paths(self)
        _check_command(self.command)
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "sensors", tuple(self.sensors))
        for name, low in (("seconds", 0), ("memory", 0), ("restarts", -1)):
            check_number(name, getattr(self, name), low, above=True, error=InputError)
        _check_program(self.command[0], self.folder)
        object.__setattr__(self, "_program", _Program(self))

    @property
    def name(self) -> str:
        """The command, shortened for messages."""
        words = [os.path.basename(word) if os.path.isabs(word) else word for word in self.command]
        return printable(" ".join(words), 60)

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        if not cases:
            return []
        request = {"ask": "answers", "cases": [self._encode(case) for case in cases]}
        with _named(self.name):
            return _answers(self._program.ask(request), len(cases))

    def fingerprint(self) -> str:
        """A hash of the program's own name and fingerprint, its command, and every file in the command."""
        with _named(self.name):
            hello = self._program.hello()
        files = [(self.folder or Path()) / word for word in self.command]
        return digest_of("Process", self.command, hello, [_sha(file) for file in files if os.path.isfile(file)])

    def close(self) -> None:
        """Stop the program; the next request starts it again."""
        self._program.close()

    def _encode(self, case: Case) -> JSON:
        for name in self.sensors:
            if name not in case.inputs:
                raise InputError(f"case {case.key} has no input '{name}'; {did_you_mean(name, case.inputs)}")
        return {"key": case.key, "inputs": {name: case.inputs[name] for name in self.sensors or case.inputs}}


def _check_command(command: object) -> None:
    if not isinstance(command, list | tuple) or not command or not all(isinstance(word, str) for word in command):
        raise InputError(f"'command' must be a list such as ['python', 'drive.py'], got {command!r}")


def _check_program(program: str, folder: Path | None) -> None:
    if program == PYTHON:
        return
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: no such folder to run {program} in")
    known = os.access((folder or Path()) / program, os.X_OK) if "/" in program else shutil.which(program)
    if not known:
        raise InputError(f"{program}: no such program, or it is not executable")


def _sha(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def _named(program: str) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        raise type(error)(f"{program}: {error}") from error


def _answers(reply: dict[str, Any], count: int) -> list[Answer]:
    if "error" in reply:
        raise ModelError(brief(reply["error"]))
    rows = reply.get("answers")
    if not isinstance(rows, list):
        raise ModelError("the reply must have 'answers', a list, or 'error'; it has neither")
    if len(rows) != count:
        raise ModelError(f"the program returned {len(rows)} answers for {count} cases; it must return one for each")
    return [values_of(row) for row in rows]


class _Program:
    """A program and its number of consecutive failures; used by one thread at a time."""

    def __init__(self, settings: Process) -> None:
        first, *rest = settings.command
        self._command, self._folder = (sys.executable if first == PYTHON else first, *rest), settings.folder
        self._seconds, self._memory, self._restarts = settings.seconds, int(settings.memory), settings.restarts
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._child: Child | None = None
        self._hello: list[str] | None = None
        self._failed = 0
        self._why = ""

    def ask(self, request: dict[str, JSON]) -> dict[str, Any]:
        """The reply to one request; a program that fails is killed, and started again for the next."""
        number = next(self._numbers)
        frame = pack_frame({**request, "number": number})
        with self._watched():
            reply = self._running().ask(frame, number, self._seconds)
            self._failed = 0
            return reply

    def hello(self) -> list[str]:
        """The program's name and fingerprint, as it reports them."""
        with self._watched():
            if self._hello is None:
                self._running()
            assert self._hello is not None
            return self._hello

    def close(self) -> None:
        """Stop the program, if it runs."""
        with self._lock:
            if self._child is not None:
                self._child.close()
                self._child = None

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        with self._lock:
            if self._failed > self._restarts:
                raise ModelError(
                    f"the program is not started again after {self._failed} failures in a row; the last one: {self._why}"
                )
            try:
                yield
            except ModelError as error:
                self._failed, self._why = self._failed + 1, str(error)
                self._end()
                raise
            except BaseException:  # such as Ctrl-C: its reply would be mistaken for the next one
                self._end()
                raise

    def _running(self) -> Child:
        if self._child is None:
            self._child = Child(self._command, self._folder, self._memory)
            frame = pack_frame({"ask": "hello", "protocol": PROTOCOL, "number": 0})
            hello = _hello(self._child.ask(frame, 0, self._seconds))
            if self._hello not in (None, hello):
                raise ModelError(
                    f"the program reported the name and fingerprint {self._hello} at first, but "
                    f"{hello} after a restart; they must not change"
                )
            self._hello = hello
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


def _hello(reply: dict[str, Any]) -> list[str]:
    if "error" in reply:
        raise ModelError(brief(reply["error"]))
    if reply.get("protocol") != PROTOCOL:
        raise ModelError(f"the program uses protocol {brief(reply.get('protocol'))}, expected {PROTOCOL}")
    return [str(reply.get(key, "")) for key in ("name", "fingerprint")]
