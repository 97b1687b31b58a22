"""A command of the user's: what it is given, how it ends, and that nothing of it stays behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from swerve.core.errors import InputError
from swerve.retrain.command import CommandFailed, arguments_of, run_command


def script(folder: Path, text: str) -> list[str]:
    (folder / "train.py").write_text(text)
    return [sys.executable, str(folder / "train.py")]


def test_success_writes_its_log(tmp_path: Path) -> None:
    words = script(tmp_path, "import sys; print(sys.argv[1]); print('loss 0.1', file=sys.stderr)")
    run_command([*words, "a b"], tmp_path / "log")
    assert sorted((tmp_path / "log").read_text().split("\n")) == ["", "a b", "loss 0.1"]


def test_failure_tells_last_lines(tmp_path: Path) -> None:
    words = script(tmp_path, "for n in range(20): print('line', n)\nraise SystemExit(3)")
    with pytest.raises(CommandFailed, match="failed with exit code 3; its full output is in") as failed:
        run_command(words, tmp_path / "log")
    assert failed.value.details == tuple(f"line {n}" for n in range(12, 20))
    assert failed.value.exit_code == 2


def test_signal_is_named(tmp_path: Path) -> None:
    words = script(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(CommandFailed, match="was ended by signal SIGKILL"):
        run_command(words, tmp_path / "log")


CHILD = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(60)
pathlib.Path(sys.argv[1] + ".late").write_text("")
"""


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_timeout_ends_children_too(tmp_path: Path) -> None:
    words = script(tmp_path, CHILD)
    with pytest.raises(CommandFailed, match="was stopped after 2 seconds"):
        run_command([*words, str(tmp_path / "pid")], tmp_path / "log", seconds=2)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if gone(pid):
            break
        time.sleep(0.05)
    assert gone(pid)
    assert not (tmp_path / "pid.late").exists()


def test_unknown_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the command 'no-such-trainer' cannot be run: No such file"):
        run_command(["no-such-trainer"], tmp_path / "log")


def test_environment_is_passed_on(tmp_path: Path) -> None:
    words = script(tmp_path, "import os; print(os.environ['SWERVE_SEED'], 'PATH' in os.environ)")
    run_command(words, tmp_path / "log", environment={"SWERVE_SEED": "7"})
    assert (tmp_path / "log").read_text() == "7 True\n"
    assert "SWERVE_SEED" not in os.environ


def test_places_stay_one_word() -> None:
    places = {"train": "/a b/train", "out": "/o; rm"}
    assert arguments_of("fit --data={train} '{out}/x y' {}", places) == ["fit", "--data=/a b/train", "/o; rm/x y", "{}"]


def test_unknown_place_is_named() -> None:
    with pytest.raises(InputError, match=r"the command has an unknown placeholder \{tran\}; did you mean 'train'"):
        arguments_of("fit {tran}", {"train": "x", "out": "y"})


def test_json_is_no_place() -> None:
    assert arguments_of("""fit '{"lr": 1}'""", {}) == ["fit", '{"lr": 1}']


@pytest.mark.parametrize(("line", "told"), [("", "is empty"), ("fit 'open", r"cannot be parsed \(No closing quotation\)")])
def test_bad_line_is_named(line: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        arguments_of(line, {})
