"""Bit sets of covered regions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array

HEAD = struct.Struct("<Q")
LARGEST = 1 << 33  # a gigabyte of bits: a million neurons in eight thousand sections


@dataclass(frozen=True, eq=False)
class Bits:
    """A set of numbers below `size`, with `|`, `&`, `-` and `len` as for any set."""

    size: int
    packed: Array  # 0 is the highest bit of the first byte; padding bits are 0

    @classmethod
    def none(cls, size: int) -> Bits:
        """The empty set of numbers below `size`."""
        return cls(size, np.zeros(-(-size // 8), np.uint8))

    @classmethod
    def of(cls, numbers: Iterable[int], size: int) -> Bits:
        """The set of `numbers`, each below `size`."""
        members = list(numbers)
        if members and not 0 <= min(members) <= max(members) < size:
            raise InputError(f"coverage bits must be numbered from 0 to {size - 1}, got {min(members)} to {max(members)}")
        flags = np.zeros(size, bool)
        flags[members] = True
        return cls.where(flags)

    @classmethod
    def where(cls, flags: Array) -> Bits:
        """The set of indices at which `flags` is true."""
        return cls(flags.size, np.packbits(flags))

    def flags(self) -> Array:
        """One boolean per number."""
        return np.unpackbits(self.packed, count=self.size).view(bool)

    def numbers(self) -> list[int]:
        """The members in ascending order."""
        return [int(number) for number in np.flatnonzero(self.flags())]

    def __or__(self, other: Bits) -> Bits:
        return self._combine(other, np.bitwise_or)

    def __and__(self, other: Bits) -> Bits:
        return self._combine(other, np.bitwise_and)

    def __sub__(self, other: Bits) -> Bits:
        return self._combine(other, lambda mine, others: mine & ~others)

    def _combine(self, other: Bits, how: Callable[[Array, Array], Array]) -> Bits:
        if self.size != other.size:
            raise InputError(
                f"coverage of {self.size} regions and of {other.size} cannot be merged: their networks or criteria differ"
            )
        return Bits(self.size, how(self.packed, other.packed))

    def __len__(self) -> int:
        return int(np.bitwise_count(self.packed).sum())

    def __bool__(self) -> bool:
        return bool(self.packed.any())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bits) and self.size == other.size and bool(np.array_equal(self.packed, other.packed))

    def __hash__(self) -> int:
        return hash((self.size, self.packed.tobytes()))

    def to_bytes(self, level: int = 6) -> bytes:
        """The set as bytes, compressed at a `level` of zlib; a sparse set takes a few dozen, whatever its size."""
        return HEAD.pack(self.size) + zlib.compress(self.packed.tobytes(), level)

    @classmethod
    def from_bytes(cls, data: bytes) -> Bits:
        """The set that `to_bytes` wrote; raises `InputError` for anything else."""
        size = HEAD.unpack_from(data)[0] if len(data) >= HEAD.size else LARGEST + 1
        if size > LARGEST:
            raise InputError("not a coverage set: the bytes do not start with a valid size")
        packed = np.frombuffer(_inflate(data[HEAD.size :], -(-size // 8)), np.uint8)
        if size % 8 and packed[-1] & (0xFF >> size % 8):
            raise InputError(f"not a coverage set of {size} regions: a bit past the last region is set")
        return cls(size, packed)


def _inflate(data: bytes, length: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than expected, so that a zip bomb is not inflated.
        content = stream.decompress(data, length + 1)
    except zlib.error as error:
        raise InputError(f"not a coverage set: {error}") from error
    if len(content) != length:
        raise InputError(f"not a coverage set: expected {length} bytes of regions, got {len(content)}")
    if not stream.eof or stream.unused_data:  # zlib checks the checksum only at the end of the stream
        raise InputError(f"not a coverage set: {'there is data after its end' if stream.eof else 'the data is truncated'}")
    return content
