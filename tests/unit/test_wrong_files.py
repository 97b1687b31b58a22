"""Files and tables that are something else than they were given as: the message says what they are and what to do."""

from __future__ import annotations

import zipfile
from pathlib import Path

import h5py
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import swerve as sw
from swerve.config.toml import Builder, load_campaign
from swerve.core.case import Case
from swerve.core.errors import InputError, SpecError
from swerve.core.system import System
from swerve.core.values import Image
from swerve.execution.answers import answer_all, sentence
from swerve.sources.root import Root
from swerve.store.fingerprint import identity_of
from swerve.systems.model_file import model_file
from swerve.testing import FakeSource, FakeSystem

STEER = sw.steering("degrees", positive="left", kind="wheel")


def checkpoint(path: Path) -> Path:
    torch.save({"weight": torch.zeros(2)}, path)
    return path


@pytest.mark.parametrize("name", ["net.h5", "net.keras", "net.onnx", "net.hdf5"])
def test_a_checkpoint_under_another_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"whatever its name, this is a torch checkpoint; use = 'torch' with net = "):
        model_file(checkpoint(tmp_path / name))


def test_a_checkpoint_under_its_own_name(tmp_path: Path) -> None:
    assert model_file(checkpoint(tmp_path / "net.pt")) == tmp_path / "net.pt"


def test_hdf5_under_another_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "net.pt", "w") as file:
        file["a"] = np.zeros(2)
    with pytest.raises(InputError, match=r"this is an HDF5 file; use = 'keras' reads"):
        model_file(tmp_path / "net.pt")
    assert model_file((tmp_path / "net.pt").rename(tmp_path / "net.h5")).is_file()


def test_torchscript_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.onnx", "w") as archive:
        for name in ("net/data.pkl", "net/code/__torch__.py"):
            archive.writestr(name, "")
    with pytest.raises(
        InputError, match=r"this is a TorchScript archive; it contains a program; export the network to ONNX"
    ):
        model_file(tmp_path / "net.onnx", (".onnx",))


def test_a_checkpoint_where_another_kind_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"net\.pt: this is a torch checkpoint; use = 'torch' with net = "):
        model_file(checkpoint(tmp_path / "net.pt"), (".onnx",))


def test_onnx_under_another_name(mean: Path) -> None:
    with pytest.raises(InputError, match=r"this is an ONNX model; use = 'onnx' reads it, with the ending \.onnx"):
        model_file(mean, (".keras", ".h5"))
    with pytest.raises(InputError, match=r"net\.pt: whatever its name, this is an ONNX model; use = 'onnx'"):
        model_file(mean.rename(mean.with_name("net.pt")), (".pt",))


@pytest.mark.parametrize("given", [".", "saved_model.pb"])
def test_a_saved_model_folder_is_named(tmp_path: Path, given: str) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12")
    with pytest.raises(
        InputError, match=r"a TensorFlow SavedModel folder; save it from Keras as a \.keras file, or convert"
    ):
        model_file(tmp_path / given, (".onnx",))


def test_a_keras_archive_is_no_checkpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    assert model_file(tmp_path / "net.keras").is_file()


@pytest.fixture
def mean(tmp_path: Path) -> Path:
    held = [numpy_helper.from_array(np.array([1, 2, 3], np.int64), "axes")]
    nodes = [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 12, 16))
    graph = helper.make_graph(nodes, "mean", [given], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n",))], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "mean.onnx")
    return tmp_path / "mean.onnx"


@pytest.mark.parametrize(
    ("how", "given"),
    [
        ({"size": (8, 6)}, "3x6x8"),
        ({"size": (16, 12), "colours": "grey"}, "1x12x16"),
        ({"size": (16, 12), "layout": "hwc"}, "12x16x3"),
    ],
)
def test_shapes_are_told_in_words_of_read(mean: Path, how: dict[str, object], given: str) -> None:
    system = sw.onnx(mean, output=STEER, **how)
    case = Case("a", {"camera": Image(np.zeros((24, 32, 3), np.uint8))})
    with pytest.raises(InputError, match=rf"'read' produces {given} for each case, the model wants 3x12x16; check resize"):
        system([case])
    assert sw.onnx(mean, output=STEER, size=(16, 12))([case])


def test_a_video_given_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "drive.mp4").write_bytes(b"")
    with pytest.raises(
        InputError, match=rf"not a folder; for a video write use = 'video', folder = '{tmp_path}', file = 'drive.mp4'"
    ):
        Root(tmp_path / "drive.mp4")


def test_a_source_without_a_folder_says_so_in_a_sentence(tmp_path: Path) -> None:
    campaign = sw.Campaign(sw.Folder(tmp_path / "nowhere"), FakeSystem(), (sw.Rule("a", sw.Unchanged(), sw.same_angle(1)),))
    with pytest.raises(InputError) as told:
        identity_of(campaign, tmp_path)
    assert str(told.value) == f"{tmp_path / 'nowhere'}: no such folder"


def test_what_a_table_lacks_is_named(tmp_path: Path) -> None:
    builder = Builder("mine.toml:", tmp_path)
    with pytest.raises(SpecError, match=r"^mine\.toml: system: 'say' is missing; onnx needs read, say, model$"):
        builder.at("system").component({"use": "onnx", "model": "a.onnx", "read": []})
    with pytest.raises(SpecError, match=r"^mine\.toml: system: 'read' and 'say' are missing; onnx needs read, say, model$"):
        builder.at("system").component({"use": "onnx", "model": "a.onnx"})


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"use": "tensorflow"}, r"^m: system: use: unknown name 'tensorflow'; known: .*dave-orig.*onnx, .*torch$"),
        ({"use": "torch", "net": "nets.py"}, r"use = 'nets\.py': name a class or function of the file, such as nets\.py:My"),
        ({"use": "onnx", "say": {"use": "steering"}}, r"system\.say: expected a list \(write \[\{ use = \"NAME\" \}\]\)"),
        ({"use": "onnx", "read": ["resise"]}, r"system\.read\.\[0\]: use: unknown name 'resise'; did you mean 'resize'"),
    ],
)
def test_names_are_looked_up_among_those_that_fit(tmp_path: Path, table: dict[str, object], why: str) -> None:
    needed = {"model": "a.onnx"} if table["use"] == "onnx" else {}
    builder = Builder("m:", tmp_path).at("system")
    with pytest.raises(SpecError, match=why):
        builder.component({"read": [], "say": [], **needed, **table}, System)


@pytest.mark.parametrize("net", [torch.nn.Linear(5, 1), torch.nn.Conv2d(1, 2, 3)])
def test_what_read_produces_is_noted_where_a_framework_fails(net: torch.nn.Module) -> None:
    case = Case("a", {"camera": Image(np.zeros((24, 32, 3), np.uint8))})
    (verdict,) = answer_all(sw.torch(net, output=STEER, size=(8, 6)), [case])
    assert isinstance(verdict, sw.Verdict)
    assert verdict.why.startswith("RuntimeError ('read' produces 3x6x8 for each case): ")


def test_own_errors_are_sentences_and_foreign_ones_one_line() -> None:
    assert sentence(InputError("a: not a file")) == "a: not a file"
    assert sentence(ValueError("one\n\n\x1b[1mtwo\x1b[0m")) == "ValueError: one two"


def test_a_missing_factory_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nets\.py: there is no such file$"):
        Builder("mine.toml:", tmp_path).component({"use": "torch", "net": "nets.py:Net", "read": [], "say": []})
    with pytest.raises(SpecError, match=r"there is no such file"):
        load_campaign(f"{tmp_path}/mine.py:campaign")
    assert FakeSource(1).fingerprint()
