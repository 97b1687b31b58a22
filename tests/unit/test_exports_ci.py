"""Runs as JUnit XML, SARIF and CSV, read back by parsers that are not ours."""

import argparse
import csv
import gc
import getpass
import json
import re
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from swerve.cli.export import add_parser
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign, Observation
from swerve.core.origin import Origin
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.report import sharing as sharing_module
from swerve.report.junit import write_junit
from swerve.report.sarif import write_sarif
from swerve.report.sharing import COLUMNS, Sharing, write_findings
from swerve.search.sweep import Sweep
from swerve.store.view import CAMPAIGN, Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import MIXED, SEEN, Made, Named, failed, finding, held, skipped

Writer = Callable[[Sharing, Path], None]
WRITERS: dict[str, Writer] = {"junit": write_junit, "sarif": write_sarif, "csv": write_findings}
PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "[click](javascript:alert(1))",
    "\\[click\\](javascript:alert(1))",
    "${7*7} {{7*7}} {0}",
    "]]></failure><testcase name='x'/>",
    "<!--",
    "&amp; &#0; &nbsp;",
    "\u202egnp.exe",
    "emoji 🚗 and é",
    "two\nlines\r\tand a tab",
    "\x00\x01\x08\x0b\x1b[31m\x7f\x9b",
    "\ud800 \ufffe \uffff",
    "=cmd|' /C calc'!A0.png",
    "@SUM(1+1)",
    "//evil.example/x",
    "..",
    " ",
)


@pytest.fixture
def mixed(tmp_path: Path) -> Run:
    return Made(MIXED, SEEN, {"rotate": (1, 9)}).write(tmp_path / "run")


def written(run: Run, form: str, path: Path | None = None) -> Path:
    out = path or run.folder.parent / f"out.{form}"
    WRITERS[form](Sharing(run), out)
    return out


def junit(run: Run) -> ElementTree.Element:
    return ElementTree.fromstring(written(run, "junit").read_bytes())


def sarif(run: Run) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(written(run, "sarif").read_bytes())
    check_sarif(data)
    return data["runs"][0]


def table(run: Run) -> list[dict[str, str]]:
    return rows_of(written(run, "csv"))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# What both schemas of JUnit ask for: Ant's JUnit.xsd and junit-10.xsd of Jenkins' xUnit plugin.
SUITE = {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "package", "id"}


def check_junit(root: ElementTree.Element) -> None:
    assert (root.tag, root.attrib) == ("testsuites", {})
    for number, suite in enumerate(root):
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == SUITE
        assert suite.get("name", "").strip()
        assert suite.get("id") == str(number)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
        middle = "testcase " * (len(suite) - 3)
        assert " ".join(child.tag for child in suite) == f"properties {middle}system-out system-err"
        for case in suite.iter("testcase"):
            assert set(case.attrib) == {"classname", "name", "time"}
            assert len(case) <= 1
            for child in case:
                assert child.tag in ("failure", "error", "skipped")
                assert set(child.attrib) == ({"message"} if child.tag == "skipped" else {"message", "type"})
        counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        assert all(int(suite.get(name, "")) == sum(1 for _ in suite.iter(tag)) for name, tag in counts.items())


# The objects of SARIF 2.1.0 that we write: what they must have, and what else they may.
OBJECTS: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"results", "invocations", "properties"}),
    "driver": ({"name"}, {"version", "rules"}),
    "rule": ({"id"}, {"shortDescription", "fullDescription", "defaultConfiguration"}),
    "result": ({"message"}, {"ruleId", "level", "locations", "fingerprints", "partialFingerprints", "properties"}),
    "invocation": ({"executionSuccessful"}, {"toolExecutionNotifications", "properties"}),
    "notification": ({"message"}, {"level"}),
    "message": ({"text"}, set()),
}


def check_object(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    needed, allowed = OBJECTS[kind]
    assert needed <= set(data) <= needed | allowed, kind
    return data


def check_sarif(data: dict[str, Any]) -> None:
    check_object("log", data)
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    check_object("run", run)
    assert set(run["tool"]) == {"driver"}
    rules = [check_object("rule", rule) for rule in check_object("driver", run["tool"]["driver"])["rules"]]
    texts = [rule[name] for rule in rules for name in ("shortDescription", "fullDescription")]
    for result in run["results"]:
        check_object("result", result)
        assert result["level"] in ("none", "note", "warning", "error")
        assert all(isinstance(text, str) for text in result["fingerprints"].values())
        (place,) = (location["physicalLocation"] for location in result["locations"])
        assert re.fullmatch(r"(?!/)(?:[\w.~/-]|%[0-9A-F]{2})+", place["artifactLocation"]["uri"], re.ASCII)
        assert place["region"]["startLine"] >= 1
        texts.append(result["message"])
    (invocation,) = run["invocations"]
    told = check_object("invocation", invocation)["toolExecutionNotifications"]
    for message in [*texts, *(check_object("notification", note)["message"] for note in told)]:
        text = check_object("message", message)["text"]
        assert "{" not in text.replace("{{", "")
        assert not re.search(r"(?<!\\)(?:\\\\)*[\[\]]", text)  # no link: every bracket is escaped


MIXED_ORIGINS = {"introduced": 1, "made_worse": 0, "already_wrong": 1, "marginal": 0, "unknown_origin": 1}


def origins_of(suite: ElementTree.Element) -> dict[str, int]:
    return {item.get("name", ""): int(item.get("value", "")) for item in suite.iter("property")}


def test_exports_tell_every_origin(tmp_path: Path) -> None:
    told = [replace(finding(origin.key), origin=origin) for origin in Origin]
    run = Made([*told, held("a")]).write(tmp_path / "run")
    (suite,) = junit(run)
    assert origins_of(suite) == dict.fromkeys(MIXED_ORIGINS, 1)
    texts = {case.get("name"): case[0].text or "" for case in suite.iter("testcase") if len(case)}
    assert all(f", {origin.words}: " in texts[origin.key] for origin in Origin)
    log = sarif(run)
    assert log["invocations"][0]["properties"].items() >= dict.fromkeys(MIXED_ORIGINS, 1).items()
    results = {result["properties"]["case"]: result for result in log["results"]}
    assert {case: result["properties"]["origin"] for case, result in results.items()} == {
        origin.key: origin.value for origin in Origin
    }
    assert all(f", {origin.words}). " in results[origin.key]["message"]["text"] for origin in Origin)
    levels = {case: result["level"] for case, result in results.items()}
    assert levels == {
        **dict.fromkeys(("introduced", "made_worse", "unknown_origin"), "error"),
        **dict.fromkeys(("already_wrong", "marginal"), "warning"),
    }


def test_junit_tells_every_outcome(mixed: Run) -> None:
    root = junit(mixed)
    check_junit(root)
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"rotate", "unusable cases"}
    rotate = {case.get("name"): case for case in suites["rotate"].iter("testcase")}
    assert len(rotate) == 15
    assert {name for name, case in rotate.items() if not len(case)} == {f"h{i}" for i in range(6)}
    assert {name for name, case in rotate.items() if case.find("failure") is not None} == set("abc")
    assert {name for name, case in rotate.items() if case.find("error") is not None} == set("ef")
    failure = rotate["a"][0]
    assert "margin +7, introduced" in (failure.text or "")
    finding_id = next(item.id for item in mixed.findings() if item.case == "a")
    assert re.search(rf"\n  swerve replay \S*run {finding_id}\n", failure.text or "")
    assert rotate["f"][0].attrib == {"type": "timeout error", "message": "too slow"}
    assert re.fullmatch(r"  swerve replay \S*run [0-9a-f]{16}\n0 held, .* 1 errors", rotate["f"][0].text or "")
    assert rotate["s0"][0].get("message", "").startswith("50.5% of the image")
    assert suites["unusable cases"].find("testcase/skipped") is not None
    assert [origins_of(suite) for suite in suites.values()] == [MIXED_ORIGINS, {}]


def test_junit_gathers_trials_of_a_case(tmp_path: Path) -> None:
    many = [finding("a", change=Rotate(float(i)), off=10.0 + i) for i in range(1, 6)]
    rest = [held("a"), skipped("a", "border"), failed("a", "no shape"), held("b"), skipped("b", "border")]
    rest += [held("c"), failed("c", "no shape")]
    root = junit(Made([*many, *rest]).write(tmp_path / "run"))
    check_junit(root)
    first, second, third = root.iter("testcase")
    assert first[0].tag == "failure"
    assert first[0].get("message", "").startswith("5 of 6 judged trials violated; worst: rotated 5°")
    lines = (first[0].text or "").splitlines()
    assert [line.split(":")[0] for line in lines[:6:2]] == [f"rotated {i}° counter-clockwise" for i in (5, 4, 3)]
    assert lines[6:] == ["and 2 more findings", "1 held, 5 violated, 1 skipped, 1 errors"]
    assert len(second) == 0  # judged once, and held
    assert third[0].tag == "error"  # a verdict does not make up for a trial without one


def test_junit_of_failing_model_is_not_green(tmp_path: Path) -> None:
    seen = [Observation("a", "", fault="ValueError: no", readable=True)]
    root = junit(Made([], seen).write(tmp_path / "run"))
    check_junit(root)
    assert root.find("testsuite[@name='unusable cases']/testcase/error") is not None


def test_sarif_tells_every_finding(mixed: Run) -> None:
    run = sarif(mixed)
    results = {result["properties"]["case"]: result for result in run["results"]}
    assert {case: result["level"] for case, result in results.items()} == {"a": "error", "b": "warning", "c": "error"}
    by_id = {item.id: item for item in mixed.findings()}
    for result in results.values():
        item = by_id[result["fingerprints"]["finding/v1"]]
        assert (result["ruleId"], result["properties"]["margin"]) == (item.rule, item.margin)
        assert result["partialFingerprints"] == {"primaryLocationLineHash": item.id}
        assert result["properties"]["parameters"] == item.change
        assert result["properties"]["replay"].endswith(f"run {item.id}")
        assert item.words in result["message"]["text"]
    assert run["invocations"][0]["properties"] == {"held": 6, "violated": 3, "skipped": 4, "error": 2, **MIXED_ORIGINS}
    assert run["tool"]["driver"]["rules"][0]["shortDescription"]["text"] == "within 5° of the answer on the source"


def test_sarif_never_makes_silence_look_like_success(tmp_path: Path, mixed: Run) -> None:
    assert sarif(mixed)["invocations"][0]["executionSuccessful"] is False  # two errors
    only_skips = Made([skipped("a", "border")]).write(tmp_path / "skips")
    assert sarif(only_skips)["invocations"][0]["executionSuccessful"] is False
    clean = sarif(Made([held("a")]).write(tmp_path / "clean"))
    assert clean["invocations"][0]["executionSuccessful"] is True
    assert clean["results"] == []


def test_sarif_tells_cases_that_failed(tmp_path: Path) -> None:
    """A case the system had no answer to is an error of the run; one that does not read is a warning."""
    seen = [Observation(key, "", fault="ValueError: no", readable=key < "c") for key in "abcd"]
    run = sarif(Made([held("e")], seen[2:]).write(tmp_path / "unread"))
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    (note,) = invocation["toolExecutionNotifications"]
    assert note == {"level": "warning", "message": {"text": "unreadable cases: 2; first: c: ValueError: no"}}
    (invocation,) = sarif(Made([held("e")], seen).write(tmp_path / "failed"))["invocations"]
    assert invocation["executionSuccessful"] is False
    told = {note["message"]["text"]: note["level"] for note in invocation["toolExecutionNotifications"]}
    assert told["untouched cases that the system failed on: 2; first: a: ValueError: no"] == "error"
    counts = {"held": 1, "violated": 0, "skipped": 0, "error": 0}
    assert invocation["properties"] == {**counts, **dict.fromkeys(MIXED_ORIGINS, 0)}


STOPPED = "This campaign has not finished: the numbers cover the 1 trials and 0 cases committed so far."


@pytest.mark.parametrize("records", [[held("a")], [finding("a")], [skipped("a", "border")]])
def test_stopped_run_says_so(records: list[Any], tmp_path: Path) -> None:
    """Its results are there, and no CI takes them for all there is."""
    run = Made(records, finished=False).write(tmp_path / "run")
    root = junit(run)
    check_junit(root)
    error = root.find("testsuite[@name='unfinished campaign']/testcase/error")
    assert error is not None
    assert error.get("type") == "unfinished campaign"
    assert error.get("message", "").startswith(STOPPED)
    assert root.find("testsuite[@name='rotate']/testcase[@name='a']") is not None
    (invocation,) = sarif(run)["invocations"]
    assert invocation["executionSuccessful"] is False
    note = invocation["toolExecutionNotifications"][0]
    assert note["level"] == "error"
    assert note["message"]["text"].startswith(STOPPED)


def test_finished_run_says_nothing_of_it(mixed: Run) -> None:
    assert "has not finished" not in json.dumps(sarif(mixed)) + ElementTree.tostring(junit(mixed), encoding="unicode")


def test_csv_has_every_finding(mixed: Run) -> None:
    rows = table(mixed)
    assert tuple(rows[0]) == COLUMNS
    assert [row["id"] for row in rows] == [item.id for item in mixed.findings()]
    assert [row["origin"] for row in rows] == ["introduced", "already-wrong", "unknown"]
    assert [json.loads(row["facts"]) for row in rows] == [dict(item.facts) for item in mixed.findings()]
    assert [float(row["margin"]) for row in rows] == [item.margin for item in mixed.findings()]
    assert [json.loads(row["parameters"]) for row in rows] == [dict(item.change) for item in mixed.findings()]


@pytest.fixture
def hostile(tmp_path: Path) -> Run:
    records = []
    for text in PAYLOADS:
        records.append(finding(text, text, Named(text), why=text))
        records += [replace(held(f"{text}2"), change=Named(text)), skipped(f"{text}3", text), failed(f"{text}4", text)]
    seen = [Observation(f"{text}5", "", fault=text, readable=False) for text in PAYLOADS]
    return Made(records, seen).write(tmp_path / "run")


def test_hostile_texts_stay_texts_in_xml(hostile: Run) -> None:
    root = junit(hostile)  # expat refuses what XML 1.0 forbids
    check_junit(root)
    assert {element.tag for element in root.iter()} <= {
        *("testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped"),
        *("system-out", "system-err"),
    }
    assert len(list(root.iter("failure"))) == len(PAYLOADS)
    names = {case.get("name") for case in root.iter("testcase")}
    assert {"<script>alert(1)</script>", "]]></failure><testcase name='x'/>", "&amp; &#0; &nbsp;"} <= names
    everything = written(hostile, "junit").read_text()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff\ufffe\uffff]", everything)


def test_hostile_texts_stay_texts_in_sarif(hostile: Run) -> None:
    run = sarif(hostile)
    assert [result["properties"]["case"] for result in run["results"]] == list(PAYLOADS)
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    assert "javascript%3Aalert%281%29" in uris
    assert "evil.example/x" in uris
    assert written(hostile, "sarif").read_bytes().isascii()


def test_hostile_texts_are_no_formulas(hostile: Run) -> None:
    rows = table(hostile)
    assert len(rows) == len(PAYLOADS)
    cells = [cell for row in rows for name, cell in row.items() if name != "margin"]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert "'=cmd|' /C calc'!A0.png" in cells


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A user with a name and a home, on a host with a name."""
    home = tmp_path / "folk" / "grace"
    home.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(getpass, "getuser", lambda: "grace")
    monkeypatch.setattr(socket, "gethostname", lambda: "flaubert-7")
    sharing_module._private.cache_clear()
    yield home
    sharing_module._private.cache_clear()


LEAKS = (
    "FileNotFoundError: {home}/data/x.png",
    "no such file: /home/joyce/w.pt",
    "'/Users/joyce/w.pt'",
    "../../../home/joyce/w.pt",
    r"C:\Users\joyce\w.pt",
    "ssh grace@flaubert-7:/srv/grace/x",
    "/tmp/pytest-of-grace/x",
)


def leaky(home: Path) -> Run:
    texts = [text.format(home=home) for text in LEAKS]
    records = [record for text in texts for record in (finding(text, why=text), failed(f"{text}2", text), held(text))]
    run = Made(records, [Observation(f"{text}3", "", fault=text) for text in texts]).write(home / "run")
    run.identity["campaign"]["source"]["folder"] = str(home / "data")
    (run.folder / CAMPAIGN).write_text(json.dumps(run.identity))
    return Run(run.folder)


@pytest.mark.parametrize("form", WRITERS)
def test_nobody_is_named(form: str, somebody: Path, tmp_path: Path) -> None:
    text = written(leaky(somebody), form, tmp_path / "out").read_text()
    for name in (str(somebody), "grace", "flaubert", "joyce"):
        assert name not in text
    assert "~/data/x.png" in text
    assert "swerve replay ~/run" in text


@pytest.mark.parametrize("form", WRITERS)
def test_names_are_kept_on_request(form: str, somebody: Path, tmp_path: Path) -> None:
    WRITERS[form](Sharing(leaky(somebody), keep_paths=True), tmp_path / "out")
    text = (tmp_path / "out").read_text()
    assert f"{somebody}/data/x.png" in text
    assert "grace@flaubert-7" in text


def test_ordinary_words_are_left_alone(somebody: Path, mixed: Run) -> None:
    sharing = Sharing(mixed)
    for text in ("disgraceful", "set/home/kitchen/1.png", "1/2", "a/home/b", "gracefully/0001", "homeward"):
        assert sharing.line(text) == text


def test_replay_line_is_seen_from_here(mixed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mixed.folder.parent)
    assert Sharing(Run(mixed.folder)).replay("abcd") == "swerve replay run abcd"
    assert Sharing(Run(Path("run"))).replay("abcd") == "swerve replay run abcd"


def swerve(*words: object) -> int:
    """The command line, with these verbs alone."""
    top = argparse.ArgumentParser()
    add_parser(top.add_subparsers(required=True))
    options = top.parse_args([str(word) for word in words])
    return int(options.verb(options))


@pytest.mark.parametrize(("form", "name"), [("junit", "junit.xml"), ("sarif", "findings.sarif"), ("csv", "findings.csv")])
def test_verb_writes_where_asked(form: str, name: str, mixed: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert swerve("export", mixed.folder, "--as", form) == 0
    beside = mixed.folder / "export" / name
    assert capsys.readouterr().out == f"{beside}\n"
    out = mixed.folder.parent / "mine"
    assert swerve("export", mixed.folder, "--as", form, "--out", out) == 0
    assert out.read_bytes() == beside.read_bytes()


def test_unknown_form_is_refused(mixed: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        swerve("export", mixed.folder, "--as", "junk")
    assert "invalid choice: 'junk'" in capsys.readouterr().err


def test_follow_ups_become_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = Rule("brighter", Over(Brighten, beta=Range(1, 40)), same_angle(15))
    campaign = Campaign(FakeSource(6), FakeSystem(bias=1), (rule,), Sweep(per_case=3), seed=3)
    run_into(Loaded(campaign, tmp_path), tmp_path / "run")
    found = list(Run(tmp_path / "run").findings())
    assert found
    assert swerve("export", tmp_path / "run", "--as", "udacity", "--out", tmp_path / "set") == 0
    rows = rows_of(tmp_path / "set" / "manifest.csv")
    assert [row["key"] for row in rows] == [f"{item.case}~{item.id}" for item in found]
    assert [row["change"] for row in rows] == [item.words for item in found]
    assert all((tmp_path / "set" / row["file"]).is_file() for row in rows)
    capsys.readouterr()


def peak(form: str, run: Run) -> int:
    gc.collect()  # its counters begin anew, so that it comes at the same moments whatever ran before
    tracemalloc.start()
    written(run, form)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


@pytest.mark.parametrize("form", ["sarif", "csv"])
def test_memory_stays_flat(form: str, tmp_path: Path) -> None:
    """A further finding costs less than 500 bytes, a fraction of its own row.

    A ratio of peaks would say less the more the smaller run takes for itself: it hid that about 150 bytes of each stay.
    """
    runs = [Made([finding(f"c{i:05d}") for i in range(n)]).write(tmp_path / f"r{n}") for n in (10, 100, 800)]
    written(runs[0], form)
    assert peak(form, runs[2]) - peak(form, runs[1]) < 700 * 500
