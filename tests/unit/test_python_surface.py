"""Swerve from Python: one call for a campaign, and what a finished run shows."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import swerve as sw
from swerve.core.asset import Asset
from swerve.core.errors import InputError, SpecError
from swerve.core.names import OURS
from swerve.systems.shorthand import input_steps
from swerve.systems.steps import Divide, Float, Grey, Multiply, Resize

NETS = """
import torch


class Mean(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, batch):
        return self.factor * batch[:, 0].mean(dim=(1, 2))[:, None]
"""
PARTS = ("sources", "systems", "steps", "decoders", "transformations", "relations", "searches", "gates", "criteria")
UP = {"up": sw.Brighten(beta=40.0)}
DEGREES = sw.steering("degrees", positive="left", kind="wheel")


class Mean(torch.nn.Module):
    """Steers by the mean of the red channel."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.factor * batch[:, 0].mean(dim=(1, 2))[:, None]


@pytest.fixture
def drive(tmp_path: Path) -> str:
    """Four grey pictures, and labels that `Mean` meets to a degree."""
    rows = []
    for number, level in enumerate((20, 60, 100, 140)):
        pixels = np.random.default_rng(number).integers(level - 5, level + 5, (24, 32, 3)).astype(np.uint8)
        cv2.imwrite(str(tmp_path / f"{number}.png"), pixels)
        rows.append(f"{number}.png,{np.deg2rad(level)}")
    (tmp_path / "labels.csv").write_text("\n".join(["filename,steering_angle", *rows]))
    return str(tmp_path)


@pytest.mark.parametrize(
    ("lines", "absent"),
    [
        ("import swerve", ("numpy", "torch", "scipy", "rich", "swerve.core")),
        ("from swerve import Rotate, Sweep, Udacity, same_angle, steering, test", ("torch", "scipy", "embreex", "jinja2")),
    ],
)
def test_imports_stay_cheap(lines: str, absent: tuple[str, ...]) -> None:
    code = f"{lines}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert "swerve" in loaded
    assert not set(absent) & set(loaded)


def test_every_part_is_at_the_top() -> None:
    targets = {target for kind in PARTS for target in OURS[kind].values()}
    homes = {
        target: sw._HOME.get(name) or sw._home_of_part(name) for target in targets for name in [target.partition(":")[2]]
    }
    assert homes == {target: target.partition(":")[0] for target in targets}
    assert not hasattr(sw, "__file_of_nothing__")


def test_pairs_are_ranges() -> None:
    assert sw.Over(sw.Rotate, degrees=(1, 15)) == sw.Over(sw.Rotate, degrees=sw.Range(1, 15))
    with pytest.raises(ValueError, match=r"rotate.degrees: a range is a pair \(low, high\), got \(1, 2, 3\)"):
        sw.Over(sw.Rotate, degrees=(1, 2, 3))


@dataclass(frozen=True)
class Graded(sw.Transformation):
    """A change with a field that is a tuple, and one that is a file."""

    table: Asset
    sizes: tuple[int, int] = (1, 2)
    preserves = ("*",)


def test_tuples_and_files_of_a_change(tmp_path: Path) -> None:
    (tmp_path / "a.lut").write_bytes(b"a")
    (tmp_path / "b.lut").write_bytes(b"b")
    one = sw.Over(Graded, table=str(tmp_path / "a.lut"), sizes=(3, 4))
    assert one.grid() == (Graded(Asset(tmp_path / "a.lut"), (3, 4)),)
    both = sw.Over(Graded, table=sw.Choices((str(tmp_path / "a.lut"), tmp_path / "b.lut")))
    assert [change.table.path.name for change in both.grid()] == ["a.lut", "b.lut"]


def test_paths_may_be_texts(drive: str) -> None:
    assert sw.Udacity(drive).folder == Path(drive)
    assert sw.Udacity(drive).fingerprint() == sw.Udacity(Path(drive)).fingerprint()
    assert sw.Video(drive).folder == sw.Kitti(drive).folder == sw.Coco(drive).folder == Path(drive)


def test_steps_of_an_input() -> None:
    assert input_steps((200, 66), 1 / 255) == (Resize(200, 66), Divide(255.0))
    assert input_steps((200, 66), 1 / 127.5, "grey") == (Grey(), Resize(200, 66), Multiply(1 / 127.5))
    assert input_steps() == (Float(),)
    with pytest.raises(InputError, match="either 'read'"):
        input_steps((200, 66), read=[Float()])
    with pytest.raises(InputError, match="'colours' must be one of rgb, bgr"):
        input_steps(colours="rbg")


def test_a_live_module_runs_here(drive: str, tmp_path: Path) -> None:
    net = Mean()
    model = sw.torch(net, output=DEGREES)
    run = sw.test(
        model, sw.Udacity(drive), {"up": sw.Brighten(beta=40.0)}, sw.same_angle(5), into=tmp_path / "run", workers=2
    )
    assert [(row["rule"], row["trials"], row["violated"]) for row in run.table()] == [("up", 4, 4)]
    assert run.summary["violated"] == len(run.findings) == 4
    before = model.fingerprint()
    net.factor.data += 1
    assert model.fingerprint() != before


def test_a_named_network_runs_in_workers_too(drive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    model = sw.torch("nets.py:Mean", output=DEGREES)
    changes = sw.Over(sw.Brighten, beta=(1, 60))
    here, there = (
        sw.test(model, sw.Udacity(drive), changes, sw.same_angle(5), into=tmp_path / f"run{workers}", workers=workers)
        for workers in (0, 1)
    )
    assert [found.as_dict() for found in here.findings] == [found.as_dict() for found in there.findings] != []
    assert (tmp_path / "run1" / "campaign.json").read_bytes() == (tmp_path / "run0" / "campaign.json").read_bytes()
    identity = json.loads((tmp_path / "run0" / "campaign.json").read_text())
    assert identity["rebuildable"]
    assert sw.replay(tmp_path / "run0", here.findings[0].id).reproduced


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    file.write_text(NETS)
    first = sw.torch(f"{file}:Mean", output=DEGREES).fingerprint()
    file.write_text(NETS.replace("batch[:, 0]", "batch[:, 1]"))
    assert sw.torch(f"{file}:Mean", output=DEGREES).fingerprint() != first


def test_a_finding_shows_itself(drive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    run = sw.test(sw.torch(Mean(), output=DEGREES), sw.Udacity(drive), UP["up"], sw.same_angle(5), into=tmp_path / "r")
    finding = run.findings[0]
    assert repr(finding).splitlines()[0].startswith("brighten: brightened by 40  ")
    for text in (
        "source: +",
        "follow-up: +",
        "label: +",
        "limit 5°",
        finding.replay,
    ):
        assert text in repr(finding)
    assert run.findings[0].margin == max(found.margin for found in run.findings)
    ((sensor, pixels),) = finding.pictures()
    assert sensor == "camera"
    assert pixels.shape == (270, 720, 3)  # two pictures of 32 x 24, made 270 high
    page = finding.show()
    assert opened == [page.resolve().as_uri()]
    assert page.read_text().count("data:image/png;base64,") == 1
    shown = run._repr_html_()
    assert shown.count("<img") == 3
    assert "1 more" in shown
    assert "100.0%" in repr(run)
    assert run.report.is_file()


def test_texts_in_a_notebook_are_escaped(drive: str, tmp_path: Path) -> None:
    run = sw.test(
        sw.torch(Mean(), output=DEGREES),
        sw.Udacity(drive),
        {"<script>": sw.Brighten(beta=40.0)},
        sw.same_angle(5),
        into=tmp_path / "run",
        report=False,
    )
    assert "<script>" not in run._repr_html_()
    assert "&lt;script&gt;" in run.table()._repr_html_()


def test_a_function_is_a_system(drive: str, tmp_path: Path) -> None:
    def steer(case: sw.Case) -> sw.Steering:
        return sw.Steering(float(case.inputs["camera"].pixels.mean()))

    run = sw.test(
        steer, sw.Udacity(drive), sw.Unchanged(), sw.same_angle(5), into=tmp_path / "run", report=False, force=True
    )
    assert not run.findings
    with pytest.raises(InputError, match=r"a Mean is not a system; for a network write sw\.torch"):
        sw.test(Mean(), sw.Udacity(drive), sw.Unchanged(), sw.same_angle(5), into=tmp_path / "run")


def test_a_search_need_not_be_named(drive: str) -> None:
    campaign = sw.Campaign(sw.Udacity(drive), sw.FunctionSystem(len), [sw.Rule("up", sw.Unchanged(), sw.same_angle(5))])
    assert campaign.search == sw.Sweep()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such file"):
        sw.torch(f"{tmp_path}/nets.py:Mean", output=DEGREES)
    with pytest.raises(InputError, match="a live module has its weights already"):
        sw.torch(Mean(), weights="mean.pt", output=DEGREES)
