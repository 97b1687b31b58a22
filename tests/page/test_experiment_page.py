"""The page of an experiment as a browser shows it: offline, nothing overlaps, nothing is cut, readable in both schemes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from swerve.report.charts import Bar, Spot, bars, box_plots, stacked
from swerve.report.experiment_page import ChartPanel, Page, PicturePanel, Section, TablePanel, write_page
from swerve.report.plane import lines, points

if TYPE_CHECKING:
    from tests.page.conftest import Opener

pytestmark = pytest.mark.page

NAMES = ("translation", "rotation", "shear", "scale", "brightness", "contrast", "blur")
HOSTILE = "</title></style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
# Texts of one drawing that lie over each other, by more than the pixel that rounding takes.
OVERLAPS = """() => [...document.querySelectorAll('.plot > svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(node => [node.textContent, node.getBoundingClientRect()])
  return texts.flatMap(([one, a], place) => texts.slice(place + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3
  ).map(([other]) => [one, other]))
})"""
CUT = """() => [...document.querySelectorAll('.plot > svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect()
  return [...svg.querySelectorAll('text')].filter(node => {
    const box = node.getBoundingClientRect()
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1
  }).map(node => node.textContent)
})"""
# The contrast of each text with the card behind it, as WCAG reckons it.
CONTRAST = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(c => c / 255)
      .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  return [...document.querySelectorAll('.plot text:not(.on)')].map(node => {
    const [a, b] = [getComputedStyle(node).fill, getComputedStyle(node.closest('.chart')).backgroundColor].map(light)
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
  })
}"""


def charts() -> list[ChartPanel]:
    """Every kind, with names and numbers that are long, many, negative, tiny and huge."""
    rng = np.random.default_rng(5)
    pairs = [f"{one} – {other}" for one, other in itertools.combinations(NAMES, 2)]
    wide = {f"a name that is much too long for a row {place}": rng.normal(0, 1e6, 50).tolist() for place in range(3)}
    rates = {
        f"n = {n:,}": {"": Bar.rate(hits, 1000, printed=paper)} for n, hits, paper in ((10, 31, 0.9), (1000, 301, 0.335))
    }
    changes = {name: {model: Bar(float(rng.normal(0, 5)), -6.0, 6.0) for model in "ABC"} for name in NAMES}
    counts = {f"n = {n}": {"lost": n, "equal": 500, "gained": 90} for n in (1, 120, 4000)}
    curves = {f"model {place}": [Spot(n, n**place, 0, n**place * 1.2) for n in (10, 100, 1000)] for place in range(1, 4)}
    steps = {"ours": [Spot(place, place / 9) for place in range(7)], "paper": [Spot(place, place / 8) for place in range(7)]}
    drawn = (
        box_plots({name: rng.beta(2, 5, 99).tolist() for name in pairs}, axis="Jaccard distance"),
        box_plots(wide, axis="neurons"),
        bars(rates, axis="frames that lose an obstacle", percent=True),
        bars(changes, axis="change"),
        stacked(counts, axis="share of frames"),
        lines(curves, x="points added", y="lost", log_x=True),
        lines(
            steps, x="added", y="covered", percent=True, names=[f"{name}, cumulated" for name in NAMES], dashed=("paper",)
        ),
        lines({"a": [Spot(0.00001, 1e-9), Spot(0.00002, -3e-9)]}, x="tiny", y="tinier"),
        points(rng.normal(0, 1e5, 4000), rng.normal(0, 1e8, 4000), x="x", y="y", kinds=["left", "right"] * 2000),
        points([], []),
    )
    return [ChartPanel(f"chart {place}", chart) for place, chart in enumerate(drawn)]


def made(folder: Path) -> Path:
    """A page with all there is."""
    pictures = tuple((f"picture {shade}", np.full((90, 160, 3), shade, np.uint8)) for shade in (10, 100, 200))
    rows = tuple((f"row {place}", place, place / 7, None if place % 3 else math.pi * place) for place in range(60))
    parts = (
        TablePanel("Long", ("name", "count", "share", "paper's"), rows, printed=("paper's",), csv="tables/long.csv"),
        *charts(),
        PicturePanel("Pictures", pictures, "Three.", across=3),
        TablePanel("Wide", tuple(f"column {place}" for place in range(30)), ((*range(30),),)),
    )
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "long.csv").write_text("name\n")
    return write_page(Page("all", ("A lead.",), (Section("One", (), parts), Section("Two")), {"seed": 7}), folder)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("experiment") / "run")


def test_page_works_offline(page: Path, visit: Opener) -> None:
    seen = visit(page)
    for index in range(3):
        seen.page.locator("img").nth(index).scroll_into_view_if_needed()
    seen.page.wait_for_function("() => [...document.images].every(image => image.complete && image.naturalWidth === 160)")
    assert len(seen.texts("img")) == 3
    assert seen.console == []
    assert seen.refused == []
    assert seen.blocked == []
    assert all(address.startswith(("file:", "data:,")) for address in seen.requests)
    assert (page.parent / seen.page.get_attribute(".csv", "href")).is_file()


@pytest.mark.parametrize("width", [1360, 1000, 420])
def test_no_texts_overlap_or_are_cut(page: Path, visit: Opener, width: int) -> None:
    seen = visit(page, width=width)
    assert len(seen.texts(".plot > svg")) == 9
    assert seen.page.evaluate(OVERLAPS) == []
    assert seen.page.evaluate(CUT) == []


def test_overlaps_would_be_seen(page: Path, visit: Opener) -> None:
    seen = visit(page)
    seen.page.evaluate("document.querySelector('.plot text.y').setAttribute('y', 47)")
    assert len(seen.page.evaluate(OVERLAPS)) >= 1
    seen.page.evaluate("document.querySelector('.plot text.x').setAttribute('x', 640)")
    assert len(seen.page.evaluate(CUT)) >= 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_are_readable(page: Path, visit: Opener, scheme: Any) -> None:
    contrasts = visit(page, color_scheme=scheme).page.evaluate(CONTRAST)
    assert len(contrasts) > 100
    assert min(contrasts) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_series_have_colours_of_their_own(page: Path, visit: Opener, scheme: Any) -> None:
    tones = "nodes => nodes.map(node => getComputedStyle(node).stroke)"
    found = visit(page, color_scheme=scheme).page.eval_on_selector_all(".plot > svg .line", tones)
    assert len({*found[:3]}) == 3
    assert "none" not in found


@pytest.mark.parametrize("width", [1360, 420])
def test_short_cells_stay_on_one_line_and_their_table_scrolls(tmp_path: Path, visit: Opener, width: int) -> None:
    words = ("lidar, region first", "none (A/A)", "within 5 m", "x y " * 6)
    told = "a reason of many words that is much too long to stand on a single line of any table"
    row = (*words, told, *(f"within {place} m" for place in range(16)))
    sheet = TablePanel("Wide", tuple(f"column {place}" for place in range(len(row))), (row,))
    seen = visit(write_page(Page("p", (), (Section("One", (), (sheet,)),)), tmp_path), width=width)
    lines = "nodes => nodes.map(node => [node.textContent, node.getClientRects().length])"
    found = seen.page.eval_on_selector_all(".sheet tbody bdi", lines)
    assert [count for text, count in found if text != told] == [1] * (len(row) - 1)
    assert dict(found)[told] > 1
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    frame = seen.page.locator(".sheet .scroll")
    assert frame.evaluate("node => node.scrollWidth > node.clientWidth")


@pytest.mark.parametrize("width", [1360, 420])
def test_page_is_no_wider_than_the_window(page: Path, visit: Opener, width: int) -> None:
    assert visit(page, width=width).page.evaluate("document.documentElement.scrollWidth") <= width


def test_head_of_a_long_table_stays(page: Path, visit: Opener) -> None:
    seen = visit(page)
    frame = seen.page.locator(".long")
    frame.evaluate("node => node.scrollTop = 900")
    assert frame.evaluate("node => node.scrollTop") == 900
    top = frame.evaluate("node => node.getBoundingClientRect().top")
    assert seen.page.locator(".long thead th").first.bounding_box()["y"] == pytest.approx(top, abs=2)


def test_nav_leads_to_sections(page: Path, visit: Opener) -> None:
    seen = visit(page)
    seen.follow("nav li:nth-child(2) a")
    assert seen.page.url.endswith("#section-2")
    assert seen.page.is_visible("#section-2 h2")


def test_hostile_names_are_text(tmp_path: Path, visit: Opener) -> None:
    sheet = TablePanel(HOSTILE, (HOSTILE,), ((HOSTILE,),), HOSTILE)
    chart = ChartPanel(HOSTILE, bars({HOSTILE: {HOSTILE: Bar(1.0, tooltip=HOSTILE), "b": Bar(2.0)}}, axis=HOSTILE), HOSTILE)
    pictures = PicturePanel(HOSTILE, ((HOSTILE, np.zeros((4, 4, 3), np.uint8)),))
    section = Section(HOSTILE, (HOSTILE,), (sheet, chart, pictures), HOSTILE)
    seen = visit(write_page(Page(HOSTILE, (HOSTILE,), (section, section), {HOSTILE: HOSTILE}), tmp_path))
    assert seen.dialogs == []
    assert seen.refused == []
    assert seen.console == []
    assert seen.texts("h1 bdi") == [HOSTILE]
    assert len(seen.texts("script")) == 0
