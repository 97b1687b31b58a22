"""Workers on a Ray cluster: the same processes as on this machine, each run by an actor wherever Ray has a core free.

The actor applies the limits on time and memory, so errors are the same wherever they happen; Ray itself reports actors that
are lost with their machine. Questions and rows are sent over the network; the run folder is written by this process alone.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from swerve.config import limits
from swerve.config.trust import Trust
from swerve.core.campaign import Campaign
from swerve.core.errors import EnvironmentFault, InputError, Killed, ModelError, OutOfMemory, Timeout, printable
from swerve.execution.executors.cores import LOCAL, refuse_crowd
from swerve.execution.executors.processes import Allowance, Pace, WorkerProcess, module_paths
from swerve.execution.executors.worker_pool import WorkerPool
from swerve.store.view import CAMPAIGN, Run

KINDS = {kind.kind: kind for kind in (ModelError, Timeout, OutOfMemory, Killed)}
OBJECTS = 80_000_000  # bytes of Ray's object store, of which rows need next to nothing; Ray wants no less
SLACK = 30.0  # seconds that a question may take beyond what the actor allows its worker


class RayActor:
    """The actor: one worker process on the machine that it runs on."""

    def __init__(self, folder: str, trust: str, seconds: float, memory: int, paths: Sequence[str] = ()) -> None:
        self._folder, self._pace = Path(folder), Pace(seconds)
        self._worker = WorkerProcess(self._folder, Trust.of_json(trust), Allowance(seconds, memory), self._pace, paths)

    def sees_folder(self) -> bool:
        """Whether the run folder is there on this machine too."""
        return (self._folder / CAMPAIGN).is_file()

    def ask(self, question: Mapping[str, Any], slowest: float = 0.0) -> Mapping[str, Any]:
        """The worker's reply, or how it failed: Ray would wrap an exception in one of its own.

        `slowest` is the pace of the other workers: the time limit of a batch must not depend on which actor gets it.
        """
        self._pace.note(1, slowest)
        try:
            return {"reply": self._worker.ask(question)}
        except ModelError as error:
            return {"failed": error.kind, "why": str(error)}


class RayWorker:
    """One worker on the cluster."""

    def __init__(self, ray: Any, folder: Path, trust: Trust, allowance: Allowance, pace: Pace) -> None:
        self._ray, self._folder, self._pace, self._placed = ray, folder, pace, False
        # A worker that fails is replaced by the pool, which knows what it was doing; Ray must not retry.
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, runtime_env={"env_vars": _environment()})(
            RayActor
        )
        limit = allowance.seconds, allowance.memory
        self._actor = actor.remote(str(folder.resolve()), trust.as_json(), *limit, module_paths())

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its reply; the actor applies the time limit, and is given up if it does not."""
        if not self._placed:
            self._wait_for_actor()
        count, started = len(question["items"]), time.monotonic()
        outcome = self._get(
            self._actor.ask.remote(dict(question), self._pace.slowest), limits.START + self._pace.limit(count) + SLACK
        )
        self._pace.note(count, time.monotonic() - started)
        if "failed" in outcome:
            raise KINDS[outcome["failed"]](outcome["why"])
        reply: Mapping[str, Any] = outcome["reply"]
        return reply

    def close(self) -> None:
        """End the actor, and its worker with it, whatever they do."""
        with contextlib.suppress(Exception):  # the cluster may be gone, and the actor with it
            self._ray.kill(self._actor)

    def _wait_for_actor(self) -> None:
        try:
            there = self._get(self._actor.sees_folder.remote(), limits.START)
        except Timeout as error:  # not the fault of a case
            raise EnvironmentFault(
                f"no core of the Ray cluster was free within {limits.START:g} s; use fewer "
                f"--workers, or wait until it is idle"
            ) from error
        if not there:
            raise InputError(
                f"{self._folder}: the machines of the Ray cluster cannot read this folder; share "
                f"the run folder and the data with them"
            )
        self._placed = True

    def _get(self, promised: Any, seconds: float) -> Any:
        raised = self._ray.exceptions
        try:
            return self._ray.get(promised, timeout=seconds)
        except raised.GetTimeoutError as error:
            self.close()
            raise Timeout(f"the Ray worker did not reply within {seconds:g} s") from error
        except raised.OutOfMemoryError as error:
            raise OutOfMemory(
                f"Ray ended the worker, because its machine ran out of memory: {_first_line(error)}"
            ) from error
        except raised.RuntimeEnvSetupError as error:
            raise EnvironmentFault(f"Ray cannot start a worker: {_first_line(error)}") from error
        except raised.RayTaskError as error:  # of the actor itself: errors of a worker are in its reply
            raise EnvironmentFault(
                f"a worker on the Ray cluster failed: {_last_line(error)}; every machine "
                f"needs the same Swerve, packages and data"
            ) from error
        except raised.RayError as error:
            raise Killed(f"the Ray worker died: {_first_line(error)}") from error


@contextlib.contextmanager
def ray_workers(
    campaign: Campaign,
    folder: Path,
    *,
    workers: int,
    address: str = LOCAL,
    trusted: Collection[str | Path] = (),
    allowance: Allowance | None = None,
) -> Iterator[WorkerPool]:
    """Up to `workers` processes on a Ray cluster that rebuild the campaign of a run folder, which all of them can read."""
    allowed = allowance or Allowance()
    with connected(address, workers) as (ray, cores):
        builder = Run(folder).builder(trusted=trusted)
        start = partial(RayWorker, ray, folder, builder.trust, allowed, Pace(allowed.seconds))
        # More workers than cores would wait for each other.
        with WorkerPool(start, max(1, min(workers, cores)), source=campaign.source, builder=builder) as pool:
            yield pool


@contextlib.contextmanager
def connected(address: str, workers: int) -> Iterator[tuple[Any, int]]:
    """Ray and the number of its cores: a cluster that this process already uses, a new local one, or a remote one."""
    refuse_crowd(0, address)
    ray = _package(address == LOCAL)
    if ray.is_initialized():
        yield ray, _cores(ray)
        return
    with _own_cluster(ray, max(1, workers)) if address == LOCAL else _started(ray, address=address):
        yield ray, _cores(ray)


def _package(local: bool) -> Any:
    if "ray" not in sys.modules:  # Ray reads these variables when it is imported
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if local and "RAY_AUTH_MODE" not in os.environ:
            # Only a holder of the token may use the cluster; otherwise Ray would write one into the user's home.
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise EnvironmentFault("--on ray needs Ray, which is not installed: pip install 'swerve[ray]'") from error


def _cores(ray: Any) -> int:
    return int(ray.cluster_resources().get("CPU", 0))


@contextlib.contextmanager
def _own_cluster(ray: Any, workers: int) -> Iterator[None]:
    # The names of Ray's sockets grow from this folder and may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="swerve-ray-", dir="/tmp"))
    try:
        with _started(
            ray,
            address="local",
            include_dashboard=False,
            num_cpus=workers,
            object_store_memory=OBJECTS,
            _temp_dir=str(folder),
        ):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _started(ray: Any, **how: Any) -> Iterator[None]:
    """Ray connected, without its log, and without its handler of SIGTERM."""
    try:
        with _own_signals(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\.")
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **how)
    except (ConnectionError, TimeoutError, RuntimeError, OSError, ValueError) as error:
        raise EnvironmentFault(f"{how['address']}: Ray cannot be used: {_first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces: a run that is stopped prints how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _environment() -> dict[str, str]:
    paths = (path for path in module_paths() if os.pathsep not in path)  # for the actor; its worker gets all of them
    return {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}


def _first_line(error: BaseException) -> str:
    return printable(next(iter(str(error).strip().splitlines()), type(error).__name__), 120)


def _last_line(error: BaseException) -> str:
    return printable(str(error).strip().splitlines()[-1], 160)
