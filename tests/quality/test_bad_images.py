"""R30 to R32: damaged pictures, cut pictures and bombs are refused with a line, quickly and without much memory.

10,000 mutated files with SWERVE_SOAK=1, a few hundred otherwise.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from swerve.core.errors import LONGEST_MESSAGE, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.sources.images import decode_image
from tests.picture_files import CMYK, JPEG, KINDS, RGB, assembled, chunk, png, saved, with_thumbnail

SOAK = os.environ.get("SWERVE_SOAK") == "1"
FILES = 10_000 if SOAK else 600
SECONDS = 5.0
MEMORY = 1_000_000  # KB
TEXT_BOMB = (1024 if SOAK else 128) << 20

LARGE: Array = np.kron(RGB, np.ones((12, 12, 1), np.uint8))
SEEDS = (
    *(data for data, _ in KINDS.values()),
    *(saved(LARGE, kind) for kind in ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "PPM")),
    saved(LARGE, "JPEG", progressive=True),
    saved(LARGE, "TIFF", compression="jpeg"),
    saved(LARGE, "TIFF", compression="tiff_adobe_deflate"),
    saved(LARGE[:, :, 0] > 99, "TIFF", compression="group4"),
    with_thumbnail(JPEG),
)


def flipped(data: bytearray, rng: np.random.Generator) -> None:
    for at in rng.integers(0, len(data), rng.integers(1, 9)):
        data[at] ^= 1 << int(rng.integers(8))


def header_broken(data: bytearray, rng: np.random.Generator) -> None:
    for at in rng.integers(0, min(len(data), 120), rng.integers(1, 5)):
        data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)]))


def cut(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    del data[start : start + int(rng.integers(1, len(data)))]


def spliced(data: bytearray, rng: np.random.Generator) -> None:
    other = SEEDS[rng.integers(len(SEEDS))]
    data[int(rng.integers(len(data))) :] = other[int(rng.integers(len(other))) :]


def doubled(data: bytearray, rng: np.random.Generator) -> None:
    start, end = sorted(rng.integers(0, len(data), 2))
    data[end:end] = data[start:end] * int(rng.integers(1, 4))


CHANGES = (flipped, header_broken, cut, spliced, doubled)


def resealed(data: bytes) -> bytes:
    """A PNG with the right checksums over whatever is in it, so that the damage gets as far as the decoder."""
    out, at = data[:8], 8
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        out += chunk(data[at + 4 : at + 8], data[at + 8 : at + 8 + length])
        at += 12 + length
    return out


def mutated(rng: np.random.Generator) -> bytes:
    data = bytearray(SEEDS[rng.integers(len(SEEDS))])
    for _ in range(rng.integers(1, 3)):
        CHANGES[rng.integers(len(CHANGES))](data, rng)
        data = data or bytearray(b"\0")
    return resealed(bytes(data)) if data.startswith(b"\x89PNG") and rng.random() < 0.5 else bytes(data)


def outcome(data: bytes) -> str:
    """Read or refused; anything else is a fault of the reader."""
    begin, said = time.process_time(), ""
    try:
        pixels = decode_image(data, "x.png").pixels
    except UnreadableCase as error:
        said = str(error)
    assert time.process_time() - begin < SECONDS
    if said:
        assert said.startswith("x.png: ")
        assert len(said) <= LONGEST_MESSAGE
        return "refused"
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3
    return "read"


def peak() -> int:
    """The most memory held so far, in KB."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def test_damaged_files_are_read_or_refused() -> None:
    rng = rng_for("damaged")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is held
    before = peak()
    with warnings.catch_warnings(record=True) as warned:  # as errors they would be refusals, and not be seen
        warnings.simplefilter("always")
        outcomes = [outcome(mutated(rng)) for _ in range(FILES)]
    assert not [str(warning.message) for warning in warned]
    assert peak() - before < MEMORY
    assert outcomes.count("refused") > FILES / 2  # the changes do reach what matters
    assert outcomes.count("read") > FILES / 50


CUT = {
    **{kind: data for kind, (data, _) in KINDS.items()},
    "thumbnail-jpeg": with_thumbnail(JPEG),
    "thumbnail-cmyk": with_thumbnail(CMYK),
    "large-jpeg": saved(LARGE[:40, :40], "JPEG", restart_marker_blocks=1),
}


@pytest.mark.parametrize("kind", CUT)
def test_every_prefix_is_refused(kind: str) -> None:
    data = CUT[kind]
    assert outcome(data) == "read"
    accepted = [length for length in range(len(data)) if outcome(data[:length]) == "read"]
    assert not accepted


def giant_png() -> bytes:
    """30,000 x 30,000 pixels of one bit."""
    packer = zlib.compressobj(9)
    row = bytes(1 + 30_000 // 8)
    packed = b"".join(packer.compress(row * 1000) for _ in range(30)) + packer.flush()
    return assembled(struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0), packed)


def giant_jpeg() -> bytes:
    size = JPEG.index(b"\xff\xc0") + 5
    return JPEG[:size] + b"\xff\xff\xff\xff" + JPEG[size + 4 :]


def text_png(kind: bytes = b"zTXt", head: bytes = b"key\0\0") -> bytes:
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(TEXT_BOMB >> 20)) + packer.flush()
    return png(RGB, 2, parts=[(kind, head + packed)])


def many_frames_webp() -> bytes:
    frame = struct.pack("<4sI", b"ANMF", 16) + bytes(16)
    head = b"VP8X" + struct.pack("<I", 10) + b"\x02" + bytes(9) + struct.pack("<4sI", b"ANIM", 6) + bytes(6)
    body = head + frame * 100_000
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def many_frames_gif() -> bytes:
    frame = b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0"
    return b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0" + frame * 100_000 + b";"


def many_frames_png() -> bytes:
    return png(RGB, 2, parts=[(b"acTL", struct.pack(">II", 100_000, 0)), *[(b"fcTL", bytes(26))] * 1000])


def tiff(entries: list[tuple[int, int, int, int]], following: int = 0, rest: bytes = b"") -> bytes:
    directory = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + directory + struct.pack("<I", following) + rest


SMALL_TIFF = [(256, 3, 1, 8), (257, 3, 1, 8), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]


def looping_tiff() -> bytes:
    return tiff(SMALL_TIFF, following=8)


def nested_tiff() -> bytes:
    """A directory of 60,000 tags that all hold the same megabyte, below it the same again."""
    tags = ((tag, 7, 1 << 20, 1000) for tag in range(700, 60_000))
    return tiff([*SMALL_TIFF, *tags, (34665, 4, 1, 8)], rest=bytes(1 << 20))


def tiled_tiff() -> bytes:
    """Eight pixels in a tile of a thousand million."""
    packed = zlib.compress(bytes(1 << 24), 9)
    tile = [(322, 4, 1, 32_768), (323, 4, 1, 32_768), (324, 4, 1, 200), (325, 4, 1, len(packed))]
    return tiff([*SMALL_TIFF, *tile], rest=bytes(100) + packed)


def wide_tags_tiff() -> bytes:
    return tiff([*SMALL_TIFF, (273, 4, 1 << 30, 8), (279, 4, 1 << 30, 8)])


def giant_bmp() -> bytes:
    return b"BM" + struct.pack("<IIIIiiHH", 70, 0, 54, 40, 60_000, -60_000, 1, 24) + bytes(40)


def giant_webp() -> bytes:
    body = b"\x2f" + struct.pack("<I", 16383 | 16383 << 14) + bytes(20)
    return b"RIFF" + struct.pack("<I", len(body) + 13) + b"WEBPVP8L" + struct.pack("<I", len(body)) + body + b"\0"


def giant_ppm() -> bytes:
    return b"P4\n100000 100000\n"


def scan_flood() -> bytes:
    data = saved(LARGE, "JPEG", progressive=True)
    return data[:-2] + data[data.rindex(b"\xff\xda") : -2] * 20_000 + b"\xff\xd9"


def chunk_flood() -> bytes:
    return png(RGB, 2, parts=[(b"IDAT", b"")] * 500_000)


BOMBS: tuple[Callable[[], bytes], ...] = (
    *(giant_png, giant_jpeg, giant_bmp, giant_webp, giant_ppm, text_png, many_frames_webp, many_frames_gif, many_frames_png),
    *(looping_tiff, nested_tiff, tiled_tiff, wide_tags_tiff, scan_flood, chunk_flood),
)
MEASURE = """
import pathlib, sys, time
from swerve.core.errors import UnreadableCase
from swerve.sources.images import decode_image
decode_image(open(sys.argv[1], "rb").read(), "small")
data = open(sys.argv[2], "rb").read()
# Not from getrusage: there a child starts at the peak of its parent.
peak = lambda: int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before, begin = peak(), time.process_time()
try:
    decode_image(data, "bomb")
    said = "it was read"
except UnreadableCase as error:
    said = str(error)
print(peak() - before, time.process_time() - begin, said, sep="\\n")
"""


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_bombs_do_not_go_off(tmp_path: Path, bomb: Callable[[], bytes]) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(png(RGB, 2))
    large.write_bytes(bomb())
    done = subprocess.run([sys.executable, "-c", MEASURE, small, large], capture_output=True, text=True, check=True)
    kilobytes, seconds, said = done.stdout.strip().split("\n")
    assert said.startswith("bomb: ")
    assert int(kilobytes) < 50_000
    assert float(seconds) < 0.5


def test_measure_sees_a_bomb_that_goes_off(tmp_path: Path) -> None:
    """What the measure is worth: a large honest picture does take its memory."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(png(RGB, 2))
    large.write_bytes(saved(np.zeros((5000, 5000, 3), np.uint8), "PNG", compress_level=1))
    done = subprocess.run([sys.executable, "-c", MEASURE, small, large], capture_output=True, text=True, check=True)
    kilobytes, _, said = done.stdout.strip().split("\n")
    assert said == "it was read"
    assert int(kilobytes) > 100_000
