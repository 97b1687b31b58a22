from __future__ import annotations

import json
import math
import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from swerve.core.errors import ModelError
from swerve.core.values import (
    KINDS,
    Boxes2D,
    Boxes3D,
    Calibration,
    Classes,
    Depth,
    Group,
    Image,
    Masks,
    PointCloud,
    Region,
    SceneRef,
    Signal,
    Steering,
    Value,
)
from swerve.systems.wire import (
    BODY,
    DTYPES,
    HEADER,
    MAGIC,
    missing_bytes,
    pack_frame,
    read_frame,
    unpack_frame,
    values_of,
    write_all,
)

NOISE = np.random.default_rng(3)
ONE_OF_EACH = (
    Image(NOISE.integers(0, 256, (3, 5, 3), dtype=np.uint8)),
    PointCloud(NOISE.normal(size=(7, 4)).astype(np.float32)),
    Boxes2D(np.array([[1, 2, 3.5, 4]]), ("car",), scores=np.array([0.1]), size=(5, 3)),
    Boxes3D(np.arange(7.0)[None], ("car",), care=np.array([False])),
    Masks(np.array([[0, 1], [2, 2]]), {1: "car", 2: "person"}),
    Classes(np.array([[0, 1], [2, 2]]), {1: "road", 2: "car"}),
    Region((np.array([[0, 0], [1, 0], [1, 1.0]]),)),
    Depth(np.array([[1.5, math.inf]])),
    Calibration({"camera": np.eye(3, 4)}, size=(5, 3)),
    SceneRef("scene-1", {"rain": 0.5, "sky": "grey"}),
    Steering(-1 / 3),
    Signal("brake", 0.1, "share"),
    Group((Steering(1), Image(np.zeros((1, 1, 3), np.uint8)))),
)


def frame(header: Any, body: bytes = b"") -> bytearray:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return bytearray(struct.pack("<4sIQ", b"SWRV", len(text), len(body)) + text + body)


def sent(header: dict[str, Any]) -> dict[str, Any]:
    received = bytearray(pack_frame(header))
    assert missing_bytes(received) == 0
    return unpack_frame(received)


def test_bytes_are_as_documented() -> None:
    made = pack_frame({"number": 1, "x": np.array([[1, 2]], dtype=np.uint8)})
    header = b'{"number":1,"x":{"dtype":"uint8","shape":[1,2],"offset":0}}     '
    assert made == b"SWRV" + bytes([64, 0, 0, 0]) + bytes([8, 0, 0, 0, 0, 0, 0, 0]) + header + b"\1\2\0\0\0\0\0\0"


def test_page_shows_the_true_bytes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "process.md").read_text()
    dump = re.findall(r"^((?:[0-9a-f]{2} +)+) ", page, re.MULTILINE)
    assert bytes.fromhex("".join(dump)) == pack_frame({"ask": "hello", "protocol": 1, "number": 0})
    assert f"at most {HEADER:,}" in page
    assert f"at most {BODY:,}" in page
    for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL):
        for line in text.replace("\n  ", " ").strip().splitlines():
            assert "number" in json.loads(line)


def test_every_value_comes_back() -> None:
    assert {type(value) for value in ONE_OF_EACH} == set(KINDS.values())
    rows = sent({"answers": [list(ONE_OF_EACH)]})["answers"][0]
    assert values_of(rows) == ONE_OF_EACH


@given(arrays.arrays(st.sampled_from(DTYPES), arrays.array_shapes(min_dims=0, min_side=0, max_side=4)))
def test_arrays_come_back_exactly(array: Any) -> None:
    before, after = sent({"pad": np.zeros(3, np.uint8), "x": array}), array
    assert before["x"].dtype == after.dtype
    assert before["x"].shape == after.shape
    assert before["x"].tobytes() == after.tobytes()


def test_order_in_memory_does_not_matter() -> None:
    grid = np.arange(12, dtype=np.int32).reshape(3, 4)
    for array in (grid.T, grid[:, ::-1], grid.astype(">i4")):
        assert np.array_equal(sent({"x": array})["x"], array)


def test_received_arrays_are_read_only_and_aligned() -> None:
    got = sent({"odd": np.ones(3, np.uint8), "x": np.ones(2)})
    assert not got["x"].flags.writeable
    assert got["x"].flags.aligned


@given(st.floats())
def test_numbers_keep_every_bit(number: float) -> None:
    value = values_of(sent({"x": [Steering(number)]})["x"])[0]
    assert isinstance(value, Steering)
    assert struct.pack("d", value.degrees) == struct.pack("d", number) or (math.isnan(number) and math.isnan(value.degrees))


def test_answers_in_plain_json_read() -> None:
    boxes = {"slot": "boxes2d", "xyxy": [[1, 2, 3, 4]], "kinds": ["car"], "scores": [0.5]}
    told = unpack_frame(frame({"answers": [[{"slot": "steering", "degrees": 1}, boxes]]}))["answers"][0]
    assert values_of(told) == (Steering(1.0), Boxes2D([[1, 2, 3, 4]], ("car",), scores=[0.5]))  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", [0, 1, 4, 15, 16, 20, -1])
def test_part_of_a_frame_asks_for_more(cut: int) -> None:
    whole = bytearray(pack_frame({"x": np.ones(5)}))
    part = whole[:cut]
    wanted = missing_bytes(part)
    assert 0 < wanted <= len(whole) - len(part)
    assert wanted == (16 - len(part) if len(part) < 16 else len(whole) - len(part))


@pytest.mark.parametrize("noise", [b"o", b"ok\n", b"SWR!", b"Loading model...\n", b"\xff\xfe\x00\x00", bytes(16)])
def test_noise_is_no_frame(noise: bytes) -> None:
    with pytest.raises(
        ModelError, match=r"^the process wrote '.+' to stdout instead of a reply; write other output to stderr$"
    ):
        missing_bytes(bytearray(noise))


@pytest.mark.parametrize(("place", "limit", "what"), [(0, HEADER, "header"), (1, BODY, "body")])
def test_limits_are_exact(place: int, limit: int, what: str) -> None:
    lengths = [0, 0]
    lengths[place] = limit
    assert missing_bytes(bytearray(struct.pack("<4sIQ", MAGIC, *lengths))) == limit
    lengths[place] += 1
    with pytest.raises(
        ModelError, match=f"the process announced a {what} of {limit + 1:,} bytes, more than the limit of {limit:,};"
    ):
        missing_bytes(bytearray(struct.pack("<4sIQ", MAGIC, *lengths)))


def test_too_large_a_question_is_refused() -> None:
    assert len(pack_frame({"x": "a" * (HEADER - 16)})) <= HEADER + 16
    with pytest.raises(
        ModelError, match=r"the message to or from the model has a header of .* set a smaller 'inference_batch'"
    ):
        pack_frame({"x": "a" * HEADER})


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"", "is invalid: Expecting value"),
        (b"\xff\xfe", "is invalid: 'utf-8'"),
        (b'{"a": 1', "is invalid"),
        (b'{"a": 1}{}', "is invalid: Extra data"),
        (b"[1]", "must be a JSON object, got list"),
        (b"null", "must be a JSON object, got NoneType"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "is invalid"),
    ],
)
def test_bad_header_is_named(header: bytes, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        unpack_frame(frame(header))


@pytest.mark.parametrize(
    "place",
    [
        {"dtype": "uint8", "shape": [9], "offset": 0},
        {"dtype": "uint8", "shape": [4], "offset": 5},
        {"dtype": "float64", "shape": [2], "offset": 0},
        {"dtype": "uint8", "shape": [10**9] * 5, "offset": 0},
        {"dtype": "uint8", "shape": [0, 2**70], "offset": 0},
        {"dtype": "uint8", "shape": [0, 10**9, 10**9, 10**9], "offset": 0},
        {"dtype": "uint8", "shape": [1] * 100, "offset": 0},
        {"dtype": "uint8", "shape": [-1], "offset": 0},
        {"dtype": "uint8", "shape": [1.0], "offset": 0},
        {"dtype": "uint8", "shape": [True], "offset": 0},
        {"dtype": "uint8", "shape": 8, "offset": 0},
        {"dtype": "uint8", "shape": [1], "offset": -1},
        {"dtype": "uint8", "shape": [1], "offset": None},
        {"dtype": "object", "shape": [1], "offset": 0},
        {"dtype": ["uint8"], "shape": [1], "offset": 0},
        {"dtype": "complex128", "shape": [], "offset": 0},
        {"dtype": "U4", "shape": [1], "offset": 0},
    ],
)
def test_bad_place_is_refused(place: dict[str, Any]) -> None:
    assert unpack_frame(frame({"x": {"dtype": "uint8", "shape": [8], "offset": 0}}, bytes(8)))["x"].shape == (8,)
    with pytest.raises(ModelError, match="the header of the reply is invalid"):
        unpack_frame(frame({"x": place}, bytes(8)))


@pytest.mark.parametrize(
    "row",
    [
        3,
        None,
        [],
        "steering",
        {},
        {"slot": "steer", "degrees": 1},
        {"slot": ["steering"]},
        {"slot": "steering"},
        {"slot": "steering", "degrees": None},
        {"slot": "steering", "degrees": "left"},
        {"slot": "steering", "degrees": 10**400},
        {"slot": "steering", "degrees": [1]},
        {"slot": "steering", "degrees": 1, "unit": "rad"},
        {"slot": "steering", "sha": "0"},
        {"slot": "boxes2d", "xyxy": [[1, 2, 3]], "kinds": ["car"]},
        {"slot": "boxes2d", "xyxy": [[1, 2, 3, 4]], "kinds": []},
        {"slot": "boxes2d", "xyxy": {"a": 1}, "kinds": 3},
        {"slot": "group", "values": 3},
        {"slot": "group", "values": [{"slot": "nonsense"}]},
    ],
)
def test_bad_value_is_named(row: Any) -> None:
    with pytest.raises(
        ModelError, match=r"^a value (of slot .* (is invalid|has only a hash; send the value with its numbers)|that is a )"
    ):
        values_of([row])


@pytest.mark.parametrize("rows", [3, None, {}, "ab"])
def test_answer_must_be_a_list(rows: Any) -> None:
    with pytest.raises(ModelError, match="an answer must be a list of values, got "):
        values_of(rows)


@pytest.mark.parametrize("thing", [object(), {1, 2}, np.array(["a"]), np.array([1j])])
def test_what_no_frame_can_hold(thing: Any) -> None:
    with pytest.raises(TypeError, match="a message to or from a model cannot contain"):
        pack_frame({"x": thing})


def test_frames_follow_each_other_in_a_pipe() -> None:
    reading, writing = os.pipe()
    for number in (1, 2):
        write_all(writing, pack_frame({"number": number, "x": np.arange(number)}))
    os.write(writing, b"SWRV")
    os.close(writing)
    first, second, torn = (read_frame(reading) for _ in range(3))
    os.close(reading)
    assert first is not None
    assert second is not None
    assert [first["number"], second["number"]] == [1, 2]
    assert second["x"].tolist() == [0, 1]
    assert torn is None


@given(st.binary(max_size=200), st.integers(0, 120), st.integers(0, 255))
def test_any_damage_has_a_sentence(tail: bytes, place: int, byte: int) -> None:
    """Whatever is written, it is read as values, found incomplete, or refused in one line."""
    whole = bytearray(pack_frame({"answers": [[Steering(1), Signal("brake", 0.5)]], "x": np.arange(3)})) + tail
    whole[place] = byte
    refusal = ""
    try:
        if missing_bytes(whole) <= 0:
            for row in unpack_frame(whole).get("answers", []):
                assert all(isinstance(value, Value) for value in values_of(row))
    except ModelError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert len(refusal) <= 300
