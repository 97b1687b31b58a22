"""Processes that do independent work, such as rendering, and never outlive what started them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import cv2

from swerve.systems.child import die_with_parent


@contextlib.contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes; whatever ends the block early, SIGTERM and Ctrl-C too, kills them at once."""
    # Spawned: a process that was forked while torch had threads could hang.
    pool = ProcessPoolExecutor(max(1, workers), mp_context=get_context("spawn"), initializer=_prepare)
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


def _prepare() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the process that uses the pool
    cv2.setNumThreads(1)
