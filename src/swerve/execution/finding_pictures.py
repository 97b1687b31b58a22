"""Saves the pictures of the best findings: rebuilt from their seeds, checked by hash, stored losslessly.

A picture is named by its content: `findings/<first digits of the input's sha256>-<sensor>.png`. Findings with the same
source or follow-up share its picture; the journal has the hashes of every finding. A sweep is saved as `.npy`, and the
drivable region as `-region.json`, its rings as lists of x and y, so that the sweep can be drawn from above. If there
is a camera too, the calibration is saved as `-calibration.json`, so that 3-D boxes can be drawn over the camera's picture.

Meanwhile a white-box system is traced, so that findings can be grouped by what the changes did inside it:
`findings/features.npy` contains the direction in which each change moved the penultimate layer. That is the last but one
of `layers()` that is convolutional, dense or recurrent, averaged over passes and steps. Systems with fewer than two such
layers, or that cannot be traced, have no such file. A campaign that chooses objects by an explanation also keeps heat maps.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, StoreError
from swerve.core.region import region_of
from swerve.core.system import WhiteBox
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Calibration, Region, find
from swerve.execution.answers import FOREIGN, without_truth
from swerve.execution.data_guard import refuse_changed_input
from swerve.execution.engine import NoProgress, Progress
from swerve.execution.evaluator import read_case
from swerve.execution.finding_heat import HeatKeeper
from swerve.store.artifacts import CALIBRATION, FEATURES, FINDINGS, KEPT, REGION, SHA_DIGITS
from swerve.store.files import clear_folder, npy_bytes, replace_folder, safe_name, sensor_file, sync_folder, write_synced
from swerve.store.record_json import Finding
from swerve.store.view import Run

T = TypeVar("T")
R = TypeVar("R")
PARTIAL = "findings.partial"
TRACED = 64  # findings of each rule: a forward pass may cost far more than a picture
LAYERS = ("convolution", "dense", "recurrent")
AHEAD = 2  # pictures per thread that are prepared in advance
LEAST = 1e-4  # relative to the layer's output before the change; a smaller move is rounding


def keep_pictures(
    run: Run,
    campaign: Campaign,
    best: Collection[Finding],
    *,
    trusted: Collection[str | Path] = (),
    progress: Progress | None = None,
    threads: int = 1,
) -> None:
    """Fill `findings/` with exactly the pictures of `best`; a reader sees the old folder or the new one.

    The files do not depend on the number of `threads`, and only a few pictures are in memory at a time.
    """
    progress = progress or NoProgress()
    progress.begin("pictures", len(best))
    partial = run.folder / PARTIAL
    try:
        clear_folder(partial, KEPT)
        partial.mkdir(exist_ok=True)
        inside, heat = FeatureTracer(campaign, _findings_to_trace(best)), HeatKeeper(campaign, partial)
        for source, followup in _in_order(_write_piece, _pieces(run, campaign, best, partial, trusted), threads):
            heat.add(source)
            if followup:
                inside.add(source, followup)
                heat.add(followup)
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


class FeatureTracer:
    """Traces how changes move the penultimate layer of a white-box system, in batches in the order of `add`.

    If the system fails anywhere, nothing is written: the run must not stop, nor depend on where it failed.
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
        with warnings.catch_warnings(action="ignore"):  # about layers that coverage would leave out
            self._layer = self._layer or penultimate_layer(self._system, cases[0])
            seen = self._system.trace(cases, [self._layer]).layers[self._layer].mean
        units = seen.shape[-1]
        return list(np.asarray(seen, np.float64).reshape(len(cases), -1, units).mean(axis=1))


def penultimate_layer(system: WhiteBox, case: Case) -> str:
    """The last but one of the convolutional, dense and recurrent layers; raises `ValueError` if there is none."""
    names = list(system.layers())
    seen = system.trace([case], names).layers
    known = [name for name in names if name in seen and seen[name].kind in LAYERS]
    if len(known) < 2:
        raise ValueError("a system with fewer than two layers has no penultimate layer")
    return known[-2]


def _direction(before: Array, after: Array) -> Array | None:
    """The unit vector from `before` to `after`; None if the move is only rounding, or not finite."""
    moved = after - before
    length, least = float(np.linalg.norm(moved)), LEAST * float(np.linalg.norm(before))
    # Half precision drops the last bits, which may differ between machines.
    return (moved / length).astype(np.float16) if np.isfinite(length) and length > least else None


@dataclass(frozen=True)
class _Piece:
    """The pictures to save of a finding: its source unless already saved, its follow-up unless `change` is None."""

    folder: Path
    finding: Finding
    source: Case
    source_kept: bool
    change: Transformation | None


def _pieces(
    run: Run, campaign: Campaign, best: Collection[Finding], folder: Path, trusted: Collection[str | Path]
) -> Iterator[_Piece]:
    """Every finding with the pictures that no earlier finding has saved."""
    builder, kept = run.builder(trusted=trusted), set[str]()
    for finding, source in _with_sources(best, campaign):
        source_kept = source.input_sha in kept
        kept.add(source.input_sha)
        change = None if finding.input_sha in kept else builder.change(finding.change)
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
            f"finding {finding.id}: re-applying '{finding.words}' produced a different input: "
            "the transformation is not deterministic"
        )
    return followup


def files_of(case: Case) -> dict[str, bytes]:
    """The files of a case, by name: `camera.png`, `lidar.npy`, `region.json`, `calibration.json`."""
    files = ((sensor, sensor_file(value)) for sensor, value in case.inputs.items())
    named = {f"{safe_name(sensor)}{file[0]}": file[1] for sensor, file in files if file is not None}
    region, known = region_of(case), find(case.truth, Calibration.slot)
    kinds = {Path(name).suffix for name in named}
    if region is not None and ".npy" in kinds:
        named[REGION] = _region_bytes(region)
    if isinstance(known, Calibration) and kinds >= {".npy", ".png"}:
        named[CALIBRATION] = _calibration_bytes(known)
    return named


def _region_bytes(region: Region) -> bytes:
    return json.dumps([ring.tolist() for ring in region.polygons]).encode()


def _calibration_bytes(calibration: Calibration) -> bytes:
    matrices = {name: matrix.tolist() for name, matrix in calibration.matrices.items()}
    return json.dumps({"matrices": matrices, "size": calibration.size}).encode()


def _write(folder: Path, sha: str, case: Case) -> None:
    for name, data in files_of(case).items():
        write_synced(folder / f"{sha[:SHA_DIGITS]}-{name}", data)
