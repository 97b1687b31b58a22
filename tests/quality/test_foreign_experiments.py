"""Folders of experiments that somebody else wrote: `swerve experiment` runs nothing that they name (R68, R69)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swerve.cli.main import VERBS as ALL_VERBS
from swerve.cli.main import main
from swerve.core.campaign import Campaign
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.experiments.declaration import Experiment
from swerve.experiments.evidence import Question, table
from swerve.experiments.results import SubjectRuns
from swerve.experiments.schedule import CampaignStep, TrainingStep
from swerve.experiments.setting import FULL, QUICK, USUAL
from swerve.experiments.subjects import Subject
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.files import write_whole
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from swerve.train.loop import Checkpoint
from swerve.transformations.affine import Rotate
from tests.quality.test_foreign_folders import (
    CANARY,
    LINKS,
    MODULE,
    PLACES,
    VERBS,
    VERBS_OF_FILE,
    assert_refused,
    nested,
    payloads,
    put,
    rewrite,
    tree,
)

pytestmark = pytest.mark.usefixtures("soon")
STEP, WEIGHTS = "runs/fake/turned", "runs/fake/weights"
WORDS = ["experiment", f"{__name__}:turning", "--quick", "--workers", "0", "--into", "paper"]
# Verbs that are given no run folder, and so have no row in the tables of these tests.
NO_FOLDER = {"check", "explain", "init", "world", "objects", "style", "translate", "zoo", "assets", "unpack", "list"}


def turned(one: SubjectRuns) -> Campaign:
    rule = Rule("turned", Over(Rotate, degrees=Range(3, 30)), same_angle(1))
    return Campaign(one.subject.source, one.subject.system, (rule,), Sweep(per_case=3), seed=one.setting.seed)


def train(one: SubjectRuns, file: Path, checkpoint: Checkpoint) -> None:
    del one
    assert checkpoint.load() is None
    write_whole(file, b"weights")


@table("changes", "Changes", each="system")
def changes(one: SubjectRuns) -> Iterator[dict[str, Any]]:
    """Every change, built from the journal as the papers' examples are."""
    run = one.runs["turned"]
    return ({"change": run.builder().change(row["change"]).words(), "why": row["why"]} for row in run.trials())


def turning() -> Experiment:
    """An experiment with a campaign, a training, and a table of changes that it reads from the journal."""
    return Experiment(
        "turning",
        "Turning",
        subjects=lambda _: [Subject("fake", FakeSystem(bias=0.2), FakeSource(2))],
        cases=lambda _: 2,
        sizes={QUICK: 2, USUAL: 2, FULL: 2},
        steps=(CampaignStep("turned", turned), TrainingStep("weights", train, lambda _: "key", after=("turned",))),
        questions=(Question("What turned?", (changes,)),),
    )


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment."""
    home = tmp_path_factory.mktemp("honest")
    assert main([*WORDS[:-1], str(home / "paper")]) == 0
    return home / "paper"


@pytest.fixture
def scene(tmp_path: Path, honest: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a foreign experiment, canaries that could be run, and a folder where they would leave a mark."""
    for name in ("marks", "config", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{CANARY}.py").write_text(MODULE)
    (tmp_path / "payload.py").write_text(MODULE)
    shutil.copytree(honest, tmp_path / "work" / "paper")
    monkeypatch.setenv("SWERVE_CANARY", str(tmp_path / "marks"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def outside(scene: Path) -> dict[str, object]:
    """All that the experiment may not touch."""
    kept = {name: item for name, item in tree(scene).items() if not name.startswith(("work/paper", "config"))}
    return {name: item for name, item in kept.items() if "__pycache__" not in name and name != "work"}


JOURNAL = ("journal change", "journal chain")
ATTACKS = [(place, "module") for place in PLACES]
ATTACKS += [(place, name) for place in JOURNAL for name in payloads(Path("/marks")) if name != "module"]


@pytest.mark.parametrize(("place", "payload"), ATTACKS)
def test_experiment_runs_nothing_that_its_folder_names(
    scene: Path, place: str, payload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = scene / "work" / "paper" / STEP
    rows, identity = list(Run(run).rows()), json.loads((run / "campaign.json").read_bytes())
    shrunk = put(place, payloads(scene / "marks")[payload], identity, rows)
    rewrite(run, identity, rows, shrunk)
    before = outside(scene)
    code = main(WORDS)
    said = capsys.readouterr().err
    assert outside(scene) == before
    assert code == (0 if place == "shrunk" else 2), said  # an experiment does not shrink
    assert "Traceback" not in said


def test_every_verb_is_attacked() -> None:
    """A verb that is given a run folder has a row in the tables of attacks."""
    attacked = {words("run", "id")[0] for words in VERBS.values()} | {words("run")[0] for words in VERBS_OF_FILE.values()}
    verbs = {verb.__name__.rpartition(".")[2] for some in ALL_VERBS.values() for verb in some}
    assert verbs == {*attacked, *NO_FOLDER, "experiment", "demo"}


IN_EXPERIMENT = (
    *("runs", "runs/fake", STEP, WEIGHTS, f"{WEIGHTS}.key", "runs/fake/weights-key.checkpoint", "tables", "unknown"),
    *("tables/changes.csv", "tables/.changes.csv.partial", "report", "report/index.html", "report/pictures", "data"),
    *(f"{STEP}/{name}" for name in LINKS),
)


@pytest.mark.parametrize("kind", ["file", "folder", "nothing", "pipe"])
@pytest.mark.parametrize("name", IN_EXPERIMENT)
def test_experiment_follows_no_links(scene: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    precious, place = scene / "precious", scene / "work" / "paper" / name
    (precious / "deep").mkdir(parents=True)
    (precious / "deep" / "letter.txt").write_text("dear")
    (precious / "letter.txt").write_text("dear")
    place.parent.mkdir(exist_ok=True)
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to({"file": precious / "letter.txt", "folder": precious, "nothing": scene / "new"}[kind])
    before = outside(scene)
    code = main(WORDS)
    said = capsys.readouterr().err
    assert outside(scene) == before, said
    assert_refused(scene, code, said)


@pytest.mark.parametrize("name", [WEIGHTS, f"{WEIGHTS}.key", "tables/changes.csv", "report/index.html", f"{STEP}/.lock"])
def test_experiment_writes_no_hard_links(scene: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    place, precious = scene / "work" / "paper" / name, scene / "precious"
    precious.write_text("dear")
    place.unlink(missing_ok=True)
    os.link(precious, place)
    assert main(WORDS) in (0, 2), capsys.readouterr().err
    assert precious.read_text() == "dear"


DAMAGE = {
    "endless": lambda path: os.truncate(path, 1 << 40),
    "deep": lambda path: path.write_text(nested(200_000)),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\0" * 100),
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize(
    "name",
    [f"{WEIGHTS}.key", f"{STEP}/summary.json", f"{STEP}/health.json", f"{STEP}/campaign.json", f"{STEP}/journal.jsonl"],
)
def test_damaged_experiment_is_told_in_a_line(scene: Path, name: str, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGE[how](scene / "work" / "paper" / name)
    code = main(WORDS)
    said = capsys.readouterr().err
    assert code in (0, 2), said
    assert "unexpected" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, bytes([8, 0, 0, 0, 0, 0, 0, 0]) + b"{}      "])
def test_foreign_checkpoint_is_refused(scene: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (scene / "work" / "paper" / f"{WEIGHTS}.key").unlink()
    folder = scene / "work" / "paper" / "runs" / "fake" / "weights-key.checkpoint"
    folder.mkdir()
    (folder / "training.safetensors").write_bytes(content)
    assert main(WORDS) in (0, 2), capsys.readouterr().err
    assert "unexpected" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["module", "link", "pipe"])
def test_demo_runs_and_follows_nothing(scene: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo has a campaign of its own: any other folder is refused before its journal is read."""
    run, precious = scene / "work" / "paper" / STEP, scene / "precious"
    precious.mkdir()
    if kind == "module":
        rows, identity = list(Run(run).rows()), json.loads((run / "campaign.json").read_bytes())
        put("source", payloads(scene / "marks")["module"], identity, rows)
        rewrite(run, identity, rows, None)
    elif kind == "link":
        (run / "report").symlink_to(precious)
    else:
        (run / "journal.jsonl").unlink()
        os.mkfifo(run / "journal.jsonl")
    before = outside(scene)
    code = main(["demo", "--into", str(run)])
    assert outside(scene) == before
    assert_refused(scene, code, capsys.readouterr().err)
