import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.errors import InputError
from swerve.coverage.bits import Bits

SIZE = 37
members = st.sets(st.integers(0, SIZE - 1))


def bits(numbers, size: int = SIZE) -> Bits:
    return Bits.of(numbers, size)


@given(members, members)
def test_bits_behave_like_sets(one, other) -> None:
    assert bits(one) | bits(other) == bits(one | other)
    assert bits(one) & bits(other) == bits(one & other)
    assert bits(one) - bits(other) == bits(one - other)
    assert (len(bits(one)), bool(bits(one)), bits(one).numbers()) == (len(one), bool(one), sorted(one))


@given(members)
def test_bytes_come_back_whole(numbers) -> None:
    again = Bits.from_bytes(bits(numbers).to_bytes())
    assert again == bits(numbers)
    assert hash(again) == hash(bits(numbers))


def test_sparse_sets_stay_small() -> None:
    assert len(bits({7, 4_000_000}, 5_000_000).to_bytes()) < 1_000


def test_flags_come_back_unpacked() -> None:
    flags = np.arange(SIZE) % 3 == 0
    np.testing.assert_array_equal(Bits.where(flags).flags(), flags)


def test_sets_of_other_sizes_differ() -> None:
    assert bits({1}, 9) != bits({1}, 10)
    assert bits({1}) != {1}


@pytest.mark.parametrize("numbers", [[-1], [10], [3, -1, 4]])
def test_strangers_are_refused(numbers: list[int]) -> None:
    with pytest.raises(InputError, match="regions must be from 0 to 9, got"):
        bits(numbers, 10)


def test_other_sizes_never_merge() -> None:
    with pytest.raises(InputError, match="coverage of 9 regions and of 10 cannot be merged"):
        bits({1}, 9) | bits({1}, 10)


GOOD = bits({1, 2}, 20).to_bytes()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "do not start with a valid size"),
        (b"\xff" * 12, "do not start with a valid size"),
        (GOOD[:8] + b"nonsense", "incorrect header"),
        (GOOD[:-6], "expected 3 bytes of regions, got"),
        (bits({1, 2}, 40).to_bytes().replace(b"\x28", b"\x14", 1), "expected 3 bytes of regions, got 4"),
        (GOOD[:-4], "the data is truncated"),
        (GOOD[:-1], "the data is truncated"),
        (GOOD + b"junk", "there is data after its end"),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "incorrect data check"),
        (b"\x13" + bits({19}, 20).to_bytes()[1:], "a bit past the last region is set"),
    ],
)
def test_broken_bytes_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Bits.from_bytes(data)
