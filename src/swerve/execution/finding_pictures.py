"""The best findings of a run as pictures: rebuilt from their seeds, checked by hash, kept losslessly.

A picture is named by what it shows: `findings/<first digits of the input's sha256>-<sensor>.png`. Findings that share a
source or a follow-up share its picture, and the journal tells every finding's hashes. A sweep is kept as `.npy`, and the
drivable region as `-region.json`, its rings as lists of x and y, so that the sweep can be drawn from above.

While the pictures are made, a white-box system is traced to tell ways of failing apart by what the changes did inside it:
`findings/features.npy` holds the direction in which a change moved the system's last layer but one. That is the last but
one of `layers()` that is a convolution, dense or recurrent, as its mean over passes and steps. Systems with fewer than two
such layers, or that fail to be traced, have no such file.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from swerve.config.toml import build_change
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, StoreError
from swerve.core.system import WhiteBox
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Group, Region, Value
from swerve.execution.answers import FOREIGN, without_truth
from swerve.execution.data_guard import refuse_changed_input
from swerve.execution.engine import NoProgress, Progress
from swerve.execution.evaluator import read_case
from swerve.store.artifacts import FEATURES, FINDINGS, KEPT, REGION, SHA_DIGITS
from swerve.store.files import clear_folder, npy_bytes, replace_folder, sensor_file, sync_folder, write_synced
from swerve.store.record_json import Finding
from swerve.store.view import Run

T = TypeVar("T")
R = TypeVar("R")
PARTIAL = "findings.partial"
TRACED = 64  # findings of each rule: a forward pass may cost far more than a picture
LAYERS = ("convolution", "dense", "recurrent")
AHEAD = 2  # pictures of each thread that wait for their turn
LEAST = 1e-4  # of the layer's output before; a smaller move is rounding


def keep_pictures(
    run: Run,
    campaign: Campaign,
    best: Collection[Finding],
    *,
    trusted: Collection[str | Path] = (),
    progress: Progress | None = None,
    threads: int = 1,
) -> None:
    """Make `findings/` hold exactly the pictures of `best`; a reader sees the old folder or the new one.

    However many `threads` make them, the files are the same, and never more than a few pictures are in memory.
    """
    progress = progress or NoProgress()
    progress.begin("pictures", len(best))
    partial = run.folder / PARTIAL
    try:
        clear_folder(partial, KEPT)
        partial.mkdir(exist_ok=True)
        inside = Inside(campaign, _findings_to_trace(best))
        for source, followup in _in_order(_write_piece, _pieces(run, campaign, best, partial, trusted), threads):
            if followup:
                inside.add(source, followup)
            progress.advance(1, 0)
        inside.write(partial / FEATURES)
        sync_folder(partial)
        replace_folder(partial, run.folder / FINDINGS, KEPT)
        sync_folder(run.folder)
    except OSError as error:
        raise EnvironmentFault(f"{partial}: pictures cannot be written: {error.strerror}") from error


def _findings_to_trace(best: Collection[Finding]) -> frozenset[str]:
    """The follow-ups of the worst findings of each rule; `best` has the worst first."""
    places: Counter[str] = Counter()
    chosen: set[str] = set()
    for finding in best:
        places[finding.rule] += 1
        chosen |= {finding.input_sha} if places[finding.rule] <= TRACED else set()
    return frozenset(chosen)


class Inside:
    """What changes did to the last layer but one of a white-box system, traced in batches in the order of `add`.

    If anything fails in the system, all of it is left out: a run must not stop for that, nor depend on where it failed.
    """

    def __init__(self, campaign: Campaign, wanted: Collection[str]) -> None:
        self._system = campaign.system
        self._wanted = wanted if isinstance(campaign.system, WhiteBox) else frozenset()
        self._pairs = max(1, campaign.inference_batch // 2)  # a source and a follow-up each
        self._waiting: list[tuple[Case, Case]] = []
        self._moved: dict[str, Array] = {}
        self._layer: str | None = None

    def add(self, source: Case, followup: Case) -> None:
        """Trace a change, if its follow-up is wanted."""
        if followup.input_sha in self._wanted:
            self._waiting.append((source, followup))
            if len(self._waiting) >= self._pairs:
                self._trace()

    def write(self, path: Path) -> None:
        """Write the directions, if there are any."""
        self._trace()
        sizes = {len(moved) for moved in self._moved.values()}
        if len(sizes) == 1:
            kind = np.dtype([("input", f"<U{SHA_DIGITS}"), ("moved", "<f2", (sizes.pop(),))])
            write_synced(path, npy_bytes(np.array(list(self._moved.items()), kind)))

    def _trace(self) -> None:
        pairs, self._waiting = self._waiting, []
        cases = {case.input_sha: without_truth(case) for pair in pairs for case in pair}
        if not cases:
            return
        try:
            outputs = dict(zip(cases, self._outputs(list(cases.values())), strict=True))
            for source, followup in pairs:
                moved = _direction(outputs[source.input_sha], outputs[followup.input_sha])
                self._moved |= {} if moved is None else {followup.input_sha[:SHA_DIGITS]: moved}
        except FOREIGN:
            self._wanted, self._moved = frozenset(), {}

    def _outputs(self, cases: Sequence[Case]) -> Sequence[Array]:
        """The output of the layer for each case."""
        assert isinstance(self._system, WhiteBox)
        with warnings.catch_warnings(action="ignore"):  # of what coverage would leave out
            self._layer = self._layer or last_but_one(self._system, cases[0])
            seen = self._system.trace(cases, [self._layer]).layers[self._layer].mean
        units = seen.shape[-1]
        return list(np.asarray(seen, np.float64).reshape(len(cases), -1, units).mean(axis=1))


def last_but_one(system: WhiteBox, case: Case) -> str:
    """The layer before the last, of those that are a convolution, dense or recurrent; ValueError where there is none."""
    names = list(system.layers())
    seen = system.trace([case], names).layers
    known = [name for name in names if name in seen and seen[name].kind in LAYERS]
    if len(known) < 2:
        raise ValueError("a system with fewer than two layers has none before its last")
    return known[-2]


def _direction(before: Array, after: Array) -> Array | None:
    """From `before` to `after`, at length 1; None where that is rounding, or not finite."""
    moved = after - before
    length, least = float(np.linalg.norm(moved)), LEAST * float(np.linalg.norm(before))
    # Half precision: the last bits, which another machine may move, are not kept.
    return (moved / length).astype(np.float16) if np.isfinite(length) and length > least else None


@dataclass(frozen=True)
class _Piece:
    """What is to be kept of a finding: its source unless that is kept already, its follow-up unless its change is None."""

    folder: Path
    finding: Finding
    source: Case
    source_kept: bool
    change: Transformation | None


def _pieces(
    run: Run, campaign: Campaign, best: Collection[Finding], folder: Path, trusted: Collection[str | Path]
) -> Iterator[_Piece]:
    """Every finding with what is not kept for an earlier one."""
    base, trust, kept = run.base, run.trust(trusted), set[str]()
    for finding, source in _with_sources(best, campaign):
        source_kept = source.input_sha in kept
        kept.add(source.input_sha)
        change = None if finding.input_sha in kept else build_change(finding.change, base, trust)
        kept.add(finding.input_sha)
        yield _Piece(folder, finding, source, source_kept, change)


def _write_piece(piece: _Piece) -> tuple[Case, Case | None]:
    """Write the files of a finding; returns its source and, where it was new, its follow-up."""
    if not piece.source_kept:
        _write(piece.folder, piece.source.input_sha, piece.source)
    if piece.change is None:
        return piece.source, None
    followup = _rebuilt(piece.finding, piece.source, piece.change)
    _write(piece.folder, followup.input_sha, followup)
    return piece.source, followup


def _in_order(do: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """`do` of every item in as many `threads`, in order; items are taken a few ahead, never all at once."""
    if threads < 2:
        yield from map(do, items)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="swerve-keep") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(do, item))
                if len(waiting) > AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # after an error the rest is not needed


def _with_sources(findings: Collection[Finding], campaign: Campaign) -> Iterator[tuple[Finding, Case]]:
    """Each finding with its source case, every case read once."""
    source: Case | None = None
    for finding in sorted(findings, key=lambda item: (item.case, item.id)):
        if source is None or source.key != finding.case:
            source = read_case(campaign, finding.case)
            refuse_changed_input(campaign.source, source, finding.source_sha)
        yield finding, source


def _rebuilt(finding: Finding, source: Case, change: Transformation) -> Case:
    followup = change(source)
    if followup.input_sha != finding.input_sha:
        raise StoreError(
            f"finding {finding.id}: '{finding.words}' made another input than in the run; it is not deterministic"
        )
    return followup


def files_of(case: Case) -> dict[str, bytes]:
    """The files of a case, by name: `camera.png`, `lidar.npy`, `region.json`."""
    made = ((sensor, sensor_file(value)) for sensor, value in case.inputs.items())
    seen = {f"{_safe(sensor)}{file[0]}": file[1] for sensor, file in made if file is not None}
    region = next(_regions((*case.inputs.values(), *case.truth)), None)
    clouds = any(name.endswith(".npy") for name in seen)
    return seen | ({REGION: _region_bytes(region)} if region is not None and clouds else {})


def _regions(values: Iterable[Value]) -> Iterator[Region]:
    for value in values:
        if isinstance(value, Region):
            yield value
        elif isinstance(value, Group):
            yield from _regions(value.values)


def _region_bytes(region: Region) -> bytes:
    return json.dumps([ring.tolist() for ring in region.polygons]).encode()


def _write(folder: Path, sha: str, case: Case) -> None:
    for name, data in files_of(case).items():
        write_synced(folder / f"{sha[:SHA_DIGITS]}-{name}", data)


def _safe(name: str) -> str:
    """A sensor's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40] or "sensor"
