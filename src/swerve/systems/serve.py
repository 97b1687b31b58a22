"""The program's side of `Process`, for Python programs that can import Swerve: one call replies until the pipe closes."""

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
from swerve.systems.wire import PROTOCOL, pack_frame, read_frame, values_of, write_all


def serve(answer: Callable[[Case], Value | Answer] | System, name: str = "") -> None:
    """Answer the cases from stdin with a function of one case, or with a system, until stdin closes."""
    system = answer if isinstance(answer, System) else FunctionSystem(answer, name)
    serve_frames(lambda request: _handle(system, name, request))


def serve_frames(answer: Callable[[dict[str, Any]], Mapping[str, JSON]]) -> None:
    """Reply to every request from stdin until it closes; an exception becomes an error reply."""
    requests, replies = _claim_pipes()
    try:
        while (request := read_frame(requests)) is not None:
            write_all(replies, _reply(answer, request))
    except BrokenPipeError:  # the caller is gone
        return
    finally:
        os.close(requests)
        os.close(replies)


def _claim_pipes() -> tuple[int, int]:
    """Reserve stdin and stdout for frames: from now on print writes to stderr, and input() reads nothing.

    Output still in Python's buffer is not flushed here, so that it goes to stderr too.
    """
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return requests, replies


def _reply(answer: Callable[[dict[str, Any]], Mapping[str, JSON]], request: dict[str, Any]) -> bytes:
    number = request.get("number")
    try:
        return pack_frame({"number": number, **answer(request)})
    except Exception as error:  # raised by the model: the caller gets an error reply and may go on
        traceback.print_exc()
        return pack_frame({"number": number, "error": f"{type(error).__name__}: {error}"})


def _handle(system: System, name: str, request: dict[str, Any]) -> dict[str, JSON]:
    if request.get("ask") == "hello":
        own_name = name or getattr(system, "name", "") or type(system).__name__
        return {"protocol": PROTOCOL, "name": own_name, "fingerprint": system.fingerprint()}
    if request.get("ask") == "answers":
        return {"answers": list(system([_case(row) for row in request["cases"]]))}
    raise ModelError(f"unknown request {request.get('ask')!r}; known: hello, answers")


def _case(row: dict[str, Any]) -> Case:
    names = list(row["inputs"])
    return Case(row["key"], dict(zip(names, values_of([row["inputs"][name] for name in names]), strict=True)))
