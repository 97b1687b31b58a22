"""What the documentation shows is run as it stands."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from swerve.cli.main import main
from swerve.config.toml import describe, load_campaign
from swerve.core.values import Boxes3D, Steering
from swerve.methods.demo import demo
from swerve.relations.matching import ground_corners
from swerve.store.view import Run
from swerve.world.source import World

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def code_lines(block: str) -> int:
    return sum(1 for line in block.splitlines() if line.strip() and not line.startswith(("import ", "from ")))


def blocks() -> list[str]:
    return BLOCK.findall((ROOT / "docs" / "extend.md").read_text())


def write_drive(folder: Path) -> None:
    world = World(drives=3, width=160, height=90)
    folder.mkdir(parents=True)
    rows = []
    for index, key in enumerate(world.keys()):
        case = world[key]
        pixels, label = case.inputs["camera"].pixels, case.truth[0]  # type: ignore[attr-defined]
        assert isinstance(label, Steering)
        cv2.imwrite(str(folder / f"{index}.png"), cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
        rows.append(f"{index}.png,{label.degrees}")
    (folder / "angles.csv").write_text("\n".join(rows))


def test_page_runs_as_written(tmp_path: Path) -> None:
    write_drive(tmp_path / "drive")
    (tmp_path / "test_page.py").write_text("\n".join(blocks()[1:]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ of 27 trials violate a rule", done.stdout)
    assert "11 passed" in done.stdout
    assert (tmp_path / "runs" / "mine" / "summary.json").exists()
    assert re.search(r"small: \d frames with dense haze", done.stdout)
    table = (tmp_path / "runs" / "haze" / "tables" / "haze.csv").read_text()
    assert table.startswith("system,strength,moved,rate,low,high\nsmall,0.2,")
    before, after = map(int, re.findall(r"covered neurons: (\d+) to (\d+)", done.stdout)[0])
    assert 0 < before <= after
    fittest = json.loads((tmp_path / "runs" / "fittest" / "summary.json").read_text())
    assert fittest["trials"] == 4 * 3  # asks of all cases


NETS = """
import torch


class PilotNet(torch.nn.Sequential):
    def __init__(self):
        layers = torch.nn.Conv2d(3, 4, 5, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten()
        super().__init__(*layers, torch.nn.Linear(64, 1))
"""


def write_pilot(folder: Path) -> None:
    """What the first program of the page uses: an untrained network with its weights, and a drive with labels."""
    torch.manual_seed(1)
    layers = torch.nn.Conv2d(3, 4, 5, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten()
    net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
    torch.save(net.state_dict(), folder / "pilot.pt")
    (folder / "nets.py").write_text(NETS)
    write_drive(folder / "drives" / "monday")
    angles = (folder / "drives" / "monday" / "angles.csv").read_text().splitlines()
    rows = [f"{name},{math.radians(float(degrees))}" for name, degrees in (line.split(",") for line in angles)]
    (folder / "drives" / "monday" / "labels.csv").write_text("\n".join(["filename,steering_angle", *rows]))


@pytest.mark.parametrize(("within", "found"), [("same_angle(5)", False), ("same_angle(0.01)", True)])
def test_first_program_runs_as_written(tmp_path: Path, within: str, found: bool) -> None:
    """The program holds, or its last line fails once the limit is so small that there are findings."""
    write_pilot(tmp_path)
    program = blocks()[0]
    assert "sw.same_angle(5)" in program
    # A browser would open for every finding; the page is written all the same.
    (tmp_path / "program.py").write_text(
        "import webbrowser\nwebbrowser.open = print\n" + program.replace("same_angle(5)", within)
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "rotate" in done.stdout, done.stderr
    assert ("AssertionError" in done.stderr, done.returncode) == (found, int(found)), done.stderr
    assert ("swerve replay" in done.stdout) is found
    assert len(list((tmp_path / "runs" / "tilt").glob("finding-*.html"))) == found


def test_each_addition_is_short() -> None:
    for block in blocks():
        for part in re.split(r"\n(?=@dataclass|system = |class )", block):
            assert code_lines(part) <= 15, part


def test_quickstart_is_the_demo() -> None:
    loaded = load_campaign(str(ROOT / "examples" / "quickstart.toml"))
    assert describe(loaded.campaign, loaded.base) == describe(demo(), loaded.base)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in PAGES)])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert not [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()]


def test_lidar_program_runs_as_written(tmp_path: Path) -> None:
    """The program and the campaign of docs/process.md: boxes in the convention that the page describes."""
    page = (ROOT / "docs" / "process.md").read_text().partition("## A LiDAR program")[2]
    (tmp_path / "lidar_program.py").write_text(BLOCK.findall(page)[0])
    toml = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "mine.toml").write_text(toml.replace('"python"', json.dumps(sys.executable)))
    run = tmp_path / "run"
    assert main(["run", str(tmp_path / "mine.toml"), "--into", str(run), "--workers", "0", "--no-report"]) in (0, 1)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["trials"], summary["errors"], summary["unusable_cases"]) == (12, 0, 0)
    boxes = [value for seen in Run(run).untouched() for value in seen.answer]
    assert all(isinstance(one, Boxes3D) for one in boxes)
    rows = np.concatenate([one.xyzlwhy for one in boxes if isinstance(one, Boxes3D)])
    assert len(rows) > 3
    assert ((rows[:, 0] > 4) & (rows[:, 0] < 60) & (np.abs(rows[:, 1]) < 8) & (rows[:, 3] <= 4)).all()
    assert (rows[:, 6] == 0).all()


def test_closed_loop_runs_as_written() -> None:
    """The program of docs/world.md drives, and what it sees decides where."""
    page = (ROOT / "docs" / "world.md").read_text().partition("## Driving in a closed loop")[2]
    program = BLOCK.findall(page)[0].replace("range(60)", "range(20)")
    runs: list[dict[str, Any]] = [{}, {}]
    for names, sky in zip(runs, ("fog", "clear"), strict=True):
        exec(program.replace('conditions("fog")', f'conditions("{sky}")'), names)
    foggy, clear = (np.array(names["off"]) for names in runs)
    assert foggy.shape == clear.shape == (20,)
    assert runs[0]["pose"].time == pytest.approx(1.0)
    assert np.abs(foggy).max() < 3
    assert 0 < np.abs(foggy - clear).max() < 2


def test_yaw_turns_counter_clockwise() -> None:
    """As docs/process.md says: at π/2 the length of a box points to the left, at π/4 to ahead and left."""
    left = ground_corners(np.array([10.0, 0.0, 0.0, 4.0, 2.0, 1.5, np.pi / 2]))
    assert np.ptp(left, axis=0) == pytest.approx([2.0, 4.0])
    thin = ground_corners(np.array([0.0, 0.0, 0.0, 4.0, 0.0, 1.5, np.pi / 4]))
    assert thin[thin[:, 0].argmax()] == pytest.approx([2**0.5, 2**0.5])
