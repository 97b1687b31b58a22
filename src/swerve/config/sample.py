"""Samples of parts as they are written in a campaign file: a few lines of TOML with everything that the part needs."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from swerve.core.arguments import OneOfNames
from swerve.core.asset import Asset
from swerve.core.transformation import Param, Transformation, params_of

# A part of each kind that another part may need, by the name of its type.
PARTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "Source": {"use": "world"},
        "System": {"use": "dave-orig"},
        "Transformation": {"use": "rotate", "degrees": 5.0},
        "Space": {"use": "rotate", "degrees": [1, 15]},
        "Relation": {"use": "same-angle", "within": 5.0},
        "Comparison": {"use": "angle-within", "within": 5.0},
        "Gate": {"use": "max-fill", "share": 0.5},
        "Step": {"use": "resize", "width": 200, "height": 66},
        "Decoder": {"use": "steering", "unit": "degrees", "positive": "left", "kind": "wheel"},
        "Criterion": {"use": "nc"},
    }
)
# Usual values of arguments; those of others are 1 or the argument's own name.
USUAL: Mapping[str, Any] = MappingProxyType(
    {
        "width": 320,
        "height": 240,
        "left": 0,
        "top": 120,
        "right": 640,
        "bottom": 480,
        "count": 100,
        "length": 3,
        "kinds": ["car", "person"],
        "kind": "car",
        "name": "brake",
        "unit": "degrees",
        "model": "path/to/model.onnx",
        "command": ["python", "program.py"],
        "frame": "test/0/0#0",
        "colours": ["red"],
        "at": [[20.0, 5.0, 0.0, 0.2]],
        "old": [[100, 80, 112, 116]],
        "new": [[100, 80, 112, 116]],
        "now": ["green"],
    }
)
# What a part needs although each of its arguments has a default, and the source and system of a method for LiDAR.
ALSO: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "keras": {"model": "path/to/model.keras"},
        "lidar": {"source": {"use": "lidar-world"}, "system": {"use": "lidar"}},
        "meter": {"criteria": ["nc"]},
    }
)
TABLES = {"sources": "source", "systems": "system", "searches": "search", "gates": "gate"}
LINES = {
    "steps": ("[system]", "read = [{}]"),
    "decoders": ("[system]", "say = [{}]"),
    "transformations": ("[[rule]]", "change = {}"),
    "spaces": ("[[rule]]", "change = {}"),
    "selections": ("[[rule]]", 'change = {{ use = "swaps", choose = {} }}'),
    "explanations": ("[[rule]]", 'change = {{ use = "swaps", choose = {{ use = "salient-objects", explanation = {} }} }}'),
    "relations": ("[[rule]]", "expect = {}"),
    "criteria": ("[coverage]", "criteria = [{}]"),
}


def sample(kind: str, name: str, target: Any) -> str:
    """The lines of a campaign file that use the part `name`, with everything that it needs."""
    given = _needed(target)
    if kind == "methods":
        parts = {**given, **ALSO.get(name, {})}
        return "\n".join(
            [f"method = {toml_value(name)}", *(f"\n[{key}]\n{_lines(parts[key])}" for key in ("source", "system"))]
        )
    given.update(ALSO.get(name, {}) if kind in ("systems", "criteria") and name != "lidar" else {})
    table = {"use": name, **(given or _first(target))}
    if name == "meter":  # it is [coverage] itself
        return f"[coverage]\n{_lines(given)}"
    if kind in TABLES:
        return f"[{TABLES[kind]}]\n{_lines(table)}"
    if kind == "relations" and not hasattr(target, "check") and hasattr(target, "compare"):
        table = {"use": "equivariant", "compare": table}
    head, line = LINES[kind]
    return f"{head}\n{line.format(toml_value(table if len(table) > 1 else name))}"


def _first(target: Any) -> dict[str, Any]:
    """The first argument with its default, to show how one is given to a part that needs none."""
    arguments = [(name, item.default) for name, item in inspect.signature(target).parameters.items()][:1]
    return {name: default for name, default in arguments if isinstance(default, str | int | float) and default != ""}


def _lines(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{key} = {toml_value(value)}" for key, value in table.items())


def toml_value(value: Any) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, float):
        return repr(float(f"{value:.6g}"))
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def _needed(target: Any) -> dict[str, Any]:
    """A value for every argument that has no default, and a range for every number that a change has."""
    declared = params_of(target) if isinstance(target, type) and issubclass(target, Transformation) else {}
    try:
        hints = typing.get_type_hints(_called(target), include_extras=True)
    except (NameError, TypeError, AttributeError):  # an annotation that only a type checker can resolve
        hints = {}
    parameters = inspect.signature(target).parameters
    # Parameters with a default are drawn as well, but a sample shows the ones that matter.
    chosen = [name for name in declared if parameters[name].default is inspect.Parameter.empty] or list(declared)[:1]
    needed = {
        name: _value(name, hints.get(name))
        for name, item in parameters.items()
        if item.default is item.empty and item.kind is not item.VAR_KEYWORD and name not in declared
    }
    return {**{name: _range(declared[name]) for name in chosen}, **needed}


def _called(target: Any) -> Any:
    return target if dataclasses.is_dataclass(target) or not isinstance(target, type) else target.__init__  # type: ignore[misc]


def _range(facts: Param) -> list[float]:
    return [int(end) if facts.integer or float(end).is_integer() else end for end in facts.usual]


def _value(name: str, hint: Any) -> Any:
    """A value of the type, such as a user may write."""
    if name in USUAL and typing.get_origin(hint) is not typing.Annotated:
        return USUAL[name]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        known = next((one.names for one in hint.__metadata__ if isinstance(one, OneOfNames)), ())
        return known[0] if known else _value(name, inner[0])
    if origin in (types.UnionType, typing.Union):
        return _value(name, inner[0])
    if origin in (tuple, list):
        return [_value(name.rstrip("s"), inner[0])] if inner else []
    plain = {int: 1, float: 1.0, str: name, bool: True, Path: f"path/to/{name}", Asset: f"path/to/{name}"}
    return plain.get(hint) or PARTS.get(getattr(hint, "__name__", ""), f"mymodule:{name}")
