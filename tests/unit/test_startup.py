"""What commands import: modules, not seconds, which a busy machine would change."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from swerve.config.toml import load_campaign
from swerve.execution.launch import run_into

CAMPAIGN = """
seed = 7
[source]
use = "swerve.testing:FakeSource"
count = 4
[system]
use = "swerve.testing:FakeSystem"
bias = 0.2
[[rule]]
name = "turned"
change = { use = "rotate", degrees = "grid" }
expect = { use = "same-angle", within = 5 }
"""
HEAVY = {"torch", "scipy", "PIL", "embreex", "jinja2", "onnxruntime", "pycocotools", "yaml", "swerve.execution.launch"}
SCENES = {"swerve.world.scene", "swerve.world.frames"}

GUIDANCE = {"swerve.search.greedy", "swerve.coverage.meter", "swerve.analysis.growth"}


def imported_by(code: str) -> set[str]:
    """The modules that a new interpreter has imported after `code`."""
    program = f"{code}\nimport json, sys\nprint()\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def imported_by_command(*words: str) -> set[str]:
    return imported_by(f"from swerve.cli.main import main\ntry:\n    main({list(words)})\nexcept SystemExit:\n    pass")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("startup")
    (folder / "campaign.toml").write_text(CAMPAIGN)
    run_into(load_campaign(str(folder / "campaign.toml")), folder / "run")
    return str(folder / "run")


def test_help_imports_no_package() -> None:
    loaded = imported_by_command("--help")
    assert "swerve.cli.show" in loaded
    assert not loaded & {*HEAVY, "numpy", "cv2", "rich", "swerve.config.toml"}


@pytest.mark.parametrize("kind", ["transformations", "spaces", "relations"])
def test_a_list_of_parts_needs_neither_torch_nor_scipy(kind: str) -> None:
    loaded = imported_by_command("list", kind)
    assert "swerve.config.catalog" in loaded
    assert not loaded & (HEAVY - {"embreex"})


def test_findings_are_shown_without_what_found_them(run_folder: str) -> None:
    loaded = imported_by_command("show", run_folder)
    assert "swerve.analysis.overview" in loaded
    assert not loaded & (HEAVY | SCENES | GUIDANCE)


def test_runs_are_compared_without_what_found_them(run_folder: str) -> None:
    loaded = imported_by_command("compare", run_folder, run_folder)
    assert "swerve.analysis.compare" in loaded
    assert not loaded & (HEAVY | SCENES | {"cv2"})


def test_parameters_of_rendering_are_known_without_a_renderer() -> None:
    loaded = imported_by("from swerve.analysis.strength import declared\nassert declared('rerender')['visibility'].graded")
    assert not loaded & (HEAVY | SCENES)
