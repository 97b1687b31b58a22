"""Runs the command in a child process, so that its exit code never comes from the system under test (R73).

A system may end its process with any exit code, fork it, close its descriptors, or leave threads that never end. So the
command forks first: the child does the work and leaves its exit code in memory that both share, and the parent returns only
that.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn

MODEL_FAILED = 3
DEATH_OF_PARENT, ADOPT_ORPHANS = 1, 36  # prctl's PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER
PATIENCE = 5.0  # seconds that the child has to end after its report: threads of the system may run for ever
POLL = 0.5  # seconds
SENT_BY_KERNEL = 128  # si_code of a Ctrl-C at the terminal, which reaches the child too
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopped(BaseException):
    """SIGTERM arrived."""

    exit_code = 128 + signal.SIGTERM


STOPS = (KeyboardInterrupt, Stopped)  # raised by the user's signals; any other exception comes from code


def stop(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM: raise `Stopped` once, as a second one must not interrupt the clean-up of workers."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise Stopped


def leave_if_forked(pid: int) -> None:
    """End this process if it is not `pid`: the system forked it, and the copy must not continue the run."""
    if os.getpid() != pid:
        os._exit(MODEL_FAILED)


def supervised(main: Callable[[], int]) -> int:
    """The exit code of `main`, run in a child process; 3 if the child ended without reporting one."""
    if not hasattr(os, "fork") or sys.platform != "linux":
        return main()
    report = _Report()
    waiting = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    parent = os.getpid()
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
    child = os.fork()
    if not child:
        _work(main, report, parent, waiting)
    status = _wait(child, report)
    _end_orphans()
    code = report.code
    return _unreported(status, waiting) if code is None else code


class _Report:
    """The exit code that the child has reported, in memory that it shares with its parent; no descriptor leads to it."""

    _FORM = struct.Struct("=?i")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._FORM.size)

    @property
    def code(self) -> int | None:
        """The exit code, or None before there is one."""
        known, code = self._FORM.unpack_from(self._memory)
        return code if known else None

    def send(self, code: int) -> None:
        """Report the exit code."""
        self._FORM.pack_into(self._memory, 0, True, code)


def _work(main: Callable[[], int], report: _Report, parent: int, mask: Iterable[int]) -> NoReturn:
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
    except SystemExit as error:  # from argparse
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # the message of an error could not be printed, as the system closed the streams
        with contextlib.suppress(Exception):
            traceback.print_exc()
        os._exit(MODEL_FAILED)
    leave_if_forked(here)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    report.send(code)
    sys.exit(code)


def _wait(child: int, report: _Report) -> int:
    """The wait status of the child; signals that only the parent got are passed on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    ends = math.inf
    while True:
        info = signal.sigtimedwait({*PASSED_ON, signal.SIGCHLD}, POLL)
        # After a stop longer than POLL (Ctrl-Z and fg), Python returns a signal that nobody sent.
        if info is not None and info.si_signo in PASSED_ON:
            if info.si_code != SENT_BY_KERNEL or os.getpgid(child) != os.getpgrp():
                os.kill(child, info.si_signo)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if report.code is not None:
            ends = min(ends, time.monotonic() + PATIENCE)
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)


def _end_orphans() -> None:
    """Kill the processes that the system left running."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for pid in map(int, children):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _unreported(status: int, mask: Iterable[int]) -> int:
    """The exit code if the child reported none."""
    if -status in PASSED_ON:  # such as a second Ctrl-C
        signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.kill(os.getpid(), -status)
    how = f"died by signal {-status}" if status < 0 else f"ended with code {status}"
    print(f"error: the system under test ended the run: its process {how} before there was a result", file=sys.stderr)
    return MODEL_FAILED
