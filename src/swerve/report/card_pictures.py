"""The pictures on a finding's card: sweeps from above and camera frames, with what is drawn over them."""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from swerve.config.limits import FILE
from swerve.core.system import Answer
from swerve.report.closeups import CloseupStrip
from swerve.report.finding_overlays import Backdrop, FindingOverlays, read_calibration
from swerve.report.overlay import Overlay, Raster
from swerve.report.sweep_pictures import PICTURES, Album, read_sweeps
from swerve.store.artifacts import CALIBRATION, FINDINGS, HEAT, SHA_DIGITS
from swerve.store.record_json import Finding
from swerve.store.view import Run

PICTURE = ".png"
NO_CLOSEUPS = CloseupStrip()
Files = Mapping[str, Path]  # the kept files of an input, by sensor


@dataclass(frozen=True)
class PictureSide:
    """A picture's address as seen from the page, its size, and what is drawn over it."""

    address: str
    overlay: Overlay

    @property
    def size(self) -> tuple[int, int]:
        """Width and height; with them the page does not move while pictures load."""
        return self.overlay.size


@dataclass(frozen=True)
class Picture:
    """Source and follow-up of one sensor; no follow-up if it shows the same as the source."""

    sensor: str
    source: PictureSide
    followup: PictureSide | None
    from_above: bool = False
    strip: CloseupStrip = NO_CLOSEUPS

    @property
    def closeups(self) -> Markup:
        """The objects that decided the verdict, enlarged; empty if there are none."""
        addresses = [{"src": side.address} for side in (self.source, self.followup or self.source)]
        return self.strip.html(addresses)

    @property
    def sides(self) -> tuple[PictureSide, ...]:
        """Those that are shown."""
        return (self.source, self.followup) if self.followup else (self.source,)


@dataclass(frozen=True)
class KeptFrame:
    """The kept camera pictures of a finding, source and follow-up, and what drawings over them need to know."""

    sensor: str
    addresses: tuple[str, str]
    behind: tuple[Backdrop, Backdrop]

    def below(self, prefix: str) -> KeptFrame:
        """The same, seen from another page: `prefix` leads from there to the report of the run."""
        addresses = (_below(prefix, self.addresses[0]), _below(prefix, self.addresses[1]))
        return KeptFrame(self.sensor, addresses, (_moved(self.behind[0], prefix), _moved(self.behind[1], prefix)))


def _moved(behind: Backdrop, prefix: str) -> Backdrop:
    return replace(behind, rasters=tuple(Raster(one.kind, _below(prefix, one.address)) for one in behind.rasters))


def _below(prefix: str, address: str) -> str:
    return posixpath.normpath(f"{quote(prefix)}/{address}")


class KeptInputs:
    """The files that a run kept of the inputs of its findings."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._kept = _kept(run.folder / FINDINGS)

    def has(self, finding: Finding) -> bool:
        """Whether source and follow-up were kept."""
        return bool(self._files(finding.source_sha) and self._files(finding.input_sha))

    def sweeps(self, finding: Finding) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The sweeps of source and follow-up, with regions and calibrations."""
        source, followup = (read_sweeps(self._run, self._files(sha)) for sha in (finding.source_sha, finding.input_sha))
        return source, followup

    def frames(self, finding: Finding) -> Iterator[KeptFrame]:
        """The camera pictures that source and follow-up share."""
        source, followup = self._files(finding.source_sha), self._files(finding.input_sha)
        near, far = self.sweeps(finding)
        for sensor in sorted(source.keys() & followup.keys()):
            pair = source[sensor], followup[sensor]
            if all(file.suffix == PICTURE for file in pair) and not sensor.endswith(HEAT):
                behind = _backdrop(sensor, source, near), _backdrop(sensor, followup, far)
                yield KeptFrame(sensor, (_address(pair[0]), _address(pair[1])), behind)

    def _files(self, sha: str) -> Files:
        return self._kept.get(sha[:SHA_DIGITS], {}) if sha else {}


class CardPictures:
    """The pictures of a run's findings; bird's-eye pictures are drawn into the album."""

    def __init__(self, album: Album) -> None:
        self._album = album
        self._overlays = FindingOverlays(album.run)
        self._kept = _kept(album.run.folder / FINDINGS)

    def missing(self, finding: Finding) -> bool:
        """Whether no file of the follow-up was kept."""
        return finding.input_sha[:SHA_DIGITS] not in self._kept

    def of(self, finding: Finding, label: Answer) -> Iterator[Picture]:
        """Pictures of every input that both sides have: bird's-eye views first; an unchanged camera frame only once."""
        source, followup = (self._kept.get(sha[:SHA_DIGITS], {}) for sha in (finding.source_sha, finding.input_sha))
        near, far = (read_sweeps(self._album.run, side) for side in (source, followup))
        above = list(self._album.add(finding, near, far))
        for sensor, *names, size in above:
            first, second = (PictureSide(f"{PICTURES}/{name}", Overlay(size)) for name in names)
            yield Picture(sensor, first, second, from_above=True)
        for sensor in sorted(source.keys() & followup.keys()):
            pair = source[sensor], followup[sensor]
            if all(file.suffix == PICTURE for file in pair) and not sensor.endswith(HEAT):
                behind = _backdrop(sensor, source, near), _backdrop(sensor, followup, far)
                first, second = map(PictureSide, map(_address, pair), self._overlays.of(finding, label, *behind))
                once = above and not (first.overlay.shapes or second.overlay.shapes) and _alike(*pair)
                strip = self._overlays.closeups(finding, label, *behind)
                yield Picture(sensor, first, None if once else second, strip=strip)


def _backdrop(sensor: str, files: Files, read: Mapping[str, bytes]) -> Backdrop:
    heat = files.get(f"{sensor}{HEAT}")
    layers = (Raster("heat", _address(heat)),) if heat else ()
    return Backdrop(png_size(files[sensor]), read_calibration(read.get(CALIBRATION)), layers)


def png_size(path: Path) -> tuple[int, int]:
    """Width and height from the header of a PNG."""
    with path.open("rb") as file:
        return size_of(file.read(24))


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height from the first 24 bytes of a PNG; 1 x 1 or more in any file."""
    width, height = struct.unpack(">II", png[16:24].ljust(8, b"\1"))
    return max(width, 1), max(height, 1)


def _kept(folder: Path) -> dict[str, dict[str, Path]]:
    """The kept files by the first digits of their input's hash, then by sensor."""
    found: dict[str, dict[str, Path]] = {}
    for file in filter(Path.is_file, sorted(folder.iterdir()) if folder.is_dir() else []):
        sha, _, sensor = file.stem.partition("-")
        found.setdefault(sha, {})[sensor] = file
    return found


def _address(file: Path) -> str:
    return f"../{FINDINGS}/{quote(file.name)}"


def _alike(one: Path, other: Path) -> bool:
    size = one.stat().st_size
    return size == other.stat().st_size and size <= FILE and one.read_bytes() == other.read_bytes()
