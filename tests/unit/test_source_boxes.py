"""The one rule for what a label may say of a box, and masks from outlines."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as reference

from swerve.config import limits
from swerve.core.case import Case, Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes2D, Masks, find
from swerve.sources import labelled_boxes as rules
from swerve.sources.labelled_boxes import (
    COLOURS,
    LEAST_INSIDE,
    Boxed,
    LabelledBox,
    Lights,
    Outlined,
    clip_box,
    object_pixels,
)
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.root import Root
from swerve.testing.contracts import SourceContract
from swerve.transformations import affine

WIDTH, HEIGHT = 40, 30
SIZE = (WIDTH, HEIGHT)
SOAK = os.environ.get("SWERVE_SOAK") == "1"
ODD = ("", "0", "-1", "1e9", "1e400", "NaN", "null", "true", "x", "[]", "{}", '"', ",", "\n", "../", "9" * 400, "\ud7ff")


def draw(path: Path, size: tuple[int, int] = SIZE) -> None:
    """Write a picture of `size`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.arange(size[0] * size[1] * 3, dtype=np.uint32).reshape(size[1], size[0], 3) % 251
    assert cv2.imwrite(str(path), pixels.astype(np.uint8))


def put(path: Path, content: object) -> None:
    """Write a text, or anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def boxes_of(case: Case) -> Boxes2D:
    found = find(case.truth, Boxes2D.slot)
    assert isinstance(found, Boxes2D)
    return found


def masks_of(case: Case) -> Masks:
    found = find(case.truth, Masks.slot)
    assert isinstance(found, Masks)
    return found


def told(source: Source, key: str) -> list[tuple[str, bool, list[float]]]:
    """Kind, care and corners of every box of a case."""
    label = boxes_of(source[key])
    assert label.care is not None
    return list(zip(label.kinds, label.care.tolist(), label.xyxy.tolist(), strict=True))


def why(source: Source, key: str) -> str:
    """The line that says why a case is left out."""
    with pytest.raises(UnreadableCase) as caught:
        source[key]
    assert len(str(caught.value)) <= 300
    return str(caught.value)


def refusal(source: Source) -> str:
    """The line that says why a source cannot be used."""
    with pytest.raises(InputError) as caught:
        source.keys()
    assert not isinstance(caught.value, UnreadableCase)
    return str(caught.value)


def survives(make: Callable[[], Source], labels: Path) -> None:
    """Whatever is done to a file of labels, every case is read or has its line: nothing else is raised (R41, R42)."""
    sound, rng = labels.read_text(), rng_for("mutated", labels.name)
    refused = 0
    for _ in range(5_000 if SOAK else 60):
        labels.write_text(_mutated(sound, rng))
        try:
            source = make()
            for key in source.keys():
                source[key]
        except InputError as error:
            refused += 1
            assert str(error).isprintable()  # noqa: PT017
    assert refused


def _mutated(text: str, rng: np.random.Generator) -> str:
    words = re.findall(r"\w+|\W", text)
    for place in rng.integers(len(words), size=rng.integers(1, 4)):
        words[place] = ODD[rng.integers(len(ODD))]
    return "".join(words)


def box(*xyxy: float, outline: Any = None) -> LabelledBox:
    assert len(xyxy) == 4
    return LabelledBox("labels.json: box 1", xyxy, "car", outline=outline)


# Boxes


def test_box_inside_is_kept() -> None:
    assert clip_box(box(0, 0, WIDTH, HEIGHT), SIZE) == ((0, 0, WIDTH, HEIGHT), True)
    assert clip_box(box(1.5, 2.25, 3, 4), SIZE) == ((1.5, 2.25, 3, 4), True)


@pytest.mark.parametrize(
    ("xyxy", "seen", "care"),
    [
        ((-10, 0, 10, 10), (0, 0, 10, 10), True),
        ((-10.5, 0, 10, 10), (0, 0, 10, 10), False),
        ((30, 20, 50, 30), (30, 20, 40, 30), True),
        ((30, 20, 50, 31), (30, 20, 40, 30), False),
        ((-WIDTH, -HEIGHT, 2 * WIDTH, 2 * HEIGHT), (0, 0, WIDTH, HEIGHT), False),
    ],
)
def test_half_inside_is_demanded(xyxy: Any, seen: Any, care: bool) -> None:
    assert clip_box(box(*xyxy), SIZE) == (seen, care)


@pytest.mark.parametrize(
    ("xyxy", "reason"),
    [
        ((5, 5, 5, 9), "must have a positive width and height, got (5, 5) to (5, 9)"),
        ((5, 5, 9, 5), "must have a positive width and height, got (5, 5) to (9, 5)"),
        ((5, 9, 7, 5), "must have a positive width and height, got (5, 9) to (7, 5)"),
        ((40, 0, 50, 10), "is outside the picture of 40x30: (40, 0) to (50, 10)"),
        ((0, -10, 10, 0), "is outside the picture of 40x30: (0, -10) to (10, 0)"),
        ((math.nan, 0, 10, 10), "has a number that is not finite: (nan, 0) to (10, 10)"),
        ((0, 0, math.inf, 10), "has a number that is not finite: (0, 0) to (inf, 10)"),
    ],
)
def test_bad_box_has_its_line(xyxy: Any, reason: str) -> None:
    with pytest.raises(UnreadableCase) as caught:
        clip_box(box(*xyxy), SIZE)
    assert str(caught.value) == f"labels.json: box 1 {reason}"


def test_huge_box_is_not_demanded() -> None:
    assert clip_box(box(-1e308, -1e308, 1e308, 1e308), SIZE) == ((0, 0, WIDTH, HEIGHT), False)


def test_same_share_as_changes() -> None:
    assert affine.MIN_INSIDE == LEAST_INSIDE


@given(
    left=st.integers(0, 39), top=st.integers(0, 29), wide=st.integers(1, 40), high=st.integers(1, 30),
    right=st.integers(-60, 60), down=st.integers(-60, 60),
)  # fmt: skip
def test_cut_as_a_change_cuts(left: int, top: int, wide: int, high: int, right: int, down: int) -> None:
    corners = np.array([left, top, min(left + wide, WIDTH), min(top + high, HEIGHT)])
    moved = affine.Translate(right, down).map(Boxes2D(corners[None], ("car",), size=SIZE))
    assert isinstance(moved, Boxes2D)
    assert moved.care is not None
    shifted = box(*(corners + np.array([right, down, right, down])).tolist())
    try:
        seen, care = clip_box(shifted, SIZE)
    except UnreadableCase:
        assert not moved.care[0]
    else:
        assert np.allclose(moved.xyxy[0], seen) or (right, down) == (0, 0)
        assert care == moved.care[0]


@given(st.tuples(*[st.floats(-1e6, 1e6)] * 4))
def test_what_is_kept_lies_inside(xyxy: tuple[float, float, float, float]) -> None:
    try:
        (left, top, right, bottom), _ = clip_box(box(*xyxy), SIZE)
    except UnreadableCase:
        return
    assert 0 <= left < right <= WIDTH
    assert 0 <= top < bottom <= HEIGHT


# Masks


@given(hnp.arrays(bool, (HEIGHT, WIDTH)))
def test_run_lengths_give_the_mask(mask: Array) -> None:
    packed = reference.encode(np.asfortranarray(mask.astype(np.uint8)))
    as_text = {"size": [HEIGHT, WIDTH], "counts": packed["counts"].decode()}
    assert np.array_equal(object_pixels(box(0, 0, 1, 1, outline=as_text), SIZE), mask)
    assert np.array_equal(
        object_pixels(box(0, 0, 1, 1, outline={"size": [HEIGHT, WIDTH], "counts": runs(mask)}), SIZE), mask
    )


def runs(mask: Array) -> list[int]:
    """Run lengths counted one pixel at a time."""
    counts, now = [0], False
    for pixel in mask.T.ravel().tolist():
        if pixel != now:
            counts.append(0)
            now = pixel
        counts[-1] += 1
    return counts


def test_polygons_are_filled() -> None:
    both = [[2, 3, 12, 3, 12, 9, 2, 9], [20, 10, 30, 10, 30, 20, 20, 20]]
    wanted = np.zeros((HEIGHT, WIDTH), dtype=bool)
    wanted[3:9, 2:12] = wanted[10:20, 20:30] = True
    assert np.array_equal(object_pixels(box(0, 0, 1, 1, outline=both), SIZE), wanted)


@given(st.lists(st.floats(-HEIGHT, 2 * HEIGHT), min_size=6, max_size=20).filter(lambda ring: not len(ring) % 2))
def test_polygons_as_in_the_reference(ring: list[float]) -> None:
    theirs = reference.merge(reference.frPyObjects([ring], HEIGHT, WIDTH))
    mine = object_pixels(box(0, 0, 1, 1, outline=[ring]), SIZE)
    both = reference.merge([theirs, reference.encode(np.asfortranarray(mine.astype(np.uint8)))], intersect=True)
    assert reference.area(both) == reference.area(theirs) == mine.sum()


ZIGZAG = [0, 0, WIDTH, 0] * 30_000
NO_POLYGON = "has a polygon that is not a list of at least three pairs of numbers"


@pytest.mark.parametrize(
    ("outline", "reason"),
    [
        (None, "has no outline"),
        ([], "has no outline"),
        ("text", "has no outline"),
        ([[1, 2, 3, 4]], NO_POLYGON),
        ([[1, 2, 3, 4, 5, 6, 7]], NO_POLYGON),
        ([5], NO_POLYGON),
        ([[1, 2, 3, 4, 5, "x"]], "labels.json: box 1"),
        ([[0, 0, 100, 0, 0, 10]], "has an outline far outside the picture of 40x30"),
        ([[0, 0, 10, 0, 0, -31]], "has an outline far outside the picture of 40x30"),
        ([ZIGZAG], "has an outline longer than 1,000,000 pixels"),
        ({"size": [WIDTH, HEIGHT], "counts": [1200]}, "has a mask of [height, width] [40, 30], but the picture is 40x30"),
        ({"counts": [1200]}, "has a mask of [height, width] None"),
        ({"size": [HEIGHT, WIDTH]}, "has a mask whose counts are not valid numbers of pixels"),
        ({"size": [HEIGHT, WIDTH], "counts": [1201]}, "has a mask whose counts are not valid numbers of pixels"),
        ({"size": [HEIGHT, WIDTH], "counts": [-1, 1201]}, "has a mask whose counts are not valid numbers of pixels"),
        ({"size": [HEIGHT, WIDTH], "counts": [True, 1199]}, "has a mask whose counts are not valid numbers of pixels"),
        ({"size": [HEIGHT, WIDTH], "counts": [1, 1198]}, "cannot be drawn"),
        ({"size": [HEIGHT, WIDTH], "counts": [1, 1200]}, "cannot be drawn"),
        ({"size": [HEIGHT, WIDTH], "counts": "zzzz"}, "cannot be drawn"),
        ({"size": [HEIGHT, WIDTH], "counts": ""}, "cannot be drawn"),
    ],
)
def test_bad_outline_has_its_line(outline: Any, reason: str) -> None:
    with pytest.raises(UnreadableCase) as caught:
        object_pixels(box(0, 0, 1, 1, outline=outline), SIZE)
    assert str(caught.value).startswith("labels.json: box 1")
    assert reason in str(caught.value)


@given(st.text(max_size=30) | st.lists(st.integers() | st.floats(), max_size=5))
def test_no_run_lengths_break_it(counts: Any) -> None:
    try:
        assert object_pixels(box(0, 0, 1, 1, outline={"size": [HEIGHT, WIDTH], "counts": counts}), SIZE).shape == (
            HEIGHT,
            WIDTH,
        )
    except UnreadableCase as error:
        assert str(error).startswith("labels.json: box 1")  # noqa: PT017


# Sources


@dataclass(frozen=True)
class Shown(Outlined):
    """A source of one picture with the boxes it is given."""

    given: Sequence[LabelledBox] = field(default=())

    def listed(self) -> Iterable[Entry]:
        self.check_kinds({"car", "light"})
        return [Entry("one", {CAMERA: "one.png"})]

    def label_boxes(self, entry: Entry, size: tuple[int, int]) -> Iterable[LabelledBox]:
        assert size == SIZE
        return self.given


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draw(tmp_path / "one.png")
    return tmp_path


CAR, LIGHT = LabelledBox("box 1", (1, 2, 3, 4), "car"), LabelledBox("box 2", (-30, 0, 10, 10), "light")


class TestShown(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, folder: Path) -> None:
        self.folder = folder

    def source(self) -> Source:
        return Shown(self.folder, [CAR, LIGHT])


def test_truth_is_boxes(folder: Path) -> None:
    label = boxes_of(Shown(folder, [CAR, LIGHT])["one"])
    assert label == Boxes2D([[1, 2, 3, 4], [0, 0, 10, 10]], ("car", "light"), size=SIZE, care=np.array([True, False]))  # type: ignore[arg-type]


def test_no_boxes_are_no_fault(folder: Path) -> None:
    case = Shown(folder, masks=True)["one"]
    assert boxes_of(case) == Boxes2D([], (), size=SIZE)  # type: ignore[arg-type]
    assert not masks_of(case).instances.any()
    assert masks_of(case).instances.shape == (HEIGHT, WIDTH)


def test_care_stays_lost(folder: Path) -> None:
    assert told(Shown(folder, [CAR._replace(care=False)]), "one") == [("car", False, [1, 2, 3, 4])]


def test_only_wanted_kinds_are_checked(folder: Path) -> None:
    broken = CAR._replace(xyxy=(9, 9, 3, 3))
    assert told(Shown(folder, [broken, LIGHT], kinds=("light",)), "one") == [("light", False, [0, 0, 10, 10])]
    assert why(Shown(folder, [broken, LIGHT]), "one").startswith("box 1 must have a positive width and height, got")


def test_kinds_are_renamed(folder: Path) -> None:
    case = Shown(folder, [CAR._replace(outline=[[1, 2, 3, 2, 3, 4, 1, 4]])], masks=True, rename={"car": "vehicle"})["one"]
    assert boxes_of(case).kinds == ("vehicle",)
    assert dict(masks_of(case).kinds) == {1: "vehicle"}


@pytest.mark.parametrize("given", [{"kinds": ("cra",)}, {"rename": {"cra": "x"}}])
def test_misspelt_kind_is_refused(folder: Path, given: dict[str, Any]) -> None:
    assert refusal(Shown(folder, **given)) == f"{folder}: unknown kind 'cra'; did you mean 'car'?"


def test_smaller_object_is_on_top(folder: Path) -> None:
    large, small, crowd = (
        CAR._replace(outline=[[x, y, end, y, end, end, x, end]]) for x, y, end in ((0, 0, 20), (5, 5, 10), (8, 8, 11))
    )
    masks = masks_of(Shown(folder, [small, large, crowd._replace(care=False)], masks=True)["one"])
    wanted = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
    wanted[:20, :20] = 2
    wanted[5:10, 5:10] = 1
    assert np.array_equal(masks.instances, wanted)
    assert dict(masks.kinds) == {1: "car", 2: "car", 3: "car"}


def test_masks_come_only_if_asked(folder: Path) -> None:
    assert find(Shown(folder, [CAR])["one"].truth, Masks.slot) is None
    assert "has no outline; set masks = false" in why(Shown(folder, [CAR], masks=True), "one")


def test_states_are_two(folder: Path) -> None:
    with pytest.raises(ValueError, match="'states' must be 'colour' or 'full', got 'hue'"):
        Lights(folder, states="hue")


def test_reader_must_draw(folder: Path) -> None:
    with pytest.raises(NotImplementedError):
        list(Boxed(folder).label_boxes(Entry("one"), SIZE))
    assert set(Lights.colours.values()) <= set(COLOURS)


# Plain parts


def test_files_lead_nowhere_else(folder: Path) -> None:
    assert rules.list_files(Root(folder), ".png", under="") == ["one.png"]
    for under in ("..", "a/../..", "/etc", f"/{folder}"):
        with pytest.raises(InputError, match="outside the data set's folder"):
            rules.list_files(Root(folder), ".png", under=under)


def test_lines_are_numbered_as_seen(folder: Path) -> None:
    (folder / "list.txt").write_bytes("\ufeffone\r\n\r\n two \n".encode())
    assert rules.read_lines(Root(folder), "list.txt") == ["one", "", "two", ""]
    (folder / "bad.txt").write_bytes(b"ok\n\xff")
    with pytest.raises(UnreadableCase, match=r"bad.txt: not UTF-8 text at byte 3"):
        rules.read_lines(Root(folder), "bad.txt")


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROWS", 3)
    assert rules.as_rows([1, 2, 3], "labels.json") == [1, 2, 3]
    with pytest.raises(UnreadableCase, match=r"labels.json: 4 labels, at most 3 are read \(swerve list limits\)"):
        rules.as_rows([1, 2, 3, 4], "labels.json")


@pytest.mark.parametrize(
    ("check", "given", "reason"),
    [
        (rules.as_rows, None, "expected a list, got nothing"),
        (rules.as_rows, {}, "expected a list, got dict"),
        (rules.as_table, [], "expected a mapping of names to values, got list"),
        (rules.as_text, "", "expected a string that is not empty, got ''"),
        (rules.as_text, 7, "expected a string that is not empty, got 7"),
    ],
)
def test_wrong_type_has_its_line(check: Any, given: Any, reason: str) -> None:
    with pytest.raises(UnreadableCase) as caught:
        check(given, "labels.json: item 3")
    assert str(caught.value) == f"labels.json: item 3: {reason}"


def test_what_is_needed_stops_all(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no.json: no such file") as caught, rules.fatal(Root(folder)):
        Root(folder).open("no.json")
    assert str(caught.value).startswith(f"{folder}/no.json: ")
    assert not isinstance(caught.value, UnreadableCase)
