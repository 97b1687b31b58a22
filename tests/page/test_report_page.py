"""The report as a browser shows it: it works offline, and what users named is text, never code (R53)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swerve.core.campaign import Observation
from swerve.core.values import Steering
from swerve.report.html import write_report
from swerve.store.files import json_bytes
from swerve.store.view import Run
from swerve.transformations.affine import Rotate
from swerve.transformations.scatter import PlacePoints
from tests.fixture_runs import Made, Named, failed, finding, held, keep_pictures, noise, realistic, skipped
from tests.fixture_sweep_runs import sweep_run

if TYPE_CHECKING:
    from tests.page.conftest import Opener

pytestmark = pytest.mark.page

PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "</svg><b>out</b>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "javascript:alert(1)",
    '" onmouseover="alert(1)" x="',
    "' autofocus onfocus='alert(1)",
    "</bdi></article></body></html><h1>end</h1>",
    "<!-- open",
    "--><b>closed</b>",
    "<![CDATA[x]]>",
    "${alert(1)}",
    "{{ 7 * 7 }}",
    "{% raw %}{{ self }}{% endraw %}",
    "{{ ''.__class__.__mro__ }}",
    "&lt;b&gt;&amp;&#60;i&#62;",
    "right \u202eto left\u202c and \u2067on",
    "an emoji 🚗 and a family 👨\u200d👩\u200d👧",
    "two\nlines and a\ttab",
    "\\u003cscript\\u003e `x` \\'",
    "日本語 עברית a" + "\u0301" * 30,
)
PLAIN = tuple(f"plain name {index}" for index in range(len(PAYLOADS)))


def run_named(folder: Path, names: Sequence[str]) -> Run:
    """One finding, one skip, one error and one lost case for every name, called by it wherever a user may."""
    records = [finding(name, name, Named(name), off=99 - index, why=name) for index, name in enumerate(names)]
    unjudged = [make(name, name, name) for name in names for make in (skipped, failed)]
    lost = [Observation(name, name, fault=name, readable=False) for name in names]
    run = Made([*records, *unjudged], lost, {name: (1, 2) for name in names}, method=names[0]).write(folder)
    keep_pictures(run, records[0], noise(1), noise(2))
    write_told(run, names)
    return run


def write_told(run: Run, names: Sequence[str]) -> None:
    """Concerns of these names, and the first finding shrunk to a change of the first."""
    concerns = [{"name": name, "level": name, "why": name} for name in names]
    told = {"baseline": {name: name for name in names}, "concerns": concerns}
    (run.folder / "health.json").write_bytes(json_bytes(told))
    worst = run.best(1)[0]
    shrunk = {"of": worst.id, "edges": [names[0]], "tries": 1, "row": run.row(worst.id)}
    (run.folder / "shrunk").mkdir()
    (run.folder / "shrunk" / f"{worst.id}.json").write_bytes(json_bytes(shrunk))


def small_run(folder: Path) -> Run:
    """Two rules, eight findings with pictures, three of them already wrong."""
    offs = {"c": 12.0, "a": 30.0, "e": 50.0, "b": 41.0, "d": 8.0, "f": 60.0, "g": 9.0, "h": 10.0}
    found = [finding(key, "blur" if key in "cde" else "turn", Rotate(9.0), off=off) for key, off in offs.items()]
    easy = [held(f"h{index}", "turn") for index in range(20)]
    run = Made([*found, *easy], [Observation("a", "", (Steering(3),), (Steering(3),))]).write(folder)
    for index, record in enumerate(found):
        keep_pictures(run, record, noise(index, (320, 160)), noise(-index - 1, (320, 160)))
    return run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_report(small_run(tmp_path / "run"))


def test_every_picture_loads(small: Path, visit: Opener) -> None:
    seen = visit(small)
    images = seen.page.locator("img")
    assert images.count() == 22  # of eight findings, two groups and the finding on the first screen
    for index in range(22):
        images.nth(index).scroll_into_view_if_needed()
    seen.page.wait_for_function("() => [...document.images].every(image => image.complete && image.naturalWidth === 320)")
    assert seen.console == []
    assert seen.refused == []
    assert all(address.startswith(("file:", "data:,")) for address in seen.requests)


def test_sweeps_from_above_load(tmp_path: Path, visit: Opener) -> None:
    """LM-11: the browser finds them beside the page, and the policy lets their legend be coloured."""
    seen = visit(write_report(sweep_run(tmp_path / "run", PlacePoints(((5.0, 9.0, 0.0, 0.5),)), camera=noise(1))))
    images = seen.page.locator("img")
    assert images.count() == 9  # on the first screen, of a finding and its group: two from above and the camera once
    for index in range(9):
        images.nth(index).scroll_into_view_if_needed()
    seen.page.wait_for_function("() => [...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert seen.page.locator("#from-above rect").first.evaluate("one => getComputedStyle(one).fill") == "rgb(60, 200, 80)"
    assert seen.console == []
    assert seen.refused == []


def test_sorting_reorders(small: Path, visit: Opener) -> None:
    seen = visit(small)
    assert seen.shown() == ["a", "c", "h", "g", "d", "f", "e", "b"]  # the last three were already wrong
    seen.page.select_option("#sort", "-margin")
    assert seen.shown() == ["d", "g", "h", "c", "a", "b", "e", "f"]
    seen.page.select_option("#sort", "case")
    assert seen.shown() == list("abcdefgh")
    seen.page.select_option("#sort", "rule")
    assert seen.shown() == ["e", "c", "d", "f", "b", "a", "h", "g"]
    seen.page.select_option("#sort", "margin")
    assert seen.shown() == ["f", "e", "b", "a", "c", "h", "g", "d"]
    seen.page.select_option("#sort", "believable")
    assert seen.shown() == ["a", "c", "h", "g", "d", "f", "e", "b"]


def test_filters_hide(small: Path, visit: Opener) -> None:
    seen = visit(small)
    seen.page.select_option("#rule", "blur")
    assert seen.shown() == ["c", "d", "e"]
    assert seen.page.text_content("#shown") == "3 of 8"
    seen.page.select_option("#origin", "already-wrong")
    assert seen.shown() == ["e"]
    seen.page.select_option("#rule", "")
    assert seen.shown() == ["f", "e", "b"]
    seen.page.fill("#text", "NOTHING SAYS THIS")
    assert seen.shown() == []
    assert seen.page.is_visible("#nothing")
    seen.page.fill("#text", "+63.0")
    assert seen.shown() == ["f"]
    assert not seen.page.is_visible("#nothing")


def test_click_shows_a_group(small: Path, visit: Opener) -> None:
    seen = visit(small)
    assert seen.texts(".group .rule") == ["turn", "blur"]
    seen.page.select_option("#origin", "already-wrong")
    seen.page.fill("#text", "NOTHING SAYS THIS")
    seen.follow("#group-2 .filter")
    assert seen.shown() == ["c", "d", "e"]  # the other filters are off
    assert seen.page.text_content("#shown") == "3 of 8"
    assert seen.page.evaluate("document.getElementById('gallery').getBoundingClientRect().top") < 1000
    seen.page.select_option("#group", "1")
    assert seen.shown() == ["a", "h", "g", "f", "b"]
    seen.page.select_option("#group", "")
    assert len(seen.shown()) == 8
    assert seen.console == []


def test_tile_shows_a_rule(small: Path, visit: Opener) -> None:
    seen = visit(small)
    seen.page.select_option("#origin", "already-wrong")
    seen.follow(".tile a >> nth=0")
    assert seen.page.input_value("#origin") == ""
    assert seen.shown() == ["c", "d", "e"]
    assert seen.page.evaluate("document.getElementById('gallery').getBoundingClientRect().top") < 1000


def test_first_screen_answers(small: Path, visit: Opener) -> None:
    """What was tested, what broke and what to do next are seen without scrolling."""
    seen = visit(small)
    for selector in ("h1", ".verdict", ".told img", ".next"):
        box = seen.page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 1000, selector


def test_replay_line_is_copied(small: Path, visit: Opener) -> None:
    seen = visit(small)
    button = seen.page.locator(".replay button").first
    button.click()
    label = "document.querySelector('.replay button').textContent"
    seen.page.wait_for_function(f"() => ['copied', 'selected'].includes({label})")
    seen.page.wait_for_function(f"() => {label} === 'copy'")
    assert seen.console == []


def test_page_stands_without_script(small: Path, visit: Opener) -> None:
    seen = visit(small, java_script_enabled=False)
    assert seen.page.locator(".card:visible").count() == 8
    assert not seen.page.is_visible(".tools")
    assert not seen.page.is_visible(".replay button")
    assert seen.page.is_visible("#headline")


def test_curves_are_seen(small: Path, visit: Opener) -> None:
    seen = visit(small)
    box = seen.page.locator(".chart .band").bounding_box()
    assert box is not None
    assert box["width"] > 100
    colour = seen.page.eval_on_selector(".chart .line", "node => getComputedStyle(node).stroke")
    assert colour.startswith("rgb(")


def test_dark_is_dark(small: Path, visit: Opener) -> None:
    def brightness(scheme: str) -> int:
        page = visit(small, color_scheme=scheme).page
        colour: str = page.eval_on_selector("body", "node => getComputedStyle(node).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    assert brightness("light") > 600
    assert brightness("dark") < 150


def test_policy_stops_foreign_code(small: Path, visit: Opener) -> None:
    seen = visit(small)
    seen.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            const image = new Image();
            image.src = "https://example.com/x.png";
            document.body.append(script, image);
            document.body.setAttribute("onclick", "window.ran = true");
            document.body.click();
        }"""
    )
    seen.page.wait_for_function("() => window.refused.length >= 3")
    assert seen.page.evaluate("window.ran") is None
    assert {"script-src-elem", "script-src-attr", "img-src"} <= set(seen.refused)
    assert seen.blocked == [("https://example.com/x.png", "csp")]


TAGS = """() => {
    const count = {};
    for (const node of document.querySelectorAll("*")) count[node.tagName] = (count[node.tagName] || 0) + 1;
    return count;
}"""


def test_hostile_names_stay_text(tmp_path: Path, visit: Opener) -> None:
    hostile = visit(write_report(run_named(tmp_path / "hostile", PAYLOADS)))
    plain = visit(write_report(run_named(tmp_path / "plain", PLAIN)))
    for selector in (".card .case", ".card .rule", ".card .words", ".card .why"):
        assert hostile.texts(selector) == list(PAYLOADS)
    assert hostile.texts(".rules tbody th[scope] > :is(bdi, a)") == [*PAYLOADS, "all rules"]
    assert hostile.texts("#rule option") == ["all", *PAYLOADS]
    for selector in (".group .rule", ".group .case", ".group .words", ".group .why", ".concern bdi"):
        assert sorted(hostile.texts(selector)) == sorted(PAYLOADS)
    assert hostile.texts(".group .smallest bdi") == [f"{PAYLOADS[0]}; {PAYLOADS[0]}"]
    assert hostile.texts("h1 bdi") == [PAYLOADS[0]]
    assert hostile.page.evaluate(TAGS) == plain.page.evaluate(TAGS)
    assert hostile.page.title() == f"Swerve: {PAYLOADS[0]}"


def test_hostile_names_run_nothing(tmp_path: Path, visit: Opener) -> None:
    seen = visit(write_report(run_named(tmp_path / "run", PAYLOADS)))
    seen.page.mouse.move(300, 300)
    for value in ("case", "rule", "-margin"):
        seen.page.select_option("#sort", value)
    seen.page.fill("#text", "<script>")
    seen.page.keyboard.press("Tab")
    seen.page.wait_for_timeout(200)
    assert seen.dialogs == []
    assert seen.console == []
    assert seen.refused == []
    assert all(address.startswith(("file:", "data:,")) for address in seen.requests)
    handlers = "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"
    assert seen.page.evaluate(handlers) == 0


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_overflows(width: int, tmp_path: Path, visit: Opener) -> None:
    wordy = (*PAYLOADS, "x" * 400, "a/very/long/path/" * 30)
    for run in (realistic(tmp_path / "real", drives=2, pictures=12), run_named(tmp_path / "wordy", wordy)):
        page = visit(write_report(run), width=width).page
        page.evaluate("document.querySelectorAll('details').forEach(more => { more.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Nothing inside a card or a chart may stick out of it; tables and filters scroll in their own frame.
        boxes = "[...document.querySelectorAll('.card, .group, .told, .tile, .chart')]"
        assert page.evaluate(f"{boxes}.filter(n => n.scrollWidth > n.clientWidth + 1).length") == 0
