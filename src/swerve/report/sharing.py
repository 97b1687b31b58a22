"""Texts for other machines: on one line, without control characters, home folders or the names of user and host.

Also the CSV export of a run's findings.
"""

from __future__ import annotations

import getpass
import json
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from swerve.core.errors import printable
from swerve.store.files import write_csv
from swerve.store.record_json import Finding
from swerve.store.view import Run

COLUMNS = ("id", "rule", "case", "change", "parameters", "margin", "why", "origin", "facts", "replay")
HOME, USER, HOST = "~", "USER", "HOST"
# Common names identify nobody, and often occur as ordinary words.
EVERYBODY = frozenset(
    [
        *("admin", "build", "debian", "default", "docker", "home", "jenkins", "localhost", "nobody"),
        *("root", "runner", "swerve", "test", "ubuntu", "user", "vscode", "work", "world"),
    ]
)
SHORTEST_NAME = 3
# Home folders of any user on any system, since a run may come from elsewhere; relative paths may lead to them too.
_HOMES = re.compile(r"(?<![\w.~-])(?:(?:\.\./)+|/)(?:home|Users)/[^/\s'\"<>:,;]+|\b[A-Za-z]:\\+Users\\+[^\\\s'\"<>:,;]+")


@dataclass(frozen=True)
class Sharing:
    """How texts of a run are written for others; `keep_paths` leaves paths and names as they are."""

    run: Run
    keep_paths: bool = False

    def line(self, text: str, longest: int | None = None) -> str:
        """`text` on one line; characters that XML 1.0 or a terminal cannot show are escaped."""
        return printable(self.scrubbed(text), longest)

    def scrubbed(self, text: str) -> str:
        """`text` without home folders, user and host."""
        if self.keep_paths:
            return text
        for pattern, instead in _private():
            text = pattern.sub(instead, text)
        return text

    def data(self, data: Any) -> Any:
        """JSON with every text scrubbed."""
        if isinstance(data, str):
            return self.scrubbed(data)
        if isinstance(data, dict):
            return {self.scrubbed(key): self.data(item) for key, item in data.items()}
        return [self.data(item) for item in data] if isinstance(data, list | tuple) else data

    def replay(self, finding: str) -> str:
        """The command that replays a finding."""
        return f"{self._command} {finding}"

    @cached_property
    def _command(self) -> str:
        """With the run folder relative to the current one, so that it can be pasted and names no private path."""
        folder, here = self.run.folder.absolute(), Path.cwd()
        near = folder.is_relative_to(here) and not self.keep_paths
        return self.line(f"swerve replay {shlex.quote(str(folder.relative_to(here) if near else self.run.folder))}")


@cache
def _private() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(_patterns())


def _patterns() -> Iterator[tuple[re.Pattern[str], str]]:
    home = str(Path.home())
    if len(home) > 1:  # "/" is the home of some containers
        yield re.compile(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])"), HOME
    yield _HOMES, HOME
    for name, instead in ((_user(), USER), (socket.gethostname(), HOST)):
        if len(name) >= SHORTEST_NAME and name.lower() not in EVERYBODY:
            yield re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"), instead


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return ""


def write_findings(sharing: Sharing, path: Path) -> None:
    """Write a row per finding, in the order of the journal."""
    write_csv(path, COLUMNS, _rows(sharing))


def _rows(sharing: Sharing) -> Iterator[tuple[Any, ...]]:
    for finding in sharing.run.findings():
        yield _row(finding, sharing)


def _row(finding: Finding, sharing: Sharing) -> tuple[Any, ...]:
    texts = (sharing.line(text) for text in (finding.rule, finding.case, finding.words))
    parameters, facts = (json.dumps(sharing.data(dict(part))) for part in (finding.change, finding.facts))
    ending = (finding.margin, sharing.line(finding.why), finding.origin.value, facts, sharing.replay(finding.id))
    return (finding.id, *texts, parameters, *ending)
