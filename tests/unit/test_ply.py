"""PLY files: text and both byte orders, any scalar properties, lists only where they can be skipped."""

from __future__ import annotations

import io

import numpy as np
import pytest

from swerve.core.errors import UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.sources import ply as reader
from tests.fixture_points import PLY_NAMES, ply, sweep

FORMS = ("ascii", "binary_little_endian", "binary_big_endian")
every_form = pytest.mark.parametrize("form", FORMS)
FACE = b"element face 2\nproperty list uchar int vertex_indices\n"


def points(data: bytes) -> Array:
    return reader.read(io.BytesIO(data)).xyzi


def why(data: bytes) -> str:
    with pytest.raises(UnreadableCase) as caught:
        points(data)
    return str(caught.value)


@every_form
@pytest.mark.parametrize("count", [1, 500])
def test_points_come_back(form: str, count: int) -> None:
    table = sweep(count)
    assert np.array_equal(points(ply(table, form)), table)


@every_form
@pytest.mark.parametrize("kind", PLY_NAMES)
def test_every_type_is_read(form: str, kind: str) -> None:
    table = rng_for("types", kind).integers(0, 100, (40, 6)).astype(np.float64)
    names = [("red", "u1"), ("z", kind), ("nx", "f8"), ("y", kind), ("x", "f4"), ("reflectivity", kind)]
    assert np.array_equal(points(ply(table, form, names)), table[:, [4, 3, 1, 5]].astype(np.float32))


@pytest.mark.parametrize(("old", "new"), list(zip(reader.OLD_NAMES, reader.NEW_NAMES, strict=True)))
def test_both_names_of_a_type(old: str, new: str) -> None:
    kinds = {name: kind for kind, name in PLY_NAMES.items()}
    table = rng_for("names", old).integers(0, 100, (5, 3)).astype(np.float64)
    data = ply(table, names=[(axis, kinds[old]) for axis in "xyz"])
    assert np.array_equal(points(data.replace(f"property {old} ".encode(), f"property {new} ".encode()))[:, :3], table)


@every_form
def test_byte_intensity_tells_its_scale(form: str) -> None:
    names = [("x", "f4"), ("y", "f4"), ("z", "f4"), ("intensity", "u1")]
    stored = reader.read(io.BytesIO(ply(np.array([[1, 2, 3, 255]]), form, names)))
    assert (stored.full_intensity, stored.xyzi[0, 3]) == (255, 255)


def test_cloudcompare_name_is_known() -> None:
    names = [("x", "f4"), ("y", "f4"), ("z", "f4"), ("scalar_Intensity", "f4")]
    assert np.array_equal(points(ply(sweep(4), names=names)), sweep(4))


@every_form
def test_faces_after_are_skipped(form: str) -> None:
    table = sweep(20)
    faces = b"3 0 1 2\n3 1 2 3\n" if form == "ascii" else 2 * (b"\3" + bytes(12))
    data = ply(table, form).replace(b"end_header", FACE + b"end_header") + faces
    assert np.array_equal(points(data), table)


@every_form
def test_scalars_before_are_skipped(form: str) -> None:
    table = sweep(20)
    camera = b"element camera 2\nproperty float a\nproperty uchar b\n"
    data = ply(table, form).replace(b"element vertex", camera + b"element vertex")
    cut = data.index(b"end_header\n") + len("end_header\n")
    rows = b"1 2\n3 4\n" if form == "ascii" else bytes(10)
    assert np.array_equal(points(data[:cut] + rows + data[cut:]), table)


@every_form
def test_lists_before_are_refused(form: str) -> None:
    data = ply(sweep(5), form).replace(b"element vertex", FACE + b"element vertex")
    assert "'vertex_indices' of 'face' is a list; lists are only supported after the vertices" in why(data)


@every_form
def test_lists_of_vertices_are_refused(form: str) -> None:
    data = ply(sweep(5), form).replace(b"property float z", b"property float z\nproperty list uchar int near")
    assert "'near' of 'vertex' is a list" in why(data)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"ply\n", b"plx\n", "does not start with 'ply'"),
        (b"format binary_little_endian 1.0\n", b"", "the header has the invalid line 'property float x'"),
        (b"binary_little_endian", b"binary", "format 'binary 1.0'; known: ascii"),
        (b" 1.0", b" 2.0", "format 'binary_little_endian 2.0'"),
        (b"vertex 10", b"vertices 10", "0 elements 'vertex'"),
        (b"vertex 10", b"vertex ten", "the count of 'vertex' must be a whole number, got 'ten'"),
        (b"vertex 10", b"vertex -1", "must be a whole number"),
        (b"vertex 10", b"vertex 0", "0 points"),
        (b"vertex 10", b"vertex 99999999999", "at most 20,000,000 are read"),
        (b"vertex 10", b"vertex 20000000", "truncated: the header declares 320,000,000 bytes of points, the file has 160"),
        (b"vertex 10", b"vertex 9", "too long: the header declares 144 bytes"),
        (b"vertex 10", b"vertex 11", "truncated: the header declares 176 bytes"),
        (b"float z", b"float w", "a point needs exactly one 'z'"),
        (b"float z", b"float y", "two properties 'y'"),
        (b"float z", b"quad z", "invalid property 'quad z'"),
        (b"property float z", b"property z", "invalid property 'z'"),
        (b"property float z", b"property", "invalid property ''"),
        (b"property float z", b"property list float z", "invalid property 'list float z'"),
        (b"end_header", b"element vertex 3\nend_header", "2 elements 'vertex'"),
        (b"end_header", b"element x\nend_header", "the header has the invalid line 'element x'"),
        (b"end_header", b"nonsense\nend_header", "the header has the invalid line 'nonsense'"),
        (b"end_header", b"the end", "the header "),
    ],
)
def test_bad_header_gets_its_line(old: bytes, new: bytes, reason: str) -> None:
    data = ply(sweep(10))
    assert old in data
    assert reason in why(data.replace(old, new, 1))


def test_format_is_needed() -> None:
    assert "the header has no line 'format'" in why(b"ply\nelement vertex 1\nend_header\n")


@pytest.mark.parametrize("form", FORMS[1:])
def test_every_cut_is_seen(form: str) -> None:
    data = ply(sweep(4), form)
    for cut in range(len(data)):
        why(data[:cut])


def test_text_must_have_its_lines() -> None:
    data = ply(sweep(3), "ascii")
    assert "1 lines after the points, but the header declares 0" in why(data + b"1 2 3 4\n")
    assert "2 points, but the header declares 3" in why(data[: data.rindex(b"\n", 0, -1) + 1])
    assert "0 lines after the points, but the header declares 2" in why(data.replace(b"end_header", FACE + b"end_header"))
    later = data.replace(b"element vertex", b"element camera 50\nproperty int a\nelement vertex")
    assert "ends before the first line of 'vertex'" in why(later)
