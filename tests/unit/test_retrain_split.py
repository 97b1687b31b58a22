"""No drive, block or frame of the test side ever reaches training."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.retrain.dataset import Example, Examples, Joined
from swerve.retrain.split import GUARD, TEST, TRAIN, VAL, Cut, Split, split_source
from swerve.sources.windows import Windows
from swerve.testing.fakes import FakeSource

SIDES = {TRAIN, VAL, TEST, GUARD}


def drives(*lengths: int) -> dict[str, str]:
    return {f"drive{drive}#{frame}": f"drive{drive}" for drive, length in enumerate(lengths) for frame in range(length)}


def places(split: Split, drive: str, side: str) -> list[int]:
    return [int(key.partition("#")[2]) for key in split.keys(side) if split.groups[key] == drive]


lengths = st.lists(st.integers(1, 12), min_size=3, max_size=12)
shares = st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.4))
seeds = st.integers(0, 2**32)


@settings(deadline=None)
@given(lengths, shares, seeds)
def test_groups_never_cross_sides(given_lengths: list[int], share: tuple[float, float], seed: int) -> None:
    split = Cut("groups", *share, seed=seed).split(drives(*given_lengths))
    by_side = [{split.groups[key] for key in split.keys(side)} for side in (TRAIN, VAL, TEST)]
    assert all(by_side)
    assert sum(map(len, by_side)) == len(given_lengths)


@settings(deadline=None)
@given(st.integers(150, 400), shares, seeds, st.integers(0, 12), st.integers(4, 12))
def test_gaps_are_kept(length: int, share: tuple[float, float], seed: int, gap: int, blocks: int) -> None:
    groups = drives(length)
    try:
        split = Cut("blocks", *share, blocks=blocks, gap=gap, seed=seed).split(groups)
    except InputError as error:
        assert "set is empty" in str(error)  # noqa: PT017
        return
    train, val, test = (places(split, "drive0", side) for side in (TRAIN, VAL, TEST))
    for one, other in ((train, test), (val, test), (train, val)):
        assert min(abs(a - b) for a in one for b in other) > gap


@settings(deadline=None)
@given(st.sampled_from(["groups", "blocks", "random"]), seeds)
def test_each_frame_has_one_side(way: str, seed: int) -> None:
    groups = drives(40, 40, 40, 40)
    split = Cut(way, gap=2, blocks=4, seed=seed).split(groups)
    assert split.sides.keys() == groups.keys()
    assert set(split.sides.values()) <= SIDES
    assert sum(split.counts().values()) == len(groups)


@settings(deadline=None)
@given(st.sampled_from(["groups", "random"]), seeds, st.randoms(use_true_random=False))
def test_order_leaves_units_alone(way: str, seed: int, shuffle: random.Random) -> None:
    groups = drives(30, 20, 40, 12)
    items = list(groups.items())
    shuffle.shuffle(items)
    cut = Cut(way, seed=seed)
    assert cut.split(dict(items)).sides == cut.split(groups).sides


@settings(deadline=None)
@given(seeds, st.randoms(use_true_random=False))
def test_blocks_follow_the_source(seed: int, shuffle: random.Random) -> None:
    items = list(drives(40, 60).items())
    shuffle.shuffle(items)
    split = Cut("blocks", 0.25, 0.25, blocks=4, gap=2, seed=seed).split(dict(items))
    for drive in ("drive0", "drive1"):
        sides = [split.sides[key] for key, group in items if group == drive]
        for place, side in enumerate(sides):
            near = set(sides[max(place - 2, 0) : place + 3])
            assert side == GUARD or near <= {side, GUARD}


@pytest.mark.parametrize("way", ["groups", "blocks", "random"])
def test_same_source_same_split(way: str) -> None:
    cut = Cut(way, gap=2, seed=5)
    one, two = (split_source(FakeSource(count=200, drive=50), cut) for _ in range(2))
    assert one == two
    assert list(one.sides) == FakeSource(count=200).keys()


def test_shares_are_met() -> None:
    counts = Cut("random", 0.34, 0.1, seed=3).split(drives(1000)).counts()
    assert (counts[TEST], counts[VAL], counts[TRAIN]) == (340, 100, 560)


def test_seeds_differ() -> None:
    one, two = (Cut("groups", seed=seed).split(drives(*[5] * 30)).keys(TEST) for seed in (0, 1))
    assert one != two


def test_other_drive_leaves_blocks_alone() -> None:
    cut = Cut("random", 0.5, 0.1, seed=1)
    few, many = cut.split(drives(200)), cut.split({**drives(200), "x#0": "x"})
    assert sum(few.sides[key] != many.sides[key] for key in few.sides) <= 2


def test_one_drive_falls_to_blocks() -> None:
    assert Cut(gap=1).split(drives(100)).way == "blocks"
    assert Cut(gap=1).split(drives(1, 1, 1)).way == "groups"


def test_one_drive_has_no_groups() -> None:
    with pytest.raises(InputError, match="1 drives cannot be split into 3 sets; split by blocks instead"):
        Cut("groups").split(drives(100))


def test_empty_source_gets_its_line() -> None:
    with pytest.raises(InputError, match="the training set is empty: the source has no cases"):
        Cut().split({})


def test_swallowed_training_gets_its_line() -> None:
    with pytest.raises(InputError, match=r"the training set is empty: 4 of 20 cases are for testing .* lie in guard gaps"):
        Cut("blocks", 0.2, 0.0, blocks=5, gap=60).split(drives(20))


def test_missing_validation_is_allowed() -> None:
    counts = Cut("groups", 0.2, 0.0).split(drives(*[2] * 10)).counts()
    assert (counts[TRAIN], counts[VAL], counts[TEST]) == (16, 0, 4)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"way": "group"}, "did you mean 'groups'"),
        ({"test": 0.0}, "test share must be above 0"),
        ({"test": 0.6, "val": 0.4}, "both together below 1"),
        ({"test": float("nan")}, "test share must be"),
        ({"blocks": 1}, "'blocks' must be at least 2"),
        ({"gap": -1}, "got 10 blocks and a gap of -1"),
    ],
)
def test_wrong_cut_is_named(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Cut(**wrong)  # type: ignore[arg-type]


@dataclass(frozen=True)
class OneDrive(FakeSource):
    """A drive whose frames are named by number, by number as text sorts them, or by a token that tells nothing."""

    naming: str = "number"

    def keys(self) -> Sequence[str]:
        if self.naming == "token":
            return [hashlib.sha256(str(index).encode()).hexdigest()[:12] for index in range(self.count)]
        names = [f"frame{index}.jpg" for index in range(self.count)]
        return sorted(names) if self.naming == "text" else names

    def group(self, key: str) -> str:
        return "the drive"


def looked_at(source: Source, split: Split, length: int) -> dict[str, set[str]]:
    """The frames that the windows of each side hold, counted by hand."""
    frames = list(source.keys())
    ends = {key: place + 1 for place, key in enumerate(frames)}
    held = {side: [frames[ends[key] - length : ends[key]] for key in split.keys(side)] for side in (TRAIN, VAL, TEST)}
    return {side: {frame for window in windows for frame in window} for side, windows in held.items()}


def assert_apart(seen: dict[str, set[str]]) -> None:
    assert all(seen.values())
    assert not seen[TRAIN] & seen[TEST]
    assert not seen[VAL] & seen[TEST]
    assert not seen[TRAIN] & seen[VAL]


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from(["number", "text", "token"]), st.integers(0, 15))
def test_windows_share_no_frame(seed: int, naming: str, gap: int) -> None:
    source = OneDrive(count=400, naming=naming)
    split = split_source(Windows(source, 12), Cut("blocks", gap=gap, seed=seed))
    assert_apart(looked_at(source, split, 12))


def wrapped(source: Source) -> Source:
    everyone = Split("random", dict.fromkeys(source.keys(), TRAIN), dict.fromkeys(source.keys(), "the drive"))
    return Joined((Examples(source, tuple(map(Example, source.keys())), everyone, TRAIN),))


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_wrapped_windows_share_no_frame(seed: int) -> None:
    source = OneDrive(count=600)
    split = split_source(wrapped(Windows(source, 20)), Cut("blocks", gap=3, seed=seed))
    assert_apart(looked_at(source, split, 20))


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_windows_of_windows_share_no_frame(seed: int) -> None:
    source = OneDrive(count=400)
    split = split_source(Windows(Windows(source, 5), 8), Cut("blocks", gap=3, seed=seed))
    assert_apart(looked_at(source, split, 12))


@dataclass(frozen=True)
class Shuffled:
    """Another source in another order, which says nothing of time."""

    source: Windows

    def keys(self) -> Sequence[str]:
        keys = list(self.source.keys())
        random.Random(0).shuffle(keys)
        return keys

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


def test_shuffled_windows_share_no_frame() -> None:
    source = OneDrive(count=400)
    split = split_source(Shuffled(Windows(source, 2)), Cut("blocks", gap=0))  # type: ignore[arg-type]
    assert_apart(looked_at(source, split, 2))


@pytest.mark.parametrize("seed", range(12))
def test_long_drive_trains(seed: int) -> None:
    counts = Cut(seed=seed).split(drives(900, 50, 50)).counts()
    assert (counts[TRAIN], counts[VAL], counts[TEST]) == (900, 50, 50)


def test_uneven_drives_meet_shares() -> None:
    counts = Cut("groups", 0.2, 0.1).split(drives(390, 100, 100, 100, 310)).counts()
    assert (counts[TEST], counts[VAL], counts[TRAIN]) == (200, 100, 700)


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=3, max_size=12), shares, seeds)
def test_no_drive_brings_test_nearer(given_lengths: list[int], share: tuple[float, float], seed: int) -> None:
    split = Cut("groups", *share, seed=seed).split(drives(*given_lengths))
    tested, wanted = split.counts()[TEST], share[0] * sum(given_lengths)
    train = {split.groups[key] for key in split.keys(TRAIN)}
    if len(train) > 1:  # of the last one, training must have it
        for drive in train:
            longer = tested + given_lengths[int(drive.removeprefix("drive"))]
            assert abs(longer - wanted) >= abs(tested - wanted) - 1e-9


def test_missed_shares_are_told() -> None:
    notes = Cut().split(drives(900, 50, 50)).notes
    assert notes == ("the test set has 50 of 1,000 cases: 5%, instead of 20%",)
    assert not Cut().split(drives(*[10] * 20)).notes


def test_repeated_key_is_named() -> None:
    class Twice(FakeSource):
        def keys(self) -> list[str]:
            return ["a", "b", "a"]

    with pytest.raises(InputError, match="lists 'a' twice"):
        split_source(Twice())
