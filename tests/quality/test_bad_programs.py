"""R24-R27: programs that hang, eat memory, die, shout or talk nonsense cost their case, never the campaign.

1,000 fuzzed replies and 100 of each bad end with SWERVE_SOAK=1, a share of them otherwise.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.errors import ModelError, Timeout
from swerve.core.relation import Fault, Rule, Verdict
from swerve.core.seeding import rng_for
from swerve.core.space import Over, Range
from swerve.core.system import System
from swerve.core.values import Boxes2D, Signal, Steering
from swerve.execution.answers import answer_all
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.view import Run
from swerve.systems.process import Process
from swerve.systems.wire import pack_frame
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.photometric import Brighten
from tests.quality.children import NEVER, ROOT, environment, until

SOAK = os.environ.get("SWERVE_SOAK") == "1"
REPLIES = 1000 if SOAK else 200
ENDS = 100 if SOAK else 1
STARTS = 4  # the first and three restarts
SOURCE = FakeSource(6)
CASES = [SOURCE[key] for key in SOURCE.keys()]

HELLO = pack_frame({"number": 0, "protocol": 1, "name": "fuzz", "fingerprint": ""})
ANSWER = [Steering(1.5), Signal("brake", 0.5), Boxes2D(np.array([[1, 2, 3, 4]]), ("car",))]
GOOD = pack_frame({"number": 1, "answers": [ANSWER]})


def framed(header: Any, body: bytes = b"", number: int = 1) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps({"number": number, **header}).encode()
    return struct.pack("<4sIQ", b"SWRV", len(text), len(body)) + text + body


def cut(rng: np.random.Generator) -> bytes:
    return GOOD[: rng.integers(len(GOOD))]


def flipped(rng: np.random.Generator) -> bytes:
    data = bytearray(GOOD)
    for _ in range(rng.integers(1, 4)):
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(data)


def spliced(rng: np.random.Generator) -> bytes:
    at, to = sorted(rng.integers(len(GOOD), size=2))
    return GOOD[:at] + rng.bytes(int(rng.integers(40))) + GOOD[to:]


def not_utf8(rng: np.random.Generator) -> bytes:
    return framed(b'{"number": 1, "answers": "' + rng.bytes(20) + b'"}')


def giant(rng: np.random.Generator) -> bytes:
    header, body = (0, 10, 2**31, 2**32 - 1)[rng.integers(4)], (2**30, 2**40, 2**63, 2**64 - 1)[rng.integers(4)]
    return struct.pack("<4sIQ", b"SWRV", header, body) + rng.bytes(64)


def noise(rng: np.random.Generator) -> bytes:
    return rng.bytes(int(rng.integers(1, 3000)))


def miscounted(rng: np.random.Generator) -> bytes:
    counts = [count for count in range(5) if count != 1]
    return framed({"answers": [[{"slot": "steering", "degrees": 1}]] * int(rng.choice(counts))})


def wild(rng: np.random.Generator) -> bytes:
    degrees = [float("nan"), float("inf"), "nan", "-inf", 1e308, None, "left", [], {}, 10**400, "1" * 5000]
    return framed({"answers": [[{"slot": "steering", "degrees": degrees[rng.integers(len(degrees))]}]]})


def unknown(rng: np.random.Generator) -> bytes:
    slots = ["steer", "", None, 3, [], {}, "image", "group", "boxes2d", "masks", "calibration", "Steering"]
    return framed({"answers": [[{"slot": slots[rng.integers(len(slots))], "degrees": 1}]]})


def misplaced(rng: np.random.Generator) -> bytes:
    shape = [int(length) for length in rng.choice([-1, 0, 1, 4, 2**31, 2**62], size=rng.integers(4))]
    place = {
        "dtype": str(rng.choice(["float64", "object", "U9", "uint8"])),
        "shape": shape,
        "offset": int(rng.integers(-9, 99)),
    }
    return framed({"answers": [[{"slot": "boxes2d", "xyxy": place, "kinds": ["car"]}]]}, bytes(32))


def malformed(rng: np.random.Generator) -> bytes:
    headers = [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"number":1}',
        b'{"number":1,"answers":',
        b'{"a":' * 9999,
        b"{" * 9,
        b'{"number":"1"}',
    ]
    return framed(headers[rng.integers(len(headers))])


def misnumbered(rng: np.random.Generator) -> bytes:
    return framed({"answers": [[{"slot": "steering", "degrees": 1}]]}, number=int(rng.choice([-1, 0, 99])))


FUZZ = (cut, flipped, spliced, not_utf8, giant, noise, miscounted, wild, unknown, misplaced, malformed, misnumbered)
# Bits may flip where they do no harm, such as inside a number, and a place may fall inside the body by chance.
MAY_PASS = (flipped, spliced, misplaced)


@pytest.mark.parametrize("fuzz", FUZZ, ids=lambda fuzz: fuzz.__name__)
def test_fuzzed_reply_is_a_typed_error(fuzz: Callable[[np.random.Generator], bytes], tmp_path: Path) -> None:
    """The reply lies in a file that `cat` writes out; the number of starts stands in another.

    They are started from a thread, which costs a sixth: from the main thread this whole process is forked each time.
    """
    with ThreadPoolExecutor(1) as thread:
        thread.submit(ask_fuzzed, fuzz, tmp_path).result()


def ask_fuzzed(fuzz: Callable[[np.random.Generator], bytes], tmp_path: Path) -> None:
    reply, starts = tmp_path / "reply", tmp_path / "starts"
    for count in range(REPLIES // len(FUZZ) + 1):
        reply.write_bytes(HELLO + fuzz(rng_for("fuzzed reply", fuzz.__name__, count)))
        starts.write_text("")
        process = Process(("sh", "-c", "echo >> starts; cat reply"), folder=tmp_path, seconds=20.0)
        verdicts = [answer_all(process, [case])[0] for case in CASES]
        process.close()
        wrong = [verdict for verdict in verdicts if isinstance(verdict, Verdict)]
        assert len(wrong) == len(CASES) or (fuzz in MAY_PASS and len(wrong) == len(CASES) - 1), reply.read_bytes()
        assert all(verdict.kind is Fault.MODEL for verdict in wrong), wrong
        assert all("\n" not in verdict.why and "Traceback" not in verdict.why for verdict in wrong)
        assert len(starts.read_text()) <= STARTS + 1  # a reply that is framed well is no reason to start again


def test_fuzz_would_notice_a_good_reply(tmp_path: Path) -> None:
    (tmp_path / "reply").write_bytes(HELLO + GOOD)
    assert Process(("cat", "reply"), folder=tmp_path)(CASES[:1]) == [tuple(ANSWER)]


def test_gigabyte_of_one_line_is_refused_at_once(tmp_path: Path) -> None:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    endless = Process((sys.executable, "-I", "-S", "-c", "while True: print('x' * 10**6, end='')"))
    with pytest.raises(ModelError, match="the process wrote 'xxxxxxxxxxxxxxxx' to stdout instead of a reply"):
        endless(CASES)
    promising = "import sys; sys.stdout.buffer.write(b'SWRV' + bytes(4) + (10**9).to_bytes(8, 'little'))"
    with pytest.raises(ModelError, match="exited with code 0"):
        Process((sys.executable, "-I", "-S", "-c", promising))(CASES)
    assert time.monotonic() - started < NEVER
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


# One program, told by its argument how to misbehave once it is asked for an answer.
BAD = """
import json, os, signal, struct, sys, time
def hear():
    prefix = sys.stdin.buffer.read(16)
    if not prefix: os._exit(0)
    _, header, body = struct.unpack("<4sIQ", prefix)
    question = json.loads(sys.stdin.buffer.read(header))
    sys.stdin.buffer.read(body)
    return question
def say(**header):
    text = json.dumps(header).encode()
    sys.stdout.buffer.write(struct.pack("<4sIQ", b"SWRV", len(text), 0) + text)
    sys.stdout.buffer.flush()
say(number=hear()["number"], protocol=1)
while True:
    question = hear()
    if any(case["key"].endswith("1") for case in question["cases"]):
        exec(sys.argv[1])
    say(number=question["number"], answers=[[{"slot": "steering", "degrees": 1}] for _ in question["cases"]])
"""
LIMIT = 1.5  # seconds
HANGS = {
    "sleeps": "time.sleep(999)",
    "loops": "while True: pass",
    "waits for more": "sys.stdin.buffer.read(1)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "will not be told": "[signal.signal(number, signal.SIG_IGN) for number in (2, 3, 15)]; time.sleep(999)",
    "trickles": "for byte in b'SWRV' + bytes(99): time.sleep(0.1); os.write(1, bytes([byte]))",
    "forks": "os.fork() and time.sleep(999); time.sleep(999)",
}
ENDINGS = {
    "allocates": (Fault.OOM, "bytearray(64 * 10**9)"),
    "leaks": (Fault.OOM, "kept = []\nwhile True: kept.append(bytearray(10**8))"),
    "segfaults": (Fault.SIGNAL, "os.kill(os.getpid(), 11)"),
    "reads nowhere": (Fault.SIGNAL, "import ctypes; ctypes.string_at(0)"),
    "aborts": (Fault.SIGNAL, "os.abort()"),
    "is killed": (Fault.SIGNAL, "os.kill(os.getpid(), 9)"),
    "exits": (Fault.MODEL, "sys.exit(0)"),
    "exits at once": (Fault.MODEL, "os._exit(0)"),
    "raises": (Fault.MODEL, "1 / 0"),
    "prints": (Fault.MODEL, "print('left', flush=True)"),
}


def bad(how: str, **options: Any) -> Process:
    return Process((sys.executable, "-I", "-S", "-c", BAD, how), **options)


def kinds(system: System) -> list[Fault | None]:
    return [answer.kind if isinstance(answer, Verdict) else None for answer in answer_all(system, CASES[:3])]


@pytest.mark.parametrize("how", HANGS.values(), ids=HANGS)
def test_hang_costs_its_case_alone(how: str) -> None:
    for _ in range(ENDS):
        system = bad(how, seconds=LIMIT)
        assert isinstance(answer_all(system, CASES[:1])[0], tuple)
        started = time.monotonic()
        with pytest.raises(Timeout):
            system(CASES[1:2])
        assert time.monotonic() - started < LIMIT + NEVER
        assert isinstance(answer_all(system, CASES[2:3])[0], tuple)
        system.close()


@pytest.mark.parametrize(("kind", "how"), ENDINGS.values(), ids=ENDINGS)
def test_bad_end_costs_its_case_alone(kind: Fault, how: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(ENDS):
        system = bad(how, memory=300_000_000, seconds=20.0)
        assert kinds(system) == [None, kind, None]
        system.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1.2 * before


NAUGHTY = """
import os, random, signal, sys, warnings
import numpy as np
from swerve.systems.serve import serve
from swerve.testing import FakeSystem

def drive(case):
    os.write(2, b"e" * {loud})
    os.write(1, b"o" * {loud})
    print("hello", flush=True)
    os.chdir("/")
    os.environ.clear()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    random.seed(0)
    np.random.seed(0)
    if os.fork() == 0:
        os._exit(0)
    answer = FakeSystem()([case])[0]
    try:
        case.inputs["camera"].pixels[:] = 0
    except ValueError:
        case.inputs["camera"].pixels.base is None
    return answer

serve(drive)
"""


def judged(system: System, folder: Path) -> list[dict[str, Any]]:
    rules = (Rule("brighter", Over(Brighten, beta=Range(1, 40)), same_angle(15)),)
    campaign = Campaign(source=FakeSource(3), system=system, rules=rules, search=Sweep(per_case=4), inference_batch=4)
    run_into(Loaded(campaign, folder.parent), folder)
    return list(Run(folder).rows())


def test_naughty_program_changes_nothing(tmp_path: Path) -> None:
    """R26: what it prints, changes and forks has no effect: every row is as from a program that behaves."""
    file = tmp_path / "naughty.py"
    file.write_text(textwrap.dedent(NAUGHTY.format(loud=60_000_000 if SOAK else 3_000_000)))
    before = np.random.get_state()[1].sum(), os.getcwd()
    naughty = judged(Process((sys.executable, str(file))), tmp_path / "naughty")
    assert naughty == judged(FakeSystem(), tmp_path / "good")
    assert (np.random.get_state()[1].sum(), os.getcwd()) == before


DEAF = """
import os, sys, time
from pathlib import Path
from swerve.systems.serve import serve
from swerve.testing import FakeSystem

def drive(case):
    Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(600)
    return FakeSystem()([case])[0]

serve(drive)
"""
ASKING = """
import sys, threading
from swerve.systems.process import Process
from swerve.testing import FakeSource
source = FakeSource(1)
system = Process((sys.executable, *sys.argv[1:]))
system([source[key] for key in source.keys()])
"""


def running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a program with whoever started it")
def test_program_ends_with_a_process_that_was_killed(tmp_path: Path) -> None:
    """It neither reads its stdin again nor is anybody left who would kill it."""
    (tmp_path / "deaf.py").write_text(DEAF)
    words = [sys.executable, "-c", ASKING, str(tmp_path / "deaf.py"), str(tmp_path / "pid")]
    asking = subprocess.Popen(words, env=environment(), cwd=ROOT)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    program = int((tmp_path / "pid").read_text())
    assert running(program)
    asking.kill()
    asking.wait()
    until(lambda: not running(program))


def test_program_outlives_the_thread_that_started_it() -> None:
    """Linux would end it with that thread, so only the main thread asks for it."""
    system = bad("pass")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(system, CASES[:1]).result()
    time.sleep(0.1)
    assert isinstance(answer_all(system, CASES[:1])[0], tuple)
    assert system._program._failed == 0
    system.close()
