import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Group, Image
from swerve.sources import video
from swerve.sources.video import CACHED, FrameReader, Video
from swerve.sources.windows import Windows
from swerve.testing.contracts import SourceContract

COUNT = 30
LOSSLESS = "FFV1"


def picture(index: int, size: tuple[int, int] = (64, 48)) -> Array:
    """The frame of a number, blue first as OpenCV writes it: patches of colour that survive a change to YUV and back."""
    patches = rng_for("video", index).integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    return patches.repeat(8, axis=0).repeat(8, axis=1)


def film(file: Path, *, codec: str = LOSSLESS, count: int = COUNT, size: tuple[int, int] = (64, 48), first: int = 0) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(file), cv2.CAP_FFMPEG, cv2.VideoWriter_fourcc(*codec), 10, size)
    assert writer.isOpened()
    for index in range(first, first + count):
        writer.write(picture(index, size))
    writer.release()
    return file


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one film whose every pixel is known."""
    return film(tmp_path_factory.mktemp("films") / "drive.mkv").parent


def pixels(source: Video, key: str) -> Array:
    seen = source[key].inputs["camera"]
    assert isinstance(seen, Image)
    return seen.pixels


def is_frame(found: Array, index: int) -> bool:
    """Whether a frame is the one of that number, but for the rounding between YUV and RGB."""
    return bool(np.abs(found[:, :, ::-1].astype(int) - picture(index)).mean() < 3)


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _filmed(self, drive: Path) -> None:
        self.folder = drive

    def source(self) -> Video:
        return Video(self.folder)


@pytest.mark.parametrize(
    ("suffix", "codec"), [("mp4", "mp4v"), ("mov", "mp4v"), ("avi", "MJPG"), ("mkv", "FFV1"), ("webm", "VP80")]
)
def test_every_kind_is_read(tmp_path: Path, suffix: str, codec: str) -> None:
    film(tmp_path / f"a.{suffix}", codec=codec, count=12)
    source = Video(tmp_path)
    assert source.keys() == [f"a.{suffix}#{index:06d}" for index in range(12)]
    assert source.group(source.keys()[3]) == f"a.{suffix}"
    assert all(pixels(source, key).shape == (48, 64, 3) for key in source.keys())


def test_every_frame_is_its_own(drive: Path) -> None:
    source = Video(drive)
    for index, key in enumerate(source.keys()):
        assert is_frame(pixels(source, key), index), key


@settings(max_examples=10, deadline=None)
@given(order=st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=12))
def test_any_order_gives_the_same(drive: Path, order: list[int]) -> None:
    source = Video(drive)
    for index in order:
        assert is_frame(pixels(source, f"drive.mkv#{index:06d}"), index)


def test_reading_in_order_opens_once(drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Video(drive)
    keys = source.keys()
    opened = counted(monkeypatch)
    for key in keys:
        pixels(source, key)
    assert opened == ["drive.mkv"]
    for key in keys[-CACHED:]:
        pixels(source, key)
    assert opened == ["drive.mkv"]
    pixels(source, keys[-CACHED - 1])
    assert opened == ["drive.mkv"] * 2


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the films that are opened from now on."""
    opened: list[str] = []
    whole = FrameReader._open

    def counting(reader: FrameReader, name: str) -> bytes:
        opened.append(name)
        return whole(reader, name)

    monkeypatch.setattr(FrameReader, "_open", counting)
    return opened


def test_threads_share_a_film(drive: Path) -> None:
    source = Video(drive)
    keys = source.keys()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda key: pixels(source, key), [key for key in keys for _ in range(3)]))
    assert all(is_frame(seen, place // 3) for place, seen in enumerate(found))


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"every": 7}, [0, 7, 14, 21, 28]),
        ({"start": 27}, [27, 28, 29]),
        ({"stop": 2}, [0, 1]),
        ({"start": 5, "stop": 12, "every": 3}, [5, 8, 11]),
        ({"start": 28, "stop": 99}, [28, 29]),
    ],
)
def test_frames_can_be_chosen(drive: Path, asked: dict[str, int], wanted: list[int]) -> None:
    source = Video(drive, **asked)  # type: ignore[arg-type]
    assert source.keys() == [f"drive.mkv#{index:06d}" for index in wanted]
    assert is_frame(pixels(source, source.keys()[-1]), wanted[-1])


@pytest.mark.parametrize("wrong", [{"every": 0}, {"start": -1}, {"stop": 0}, {"start": 4, "stop": 4}])
def test_nonsense_is_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="'every' must be at least 1"):
        Video(tmp_path, **wrong)  # type: ignore[arg-type]


def test_start_beyond_the_end_is_empty(drive: Path) -> None:
    with pytest.raises(InputError, match="0 cases"):
        Video(drive, start=COUNT).keys()


def test_films_are_drives_in_order(tmp_path: Path) -> None:
    for name in ("b10.avi", "b9.avi", "a/1.avi"):
        film(tmp_path / name, count=2)
    source = Video(tmp_path)
    assert [source.group(key) for key in source.keys()] == ["b9.avi"] * 2 + ["b10.avi"] * 2 + ["a/1.avi"] * 2
    assert Windows(source, 2).keys() == ["b9.avi#000001", "b10.avi#000001", "a/1.avi#000001"]
    assert Video(tmp_path, file="b10.avi").keys() == ["b10.avi#000000", "b10.avi#000001"]


def test_films_by_turns_are_kept_apart(tmp_path: Path) -> None:
    film(tmp_path / "a.avi", count=3)
    film(tmp_path / "b.avi", count=3, first=10)
    source = Video(tmp_path)
    for name, index in (("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)):
        assert is_frame(pixels(source, f"{name}.avi#{index:06d}"), index + (10 if name == "b" else 0)), (name, index)


def test_window_is_frames_of_a_film(drive: Path) -> None:
    window = Windows(Video(drive), 3)["drive.mkv#000007"].inputs["camera"]
    assert isinstance(window, Group)
    for index, frame in zip((5, 6, 7), window.values, strict=True):
        assert isinstance(frame, Image)
        assert is_frame(frame.pixels, index)


def test_film_that_ends_early_is_skips(tmp_path: Path) -> None:
    whole = film(tmp_path / "a.avi", codec="MJPG").read_bytes()
    (tmp_path / "a.avi").write_bytes(whole[: len(whole) // 2])
    source = Video(tmp_path)
    assert len(source.keys()) == COUNT
    good = [key for key in source.keys() if reads(source, key)]
    assert good == source.keys()[: len(good)]
    assert 5 < len(good) < 25
    with pytest.raises(UnreadableCase, match=rf"^a\.avi: frame 29 cannot be decoded, only the first {len(good)} can"):
        source["a.avi#000029"]
    assert reads(source, "a.avi#000000")


def reads(source: Video, key: str) -> bool:
    try:
        return bool(source[key])
    except UnreadableCase:
        return False


def test_window_over_the_end_names_both(tmp_path: Path) -> None:
    whole = film(tmp_path / "a.avi", codec="MJPG").read_bytes()
    (tmp_path / "a.avi").write_bytes(whole[: len(whole) // 2])
    windows = Windows(Video(tmp_path), 2)
    with pytest.raises(UnreadableCase, match=r"^a\.avi: frame 28 cannot be decoded"):
        windows["a.avi#000029"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n",
        b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        b"[playlist]\nFile1=http://example.org/a.mp4\n",
        b"RIFF\x00\x00\x00\x00WAVEfmt ",
        b"\x00\x00\x00\x1cnope" + bytes(64),
    ],
)
def test_no_film_is_no_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    (tmp_path / "a.mp4").write_bytes(content)
    film(tmp_path / "b.avi", count=2)
    handed: list[str] = []
    given_to = cv2.VideoCapture

    class Watched:
        def __init__(self) -> None:
            self.real = given_to()

        def open(self, name: str, backend: int) -> bool:
            handed.append(name)
            return bool(self.real.open(name, backend))

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    monkeypatch.setattr(video.cv2, "VideoCapture", Watched)
    source = Video(tmp_path)
    assert source.keys() == ["a.mp4", "b.avi#000000", "b.avi#000001"]
    assert len(handed) == 1  # the film alone
    with pytest.raises(UnreadableCase, match=r"^a\.mp4: not a supported video"):
        source["a.mp4"]


def test_damaged_films_are_quiet(tmp_path: Path) -> None:
    for name, codec in (("a.mp4", "mp4v"), ("b.mkv", LOSSLESS), ("c.avi", "MJPG")):
        (tmp_path / name).write_bytes(film(tmp_path / name, codec=codec).read_bytes()[:300])
    told = subprocess.run([sys.executable, "-c", READ_ALL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stderr == ""
    assert [line.partition(":")[0] for line in told.stdout.splitlines()] == ["a.mp4", "b.mkv", "c.avi"]


# In a process of its own: how much a decoder tells is settled when it is first used.
READ_ALL = """
import sys
from pathlib import Path
from swerve.core.errors import UnreadableCase
from swerve.sources.video import Video
source = Video(Path(sys.argv[1]))
for key in source.keys():
    try:
        source[key]
    except UnreadableCase as error:
        print(error)
"""


@pytest.mark.parametrize(("most", "readable"), [(64 * 48, True), (64 * 48 - 1, False)])
def test_large_frames_are_refused(drive: Path, monkeypatch: pytest.MonkeyPatch, most: int, readable: bool) -> None:
    monkeypatch.setattr(limits, "PIXELS", most)
    source = Video(drive)
    assert reads(source, source.keys()[0]) is readable
    if not readable:
        with pytest.raises(UnreadableCase, match=r"drive\.mkv: 64x48 pixels, at most 3,071 are read"):
            source["drive.mkv"]


@pytest.mark.parametrize(("most", "readable"), [(COUNT, True), (COUNT - 1, False)])
@pytest.mark.parametrize("suffix", ["mkv", "avi"])
def test_long_films_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, most: int, readable: bool
) -> None:
    film(tmp_path / f"a.{suffix}")
    monkeypatch.setattr(limits, "ROWS", most)
    source = Video(tmp_path)
    assert reads(source, source.keys()[-1]) is readable
    assert len(source.keys()) == (COUNT if readable else 1)


def test_header_that_overstates_is_skips(tmp_path: Path) -> None:
    """Matroska's count is a guess from its length in time, so frames are counted; an AVI's own count is believed."""
    whole = film(tmp_path / "a.mkv").read_bytes()
    (tmp_path / "a.mkv").write_bytes(whole[: len(whole) // 2])
    source = Video(tmp_path)
    assert 5 < len(source.keys()) < 25
    assert all(reads(source, key) for key in source.keys())


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files as Linux lists them")
def test_films_do_not_pile_up(tmp_path: Path) -> None:
    for index in range(6):
        film(tmp_path / f"{index}.avi", count=2)
    source = Video(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for key in source.keys() * 2:
        pixels(source, key)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_names_are_no_patterns(tmp_path: Path) -> None:
    film(tmp_path / "a%03d http:x.avi", count=2)
    source = Video(tmp_path)
    assert [reads(source, key) for key in source.keys()] == [True, True]


def test_choice_is_in_the_fingerprint(drive: Path) -> None:
    prints = {Video(drive, every=every, start=start).fingerprint() for every in (1, 2) for start in (0, 1)}
    assert len(prints) == 4
