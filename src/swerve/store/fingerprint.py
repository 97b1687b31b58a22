"""What makes two campaigns the same: their description, weights, data, code and libraries."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import swerve
from swerve.config.registry import module_file
from swerve.config.toml import describe
from swerve.core.campaign import Campaign, learns
from swerve.core.case import Source
from swerve.core.encode import is_live
from swerve.core.errors import InputError
from swerve.core.names import name_of
from swerve.core.space import Over, Space, Table
from swerve.core.system import System
from swerve.core.transformation import Chain, Transformation, params_of

FORMAT = 2
NAMED = re.compile(r"[\w./-]+:\w+")  # module:Name, as functions are given by
LIBRARIES = ("numpy", "opencv-python-headless", "torch")
WORDS = {"system": "weights", "source": "data", "package": "swerve's code", "code": "your code"}


def identity_of(campaign: Campaign, base: Path, factory: str | None = None) -> dict[str, Any]:
    """The content of `campaign.json`; `factory` is the `module:function` a Python campaign is rebuilt by."""
    described = describe(campaign, base)
    return {
        "format": FORMAT,
        "swerve": swerve.__version__,
        "factory": factory,
        "rebuildable": factory is not None or not is_live(described),
        "fingerprints": {
            "system": _fingerprint_of("system", campaign.system),
            "source": _fingerprint_of("source", campaign.source),
            "package": package_fingerprint(),
            "code": code_fingerprint(described, factory),
        },
        "libraries": {name: _version(name) for name in LIBRARIES},
        "learns": learns(campaign.search),
        "parameters": {name_of(kind): _numbers(kind) for rule in campaign.rules for kind in kinds_of(rule.change)},
        "campaign": described,
    }


def _fingerprint_of(what: str, part: System | Source) -> str:
    """A part's own fingerprint, which must be a text."""
    try:
        told: object = part.fingerprint()
    except (Exception, SystemExit) as error:  # somebody else's code
        raise InputError(f"the {what} cannot tell its fingerprint: {type(error).__name__}: {error}") from error
    if not isinstance(told, str):
        raise InputError(f"the {what}'s fingerprint must be a string, got {type(told).__name__}")
    return told


def _numbers(kind: type[Transformation]) -> dict[str, dict[str, Any]]:
    """What a report needs to know of a change's numbers, so that it never has to import the class."""
    return {name: {"neutral": facts.neutral, "unit": facts.unit} for name, facts in params_of(kind).items()}


def kinds_of(space: Space) -> list[type[Transformation]]:
    """The classes of changes a space is known to propose."""
    if isinstance(space, Over):
        return [space.kind]
    if isinstance(space, Table):
        return list(dict.fromkeys(kind for change in space.changes for kind in _kinds_in(change)))
    parts = getattr(space, "spaces", ())
    return list(dict.fromkeys(kind for part in parts for kind in kinds_of(part)))


def _kinds_in(change: Transformation) -> list[type[Transformation]]:
    if isinstance(change, Chain):
        return [kind for step in change.steps for kind in _kinds_in(step)]
    return [type(change)]


def code_fingerprint(described: Any, factory: str | None) -> str:
    """The sha256 of the files of every module that the campaign names and that is not ours."""
    targets = {*_targets_in(described), *([factory] if factory else [])}
    names = {target.rpartition(":")[0] for target in targets if ":" in target}
    files = {name: file for name in sorted(names) if not name.startswith("swerve.") and (file := module_file(name))}
    hasher = hashlib.sha256()
    for name, file in files.items():
        hasher.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return hasher.hexdigest()


def _targets_in(described: Any) -> Iterator[str]:
    if isinstance(described, Mapping):
        yield from (str(described[key]) for key in ("use", "live") if key in described)
        for item in described.values():
            yield from [item] if isinstance(item, str) and NAMED.fullmatch(item) else _targets_in(item)
    elif isinstance(described, list):
        for item in described:
            yield from _targets_in(item)


@cache
def package_fingerprint() -> str:
    """The sha256 of every module of the package, so that edited code never continues an old run unnoticed."""
    root = Path(swerve.__file__).parent
    hasher = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        hasher.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Every difference between two identities, each as `what: old then, new now`."""
    old, new = dict(_flat(then)), dict(_flat(now))
    changed = [key for key in dict.fromkeys([*old, *new]) if old.get(key, "absent") != new.get(key, "absent")]
    return [f"{_describe_key(key)}: {_short(key, old)} then, {_short(key, new)} now" for key in changed]


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        for key, item in data.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _flat(item, f"{path}[{index}]")
    else:
        yield path, data


def _describe_key(key: str) -> str:
    head, _, rest = key.partition(".")
    return f"{WORDS.get(rest, rest)} differ" if head == "fingerprints" else rest if head == "campaign" else key


def _short(key: str, data: Mapping[str, Any]) -> str:
    if key not in data:
        return "absent"
    return f"sha {str(data[key])[:8]}" if key.startswith("fingerprints.") else str(data[key])
