"""Components and answers in words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from swerve.core.campaign import CUSTOM
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Boxes3D, Group, SceneRef, Signal, Steering, Value, find
from swerve.store.view import Run

SHOWN = 3  # answers of a group
LISTED = 8  # items of a list argument
NAMING = ("model", "weights", "structure", "folder", "path")  # arguments that say more about a component than its kind


def title_of(campaign: Mapping[str, Any]) -> str:
    """The method's name; for a user's own campaign, which system it tests on which source."""
    if campaign.get("method", CUSTOM) != CUSTOM:
        return str(campaign["method"])
    return f"{_short_name(campaign.get('system'))} on {_short_name(campaign.get('source'))}"


def _short_name(part: object) -> str:
    """A component's name: its model file or data folder if it has one, and that of what it wraps."""
    if isinstance(part, Mapping):
        if isinstance(inner := part.get("source"), Mapping):
            return _short_name(inner)
        if isinstance(command := part.get("command"), list) and command:
            return _program(list(map(str, command)))
        for key in NAMING:
            if isinstance(path := part.get(key), str) and PurePath(path).name:
                return PurePath(path).name
    return in_words(part).partition(",")[0]


def _program(command: Sequence[str]) -> str:
    """What a command runs: its last argument with a file's ending, such as a script, or else its first word."""
    named = next((word for word in reversed(command) if PurePath(word).suffix), command[0])
    return PurePath(named).name


def files_named(part: object) -> list[str]:
    """The files and folders that a component names, and those of what it wraps."""
    if isinstance(part, list):
        return [name for item in part for name in files_named(item)]
    if not isinstance(part, Mapping):
        return []
    own = [path for key in NAMING if isinstance(path := part.get(key), str) and path]
    return [*own, *(name for item in part.values() for name in files_named(item))]


def replay_line(run: Run, finding: str, *options: str) -> str:
    """The command that runs a finding again."""
    return shlex.join(["swerve", "replay", str(run.folder), finding, *options])


def in_words(part: object) -> str:
    """A component's description in a few words: `world, drives 20, split test`."""
    if not isinstance(part, Mapping):
        return "none" if part is None else str(part)
    if "use" not in part:
        return f"{part['live']} (a Python object)" if "live" in part else "a table"
    return ", ".join([str(part["use"]), *_arguments(part)])


def expectation(relation: object) -> str:
    """A relation's description in words: `within 10° of the answer on the source`; an unknown one like any component."""
    if not isinstance(relation, Mapping):
        return in_words(relation)
    try:
        return _in_known_words(relation) or in_words(relation)
    except (KeyError, TypeError, ValueError):  # of another version of Swerve, or damaged
        return in_words(relation)


def _in_known_words(relation: Mapping[str, Any]) -> str | None:
    if (joint := {"both": " and ", "either": " or "}.get(str(relation.get("use")))) and relation.get("relations"):
        return joint.join(map(expectation, relation["relations"]))
    if words := _set_words(relation):
        return words
    compare = relation.get("compare")
    limit = _limit(compare) if isinstance(compare, Mapping) else None
    reference = {"equivariant": "the answer on the source", "correct": "the label"}.get(str(relation.get("use")))
    return f"{limit} {reference}" if limit and reference else None


def _set_words(relation: Mapping[str, Any]) -> str | None:
    """Relations between sets of objects."""  # LM-6, LM-7, D-17
    if relation.get("use") == "no-fewer":
        return "no fewer objects than on the source"
    if relation.get("use") != "superset":
        return None
    in_metres = relation.get("slot") == Boxes3D.slot
    small = " and ".join(relation.get("small", ())) if in_metres else ""
    where = " seen from above" if in_metres else ""
    centres = f" ({small}: centres at most {relation['within']:g} m apart)" if small else ""
    return f"every object of the source, of the same kind and an IoU of {relation['overlap']:g} or more{where}{centres}"


def _limit(compare: Mapping[str, Any]) -> str | None:
    if compare.get("use") == "angle-within":
        return f"within {compare['within']:g}° of" if compare["within"] else "exactly"
    if compare.get("use") == "squared-error":
        return f"squared error at most {compare['factor']:g} × MSE against"
    if compare.get("use") == "boxes-alike":
        least = f", scores of {compare['least_score']:g} or more" if compare.get("least_score") else ""
        return f"the same boxes (an IoU of {compare['overlap']:g} or more{least}) as"
    if compare.get("use") == "signal-within":
        return f"{compare['name']} within {compare['within']:g} of"
    return None


def _arguments(part: Mapping[str, Any]) -> Iterator[str]:
    for name, item in part.items():
        if isinstance(item, Mapping) and ("use" in item or "live" in item):
            yield in_words(item)
        elif isinstance(item, list) and any(isinstance(one, Mapping) for one in item):
            yield " and ".join(in_words(one) for one in item)
        elif isinstance(item, list) and len(item) == 2 and all(isinstance(one, int | float) for one in item):
            yield f"{name} {_number(item[0])} to {_number(item[1])}"
        elif isinstance(item, list) and item:
            more = ", …" if len(item) > LISTED else ""
            yield f"{name} {', '.join(map(_number, item[:LISTED]))}{more}"
        elif name != "use" and isinstance(item, str | int | float):
            yield _number(item) if item == name else f"{name} {_number(item)}"


def _number(item: object) -> str:
    if isinstance(item, str) and not any(map(str.isalnum, item)):
        return repr(item)  # a separator would look like punctuation
    return f"{item:g}" if isinstance(item, float) else str(item)


def answer_words(answer: Answer) -> str:
    """An answer or a label in words: `+3.2°`, `3 boxes`, `collision 0.82`."""
    return ", ".join(_value_words(value) for value in answer if not isinstance(value, SceneRef))  # an address, not an answer


def _value_words(value: Value) -> str:
    if isinstance(value, Steering):
        return f"{value.degrees:+.1f}°"
    if isinstance(value, Signal):
        return f"{value.name} {value.value:.4g}{value.unit}"
    if isinstance(value, Boxes2D | Boxes3D):
        solid = "3-D " if isinstance(value, Boxes3D) else ""
        return f"{len(value.kinds)} {solid}box{'' if len(value.kinds) == 1 else 'es'}"
    if isinstance(value, Group):
        return _group_words(value.values)
    return value.slot


def _group_words(values: Sequence[Value]) -> str:
    return f"({answer_words(tuple(values[:SHOWN]))}{', …' if len(values) > SHOWN else ''})"


def steering_turn(answer: Answer) -> str:
    """The SVG rotation of a steering arrow: straight up at 0°, left for positive wheel degrees; empty without an angle."""
    steering = find(answer, Steering.slot)
    if not isinstance(steering, Steering) or not math.isfinite(steering.degrees):
        return ""
    return f"{-min(max(steering.degrees, -90.0), 90.0):.1f}"
