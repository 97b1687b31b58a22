"""Charts read back: numbers are recovered from the drawing by its own ticks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from swerve.analysis.statistics import wilson
from swerve.report.canvas import WIDTH
from swerve.report.charts import Bar, Spot, bars, box_plots, stacked
from swerve.report.plane import MOST_POINTS, lines, points

BAD = (math.nan, math.inf, -math.inf, 1e200)
HOSTILE = '<script>alert(1)</script>" onload="x" \x07 & </svg>'
Element = ElementTree.Element


def read(chart: Markup) -> Element:
    """The chart as XML: it is well formed and holds no number that is none."""
    assert not re.search(r"\b(nan|inf)\b", chart, re.IGNORECASE)
    return ElementTree.fromstring(chart)


def drawing(chart: Markup) -> Element:
    found = read(chart).find("svg")
    assert found is not None
    return found


def kind(item: Element) -> set[str]:
    return set(item.get("class", "").split())


def of_kind(chart: Markup, *kinds: str) -> list[Element]:
    return [item for item in drawing(chart).iter() if {*kinds} <= kind(item)]


def words(chart: Markup, name: str = "aside") -> list[str]:
    return ["".join(item.itertext()) for item in read(chart).iter() if name in kind(item)]


def keys(chart: Markup) -> list[str]:
    return words(chart, "key")


def titles(chart: Markup) -> list[str]:
    return [item.text or "" for item in drawing(chart).iter("title")]


def number(told: str) -> float:
    return float(told.rstrip("%").replace(",", "")) / (100 if told.endswith("%") else 1)


def axis(chart: Markup, name: str, at: str, *, log: bool = False) -> Callable[[float], float]:
    """Where the drawing's own ticks say that a place is."""
    ticks = [item for item in of_kind(chart, name) if not kind(item) & {"axis", "name", "on"}]
    known = [(float(item.get(at, "")), number(item.text or "")) for item in ticks if (item.text or "").strip("–")]
    (first, low), (last, high) = known[0], known[-1]
    if log:
        low, high = math.log10(low), math.log10(high)

    def value(place: float) -> float:
        found = low + (high - low) * (place - first) / (last - first)
        return 10**found if log else found

    return value


def across(chart: Markup, *, log: bool = False) -> Callable[[float], float]:
    return axis(chart, "x", "x", log=log)


def corners(item: Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", item.get("d", ""))]


def up(chart: Markup) -> Callable[[float], float]:
    """As `axis`, for text that stands 4 below the place it names."""
    value = axis(chart, "y", "y")
    return lambda place: value(place + 4)


# Box plots


def test_boxes_lie_where_their_numbers_say() -> None:
    chart = box_plots({"one": [0.1, 0.2, 0.35, 0.5, 0.8]}, axis="distance")
    value = across(chart)
    (box,) = of_kind(chart, "box")
    (median,) = of_kind(chart, "median")
    start, width = float(box.get("x", "")), float(box.get("width", ""))
    assert value(start) == pytest.approx(0.2, abs=0.002)
    assert value(start + width) == pytest.approx(0.5, abs=0.002)
    assert value(corners(median)[0][0]) == pytest.approx(0.35, abs=0.002)
    (whisker,) = of_kind(chart, "whisker")
    assert [value(x) for x, _ in corners(whisker)[2:]] == pytest.approx([0.1, 0.8], abs=0.002)
    assert titles(chart) == ["one: median 0.35, quartiles 0.2 to 0.5, whiskers 0.1 to 0.8, n 5"]


def test_boxes_say_what_they_leave_out() -> None:
    chart = box_plots({"a": [1, 2, 3, 4, 90, math.nan], "b": [], "c": [1, 2]})
    assert words(chart) == [
        "n = 2 to 5 per row; medians at the right; whiskers within 1.5 interquartile ranges; 1 outlier not drawn.",
        "1 of 8 numbers left out: not finite.",
        "1 of 3 box plots left out: not finite.",
    ]
    assert "no numbers" in "".join(drawing(chart).itertext())


def test_box_with_a_bad_number_is_left_out() -> None:
    chart = box_plots({"a": [1e200, 1e200, 1e200], "b": [0, 1.5, 3]})
    assert len(of_kind(chart, "box")) == 1
    assert words(chart)[-1] == "1 of 2 box plots left out: not finite."


def test_printed_medians_are_marked() -> None:
    chart = box_plots({"a": [1, 2, 3], "b": []}, printed={"a": 8.0, "b": 9.5})
    places = [corners(item)[0][0] for item in of_kind(chart, "printed")]
    assert [across(chart)(place) for place in places] == pytest.approx([8.0, 9.5], abs=0.02)
    assert keys(chart) == ["printed in the paper"]
    assert "median in the paper 8" in titles(chart)[0]
    assert words(box_plots({"a": [1]}, printed={"a": math.nan}))[-1] == ("1 of 1 printed numbers left out: not finite.")
    with pytest.raises(ValueError, match="'c', which is not a box plot"):
        box_plots({"a": [1, 2, 3]}, printed={"c": 8.0})


# Bars


def test_bars_are_as_long_as_their_numbers() -> None:
    chart = bars({"n = 10": {"": Bar.rate(27, 1000)}, "n = 100": {"": Bar.rate(335, 1000)}}, percent=True)
    value = across(chart)
    ends = [float(item.get("x", "")) + float(item.get("width", "")) for item in of_kind(chart, "bar")]
    assert [value(end) for end in ends] == pytest.approx([0.027, 0.335], abs=0.001)
    assert {value(float(item.get("x", ""))) for item in of_kind(chart, "bar")} == {0}
    assert [item.text for item in of_kind(chart, "n")] == ["2.7%", "33.5%"]
    assert keys(chart) == []


def test_intervals_are_wilsons() -> None:
    chart = bars({"n": {"": Bar.rate(121, 1000, printed=0.2)}}, percent=True)
    value = across(chart)
    (whisker,) = of_kind(chart, "whisker")
    reach = re.match(r"M([\d.]+) [\d.]+H([\d.]+)", whisker.get("d", ""))
    assert reach is not None
    assert [value(float(end)) for end in reach.groups()] == pytest.approx(wilson(121, 1000), abs=0.001)
    (paper,) = of_kind(chart, "printed")
    assert value(corners(paper)[0][0]) == pytest.approx(0.2, abs=0.001)
    assert titles(chart) == ["n: 12.1% (10.2% to 14.3%), 121 of 1,000, in the paper 20.0%"]


def test_negative_bars_end_at_zero() -> None:
    chart = bars({"a": {"x": Bar(-3.0), "y": Bar(2.0)}})
    value = across(chart)
    less, more = of_kind(chart, "bar")
    assert value(float(less.get("x", ""))) == pytest.approx(-3, abs=0.02)
    assert value(float(less.get("x", "")) + float(less.get("width", ""))) == pytest.approx(0, abs=0.02)
    assert value(float(more.get("x", ""))) == pytest.approx(0, abs=0.02)
    assert keys(chart) == ["x", "y"]


def test_series_keep_their_colour() -> None:
    chart = bars({"a": {"x": Bar(1), "y": Bar(2)}, "b": {"y": Bar(3)}})
    assert [sorted(kind(item) - {"bar", "thin"}) for item in of_kind(chart, "bar")] == [["tone0"], ["tone1"], ["tone1"]]


def test_bar_without_trials_is_a_dash() -> None:
    chart = bars({"a": {"": Bar.rate(0, 0)}, "b": {"": Bar.rate(1, 2)}}, percent=True)
    assert [item.text for item in of_kind(chart, "n")] == ["–", "50.0%"]
    assert titles(chart)[0] == "a: no number, nothing judged"
    assert words(chart) == []


def test_bars_say_what_they_leave_out() -> None:
    chart = bars({"a": {"x": Bar(math.nan, 0, 1), "y": Bar(1, math.inf, 2), "z": Bar(1, printed=math.nan)}})
    assert words(chart) == ["3 of 8 numbers left out: not finite."]
    assert of_kind(chart, "whisker") == []
    assert of_kind(chart, "printed") == []


# Shares


def test_shares_fill_the_row() -> None:
    chart = stacked({"n = 10": {"lost": 27, "equal": 951, "gained": 22}, "half": {"lost": 1, "equal": 1}})
    value = across(chart)
    rows = [item for item in of_kind(chart, "bar")]
    starts = [value(float(item.get("x", ""))) for item in rows]
    assert starts == pytest.approx([0, 0.027, 0.978, 0, 0.5], abs=0.002)
    widths = [float(item.get("width", "")) for item in rows]
    assert sum(widths[:3]) == pytest.approx(sum(widths[3:]), abs=0.3)
    assert value(float(rows[2].get("x", "")) + widths[2]) == pytest.approx(1, abs=0.001)
    assert titles(chart)[0] == "n = 10: lost 27 of 1,000, 2.7%"
    assert keys(chart) == ["lost", "equal", "gained"]
    assert [item.text for item in of_kind(chart, "on")] == ["95.1%", "50.0%", "50.0%"]


def test_known_parts_have_known_colours() -> None:
    chart = stacked({"a": {"lost": 1, "equal": 1, "gained": 1, "other": 1}})
    tones = [(kind(item) - {"bar"}).pop() for item in of_kind(chart, "bar")]
    assert tones == ["violated", "held", "errors", "tone3"]


def test_shares_say_what_they_leave_out() -> None:
    chart = stacked({"a": {"x": math.nan, "y": 3, "z": -1}, "b": {"x": 0, "y": 0}})
    assert words(chart) == ["2 of 5 numbers left out: not finite, or below zero."]
    assert "nothing counted" in "".join(drawing(chart).itertext())


# Lines


def test_line_passes_through_its_spots() -> None:
    given_spots = [Spot(3, 0.4), Spot(1, 0.1), Spot(2, 0.75)]
    chart = lines({"a": given_spots}, x="λ", y="rate", percent=True)
    (line,) = of_kind(chart, "line")
    found = [(across(chart)(x), up(chart)(y)) for x, y in corners(line)]
    assert found == [pytest.approx(spot, abs=0.005) for spot in [(1, 0.1), (2, 0.75), (3, 0.4)]]
    assert titles(chart) == ["a: 10.0% at 1", "a: 75.0% at 2", "a: 40.0% at 3"]
    assert [item.text for item in of_kind(chart, "axis")] == ["rate", "λ"]


def test_log_axis_spaces_powers_alike() -> None:
    chart = lines({"a": [Spot(n, n) for n in (10, 100, 1000)]}, log_x=True)
    (line,) = of_kind(chart, "line")
    first, second, third = (x for x, _ in corners(line))
    assert second - first == pytest.approx(third - second, abs=0.21)
    assert [across(chart, log=True)(x) for x in (first, second, third)] == pytest.approx([10, 100, 1000], rel=0.01)


def test_log_axis_leaves_zero_out() -> None:
    chart = lines({"a": [Spot(0, 1), Spot(-1, 1), Spot(10, 2), Spot(100, 3)]}, log_x=True)
    assert words(chart)[-1] == "2 of 8 numbers left out: not finite, or below the logarithmic axis."


def test_line_breaks_where_a_number_is_missing() -> None:
    chart = lines({"a": [Spot(1, 1), Spot(2, 2), Spot(3, math.nan), Spot(4, 4)]})
    assert [len(corners(item)) for item in of_kind(chart, "line")] == [2, 1]
    assert len(of_kind(chart, "mark")) == 3
    assert words(chart) == ["1 of 8 numbers left out: not finite."]


def test_band_encloses_its_line() -> None:
    chart = lines({"a": [Spot(1, 2, 1, 3), Spot(2, 4, 3, 6)]})
    (band,) = of_kind(chart, "band")
    assert [up(chart)(y) for _, y in corners(band)] == pytest.approx([3, 6, 3, 1], abs=0.05)
    assert titles(chart)[0] == "a: 2 (1 to 3) at 1"
    assert not of_kind(lines({"a": [Spot(1, 2, 1, math.nan), Spot(2, 4, 3, 6)]}), "band")


def test_series_differ_by_mark_and_dash() -> None:
    chart = lines({"ours": [Spot(1, 1)], "paper": [Spot(1, 2)]}, dashed=("paper",))
    ours, paper = of_kind(chart, "mark")
    assert ours.get("d", "").partition("m")[2] != paper.get("d", "").partition("m")[2]
    assert [("dashed" in kind(item)) for item in of_kind(chart, "line")] == [False, True]
    assert keys(chart) == ["ours", "paper"]


def test_names_stand_below_their_spots() -> None:
    chart = lines({"a": [Spot(0, 1), Spot(1, 2), Spot(2, 3)]}, names=("T1", "T1 and T2, in that order", "T3"))
    (line,) = of_kind(chart, "line")
    named = [item for item in of_kind(chart, "x") if "axis" not in kind(item)]
    assert [item.text for item in named] == ["T1", "T1 and T2, in that order", "T3"]
    assert [float(item.get("x", "")) for item in named] == [x for x, _ in corners(line)]
    assert named[0].get("y") == named[2].get("y") != named[1].get("y")
    with pytest.raises(ValueError, match="a chart with 2 categories needs x values from 0 to 1, got 0 to 2"):
        lines({"a": [Spot(0, 1), Spot(2, 2)]}, names=("T1", "T2"))


# Points


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=2, max_size=20))
def test_points_lie_where_their_numbers_say(pairs: list[tuple[float, float]]) -> None:
    chart = points([x for x, _ in pairs], [y for _, y in pairs])
    (dots,) = of_kind(chart, "dots")
    found = corners(dots)
    for axis_of, place in ((across, 0), (up, 1)):
        value = axis_of(chart)
        pixel = abs(value(1) - value(0))
        for given_pair, spot in zip(pairs, found, strict=True):
            assert abs(value(spot[place]) - given_pair[place]) <= 1.01 * pixel


def test_many_points_are_thinned_evenly() -> None:
    count = 2 * MOST_POINTS + 1
    chart = points(range(count), [0.5] * count, x="x", y="y")
    (dots,) = of_kind(chart, "dots")
    found = corners(dots)
    assert len(found) == MOST_POINTS
    assert [across(chart)(found[place][0]) for place in (0, -1)] == pytest.approx([0, count - 1], abs=12)
    assert words(chart) == [f"Showing 3,000 of {count:,} points, evenly chosen."]
    assert len(chart) < 100_000


def test_kinds_have_colours_and_counts() -> None:
    chart = points([1, 2, 3, math.nan], [1, 2, 3, 4], kinds=["left", "right", "left", "right"])
    assert keys(chart) == ["left (2)", "right (1)"]
    assert [len(corners(item)) for item in of_kind(chart, "dots")] == [2, 1]
    assert words(chart) == ["1 of 4 points left out: not finite."]


def test_points_must_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="equally many x, y and kinds, got 1, 2 and 0"):
        points([1], [1, 2])
    with pytest.raises(ValueError, match="got 2, 2 and 1"):
        points([1, 2], [1, 2], kinds=["a"])


def test_arrays_are_welcome() -> None:
    numbers = np.array([1.5, 2.5, np.nan])
    assert points(numbers, numbers) == points(numbers.tolist(), numbers.tolist())


@pytest.mark.parametrize(
    ("numbers", "cut"),
    [
        ([0.5, 0.6], True),
        ([0.2, 0.6], False),
        ([0.3, 0.6], False),
        ([0.0, 0.0], False),
        ([-0.6, -0.5], True),
        ([-1, 1], False),
    ],
)
def test_axis_that_leaves_out_zero_says_so(numbers: list[float], cut: bool) -> None:
    for chart in (lines({"a": [Spot(place, number) for place, number in enumerate(numbers)]}), box_plots({"a": numbers})):
        assert ("The axis does not start at 0." in words(chart)) == cut


# All of them


def every(names: Sequence[str], numbers: Sequence[float]) -> Iterator[Markup]:
    """Each chart of these names and numbers."""
    yield box_plots({name: [number] * 5 for name, number in zip(names, numbers, strict=True)}, axis=names[0])
    yield bars({name: {name: Bar(number, number, number, number)} for name, number in zip(names, numbers, strict=True)})
    yield stacked({name: {other: number for other in names} for name, number in zip(names, numbers, strict=True)})
    spots = [Spot(number, number, number, number) for number in numbers]
    for log in (False, True):
        yield lines({name: spots for name in names}, x=names[0], y=names[0], log_x=log)
    yield points(numbers, numbers, x=names[0], y=names[0], kinds=names)


@pytest.mark.parametrize("numbers", [[], [math.nan], [math.nan, math.inf]])
def test_nothing_gives_a_sentence(numbers: list[float]) -> None:
    names = [f"name {place}" for place in range(len(numbers))] or ["name"]
    for chart in every(names, numbers or [math.nan]):
        assert "<svg" not in chart
        assert ElementTree.fromstring(chart).text.startswith("Nothing to draw: the ")  # type: ignore[union-attr]
    for chart in (box_plots({}), bars({}), bars({"a": {}}), stacked({}), lines({}), lines({"a": []}), points([], [])):
        assert chart.startswith('<p class="aside">Nothing to draw')


def test_every_text_is_escaped() -> None:
    names = [HOSTILE, f"{HOSTILE} again"]
    plain = list(every(["a" * len(name) for name in names], [1.0, 2.0]))
    for chart, same in zip(every(names, [1.0, 2.0]), plain, strict=True):
        assert "<script" not in chart
        assert "\x07" not in chart
        assert [item.tag for item in read(chart).iter()] == [item.tag for item in read(same).iter()]
        allowed = {name for item in read(same).iter() for name in item.attrib}
        assert {name for item in read(chart).iter() for name in item.attrib} == allowed
        assert "alert(1)" in "".join(read(chart).itertext()) + str(drawing(chart).attrib)


def test_charts_say_what_they_are() -> None:
    for chart in every(["a", "b"], [1.0, 2.0]):
        assert drawing(chart).get("role") == "img"
        assert drawing(chart).get("aria-label")


@settings(max_examples=60)
@given(st.lists(st.floats() | st.sampled_from(BAD), min_size=1, max_size=5))
def test_any_numbers_stay_on_the_canvas(numbers: list[float]) -> None:
    names = [f"name {place}" for place in range(len(numbers))]
    for chart in every(names, numbers):
        if "<svg" not in chart:
            continue
        height = float(drawing(chart).get("viewBox", "").split()[3])
        for item in drawing(chart).iter():
            for name, limit in (("x", WIDTH), ("y", height), ("width", WIDTH), ("height", height)):
                assert 0 <= float(item.get(name, 0)) <= limit
            assert all(-1 <= x <= WIDTH and -1 <= y <= height for x, y in corners(item))


@settings(max_examples=30)
@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_same_numbers_same_text(numbers: list[float]) -> None:
    names = [str(place) for place in range(len(numbers))]
    assert list(every(names, numbers)) == list(every(names, numbers))
