"""A campaign over skies of the embedded world: the same bytes in this process and with one or two workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from swerve.cli.main import main
from tests.quality.children import assert_same, content

CAMPAIGN = """
seed = 3
inference_batch = 4
[source]
use = "world"
drives = 5
width = 64
height = 36
[system]
use = "swerve.testing:FakeSystem"
bias = 0.2
[[rule]]
name = "skies"
change = "skies"
expect = { use = "same-angle", within = 1 }
[search]
use = "sweep"
"""


@pytest.mark.usefixtures("forked_workers")
def test_workers_render_the_same_skies(tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    for workers in (0, 1, 2):
        words = ["--into", str(tmp_path / f"run{workers}"), "--no-report", "--workers", str(workers)]
        assert main(["run", str(tmp_path / "campaign.toml"), *words]) == 1
    alone, one, two = (content(tmp_path / f"run{workers}") for workers in (0, 1, 2))
    assert any(name.endswith(".png") for name in alone)
    assert_same(one, alone)
    assert_same(two, alone)
