"""Run folders that somebody else wrote: no verb runs what they name, nor writes or deletes outside of them (R68, R69)."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from swerve.cli.main import LISTED, main
from swerve.core.errors import StoreError
from swerve.core.values import Boxes2D, Steering
from swerve.report.answer_pictures import answered
from swerve.report.conditions_page import _picture
from swerve.report.terminal import print_summary
from swerve.store.folder import lock_folder
from swerve.store.journal import Journal, encode_line
from swerve.store.view import Run
from tests.quality.children import environment

CAMPAIGN = """
[source]
use = "swerve.testing:FakeSource"
count = 2
[system]
use = "swerve.testing:FakeSystem"
bias = 0.2
[[rule]]
name = "turned"
change = { use = "rotate", degrees = [3, 30] }
expect = { use = "same-angle", within = 1 }
[search]
use = "sweep"
per_case = 3
"""
CANARY = "swerve_canary"
MODULE = """
import os, pathlib
def touch(*args, **kwargs):
    pathlib.Path(os.environ["SWERVE_CANARY"], "called").touch()
touch_on_import = pathlib.Path(os.environ["SWERVE_CANARY"], "imported").touch()
"""
VERBS: Mapping[str, Callable[[str, str], list[str]]] = {
    "report": lambda run, _: ["report", run],
    "show": lambda run, _: ["show", run],
    "show one": lambda run, finding: ["show", run, finding],
    "show --json": lambda run, _: ["show", run, "--json"],
    "show --flat": lambda run, _: ["show", run, "--flat"],
    "show --pack": lambda run, finding: ["show", run, finding, "--pack"],
    "review --agreement": lambda run, _: ["review", run, "--agreement"],
    "review --import": lambda run, _: ["review", run, "--import", "marks.csv"],
    "review --export": lambda run, _: ["review", run, "--export", "exported.csv"],
    "review --export-page": lambda run, _: ["review", run, "--export-page", "page.html", "--reviewer", "me"],
    "export csv": lambda run, _: ["export", run, "--as", "csv"],
    "export junit": lambda run, _: ["export", run, "--as", "junit"],
    "export sarif": lambda run, _: ["export", run, "--as", "sarif"],
    "export udacity": lambda run, _: ["export", run, "--as", "udacity"],
    "export coco": lambda run, _: ["export", run, "--as", "coco"],
    "retrain": lambda run, _: ["retrain", run, "--into", "retrained", "--export", "udacity", "--split", "random"],
    "replay": lambda run, finding: ["replay", run, finding],
    "replay --here": lambda run, finding: ["replay", run, finding, "--here"],
    "replay --shrunk": lambda run, finding: ["replay", run, finding, "--shrunk", "--here"],
    "shrink": lambda run, finding: ["shrink", run, finding, "--workers", "0"],
    "shrink --all": lambda run, _: ["shrink", run, "--all", "--most", "1", "--workers", "0"],
    "compare": lambda run, _: ["compare", run, run],
    "compare --page": lambda run, _: ["compare", run, run, "--page"],
}
READ_ONLY = ("show", "show one", "export csv", "export junit", "export sarif", "compare", "compare --page", "report")


def payloads(marker: Path) -> dict[str, Any]:
    """Tables that would leave a mark: on import, on being called, or through a program."""
    return {
        "os:system": {"use": "os:system", "command": f"touch {marker / 'system'}"},
        "subprocess": {"use": "subprocess:run", "args": ["touch", str(marker / "run")]},
        "runpy": {"use": "runpy:run_path", "path_name": str(marker.parent / "payload.py")},
        "module": {"use": f"{CANARY}:touch"},
        "file": {"use": f"{marker.parent / 'payload.py'}:touch"},
        "installed": {"use": "numpy:savetxt", "fname": str(marker / "saved"), "X": [1.0]},
        "re-exported": {"use": "swerve.retrain.command:subprocess.run", "args": ["touch", str(marker / "swerve")]},
        "of no kind": {"use": "swerve.store.files:write_whole", "path": str(marker / "whole"), "data": "x"},
        "a verb": {"use": "swerve.cli.main:main", "arguments": ["world", "--out", str(marker / "world"), "--count", "1"]},
        "method": {"use": "pathlib:Path.touch", "self": str(marker / "path")},
        "as if one's own": {"use": "swerve.config.toml:build_change", "row": {"use": f"{CANARY}:touch"}},
        "writes": {
            "use": "swerve.experiments.lidar.subjects:Kept",
            "world": {"use": "lidar-world", "drives": 1},
            "folder": str(marker / "kept"),
        },
        "program": {"use": "process", "command": ["touch", str(marker / "process")]},
        "nested": {"use": "windows", "length": 1, "source": {"use": "os:system", "command": f"touch {marker / 'nested'}"}},
        "string": f"{CANARY}:touch",
    }


def put(place: str, payload: Any, identity: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Put a payload into a campaign and a journal; returns the shrunk file, where that is the place."""
    campaign = identity["campaign"]
    rule, text = campaign["rule"][0], payload if isinstance(payload, str) else payload["use"]
    finding = next(row for row in rows if row.get("status") == "violated")
    if place in ("source", "system", "search", "gate"):
        campaign[place] = payload
    elif place == "coverage":
        campaign["coverage"] = payload if isinstance(payload, dict) else {"use": payload}
    elif place == "rule change":
        rule["change"] = payload
    elif place == "rule gate":
        rule["gate"] = payload
    elif place == "rule gates":
        rule["gate"] = [payload, {"use": "any-of", "gates": [payload]}]
    elif place == "rule expect":
        rule["expect"] = payload
    elif place == "compare":
        rule["expect"] = {"use": "equivariant", "compare": payload}
    elif place == "compare by name":
        rule["expect"] = {"use": "equivariant", "compare": text}
    elif place == "relations":
        rule["expect"] = {"use": "both", "relations": [payload, payload]}
    elif place == "condition":
        rule["expect"] = {"use": "swerve.core.relation:OnlyIf", "condition": text, "relation": rule["expect"]}
    elif place == "function":
        campaign["system"] = {"use": "function", "function": text}
    elif place == "members":
        campaign["system"] = {"use": "ensemble", "members": [payload]}
    elif place == "net":
        campaign["system"] = {"use": "torch", "net": text, "weights": "w.safetensors", "read": [], "say": ["steering"]}
    elif place == "keras net":
        campaign["system"] = {"use": "keras", "net": text, "read": [], "say": ["steering"]}
    elif place in ("steps", "decoders"):
        steps = {"steps": "read", "decoders": "say"}
        campaign["system"] = {
            "use": "onnx",
            "model": "m.onnx",
            "read": [],
            "say": ["steering"],
            steps[place]: [text, payload],
        }
    elif place == "inner source":
        campaign["source"] = {"use": "subset", "source": payload, "keys": ["fake-00000"]}
    elif place == "space":
        rule["change"] = {"use": "one-of", "spaces": [payload]}
    elif place == "factory":
        identity["factory"] = text
    elif place == "toml factory":
        identity["factory"] = "mine.toml"
    elif place == "journal change":
        for row in rows:
            row.update({"change": payload} if row["kind"] == "trial" else {})
    elif place == "journal chain":
        for row in rows:
            step = payload if isinstance(payload, dict) else {"use": payload}
            row.update({"change": {"use": "chain", "steps": [step]}} if row["kind"] == "trial" else {})
    else:
        assert place == "shrunk"
        row = {**finding, "change": payload}
        return {"of": finding["id"], "words": "w", "edges": [], "tries": 1, "flaky": False, "row": row}
    return None


PLACES = (
    *("source", "system", "search", "gate", "coverage", "rule change", "rule gate", "rule gates", "rule expect"),
    *("compare", "compare by name"),
    *("relations", "condition", "function", "members", "net", "keras net", "steps", "decoders", "inner source", "space"),
    *("factory", "toml factory", "journal change", "journal chain", "shrunk"),
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of parts that need no consent."""
    home = tmp_path_factory.mktemp("honest")
    (home / "mine.toml").write_text(CAMPAIGN)
    assert main(["run", str(home / "mine.toml"), "--into", str(home / "run"), "--no-report", "--workers", "0"]) == 1
    return home / "run"


@pytest.fixture
def scene(tmp_path: Path, honest: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a foreign run, canaries that could be run, and a folder where they would leave their mark."""
    for name in ("marks", "config", "work", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{CANARY}.py").write_text(MODULE)
    (tmp_path / "payload.py").write_text(MODULE)
    shutil.copytree(honest, tmp_path / "work" / "run")
    toml = CAMPAIGN.replace('"swerve.testing:FakeSource"\ncount = 2', f'"{CANARY}:touch"')
    (tmp_path / "work" / "mine.toml").write_text(toml)
    marks = f"reviewer,finding,mark,comment\nme,{Run(honest).best(1)[0].id},true positive,\n"
    (tmp_path / "work" / "marks.csv").write_text(marks)
    monkeypatch.setenv("SWERVE_CANARY", str(tmp_path / "marks"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop(CANARY, None)


def rewrite(run: Path, identity: Mapping[str, Any], rows: list[dict[str, Any]], shrunk: Mapping[str, Any] | None) -> None:
    (run / "campaign.json").write_text(json.dumps(identity))
    (run / "journal.jsonl").unlink()
    journal = Journal(run / "journal.jsonl")
    for kind in ("baseline", "trial"):
        journal.append([row for row in rows if row["kind"] == kind])
    if shrunk:
        (run / "shrunk").mkdir(exist_ok=True)  # a run may have shrunk findings itself
        (run / "shrunk" / f"{shrunk['of']}.json").write_text(json.dumps(shrunk))
    shutil.rmtree(run / "findings", ignore_errors=True)  # or `report` would have no reason to make pictures


def tree(folder: Path) -> dict[str, object]:
    """What lies in a folder: content, links, times of change."""
    return {
        str(path.relative_to(folder)): (os.readlink(path) if path.is_symlink() else path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def outside(scene: Path) -> dict[str, object]:
    """All that no verb may touch."""
    return {
        name: item
        for name, item in tree(scene).items()
        if not name.startswith(("work/run", "config", "work/retrained", "work/exported.csv")) and "__pycache__" not in name
        if name != "work" and not name.startswith("work/page.html") and not (name.endswith(".zip") and name.count("/") == 1)
    }


def attacked(scene: Path, place: str, payload: str) -> str:
    """Put a payload into the run folder; returns the id of a finding."""
    run = scene / "work" / "run"
    rows = list(Run(run).rows())
    identity = json.loads((run / "campaign.json").read_bytes())
    shrunk = put(place, payloads(scene / "marks")[payload], identity, rows)
    rewrite(run, identity, rows, shrunk)
    return next(str(row["id"]) for row in rows if row.get("status") == "violated")


def assert_harmless(scene: Path, finding: str, verbs: Iterable[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = outside(scene)
    for name in verbs:
        code = main(VERBS[name]("run", finding))
        said = capsys.readouterr()
        assert code in (0, 1, 2), (name, said.err)
        assert code == 0 or name not in READ_ONLY, (name, said.err)
        assert "Traceback" not in said.err
        assert not list((scene / "marks").iterdir()), (name, said.err)
        assert CANARY not in sys.modules, name
        assert outside(scene) == before, name
    assert not list((scene / "config").iterdir())


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("place", PLACES)
def test_no_verb_runs_what_a_folder_names(scene: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_harmless(scene, attacked(scene, place, "module"), VERBS, capsys)


@pytest.mark.parametrize("payload", [name for name in payloads(Path("/marks")) if name != "module"])
@pytest.mark.parametrize("place", PLACES)
def test_no_payload_is_run(scene: Path, place: str, payload: str, capsys: pytest.CaptureFixture[str]) -> None:
    verbs = ("replay --here", "replay --shrunk", "show --pack", "export udacity")
    assert_harmless(scene, attacked(scene, place, payload), verbs, capsys)


LINKS = (
    *(".lock", "report", "report/index.html", "report/pictures", "export", "export/findings.csv", "shrunk", "findings"),
    *("findings.partial", "tables", "review", "review/me.jsonl", "journal.jsonl", "campaign.json", "origin.json"),
    *("summary.json", "health.json", ".summary.json.partial", ".journal.jsonl.partial", "unknown"),
)
VERBS_OF_FILE = {
    "run": lambda run: ["run", "mine.toml", "--into", run, "--workers", "0"],
    "run --repair": lambda run: ["run", "mine.toml", "--into", run, "--workers", "0", "--repair"],
}


def every_verb(finding: str) -> Iterator[tuple[str, list[str]]]:
    yield from ((name, words("run", finding)) for name, words in VERBS.items() if name != "replay")
    yield from ((name, words("run")) for name, words in VERBS_OF_FILE.items())


def assert_refused(scene: Path, code: int, said: str) -> None:
    """One line and a code of the usual ones, soon."""
    assert code in (2, 4), said
    assert "unexpected" not in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
@pytest.mark.parametrize("name", LINKS)
def test_links_are_not_followed(scene: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a link leads to is not written, emptied or deleted; a file that the verb does need is refused as well."""
    precious, run = scene / "precious", scene / "work" / "run"
    (precious / "deep").mkdir(parents=True)
    (precious / "deep" / "letter.txt").write_text("dear")
    (precious / "letter.txt").write_text("dear")
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    finding = Run(run).best(1)[0].id
    place = run / name
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to({"file": precious / "letter.txt", "folder": precious, "nothing": scene / "new"}[kind])
    before = outside(scene)
    for verb, words in every_verb(finding):
        code = main(words)
        said = capsys.readouterr().err
        assert outside(scene) == before, (verb, said)
        assert_refused(scene, code, said)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", ["journal.jsonl", "campaign.json", "origin.json", ".lock", "findings", "summary.json"])
def test_pipes_and_devices_are_refused_at_once(
    scene: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = scene / "work" / "run"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    finding = Run(run).best(1)[0].id
    place = run / name
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(place))
    else:
        try:
            os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: it never ends
        except PermissionError:
            pytest.skip("only root makes devices")
    for _, words in every_verb(finding):
        code = main(words)
        assert_refused(scene, code, capsys.readouterr().err)


def nested(depth: int, inner: str = "1") -> str:
    return '{"a":' * depth + inner + "}" * depth


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("depth", [150, 900, 200_000])
@pytest.mark.parametrize("where", ["campaign", "list", "origin", "row", "change", "shrunk"])
def test_deep_json_is_refused(scene: Path, where: str, depth: int, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    rows = list(Run(run).rows())
    finding = next(str(row["id"]) for row in rows if row.get("status") == "violated")
    text = (run / "campaign.json").read_text()
    if where == "campaign":
        (run / "campaign.json").write_text(text.replace('"campaign": {', f'"campaign": {{"deep": {nested(depth)},', 1))
    elif where == "list":
        (run / "campaign.json").write_text("[" * depth + "]" * depth)
    elif where == "origin":
        (run / "origin.json").write_text(f'{{"base": {nested(depth)}}}')
    elif where == "shrunk":
        (run / "shrunk").mkdir(exist_ok=True)  # a run may have shrunk findings itself
        (run / "shrunk" / f"{finding}.json").write_text(nested(depth))
    else:
        _seal_deep(run / "journal.jsonl", rows, where, depth)
    for verb, words in every_verb(finding):
        code = main(words)
        said = capsys.readouterr().err
        assert code in (0, 1, 2), (verb, said)
        assert "unexpected" not in said
        assert "Traceback" not in said


def _seal_deep(path: Path, rows: list[dict[str, Any]], where: str, depth: int) -> None:
    """A journal with one deep row that carries the right checksum."""
    kinds = [[row for row in rows if row["kind"] == kind] for kind in ("baseline", "trial")]
    lines = []
    for number, batch in enumerate(kinds):
        for row in batch:
            line = encode_line(row)
            if row.get("status") == "violated":
                deep = nested(depth) if where == "row" else '{"use":"chain","steps":[' * depth + "]}" * depth
                name = "facts" if where == "row" else "change"
                key = f'"{name}":{json.dumps(row[name], separators=(",", ":"))}'.encode()
                assert key in line
                body = line[: line.rindex(b',"crc":"')].replace(key, key.split(b":")[0] + b":" + deep.encode())
                line = body + b',"crc":"' + f"{zlib.crc32(body):08x}".encode() + b'"}\n'
            lines.append(line)
        lines.append(encode_line({"kind": "commit", "batch": number, "rows": len(batch)}))
    path.write_bytes(b"".join(lines))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["one line", "no line", "no commit"])
def test_journal_without_end_is_refused(
    scene: Path, how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene / "work" / "run"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    journal, finding = run / "journal.jsonl", Run(run).best(1)[0].id
    if how == "one line":
        journal.write_bytes(journal.read_bytes() + b'{"kind":"trial","words":"')
        os.truncate(journal, 1 << 40)  # a terabyte that takes no room
    elif how == "no line":
        os.truncate(journal, 0)
        os.truncate(journal, 1 << 40)
    else:
        monkeypatch.setattr("swerve.store.journal.BATCH_BYTES", 10_000_000)
        journal.write_bytes(encode_line({"kind": "trial", "words": "x" * 2_000_000}) * 6)
    for verb, words in every_verb(finding):
        if verb in ("run --repair", "review --export"):
            continue  # the first works, see below; the other reads marks alone
        code = main(words)
        assert_refused(scene, code, capsys.readouterr().err)


@pytest.mark.usefixtures("soon")
def test_endless_journal_is_repaired(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    good = (run / "journal.jsonl").read_bytes()
    os.truncate(run / "journal.jsonl", 1 << 40)
    assert main(VERBS_OF_FILE["run --repair"]("run")) == 1, capsys.readouterr().err
    assert (run / "journal.jsonl").read_bytes().startswith(good)
    assert (run / "journal.damaged.jsonl").stat().st_size == 1 << 40


@pytest.mark.usefixtures("soon")
def test_endless_picture_is_not_packed(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    pictures = list((run / "findings").glob("*.png"))
    assert pictures
    for picture in pictures:
        os.truncate(picture, 1 << 40)
    assert main(VERBS["show --pack"]("run", Run(run).best(1)[0].id)) == 0, capsys.readouterr().err


DAMAGE: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "rules": lambda identity: identity["campaign"].update(rule=3),
    "a rule": lambda identity: identity["campaign"].update(rule=[3]),
    "libraries": lambda identity: identity.update(libraries=3),
    "parameters": lambda identity: identity.update(parameters=[1]),
    "a neutral value": lambda identity: identity.update(parameters={"rotate": {"degrees": {"neutral": "x"}}}),
    "no neutral value": lambda identity: identity.update(parameters={"rotate": {"degrees": {"unit": "x"}}}),
    "assets": lambda identity: identity.update(assets=3),
    "a fingerprint": lambda identity: identity["fingerprints"].update(source=[1]),
    "the search": lambda identity: identity["campaign"].update(search=[]),
    "the seed": lambda identity: identity["campaign"].update(seed=[1]),
    "a huge seed": lambda identity: identity["campaign"].update(seed=10**400),
    "a huge neutral value": lambda identity: identity["parameters"]["rotate"]["degrees"].update(neutral=10**400),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("what", DAMAGE)
def test_wrong_types_in_the_campaign_are_refused(scene: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    finding = Run(run).best(1)[0].id
    identity = json.loads((run / "campaign.json").read_bytes())
    DAMAGE[what](identity)
    (run / "campaign.json").write_text(json.dumps(identity))
    for verb in ("show", "show --pack", "report", "export sarif", "compare", "replay --here"):
        assert main(VERBS[verb]("run", finding)) == 2, verb
        said = capsys.readouterr().err
        assert "campaign.json: is damaged" in said, (verb, said)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", ["summary.json", "health.json", "files.json"])
def test_deep_derived_files_are_left_out(scene: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    (run / name).write_text("[" * 200_000 + "]" * 200_000)
    for verb in ("show", "report", "compare", "export csv"):
        assert main(VERBS[verb]("run", "")) == 0, (verb, capsys.readouterr().err)
    identity = json.loads((run / "campaign.json").read_bytes())
    identity["fingerprints"]["source"] = "0" * 64
    (run / "campaign.json").write_text(json.dumps(identity))
    main(VERBS["replay --here"]("run", Run(run).best(1)[0].id))
    said = capsys.readouterr().err
    assert "unexpected" not in said
    assert "Traceback" not in said


def nodes(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside JSON."""
    for key, item in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from nodes(item, (*path, key))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", ["summary.json", "health.json"])
@pytest.mark.parametrize("junk", [None, "x", [], [3], {"use": "x"}, {"x": {"x": "x"}}, -1, 1e308, True])
def test_anything_in_a_derived_file_is_survived(scene: Path, name: str, junk: Any) -> None:
    """Every place of the file in turn; what is damaged is left out."""
    run = scene / "work" / "run"
    given = json.loads((run / name).read_bytes())
    if name == "summary.json":
        found = {"untouched": 1, "covered": 2, "total": 3}
        more = {"coverage": {"NC": found}, "layers": {"a": 3}, "linear_layers": {"a": {"neurons": 3, "always": 1}}}
        given = {**given, **more}
    places = list(nodes(given))
    assert len(places) > 10
    for place in places:
        damaged = json.loads(json.dumps(given))
        inside = damaged
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = junk
        (run / name).write_text(json.dumps(damaged))
        print_summary(Run(run), Console(file=io.StringIO()))


def features(how: str) -> bytes:
    """The content of a damaged `features.npy`."""
    head = {"shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"}
    head["nested"] = "(" * 5000 + ")" * 5000
    head["object"] = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    if how not in head:
        return {"zip": b"PK\x03\x04 is no archive", "pickle": b"\x80\x04cos\nsystem\n.", "endless": b""}[how]
    return b"\x93NUMPY\x01\x00" + len(head[how]).to_bytes(2, "little") + head[how].encode()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["shape", "nested", "object", "zip", "pickle", "endless"])
def test_damaged_features_are_left_out(scene: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    path = run / "findings" / "features.npy"
    path.write_bytes(features(how))
    if how == "endless":
        os.truncate(path, 1 << 34)  # not too large to be held in memory by a big machine
    for verb in ("show", "report", "export csv"):
        assert main(VERBS[verb]("run", "")) == 0, (verb, capsys.readouterr().err)


def bomb(side: int) -> bytes:
    """A PNG of few bytes that takes a lot of memory."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    deflate = zlib.compressobj(9)
    row = bytes(1 + 3 * side)
    rows = b"".join(deflate.compress(row) for _ in range(side)) + deflate.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_huge_pictures_are_not_opened(scene: Path) -> None:
    """The page of critical conditions draws on kept pictures."""
    run = scene / "work" / "run"
    finding = Run(run).best(1)[0]
    (kept,) = (run / "findings").glob(f"{finding.input_sha[:16]}-*.png")
    kept.write_bytes(bomb(8000))
    assert _picture(Run(run), finding.input_sha) is None
    kept.write_bytes(bomb(80))
    drawn = _picture(Run(run), finding.input_sha)
    assert drawn is not None
    assert drawn.shape == (80, 80, 3)


@pytest.mark.parametrize("shape", [(1, 200_000), (200_000, 1), (7, 9)])
@pytest.mark.parametrize("far", [1e9, 1e300, -1e300, float("nan"), float("inf"), 3.0])
def test_any_shape_and_any_box_is_drawn(scene: Path, shape: tuple[int, int], far: float) -> None:
    picture = np.zeros((*shape, 3), np.uint8)
    boxes = (Boxes2D(np.array([[0.0, 1, far, 5], [-far, 1, 2, far]]), ("car", "car")), Steering(far))
    finding = replace(Run(scene / "work" / "run").best(1)[0], before=boxes, after=boxes)
    drawn = answered(picture, picture, finding)
    assert drawn.shape[0] == 270
    assert drawn.shape[1] <= 2 * 10 * 270


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("number", [float("inf"), float("nan"), "1e999"])
def test_numbers_that_json_lacks_are_refused(scene: Path, number: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    finding, text = Run(run).best(1)[0].id, (run / "campaign.json").read_text()
    written = number if isinstance(number, str) else json.dumps(number)
    (run / "campaign.json").write_text(text.replace('"bias": 0.2', f'"bias": {written}', 1))
    for verb in VERBS:
        assert main(VERBS[verb]("run", finding)) == 2, verb
        said = capsys.readouterr().err
        assert "campaign.json: cannot be read" in said, (verb, said)


ROWS: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "no kind": lambda row: row.pop("kind"),
    "no change": lambda row: row.pop("change"),
    "no facts": lambda row: row.pop("facts"),
    "no gain": lambda row: row.pop("gain"),
    "a huge angle": lambda row: row.update(before=[{"slot": "steering", "degrees": 10**400}]),
    "values that are none": lambda row: row.update(truth=[{"slot": "group", "values": [3]}]),
    "a rule of another campaign": lambda row: row.update(rule="other"),
    "a case of another campaign": lambda row: row.update(case="other"),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("what", ROWS)
def test_wrong_rows_are_told_in_a_line(scene: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    batches, finding = list(Journal(run / "journal.jsonl").batches()), Run(run).best(1)[0].id
    for batch in batches:
        for row in batch:
            if row.get("id") == finding:
                ROWS[what](row)
    (run / "journal.jsonl").unlink()
    journal = Journal(run / "journal.jsonl")
    for batch in batches:
        journal.append(batch)
    for verb, words in every_verb(finding):
        code = main(words)
        said = capsys.readouterr().err
        assert code in (0, 1, 2), (verb, said)
        assert "unexpected" not in said, verb
    assert main(VERBS["replay --here"]("run", finding)) == 2


def damaged_copy(run: Path, name: str, how: str) -> None:
    path = run / name
    if how == "endless":
        path.touch()
        os.truncate(path, 1 << 40)
    elif how == "folder":
        path.unlink(missing_ok=True)
        path.mkdir()
        (path / "letter.txt").write_text("dear")
    else:
        path.write_text({"object": '{"row": 3, "edges": 4, "a": [null]}', "wide": "trials\n" + "x" * 200_000}[how])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["endless", "folder", "object", "wide"])
@pytest.mark.parametrize("name", ["tables/rules.csv", "shrunk/{id}.json", "findings/{picture}", "review/me.jsonl"])
def test_damaged_files_are_told_in_a_line(scene: Path, name: str, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, shrunk changes, pictures and marks: whatever they hold, a verb does without, or says which one it is."""
    run = scene / "work" / "run"
    finding, picture = Run(run).best(1)[0].id, sorted((run / "findings").glob("*.png"))[0].name
    place = name.format(id=finding, picture=picture)
    (run / place).parent.mkdir(exist_ok=True)
    (run / "summary.json").unlink()  # `compare` looks at the tables then
    damaged_copy(run, place, how)
    for verb, words in VERBS.items():
        code = main(words("run", finding))
        said = capsys.readouterr().err
        assert code in (0, 1, 2, 4), (verb, said)
        assert "unexpected" not in said, verb
        assert how != "folder" or (run / place / "letter.txt").read_text() == "dear", verb


def test_differences_are_listed_up_to_a_limit(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    identity = json.loads((run / "campaign.json").read_bytes())
    identity["campaign"]["more"] = list(range(10_000))
    (run / "campaign.json").write_text(json.dumps(identity))
    assert main(VERBS_OF_FILE["run"]("run")) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) < LISTED + 10
    assert said[-1] == f"  and {10_000 - LISTED:,} more"


@pytest.mark.parametrize("name", [".lock", "journal.jsonl"])
def test_hard_links_are_not_written(scene: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run, precious = scene / "work" / "run", scene / "precious"
    (scene / "work" / "mine.toml").write_text(CAMPAIGN.replace("per_case = 3", "per_case = 4"))
    precious.write_bytes((run / name).read_bytes() if name == "journal.jsonl" else b"mine")
    before = precious.read_bytes()
    (run / name).unlink(missing_ok=True)
    os.link(precious, run / name)
    with pytest.raises(StoreError, match="is a hard link"):
        lock_folder(run) if name == ".lock" else Journal(run / name).append([{"kind": "trial"}])
    assert main(["run", "mine.toml", "--into", "run", "--workers", "0"]) == 2, capsys.readouterr().err
    assert precious.read_bytes() == before


@pytest.mark.parametrize("verb", ["show", "report", "show --pack", "export junit", "replay --here", "replay", "compare"])
def test_few_open_files_are_told_in_a_line(scene: Path, verb: str) -> None:
    finding = Run(scene / "work" / "run").best(1)[0].id
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)); "
        "from swerve.cli.main import main; sys.exit(main())"
    )
    made = subprocess.run(
        [sys.executable, "-c", script, *VERBS[verb]("run", finding)],
        env=environment(),
        cwd=scene / "work",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert made.returncode in (0, 1, 2, 3, 4), made.stderr
    assert "Traceback" not in made.stderr
    assert "unexpected" not in made.stderr
    assert made.returncode in (0, 1) or made.stderr.startswith("error: ")


@pytest.mark.parametrize("name", ["../../marks/out", "..%2fout", "a" * 300, "/marks/out", ""])
def test_ids_that_lead_out_of_the_folder_are_refused(scene: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The id of a finding becomes the name of files."""
    run = scene / "work" / "run"
    rows = [{**row, "id": name} if row["kind"] == "trial" else row for row in Run(run).rows()]
    rewrite(run, json.loads((run / "campaign.json").read_bytes()), rows, None)
    before = outside(scene)
    for verb in ("show --pack", "shrink", "replay --shrunk", "report"):
        code = main(VERBS[verb]("run", name[:20] or "aaaa"))
        assert code in (0, 2), capsys.readouterr().err
        assert outside(scene) == before


def test_files_that_are_not_swerves_stay(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scene / "work" / "run"
    (run / "findings" / "notes.txt").write_text("mine")
    (run / "report" / "pictures").mkdir(parents=True)
    (run / "report" / "pictures" / "photo.png").write_text("mine")
    (run / "summary.json").unlink()
    (scene / "work" / "mine.toml").write_text(CAMPAIGN)
    assert main(["run", "mine.toml", "--into", "run", "--workers", "0"]) == 1, capsys.readouterr().err
    assert (run / "findings" / "notes.txt").read_text() == "mine"
    assert (run / "report" / "pictures" / "photo.png").read_text() == "mine"
