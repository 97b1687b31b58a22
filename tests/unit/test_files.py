import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from swerve.core.errors import EnvironmentFault
from swerve.core.values import Group, Image, PointCloud, Steering
from swerve.store.files import png_bytes, sensor_file, write_csv, write_whole

shapes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))


@given(arrays.arrays(np.uint8, shapes))
def test_picture_comes_back_exactly(pixels: np.ndarray) -> None:  # type: ignore[type-arg]
    decoded = cv2.imdecode(np.frombuffer(png_bytes(pixels), np.uint8), cv2.IMREAD_UNCHANGED)
    assert (cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB) == pixels).all()


def test_window_keeps_its_last_frame() -> None:
    frames = [Image(np.full((2, 2, 3), level, np.uint8)) for level in (1, 2)]
    assert sensor_file(Group(tuple(frames))) == sensor_file(frames[-1])


def test_points_are_kept_without_pickle() -> None:
    cloud = PointCloud(np.arange(8, dtype=np.float32).reshape(2, 4))
    suffix, data = sensor_file(cloud) or ("", b"")
    assert suffix == ".npy"
    assert data.startswith(b"\x93NUMPY")
    assert sensor_file(Steering(1)) is None


def test_failed_write_leaves_the_old(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", ("a",), [(1,)])

    def broken() -> object:
        yield (2,)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_csv(tmp_path / "t.csv", ("a",), broken())  # type: ignore[arg-type]
    assert (tmp_path / "t.csv").read_text() == "a\n1\n"
    assert os.listdir(tmp_path) == ["t.csv"]


def test_umask_decides_the_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "f", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


def test_missing_folder_is_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot be written: No such file"):
        write_whole(tmp_path / "no" / "f", b"x")
