"""Packages of extras: what works without them, and what is told where they are needed."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from swerve.core.errors import EnvironmentFault
from swerve.core.extras import EXTRAS, missing_package, optional_package

ROOT = Path(__file__).parent.parent.parent
# Runs the command line in a process where packages cannot be imported, as if they were not installed.
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Absent())
{code}
"""
MAIN = "from swerve.cli.main import main\nsys.exit(main(sys.argv[1:]))"
CAMPAIGN = """
[source]
use = "udacity"
folder = "."

[system]
use = "onnx"
model = "mean.onnx"
read = [{ use = "resize", width = 16, height = 12 }, { use = "float" }]
say = [{ use = "steering", unit = "degrees", positive = "left", kind = "wheel" }]

[[rule]]
name = "brighter"
change = { use = "brighten", beta = [10, 60] }
expect = { use = "same-angle", within = 5.0 }

[[rule]]
name = "tilted"
change = { use = "rotate", degrees = [1, 5] }
expect = { use = "same-angle", within = 5.0 }
"""


def without(absent: tuple[str, ...], *words: str, folder: Path, code: str = MAIN) -> "subprocess.CompletedProcess[str]":
    program = WITHOUT.format(absent=absent, code=code)
    return subprocess.run([sys.executable, "-c", program, *words], cwd=folder, capture_output=True, text=True, check=False)


def write_mean(folder: Path) -> None:
    """An ONNX network that answers with the mean of its input, and four pictures that it gets right."""
    held = [numpy_helper.from_array(np.array([1, 2, 3], np.int64), "axes")]
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["m"], keepdims=0),
        helper.make_node("Unsqueeze", ["m", "one"], ["y"]),
    ]
    held.append(numpy_helper.from_array(np.array([1], np.int64), "one"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 12, 16))
    said = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 1))
    graph = helper.make_graph(nodes, "mean", [given], [said], held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "mean.onnx")
    rows = []
    for number, level in enumerate((20, 60, 100, 140)):
        pixels = np.random.default_rng(number).integers(level - 5, level + 5, (24, 32, 3)).astype(np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), pixels)
        rows.append(f"{number}.png,{np.deg2rad(level)}")
    (folder / "labels.csv").write_text("\n".join(["filename,steering_angle", *rows]))
    (folder / "mine.toml").write_text(CAMPAIGN)


def test_onnx_runs_without_torch(tmp_path: Path) -> None:
    write_mean(tmp_path)
    absent = ("torch", "keras", "h5py", "embreex", "faster_coco_eval", "ray", "cmaes")
    done = without(absent, "run", "mine.toml", "--into", "runs/mine", "--workers", "0", folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    summary = json.loads((tmp_path / "runs" / "mine" / "summary.json").read_text())
    assert (summary["trials"], summary["errors"]) == (48, 0)
    assert summary["rules"]["brighter"]["violated"] > 0
    assert (tmp_path / "runs" / "mine" / "report" / "index.html").is_file()
    found = without(absent, "show", "runs/mine", "--json", folder=tmp_path)
    first = json.loads(found.stdout)[0]["id"]
    assert "reproduced" in without(absent, "replay", "runs/mine", first, folder=tmp_path).stdout


@pytest.mark.parametrize(
    ("absent", "words", "extra"),
    [
        ("torch", ["run", "torch.toml", "--into", "r"], "torch"),
        ("torch", ["demo", "--into", "r"], "torch"),
        ("embreex", ["demo", "--into", "r"], "world"),
        ("embreex", ["world", "--out", "w", "--as", "coco", "--count", "1"], "world"),
        ("onnxruntime", ["run", "mine.toml", "--into", "r"], "onnx"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, absent: str, words: list[str], extra: str) -> None:
    write_mean(tmp_path)
    own = CAMPAIGN.replace('use = "onnx"\nmodel = "mean.onnx"', 'use = "torch"\nnet = "torch.nn:Linear"')
    (tmp_path / "torch.toml").write_text(own)
    done = without((absent,), *words, folder=tmp_path)
    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines() == [f"error: the package '{absent}' is missing; pip install 'swerve[{extra}]'"]


def test_python_names_what_is_missing(tmp_path: Path) -> None:
    code = "import swerve as sw\nfor part in ('TorchSystem', 'World'):\n    try:\n        getattr(sw, part)\n"
    code += "    except Exception as error:\n        print(type(error).__name__, error)"
    done = without(("torch", "embreex"), folder=tmp_path, code=code)
    assert done.stdout.splitlines() == [
        "EnvironmentFault the package 'torch' is missing; pip install 'swerve[torch]'",
        "EnvironmentFault the package 'embreex' is missing; pip install 'swerve[world]'",
    ]


def test_other_errors_are_not_about_packages() -> None:
    assert missing_package(ModuleNotFoundError("mine", name="mine")) is None
    assert missing_package(ImportError("torch", name="torch")) is None  # it is there, and broken
    with pytest.raises(EnvironmentFault, match=r"the package 'nowhere' is missing; pip install 'swerve\[onnx\]'"):
        optional_package("nowhere", "onnx")


def test_every_extra_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(declared)
    everything = declared["all"][0].removeprefix("swerve[").removesuffix("]").split(",")
    assert set(everything) == set(EXTRAS.values())
    base = {name.partition(">")[0] for name in project["dependencies"]}
    assert not {"torch", "embreex", "faster-coco-eval"} & base
