"""WebP, BMP and the portable pixmaps PPM, PGM and PBM."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from swerve.sources.image_containers.container import PIECES, BadImage, Container, check_size, several, truncated
from swerve.sources.image_containers.tiff import orientation

RUN_LENGTHS = (1, 2)  # compression methods of a BMP
GAP = rb"(?:\s|#[^\r\n]*[\r\n])+"
NUMBER = GAP + rb"(\d{1,9})"
BITMAP = re.compile(rb"P4" + 2 * NUMBER + rb"\s")
GREYS_OR_COLOURS = re.compile(rb"P[56]" + 3 * NUMBER + rb"\s")
PORTABLE = {b"P4": "PBM", b"P5": "PGM", b"P6": "PPM"}


def from_webp(data: bytes) -> Container:
    """The picture in a WebP, without a separately stored alpha channel."""
    if data[8:12] != b"WEBP":
        raise BadImage("a RIFF file that is not WebP")
    parts = dict(_chunks(data))
    if b"ANIM" in parts or b"ANMF" in parts:
        raise several("an animated WebP")
    kind = b"VP8 " if b"VP8 " in parts else b"VP8L"
    body = parts.get(kind, b"")
    if kind == b"VP8 ":
        width, height = (number & 0x3FFF for number in struct.unpack_from("<HH", body, 6))
    else:
        (packed,) = struct.unpack_from("<I", body, 1)
        width, height = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    check_size("WebP", width, height)
    chunk = struct.pack("<4sI", kind, len(body)) + body + bytes(len(body) % 2)
    clean = struct.pack("<4sI4s", b"RIFF", 4 + len(chunk), b"WEBP") + chunk
    return Container("WebP", clean, width, height, orientation=orientation(parts.get(b"EXIF", b"")))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    whole, at = 8 + struct.unpack_from("<I", data, 4)[0], 12
    if whole > len(data):
        raise truncated("WebP")
    for _ in range(PIECES):
        if at >= whole:
            return
        kind, length = struct.unpack_from("<4sI", data, at)
        if at + 8 + length > whole:
            raise truncated("WebP")
        yield kind, data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2
    raise BadImage(f"a WebP with more than {PIECES:,} chunks")


def from_bmp(data: bytes) -> Container:
    """The picture in a BMP."""
    pixels, header = struct.unpack_from("<II", data, 10)
    old = header == 12
    width, height = struct.unpack_from("<HH" if old else "<ii", data, 18)
    check_size("BMP", width, abs(height))  # negative: the top row comes first
    bits, packed = struct.unpack_from("<HI", data, 24 if old else 28)
    row = (width * bits + 31) // 32 * 4
    if (old or packed not in RUN_LENGTHS) and pixels + row * abs(height) > len(data):
        raise truncated("BMP")
    return Container("BMP", data, width, abs(height))


def from_portable(data: bytes) -> Container:
    """The picture in a PPM, PGM or PBM: its pixels only."""
    kind = PORTABLE[data[:2]]
    head = (BITMAP if kind == "PBM" else GREYS_OR_COLOURS).match(data)
    if head is None:
        raise BadImage(f"a {kind} with a damaged or truncated header")
    width, height, top = (*map(int, head.groups()), 1)[:3]
    check_size(kind, width, height)
    if not 1 <= top <= 65535:
        raise BadImage(f"a {kind} with a maximum value of {top}; it must be from 1 to 65535")
    row = (width + 7) // 8 if kind == "PBM" else width * (3 if kind == "PPM" else 1) * (2 if top > 255 else 1)
    end = head.end() + row * height
    if end > len(data):
        raise truncated(kind)
    if data[end:].strip():
        raise several(f"a {kind} with more data than one picture")
    return Container(kind, data[head.end() : end], width, height, 16 if top > 255 else 8, kind == "PPM", top=top)
