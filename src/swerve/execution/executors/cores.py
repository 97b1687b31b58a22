"""The cores of this machine, the number of workers they can serve, and the threads of libraries."""

from __future__ import annotations

import os
import sys

from swerve.core.errors import InputError

WORKERS_PER_CORE = 4  # more would only wait for each other, each with a model of its own in memory
LOCAL = "ray"  # a cluster on this machine alone, for as long as the run takes
CLIENT = "ray://"
FEWEST = 8  # workers that are allowed on any machine


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def refuse_crowd(workers: int, on: str | None = None) -> None:
    """Raise `InputError` for more workers than make sense on this machine, or an unknown place, before a file is written.

    How many make sense on a remote cluster is not known here.
    """
    if on is not None and on != LOCAL and not on.startswith(CLIENT):
        raise InputError(f"--on '{on}': must be '{LOCAL}', for a cluster on this machine, or '{CLIENT}HOST:PORT'")
    if on and on != LOCAL:
        return
    most = max(FEWEST, WORKERS_PER_CORE * cores())
    if workers > most:
        raise InputError(f"--workers {workers}: this machine has {cores()} cores; at most {most} workers make sense on it")


def settle_threads() -> None:
    """Limit torch and OpenCV to one thread: sums have the same order on every machine, and Swerve runs cases in threads."""
    import cv2  # not at the start: every command imports this module

    cv2.setNumThreads(1)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
