"""The pictures of a finding: those the run kept, or rebuilt ones checked by hash."""

from __future__ import annotations

import base64
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from swerve.config.trust import Trust
from swerve.core.case import Source
from swerve.core.encode import is_live
from swerve.core.errors import StoreError, SwerveError, printable
from swerve.core.values import Boxes2D, Boxes3D, find
from swerve.execution.executors.cores import settle_threads
from swerve.execution.finding_pictures import files_of
from swerve.execution.replay import rebuild
from swerve.report.card_pictures import size_of
from swerve.report.finding_overlays import Backdrop, read_calibration
from swerve.report.overlay import Raster
from swerve.report.sweep_pictures import drawn, read_sweeps
from swerve.store.artifacts import CALIBRATION, HEAT, pictures_of
from swerve.store.files import png_bytes
from swerve.store.record_json import Finding
from swerve.store.view import CAMPAIGN, Run

PNG, SIGNATURE = ".png", b"\x89PNG\r\n\x1a\n"
LARGEST = 64 * 2**20
REMEMBERED = 32  # findings in the cache; a reviewer goes back and forth by a few
LONGEST_REASON = 160
_SHA = re.compile(r"[0-9a-f]{64}")
Files = dict[str, bytes]  # by name, as in `swerve.execution.finding_pictures.files_of`


@dataclass(frozen=True)
class Shot:
    """A camera's frame, or a LiDAR sweep from above, before and after the change, as PNG files."""

    sensor: str
    source: bytes
    followup: bytes
    behind: tuple[Backdrop, Backdrop] | None = None  # what is drawn over; None for a sweep, which has its drawings in it


@dataclass(frozen=True)
class FindingPictures:
    """The pictures of a finding, or why there are none; `reason` may name local files."""

    shots: tuple[Shot, ...] = ()
    why: str = ""
    reason: str = ""


class ReviewPictures:
    """The pictures of a run's findings, rebuilt on demand if they were not kept; thread-safe."""

    def __init__(self, run: Run, trusted: Collection[str | Path] = ()) -> None:
        self._run, self._trusted = run, trusted
        self._lock = threading.Lock()
        self._last: OrderedDict[str, FindingPictures] = OrderedDict()
        self._closed = False

    def of(self, finding: Finding) -> FindingPictures:
        """The pictures of `finding`; kept ones do not wait for others being rebuilt."""
        if kept := self._kept(finding):
            return _finding_pictures(finding, *kept)
        with self._lock:
            if self._closed:
                return FindingPictures(why="No pictures: swerve review has ended.")
            if finding.id not in self._last:
                self._last[finding.id] = self._build(finding)
            self._last.move_to_end(finding.id)
            while len(self._last) > REMEMBERED:
                self._last.popitem(last=False)
            return self._last[finding.id]

    def close(self) -> None:
        """Wait for a picture being rebuilt and start no other: native code must not run while Python shuts down."""
        with self._lock:
            self._closed = True

    def _build(self, finding: Finding) -> FindingPictures:
        try:
            return _finding_pictures(finding, *self._rebuilt(finding))
        except Exception as error:  # a user's own source or change may raise anything
            why = str(error) if isinstance(error, SwerveError) else f"{type(error).__name__}: {error}"
            return FindingPictures(
                (), "No pictures: they were not kept and cannot be rebuilt.", printable(why, LONGEST_REASON)
            )

    def _kept(self, finding: Finding) -> tuple[Files, Files] | None:
        shas = finding.source_sha, finding.input_sha
        if not all(_SHA.fullmatch(sha) for sha in shas):
            return None
        try:
            files = [pictures_of(self._run, sha) for sha in shas]
            source, followup = (self._read(side) for side in files)
        except OSError:
            return None
        return (source, followup) if all(files) else None

    def _read(self, files: Mapping[str, Path]) -> Files:
        """The kept pictures and sweeps; links that leave the run folder are not followed."""
        root = self._run.folder.resolve()
        inside = {name: path for name, path in files.items() if path.suffix == PNG and path.resolve().is_relative_to(root)}
        seen = {f"{name}{PNG}": path.read_bytes() for name, path in inside.items() if _is_picture(path)}
        return seen | read_sweeps(self._run, files)

    @cached_property
    def _trust(self) -> Trust:
        return self._run.trust(self._trusted)

    @cached_property
    def _source(self) -> Source:
        """The source of the campaign; loading the system as well would take too long."""
        settle_threads()
        described = self._run.identity["campaign"].get("source")
        if is_live(described):
            return rebuild(self._run, self._trust).source
        source: Source = self._run.builder(f"{CAMPAIGN}: source", self._trust).component(described, Source)
        return source

    def _rebuilt(self, finding: Finding) -> tuple[Files, Files]:
        source = self._source[finding.case]
        followup = self._run.builder(trusted=self._trust).change(finding.change)(source)
        # The journal has no hash of a follow-up whose trial held.
        if source.input_sha != finding.source_sha or finding.input_sha not in ("", followup.input_sha):
            raise StoreError("the rebuilt input differs from the recorded one; the data or the change was modified")
        return files_of(source), files_of(followup)


def _finding_pictures(finding: Finding, source: Files, followup: Files) -> FindingPictures:
    both = sorted(name for name in source.keys() & followup.keys() if name.endswith(PNG) and not name.endswith(HEAT + PNG))
    seen = [
        Shot(name.removesuffix(PNG), source[name], followup[name], (_backdrop(name, source), _backdrop(name, followup)))
        for name in both
    ]
    above = [Shot(one.sensor, png_bytes(one.source), png_bytes(one.followup)) for one in drawn(finding, source, followup)]
    # The first shot is shown first: the one that the answer is about.
    shots = above + seen if find(finding.after, Boxes3D.slot) and not find(finding.after, Boxes2D.slot) else seen + above
    return FindingPictures(tuple(shots), "" if shots else "No pictures: this finding has neither camera nor LiDAR inputs.")


def _backdrop(name: str, files: Files) -> Backdrop:
    heat = files.get(f"{name.removesuffix(PNG)}{HEAT}{PNG}")
    rasters = (Raster("heat", data_address(heat)),) if heat else ()
    return Backdrop(size_of(files[name]), read_calibration(files.get(CALIBRATION)), rasters)


def data_address(png: bytes) -> str:
    """A picture as an address that contains it."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _is_picture(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > LARGEST:
        return False
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE
