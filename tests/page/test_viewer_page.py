"""The viewer as a browser shows it, in the report's lightbox and on the review page: boxes, keys, slider, links."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pytest

from swerve.core.values import Array, Boxes2D, Image
from swerve.relations.boxes import same_boxes
from swerve.report.html import write_report
from swerve.review.page import Desk, render
from swerve.review.pictures import ReviewPictures
from swerve.review.queue import queue
from swerve.review.server import ReviewServer, Service
from swerve.store.files import png_bytes
from swerve.store.view import Run
from swerve.transformations.scatter import PlacePoints
from tests.fixture_boxes import AFTER, KINDS, LABELLED, SIZE, Judged, detector_run, lights, only
from tests.fixture_runs import Made, finding, keep_file, keep_pictures, noise
from tests.fixture_sweep_runs import sweep_run
from tests.page.test_report_page import PAYLOADS, small_run

if TYPE_CHECKING:
    from tests.page.conftest import Opener, Visit

pytestmark = pytest.mark.page

SHOWN = "id => document.getElementById('stage').dataset.shown === id"
VISIBLE = "all => all.filter(one => getComputedStyle(one).visibility === 'visible').map(one => one.id)"
FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def ids(run: Run) -> dict[str, str]:
    """The findings' ids by case."""
    return {one.case: one.id for one in run.findings()}


def opened(seen: Visit, case: str, run: Run) -> Visit:
    """The lightbox of a finding, from a click on its picture."""
    seen.page.click(f"[id='{ids(run)[case]}'] .pic >> nth=1")
    seen.page.wait_for_function(SHOWN, arg=ids(run)[case])
    return seen


def shown_case(seen: Visit) -> str:
    return str(seen.page.text_content("#about .case"))


def fragment(seen: Visit) -> str:
    return str(seen.page.evaluate("location.hash"))


def pixels(seen: Visit, selector: str) -> Array:
    seen.page.evaluate(FRAME)
    raw = np.frombuffer(seen.page.locator(selector).screenshot(), np.uint8)
    return cv2.cvtColor(cv2.imdecode(raw, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


@pytest.fixture
def small(tmp_path: Path) -> Run:
    """Eight findings, believable first: a, c, h, g, d, and already wrong f, e, b."""
    return small_run(tmp_path / "run")


def test_click_opens_the_lightbox(small: Run, visit: Opener) -> None:
    seen = visit(write_report(small))
    before = seen.page.url
    opened(seen, "e", small)
    assert seen.page.url.split("#")[0] == before  # the page was not left for a picture
    assert fragment(seen) == f"#finding={ids(small)['e']}"
    assert seen.page.text_content("#place") == "7 of 8"
    assert shown_case(seen) == "e"
    assert seen.page.text_content("#source .caption b") == "+3.0°"
    assert seen.page.text_content("#followup .caption b") == "+53.0°"
    assert seen.page.eval_on_selector_all(".frame img", "all => all.map(one => one.naturalWidth)") == [320, 320]
    assert seen.page.eval_on_selector_all(".frame svg", "all => all.map(one => one.querySelectorAll('use').length)") == [
        1,
        3,
    ]
    assert (seen.console, seen.refused) == ([], [])


def test_click_on_a_group_opens_its_mildest(small: Run, visit: Opener) -> None:
    seen = visit(write_report(small))
    seen.page.click("#group-2 .pic >> nth=0")
    seen.page.wait_for_function(SHOWN, arg=ids(small)["c"])
    assert seen.page.text_content("#place") == "2 of 8"


def test_click_on_the_first_screen_opens_it(small: Run, visit: Opener) -> None:
    seen = visit(write_report(small))
    seen.page.click(".told .pic >> nth=1")
    seen.page.wait_for_function(SHOWN, arg=ids(small)["a"])
    assert seen.page.text_content("#place") == "1 of 8"


def test_other_clicks_follow_the_link(small: Run, visit: Opener) -> None:
    seen = visit(write_report(small))
    with seen.page.context.expect_page() as waiting:
        seen.page.click(".card .pic >> nth=0", modifiers=["Control"])
    waiting.value.wait_for_url("**/*-camera.png")  # a new page is blank at first
    assert not seen.page.is_visible("#lightbox")


def test_arrows_move_and_escape_closes(small: Run, visit: Opener) -> None:
    seen = opened(visit(write_report(small)), "a", small)
    assert seen.page.is_disabled("#previous")
    cases = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        seen.page.keyboard.press(key)
        cases.append(shown_case(seen))
    assert cases == ["c", "h", "c", "a", "a"]
    seen.page.click("#next")
    seen.page.wait_for_function(SHOWN, arg=ids(small)["c"])
    seen.page.keyboard.press(" ")  # flips; it must not press the button again
    seen.page.keyboard.press("ArrowRight")
    assert shown_case(seen) == "h"
    seen.page.keyboard.press("Escape")
    assert not seen.page.is_visible("#lightbox")
    seen.page.wait_for_function("() => location.hash === ''")  # the page hears of it a moment after the box has gone
    card = seen.page.locator(f"[id='{ids(small)['h']}']").bounding_box()
    assert card is not None
    assert 0 <= card["y"] < 1000  # the page is where the reader stopped


def test_lightbox_follows_filter_and_order(small: Run, visit: Opener) -> None:
    seen = visit(write_report(small))
    seen.page.select_option("#rule", "blur")
    seen.page.select_option("#sort", "-margin")
    opened(seen, "d", small)
    assert seen.page.text_content("#place") == "1 of 3"
    seen.page.keyboard.press("ArrowRight")
    assert shown_case(seen) == "c"


def test_space_flips(small: Run, visit: Opener) -> None:
    seen = opened(visit(write_report(small)), "f", small)
    shown = [seen.page.eval_on_selector_all(".pane", VISIBLE)]
    for key in (" ", " ", "z", "z"):
        seen.page.keyboard.press(key)
        shown.append(seen.page.eval_on_selector_all(".pane", VISIBLE))
    both = ["source", "followup"]
    assert shown == [both, ["followup"], ["source"], both, ["followup"]]


def plain_run(folder: Path, source: int, followup: int) -> Run:
    """One finding whose pictures are of one grey level each."""
    record = finding("a")
    run = Made([record]).write(folder)
    grey = [Image(np.full((160, 320, 3), level, np.uint8)) for level in (source, followup)]
    keep_pictures(run, record, *grey)
    return run


def test_slider_wipes(tmp_path: Path, visit: Opener) -> None:
    run = plain_run(tmp_path / "run", 40, 200)
    seen = opened(visit(write_report(run)), "a", run)
    for key in ("d", "s"):
        seen.page.keyboard.press(key)

    def levels() -> list[int]:
        row = pixels(seen, "#stage")[300]
        return [int(row[round(len(row) * share)].mean()) for share in (0.2, 0.45, 0.55, 0.8)]

    assert levels() == [40, 40, 200, 200]
    edge = seen.page.locator("#wipe").bounding_box()
    assert edge is not None
    seen.page.mouse.move(edge["x"] + edge["width"] / 2, edge["y"] + 200)
    seen.page.mouse.down()
    seen.page.mouse.move(edge["x"] + edge["width"] * 0.7, edge["y"] + 200)
    seen.page.mouse.up()
    assert levels() == [40, 40, 40, 200]
    seen.page.focus("#wipe")
    seen.page.keyboard.press("Home")  # the slider is a control of its own
    assert levels() == [200, 200, 200, 200]
    assert shown_case(seen) == "a"


@pytest.mark.parametrize(("followup", "expected"), [(100, 0), (130, 90)])
def test_difference_is_dark_where_nothing_changed(followup: int, expected: int, tmp_path: Path, visit: Opener) -> None:
    run = plain_run(tmp_path / "run", 100, followup)
    seen = opened(visit(write_report(run)), "a", run)
    seen.page.keyboard.press("x")
    middle = pixels(seen, "#stage")[200:400, 300:900]
    assert abs(float(middle.mean()) - expected) < 3  # three times as bright, to be seen
    seen.page.keyboard.press("x")
    assert seen.page.get_attribute("#stage", "data-view") == "both"


def test_click_zooms_both(small: Run, visit: Opener) -> None:
    seen = opened(visit(write_report(small)), "f", small)
    scales = "all => all.map(one => new DOMMatrix(getComputedStyle(one).transform).a)"
    seen.page.click("#source .frame", position={"x": 50, "y": 60})
    assert seen.page.eval_on_selector_all(".frame > *", scales) == [3, 3, 3, 3]
    seen.page.click("#followup .frame")
    assert seen.page.eval_on_selector_all(".frame > *", scales) == [1, 1, 1, 1]


def test_address_opens_the_finding(small: Run, visit: Opener) -> None:
    path = write_report(small)
    seen = visit(path)
    seen.page.goto("about:blank")
    seen.page.goto(f"{path.resolve().as_uri()}#finding={ids(small)['h']}")
    seen.page.wait_for_function(SHOWN, arg=ids(small)["h"])
    assert shown_case(seen) == "h"
    seen.page.evaluate("id => { location.hash = `finding=${id}`; }", ids(small)["g"])
    seen.page.wait_for_function(SHOWN, arg=ids(small)["g"])
    seen.page.evaluate("() => { location.hash = 'groups'; }")
    seen.page.wait_for_function("() => !document.getElementById('lightbox').open")


@pytest.mark.parametrize("hostile", ["0000000000000000", "cards", "'><img src=x onerror=alert(1)>"])
def test_unknown_address_says_so(hostile: str, small: Run, visit: Opener) -> None:
    path = write_report(small)
    seen = visit(path)
    seen.page.goto("about:blank")
    seen.page.goto(f"{path.resolve().as_uri()}#finding={hostile}")
    seen.page.evaluate(FRAME)
    assert not seen.page.is_visible("#lightbox")
    if hostile.isalnum():
        assert seen.page.text_content("#unknown") == f"Finding {hostile} is not on this page."
    assert (seen.dialogs, seen.console) == ([], [])


def test_card_of_two_rules_fits_both(tmp_path: Path, visit: Opener) -> None:
    one, two = finding("a", "own answer", off=20.0), finding("a", "label", off=9.0)
    two = replace(two, input_sha=one.input_sha)
    run = Made([one, two, finding("b", "label", off=15.0)]).write(tmp_path / "run")
    path = write_report(run)
    seen = visit(path)
    for rule, cases in (("own answer", ["a"]), ("label", ["a", "b"])):
        seen.page.select_option("#rule", rule)
        assert seen.shown() == cases
    seen.page.goto("about:blank")
    seen.page.goto(f"{path.resolve().as_uri()}#finding={two.id}")
    seen.page.wait_for_function(SHOWN, arg=one.id)
    assert seen.texts("#about .also .other") == ["label"]


BOX = "node => { const r = node.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; }"


def places(seen: Visit, where: str, kind: str) -> list[float]:
    """The edges of the drawn boxes of a kind in pixels of the picture they lie on."""
    left, top, right, bottom = seen.page.eval_on_selector(f"{where} img", BOX)
    scale = min((right - left) / SIZE[0], (bottom - top) / SIZE[1])
    x = (left + right - scale * SIZE[0]) / 2
    y = (top + bottom - scale * SIZE[1]) / 2
    a, b, c, d = seen.page.eval_on_selector(f"{where} path.{kind}", BOX)
    return [(a - x) / scale, (b - y) / scale, (c - x) / scale, (d - y) / scale]


def test_boxes_lie_on_cards_and_in_the_lightbox(tmp_path: Path, visit: Opener) -> None:
    run = detector_run(tmp_path / "run")
    seen = visit(write_report(run))
    for where, lost in ((".card .pic:nth-child(1)", [80, 20, 100, 60]), (".card .pic:nth-child(2)", [90, 20, 110, 60])):
        assert places(seen, where, "lost") == pytest.approx(lost, abs=1.5)
    assert seen.texts(".card .said b") == [
        "1 kept, 1 drifted, 1 mislabelled, 1 lost",
        "1 kept, 1 ghost, 1 drifted, 1 mislabelled, 1 lost",
    ]
    assert not seen.page.is_visible(".card .overlay text")
    opened(seen, "case", run)
    for where, lost in (("#source", [80, 20, 100, 60]), ("#followup", [90, 20, 110, 60])):
        assert places(seen, where, "lost") == pytest.approx(lost, abs=0.5)
    assert places(seen, "#followup", "ghost") == pytest.approx([50, 100, 70, 140], abs=0.5)
    assert "lost go 0.80" in seen.texts("#followup text")
    assert "go 0.85, expected stop" in seen.texts("#followup text")
    assert seen.page.is_visible("#followup text.lost")
    assert seen.page.text_content("#followup .caption b") == "1 kept, 1 ghost, 1 drifted, 1 mislabelled, 1 lost"
    assert seen.shown("#drawn span") == [
        *("label", "expected place", "kept, as on the source", "ghost", "drifted", "mislabelled", "lost"),
    ]
    assert (seen.console, seen.refused) == ([], [])


def test_states_differ_in_colour(tmp_path: Path, visit: Opener) -> None:
    seen = visit(write_report(detector_run(tmp_path / "run")))
    colours = "all => Object.fromEntries(all.map(one => [one.getAttribute('class'), getComputedStyle(one).stroke]))"
    found = seen.page.eval_on_selector_all(".card .pic:nth-child(2) path", colours)
    assert set(found) == {"label", "expected", "kept", "ghost", "drifted", "mislabelled", "lost"}
    assert len(set(found.values())) == len(found)


def test_drawing_can_be_hidden(tmp_path: Path, visit: Opener) -> None:
    run = detector_run(tmp_path / "run")
    seen = opened(visit(write_report(run)), "case", run)
    drawn = pixels(seen, "#followup .frame")
    seen.page.keyboard.press("d")
    assert not seen.page.is_visible("#followup .overlay")
    bare = pixels(seen, "#followup .frame")
    assert not np.array_equal(drawn, bare)
    seen.page.click("text=hide drawing")
    assert seen.page.is_visible("#followup .overlay")
    assert seen.page.get_attribute("[data-key=d]", "aria-pressed") == "false"


def test_boxes_stand_without_script(tmp_path: Path, visit: Opener) -> None:
    seen = visit(write_report(detector_run(tmp_path / "run")), java_script_enabled=False)
    assert seen.page.locator(".card .overlay path:visible").count() > 5


def test_hostile_kinds_stay_text(tmp_path: Path, visit: Opener) -> None:
    for place, name in enumerate(PAYLOADS[:16]):
        kinds = (name, *KINDS[1:])
        run = Judged(
            same_boxes(), lights(LABELLED, kinds), Boxes2D(AFTER.xyxy, (f"{name}!", *AFTER.kinds[1:]), size=SIZE), None
        ).run(tmp_path / f"run{place}")
        seen = opened(visit(write_report(run)), "case", run)
        assert any(text.startswith(name[:30]) for text in seen.texts("#followup text"))
        assert (seen.dialogs, seen.console, seen.refused) == ([], [], [])
        assert seen.page.eval_on_selector_all(".overlay *", "all => [...new Set(all.map(n => n.tagName))].sort()") == [
            "path",
            "text",
        ]


def test_several_pictures_take_turns(tmp_path: Path, visit: Opener) -> None:
    run = sweep_run(tmp_path / "run", PlacePoints(((5.0, 9.0, 0.0, 0.5),)), camera=noise(1))
    seen = visit(write_report(run))
    seen.page.click(".card .pic >> nth=0")
    seen.page.wait_for_function(SHOWN, arg=only(run).id)
    assert seen.page.text_content("#sensor span") == "lidar, 1 of 2"
    assert seen.page.eval_on_selector_all(".frame img", "all => all.map(one => one.naturalWidth)") == [420, 420]
    seen.page.keyboard.press("p")
    seen.page.wait_for_function("() => document.querySelector('#sensor span').textContent === 'camera, 2 of 2'")
    assert seen.page.eval_on_selector_all(".pane", VISIBLE) == ["source", "followup"]
    assert not seen.page.is_visible("#followup")  # the camera's picture is the same before and after
    assert (seen.console, seen.refused) == ([], [])


def test_heat_lies_over_the_picture(tmp_path: Path, visit: Opener) -> None:
    run = plain_run(tmp_path / "run", 40, 200)
    red = np.zeros((160, 320, 3), np.uint8)
    red[..., 0] = 255
    for sha in (only(run).source_sha, only(run).input_sha):
        keep_file(run, sha, "camera_heat.png", png_bytes(red))
    seen = opened(visit(write_report(run)), "a", run)
    middle = pixels(seen, "#source .frame")[300, 300]
    assert middle[0] > 120
    assert middle[1] < 60
    seen.page.keyboard.press("d")
    assert set(pixels(seen, "#source .frame")[300, 300].tolist()) == {40}
    assert (seen.console, seen.refused) == ([], [])


@pytest.mark.parametrize("width", [1280, 390])
def test_lightbox_does_not_overflow(width: int, tmp_path: Path, visit: Opener) -> None:
    run = detector_run(tmp_path / "run")
    seen = opened(visit(write_report(run), width=width), "case", run)
    for key in ("z", "s", "x", "z"):
        seen.page.keyboard.press(key)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.evaluate("(b => b.scrollWidth - b.clientWidth)(document.getElementById('lightbox'))") <= 0
        stage = seen.page.locator("#stage").bounding_box()
        assert stage is not None
        assert stage["height"] >= 260


def test_every_control_has_a_name(small: Run, visit: Opener) -> None:
    seen = opened(visit(write_report(small)), "f", small)
    named = "n => Boolean(n.textContent.trim() || n.ariaLabel)"
    assert seen.page.eval_on_selector_all("#lightbox button:not([hidden]), #lightbox input", f"all => all.every({named})")
    assert seen.page.evaluate("document.activeElement.id") == "stage"


Reviewing = Callable[[Run], "Visit"]


@pytest.fixture
def reviewing(visit: Opener, tmp_path: Path) -> Iterator[Reviewing]:
    """Opens a run's review page on a server of its own."""
    blank = tmp_path / "blank.html"
    blank.write_text("")
    with ExitStack() as servers:

        def opened_page(run: Run, link: str = "") -> Visit:
            server = servers.enter_context(ReviewServer(Service(run, Desk("anna", queue(run)), ReviewPictures(run))))
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            servers.callback(server.shutdown)
            seen = visit(blank)
            seen.page.goto(f"{server.address}{link}")
            seen.page.wait_for_selector("#stage[data-shown]")
            seen.page.evaluate(FRAME)
            return seen

        yield opened_page


def test_review_draws_the_same(tmp_path: Path, visit: Opener, reviewing: Reviewing) -> None:
    run = detector_run(tmp_path / "run")
    markup = "all => all.map(one => one.outerHTML)"
    report = opened(visit(write_report(run)), "case", run)
    review = reviewing(run)
    drawn = [seen.page.eval_on_selector_all(".frame .overlay", markup) for seen in (report, review)]
    assert drawn[0] == drawn[1]
    assert places(review, "#followup", "lost") == pytest.approx([90, 20, 110, 60], abs=0.5)
    assert review.page.text_content("#source .caption b") == "1 kept, 1 drifted, 1 mislabelled, 1 lost"
    assert (review.console, review.refused) == ([], [])


def test_review_has_slider_and_difference(tmp_path: Path, reviewing: Reviewing) -> None:
    seen = reviewing(plain_run(tmp_path / "run", 100, 130))
    for key in ("d", "s"):
        seen.page.keyboard.press(key)
    row = pixels(seen, "#stage")[200]
    assert [int(row[round(len(row) * share)].mean()) for share in (0.45, 0.55)] == [100, 130]
    seen.page.keyboard.press("x")
    assert abs(float(pixels(seen, "#stage")[150:250, 500:700].mean()) - 90) < 3
    assert (seen.console, seen.refused) == ([], [])


def test_review_follows_its_address(small: Run, reviewing: Any) -> None:
    seen = reviewing(small, f"#finding={ids(small)['h']}")
    assert seen.page.text_content("#case") == "h"
    seen.page.keyboard.press("ArrowRight")
    assert fragment(seen) == f"#finding={ids(small)['g']}"
    seen.page.select_option("#rule", "blur")
    seen.page.evaluate("id => { location.hash = `finding=${id}`; }", ids(small)["a"])
    seen.page.wait_for_function(SHOWN, arg=ids(small)["a"])
    assert seen.page.text_content("#place") == "4 of 8"


def test_sent_review_draws_boxes(tmp_path: Path, visit: Opener) -> None:
    run = detector_run(tmp_path / "run")
    path = tmp_path / "review.html"
    path.write_text(render(run, Desk("", queue(run), pictures=ReviewPictures(run))))
    seen = visit(path, offline=True)
    seen.page.wait_for_selector("#stage[data-shown]")
    assert places(seen, "#followup", "lost") == pytest.approx([90, 20, 110, 60], abs=0.5)
    assert (seen.console, seen.refused) == ([], [])


def test_deciding_objects_are_enlarged(tmp_path: Path, visit: Opener) -> None:
    """On the card, in the lightbox, and as pixels: the square shows the object's part of the kept picture."""
    run = detector_run(tmp_path / "run")
    seen = visit(write_report(run))
    assert seen.texts(".card .closeups figcaption b") == ["lost", "mislabelled", "drifted"]
    assert seen.texts(".card .closeups small") == ["and 1 more"]
    seen.page.locator(".card .crop").first.scroll_into_view_if_needed()
    seen.page.wait_for_function("() => [...document.querySelectorAll('.card .crop img')].every(one => one.naturalWidth)")
    # `BOX` of the whole picture inside the square: 1 px of it is as large as the square's side over its reach.
    left, top, right, bottom = seen.page.eval_on_selector(".card .crop img", BOX)
    crop = seen.page.eval_on_selector(".card .crop", BOX)
    scale = (crop[2] - crop[0]) / 80
    assert (right - left, bottom - top) == pytest.approx((SIZE[0] * scale, SIZE[1] * scale), rel=0.02)
    assert (crop[0] - left, crop[1] - top) == pytest.approx((50 * scale, 0), abs=1.5)  # centred on (90, 40)
    seen.page.click(".card .closeups")
    seen.page.wait_for_function(SHOWN, arg=only(run).id)
    assert seen.texts("#enlarged figcaption b") == ["lost", "mislabelled", "drifted"]
    assert seen.page.is_visible("#enlarged .crop path.lost")
    seen.page.keyboard.press("d")
    assert not seen.page.is_visible("#enlarged .crop path.lost")
    colours = "all => all.map(one => getComputedStyle(one).getPropertyValue('--lamp'))"
    assert len(set(seen.page.eval_on_selector_all("#enlarged .crop.red, #enlarged .crop.green", colours))) == 2
    assert (seen.console, seen.refused) == ([], [])


def test_steering_has_no_enlarged_objects(small: Run, visit: Opener) -> None:
    seen = opened(visit(write_report(small)), "a", small)
    assert seen.page.locator(".closeups").count() == 0
    assert not seen.page.is_visible("#enlarged")


def test_review_enlarges_the_same_objects(tmp_path: Path, reviewing: Reviewing) -> None:
    seen = reviewing(detector_run(tmp_path / "run"))
    assert seen.texts("#enlarged figcaption b") == ["lost", "mislabelled", "drifted"]
    seen.page.wait_for_function("() => [...document.querySelectorAll('#enlarged img')].every(one => one.naturalWidth)")
    assert seen.page.locator("#enlarged img").count() == 6
    assert (seen.console, seen.refused) == ([], [])
