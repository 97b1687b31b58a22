"""What a campaign file can use: every name with its sentence and its arguments."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from swerve.config.registry import resolve
from swerve.core.errors import SpecError, did_you_mean
from swerve.core.names import KINDS, names
from swerve.core.transformation import Transformation, params_of


def listing(kind: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """The parts of one kind, or of all, by kind."""
    if kind is not None and kind not in KINDS:
        raise SpecError(f"list: there is no kind '{kind}'; {did_you_mean(kind, KINDS)}")
    return {
        item: [_entry(name, target) for name, target in sorted(names(item).items())] for item in ([kind] if kind else KINDS)
    }


def _entry(name: str, where: str) -> dict[str, Any]:
    try:
        target = resolve(where)
    except SpecError as error:  # an installed package that does not import is still worth naming
        return {"name": name, "about": f"cannot be used: {error}", "arguments": {}}
    about = (inspect.getdoc(target) or "").split("\n\n")[0].replace("\n", " ")
    seen = {"white_box": True} if all(callable(getattr(target, part, None)) for part in ("layers", "trace")) else {}
    return {"name": name, "about": about, "arguments": _arguments(target), **seen}


def _arguments(target: Any) -> dict[str, str]:
    declared = params_of(target) if isinstance(target, type) and issubclass(target, Transformation) else {}
    return {
        name: f"{declared[name].low:g} to {declared[name].high:g}{declared[name].unit}"
        if name in declared
        else _default(target, item)
        for name, item in inspect.signature(target).parameters.items()
    }


def _default(target: Any, item: inspect.Parameter) -> str:
    if item.default is item.empty:
        return "needed"
    made = (
        {field.name: field.default_factory for field in dataclasses.fields(target)}
        if dataclasses.is_dataclass(target)
        else {}
    )
    factory = made.get(item.name, dataclasses.MISSING)
    return f"default {item.default!r}" if factory is dataclasses.MISSING else f"default {factory()!r}"
