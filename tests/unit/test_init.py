"""`swerve init`: what it finds out of models and data, what it assumes, and that its files pass `swerve check`."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from swerve.cli.main import main
from swerve.config.toml import load_campaign
from swerve.core.errors import InputError
from swerve.drafting.angle_table import guess_angles
from swerve.drafting.guess import values_of
from swerve.drafting.likely_outputs import angle_places, detector_tables, reported
from swerve.drafting.signature import Signature
from swerve.drafting.source_draft import draft_source
from swerve.sources.root import Root

WEIGHTS, OFFSET = np.array([0.9, 0.2, -0.7]), -0.15  # of the channels' means from 0 to 1, to radians
COUNT = 40
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def colours() -> np.ndarray:
    return np.random.default_rng(5).integers(20, 235, (COUNT, 3))


def angles() -> list[float]:
    return [float(colour / 255 @ WEIGHTS + OFFSET) for colour in colours()]


def drive(folder: Path, unit: float = 1.0) -> Path:
    """Pictures of one colour each, and a table of angles in radians times `unit`."""
    (folder / "frames").mkdir(parents=True)
    with (folder / "angles.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "picture", "steering"])
        for number, (colour, angle) in enumerate(zip(colours(), angles(), strict=True)):
            noise = np.random.default_rng(number).integers(-15, 16, (24, 32, 1))
            pixels = np.clip(colour + noise, 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / f"frames/{number:03}.png"), np.ascontiguousarray(pixels[..., ::-1]))
            rows.writerow([number, f"frames/{number:03}.png", f"{angle * unit:.6f}"])
    return folder


def network(
    path: Path, numbers: str = "÷255", colour: str = "rgb", *, gain: float = 1.0, layout: str = "chw", more: int = 0
) -> Path:
    """An ONNX file whose answer is that of the labels, times `gain`, if its input is prepared in that way."""
    per_channel = {"÷255": (1.0, 0.0), "0 to 255": (1 / 255, 0.0), "-1 to 1": (0.5, 0.5), "imagenet": (STD, MEAN)}
    scale, shift = per_channel[numbers]
    weights, offset = WEIGHTS * scale, OFFSET + float((WEIGHTS * shift).sum())
    weights = weights[::-1] if colour == "bgr" else weights
    columns = np.stack([weights * gain * (1 if at == more else 0) for at in range(more + 1)], axis=1).astype(np.float32)
    offsets = np.array([offset * gain if at == more else 0.3 for at in range(more + 1)], np.float32)
    held = [
        numpy_helper.from_array(np.array([2, 3] if layout == "chw" else [1, 2], np.int64), "axes"),
        numpy_helper.from_array(columns, "weights"),
        numpy_helper.from_array(offsets, "offset"),
    ]
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("MatMul", ["mean", "weights"], ["product"]),
        helper.make_node("Add", ["product", "offset"], ["angle"]),
    ]
    shape = ("n", 3, 12, 16) if layout == "chw" else ("n", 12, 16, 3)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    said = helper.make_tensor_value_info("angle", TensorProto.FLOAT, ("n", more + 1))
    graph = helper.make_graph(nodes, "angle", [given], [said], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def init(*words: object) -> int:
    return main(["init", *map(str, words), "--yes"])


@pytest.mark.parametrize(
    ("model", "unit"),
    [
        ({}, 1.0),
        ({"numbers": "0 to 255"}, 1.0),
        ({"numbers": "-1 to 1", "layout": "hwc"}, math.degrees(1)),
        ({"numbers": "imagenet", "more": 1}, 1.0),
        ({"colour": "bgr", "gain": -math.degrees(1)}, 1.0),
        ({"numbers": "0 to 255", "colour": "bgr", "gain": -1.0}, math.degrees(1)),
    ],
)
def test_steps_unit_and_sign_are_found_and_pass_the_check(
    tmp_path: Path, model: dict[str, Any], unit: float, capsys: pytest.CaptureFixture[str]
) -> None:
    data, net, file = drive(tmp_path / "drive", unit), network(tmp_path / "net.onnx", **model), tmp_path / "mine.toml"
    assert init(net, data, "--into", file) == 0
    told = capsys.readouterr().out
    assert "own answers: RMSE 0." in told
    assert f"next: swerve check {file}" in told
    assert "system] read" not in told  # nothing about the network is assumed
    assert main(["check", str(file), "--workers", "0"]) == 0
    checked = capsys.readouterr().out
    assert "the campaign can run" in checked
    assert "warning" not in checked


def test_a_crop_of_the_sky_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, net, file = drive(tmp_path / "drive"), network(tmp_path / "net.onnx"), tmp_path / "mine.toml"
    for number, sky in enumerate(np.random.default_rng(8).integers(0, 256, (COUNT, 3))):
        picture = cv2.imread(str(data / f"frames/{number:03}.png"))
        assert picture is not None
        picture[:12] = sky
        cv2.imwrite(str(data / f"frames/{number:03}.png"), picture)
    assert init(net, data, "--into", file) == 0
    assert "own answers: RMSE 0." in capsys.readouterr().out
    first = tomllib.loads(file.read_text())["system"]["read"][0]
    assert (first["use"], first["top"], first["bottom"]) == ("crop", 12, 24)
    assert main(["check", str(file), "--workers", "0"]) == 0


def test_a_file_is_never_replaced_without_being_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, net, file = drive(tmp_path / "drive"), network(tmp_path / "net.onnx"), tmp_path / "mine.toml"
    file.write_text("mine")
    assert init(net, data, "--into", file) == 2
    assert "exists already; give another file with --into, or --overwrite" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert init(net, data, "--into", file, "--overwrite") == 0
    assert load_campaign(str(file)).campaign.rules


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive(tmp_path / "drive")
    network(tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    assert init("net.onnx", "drive", "--into", "campaigns/mine.toml") == 0
    table = tomllib.loads(Path("campaigns/mine.toml").read_text())
    assert (table["source"]["folder"], table["system"]["model"]) == ("../drive", "../net.onnx")


def test_what_is_given_is_not_guessed(tmp_path: Path) -> None:
    data, net, file = drive(tmp_path / "drive"), network(tmp_path / "net.onnx"), tmp_path / "mine.toml"
    given = ["--source", "positive=right", "--source", "kind=road", "--source", "ratio=12.5", "--answer", "unit=degrees"]
    assert init(net, data, "--into", file, *given) == 0
    table = tomllib.loads(file.read_text())
    assert (table["source"]["positive"], table["source"]["kind"], table["source"]["ratio"]) == ("right", "road", 12.5)
    assert table["system"]["say"][0]["unit"] == "degrees"
    assert "ASSUMED: the side" not in file.read_text()


def test_questions_are_asked_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, net, file = drive(tmp_path / "drive"), network(tmp_path / "net.onnx"), tmp_path / "mine.toml"
    asked: list[str] = []
    answers = iter([str(net), str(data), "", "right", ""])

    def answered(question: str) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("builtins.input", answered)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["init", "--into", str(file)]) == 0
    assert [question.partition(",")[0] for question in asked[2:]] == ["[source] unit", "[source] positive", "[source] kind"]
    table = tomllib.loads(file.read_text())
    assert table["source"]["positive"] == "right"
    assert table["system"]["say"][0]["positive"] == "right"  # found with the labels as they are now
    assert "ASSUMED:" not in file.read_text()


def test_pictures_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drive(tmp_path / "drive")
    file = tmp_path / "mine.toml"
    assert init(network(tmp_path / "net.onnx"), tmp_path / "drive/frames", "--into", file) == 0
    told = capsys.readouterr().out
    assert "assumed: [system] read = " in told
    assert "assumed: [system, say] unit = " in told
    assert main(["check", str(file), "--workers", "0"]) == 0


def test_a_network_of_the_zoo(tmp_path: Path) -> None:
    drive(tmp_path / "drive")
    file = tmp_path / "mine.toml"
    assert init("dave-orig", tmp_path / "drive/frames", "--into", file) == 0
    assert tomllib.loads(file.read_text())["system"] == {"use": "dave-orig"}


NETS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 1)
    def forward(self, x):
        assert x.shape[1:] == (3, 66, 200)
        return self.last(x.mean((2, 3)))
"""


def test_a_torch_network_tells_its_size_by_trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive(tmp_path / "drive")
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(NETS)
    held = {"last.weight": torch.tensor(WEIGHTS[None]).float(), "last.bias": torch.tensor([OFFSET])}
    torch.save(held, "net.pt")
    assert init("net.pt", "drive", "--net", "nets.py:Net") == 0
    table = tomllib.loads(Path("campaign.toml").read_text())
    assert table["system"]["read"][0] == {"use": "resize", "width": 200, "height": 66}
    assert "swerve check campaign.toml --trust nets.py" in Path("campaign.toml").read_text()
    assert main(["check", "campaign.toml", "--trust", "nets.py", "--workers", "0"]) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["net.onnx"], "init needs MODEL and DATA; 'data' is missing"),
        (["net.onnx", "nowhere"], "nowhere: no such file or folder"),
        (["gone.onnx", "drive"], r"gone\.onnx: no such file"),
        (["net.tflite", "drive"], r"net\.tflite: no such file, and no system of that name"),
        (["net.pt", "drive"], r"net\.pt: has only weights; name the network's class too: --net nets\.py:MyNetwork"),
        (["net.json", "drive"], r"a structure needs its weights: --system use=keras --system weights=FILE\.h5"),
        (["net.onnx", "empty"], "empty: no pictures and no videos below it"),
        (["net.onnx", "drive", "--into", "mine.txt"], r"mine\.txt: a campaign file ends in \.toml"),
        (["net.onnx", "drive", "--size", "9x9"], "the network takes no picture of 9x9: "),
        (["words.onnx", "drive"], r"the outputs \(angle 7\) are no angle and of no known detector; write 'say'"),
    ],
)
def test_what_is_missing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drive(tmp_path / "drive")
    network(tmp_path / "net.onnx")
    network(tmp_path / "words.onnx", more=6)
    (tmp_path / "empty").mkdir()
    assert init(*words) == 2
    assert re.search(why, capsys.readouterr().err)
    assert not Path("campaign.toml").exists()


def table(folder: Path, lines: Sequence[str], pictures: Sequence[str], name: str = "data.txt") -> Root:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")
    for picture in pictures:
        (folder / picture).parent.mkdir(parents=True, exist_ok=True)
        (folder / picture).write_bytes(b"")
    return Root(folder)


@pytest.mark.parametrize(
    ("lines", "pictures", "found"),
    [
        (["0.jpg 12.5", "1.jpg -30"], ["0.jpg"], {"separator": " ", "file": 1, "angle": 2, "unit": "degrees"}),
        (
            ["0.jpg 0.5,2018-07-01 17:09:44:9", "1.jpg -3,2018-07-01 17:09:44:9"],
            ["f/0.jpg"],
            {"separator": " ,", "images": "f"},
        ),
        (
            ["speed;file;steer_deg", "3;a.png;-.5", "4;b.png;0.5"],
            ["a.png"],
            {"file": "file", "angle": "steer_deg", "unit": "degrees"},
        ),
        (["file,speed,rad", "a.png,3,-.5", "b.png,3,1"], ["a.png"], {"file": "file", "angle": "rad", "unit": "radians"}),
        (["a.png,3,0.5", "b.png,4,-1"], ["a.png"], {"file": 1, "angle": 3, "unit": "radians"}),
        (["7,0.5", "8,-1"], ["left/7.png", "left/8.png"], {"file": 1, "angle": 2, "images": "left"}),
        (["7,0.5", "8,-1"], ["center/7.jpg", "center/8.jpg"], {"file": 1, "angle": 2}),
    ],
)
def test_columns_are_guessed(tmp_path: Path, lines: list[str], pictures: list[str], found: dict[str, Any]) -> None:
    guesses = guess_angles(table(tmp_path / "d", lines, pictures), {})
    assert guesses is not None
    values = values_of(guesses)
    assert {key: values[key] for key in found} == found
    assert guesses["positive"].assumed
    assert guesses["unit"].assumed == ("deg" not in lines[0] and "rad" not in lines[0] and found.get("unit") != "degrees")
    assert "images" in found or "images" not in values


def test_known_tables_need_nothing(tmp_path: Path) -> None:
    root = table(tmp_path, ["frame_id,steering_angle", "5,0.1"], ["center/5.jpg"], "final_example.csv")
    assert guess_angles(root, {}) == {}
    log = ["IMG/center_1.jpg,IMG/left_1.jpg,IMG/right_1.jpg,0.5,0,0,22.1"]
    found = guess_angles(table(tmp_path / "sim", log, ["IMG/center_1.jpg"], "driving_log.csv"), {})
    assert found is not None
    assert values_of(found) == {"unit": 25.0, "positive": "right", "kind": "road", "ratio": 15.0}
    assert [key for key, guess in found.items() if guess.assumed] == ["ratio"]


def test_a_table_without_pictures_is_none(tmp_path: Path) -> None:
    assert guess_angles(table(tmp_path, ["a,b", "1,2"], []), {}) is None
    assert guess_angles(table(tmp_path, ["just words", "and more words"], []), {}) is None


def coco(folder: Path, kinds: Sequence[str], pictures: str = "images") -> Path:
    rows = [{"id": number, "file_name": f"{number}.png", "width": 64, "height": 48} for number in range(3)]
    boxes = [
        {"id": 3 * at + kind, "image_id": at, "category_id": kind, "bbox": [4 + 9 * kind, 5, 8, 9]}
        for at in range(3)
        for kind in range(len(kinds))
    ]
    named = [{"id": at, "name": kind} for at, kind in enumerate(kinds)]
    (folder / pictures).mkdir(parents=True)
    (folder / "annotations.json").write_text(json.dumps({"images": rows, "annotations": boxes, "categories": named}))
    for row in rows:
        pixels = np.random.default_rng(row["id"]).integers(0, 256, (48, 64, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / pictures / str(row["file_name"])), pixels)
    return folder


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["data.yaml"], {"use": "yolo"}),
        (["Annotations/a.xml", "JPEGImages/a.jpg"], {"use": "voc"}),
        (["training/image_2/000000.png"], {"use": "kitti"}),
        (["day/frameAnnotationsBOX.csv"], {"use": "lisa"}),
        (["a/b_leftImg8bit.png"], {"use": "cityscapes"}),
        (["a/b.png"], {"use": "folder"}),
        (["a.mp4", "notes.txt"], {"use": "video", "file": "a.mp4"}),
        (["a.mp4", "b.mp4"], {"use": "video"}),
    ],
)
def test_data_sets_are_known_by_their_files(tmp_path: Path, files: list[str], found: dict[str, str]) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert values_of(draft_source(tmp_path, {})) == {**found, "folder": str(tmp_path)}


def test_files_are_data_too(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("")
    place = {"folder": str(tmp_path)}
    assert values_of(draft_source(tmp_path / "a.mp4", {})) == {"use": "video", **place, "file": "a.mp4"}
    labels = coco(tmp_path / "coco", ["car"], "train") / "annotations.json"
    found = {"use": "coco", "folder": str(labels.parent), "labels": "annotations.json", "images": "train"}
    assert values_of(draft_source(labels, {})) == values_of(draft_source(labels.parent, {})) == found
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match=r"a\.txt: neither a video, nor COCO's labels, nor a table"):
        draft_source(tmp_path / "a.txt", {})


def signature(size: tuple[int, int], **outputs: tuple[int, ...]) -> Signature:
    return Signature(size, 3, "chw", outputs)


@pytest.mark.parametrize(
    ("outputs", "kinds", "decoders"),
    [
        ({"out": (3549, 85)}, [], [("yolox", "coco"), ("yolov5", "coco")]),
        ({"out": (10647, 85)}, [], [("yolov5", "coco")]),
        ({"out": (84, 3549)}, [], [("yolov8", "coco")]),
        ({"out": (1, 6, 3549)}, ["a", "b"], [("yolov8", ["a", "b"])]),
        ({"out": (6, 3549)}, [], [("yolov8", ["kind 0", "kind 1"])]),
        ({"out": (300, 6)}, [], [("end-to-end", "coco")]),
        ({"boxes": (100, 4), "labels": (100,), "scores": (100,)}, [], [("detections", "coco-91")]),
        ({"loc": (8732, 4), "conf": (8732, 81)}, [], [("ssd", "coco")]),
        ({"angle": (1,)}, [], []),
    ],
)
def test_detectors_are_known_by_their_outputs(
    outputs: dict[str, tuple[int, ...]], kinds: list[str], decoders: list[tuple[str, Any]]
) -> None:
    found = list(detector_tables(signature((416, 416), **outputs), kinds))
    assert [(table["use"], table["kinds"]) for table in found] == decoders


def test_only_the_kinds_of_the_labels_are_reported() -> None:
    table = {"use": "yolox", "kinds": "coco"}
    assert reported(table, ["car", "tram"])["only"] == ["car"]
    assert reported(table, ["red", "green"])["only"] == ["traffic light"]
    assert "only" not in reported(table, ["tram"])
    assert "only" not in reported({"use": "yolox", "kinds": ["a", "b"]}, ["a", "b"])


def test_single_numbers_come_first() -> None:
    assert angle_places(signature((9, 9), both=(2,), one=(1,), many=(9,))) == [("one", None), ("both", 0), ("both", 1)]
    assert angle_places(signature((9, 9), angle=())) == [(0, None)]


def rows_of_boxes(path: Path) -> Path:
    """A detector with one row for each cell of 64x64, all empty but one that is where the first kind is."""
    cells = np.zeros((1, 84, 6), np.float32)
    cells[0, 0] = [8 / 8, 9.5 / 8, math.log(8 / 8), math.log(9 / 8), 0.9, 0.9]
    held = [numpy_helper.from_array(cells, "cells"), numpy_helper.from_array(np.zeros(1, np.float32), "zero")]
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=1, axes=[1, 2, 3]),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Squeeze", ["nothing", "last"], ["flat"]),
        helper.make_node("Add", ["flat", "cells"], ["out"]),
    ]
    held.append(numpy_helper.from_array(np.array([3], np.int64), "last"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 64, 64))
    said = helper.make_tensor_value_info("out", TensorProto.FLOAT, ("n", 84, 6))
    graph = helper.make_graph(nodes, "boxes", [given], [said], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_a_detector_and_coco(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    assert init(rows_of_boxes(tmp_path / "net.onnx"), coco(tmp_path / "coco", ["car"]), "--into", file) == 0
    assert "detection, coco data, system onnx\nown answers: mAP 1.000 at an IoU of 0.5" in capsys.readouterr().out
    table = tomllib.loads(file.read_text())
    assert table["system"]["say"][0] == {"use": "yolox", "kinds": ["car"], "score": 0.001, "iou": 0.65}
    assert table["system"]["read"][1] == {"use": "letterbox", "width": 64, "height": 64, "pad": 114, "at": "top-left"}
    assert {rule["expect"]["use"] for rule in table["rule"]} == {"same-boxes"}
