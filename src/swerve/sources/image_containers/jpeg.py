"""JPEG: every segment is read up to the end-of-image marker, which decoders do not require.

EXIF data is skipped, so that the end of a thumbnail is not taken for the end of the picture. Of the application segments,
only JFIF's and Adobe's are kept: they define the colour space.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from swerve.sources.image_containers.container import PIECES, BadImage, Container, check_size, several, truncated
from swerve.sources.image_containers.tiff import orientation

SCANS = 64  # most scans of a progressive picture; each covers all pixels
FILL = re.compile(rb"\xff*")
END_OF_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")

START, END, SCAN, JFIF, EXIF, PAIR, ADOBE = 0xD8, 0xD9, 0xDA, 0xE0, 0xE1, 0xE2, 0xEE
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # contain the size
ALONE = frozenset((0x01, *range(0xD0, 0xDA)))  # have no length

Segment = tuple[int, int, int]  # code, start and end; for a scan, the end of its data


def from_jpeg(data: bytes) -> Container:
    """The picture in a JPEG."""
    segments = list(_segments(data))
    codes = [code for code, _, _ in segments]
    sizes = [_size(data, start) for code, start, _ in segments if code in FRAMES]
    if not sizes or SCAN not in codes:
        raise BadImage("a JPEG without image data")
    if len(sizes) > 1 or any(_is(data, segment, PAIR, b"MPF\0") for segment in segments):
        raise several("a JPEG with several pictures")
    if codes.count(SCAN) > SCANS:
        raise BadImage(f"a JPEG with more than {SCANS} scans")
    kept = (data[start:end] for code, start, end in segments if code < JFIF or code in (JFIF, ADOBE))
    exif = next((data[start + 4 : end] for _, start, end in (s for s in segments if _is(data, s, EXIF, b"Exif\0\0"))), b"")
    return Container("JPEG", b"".join(kept), *sizes[0], orientation=orientation(exif))


def _segments(data: bytes) -> Iterator[Segment]:
    """All segments up to the one that ends the picture."""
    at = 0
    for _ in range(PIECES):
        segment = code, _, at = _segment(data, at)
        yield segment
        if code == END:
            return
    raise BadImage(f"a JPEG with more than {PIECES:,} segments")


def _segment(data: bytes, at: int) -> Segment:
    fill = FILL.match(data, at)
    start = max(at, fill.end() - 1 if fill else at)  # any number of fill bytes may precede a marker
    if start + 2 > len(data):
        raise truncated("JPEG")
    if data[start] != 0xFF:
        raise BadImage("a damaged JPEG: a segment does not start with a marker")
    code, end = data[start + 1], start + 2
    if code not in ALONE:
        end += struct.unpack_from(">H", data, end)[0]
    if code == SCAN:
        marker = END_OF_SCAN.search(data, end)
        end = marker.start() if marker else len(data) + 1
    if end > len(data):
        raise truncated("JPEG")
    return code, start, end


def _is(data: bytes, segment: Segment, code: int, name: bytes) -> bool:
    return segment[0] == code and data.startswith(name, segment[1] + 4)


def _size(data: bytes, start: int) -> tuple[int, int]:
    bits, height, width = struct.unpack_from(">BHH", data, start + 4)
    check_size("JPEG", width, height)
    if bits != 8:
        raise BadImage(f"a JPEG with {bits} bits per channel; only 8 are supported")
    return width, height
