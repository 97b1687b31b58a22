from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swerve.report.overlay import KINDS, LETTER, LINES, Arrow, Outline, Overlay, Raster, box, legend, lines, rounded

SIZE = (600, 300)
NASTY = "</text><script>alert(1)</script>\"'&"


def drawn(*shapes: Outline) -> str:
    return str(Overlay(SIZE, shapes).svg)


def test_box_is_drawn_in_pixels() -> None:
    assert drawn(box("kept", rounded(np.array([[10, 20.04, 30.56, 40]]))[0])) == (
        '<svg class="overlay" viewBox="0 0 600 300" font-size="10" role="img" aria-label="1 kept">'
        '<path class="kept" d="M10 20H30.6V40H10z"/></svg>'
    )


def test_nothing_is_drawn_without_shapes() -> None:
    assert drawn() == ""


def test_boxes_of_one_kind_share_a_path() -> None:
    first, second = box("lost", [0, 0, 5, 5]), box("lost", [9, 9, 12, 12])
    assert '<path class="lost" d="M0 0H5V5H0zM9 9H12V12H9z"/>' in drawn(first, box("kept", [1, 1, 2, 2]), second)


def test_errors_are_drawn_over_the_rest() -> None:
    shapes = [box(kind, [1, 1, 2, 2]) for kind in reversed(KINDS)]
    assert re.findall(r'path class="(\w+)"', drawn(*shapes)) == list(KINDS)
    assert next(iter(KINDS)) == "label"
    assert list(KINDS)[-1] == "lost"


def test_texts_are_escaped() -> None:
    text = drawn(box("ghost", [10, 100, 30, 120], NASTY))
    assert "<script" not in text
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(text)
    assert tags == ["svg", "path", "text"]
    assert "␀" in drawn(box("ghost", [10, 100, 30, 120], "\x00"))


def test_long_texts_are_cut() -> None:
    assert f">{'x' * 39}…<" in drawn(box("ghost", [10, 100, 30, 120], "x" * 400))


def test_words_count_states() -> None:
    one = [1, 1, 2, 2]
    kinds = ("label", "kept", "lost", "kept", "expected", "ghost", "before", "object", "ignored")
    overlay = Overlay(SIZE, tuple(box(kind, one) for kind in kinds))
    assert overlay.words == "2 kept, 1 ghost, 1 lost"
    assert Overlay(SIZE, (box("before", one),)).words == ""
    assert list(legend([overlay])) == ["label", "ignored", "before", "expected", "kept", "object", "ghost", "lost"]


def test_raster_lies_under_boxes() -> None:
    svg = str(Overlay(SIZE, (box("object", [1, 1, 2, 2]),), (Raster("heat", '../findings/a"b.png'),)).svg)
    assert svg.index('<image class="heat" href="../findings/a&#34;b.png"') < svg.index("<path")


def test_arrows_stand_at_the_foot() -> None:
    svg = str(Overlay(SIZE, arrows=(Arrow("l", "2.0"), Arrow("k", "-3.0"))).svg)
    assert "translate(300 275.8) scale(4.031)" in svg  # 86% of the height
    assert '<use class="l" href="#d" transform="rotate(2.0)"/><use class="k" href="#a" transform="rotate(-3.0)"/>' in svg


def test_edges_are_lines() -> None:
    ends = [(np.array([1.0, 9.0]), np.array([4.0, 2.0])), (np.array([4.0, 2.0]), np.array([7.25, 8.0]))]
    made = lines("lost", ends, "lost car")
    assert (made.path, made.at, made.low) == ("M1.0 9.0L4.0 2.0M4.0 2.0L7.2 8.0", (1.0, 2.0), 9.0)


TEXT = re.compile(r'<text class="(\w+)" x="(-?\d+)" y="(-?\d+)">([^<]*)<')
places = st.tuples(st.floats(-50, 650), st.floats(-50, 350), st.floats(1, 200), st.floats(1, 200))


@given(st.lists(st.tuples(st.sampled_from(list(KINDS)), places), max_size=12))
def test_texts_lie_in_the_picture_and_not_on_each_other(given_boxes: list[tuple[str, tuple[float, ...]]]) -> None:
    shapes = [box(kind, [x, y, x + w, y + h], f"{kind} 0.12") for kind, (x, y, w, h) in given_boxes]
    line = SIZE[0] / LINES
    found = [(float(x), float(y), LETTER * line * len(text)) for _, x, y, text in TEXT.findall(drawn(*shapes))]
    for x, y, width in found:
        assert -1 <= x <= SIZE[0] - width + 1
        assert line - 1 <= y <= SIZE[1] + 1
    for place, (x, y, width) in enumerate(found):
        assert not any(x + 1 < a + w and a + 1 < x + width and abs(y - b) < line - 1 for a, b, w in found[:place])


def test_error_keeps_its_text_in_a_crowd() -> None:
    crowd = [box("kept", [100, 100, 110, 110], "car 0.90") for _ in range(30)]
    texts = [kind for kind, *_ in TEXT.findall(drawn(*crowd, box("lost", [100, 100, 110, 110], "lost car")))]
    assert texts[0] == "lost"
    assert len(texts) == 7
