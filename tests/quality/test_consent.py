"""Consent: what the user's own files may name, and how a run of the user's own needs no further word (R48, R68)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swerve.cli.main import main
from swerve.config.registry import resolve
from swerve.config.toml import Builder, load_campaign
from swerve.config.trust import Trust, named_in
from swerve.core.case import Source
from swerve.core.errors import SpecError
from swerve.core.system import System
from swerve.store.view import Run
from tests.quality.children import environment
from tests.quality.test_foreign_folders import CAMPAIGN

MODEL = """
from pathlib import Path
from swerve.testing import FakeSystem
Path(__file__).with_suffix(".imported").touch()
class Mine(FakeSystem):
    pass
def make(bias: float) -> FakeSystem:
    return FakeSystem(bias=bias)
def wipe(bias: float) -> None:
    Path(__file__).with_suffix(".wiped").touch()
def untold(bias):
    return FakeSystem(bias=bias)
"""
PROGRAM = (
    "from swerve.systems.serve import serve\nfrom swerve.testing import FakeSystem\nserve(FakeSystem(bias=0.2), 'mine')\n"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(home: Path, system: str) -> None:
    (home / "own_model.py").write_text(MODEL)
    (home / "program.py").write_text(PROGRAM)
    (home / "mine.toml").write_text(CAMPAIGN.replace('use = "swerve.testing:FakeSystem"\nbias = 0.2', system))


def command(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "swerve.cli.main", *words],
        cwd=home,
        env={**environment(**more), "PYTHONPATH": f"{environment()['PYTHONPATH']}{os.pathsep}{home}"},
        capture_output=True,
        text=True,
        check=False,
    )


def replay_line(home: Path, folder: str = "run") -> list[str]:
    """The words of the line that `show` prints."""
    finding = Run(home / folder).best(1)[0].id
    shown = json.loads(command(home, "show", folder, finding, "--json").stdout)
    words = shlex.split(shown["replay"])
    assert words[0] == "swerve"
    return words[1:]


OWN = {
    "module": ('use = "own_model:Mine"\nbias = 0.2', [], "own_model"),
    "file": ('use = "own_model.py:Mine"\nbias = 0.2', ["--trust", "own_model.py"], "own_model.py"),
    "program": ('use = "process"\ncommand = ["python", "program.py"]\nfolder = "."', [], "python"),
}


@pytest.mark.parametrize("kind", OWN)
def test_own_run_replays_as_printed(home: Path, kind: str) -> None:
    system, words, name = OWN[kind]
    written(home, system)
    made = command(home, "run", "mine.toml", "--into", "run", "--no-report", "--workers", "1", *words)
    assert made.returncode == 1, made.stderr
    line = replay_line(home)
    again = command(home, *line)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "reproduced"), again.stdout + again.stderr

    shutil.copytree(home / "run", home / "copied")
    campaign = home / "copied" / "campaign.json"
    campaign.write_text(campaign.read_text().replace('"seed": 0', '"seed": 1', 1))
    for mark in home.glob("*.imported"):
        mark.unlink()
    other = command(home, "replay", "copied", line[-1])
    assert other.returncode == 2, other.stdout
    assert f"--trust {home / name if name.endswith('.py') else name}" in other.stderr
    assert not list(home.glob("*.imported"))
    assert command(home, "replay", "copied", line[-1], "--trust", name).returncode == 0  # the user agrees,
    assert command(home, "replay", "copied", line[-1]).returncode == 0  # which is remembered


@pytest.mark.parametrize("kind", ["file", "program"])
def test_exchanged_file_needs_consent_again(home: Path, kind: str) -> None:
    system, words, name = OWN[kind]
    written(home, system)
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0", *words]) == 1
    line = replay_line(home)
    file = home / ("own_model.py" if kind == "file" else "program.py")
    file.write_text(file.read_text() + "\n# exchanged\n")
    made = command(home, *line)
    assert made.returncode == 2
    assert f"{file}: has changed since" in made.stderr
    assert command(home, *line, "--trust", name).returncode in (0, 1)


def test_consent_is_for_the_place_too(home: Path) -> None:
    """The same campaign with another base would start another program.py."""
    written(home, OWN["program"][0])
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "program.py").write_text(f"open({str(home / 'mark')!r}, 'w')")
    (home / "run" / "origin.json").write_text(json.dumps({"base": str(home / "elsewhere")}))
    made = command(home, "replay", "run", Run(home / "run").best(1)[0].id)
    assert made.returncode == 2
    assert "--trust python" in made.stderr
    assert not (home / "mark").exists()


def test_config_that_cannot_be_written_asks_for_trust(home: Path) -> None:
    (home / "file").write_text("")
    written(home, OWN["module"][0])
    blocked = {"XDG_CONFIG_HOME": str(home / "file" / "config")}
    made = command(home, "run", "mine.toml", "--into", "run", "--no-report", "--workers", "1", **blocked)
    assert made.returncode == 1, made.stderr
    finding = Run(home / "run").best(1)[0].id
    asked = command(home, "replay", "run", finding, **blocked)
    assert asked.returncode == 2
    assert "--trust own_model" in asked.stderr
    assert command(home, "replay", "run", finding, "--trust", "own_model", **blocked).returncode == 0


def test_journal_names_no_more_than_the_campaign(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consent for one module is none for another, nor for anything but a transformation."""
    monkeypatch.syspath_prepend(str(home))
    written(home, OWN["module"][0])
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    trust = Run(home / "run").trust()
    assert trust.names == {"own_model"}
    for use, why in (("json:tool", "standard library"), ("own_model:wipe", "expected a transformation")):
        with pytest.raises(SpecError, match=why):
            Builder("change", home, trust).change({"use": use})
    with pytest.raises(SpecError, match=r"only with --trust tests\.quality\.campaigns"):
        Builder("change", home, trust).change({"use": "tests.quality.campaigns:Climb"})
    sys.modules.pop("own_model", None)


def test_workers_take_the_word_of_their_parent(home: Path) -> None:
    """What the environment of a worker says is not asked: its parent tells it what may run."""
    trust = Trust(frozenset({"own_model"}), {"/a.py": "sha"}, foreign=True)
    assert Trust.of_json(trust.as_json()) == trust


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("os:system", "standard library"),
        ("runpy:run_path", "standard library"),
        ("posix:system", "standard library"),
        ("builtins:exec", "standard library"),
        ("lib2to3.main:main", "standard library"),
        ("pytest:main", "installed package without a swerve.* entry point"),
        ("torch.hub:load", "installed package without a swerve.* entry point"),
        ("swerve.cli.main:main", "expected a system, got main"),
        ("swerve.sources.archive:unpack", "expected a system, got unpack"),
        ("swerve.systems.child:Child", "expected a system, got Child"),
        ("swerve.retrain.command:subprocess.Popen", "has no class or function"),
        ("swerve.core.errors:SwerveError.__init__", "has no class or function"),
        ("own_model:wipe", "expected a system, got wipe"),
        ("own_model:Path", "standard library"),
        ("own_model:Path.rmdir", "standard library"),
    ],
)
def test_own_campaign_may_not_name_what_is_no_part(home: Path, use: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(home))
    written(home, f'use = "{use}"')
    with pytest.raises(SpecError, match=why):
        load_campaign("mine.toml")
    assert not (home / "own_model.wiped").exists()
    sys.modules.pop("own_model", None)


def test_own_modules_work_as_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(home))
    for use in ("own_model:Mine", "own_model:make", "own_model:untold", "swerve.testing:FakeSystem"):
        written(home, f'use = "{use}"\nbias = 0.2')
        assert isinstance(load_campaign("mine.toml").campaign.system, System)
    sys.modules.pop("own_model", None)


def test_installed_package_runs_with_consent() -> None:
    with pytest.raises(SpecError, match="run with --trust scipy"):
        resolve("scipy.spatial:KDTree")
    assert resolve("scipy.spatial:KDTree", trust=Trust.of(["scipy"])).__name__ == "KDTree"
    with pytest.raises(SpecError, match="standard library"):
        resolve("os:system", trust=Trust.of(["os"]))


def test_kind_is_known_before_the_call() -> None:
    with pytest.raises(SpecError, match="expected a source, got FakeSystem"):
        resolve("swerve.testing:FakeSystem", wanted=(Source,))


def test_names_of_a_campaign_are_found_at_any_depth() -> None:
    described = {"a": [{"use": "mine.deep:Part", "b": {"c": ["yours:function", "rotate", "no name: at all"]}}]}
    assert named_in(described, Path()).names == {"mine.deep", "yours"}
