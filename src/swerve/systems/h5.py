"""HDF5 files that a stranger may have made, read by a program of their own that may crash over them (R46)."""

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
from swerve.core.values import Array
from swerve.systems.network import library
from swerve.systems.weights import RATIO, model_file

PROGRAM = Path(__file__).with_name("h5_child.py")
SECONDS_PER_BYTE = 1e-7
LEAST_SECONDS = 10.0


@dataclass(frozen=True)
class H5:
    """The arrays of a file by their paths, and the attributes of its groups; the file itself is ''."""

    arrays: Mapping[str, Array]
    attributes: Mapping[str, Mapping[str, Any]]

    def texts(self, group: str, name: str) -> list[str]:
        """A list of texts among the attributes, which Keras writes in several parts where it is long."""
        own = self.attributes.get(group, {})
        parts = [own[name]] if name in own else [own[f"{name}{n}"] for n in range(len(own)) if f"{name}{n}" in own]
        return [str(text) for part in parts if isinstance(part, list) for text in part]


def read_h5_file(path: Path) -> H5:
    """The content of a file; raises `InputError` for one that is no sound HDF5 or would lead elsewhere."""
    return read_h5(model_file(path, (".h5", ".hdf5", ".keras")).read_bytes(), path)


def read_h5(content: bytes, path: Path) -> H5:
    """The same for bytes; `path` is what messages name."""
    library("h5py", "keras")
    most = min(limits.MODEL, RATIO * len(content))
    # Isolated: this folder has modules called onnx, keras and torch, which are not the packages.
    command = [sys.executable, "-I", str(PROGRAM), str(most), str(limits.MEMORY)]
    try:
        seconds = LEAST_SECONDS + SECONDS_PER_BYTE * len(content)
        done = subprocess.run(command, input=content, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{path}: not a sound HDF5 file: reading it does not end") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise InputError(f"{path}: not a sound HDF5 file: the library that reads it crashed over it ({name})")
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason told"]
        raise InputError(f"{path}: not a sound HDF5 file: {told[-1]}")
    header = json.loads(done.stdout[8 : 8 + int.from_bytes(done.stdout[:8], "little")])
    return H5(load(done.stdout), json.loads(header["__metadata__"]["attributes"]))
