"""Pictures from files: each kind gives the one picture it may give, and what is odd about a file is said in a line."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageOps

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.sources.image_containers import open_container, short_of_rows
from swerve.sources.images import SUFFIXES, decode_image, read_image, read_labels
from swerve.sources.root import Root
from tests.picture_files import (
    GREY,
    HEIGHT,
    INDICES,
    JPEG,
    KINDS,
    PLTE,
    RGB,
    STORED,
    WIDE,
    WIDTH,
    assembled,
    chunk,
    exif,
    in_opencv,
    indexed,
    png,
    saved,
    three,
    with_thumbnail,
)

HEADER = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)


def refusal(data: bytes) -> str:
    """What is said of a file that is refused."""
    with pytest.raises(UnreadableCase) as error:
        decode_image(data, "odd.png")
    assert str(error.value).startswith("odd.png: ")
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_its_picture(kind: str) -> None:
    data, expected = KINDS[kind]
    pixels = decode_image(data, kind).pixels
    assert pixels.dtype == np.uint8
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    assert pixels.flags.c_contiguous
    assert np.array_equal(pixels, expected)


def test_grey_and_its_colour_copy_are_equal() -> None:
    copy = three(GREY)
    for grey, colour in ((png(GREY, 0), png(copy, 2)), (saved(GREY, "PPM"), saved(copy, "PPM"))):
        assert np.array_equal(decode_image(grey, "grey").pixels, decode_image(colour, "colour").pixels)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_exif_turns_the_picture(kind: str, orientation: int) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(np.ascontiguousarray(STORED[orientation]), kind, exif=exif(orientation), **options)
    assert np.array_equal(decode_image(data, "turned").pixels, RGB)


@pytest.mark.parametrize("orientation", STORED)
def test_exif_turns_a_jpeg_as_pillow_does(orientation: int) -> None:
    data = saved(RGB, "JPEG", exif=exif(orientation))
    expected = np.asarray(ImageOps.exif_transpose(Pillow.open(io.BytesIO(data))))
    assert np.array_equal(decode_image(data, "turned").pixels, expected)


@pytest.mark.parametrize("odd", [0, 9, 65535])
def test_orientation_that_is_none_is_ignored(odd: int) -> None:
    assert np.array_equal(decode_image(saved(RGB, "PNG", exif=exif(odd)), "x").pixels, RGB)


@pytest.mark.parametrize("junk", [b"", b"II*\0", b"II*\0\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff", b"rubbish"])
def test_damaged_exif_is_ignored(junk: bytes) -> None:
    assert np.array_equal(decode_image(png(RGB, 2, parts=[(b"eXIf", junk)]), "x").pixels, RGB)


def test_thumbnail_in_exif_is_ignored() -> None:
    assert np.array_equal(decode_image(with_thumbnail(JPEG), "x").pixels, KINDS["rgb-jpeg"][1])


def test_padding_after_a_jpeg_is_fine() -> None:
    for padding in (b"\0", bytes(4096), b"\xff\xff\0"):
        assert np.array_equal(decode_image(JPEG + padding, "x").pixels, KINDS["rgb-jpeg"][1])


@pytest.mark.parametrize("name", ["x.png", "sub/y.JPG"])
def test_image_reads_below_its_root(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(png(RGB, 2))
    assert np.array_equal(read_image(Root(tmp_path), name).pixels, RGB)


def test_suffixes_cover_all_kinds() -> None:
    kinds = {f".{kind.split('-')[-1]}" for kind in KINDS} & set(SUFFIXES)
    assert kinds >= {".png", ".jpeg", ".bmp", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"}


@pytest.mark.parametrize("top", [100, 255])
def test_black_last_row_is_no_fault(top: int) -> None:
    pixels = np.minimum(RGB, top)
    pixels[-1] = 0
    assert np.array_equal(decode_image(png(pixels, 2), "x").pixels, pixels)
    assert np.array_equal(decode_image(png(pixels, 2, interlaced=True), "x").pixels, pixels)


@pytest.mark.parametrize("interlaced", [False, True])
def test_png_data_that_ends_early(interlaced: bool) -> None:
    whole = png(RGB, 2, interlaced=interlaced)
    rows = zlib.decompress(whole[whole.index(b"IDAT") + 4 : -16])
    header = HEADER[:-1] + bytes([interlaced])
    said = [refusal(assembled(header, zlib.compress(rows[:length]))) for length in range(len(rows))]
    assert any("before its last row" in words for words in said)  # Pillow fills up with black
    assert not short_of_rows(open_container(whole))
    assert short_of_rows(open_container(assembled(header, zlib.compress(rows[:-1]))))


def test_pixel_limit_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIXELS", WIDTH * HEIGHT)
    decode_image(png(RGB, 2), "x")
    monkeypatch.setattr(limits, "PIXELS", WIDTH * HEIGHT - 1)
    for data, _ in KINDS.values():
        assert "at most 116 are read" in refusal(data)


def test_animations_are_refused() -> None:
    frames = [Pillow.fromarray(RGB), Pillow.fromarray(255 - RGB)]
    for kind, words in (
        ("PNG", "animated PNG"),
        ("WEBP", "animated WebP"),
        ("TIFF", "several pages"),
        ("GIF", "expected PNG"),
    ):
        assert words in refusal(saved(frames[0], kind, save_all=True, append_images=frames[1:]))
    assert "several pictures" in refusal(saved(frames[0], "MPO", save_all=True, append_images=frames[1:]))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"hello, I am no picture", "not a supported picture"),
        (b"<svg/>", "not a supported picture"),
        (b"P3\n1 1\n255\n1 2 3\n", "not a supported picture"),
        (b"RIFF\x04\0\0\0WAVE", "not WebP"),
        (b"\x89PNG\r\n\x1a\n", "start with its header"),
        (b"\xff\xd8\xff\xd9", "without image data"),
        (b"BM", "ends within its header"),
        (b"II*\0\xff\xff\xff\xff", "ends within its header"),
        (b"P6\n0 9\n255\n", "0 x 9"),
        (b"P6\n13 9\n255\n" + bytes(350), "truncated"),
        (b"P5\n13 9\n255\n" + bytes(13 * 9) + b"P5\n1 1\n", "more data than one picture"),
        (b"P5\n13 9\n70000\n" + bytes(13 * 9 * 2), "it must be from 1 to 65535"),
        (b"P5\n2 1\n10\n\x0a\x0b", "a pixel value exceeds 10"),
        (png(INDICES + 5, 3, parts=[PLTE]), "not in the palette"),
        (png(RGB, 2, parts=[(b"ABCD", b"")]), "ABCD"),
        (png(RGB, 2).replace(b"IEND", b"IENE"), "checksum"),
        (png(RGB, 2, parts=[(b"zTXt", b"key\0\0" + zlib.compress(bytes(5_000_000)))]), "unpack to more"),
        (png(RGB, 2, parts=[(b"iTXt", b"key\0\1\0\0\0" + zlib.compress(bytes(5_000_000)))]), "unpack to more"),
        (png(RGB, 2, parts=[(b"iCCP", b"key\0\0" + zlib.compress(bytes(5_000_000)))]), "unpack to more"),
        (saved(np.full((3, 3), 1.5, np.float32), "TIFF"), "outside 0 to 1"),
        (saved(np.full((3, 3), np.nan, np.float32), "TIFF"), "outside 0 to 1"),
        (saved(np.full((3, 3), 7, np.int32), "TIFF"), "not supported"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b""), "header"),
    ],
)
def test_refusals_say_why(data: bytes, words: str) -> None:
    assert words in refusal(data)


def test_text_of_honest_size_is_ignored() -> None:
    packed = zlib.compress(b"text")
    parts = [(b"tEXt", b"key\0text"), (b"zTXt", b"k\0\0" + packed), (b"iTXt", b"k\0\0\0\0\0text"), (b"zTXt", b"?")]
    assert np.array_equal(decode_image(png(RGB, 2, parts=parts), "x").pixels, RGB)


def test_every_wrong_checksum_is_found() -> None:
    data = png(RGB, 2, parts=[(b"tEXt", b"key\0text")])
    for at in range(8, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        refusal(bytes(damaged))


def test_progressive_scan_flood_is_refused() -> None:
    data = saved(RGB, "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    assert "scans" in refusal(data[:-2] + data[last:-2] * 100 + b"\xff\xd9")


def test_labels_are_as_stored(tmp_path: Path) -> None:
    ids = {"grey": png(GREY, 0), "palette": png(INDICES, 3, parts=[PLTE]), "deep": png(WIDE[:, :, 0], 0, 16)}
    packed = saved(indexed(), "PNG", bits=4)
    expected = {"grey": GREY, "palette": INDICES, "deep": WIDE[:, :, 0], "packed": INDICES}
    for name, data in {**ids, "packed": packed}.items():
        (tmp_path / name).write_bytes(data)
        found = read_labels(Root(tmp_path), name)
        assert found.dtype == np.int32
        assert np.array_equal(found, expected[name])


@pytest.mark.parametrize("kind", ["rgb-png", "grey-jpeg", "grey-pgm", "1-bit-png", "4-bit-png", "rgba-png"])
def test_labels_of_other_kinds_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x").write_bytes(KINDS[kind][0])
    with pytest.raises(UnreadableCase, match="x: labels must be a PNG in 8-bit grey"):
        read_labels(Root(tmp_path), "x")


def test_labels_stay_upright_with_their_picture(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(png(GREY, 0, parts=[(b"eXIf", exif(3).removeprefix(b"Exif\0\0"))]))
    assert np.array_equal(read_labels(Root(tmp_path), "x"), GREY[::-1, ::-1])


@pytest.mark.parametrize("compression", [1, 5, 8, 32773])
@pytest.mark.parametrize("alpha", [False, True])
def test_deep_tiff_keeps_its_bits(compression: int, alpha: bool) -> None:
    pixels = np.dstack([WIDE, WIDE[:, :, 0]] if alpha else [WIDE]).astype(np.uint16)
    data = in_opencv(pixels, ".tif", cv2.IMWRITE_TIFF_COMPRESSION, compression)
    assert np.array_equal(decode_image(data, "x").pixels, KINDS["rgb16-png"][1][:, :, ::-1])


@pytest.mark.parametrize("cut", [273, 279])
def test_tiff_without_all_its_strips(cut: int) -> None:
    data = bytearray(saved(np.vstack([RGB] * 40), "TIFF", compression="raw", tiffinfo={278: 40}))
    decode_image(bytes(data), "whole")
    entry = data.index(struct.pack("<HHI", cut, 4, 9))
    data[entry + 4] = 8
    refusal(bytes(data))
