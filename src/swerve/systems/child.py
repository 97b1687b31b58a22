"""A running program that is talked to over its pipes: never waited for beyond its time, and never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from swerve.config.limits import MEGA, NOISE
from swerve.core.errors import InputError, Killed, ModelError, OutOfMemory, Timeout, printable
from swerve.systems.wire import CHUNK, missing, unpacked

LIBC = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec
PR_SET_PDEATHSIG = 1
CPU_CLOCK = 2  # of a process, in the id that clock_getcpuclockid(3) makes of a pid
QUOTED = 80  # characters of its last line in a message
GLANCE = 0.2  # seconds between two looks whether it is still there
LAST_READS = 64  # of the stderr of one that died; a child of its own may still be writing
PATIENCE = 1.0  # seconds it has to end by itself once its pipes are closed
# Each language has its own words for it, and no exit status says it; they stand at the end of what a program writes.
MEMORY_WORDS = re.compile(r"MemoryError|bad_alloc|(cannot|can't|could not|unable to) allocate|out of memory", re.IGNORECASE)
MEMORY_PLACE = 2000  # bytes


class Child:
    """A running program: its pipes, none of which blocks, and the last of what it wrote to stderr."""

    def __init__(self, command: Sequence[str], folder: Path | None, memory: int) -> None:
        pipe = subprocess.PIPE
        # Linux ends a child with the thread that started it, so only the main thread, which lasts, may ask for that.
        lasting = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
        try:
            # A session of its own: it can be killed with all its children, and Ctrl-C is ours alone.
            child = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=folder,
                bufsize=0,
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()) if lasting else None,
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{command[0]}: cannot be run: {error}") from error
        assert child.stdin
        assert child.stdout
        assert child.stderr
        self._let_go = weakref.finalize(self, _let_go, child)
        self._pid, self._memory = child.pid, memory
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        for stream in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(stream.fileno(), False)
        self._noise = bytearray()
        _limit(child.pid, memory)

    def ask(self, frame: bytes, number: int, seconds: float) -> dict[str, Any]:
        """The reply to `frame`, which must bear its number."""
        reply = unpacked(self._exchange(memoryview(frame), seconds))
        if reply.get("number") != number:
            raise ModelError(f"it answered question {brief(reply.get('number'))} when asked question {number}")
        if "error" in reply and MEMORY_WORDS.search(str(reply["error"])):
            raise self._out_of_memory(brief(reply["error"]))
        return reply

    def close(self) -> None:
        """Let it end by itself, as its stdin closes."""
        self._let_go()

    def kill(self) -> None:
        """Kill it, with all its children; another thread that waits for its answer hears of its death."""
        if self._let_go.alive:
            _kill(self._pid)

    def end(self) -> None:
        """Kill it, with all its children, and let go of its pipes."""
        self.kill()
        self._let_go()

    def _exchange(self, unsent: memoryview, seconds: float) -> bytearray:
        received, deadline = bytearray(), time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stderr, selectors.EVENT_READ)
            while wanted := missing(received):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Timeout(f"no answer after {seconds:g} s{self._last_words()}")
                gone = _status(self._pid) is not None
                ready = [key.fileobj for key, _ in selector.select(min(left, GLANCE))]
                if gone and not ready:  # a child of its own may hold its stdout open for ever
                    raise self._death()
                if self._stderr in ready and not self._listen():
                    selector.unregister(self._stderr)
                if self._stdin in ready and not (unsent := _sent(self._stdin, unsent)):
                    selector.unregister(self._stdin)
                if self._stdout in ready:
                    chunk = os.read(self._stdout.fileno(), min(wanted, CHUNK))
                    if not chunk:
                        raise self._death()
                    received += chunk
        return received

    def _listen(self) -> bool:
        """Take in what it wrote to stderr; False once that is closed or has nothing more."""
        try:
            chunk = os.read(self._stderr.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self._noise += chunk
        del self._noise[:-NOISE]
        return bool(chunk)

    def _death(self) -> ModelError:
        """Why it gives no answer any more."""
        status = _awaited(self._pid)
        for _ in range(LAST_READS):
            if not self._listen():
                break
        if MEMORY_WORDS.search(self._noise[-MEMORY_PLACE:].decode(errors="replace")):
            return self._out_of_memory("it died" + self._last_words())
        if status is None:
            return ModelError("it closed its stdout without an answer" + self._last_words())
        if status < 0:
            hint = "; the machine may be out of memory" if status == -signal.SIGKILL else ""
            return Killed(f"died by signal {-status} ({_signal_name(-status)}){hint}{self._last_words()}")
        return ModelError(f"ended with code {status} before it answered{self._last_words()}")

    def _out_of_memory(self, told: str) -> OutOfMemory:
        return OutOfMemory(f"out of memory (limit {self._memory / MEGA:g} MB): {told}")

    def _last_words(self) -> str:
        lines = self._noise[-MEMORY_PLACE:].decode(errors="replace").strip().splitlines()
        return f"; its last line: {printable(lines[-1].strip(), QUOTED)}" if lines else ""


def die_with_parent() -> None:
    """End this process when whoever started it ends, even by SIGKILL; where the system cannot, a closed pipe does it."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _die_with(parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:  # it has ended in between
        os._exit(1)


def cpu_seconds() -> float:
    """The CPU time of this process and of all that it started, as far as it can be seen."""
    children = os.times()
    ended = children.children_user + children.children_system
    return time.process_time() + ended + sum(map(_cpu, _descendants(os.getpid())))


def _cpu(pid: int) -> float:
    """The CPU seconds of a process and of those children of it that have ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ended = sum(map(int, words[13:15])) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(~pid << 3 | CPU_CLOCK) + ended  # a tick is longer than many a trial
    except (OSError, ValueError, IndexError):  # it has ended
        return 0.0


def _sent(pipe: IO[bytes], unsent: memoryview) -> memoryview:
    """What is still to be sent."""
    try:
        return unsent[os.write(pipe.fileno(), unsent[:CHUNK]) :]
    except BlockingIOError:
        return unsent
    except BrokenPipeError:  # it reads no more, and may have answered all the same
        return unsent[:0]


def _limit(pid: int, memory: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    with contextlib.suppress(ProcessLookupError):  # it has ended already, which is found out soon enough
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _status(pid: int) -> int | None:
    """The exit code of a child, or minus its signal; None while it runs."""
    try:
        # It stays to be waited for: until then its id, by which it may be killed, is nobody else's.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _awaited(pid: int) -> int | None:
    deadline = time.monotonic() + PATIENCE
    while (status := _status(pid)) is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _kill(pid: int) -> None:
    """Kill a child's group, and the groups of whatever it started: a worker's own program has a session to itself."""
    for one in (*_descendants(pid), pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """All that a process started, and what those started, as far as it can be seen."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, open_ends = [], [pid]
    while open_ends:
        below = parents.get(open_ends.pop(), [])
        found += below
        open_ends += below
    return found


def _let_go(child: subprocess.Popen[bytes]) -> None:
    """Close the pipes, which ends a program that behaves; kill what is left of its group, and leave no zombie."""
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream:
            stream.close()
    _awaited(child.pid)
    _kill(child.pid)
    child.wait()


def brief(text: object) -> str:
    """What a program said, for a message."""
    return printable(str(text), 2 * QUOTED)
