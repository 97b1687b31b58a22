"""The identity of a campaign: its description, its assets, and the fingerprints of weights, data, code and libraries."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import swerve
from swerve.config.registry import module_file
from swerve.config.toml import ACCEPTANCE, describe
from swerve.core.asset import SHOWN, assets_in
from swerve.core.campaign import Campaign, learns
from swerve.core.case import Source
from swerve.core.encode import ASSET, is_live
from swerve.core.errors import InputError, SwerveError
from swerve.core.names import name_of
from swerve.core.space import Over, Space, Table
from swerve.core.system import System
from swerve.core.transformation import Chain, Transformation, params_of
from swerve.store.libraries import libraries_of

FORMAT = 3
NAMED = re.compile(r"[\w./-]+:\w+")  # module:Name, as functions are given by
ASSETS = "assets"
JUDGING = re.compile(rf"campaign\.rule\[\d+\]\.({'|'.join(ACCEPTANCE)})\b.*")  # keys that determine no trial
_AMBIGUOUS = re.compile(r"""^$|[.\[\\'"]""")  # keys that could be taken for a path
WORDS = {
    "system": "weights differ",
    "source": "data differ",
    "package": "swerve's code differs",
    "code": "your code differs",
}


def identity_of(campaign: Campaign, base: Path, factory: str | None = None) -> dict[str, Any]:
    """The content of `campaign.json`; `factory` is the `module:function` that rebuilds a Python campaign."""
    described = describe(campaign, base)
    return {
        "format": FORMAT,
        "swerve": swerve.__version__,
        "factory": factory,
        "rebuildable": factory is not None or not is_live(described),
        "fingerprints": {
            "system": _read_fingerprint("system", campaign.system),
            "source": _read_fingerprint("source", campaign.source),
            "package": package_fingerprint(),
            "code": code_fingerprint(described, factory),
        },
        ASSETS: {sha: str(asset) for sha, asset in sorted(assets_in(campaign).items())},
        "libraries": libraries_of(campaign),
        "learns": learns(campaign.search),
        "parameters": {name_of(kind): _numbers(kind) for rule in campaign.rules for kind in kinds_of(rule.change)},
        "campaign": described,
    }


def _read_fingerprint(what: str, part: System | Source) -> str:
    """The fingerprint that a part returns, checked to be a string."""
    try:
        fingerprint: object = part.fingerprint()
    except SwerveError:  # a sentence for the user already
        raise
    except (Exception, SystemExit) as error:  # the user's own code
        raise InputError(f"the {what} cannot compute its fingerprint: {type(error).__name__}: {error}") from error
    if not isinstance(fingerprint, str):
        raise InputError(f"the {what}'s fingerprint must be a string, got {type(fingerprint).__name__}")
    return fingerprint


def _numbers(kind: type[Transformation]) -> dict[str, dict[str, Any]]:
    """What a report needs to know of a change's parameters, so that it never has to import the class."""
    return {name: {"neutral": facts.neutral, "unit": facts.unit} for name, facts in params_of(kind).items()}


def kinds_of(space: Space) -> list[type[Transformation]]:
    """The classes of changes that a space is known to propose."""
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
    """The sha256 of the files of all modules that the campaign names, except Swerve's own."""
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
    """The sha256 of all modules of Swerve, so that edited code never continues an old run unnoticed."""
    root = Path(swerve.__file__).parent
    hasher = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        hasher.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Every difference between two identities, each as `what: old then, new now`; an asset by the name of its file.

    How the results are judged, `fail_if` and `requirement`, may differ: a finished run can be judged anew.
    """
    files = [dict(one.get(ASSETS, {})) for one in (then, now)]
    replaced = set(files[0]) ^ set(files[1])
    old, new = (dict(_flat({key: item for key, item in one.items() if key != ASSETS})) for one in (then, now))
    keys = [key for key in dict.fromkeys([*old, *new]) if not JUDGING.fullmatch(key)]
    changed = [key for key in keys if key not in old or key not in new or old[key] != new[key]]
    others = [key for key in changed if not (_is_asset(key) and {old.get(key), new.get(key)} & replaced)]
    return [
        *(f"{_describe_key(key)}: {_short(key, old)} then, {_short(key, new)} now" for key in others),
        *asset_differences(*files),
    ]


def asset_differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """A line for every asset that only one of two campaigns has; a file that was overwritten is one line."""
    gone = {name: sha for sha, name in then.items() if sha not in now}
    new = {name: sha for sha, name in now.items() if sha not in then}
    for name in dict.fromkeys([*gone, *new]):
        ends = [f"sha {side[name][:SHOWN]}" if name in side else "absent" for side in (gone, new)]
        yield f"{name} differs: {ends[0]} then, {ends[1]} now"


def _is_asset(key: str) -> bool:
    return key.endswith(f".{ASSET}")


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and text with its path; no two paths are equal, whatever the keys of a foreign folder are."""
    if isinstance(data, Mapping) and data:
        for key, item in data.items():
            name = repr(key) if _AMBIGUOUS.search(key) else key
            yield from _flat(item, f"{path}.{name}" if path else name)
    elif isinstance(data, list) and data:
        for index, item in enumerate(data):
            yield from _flat(item, f"{path}[{index}]")
    else:
        yield path, data


def _describe_key(key: str) -> str:
    head, _, rest = key.partition(".")
    return WORDS.get(rest, f"{rest} differs") if head == "fingerprints" else rest if head == "campaign" else key


def _short(key: str, data: Mapping[str, Any]) -> str:
    if key not in data:
        return "absent"
    by_hash = key.startswith("fingerprints.") or _is_asset(key)
    return f"sha {str(data[key])[:SHOWN]}" if by_hash else str(data[key])
