"""What makes two campaigns the same: their description, weights, data, code and libraries."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import swerve
from swerve.campaign import Campaign
from swerve.codec import is_live
from swerve.spec import describe

FORMAT = 1
LIBRARIES = ("numpy", "opencv-python-headless", "torch")
WORDS = {"system": "weights", "source": "data", "package": "swerve's code"}


def identity_of(campaign: Campaign, base: Path, factory: str | None = None) -> dict[str, Any]:
    """The content of `campaign.json`; `factory` is the `module:function` a Python campaign is rebuilt by."""
    described = describe(campaign, base)
    return {
        "format": FORMAT,
        "swerve": swerve.__version__,
        "factory": factory,
        "rebuildable": factory is not None or not is_live(described),
        "fingerprints": {
            "system": campaign.system.fingerprint(),
            "source": campaign.source.fingerprint(),
            "package": package_fingerprint(),
        },
        "libraries": {name: _version(name) for name in LIBRARIES},
        "campaign": described,
    }


@cache
def package_fingerprint() -> str:
    """The sha256 of every module of the package, so that edited code never continues an old run unnoticed."""
    root = Path(__file__).parent
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
    return [f"{_told(key)}: {_short(key, old)} then, {_short(key, new)} now" for key in changed]


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        for key, item in data.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _flat(item, f"{path}[{index}]")
    else:
        yield path, data


def _told(key: str) -> str:
    head, _, rest = key.partition(".")
    return f"{WORDS.get(rest, rest)} differ" if head == "fingerprints" else rest if head == "campaign" else key


def _short(key: str, data: Mapping[str, Any]) -> str:
    if key not in data:
        return "absent"
    return f"sha {str(data[key])[:8]}" if key.startswith("fingerprints.") else str(data[key])
