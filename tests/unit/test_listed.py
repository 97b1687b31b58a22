import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.config.toml import Builder
from swerve.core.case import Fact
from swerve.core.encode import encode
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Image, Steering, Value
from swerve.sources.folders import Folder
from swerve.sources.listed import CAMERA, Entry, ListedSource
from swerve.sources.windows import Windows
from swerve.testing.contracts import SourceContract


@dataclass(frozen=True)
class Told(ListedSource):
    """Entries as they are given; its fields do not show them, as those of a reader that finds them do not."""

    told: Callable[[], tuple[Entry, ...]] = tuple
    table: str = ""
    beside: Path = Path()

    def listed(self) -> Iterable[Entry]:
        return self.told()

    def manifests(self) -> tuple[str, ...]:
        return (self.table,) if self.table else ()


def tell(folder: Path, told: tuple[Entry, ...], **more: Any) -> Told:
    return Told(folder, lambda: told, **more)


def draw(folder: Path, name: str, *, look: int = 0, size: tuple[int, int] = (8, 6)) -> str:
    pixels = rng_for("listed", look).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(folder / name), pixels)
    return name


def frames(folder: Path, count: int) -> tuple[Entry, ...]:
    names = [draw(folder, f"{index}.png", look=index) for index in range(count)]
    return tuple(Entry(name, {CAMERA: name}, (Steering(index),), "drive") for index, name in enumerate(names))


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _drawn(self, tmp_path: Path) -> None:
        self.told = tell(tmp_path, frames(tmp_path, 3))

    def source(self) -> Told:
        return replace(self.told)


def test_case_is_picture_and_labels(tmp_path: Path) -> None:
    case = tell(tmp_path, frames(tmp_path, 3))["2.png"]
    assert (case.key, case.truth, case.group) == ("2.png", (Steering(2),), "drive")
    picture = case.inputs["camera"]
    assert isinstance(picture, Image)
    assert np.array_equal(picture.pixels[:, :, ::-1], cv2.imread(str(tmp_path / "2.png")))


def test_fault_is_never_read(tmp_path: Path) -> None:
    source = tell(tmp_path, (Entry("a", {CAMERA: "missing.png"}, fault="a: no label"), *frames(tmp_path, 1)))
    assert source.keys() == ["a", "0.png"]
    with pytest.raises(UnreadableCase, match=r"^a: no label$"):
        source["a"]


def test_missing_picture_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCase, match=r"^gone\.png: no such file"):
        tell(tmp_path, (Entry("x", {CAMERA: "gone.png"}),))["x"]


def test_key_listed_twice_is_no_case(tmp_path: Path) -> None:
    one, other = frames(tmp_path, 2)
    source = tell(tmp_path, (one, other, replace(one, truth=(Steering(9),))))
    assert source.keys() == ["0.png", "1.png"]
    with pytest.raises(UnreadableCase, match=r"0\.png: listed twice"):
        source["0.png"]
    assert source["1.png"].truth == (Steering(1),)


def test_campaign_file_tells_the_folder(tmp_path: Path) -> None:
    draw(tmp_path, "data/1.png")
    built = Builder("source", tmp_path).component({"use": "swerve.sources.folders:Folder", "folder": "data"})
    assert built == Folder(tmp_path / "data")
    assert built["1.png"]
    assert encode(built, tmp_path)["folder"] == "data"


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}: 0 cases"):
        Told(tmp_path).keys()
    with pytest.raises(InputError, match="no such folder"):
        tell(tmp_path / "gone", (Entry("a", {CAMERA: "a.png"}),))["a"]


def test_readers_may_know_more(tmp_path: Path) -> None:
    class Brighter(Told):
        def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
            picture = inputs[CAMERA]
            assert isinstance(picture, Image)
            return (Steering(float(picture.pixels.max())),)

    frames(tmp_path, 1)
    case = Brighter(tmp_path, lambda: (Entry("a", {CAMERA: "0.png"}),))["a"]
    assert case.truth == (Steering(float(cv2.imread(str(tmp_path / "0.png")).max())),)


def test_readers_may_notice_facts(tmp_path: Path) -> None:
    class Noticing(Told):
        def read_inputs(self, entry: Entry) -> tuple[Mapping[str, Value], Mapping[str, Fact]]:
            return self.inputs(entry), {"letters": float(len(entry.key))}

    entries = Entry("abc", {CAMERA: draw(tmp_path, "a.png")}), Entry("d", fault="d: no")
    source = Noticing(tmp_path, lambda: entries)
    assert source["abc"].facts == {"letters": 3}
    assert set(source["abc"].inputs) == {CAMERA}
    with pytest.raises(UnreadableCase, match="d: no"):
        source["d"]


def test_fingerprint_follows_the_data_alone(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    source = tell(here, frames(here, 3), beside=here / "calibration")
    before = source.fingerprint()
    shutil.copytree(here, there)
    assert tell(there, source.told(), beside=there / "calibration").fingerprint() == before
    assert tell(there, source.told(), beside=there / "other").fingerprint() != before


@pytest.mark.parametrize("what", ["picture", "table", "missing", "key", "fault", "group", "order"])
def test_fingerprint_sees_every_change(tmp_path: Path, what: str) -> None:
    (tmp_path / "labels.csv").write_text("0")
    source = tell(tmp_path, frames(tmp_path, 3), table="labels.csv")
    before = source.fingerprint()
    first, *rest = source.told()
    changed = {
        "key": (replace(first, key="x"), *rest),
        "fault": (replace(first, fault="none"), *rest),
        "group": (replace(first, group="another"), *rest),
        "order": (*rest, first),
    }
    if what == "picture":
        draw(tmp_path, "2.png", look=9)
    elif what == "table":
        (tmp_path / "labels.csv").write_text("1")
    elif what == "missing":
        (tmp_path / "1.png").unlink()
    assert tell(tmp_path, changed.get(what, source.told()), table="labels.csv").fingerprint() != before


@pytest.mark.parametrize("fault", ["missing", "size"])
def test_window_names_the_odd_frame(tmp_path: Path, fault: str) -> None:
    windows = Windows(tell(tmp_path, frames(tmp_path, 4)), 2)
    if fault == "size":
        draw(tmp_path, "1.png", size=(7, 6))
    else:
        (tmp_path / "1.png").unlink()
    assert windows["3.png"].truth == (Steering(3),)
    with pytest.raises(UnreadableCase, match=r"1\.png") as caught:
        windows["2.png"]
    assert fault == "missing" or "2.png is 8x6" in str(caught.value)
