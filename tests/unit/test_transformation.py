from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable, UnmappedError
from swerve.core.transformation import Chain, Transformation, Unchanged, param, params_of, plain_name
from swerve.core.values import Group, Image, Signal, Steering, Value
from swerve.testing import sample_case


@dataclass(frozen=True)
class Mirror(Transformation):
    """Flips the view: left becomes right."""

    preserves = ("signal",)

    def image(self, image: Image) -> Image:
        return Image(np.ascontiguousarray(image.pixels[:, ::-1]))

    def steering(self, steering: Steering) -> Steering:
        return Steering(-steering.degrees)


@dataclass(frozen=True)
class Nudge(Transformation):
    by: float = param(-80, 80, neutral=0, grid=(10, 20), resolution=0.5, unit=" levels")
    times: int = param(1, 9, neutral=1, step=2, default=1)
    preserves = ("*",)


def camera(*values: Value) -> Case:
    frame = Image(np.arange(24, dtype=np.uint8).reshape(2, 4, 3))
    return Case("one", {"camera": frame}, values)


def test_one_map_serves_labels_and_outputs() -> None:
    change, label = Mirror(), Steering(7)
    assert change(camera(label)).truth == (change.map(label),) == (Steering(-7),)


def test_followup_names_its_parent() -> None:
    twice = Mirror()(Mirror()(camera()))
    assert twice.parent == "one"
    assert twice.input_sha == camera().input_sha


def test_unmapped_value_stops() -> None:
    with pytest.raises(UnmappedError, match=r"write a method Mirror\.points\(value\), or add 'points' to Mirror\.preserves"):
        Mirror()(sample_case())


def test_windows_map_every_frame() -> None:
    frames = Group((Image(np.zeros((2, 4, 3), np.uint8)), Image(np.eye(4, dtype=np.uint8)[:2, :, None].repeat(3, 2))))
    mapped = Mirror().map(frames)
    assert [frame.pixels[0, 3, 0] for frame in mapped.values] == [0, 1]  # type: ignore[attr-defined]


def test_misspelt_handler_fails_at_once() -> None:
    with pytest.raises(InputError, match=r"Bad\.imgae looks like a misspelt slot; did you mean 'image'"):
        type("Bad", (Transformation,), {"imgae": Mirror.image})


def test_misspelt_preserves_fails_at_once() -> None:
    with pytest.raises(InputError, match="preserves names 'steerin', which is not a slot; did you mean 'steering'"):
        type("Bad", (Transformation,), {"preserves": ("steerin",)})


def test_other_methods_are_allowed() -> None:
    assert type("Good", (Transformation,), {"kernel": Mirror.image, "image_kernel_of_sorts": Mirror.image})


def test_handler_must_return_its_kind() -> None:
    @dataclass(frozen=True)
    class Wrong(Transformation):
        preserves = ("*",)

        def image(self, image: Image) -> Any:
            return image.pixels

    with pytest.raises(InputError, match=r"Wrong\.image must return Image, got ndarray"):
        Wrong()(camera())


@pytest.mark.parametrize("wrong", [81, -80.5, float("nan"), float("inf"), "ten", None, True])
def test_number_outside_range_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="'by' must be a number from -80 to 80, got"):
        Nudge(wrong)


def test_steps_leave_numbers_out() -> None:
    with pytest.raises(ValueError, match="'times' must be one of 1, 3, 5, …, got 4"):
        Nudge(1, 4)


def test_same_number_same_change() -> None:
    assert repr(Nudge(9)) == repr(Nudge(9.0))  # type: ignore[arg-type]
    assert params_of(Nudge)["times"].integer


def test_grid_is_the_table() -> None:
    assert Nudge.grid() == (Nudge(10.0), Nudge(20.0))


def test_simpler_goes_to_neutral_then_half() -> None:
    assert list(Nudge(9.0).simpler()) == [Nudge(0.0), Nudge(4.5)]
    assert list(Nudge(0.0).simpler()) == []
    assert list(Nudge(0.5).simpler()) == [Nudge(0.0)]


def test_chain_maps_in_order() -> None:
    @dataclass(frozen=True)
    class Add(Transformation):
        by: float = param(-9, 9, neutral=0)
        preserves = ("*",)

        def steering(self, steering: Steering) -> Steering:
            return Steering(steering.degrees + self.by)

    chain = Chain((Add(2), Mirror(), Add(5)))
    assert chain.map(Steering(1)) == Steering(2)
    assert chain(camera(Steering(1), Signal("x", 1))).truth[0] == Steering(2)


def test_usual_range_lies_within_the_range() -> None:
    assert param(-9, 9, neutral=0, grid=(1, 4), usual=(-1, 1)).metadata["param"].usual == (-1, 1)
    for usual in ((-10, 1), (1, -1), (2, 2)):
        with pytest.raises(ValueError, match="'usual' must be an increasing pair"):
            param(-9, 9, neutral=0, usual=usual)


def test_chain_drops_steps_to_simplify() -> None:
    easier = list(Chain((Mirror(), Nudge(8.0))).simpler())
    assert easier[:2] == [Nudge(8.0), Mirror()]
    assert Chain((Mirror(), Nudge(4.0))) in easier


def test_empty_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="'steps' must be a list of one or more transformations"):
        Chain(())


def test_reason_not_to_apply_is_raised() -> None:
    class Never(Transformation):
        preserves = ("*",)

        def applies(self, case: Case) -> str | None:
            return f"{case.key} is a night scene"

    with pytest.raises(NotApplicable, match="one is a night scene"):
        Chain((Unchanged(), Never()))(camera())


@dataclass(frozen=True)
class Lift(Transformation):
    """Makes every pixel brighter by so much."""

    by: int
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        return Image((image.pixels.astype(int) + self.by).astype(np.uint8))


@dataclass(frozen=True)
class BrightOnly(Transformation):
    """Cannot be made to a dark image."""

    preserves = ("*",)

    def applies(self, case: Case) -> str | None:
        image = case.inputs["camera"]
        assert isinstance(image, Image)
        return "too dark" if image.pixels.mean() < 10 else None


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ((BrightOnly(),), "too dark"),
        ((Unchanged(), BrightOnly()), "too dark"),
        ((BrightOnly(), Lift(8)), "too dark"),
        ((Lift(8), BrightOnly()), None),
        ((Lift(8), BrightOnly(), Lift(-8), BrightOnly()), "too dark"),
    ],
)
def test_chain_asks_every_step(steps: tuple[Transformation, ...], why: str | None) -> None:
    dark = Case("one", {"camera": Image(np.full((2, 2, 3), 5, np.uint8))})
    assert Chain(steps).applies(dark) == why
    if why is None:
        Chain(steps)(dark)
    else:
        with pytest.raises(NotApplicable, match=why):
            Chain(steps)(dark)


def test_words_and_names_are_plain() -> None:
    assert Nudge(2.5).words() == "nudge by 2.5 levels, times 1"
    assert plain_name(type("OverExposure", (), {})) == "over-exposure"
    assert Chain((Mirror(), Unchanged())).words() == "mirror, then unchanged"


def test_zero_has_one_sign() -> None:
    assert repr(Nudge(-0.0)) == repr(Nudge(0.0))
