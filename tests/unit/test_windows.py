from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from swerve.core.campaign import Campaign
from swerve.core.errors import UnreadableCase
from swerve.core.relation import Rule
from swerve.core.transformation import Transformation
from swerve.core.values import Group, Image
from swerve.execution.engine import run
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows, frames_of
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten


def drives(count: int, frames: int) -> FakeSource:
    return FakeSource(count=count * frames, drive=frames)


class Counting(FakeSource):
    """Counts how often a frame is read."""

    reads: dict[str, int] = {}

    def __getitem__(self, key: str):  # type: ignore[no-untyped-def]
        self.reads[key] = self.reads.get(key, 0) + 1
        return super().__getitem__(key)


@pytest.mark.parametrize("length", [1, 3, 100])
def test_window_is_the_last_frames(length: int) -> None:
    source = drives(1, length + 1)
    windows = Windows(source, length)
    assert list(windows.keys()) == list(source.keys())[length - 1 :]
    window = windows[windows.keys()[1]]
    frames = window.inputs["camera"]
    assert isinstance(frames, Group)
    wanted = [source[key] for key in list(source.keys())[1 : length + 1]]
    assert list(frames.values) == [case.inputs["camera"] for case in wanted]
    assert window.truth == wanted[-1].truth


def test_window_never_spans_two_drives() -> None:
    windows = Windows(drives(3, 4), 3)
    assert len(windows.keys()) == 6
    assert all(windows.group(key) == windows[key].group for key in windows.keys())


def test_windows_name_their_frames() -> None:
    source = drives(2, 6)
    frames = source.keys()
    windows = Windows(source, 3)
    assert windows.holds(frames[8]) == tuple(frames[6:9])
    assert Windows(windows, 3).holds(frames[11]) == tuple(frames[7:12])
    assert frames_of(source, frames[4]) == (frames[4],)


def test_short_drives_give_no_window() -> None:
    assert Windows(drives(3, 4), 5).keys() == []


def test_shared_frames_are_read_once() -> None:
    Counting.reads.clear()
    windows = Windows(Counting(count=24, drive=12), 5)
    for key in windows.keys():
        windows[key]
    assert set(Counting.reads.values()) == {1}


def test_change_reaches_every_frame() -> None:
    windows = Windows(drives(1, 3), 3)
    case = windows[windows.keys()[0]]
    followup = Brighten(20)(case)
    for before, after in zip(case.inputs["camera"].values, followup.inputs["camera"].values, strict=True):  # type: ignore[attr-defined]
        assert Brighten(20).map(before) == after


def test_windowed_campaign_runs() -> None:
    rule = Rule("brighter", Brighten(30), same_angle(10))
    campaign = Campaign(Windows(drives(2, 4), 3), FakeSystem(), (rule,), Sweep())
    assert run(campaign, MemoryLedger()).as_dict()["trials"] == 4


def test_other_sensors_in_window_refused() -> None:
    class Patchy(FakeSource):
        def __getitem__(self, key: str):  # type: ignore[no-untyped-def]
            case = super().__getitem__(key)
            extra = {"rear": case.inputs["camera"]} if key.endswith("0") else {}
            return type(case)(case.key, {**case.inputs, **extra}, case.truth, case.group)

    windows = Windows(Patchy(count=2, drive=2), 2)
    with pytest.raises(UnreadableCase, match="mixes inputs: frame"):
        windows[windows.keys()[0]]


def test_sizes_must_agree_in_a_window() -> None:
    class Mixed(FakeSource):
        def __getitem__(self, key: str):  # type: ignore[no-untyped-def]
            case = super().__getitem__(key)
            image = case.inputs["camera"]
            assert isinstance(image, Image)
            smaller = Image(image.pixels[:-1]) if key.endswith("0") else image
            return type(case)(case.key, {"camera": smaller}, case.truth, case.group)

    windows = Windows(Mixed(count=2, drive=2), 2)
    with pytest.raises(UnreadableCase, match=r"mixes sizes: frame fake-00000 is 24x11, frame fake-00001 is 24x12"):
        windows[windows.keys()[0]]


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "3"])
def test_wrong_length_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="'length' must be a whole number of at least 1, got"):
        Windows(FakeSource(), wrong)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Counted(Transformation):
    """A change that tells how often it was made to which frame."""

    by: int = 1
    preserves: ClassVar[tuple[str, ...]] = ("*",)
    made: ClassVar[list[tuple[int, int]]] = []

    def image(self, value: Image) -> Image:
        self.made.append((self.by, id(value)))
        return Image(value.pixels // (self.by + 1))


def test_frame_that_windows_share_is_changed_once_per_change() -> None:
    windows = Windows(drives(1, 8), 5)
    cases = [windows[key] for key in windows.keys()]
    Counted.made.clear()
    followups = [Counted(by)(case) for by in (1, 2) for case in cases]
    assert len(Counted.made) == len(set(Counted.made)) == 2 * 8
    for case, followup in zip(cases * 2, followups, strict=True):
        before, after = case.inputs["camera"], followup.inputs["camera"]
        assert isinstance(before, Group)
        assert isinstance(after, Group)
        by = 1 if followups.index(followup) < 4 else 2
        for frame, changed in zip(before.values, after.values, strict=True):
            assert isinstance(frame, Image)
            assert changed == Image(frame.pixels // (by + 1))


@dataclass(frozen=True)
class Listed(Counted):
    """A change without a hash."""

    numbers: Any = ()


def test_change_without_a_hash_is_made_each_time() -> None:
    case = Windows(drives(1, 3), 3)[drives(1, 3).keys()[2]]
    Counted.made.clear()
    assert Listed(1, [1, 2])(case).inputs == Listed(1, [1, 2])(case).inputs
    assert len(Counted.made) == 6
