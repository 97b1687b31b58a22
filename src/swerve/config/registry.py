"""Resolves names to classes: short names of Swerve's own parts and of installed packages, or `module:Name`."""

from __future__ import annotations

import collections.abc
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

from swerve.config.trust import OWN, PYTHON_FILE, Trust, has_parts, is_ours, is_registered
from swerve.core.errors import SpecError, printable, unknown
from swerve.core.extras import missing_package
from swerve.core.names import ENCODED_HERE, GIVEN_AS, all_names, names_for
from swerve.core.seeding import digest_of
from swerve.core.space import options


def module_file(name: str) -> Path | None:
    """The file of a loaded module, found by its name or by the path it was given as."""
    given = {getattr(module, GIVEN_AS, None): module for module in list(sys.modules.values())}
    file = getattr(given.get(name) or sys.modules.get(name), "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def resolve(
    use: object, base: Path = Path(), *, trust: Trust = OWN, wanted: tuple[Any, ...] = (), certain: bool = False
) -> Any:
    """The class or function that `use` names, if `trust` allows importing it and it returns one of the `wanted` kinds.

    A `.py` file is looked up under `base`. With `certain`, an unregistered part must have an annotation that says its kind.
    """
    if not isinstance(use, str) or not use:
        raise SpecError(f"use = {use!r}: expected a name or 'module:Name'")
    known = all_names()
    target = known.get(use, use)
    module, _, attribute = target.rpartition(":")
    if not module and use.endswith(PYTHON_FILE):
        raise SpecError(f"use = '{use}': name a class or function of the file, such as {use}:MyNetwork")
    if not module:
        raise SpecError(f"use: {unknown('name', use, names_for(wanted))}")
    registered = use in known or is_registered(target)
    found = _load_target(module, attribute, use, base, OWN if registered else trust, registered=registered)
    certain = certain or (is_ours(module) and not registered)
    unlisted = trust.foreign and not registered and not trust.names_module(module)
    if unlisted and has_parts(module) and not isinstance(found, type):
        raise SpecError(f"use = '{use}': a run folder may use only the functions of Swerve that 'swerve list' shows")
    if wanted and not any(fits(found, kind, certain=certain) for kind in wanted):
        name = getattr(found, "__name__", type(found).__name__)
        raise SpecError(f"use = '{use}': expected {' or '.join(map(_kind_name, wanted))}, got {name}")
    if certain and not wanted and not registered:
        raise SpecError(f"use = '{use}' is not a registered part; use one that 'swerve list' shows")
    return found


def _load_target(module: str, attribute: str, use: str, base: Path, trust: Trust, *, registered: bool) -> Any:
    if module.endswith(PYTHON_FILE):
        return _attribute(_import_file(module, base, trust), module, attribute, use)
    if use in ENCODED_HERE and not trust.foreign:
        return ENCODED_HERE[use]
    if not registered:
        trust.check_module(module, use)
    return ENCODED_HERE[use] if use in ENCODED_HERE else _attribute(_import_module(module, use), module, attribute, use)


def _attribute(module: Any, name: str, attribute: str, use: str) -> Any:
    """A class or function of a module; submodules, imports from elsewhere and `__names__` are refused."""
    found = module
    for part in attribute.split("."):
        hidden = part.startswith("__") or (found is not module and not isinstance(found, type))
        found = None if hidden else getattr(found, part, None)
    if found is None or isinstance(found, types.ModuleType) or not callable(found):
        raise SpecError(f"use = '{use}': {name} has no class or function '{attribute}'")
    home = getattr(found, "__module__", None) or ""
    if is_ours(name) and not (is_ours(home) and isinstance(found, type | types.FunctionType)):
        raise SpecError(f"use = '{use}': {attribute} is not one of Swerve's own classes or functions")
    if not is_ours(home) and isinstance(found, type | types.FunctionType | types.BuiltinFunctionType):
        Trust(frozenset({home})).check_module(home or "builtins", use)
    return found


def _import_module(name: str, use: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if is_ours(name) and (fault := missing_package(error)):
            raise fault from error
        missing = f"use = '{use}': there is no module '{error.name}' on the Python path"
        if use.startswith(f"{name}:") and f"{name}.".startswith(f"{error.name}."):
            file = f"{name.replace('.', '/')}.py"
            missing += f"; for a file beside the campaign write {file}{use[len(name) :]} and run with --trust {file}"
        raise SpecError(missing) from error
    except (Exception, SystemExit) as error:  # the user's own code
        raise SpecError(f"use = '{use}': cannot import {name}: {type(error).__name__}: {printable(str(error))}") from error


class _HashedCode(importlib.machinery.SourceFileLoader):
    """Runs the bytes that were hashed, and never a `__pycache__` beside the file."""

    def __init__(self, name: str, path: str, code: bytes) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> types.CodeType:  # noqa: ARG002
        return self.source_to_code(self.code, self.path)


def _import_file(given: str, base: Path, trust: Trust) -> Any:
    """A Python file as a module, if exactly that file is trusted."""  # R48
    file = (base / given).resolve()
    code = trust.code_of(given, file)
    name = f"swerve_trusted_{digest_of(str(file))[:12]}"
    if name in sys.modules and _code_of(sys.modules[name]) == code:  # it may have been edited in a session
        return sys.modules[name]
    loader = _HashedCode(name, str(file), code)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    setattr(module, GIVEN_AS, given)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code
        del sys.modules[name]
        raise SpecError(f"{file}: cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _code_of(module: types.ModuleType) -> bytes:
    loader = module.__loader__
    return loader.code if isinstance(loader, _HashedCode) else b""


def fits(target: Any, wanted: Any, *, certain: bool = False) -> bool:
    """Whether a class or function returns the `wanted` kind, judged by its methods or annotations without calling it.

    A function without a return annotation passes unless the answer must be `certain`.
    """
    target = target.func if isinstance(target, functools.partial) else target
    hints = {"return": target} if isinstance(target, type) else _hints(target)
    if typing.get_origin(wanted) is not collections.abc.Callable:
        return _is_any_kind(hints.get("return"), wanted, certain)
    arguments, result = typing.get_args(wanted)
    given = [hint for name, hint in hints.items() if name != "return"]
    paired = zip(given, arguments, strict=False) if isinstance(arguments, list) and not isinstance(target, type) else ()
    if certain and isinstance(arguments, list) and not isinstance(target, type) and len(given) < len(arguments):
        return False
    takes = all(_is_any_kind(one, other, certain) or _is_any_kind(other, one, certain) for one, other in paired)
    return takes and _is_any_kind(hints.get("return"), result, certain)


def _hints(target: Any) -> dict[str, Any]:
    called = target if inspect.isroutine(target) else type(target).__call__
    try:
        return typing.get_type_hints(called)
    except (NameError, TypeError, AttributeError):  # an annotation that only a type checker can resolve
        return {}


def _is_any_kind(hint: Any, wanted: Any, certain: bool) -> bool:
    """Whether an annotation allows a wanted kind; an empty one passes unless the answer must be `certain`."""
    if hint is type(None):
        return False
    kinds, goals = _classes(hint), _classes(wanted)
    if not (kinds and goals):
        return not certain
    pairs = [(kind, goal) for kind in kinds for goal in goals]
    if certain:
        return any(_is_kind(kind, goal) for kind, goal in pairs)
    return any(_is_kind(kind, goal) or _is_kind(goal, kind) or hasattr(kind, "__getattr__") for kind, goal in pairs)


def _classes(hint: Any) -> list[type]:
    """The classes that an annotation allows, or none if it also allows anything else."""
    kinds = [typing.get_origin(item) or item for item in options(hint) if item is not type(None)]
    return kinds if all(isinstance(kind, type) and kind not in (Any, object) for kind in kinds) else []


def _is_kind(kind: type, wanted: type) -> bool:
    if not getattr(wanted, "_is_protocol", False):
        return issubclass(kind, wanted)
    bases = [base for base in wanted.__mro__ if getattr(base, "_is_protocol", False)]
    required = {
        name for base in bases for name, item in vars(base).items() if getattr(item, "__module__", "") == base.__module__
    }
    return required <= {name for base in kind.__mro__ for name in vars(base)}


def _kind_name(wanted: Any) -> str:
    if typing.get_origin(wanted) is collections.abc.Callable:
        return f"a function such as {str(wanted).removeprefix('collections.abc.')}"
    name = str(getattr(wanted, "__name__", wanted)).lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
