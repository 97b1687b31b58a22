"""The sweeps of a finding seen from above, drawn from what is kept of its inputs or was made of them again (LM-11)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from swerve.config.toml import build_change
from swerve.config.trust import Trust
from swerve.core.errors import EnvironmentFault
from swerve.core.names import all_names
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Boxes3D, PointCloud, Region, find
from swerve.report.birdseye import AnsweredPair, AnsweredSweep
from swerve.report.numbers import PAGE
from swerve.store.artifacts import REGION
from swerve.store.files import clear_folder, make_folder, png_bytes, replace_folder
from swerve.store.record_json import Finding
from swerve.store.view import Run

PICTURES = "pictures"
SWEEP = ".npy"
LARGEST = 64 * 2**20  # bytes of a sweep that is drawn
NOTHING = Boxes3D(np.zeros((0, 7)), ())
TORN = (OSError, ValueError, TypeError, IndexError, KeyError, EOFError, MemoryError)  # of a file that somebody broke
_ID = re.compile(r"[0-9a-f]{8,64}")
DRAWN = re.compile(rf"{_ID.pattern}-.+-(source|followup)\.png")
Files = Mapping[str, bytes]  # by name, as `swerve.execution.finding_pictures.files_of` has them


@dataclass(frozen=True)
class SweepPictures:
    """A sweep before and after the change, as RGB pictures."""

    sensor: str
    source: Array
    followup: Array


def drawn(finding: Finding, source: Files, followup: Files) -> Iterator[SweepPictures]:
    """Every sweep that both sides have, from above; one that cannot be read is left out."""
    before, after = _boxes(finding.before) or NOTHING, _boxes(finding.after) or NOTHING
    expected = expected_of(finding) if any(name.endswith(SWEEP) for name in source) else None
    for name in sorted(source.keys() & followup.keys()):
        clouds = [_cloud(side[name]) for side in (source, followup)] if name.endswith(SWEEP) else []
        match clouds:
            case [np.ndarray() as old, np.ndarray() as new]:
                near, far = AnsweredSweep(old, before, _region(source)), AnsweredSweep(new, after, _region(followup))
                yield SweepPictures(name.removesuffix(SWEEP), *AnsweredPair(near, far, expected, _facts(finding)).views())


def _facts(finding: Finding) -> Mapping[str, Any]:
    """The verdict's facts, unless they may be about boxes in the picture of a camera."""
    return {} if find(finding.after, Boxes2D.slot) else finding.facts


def expected_of(finding: Finding) -> Boxes3D | None:
    """What should be said of the follow-up: the answer on the source as the change maps it; None if nobody can tell.

    Only changes with a short name are asked: who reads a run must not have to run its author's code.
    """
    before = _boxes(finding.before)
    if before is None or not all(use in all_names() for use in _uses(finding.change)):
        return None
    try:
        return build_change(finding.change, trust=Trust(foreign=True)).map(before)
    except Exception:  # an installed package's change may raise anything
        return None


def drawn_of(run: Run, finding: Finding) -> list[Path]:
    """The pictures from above that the report of `run` has of `finding`, the source before the follow-up."""
    folder = (run.folder / PAGE).parent / PICTURES
    return sorted(folder.glob(f"{finding.id}-*.png"), reverse=True) if _ID.fullmatch(finding.id) else []


def read_sweeps(run: Run, files: Mapping[str, Path]) -> dict[str, bytes]:
    """The kept sweeps and region among the files of one input; one that leads out of the run folder is not read."""
    root = run.folder.resolve()
    wanted = (path for path in files.values() if path.suffix == SWEEP or path.name.endswith(f"-{REGION}"))
    inside = (path for path in wanted if path.resolve().is_relative_to(root) and path.is_file())
    return {path.name.partition("-")[2]: path.read_bytes() for path in inside if path.stat().st_size <= LARGEST}


@dataclass
class Album:
    """The pictures beside a run's page, `report/pictures/`: new ones take the place of the old when all are drawn."""

    run: Run
    names: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the page finds them."""
        return (self.run.folder / PAGE).parent / PICTURES

    def add(self, finding: Finding, source: Files, followup: Files) -> Iterator[tuple[str, str, tuple[int, int]]]:
        """Draw the sweeps of `finding`; their names, before and after, and their size."""
        for one in drawn(finding, source, followup) if _ID.fullmatch(finding.id) else ():
            pair = {f"{finding.id}-{one.sensor}-{side}.png": getattr(one, side) for side in ("source", "followup")}
            for name, pixels in pair.items():
                self._write(name, png_bytes(pixels))
            near, far = pair
            yield near, far, (one.source.shape[1], one.source.shape[0])

    def close(self) -> None:
        """Put what was drawn where the page finds it, and remove what was there."""
        try:
            if self.names:
                replace_folder(self._partial, self.folder, DRAWN)
            else:
                clear_folder(self.folder, DRAWN)
        except OSError as error:
            raise EnvironmentFault(f"{self.folder}: cannot be written: {error.strerror}") from error

    @property
    def _partial(self) -> Path:
        return self.folder.with_name(f"{PICTURES}.partial")

    def _write(self, name: str, data: bytes) -> None:
        if not self.names:
            clear_folder(self._partial, DRAWN)
            make_folder(self._partial, parents=True)
        self.names.append(name)
        try:
            (self._partial / name).write_bytes(data)
        except OSError as error:
            raise EnvironmentFault(f"{self._partial / name}: cannot write {len(data)} bytes: {error.strerror}") from error


def _boxes(answer: Answer) -> Boxes3D | None:
    """The obstacles of an answer; those that are no numbers cannot be drawn."""
    said = find(answer, Boxes3D.slot)
    return said if isinstance(said, Boxes3D) and said.fault() is None else None


def _uses(change: Any) -> Iterator[str]:
    """Every class that a change as JSON names."""
    if isinstance(change, Mapping):
        yield from (str(item) for name, item in change.items() if name == "use")
        yield from (use for item in change.values() for use in _uses(item))
    elif isinstance(change, list | tuple):
        yield from (use for item in change for use in _uses(item))


def _cloud(data: bytes) -> Array | None:
    try:
        return PointCloud(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)).xyzi
    except TORN:
        return None


def _region(files: Files) -> Region | None:
    try:
        return Region(tuple(np.array(ring, np.float64) for ring in json.loads(files[REGION])))
    except TORN:
        return None
