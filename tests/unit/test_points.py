"""Point clouds from files: exact counts, intensities from 0 to 1, and a line for whatever does not fit (R49, R50)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from swerve.config import limits
from swerve.core.case import Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.sources.cloud_files import Cloud, read_cloud
from swerve.sources.folders import Clouds
from swerve.sources.root import Root
from swerve.testing import SourceContract
from tests.fixture_points import XYZI, npy, pcd, ply, sweep

FILES = {".bin": lambda table: table.astype("<f4").tobytes(), ".npy": npy, ".pcd": pcd, ".ply": ply}
every_suffix = pytest.mark.parametrize("suffix", FILES)


@pytest.fixture
def read(tmp_path: Path):  # type: ignore[no-untyped-def]
    def reading(data: bytes, suffix: str = ".bin", **declared: object) -> Cloud:
        (tmp_path / f"sweep{suffix}").write_bytes(data)
        return read_cloud(Root(tmp_path), f"sweep{suffix}", **declared)  # type: ignore[arg-type]

    return reading


@pytest.fixture
def why(read):  # type: ignore[no-untyped-def]
    def refused(data: bytes, suffix: str = ".bin", **declared: object) -> str:
        with pytest.raises(UnreadableCase) as caught:
            read(data, suffix, **declared)
        assert str(caught.value).startswith(f"sweep{suffix}: ")
        return str(caught.value)

    return refused


def ringed(table: Array) -> Array:
    return np.column_stack([table, np.arange(len(table)) % 32]).astype("<f4")


@every_suffix
def test_points_come_back_exactly(read, suffix: str) -> None:  # type: ignore[no-untyped-def]
    found = read(FILES[suffix](sweep(321)), suffix)
    assert found.points.xyzi.tobytes() == sweep(321).tobytes()
    assert (found.dropped, found.facts) == (0, {})


@every_suffix
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_counted(read, suffix: str, bad: float) -> None:  # type: ignore[no-untyped-def]
    table = sweep(100)
    for row, column in ((3, 0), (7, 1), (7, 2), (50, 3), (99, 2)):
        table[row, column] = bad
    found = read(FILES[suffix](table), suffix)
    assert found.points.xyzi.tobytes() == np.delete(sweep(100), (3, 7, 50, 99), axis=0).tobytes()
    assert (found.dropped, found.facts) == (4, {"points dropped": 4.0})


@every_suffix
def test_nothing_finite_is_a_skip(why, suffix: str) -> None:  # type: ignore[no-untyped-def]
    assert why(FILES[suffix](np.full((5, 4), np.nan, np.float32)), suffix).endswith(
        "the file has no usable points: none of its 5 points is finite"
    )


@every_suffix
def test_one_point_is_enough(read, suffix: str) -> None:  # type: ignore[no-untyped-def]
    assert read(FILES[suffix](sweep(1)), suffix).points.xyzi.shape == (1, 4)


@every_suffix
def test_equal_points_all_stay(read, suffix: str) -> None:  # type: ignore[no-untyped-def]
    same = np.repeat(sweep(1), 500, axis=0)
    assert read(FILES[suffix](same), suffix).points.xyzi.tobytes() == same.tobytes()
    zeros = np.zeros((500, 4), np.float32)
    assert read(FILES[suffix](zeros), suffix).points.xyzi.tobytes() == zeros.tobytes()


def test_empty_file_is_a_skip(why) -> None:  # type: ignore[no-untyped-def]
    assert why(b"").endswith("0 points")
    assert why(npy(np.zeros((0, 4), np.float32)), ".npy").endswith("0 points")


def test_five_floats_are_declared(read, why) -> None:  # type: ignore[no-untyped-def]
    data = ringed(sweep(101)).tobytes()
    assert read(data, layout="xyzir").points.xyzi.tobytes() == sweep(101).tobytes()
    found = why(data)
    assert "2,020 bytes are not a multiple of 16, the size of a point in 'xyzi'" in found
    assert "layout 'xyzir' would fit" in found
    assert "layout 'xyzi' would fit" in why(sweep(103).tobytes(), layout="xyzir")
    assert "no known layout fits" in why(bytes(17))


def test_five_floats_are_seen_where_both_fit(read, why) -> None:  # type: ignore[no-untyped-def]
    data = ringed(sweep(400)).tobytes()
    assert len(data) % 16 == 0
    assert read(data, layout="xyzir").points.xyzi.tobytes() == sweep(400).tobytes()
    assert "fit the layout 'xyzir', not 'xyzi'" in why(data)
    assert read(sweep(500).tobytes()).points.xyzi.tobytes() == sweep(500).tobytes()
    assert "fit the layout 'xyzi', not 'xyzir'" in why(sweep(500).tobytes(), layout="xyzir")


def fifth(count: int, last: Array) -> bytes:
    return np.column_stack([sweep(count), last]).astype("<f4").tobytes()


TIMES = rng_for("times").uniform(0, 0.1, 400)


@pytest.mark.parametrize("last", [TIMES, TIMES - 0.05, np.full(400, 0.5), np.arange(400) % 32 + 0.5, np.zeros(400)])
def test_fifth_number_may_be_anything(read, why, last: Array) -> None:  # type: ignore[no-untyped-def]
    data = fifth(400, last)
    assert read(data, layout="xyzir").points.xyzi.tobytes() == sweep(400).tobytes()
    assert "declare layout = 'xyzir'" in why(data)


@pytest.mark.parametrize("scale", [1, 255])
def test_four_floats_are_seen_where_both_fit(why, scale: int) -> None:  # type: ignore[no-untyped-def]
    table = sweep(500)
    table[:, 3] *= scale
    assert "declare layout = 'xyzi'" in why(table.tobytes(), layout="xyzir")


def test_declared_layout_holds_without_evidence(read) -> None:  # type: ignore[no-untyped-def]
    ahead = np.abs(sweep(400)) / 100  # all numbers are alike
    data = np.column_stack([ahead, TIMES]).astype("<f4").tobytes()
    assert len(read(data, layout="xyzir").points.xyzi) == 400
    assert len(read(data, layout="xyzi").points.xyzi) == 500


def test_a_few_strange_intensities_are_no_other_layout(read, why) -> None:  # type: ignore[no-untyped-def]
    strange = np.arange(400) % 4 > 0  # where none of them is an intensity of 4 floats a point
    for count, good in ((39, True), (40, False)):
        table = np.abs(np.column_stack([sweep(400), TIMES])).astype("<f4")
        table[np.flatnonzero(strange)[:count], 3] = -0.01
        if good:
            assert len(read(table.tobytes(), layout="xyzir").points.xyzi) == 400
        else:
            assert "declare layout = 'xyzi'" in why(table.tobytes(), layout="xyzir")


@pytest.mark.parametrize("table", [sweep(300), np.round(sweep(300), 0) + 0.25, np.full((300, 4), 0.5, np.float32)])
def test_big_endian_is_named(why, table: Array) -> None:  # type: ignore[no-untyped-def]
    assert "the numbers are big-endian" in why(table.astype(">f4").tobytes())


@every_suffix
def test_absurd_places_are_refused(read, why, suffix: str) -> None:  # type: ignore[no-untyped-def]
    table = sweep(100)
    table[:49, 0] = 4e6
    assert len(read(FILES[suffix](table), suffix).points.xyzi) == 100
    table[:51, 0] = 4e6
    assert "are implausible as metres from the sensor, such as 4e+06" in why(FILES[suffix](table), suffix)


def test_limit_is_exact(read, why, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(limits, "POINTS", 10)
    for suffix, made in FILES.items():
        assert len(read(made(sweep(10)), suffix).points.xyzi) == 10
        assert "11 points, at most 10 are read (swerve list limits)" in why(made(sweep(11)), suffix)


def test_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge.bin").open("wb") as file:
        os.truncate(file.fileno(), 16 * (limits.POINTS + 1))
    with pytest.raises(UnreadableCase, match="20,000,001 points, at most 20,000,000"):
        read_cloud(Root(tmp_path), "huge.bin")


def test_other_suffix_is_refused(why) -> None:  # type: ignore[no-untyped-def]
    assert "known: .bin, .npy, .pcd, .ply" in why(b"", ".las")


# Intensity


@pytest.mark.parametrize(("made", "suffix"), [(pcd, ".pcd"), (ply, ".ply")])
def test_bytes_are_divided(read, made, suffix: str) -> None:  # type: ignore[no-untyped-def]
    table = np.array([[1, 2, 3, 0], [1, 2, 3, 51], [1, 2, 3, 255]], np.float64)
    byte = (*XYZI[:3], ("intensity", "U1")) if suffix == ".pcd" else [("x", "f4"), ("y", "f4"), ("z", "f4"), ("i", "u1")]
    data = made(table, "binary" if suffix == ".pcd" else "binary_little_endian", byte)
    assert np.allclose(read(data, suffix).points.xyzi[:, 3], [0, 0.2, 1])
    assert np.allclose(read(data, suffix, intensity_scale=51.0).points.xyzi[:, 3], [0, 1, 5])


@every_suffix
def test_floats_beyond_one_must_be_declared(read, why, suffix: str) -> None:  # type: ignore[no-untyped-def]
    table = sweep(50)
    table[:, 3] = np.linspace(0, 200, 50)
    data = FILES[suffix](table)
    assert "intensities go up to 200, not 1; declare the largest possible one, such as intensity_scale = 255" in why(
        data, suffix
    )
    assert np.allclose(read(data, suffix, intensity_scale=255).points.xyzi[:, 3] * 255, table[:, 3])
    assert np.array_equal(read(data, suffix, intensity_scale=1).points.xyzi, table)


@pytest.mark.parametrize(("largest", "likely"), [(1.5, 255), (300, 65535), (70_000.5, 70_001)])
def test_likely_scale_is_told(why, largest: float, likely: int) -> None:  # type: ignore[no-untyped-def]
    table = sweep(5)
    table[2, 3] = largest
    assert f"intensity_scale = {likely}" in why(table.tobytes())


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, True, "255"])
def test_bad_scale_is_refused(tmp_path: Path, scale: float) -> None:
    with pytest.raises(InputError, match="'intensity_scale' must be"):
        Clouds(tmp_path, intensity_scale=scale)


def test_bad_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown layout 'xyz'; did you mean 'xyzi'"):
        Clouds(tmp_path, "xyz")


# NumPy's own files


@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f8", ">f8", "<f2", "<i2", ">i4", "<i8", "|i1", "|u1", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_number_type_of_npy(read, kind: str, order: str) -> None:  # type: ignore[no-untyped-def]
    table = np.asarray(rng_for("npy", kind).integers(0, 100, (30, 5)), kind, order=order)  # type: ignore[call-overload]
    assert np.array_equal(read(npy(table), ".npy", intensity_scale=1).points.xyzi, table[:, :4].astype(np.float32))


def test_npy_without_intensity(read) -> None:  # type: ignore[no-untyped-def]
    assert np.array_equal(read(npy(sweep(9)[:, :3]), ".npy").points.xyzi, np.pad(sweep(9)[:, :3], ((0, 0), (0, 1))))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_npy(read, tmp_path: Path, version: int) -> None:  # type: ignore[no-untyped-def]
    with (tmp_path / "made.npy").open("wb") as file:
        np.lib.format.write_array(file, sweep(8), version=(version, 0))
    assert np.array_equal(read((tmp_path / "made.npy").read_bytes(), ".npy").points.xyzi, sweep(8))


def test_objects_are_never_read(why, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    class Canary:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "canary",)

    data = npy(np.array([[Canary()] * 4]))
    assert "object arrays are never read" in why(data, ".npy")
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.zeros(12, np.float32), "must contain an array of numbers"),
        (np.zeros((2, 3, 4), np.float32), "must contain an array of numbers"),
        (np.zeros((5, 2), np.float32), "2 columns; a point needs x, y and z"),
        (np.zeros((5, 4), np.complex64), "must contain an array of numbers"),
        (np.zeros((5, 4), "M8[s]"), "must contain an array of numbers"),
        (np.zeros((5, 4), [("x", "f4")]), "must contain an array of numbers"),
        (np.zeros((5, 4), np.bool_), "must contain an array of numbers"),
    ],
)
def test_other_tables_are_refused(why, table: Array, reason: str) -> None:  # type: ignore[no-untyped-def]
    assert reason in why(npy(table), ".npy")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"(7, 4)", b"(8, 4)", "truncated: the header declares 128 bytes of points, the file has 112"),
        (b"(7, 4)", b"(6, 4)", "too long"),
        (b"(7, 4), }" + b" " * 16, b"(9999999, 99999999999), }", "truncated"),
        (b"(7, 4), }" + b" " * 16, b"(999999999999999, 4), }  ", "at most 20,000,000 are read"),
        (b"(7, 4)", b"(-7,4)", "must contain an array of numbers"),
        (b"<f4", b"<f1", "the unsupported number type <f1"),
        (b"<f4", b"|O8", "object arrays are never read"),
        (b"\x93NUMPY", b"\x93NUMPX", "does not start like a .npy"),
        (b"\x93NUMPY\x01", b"\x93NUMPY\x07", "does not start like a .npy"),
    ],
)
def test_bad_npy_header_gets_its_line(why, old: bytes, new: bytes, reason: str) -> None:  # type: ignore[no-untyped-def]
    data = npy(sweep(7))
    assert old in data
    assert reason in why(data.replace(old, new, 1), ".npy")


@every_suffix
def test_every_cut_is_seen(why, suffix: str) -> None:  # type: ignore[no-untyped-def]
    data = FILES[suffix](sweep(3))
    for cut in range(len(data)):
        if suffix != ".bin" or cut % 16:
            why(data[:cut], suffix)


# The folder


def folder_of(path: Path) -> Path:
    for number in (1, 2, 10):
        (path / f"{number}.bin").write_bytes(sweep(20, number).tobytes())
    (path / "night").mkdir()
    (path / "night" / "3.PCD").write_bytes(pcd(sweep(30), "binary_compressed"))
    (path / "night" / "4.ply").write_bytes(ply(sweep(40)))
    (path / "5.npy").write_bytes(npy(sweep(50)))
    (path / "notes.txt").write_text("no point cloud")
    return path


def test_folder_is_in_natural_order(tmp_path: Path) -> None:
    source = Clouds(folder_of(tmp_path))
    assert source.keys() == ["1.bin", "2.bin", "5.npy", "10.bin", "night/3.PCD", "night/4.ply"]
    assert [source.group(key) for key in source.keys()] == [".", ".", ".", ".", "night", "night"]
    assert [len(source[key].inputs["lidar"].xyzi) for key in source.keys()] == [20, 20, 50, 20, 30, 40]  # type: ignore[attr-defined]


def test_case_tells_what_was_dropped(tmp_path: Path) -> None:
    table = sweep(20)
    table[4] = np.nan
    (tmp_path / "a.bin").write_bytes(table.tobytes())
    (tmp_path / "b.bin").write_bytes(sweep(20).tobytes())
    source = Clouds(tmp_path)
    assert dict(source["a.bin"].facts) == {"points dropped": 1.0}
    assert dict(source["b.bin"].facts) == {}


def test_broken_file_is_one_skip(tmp_path: Path) -> None:
    source = Clouds(folder_of(tmp_path))
    (tmp_path / "2.bin").write_bytes(bytes(17))
    with pytest.raises(UnreadableCase, match=r"^2\.bin: 17 bytes are not a multiple of 16"):
        source["2.bin"]
    assert len(source["10.bin"].inputs["lidar"].xyzi) == 20  # type: ignore[attr-defined]


def test_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 cases"):
        Clouds(tmp_path).keys()


def test_fingerprint_sees_bytes_and_layout(tmp_path: Path) -> None:
    folder_of(tmp_path)
    prints = {Clouds(tmp_path).fingerprint(), Clouds(tmp_path, "xyzir").fingerprint()}
    prints.add(Clouds(tmp_path, intensity_scale=255).fingerprint())
    (tmp_path / "2.bin").write_bytes(sweep(20, "other").tobytes())
    prints.add(Clouds(tmp_path).fingerprint())
    assert len(prints) == 4


class TestClouds(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = folder_of(tmp_path)

    def source(self) -> Source:
        return Clouds(self.folder)
