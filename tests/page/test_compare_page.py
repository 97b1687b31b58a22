"""The page of `swerve compare`, and pages on paper, as a browser shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swerve.analysis.compare import compare
from swerve.cli.main import main
from swerve.core.campaign import Observation, Record
from swerve.core.relation import Status, Verdict
from swerve.core.values import Steering
from swerve.report.comparison_page import MOST_DRAWN, write_comparison
from swerve.report.html import write_report
from swerve.store.view import Run
from swerve.transformations.affine import Rotate
from tests.fixture_boxes import detector_run
from tests.fixture_runs import Made, finding, held, keep_pictures, noise, realistic
from tests.page.test_report_page import PAYLOADS

if TYPE_CHECKING:
    from tests.page.conftest import Opener, Visit

pytestmark = pytest.mark.page

MOST_PAGES = 20
MOST_BYTES = 5_000_000
PAPER = 703  # CSS pixels between the margins of A4
SHOWN = "id => document.getElementById('stage').dataset.shown === id"


def passed(case: str, rule: str = "turn") -> Record:
    """The trial of `finding(case, rule, Rotate(9))` where it held, with an answer of its own."""
    same = finding(case, rule, Rotate(9.0))
    verdict = Verdict(Status.HELD, -4.0, "1.0° apart")
    return replace(same, verdict=verdict, origin=None, after=(Steering(4.0),), input_sha="")


def two_runs(folder: Path, cases: str = "abcdef") -> tuple[Run, Run]:
    """a and b are new, c is fixed, d and e persist, and f is not judged any more."""
    bad = {
        case: finding(case, "blur" if case == "e" else "turn", Rotate(9.0), off=10.0 + place)
        for place, case in enumerate(cases)
    }
    good = {case: passed(case) for case in "abc"}
    lost = replace(bad["f"], verdict=Verdict.skipped("no road"), origin=None, after=())
    easy = [held(f"h{index}", "turn") for index in range(20)]
    seen = [Observation(case, "", (Steering(5.0),), (Steering(3.0),)) for case in cases]
    before = Made([good["a"], good["b"], bad["c"], bad["d"], bad["e"], bad["f"], *easy], seen).write(folder / "before")
    after = Made([bad["a"], bad["b"], good["c"], bad["d"], bad["e"], lost, *easy], seen).write(folder / "after")
    for run, kept in ((before, "cdf"), (after, "abe")):
        for case in kept:
            keep_pictures(run, bad[case], noise(ord(case), (320, 160)), noise(-ord(case), (320, 160)))
    return before, after


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_comparison(compare(*two_runs(tmp_path)), failure="findings new: 2")


def cases_of(seen: Visit, section: str) -> list[str]:
    return seen.texts(f"#{section} .card .case")


def test_sections_show_what_changed(page: Path, visit: Opener) -> None:
    seen = visit(page)
    assert page.name == "compare.html"
    assert [seen.texts(f".jump [data-count={kind}]") for kind in ("new", "fixed", "persisting")] == [["2"], ["1"], ["2"]]
    assert cases_of(seen, "new") == ["b", "a"]  # the largest margin first
    assert cases_of(seen, "fixed") == ["c"]
    assert cases_of(seen, "persisting") == ["e", "d"]
    assert cases_of(seen, "dropped") == ["f"]
    assert seen.page.locator("#surfaced").count() == 0
    assert seen.texts("#new .card >> nth=0 >> .said > span") == [
        "before held +3.0° → +4.0°",
        "after violated +3.0° → +14.0°",
    ]
    assert seen.texts("#dropped .status") == ["violated", "skipped"]
    assert "findings new: 2" in seen.page.text_content("#failure")
    assert len(seen.texts(".rules tbody tr")) == 3


def test_pictures_of_both_folders_load(page: Path, visit: Opener) -> None:
    """d was kept by BEFORE alone, so its pictures are found there."""
    seen = visit(page)
    images = seen.page.locator(".pair:not(.later) img")
    assert images.count() == 12
    for index in range(12):
        images.nth(index).scroll_into_view_if_needed()
    loaded = "all => all.every(image => image.complete && image.naturalWidth === 320)"
    seen.page.wait_for_function(f"() => ({loaded})([...document.querySelectorAll('.pair:not(.later) img')])")
    assert seen.page.locator(".missing:visible").count() == 0
    assert (seen.console, seen.refused) == ([], [])
    assert {Path(address).parents[1].name for address in seen.requests if address.endswith(".png")} == {"before", "after"}


def test_page_may_be_elsewhere(tmp_path: Path, visit: Opener) -> None:
    before, after = two_runs(tmp_path / "deep" / "runs")
    path = tmp_path / "out" / "pages" / "x.html"
    code = main(["compare", str(before.folder), str(after.folder), "--page", str(path)])
    assert code == 1
    seen = visit(path)
    seen.page.locator("#fixed img >> nth=0").scroll_into_view_if_needed()
    seen.page.wait_for_function("() => document.querySelector('#fixed img').naturalWidth === 320")


def test_viewer_shows_both_answers(page: Path, visit: Opener) -> None:
    """The lightbox is the report's: the follow-up with the answer of each model, then source and follow-up."""
    seen = visit(page)
    first, second = seen.page.eval_on_selector_all("#new .card", "all => all.map(card => card.id)")
    seen.page.click("#new .card .pic >> nth=0")
    seen.page.wait_for_function(SHOWN, arg=first)
    captions = ".lightbox .caption"
    assert [text.split() for text in seen.texts(captions)] == [["before", "held", "+4.0°"], ["after", "violated", "+14.0°"]]
    assert seen.page.evaluate("location.hash") == f"#finding={first}"
    assert seen.page.locator(".lightbox .frame use.r").count() == 2
    seen.page.keyboard.press("p")
    seen.page.wait_for_function("() => document.querySelector('.lightbox .caption span').textContent === 'source'")
    assert [text.split() for text in seen.texts(captions)] == [["source", "+3.0°"], ["follow-up", "+14.0°"]]
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_function(SHOWN, arg=second)
    assert seen.texts(".lightbox .caption span >> nth=0") == ["before"]
    seen.page.keyboard.press("s")
    assert seen.page.get_attribute("#stage", "data-view") == "slider"
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#lightbox").is_visible()
    assert seen.console == []


def test_address_opens_a_finding(page: Path, visit: Opener) -> None:
    seen = visit(page)
    wanted = seen.page.get_attribute("#persisting .card >> nth=1", "id")
    seen.page.goto(f"{page.resolve().as_uri()}#finding={wanted}")
    seen.page.reload()
    seen.page.wait_for_function(SHOWN, arg=wanted)
    seen.page.goto(f"{page.resolve().as_uri()}#finding=0000")
    assert "is not on this page" in seen.page.text_content("#unknown")


def test_rules_and_words_filter(page: Path, visit: Opener) -> None:
    seen = visit(page)
    seen.page.select_option("#rule", label="blur")
    assert seen.shown() == ["e"]
    assert seen.page.text_content("#shown") == "1 of 6"
    seen.page.select_option("#rule", label="all")
    seen.page.fill("#text", "skipped")
    assert seen.shown() == ["f"]


def test_phone_and_dark_are_readable(page: Path, visit: Opener) -> None:
    phone = visit(page, width=390)
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.page.click("#new .card .pic >> nth=0")
    assert phone.page.evaluate("document.querySelector('.lightbox').scrollWidth") <= 390
    dark = visit(page, color_scheme="dark")
    assert dark.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 24)"


def test_hostile_texts_do_nothing(tmp_path: Path, visit: Opener) -> None:
    records = [finding(f"{text} {place}", text, Rotate(9.0), why=text) for place, text in enumerate(PAYLOADS)]
    same = [held("h", text) for text in PAYLOADS]
    after = Made([*records, *same]).write(tmp_path / "after")
    before = Made([*(replace(passed(one.trial.case, one.trial.rule)) for one in records), *same]).write(tmp_path / "before")
    seen = visit(write_comparison(compare(before, after), failure=PAYLOADS[0]))
    assert (seen.dialogs, seen.console, seen.refused) == ([], [], [])
    assert seen.page.locator("#new .card").count() == len(PAYLOADS)


def test_boxes_of_both_detectors_are_drawn(tmp_path: Path, visit: Opener) -> None:
    run = detector_run(tmp_path / "run")
    seen = visit(write_comparison(compare(run, run)))
    shots = seen.page.locator("#persisting .pair:not(.later)")
    assert shots.count() > 0
    assert shots.nth(0).locator("svg.overlay path").count() >= 2
    assert seen.page.locator("#persisting .card .overlay path").count() > 0
    assert seen.page.locator("#shapes span").count() > 0


def test_many_findings_stay_small(tmp_path: Path) -> None:
    """10,000 findings, of which the worst are on the page."""
    names = [f"case {place:05}" for place in range(5000)]
    bad, good = [finding(name, "turn", Rotate(9.0)) for name in names], [passed(name) for name in names]
    more = [finding(f"more {name}", "turn", Rotate(9.0)) for name in names]
    fixed = [passed(f"more {name}") for name in names]
    before, after = Made([*good, *more]).write(tmp_path / "a"), Made([*bad, *fixed]).write(tmp_path / "b")
    page = write_comparison(compare(before, after))
    assert page.stat().st_size < MOST_BYTES
    assert "5,000" in page.read_text()
    assert MOST_DRAWN < MOST_BYTES


def pages_of(seen: Visit) -> int:
    return len(re.findall(rb"/Type\s*/Page[^s]", seen.page.pdf(format="A4")))


def wide_tables(seen: Visit) -> list[float]:
    """How far tables reach beyond the paper."""
    seen.page.emulate_media(media="print")
    seen.page.set_viewport_size({"width": PAPER, "height": 1000})
    beyond = f"all => all.map(one => one.getBoundingClientRect().right - {PAPER}).filter(more => more > 0.5)"
    found: list[float] = seen.page.eval_on_selector_all("table", beyond)
    return found


def test_report_prints_on_few_pages(tmp_path: Path, visit: Opener) -> None:
    """A run with hundreds of findings: the summary, all rules and curves, and the first findings; no table is cut."""
    run = realistic(tmp_path / "run", drives=30, pictures=400)
    assert sum(1 for _ in run.findings()) > 300
    path = write_report(run)
    for scheme in ("light", "dark"):
        seen = visit(path, color_scheme=scheme)
        assert 2 <= pages_of(seen) <= MOST_PAGES
        assert wide_tables(seen) == []
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_comparison_prints_on_few_pages(tmp_path: Path, visit: Opener) -> None:
    names = [f"case {place:03}" for place in range(90)]
    bad, good = [finding(name, "turn", Rotate(9.0)) for name in names], [passed(name) for name in names]
    before, after = Made(good).write(tmp_path / "a"), Made(bad).write(tmp_path / "b")
    seen = visit(write_comparison(compare(before, after)))
    assert pages_of(seen) <= MOST_PAGES
    assert wide_tables(seen) == []
