"""Decides which code a campaign may import, call or start, before anything is imported (docs/security.md)."""

# R48, R68: a run folder is data that may come from anyone; a campaign file is the user's own.

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
# Any campaign may use classes of these packages. Classes of the others write files, start processes or build campaigns.
ROOMS = frozenset(
    [
        "core",
        "coverage",
        "methods",
        "relations",
        "search",
        "sources",
        "systems",
        "testing",
        "transformations",
        "world",
        "zoo",
    ]
)
PYTHON_FILE = ".py"
COMMAND, FOLDER = "command", "folder"  # the arguments that start a program, and the folder it starts in
NO_FILE = ("built-in", "frozen")  # where a module of the interpreter itself comes from
PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Trust:
    """What the user allows besides Swerve's own and registered parts: modules and programs by name, files by hash.

    A campaign file may use any module or program. A run folder, which is `foreign`, may use only what is listed here, and a
    program only with a command that its campaign has: the user never agreed to one that is in the journal alone.
    """

    names: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict)  # sha256 by resolved path
    foreign: bool = False
    commands: frozenset[tuple[str, ...]] = frozenset()  # of the campaign: the folder and the words of each
    given_for: str = ""  # the state of the run folder that it was given for; no process uses it for another

    @classmethod
    def of(cls, given: Collection[str | Path] | Trust = ()) -> Trust:
        """The values of `--trust`: Python files and programs by path, modules and programs by name."""
        if isinstance(given, Trust):
            return given
        words = [os.fspath(item) for item in given]
        paths = [word for word in words if is_path(word)]
        names = frozenset(word for word in words if not is_path(word))
        return cls(names, {str(Path(path).resolve()): sha_of_file(Path(path)) for path in paths})

    def union(self, other: Trust) -> Trust:
        """Everything that either of the two allows."""
        files, foreign = {**self.files, **other.files}, self.foreign or other.foreign
        given_for = self.given_for or other.given_for
        return Trust(self.names | other.names, files, foreign, self.commands | other.commands, given_for)

    def as_json(self) -> str:
        """JSON for a worker process, which uses its parent's trust and reads no stored consent."""
        sets = {"names": sorted(self.names), "commands": sorted(self.commands)}
        about = {"foreign": self.foreign, "given_for": self.given_for}
        return json.dumps({**sets, "files": dict(self.files), **about})

    @classmethod
    def of_json(cls, text: str) -> Trust:
        """The trust that `as_json` wrote."""
        data = json.loads(text)
        commands = frozenset(map(tuple, data["commands"]))
        return cls(frozenset(data["names"]), data["files"], data["foreign"], commands, data["given_for"])

    def check_module(self, module: str, use: str) -> None:
        """Refuse to import `module` unless it is part of Swerve, allowed, or the user's own in a campaign file."""
        if has_parts(module) or (is_ours(module) and not self.foreign):
            return
        if _module_origin(module) == "stdlib":
            raise SpecError(f"use = '{use}': {module} is a module of Python's standard library, which has no campaign parts")
        if self.names_module(module):
            return
        if self.foreign:
            raise SpecError(f"use = '{use}': a run folder may import {module} only with --trust {module}")
        if _module_origin(module) == "installed" and not _offers_parts(module):
            raise SpecError(
                f"use = '{use}': {module} is an installed package without a swerve.* entry point; "
                f"to use it anyway, run with --trust {module.partition('.')[0]}"
            )

    def code_of(self, given: str, file: Path) -> bytes:
        """The content of a Python file; refused if the file is not allowed, or has changed since it was allowed."""
        known = self.files.get(str(file))
        if not known and not self.foreign and not file.exists():
            raise SpecError(f"{file}: there is no such file")
        if known is None:
            raise SpecError(f"{given}: is Python code and runs only with --trust {file}")
        if not known and not file.is_file():
            raise SpecError(f"{file}: there is no such file")
        try:
            code = file.read_bytes()
        except OSError:
            code = b""
        if known != hashlib.sha256(code).hexdigest():
            raise SpecError(f"{file}: has changed since it was allowed to run; if you made the change, add --trust {file}")
        return code

    def check_program(self, command: object, folder: Path | None) -> None:
        """Refuse a program that a run folder starts, unless it is allowed and its files have not changed since."""
        if not self.foreign or not isinstance(command, list | tuple) or not command:
            return
        program, files = _program(command, folder), files_named(command, folder)
        words = printable(" ".join(map(str, command)), 200)
        if not self.allows_program(command, folder):
            raise SpecError(f"a run folder may start the program {words} only with --trust {program}")
        if _words(command, folder) not in self.commands:
            raise SpecError(f"a change may start a program only with one of the commands in the campaign, got {words}")
        for path, sha in files.items():
            if self.files.get(path) != sha:
                again = f"if you made the change, add --trust {program}"
                raise SpecError(f"{path}: has changed since {program} was allowed; {again}")

    def allows_program(self, command: Sequence[object], folder: Path | None) -> bool:
        """Whether the program of a command is allowed, by its name or by its path."""
        return str(command[0]) in self.names or _program(command, folder) in self.files

    def names_module(self, module: str) -> bool:
        """Whether the module, or a package around it, is allowed by name."""
        parts = module.split(".")
        return any(".".join(parts[:end]) in self.names for end in range(1, len(parts) + 1))


OWN = Trust()  # a campaign file's, without --trust


def is_path(word: str) -> bool:
    """Whether a value of `--trust` is a file and not a name."""
    return word.endswith(PYTHON_FILE) or "/" in word


def is_ours(module: str) -> bool:
    """Whether a module is Swerve's own."""
    return module == OURS or module.startswith(f"{OURS}.")


def has_parts(module: str) -> bool:
    """Whether a module belongs to a package of Swerve that any campaign may use."""
    return is_ours(module) and module.removeprefix(f"{OURS}.").partition(".")[0] in ROOMS


def is_registered(target: str) -> bool:
    """Whether `module:Name` has a short name in Swerve or is an entry point of an installed package."""
    return any(target in names(kind).values() for kind in KINDS)


def sha_of_file(path: Path) -> str:
    """The sha256 of a file, or "" if it cannot be read."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def required_trust(described: Any, base: Path, factory: str | None = None) -> Trust:
    """The unregistered code that a described campaign uses: modules, programs, and the files passed to programs."""
    modules = {text.rpartition(":")[0] for text in (*_texts(described), factory or "") if not is_registered(text)}
    named = {
        name for name in modules if name and all(part.isidentifier() for part in name.split(".")) and not has_parts(name)
    }
    named |= {factory.rpartition(":")[0]} if factory and PYTHON_FILE not in factory else set()
    files: dict[str, str] = {}
    for command, folder in _commands(described, base):
        named.add(str(command[0]))
        files |= files_named(command, folder)
    return Trust(frozenset(named), files, commands=commands_of(described, base))


def commands_of(described: Any, base: Path) -> frozenset[tuple[str, ...]]:
    """The folder and the words of every command of a described campaign."""
    return frozenset(_words(command, folder) for command, folder in _commands(described, base))


def _words(command: Sequence[object], folder: Path | None) -> tuple[str, ...]:
    return str(folder or ""), *map(str, command)


def files_of_programs(described: Any, base: Path, allowed: Trust) -> dict[str, str]:
    """The hashes of the files in those commands of a described campaign whose program is allowed."""
    commands = [one for one in _commands(described, base) if allowed.allows_program(*one)]
    return {path: sha for command, folder in commands for path, sha in files_named(command, folder).items()}


def _commands(described: Any, base: Path) -> Iterator[tuple[list[Any], Path | None]]:
    for table in _tables(described):
        command, folder = table.get(COMMAND), table.get(FOLDER)
        if isinstance(command, list) and command:
            yield command, base / folder if isinstance(folder, str) else None


def _program(command: Sequence[object], folder: Path | None) -> str:
    """The program of a command as `--trust` takes it: its name, or its whole path."""
    program = str(command[0])
    return str(((folder or Path()) / program).resolve()) if "/" in program else program


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
    """The hashes of the files among the words of a command, by resolved path."""
    paths = ((folder or Path()) / str(word) for word in command)
    return {str(path.resolve()): sha_of_file(path) for path in paths if os.path.isfile(path)}


@cache
def _module_origin(module: str) -> str:
    """Where a module comes from, without importing it: `stdlib`, `installed` (site-packages) or `own`."""
    files = list(_module_files(module))
    if any(file in NO_FILE for file in files):
        return "stdlib"
    paths = [Path(file).resolve() for file in files]
    if any(path.is_relative_to(folder) for path in paths for folder in _site_folders()):
        return "installed"
    return "stdlib" if any(path.is_relative_to(folder) for path in paths for folder in _python_folders()) else "own"


def _module_files(module: str) -> Iterator[str]:
    """The file of the outermost package that has code; a search inside that package would import it."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:end]))
        except (ImportError, ValueError, AttributeError):  # not found, or a module created without a spec
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
    """The folders that hold installed packages."""
    paths = sysconfig.get_paths()
    listed = [path for path in sys.path if Path(path).name in PACKAGES]
    known = [paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages(), *listed]
    return tuple({Path(path).resolve() for path in known})


@cache
def _python_folders() -> tuple[Path, ...]:
    """The folders that hold Python's standard library."""
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")})


@cache
def _offers_parts(module: str) -> bool:
    """Whether the distribution that installed a module has an entry point for Swerve."""
    owners = importlib.metadata.packages_distributions().get(module.partition(".")[0], ())
    points = (point for name in owners for point in importlib.metadata.distribution(name).entry_points)
    return any(point.group.startswith(f"{OURS}.") for point in points)
