"""Consent: what the user's own files may name, and how a run of the user's own needs no further word (R48, R68)."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swerve.cli.main import main
from swerve.config.registry import resolve
from swerve.config.toml import Builder, build_change, load_campaign
from swerve.config.trust import Trust, required_trust
from swerve.core.case import Source
from swerve.core.errors import SpecError, StoreError
from swerve.core.system import System
from swerve.experiments.deeptest import reviewed as deeptest_examples
from swerve.experiments.lidar import examples as lidar_examples
from swerve.experiments.lidar.reach import landed
from swerve.experiments.lidar.subject_runs import ANYWHERE
from swerve.methods.lidar import SERIES, rule_name
from swerve.report.followups import labelled_followup
from swerve.store.consents import save_consent
from swerve.store.record_json import record_of
from swerve.store.view import Run
from swerve.testing import FakeSource
from tests.quality.children import Ended, Nursery, environment
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


Command = Callable[..., Ended]


@pytest.fixture
def command(home: Path, nursery: Nursery) -> Command:
    """Carries out a command in a process of its own, which finds modules in the home folder, and so do its workers."""

    def carried_out(*words: str, **more: str) -> Ended:
        variables = {**environment(**more), "PYTHONPATH": f"{environment()['PYTHONPATH']}{os.pathsep}{home}"}
        return nursery.run(words, "tests.quality.forks:fork_workers", cwd=home, env=variables, supervised=True)

    return carried_out


def replay_line(home: Path, command: Command, folder: str = "run") -> list[str]:
    """The words of the line that `show` prints."""
    finding = Run(home / folder).best(1)[0].id
    shown = json.loads(command("show", folder, finding, "--json").output)
    words = shlex.split(shown["replay"])
    assert words[0] == "swerve"
    return words[1:]


OWN = {
    "module": ('use = "own_model:Mine"\nbias = 0.2', [], "own_model"),
    "file": ('use = "own_model.py:Mine"\nbias = 0.2', ["--trust", "own_model.py"], "own_model.py"),
    "program": ('use = "process"\ncommand = ["python", "program.py"]\nfolder = "."', [], "python"),
}


@pytest.mark.parametrize("kind", OWN)
def test_own_run_replays_as_printed(home: Path, kind: str, command: Command) -> None:
    system, words, name = OWN[kind]
    written(home, system)
    made = command("run", "mine.toml", "--into", "run", "--no-report", "--workers", "1", *words)
    assert made.code == 1, made.errors
    line = replay_line(home, command)
    again = command(*line)
    assert (again.code, again.output.splitlines()[-1]) == (0, "reproduced"), again.output + again.errors

    shutil.copytree(home / "run", home / "copied")
    campaign = home / "copied" / "campaign.json"
    campaign.write_text(campaign.read_text().replace('"seed": 0', '"seed": 1', 1))
    for mark in home.glob("*.imported"):
        mark.unlink()
    other = command("replay", "copied", line[-1])
    assert other.code == 2, other.output
    assert f"--trust {home / name if name.endswith('.py') else name}" in other.errors
    assert not list(home.glob("*.imported"))
    assert command("replay", "copied", line[-1], "--trust", name).code == 0  # the user agrees,
    assert command("replay", "copied", line[-1]).code == 0  # which is remembered


@pytest.mark.parametrize("kind", ["file", "program"])
def test_exchanged_file_needs_consent_again(home: Path, kind: str, command: Command) -> None:
    system, words, name = OWN[kind]
    written(home, system)
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0", *words]) == 1
    line = replay_line(home, command)
    file = home / ("own_model.py" if kind == "file" else "program.py")
    file.write_text(file.read_text() + "\n# exchanged\n")
    made = command(*line)
    assert made.code == 2
    assert f"{file}: has changed since" in made.errors
    assert command(*line, "--trust", name).code in (0, 1)


def test_program_is_allowed_by_the_printed_path(home: Path, command: Command) -> None:
    (home / "prog").mkdir()
    drive, weights = home / "prog" / "drive", home / "prog" / "weights.bin"
    drive.write_text(f"#!{sys.executable}\n{PROGRAM}")
    drive.chmod(0o755)
    weights.write_text("w")
    written(home, 'use = "process"\ncommand = ["./drive", "weights.bin"]\nfolder = "prog"')
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    finding = Run(home / "run").best(1)[0].id
    shutil.rmtree(home / "config")
    refused = command("replay", "run", finding)
    assert refused.code == 2
    assert f"the program ./drive weights.bin only with --trust {drive}" in refused.errors
    assert command("replay", "run", finding, "--trust", str(weights)).code == 2
    assert command("replay", "run", finding, "--trust", str(drive)).code == 0
    weights.write_text("other")
    assert "has changed since" in command("replay", "run", finding).errors


def test_consent_is_for_the_place_too(home: Path, command: Command) -> None:
    """The same campaign with another base would start another program.py."""
    written(home, OWN["program"][0])
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "program.py").write_text(f"open({str(home / 'mark')!r}, 'w')")
    (home / "run" / "origin.json").write_text(json.dumps({"base": str(home / "elsewhere")}))
    made = command("replay", "run", Run(home / "run").best(1)[0].id)
    assert made.code == 2
    assert "--trust python" in made.errors
    assert not (home / "mark").exists()


OTHER_COMMANDS = (
    {"command": ["python", "-c", "open('mark', 'w')"]},
    {"command": ["python", "-m", "program"], "folder": "."},
    {"command": ["python", "program.py"], "folder": "elsewhere"},
    {"command": ["python", "program.py", "--more"], "folder": "."},
)


def test_journal_starts_no_other_command(home: Path) -> None:
    """Who allows a program has seen the campaign's commands, not those of a journal."""
    written(home, OWN["program"][0])
    (home / "elsewhere").mkdir()
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    run = Run(home / "run")
    for trust in (run.trust(), run.trust(["python"]), Trust.of_json(run.trust().as_json())):
        builder = Builder("change", home, trust)
        assert builder.component({"use": "process", "command": ["python", "program.py"], "folder": "."}, System)
        for given in OTHER_COMMANDS:
            with pytest.raises(SpecError, match="only with one of the commands in the campaign"):
                builder.component({"use": "process", **given}, System)


def test_campaign_that_is_exchanged_after_it_was_read_gets_no_consent(home: Path) -> None:
    """Consent is for the bytes that were read, not for those that lie there when it is looked up."""
    written(home, 'use = "swerve.testing:FakeSystem"\nbias = 0.2')
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    path = home / "run" / "campaign.json"
    honest = path.read_bytes()
    save_consent(hashlib.sha256(honest).hexdigest(), str(home), Trust(frozenset({"own_model"})))
    path.write_text(honest.decode().replace('"seed": 0', '"seed": 1', 1))
    other = Run(home / "run")
    path.write_bytes(honest)
    assert other.identity["campaign"]["seed"] == 1
    assert other.trust().names == frozenset()
    assert Run(home / "run").trust().names == {"own_model"}


def test_base_is_read_once(home: Path) -> None:
    """The folder that consent was given for is the folder that files are found in."""
    written(home, 'use = "swerve.testing:FakeSystem"\nbias = 0.2')
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    run = Run(home / "run")
    assert run.trust()
    (home / "run" / "origin.json").write_text(json.dumps({"base": str(home / "elsewhere")}))
    assert run.builder().base == home


@pytest.mark.parametrize("name", ["campaign.json", "origin.json"])
def test_worker_refuses_another_folder_than_its_parent_read(home: Path, name: str) -> None:
    written(home, 'use = "swerve.testing:FakeSystem"\nbias = 0.2')
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    given = Trust.of_json(Run(home / "run").trust().as_json())
    assert Run(home / "run").trust(given) == given
    changed = {"campaign.json": ('"seed": 0', '"seed": 1'), "origin.json": (str(home), str(home / "elsewhere"))}[name]
    path = home / "run" / name
    path.write_text(path.read_text().replace(*changed, 1))
    with pytest.raises(StoreError, match="has changed since this command began"):
        Run(home / "run").builder(trusted=given)


def test_keys_that_look_like_paths_get_no_consent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign campaign.json that only seems to be the user's own: its names would be allowed with the next run."""
    monkeypatch.syspath_prepend(str(home))
    written(home, 'use = "swerve.testing:FakeSystem"\nbias = 0.2')
    words = ["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]
    assert main(words) == 1
    path = home / "run" / "campaign.json"
    identity = json.loads(path.read_bytes())
    identity["campaign"] = {"system.use": "own_model:Mine", **identity["campaign"]}
    path.write_text(json.dumps(identity))
    assert main(words) == 2
    assert Run(home / "run").trust().names == frozenset()


def test_config_that_cannot_be_written_asks_for_trust(home: Path, command: Command) -> None:
    (home / "file").write_text("")
    written(home, OWN["module"][0])
    blocked = {"XDG_CONFIG_HOME": str(home / "file" / "config")}
    made = command("run", "mine.toml", "--into", "run", "--no-report", "--workers", "1", **blocked)
    assert made.code == 1, made.errors
    finding = Run(home / "run").best(1)[0].id
    asked = command("replay", "run", finding, **blocked)
    assert asked.code == 2
    assert "--trust own_model" in asked.errors
    assert command("replay", "run", finding, "--trust", "own_model", **blocked).code == 0


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


CHANGES = """
from dataclasses import dataclass
from typing import Any
from swerve.core.transformation import Transformation
class Part:
    pass
@dataclass(frozen=True)
class Held(Transformation):
    anything: Any = None
    part: Part = None
    def image(self, value):
        return value
"""


@pytest.mark.parametrize("use", ["rotate", "own_model:Held"])
@pytest.mark.parametrize("called", ["own_model:untold", "own_model:wipe", "own_model:make"])
def test_journal_calls_no_functions_of_an_allowed_module(
    home: Path, use: str, called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(home))
    calls = "def untold(bias):\n    Path(__file__).with_suffix('.wiped').touch()\n"
    (home / "own_model.py").write_text(MODEL + CHANGES + calls)
    monkeypatch.delitem(sys.modules, "own_model", raising=False)
    builder = Builder("change", home, Trust(frozenset({"own_model"}), foreign=True))
    nested = {"use": called, "bias": 1.0}
    tables = (
        [{"use": use, "degrees": nested}]
        if use == "rotate"
        else [{"use": use, "anything": nested}, {"use": use, "part": nested}]
    )
    for table in (*tables, {"use": "chain", "steps": tables}):
        with pytest.raises(SpecError, match=r"expected|registered"):
            builder.change(table)
    assert not (home / "own_model.wiped").exists()
    assert builder.change({"use": "own_model:Held", "part": {"use": "own_model:Part"}}) is not None
    sys.modules.pop("own_model", None)


def test_experiments_read_their_journals_as_foreign(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of runs that an experiment reads may come from anyone."""
    monkeypatch.syspath_prepend(str(home))
    written(home, 'use = "swerve.testing:FakeSystem"\nbias = 0.2')
    assert main(["run", "mine.toml", "--into", "run", "--no-report", "--workers", "0"]) == 1
    run, change = Run(home / "run"), {"use": "own_model:untold", "bias": 1.0}
    row = {**next(run.trials()), "rule": rule_name(SERIES[0], None), "change": change}
    cases = FakeSource(2)
    some: Any = SimpleNamespace(builders={row["rule"]: run.builder()}, subject=SimpleNamespace(source=cases))
    some.trials = lambda: [((ANYWHERE, SERIES[0]), row)]
    for read in (
        lambda: landed(some),
        lambda: lidar_examples._picture(some, row),
        lambda: deeptest_examples._picture(some, run, row),
        lambda: labelled_followup(cases, row, run.builder()),
    ):
        with pytest.raises(SpecError, match="only with --trust own_model"):
            read()
    assert "own_model" not in sys.modules
    for call in (build_change, record_of):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            call(change)  # type: ignore[operator]


@pytest.mark.parametrize(
    "value", ["/etc/hostname", "table.bin", {"asset": []}, {"asset": "/etc/hostname"}, ["asset"], "a\0b"]
)
@pytest.mark.parametrize("foreign", [True, False])
def test_run_folder_names_no_asset_by_path(home: Path, value: Any, foreign: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(home))
    table = "from swerve import Asset\n@dataclass(frozen=True)\nclass Lookup(Held):\n    table: Asset = None\n"
    (home / "own_asset.py").write_text(CHANGES + table)
    (home / "table.bin").write_bytes(b"table")
    monkeypatch.delitem(sys.modules, "own_asset", raising=False)
    builder = Builder("change", home, Trust(frozenset({"own_asset"}), foreign=foreign))
    if not foreign and value in ("/etc/hostname", "table.bin"):
        assert builder.change({"use": "own_asset:Lookup", "table": value})
    else:
        with pytest.raises(SpecError, match=r"change\.table: expected (a|text)"):
            builder.change({"use": "own_asset:Lookup", "table": value})
    sys.modules.pop("own_asset", None)


def test_number_is_not_made_by_a_call() -> None:
    with pytest.raises(SpecError, match="degrees: expected a number"):
        Builder().change({"use": "rotate", "degrees": {"use": "same-angle", "within": 1}})


def test_only_hashed_bytes_run(home: Path) -> None:
    """An unchecked hash pyc beside a trusted file would run in its place."""
    file = home / "own_code.py"
    file.write_text("class Part:\n    pass\n")
    other = compile(f"open({str(home / 'mark')!r}, 'w')\nclass Part:\n    pass\n", str(file), "exec")
    cached = Path(importlib.util.cache_from_source(str(file)))
    cached.parent.mkdir()
    flags = (0b01).to_bytes(4, "little")  # of PEP 552: found by hash, and the hash is not checked
    cached.write_bytes(importlib.util.MAGIC_NUMBER + flags + bytes(8) + marshal.dumps(other))
    assert resolve("own_code.py:Part", home, trust=Trust.of([file])).__name__ == "Part"
    assert not (home / "mark").exists()


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
    assert required_trust(described, Path()).names == {"mine.deep", "yours"}
