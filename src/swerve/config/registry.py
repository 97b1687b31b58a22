"""Names to classes: short names of Swerve's own parts and of installed packages, or `module:Name`."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from swerve.core.errors import SpecError, did_you_mean, printable
from swerve.core.names import ENCODED_HERE, GIVEN_AS, all_names
from swerve.core.seeding import digest_of


def module_file(name: str) -> Path | None:
    """The file of a module that is loaded, by its name or by the path it was given as."""
    given = {getattr(module, GIVEN_AS, None): module for module in list(sys.modules.values())}
    file = getattr(given.get(name) or sys.modules.get(name), "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def resolve(use: object, base: Path = Path(), *, trusted: Collection[Path] = ()) -> Any:
    """The class or function that `use` names; a `.py` file is looked for under `base` and must be trusted."""
    if not isinstance(use, str) or not use:
        raise SpecError(f"use = {use!r}: expected a name or 'module:Name'")
    if use in ENCODED_HERE:
        return ENCODED_HERE[use]
    target = all_names().get(use, use)
    module_name, _, attribute = target.rpartition(":")
    if not module_name:
        raise SpecError(f"use = '{use}' is not known; {did_you_mean(use, all_names())}")
    is_file = module_name.endswith(".py")
    module = _file_module(module_name, base, trusted) if is_file else _module(module_name, use)
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None or not callable(found):
        raise SpecError(f"use = '{use}': {module_name} has no class or function '{attribute}'")
    return found


def _module(name: str, use: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        told = f"use = '{use}': there is no module '{error.name}' on the Python path"
        if use.startswith(f"{name}:") and f"{name}.".startswith(f"{error.name}."):
            file = f"{name.replace('.', '/')}.py"
            told += f"; for a file beside the campaign write {file}{use[len(name) :]} and run with --trust {file}"
        raise SpecError(told) from error
    except (Exception, SystemExit) as error:  # the user's own code
        raise SpecError(f"use = '{use}': cannot import {name}: {type(error).__name__}: {printable(str(error))}") from error


def _file_module(given: str, base: Path, trusted: Collection[Path]) -> Any:
    """A Python file as a module, if the user trusts exactly that file (R48)."""
    file = (base / given).resolve()
    if file not in {item.resolve() for item in trusted}:
        raise SpecError(f"{given}: runs only with --trust {file}; a file given by path is code, not data")
    if not file.is_file():
        raise SpecError(f"{file}: there is no such file")
    name = f"swerve_trusted_{digest_of(str(file))[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SpecError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    setattr(module, GIVEN_AS, given)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code
        del sys.modules[name]
        raise SpecError(f"{file}: {type(error).__name__}: {error}") from error
    return module
