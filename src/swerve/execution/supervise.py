"""The command in a process of its own, so that its exit code never comes from the system under test (R73).

A system may end the process that it runs in, with any exit code, or fork it. So the command forks first: the child does the
work and reports its exit code over a pipe, and the parent passes on that report alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn

MODEL_FAILED = 3
DEATH_OF_PARENT, ADOPT_ORPHANS = 1, 36  # prctl's PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER
SENT_BY_KERNEL = 128  # si_code of a Ctrl-C at the terminal, which reaches the child too
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopped(BaseException):
    """SIGTERM arrived."""

    exit_code = 128 + signal.SIGTERM


STOPS = (KeyboardInterrupt, Stopped)  # what a user raises from outside; any other exception comes from code


def stop(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM: raise `Stopped` once, as a second one must not cut short what ends the workers."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise Stopped


def leave_if_forked(pid: int) -> None:
    """End this process if it is not `pid`: a system forked it, and its copy must not go on with the run."""
    if os.getpid() != pid:
        os._exit(MODEL_FAILED)


def supervised(main: Callable[[], int]) -> int:
    """The exit code of `main`, run in a child process; 3 if the child ended without saying one."""
    if not hasattr(os, "fork") or sys.platform != "linux":
        return main()
    reading, writing = os.pipe()
    waiting = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    parent = os.getpid()
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
    child = os.fork()
    if not child:
        os.close(reading)
        _work(main, writing, parent, waiting)
    os.close(writing)
    status = _wait(child)
    _end_orphans()
    os.set_blocking(reading, False)  # a process that the system left behind may hold the other end
    with contextlib.suppress(BlockingIOError), open(reading, "rb", buffering=0) as pipe:
        if said := pipe.read(8):
            return int(said)
    return _unsaid(status, waiting)


def _work(main: Callable[[], int], writing: int, parent: int, mask: Iterable[int]) -> NoReturn:
    """Run `main`, report its exit code and exit."""
    ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended in between
        os._exit(MODEL_FAILED)
    if not os.isatty(0):
        os.setpgid(0, 0)  # what is sent to the group of the command comes from the parent, once
    here = os.getpid()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        code = main()
    except SystemExit as ended:  # of the command line: argparse
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    leave_if_forked(here)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os.write(writing, str(code).encode())
    sys.exit(code)


def _wait(child: int) -> int:
    """The wait status of the child; signals that only the parent got are passed on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        info = signal.sigwaitinfo({*PASSED_ON, signal.SIGCHLD})
        if info.si_signo != signal.SIGCHLD:
            if info.si_code != SENT_BY_KERNEL or os.getpgid(child) != os.getpgrp():
                os.kill(child, info.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


def _end_orphans() -> None:
    """Kill what the system started and left behind."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for pid in map(int, children):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _unsaid(status: int, mask: Iterable[int]) -> int:
    """The exit code where the child reported none."""
    if -status in PASSED_ON:  # such as a second Ctrl-C
        signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.kill(os.getpid(), -status)
    how = f"died by signal {-status}" if status < 0 else f"ended with code {status}"
    print(f"error: the system under test ended the run: its process {how} before there was a result", file=sys.stderr)
    return MODEL_FAILED
