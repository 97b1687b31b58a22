"""Packages that only some parts need: which extra installs them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from swerve.core.errors import EnvironmentFault

# Extras in pyproject.toml by the name that a package is imported as.
EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "torch": "torch",
        "onnx": "onnx",
        "onnxruntime": "onnx",
        "keras": "keras",
        "h5py": "keras",
        "embreex": "world",
        "faster_coco_eval": "detection",
        "ray": "ray",
        "cmaes": "cma",
    }
)


def optional_package(name: str, extra: str) -> Any:
    """The package `name`, which only some parts need; raises `EnvironmentFault` with what to install if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing_package(error) or _missing(error.name or name, extra) from error


def missing_package(error: BaseException) -> EnvironmentFault | None:
    """What to tell if an import failed because the package of an extra is not installed; None for any other error."""
    top = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return _missing(top, EXTRAS[top]) if top in EXTRAS else None


def _missing(package: str, extra: str) -> EnvironmentFault:
    return EnvironmentFault(f"the package '{package}' is missing; pip install 'swerve[{extra}]'")
