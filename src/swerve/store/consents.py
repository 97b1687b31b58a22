"""What the user has allowed run folders to run, kept in the user's own config directory (docs/security.md)."""

# R68: a run folder cannot bring its own consent; it is known by the sha256 of its campaign.json and by its base folder.

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from swerve.config.trust import OWN, Trust
from swerve.core.errors import SwerveError
from swerve.store.files import json_bytes, read_json, write_whole

CONSENTS = "consents"
PRIVATE = 0o700
_GIVEN: dict[tuple[str, str], Trust] = {}  # by this process, also where nothing can be written


def consent_folder() -> Path | None:
    """Where consent is kept: `$XDG_CONFIG_HOME/swerve` or `~/.config/swerve`; None for a user without a home."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".config") / "swerve" / CONSENTS
    except RuntimeError:
        return None


def recall(campaign_sha: str, base: str) -> Trust:
    """What was allowed for this campaign in this place."""
    folder = consent_folder()
    kept = _read(folder / f"{campaign_sha}.json").get(base, {}) if folder else {}
    try:
        written = Trust(frozenset(map(str, kept["names"])), dict(kept["files"])) if kept else OWN
    except (KeyError, TypeError, ValueError):
        written = OWN
    return written.joined(_GIVEN.get((campaign_sha, base), OWN))


def remember(campaign_sha: str, base: str, allowed: Trust) -> None:
    """Keep what is allowed from now on; a config directory that cannot be written is no error."""
    before = recall(campaign_sha, base)
    after = before.joined(allowed)
    _GIVEN[campaign_sha, base] = after
    folder = consent_folder()
    if folder is None or after == before:
        return
    file = folder / f"{campaign_sha}.json"
    entry = {"names": sorted(after.names), "files": dict(sorted(after.files.items()))}
    try:
        folder.mkdir(PRIVATE, parents=True, exist_ok=True)
        write_whole(file, json_bytes({**_read(file), base: entry}))
    except (OSError, SwerveError):
        return


def _read(file: Path) -> dict[str, Any]:
    try:
        return read_json(file) if file.is_file() else {}
    except (OSError, SwerveError):
        return {}
