"""The pictures of a finding: the kept ones, or made again from its change and checked by hash."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from swerve.campaign import Campaign
from swerve.case import Case
from swerve.engine import read_case
from swerve.errors import StoreError, SwerveError, printable
from swerve.execute.local import settle_threads
from swerve.files import sensor_file
from swerve.keep import pictures_of
from swerve.replay import rebuild
from swerve.rows import Finding
from swerve.spec import build_change
from swerve.store import Run

PNG, SIGNATURE = ".png", b"\x89PNG\r\n\x1a\n"
LARGEST = 64 * 2**20
REMEMBERED = 32  # findings; a reviewer goes back and forth by a few
LONGEST_REASON = 160
_SHA = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Shot:
    """What one camera saw before and after the change, as PNG files."""

    sensor: str
    source: bytes
    followup: bytes


@dataclass(frozen=True)
class Shown:
    """The pictures of a finding, or why there are none; the `reason` may name files of this machine."""

    shots: tuple[Shot, ...] = ()
    why: str = ""
    reason: str = ""


class Pictures:
    """The pictures of a run's findings, made again on demand where they were not kept; safe to share among threads."""

    def __init__(self, run: Run, trusted: Collection[Path] = ()) -> None:
        self._run, self._trusted = run, trusted
        self._lock = threading.Lock()
        self._last: OrderedDict[str, Shown] = OrderedDict()
        self._closed = False

    def of(self, finding: Finding) -> Shown:
        """The pictures of `finding`."""
        with self._lock:
            if self._closed:
                return Shown(why="No pictures: swerve review has ended.")
            if finding.id not in self._last:
                self._last[finding.id] = self._look(finding)
            self._last.move_to_end(finding.id)
            while len(self._last) > REMEMBERED:
                self._last.popitem(last=False)
            return self._last[finding.id]

    def close(self) -> None:
        """Wait for a picture that is being made, and make no more: native code must not run while Python ends."""
        with self._lock:
            self._closed = True

    def _look(self, finding: Finding) -> Shown:
        try:
            sides = self._kept(finding) or self._rebuilt(finding)
        except Exception as error:  # a user's own source or change may raise anything
            told = str(error) if isinstance(error, SwerveError) else f"{type(error).__name__}: {error}"
            return Shown((), "No pictures: they were not kept and cannot be made again.", printable(told, LONGEST_REASON))
        source, followup = sides
        shots = tuple(Shot(name, source[name], followup[name]) for name in sorted(source.keys() & followup.keys()))
        return Shown(shots, "" if shots else "No pictures: no input of this finding is a camera's.")

    def _kept(self, finding: Finding) -> tuple[dict[str, bytes], dict[str, bytes]] | None:
        shas = finding.source_sha, finding.input_sha
        if not all(_SHA.fullmatch(sha) for sha in shas):
            return None
        files = [pictures_of(self._run, sha) for sha in shas]
        if not all(files):
            return None
        source, followup = (self._read(side) for side in files)
        return source, followup

    def _read(self, files: Mapping[str, Path]) -> dict[str, bytes]:
        """The kept PNG files; one that leads out of the run folder is not read."""
        root = self._run.folder.resolve()
        inside = {name: path for name, path in files.items() if path.suffix == PNG and path.resolve().is_relative_to(root)}
        return {name: path.read_bytes() for name, path in inside.items() if _is_picture(path)}

    @cached_property
    def _campaign(self) -> Campaign:
        settle_threads()
        return rebuild(self._run, self._trusted)

    def _rebuilt(self, finding: Finding) -> tuple[dict[str, bytes], dict[str, bytes]]:
        source = read_case(self._campaign, finding.case)
        followup = build_change(finding.change, self._run.base, self._trusted)(source)
        if (source.input_sha, followup.input_sha) != (finding.source_sha, finding.input_sha):
            raise StoreError("the data or the change now gives another input than the finding had")
        return _files(source), _files(followup)


def _is_picture(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > LARGEST:
        return False
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


def _files(case: Case) -> dict[str, bytes]:
    made = ((name, sensor_file(value)) for name, value in case.inputs.items())
    return {name: file[1] for name, file in made if file is not None and file[0] == PNG}
