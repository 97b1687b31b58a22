from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.config.toml import Builder, Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import InputError, Killed, ModelError, OutOfMemory, Timeout
from swerve.core.relation import Fault, Rule, Verdict
from swerve.core.space import Over, Range
from swerve.core.values import Group, Image, PointCloud, Signal, Steering
from swerve.execution.answers import answer_all
from swerve.execution.launch import run_into
from swerve.execution.replay import replay
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.view import Run
from swerve.systems import child
from swerve.systems.process import Process
from swerve.testing import FakeSource, FakeSystem, SystemContract
from swerve.transformations.photometric import Brighten

EXAMPLE = Path(__file__).parents[2] / "examples" / "program.py"
SOURCE = FakeSource(5)
NEVER = 120  # seconds after which what should happen soon never will: a busy machine is no fault
CASES = [SOURCE[key] for key in SOURCE.keys()]
# A program in a few lines of plain Python: `hear` gives the next question and `say` answers it.
SPEAKER = """
import json, os, struct, sys, time
def hear():
    prefix = sys.stdin.buffer.read(16)
    if not prefix: sys.exit(0)
    _, header, body = struct.unpack("<4sIQ", prefix)
    question = json.loads(sys.stdin.buffer.read(header))
    sys.stdin.buffer.read(body)
    return question
def frame(header):
    text = json.dumps(header).encode()
    return struct.pack("<4sIQ", b"SWRV", len(text), 0) + text
def write(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def say(question, **header):
    write(frame({"number": question["number"], **header}))
def steer(question, degrees=1.0):
    say(question, answers=[[{"slot": "steering", "degrees": degrees}] for _ in question["cases"]])
def hello():
    say(hear(), protocol=1, name="speaker", fingerprint="1")
"""
HELLO = SPEAKER + "\nhello()\n"
Make = Callable[..., Process]
pytestmark = pytest.mark.usefixtures("light_starts")  # from the main thread they start in quality/test_bad_programs.py


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Make]:
    """Makes a process of Python lines; all of them are closed at the end."""
    made: list[Process] = []

    def make(lines: str, *, start: str = HELLO, **options: Any) -> Process:
        file = tmp_path / f"program{len(made)}.py"
        file.write_text(start + textwrap.dedent(lines))
        made.append(Process((sys.executable, "-I", "-S", str(file)), **{"seconds": 20.0, **options}))
        return made[-1]

    yield make
    for process in made:
        process.close()


def example(**options: Any) -> Process:
    return Process((sys.executable, str(EXAMPLE)), **options)


def children() -> set[int]:
    """The processes that this one has started and not waited for."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def gone_soon(pid: int) -> bool:
    """A kill of a whole group returns before all of it is gone."""
    deadline = time.monotonic() + NEVER
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def kinds(system: Process, cases: Sequence[Case] = CASES[:1]) -> list[Fault | None]:
    return [answer.kind if isinstance(answer, Verdict) else None for answer in answer_all(system, cases)]


class TestExample(SystemContract):
    def system(self) -> Process:
        return example()


def test_example_says_what_ours_says() -> None:
    assert example()(CASES) == FakeSystem()(CASES)


def test_nothing_asked_nothing_started() -> None:
    before = children()
    assert example()([]) == []
    assert children() == before


def test_one_start_answers_all(program: Make) -> None:
    counting = program("for count in range(9): steer(hear(), count)")
    assert [counting([case])[0] for case in CASES] == [(Steering(count),) for count in range(5)]


def test_every_input_arrives(program: Make) -> None:
    telling = program("""
        question = hear()
        inputs = question["cases"][0]["inputs"]
        words = json.dumps([question["cases"][0]["key"], inputs], sort_keys=True)
        say(question, answers=[[{"slot": "signal", "name": words, "value": 1}]])
    """)
    camera = Image(np.zeros((2, 3, 3), np.uint8))
    inputs = {"camera": Group((camera, camera)), "lidar": PointCloud(np.zeros((1, 4))), "speed": Signal("speed", 0.1, "m/s")}
    told = telling([Case("frame-1", inputs, truth=(Steering(3),))])[0][0].name  # type: ignore[attr-defined]
    place = {"dtype": "uint8", "shape": [2, 3, 3]}
    assert json.loads(told) == [
        "frame-1",
        {
            "camera": {
                "slot": "group",
                "values": [{"slot": "image", "pixels": {**place, "offset": at}} for at in (0, 24)],
            },
            "lidar": {"slot": "points", "xyzi": {"dtype": "float32", "shape": [1, 4], "offset": 48}},
            "speed": {"slot": "signal", "name": "speed", "value": 0.1, "unit": "m/s"},
        },
    ]


def test_sensors_choose_what_is_shown(program: Make) -> None:
    naming = """
        while True:
            question = hear()
            say(question, answers=[[{"slot": "signal", "name": " ".join(case["inputs"]), "value": 1}]
                                   for case in question["cases"]])
    """
    case = Case("one", {"a": Signal("a", 1), "b": Signal("b", 2)})
    assert program(naming)([case])[0][0].name == "a b"  # type: ignore[attr-defined]
    assert program(naming, sensors=("b",))([case])[0][0].name == "b"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="one has no input 'camera'; known: a, b"):
        program(naming, sensors=("camera",))([case])


def test_batch_larger_than_any_pipe() -> None:
    large = FakeSource(4, width=900, height=700)
    cases = [large[key] for key in large.keys()]
    assert example()(cases) == FakeSystem()(cases)


def test_reply_may_come_before_all_is_read(program: Make) -> None:
    hasty = program("""
        prefix = sys.stdin.buffer.read(16)
        _, header, body = struct.unpack("<4sIQ", prefix)
        question = json.loads(sys.stdin.buffer.read(header))
        names = ["x" * 100_000] * 30
        say(question, answers=[[{"slot": "signal", "name": name, "value": 1} for name in names]])
        sys.stdin.buffer.read(body)
    """)
    large = FakeSource(1, width=1500, height=1000)
    assert len(hasty([large["fake-00000"]])[0]) == 30


def test_error_of_the_program_is_told(program: Make) -> None:
    refusing = program("""
        while True:
            question = hear()
            say(question, error="the lens cap is on\\nTraceback") if len(question["cases"]) > 1 else steer(question)
    """)
    with pytest.raises(ModelError, match=r"^python -I -S program0.py: the lens cap is on\\x0aTraceback"):
        refusing(CASES)
    pid = children()
    assert kinds(refusing, CASES) == [None] * 5  # the batch fails, each case alone does not
    assert children() == pid


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("say(hear(), answers=[])", "the program returned 0 answers for 1 cases"),
        ("say(hear(), answers=[[], []])", "the program returned 2 answers for 1 cases"),
        ("say(hear())", "the reply must have 'answers', a list, or 'error'; it has neither"),
        ("say(hear(), answers={})", "the reply must have 'answers', a list"),
        ("say(hear(), answers=[3])", "an answer must be a list of values, got int"),
        ("say(hear(), answers=[[{'slot': 'steer', 'degrees': 1}]])", "a value of slot 'steer' is invalid"),
        ("steer(hear(), 'left')", "could not convert string to float: 'left'"),
        ("print('Loading', flush=True)", "the process wrote 'Loading\\\\x0a' to stdout instead of a reply"),
        ("steer({**hear(), 'number': 7})", "the reply has number 7, but the request has number 1"),
        ("steer({**hear(), 'number': None})", "the reply has number None, but the request has number 1"),
        ("hear(); sys.exit(3)", "exited with code 3 before it replied"),
        ("hear(); os._exit(0)", "exited with code 0 before it replied"),
        (
            "print('no GPU', file=sys.stderr); sys.exit(1)",
            "exited with code 1 before it replied; last line of its stderr: no GPU",
        ),
        ("hear(); raise KeyError('net')", "exited with code 1 before it replied; last line of its stderr: KeyError: 'net'"),
        ("os.close(1); time.sleep(600)", "the process closed its stdout without a reply"),
        ("write(frame({})[:9]); sys.exit(0)", "exited with code 0 before it replied"),
        ("write(struct.pack('<4sIQ', b'SWRV', 2**32 - 1, 0))", "the process announced a header of 4,294,967,295 bytes"),
    ],
)
def test_wrong_reply_has_its_sentence(program: Make, lines: str, why: str) -> None:
    with pytest.raises(ModelError, match=why) as caught:
        program(lines)(CASES[:1])
    assert caught.value.kind == "model"
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("number", ["float('nan')", "float('inf')", "'nan'", "1e308"])
def test_wild_numbers_are_errors(program: Make, number: str) -> None:
    verdict = answer_all(program(f"steer(hear(), {number})"), CASES[:1])[0]
    assert isinstance(verdict, Verdict)
    assert verdict.why.startswith("steering is ")


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        ("say(hear(), protocol=2)", "the program uses protocol 2, expected 1"),
        ("say(hear())", "the program uses protocol None, expected 1"),
        ("say(hear(), error='no weights')", "no weights"),
        ("sys.exit('no weights')", "exited with code 1 before it replied; last line of its stderr: no weights"),
    ],
)
def test_bad_start_has_its_sentence(program: Make, hello: str, why: str) -> None:
    process = program(hello, start=SPEAKER)
    with pytest.raises(ModelError, match=why):
        process.fingerprint()


def test_hanging_program_is_ended(program: Make) -> None:
    others = children()
    slow = program("hear(); time.sleep(600)", seconds=1.0)
    slow.fingerprint()
    pid = next(iter(children() - others))
    started = time.monotonic()
    with pytest.raises(Timeout, match=r"the process did not reply within 1 s; make it faster, or raise its time limit$"):
        slow(CASES[:1])
    assert time.monotonic() - started < NEVER
    assert not alive(pid)
    assert kinds(slow) == [Fault.TIMEOUT]


def test_slow_start_is_ended(program: Make) -> None:
    with pytest.raises(Timeout, match=r"did not reply within 0.5 s"):
        program("time.sleep(600)", start=SPEAKER, seconds=0.5).fingerprint()


def test_children_of_the_program_end_with_it(program: Make, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    parent = program(
        f"""
        import subprocess
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
        open({str(note)!r}, "w").write(str(child.pid))
        hear()
        os._exit(0)
        """,
    )
    started = time.monotonic()
    with pytest.raises(ModelError, match="exited with code 0"):  # though its child holds the pipe open
        parent(CASES[:1])
    assert time.monotonic() - started < NEVER
    assert gone_soon(int(note.read_text()))


def test_memory_limit_holds(program: Make) -> None:
    greedy = program("hear(); x = bytearray(3_000_000_000)", memory=500_000_000)
    with pytest.raises(
        OutOfMemory, match=r"out of memory \(limit 500 MB\): the process died; last line of its stderr: MemoryError"
    ):
        greedy(CASES[:1])
    assert kinds(greedy) == [Fault.OOM]
    assert kinds(program("question = hear(); x = bytearray(10**8); steer(question)", memory=500_000_000)) == [None]


def test_leak_ends_in_a_fresh_start(program: Make) -> None:
    leaking = program(
        """
        kept = []
        while True:
            question = hear()
            kept.append(bytearray(100_000_000))
            steer(question)
        """,
        memory=450_000_000,
    )
    seen = [kinds(leaking)[0] for _ in range(12)]
    assert set(seen) == {None, Fault.OOM}
    assert seen.count(Fault.OOM) <= 4
    assert seen[0] is None


def test_told_lack_of_memory_is_one(program: Make) -> None:
    others = children()
    told = program("while True: say(hear(), error='RuntimeError: DefaultCPUAllocator: can\\'t allocate memory')")
    assert kinds(told) == [Fault.OOM]
    assert children() == others  # one that has no memory left gets a fresh start


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (6, "SIGABRT"), (9, "SIGKILL")])
def test_death_by_signal_is_told(program: Make, number: int, name: str) -> None:
    dying = program(f"hear(); os.kill(os.getpid(), {number})")
    with pytest.raises(Killed, match=rf"killed by signal {number} \({name}\)"):
        dying(CASES[:1])
    assert kinds(dying) == [Fault.SIGNAL]


def test_floods_of_noise_are_cut(program: Make) -> None:
    loud = program(
        """
        while True:
            question = hear()
            for _ in range(100): os.write(2, b"noise " * 166_666 + b"\\n")
            os.write(2, b"the last line\\n")
            if question["number"] > 1: sys.exit(1)
            steer(question)
        """
    )
    assert loud(CASES[:1]) == [(Steering(1.0),)]
    with pytest.raises(ModelError, match="last line of its stderr: the last line"):
        loud(CASES[:1])


def test_restarts_are_counted_in_a_row(program: Make, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    failing = program(f"open({str(starts)!r}, 'a').write('x'); hear(); sys.exit(5)", restarts=2)
    verdicts = answer_all(failing, CASES)
    assert [item.why.partition(": ")[2] for item in verdicts if isinstance(item, Verdict)] == [  # after the whole batch
        "the process exited with code 5 before it replied",
        "the process exited with code 5 before it replied",
        *[
            "the program is not started again after 3 failures in a row; the last one: "
            "the process exited with code 5 before it replied"
        ]
        * 3,
    ]
    assert starts.read_text() == "xxx"


def test_good_answer_clears_the_count(program: Make, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    every_other = program(
        f"open({str(starts)!r}, 'a').write('x'); steer(hear()); hear(); os.kill(os.getpid(), 11)", restarts=1
    )
    assert [kinds(every_other)[0] for _ in range(8)] == [None, Fault.SIGNAL] * 4
    assert starts.read_text() == "xxxx"


def test_reply_too_many_is_never_taken_for_the_next(program: Make) -> None:
    twice = program("while True: question = hear(); steer(question, 1); steer(question, 2)")
    assert twice(CASES[:1]) == [(Steering(1.0),)]
    with pytest.raises(ModelError, match="the reply has number 1, but the request has number 2"):
        twice(CASES[1:2])


def test_other_program_after_restart_is_refused(program: Make, tmp_path: Path) -> None:
    note = tmp_path / "note"
    changing = program(
        f"""
        say(hear(), protocol=1, name="pilot", fingerprint=open({str(note)!r}).read())
        steer(hear())
        """,
        start=SPEAKER,
    )
    note.write_text("old weights")
    assert kinds(changing) == [None]
    note.write_text("new weights")
    assert kinds(changing) == [Fault.MODEL]  # it ended
    with pytest.raises(
        ModelError, match=r"the program reported the name and fingerprint \['pilot', 'old weights'\] at first, but "
    ):
        changing(CASES[:1])


def test_interruption_leaves_nothing_half_said(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    steady = program("while True: steer(hear(), 3)")
    assert steady(CASES[:1]) == [(Steering(3.0),)]
    send = child._send

    def interrupted(pipe: Any, unsent: memoryview) -> memoryview:
        send(pipe, unsent)
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "_send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        steady(CASES[:1])
    monkeypatch.undo()
    assert steady(CASES[:1]) == [(Steering(3.0),)]


def test_program_ends_with_its_process(program: Make, tmp_path: Path) -> None:
    before, note = children(), tmp_path / "ended"
    lines = f"""
        import atexit
        atexit.register(lambda: open({str(note)!r}, "w").write("by itself"))
        hello()
        while True: steer(hear())
    """
    file = tmp_path / "polite.py"
    file.write_text(SPEAKER + textwrap.dedent(lines))
    process = Process((sys.executable, "-I", "-S", str(file)))
    process(CASES[:1])
    assert len(children() - before) == 1
    del process
    gc.collect()
    assert children() == before
    assert note.read_text() == "by itself"


def test_close_and_ask_again() -> None:
    process = example()
    before = children()
    for _ in range(2):
        assert process(CASES) == FakeSystem()(CASES)
        process.close()
        process.close()
        assert children() == before


def test_deaf_program_is_killed_on_close(program: Make) -> None:
    deaf = program("steer(hear()); time.sleep(600)")
    deaf(CASES[:1])
    started = time.monotonic()
    deaf.close()
    assert time.monotonic() - started < NEVER


def test_no_handles_are_left(program: Make) -> None:
    failing, before, running = program("hear(); sys.exit(1)", restarts=10_000), handles(), children()
    for _ in range(20):
        assert kinds(failing) == [Fault.MODEL]
    assert handles() == before
    assert children() == running


def test_end_of_python_ends_the_program(tmp_path: Path) -> None:
    script = f"""
import sys
from swerve.systems.process import Process
from swerve.testing import FakeSource
system = Process((sys.executable, {str(EXAMPLE)!r}))
print(system([FakeSource(1)["fake-00000"]]) and system._program._child._pid)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert not alive(int(done.stdout))
    assert done.stderr == ""


def test_threads_take_turns() -> None:
    process, expected = example(), FakeSystem()(CASES)
    wrong: list[object] = []

    def ask() -> None:
        for case, answer in zip(CASES * 5, list(expected) * 5, strict=True):
            if process([case]) != [answer]:
                wrong.append(case.key)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_inputs_are_out_of_reach() -> None:
    before = [case.input_sha for case in CASES]
    example()(CASES)
    fresh = [Case(case.key, {"camera": Image(case.inputs["camera"].pixels)}) for case in CASES]  # type: ignore[attr-defined]
    assert [case.input_sha for case in fresh] == before


def test_fingerprint_follows_program_and_files(program: Make, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"old")
    one = Process((sys.executable, str(EXAMPLE), str(weights)))
    first = one.fingerprint()
    assert first == one.fingerprint() == replace(one, seconds=3.0).fingerprint()
    weights.write_bytes(b"new")
    others = [one, example(), program("hello()", start=SPEAKER), program("hello() ", start=SPEAKER)]
    assert len({first, *(other.fingerprint() for other in others)}) == 5


def test_long_argument_is_no_file(program: Make) -> None:
    command = (sys.executable, "-I", "-S", "-c", HELLO + "#" * 5000)
    assert len(Process(command).fingerprint()) == 64


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"command": "python drive.py"}, "'command' must be a list such as"),
        ({"command": ()}, "'command' must be a list such as"),
        ({"command": ("python", 3)}, "'command' must be a list such as"),
        ({"command": ("no-such-program",)}, "no-such-program: no such program, or it is not executable"),
        ({"command": ("./no-such-program",)}, "no such program"),
        ({"command": (str(EXAMPLE),)}, "no such program, or it is not executable"),
        ({"folder": Path("/no/such")}, "/no/such: no such folder to run"),
        ({"seconds": 0}, "'seconds' must be a number above 0, got 0"),
        ({"seconds": float("nan")}, "'seconds' must be a number above 0"),
        ({"memory": -1}, "'memory' must be a number above 0"),
        ({"restarts": -1}, "'restarts' must be a number above -1"),
        ({"restarts": True}, "'restarts' must be a number"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Process(**{"command": (sys.executable,), **options})


def test_what_cannot_start_is_named(tmp_path: Path) -> None:
    file = tmp_path / "drive"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    with pytest.raises(InputError, match=r"drive: cannot be started: .*[Ee]xec format"):
        Process((str(file),))(CASES)


def test_toml_and_back(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    table = {
        "use": "swerve.systems.process:Process",
        "command": [sys.executable, "drive.py"],
        "seconds": 5,
        "sensors": ["camera"],
        "folder": "model",
    }
    made = Builder("", tmp_path).component(table)
    assert made == Process((sys.executable, "drive.py"), 5.0, sensors=("camera",), folder=tmp_path / "model")
    assert Builder("", tmp_path).component(encode(made, tmp_path)) == made


def test_run_folder_replays(tmp_path: Path) -> None:
    campaign = Campaign(
        source=FakeSource(3),
        system=Process((sys.executable, "program.py"), folder=EXAMPLE.parent),
        rules=(Rule("brighter", Over(Brighten, beta=Range(1, 40)), same_angle(15)),),
        search=Sweep(per_case=4),
        inference_batch=4,
    )
    run_into(Loaded(campaign, tmp_path), tmp_path / "run")
    findings = list(Run(tmp_path / "run").findings())
    assert findings
    again = [replay(tmp_path / "run", finding.id) for finding in findings]
    assert all(result.reproduced and not result.changed for result in again)
