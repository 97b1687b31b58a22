"""Marks: whatever is written into a value shows, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.relation import Verdict
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, Group, Image, PointCloud, Region, Signal, Steering
from swerve.execution import answers as answering
from swerve.execution.answers import PLACES, WORD, answer_all, arrays_of, checksums_of, share_memory
from swerve.testing import sample_case

SIZES = ((1, 1), (3, 5), (12, 24), (40, 60), (100, 331), (180, 320))


def picture(height: int, width: int) -> Array:
    return rng_for("marks", height, width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def case(pixels: Array) -> Case:
    return Case("a", {"camera": Image(pixels)})


@given(size=st.sampled_from(SIZES), place=st.integers(0), by=st.integers(1, 255))
def test_any_one_number_shows(size: tuple[int, int], place: int, by: int) -> None:
    pixels = picture(*size)
    shown = case(pixels)
    before = checksums_of([shown])
    assert checksums_of([shown]) == before
    pixels.reshape(-1)[place % pixels.size] ^= np.uint8(by)
    assert checksums_of([shown]) != before


ORDERS: dict[str, Callable[[Array], Array]] = {
    "upside down": lambda pixels: pixels[::-1],
    "mirrored": lambda pixels: pixels[:, ::-1],
    "other channels": lambda pixels: pixels[..., ::-1],
    "shifted": lambda pixels: np.roll(pixels, 8, axis=1),
    "rows swapped": lambda pixels: pixels[np.r_[1, 0, 2 : len(pixels)]],
    "negative": lambda pixels: 255 - pixels,
    "normalised": lambda pixels: pixels // 2 + 1,
    "black": np.zeros_like,
}


@pytest.mark.parametrize("size", SIZES[2:])
@pytest.mark.parametrize("how", ORDERS)
def test_other_orders_of_the_same_numbers_show(how: str, size: tuple[int, int]) -> None:
    pixels = picture(*size)
    shown = case(pixels)
    before = checksums_of([shown])
    pixels[:] = ORDERS[how](pixels).copy()
    assert checksums_of([shown]) != before


@pytest.mark.parametrize("length", [0, 1, 7, 8, PLACES * WORD.itemsize - 1, PLACES * WORD.itemsize, 3 * PLACES * 8 + 5])
def test_last_number_of_every_length_shows(length: int) -> None:
    points = np.zeros((length, 4), np.float32)
    shown = Case("a", {"lidar": PointCloud(points)})
    before = checksums_of([shown])
    points[-1:, 3] = -0.0  # the same number, and another one in memory
    assert (checksums_of([shown]) != before) == bool(length)


def test_values_inside_of_values_show() -> None:
    frame, ring, matrix = picture(4, 4), np.zeros((3, 2)), np.eye(3)
    group = Group((Image(picture(3, 3)), Group((Image(frame),))))
    inputs = {"window": group, "region": Region((ring,)), "p": Calibration({"camera": matrix}), "v": Signal("speed", 3.0)}
    shown = Case("a", inputs)
    assert len(list(arrays_of(shown))) == 4
    for array in (frame, ring, matrix):
        before = checksums_of([shown])
        array.reshape(-1)[0] += 1
        assert checksums_of([shown]) != before


def test_turned_arrays_are_marked_too() -> None:
    pixels = picture(20, 30)
    shown = case(pixels[::-1, ::2])
    before = checksums_of([shown])
    pixels[:, 1::2] = 0  # the columns that are not shown
    assert checksums_of([shown]) == before
    pixels[0, 0, 0] ^= 1
    assert checksums_of([shown]) != before


def test_every_case_has_its_own_mark() -> None:
    frames = [picture(4, width) for width in (4, 5, 6)]
    images = [Image(frame) for frame in frames]
    windows = [Case(f"{start}", {"window": Group(tuple(images[start : start + 2]))}) for start in range(2)]
    before = checksums_of(windows)
    frames[2][0] = 0
    assert [one == other for one, other in zip(before, checksums_of(windows), strict=True)] == [True, False]
    frames[1][0] = 0  # which both hold
    assert not set(before) & set(checksums_of(windows))


def test_cases_that_share_memory_are_told() -> None:
    pixels = picture(10, 10)
    assert share_memory(case(pixels), case(pixels[:, ::-1]))
    assert not share_memory(case(pixels), case(pixels.copy()))
    whole = sample_case()
    assert share_memory(whole, Case("b", {"camera": Image(picture(2, 2)), "lidar": whole.inputs["lidar"]}))


class Reusing:
    """A system that writes every answer into the same memory, as engines with fixed output buffers do."""

    def __init__(self) -> None:
        self.flat, self.solid = np.ones((1, 4)), np.ones((1, 7))
        self.wide, self.scores = np.ones((2, 4)), np.ones(2)

    def __call__(self, cases: Sequence[Case]) -> list[Any]:
        self.flat[:, 2:] += 1
        self.solid[:, :3] += 1
        self.wide[:, 2:] += 1
        self.scores *= 0.5
        flat = Boxes2D(self.flat, ("car",))
        return [(flat, Boxes3D(self.solid, ("car",)), Group((Boxes2D(self.wide, ("car", "van"), self.scores),)))]

    def fingerprint(self) -> str:
        return "reusing"


def numbers_of(answer: Any) -> list[Array]:
    flat, solid, group = answer
    return [flat.xyxy, solid.xyzlwhy, group.values[0].xyxy, group.values[0].scores]


def test_answer_does_not_change_with_the_next_one() -> None:
    system, case = Reusing(), sample_case()
    first = numbers_of(answer_all(system, [case])[0])
    kept = [array.copy() for array in first]
    second = numbers_of(answer_all(system, [case])[0])
    assert all(map(np.array_equal, first, kept))
    assert not any(map(np.array_equal, first, second))


@pytest.mark.parametrize("said", [(Boxes2D(np.tile([[1.0, 1, 2, 2]], (9, 1)), ("car",) * 9),), (Signal("x" * 300, 1),)])
def test_answer_that_no_line_holds_is_an_error(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal line that is longer than the limit could not be read again."""
    monkeypatch.setattr(answering, "LARGEST_ANSWER", 600)

    class Talkative(Reusing):
        def __call__(self, cases: Sequence[Case]) -> list[Any]:
            return [said for _ in cases]

    (given,) = answer_all(Talkative(), [sample_case()])
    assert isinstance(given, Verdict)
    assert "too large for the journal" in given.why
    said = (Steering(1.0),)
    assert answer_all(Talkative(), [sample_case()]) == [said]
