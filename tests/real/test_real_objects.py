"""IATG on real pictures: five frames of Cityscapes whose objects are swapped and drawn, and DroNet's heat on a drive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.gate import admission
from swerve.core.seeding import rng_for
from swerve.core.space import BatchSpace
from swerve.core.transformation import Transformation
from swerve.core.values import Array
from swerve.execution.engine import NoProgress
from swerve.explain.grad_cam import GradCam
from swerve.explain.heat import picture_of
from swerve.relations.gates import SameObjects
from swerve.sources.cityscapes import Cityscapes
from swerve.systems.keras import Keras
from swerve.testing import FakeSystem
from swerve.transformations.frame_objects import frame_objects
from swerve.transformations.object_choice import LargestObjects
from swerve.transformations.object_library import build_library
from swerve.transformations.replace_objects import PasteBack
from swerve.transformations.retouches import BACK, REPLACE, Retouches
from swerve.transformations.translate_objects import Translations
from swerve.translation.packaged import PAINTER, is_packaged, packaged_painter
from swerve.translation.painting import painting_of
from swerve.zoo.paint_data import window_sets
from swerve.zoo.paint_learn import PainterRecipe
from swerve.zoo.paint_train import train_painter
from tests.real.test_real_dronet import drive, dronet  # noqa: F401

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def source(data: Path) -> Cityscapes:
    if not (data / "city/cityscapes").is_dir():
        pytest.skip("no frames of Cityscapes beside the project: the folder city/cityscapes is missing")
    return Cityscapes(data / "city/cityscapes", classes=True)


@pytest.fixture(scope="module")
def frames(source: Cityscapes) -> list[Case]:
    return [source[key] for key in source.keys()]


@pytest.fixture(scope="module")
def library(frames: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Asset:
    file = tmp_path_factory.mktemp("city") / "city.objects"
    built, left_out = build_library(frames, file)
    assert len(built.items) >= 10
    assert {item.kind for item in built.items} == {"car", "person"}
    assert left_out["too small"] > left_out["hidden"] > 0
    return Asset(file)


def followups(space: BatchSpace, frames: list[Case]) -> list[tuple[Case, Transformation, Case]]:
    """The frames that a space changes, with the change and the follow-up."""
    drawn = space.propose_all(frames, [rng_for("city", case.key) for case in frames], FakeSystem())
    pairs = zip(frames, drawn, strict=True)
    return [(case, one, one(case)) for case, one in pairs if not isinstance(one, NotApplicable)]


def changed(before: Case, after: Case) -> Array:
    return np.asarray((picture_of(before).pixels != picture_of(after).pixels).any(axis=2))


def test_the_largest_object_of_every_frame_is_replaced_in_its_place(library: Asset, frames: list[Case]) -> None:
    found = followups(Retouches(library, REPLACE, LargestObjects()), frames)
    assert len(found) == len(frames)
    for before, _, after in found:
        assert 0.001 < changed(before, after).mean() < 0.1
        assert admission(SameObjects(), before, after).why == ""


def test_objects_pasted_back_hardly_change_the_picture(library: Asset, frames: list[Case]) -> None:
    for before, change, after in followups(Retouches(library, BACK, LargestObjects()), frames):
        assert isinstance(change, PasteBack)
        inside = frame_objects(before).mask(change.things[0])
        gap = np.abs(picture_of(before).pixels.astype(float) - picture_of(after).pixels)[inside]
        assert gap.mean() < 4


def test_a_painter_trained_further_on_five_frames_draws_within_the_outlines(
    source: Cityscapes, frames: list[Case], tmp_path: Path
) -> None:
    """One short pass: the plumbing, not the looks, which docs/iatg.md tells of."""
    if not is_packaged(PAINTER):
        pytest.skip("the painter is not trained yet: swerve zoo train painter")
    start = packaged_painter()
    recipe = PainterRecipe(passes=1).further(painting_of(start))
    sets = window_sets(source, side=recipe.side, progress=NoProgress())
    card = train_painter("city", "cityscapes", tmp_path, sets, recipe=recipe, start=start)
    assert "car" in card["looks"]
    found = followups(Translations(Asset(tmp_path / "city.safetensors"), choose=LargestObjects()), frames)
    assert len(found) >= 3
    for before, change, after in found:
        assert changed(before, after).any()
        assert not (changed(before, after) & ~frame_objects(before).mask(change.things[0])).any()  # type: ignore[attr-defined]


def test_dronet_looks_at_the_road(dronet: Keras, drive: list[Case]) -> None:  # noqa: F811
    """The horizon is about two fifths down what it reads: most heat of its last convolution lies below."""
    heats = [heat.values for heat in GradCam().explain(drive[::25], dronet) if not heat.is_flat]
    assert len(heats) > len(drive[::25]) / 2
    below = [heat[round(0.4 * len(heat)) :].sum() / heat.sum() for heat in heats]
    assert np.median(below) > 0.75
