"""Any function from a case to an answer, as a system."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.core.values import Value


class FunctionSystem:
    """A Python function, called for one case at a time; `name` distinguishes functions with the same source."""

    def __init__(self, function: Callable[[Case], Value | Answer], name: str = "") -> None:
        self.function = function
        self.name = name or identity_of(function)[1]

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return [answer_of(self.function(case), self.name) for case in cases]

    def fingerprint(self) -> str:
        """A hash of the name, the function's source and its state."""
        return digest_of("FunctionSystem", self.name, state_of(self.function))


def answer_of(result: object, who: str) -> Answer:
    """A system's result as a tuple of values; raises `InputError` for anything else."""
    answer = result if isinstance(result, tuple) else (result,)
    for value in answer:
        if not isinstance(value, Value):
            raise InputError(f"{who} must return a Value or a tuple of them, got {type(value).__name__}")
    return answer


def identity_of(function: object) -> tuple[str, str, str]:
    """The module, qualified name and, if available, source code of `function` or of its class."""
    known = function if hasattr(function, "__qualname__") else type(function)
    try:
        source = inspect.getsource(known)  # type: ignore[arg-type]
    except (OSError, TypeError):
        source = ""
    return str(getattr(known, "__module__", "")), str(getattr(known, "__qualname__", "")), source


def state_of(thing: object, depth: int = 4) -> object:
    """The state of a callable besides its source: bound arguments, defaults, closure, attributes; as plain JSON."""
    if isinstance(thing, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(thing).data).hexdigest()
    if thing is None or isinstance(thing, bool | int | str):
        return thing
    if isinstance(thing, float):
        return repr(thing)
    if depth == 0:
        return type(thing).__qualname__
    if isinstance(thing, Mapping):
        return {str(key): state_of(item, depth - 1) for key, item in thing.items()}
    if isinstance(thing, list | tuple | set | frozenset):
        return [
            state_of(item, depth - 1) for item in (sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing)
        ]
    return [*identity_of(thing), *_parts_of(thing, depth - 1)]


def _parts_of(thing: object, depth: int) -> list[object]:
    if isinstance(thing, partial):
        return [state_of(part, depth) for part in (thing.func, thing.args, thing.keywords)]
    if inspect.ismethod(thing):
        return [state_of(thing.__self__, depth)]
    if inspect.isfunction(thing):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return [state_of(part, depth) for part in (cells, thing.__defaults__, thing.__kwdefaults__)]
    if hasattr(thing, "state_dict"):
        return [weights_of(thing)]
    return [state_of(vars(thing), depth)] if hasattr(thing, "__dict__") and not isinstance(thing, type) else []


def weights_of(net: Any) -> str:
    """The SHA-256 of a torch module: of every weight, and of the printed structure with its layers."""
    torch = sys.modules["torch"]  # where a torch module exists, torch is loaded

    hasher = hashlib.sha256(repr(net).encode())
    for name, tensor in sorted(net.state_dict().items()):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        hasher.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return hasher.hexdigest()
