"""The review page as a browser shows it: keys mark findings, marks reach the disk, and hostile names stay text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from swerve.review.exchange import import_marks
from swerve.review.marks import Judgement, Mark, MarkFile, read_marks
from swerve.review.page import Desk, render
from swerve.review.pictures import FindingPictures, ReviewPictures, Shot
from swerve.review.queue import queue
from swerve.review.server import ReviewServer, Service
from swerve.store.files import png_bytes
from swerve.store.record_json import Finding
from swerve.store.view import Run
from tests.fixture_runs import Made, Named, finding, held, keep_pictures, noise
from tests.page.test_report_page import PAYLOADS

if TYPE_CHECKING:
    from tests.page.conftest import Opener, Visit

pytestmark = pytest.mark.page

Reviewing = Callable[..., "Visit"]
SHOWN = "id => document.getElementById('stage').dataset.shown === id"


# A browser drops keys that come before its first frame.
FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def painted(seen: Visit) -> Visit:
    seen.page.wait_for_selector("#stage[data-shown]")
    seen.page.evaluate(FRAME)
    return seen


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Five findings of two rules, worst first e, d, c, b, a; the pictures of `a` are lost."""
    records = [finding(case, "blur" if case in "bd" else "turn", off=9.0 + place) for place, case in enumerate("abcde")]
    made = Made(records).write(tmp_path / "run")
    for place, record in enumerate(records[1:]):
        keep_pictures(made, record, noise(place, (320, 160)), noise(-place - 1, (320, 160)))
    return made


@pytest.fixture
def reviewing(visit: Opener, tmp_path: Path) -> Iterator[Reviewing]:
    """Opens a run's page on a server of its own."""
    blank = tmp_path / "blank.html"
    blank.write_text("")
    with ExitStack() as servers:

        def opened(run: Run, reviewer: str = "anna", *, width: int = 1280, sample: int = 0, **options: Any) -> Visit:
            findings = queue(run, sample, held=True) if sample else queue(run)
            service = Service(run, Desk(reviewer, findings), ReviewPictures(run))
            server = servers.enter_context(ReviewServer(service))
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            servers.callback(server.shutdown)
            seen = visit(blank, width, **options)
            seen.requests.clear()
            seen.page.goto(server.address)
            return painted(seen)

        yield opened


def words(run: Run) -> dict[str, str]:
    return {one.case: one.id for one in run.findings()}


def said(run: Run, reviewer: str = "anna") -> dict[str, Mark | None]:
    """What is on disk, by case."""
    names = {finding: case for case, finding in words(run).items()}
    return {names[key]: one.mark for key, one in read_marks(run.folder).get(reviewer, {}).items()}


def pressed(seen: Visit, *keys: str) -> None:
    for key in keys:
        seen.page.keyboard.press(key)
    seen.page.wait_for_function("() => pending === 0")


def case(seen: Visit) -> str:
    return str(seen.page.text_content("#case"))


def is_quiet(seen: Visit) -> bool:
    """Nothing went wrong, and nothing was asked of any other machine."""
    local = all(address.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")) for address in seen.requests)
    return local and not (seen.console or seen.dialogs or seen.refused)


def test_keys_mark_three(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    assert case(seen) == "e"
    pressed(seen, "1", "2", "3")
    assert said(run) == {"e": Mark.TRUE, "d": Mark.FALSE, "c": Mark.UNNATURAL}
    assert case(seen) == "b"
    assert seen.page.text_content("#status") == "Saved: unnatural."
    assert str(seen.page.text_content("#progress")).startswith("3 of 5 marked")
    assert is_quiet(seen)


def test_pictures_are_seen(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    seen.page.wait_for_function(SHOWN, arg=words(run)["e"])
    widths = seen.page.eval_on_selector_all(
        ".pane img", "all => all.map(image => [image.naturalWidth, image.offsetWidth > 400])"
    )
    assert widths == [[320, True], [320, True]]
    arrows = seen.page.eval_on_selector_all(".pane svg", "all => all.map(svg => svg.querySelectorAll('use').length)")
    assert arrows == [1, 3]  # the fixture has no label on the source


def test_lost_pictures_are_told(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    pressed(seen, *["ArrowRight"] * 4)
    seen.page.wait_for_function(SHOWN, arg=words(run)["a"])
    assert "No pictures: they were not kept" in str(seen.page.text_content("#missing"))
    pressed(seen, "2")
    assert said(run) == {"a": Mark.FALSE}


def test_slow_pictures_hold_up_nothing(run: Run, reviewing: Reviewing, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(self: ReviewPictures, finding: Finding) -> FindingPictures:
        go_on.wait(60)
        png = png_bytes(noise(7, (64, 32)).pixels)
        return FindingPictures((Shot("camera", png, png),))

    monkeypatch.setattr(ReviewPictures, "_build", slow)
    try:
        seen = reviewing(run)
        pressed(seen, *["ArrowRight"] * 4)
        seen.page.wait_for_selector("text=The pictures are being made…")
        assert case(seen) == "a"
        assert not seen.page.is_visible("#source img")  # those of the finding before
        pressed(seen, "ArrowLeft", "1", "ArrowLeft")
        seen.page.wait_for_function(SHOWN, arg=words(run)["b"])
        assert seen.page.is_hidden("#missing")
        assert said(run) == {"b": Mark.TRUE}
    finally:
        go_on.set()
    pressed(seen, "ArrowRight")
    seen.page.wait_for_function(SHOWN, arg=words(run)["a"])
    assert seen.page.eval_on_selector_all(".pane img", "all => all.map(image => image.naturalWidth)") == [64, 64]


def test_held_trials_have_two_marks(tmp_path: Path, reviewing: Reviewing) -> None:
    run = Made([finding("a"), held("b")]).write(tmp_path / "run")
    seen = reviewing(run, sample=9)
    if case(seen) == "a":
        pressed(seen, "ArrowRight")
    assert (case(seen), seen.page.text_content("#origin")) == ("b", "held")
    assert seen.texts(".mark:enabled span") == ["natural", "unnatural"]
    pressed(seen, "2")
    quiet = next(row["id"] for row in run.trials() if row["case"] == "b")
    assert read_marks(run.folder) == {}
    pressed(seen, "1")
    assert read_marks(run.folder)["anna"] == {quiet: Judgement(quiet, Mark.NATURAL)}
    assert case(seen) == "a"
    assert seen.texts(".mark:enabled span") == ["true positive", "false positive", "unnatural"]
    pressed(seen, "2", "u", "u")
    assert case(seen) == "b"
    pressed(seen, "3")
    assert read_marks(run.folder)["anna"] == {quiet: Judgement(quiet, Mark.UNNATURAL)}
    assert is_quiet(seen)


def test_undo_takes_marks_back(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    pressed(seen, "1", "2", "u")
    assert said(run) == {"e": Mark.TRUE}
    assert case(seen) == "d"
    pressed(seen, "u", "u", "3")
    assert said(run) == {"e": Mark.UNNATURAL}


def test_undo_brings_old_marks_back(run: Run, reviewing: Reviewing) -> None:
    MarkFile(run.folder, "anna").add([Judgement(words(run)["e"], Mark.FALSE, "hm")])
    seen = reviewing(run)
    pressed(seen, "ArrowLeft", "1", "u")
    assert MarkFile(run.folder, "anna").read()[words(run)["e"]] == Judgement(words(run)["e"], Mark.FALSE, "hm")


def test_reload_remembers(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    pressed(seen, "1", "2")
    seen.page.reload()
    painted(seen)
    assert case(seen) == "c"
    pressed(seen, "ArrowLeft")
    assert seen.texts(".mark[aria-pressed=true]") == ["2 false positive"]


def test_comments_are_kept(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    pressed(seen, "c")
    seen.page.keyboard.type("1 wheel, 2 suns")
    pressed(seen, "Enter", "3")
    one = words(run)["e"]
    assert MarkFile(run.folder, "anna").read() == {one: Judgement(one, Mark.UNNATURAL, "1 wheel, 2 suns")}
    assert seen.page.input_value("#comment") == ""


def test_buttons_do_what_keys_do(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    seen.page.click("text=unnatural >> nth=0")
    seen.page.click("#next")
    seen.page.click(".mark[data-mark='true positive']")
    pressed(seen, " ")  # flips; it must not press the button again
    assert said(run) == {"e": Mark.UNNATURAL, "c": Mark.TRUE}


def test_held_key_marks_once(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    for _ in range(4):
        seen.page.keyboard.down("1")
    pressed(seen)
    assert said(run) == {"e": Mark.TRUE}


def test_space_flips(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    visible = "all => all.filter(pane => getComputedStyle(pane).visibility === 'visible').map(pane => pane.id)"
    shown = [seen.page.eval_on_selector_all(".pane", visible)]
    for key in (" ", " ", " ", "Escape", "z"):
        pressed(seen, key)
        shown.append(seen.page.eval_on_selector_all(".pane", visible))
    both = ["source", "followup"]
    assert shown == [both, ["followup"], ["source"], ["followup"], both, ["followup"]]


def test_filters_choose(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    pressed(seen, "1")
    seen.page.select_option("#rule", label="blur")
    assert (case(seen), seen.page.text_content("#place")) == ("d", "1 of 2")
    seen.page.select_option("#rule", "")
    seen.page.select_option("#state", "marked")
    assert (case(seen), seen.page.text_content("#place")) == ("e", "1 of 1")
    seen.page.select_option("#state", "conflict")
    assert seen.page.is_visible("#empty")
    seen.page.select_option("#state", "todo")
    assert seen.page.text_content("#place") == "1 of 4"


def test_others_show_after_ones_own(run: Run, reviewing: Reviewing) -> None:
    one = words(run)["e"]
    MarkFile(run.folder, "bob").add([Judgement(one, Mark.FALSE, "fine to me")])
    seen = reviewing(run)
    assert seen.texts("#others span") == []
    assert "fine to me" not in seen.page.content()
    pressed(seen, "1")
    assert seen.page.text_content("#status") == "Saved: true positive. But bob says false positive."
    pressed(seen, "ArrowLeft")
    assert seen.texts("#others span") == ["bob: false positive (fine to me)"]
    seen.page.select_option("#state", "conflict")
    assert seen.page.text_content("#place") == "1 of 1"


def test_two_windows_at_once(run: Run, reviewing: Reviewing) -> None:
    first, second = reviewing(run, "anna"), reviewing(run, "bob")
    pressed(first, "1")
    pressed(second, "2", "2")
    pressed(first, "1")
    assert said(run, "anna") == {"e": Mark.TRUE, "d": Mark.TRUE}
    assert said(run, "bob") == {"e": Mark.FALSE, "d": Mark.FALSE}


def test_unsaved_mark_is_shown(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    seen.page.route("**/mark", lambda route: route.abort())
    pressed(seen, "1")
    assert "Not saved: the swerve review server does not answer" in str(seen.page.text_content("#notice"))
    assert case(seen) == "e"
    assert seen.texts(".mark[aria-pressed=true]") == []
    assert "Saved" not in str(seen.page.text_content("#status"))
    seen.page.unroute("**/mark")
    pressed(seen, "2")
    assert not seen.page.is_visible("#notice")
    assert said(run) == {"e": Mark.FALSE}


def test_nothing_moves(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    places = (
        "['stage', 'comment', 'next', 'undo'].map(id => JSON.stringify(document.getElementById(id).getBoundingClientRect()))"
    )
    seen.page.wait_for_function(SHOWN, arg=words(run)["e"])
    before = seen.page.evaluate(places)
    for key in ("1", "2", "ArrowRight", "ArrowRight", " ", "ArrowLeft"):
        pressed(seen, key)
        assert seen.page.evaluate(places) == before


def test_hostile_names_stay_text(tmp_path: Path, reviewing: Reviewing) -> None:
    records = [finding(name, name, Named(name), off=99 - place, why=name) for place, name in enumerate(PAYLOADS)]
    run = Made(records, method=PAYLOADS[0]).write(tmp_path / "run")
    for record in run.findings():
        MarkFile(run.folder, PAYLOADS[7]).add([Judgement(record.id, Mark.FALSE, record.rule)])
    seen = reviewing(run, PAYLOADS[5])
    for name in PAYLOADS:
        assert [seen.page.text_content(f"#{spot}") for spot in ("words", "why", "rule-name", "case")] == [name] * 4
        pressed(seen, "1", "u", "1")
    assert seen.page.text_content("h1 bdi") == PAYLOADS[0]
    assert seen.page.text_content("#reviewer-name") == PAYLOADS[5]
    assert seen.texts("#rule option") == ["all", *PAYLOADS]
    pressed(seen, "ArrowLeft")
    assert PAYLOADS[7] in seen.texts("#others span")[0]
    assert is_quiet(seen)
    assert len(said(run, PAYLOADS[5])) == len(PAYLOADS)


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_overflows(width: int, tmp_path: Path, reviewing: Reviewing) -> None:
    long = "x" * 400
    run = Made([finding(long, long, Named(long), why=long)]).write(tmp_path / "run")
    seen = reviewing(run, "w" * 60, width=width)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_control_has_a_name(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run)
    named = "n => Boolean(n.textContent.trim() || n.labels?.[0]?.textContent.trim() || n.ariaLabel)"
    assert seen.page.eval_on_selector_all("button, select, textarea, input", f"all => all.every({named})")
    assert seen.page.get_attribute("#status", "aria-live") == "polite"
    assert seen.page.get_attribute("html", "lang") == "en"
    for _ in range(4):
        seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.matches('button, select, textarea')")


def test_dark_is_dark(run: Run, reviewing: Reviewing) -> None:
    seen = reviewing(run, color_scheme="dark")
    colour: str = seen.page.eval_on_selector("body", "node => getComputedStyle(node).backgroundColor")
    assert sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) < 150


@pytest.fixture
def alone(run: Run, tmp_path: Path) -> Path:
    """The page that needs no server."""
    path = tmp_path / "sent" / "review.html"
    path.parent.mkdir()
    path.write_text(render(run, Desk("", queue(run), pictures=ReviewPictures(run))))
    return path


def test_sent_page_works_offline(run: Run, alone: Path, visit: Opener, tmp_path: Path) -> None:
    seen = painted(visit(alone, offline=True))
    seen.page.wait_for_function(SHOWN, arg=words(run)["e"])
    assert seen.page.eval_on_selector_all(".pane img", "all => all.map(image => image.naturalWidth)") == [320, 320]
    pressed(seen, "1", "3", "c")
    seen.page.keyboard.type("=1+1")
    pressed(seen, "Escape", "2")
    seen.page.fill("#reviewer", '<b>"Cleo"</b>, =x')
    with seen.page.expect_download() as waiting:
        seen.page.click("#download")
    assert waiting.value.suggested_filename == "marks-b-cleo-b-x.csv"
    waiting.value.save_as(tmp_path / "marks.csv")
    assert ",'=1+1\n" in (tmp_path / "marks.csv").read_text()
    import_marks(run, tmp_path / "marks.csv")
    assert said(run, '<b>"Cleo"</b>, =x') == {"e": Mark.TRUE, "d": Mark.UNNATURAL, "c": Mark.FALSE}
    assert MarkFile(run.folder, '<b>"Cleo"</b>, =x').read()[words(run)["c"]].comment == "=1+1"
    assert is_quiet(seen)


def test_sent_page_remembers(alone: Path, visit: Opener) -> None:
    seen = painted(visit(alone))
    pressed(seen, "1", "2")
    again = seen.page.context.new_page()
    again.goto(alone.resolve().as_uri())
    assert again.text_content("#case") == "c"
    assert again.text_content("#progress").startswith("2 of 5 marked")


def test_sent_page_warns_before_it_goes(alone: Path, visit: Opener) -> None:
    seen = painted(visit(alone))
    leave = "() => !dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    assert seen.page.evaluate(leave) is False
    pressed(seen, "1")
    assert seen.page.evaluate(leave) is True
    seen.page.fill("#reviewer", "cleo")
    with seen.page.expect_download():
        seen.page.click("#download")
    assert seen.page.evaluate(leave) is False


def test_sent_page_asks_for_a_name(alone: Path, visit: Opener) -> None:
    seen = painted(visit(alone))
    pressed(seen, "1")
    seen.page.click("#download")
    assert str(seen.page.text_content("#notice")).startswith("Enter your name first")
    assert seen.page.evaluate("document.activeElement.id") == "reviewer"
