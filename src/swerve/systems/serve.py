"""The program's side of `Process`, for programs in Python that have Swerve: one call answers until the pipe closes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from swerve.core.case import Case
from swerve.core.encode import JSON
from swerve.core.errors import ModelError
from swerve.core.system import Answer, System
from swerve.core.values import Value
from swerve.systems.function import FunctionSystem
from swerve.systems.wire import PROTOCOL, packed, read_frame, values_of, write_all


def serve(answer: Callable[[Case], Value | Answer] | System, name: str = "") -> None:
    """Answer the cases that come over stdin, with a function of one case or with a whole system, until stdin closes."""
    system = answer if isinstance(answer, System) else FunctionSystem(answer, name)
    serve_frames(lambda question: _answered(system, name, question))


def serve_frames(answer: Callable[[dict[str, Any]], Mapping[str, JSON]]) -> None:
    """Answer whatever is asked over stdin until it closes; an answer that fails is told as an error."""
    asked, said = _own_pipes()
    try:
        while (question := read_frame(asked)) is not None:
            write_all(said, _reply(answer, question))
    except BrokenPipeError:  # whoever asked is gone
        return
    finally:
        os.close(asked)
        os.close(said)


def _own_pipes() -> tuple[int, int]:
    """Stdin and stdout for frames alone: a print goes to stderr from now on, input() finds nothing.

    What was printed before and still waits in Python's buffer goes to stderr too, so it is not flushed here.
    """
    asked, said = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return asked, said


def _reply(answer: Callable[[dict[str, Any]], Mapping[str, JSON]], question: dict[str, Any]) -> bytes:
    number = question.get("number")
    try:
        return packed({"number": number, **answer(question)})
    except Exception as error:  # the model's own: whoever asked is told, and asks again
        traceback.print_exc()
        return packed({"number": number, "error": f"{type(error).__name__}: {error}"})


def _answered(system: System, name: str, question: dict[str, Any]) -> dict[str, JSON]:
    if question.get("ask") == "hello":
        told = name or getattr(system, "name", "") or type(system).__name__
        return {"protocol": PROTOCOL, "name": told, "fingerprint": system.fingerprint()}
    if question.get("ask") == "answers":
        return {"answers": list(system([_case(row) for row in question["cases"]]))}
    raise ModelError(f"nobody knows how to answer {question.get('ask')!r}")


def _case(row: dict[str, Any]) -> Case:
    names = list(row["inputs"])
    return Case(row["key"], dict(zip(names, values_of([row["inputs"][name] for name in names]), strict=True)))
