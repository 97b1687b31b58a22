"""One finding as a zip for a ticket: pictures, change, verdict, versions, hashes and the replay command.

The same finding gives the same bytes, which contain no names or paths of the machine it was found on.
"""
# R57

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swerve.analysis.exemplars import smallest_words
from swerve.config.limits import FILE
from swerve.core.errors import EnvironmentFault, StoreError, SwerveError
from swerve.execution.finding_pictures import files_of
from swerve.report.followups import rebuild_inputs
from swerve.report.sharing import Sharing
from swerve.report.sweep_pictures import drawn
from swerve.report.words import answer_words, expectation
from swerve.store.artifacts import pictures_of, shrunk_of
from swerve.store.files import json_bytes, png_bytes, whole_file
from swerve.store.record_json import Finding, finding_of
from swerve.store.view import CAMPAIGN, Run

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip
READABLE = 0o644 << 16
LINUX = 3
SIDES = ("source", "followup")
LONGEST_REASON = 160
Files = dict[str, bytes]


def pack(run: Run, prefix: str, into: Path, *, trusted: Collection[str | Path] = (), keep_paths: bool = False) -> Path:
    """Write the finding whose id starts with `prefix` to the zip `into`, or into that folder; returns the zip's path.

    Pictures that were not kept are rebuilt; if that fails, `README.txt` says why. `keep_paths` leaves home folders and the
    names of user and host in the texts.
    """
    finding = finding_of(run.row(prefix))
    sharing = Sharing(run, keep_paths)
    pictures, why = input_files(run, finding, trusted)
    files = {**pictures, CAMPAIGN: json_bytes(sharing.data(run.identity)), "finding.json": _facts(finding, sharing)}
    files["README.txt"] = _readme(finding, sharing, sorted(files), why).encode()
    files["SHA256SUMS"] = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()
    path = into / f"finding-{finding.id}.zip" if into.is_dir() else into
    _write(path, files)
    return path


def _write(path: Path, files: Files) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"{path.parent}: the folder cannot be created: {error.strerror}") from error
    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr, entry.create_system = READABLE, LINUX
            archive.writestr(entry, files[name])


def input_files(run: Run, finding: Finding, trusted: Collection[str | Path] = ()) -> tuple[Files, str]:
    """The inputs of source and follow-up as files, `source-camera.png` and so on, or why there are none."""
    if kept := _kept(run, finding):
        return kept, ""
    try:
        ((_, *cases),) = rebuild_inputs(run, [finding], trusted)
    except Exception as error:  # a user's own source or change may raise anything
        return {}, str(error) if isinstance(error, SwerveError) else f"{type(error).__name__}: {error}"
    files = _named(finding, [files_of(case) for case in cases])
    return files, "" if files else "no input of this finding is a picture or a point cloud"


def _kept(run: Run, finding: Finding) -> Files:
    """The kept files of both sides, or none; links that leave the run folder are not followed."""
    root = run.folder.resolve()
    sides: list[Files] = []
    for sha in (finding.source_sha, finding.input_sha):
        paths = pictures_of(run, sha).values() if re.fullmatch(r"[0-9a-f]{64}", sha) else ()
        inside = [path for path in paths if path.resolve().is_relative_to(root) and path.is_file()]
        sides.append({path.name.partition("-")[2]: path.read_bytes() for path in inside if path.stat().st_size <= FILE})
    return _named(finding, sides) if all(sides) else {}


def _named(finding: Finding, sides: Sequence[Files]) -> Files:
    """The files of both sides, and for each sweep its bird's-eye picture."""  # LM-11
    found = {f"{side}-{name}": data for side, files in zip(SIDES, sides, strict=True) for name, data in files.items()}
    for one in drawn(finding, *sides):
        found |= {f"{side}-{one.sensor}.png": png_bytes(getattr(one, side)) for side in SIDES}
    return found


def _facts(finding: Finding, sharing: Sharing) -> bytes:
    identity = sharing.run.identity
    about = {"versions": _versions(sharing.run), "fingerprints": identity["fingerprints"]}
    facts = {**finding.as_dict(), "verdict": "violated", **about}
    return json_bytes({**sharing.data(facts), "replay": sharing.replay(finding.id), **_smallest(finding, sharing)})


def _smallest(finding: Finding, sharing: Sharing) -> dict[str, Any]:
    again = sharing.replay(finding.id)
    found: dict[str, Any] = sharing.data(smallest_of(sharing.run, finding, again))
    return found


def _readme(finding: Finding, sharing: Sharing, names: list[str], why: str) -> str:
    lines = [
        f"Finding {finding.id}",
        "",
        *_table(finding, sharing),
        "",
        "To replay it, from the folder that contains the run folder:",
    ]
    small = _smallest(finding, sharing).get("smallest")
    again = [sharing.replay(finding.id), *([small["replay"]] if small and not small["flaky"] else [])]
    lines += [*(f"  {line}" for line in again), "", "In this archive:", *(f"  {name}" for name in names)]
    return "\n".join([*lines, *([f"No pictures: {sharing.line(why, LONGEST_REASON)}"] if why else []), ""])


def _table(finding: Finding, sharing: Sharing) -> Iterator[str]:
    """The facts of a ticket, one per line."""
    answers = {"source": finding.before, "follow-up": finding.after, "label": finding.truth}
    outcome = "violated, flaky" if finding.flaky else "violated"
    lines: Mapping[str, str] = {
        "rule": f"{finding.rule}: {_expected(sharing.run, finding.rule)}",
        "case": finding.case,
        "change": finding.words,
        **({"smallest change": small["words"]} if (small := _smallest(finding, sharing).get("smallest")) else {}),
        "verdict": f"{outcome}, margin {finding.margin:+.3g}, {finding.origin.words}: {finding.why}",
        **{
            f"answer on {name}" if name != "label" else name: answer_words(answer)
            for name, answer in answers.items()
            if answer
        },
        **{f"sha256 of {name}": sha for name, sha in _hashes(finding, sharing.run).items()},
        "versions": ", ".join(f"{name} {version}" for name, version in _versions(sharing.run).items()),
    }
    width = max(map(len, lines))
    yield from (f"{name:{width}}  {sharing.line(text)}" for name, text in lines.items())


def _expected(run: Run, name: str) -> str:
    rules: list[Mapping[str, Any]] = run.identity["campaign"].get("rule", [])
    return next((expectation(rule.get("expect")) for rule in rules if rule.get("name") == name), "unknown")


def _hashes(finding: Finding, run: Run) -> dict[str, str]:
    prints = run.identity["fingerprints"]
    parts = {"weights": prints.get("system"), "data": prints.get("source"), "swerve's code": prints.get("package")}
    given = {**parts, "source input": finding.source_sha, "follow-up input": finding.input_sha}
    return {name: str(sha) for name, sha in given.items() if sha}


def _versions(run: Run) -> dict[str, str]:
    return {"swerve": str(run.identity.get("swerve", "")), **run.identity.get("libraries", {})}


def smallest_of(run: Run, finding: Finding, replay: str) -> dict[str, Any]:
    """The smallest change that still fails, under the key `smallest`; empty if there is none or its file is damaged.

    `replay` is the command that replays the finding itself.
    """
    try:
        shrunk = shrunk_of(run, finding.id)
    except StoreError:
        return {}
    if shrunk is None:
        return {}
    smallest = shrunk.finding
    change = {"words": smallest_words(run, finding), "parameters": dict(smallest.change), "margin": smallest.margin}
    again = replay if shrunk.flaky else f"{replay} --shrunk"
    return {"smallest": {**change, "why": smallest.why, "flaky": shrunk.flaky, "replay": again}}
