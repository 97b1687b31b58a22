"""Pickles are read without running them: arrays come out as numpy wrote them, everything else is refused."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.errors import InputError
from swerve.similarity.array_pickle import STEPS, read_arrays


def written(tree: Any) -> bytes:
    return pickle.dumps(tree, protocol=3)


TREE = {"a": {"kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "bias": np.array([1.5, -2], np.float32)}}


def test_arrays_come_out_as_they_were_written() -> None:
    found = read_arrays(written(TREE), "some")
    assert found.keys() == {"a"}
    for name, array in TREE["a"].items():
        assert np.array_equal(found["a"][name], array)
        assert found["a"][name].dtype == array.dtype


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from(["<f4", "<f8"]), st.integers(0, 99))
@settings(max_examples=40)
def test_any_shape_is_read(shape: list[int], kind: str, seed: int) -> None:
    array = np.random.default_rng(seed).normal(size=shape).astype(kind)
    found = read_arrays(written({"x": array, "again": array}), "some")
    assert np.array_equal(found["x"], array)
    assert np.array_equal(found["again"], array)


class _Runs:
    """What a malicious pickle does when it is loaded."""

    def __init__(self, called: Any, *given: Any) -> None:
        self.called, self.given = called, given

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.called, self.given


@pytest.mark.parametrize(
    "thing",
    [
        {"a": _Runs(os.system, "false")},
        _Runs(os.system, "false"),
        {"a": _Runs(eval, "1")},
        {"a": np.array([1, 2])},  # whole numbers
        {"a": np.array(["x"], dtype=object)},
        {"a": np.array([1.0], ">f4")},
        {"a": np.asfortranarray(np.ones((2, 2), np.float32))},
        {"a": 1.5},
        {"a": "text"},
        {1: np.ones(2, np.float32)},
        [np.ones(2, np.float32)],
        np.ones(2, np.float32),
        {"a": {"b": None}},
        {"a": {1, 2}},
    ],
)
@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_anything_else_is_refused(thing: Any, protocol: int) -> None:
    with pytest.raises(InputError, match="no plain arrays"):
        read_arrays(pickle.dumps(thing, protocol=protocol), "some")


ALLOWED = {
    *("PROTO", "EMPTY_DICT", "MARK", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "BINUNICODE", "SHORT_BINBYTES"),
    *("BINBYTES", "BININT1", "BININT2", "BININT", "NONE", "NEWTRUE", "NEWFALSE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE"),
    *("SETITEM", "SETITEMS", "GLOBAL", "REDUCE", "BUILD"),
}


def test_no_other_instruction_is_known() -> None:
    known = {op.name for op in pickletools.opcodes if op.code.encode("latin-1") in STEPS}
    assert known == ALLOWED
    assert len(STEPS) == len(ALLOWED)


@pytest.mark.parametrize(
    "op", [op for op in pickletools.opcodes if op.name not in (*ALLOWED, "STOP")], ids=lambda op: op.name
)
def test_every_other_instruction_is_refused(op: Any) -> None:
    code = op.code.encode("latin-1")
    with pytest.raises(InputError, match="instruction"):
        read_arrays(b"\x80\x03}" + code + b"1\n" * 20 + b".", "some")


@pytest.mark.parametrize(
    "name", ["os system", "builtins eval", "numpy.core.multiarray scalar", "numpy load", "numpy ndarray.x"]
)
def test_other_names_are_refused(name: str) -> None:
    module, _, attribute = name.partition(" ")
    with pytest.raises(InputError, match="the name"):
        read_arrays(b"\x80\x03c" + f"{module}\n{attribute}\n".encode() + b".", "some")


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b".",
        b"\x80\x03",
        b"\x80\x03R.",
        b"\x80\x03}R.",
        b"\x80\x03b.",
        b"\x80\x03}}b.",
        b"\x80\x03h\x07.",
        b"\x80\x03t.",
        b"\x80\x03}K\x01K\x02s.",
        b"\x80\x03cnumpy\nndarray\n)R.",
        b"\x80\x03cnumpy\ndtype\nX\x02\x00\x00\x00i8\x89\x88\x87R.",
        b"\x80\x03X\xff\xff\xff\x7fab.",
        b"\x80\x03}" * 3 + b".",
        b"\x80\x03" + b"N" * 5000 + b".",
    ],
)
def test_damaged_programs_are_refused(program: bytes) -> None:
    with pytest.raises(InputError, match="some: no plain arrays"):
        read_arrays(program, "some")


def test_a_dictionary_within_itself_is_refused() -> None:
    inner: dict[str, Any] = {}
    inner["a"] = inner
    with pytest.raises(InputError, match="within dictionaries"):
        read_arrays(written(inner), "some")


@given(st.integers(0, 400), st.integers(0, 255))
@settings(max_examples=200)
def test_a_changed_byte_is_read_or_refused_but_never_anything_else(place: int, byte: int) -> None:
    data = bytearray(written(TREE))
    data[place % len(data)] = byte
    try:
        found = read_arrays(bytes(data), "some")
    except InputError:
        return
    _check_arrays(found)


def _check_arrays(tree: Any) -> None:
    for item in tree.values():
        if isinstance(item, np.ndarray):
            assert item.dtype in (np.float32, np.float64)
        else:
            _check_arrays(item)


def test_a_content_that_does_not_fit_the_shape_is_refused() -> None:
    data = written({"x": np.ones(77, np.float32)})
    assert data.count(b"K\x4d") == 1  # the shape, as numpy writes it
    with pytest.raises(InputError, match="does not fit"):
        read_arrays(data.replace(b"K\x4d", b"K\x4e"), "some")


def test_what_python_reads_is_what_is_read() -> None:
    data = written(TREE)
    theirs = pickle.load(io.BytesIO(data))
    assert np.array_equal(theirs["a"]["kernel"], read_arrays(data, "some")["a"]["kernel"])
