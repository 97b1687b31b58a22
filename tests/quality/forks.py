"""Workers forked from a process that has imported everything: those that Swerve starts, but for the start.

A template is a descendant of the process that wants workers. It forks twice for each, so that a worker becomes the child of
whoever wants it: it can be waited for, is killed with it, and shows the command line of one that was started.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from swerve.execution.executors.processes import BOOT
from swerve.execution.executors.worker import main as work
from swerve.systems.child import LIBC, die_with_parent

PR_SET_CHILD_SUBREAPER = 36
LONGEST = 1 << 17  # bytes of a command
ROOM = "-" * 16_000  # an argument in whose place a worker writes its command line
ARGUMENTS = slice(45, 47)  # where they start and end, in /proc/self/stat after the name
POPEN = subprocess.Popen
KEPT = contextlib.ExitStack()  # what stays in use until the process ends; a context that nobody holds is left at once


class Forked:
    """A forked worker, as far as `Child` looks at what it started."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = io.FileIO(stdin, "w"), io.FileIO(stdout), io.FileIO(stderr)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Template:
    """The process that forks, seen from the one that wants workers."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._guard = link, threading.Lock()
        self._module = ""

    def start(self, command: Sequence[str], *rest: Any, **how: Any) -> Any:
        """In place of `subprocess.Popen`: workers are forked, everything else is started."""
        if BOOT not in command:
            return POPEN(command, *rest, **how)
        (asked, asking), (saying, said), (telling, told) = os.pipe(), os.pipe(), os.pipe()
        theirs = (asked, said, told)
        with self._guard:
            asked_for = {"command": [*command], "folder": os.getcwd(), "variables": {**os.environ}}
            socket.send_fds(self._link, [json.dumps([self._module, asked_for]).encode()], theirs)
            pid = int(self._link.recv(32))
        for one in theirs:
            os.close(one)
        return Forked(pid, asking, saying, telling)

    def close(self) -> None:
        """Have the process end."""
        self._link.close()

    @contextlib.contextmanager
    def in_use(self, module: str = "") -> Iterator[None]:
        """All workers of this process are forked meanwhile, once the template has imported a further module."""
        self._module = module
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        subprocess.Popen = self.start  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            subprocess.Popen = POPEN  # type: ignore[misc]
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def fork_workers() -> None:
    """Have this process, which is a fork itself and has no threads yet, fork its workers from now on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        ours.close()
        os.setsid()
        serve_workers(theirs)
    theirs.close()
    KEPT.enter_context(Template(ours).in_use())


def serve_workers(link: socket.socket) -> NoReturn:
    """Be a template: fork a worker whenever the other end of the link asks for one."""
    die_with_parent()
    while True:
        asked, pipes, _, _ = socket.recv_fds(link, LONGEST, 3)
        if not asked:
            os._exit(0)
        module, wanted = json.loads(asked)
        if module:
            importlib.import_module(module)
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            between = os.getpid()
            worker = os.fork()
            if worker:
                os.write(writing, str(worker).encode())
                os._exit(0)
            for one in (reading, writing, link.detach()):
                os.close(one)
            _become(**wanted, pipes=pipes, between=between)
        os.waitpid(between, 0)  # from now on the worker is the child of whoever wants it
        link.send(os.read(reading, 32))
        for one in (reading, writing, *pipes):
            os.close(one)


def _become(command: Sequence[str], folder: str, variables: dict[str, str], pipes: Sequence[int], between: int) -> NoReturn:
    """Be the worker that the command starts, as soon as the process in between has ended."""
    code: Any = 1
    try:
        os.setsid()
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        _show(command)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        while os.getppid() == between:
            time.sleep(0.001)
        place = command.index(BOOT) + 1
        sys.path[:] = json.loads(command[place])
        sys.argv[1:] = command[place + 1 :]
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _show(command: Sequence[str]) -> None:
    """Have /proc tell this command line."""
    start, end = (int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[ARGUMENTS])
    line = b"\0".join(word.encode() for word in command)[: end - start - 1]
    ctypes.memmove(start, line + bytes(end - start - len(line)), end - start)
