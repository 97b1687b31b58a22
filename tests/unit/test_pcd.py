"""PCD files: every form and type, and a line for whatever does not fit."""

from __future__ import annotations

import io
import struct
import time

import numpy as np
import pytest

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.sources import pcd as reader
from tests.fixture_points import XYZI, literals, pcd, pcd_header, reference, squeeze, sweep, unsqueeze

FORMS = ("ascii", "binary", "binary_compressed")
every_form = pytest.mark.parametrize("form", FORMS)


def points(data: bytes) -> Array:
    return reader.read(io.BytesIO(data)).xyzi


def why(data: bytes) -> str:
    with pytest.raises(UnreadableCase) as caught:
        points(data)
    return str(caught.value)


@every_form
@pytest.mark.parametrize("count", [1, 2, 777])
def test_points_come_back(form: str, count: int) -> None:
    table = sweep(count)
    assert np.array_equal(points(pcd(table, form)), table)


@every_form
@pytest.mark.parametrize("kind", ["I1", "I2", "I4", "I8", "U1", "U2", "U4", "U8", "F4", "F8"])
def test_every_type_is_read(form: str, kind: str) -> None:
    table = rng_for("types", kind).integers(0, 100, (50, 6)).astype(np.float64)
    fields = (("t", "F8"), ("x", kind), ("rgb", "U4"), ("y", kind), ("z", "F8"), ("Intensity", kind))
    assert np.array_equal(points(pcd(table, form, fields)), table[:, [1, 3, 4, 5]].astype(np.float32))


@every_form
def test_fields_of_many_numbers_are_skipped(form: str) -> None:
    table = rng_for("many").integers(0, 100, (20, 7)).astype(np.float64)
    fields = (("vfh", "F4", 308), ("z", "F4"), ("_", "U1", 3), ("y", "F4"), ("_", "U1", 5), ("x", "F4"), ("i", "F4"))
    assert np.array_equal(points(pcd(table, form, fields)), table[:, [5, 3, 1, 6]].astype(np.float32))


@every_form
def test_first_of_several_intensities_counts(form: str) -> None:
    table = sweep(20)
    assert np.array_equal(points(pcd(table, form, (*XYZI[:3], ("intensity", "F4", 2)))), table)


@every_form
def test_without_intensity_it_is_zero(form: str) -> None:
    table = sweep(30)
    found = points(pcd(table[:, :3], form, XYZI[:3]))
    assert np.array_equal(found[:, :3], table[:, :3])
    assert not found[:, 3].any()


@pytest.mark.parametrize("name", ["intensity", "i", "reflectivity"])
def test_intensity_has_several_names(name: str) -> None:
    table = sweep(9)
    assert np.array_equal(points(pcd(table, fields=(*XYZI[:3], (name, "F4")))), table)


@every_form
def test_byte_intensity_tells_its_scale(form: str) -> None:
    table = np.array([[1, 2, 3, 0], [1, 2, 3, 255]], np.float32)
    assert reader.read(io.BytesIO(pcd(table, form, (*XYZI[:3], ("intensity", "U1"))))).full_intensity == 255
    assert reader.read(io.BytesIO(pcd(table, form))).full_intensity is None


@every_form
def test_organised_clouds_are_read(form: str) -> None:
    table = sweep(12)
    assert np.array_equal(points(pcd(table, form, WIDTH="4", HEIGHT="3")), table)


@every_form
def test_nan_stays_to_be_counted(form: str) -> None:
    table = sweep(5)
    table[2] = np.nan
    table[3, 0] = np.inf
    assert np.array_equal(points(pcd(table, form)), table, equal_nan=True)


def test_doubles_too_large_become_infinite() -> None:
    table = np.array([[1e300, 1, 1]])
    found = points(pcd(table, "binary", tuple((axis, "F8") for axis in "xyz")))
    assert np.isinf(found[0, 0])


def test_optional_lines_may_be_missing() -> None:
    table = sweep(3)
    assert np.array_equal(points(pcd(table, VERSION="", COUNT="", VIEWPOINT="", POINTS="")), table)


def test_windows_line_ends_are_read() -> None:
    table = sweep(3)
    assert np.array_equal(points(pcd(table, "ascii").replace(b"\n", b"\r\n")), table)


@pytest.mark.parametrize("form", FORMS[1:])
def test_zeros_at_the_end_are_no_points(form: str) -> None:
    """PCL 1.7 leaves part of a page: a real file of Apollo's ends like this."""
    data = pcd(sweep(40), form)
    assert np.array_equal(points(data + bytes(3879)), sweep(40))
    assert "too long" in why(data + bytes(70_000))
    assert "too long" in why(data + bytes(100) + b"\1")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"POINTS": "11"}, "POINTS is 11, but WIDTH x HEIGHT is 10x1, 10 points"),
        ({"WIDTH": "99999999", "HEIGHT": "99999999", "POINTS": ""}, "at most 20,000,000 are read"),
        ({"WIDTH": "4294967296", "HEIGHT": "4294967296", "POINTS": "0"}, "POINTS is 0"),
        ({"WIDTH": "20000000", "POINTS": ""}, "truncated"),
        ({"WIDTH": "0", "POINTS": "0"}, "0 points"),
        ({"WIDTH": "-10"}, "WIDTH must be a whole number, got '-10'"),
        ({"WIDTH": "1e1"}, "WIDTH must be a whole number"),
        ({"WIDTH": "9" * 5000}, "WIDTH must be a whole number"),
        ({"WIDTH": "٣"}, "WIDTH must be a whole number"),
        ({"FIELDS": "x y w intensity"}, "a point needs exactly one 'z', but the fields are x, y, w, intensity"),
        ({"FIELDS": "x y x intensity"}, "a point needs exactly one 'x'"),
        ({"FIELDS": "x y z"}, "must have equally many entries: 3 in FIELDS, 4 in SIZE, 4 in TYPE, 4 in COUNT"),
        ({"SIZE": "4 4 4"}, "must have equally many entries"),
        ({"SIZE": "4 4 4 3"}, "field 'intensity' has TYPE F and SIZE 3"),
        ({"TYPE": "F F F C"}, "field 'intensity' has TYPE C"),
        ({"COUNT": "1 1 2 1"}, "a point needs exactly one 'z'"),
        ({"COUNT": "1 1 1 0"}, "field 'intensity' has COUNT 0"),
        ({"COUNT": "1 1 1 900000000000000"}, "field 'intensity' has COUNT"),
        ({"FIELDS": ""}, "the header has no FIELDS"),
        ({"VIEWPOINT": "0 0 0 1 0 0"}, "VIEWPOINT must be 7 numbers"),
        ({"VIEWPOINT": "0 0 0 1 0 0 nan"}, "VIEWPOINT must be 7 numbers"),
        ({"VIEWPOINT": "0 0 0 1 0 0 up"}, "VIEWPOINT must be 7 numbers"),
        ({"VERSION": "0.8"}, "VERSION must be from 0.5 to 0.7, got '0.8'"),
        ({"DATA": "zip"}, "DATA must be ascii, binary or binary_compressed, got 'zip'"),
        ({"VERSION": "0.7\nCOLOURS 3"}, "the header has the unknown entry 'COLOURS'"),
    ],
)
def test_bad_header_gets_its_line(changed: dict[str, str], reason: str) -> None:
    assert reason in why(pcd(sweep(10), **changed))


def test_doubled_line_is_refused() -> None:
    assert "the header has the duplicate entry 'WIDTH'" in why(pcd(sweep(2)).replace(b"HEIGHT 1", b"WIDTH 2\nHEIGHT 1"))


@pytest.mark.parametrize("data", [b"", b"\n" * 100, b"# nothing\n" * 2000, b"FIELDS x y z\n", b"VERSION 0.7"])
def test_header_without_end_is_refused(data: bytes) -> None:
    assert "the header has no end" in why(data)


def test_endless_line_is_refused() -> None:
    assert "a line longer than" in why(b"#" * 1_000_000)
    assert "a line longer than" in why(pcd_header(1, "ascii") + b"1 " * 1_000_000)


@every_form
def test_every_cut_is_seen(form: str) -> None:
    data = pcd(sweep(6), form)
    whole = len(data) - (form == "ascii")  # the last line may lack its end
    accepted = [cut for cut in range(whole) if _reads(data[:cut])]
    if form == "ascii":  # a digit less is another number: text has no way to tell
        accepted = [cut for cut in accepted if data[cut:].strip().count(b" ")]
    assert not accepted


def _reads(data: bytes) -> bool:
    try:
        points(data)
    except UnreadableCase:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"1 2 3 4.5\n1 2 3\n", "columns changed from 4 to 3"),
        (b"1 2 3\n1 2 3\n1 2 3 4\n", "the rows have 3 numbers, but the header declares 4"),
        (b"1 2 3 4 5\n1 2 3 4 5\n", "the rows have 5 numbers, but the header declares 4"),
        (b"1 2 3 4\n1 2 3 x\n", "could not convert string 'x'"),
        (b"1 2 3 4\n1 2 3 \xff\n", "could not convert string"),
        (b"1 2 3 4\n1,2 3 4 5\n", "could not convert string '1,2'"),
        (b"1.000 2.000 3.000 4.000\n", "1 points, but the header declares 2"),
        (b"1 2 3 4\n# a\n5 6 7 8\n", "columns changed"),
        (b"1 2 3 4\n5 6 7 8\n9 9 9 9\n", "more than the 2 points that the header declares"),
        (b"1 2 3\n", "truncated"),
    ],
)
def test_bad_text_gets_its_line(body: bytes, reason: str) -> None:
    assert reason in why(pcd_header(2, "ascii") + body)


def test_text_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.sources.point_table.BLOCK", 7)
    table = sweep(50)
    assert np.array_equal(points(pcd(table, "ascii")), table)
    assert "after 49 points" in why(pcd(table, "ascii")[:-5] + b"none\n")


def test_limit_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POINTS", 10)
    assert len(points(pcd(sweep(10)))) == 10
    assert "11 points, at most 10 are read" in why(pcd(sweep(11)))


# LZF


def tokens(seed: int) -> tuple[bytes, bytes]:
    """Any mix of runs and references, overlapping ones too, and what it stands for, made a byte at a time."""
    rng = rng_for("lzf", seed)
    squeezed, plain = bytearray(), bytearray()
    for _ in range(int(rng.integers(1, 60))):
        if not plain or rng.random() < 0.4:
            run = rng.bytes(int(rng.integers(1, 33)))
            squeezed += literals(run)
            plain += run
        else:
            back = int(rng.integers(1, min(len(plain), 8192) + 1))
            length = int(rng.integers(3, 265))
            squeezed += reference(back, length)
            for _ in range(length):
                plain.append(plain[-back])
    return bytes(squeezed), bytes(plain)


def test_lzf_agrees_with_plain_decoder() -> None:
    for seed in range(300):
        squeezed, plain = tokens(seed)
        assert unsqueeze(squeezed) == plain
        assert reader.decompress_lzf(squeezed, len(plain)) == plain


def test_lzf_round_trip() -> None:
    for seed in range(60):
        rng = rng_for("trip", seed)
        plain = rng.integers(0, int(rng.integers(1, 256)), int(rng.integers(0, 3000)), dtype=np.uint8).tobytes()
        assert reader.decompress_lzf(squeeze(plain), len(plain)) == plain


def test_lzf_wants_every_byte() -> None:
    squeezed, plain = tokens(5)
    for cut in range(len(squeezed)):
        with pytest.raises(UnreadableCase, match="damaged"):
            reader.decompress_lzf(squeezed[:cut], len(plain))
    for size in (len(plain) - 1, len(plain) + 1, 0):
        with pytest.raises(UnreadableCase, match="damaged"):
            reader.decompress_lzf(squeezed, size)


def test_lzf_stops_where_it_is_too_much() -> None:
    with pytest.raises(UnreadableCase, match="more than the 100 bytes"):
        reader.decompress_lzf(literals(b"a") + 10_000 * reference(1, 264), 100)


def test_lzf_refuses_references_to_nothing() -> None:
    with pytest.raises(UnreadableCase, match="before the first"):
        reader.decompress_lzf(literals(b"abc") + reference(4, 3), 6)


def test_lzf_mutated_agrees_or_is_refused() -> None:
    """Whatever is accepted is what the plain decoder gives."""
    accepted = 0
    for seed in range(400):
        squeezed, plain = tokens(seed)
        rng = rng_for("mutated", seed)
        broken = bytearray(squeezed)
        broken[int(rng.integers(len(broken)))] = int(rng.integers(256))
        try:
            found = reader.decompress_lzf(bytes(broken), len(plain))
        except UnreadableCase:
            continue
        accepted += 1
        assert found == unsqueeze(bytes(broken))
    assert accepted > 20


def test_bomb_is_refused_from_its_size() -> None:
    header = pcd_header(10_000_000, "binary_compressed")
    bomb = struct.pack("<II", 6, 160_000_000) + b"\0\0\xe0\xff\0\0"
    started = time.perf_counter()
    assert "6 bytes cannot be decompressed to 160,000,000" in why(header + bomb)
    assert time.perf_counter() - started < 0.5


def test_sizes_must_agree() -> None:
    data = pcd(sweep(10), "binary_compressed")
    start = data.index(b"binary_compressed\n") + len("binary_compressed\n")
    small = data[:start] + struct.pack("<I", 3) + data[start + 4 :]
    other = data[: start + 4] + struct.pack("<I", 161) + data[start + 8 :]
    assert "too long" in why(small)
    assert "160 bytes of points, the file has 161" in why(other)
    assert "no data" in why(data[: start + 7])
