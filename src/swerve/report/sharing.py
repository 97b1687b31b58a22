"""Texts that leave this machine: on one line, without control characters, home folders, or the names of user and host."""

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

COLUMNS = ("id", "rule", "case", "change", "parameters", "margin", "why", "introduced", "replay")
HOME, USER, HOST = "~", "USER", "HOST"
# A name everybody has tells nothing, and is often a word of something else.
EVERYBODY = frozenset(
    [
        *("admin", "build", "debian", "default", "docker", "home", "jenkins", "localhost", "nobody"),
        *("root", "runner", "swerve", "test", "ubuntu", "user", "vscode", "work", "world"),
    ]
)
SHORTEST_NAME = 3
# Of any user, on any system: the run may come from another machine. A relative path may climb up to it too.
_HOMES = re.compile(r"(?<![\w.~-])(?:(?:\.\./)+|/)(?:home|Users)/[^/\s'\"<>:,;]+|\b[A-Za-z]:\\+Users\\+[^\\\s'\"<>:,;]+")


@dataclass(frozen=True)
class Sharing:
    """How the texts of a run are written where others read them; `keep_paths` leaves paths and names as they are."""

    run: Run
    keep_paths: bool = False

    def line(self, text: str, longest: int | None = None) -> str:
        """`text` on one line; what XML 1.0 and terminals cannot bear is spelt out."""
        return printable(self.scrubbed(text), longest)

    def scrubbed(self, text: str) -> str:
        """`text` without home folders, user and host."""
        if self.keep_paths:
            return text
        for pattern, instead in _private():
            text = pattern.sub(instead, text)
        return text

    def data(self, data: Any) -> Any:
        """JSON whose every text is scrubbed."""
        if isinstance(data, str):
            return self.scrubbed(data)
        if isinstance(data, dict):
            return {self.scrubbed(key): self.data(item) for key, item in data.items()}
        return [self.data(item) for item in data] if isinstance(data, list | tuple) else data

    def replay(self, finding: str) -> str:
        """The line that runs a finding again."""
        return f"{self._command} {finding}"

    @cached_property
    def _command(self) -> str:
        """The run folder as seen from here, so that the line can be pasted; where it lies is nobody's business."""
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
    """Write every finding, a row each, in the order of the journal."""
    write_csv(path, COLUMNS, _rows(sharing))


def _rows(sharing: Sharing) -> Iterator[tuple[Any, ...]]:
    for finding in sharing.run.findings():
        yield _row(finding, sharing)


def _row(finding: Finding, sharing: Sharing) -> tuple[Any, ...]:
    told = (sharing.line(text) for text in (finding.rule, finding.case, finding.words))
    parameters = json.dumps(sharing.data(finding.change))
    ending = (finding.margin, sharing.line(finding.why), finding.origin, sharing.replay(finding.id))
    return (finding.id, *told, parameters, *ending)
