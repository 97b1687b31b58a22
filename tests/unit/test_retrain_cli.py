"""The verb `retrain`, from a campaign file or a run folder to its tables."""

from __future__ import annotations

import argparse
import csv
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from swerve.cli.retrain import add_parser
from swerve.config.toml import load_campaign
from swerve.core.errors import InputError
from swerve.execution.launch import run_into
from swerve.zoo.steering import DaveOrig

pytestmark = pytest.mark.usefixtures("rendered_once")

FILE = """
seed = 3
[source]
use = "world"
drives = 12
frames = 2
width = 100
height = 56
[system]
use = "dave-orig"
[[rule]]
name = "dark"
change = { use = "brighten", beta = [-80, -40] }
expect = { use = "same-angle", within = 2.0 }
[[rule]]
name = "bright"
change = { use = "brighten", beta = [40, 80] }
expect = { use = "same-angle", within = 2.0 }
"""


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    (tmp_path / "campaign.toml").write_text(FILE)
    return str(tmp_path / "campaign.toml")


def retrain(*words: object) -> int:
    top = argparse.ArgumentParser()
    add_parser(top.add_subparsers())
    options = top.parse_args(["retrain", *map(str, words)])
    return int(options.verb(options))


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_campaign_is_retrained(campaign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = tmp_path / "out"
    assert retrain(campaign, "--into", into, "--mix", "0.5", "--epochs", "2", "--val", "0.2") == 0
    summary = json.loads((into / "retrain.json").read_text())
    assert summary["split"] == "groups"
    assert summary["followups"]["train"] == round(0.5 * summary["cases"]["train"])
    assert 2 <= len(summary["validation_mse_rad2"]) <= 3
    rows = table(into / "tables" / "retrain.csv")
    assert {row["data"] for row in rows} == {"original", "synthetic, dark", "synthetic, bright"}
    assert DaveOrig(into / "weights.safetensors")
    shown = capsys.readouterr().out
    assert "split by groups" in shown
    assert summary["outcome"] in " ".join(shown.split())
    assert summary["untouched_validation_mse_rad2"] == []


def test_originals_are_guarded_on_request(campaign: str, tmp_path: Path) -> None:
    words = ("--mix", "1", "--epochs", "2", "--val", "0.2", "--rate", "1", "--worse", "0")
    assert retrain(campaign, "--into", tmp_path / "out", *words) == 0
    summary = json.loads((tmp_path / "out" / "retrain.json").read_text())
    assert (summary["best_pass"], summary["worse"]) == (0, 0.0)
    assert len(summary["untouched_validation_mse_rad2"]) == len(summary["validation_mse_rad2"])
    assert "the network is unchanged" in summary["outcome"]


def test_one_drive_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.toml").write_text(FILE.replace("drives = 12\nframes = 2", "drives = 1\nframes = 20"))
    words = ("--epochs", "1", "--mix", "0", "--rule", "dark", "--gap", "0", "--test", "0.3")
    assert retrain(tmp_path / "one.toml", "--into", tmp_path / "out", *words) == 0
    assert "no interval or p-value: at least 2 groups are needed, and all 6 pairs are in one" in capsys.readouterr().out
    rows = table(tmp_path / "out" / "tables" / "retrain.csv")
    assert {(row["groups"], row["low"], row["p"]) for row in rows} == {("1", "", "")}


def test_split_table_has_everyone(campaign: str, tmp_path: Path) -> None:
    retrain(campaign, "--into", tmp_path / "out", "--epochs", "1", "--mix", "0", "--rule", "dark")
    rows = table(tmp_path / "out" / "tables" / "split.csv")
    assert len(rows) == 24
    sides = {row["side"]: {other["group"] for other in rows if other["side"] == row["side"]} for row in rows}
    assert not sides["train"] & sides["test"]


def test_findings_are_learnt_from(tmp_path: Path) -> None:
    strict = tmp_path / "strict.toml"
    strict.write_text(FILE.replace("within = 2.0", "within = 0.1"))  # findings in every drive, training and held-out
    run_into(load_campaign(str(strict)), tmp_path / "run")
    retrain(tmp_path / "run", "--into", tmp_path / "out", "--mix", "5", "--epochs", "1")
    summary = json.loads((tmp_path / "out" / "retrain.json").read_text())
    assert summary["followups"]["train"] > 0
    assert list(summary["held_out"]) == ["dark", "bright", "findings"]


COPY = """
import pathlib, sys
told = pathlib.Path(sys.argv[1], "steering.csv").read_text()
pathlib.Path(sys.argv[2], "seen").write_text(told)
"""


def test_command_gets_the_export(campaign: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COPY)
    into = tmp_path / "new run"
    command = f"{sys.executable} {tmp_path}/train.py {{train}} {{out}}"
    assert retrain(campaign, "--into", into, "--export", "udacity", "--command", command, "--after", campaign) == 0
    seen = (into / "out" / "seen").read_text().splitlines()
    counts = json.loads((into / "retrain.json").read_text())
    assert len(seen) == 1 + counts["exported"]["train"]
    assert len(table(into / "data" / "manifest.csv")) == sum(counts["exported"].values())
    unchanged = table(into / "tables" / "retrain.csv")[0]
    assert unchanged["before"] == unchanged["after"]


def test_exported_parents_stay_apart(campaign: str, tmp_path: Path) -> None:
    retrain(campaign, "--into", tmp_path / "out", "--export", "udacity", "--mix", "1")
    rows = table(tmp_path / "out" / "data" / "manifest.csv")
    sides = {side: {row["group"] for row in rows if row["split"] == side} for side in ("train", "val", "test")}
    assert any(row["parent"] for row in rows if row["split"] == "train")
    assert not sides["train"] & sides["test"]
    assert not sides["val"] & sides["test"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--command", "x"], "--command needs --export"),
        (["--after", "x"], "--after needs --command"),
        (["--rule", "drak"], "unknown rule 'drak'; did you mean 'dark'"),
        (["--export", "coco"], "has no boxes to write"),
        (["--export", "udacity", "--command", "fit {nowhere}"], "the command has an unknown placeholder {nowhere}"),
    ],
)
def test_bad_input_is_named(campaign: str, tmp_path: Path, words: list[str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        retrain(campaign, "--into", tmp_path / "out", *words)


def test_empty_training_gets_its_line(campaign: str, tmp_path: Path) -> None:
    Path(campaign).write_text(FILE.replace("drives = 12", "drives = 1").replace("frames = 2", "frames = 30"))
    with pytest.raises(InputError, match=r"the training set is empty: \d+ of 30 .* lie in guard gaps; make --gap"):
        retrain(campaign, "--into", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missed_share_is_told(campaign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(campaign).write_text(FILE.replace("drives = 12", "drives = 3"))
    retrain(campaign, "--into", tmp_path / "out", "--export", "udacity", "--mix", "0", "--rule", "dark")
    told = "the test set has 2 of 6 cases: 33%, instead of 20%"
    assert told in capsys.readouterr().out
    assert told in json.loads((tmp_path / "out" / "retrain.json").read_text())["notes"]


def test_occupied_folder_is_refused(campaign: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not empty"):
        retrain(campaign, "--into", tmp_path)


@pytest.mark.parametrize(
    "words", [["--mix", "-1"], ["--mix", "nan"], ["--gap", "x"], ["--split", "half"], ["--epochs", "-2"]]
)
def test_bad_options_stop_at_once(campaign: str, tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit):
        retrain(campaign, "--into", tmp_path / "out", *words)


def test_help_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        retrain("--help")
    said = capsys.readouterr().out
    assert all(f"--{name}" in said for name in ("mix", "split", "gap", "export", "command", "after", "epochs", "seed"))


def test_page_runs_as_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "retrain.md").read_text()
    block, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)  # the other is for detectors: test_train_detectors.py
    (tmp_path / "page.py").write_text(f"from pathlib import Path\ninto = Path({str(tmp_path)!r})\n{block}")
    runpy.run_path(str(tmp_path / "page.py"))
    assert capsys.readouterr().out.strip() == str(tmp_path / "tables" / "retrain.csv")
    assert len(table(tmp_path / "tables" / "retrain.csv")) == 4


def test_page_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "retrain.md").read_text()
    named = {"--mix", "--split", "--rule", "--export", "--command", "--after", "--epochs", "--gap", "--blocks", "--limit"}
    assert not {name for name in named if name not in page}


CONDITIONS = """
method = "critical-conditions"
conditions = 2
evaluations = 4
around = 0
seed = 3
[source]
use = "world"
drives = 12
frames = 2
width = 100
height = 56
[system]
use = "dave-orig"
"""


def test_critical_conditions_are_learnt_from(tmp_path: Path) -> None:
    """What a search found feeds a training, measured on held-out scenes before and after; what it tried does not."""
    (tmp_path / "c.toml").write_text(CONDITIONS)
    run_into(load_campaign(str(tmp_path / "c.toml")), tmp_path / "run", pictures=False)
    assert retrain(tmp_path / "run", "--into", tmp_path / "out", "--mix", "5", "--epochs", "1") == 0
    summary = json.loads((tmp_path / "out" / "retrain.json").read_text())
    assert summary["followups"]["train"] > 0
    assert list(summary["held_out"]) == ["critical conditions", "findings"]
    rows = table(tmp_path / "out" / "tables" / "retrain.csv")
    (found,) = [row for row in rows if row["data"] == "synthetic, findings" and row["measure"] == rows[0]["measure"]]
    assert float(found["before"]) > 0
    assert float(found["after"]) > 0
