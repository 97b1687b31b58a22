"""Programs in Python that have Swerve: one call to `serve`."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from swerve.core.errors import ModelError
from swerve.core.relation import Fault, Verdict
from swerve.core.values import Steering
from swerve.execution.answers import answer_all
from swerve.systems.function import FunctionSystem
from swerve.systems.process import Process
from swerve.systems.wire import pack_frame
from swerve.testing import FakeSource, FakeSystem, SystemContract, sample_case

SOURCE = FakeSource(4)
CASES = [SOURCE[key] for key in SOURCE.keys()]
Make = Callable[..., Process]
pytestmark = pytest.mark.usefixtures("light_starts")
HONEST = "from swerve.systems.serve import serve\nfrom swerve.testing import FakeSystem\n"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Make]:
    made: list[Process] = []

    def make(lines: str, **options: Any) -> Process:
        file = tmp_path / f"program{len(made)}.py"
        file.write_text(HONEST + textwrap.dedent(lines))
        made.append(Process((sys.executable, str(file)), **options))
        return made[-1]

    yield make
    for process in made:
        process.close()


class TestServed(SystemContract):
    def system(self) -> Process:
        return Process((sys.executable, "-c", HONEST + "serve(FakeSystem())"))


def test_system_answers_as_at_home(program: Make) -> None:
    served = program("serve(FakeSystem(gain=2))")
    assert served(CASES) == FakeSystem(gain=2)(CASES)


def test_function_answers_case_by_case(program: Make) -> None:
    served = program("""
        from swerve import Steering, Signal
        serve(lambda case: (Steering(len(case.inputs)), Signal(case.key, float(case.inputs["lidar"].xyzi.mean()))))
    """)
    case = sample_case()
    expected = FunctionSystem(lambda one: (Steering(2), type(one.truth[1])(one.key, float(one.inputs["lidar"].xyzi.mean()))))  # type: ignore[attr-defined, call-arg]
    assert served([case]) == expected([case])


def test_page_runs_as_written(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "process.md").read_text()
    (tmp_path / "drive.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    served = Process((sys.executable, "drive.py"), folder=tmp_path)
    assert served(CASES) == FakeSystem()(CASES)
    assert served._program.hello()[0] == "brightness"
    served.close()


def test_printing_does_no_harm(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    loud = program("""
        import os, subprocess, sys
        print("before anything")
        def steer(case):
            print("inside", case.key, flush=True)
            os.write(1, b"from below")
            subprocess.run(["echo", "from a child"])
            assert sys.stdin.read() == ""
            return FakeSystem()([case])[0]
        serve(steer)
    """)
    assert loud(CASES) == FakeSystem()(CASES)


def test_printing_once_served_does_no_harm_unbuffered(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    loud = program("""
        import sys
        print("loading", file=sys.stderr)
        def steer(case):
            print("inside", case.key)
            return FakeSystem()([case])[0]
        serve(steer)
    """)
    assert loud(CASES) == FakeSystem()(CASES)


def test_unbuffered_print_before_serving_is_named(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    with pytest.raises(ModelError, match="the process wrote 'Loading weights"):
        program("print('Loading weights of net')\nserve(FakeSystem())")(CASES)


def test_flushed_print_before_serving_is_named(program: Make) -> None:
    with pytest.raises(ModelError, match="the process wrote 'Loading weights"):
        program("print('Loading weights of net', flush=True)\nserve(FakeSystem())")(CASES)


def test_failure_on_one_case_is_told(program: Make) -> None:
    picky = program("""
        def steer(case):
            if case.key.endswith("2"): raise RuntimeError("no road in view")
            return FakeSystem()([case])[0]
        serve(steer)
    """)
    answers = answer_all(picky, CASES)
    assert [isinstance(answer, Verdict) for answer in answers] == [False, False, True, False]
    assert answers[2].why == "python program0.py: RuntimeError: no road in view"  # type: ignore[union-attr]
    assert answers[3] == FakeSystem()(CASES)[3]


@pytest.mark.parametrize(
    ("said", "kind", "why"),
    [
        ("3.0", Fault.MODEL, "must return a Value or a tuple of them, got float"),
        ("None", Fault.MODEL, "must return a Value"),
        ("Steering(float('nan'))", Fault.MODEL, "steering is nan"),
        ("Steering(float('-inf'))", Fault.MODEL, "steering is -inf"),
        ("bytearray(10**12)", Fault.OOM, "MemoryError"),
        ("__import__('numpy').zeros(10**12)", Fault.OOM, "Unable to allocate"),
        ("case.inputs['camera']", Fault.MODEL, "the answer is too large for the journal: image"),
        ("case.inputs['camera'].pixels.fill(0)", Fault.MODEL, "read-only"),
        ("__import__('sys').exit(4)", Fault.MODEL, "exited with code 4"),
    ],
)
def test_bad_answers_are_errors(program: Make, said: str, kind: Fault, why: str) -> None:
    verdict = answer_all(program(f"from swerve import Steering\nserve(lambda case: {said})"), CASES[:1])[0]
    assert isinstance(verdict, Verdict)
    assert verdict.kind is kind
    assert why in verdict.why


def test_fingerprint_is_the_system_s(program: Make) -> None:
    first, other = program("serve(FakeSystem())"), program("serve(FakeSystem())")
    assert first._program.hello() == ["FakeSystem", FakeSystem().fingerprint()]
    assert first.fingerprint() != other.fingerprint()  # another file
    assert program("serve(FakeSystem(), name='pilot')")._program.hello()[0] == "pilot"


@pytest.mark.parametrize(
    "given", [b"", pack_frame({"ask": "hello", "number": 0})[:20], pack_frame({"ask": "hello", "number": 0})]
)
def test_end_of_input_is_a_quiet_end(given: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HONEST + "serve(FakeSystem()); print('served')"],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"served\n")  # what is printed afterwards goes to stderr too


def test_unknown_question_is_answered_with_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HONEST + "serve(FakeSystem())"],
        input=pack_frame({"ask": "weather", "number": 5}),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b'"number":5,"error":"ModelError: unknown request \'weather\'; known: hello, answers"' in done.stdout
