"""Any function from a case to what it says, as a system."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from swerve.case import Case
from swerve.errors import InputError
from swerve.seeding import digest_of
from swerve.system import Answer
from swerve.values import Value


class FunctionSystem:
    """A function, asked one case after the other; `name` tells apart functions that share their source."""

    def __init__(self, function: Callable[[Case], Value | Answer], name: str = "") -> None:
        self.function = function
        self.name = name or identity_of(function)[1]

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return [answer_of(self.function(case), self.name) for case in cases]

    def fingerprint(self) -> str:
        """A hash of the name and of the function's module, qualified name and source."""
        return digest_of("FunctionSystem", self.name, *identity_of(self.function))


def answer_of(said: object, who: str) -> Answer:
    """What a system said as a tuple of values; raises `InputError` for anything else."""
    answer = said if isinstance(said, tuple) else (said,)
    for value in answer:
        if not isinstance(value, Value):
            raise InputError(f"{who} must answer with a Value or a tuple of them, got {type(value).__name__}")
    return answer


def identity_of(function: object) -> tuple[str, str, str]:
    """The module, qualified name and, where it can be had, source text of `function` or of its class."""
    known = function if hasattr(function, "__qualname__") else type(function)
    try:
        source = inspect.getsource(known)  # type: ignore[arg-type]
    except (OSError, TypeError):
        source = ""
    return str(getattr(known, "__module__", "")), str(getattr(known, "__qualname__", "")), source
