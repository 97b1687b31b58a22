"""What the documentation shows is run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from swerve.config.toml import describe, load_campaign
from swerve.core.values import Steering
from swerve.methods.demo import demo
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
    folder.mkdir()
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
    (tmp_path / "test_page.py").write_text("\n".join(blocks()))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ of 15 trials violate a rule", done.stdout)
    assert "7 passed" in done.stdout
    assert (tmp_path / "runs" / "mine" / "summary.json").exists()


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
