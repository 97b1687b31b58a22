"""Checks that the data have not changed since the baseline: cases by their hash, files by a list in the run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.core.campaign import Observation
from swerve.core.case import Case, Source
from swerve.core.encode import digest_of_large, encode, storable
from swerve.core.errors import InputError, StoreError, UnreadableCase, printable
from swerve.store.files import read_json_value, write_whole
from swerve.store.fingerprint import differences

if TYPE_CHECKING:
    from swerve.sources.listed import ListedSource

FILES = "files.json"  # a list per source of files: name -> the first digits of its sha256
DIGITS = 16  # 100,000 files take about 5 MB
NAMED = 3  # files named in a message


def refuse_changed_case(source: Source, case: Case, seen: Observation) -> None:
    """Raise `InputError` if a case that was read again differs from the one in the baseline."""
    refuse_changed_input(source, case, seen.input_sha)
    if encode(storable(case.truth)) != encode(seen.truth) or digest_of_large(case.truth) != seen.truth_sha:
        raise _changed_error(source, case.key, "other labels")


def refuse_changed_input(source: Source, case: Case, sha: str) -> None:
    """Raise `InputError` if the hash of a case's inputs differs from the one in the journal."""
    if sha and case.input_sha != sha:
        raise _changed_error(source, case.key, f"sha {sha[:8]} then, {case.input_sha[:8]} now")


def _changed_error(source: Source, key: str, what: str) -> InputError:
    files = _changed_files(source, key)
    where = f"{', '.join(files[:NAMED])}{' …' if len(files) > NAMED else ''}: " if files else ""
    return InputError(
        f"{printable(where, 120)}the data changed during the run (case {printable(key, 60)}: {what}); "
        "restore the data, or run again into another folder"
    )


def _changed_files(source: Source, key: str) -> list[str]:
    """The files of a case: those known to have changed since they were hashed, or else all of them."""
    found = [(one, name) for one in _listed(source) for name in _files_of(one, source, key)]
    changed = [name for one, name in found if _hash_changed(one, name)]
    return changed or [name for _, name in found]


def _files_of(listed: ListedSource, source: Source, key: str) -> list[str]:
    from swerve.sources.windows import frames_of

    entries = [listed.entries[frame] for frame in frames_of(source, key) if frame in listed.entries]
    names = dict.fromkeys(name for entry in entries for name in entry.files.values())
    return [*names, *(listed.manifests() if names else ())]


def _hash_changed(listed: ListedSource, name: str) -> bool:
    hashes: Mapping[str, str] = vars(listed).get("hashes", {})  # computed at the start of a run, or never
    try:
        with listed.root.open(name) as file:
            return name in hashes and hashes[name] != hashlib.sha256(file.read()).hexdigest()
    except (OSError, UnreadableCase):
        return True


def _listed(part: object) -> Iterator[ListedSource]:
    """The sources of files that a source reads: itself, or its parts."""
    from swerve.sources.listed import ListedSource  # with OpenCV, which the engine does without

    if isinstance(part, ListedSource):
        yield part
    elif isinstance(part, Source):
        for name in getattr(part, "__dataclass_fields__", ()):
            yield from _listed(getattr(part, name))


def keep_file_list(folder: Path, source: Source) -> None:
    """Write the hash of every source file into the run folder, unless it is there or there are no such files."""
    if not (folder / FILES).exists() and (hashes := _hashes(source)):
        write_whole(folder / FILES, json.dumps(hashes, separators=(",", ":"), sort_keys=True).encode())


def _hashes(source: Source) -> list[dict[str, str]]:
    return [{name: sha[:DIGITS] for name, sha in listed.hashes.items()} for listed in _listed(source)]


def name_changed_files(
    folder: Path, source: Source, changed: Sequence[str], then: Mapping[str, Any], now: Mapping[str, Any]
) -> list[str]:
    """The differences between two identities, with the names of changed source files in place of two hashes."""
    prints = [{"fingerprints": {"source": one["fingerprints"].get("source", "")}} for one in (then, now)]
    lines = differences(*prints)
    files = _describe_files(folder, source) if lines else ""
    return [f"data differ: {files}" if files and line in lines else line for line in changed]


def _describe_files(folder: Path, source: Source) -> str:
    """The files that differ from the list in the run folder; "" if there is no list."""
    try:
        then = read_json_value(folder / FILES)
        now = _hashes(source)
        lines = [line for old, new in zip(then, now, strict=True) for line in _compare(old, new)]
    except (StoreError, OSError, ValueError, TypeError, AttributeError):
        return ""
    more = f" (and {len(lines) - NAMED} more files)" if len(lines) > NAMED else ""
    return printable(", ".join(lines[:NAMED]), 150) + more


def _compare(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*then, *now]):
        if name not in now:
            yield f"{name} is gone"
        elif name not in then:
            yield f"{name} is new"
        elif then[name] != now[name]:
            yield f"{name} changed"
