"""What is too little of a picture to judge by."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
import pytest

from swerve.core.campaign import Campaign, Observation, Trial
from swerve.core.case import Case
from swerve.core.relation import Rule
from swerve.core.system import Answer
from swerve.core.transformation import Chain, Transformation, clear_frame_cache
from swerve.core.values import Array, Depth, Image, Steering
from swerve.execution.evaluator import Evaluator
from swerve.methods.deeptest import CUMULATIVE, GUIDED, PLAIN, PRINTED, PUBLISHED, deeptest, table_4
from swerve.relations.gates import Legible, MaxFill, Visible, contrast_left
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.store.record_json import record_row
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.affine import MAX_PIXELS, Enlarge, Rotate, Scale, Shear, Translate, ZoomOut
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.weather import Fog, Rain

WIDTH, HEIGHT = 96, 64


def drawn(pixels: Array) -> Case:
    return Case("a", {"camera": Image(pixels)}, (Steering(0.0),))


@pytest.fixture
def picture() -> Case:
    """Patches of many greys: something to see at any zoom, and more than a blur takes away."""
    patches = np.random.default_rng(3).integers(40, 200, (HEIGHT // 4, WIDTH // 4, 3), dtype=np.uint8)
    return drawn(cv2.resize(patches, (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST))


@pytest.mark.parametrize(
    ("change", "view"),
    [
        (Scale(6, 6), 1 / 36),
        (Scale(2, 1), 1 / 2),
        (Scale(0.5, 0.5), 1.0),
        (Translate(48, 0), 1 / 2),
        (Translate(-48, 32), 1 / 4),
        (Translate(200, 0), 0.0),
        (Rotate(180), 1.0),
        (Scale(2, 2, border="reflect"), 1 / 4),
        (Translate(48, 0, border="replicate"), 1 / 2),
        (ZoomOut(0.25, 0.25), 1.0),
        (Chain((Scale(6, 6), Scale(6, 6))), 1 / 1296),
        (Chain((Scale(2, 2), Brighten(10), Translate(48, 0))), 1 / 8),
        (Chain((Scale(0.5, 0.5), Scale(2, 2))), 1 / 4),  # known only as a product: what was zoomed out counts as whole
    ],
)
def test_view_is_what_is_left_of_the_picture(picture: Case, change: Transformation, view: float) -> None:
    assert change(picture).facts["view"] == pytest.approx(view, abs=2e-6)


@pytest.mark.parametrize("change", [Rotate(90), Shear(-0.7), Scale(3, 2), Translate(30, -20), Scale(1.3, 1.0)])
def test_view_agrees_with_counted_pixels(picture: Case, change: Transformation) -> None:
    """Every pixel is at a distance of its own: what is left of them is counted."""
    distances = np.arange(WIDTH * HEIGHT, dtype=np.float32).reshape(HEIGHT, WIDTH)
    moved = change.map(Depth(distances)).metres
    left = len(np.unique(moved[np.isfinite(moved)])) / distances.size
    assert float(change(picture).facts["view"]) == pytest.approx(left, abs=0.03)


def test_every_single_change_of_table_4_but_the_border_is_legible(picture: Case) -> None:
    changes = [change for space in table_4().values() for change in space.grid()]
    assert len(changes) == 70
    refused = [change for change in changes if Legible().admit(picture, change(picture))]
    assert refused == [change for change in changes if MaxFill().admit(picture, change(picture))]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Chain((Scale(6, 6), Scale(1.5, 1.5))), "1.23% of the image is still visible, less than 2.50%"),
        (
            Chain((Contrast(3), Brighten(100), Brighten(100))),
            "the grey levels have an entropy of 0.00 bits, less than 25% of the",
        ),
        (
            Chain((Contrast(3), Brighten(100), Brighten(100), Translate(40, 0))),
            "the grey levels have an entropy",
        ),  # white, with a border
        (Translate(70, 0), "72.9% of the image is border fill"),
    ],
)
def test_what_nobody_could_steer_by_is_refused(picture: Case, change: Transformation, why: str) -> None:
    assert why in str(Legible().admit(picture, change(picture)))
    assert Legible(fill=1, view=0, detail=0).admit(picture, change(picture)) is None


def test_flat_picture_is_not_held_against_itself() -> None:
    flat = drawn(np.full((HEIGHT, WIDTH, 3), 90, np.uint8))
    assert Legible().admit(flat, Brighten(20)(flat)) is None
    assert Legible().admit(Case("b", {}), Case("b", {})) is None


@pytest.mark.parametrize("name", ["fill", "view", "detail"])
@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True, "0.5"])
def test_shares_are_checked(name: str, share: object) -> None:
    with pytest.raises(ValueError, match=f"'{name}' must be a number from 0 to 1"):
        Legible(**{name: share})  # type: ignore[arg-type]


def test_gates_of_the_profiles() -> None:
    chosen = {
        (profile, search): deeptest(FakeSource(2), FakeSystem(), profile=profile, search=search).gate
        for profile, search in itertools.product((PLAIN, PRINTED, PUBLISHED), (CUMULATIVE, GUIDED))
    }
    assert chosen.pop((PLAIN, CUMULATIVE)) == MaxFill(0.5)
    assert chosen.pop((PLAIN, GUIDED)) == Legible()
    assert set(chosen.values()) == {None}


def test_published_code_shears_the_other_way() -> None:
    def shears(profile: str) -> list[float]:
        rule = next(rule for rule in deeptest(FakeSource(2), FakeSystem(), profile=profile).rules if rule.name == "shear")
        return [change.x for change in rule.change.grid() if isinstance(change, Shear) and change.anchor == "top-left"]

    assert shears(PRINTED) == [round(-1 + step / 10, 1) for step in range(10)]
    assert shears(PUBLISHED) == [-x for x in shears(PRINTED)]


def test_larger_of_larger_pictures_have_an_end(picture: Case) -> None:
    change = Chain((Enlarge(10, 10), Enlarge(10, 10), Enlarge(10, 10)))
    assert WIDTH * HEIGHT * 10**6 > MAX_PIXELS
    assert "9600×6400" not in str(change.steps[0].applies(picture))
    assert "are too many" in str(change.applies(picture))
    assert Enlarge(10, 10).applies(picture) is None


SEEN: list[int] = []


@dataclass(frozen=True)
class Noted(Translate):
    """A shift that notes every frame it moves."""

    def image(self, value: Image) -> Image:
        SEEN.append(1)
        return super().image(value)


@dataclass(frozen=True)
class Patient(MaxFill):
    """The same gate, asked of whole windows."""

    first_frame: ClassVar[bool] = False


def test_long_window_is_refused_by_its_first_frame() -> None:
    source = Windows(FakeSource(8, width=WIDTH, height=HEIGHT, drive=8), 4)
    rules = tuple(Rule(f"by {x}", Noted(float(x), 0.0), same_angle(1)) for x in (10, 70))
    journals = []
    for gate, frames in ((MaxFill(), 4 + 1), (Patient(), 4 + 4)):
        clear_frame_cache()
        SEEN.clear()
        campaign = Campaign(source, Last(), rules, Sweep(per_case=1), gate)
        seen = {key: Observation(key, "", source[key].truth, (Steering(0.0),)) for key in source.keys()}
        evaluate = Evaluator(campaign, seen, threads=1)
        key = source.keys()[0]
        journals.append([record_row(one) for one in evaluate([Trial(key, rule.name, 0) for rule in rules])])
        assert len(SEEN) == frames
    assert journals[0] == journals[1]
    assert [row["status"] for row in journals[0]] == ["held", "skipped"]


@dataclass(frozen=True)
class Last(FakeSystem):
    """Says the same of every window."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Steering(0.0),) for _ in cases]


# --- visible ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def road() -> Array:
    """Broad patches of grey, none of which is clipped by what the tests do to it."""
    patches = np.random.default_rng(5).integers(60, 190, (12, 10, 1), dtype=np.uint8)
    return cv2.resize(np.repeat(patches, 3, axis=2), (320, 180), interpolation=cv2.INTER_NEAREST)


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("lighter", [-5, 0, 10])
def test_contrast_left_is_the_slope(road: Array, share: float, lighter: int) -> None:
    """Whatever the brightness: a picture blended with grey keeps as much contrast as of itself."""
    after = np.clip((road - 125.0) * share + 125 + lighter, 0, 255).round().astype(np.uint8)
    assert contrast_left(road, after) == pytest.approx(share, abs=0.02)


def test_noise_and_streaks_are_no_contrast(road: Array) -> None:
    noise = np.random.default_rng(1).normal(0, 40, road.shape)
    blank = np.clip(125 + noise, 0, 255).astype(np.uint8)
    found = contrast_left(road, blank)
    assert found is not None
    assert abs(found) < 0.05
    case = drawn(blank)
    assert Legible().admit(drawn(road), case) is None  # its grey levels have a high entropy
    assert Visible().admit(drawn(road), case).why.endswith("of the contrast is left, less than 25%")


def test_upper_half_does_not_count(road: Array) -> None:
    after = road.copy()
    after[: after.shape[0] // 2] = 128
    assert contrast_left(road, after) == pytest.approx(1.0)


def test_thick_fog_and_rain_are_refused_together(road: Array) -> None:
    source = drawn(road)
    kept = [Visible().admit(source, Fog(visibility)(source)).facts["contrast_left"] for visibility in (40, 100, 400, 4000)]
    assert kept == sorted(kept)
    assert not Visible().admit(source, Fog(4000)(source)).why
    thick = Chain((Contrast(0.5), Fog(40), Rain(0.7, drop_size=0.15, speed=0.25, slant=0.0, seed=1)))
    assert Visible().admit(source, thick(source)).why


def test_visible_needs_something_to_see() -> None:
    flat = drawn(np.full((64, 64, 3), 90, np.uint8))
    assert Visible().admit(flat, Brighten(20)(flat)).why == ""
    assert Visible().admit(Case("b", {}), Case("b", {})).why == ""
    with pytest.raises(ValueError, match="least"):
        Visible(1.5)
