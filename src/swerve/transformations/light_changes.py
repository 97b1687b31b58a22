"""TigAug's twelve changes of pictures of traffic lights, with the paper's parameters, and their severities as grids."""

# TG-5..TG-16, D-22, D-24

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.space import Sequenced, Space, Table, as_space
from swerve.core.transformation import Transformation
from swerve.transformations.affine import INPAINT, ZoomOut
from swerve.transformations.blur import MotionBlur, motion_blur
from swerve.transformations.exposure import AutoLevels, OverExpose, RaiseValue, UnderExpose
from swerve.transformations.flare import LensFlare, lens_flare
from swerve.transformations.light_paste import CLEAN, PAPER, STYLES
from swerve.transformations.light_pastes import BACK, MORE, PLACE, STATE, TURNED, LightPastes
from swerve.transformations.weather import Fog, Rain, Snow, fog, rain, snow

Style = Annotated[str, OneOfNames(*STYLES)]
WEATHER = ("rain", "snow", "fog")
CAMERA = ("flare", "over-exposure", "under-exposure", "motion blur")
LIGHTS = ("colour", "move", "add", "rotate", "scale")
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType({"weather": WEATHER, "camera": CAMERA, "traffic lights": LIGHTS})
NAMES = (*WEATHER, *CAMERA, *LIGHTS)
CODES: Mapping[str, str] = MappingProxyType(
    dict(zip(NAMES, ("RN", "SW", "FG", "LF", "OE", "UE", "MB", "CC", "MP", "AD", "RT", "SC"), strict=True))
)
RAISED, ALSO_RAISED = 0.4, 0.1  # of the HSV value: severities 4 and 1 of the library that the authors use (D-22b)


def flare(style: Style = CLEAN) -> Space:
    """A flare from the upper third, not by night; in the paper after automatic levels."""
    return _styled(style, lens_flare(), lambda: Sequenced((as_space(AutoLevels()), lens_flare())))


def over_exposure(style: Style = CLEAN) -> Space:
    """Lightness +0.4; in the paper's library, HSV value +0.4."""
    return _styled(style, as_space(OverExpose(0.4)), lambda: as_space(RaiseValue(RAISED)))


def under_exposure(style: Style = CLEAN) -> Space:
    """Lightness −0.1; the paper's library raises the HSV value by 0.1 instead."""
    return _styled(style, as_space(UnderExpose(0.1)), lambda: as_space(RaiseValue(ALSO_RAISED)))


def blurred() -> Space:
    """Motion blur over 15 pixels, at any angle."""
    return motion_blur()


def colour_change(style: Style = CLEAN) -> LightPastes:
    """Red lights become green and green ones red."""
    return LightPastes(STATE, style)


def move_lights(style: Style = CLEAN) -> LightPastes:
    """Lights move sideways by their own width."""
    return LightPastes(PLACE, style)


def add_lights(style: Style = CLEAN) -> LightPastes:
    """Copies of one light to half of them, beside the lights."""
    return LightPastes(MORE, style)


def rotate_lights(style: Style = CLEAN) -> LightPastes:
    """Lights turned by 90 degrees."""
    return LightPastes(TURNED, style)


def paste_back(style: Style = CLEAN) -> LightPastes:
    """The control of these: lights are cut out, their places filled, and the same lights pasted back."""
    return LightPastes(BACK, style)


def scale_canvas(more: float = 0.25) -> Space:
    """The canvas `more` wider and higher, its margin inpainted, scaled back to the size of the picture."""
    return as_space(ZoomOut(more, more, border=INPAINT))


def twelve(style: Style = CLEAN) -> Mapping[str, Space]:
    """All twelve changes by name, in the paper's order."""
    return MappingProxyType(
        {
            "rain": rain(),
            "snow": snow(),
            "fog": fog(),
            "flare": flare(style),
            "over-exposure": over_exposure(style),
            "under-exposure": under_exposure(style),
            "motion blur": blurred(),
            "colour": colour_change(style),
            "move": move_lights(style),
            "add": add_lights(style),
            "rotate": rotate_lights(style),
            "scale": scale_canvas(),
        }
    )


GRIDS: Mapping[str, tuple[Transformation, ...]] = MappingProxyType(
    {
        "rain": tuple(Rain(amount) for amount in (0.1, 0.3, 0.5, 0.7, 0.9)),
        "snow": tuple(Snow(severity) for severity in (1.0, 2.0, 3.0, 4.0, 5.0)),
        "fog": tuple(Fog(metres) for metres in (400.0, 200.0, 120.0, 75.0, 40.0)),
        "flare": tuple(LensFlare(0.3, 0.2, strength) for strength in (0.2, 0.4, 0.6, 0.8, 1.0)),
        "over-exposure": OverExpose.grid(),
        "under-exposure": UnderExpose.grid(),
        "motion blur": tuple(MotionBlur(size, 0.0) for size in (5, 9, 15, 21, 31)),
        "scale": tuple(ZoomOut(more, more, border=INPAINT) for more in (0.1, 0.25, 0.5, 1.0)),
    }
)


def severities(change: Annotated[str, OneOfNames(*GRIDS)]) -> Table:
    """One change at several strengths, all on every picture, for curves."""
    check_known("change", change, GRIDS)
    return Table(GRIDS[change])


def _styled(style: str, ours: Space, papers: Callable[[], Space]) -> Space:
    check_known("style", style, STYLES)
    return papers() if style == PAPER else ours
