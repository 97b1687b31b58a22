"""Sources over the files below one folder: a reader lists its entries; reading, skipping and hashing them is done here."""

# No postponed annotations: readers inherit `folder`, and its type must resolve to Path in their modules too.
import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.core.arguments import take_paths
from swerve.core.case import Case, Fact
from swerve.core.encode import encode
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import digest_of
from swerve.core.values import Value
from swerve.sources.images import read_image
from swerve.sources.root import Root

CAMERA, LIDAR = "camera", "lidar"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """What a case consists of, before its files are read."""

    key: str
    files: Mapping[str, str] = field(default_factory=dict)  # role, such as camera or labels, to a path below the folder
    truth: tuple[Value, ...] = ()
    group: str = ""
    fault: str = ""  # why it cannot be used: the entry is listed and counted, but never read
    columns: Mapping[str, Fact] = field(default_factory=dict)  # what the data set says of it besides its labels


@dataclass(frozen=True)
class ListedSource:
    """A source whose cases are files below `folder`; a reader yields them in `listed` and their labels in `truth`."""

    folder: Path

    def __post_init__(self) -> None:
        take_paths(self)

    def listed(self) -> Iterable[Entry]:
        """The entries in order; two entries with the same key become one case that cannot be used."""
        raise NotImplementedError

    def manifests(self) -> Sequence[str]:
        """Files that hold the labels of many cases."""
        return ()

    def inputs(self, entry: Entry) -> Mapping[str, Value]:
        """The sensor data: by default the picture in the file with the role `camera`."""
        return {CAMERA: read_image(self.root, entry.files[CAMERA])}

    def read_inputs(self, entry: Entry) -> tuple[Mapping[str, Value], Mapping[str, Fact]]:
        """The inputs, and facts for the case that the reader found while reading them."""
        return self.inputs(entry), {}

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        """The labels of an entry."""
        del inputs
        return entry.truth

    def keys(self) -> Sequence[str]:
        return list(self.entries)

    def group(self, key: str) -> str:
        """The drive or scene of a key."""
        return self.entries[key].group

    def columns(self, key: str) -> Mapping[str, Fact]:
        """What the data set says of a key besides its labels."""
        return self.entries[key].columns

    def __getitem__(self, key: str) -> Case:
        entry = self.entries[key]
        if entry.fault:
            raise UnreadableCase(entry.fault)
        inputs, facts = self.read_inputs(entry)
        return Case(key, inputs, self.truth(entry, inputs), entry.group, facts=facts)

    def fingerprint(self) -> str:
        return self._fingerprint

    @cached_property
    def root(self) -> Root:
        """The folder, from which files are opened safely."""
        return Root(self.folder)

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """Every entry by its key; raises `InputError` where there are none."""
        found: dict[str, Entry] = {}
        for entry in self.listed():
            twice = entry.key in found
            found[entry.key] = replace(found[entry.key], fault=f"{entry.key}: listed twice") if twice else entry
        if not found:
            raise InputError(f"{self.folder}: 0 cases; {type(self).__name__} found no files of its format there")
        return found

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """The SHA-256 of every file that a case uses; for a file that cannot be opened, the reason."""
        names = {name: None for entry in self.entries.values() for name in entry.files.values()}
        return {name: self._hash(name) for name in (*self.manifests(), *names)}

    @cached_property
    def _fingerprint(self) -> str:
        names = [item.name for item in fields(self) if item.init and item.name != "folder"]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        entries = [(entry.key, sorted(entry.files.items()), entry.group, entry.fault) for entry in self.entries.values()]
        # Paths are relative to the folder: moving a data set does not change its fingerprint.
        return digest_of(type(self).__name__, encode(given, self.folder), entries, sorted(self.hashes.items()))

    def _hash(self, name: str) -> str:
        try:
            with self.root.open(name) as file:
                hasher = hashlib.sha256()
                while block := file.read(BLOCK):
                    hasher.update(block)
                return hasher.hexdigest()
        except UnreadableCase as error:
            return str(error)
        except OSError as error:
            return f"{name}: {error.strerror}"


def plain_facts(row: object, *, without: Collection[str] = ()) -> dict[str, Fact]:
    """The texts and numbers of a row of metadata; a text that is a number becomes one. Lists and tables are left out."""
    items = row.items() if isinstance(row, Mapping) else ()
    return {str(name): _fact(item) for name, item in items if isinstance(item, str | int | float) and name not in without}


def _fact(item: str | float) -> Fact:
    try:
        number = float(item)
    except ValueError:
        return str(item)
    return number if math.isfinite(number) else str(item)
