"""The user's consent to run the code of a run folder, kept in the user's config directory (docs/security.md)."""

# R68: a run folder cannot contain its own consent; it is identified by the sha256 of its campaign.json and its base folder.

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from swerve.config.trust import OWN, Trust
from swerve.core.errors import SwerveError
from swerve.store.files import json_bytes, read_json, write_whole

CONSENTS = "consents"
PRIVATE = 0o700
_GRANTED: dict[tuple[str, str], Trust] = {}  # in this process, even if the config directory cannot be written


def consent_folder() -> Path | None:
    """The folder for consents: under `$XDG_CONFIG_HOME/swerve` or `~/.config/swerve`; None for a user without a home."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".config") / "swerve" / CONSENTS
    except RuntimeError:
        return None


def load_consent(campaign_sha: str, base: str) -> Trust:
    """What the user has allowed for this campaign with this base folder."""
    folder = consent_folder()
    entry = _read(folder / f"{campaign_sha}.json").get(base, {}) if folder else {}
    try:
        saved = Trust(frozenset(map(str, entry["names"])), dict(entry["files"])) if entry else OWN
    except (KeyError, TypeError, ValueError):
        saved = OWN
    return saved.union(_GRANTED.get((campaign_sha, base), OWN))


def save_consent(campaign_sha: str, base: str, allowed: Trust) -> None:
    """Save what is allowed from now on; if the config directory cannot be written, only for this process."""
    before = load_consent(campaign_sha, base)
    after = before.union(allowed)
    _GRANTED[campaign_sha, base] = after
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
    """The stored consents for a campaign, by base folder; none if the file is missing or damaged."""
    try:
        return read_json(file) if file.is_file() else {}
    except (OSError, SwerveError):
        return {}
