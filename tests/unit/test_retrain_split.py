"""No drive, block or frame of the test side ever reaches training."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.errors import InputError
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
@given(st.sampled_from(["groups", "blocks", "random"]), seeds, st.randoms(use_true_random=False))
def test_order_does_not_matter(way: str, seed: int, shuffle: random.Random) -> None:
    groups = drives(30, 20, 40, 12)
    items = list(groups.items())
    shuffle.shuffle(items)
    cut = Cut(way, gap=2, blocks=4, seed=seed)
    assert cut.split(dict(items)).sides == cut.split(groups).sides


def test_frames_count_as_numbers() -> None:
    split = Cut("blocks", 0.25, 0.25, blocks=4, gap=0).split(drives(40))
    for side in (TEST, VAL):
        run = sorted(places(split, "drive0", side))
        assert run == list(range(run[0], run[0] + 10))


def test_longest_numbers_are_ordered() -> None:
    keys = {f"f{'1' + '0' * 5000}": "d", "f9": "d", "f07": "d", "f7": "d"}
    assert list(Cut("random", 0.3, 0.3).split(keys).sides) == ["f07", "f7", "f9", f"f{'1' + '0' * 5000}"]


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
    with pytest.raises(InputError, match="1 drives cannot be split into 3 sides; split by blocks instead"):
        Cut("groups").split(drives(100))


def test_empty_source_gets_its_line() -> None:
    with pytest.raises(InputError, match="the training set is empty: the source has no cases"):
        Cut().split({})


def test_swallowed_training_gets_its_line() -> None:
    with pytest.raises(InputError, match=r"the training set is empty: 4 of 20 cases are kept .* lie in guard gaps"):
        Cut("blocks", 0.2, 0.0, blocks=5, gap=60).split(drives(20))


def test_missing_validation_is_allowed() -> None:
    counts = Cut("groups", 0.2, 0.0).split(drives(*[2] * 10)).counts()
    assert (counts[TRAIN], counts[VAL], counts[TEST]) == (16, 0, 4)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"way": "group"}, "did you mean 'groups'"),
        ({"test": 0.0}, "test share must lie above 0"),
        ({"test": 0.6, "val": 0.4}, "leave room"),
        ({"test": float("nan")}, "test share must lie"),
        ({"blocks": 1}, "2 blocks at least"),
        ({"gap": -1}, "got 10 and -1"),
    ],
)
def test_wrong_cut_is_named(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Cut(**wrong)  # type: ignore[arg-type]


class OneDrive(FakeSource):
    def group(self, key: str) -> str:
        return "the drive"


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_windows_share_no_frame(seed: int) -> None:
    windows = Windows(OneDrive(count=300), 12)
    split = split_source(windows, Cut("blocks", gap=3, seed=seed))
    seen = {side: {frame for key in split.keys(side) for frame in windows._frames[key]} for side in (TRAIN, TEST)}
    assert not seen[TRAIN] & seen[TEST]


def test_repeated_key_is_named() -> None:
    class Twice(FakeSource):
        def keys(self) -> list[str]:
            return ["a", "b", "a"]

    with pytest.raises(InputError, match="lists 'a' twice"):
        split_source(Twice())
