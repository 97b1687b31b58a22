"""The campaign files of `examples/` on the real models and frames they name; figures are those measured elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swerve.cli.main import main
from swerve.store.view import Run

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.usefixtures("forked_workers")


def baseline(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["check", str(EXAMPLES / name), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["healthy"]
    error: dict[str, Any] = told["baseline"]
    return error


@pytest.mark.parametrize(("name", "mse"), [("dronet.toml", 0.0242), ("pulp-dronet.toml", 0.0284)])
def test_steering_error_is_the_published_one(data: Path, name: str, mse: float, capsys: pytest.CaptureFixture[str]) -> None:
    del data
    told = baseline(name, capsys)
    assert (told["cases"], told["unit"]) == (300, "radians")
    assert told["mse"] == pytest.approx(mse, abs=0.0005)


def test_detector_s_precision_is_the_measured_one(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del data
    told = baseline("yolox-nano.toml", capsys)
    assert (told["cases"], told["labels"]) == (300, 993)
    assert told["map"] == pytest.approx(0.099, abs=0.005)


def test_program_on_sweeps_runs_to_its_end(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del data
    told = baseline("kitti-lidar.toml", capsys)
    assert told["cases"] == 10
    assert 0 < told["map"] < 1
    assert main(["run", str(EXAMPLES / "kitti-lidar.toml"), "--into", str(tmp_path / "run"), "--workers", "1"]) == 1
    rows = list(Run(tmp_path / "run").trials())
    assert len(rows) == 100
    assert {row["status"] for row in rows} <= {"held", "violated", "skipped"}  # skipped: the same draw twice
    finding = next(Run(tmp_path / "run").findings())
    assert main(["replay", str(tmp_path / "run"), finding.id]) == 0


def test_findings_on_a_real_network_replay(data: Path, tmp_path: Path) -> None:
    """R16 on PULP-DroNet: the verdict of each finding is the same alone as in its batch."""
    del data
    text = (EXAMPLES / "pulp-dronet.toml").read_text().replace("../../shared", str(EXAMPLES.parents[1] / "shared"))
    rules = text.index("[[rule]]")
    file = tmp_path / "few.toml"
    file.write_text(text[:rules].replace('kind = "wheel"\n\n[system]', 'kind = "wheel"\nblock = 50\n\n[system]') + RULES)
    assert main(["run", str(file), "--into", str(tmp_path / "run"), "--no-report", "--workers", "0"]) == 1
    findings = list(Run(tmp_path / "run").findings())
    assert len(findings) > 10
    for finding in findings[:: len(findings) // 10]:
        assert main(["replay", str(tmp_path / "run"), finding.id]) == 0


RULES = """
[[rule]]
name = "turned"
change = { use = "rotate", degrees = 12 }
expect = { use = "same-angle", within = 10.0 }
"""
