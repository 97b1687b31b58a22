"""Picture files of every kind that is read, and the pixels that each has to give."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
from PIL import Image as Pillow

from swerve.core.values import Array

Parts = Sequence[tuple[bytes, bytes]]

WIDTH, HEIGHT = 13, 9
RNG = np.random.default_rng(3)
RGB: Array = RNG.integers(1, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
ALPHA: Array = RNG.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
DEEP: Array = RNG.integers(0, 65536, (HEIGHT, WIDTH, 3), dtype=np.uint16)
PALETTE: Array = RNG.integers(0, 256, (5, 3), dtype=np.uint8)
INDICES: Array = RNG.integers(0, 5, (HEIGHT, WIDTH), dtype=np.uint8)
BITS: Array = RNG.integers(0, 2, (HEIGHT, WIDTH), dtype=np.uint8)
FLOATS: Array = RNG.random((HEIGHT, WIDTH), dtype=np.float32)
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def three(grey: Array) -> Array:
    return np.dstack([grey] * 3).astype(np.uint8)


def eighth(deep: Array) -> Array:
    """16 bits as 8, one number at a time."""
    return np.array([round(int(number) / 257) for number in deep.ravel()], dtype=np.uint8).reshape(deep.shape)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels: Array, colour: int, bits: int = 8, *, parts: Parts = (), interlaced: bool = False) -> bytes:
    """A PNG by hand; `pixels` are the samples as stored, a low number of bits already packed."""
    grids = ((0, 0, 1, 1),) if not interlaced else ADAM7
    passes = (pixels[top::down, left::right] for left, top, right, down in grids)
    rows = b"".join(b"\0" + row.tobytes() for part in passes if part.size for row in part)
    return assembled(struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, colour, 0, 0, interlaced), zlib.compress(rows), parts)


def assembled(header: bytes, packed: bytes, parts: Parts = ()) -> bytes:
    chunks = ((b"IHDR", header), *parts, (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in chunks)


def saved(picture: Pillow.Image | Array, kind: str, **options: Any) -> bytes:
    """What Pillow writes."""
    file = io.BytesIO()
    (picture if isinstance(picture, Pillow.Image) else Pillow.fromarray(picture)).save(file, kind, **options)
    return file.getvalue()


def exif(orientation: int) -> bytes:
    tags = Pillow.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def with_thumbnail(jpeg: bytes) -> bytes:
    """A JPEG with a whole little JPEG in its EXIF."""
    body = b"Exif\0\0" + exif(1).removeprefix(b"Exif\0\0") + saved(RGB[:4, :4], "JPEG")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def indexed() -> Pillow.Image:
    picture = Pillow.fromarray(INDICES)
    picture.putpalette(PALETTE.tobytes())
    return picture


def in_opencv(pixels: Array, suffix: str, *options: int) -> bytes:
    return cv2.imencode(suffix, pixels, options)[1].tobytes()


def as_pillow_sees_it(data: bytes) -> Array:
    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB"))


JPEG = saved(RGB, "JPEG", quality=90)
CMYK = saved(Pillow.fromarray(RGB).convert("CMYK"), "JPEG", quality=95)
PLTE = (b"PLTE", PALETTE.tobytes())
WIDE = DEEP.astype(">u2")
DEEP_ALPHA = np.dstack([DEEP, ALPHA * np.uint16(257)]).astype(">u2")
GREY = RGB[:, :, 0]
NIBBLES: Array = INDICES * 3
DIM: Array = np.array([int(Fraction(int(number) * 255, 100) + Fraction(1, 2)) for number in (RGB % 101).ravel()], np.uint8)
PROFILE = b"not a profile, and never looked at"

# R34: what is stored, and the only picture it may become.
KINDS: dict[str, tuple[bytes, Array]] = {
    "rgb-png": (png(RGB, 2), RGB),
    "rgb-jpeg": (JPEG, as_pillow_sees_it(JPEG)),
    "rgb-bmp": (saved(RGB, "BMP"), RGB),
    "rgb-tiff": (saved(RGB, "TIFF"), RGB),
    "rgb-tiff-lzw": (saved(RGB, "TIFF", compression="tiff_lzw"), RGB),
    "rgb-webp": (saved(RGB, "WEBP", lossless=True), RGB),
    "rgb-ppm": (saved(RGB, "PPM"), RGB),
    "grey-png": (png(GREY, 0), three(GREY)),
    "grey-jpeg": (saved(GREY, "JPEG"), as_pillow_sees_it(saved(GREY, "JPEG"))),
    "grey-pgm": (saved(GREY, "PPM"), three(GREY)),
    "grey-alpha-png": (png(np.dstack([GREY, ALPHA]), 4), three(GREY)),
    "rgba-png": (png(np.dstack([RGB, ALPHA]), 6), RGB),
    "rgba-webp": (saved(np.dstack([RGB, ALPHA]), "WEBP", lossless=True, exact=True), RGB),
    "palette-png": (png(INDICES, 3, parts=[PLTE]), PALETTE[INDICES]),
    "palette-see-through": (png(INDICES, 3, parts=[PLTE, (b"tRNS", b"\0\x80\xff")]), PALETTE[INDICES]),
    "palette-bmp": (saved(indexed(), "BMP"), PALETTE[INDICES]),
    "cmyk-jpeg": (CMYK, as_pillow_sees_it(CMYK)),
    "grey16-png": (png(WIDE[:, :, 0], 0, 16), three(eighth(DEEP[:, :, 0]))),
    "grey16-tiff": (saved(DEEP[:, :, 0], "TIFF"), three(eighth(DEEP[:, :, 0]))),
    "grey16-pgm": (b"P5\n13 9\n65535\n" + WIDE[:, :, 0].tobytes(), three(eighth(DEEP[:, :, 0]))),
    "grey16-alpha-png": (png(DEEP_ALPHA[:, :, [0, 3]], 4, 16), three(eighth(DEEP[:, :, 0]))),
    "rgb16-png": (png(WIDE, 2, 16), eighth(DEEP)),
    "rgb16-tiff": (in_opencv(DEEP[:, :, ::-1], ".tif", cv2.IMWRITE_TIFF_COMPRESSION, 1), eighth(DEEP)),
    "rgb16-ppm": (b"P6 13 # a note\n9\n65535\n" + WIDE.tobytes(), eighth(DEEP)),
    "rgba16-png": (png(DEEP_ALPHA, 6, 16), eighth(DEEP)),
    "1-bit-png": (png(np.packbits(BITS, axis=1), 0, 1), three(BITS * 255)),
    "1-bit-pbm": (b"P4\n13 9\n" + np.packbits(1 - BITS, axis=1).tobytes(), three(BITS * 255)),
    "4-bit-png": (saved(Pillow.fromarray(NIBBLES * 17), "PNG", bits=4), three(NIBBLES * 17)),
    "float-tiff": (saved(FLOATS, "TIFF"), three(np.rint(FLOATS.astype(float) * 255))),
    "dim-ppm": (b"P6\n13 9\n100\n" + (RGB % 101).tobytes(), DIM.reshape(RGB.shape)),
    "interlaced-png": (png(RGB, 2, interlaced=True), RGB),
    "profile-png": (png(RGB, 2, parts=[(b"iCCP", b"x\0\0" + zlib.compress(PROFILE))]), RGB),
    "profile-jpeg": (saved(RGB, "JPEG", quality=90, icc_profile=PROFILE), as_pillow_sees_it(JPEG)),
    "progressive-jpeg": (saved(RGB, "JPEG", quality=90, progressive=True), as_pillow_sees_it(JPEG)),
}

# Before it is turned the way EXIF says, a corner of the picture lies here: how to store `RGB` so that it comes out as it is.
STORED = {
    1: RGB,
    2: RGB[:, ::-1],
    3: RGB[::-1, ::-1],
    4: RGB[::-1],
    5: RGB.swapaxes(0, 1),
    6: np.rot90(RGB, 1),
    7: np.rot90(RGB, 2).swapaxes(0, 1),
    8: np.rot90(RGB, -1),
}
