"""Campaigns in processes of their own, to be cut short there, and compared byte by byte."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from swerve.core.names import all_names
from swerve.core.seeding import rng_for
from swerve.execution.supervise import supervised as supervise
from swerve.store.fingerprint import package_fingerprint
from swerve.store.view import Run
from tests.quality.forks import ROOM, Template, serve_workers

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("SWERVE_SOAK") == "1"
BESIDE = {"timings.json", ".lock"}  # when and where a run took place is told here alone
LONGEST = 300  # seconds that any of these campaigns may take
NEVER = 120  # seconds after which what should happen soon never will: a busy machine is no fault


def command(file: Path, folder: Path, *words: str, verb: str = "run") -> list[str]:
    return [verb, str(file), "--into", str(folder), "--no-report", *words]


def start(words: Sequence[str], *, code: str = "", **how: Any) -> subprocess.Popen[str]:
    """The command in a process group of its own; `code` is run before."""
    script = f"{code}\nimport sys; from swerve.cli.main import console; sys.exit(console())"
    return subprocess.Popen(
        [sys.executable, "-c", script, *words] if code else [sys.executable, "-m", "swerve.cli.main", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"env": environment(), "cwd": ROOT, **how},
    )


def environment(**more: str) -> dict[str, str]:
    """The variables of a child, which finds the modules of the tests."""
    paths = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1", **more}


def finish(words: Sequence[str], **how: Any) -> tuple[int, str]:
    """The exit code of a command and what it wrote to stderr."""
    process = start(words, **how)
    _, errors = process.communicate(timeout=LONGEST)
    return process.returncode, errors


def content(folder: Path, beside: set[str] = BESIDE) -> dict[str, bytes]:
    """Every file that must not depend on when a run took place."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in beside]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_same(found: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> None:
    """Byte for byte; a failure names the files, not their content."""
    names = found.keys() | wanted.keys()
    differing = sorted(name for name in names if found.get(name) != wanted.get(name))
    assert not differing, f"these differ: {', '.join(differing)}"


def assert_each_once(folder: Path) -> None:
    """No trial is in the journal twice, and no finding."""
    trials = [(row["case"], row["rule"], row["draw"]) for row in Run(folder).trials()]
    assert len(trials) == len(set(trials))
    found = [finding.id for finding in Run(folder).findings()]
    assert len(found) == len(set(found)) > 0


def workers_of(folder: Path) -> list[int]:
    """The ids of the worker processes of a run."""
    told = str(folder.resolve()).encode()
    lines = ((path, command_line(path)) for path in Path("/proc").glob("[0-9]*/cmdline"))
    return [int(path.parent.name) for path, line in lines if told in line and b"swerve.execution.executors" in line]


def at_work(process: int) -> int:
    """The process that does the work of a command: its first child, where it is supervised, or itself."""
    try:
        return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])
    except (OSError, IndexError):  # it has not started yet, is not supervised, or has ended
        return process


def command_line(path: Path) -> bytes:
    """What `/proc` has of a command; empty if the process has just ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def until(done: Any, seconds: float = NEVER, pause: float = 0.002) -> float:
    """Wait for `done()`; the seconds that took."""
    started = time.monotonic()
    while not done():
        assert time.monotonic() - started < seconds, "it never happened"
        time.sleep(pause)
    return time.monotonic() - started


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote; the code is minus the signal that killed it."""

    code: int
    errors: str
    output: str = ""


class Cradled:
    """A command that a nursery has started: as a `Popen` in a process group of its own."""

    def __init__(self, pid: int, errors: Path, wait: Callable[[int], int]) -> None:
        self.pid, self.returncode = pid, None
        self._errors, self._wait, self._watch = errors, wait, os.pidfd_open(pid)

    def poll(self, seconds: float = 0) -> int | None:
        """Its exit code once it has ended, for which it has so long."""
        if self.returncode is None and select.select([self._watch], [], [], seconds)[0]:
            os.close(self._watch)
            self.returncode: int | None = self._wait(self.pid)
        return self.returncode

    def communicate(self, timeout: float = LONGEST) -> tuple[str, str]:
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return "", self._errors.read_text()


class Nursery:
    """A process that has imported everything, `more` too, and forks for each command: a start costs next to nothing."""

    def __init__(self, *more: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.workers = Template(ours)  # forked from the same process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.quality.children", ROOM, str(theirs.fileno()), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(PYTHONDONTWRITEBYTECODE="1"),
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.workers.close()
        self._process.communicate()

    def run(
        self,
        words: Sequence[str],
        arm: str = "",
        *given: Any,
        supervised: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Carry a command out, `supervised` as in a shell; before, call the function `module:name` with what is given."""
        place = {"cwd": str(cwd or ""), "env": dict(env or {})}
        return Ended(**self._asked("run", list(words), arm, given, supervised, place))

    def load(self, module: str) -> Self:
        """Import one more module, for all commands to come."""
        self._asked("load", module)
        return self

    def start(self, words: Sequence[str], errors: Path, arm: str = "", *given: Any) -> Cradled:
        """Have a command begin, which writes its errors to a file."""
        return Cradled(self._asked("start", list(words), arm, given, str(errors)), errors, self._wait)

    def _wait(self, pid: int) -> int:
        return int(self._asked("wait", pid))

    def _asked(self, *question: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def _nurse() -> None:
    parts = (
        "cli.main",
        "cli.run",
        "cli.shrink",
        "execution.launch",
        "report.html",
        "report.terminal",
        "search.sweep",
        "testing",
    )
    for name in (*(f"swerve.{part}" for part in parts), *sys.argv[3:]):
        importlib.import_module(name)
    # What every process finds out for itself and then remembers.
    all_names()
    package_fingerprint()
    rng_for(0).random()
    _fork_template(socket.socket(fileno=int(sys.argv[2])))
    tasks: dict[str, Callable[..., Any]] = {"run": _run, "start": _start, "wait": _waited, "load": _load}
    for line in sys.stdin:
        task, *given = json.loads(line)
        print(json.dumps(tasks[task](*given)), flush=True)


def _fork_template(link: socket.socket) -> None:
    """Have workers forked from a child that no command can change."""
    if not os.fork():
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # the commands that are asked for are not its
        os.dup2(0, 1)
        serve_workers(link)
    link.close()


def _load(module: str) -> None:
    importlib.import_module(module)


def _run(words: Sequence[str], arm: str, given: Sequence[Any], supervised: bool, place: Mapping[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    said = os.memfd_create("output")
    child = os.fork()
    if not child:
        _move(**place)
        _born(writing, words, arm, given, supervised, said)
    os.close(writing)
    with open(reading, encoding="utf-8") as errors:
        told = errors.read()
    code = _waited(child)
    with open(said, encoding="utf-8") as output:
        output.seek(0)
        return {"code": code, "errors": told, "output": output.read()}


def _move(cwd: str, env: Mapping[str, str]) -> None:
    """Be where `python -P -m` would have been started: in a folder, with variables."""
    os.environ.update(env)
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    if cwd:
        os.chdir(cwd)


def _start(words: Sequence[str], arm: str, given: Sequence[Any], errors: str) -> int:
    child = os.fork()
    if not child:
        os.setsid()
        _born(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), words, arm, given, supervised=False)
    return child


def _waited(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _born(
    errors: int, words: Sequence[str], arm: str, given: Sequence[Any], supervised: bool, output: int | None = None
) -> None:
    code = 99
    try:
        signal.alarm(LONGEST)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream, target in ((0, nothing), (1, nothing if output is None else output), (2, errors)):
            os.dup2(target, stream)
        main = partial(_armed, words, arm, given)
        code = supervise(main) if supervised else main()
    except SystemExit as ended:  # of the process below the one that supervises it
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _armed(words: Sequence[str], arm: str, given: Sequence[Any]) -> int:
    if arm:
        module, _, name = arm.partition(":")
        getattr(importlib.import_module(module), name)(*given)
    return int(sys.modules["swerve.cli.main"].main(words))


if __name__ == "__main__":
    _nurse()
