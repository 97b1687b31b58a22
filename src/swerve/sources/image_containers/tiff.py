"""TIFF: the directory is rewritten with only the tags that define pixels; and the orientation in EXIF data."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from swerve.config import limits
from swerve.sources.image_containers.container import PIECES, BadImage, Container, check_size, several

WIDTH, HEIGHT, BITS, SAMPLES, ROWS_PER_STRIP, PLANAR, TILE_WIDTH, TILE_HEIGHT = 256, 257, 258, 277, 278, 284, 322, 323
ORIENTATION = 274
PLACES = (273, 279, 324, 325)  # offsets and lengths of strips or tiles
# One number each; the last are compression, colour space, fill order, fax options, predictor and YCbCr positioning.
SINGLE = (WIDTH, HEIGHT, SAMPLES, ROWS_PER_STRIP, PLANAR, TILE_WIDTH, TILE_HEIGHT, 259, 262, 266, 292, 293, 317, 531)
# Several: palette, alpha, sample format, JPEG tables, YCbCr.
SEVERAL = (BITS, 320, 338, 339, 347, 529, 530, 532)
KEPT = frozenset((*SINGLE, *SEVERAL, *PLACES))
BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}  # of one number, by its type
SHORT, LONG = 3, 4
ORDERS = {b"II*\0": "<", b"MM\0*": ">"}

Tag = tuple[int, int, int, bytes]  # number, type, count, and the value or its offset


def from_tiff(data: bytes) -> Container:
    """The picture in a TIFF."""
    order, tags, following = _directory(data)
    if following:
        raise several("a TIFF with several pages")
    values = {tag: _first(data, order, kind, count, field) for tag, kind, count, field in tags if kind in (SHORT, LONG)}
    width, height = values.get(WIDTH, 0), values.get(HEIGHT, 0)
    check_size("TIFF", width, height)
    kept = [tag for tag in tags if tag[0] in KEPT]
    _check(kept, _pieces(values))
    _check_places(kept, order, len(data))
    deep, colour = values.get(BITS, 1), values.get(SAMPLES, 1) > 1
    clean = _rewritten(data, order, kept)
    return Container("TIFF", clean, width, height, deep, colour, orientation=_possible(values.get(ORIENTATION, 1)))


def orientation(exif: bytes) -> int:
    """The orientation in EXIF data; 1 (upright) if it is missing or unreadable."""
    try:
        order, tags, _ = _directory(exif.removeprefix(b"Exif\0\0"))
    except (struct.error, KeyError):
        return 1
    fields = [field for number, _, _, field in tags if number == ORIENTATION]
    return _possible(struct.unpack_from(f"{order}H", fields[0])[0]) if fields else 1


def _possible(number: int) -> int:
    return number if 1 <= number <= 8 else 1


def _directory(data: bytes) -> tuple[str, list[Tag], int]:
    """Byte order, the tags of the first directory, and the offset of the next one."""
    order = ORDERS[data[:4]]
    (at,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, at)
    end = at + 2 + 12 * count
    return order, list(struct.iter_unpack(f"{order}HHI4s", data[at + 2 : end])), _next(data, order, end)


def _next(data: bytes, order: str, at: int) -> int:
    return int(struct.unpack_from(f"{order}I", data, at)[0])


def _first(data: bytes, order: str, kind: int, count: int, field: bytes) -> int:
    """The first of a tag's integers."""
    form = f"{order}{'H' if kind == SHORT else 'I'}"
    if count * BYTES[kind] <= 4:
        return int(struct.unpack_from(form, field)[0])
    return int(struct.unpack_from(form, data, _next(field, order, 0))[0])


def _pieces(values: Mapping[int, int]) -> int:
    """The number of strips or tiles that a picture of this size needs."""
    width, height = values[WIDTH], values[HEIGHT]
    across, down = values.get(TILE_WIDTH, width), values.get(TILE_HEIGHT, values.get(ROWS_PER_STRIP, height))
    if min(across, down) < 1 or values.get(TILE_WIDTH, 1) * values.get(TILE_HEIGHT, 1) > limits.PIXELS:
        raise BadImage(
            f"a TIFF with a strip or tile that is empty, or a tile of more than {limits.PIXELS:,} "
            f"pixels (swerve list limits)"
        )
    layers = values.get(SAMPLES, 1) if values.get(PLANAR) == 2 else 1
    return -(-width // across) * -(-height // down) * layers


def _check(tags: Sequence[Tag], pieces: int) -> None:
    """Refuse a directory that contradicts itself or does not cover the whole picture."""
    twice = len({number for number, *_ in tags}) < len(tags)
    if twice or any(count != 1 for number, _, count, _ in tags if number in SINGLE):
        raise BadImage("a damaged TIFF: its header contradicts itself")
    if any(count != pieces for number, _, count, _ in tags if number in PLACES):
        raise BadImage("a damaged TIFF: too few or too many strips or tiles")


def _check_places(tags: Sequence[Tag], order: str, length: int) -> None:
    """Refuse values outside the file, and values that several tags share so that they exceed the file."""
    sizes = [count * BYTES.get(kind, length) for _, kind, count, _ in tags]
    ends = [_next(tag[3], order, 0) + size if size > 4 else 0 for tag, size in zip(tags, sizes, strict=True)]
    if sum(sizes) > length or max(ends) > length or any(count > PIECES for _, _, count, _ in tags):
        raise BadImage("a damaged TIFF: its header refers to more data than the file has")


def _rewritten(data: bytes, order: str, tags: Sequence[Tag]) -> bytes:
    """The file with only `tags` in its directory, in the same place: appended, they could replace missing pixels."""
    at = _next(data, order, 4)
    directory = struct.pack(f"{order}H", len(tags)) + b"".join(struct.pack(f"{order}HHI4s", *tag) for tag in tags) + bytes(4)
    return data[:at] + directory + data[at + len(directory) :]
