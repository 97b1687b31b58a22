"""Bird's-eye pictures of a finding's sweeps, from the inputs that a run kept or that were rebuilt."""
# LM-11

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
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Boxes3D, PointCloud, Region, find
from swerve.report.birdseye import AnsweredPair, AnsweredSweep
from swerve.report.templating import PAGE
from swerve.store.artifacts import CALIBRATION, REGION
from swerve.store.files import clear_folder, make_folder, png_bytes, replace_folder
from swerve.store.record_json import Finding
from swerve.store.view import Run

PICTURES = "pictures"
SWEEP = ".npy"
LARGEST = 64 * 2**20  # bytes of the largest sweep that is drawn
NO_BOXES = Boxes3D(np.zeros((0, 7)), ())
TORN = (
    OSError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    EOFError,
    MemoryError,
    RecursionError,
)  # raised by damaged files
_ID = re.compile(r"[0-9a-f]{8,64}")
DRAWN = re.compile(rf"{_ID.pattern}-.+-(source|followup)\.png")
Files = Mapping[str, bytes]  # by name, as in `swerve.execution.finding_pictures.files_of`


@dataclass(frozen=True)
class SweepPictures:
    """A sweep before and after the change, as RGB pictures."""

    sensor: str
    source: Array
    followup: Array


def drawn(finding: Finding, source: Files, followup: Files) -> Iterator[SweepPictures]:
    """Every sweep that source and follow-up share, seen from above; unreadable ones are left out."""
    before, after = _boxes(finding.before) or NO_BOXES, _boxes(finding.after) or NO_BOXES
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
    """The answer on the source as the change maps it, which the follow-up should get; None if it is unknown."""
    before, change = _boxes(finding.before), change_of(finding)
    if before is None or change is None:
        return None
    try:
        return change.map(before)
    except Exception:  # a change of an installed package may raise anything
        return None


def change_of(finding: Finding) -> Transformation | None:
    """The change of a finding, if it can be built from registered short names alone.

    Reading a run must not execute its author's code.
    """
    if not is_registered(finding.change):
        return None
    try:
        return build_change(finding.change, Trust(foreign=True))
    except Exception:  # a change of an installed package may raise anything
        return None


def drawn_of(run: Run, finding: Finding) -> list[Path]:
    """The bird's-eye pictures of `finding` in the report of `run`, the source before the follow-up."""
    folder = (run.folder / PAGE).parent / PICTURES
    return sorted(folder.glob(f"{finding.id}-*.png"), reverse=True) if _ID.fullmatch(finding.id) else []


def read_sweeps(run: Run, files: Mapping[str, Path]) -> dict[str, bytes]:
    """The sweeps, region and calibration among an input's files; links that leave the run folder are not followed."""
    root = run.folder.resolve()
    wanted = (path for path in files.values() if path.name.endswith((SWEEP, f"-{REGION}", f"-{CALIBRATION}")))
    inside = (path for path in wanted if path.resolve().is_relative_to(root) and path.is_file())
    return {path.name.partition("-")[2]: path.read_bytes() for path in inside if path.stat().st_size <= LARGEST}


@dataclass
class Album:
    """The pictures of a run's page, `report/pictures/`: new ones replace the old once all are drawn."""

    run: Run
    names: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Their folder."""
        return (self.run.folder / PAGE).parent / PICTURES

    def add(self, finding: Finding, source: Files, followup: Files) -> Iterator[tuple[str, str, str, tuple[int, int]]]:
        """Draw the sweeps of `finding`; yields each sensor, the names of source and follow-up, and their size."""
        for one in drawn(finding, source, followup) if _ID.fullmatch(finding.id) else ():
            pair = {f"{finding.id}-{one.sensor}-{side}.png": getattr(one, side) for side in ("source", "followup")}
            for name, pixels in pair.items():
                self._write(name, png_bytes(pixels))
            near, far = pair
            yield one.sensor, near, far, (one.source.shape[1], one.source.shape[0])

    def close(self) -> None:
        """Replace the previous pictures by those drawn."""
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
    """The 3-D boxes of an answer; None if there are none or some number is not finite."""
    boxes = find(answer, Boxes3D.slot)
    return boxes if isinstance(boxes, Boxes3D) and boxes.fault() is None else None


def is_registered(described: Any) -> bool:
    """Whether an encoded change or relation names only parts with a short name."""
    return set(_uses(described)) <= all_names().keys()


def _uses(described: Any) -> Iterator[str]:
    """Every class that an encoded part names."""
    if isinstance(described, Mapping):
        yield from (str(item) for name, item in described.items() if name == "use")
        yield from (use for item in described.values() for use in _uses(item))
    elif isinstance(described, list | tuple):
        yield from (use for item in described for use in _uses(item))


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
