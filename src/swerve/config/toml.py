"""Campaigns as data: a TOML file or the JSON of a run folder builds the same objects as Python code.

Each table is one constructor call: `use` names the class or function, the other keys are its arguments.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import math
import tomllib
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from swerve.config.limits import CONFIG
from swerve.config.registry import resolve
from swerve.config.trust import COMMAND, FOLDER, OWN, Trust
from swerve.core.asset import Asset, AssetFiles, assets_in
from swerve.core.campaign import CUSTOM, USUAL_SEARCH, Campaign, CoverageMeter, Search
from swerve.core.case import Source
from swerve.core.encode import ASSET, JSON, SPEC, decode_value, encode
from swerve.core.errors import EnvironmentFault, InputError, SpecError, printable, unknown
from swerve.core.gate import AllOf, Gate
from swerve.core.names import names
from swerve.core.relation import Relation, Rule
from swerve.core.space import Choices, Over, Range, Sequenced, Space, as_space, options
from swerve.core.system import System
from swerve.core.transformation import Transformation, cached

ACCEPTANCE = ("fail_if", "requirement")  # of a rule: they judge a run, and determine none of its trials
TOP = ("seed", "inference_batch", "source", "system", "rule", "search", "gate", "coverage")
RULE, RULE_OPTIONS = ("name", "change", "expect"), ("gate", "least_shift", *ACCEPTANCE)
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
PLAIN = (int, float, str, bool, Path)  # arguments that no table with `use` describes
ASSETS = "_swerve_assets"  # attribute of an object that is not a dataclass: the assets among its arguments


# Paths of a Python campaign are stored relative to the root, so that they do not depend on the working folder.
ANYWHERE = Path("/")


@dataclass(frozen=True)
class Loaded:
    """A campaign and its origin: its paths are relative to `base`."""

    campaign: Campaign
    base: Path
    factory: str | None = None


@dataclass(frozen=True)
class Builder:
    """Builds components from tables; every message starts with `where`, and `assets` are those of a run folder.

    `certain` is set below a change of a run folder: what it calls must have a known kind before the call.
    """

    where: str = ""
    base: Path = field(default_factory=Path)
    trust: Trust = OWN
    assets: AssetFiles = field(default_factory=AssetFiles)
    certain: bool = False

    def at(self, key: str) -> Builder:
        """The same builder, one key deeper."""
        joint = " " if self.where.endswith(":") else "." if self.where else ""
        return dataclasses.replace(self, where=f"{self.where}{joint}{key}")

    def fail(self, why: object) -> NoReturn:
        """Raise `SpecError` with the current place."""
        raise SpecError(f"{self.where.rstrip(':')}: {why}" if self.where else str(why))

    def campaign(self, table: Mapping[str, JSON]) -> Campaign:
        """The campaign that a whole file describes."""
        method = table.get("method", CUSTOM)
        if method != CUSTOM and "rule" not in table:
            return self._by_method(method, table)
        self._check_keys(table, (*TOP, "method"))
        for key in ("source", "system", "rule"):
            if key not in table:
                self.fail(
                    f"there is no [{key}] table; a campaign needs source, system and [[rule]], or source, system and method"
                )
        if not isinstance(table["rule"], list) or not table["rule"]:
            self.fail("rule must be written [[rule]], once for each rule")
        gate, coverage = table.get("gate"), table.get("coverage")
        parts = {
            "source": self.at("source").component(table["source"], Source),
            "system": self.at("system").component(table["system"], System),
            "rules": tuple(self.rule(index, item) for index, item in enumerate(table["rule"])),
            "search": self.at("search").component(table.get("search", USUAL_SEARCH), Search),
            "gate": None if gate is None else self.at("gate").gate(gate),
            "coverage": None if coverage is None else self.at("coverage")._coverage(coverage),
        }
        if method not in (CUSTOM, *names("methods")):
            self.fail(unknown("method", method, names("methods")))
        numbers = {key: table[key] for key in ("method", "seed", "inference_batch") if key in table}
        return typing.cast(Campaign, self._call(Campaign, {**parts, **numbers}))

    def _coverage(self, table: JSON) -> Any:
        if not isinstance(table, Mapping):
            self.fail(f"expected a table, got {_describe(table)}")
        return self.component({"use": "meter", **table}, CoverageMeter)

    def _by_method(self, method: object, table: Mapping[str, JSON]) -> Campaign:
        """The campaign of a published method: source, system, and the method's own keywords."""
        known = names("methods")
        if method not in known:
            self.fail(unknown("method", method, known))
        for key in ("source", "system"):
            if key not in table:
                self.fail(f"there is no [{key}] table; method = '{method}' needs source and system")
        given = {key: value for key, value in table.items() if key != "method"}
        target = self._resolve(known[str(method)], Campaign)
        return typing.cast(Campaign, self._call(target, self._arguments(target, given)))

    def rule(self, index: int, table: JSON) -> Rule:
        """One [[rule]] table."""
        here = self.at(f"rule[{index}]")
        if not isinstance(table, Mapping):
            here.fail(f"expected a table, got {_describe(table)}")
        here._check_keys(table, (*RULE, *RULE_OPTIONS))
        for key in RULE:
            if key not in table:
                here.fail(f"'{key}' is missing; a rule has name, change and expect")
        named = self.at(f"rule '{printable(str(table['name']), 40)}'")
        space = named.at("change").space(table["change"])
        expect = named.at("expect").component(table["expect"], Relation)
        given = {"name": table["name"], "change": space, "expect": expect}
        if table.get("gate") is not None:
            given["gate"] = named.at("gate").gate(table["gate"])
        given |= {key: table[key] for key in ACCEPTANCE if key in table}
        return typing.cast(Rule, named._call(Rule, {**given, "least_shift": table.get("least_shift")}))

    def gate(self, table: JSON) -> Gate:
        """A gate, or a list of gates that must all admit a follow-up."""
        if isinstance(table, list):
            items = tuple(self.at(f"[{index}]").gate(item) for index, item in enumerate(table))
            return typing.cast(Gate, self._call(AllOf, {"gates": items}))
        return typing.cast(Gate, self.component(table, Gate))

    def component(self, table: JSON, *wanted: Any) -> Any:
        """The object that a table with `use` describes, which must be of one of the `wanted` kinds."""
        if isinstance(table, str):
            table = {"use": table}
        if not isinstance(table, Mapping) or "use" not in table:
            self.fail(f"expected a table with 'use', got {_describe(table)}")
        target = self._resolve(table["use"], *wanted)
        given = {key: value for key, value in table.items() if key != "use"}
        arguments = self._arguments(target, given)
        self._check_program(arguments)
        return _attach_table(self._call(target, arguments), table, arguments)

    def _check_program(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that would start a program that a run folder may not start."""
        folder = arguments.get(FOLDER)
        try:
            self.trust.check_program(arguments.get(COMMAND), folder if isinstance(folder, Path) else None)
        except SpecError as error:
            self.fail(error)

    def change(self, table: JSON) -> Transformation:
        """A transformation with all parameters fixed."""
        # The user agreed to the modules that the campaign names, not to every call that a journal may describe.
        strict = dataclasses.replace(self, certain=True) if self.trust.foreign else self
        change = strict.component(table, Transformation)
        if not isinstance(change, Transformation):
            self.fail(f"expected a transformation, got {_describe(change)}")
        return change

    def space(self, table: JSON) -> Space:
        """A space: one change with ranges, a list of changes applied in order, or a named space."""
        if isinstance(table, list):
            if not table:
                self.fail("expected one or more changes, got an empty list")
            return Sequenced(tuple(self.at(f"[{index}]").space(item) for index, item in enumerate(table)))
        if isinstance(table, str):
            table = {"use": table}
        if not isinstance(table, Mapping) or "use" not in table:
            self.fail(f"expected a table with 'use', got {_describe(table)}")
        target = self._resolve(table["use"], Transformation, Space)
        if not (isinstance(target, type) and issubclass(target, Transformation)):
            space = self.component(table, Space)
            if not isinstance(space, Space):
                self.fail(f"expected a change or a space, got {_describe(space)}")
            return space
        hints = _signature(target)[1]
        if any(_holds_changes(value) for value in table.values()):
            return as_space(self.change(table))
        domains = {key: self.at(key)._domain(value, hints.get(key)) for key, value in table.items() if key != "use"}
        try:
            return Over(target, **domains)
        except (TypeError, ValueError) as error:
            self.fail(error)

    def _domain(self, value: JSON, hint: Any) -> Any:
        try:
            if Asset in options(hint):
                files = value.get("choices") if isinstance(value, Mapping) else None
                return self._asset(value) if files is None else Choices(tuple(map(self._asset, files)))
            if isinstance(value, list) and any(item is tuple or typing.get_origin(item) is tuple for item in options(hint)):
                return self._convert(value, hint)
            if isinstance(value, list):
                if len(value) != 2:
                    self.fail(f"a range is a pair [low, high], got {_describe(value)}; for a set write {{choices = [...]}}")
                return Range(*value)
            if isinstance(value, Mapping):
                self._check_keys(value, ("choices",))
                return Choices(tuple(value.get("choices", ())))
        except (TypeError, ValueError) as error:
            self.fail(error)
        return value

    def _resolve(self, use: object, *wanted: Any) -> Any:
        try:
            return resolve(use, self.base, trust=self.trust, wanted=wanted, certain=self.certain)
        except SpecError as error:
            self.fail(error)

    def _arguments(self, target: Any, given: Mapping[str, JSON]) -> dict[str, Any]:
        try:
            parameters, hints = _signature(target)
        except TypeError as error:
            self.fail(error)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            self._check_keys(given, parameters)
        needed = [name for name, one in parameters.items() if one.default is one.empty and one.kind in BY_NAME]
        if missing := [f"'{name}'" for name in needed if name not in given]:
            what = getattr(target, "__name__", "it").lower()
            self.fail(
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; {what} needs {', '.join(needed)}"
            )
        return {key: self.at(key)._convert(value, hints.get(key)) for key, value in given.items()}

    def _convert(self, value: JSON, hint: Any) -> Any:
        """`value` converted to the annotated type."""
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            options = [item for item in typing.get_args(hint) if item is not type(None)]
            if value is None or len(options) != 1:
                return value
            hint = options[0]
        if hint is tuple or typing.get_origin(hint) is tuple:
            return self._items(value, [item for item in typing.get_args(hint) if item is not Ellipsis] or [None])
        if hint is Asset:
            return self._asset(value)
        if hint is Space:
            return self.space(value)
        if hint is Transformation:
            return self.change(value)
        wanted = (hint,) if isinstance(hint, type) and hint not in (Any, object, dict) else ()
        if isinstance(value, Mapping) and "use" in value and hint not in PLAIN:
            return self.component(value, *wanted)
        if isinstance(value, str) and getattr(hint, "_is_protocol", False):
            return self.component(value, *wanted)
        if isinstance(value, str) and typing.get_origin(hint) is collections.abc.Callable:
            return self._resolve(value, hint)
        if isinstance(value, Mapping) and "slot" in value:
            return decode_value(value)
        if hint is Path:
            return self.base / self._scalar(value, str)
        if hint is float and value in ("nan", "inf", "-inf"):  # as `encode` writes the floats that JSON lacks
            return float(value)
        return self._scalar(value, hint) if hint in PLAIN else value

    def _asset(self, value: JSON) -> Asset:
        """The file that a campaign names by its path, or a run folder by the hash of its content."""
        try:
            if not isinstance(value, Mapping) and not self.trust.foreign:
                return Asset(Path(self._scalar(value, str)), root=self.base)
            return self.assets[value[ASSET]]
        except (KeyError, TypeError, ValueError):  # a hash that is no text, or a path with a null character
            self.fail(f"expected a file that the campaign names, got {_describe(value)}")
        except SpecError:
            raise
        except InputError as error:
            self.fail(error)

    def _items(self, value: JSON, hints: Sequence[Any]) -> tuple[Any, ...]:
        if not isinstance(value, list):
            self.fail(f"expected a list{_bracketed(value)}, got {_describe(value)}")
        last = len(hints) - 1
        return tuple(self.at(f"[{index}]")._convert(item, hints[min(index, last)]) for index, item in enumerate(value))

    def _scalar(self, value: JSON, kind: type) -> Any:
        wanted = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[kind]
        accepted: Any = (int, float) if kind is float else kind
        wrong = not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool)
        try:
            if wrong or (kind is float and not math.isfinite(value)):
                self.fail(f"expected {wanted}, got {_describe(value)}")
            return float(value) if kind is float else value
        except OverflowError:  # a whole number of hundreds of digits
            self.fail(f"expected {wanted}, got {_describe(value)}")

    def _call(self, target: Any, arguments: Mapping[str, Any]) -> Any:
        try:
            return target(**arguments)
        except (SpecError, EnvironmentFault):
            raise
        except (TypeError, ValueError, InputError) as error:
            self.fail(str(error).replace(f"{getattr(target, '__name__', '')}.__init__() ", ""))
        except (Exception, SystemExit) as error:  # the user's own constructor
            self.fail(f"{type(error).__name__}: {error}")

    def _check_keys(self, table: Mapping[str, JSON], known: Collection[str]) -> None:
        for key in table:
            if key not in known:
                self.fail(unknown("key", key, known))


def _attach_table(part: Any, table: Mapping[str, JSON], arguments: Mapping[str, Any]) -> Any:
    """`part`, with the table it was built from if its arguments cannot be read from its fields."""
    if not dataclasses.is_dataclass(part) and hasattr(part, "__dict__"):
        assets = {name: encode(item) for name, item in arguments.items() if assets_in(item)}
        part.__dict__.setdefault(SPEC, {**table, **assets})
        part.__dict__.setdefault(ASSETS, tuple(assets_in(*arguments.values()).values()))
    return part


@cached
def _signature(target: Any) -> tuple[Mapping[str, inspect.Parameter], dict[str, Any]]:
    called = getattr(target, "__init__", target) if isinstance(target, type) else target
    try:
        # The hints of a dataclass are resolved in the module of each field, those of its __init__ in one module.
        hints = typing.get_type_hints(target if dataclasses.is_dataclass(target) else called)
    except (NameError, TypeError, AttributeError):  # an annotation that only a type checker can resolve
        hints = {}
    try:
        return inspect.signature(target).parameters, hints
    except ValueError:
        raise TypeError("cannot be called with named arguments") from None


def _holds_changes(value: JSON) -> bool:
    """Whether an argument of a change contains changes itself, like the steps of a chain."""
    return isinstance(value, list) and any(isinstance(item, Mapping) and "use" in item for item in value)


def _describe(value: object) -> str:
    return printable(f"{type(value).__name__} {value!r}", 80)


def _bracketed(value: object) -> str:
    """How a table or name belongs into a list."""
    return ' (write [{ use = "NAME" }])' if isinstance(value, Mapping | str) else ""


def load_campaign(target: str, trusted: Collection[str | Path] = ()) -> Loaded:
    """The campaign of a TOML file, or of a `module:factory` that returns one; both count as the user's own code."""
    if target.endswith(".toml") or ":" not in target:
        path = Path(target)
        builder = Builder(f"{path.name}:", path.resolve().parent, Trust.of(trusted))
        return Loaded(builder.campaign(read_toml(path)), builder.base)
    return Loaded(call_factory(target, Trust.of(trusted)), ANYWHERE, target)


def load_source(target: str, trusted: Collection[str | Path] = ()) -> Source:
    """The source that a file's [source] describes, or one given as NAME=FOLDER or NAME, such as `cityscapes=data/city`."""
    if target.endswith(".toml"):
        path = Path(target)
        table = read_toml(path)
        if "source" not in table:
            raise SpecError(f"{path}: there is no [source] table")
        return typing.cast(
            Source,
            Builder(f"{path.name}: source", path.resolve().parent, Trust.of(trusted)).component(table["source"], Source),
        )
    name, given, folder = target.partition("=")
    table = {"use": name, **({"folder": folder} if given else {})}
    return typing.cast(Source, Builder(f"{target}:", Path.cwd(), Trust.of(trusted)).component(table, Source))


def call_factory(target: str, trust: Trust) -> Campaign:
    """The campaign that `module:factory` returns."""
    try:
        campaign = resolve(target, Path.cwd(), trust=trust, wanted=(Campaign,))()
    except (Exception, SystemExit) as error:  # the user's own code
        raise error if isinstance(error, SpecError) else SpecError(f"{target}: {type(error).__name__}: {error}") from error
    if not isinstance(campaign, Campaign):
        raise SpecError(f"{target} must return a Campaign, it returned {_describe(campaign)}")
    return campaign


def read_toml(path: Path) -> dict[str, JSON]:
    """The tables of a TOML file; errors name line and column."""
    try:
        if path.exists() and not path.is_file():
            raise SpecError(f"{path}: is not a file")
        if path.stat().st_size > CONFIG:
            raise SpecError(f"{path}: larger than {CONFIG} bytes (swerve list limits)")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{path}: {error}") from error


def describe(campaign: Campaign, base: Path) -> dict[str, JSON]:
    """The campaign as JSON that `Builder.campaign` can read."""
    rules = [_describe_rule(rule, base) for rule in campaign.rules]
    parts = {key: encode(getattr(campaign, key), base) for key in ("source", "system", "search", "gate", "coverage")}
    numbers = {key: getattr(campaign, key) for key in ("method", "seed", "inference_batch")}
    return {**numbers, **parts, "rule": rules}


def _describe_rule(rule: Rule, base: Path) -> dict[str, JSON]:
    given = [key for key in RULE_OPTIONS if getattr(rule, key) not in (None, ())]
    return {key: encode(getattr(rule, key), base) for key in (*RULE, *given)}


def build_change(row: JSON, trust: Trust, base: Path | None = None) -> Transformation:
    """The transformation that `encode` wrote; one that reads files is built by its run folder's `Builder`."""
    return Builder("change", base or Path(), trust).change(row)
