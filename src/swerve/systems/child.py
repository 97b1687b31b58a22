"""A child process that is queried over its pipes, with a time limit, and that never outlives this process."""

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

from swerve.config.limits import MEGA, STDERR
from swerve.core.errors import InputError, Killed, ModelError, OutOfMemory, Timeout, printable
from swerve.systems.wire import CHUNK, missing_bytes, unpack_frame

LIBC = ctypes.CDLL(None)  # loaded here, since nothing may be loaded between fork and exec
PR_SET_PDEATHSIG = 1
CPU_CLOCK = 2  # clock type in the clock ids that clock_getcpuclockid(3) derives from a pid
QUOTED = 80  # characters of its last line in a message
POLL_SECONDS = 0.2  # between checks whether the process is still running
LAST_READS = 64  # reads of the stderr of a dead process, whose own children may still be writing
GRACE_SECONDS = 1.0  # to exit after its pipes are closed
# No exit status means out of memory; each language reports it in its own words, at the end of its output.
MEMORY_WORDS = re.compile(r"MemoryError|bad_alloc|(cannot|can't|could not|unable to) allocate|out of memory", re.IGNORECASE)
MEMORY_TAIL = 2000  # bytes


class Child:
    """A running program: its non-blocking pipes, and the end of its stderr."""

    def __init__(self, command: Sequence[str], folder: Path | None, memory: int) -> None:
        pipe = subprocess.PIPE
        # Linux kills such a child when the thread that started it ends, so only the main thread may request that.
        lasting = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
        try:
            # In its own session it can be killed with all its children, and does not receive Ctrl-C.
            child = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=folder,
                bufsize=0,
                start_new_session=True,
                preexec_fn=partial(_die_with_pid, os.getpid()) if lasting else None,
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{command[0]}: cannot be started: {error}") from error
        assert child.stdin
        assert child.stdout
        assert child.stderr
        self._release = weakref.finalize(self, _release, child)
        self._pid, self._memory = child.pid, memory
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        for stream in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(stream.fileno(), False)
        self._stderr_tail = bytearray()
        _limit_memory(child.pid, memory)

    def ask(self, frame: bytes, number: int, seconds: float) -> dict[str, Any]:
        """The reply to the request `frame`, which must have the same number."""
        reply = unpack_frame(self._exchange(memoryview(frame), seconds))
        if reply.get("number") != number:
            raise ModelError(
                f"the reply has number {brief(reply.get('number'))}, but the request has number "
                f"{number}; a reply must repeat it"
            )
        if "error" in reply and MEMORY_WORDS.search(str(reply["error"])):
            raise self._out_of_memory(brief(reply["error"]))
        return reply

    def close(self) -> None:
        """Close its pipes and wait for it to exit; it is killed if it does not."""
        self._release()

    def kill(self) -> None:
        """Kill it and all its children; a thread that is waiting for its reply gets an error."""
        if self._release.alive:
            _kill(self._pid)

    def end(self) -> None:
        """Kill it and all its children, and close its pipes."""
        self.kill()
        self._release()

    def _exchange(self, unsent: memoryview, seconds: float) -> bytearray:
        received, deadline = bytearray(), time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stderr, selectors.EVENT_READ)
            while wanted := missing_bytes(received):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Timeout(
                        f"the process did not reply within {seconds:g} s; make it faster, or raise "
                        f"its time limit{self._last_line()}"
                    )
                gone = _status(self._pid) is not None
                ready = [key.fileobj for key, _ in selector.select(min(left, POLL_SECONDS))]
                if gone and not ready:  # one of its own children may keep its stdout open forever
                    raise self._failure()
                if self._stderr in ready and not self._read_stderr():
                    selector.unregister(self._stderr)
                if self._stdin in ready and not (unsent := _send(self._stdin, unsent)):
                    selector.unregister(self._stdin)
                if self._stdout in ready:
                    chunk = os.read(self._stdout.fileno(), min(wanted, CHUNK))
                    if not chunk:
                        raise self._failure()
                    received += chunk
        return received

    def _read_stderr(self) -> bool:
        """Read from its stderr; False if that is closed or empty."""
        try:
            chunk = os.read(self._stderr.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self._stderr_tail += chunk
        del self._stderr_tail[:-STDERR]
        return bool(chunk)

    def _failure(self) -> ModelError:
        """The error for a process that stopped replying."""
        status = _wait_for_exit(self._pid)
        for _ in range(LAST_READS):
            if not self._read_stderr():
                break
        if MEMORY_WORDS.search(self._stderr_tail[-MEMORY_TAIL:].decode(errors="replace")):
            return self._out_of_memory("the process died" + self._last_line())
        if status is None:
            return ModelError("the process closed its stdout without a reply" + self._last_line())
        if status < 0:
            hint = "; the machine may be out of memory" if status == -signal.SIGKILL else ""
            return Killed(f"the process was killed by signal {-status} ({_signal_name(-status)}){hint}{self._last_line()}")
        return ModelError(f"the process exited with code {status} before it replied{self._last_line()}")

    def _out_of_memory(self, reason: str) -> OutOfMemory:
        return OutOfMemory(f"out of memory (limit {self._memory / MEGA:g} MB): {reason}")

    def _last_line(self) -> str:
        lines = self._stderr_tail[-MEMORY_TAIL:].decode(errors="replace").strip().splitlines()
        return f"; last line of its stderr: {printable(lines[-1].strip(), QUOTED)}" if lines else ""


def die_with_parent() -> None:
    """Kill this process when its parent ends, even by SIGKILL; on systems other than Linux the closed pipe ends it."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _die_with_pid(parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:  # the parent has ended in the meantime
        os._exit(1)


def cpu_seconds() -> float:
    """The CPU time of this process and all its descendants, as far as /proc shows them."""
    children = os.times()
    ended = children.children_user + children.children_system
    return time.process_time() + ended + sum(map(_cpu, _descendants(os.getpid())))


def _cpu(pid: int) -> float:
    """The CPU seconds of a process and of its children that have ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ended = sum(map(int, words[13:15])) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(~pid << 3 | CPU_CLOCK) + ended  # ticks, as in /proc, are longer than many trials
    except (OSError, ValueError, IndexError):  # it has ended
        return 0.0


def _send(pipe: IO[bytes], unsent: memoryview) -> memoryview:
    """Write what the pipe accepts; returns the rest."""
    try:
        return unsent[os.write(pipe.fileno(), unsent[:CHUNK]) :]
    except BlockingIOError:
        return unsent
    except BrokenPipeError:  # it no longer reads, but may have replied
        return unsent[:0]


def _limit_memory(pid: int, memory: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    with contextlib.suppress(ProcessLookupError):  # it has ended already, which the first request detects
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _status(pid: int) -> int | None:
    """The exit code of a child, or minus its signal; None while it runs."""
    try:
        # WNOWAIT leaves it a zombie, so that its pid, which may still be killed, is not reused.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _wait_for_exit(pid: int) -> int | None:
    deadline = time.monotonic() + GRACE_SECONDS
    while (status := _status(pid)) is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _kill(pid: int) -> None:
    """Kill a child's process group and those of its descendants: a worker's own program has its own session."""
    for one in (*_descendants(pid), pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """The descendants of a process, as far as /proc shows them."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # every end of a child waits for this, so no pathlib
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb", buffering=0) as stat:
            parents.setdefault(int(stat.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found, open_ends = [], [pid]
    while open_ends:
        below = parents.get(open_ends.pop(), [])
        found += below
        open_ends += below
    return found


def _release(child: subprocess.Popen[bytes]) -> None:
    """Close the pipes, on which a program should exit; kill what is left of its group, and reap it."""
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream:
            stream.close()
    _wait_for_exit(child.pid)
    _kill(child.pid)
    child.wait()


def brief(text: object) -> str:
    """Text from a program, shortened for a message."""
    return printable(str(text), 2 * QUOTED)
