"""A campaign from its description to a finished run folder."""

from __future__ import annotations

import contextlib
import gc
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from swerve.analysis.exemplars import FoundSoFar, with_shrunk
from swerve.analysis.numbers import HEALTH, SUMMARY, TIMINGS
from swerve.analysis.tables import SKIPPED, TABLES, write_skipped, write_tables
from swerve.config.toml import Loaded
from swerve.core.asset import assets_in
from swerve.core.campaign import Campaign, Observation
from swerve.core.case import Source, columns_of
from swerve.core.errors import InputError, ModelError
from swerve.execution.check import examine
from swerve.execution.data_guard import keep_file_list, name_changed_files
from swerve.execution.engine import NothingAnswered, NothingUsable, Progress, run
from swerve.execution.executors.cores import cores, refuse_crowd, settle_threads
from swerve.execution.executors.in_process import Executor, InProcess
from swerve.execution.executors.processes import Allowance, process_workers
from swerve.execution.finding_pictures import keep_pictures
from swerve.execution.shrink_budget import shrink_exemplars
from swerve.execution.summary import Summary
from swerve.store.artifacts import CASES, FINDINGS
from swerve.store.files import json_bytes, write_whole
from swerve.store.fingerprint import identity_of
from swerve.store.folder import DifferentCampaign, Store
from swerve.store.view import PICTURED_PER_RULE, Run


@dataclass(frozen=True)
class OpenRun:
    """A run folder open for writing, and the executor that works for it."""

    store: Store
    executor: Executor


@contextlib.contextmanager
def open_run(
    loaded: Loaded,
    folder: Path,
    *,
    executor: Executor | None = None,
    trusted: Collection[str | Path] = (),
    repair: bool = False,
    **how: Any,
) -> Iterator[OpenRun]:
    """The run folder of a campaign with an executor: the one given, or what `executor_for` makes of `how`."""
    with open_store(loaded, folder, trusted=trusted, repair=repair) as store:
        own = executor_for(loaded, folder, trusted=trusted, **how) if executor is None else contextlib.nullcontext(executor)
        with own as busy:
            yield OpenRun(store, busy)


@contextlib.contextmanager
def open_store(
    loaded: Loaded, folder: Path, *, trusted: Collection[str | Path] = (), repair: bool = False
) -> Iterator[Store]:
    """The run folder of a campaign, open for writing; if the data differ, the error names the changed files."""
    campaign = loaded.campaign
    identity = identity_of(campaign, loaded.base, loaded.factory)
    try:
        store = Store(*(folder, identity, loaded.base), assets=assets_in(campaign).values(), trusted=trusted, repair=repair)
    except DifferentCampaign as error:
        then = Run(folder).identity
        changed = name_changed_files(folder, campaign.source, error.details, then, identity)
        raise DifferentCampaign(folder, changed) from error
    with store:
        keep_file_list(folder, campaign.source)
        _keep_columns(folder, campaign.source)
        yield store


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
    keep: int | None = None,
    shrink: Callable[[int], int] | None = None,
    tell: Callable[[str], object] = str,
) -> Summary:
    """Run or continue a campaign in `folder`; afterwards the folder is complete but for the report.

    Before the first trial the campaign is checked; one that cannot find anything is refused unless `force`.
    A damaged journal is refused unless `repair`, which cuts it back to its last good batch and says so through `tell`.
    `pictures` of the worst findings are kept, of `keep` per rule or, where it is None, of as many as usual. `shrink` tells,
    for a number of trials, how many more may be used to shrink the finding that represents each group; by default none.
    The work is done by `workers` processes, each held to its `allowance`, `on` a Ray cluster where one is named, or in this
    process.
    """
    refuse_crowd(workers, on)
    settle_threads()
    folder = folder.absolute()  # a model may change the working folder under us
    campaign = loaded.campaign
    started, cpu = time.time(), time.process_time()
    with less_garbage_collection(), open_store(loaded, folder, trusted=trusted, repair=repair) as store:
        if store.repaired:
            tell(str(store.repaired))
        try:
            executor = executor_for(loaded, folder, workers=workers, trusted=trusted, allowance=allowance, on=on)
            so_far = FoundSoFar(store, PICTURED_PER_RULE if keep is None else keep)
            after = partial(_shrink, folder, so_far, shrink, trusted, progress) if shrink else None
            summary = _run_trials(campaign, store, executor, progress, force, so_far, after)
            del executor
        except InputError as error:
            write_skipped(folder / TABLES, Run(folder).untouched())
            if isinstance(error, NothingUsable):
                raise InputError(f"{error} (see {folder / TABLES / SKIPPED})") from error
            raise
        except NothingAnswered as error:  # the failures are in the journal, so more time or memory would have no effect
            raise ModelError(f"{error}; as recorded in {folder}: choose another --into to ask again") from error
        summary.run = finished = store.view()
        kept = (folder / SUMMARY).exists() and (folder / FINDINGS).is_dir()  # the summary is written last
        if pictures and (keep is not None or not kept):
            best = with_shrunk(finished, so_far.worth_keeping(), so_far.groups())
            keep_pictures(finished, campaign, best, trusted=trusted, progress=progress, threads=min(workers, cores()))
        write_tables(finished, summary.as_dict())
        complete = (folder / SUMMARY).exists() and (folder / TIMINGS).exists()  # nothing was left to run
        write_whole(folder / SUMMARY, json_bytes(summary.as_dict()))
        spent = {"seconds": time.time() - started, "cpu_seconds": time.process_time() - cpu, "stages": summary.stage_seconds}
        if not complete:
            write_whole(folder / TIMINGS, json_bytes({**spent, "host": platform.platform()}))
    return summary


def _run_trials(
    campaign: Campaign,
    store: Store,
    executor: contextlib.AbstractContextManager[Executor],
    progress: Progress | None,
    force: bool,
    so_far: FoundSoFar,
    after: Callable[[Executor, Summary], None] | None,
) -> Summary:
    """Run all trials, and `after` them what needs the executor too. It is closed then, which frees its baseline."""
    with executor as busy:
        inspect = partial(_inspect, campaign, store, force, busy)
        summary = run(campaign, store, progress=progress, inspect=inspect, executor=busy, so_far=so_far)
        if after:
            after(busy, summary)
        return summary


def _shrink(
    folder: Path,
    so_far: FoundSoFar,
    budget: Callable[[int], int],
    trusted: Collection[str | Path],
    progress: Progress | None,
    executor: Executor,
    summary: Summary,
) -> None:
    most = budget(summary.overall.counts.total())
    shrink_exemplars(Run(folder), so_far.groups(), executor, most, trusted=trusted, progress=progress)


def executor_for(
    loaded: Loaded,
    folder: Path,
    *,
    workers: int = 0,
    trusted: Collection[str | Path] = (),
    allowance: Allowance | None = None,
    on: str | None = None,
) -> contextlib.AbstractContextManager[Executor]:
    """Worker processes, here or `on` Ray, if `workers` are wanted and can rebuild the campaign; otherwise this process."""
    rebuildable = Run(folder).identity["rebuildable"]
    if on and not rebuildable:
        raise InputError("this campaign has objects that cannot be rebuilt from a file, so it cannot run on Ray")
    if on:
        from swerve.execution.executors.ray import ray_workers

        many = workers or 1
        return ray_workers(loaded.campaign, folder, address=on, workers=many, trusted=trusted, allowance=allowance)
    if workers and rebuildable:
        return process_workers(loaded.campaign, folder, workers=workers, trusted=trusted, allowance=allowance)
    return contextlib.nullcontext(InProcess(loaded.campaign))


def _keep_columns(folder: Path, source: Source) -> None:
    """Write `cases.json`, what the data set says of each case besides its labels, if it says anything."""
    if not (folder / CASES).exists():
        found = {key: columns for key in source.keys() if (columns := columns_of(source, key))}
        if found:
            write_whole(folder / CASES, json_bytes(found))


def _inspect(campaign: Campaign, store: Store, force: bool, executor: Executor, baseline: Mapping[str, Observation]) -> None:
    folder, under_way = store.folder, store.under_way
    if under_way and (folder / HEALTH).exists():
        return
    health = examine(campaign, baseline, executor, folder)
    content = health.as_dict()
    write_whole(folder / HEALTH, json_bytes({key: content[key] for key in ("baseline", "concerns", "healthy")}))
    if not (force or under_way):
        health.refuse()


@contextlib.contextmanager
def less_garbage_collection() -> Iterator[None]:
    """Exclude existing objects from garbage collection: scanning torch's objects again and again takes a tenth of a run."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
