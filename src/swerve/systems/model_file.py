"""Files of models: regular, within the size limits, and never a pickle; torch is not needed to look at them."""
# R45, R46

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from swerve.config import limits
from swerve.core.errors import InputError

PICKLES = (".pkl", ".pickle", ".joblib", ".npy", ".npz", ".dill", ".mar")
SAFE = "save only the state dict, as safetensors or with torch.save(net.state_dict(), ...)"
SAVED = "saved_model.pb"
HDF5, ZIP = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"
HDF, CHECKPOINT, SCRIPT = "an HDF5 file", "a torch checkpoint", "a TorchScript archive"
ONNX, PROTOBUF = "an ONNX model", re.compile(rb"\x08[\x01-\x1f][\x12\x3a\x42]")  # its version, then a further field
TORCH = (".pt", ".pth", ".bin", ".ckpt", ".tar")
NAMED_AS = {HDF: (".h5", ".hdf5", ".keras"), CHECKPOINT: TORCH, SCRIPT: TORCH, ONNX: (".onnx", ".pb", ".safetensors")}
WHAT_TO_DO = {
    ONNX: "use = 'onnx' reads it, with the ending .onnx",
    HDF: "use = 'keras' reads those of Keras, with the ending .h5",
    CHECKPOINT: "use = 'torch' with net = 'nets.py:Net' and weights reads it, with the ending .pt",
    SCRIPT: "it contains a program; export the network to ONNX (torch.onnx.export), or save its state dict",
}
RATIO = 200  # highest plausible compression of weights, which hardly compress; zlib reaches 1000 to 1


def model_file(path: Path, suffixes: tuple[str, ...] = ()) -> Path:
    """`path`, if it is a regular file within the size limit and has one of the suffixes; otherwise raises `InputError`."""
    if path.name == SAVED:
        path = path.parent
    if not path.is_file():
        raise InputError(f"{path}: {_folder_words(path) or ('not a regular file' if path.exists() else 'no such file')}")
    if path.suffix.lower() in PICKLES:
        raise InputError(f"{path}: pickles and object arrays execute code when they are loaded; {SAFE}")
    kind, ending = _kind_of(path), path.suffix.lower()
    if suffixes and not path.name.lower().endswith(suffixes):
        if kind and not set(suffixes) & set(NAMED_AS[kind]):
            raise InputError(f"{path}: this is {kind}; {WHAT_TO_DO[kind]}")
        raise InputError(f"{path}: expected a file ending in {' or '.join(suffixes)}")
    if (size := path.stat().st_size) > limits.MODEL:
        raise InputError(f"{path}: {size:,} bytes, at most {limits.MODEL:,} are read (swerve list limits)")
    if kind and ending not in NAMED_AS[kind]:
        raise InputError(f"{path}: whatever its name, this is {kind}; {WHAT_TO_DO[kind]}")
    return path


def _folder_words(path: Path) -> str:
    """What a folder is that was given as a model, and what to do with it."""
    if (path / SAVED).is_file():
        return "a TensorFlow SavedModel folder; save it from Keras as a .keras file, or convert it to ONNX with tf2onnx"
    return ""


def _kind_of(path: Path) -> str:
    """What a file is by its content; empty if that is not plain."""
    with path.open("rb") as file:
        head = file.read(len(HDF5))
    if head == HDF5:
        return HDF
    if PROTOBUF.match(head):
        return ONNX
    if not head.startswith(ZIP):
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # zipfile may raise anything on a damaged archive, which its reader refuses
        return ""
    if any("/code/" in name for name in names):
        return SCRIPT
    return CHECKPOINT if any(name.endswith("data.pkl") for name in names) else ""


def check_archive(path: Path, *, stored: bool = False) -> list[str]:
    """The names in a zip archive; raises `InputError` if it is invalid or unpacks to more than the limits allow."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except Exception as error:  # zipfile may raise anything on a damaged archive
        raise InputError(f"{path}: invalid archive: {first_line(error)}") from error
    squeezed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    bomb = any(entry.file_size > RATIO * max(1024, entry.compress_size) for entry in entries)
    if (stored and squeezed) or bomb or sum(entry.file_size for entry in entries) > limits.MODEL:
        raise InputError(f"{path}: the archive unpacks to more than is plausible; weights hardly compress")
    return [entry.filename for entry in entries]


def first_line(reason: object) -> str:
    """The first line of an error's message, or its name."""
    return (str(reason) or type(reason).__name__).strip().splitlines()[0]
