"""A campaign in this process, from its description to a finished run folder."""

from __future__ import annotations

import contextlib
import gc
import platform
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import cv2

from swerve.analysis.tables import TABLES, write_skipped, write_tables
from swerve.engine import Progress, Summary, run
from swerve.errors import InputError
from swerve.files import json_bytes, write_whole
from swerve.identity import identity_of
from swerve.keep import FINDINGS, keep_pictures
from swerve.spec import Loaded
from swerve.store import Run, Store

SUMMARY, TIMINGS = "summary.json", "timings.json"


def run_into(
    loaded: Loaded,
    folder: Path,
    *,
    progress: Progress | None = None,
    trusted: Collection[Path] = (),
) -> Summary:
    """Run or continue a campaign in `folder`; afterwards the folder is complete but for the report."""
    settle_threads()
    campaign = loaded.campaign
    started, cpu = time.time(), time.process_time()
    identity = identity_of(campaign, loaded.base, loaded.factory)
    with collecting_little(), Store(folder, identity, loaded.base, trusted=trusted) as store:
        try:
            summary = run(campaign, store, progress=progress)
        except InputError:
            write_skipped(folder / TABLES, Run(folder).baseline())
            raise
        finished = Run(folder)
        if not ((folder / SUMMARY).exists() and (folder / FINDINGS).is_dir()):  # the summary is written last
            keep_pictures(finished, campaign, finished.best(), trusted=trusted, progress=progress)
        write_tables(finished, summary.as_dict())
        write_whole(folder / SUMMARY, json_bytes(summary.as_dict()))
        times = {"seconds": time.time() - started, "cpu_seconds": time.process_time() - cpu, "host": platform.platform()}
        write_whole(folder / TIMINGS, json_bytes(times))
    return summary


@contextlib.contextmanager
def collecting_little() -> Iterator[None]:
    """Keep the collector off what is there already: walking torch's objects over and over costs a tenth of a run."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def settle_threads() -> None:
    """One thread each for torch and OpenCV: sums then come in one order, whatever the machine (and we thread over cases)."""
    cv2.setNumThreads(1)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
