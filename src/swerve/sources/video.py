"""Video files as drives: every frame by its number, decoded from the start, so that it is the same one every time."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Image, Value
from swerve.sources.folders import in_order
from swerve.sources.listed import CAMERA, Entry, ListedSource
from swerve.sources.root import Root

SUFFIXES = (".mp4", ".mov", ".avi", ".mkv", ".webm")
COUNTED = b"\x1aE\xdf\xa3"  # Matroska and WebM do not say how many frames they hold
BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")  # what an MP4 or QuickTime file begins with
REMEMBERED = 8  # frames
SILENT = "-8"  # libav's own number for no messages


@dataclass(frozen=True)
class Video(ListedSource):
    """The frames of every video below `folder`, each video a drive; the case NAME#000123 is the frame after 123 others.

    Frames are decoded one after the other and never by seeking, which many files answer with a neighbour: reading in
    order costs one decoding for each frame, going back starts the video again. A video that asks to be shown turned is
    turned, as OpenCV does by default. What a decoder conceals, such as a few damaged blocks, nobody can see here.

    Args:
        file: the name of one video below the folder; all of them where it is empty.
        every: take each so manieth frame.
        start: the first frame to take.
        stop: the first frame not to take any more; None goes on to the end.
    """

    file: str = ""
    every: int = 1
    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        stop = self.start + 1 if self.stop is None else self.stop
        if self.every < 1 or self.start < 0 or stop <= self.start:
            got = f"every {self.every}, start {self.start}, stop {self.stop}"
            raise InputError(f"video: every must be at least 1, start at least 0, stop above start; got {got}")

    def listed(self) -> Iterable[Entry]:
        """The frames of each video; one that does not open is one entry that cannot be used."""
        for name in [self.file] if self.file else sorted(self.root.names(*SUFFIXES), key=in_order):
            try:
                count = self._reel.count(name)
            except UnreadableCase as error:
                yield Entry(name, {CAMERA: name}, group=name, fault=str(error))
                continue
            for index in range(self.start, count if self.stop is None else min(count, self.stop), self.every):
                yield Entry(f"{name}#{index:06d}", {CAMERA: name}, group=name)

    def inputs(self, entry: Entry) -> Mapping[str, Value]:
        return {CAMERA: self._reel.frame(entry.files[CAMERA], int(entry.key.rpartition("#")[2]))}

    @cached_property
    def _reel(self) -> Reel:
        return Reel(self.root)


class Reel:
    """Plays one video at a time, forwards; the last few frames it gave are given again without playing."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._name = ""
        self._played = cv2.VideoCapture()
        self._next = 0
        self._recent: OrderedDict[tuple[str, int], Image] = OrderedDict()
        self._guard = threading.Lock()

    def count(self, name: str) -> int:
        """How many frames a video says it has or, where its kind does not say it, how many are decoded."""
        with self._guard:
            kind = self._open(name)
            declared = int(self._played.get(cv2.CAP_PROP_FRAME_COUNT))
            count = self._played_through() if declared < 1 or kind == COUNTED else declared
            if not 0 < count <= limits.ROWS:
                raise UnreadableCase(f"{name}: {count:,} frames, 1 to {limits.ROWS:,} are read (swerve list limits)")
            return count

    def frame(self, name: str, index: int) -> Image:
        """One frame; raises `UnreadableCase` where the video ends before it, or breaks off."""
        with self._guard:
            if (name, index) not in self._recent:
                self._recent[name, index] = self._decoded(name, index)
                while len(self._recent) > REMEMBERED:
                    self._recent.popitem(last=False)
            return self._recent[name, index]

    def _decoded(self, name: str, index: int) -> Image:
        if name != self._name or index < self._next:
            self._open(name)
        while self._next <= index:
            if not self._played.grab():
                raise UnreadableCase(f"{name}: frame {index} does not decode, only {self._next} do")
            self._next += 1
        whole, pixels = self._played.retrieve()
        if not whole or pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise UnreadableCase(f"{name}: frame {index} does not decode to colours of 8 bits")
        return Image(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))

    def _played_through(self) -> int:
        while self._next <= limits.ROWS and self._played.grab():
            self._next += 1
        return self._next

    def _open(self, name: str) -> bytes:
        """Stand before the first frame of a video; returns the bytes that tell its kind."""
        self._played.release()
        self._name, self._next = "", 0
        # The decoder gets the file that was opened and checked, under a name that holds neither address nor pattern.
        with self._root.open(name) as file, _quiet():
            start = file.read(12)
            _check_kind(start, name)
            file.seek(0)
            self._played.open(f"/dev/fd/{file.fileno()}", cv2.CAP_FFMPEG)
        if not self._played.isOpened():
            raise UnreadableCase(f"{name}: not a video that can be decoded")
        width, height = (int(self._played.get(what)) for what in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        if width * height > limits.PIXELS:
            self._played.release()
            raise UnreadableCase(f"{name}: {width}x{height} pixels, at most {limits.PIXELS:,} are read (swerve list limits)")
        self._name = name
        return start[:4]


def _check_kind(start: bytes, name: str) -> None:
    """Refuse all but the containers named here: a playlist would have the decoder open other files and addresses."""
    avi = start[:4] == b"RIFF" and start[8:12] == b"AVI "
    if not (avi or start[:4] == COUNTED or start[4:8] in BOXES):
        raise UnreadableCase(f"{name}: not a video; MP4, QuickTime, AVI, Matroska and WebM are read")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the decoder from writing about a bad file itself: its line comes from here."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", SILENT)
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
