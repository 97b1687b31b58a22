"""The four light detectors: they learn, answer the same every time, and can be looked into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Boxes2D, Image
from swerve.systems.detections import SeparateOutputs
from swerve.train.detectors import detected, total_loss
from swerve.train.labelled_pictures import CropRecipe, Crops
from swerve.train.loop import save_weights
from swerve.zoo.lights import light_detectors
from swerve.zoo.lights.light_detectors import LIGHTS, LightDetector, light_net, packaged, untrained_net
from swerve.zoo.lights.light_frames import KINDS
from swerve.zoo.lights.light_network import Pyramid, padded
from swerve.zoo.lights.light_start import begin_with
from swerve.zoo.networks import folded
from tests.fixture_painted_lights import painted, pictures

pytestmark = pytest.mark.usefixtures("one_thread")
EACH = pytest.mark.parametrize("name", list(LIGHTS))
WHOLE = CropRecipe(side=96, aimed=0, smallest=1, largest=1, mosaic=0, mirror=0, colour=0)


def batch(count: int = 2):
    return Crops(pictures(count), np.random.default_rng(0), WHOLE).batch(np.arange(count))


def made(name: str):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return untrained_net(name)


@EACH
def test_a_few_steps_overfit_two_pictures(name):
    net = made(name)
    images, targets = batch()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
    losses = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for _ in range(12):
            net.train()
            loss = total_loss(net(images, targets), net)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert max(losses[-2:]) < 0.75 * losses[0]


@EACH
def test_losses_of_pictures_without_heads_are_finite(name):
    net = made(name).train()
    images, targets = batch()
    for target in targets:
        target["ignore"], target["boxes"] = target["boxes"], torch.zeros(0, 4)
        target["labels"] = torch.zeros(0, dtype=torch.int64)
    loss = total_loss(net(images, targets), net)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(part.grad).all() for part in net.parameters() if part.grad is not None)


@EACH
def test_boxes_to_ignore_do_not_teach(name):
    # The objectness inside a box to ignore has no gradient: an answer there is neither wanted nor unwanted.
    net = made(name).train()
    images, targets = batch(1)
    everything = torch.tensor([[-999.0, -999.0, 999.0, 999.0]])
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64), "ignore": everything}
    loss = total_loss(net(images, [nothing]), net)
    assert loss.item() == 0.0
    assert total_loss(net(images, targets), net).item() > 0.0


@EACH
def test_answers_are_the_same_every_time(name, tmp_path):
    file = tmp_path / "weights.safetensors"
    save_weights(folded(made(name)), file)
    kind = LIGHTS[name]
    cases = [painted(number) for number in range(3)]
    one, other = kind(file, score=0.0), kind(file, score=0.0)
    together, apart = one(cases), [other([case])[0] for case in cases]
    assert [answer[0].digest for answer in together] == [answer[0].digest for answer in apart]
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != kind(file, score=0.5).fingerprint()
    boxes = together[0][0]
    assert isinstance(boxes, Boxes2D)
    assert boxes.fault() is None
    assert set(boxes.kinds) <= set(KINDS)
    assert boxes.size == (96, 96)


@EACH
def test_normalisation_folds_away(name):
    net = made(name)
    images, _ = batch()
    with torch.no_grad():
        for _ in range(3):
            net.train().pyramid(padded(torch.stack(images)))  # statistics to fold
        maps = net.eval().pyramid(padded(torch.stack(images)))
        plain = folded(net).pyramid(padded(torch.stack(images)))
    for one, other in zip(maps, plain, strict=True):
        assert torch.allclose(one, other, atol=1e-3)
    assert light_net(name).state_dict().keys() == net.state_dict().keys()


@EACH
def test_layers_can_be_looked_into(name, tmp_path):
    file = tmp_path / "weights.safetensors"
    save_weights(folded(made(name)), file)
    system = LIGHTS[name](file, score=0.0)
    case = painted(0)
    layers = system.layers()
    assert "pyramid.fine.0.0" in layers
    traced = system.trace([case], layers)
    assert traced.answers[0][0].digest == system([case])[0][0].digest
    assert traced.layers["pyramid.fine.0.0"].mean.shape == (1, 16)


@EACH
def test_weights_are_small(name):
    assert 2 * sum(part.numel() for part in light_net(name).state_dict().values()) < 8e6


def test_pictures_of_any_size_are_padded():
    assert padded(torch.zeros(1, 3, 540, 961)).shape == (1, 3, 544, 976)
    assert padded(torch.zeros(1, 3, 32, 48)).shape == (1, 3, 32, 48)
    picture = pictures(1, side=90)[0]
    found = detected(folded(made("lights-yolox")), picture.pixels, KINDS)
    assert found.size == (90, 90)
    assert (found.xyxy <= 90).all()


def test_a_pyramid_is_taken_over():
    images = padded(torch.stack(batch(4)[0]))
    torch.manual_seed(0)
    start = Pyramid()
    with torch.no_grad():
        start.train()(images)
        wanted = folded(start)(images)
        net = Pyramid()
        assert (net.train()(images)[0] - wanted[0]).abs().max() > 0.1 * wanted[0].max()
        begin_with(net, start, images)
        for mode in (True, False):
            for one, other in zip(net.train(mode)(images), wanted, strict=True):
                assert (one - other).abs().max() < 0.01 * other.max()


def test_an_untrained_detector_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(light_detectors, "PACKAGED", tmp_path)
    with pytest.raises(InputError, match=r"lights-ssd is not trained yet.*swerve zoo train lights-ssd"):
        LIGHTS["lights-ssd"]()


def test_packaged_weights_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr(light_detectors, "PACKAGED", tmp_path)
    file = tmp_path / "lights-yolox.safetensors"
    save_weights(light_net("lights-yolox"), file)
    assert packaged("lights-yolox") == file
    assert LIGHTS["lights-yolox"]().layers()


def test_the_usual_score_is_the_kind_s_own(tmp_path):
    file = tmp_path / "lights-yolox.safetensors"
    save_weights(light_net("lights-yolox"), file)
    kind = LIGHTS["lights-yolox"]
    assert kind(file).fingerprint() == kind(file, score=kind.usual).fingerprint() != kind(file, score=0.0).fingerprint()


@pytest.mark.parametrize("score", [-0.1, 1.5, float("nan")])
def test_scores_are_between_zero_and_one(score):
    with pytest.raises(InputError, match="'score'"):
        LIGHTS["lights-yolox"](Path("none"), score=score)


def test_other_inputs_are_refused(tmp_path):
    file = tmp_path / "weights.safetensors"
    save_weights(light_net("lights-yolox"), file)
    system: LightDetector = LIGHTS["lights-yolox"](file)
    with pytest.raises(InputError, match="needs one image named 'camera'"):
        system([Case("a", {"front": Image(np.zeros((8, 8, 3), np.uint8))})])
    assert isinstance(system.system.say[0], SeparateOutputs)
