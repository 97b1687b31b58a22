"""Ray: the same bytes as without it, and nothing lost when one of its workers is killed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swerve.cli.main import main
from swerve.config import limits
from swerve.config.toml import load_campaign
from swerve.config.trust import Trust
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError, Killed, ModelError, OutOfMemory, Timeout
from swerve.core.system import Answer
from swerve.execution import launch
from swerve.execution.executors.processes import Allowance, Pace
from swerve.execution.executors.ray import RayActor, RayWorker, connected
from swerve.store.view import Run
from swerve.testing import FakeSystem
from tests.quality import campaigns
from tests.quality.children import command, finish, workers_of
from tests.quality.test_workers import CAMPAIGN, Moody, content, counts

JOURNAL = "journal.jsonl"
NOTING = """
import tempfile
def noting(*given, make=tempfile.mkdtemp, **named):
    made = make(*given, **named)
    print(made, file=open({path!r}, "a"))
    return made
tempfile.mkdtemp = noting
"""
NEEDS_RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (swerve[ray])")


@dataclass(frozen=True)
class Murderous(Moody):
    """Kills the process that seats it, an actor of Ray's, when it sees certain pictures for the first time."""

    share: int = 40
    seen: str = "/nowhere"  # a folder with a file for each of them; without it, nobody is killed

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        marks = [Path(self.seen) / case.input_sha for case in cases if self._hit(case)]
        if Path(self.seen).is_dir() and any(not mark.exists() for mark in marks):
            for mark in marks:
                mark.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return FakeSystem.__call__(self, cases)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    before = signal.getsignal(signal.SIGTERM)
    with connected("ray", 2) as (ray, cores):
        assert cores == 2
        assert signal.getsignal(signal.SIGTERM) is before
        folder = Path(ray.get_runtime_context().worker.node.get_temp_dir_path())
        assert folder.is_dir()
        yield ray
    assert not folder.exists()
    assert not ray.is_initialized()


def written(tmp_path: Path, name: str, mood: str, *, count: int = 12) -> Path:
    file = tmp_path / f"{name}.toml"
    file.write_text(CAMPAIGN.format(count=count, mood=mood).replace("test_workers:Moody", f"test_ray:{Murderous.__name__}"))
    return file


def run(tmp_path: Path, name: str, mood: str, on: str | None = None, **size: int) -> Path:
    """A finished run folder, made on Ray or in this process."""
    loaded = load_campaign(str(written(tmp_path, name, mood, **size)))
    launch.run_into(loaded, tmp_path / name, workers=2 if on else 0, on=on)
    return tmp_path / name


@NEEDS_RAY
def test_ray_writes_same_bytes(cluster: Any, tmp_path: Path) -> None:
    here, there = (content(run(tmp_path, name, "", on)) for name, on in (("here", None), ("there", "ray")))
    assert here == there
    assert JOURNAL in here


@NEEDS_RAY
def test_changes_drawn_on_ray_are_the_same(cluster: Any, tmp_path: Path) -> None:
    file = campaigns.written(tmp_path / "campaign.toml", "reading", count=4)
    for name, on in (("here", None), ("there", "ray")):
        launch.run_into(load_campaign(str(file)), tmp_path / name, workers=2 if on else 0, on=on)
    assert content(tmp_path / "here") == content(tmp_path / "there")


@NEEDS_RAY
def test_killed_ray_workers_lose_nothing(cluster: Any, tmp_path: Path) -> None:
    """Some are killed while the health is examined, some in the middle of the run."""
    marks = tmp_path / "marks"
    marks.mkdir()
    whole = content(run(tmp_path, "whole", ""))
    killed = content(folder := run(tmp_path, "killed", f'seen = "{marks}"', "ray"))
    assert len(list(marks.iterdir())) >= 3
    assert counts(folder)["errors"] == 0
    assert {name for name in whole if whole[name] != killed[name]} == {"campaign.json"}  # which tells the folder of marks


@NEEDS_RAY
def test_command_starts_a_cluster_and_ends_it(tmp_path: Path) -> None:
    """`swerve run --on ray`, as a user would type it; one of its workers is killed on the way."""
    marks = tmp_path / "marks"
    marks.mkdir()
    whole = content(run(tmp_path, "whole", f'seen = "{tmp_path / "nowhere"}"\nshare = 60', count=3))
    file = written(tmp_path, "there", f'seen = "{marks}"\nshare = 60', count=3)
    watch = NOTING.format(path=str(tmp_path / "made"))
    words = ("--on", "ray", "--workers", "2", "--shrink", "0")  # a run from Python does not shrink either
    assert finish(command(file, tmp_path / "there", *words), code=watch) == (1, "")
    assert list(marks.iterdir())
    there = content(tmp_path / "there")
    assert {name for name in whole if whole[name] != there.get(name)} == {"campaign.json"}
    assert whole.keys() == there.keys()
    clusters = [made for made in (tmp_path / "made").read_text().splitlines() if "swerve-ray-" in made]
    assert len(clusters) == 1
    assert not Path(clusters[0]).exists()
    assert not workers_of(tmp_path / "there")


@NEEDS_RAY
def test_findings_shrink_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    folder = run(tmp_path, "run", "")
    finding = next(Run(folder).findings())
    assert main(["shrink", str(folder), finding.id, "--workers", "0"]) == 0
    here = (folder / "shrunk" / f"{finding.id}.json").read_bytes()
    assert main(["shrink", str(folder), finding.id, "--on", "ray", "--workers", "1"]) == 0
    assert (folder / "shrunk" / f"{finding.id}.json").read_bytes() == here


def test_seat_tells_how_its_worker_failed(tmp_path: Path) -> None:
    seat = RayActor(str(tmp_path), Trust().as_json(), 60.0, limits.MEMORY)
    assert not seat.sees_folder()
    with pytest.raises(EnvironmentFault, match="a worker process cannot start: the process exited with code 1"):
        seat.ask({"ask": "observe", "items": ["a"]})


def test_seat_answers_for_its_worker(tmp_path: Path) -> None:
    folder = run(tmp_path, "run", "")
    seat = RayActor(str(folder), Run(folder).trust().as_json(), 60.0, limits.MEMORY)
    assert seat.sees_folder()
    rows = seat.ask({"ask": "observe", "items": ["fake-00001"]})["reply"]["rows"]
    assert [row["case"] for row in rows] == ["fake-00001"]


@dataclass(frozen=True)
class Dead:
    """Stands in for Ray: every answer is one exception, or one value."""

    said: Any
    exceptions: Any
    killed: list[object]

    def remote(self, **how: Any) -> Any:
        call = SimpleNamespace(remote=lambda *_: None)
        return lambda kind: SimpleNamespace(remote=lambda *_: SimpleNamespace(ask=call, sees_folder=call))

    def get(self, promised: object, timeout: float) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def kill(self, actor: object) -> None:
        self.killed.append(actor)


class RayError(Exception):
    pass


FAULTS = ("GetTimeoutError", "OutOfMemoryError", "RuntimeEnvSetupError", "RayTaskError", "ActorDiedError")
ERRORS = SimpleNamespace(RayError=RayError, **{name: type(name, (RayError,), {}) for name in FAULTS})


def hand(said: Any) -> tuple[RayWorker, Dead]:
    ray = Dead(said, ERRORS, [])
    made = RayWorker(ray, Path("run"), Trust(), Allowance(), Pace(1.0))
    made._placed = True
    return made, ray


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        ("GetTimeoutError", Timeout),
        ("OutOfMemoryError", OutOfMemory),
        ("ActorDiedError", Killed),
        ("RuntimeEnvSetupError", EnvironmentFault),
        ("RayTaskError", EnvironmentFault),
    ],
)
def test_what_ray_says_becomes_ours(raised: str, becomes: type[Exception]) -> None:
    asked, ray = hand(getattr(ERRORS, raised)("the reason\nand much more"))
    with pytest.raises(becomes) as told:
        asked.ask({"ask": "observe", "items": ["a"]})
    assert type(told.value) is becomes
    assert len(str(told.value)) < 200
    assert bool(ray.killed) == (becomes is Timeout)  # one that hangs is ended; a dead one is dead


@pytest.mark.parametrize("kind", [ModelError, Timeout, OutOfMemory, Killed])
def test_what_a_seat_says_keeps_its_kind(kind: type[ModelError]) -> None:
    asked, _ = hand({"failed": kind.kind, "why": "out of luck"})
    with pytest.raises(kind, match=r"^out of luck$") as told:
        asked.ask({"ask": "observe", "items": ["a"]})
    assert type(told.value) is kind


def test_full_cluster_is_no_fault_of_a_case() -> None:
    asked, _ = hand(ERRORS.GetTimeoutError(""))
    asked._placed = False
    with pytest.raises(EnvironmentFault, match="no core of the Ray cluster was free"):
        asked.ask({"ask": "observe", "items": ["a"]})


def test_folder_that_the_cluster_cannot_see_is_named() -> None:
    asked, _ = hand(False)
    asked._placed = False
    with pytest.raises(InputError, match=r"^run: the machines of the Ray cluster cannot read this folder"):
        asked.ask({"ask": "observe", "items": ["a"]})


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(EnvironmentFault, match=r"pip install 'swerve\[ray\]'"), connected("ray", 1):
        pass


@pytest.mark.parametrize("address", ["", "rya", "http://host:1", "host:6379"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="ray://HOST:PORT"), connected(address, 1):
        pass
