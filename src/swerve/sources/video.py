"""Video files as drives: frames by number, decoded from the start, so that a number always means the same frame."""

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
from swerve.sources.root import VIDEOS, Root

MATROSKA = b"\x1aE\xdf\xa3"  # and WebM: they do not store the number of frames
BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")  # start of an MP4 or QuickTime file
CACHED = 8  # frames
SILENT = "-8"  # libav's log level for no messages


@dataclass(frozen=True)
class Video(ListedSource):
    """The frames of every video below `folder`, each video a drive; the case NAME#000123 is frame 123, counted from 0.

    Frames are decoded in order and never by seeking, which in many files returns a neighbouring frame: reading in order
    decodes each frame once, going back starts the video again. A rotation stored in the video is applied, as OpenCV does by
    default. Errors that the decoder conceals, such as a few damaged blocks, go unnoticed.

    Args:
        file: one video below the folder; all videos if empty.
        every: take every n-th frame.
        start: the first frame.
        stop: the frame to stop before; None reads to the end.
    """

    file: str = ""
    every: int = 1
    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        stop = self.start + 1 if self.stop is None else self.stop
        if self.every < 1 or self.start < 0 or stop <= self.start:
            given = f"every {self.every}, start {self.start}, stop {self.stop}"
            raise InputError(f"video: 'every' must be at least 1, 'start' at least 0 and 'stop' above 'start', got {given}")

    def listed(self) -> Iterable[Entry]:
        """The frames of each video; a video that cannot be opened is one entry that cannot be used."""
        for name in [self.file] if self.file else sorted(self.root.names(*VIDEOS), key=in_order):
            try:
                count = self._frames.count(name)
            except UnreadableCase as error:
                yield Entry(name, {CAMERA: name}, group=name, fault=str(error))
                continue
            for index in range(self.start, count if self.stop is None else min(count, self.stop), self.every):
                yield Entry(f"{name}#{index:06d}", {CAMERA: name}, group=name)

    def inputs(self, entry: Entry) -> Mapping[str, Value]:
        return {CAMERA: self._frames.frame(entry.files[CAMERA], int(entry.key.rpartition("#")[2]))}

    @cached_property
    def _frames(self) -> FrameReader:
        return FrameReader(self.root)


class FrameReader:
    """Decodes one video at a time, forwards; the last few frames are cached."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._name = ""
        self._capture = cv2.VideoCapture()
        self._next = 0
        self._recent: OrderedDict[tuple[str, int], Image] = OrderedDict()
        self._guard = threading.Lock()

    def count(self, name: str) -> int:
        """The number of frames that a video declares or, if its format does not, that can be decoded."""
        with self._guard:
            kind = self._open(name)
            declared = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))
            count = self._count_frames() if declared < 1 or kind == MATROSKA else declared
            if not 0 < count <= limits.ROWS:
                raise UnreadableCase(f"{name}: {count:,} frames; 1 to {limits.ROWS:,} are read (swerve list limits)")
            return count

    def frame(self, name: str, index: int) -> Image:
        """One frame; raises `UnreadableCase` if the video ends before it or cannot be decoded."""
        with self._guard:
            if (name, index) not in self._recent:
                self._recent[name, index] = self._decoded(name, index)
                while len(self._recent) > CACHED:
                    self._recent.popitem(last=False)
            return self._recent[name, index]

    def _decoded(self, name: str, index: int) -> Image:
        if name != self._name or index < self._next:
            self._open(name)
        while self._next <= index:
            if not self._capture.grab():
                raise UnreadableCase(f"{name}: frame {index} cannot be decoded, only the first {self._next} can")
            self._next += 1
        whole, pixels = self._capture.retrieve()
        if not whole or pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise UnreadableCase(f"{name}: frame {index} cannot be decoded to 8-bit colours")
        return Image(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))

    def _count_frames(self) -> int:
        while self._next <= limits.ROWS and self._capture.grab():
            self._next += 1
        return self._next

    def _open(self, name: str) -> bytes:
        """Open a video at its first frame; returns the bytes that identify its format."""
        self._capture.release()
        self._name, self._next = "", 0
        # The decoder gets the checked file by its descriptor: a name could contain a URL or a pattern.
        with self._root.open(name) as file, _quiet():
            start = file.read(12)
            _check_kind(start, name)
            file.seek(0)
            self._capture.open(f"/dev/fd/{file.fileno()}", cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise UnreadableCase(f"{name}: not a video that can be decoded")
        width, height = (int(self._capture.get(what)) for what in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        if width * height > limits.PIXELS:
            self._capture.release()
            raise UnreadableCase(f"{name}: {width}x{height} pixels, at most {limits.PIXELS:,} are read (swerve list limits)")
        self._name = name
        return start[:4]


def _check_kind(start: bytes, name: str) -> None:
    """Refuse other containers: a playlist would make the decoder open other files and URLs."""
    avi = start[:4] == b"RIFF" and start[8:12] == b"AVI "
    if not (avi or start[:4] == MATROSKA or start[4:8] in BOXES):
        raise UnreadableCase(f"{name}: not a supported video; expected MP4, QuickTime, AVI, Matroska or WebM")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the decoder from printing about a bad file: the error is raised here."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", SILENT)
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
