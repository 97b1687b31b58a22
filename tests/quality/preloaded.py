"""What a command or a worker may need, imported once for all that are forked, and used once."""
# ruff: noqa: F401

import contextlib
import gc
import os
import sys
import tempfile
from pathlib import Path

import PIL.Image
import PIL.ImageOps
import scipy.cluster.hierarchy
import scipy.optimize
import torch

import swerve.execution.executors.worker
import swerve.methods.deeptest
import swerve.methods.lidar
import swerve.relations.gates
import swerve.report.html
import swerve.report.terminal
import swerve.sources.folders
import swerve.systems.steps
import swerve.systems.torch
import swerve.transformations.affine
import swerve.transformations.blur
import tests.quality.campaigns
import tests.quality.test_lidar_identity
import tests.reading_spaces
import tests.unit.test_fuzz
from swerve.cli.main import main
from swerve.store.libraries import imports_of
from swerve.store.view import Run

# A first run imports and remembers much more: modules of parts, the libraries that they use, patterns, types of arguments.
with (
    tempfile.TemporaryDirectory() as place,
    open(os.devnull, "w") as nowhere,
    contextlib.redirect_stdout(nowhere),
):
    for kind in ("sweep", "network"):
        file = tests.quality.campaigns.written(Path(place) / kind / "campaign.toml", kind, count=2)
        folder = file.with_name("run")
        assert main(["run", str(file), "--into", str(folder), "--workers", "0"]) == 1
        assert main(["replay", str(folder), Run(folder).best(1)[0].id, "--here"]) == 0
# A campaign's libraries are found by reading all modules that it may import: a second, for every command that has to.
read: set[str] = set()
waiting = [name for name in sys.modules if name.startswith(("swerve.", "tests."))]
while waiting:
    waiting += [name for name in imports_of(waiting.pop()) if name.startswith("swerve.") and name not in read]
    read.update(waiting)
assert len(os.listdir("/proc/self/task")) == 1, "a process that has threads must not be forked"
gc.collect()
gc.freeze()  # a fork that looks for garbage here would copy all of it
