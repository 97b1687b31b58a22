"""Training of any torch detector with the signature of torchvision's."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from swerve.core.errors import InputError
from swerve.core.values import Boxes2D, Image
from swerve.train.detectors import DetectorRecipe, detected, train_detector
from swerve.train.labelled_pictures import CropRecipe
from swerve.train.loop import Checkpoint
from swerve.zoo.lights.yolox import YoloxNet
from tests.fixture_painted_lights import LIT, PaintedSource, painted, pictures

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = tuple(LIT)
QUICK = DetectorRecipe(passes=2, repeats=1, batch=2, crops=CropRecipe(side=64))


class Corner(nn.Module):
    """A detector of a user: one box per picture, whose place it learns."""

    def __init__(self, answer: object = None) -> None:
        super().__init__()
        self.box, self.answer = nn.Parameter(torch.tensor([10.0, 10.0, 20.0, 20.0])), answer
        self.asked: list[tuple[int, list[str]]] = []

    def forward(self, images, targets=None):
        if self.training:
            self.asked.append((len(images), sorted(targets[0])))
            wanted = [target["boxes"].mean(0) for target in targets if len(target["boxes"])]
            if not wanted:
                return {"box": 0 * self.box.sum()}
            return {"box": (self.box - torch.stack(wanted)).abs().mean(), "none": 0 * self.box.sum()}
        if self.answer is not None:
            return self.answer
        found = {"boxes": self.box.detach()[None], "labels": torch.tensor([1]), "scores": torch.tensor([0.9])}
        return [found for _ in images]


def trained(net: nn.Module, recipe: DetectorRecipe = QUICK, **more):
    return train_detector(net, PaintedSource(6), PaintedSource(3, first=50), kinds=KINDS, recipe=recipe, **more)


def test_a_detector_of_ones_own_is_trained():
    net = Corner()
    before = net.box.detach().clone()
    fitted = trained(net)
    assert not torch.equal(net.box, before)
    assert len(fitted.errors) == 2
    assert fitted.errors[0] == 1.0  # mAP 0: one box cannot find two heads at IoU 0.5
    assert net.asked[0] == (2, ["boxes", "ignore", "labels"])
    assert sum(count for count, _ in net.asked) == 2 * 6
    assert not net.training


def test_the_same_seed_gives_the_same_weights():
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(1)
        net = YoloxNet(len(KINDS))
        state = torch.get_rng_state()
        trained(net, seed=seed)
        assert torch.equal(torch.get_rng_state(), state)
        return torch.cat([part.flatten().float() for part in net.state_dict().values()])

    one, again, other = weights(7), weights(7), weights(8)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_a_stopped_training_resumes(tmp_path: Path):
    class Stop(Exception):
        pass

    def stops(net: Corner, after: int) -> Corner:
        inner = net.forward

        def forward(images, targets=None):
            if net.training and len(net.asked) == after:
                raise Stop
            return inner(images, targets)

        net.forward = forward  # type: ignore[method-assign]
        return net

    checkpoint = Checkpoint(tmp_path / "own", "key", every=1)
    with pytest.raises(Stop):
        trained(stops(Corner(), 4), checkpoint=checkpoint)
    resumed, straight = Corner(), Corner()
    assert trained(resumed, checkpoint=checkpoint) == trained(straight)
    assert torch.equal(resumed.box, straight.box)


def test_initial_weights_compete():
    fitted = trained(Corner(), initial=True)
    assert len(fitted.errors) == 3


@pytest.mark.parametrize("losses", [3.0, {}, {"loss": torch.zeros(3)}, {"loss": 1.0}, torch.tensor(1.0)])
def test_other_losses_are_refused(losses):
    net = Corner()
    net.forward = lambda images, targets=None: losses  # type: ignore[method-assign]
    with pytest.raises(InputError, match="Corner must return a dict of losses"):
        trained(net)


@pytest.mark.parametrize("answer", [[], torch.zeros(4), [{"boxes": torch.zeros(0, 4)}], {}])
def test_other_answers_are_refused(answer):
    with pytest.raises(InputError, match="Corner must return one dict of boxes, labels and scores"):
        detected(Corner(answer), pictures(1)[0].pixels, KINDS)


@pytest.mark.parametrize("label", [0, 5])
def test_labels_without_a_name_are_refused(label):
    answer = [{"boxes": torch.zeros(1, 4), "labels": torch.tensor([label]), "scores": torch.ones(1)}]
    with pytest.raises(InputError, match="a label that is not within 1 to 4"):
        detected(Corner(answer), pictures(1)[0].pixels, KINDS)


def test_answers_get_the_names_of_their_kinds():
    answer = [{"boxes": torch.tensor([[1.0, 2, 3, 4]]), "labels": torch.tensor([2]), "scores": torch.tensor([0.5])}]
    found = detected(Corner(answer), np.zeros((30, 40, 3), np.uint8), KINDS)
    assert found.kinds == ("yellow",)
    assert found.xyxy.tolist() == [[1, 2, 3, 4]]
    assert found.size == (40, 30)


def test_validation_needs_boxes():
    with pytest.raises(InputError, match="pictures with boxes to validate on"):
        train_detector(Corner(), PaintedSource(2), PaintedSource(0), kinds=KINDS, recipe=QUICK)


@pytest.mark.parametrize(("name", "value"), [("passes", 0), ("repeats", 0), ("rate", 0), ("average", 2)])
def test_impossible_recipes_are_refused(name, value):
    with pytest.raises(InputError, match=f"'{name}'"):
        DetectorRecipe(**{name: value})


OWN_NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.box = torch.nn.Parameter(torch.tensor([5.0, 5.0, 90.0, 90.0]))

    def forward(self, images, targets=None):
        if self.training:
            wanted = torch.cat([target["boxes"] for target in targets])
            return {"box": (self.box - wanted).abs().mean()}
        found = {"boxes": self.box[None], "labels": torch.tensor([1]), "scores": torch.tensor([1.0])}
        return [found for image in images]
"""


def write_coco(folder: Path, count: int) -> None:
    """Painted pictures in COCO's format, a folder for each drive."""
    images, boxes = [], []
    for number in range(count):
        case = painted(number)
        name = f"drive{number // 2}/{number}.png"
        image, truth = case.inputs["camera"], case.truth[0]
        assert isinstance(image, Image)
        assert isinstance(truth, Boxes2D)
        file = folder / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file), cv2.cvtColor(np.asarray(image.pixels), cv2.COLOR_RGB2BGR))
        images.append({"id": number + 1, "file_name": name, "width": 96, "height": 96})
        for (left, top, right, bottom), kind in zip(truth.xyxy.tolist(), truth.kinds, strict=True):
            box = {"bbox": [left, top, right - left, bottom - top], "category_id": list(LIT).index(kind) + 1}
            boxes.append(box | {"id": len(boxes) + 1, "image_id": number + 1, "iscrowd": 0})
    kinds = [{"id": number, "name": name} for number, name in enumerate(LIT, 1)]
    labels = {"images": images, "annotations": boxes, "categories": kinds}
    (folder / "labels.json").write_text(json.dumps(labels))


def test_the_page_s_example_runs(tmp_path: Path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "retrain.md").read_text()
    block = re.search(r"<!-- own detector -->\n```python\n(.*?)```", page, re.DOTALL)
    assert block is not None
    code = [line for line in block[1].splitlines() if line and not line.startswith(("import ", "from "))]
    assert len(code) <= 10
    write_coco(tmp_path / "frames", 12)
    (tmp_path / "mynet.py").write_text(OWN_NET)
    (tmp_path / "page.py").write_text(block[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    state = torch.get_rng_state()
    runpy.run_path(str(tmp_path / "page.py"))
    assert torch.equal(torch.get_rng_state(), state)
    assert re.fullmatch(r"mAP 0\.\d{3} in pass \d; 0\.\d CPU minutes", capsys.readouterr().out.strip())
    assert (tmp_path / "net.safetensors").stat().st_size < 1000
