from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Image
from swerve.sources.folders import Folder, in_order
from swerve.sources.windows import Windows
from swerve.testing.contracts import SourceContract


def draw(folder: Path, name: str, value: int = 7, size: tuple[int, int] = (8, 6)) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(folder / name), np.full((*size[::-1], 3), (value, value + 1, value + 2), np.uint8))


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _drawn(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        for name in ("b/1.png", "b/2.bmp", "a.png"):
            draw(tmp_path, name)

    def source(self) -> Folder:
        return Folder(self.folder)


def test_pictures_in_natural_order(tmp_path: Path) -> None:
    for name in (
        "frame10.png",
        "frame2.png",
        "drive10/1.png",
        "drive9/1.JPG",
        "drive9/a/1.png",
        "drive9/2.png",
        "frame02.png",
    ):
        draw(tmp_path, name)
    (tmp_path / "labels.csv").touch()
    source = Folder(tmp_path)
    assert source.keys() == [
        *("frame02.png", "frame2.png", "frame10.png"),
        *("drive9/1.JPG", "drive9/2.png", "drive9/a/1.png", "drive10/1.png"),
    ]


def test_group_is_the_sub_folder(tmp_path: Path) -> None:
    for name in ("1.png", "day/1.png", "day/late/1.png"):
        draw(tmp_path, name)
    source = Folder(tmp_path)
    assert [source.group(key) for key in source.keys()] == [".", "day", "day/late"]


def test_case_is_the_picture(tmp_path: Path) -> None:
    draw(tmp_path, "a.png", 30)
    case = Folder(tmp_path)["a.png"]
    assert case.truth == ()
    picture = case.inputs["camera"]
    assert isinstance(picture, Image)
    assert picture.size == (8, 6)
    assert (picture.pixels == (32, 31, 30)).all()  # OpenCV wrote blue first


def test_damaged_picture_is_a_skip(tmp_path: Path) -> None:
    draw(tmp_path, "good.png")
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:-20])
    source = Folder(tmp_path)
    assert source.keys() == ["cut.png", "good.png", "text.png"]
    assert source["good.png"]
    for name in ("cut.png", "text.png"):
        with pytest.raises(UnreadableCase, match=f"^{name}: "):
            source[name]


def test_folder_without_pictures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="0 cases; Folder found no files"):
        Folder(tmp_path).keys()


def test_links_out_are_not_read(tmp_path: Path) -> None:
    draw(tmp_path, "outside.png")
    draw(tmp_path, "set/a.png")
    (tmp_path / "set/b.png").symlink_to(tmp_path / "outside.png")
    source = Folder(tmp_path / "set")
    with pytest.raises(UnreadableCase, match="outside the data set"):
        source["b.png"]


def test_windows_keep_to_a_drive(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png", "b/10.png"):
        draw(tmp_path, name)
    assert Windows(Folder(tmp_path), 2).keys() == ["a/2.png", "b/10.png"]


@pytest.mark.parametrize("fault", ["missing", "size"])
def test_window_names_the_odd_frame(tmp_path: Path, fault: str) -> None:
    for name in ("1.png", "2.png"):
        draw(tmp_path, name)
    windows = Windows(Folder(tmp_path), 2)
    assert windows.keys() == ["2.png"]
    if fault == "missing":
        (tmp_path / "1.png").unlink()
    else:
        draw(tmp_path, "1.png", size=(9, 6))
    wanted = r"^1\.png: no such file" if fault == "missing" else r"1\.png is 9x6, frame 2\.png is 8x6"
    with pytest.raises(UnreadableCase, match=wanted):
        windows["2.png"]


@given(st.lists(st.text("ab019/.", min_size=1, max_size=8)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names), key=in_order) == sorted(sorted(names, reverse=True), key=in_order)


@given(st.text("ab_", max_size=3), st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_sort_as_numbers(text: str, one: int, other: int) -> None:
    names = [f"{text}{number}.png" for number in (one, other)]
    assert sorted(names, key=in_order) == [f"{text}{number}.png" for number in sorted((one, other))]
