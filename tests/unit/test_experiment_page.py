"""The page of an experiment as it is written and printed."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from rich.console import Console

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.report.cells import Cell, format_column, is_numeric
from swerve.report.charts import Bar, bars
from swerve.report.experiment_page import ChartPanel, Page, PicturePanel, Section, TablePanel, print_page, write_page
from swerve.store.files import png_bytes
from tests.gold.test_report import Element
from tests.gold.test_report import Page as Parsed

RATES = TablePanel(
    "Rates by n",
    ("n", "lost", "rate", "in the paper"),
    ((10, 31, 0.031, 0.027), (1000, 301, 0.301, 0.335), ("all", None, math.nan, None)),
    "Frames that lose an obstacle.",
    printed=("in the paper",),
    csv="tables/rates by n.csv",
    formats={"rate": ".1%"},
    total=True,
)
HOSTILE = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)> {{ 7 * 7 }} \x1b[31m"


def pixels(shade: int, wide: int = 32) -> Array:
    return np.full((wide // 2, wide, 3), shade, np.uint8)


def page_of(*parts: Any) -> Page:
    return Page("lidar", ("Points outside take obstacles away.",), (Section("RQ1", ("Text.",), parts, "Yes."),), {"seed": 7})


def written(page: Page, folder: Path) -> Element:
    return Parsed(write_page(page, folder).read_text()).top


def printed(page: Page) -> str:
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    print_page(page, console)
    told = console.file
    assert isinstance(told, io.StringIO)
    return told.getvalue()


# Cells


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((1427, 513, None), ["1,427", "513", "–"]),
        ((0.2812, -0.0971, 0.77), ["0.281", "-0.097", "0.770"]),
        ((0.28, -0.1), ["0.28", "-0.10"]),  # a paper's numbers gain no digits
        ((12.3456, 1.0), ["12.3", "1.0"]),
        ((1234.5678, 3.2), ["1,235", "3"]),
        ((2.2e-16, 0.00041, 0.5), ["2.2e-16", "0.00041", "0.500"]),
        ((0.000247025, 0.0004), ["0.00025", "0.0004"]),
        ((0.00123, 0.0456), ["0.0012", "0.0456"]),
        ((2.0, 3.0), ["2", "3"]),
        ((0.0, 0.0), ["0", "0"]),
        ((math.nan, math.inf, 1.5), ["not finite", "not finite", "1.5"]),
        ((True, False, "word"), ["yes", "no", "word"]),
        ((3e15,), ["3e+15"]),
        ((np.float32(0.5), np.int64(12000), np.bool_(True)), ["0.5", "12,000", "yes"]),
    ],
)
def test_cells_are_format_column(cells: tuple[Cell, ...], expected: list[str]) -> None:
    assert format_column(cells) == expected


def test_formats_are_kept() -> None:
    assert format_column((0.1234, 1, None, "none"), ".1%") == ["12.3%", "100.0%", "–", "none"]


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8))
def test_no_number_becomes_zero_or_another(numbers: list[float]) -> None:
    largest = max(map(abs, numbers))
    for number, told in zip(numbers, format_column(numbers), strict=True):
        shown = float(told.replace(",", ""))
        assert (shown == 0) == (number == 0)
        assert shown == pytest.approx(number, rel=0.06, abs=min(largest * 0.006, 0.5))


@pytest.mark.parametrize(
    "cells",
    [(1, 2.5, None), ("658 (46%)", 3), ("57.1% – 69.2%",), ("< 0.001", "–"), ("1.2e-5",), (math.nan,), ("+90% / +17%",)],
)
def test_columns_of_numbers(cells: tuple[Cell, ...]) -> None:
    assert is_numeric(cells)


@pytest.mark.parametrize("cells", [(), (None, "–", ""), ("left < right",), (1, "n 10"), (True,), ("e",), ("-",)])
def test_columns_of_words(cells: tuple[Cell, ...]) -> None:
    assert not is_numeric(cells)


# Sheets


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"rows": ((1, 2), (1,))}, "row 1 has 1 cells for 2 columns"),
        ({"printed": ("c",)}, "there is no column 'c'"),
        ({"formats": {"c": "d"}}, "there is no column 'c'"),
        ({"csv": "/etc/passwd"}, "inside the experiment's folder"),
        ({"csv": "../other.csv"}, "inside the experiment's folder"),
        ({"csv": "tables\\other.csv"}, "inside the experiment's folder"),
    ],
)
def test_wrong_sheets_are_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        TablePanel(**{"title": "t", "columns": ("a", "b"), "rows": ((1, 2),), **arguments})


def test_table_shows_its_numbers(tmp_path: Path) -> None:
    sheet = written(page_of(RATES), tmp_path).one("figure", class_="sheet")
    rows = [[cell.text for cell in row.all()[1:] if cell.tag in ("th", "td")] for row in sheet.one("tbody").all("tr")]
    assert rows == [["10", "31", "3.1%", "0.027"], ["1,000", "301", "30.1%", "0.335"], ["all", "–", "not finite", "–"]]
    assert [item.text for item in sheet.one("thead").all("th")] == ["n", "lost", "rate", "paperin the paper"]
    assert sheet.one("figcaption").text == "Frames that lose an obstacle."
    assert sheet.one("a").attributes["href"] == "../tables/rates%20by%20n.csv"
    assert [row.attributes.get("class", "") for row in sheet.one("tbody").all("tr")] == ["", "", "total"]


def test_numbers_stand_right_and_the_papers_apart(tmp_path: Path) -> None:
    sheet = written(page_of(RATES), tmp_path).one("figure", class_="sheet")
    first, *_ = sheet.one("tbody").all("tr")
    assert [cell.attributes.get("class", "").split() for cell in first.all("td")] == [["n"], ["n"], ["n", "printed"]]
    assert first.one("th").attributes["class"].split() == ["short"]  # a column of words
    assert len(sheet.all(class_="printed")) == 4


def test_long_tables_scroll(tmp_path: Path) -> None:
    def scroll(rows: int) -> list[str]:
        sheet = TablePanel("t", ("a",), tuple((row,) for row in range(rows)))
        (found,) = written(page_of(sheet), tmp_path).all("div", class_="scroll")
        return found.attributes["class"].split()

    assert scroll(24) == ["scroll"]
    assert scroll(25) == ["scroll", "long"]


def test_empty_sheet_says_so(tmp_path: Path) -> None:
    page = page_of(TablePanel("t", ("a", "b"), ()))
    assert "No rows." in written(page, tmp_path).one("figure", class_="sheet").text
    assert printed(page).splitlines()[-1] == "a  b"


# The page


def test_page_tells_questions_and_answers(tmp_path: Path) -> None:
    sections = (Section("RQ1", ("How.", "More."), answer="Yes."), Section("RQ2"))
    page = written(Page("lidar", ("Lead.",), sections, {"seed": 7}), tmp_path)
    assert [item.text for item in page.one("nav").all("a")] == ["RQ1", "RQ2"]
    for link in page.one("nav").all("a"):
        assert page.one("section", id=link.attributes["href"].removeprefix("#")).one("h2").text == link.text
    assert page.one(class_="answer").text == "Yes."
    assert [item.text for item in page.all(class_="text")] == ["How.", "More."]
    assert page.one(class_="headline").text == "Lead."
    assert [page.one(tag).text for tag in ("dt", "dd")] == ["seed", "7"]


def test_one_section_needs_no_nav(tmp_path: Path) -> None:
    assert not written(page_of(), tmp_path).all("nav")


def test_neighbouring_charts_share_a_block(tmp_path: Path) -> None:
    chart = ChartPanel("c", bars({"a": {"": Bar(1.0)}}), "note")
    page = written(page_of(chart, chart, RATES, chart), tmp_path)
    assert [item.attributes["class"] for item in page.all(class_="block")] == [
        "charts block",
        "sheets block",
        "charts block",
    ]
    assert len(page.all("figure", class_="chart")) == 3
    assert len(page.all("div", class_="plot")) == 3


def test_policy_allows_our_style_alone(tmp_path: Path) -> None:
    text = write_page(page_of(RATES), tmp_path).read_text()
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = Parsed(text).top.all("meta")[1].attributes["content"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert not re.search(r"https?:", text)
    assert not re.search(r"\sstyle=|\son\w+=", text)


def test_hostile_text_is_shown_literally(tmp_path: Path) -> None:
    def made(text: str, folder: Path) -> Element:
        sheet = TablePanel(text, (text, "b"), ((text, 1), (text, 2)), text, csv="t.csv")
        chart = ChartPanel(text, bars({text: {text: Bar(1.0, tooltip=text)}}, axis=text), text)
        pictures = PicturePanel(text, ((text, pixels(1)),), text)
        return written(Page(text, (text,), (Section(text, (text,), (sheet, chart, pictures), text),), {text: text}), folder)

    hostile, plain = made(HOSTILE, tmp_path / "a"), made("a" * len(HOSTILE), tmp_path / "b")
    assert [item.tag for item in hostile.walk()] == [item.tag for item in plain.walk()]
    assert [sorted(item.attributes) for item in hostile.walk()] == [sorted(item.attributes) for item in plain.walk()]
    assert HOSTILE.replace("\x1b", "\u241b") in hostile.text
    assert "\x1b" not in hostile.text


def test_charts_that_are_mere_text_are_escaped(tmp_path: Path) -> None:
    chart = ChartPanel("c", "<svg onload=alert(1)>")  # type: ignore[arg-type]
    assert "<svg onload" not in write_page(page_of(chart), tmp_path).read_text()
    assert "<b>bold</b>" in write_page(page_of(ChartPanel("c", Markup("<b>bold</b>"))), tmp_path).read_text()


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    sheet = TablePanel("a \udcff", ("a",), (("b \udcff",),), csv="t\udcff.csv")
    assert "a \\udcff" in write_page(page_of(sheet), tmp_path).read_text()


def test_same_page_same_bytes(tmp_path: Path) -> None:
    page = page_of(RATES, PicturePanel("p", (("one", pixels(3)),)))
    one, two = (write_page(page, tmp_path / name) for name in ("a", "b"))
    assert one.read_bytes() == two.read_bytes()
    assert [file.name for file in one.parent.rglob("*.png")] == [file.name for file in two.parent.rglob("*.png")]


# Pictures


def images(page: Page, folder: Path) -> list[dict[str, str]]:
    return [item.attributes for item in written(page, folder).all("img")]


def test_pictures_are_written_beside_the_page(tmp_path: Path) -> None:
    data = png_bytes(pixels(9))
    one, two = images(page_of(PicturePanel("p", (("pixels", pixels(5)), ("bytes", data)), across=2)), tmp_path)
    assert (tmp_path / "report" / two["src"]).read_bytes() == data
    shown = cv2.imread(str(tmp_path / "report" / one["src"]))
    assert np.array_equal(shown, pixels(5))
    assert (one["alt"], one["width"], one["height"]) == ("pixels", "32", "16")
    assert one["src"] != two["src"]


def test_colours_survive_a_thumbnail(tmp_path: Path) -> None:
    wide = np.zeros((200, 400, 3), np.uint8)
    wide[..., 0] = 200  # red
    (one,) = images(page_of(PicturePanel("p", (("red", wide),), wide=100)), tmp_path)
    assert one["src"].endswith(".jpg")
    assert (one["width"], one["height"]) == ("100", "50")
    small = cv2.imread(str(tmp_path / "report" / one["src"]))
    assert small.shape == (50, 100, 3)
    assert np.abs(small[25, 50].astype(int) - (0, 0, 200)).max() < 6


def test_narrow_pictures_stay_as_they_are(tmp_path: Path) -> None:
    data = png_bytes(pixels(9, 100))
    (one,) = images(page_of(PicturePanel("p", (("a", data),), wide=100)), tmp_path)
    assert (tmp_path / "report" / one["src"]).read_bytes() == data


def test_equal_pictures_are_one_file(tmp_path: Path) -> None:
    images(page_of(PicturePanel("p", (("a", pixels(5)), ("b", pixels(5))))), tmp_path)
    assert len(list((tmp_path / "report" / "pictures").iterdir())) == 1


def test_pictures_in_the_folder_are_referred_to(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a #1.png").write_bytes(png_bytes(pixels(1)))
    page = page_of(PicturePanel("p", (("there", "runs/a #1.png"), ("gone", "runs/b.png"))))
    (one,) = images(page, tmp_path)
    assert one["src"] == "../runs/a%20%231.png"
    assert written(page, tmp_path).one(class_="missing").text == "picture not kept"
    assert list((tmp_path / "report" / "pictures").iterdir()) == []


def test_earlier_pictures_are_removed(tmp_path: Path) -> None:
    images(page_of(PicturePanel("p", (("a", pixels(5)),))), tmp_path)
    mine = tmp_path / "report" / "pictures" / "mine.png"
    mine.write_bytes(b"not of ours")
    (one,) = images(page_of(PicturePanel("p", (("a", pixels(6)),))), tmp_path)
    assert sorted(file.name for file in mine.parent.iterdir()) == sorted(["mine.png", Path(one["src"]).name])


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        (b"GIF89a", "neither PNG nor JPEG"),
        (b"\x89PNG\r\n\x1a\n", "cannot be decoded"),
        (np.zeros((4, 4), np.uint8), r"pixels must be H×W×3 uint8 RGB, got uint8 \(4, 4\)"),
        (np.zeros((4, 4, 3)), "got float64"),
        (np.zeros((0, 4, 3), np.uint8), "got uint8"),
    ],
)
def test_what_is_no_picture_is_refused(picture: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"picture 'odd': .*{why}"):
        write_page(page_of(PicturePanel("p", (("odd", picture),))), tmp_path)


def test_wrong_pictures_are_refused() -> None:
    with pytest.raises(ValueError, match="0 to 6 pictures per row, got 7"):
        PicturePanel("p", (), across=7)
    with pytest.raises(ValueError, match="inside the experiment's folder"):
        PicturePanel("p", (("a", "../../etc/passwd"),))


# The terminal


def test_terminal_shows_main_tables() -> None:
    hidden = TablePanel("Details", ("a",), ((1,),), main=False)
    assert printed(page_of(RATES, hidden, ChartPanel("c", bars({})))) == (
        "lidar\n"
        "Points outside take obstacles away.\n"
        "\n"
        "RQ1\n"
        "Yes.\n"
        "\n"
        "Rates by n\n"
        "n      lost        rate  in the paper (paper)\n"
        "10       31        3.1%                 0.027\n"
        "1,000   301       30.1%                 0.335\n"
        "all       –  not finite                     –\n"
    )


def test_terminal_repeats_what_tells_rows_apart() -> None:
    columns = ("system", "placement", *(f"a long name {place}" for place in range(6)))
    rows = tuple((name, where, *range(6)) for name in ("one", "two") for where in ("near", "far"))
    console = Console(file=io.StringIO(), width=60)
    print_page(Page("Title", sections=(Section("Question", parts=(TablePanel("Table", columns, rows),)),)), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= 60
    assert shown.count("system  placement") == 3
    assert shown.count("two     far") == 3


def test_paper_s_columns_are_named_like_ours(tmp_path: Path) -> None:
    sheet = TablePanel("Table", ("lost", "printed lost"), ((1, 2),), printed=("printed lost",))
    assert [(name, paper) for name, _, paper in sheet.heads] == [("lost", False), ("lost", True)]
    page = write_page(Page("Title", sections=(Section("Question", parts=(sheet,)),), facts={"retrain": False}), tmp_path)
    assert "<dd><bdi>no</bdi></dd>" in page.read_text()


def test_terminal_takes_no_orders() -> None:
    sheet = TablePanel("[red]t[/red]\x1b[2J", ("\x1b[31m", "日本"), (("[bold]x", "wide"), ("\x07", "y")))
    told = printed(page_of(sheet))
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "[red]t[/red]\\x1b[2J" in told
    assert "[bold]x   wide" in told
