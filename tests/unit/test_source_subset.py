"""A sample of a source: the same cases, fewer of them."""

import pytest

from swerve.sources.subset import Subset
from swerve.sources.windows import Windows, frames_of
from swerve.testing import FakeSource, SourceContract
from swerve.world.source import World


class TestSome(SourceContract):
    def source(self) -> Subset:
        return Subset(FakeSource(9), 4, seed=3)


def test_even_sample_spans_the_source() -> None:
    keys = FakeSource(10).keys()
    assert Subset(FakeSource(10), 5).keys() == [keys[place] for place in (0, 2, 4, 6, 8)]
    assert Subset(FakeSource(10), 3).keys() == [keys[place] for place in (0, 3, 6)]
    assert Subset(FakeSource(10), 10).keys() == Subset(FakeSource(10), 99, seed=1).keys() == keys


def test_random_sample_keeps_the_order_and_follows_the_seed() -> None:
    whole = FakeSource(60).keys()
    first, again, other = (Subset(FakeSource(60), 20, seed=seed).keys() for seed in (1, 1, 2))
    assert first == again != other
    assert first == sorted(first, key=whole.index)
    assert len(set(first)) == 20
    assert first != Subset(FakeSource(60), 20).keys()


def test_only_chosen_cases_are_given() -> None:
    some = Subset(FakeSource(10), 5)
    assert some[some.keys()[1]].key == FakeSource(10).keys()[2]
    with pytest.raises(KeyError):
        some[FakeSource(10).keys()[1]]


def test_windows_and_conventions_shine_through() -> None:
    world = World(drives=1, frames=7)
    some = Subset(Windows(world, 3), 2)
    key = some.keys()[1]
    assert frames_of(some, key) == Windows(world, 3).holds(key)
    assert some.group(key) == "test/0/0"
    assert Subset(world, 2).convention == World.convention
    assert some.convention is None  # windows do not tell; who asks looks further down


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "3"])
def test_bad_count_is_refused(count: object) -> None:
    with pytest.raises(ValueError, match="'count' must be a whole number of at least 1"):
        Subset(FakeSource(3), count)  # type: ignore[arg-type]


def test_other_choice_is_another_source() -> None:
    assert Subset(FakeSource(10), 5).fingerprint() != Subset(FakeSource(10), 4).fingerprint()
    assert Subset(FakeSource(10), 5).fingerprint() != Subset(FakeSource(11), 5).fingerprint()
