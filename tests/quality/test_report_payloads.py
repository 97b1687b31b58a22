"""R53: five hundred hostile texts in every place where a user's text may stand: shown literally, nothing new on the page."""

from __future__ import annotations

import itertools
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

from swerve.core.campaign import Observation
from swerve.report.html import write_report
from tests.fixture_runs import Made, Named, failed, finding, skipped

OPENINGS = ("", '"', "'", "</title>", "</script>", "</style>", "</textarea>", "-->", "]]>", "</svg>", "</template>", "`")
ACTS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<a href=javascript:alert(1)>x</a>",
    "<form action=//evil><button>x",
    "<base href=//evil>",
    "<link rel=stylesheet href=//evil>",
    "<meta http-equiv=refresh content=0>",
    "<object data=//evil>",
    "<details open ontoggle=alert(1)>",
    " onmouseover=alert(1) x=",
    " style=position:fixed x=",
    "${alert(1)}",
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
    "<math><mtext><script>alert(1)</script>",
    "<!--",
)
CLOSINGS = ("", ">", "<!--\u202e")
PAYLOADS = ["".join(parts) for parts in itertools.product(OPENINGS, ACTS, CLOSINGS)]


class Elements(HTMLParser):
    """Every element and attribute name of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(folder: Path, names: list[str]) -> Elements:
    """The report of a run that is called by `names` in its cases, rules, changes, reasons, groups and faults."""
    records = [finding(name, name, Named(name), off=99.0, why=name) for name in names]
    unjudged = [make(name, name, name) for name in names for make in (skipped, failed)]
    lost = [Observation(name, name, fault=name, readable=False) for name in names]
    run = Made([*records, *unjudged], lost, {name: (1, 2) for name in names}, method=names[0]).write(folder)
    elements = Elements()
    elements.feed(write_report(run).read_text())
    return elements


def test_there_are_five_hundred() -> None:
    assert len(set(PAYLOADS)) >= 500


def test_hostile_names_add_nothing_to_the_page(tmp_path: Path) -> None:
    for number, start in enumerate(range(0, len(PAYLOADS), 54)):
        batch = PAYLOADS[start : start + 54]
        hostile = page(tmp_path / f"hostile-{number}", batch)
        plain = page(tmp_path / f"plain-{number}", [f"plain name {index}" for index in range(len(batch))])
        assert hostile.tags == plain.tags
        assert hostile.attributes == plain.attributes
        assert not [name for name in hostile.attributes if name.startswith("on")]
        shown = "".join(hostile.text)
        for text in batch:
            assert text.replace("\u202e", "\\x202e") in shown or text in shown
