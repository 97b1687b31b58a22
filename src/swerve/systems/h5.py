"""Untrusted HDF5 files, read in a separate process, which may crash on a damaged file."""
# R46

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load

from swerve.config import limits
from swerve.core.errors import InputError
from swerve.core.extras import optional_package
from swerve.core.values import Array
from swerve.systems.model_file import RATIO, model_file

PROGRAM = Path(__file__).with_name("h5_child.py")
SECONDS_PER_BYTE = 1e-7
LEAST_SECONDS = 10.0


@dataclass(frozen=True)
class H5:
    """The arrays of a file by their paths, and the attributes of its groups; the file itself is ''."""

    arrays: Mapping[str, Array]
    attributes: Mapping[str, Mapping[str, Any]]

    def texts(self, group: str, name: str) -> list[str]:
        """A list of strings among the attributes, which Keras splits into several attributes if it is long."""
        own = self.attributes.get(group, {})
        parts = [own[name]] if name in own else [own[f"{name}{n}"] for n in range(len(own)) if f"{name}{n}" in own]
        return [str(text) for part in parts if isinstance(part, list) for text in part]


def read_h5_file(path: Path) -> H5:
    """The content of a file; raises `InputError` for invalid HDF5 and for links to other files."""
    return read_h5(model_file(path, (".h5", ".hdf5", ".keras")).read_bytes(), path)


def read_h5(content: bytes, path: Path) -> H5:
    """The same for bytes; messages start with `path`."""
    optional_package("h5py", "keras")
    most = min(limits.MODEL, RATIO * len(content))
    # Isolated (-I): this folder has modules named onnx, keras and torch, which would hide the packages.
    command = [sys.executable, "-I", str(PROGRAM), str(most), str(limits.MEMORY)]
    try:
        seconds = LEAST_SECONDS + SECONDS_PER_BYTE * len(content)
        done = subprocess.run(command, input=content, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{path}: invalid HDF5 file: reading it timed out") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise InputError(f"{path}: invalid HDF5 file: the HDF5 library crashed on it ({name})")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["unknown reason"]
        raise InputError(f"{path}: invalid HDF5 file: {lines[-1]}")
    header = json.loads(done.stdout[8 : 8 + int.from_bytes(done.stdout[:8], "little")])
    return H5(load(done.stdout), json.loads(header["__metadata__"]["attributes"]))
