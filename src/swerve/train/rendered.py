"""The cache of data rendered from the embedded world: files of arrays in a folder that states what they were rendered from.

The key of a folder is everything that decides its bytes: the kind and size of what is rendered, split and seed, the version
of the world and a digest of its code. The folder's name carries a digest of the key, so data of another key is rendered
beside it. Each entry is written whole or not at all, so that an interrupted rendering goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import time
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np

from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.seeding import digest_of
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.store.files import json_bytes, write_whole
from swerve.systems.child import die_with_parent

KEY_FILE = "key.json"
SECONDS = "seconds"  # of CPU that an entry took
DIGITS = 12  # of the digest in a folder's name

Arrays = Mapping[str, Array]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class RenderedCache:
    """Entries of arrays under `root`, all of one `key`; `name` is what the folder is called for people."""

    root: Path
    name: str
    key: Mapping[str, object]

    @cached_property
    def folder(self) -> Path:
        """The folder of this key."""
        return self.root / f"{self.name}-{digest_of(self.key)[:DIGITS]}"

    def file(self, entry: object) -> Path:
        """The file of an entry."""
        return self.folder / f"{entry}.npz"

    def load(self, entry: object, names: Iterable[str]) -> list[Array]:
        """Some arrays of an entry."""
        try:
            with self.file(entry).open("rb") as file, np.load(file, allow_pickle=False) as kept:
                return [kept[name] for name in names]
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise InputError(f"{self.file(entry)}: damaged ({error}); delete it to render it again") from error

    def minutes(self, entries: Iterable[object]) -> float:
        """CPU minutes that rendering the entries took."""
        return float(sum(float(self.load(entry, [SECONDS])[0]) for entry in entries)) / 60

    def fill(
        self,
        entries: Sequence[Item],
        render: Callable[[Item], Arrays],
        *,
        workers: int = 1,
        progress: Progress,
        stage: str,
    ) -> None:
        """Render the entries that are not there yet, in `workers` processes."""
        self.state_key()
        missing = [entry for entry in entries if not self.file(entry).exists()]
        progress.begin(stage, len(missing))
        with contextlib.closing(in_processes(partial(self.render, render), missing, workers)) as done:
            for _ in done:
                progress.advance(1, 0)

    def render(self, render: Callable[[Item], Arrays], entry: Item) -> None:
        """Render one entry and write it, whole or not at all."""
        started = time.process_time()
        arrays = dict(render(entry))
        seconds = np.array(time.process_time() - started)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{SECONDS: seconds}, **arrays)
        self._write(self.file(entry), file.getvalue())

    def state_key(self) -> None:
        """Make the folder and write its key, or raise `InputError` if it has another one."""
        file = self.folder / KEY_FILE
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"{self.folder}: cannot store rendered data: {error.strerror}") from error
        if not file.exists():
            self._write(file, json_bytes(self.key))
        elif read_key(file) != json.loads(json_bytes(self.key)):
            raise InputError(f"{file}: does not state the key of this folder; delete the folder to render it again")

    def _write(self, file: Path, data: bytes) -> None:
        # Under a name of this process first: two workers may want the same entry at the same time.
        own = file.with_name(f".{file.name}.{os.getpid()}")
        write_whole(own, data)
        own.replace(file)


def read_key(file: Path) -> dict[str, object] | None:
    """The key that a file states, or None if it states none."""
    try:
        key = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return key if isinstance(key, dict) else None


def in_processes(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Generator[Result]:
    """The results of `work` in order, computed by `workers` processes, or by this one if that is fewer than two."""
    if workers < 2 or len(items) < 2:
        yield from map(work, items)
        return
    with _process_pool(workers) as pool:
        yield from pool.map(work, items)


@contextlib.contextmanager
def _process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes; whatever ends the block early, SIGTERM and Ctrl-C too, kills them at once."""
    # Spawned: a process that was forked while torch had threads could hang.
    pool = ProcessPoolExecutor(max(1, workers), mp_context=get_context("spawn"), initializer=_prepare_process)
    try:
        yield pool
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        raise
    pool.shutdown(wait=True)


def _prepare_process() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the process that uses the pool
    cv2.setNumThreads(1)
