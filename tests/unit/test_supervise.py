"""R73: the exit code is that of the command, whatever the system writes; only what a system left behind is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

WRITING = """
import os, sys
from swerve.execution.supervise import supervised

def main():
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"0")
        except OSError:
            pass
    {then}

sys.exit(supervised(main))
"""
HANGING = """
import sys, threading, time
from swerve.execution.supervise import supervised

def main():
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return {code}

sys.exit(supervised(main))
"""
SILENCED = """
import os, sys
from swerve.execution.supervise import supervised

def main():
    {close}
    print("done", flush=True)
    return 0

sys.exit(supervised(main))
"""
SUSPENDED = """
import os, signal, subprocess, sys, time
from swerve.execution import supervise

def main():
    parent = os.getppid()
    wakes = f"import os, signal, time; time.sleep({supervise.POLL * 3}); os.kill({parent}, signal.SIGCONT)"
    waker = subprocess.Popen([sys.executable, "-c", wakes])
    time.sleep(supervise.POLL / 5)  # the parent waits for signals by then
    os.kill(parent, signal.SIGSTOP)
    waker.wait()
    time.sleep(supervise.POLL / 5)
    return 1

sys.exit(supervise.supervised(main))
"""
OPENING = """
import subprocess, sys
from swerve.cli import main as command

def opened():
    print(subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
    return 0

command.main = opened
sys.argv[1:] = [{verb!r}]
sys.exit(command.console())
"""


def ended(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(("then", "code"), [("os._exit(0)", 3), ("return 0", 0), ("return 1", 1), ("return 141", 141)])
def test_what_a_system_writes_is_not_taken_for_the_exit_code(then: str, code: int) -> None:
    assert ended(WRITING.format(then=then)).returncode == code


@pytest.mark.skipif(sys.platform != "linux", reason="the command is supervised on Linux alone")
@pytest.mark.parametrize("code", [0, 1])
def test_thread_without_end_does_not_hold_up_the_command(code: int) -> None:
    assert ended(HANGING.format(code=code)).returncode == code


@pytest.mark.skipif(sys.platform != "linux", reason="the command is supervised on Linux alone")
@pytest.mark.parametrize(
    ("close", "code"),
    [("os.closerange(3, 256)", 0), ("sys.stdout.close()", 3), ("sys.stdout.close(), sys.stderr.close()", 3)],
)
def test_closed_files_give_no_false_exit_code(close: str, code: int) -> None:
    assert ended(SILENCED.format(close=close)).returncode == code


@pytest.mark.skipif(sys.platform != "linux", reason="the command is supervised on Linux alone")
def test_suspended_command_goes_on() -> None:
    """As with Ctrl-Z and fg."""
    process = ended(SUSPENDED)
    assert (process.returncode, process.stderr) == (1, "")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="the command is supervised on Linux alone")
@pytest.mark.parametrize(("verb", "stays"), [("review", True), ("run", False)])
def test_browser_outlives_the_review(verb: str, stays: bool) -> None:
    process = ended(OPENING.format(verb=verb))
    assert process.returncode == 0, process.stderr
    assert is_running(int(process.stdout)) is stays
