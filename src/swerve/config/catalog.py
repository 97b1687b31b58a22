"""Lists what a campaign file can use: every name with its description, its arguments and a sample of it in TOML."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from swerve.config.registry import resolve
from swerve.config.sample import sample
from swerve.core.arguments import OneOfNames
from swerve.core.asset import Asset
from swerve.core.errors import SpecError, unknown
from swerve.core.names import KINDS, names
from swerve.core.transformation import Param, Transformation, params_of, plain_name

ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "sources": "where cases come from, such as data sets and folders",
        "systems": "the model under test",
        "steps": "preprocessing, in `read` of a system",
        "decoders": "what the outputs of a network mean, in `say` of a system",
        "transformations": "changes, in `change` of a rule",
        "criteria": "neuron coverage, in [coverage]",
        "spaces": "sets of changes to draw from, in `change` of a rule",
        "selections": "which objects of a frame are changed first, in `choose` of a space",
        "explanations": "what in a picture an answer depends on, in `explanation` of a selection",
        "relations": "what must hold after a change, in `expect` of a rule",
        "searches": "how trials are chosen",
        "methods": "published methods, instead of rules and search",
        "gates": "which follow-ups are judged",
    }
)
_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path", Asset: "file", Any: "any"}
_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)  # in the section `Args` of a docstring


@dataclass(frozen=True)
class CatalogArgument:
    """An argument of a part: its type in words, whether it is needed, and what it may be."""

    type: str
    needed: bool
    default: Any = None  # None also if an argument may be left out
    choices: tuple[str, ...] = ()
    number: Param | None = None  # the range and unit of a transformation's parameter
    about: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The argument as plain JSON."""
        number = {"range": [self.number.low, self.number.high], "unit": self.number.unit} if self.number else {}
        choices = {"choices": list(self.choices)} if self.choices else {}
        default = {} if self.needed else {"default": _as_json(self.default)}
        about = {"about": self.about} if self.about else {}
        return {"type": self.type, "needed": self.needed, **default, **number, **choices, **about}


@dataclass(frozen=True)
class CatalogEntry:
    """A part that a campaign file can use; `toml` is a sample of it."""

    kind: str
    name: str
    about: str
    arguments: Mapping[str, CatalogArgument]
    details: tuple[str, ...] = ()  # further paragraphs
    white_box: bool = False
    toml: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain JSON."""
        arguments = {name: argument.as_dict() for name, argument in self.arguments.items()}
        traced = {"white_box": True} if self.white_box else {}
        return {"name": self.name, "about": self.about, "arguments": arguments, "toml": self.toml, **traced}


def kinds() -> dict[str, int]:
    """The kinds of parts with their numbers; imports none of them."""
    return {kind: len(_listed(kind)) for kind in KINDS}


def listing(kind: str | None = None) -> dict[str, list[CatalogEntry]]:
    """The parts of one kind, or of all kinds, by kind."""
    if kind is not None:
        _check_kind(kind)
    return {
        item: [_entry(item, name, target) for name, target in sorted(_listed(item).items())]
        for item in ([kind] if kind else KINDS)
    }


def entry_named(kind: str, name: str) -> CatalogEntry:
    """One part."""
    _check_kind(kind)
    if name not in names(kind):
        raise SpecError(f"list {kind}: {unknown('name', name, _listed(kind))}")
    return _entry(kind, name, names(kind)[name])


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise SpecError(f"list: {unknown('kind', kind, (*KINDS, 'limits'))}")


def _listed(kind: str) -> dict[str, str]:
    """The names of a kind; of several names of one part only the last, as the others are former names."""
    last = {target: name for name, target in names(kind).items()}
    return {name: target for target, name in last.items()}


def _entry(kind: str, name: str, where: str) -> CatalogEntry:
    try:
        target = resolve(where)
    except SpecError as error:  # list an installed package even if it cannot be imported
        return CatalogEntry(kind, name, f"cannot be used: {error}", {})
    text, _, _ = (inspect.getdoc(target) or "").partition("\n\nArgs:\n")
    about, *details = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    traced = all(callable(getattr(target, part, None)) for part in ("layers", "trace"))
    return CatalogEntry(kind, name, about, arguments_of(target), tuple(details), traced, sample(kind, name, target))


def arguments_of(target: Any) -> dict[str, CatalogArgument]:
    """What a class or function takes, by name."""
    declared = params_of(target) if isinstance(target, type) and issubclass(target, Transformation) else {}
    hints, texts = _hints(target), _texts(target)
    return {
        name: CatalogArgument(
            _in_words(hints.get(name, Any)),
            item.default is item.empty and name not in declared,
            _default(target, item),
            _choices(hints.get(name)),
            declared.get(name),
            texts.get(name, ""),
        )
        for name, item in inspect.signature(target).parameters.items()
        if item.kind is not item.VAR_KEYWORD
    }


def _hints(target: Any) -> dict[str, Any]:
    called = target if dataclasses.is_dataclass(target) or not isinstance(target, type) else target.__init__  # type: ignore[misc]
    try:
        return typing.get_type_hints(called, include_extras=True)
    except (NameError, TypeError, AttributeError):  # an annotation that only a type checker can resolve
        return {}


def _texts(target: Any) -> dict[str, str]:
    """The explanations of arguments in the docstring of a part."""
    _, _, section = (inspect.getdoc(target) or "").partition("Args:\n")
    return {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(section)}


def _choices(hint: Any) -> tuple[str, ...]:
    given = getattr(hint, "__metadata__", ())
    return next((one.names for one in given if isinstance(one, OneOfNames)), ())


def _in_words(hint: Any) -> str:
    """A type in words: `list of texts`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _in_words(inner[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(_in_words(item) for item in inner if item is not type(None)))
    if origin in (tuple, list, collections.abc.Sequence):
        first = _in_words(inner[0]) if inner else "values"
        return f"list of {first if first.startswith(('list', 'any')) else f'{first}s'}"
    if origin is collections.abc.Mapping:
        return "table"
    if origin is collections.abc.Callable:
        return "module:function"
    return _WORDS.get(hint) or (plain_name(hint).replace("-", " ") if isinstance(hint, type) else "any")


def _default(target: Any, item: inspect.Parameter) -> Any:
    declared = dataclasses.fields(target) if dataclasses.is_dataclass(target) else ()
    factory = next((field.default_factory for field in declared if field.name == item.name), dataclasses.MISSING)
    if factory is not dataclasses.MISSING:
        return factory()
    return None if item.default is item.empty else item.default


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)
