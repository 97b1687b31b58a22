"""Which code a campaign may import, call or start, decided before it is imported (docs/security.md)."""

# R48, R68: a run folder is data that anybody may have written; a campaign file is the user's own.

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import site
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from swerve.core.errors import SpecError, printable
from swerve.core.names import KINDS, names

OURS = "swerve"
PYTHON_FILE = ".py"
COMMAND, FOLDER = "command", "folder"  # the arguments that start a program, and the folder it starts in
NO_FILE = ("built-in", "frozen")  # where a module of the interpreter itself comes from
PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Trust:
    """What the user allows beyond Swerve's own and registered parts: modules and programs by name, files by their hash.

    A campaign file names modules and programs freely. A run folder, which is `foreign`, may use only what is listed here.
    """

    names: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict)  # sha256 by resolved path
    foreign: bool = False

    @classmethod
    def of(cls, given: Collection[str | Path] | Trust = ()) -> Trust:
        """What `--trust` was given: Python files and programs by path, modules and programs by name."""
        if isinstance(given, Trust):
            return given
        words = [os.fspath(item) for item in given]
        paths = [word for word in words if is_path(word)]
        names = frozenset(word for word in words if not is_path(word))
        return cls(names, {str(Path(path).resolve()): sha_of_file(Path(path)) for path in paths})

    def joined(self, other: Trust) -> Trust:
        """What either allows."""
        return Trust(self.names | other.names, {**self.files, **other.files}, self.foreign or other.foreign)

    def as_json(self) -> str:
        """For a worker, which takes its parent's word and reads no consent of its own."""
        return json.dumps({"names": sorted(self.names), "files": dict(self.files), "foreign": self.foreign})

    @classmethod
    def of_json(cls, text: str) -> Trust:
        """What `as_json` wrote."""
        data = json.loads(text)
        return cls(frozenset(data["names"]), data["files"], data["foreign"])

    def check_module(self, module: str, use: str) -> None:
        """Refuse to import `module` unless it is Swerve's, allowed, or the user's own in a campaign file."""
        if is_ours(module):
            return
        if _home(module) == "stdlib":
            raise SpecError(f"use = '{use}': {module} is a module of Python's standard library, which has no campaign parts")
        if self._names_module(module):
            return
        if self.foreign:
            raise SpecError(f"use = '{use}': a run folder may import {module} only with --trust {module}")
        if _home(module) == "installed" and not _offers_parts(module):
            raise SpecError(
                f"use = '{use}': {module} is an installed package without a swerve.* entry point; "
                f"if it is meant, run with --trust {module.partition('.')[0]}"
            )

    def check_file(self, given: str, file: Path) -> None:
        """Refuse to run a Python file that is not allowed, or that has changed since it was."""
        known = self.files.get(str(file))
        if known is None:
            raise SpecError(f"{given}: runs only with --trust {file}; a file given by path is code, not data")
        if known != sha_of_file(file):
            raise SpecError(f"{file}: has changed since it was allowed to run; if that is right, add --trust {file}")

    def check_program(self, command: object, folder: Path | None) -> None:
        """Refuse a program that a run folder starts, unless it is allowed and the files it is given are as they were."""
        if not self.foreign or not isinstance(command, list | tuple) or not command:
            return
        program, files = str(command[0]), dict(files_named(command, folder))
        by_path = str(((folder or Path()) / program).resolve()) in self.files if "/" in program else False
        if not (program in self.names or by_path):
            raise SpecError(f"a run folder may start the program {printable(program, 80)} only with --trust {program}")
        for path, sha in files.items():
            if self.files.get(path) != sha:
                raise SpecError(f"{path}: has changed since {program} was allowed; if that is right, add --trust {program}")

    def _names_module(self, module: str) -> bool:
        """Whether the module, or a package around it, is allowed."""
        parts = module.split(".")
        return any(".".join(parts[:end]) in self.names for end in range(1, len(parts) + 1))


OWN = Trust()  # a campaign file's, without --trust


def is_path(word: str) -> bool:
    """Whether `--trust` was given a file and not a name."""
    return word.endswith(PYTHON_FILE) or "/" in word


def is_ours(module: str) -> bool:
    """Whether a module is Swerve's own."""
    return module == OURS or module.startswith(f"{OURS}.")


def is_registered(target: str) -> bool:
    """Whether `module:Name` is a part of Swerve's with a short name, or an entry point of an installed package."""
    return any(target in names(kind).values() for kind in KINDS)


def sha_of_file(path: Path) -> str:
    """The sha256 of a file, or nothing where there is none to read."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def named_in(described: Any, base: Path, factory: str | None = None) -> Trust:
    """All that a described campaign names and that is not registered: modules, programs, and the files given to programs."""
    modules = {text.rpartition(":")[0] for text in (*_texts(described), factory or "") if not is_registered(text)}
    named = {name for name in modules if name and all(part.isidentifier() for part in name.split(".")) and not is_ours(name)}
    files: dict[str, str] = {}
    for table in _tables(described):
        command = table.get(COMMAND)
        if isinstance(command, list) and command:
            named.add(str(command[0]))
            files |= files_named(command, base / table[FOLDER] if isinstance(table.get(FOLDER), str) else None)
    return Trust(frozenset(named), files)


def _texts(described: Any) -> Iterator[str]:
    if isinstance(described, str):
        yield described
    for item in _items(described):
        yield from _texts(item)


def _tables(described: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(described, Mapping):
        yield described
    for item in _items(described):
        yield from _tables(item)


def _items(described: Any) -> Collection[Any]:
    return described.values() if isinstance(described, Mapping) else described if isinstance(described, list) else ()


def files_named(command: Sequence[object], folder: Path | None) -> dict[str, str]:
    """The files among the words of a command, by resolved path, with their hashes."""
    paths = ((folder or Path()) / str(word) for word in command)
    return {str(path.resolve()): sha_of_file(path) for path in paths if os.path.isfile(path)}


@cache
def _home(module: str) -> str:
    """Where a module comes from: `stdlib`, `installed` (site-packages) or `own`; nothing of it is imported."""
    places = list(_places(module))
    if any(place in NO_FILE for place in places):
        return "stdlib"
    inside = [Path(place).resolve() for place in places]
    if any(path.is_relative_to(folder) for path in inside for folder in _site_folders()):
        return "installed"
    return "stdlib" if any(path.is_relative_to(folder) for path in inside for folder in _python_folders()) else "own"


def _places(module: str) -> Iterator[str]:
    """The file of the outermost package that has code; looking inside a package with code would import it."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:end]))
        except (ImportError, ValueError, AttributeError):  # not found, or a module made by hand
            return
        if spec is None:
            return
        if spec.origin is not None:
            yield spec.origin
            return
        if end == len(parts):
            yield from spec.submodule_search_locations or ()


@cache
def _site_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    listed = [path for path in sys.path if Path(path).name in PACKAGES]
    known = [paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages(), *listed]
    return tuple({Path(path).resolve() for path in known})


@cache
def _python_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")})


@cache
def _offers_parts(module: str) -> bool:
    """Whether the distribution that a module was installed with has an entry point of ours."""
    owners = importlib.metadata.packages_distributions().get(module.partition(".")[0], ())
    points = (point for name in owners for point in importlib.metadata.distribution(name).entry_points)
    return any(point.group.startswith(f"{OURS}.") for point in points)
