"""PNG: the checksum of every chunk is verified; text, profiles and gamma are dropped."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from swerve.config import limits
from swerve.sources.image_containers.container import PIECES, BadImage, Container, check_size, several, truncated
from swerve.sources.image_containers.tiff import orientation

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PIXELS = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
PACKED = (b"zTXt", b"iTXt", b"iCCP")
TEXT = 4 * limits.MEGA  # most bytes that the texts and profiles of one picture unpack to
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))

Chunk = tuple[bytes, int, int]  # kind, start and end


def from_png(data: bytes) -> Container:
    """The picture in a PNG."""
    if data[8:16] != b"\0\0\0\rIHDR":
        raise BadImage("a PNG that does not start with its header")
    width, height, bits, colour = struct.unpack_from(">IIBB", data, 16)
    check_size("PNG", width, height)
    chunks = list(_chunks(data))
    _refuse_unknown([kind for kind, _, _ in chunks])
    _refuse_bombs(data, chunks)
    needed = [data[start:end] for kind, start, end in chunks if kind in PIXELS]
    clean = data if len(needed) == len(chunks) else SIGNATURE + b"".join(needed)
    exif = next((data[start + 8 : end - 4] for kind, start, end in chunks if kind == b"eXIf"), b"")
    return Container("PNG", clean, width, height, bits, colour not in (0, 3), colour == 3, orientation(exif))


def short_of_rows(picture: Container) -> bool:
    """Whether a PNG's data ends before its last row: a decoder may silently fill the rest with black."""
    view, inflater = memoryview(picture.data), zlib.decompressobj()
    missing = sum(_bytes_of_passes(picture))
    for kind, start, end in _chunks(picture.data):
        packed: bytes | memoryview = view[start + 8 : end - 4] if kind == b"IDAT" else b""
        while packed and missing > 0:
            missing -= len(inflater.decompress(packed, limits.MEGA))
            packed = inflater.unconsumed_tail
    return bool(missing > 0)


def _chunks(data: bytes) -> Iterator[Chunk]:
    """Every chunk up to the last, each with its checksum verified."""
    view, start = memoryview(data), len(SIGNATURE)
    for _ in range(PIECES):
        if start + 12 > len(data):
            raise truncated("PNG")
        (length,) = struct.unpack_from(">I", data, start)
        kind, end = data[start + 4 : start + 8], start + 12 + length
        if end > len(data):
            raise truncated("PNG")
        if zlib.crc32(view[start + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            raise BadImage(f"a damaged PNG: the checksum of its {kind.decode('latin-1')} chunk is wrong")
        yield kind, start, end
        if kind == b"IEND":
            return
        start = end
    raise BadImage(f"a PNG with more than {PIECES:,} chunks")


def _refuse_unknown(kinds: list[bytes]) -> None:
    if b"acTL" in kinds:
        raise several("an animated PNG")
    for kind in kinds:
        if kind not in PIXELS and kind[:1].isupper():  # an upper-case letter marks a critical chunk
            raise BadImage(f"a PNG with an unknown critical chunk {kind.decode('latin-1')}")


def _refuse_bombs(data: bytes, chunks: list[Chunk]) -> None:
    left = TEXT
    for kind, start, end in chunks:
        if kind in PACKED:
            left -= _unpacked(kind, data[start + 8 : end - 4], left + 1)
        if left < 0:
            raise BadImage(f"a PNG whose texts unpack to more than {TEXT:,} bytes")


def _unpacked(kind: bytes, body: bytes, most: int) -> int:
    """The unpacked size of a text or profile; 0 if it cannot be unpacked, as then no decoder will."""
    _, _, rest = body.partition(b"\0")
    packed = rest[1:]
    if kind == b"iTXt":
        packed = rest[2:].partition(b"\0")[2].partition(b"\0")[2] if rest[:1] == b"\1" else b""
    try:
        return len(zlib.decompressobj().decompress(packed, most))
    except zlib.error:
        return 0


def _bytes_of_passes(picture: Container) -> Iterator[int]:
    """The number of bytes of each pass; an interlaced picture has seven, any other one."""
    bits, colour, _, _, interlaced = struct.unpack_from(">BBBBB", picture.data, 24)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colour, 1)
    for left, top, right, down in ADAM7 if interlaced else ((0, 0, 1, 1),):
        rows, columns = -(-(picture.height - top) // down), -(-(picture.width - left) // right)
        if rows > 0 and columns > 0:
            yield rows * (1 + (columns * channels * bits + 7) // 8)
