"""Packages that only some systems need, imported when one of those is made."""

from __future__ import annotations

import importlib
from typing import Any

from swerve.core.errors import EnvironmentFault


def library(name: str, extra: str) -> Any:
    """The package called `name`; raises `EnvironmentFault` with what to install where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentFault(f"there is no package '{error.name or name}'; pip install 'swerve[{extra}]'") from error
