"""What the page says of runs made by hand."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from swerve.analysis import numbers as report_numbers
from swerve.analysis.numbers import RuleCounts, numbers_of
from swerve.core.campaign import Record
from swerve.core.errors import EnvironmentFault
from swerve.core.origin import Origin
from swerve.core.values import Boxes2D, Group, Region, Signal, Steering, Value
from swerve.report import finding_cards
from swerve.report.html import write_report
from swerve.report.words import answer_words, in_words
from swerve.store.files import json_bytes
from swerve.store.record_json import record_row
from swerve.store.view import Run
from swerve.transformations.affine import Rotate, Scale, Shear
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import MIXED, SEEN, Made, failed, finding, held, keep_file, keep_pictures, noise, skipped

VOID = {"meta", "link", "img", "input", "br"}
SVG = {"path", "rect", "use", "circle"}


@dataclass
class Element:
    """A parsed element; `text` is all the text inside it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        wanted = {name.strip("_"): value for name, value in attributes.items()}
        return [item for item in self.walk() if item.fits(tag, wanted)]

    def one(self, tag: str = "", **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    def fits(self, tag: str, wanted: dict[str, str]) -> bool:
        return tag in ("", self.tag) and all(
            value in self.attributes.get(name, "").split() for name, value in wanted.items()
        )

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            yield from child.walk()


class Page(HTMLParser):
    """A page that is well formed: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.top = Element("", {})
        self.open = [self.top]
        self.source = text
        self.feed(text)
        assert [item.tag for item in self.open] == [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for item in self.open:
            item.text += data


def page_of(run: Run) -> Element:
    return Page(write_report(run).read_text()).top


def counts_of(page: Element) -> dict[str, int]:
    shown = [item for item in page.walk() if "data-count" in item.attributes]
    return {item.attributes["data-count"]: int(item.text.replace(",", "")) for item in shown}


@pytest.fixture
def mixed(tmp_path: Path) -> Run:
    return Made(MIXED, SEEN, {"rotate": (1, 9)}).write(tmp_path / "run")


def test_numbers_add_up(mixed: Run) -> None:
    counts = counts_of(page_of(mixed))
    assert counts == {"trials": 15, "held": 6, "violated": 3, "skipped": 4, "errors": 2}
    assert counts["trials"] == sum(counts.values()) - counts["trials"]


def test_bar_fills_its_length(mixed: Run) -> None:
    bars = [item for item in page_of(mixed).one("svg", class_="stack").all("rect") if item.attributes["class"] != "none"]
    assert [item.attributes["class"] for item in bars] == ["held", "violated", "skipped", "errors"]
    assert sum(float(item.attributes["width"]) for item in bars) == pytest.approx(1000, abs=0.1)


def test_first_screen_is_the_verdict(tmp_path: Path) -> None:
    broken = [finding(f"c{index}", "turn", Rotate(9.0)) for index in range(30)]
    sound = [held(f"c{index}", "turn", Rotate(3.0)) for index in range(30)] + [
        held(f"c{index}", "blur") for index in range(90)
    ]
    run = Made([*broken, *sound]).write(tmp_path / "run")
    keep_pictures(run, broken[4], noise(1), noise(2))
    page = page_of(run)
    assert [item.text for item in page.all("p", class_="verdict")] == [
        "Turn breaks this system (50% of trials fail); turn fails from 9°.",
        "Blur holds (at most 4.1% may fail, 95% Wilson).",
    ]
    tiles = page.all("div", class_="tile")
    assert [(tile.attributes["class"].split()[-1], tile.one("a").all("b")[-1].text) for tile in tiles] == [
        ("breaks", "50.0%"),
        ("holds", "0.0%"),
    ]
    assert tiles[0].one("small").text == "holds up to 3°, fails from 9°"
    assert tiles[0].one("a").attributes["href"] == "#rule=turn"
    assert [item.text for item in page.one(id="todo").all("code")] == [
        f"swerve review {run.folder}",
        f"swerve shrink {run.folder} --all --most 20",
        f"swerve retrain {run.folder} --into DIR",
        f"swerve compare {run.folder} OTHER",
    ]
    assert page.one(id="tested").text.startswith("0 cases, 2 rules: 30 of 150 judged trials violated")
    assert not page.all(class_="told")  # the picture is not that of the group's mildest finding
    folded = page.one(id="configuration")
    assert "world, drives 20, frames 2, seed 7, split test" in folded.text
    assert "torch2.6" in folded.text


def test_telling_findings_differ(tmp_path: Path) -> None:
    """One of each kind of change, of different cases."""
    changes = {
        "turn": Rotate(9.0),
        "light": Brighten(20.0),
        "both": Rotate(3.0),
        "zoom": Scale(2.0, 2.0),
        "blur": Shear(-0.1),
    }
    found = [finding("a" if rule in ("zoom", "blur") else rule, rule, change) for rule, change in changes.items()]
    run = Made(found).write(tmp_path / "run")
    for record in found:
        keep_pictures(run, record, noise(1), noise(2))
    told = page_of(run).all(class_="told")
    assert [item.one(class_="words").text.split()[0] for item in told] == ["sheared", "brightened", "rotated"]


def test_row_tells_rule_whole(mixed: Run) -> None:
    row, total = page_of(mixed).one("table", class_="rules").one("tbody").all("tr")
    cells = [item.text.strip() for item in row.all("td")]
    assert cells[:2] == ["15", "3"]
    assert re.fullmatch(r"33\.3% 12\.1% – 64\.6%", cells[2])
    assert cells[3:] == ["1", "1", "1", "1 of 9", "4", "2"]
    assert total.text.split()[:4] == ["all", "rules", "15", "3"]


def test_rules_without_trials_are_listed(tmp_path: Path) -> None:
    run = Made([], SEEN).write(tmp_path / "run")
    assert [line.name for line in numbers_of(run).rules] == ["rotate"]
    assert "nothing judged" in page_of(run).one("table", class_="rules").text


def test_clean_run_says_so(tmp_path: Path) -> None:
    run = Made([held(f"c{index}") for index in range(40)]).write(tmp_path / "run")
    page = page_of(run)
    assert page.one(id="headline").text == "No findings: all 40 judged trials held (at most 8.8% may fail, 95% Wilson)."
    assert page.one(id="no-findings").text == "No findings: no judged trial violated its rule."
    assert "Every case was usable, and every trial was judged." in page.text
    assert not page.all("article")
    assert not page.all(id="unfinished")


def test_stopped_run_says_so(tmp_path: Path) -> None:
    run = Made(MIXED, SEEN, finished=False).write(tmp_path / "run")
    page = page_of(run)
    assert page.one(id="unfinished").text.startswith("This campaign has not finished: the numbers cover the 15 trials")
    assert counts_of(page)["trials"] == 15
    assert "not yet known" in page.one("table", class_="rules").text


def test_run_stopped_in_baseline_says_so(tmp_path: Path) -> None:
    page = page_of(Made([], SEEN, finished=False).write(tmp_path / "run"))
    assert page.one(id="headline").text == "The run has no trials, so it says nothing about the system."
    assert counts_of(page) == dict.fromkeys(("trials", "held", "violated", "skipped", "errors"), 0)


def test_journal_alone_is_enough(tmp_path: Path) -> None:
    run = Made([], finished=False).write(tmp_path / "run")
    (run.folder / "journal.jsonl").unlink(missing_ok=True)
    assert counts_of(page_of(run))["trials"] == 0


def test_errors_alone_say_so(tmp_path: Path) -> None:
    run = Made([failed(f"c{index}", "RuntimeError: no") for index in range(5)]).write(tmp_path / "run")
    page = page_of(run)
    assert page.one(id="headline").text.startswith("No trial could be judged (0 skipped, 5 errors)")
    assert page.one(id="no-findings").text == "No findings, because no trial could be judged."
    assert counts_of(page)["errors"] == 5


ENDINGS = {  # R54
    "clean": Made([held(f"c{index}") for index in range(9)], SEEN),
    "stopped": Made(MIXED, SEEN, finished=False),
    "stopped before a finding": Made([held("a"), skipped("b", "no")], SEEN, finished=False),
    "stopped in the baseline": Made([], SEEN, finished=False),
    "errors alone": Made([failed(f"c{index}", "RuntimeError: no") for index in range(5)], SEEN),
    "skips alone": Made([skipped(f"c{index}", "no label") for index in range(5)], SEEN),
    "unusable cases alone": Made([], SEEN[-1:]),
}


@pytest.mark.parametrize("made", ENDINGS.values(), ids=ENDINGS)
def test_sums_add_up_however_a_run_ends(made: Made, tmp_path: Path) -> None:
    page = page_of(made.write(tmp_path / "run"))
    counts = counts_of(page)
    assert counts["trials"] == len(made.records) == sum(counts.values()) - counts["trials"]
    assert counts["violated"] == sum(
        int(group.one(class_="hits").all("b")[0].text) for group in page.all("li", class_="group")
    )
    assert bool(page.all(id="no-findings")) == (counts["violated"] == 0)
    assert bool(page.all(id="unfinished")) == (not made.finished)
    told = page.one(id="unjudged").all("tr")
    unjudged = [int(row.children[0].text) for row in told if row.children[0].fits("td", {"class": "n"})]
    reasons = sum(unjudged) if page.all("table", class_="reasons") else 0
    assert reasons == counts["skipped"] + counts["errors"] + sum(bool(seen.fault) for seen in made.seen)


def test_groups_lead_the_gallery(tmp_path: Path) -> None:
    left = [finding(f"c{index}", off=10.0 + index) for index in range(5)]
    right = [finding(f"c{index}", off=-90.0, change=Rotate(5.0)) for index in range(2)]
    page = page_of(Made([*right, *left, held("h")], SEEN).write(tmp_path / "run"))
    first, second = page.all("li", class_="group")
    assert [item.one(class_="hits").text for item in (first, second)] == ["5 findings in 5 cases", "2 findings in 2 cases"]
    assert [item.one(class_="direction").text for item in (first, second)] == ["further left", "further right"]
    assert (first.one(class_="case").text, first.one(class_="family").text) == ("c4", "rotate")
    assert first.one("code").text.endswith(page.all("article")[2].attributes["id"])
    assert first.one("a", class_="filter").text == "show its 5 findings"
    assert [card.attributes["data-g"] for card in page.all("article")] == ["2", "2", "1", "1", "1", "1", "1"]
    sections = [item.attributes["id"] for item in page.all("section") if "id" in item.attributes]
    assert sections == ["rules", "strength", "domain", "groups", "gallery", "unjudged"]
    linked = [item.attributes["href"] for item in page.one("nav").all("a")]
    assert linked == ["#top", *(f"#{name}" for name in sections)]


def test_many_groups_are_folded(tmp_path: Path) -> None:
    records = [finding("c", f"rule {index}", off=10.0 + index) for index in range(70)]
    page = page_of(Made(records).write(tmp_path / "run"))
    assert len(page.all("li", class_="group")) == 60
    folded = page.one(id="groups").one("details")
    assert len(folded.all("li", class_="group")) == 48
    assert folded.one("summary").text == "48 more groups"
    assert "The other 10 are in tables/groups.csv." in page.text


def test_worst_of_a_group_is_shown_though_not_among_the_best(tmp_path: Path) -> None:
    records = [finding(f"c{index}", off=20.0 + index) for index in range(205)]
    page = page_of(Made([*records, finding("odd", off=-6.0)]).write(tmp_path / "run"))
    assert len(page.all("article")) == 201
    many, odd = page.all("li", class_="group")
    assert odd.one(class_="case").text == "odd"
    assert many.one("a", class_="filter").text == "show 200 of its 205 findings"
    assert odd.one("a", class_="filter").text == "show this finding"


def write_shrunk(run: Run, record: Record, small: Record) -> None:
    (run.folder / "shrunk").mkdir(exist_ok=True)
    told = {"of": record.id, "edges": ["degrees fails at 2°, holds at 1.9°"], "tries": 9, "row": record_row(small)}
    (run.folder / "shrunk" / f"{record.id}.json").write_bytes(json_bytes(told))


def test_smallest_change_is_told(tmp_path: Path) -> None:
    large, other = finding("a", off=30.0), finding("b", off=20.0)
    run = Made([large, other]).write(tmp_path / "run")
    write_shrunk(run, large, finding("a", change=Rotate(2.0), off=6.0))
    page = page_of(run)
    told = "smallest failing change rotated 2° counter-clockwise; degrees fails at 2°, holds at 1.9°"
    assert [item.text for item in page.all(class_="smallest")] == [told, told]  # of the group and of the finding
    assert not page.all("article")[1].all(class_="smallest")


def write_health(run: Run, concerns: list[dict[str, str]]) -> None:
    baseline = {"cases": 3, "unusable": 1, "mse": 1 / 3, "unit": "degrees", "by_metres": {"2": 0.5}}
    (run.folder / "health.json").write_bytes(json_bytes({"baseline": baseline, "concerns": concerns, "healthy": True}))


def test_health_is_told(mixed: Run) -> None:
    assert not page_of(mixed).all(id="health")
    write_health(mixed, [])
    assert page_of(mixed).one(id="health").text.split("\n")[1:-1] == [
        "untouched systemmse 0.3333, unit degrees",
        "healthno concerns",
    ]
    concerns = [{"name": name, "level": name, "why": f"because of a {name}"} for name in ("note", "warning")]
    write_health(mixed, concerns)
    note, warning = page_of(mixed).all("p", class_="concern")
    assert (note.text, note.attributes["class"]) == ("note: note because of a note", "concern")
    assert (warning.text, warning.attributes["class"]) == ("warning: warning because of a warning", "concern notice")


@pytest.mark.parametrize("torn", ["", "[]", '{"baseline": 3, "concerns": 4}', '{"baseline": {}, "concerns": [7]}'])
def test_torn_health_is_no_health(torn: str, mixed: Run) -> None:
    (mixed.folder / "health.json").write_text(torn)
    assert not page_of(mixed).all("p", class_="concern")


def test_stale_summary_is_not_believed(tmp_path: Path) -> None:
    run = Made(MIXED, SEEN).write(tmp_path / "run")
    (run.folder / "summary.json").write_text('{"trials": 3, "held": 3}')
    assert counts_of(page_of(run))["trials"] == 15
    assert page_of(run).all(id="unfinished")


@pytest.mark.parametrize("torn", ["", "{", "[]", "null"])
def test_torn_summary_is_no_summary(torn: str, tmp_path: Path) -> None:
    run = Made(MIXED).write(tmp_path / "run")
    (run.folder / "summary.json").write_text(torn)
    assert page_of(run).all(id="unfinished")


def test_reasons_are_grouped(mixed: Run) -> None:
    rows = page_of(mixed).one("table", class_="reasons").one("tbody").all("tr")
    told = [[cell.text.strip() for cell in row.all("td")] for row in rows]
    assert told[0] == [
        "4",
        "skipped",
        "50.5% of the image is border fill, more than 50.0% and similar, with other numbers",
        "s0",
    ]
    assert ["1", "model error", "RuntimeError: shapes do not match", "e"] in told
    assert ["1", "timeout error", "too slow", "f"] in told
    assert ["1", "unusable case", "lost: not a PNG", "lost"] in told


def test_reasons_add_up_beyond_twenty(tmp_path: Path) -> None:
    records = [skipped(f"c{index}", f"reason {'x' * index}") for index in range(30)]
    rows = page_of(Made(records).write(tmp_path / "run")).one("table", class_="reasons").one("tbody").all("tr")
    assert len(rows) == 21
    assert sum(int(row.children[0].text) for row in rows) == 30
    assert "10 more reasons" in rows[-1].text


def test_endless_reasons_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_numbers, "MOST_REASONS", 5)
    records = [skipped(f"c{index}", f"reason {'x' * index}") for index in range(30)]
    reasons = numbers_of(Made(records).write(tmp_path / "run")).reasons
    assert (reasons[0].why, reasons[0].count, len(reasons)) == ("other reasons", 25, 6)


def test_unknown_origin_is_no_zero(tmp_path: Path) -> None:
    """Labels that a rule does not go by are not denied, and what is not known is not counted as 0."""
    truths: dict[str, tuple[Value, ...]] = {"a": (Steering(1.0),), "b": (), "c": (Region(()),)}
    told = [replace(finding(case), origin=Origin.UNKNOWN, truth=truth) for case, truth in truths.items()]
    run = Made(told, SEEN).write(tmp_path / "run")
    assert {one.origin for one in run.findings()} == {Origin.UNKNOWN}
    row = page_of(run).one("table", class_="rules").one("tbody").all("tr")[0]
    cells = [cell.text.strip() for cell in row.all("td")]
    assert cells[3:6] == ["–", "–", "3"]
    assert [numbers_of(run).overall.number_of(origin) for origin in Origin] == [None, None, None, None, 3]
    assert [RuleCounts("none", held=5).number_of(origin) for origin in Origin] == [0, 0, 0, 0, 0]
    some = RuleCounts("some", violated=5, origins={Origin.INTRODUCED: 1, Origin.UNKNOWN: 4})
    assert [some.number_of(origin) for origin in Origin] == [1, 0, 0, 0, 4]


def test_every_origin_that_occurs_has_a_column(tmp_path: Path) -> None:
    origins = [Origin.INTRODUCED, Origin.MADE_WORSE, Origin.MADE_WORSE, Origin.MARGINAL]
    told = [replace(finding(str(place)), origin=origin) for place, origin in enumerate(origins)]
    page = page_of(Made(told, SEEN).write(tmp_path / "run"))
    heads = [head.text for head in page.one("table", class_="rules").one("thead").all("th")]
    assert heads[4:8] == ["introduced", "made worse", "already wrong", "marginal"]
    row = page.one("table", class_="rules").one("tbody").all("tr")[0]
    counted = {cell.attributes["data-origin"]: cell.text for cell in row.all("td") if "data-origin" in cell.attributes}
    assert counted == {"introduced": "1", "made-worse": "2", "already-wrong": "0", "marginal": "1"}
    badges = Counter(card.one(class_="origin").text for card in page.all("article"))
    assert badges == {"introduced": 1, "made worse": 2, "marginal": 1}
    assert [option.attributes["value"] for option in page.one(id="origin").all("option")] == ["", *Origin]


def test_card_shows_what_was_measured(tmp_path: Path) -> None:
    facts = {"fill": 0.125, "edge_correlation": 0.8765432, "lost": 0.0, "lost.car": 2.0, "introduced_rows": "0 3"}
    run = Made([replace(finding("a"), facts=facts)], SEEN).write(tmp_path / "run")
    (card,) = page_of(run).all("article")
    assert " ".join(card.one(class_="facts").text.split()) == ("measured fill 0.125, edge correlation 0.8765")
    assert not page_of(Made([finding("a")], SEEN).write(tmp_path / "none")).all(class_="facts")


def test_cards_that_convince_come_first(mixed: Run) -> None:
    """By margin, but what was already wrong says little about the change."""
    cards = page_of(mixed).all("article")
    assert [card.one(class_="case").text for card in cards] == ["c", "a", "b"]
    assert [card.one(class_="origin").text for card in cards] == ["unknown origin", "introduced", "already wrong"]
    assert {card.one(class_="badge").text for card in cards} == {"rotate"}  # a badge for the rule
    assert [float(card.attributes["data-m"]) for card in cards] == [15, 7, 45]


def test_mild_changes_come_before_strong_ones(tmp_path: Path) -> None:
    """And each case once before any is repeated, whatever the margins."""
    changes = {"a": (30.0, 3.0, 12.0), "b": (24.0, 6.0), "c": (9.0,)}
    found = [finding(case, change=Rotate(angle), off=5.0 + angle) for case, angles in changes.items() for angle in angles]
    empty = replace(finding("d", change=Rotate(3.5), off=39.0), facts={"fill": 0.45})
    page = page_of(Made([*found, empty]).write(tmp_path / "run"))
    words = [card.one(class_="words").text.split()[1] for card in page.all("article")]
    assert words == ["3°", "6°", "9°", "3.5°", "12°", "24°", "30°"]
    group = page.all("li", class_="group")[0]
    assert (group.one(class_="words").text, group.one(class_="case").text) == ("rotated 3° counter-clockwise", "a")


def test_group_says_where_it_holds(tmp_path: Path) -> None:
    fails = finding("a", change=Rotate(9.0))
    milder = [held("a", change=Rotate(3.0)), held("a", change=Rotate(6.0)), held("a", change=Rotate(-8.0)), held("b")]
    page = page_of(Made([fails, finding("b", change=Rotate(12.0)), *milder]).write(tmp_path / "run"))
    (group,) = page.all("li", class_="group")
    assert group.one(class_="smallest").text == "on this case degrees fails at 9°, holds at 6°"


def test_follow_up_of_two_rules_has_one_card(tmp_path: Path) -> None:
    one, two = finding("a", "own answer", off=20.0), finding("a", "label", off=9.0)
    two = replace(two, input_sha=one.input_sha)
    page = page_of(Made([one, two, finding("b", "label", off=15.0)]).write(tmp_path / "run"))
    first, second = page.all("article")
    assert (first.attributes["data-r"], first.attributes["data-g"], first.attributes["data-ids"]) == ("0 1", "2 1", two.id)
    assert [item.text for item in first.all(class_="also")] == ["also label 9.0° apart: +3.0° became +12.0° (limit 5°)"]
    assert [item.text for item in first.all(class_="badge") if item.text != "also"] == ["own answer", "label"]
    assert "data-ids" not in second.attributes
    assert "Showing, of" not in page.text
    links = {item.one("a", class_="filter").text for item in page.all("li", class_="group")}
    assert links == {"show its 2 findings", "show this finding"}


def test_card_tells_how_to_replay(mixed: Run) -> None:
    card = page_of(mixed).all("article")[2]
    assert card.one("code").text == f"swerve replay {mixed.folder} {card.attributes['id']}"
    assert "rotated 9° counter-clockwise" in card.text
    assert "+3.0° became +53.0°" in card.one(class_="why").text
    assert "pictures not kept: swerve report --keep, swerve review and swerve replay rebuild them" in card.text


def test_folder_with_spaces_is_quoted(tmp_path: Path) -> None:
    run = Made([finding("a")]).write(tmp_path / "my run's")
    assert page_of(run).one("article").one("code").text.startswith("swerve replay '/")


def test_arrows_are_blue_and_red(tmp_path: Path) -> None:
    record = finding("a", off=200.0)
    run = Made([record], SEEN).write(tmp_path / "run")
    keep_pictures(run, record, noise(1), noise(2))
    left, right = page_of(run).one("article").all("a", class_="pic")
    arrows = [[(use.attributes["class"], use.attributes["transform"]) for use in side.all("use")] for side in (left, right)]
    # Left is positive, and turns anti-clockwise; the wheel's +203° stop at 90°. The label stands at 2.5°, then at 3°.
    assert arrows[0] == [("l", "rotate(-2.5)"), ("k", "rotate(-3.0)")]
    assert arrows[1] == [("l", "rotate(-3.0)"), ("k", "rotate(-3.0)"), ("r", "rotate(-90.0)")]


def test_pictures_say_their_size(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_pictures(run, record, noise(1, (64, 32)), noise(2, (64, 32)))
    source, followup = page_of(run).one("article").all("img")
    assert source.attributes["src"] == f"../findings/{record.source_sha[:16]}-camera.png"
    assert followup.attributes["src"] == f"../findings/{record.input_sha[:16]}-camera.png"
    assert {(item.attributes["width"], item.attributes["height"]) for item in (source, followup)} == {("64", "32")}
    assert {item.attributes["loading"] for item in (source, followup)} == {"lazy"}


def test_other_sensors_have_no_picture(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_file(run, record.source_sha, "lidar.npy")
    keep_file(run, record.input_sha, "lidar.npy")
    keep_file(run, record.source_sha, "left.png")  # without its other half
    card = page_of(run).one("article")
    assert "no pictures among the inputs" in card.text
    assert not card.all("img")


def test_other_answers_are_words() -> None:
    boxes = Boxes2D(np.zeros((3, 4)), ("car",) * 3)
    several: tuple[Value, ...] = (Steering(-3.25), boxes, Signal("collision", 0.82), Signal("speed", 12.0, " m/s"))
    assert answer_words(several) == "-3.2°, 3 boxes, collision 0.82, speed 12 m/s"
    assert answer_words((Group((Steering(1), Steering(2), Steering(3), Steering(4))),)) == "(+1.0°, +2.0°, +3.0°, …)"


def test_answers_without_angle_have_no_arrow(tmp_path: Path) -> None:
    risky, safe = (Signal("collision", 0.82),), (Signal("collision", 0.1),)
    record = replace(finding("a"), before=safe, after=risky, truth=())
    run = Made([record]).write(tmp_path / "run")
    keep_pictures(run, record, noise(1), noise(2))
    card = page_of(run).one("article")
    assert not card.all("use")
    assert "collision 0.82" in card.one(class_="said").text


def test_parts_are_told_in_words() -> None:
    assert in_words({"use": "world", "drives": 20, "split": "test"}) == "world, drives 20, split test"
    assert in_words({"live": "mine:model"}) == "mine:model (a Python object)"
    assert in_words({"use": "both", "relations": [{"use": "a"}, {"use": "b", "by": 0.5}]}) == "both, a and b, by 0.5"
    assert in_words({"use": "brighten", "beta": [1, 40.5]}) == "brighten, beta 1 to 40.5"
    assert in_words({"use": "skies", "names": ["rain", "fog"]}) == "skies, names rain, fog"
    assert in_words({"use": "table", "of": list(range(9))}) == "table, of 0, 1, 2, 3, 4, 5, 6, 7, …"
    assert in_words(None) == "none"


def test_curve_is_drawn_with_its_sentence(tmp_path: Path) -> None:
    records = [
        *(held(f"c{index}", change=Rotate(3.0)) for index in range(40)),
        *(finding(f"c{index}", change=Rotate(9.0)) for index in range(30)),
    ]
    page = page_of(Made(records, (), {"rotate": (2, 40)}).write(tmp_path / "run"))
    chart = page.one("figure", class_="chart")
    assert len(chart.all("path", class_="point")) == 2
    assert [item.text for item in chart.all("text", class_="axis")] == ["trials that fail", "degrees (°)"]
    assert [item.text for item in chart.all("text", class_="x")] == ["0", "2", "4", "6", "8", "10", "degrees (°)"]
    assert "Held on all 40 trials up to 3°" in chart.one("figcaption").text
    assert chart.all("path", class_="untouched")
    assert [item.attributes["href"] for item in chart.all("a")] == ["#rule=rotate&value=9..9"]  # 3° has no finding


def test_page_says_what_it_leaves_out(tmp_path: Path) -> None:
    page = page_of(Made([finding(f"c{index}", off=10 + index / 10) for index in range(205)]).write(tmp_path / "run"))
    assert len(page.all("article")) == 200
    assert "Showing, of 205 findings, the 200 with the largest margin per rule and the mildest of each group." in page.text


def test_page_stays_small(tmp_path: Path) -> None:
    records = [finding(f"case-{index:05d}/0001", off=10 + index / 10) for index in range(100)]
    run = Made(records).write(tmp_path / "run")
    for record in records:
        keep_pictures(run, record, noise(1), noise(2))
    assert write_report(run).stat().st_size < 100 * 2500
    assert finding_cards.MOST_CARDS * 2500 < 5e6  # R12


def test_page_of_many_rules_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_cards, "MOST_CARDS", 60)
    records = [finding(f"c{index}", f"rule {index % 20}", off=10.0 + index) for index in range(100)]
    run = Made([*records, finding("odd", "rule 0", off=-6.0)]).write(tmp_path / "run")
    page = page_of(run)
    assert len(page.all("article")) == 81  # three of each rule, the mildest of each, and the odd one
    assert "the 3 with the largest margin per rule" in page.text


def test_page_of_many_boxes_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards with drawings of many boxes are fewer, so that the page has the same size."""
    monkeypatch.setattr(finding_cards, "MOST_CARDS", 40)
    rng = np.random.default_rng(0)
    boxes = Boxes2D(np.sort(rng.uniform(0, 640, (60, 4)), axis=1), tuple(f"kind {index % 9}" for index in range(60)))
    crowded = [replace(finding(f"c{index}", f"rule {index % 2}", off=10.0 + index), after=(boxes,)) for index in range(40)]
    run = Made(crowded, method="custom").write(tmp_path / "run")
    for record in crowded:
        keep_pictures(run, record, noise(1), noise(2))
    page = page_of(run)
    shown = len(page.all("article"))
    assert 10 <= shown < 40
    assert f"the {shown // 2} with the largest margin per rule" in page.text
    drawn = [card.one("path", class_="after").attributes["d"].count("M") for card in page.all("article")]
    assert drawn == [60] * shown  # no box is left out
    assert {card.attributes["id"] for card in page.all("article")} >= {
        item.attributes["data-id"] for item in page.all("li", class_="group")
    }


def test_page_is_the_same_twice(mixed: Run) -> None:
    assert write_report(mixed).read_bytes() == write_report(mixed).read_bytes()


def test_page_loads_nothing(mixed: Run) -> None:
    path = write_report(mixed)
    page = Page(path.read_text()).top
    addresses = [value for item in page.walk() for name, value in item.attributes.items() if name in ("src", "href")]
    assert all(value.startswith(("../findings/", "#", "data:,")) for value in addresses)
    assert not [item for item in page.walk() for name in item.attributes if name == "style" or name.startswith("on")]


def test_policy_allows_our_own_alone(mixed: Run) -> None:
    page = page_of(mixed)
    (policy,) = [item.attributes["content"] for item in page.all("meta") if "http-equiv" in item.attributes]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (own,) = [item for item in page.all(tag) if item.attributes.get("type") != "application/json"]  # data, never run
        digest = base64.b64encode(hashlib.sha256(own.text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    run = Made([finding("bad\udcff name\x00\x1b[31m\r")]).write(tmp_path / "run")
    assert page_of(run).one("article").one(class_="case").text == "bad\\udcff name␀␛[31m␍"


def test_report_in_read_only_folder_says_why(mixed: Run) -> None:
    (mixed.folder / "report").write_text("in the way")
    with pytest.raises(EnvironmentFault, match="is a file, not a folder"):
        write_report(mixed)
