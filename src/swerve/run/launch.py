"""A campaign in this process, from its description to a finished run folder."""

from __future__ import annotations

import contextlib
import gc
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from swerve.analysis.groups import worth_keeping
from swerve.analysis.tables import SKIPPED, TABLES, write_skipped, write_tables
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign, Observation
from swerve.core.errors import InputError, ModelError
from swerve.run.check import examine
from swerve.run.engine import NothingAnswered, NothingUsable, Progress, run
from swerve.run.executors.cores import cores, refuse_crowd
from swerve.run.executors.in_process import Executor, InProcess
from swerve.run.executors.processes import Allowance, crew_of
from swerve.run.executors.threads import settle_threads
from swerve.run.finding_pictures import keep_pictures
from swerve.run.summary import Summary
from swerve.store.artifacts import FINDINGS
from swerve.store.files import json_bytes, write_whole
from swerve.store.fingerprint import identity_of
from swerve.store.folder import Store
from swerve.store.view import Run

SUMMARY, TIMINGS, HEALTH = "summary.json", "timings.json", "health.json"


def run_into(
    loaded: Loaded,
    folder: Path,
    *,
    progress: Progress | None = None,
    trusted: Collection[str | Path] = (),
    force: bool = False,
    workers: int = 0,
    allowance: Allowance | None = None,
    on: str | None = None,
    repair: bool = False,
    pictures: bool = True,
    tell: Callable[[str], object] = str,
) -> Summary:
    """Run or continue a campaign in `folder`; afterwards the folder is complete but for the report.

    Before the first trial its health is examined and kept; a campaign that cannot find anything is refused, or run `force`.
    A damaged journal is refused, or cut back to its last good batch to `mend` it, which `tell` is told of.
    `pictures` of the worst findings are kept unless said otherwise.
    The work is done by as many `workers`, processes held to their `allowance`, `on` a Ray cluster if so said, or right here.
    """
    refuse_crowd(workers, on)
    settle_threads()
    folder = folder.absolute()  # a model may change the working folder under us
    campaign = loaded.campaign
    started, cpu = time.time(), time.process_time()
    identity = identity_of(campaign, loaded.base, loaded.factory)
    with collecting_little(), Store(folder, identity, loaded.base, trusted=trusted, repair=repair) as store:
        if store.repaired:
            tell(str(store.repaired))
        try:
            crew = partial(hands_for, workers=workers, trusted=trusted, allowance=allowance, on=on)
            summary = _carried_out(campaign, store, crew(loaded, folder), progress, force)
        except InputError as error:
            write_skipped(folder / TABLES, Run(folder).untouched())
            if isinstance(error, NothingUsable):
                raise InputError(f"{error} (see {folder / TABLES / SKIPPED})") from error
            raise
        except NothingAnswered as error:  # a longer time or more memory would not be tried: the journal has the answers
            raise ModelError(f"{error}; as recorded in {folder}: choose another --into to ask again") from error
        finished = Run(folder)
        if pictures and not ((folder / SUMMARY).exists() and (folder / FINDINGS).is_dir()):  # the summary is written last
            best = worth_keeping(finished)
            keep_pictures(finished, campaign, best, trusted=trusted, progress=progress, threads=min(workers, cores()))
        write_tables(finished, summary.as_dict())
        write_whole(folder / SUMMARY, json_bytes(summary.as_dict()))
        times = {"seconds": time.time() - started, "cpu_seconds": time.process_time() - cpu, "host": platform.platform()}
        write_whole(folder / TIMINGS, json_bytes(times))
    return summary


def _carried_out(
    campaign: Campaign,
    store: Store,
    executor: contextlib.AbstractContextManager[Executor],
    progress: Progress | None,
    force: bool,
) -> Summary:
    """Run all trials. The executor is closed after them, which frees the baseline that it holds."""
    with executor as busy:
        inspect = partial(_inspect, campaign, store.folder, force, busy)
        return run(campaign, store, progress=progress, inspect=inspect, executor=busy)


def hands_for(
    loaded: Loaded,
    folder: Path,
    *,
    workers: int,
    trusted: Collection[str | Path] = (),
    allowance: Allowance | None = None,
    on: str | None = None,
) -> contextlib.AbstractContextManager[Executor]:
    """Worker processes, here or `on` Ray, where some are asked for and can rebuild the campaign; else this process."""
    rebuildable = Run(folder).identity["rebuildable"]
    if on and not rebuildable:
        raise InputError(
            "this campaign holds objects that no file can rebuild, so it runs in this process alone, not on Ray"
        )
    if on:
        from swerve.run.executors.ray import ray_crew

        return ray_crew(
            *(loaded.campaign, folder, loaded.base), address=on, workers=workers or 1, trusted=trusted, allowance=allowance
        )
    if workers and rebuildable:
        return crew_of(loaded.campaign, folder, loaded.base, workers=workers, trusted=trusted, allowance=allowance)
    return contextlib.nullcontext(InProcess(loaded.campaign))


def _inspect(campaign: Campaign, folder: Path, force: bool, executor: Executor, baseline: Mapping[str, Observation]) -> None:
    under_way = next(Run(folder).trials(), None) is not None
    if under_way and (folder / HEALTH).exists():
        return
    health = examine(campaign, baseline, executor, folder)
    told = health.as_dict()
    write_whole(folder / HEALTH, json_bytes({key: told[key] for key in ("baseline", "concerns", "healthy")}))
    if not (force or under_way):
        health.refuse()


@contextlib.contextmanager
def collecting_little() -> Iterator[None]:
    """Keep the collector off what is there already: walking torch's objects over and over costs a tenth of a run."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
