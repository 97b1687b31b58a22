"""R44, R53, R55: hostile texts in a run folder, through every verb that shows or exports it: well-formed, and only text."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from swerve.cli.main import main
from swerve.report.notebook import FinishedRun
from swerve.store.files import FORMULA
from swerve.store.folder import clear_run
from swerve.store.view import Run
from tests.quality.test_foreign_folders import CAMPAIGN, bomb, rewrite
from tests.quality.test_report_payloads import Elements

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "]]></failure><script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>{{ 7 * 7 }}${7}',
    "\x00\x01\x1b[31m\x7f\x9b31m",
    "\ud800\ufffe\uffff",
    "\r\n::error file=x::y\n##[group]",
    "[bold]x[/nope] [link=file:///etc/passwd]y[/link]",
    "\u202egnp.exe\u2066",
    "javascript:alert(1)",
    "../../../etc/passwd%00",
    "x" * 100_000,
)
PLAIN = "a plain text"
FAIL_IF = 'within = 1 }\nfail_if = "rate > 0.5"\nrequirement = ["SYS-1", "SYS-2"]'
ISOLATED = "bdi"  # an element that holds a text apart; short texts need more of them, long ones fewer
EXPORTS = {"junit": "junit.xml", "sarif": "findings.sarif", "csv": "findings.csv"}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("honest")
    (home / "mine.toml").write_text(CAMPAIGN.replace("within = 1 }", FAIL_IF))
    assert main(["run", str(home / "mine.toml"), "--into", str(home / "run"), "--no-report", "--workers", "0"]) == 1
    return home / "run"


def with_text(honest: Path, folder: Path, text: str) -> str:
    """A copy of the run in which `text` stands wherever a text may; returns the id of a finding."""
    identity = json.loads((honest / "campaign.json").read_bytes())
    (rule,) = identity["campaign"]["rule"]
    rule.update(name=text, requirement=[text, f"{text}2"])
    identity.update(swerve=text, libraries={text: text}, assets={})
    identity["campaign"]["method"] = text
    rows: list[dict[str, Any]] = list(Run(honest).rows())
    for row in rows:
        row["case"] = f"{text}{row['case']}"
        if row["kind"] == "baseline":
            row.update(group=text, fault=text if row["case"].endswith("1") else "")
        else:
            row.update(rule=text, words=text, why=text, facts={text: text, "number": 1.0})
    folder.mkdir()
    (folder / "cases.json").write_text(json.dumps({row["case"]: {text: text} for row in rows if row["kind"] == "baseline"}))
    for name in ("origin.json", "summary.json", "health.json"):
        (folder / name).write_bytes((honest / name).read_bytes())
    health = json.loads((folder / "health.json").read_bytes())
    health["concerns"] = [{"name": text, "level": "warning", "why": text}]
    (folder / "health.json").write_text(json.dumps(health))
    (folder / "journal.jsonl").touch()
    rewrite(folder, identity, rows, None)
    return next(str(row["id"]) for row in rows if row.get("status") == "violated")


def pages(folder: Path, finding: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Counter[str]]:
    """The elements and attributes of every page that can be made of a run."""
    made = {
        "report": (["report", str(folder)], folder / "report" / "index.html"),
        "review": (["review", str(folder), "--export-page", str(folder.with_suffix(".html")), "--reviewer", "me"],),
        "compare": (["compare", str(folder), str(folder), "--page"], folder / "report" / "compare.html"),
    }
    for words, *page in made.values():
        assert main(words) in (0, 1), capsys.readouterr().err
        elements = Elements()
        elements.feed((page[0] if page else folder.with_suffix(".html")).read_text())
        assert not [name for name in elements.attributes if name.startswith("on")]
        yield elements.tags + elements.attributes
    assert main(["show", str(folder), finding]) == 0


@pytest.fixture(scope="module")
def plain(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "run"
    with_text(honest, folder, PLAIN)
    return folder


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts(
    honest: Path, plain: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    finding = with_text(honest, folder, text)
    for ours, theirs in zip(pages(folder, finding, capsys), pages(plain, finding, capsys), strict=True):
        assert {name: count for name, count in ours.items() if count != theirs[name] and name != ISOLATED} == {}
    for form, name in EXPORTS.items():
        assert main(["export", str(folder), "--as", form]) == 0, capsys.readouterr().err
        content = (folder / "export" / name).read_bytes()
        if form == "junit":
            ours, theirs = (
                Counter(one.tag for one in ElementTree.fromstring(found).iter())
                for found in (content, plain_export(plain, name))
            )
            assert ours == theirs
        elif form == "sarif":
            assert json.loads(content)["version"] == "2.1.0"
        else:
            usual = csv.field_size_limit(10_000_000)
            try:
                cells = [cell for row in csv.reader(content.decode().splitlines(keepends=True)) for cell in row]
            finally:
                csv.field_size_limit(usual)
            assert not [cell for cell in cells if cell.startswith(FORMULA) and not is_number(cell)]
    for words in (["show", str(folder)], ["show", str(folder), "--flat"], ["show", str(folder), "--json"]):
        assert main(words) == 0
    assert_plain(capsys.readouterr().out)


def assert_plain(said: str) -> None:
    """Nothing that a terminal would obey."""
    assert not [sign for sign in (*map(chr, range(32)), "\x7f", "\x9b", "\u202e") if sign != "\n" and sign in said]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts_in_a_notebook(
    honest: Path, plain: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    folder = tmp_path / "run"
    with_text(honest, folder, text)
    counted = []
    for one in (folder, plain):
        shown = FinishedRun(one)
        elements = Elements()
        elements.feed(shown._repr_html_() + shown.findings[0].show().read_text())
        counted.append(elements.tags + elements.attributes)
    assert counted[0] == counted[1]
    assert len(opened) == 2
    assert_plain(repr(FinishedRun(folder)) + repr(FinishedRun(folder).findings[0]))


@pytest.mark.parametrize("how", ["torn", "huge", "empty"])
def test_damaged_pictures_are_left_out_of_a_notebook(honest: Path, tmp_path: Path, how: str) -> None:
    folder = shutil.copytree(honest, tmp_path / "run")
    worst = FinishedRun(folder).findings[0]
    assert len(list(worst.pictures())) == 1
    for file in (folder / "findings").glob("*.png"):
        file.write_bytes({"torn": file.read_bytes()[:-40], "huge": bomb(8000), "empty": b"\x89PNG"}[how])
    assert list(worst.pictures()) == []
    assert "<img" not in worst._repr_html_()


def test_run_with_all_its_files_can_be_cleared(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    folder = shutil.copytree(honest, tmp_path / "run")
    FinishedRun(folder).findings[0].show()
    (folder / "cases.json").write_text('{"fake-00000": {"weather": "rain"}}')
    for words in (["report", str(folder)], ["compare", str(folder), str(folder), "--page"]):
        assert main(words) in (0, 1)
    for form in EXPORTS:
        assert main(["export", str(folder), "--as", form]) == 0
    clear_run(folder)
    assert not folder.exists()


def plain_export(plain: Path, name: str) -> bytes:
    file = plain / "export" / name
    if not file.exists():
        assert main(["export", str(plain), "--as", "junit"]) == 0
    return file.read_bytes()


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
