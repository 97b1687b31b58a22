"""HDF5 files: arrays and attributes come back, nothing leads elsewhere, and a crash stays outside."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from swerve.core.errors import InputError
from swerve.systems.h5 import read_h5

HERE = Path("model")


def h5(fill_in: Any) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill_in(file)
    return buffer.getvalue()


def test_arrays_and_attributes_come_back():
    def write(file: Any) -> None:
        file["a/b"] = np.arange(6, dtype=">f8").reshape(2, 3)
        file["a"].attrs.update({"text": "über", "list": [b"x", b"yz"], "number": 3})
        file.attrs["names0"], file.attrs["names1"] = [b"p"], [b"q", b"r"]

    found = read_h5(h5(write), HERE)
    np.testing.assert_array_equal(found.arrays["a/b"], np.arange(6.0).reshape(2, 3))
    assert found.attributes["a"] == {"text": "über", "list": ["x", "yz"], "number": 3}
    assert found.texts("", "names") == ["p", "q", "r"]
    assert found.texts("a", "nothing") == []


def test_lone_numbers_are_arrays():
    found = read_h5(h5(lambda file: file.__setitem__("count", np.array(7, ">i8"))), HERE)
    assert (found.arrays["count"].shape, found.arrays["count"].item()) == ((), 7)


@pytest.mark.parametrize(
    ("place", "stays"), [("optimizer/x", False), ("optimizer_weights/x", False), ("a/optimizer/x", True)]
)
def test_training_is_left_out(place, stays):
    found = read_h5(h5(lambda file: file.__setitem__(place, np.zeros(3))), HERE)
    assert (place in found.arrays) is stays


def external(file: Any) -> None:
    file.create_dataset("x", (3,), "f4", external=[("/etc/passwd", 0, 12)])


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((3,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (3,))
    file.create_virtual_dataset("x", layout)


ELSEWHERE = {
    "external link": (lambda file: file.__setitem__("x", h5py.ExternalLink("/etc/passwd", "/")), "'x' is a link to another"),
    "soft link": (lambda file: file.__setitem__("x", h5py.SoftLink("/y")), "'x' is a link to another place"),
    "external array": (external, "'x' is stored in another file"),
    "virtual array": (virtual, "'x' is stored in another file"),
    "texts": (lambda file: file.__setitem__("x", ["a", "b"]), "'x' has type object, expected numbers"),
    "bomb": (lambda file: file.create_dataset("x", (10**9,), "f4", chunks=(10**5,), compression="gzip"), "unpacks to more"),
    "circle": (lambda file: file.__setitem__("x", file["/"]), "too many or too deeply nested groups"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_nothing_leads_elsewhere(kind):
    write, told = ELSEWHERE[kind]
    with pytest.raises(InputError, match=f"model: invalid HDF5 file: .*{told}"):
        read_h5(h5(write), HERE)


@pytest.mark.parametrize("content", [b"", b"no file", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_torn_files_are_told(content):
    with pytest.raises(InputError, match="model: invalid HDF5 file"):
        read_h5(content, HERE)


@pytest.mark.parametrize(
    ("code", "told"),
    [("import os; os.kill(os.getpid(), 11)", "crashed on it .SIGSEGV."), ("while True: pass", "reading it timed out")],
)
def test_crashes_stay_outside(tmp_path, monkeypatch, code, told):
    (tmp_path / "child.py").write_text(code)
    monkeypatch.setattr("swerve.systems.h5.PROGRAM", tmp_path / "child.py")
    monkeypatch.setattr("swerve.systems.h5.LEAST_SECONDS", 1.0)
    with pytest.raises(InputError, match=told):
        read_h5(b"", HERE)
