"""A frame of the embedded world rendered again in other weather, which no image filter can imitate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from swerve.core.arguments import OneOfNames
from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.space import Choices, Domain, Over, Range, Table
from swerve.core.transformation import Transformation, param
from swerve.core.values import Group, Image, SceneRef, Value, find
from swerve.world.conditions import CLEAR_AIR, PRESETS, Conditions, conditions, declared

# Imported when a frame is rendered, as commands that only list findings read what the parameters of a change mean.
if TYPE_CHECKING:
    from swerve.world.camera import Camera

SKIES = ("sunshine", "dusk", "night", "rain", "fog", "snow", "snow-night")
LABELS = ("steering", "signal", "points", "boxes2d", "boxes3d", "masks", "classes", "region", "depth", "calibration")


def skies() -> Table:
    """Every scene in seven other conditions of weather and light."""
    return Table(tuple(Rerender(name) for name in SKIES))


def weathers(**domains: Any) -> Over:
    """Conditions by numbers: those given are a number, a pair (drawn between them) or a set; all others are neutral."""
    neutral = {name: facts.neutral for name, facts in declared().items()}
    return Over(Reshade, **{**neutral, **{name: _domain(value) for name, value in domains.items()}})


def rendered_conditions() -> Over:
    """The operating domain of the embedded world: sun, clouds, fog, rain, snow and lamps, in which a road can be seen."""
    return weathers(
        sun=(-18.0, 60.0),
        ahead=(0.0, 1.0),
        azimuth=(-60.0, 60.0),
        clouds=(0.0, 1.0),
        visibility=(40.0, CLEAR_AIR),
        rain=(0.0, 30.0),
        wetness=(0.0, 1.0),
        snowfall=(0.0, 2.0),
        snow=(0.0, 0.8),
        lamps=(0.0, 1.0),
    )


def _domain(value: Any) -> Domain:
    """What a campaign file gives, as a domain."""
    if isinstance(value, list | tuple):
        return Range(*value)
    return Choices(tuple(value["choices"])) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class RenderedAgain(Transformation):
    """A frame of the embedded world rendered under the conditions of `weather`; all labels stay what they are."""

    preserves: ClassVar[tuple[str, ...]] = LABELS

    @property
    def weather(self) -> Conditions:
        """The conditions rendered under."""
        raise NotImplementedError

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be rendered again, or None: it must be an unchanged frame of the embedded world."""
        if not isinstance(find(case.truth, "scene"), SceneRef):
            return "the case has no scene reference: only frames of the embedded world can be rendered again"
        if case.parent is not None:
            return "the frame was already changed: rerender must be the first step of a chain"
        return None

    def scene(self, value: SceneRef) -> SceneRef:
        """The same scene, under the new conditions."""
        return dataclasses.replace(value, conditions=self.weather.numbers())

    def __call__(self, case: Case) -> Case:
        if why := self.applies(case):
            raise NotApplicable(why)
        ref = find(case.truth, "scene")
        assert isinstance(ref, SceneRef)
        inputs = rendered_inputs(case, ref, self._render)
        truth = tuple(self.map(value) for value in case.truth)
        return Case(case.key, inputs, truth, group=case.group, parent=case.key, facts=case.facts)

    def _render(self, ref: SceneRef, camera: Camera) -> Image:
        from swerve.world.frames import render_frame

        return Image(render_frame(ref, camera, self.weather).pixels)


def rendered_inputs(case: Case, ref: SceneRef, render: Callable[[SceneRef, Camera], Image]) -> dict[str, Value]:
    """All camera inputs of a case, rendered again."""
    return {name: _render_input(name, value, ref, render) for name, value in case.inputs.items()}


def _render_input(name: str, value: Value, ref: SceneRef, render: Callable[[SceneRef, Camera], Image]) -> Value:
    """One camera input rendered again: a frame, or consecutive frames ending with `ref` (`Windows(World(...))`)."""
    from swerve.world.drives import parse_frame_key
    from swerve.world.light_views import camera_of

    if isinstance(value, Image):
        return render(ref, camera_of(ref.scene, value.size))
    if isinstance(value, Group):
        key, last = parse_frame_key(ref.scene)
        first = last - len(value.values) + 1
        refs = [dataclasses.replace(ref, scene=f"{key}#{first + number}") for number in range(len(value.values))]
        return Group(tuple(_render_input(name, item, each, render) for item, each in zip(value.values, refs, strict=True)))
    raise InputError(f"the input '{name}' of slot '{value.slot}' cannot be rendered again")


@dataclass(frozen=True)
class Rerender(RenderedAgain):
    """A frame of the embedded world rendered again under named `conditions`, with at most `visibility` metres."""

    conditions: Annotated[str, OneOfNames(*PRESETS)] = "rain"
    visibility: float = param(20, CLEAR_AIR, neutral=CLEAR_AIR, resolution=1, unit=" m", default=CLEAR_AIR)

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect(self.weather)

    @property
    def weather(self) -> Conditions:
        """The conditions rendered under."""
        named = conditions(self.conditions)
        return dataclasses.replace(named, visibility=min(self.visibility, named.visibility))

    def words(self) -> str:
        """Such as "rendered again: fog, visibility 40 m"."""
        limit = "" if self.visibility >= PRESETS[self.conditions].visibility else f", visibility {self.visibility:g} m"
        return f"rendered again: {self.conditions}{limit}"


def _expect(weather: Conditions) -> None:
    """Tell the renderer under which conditions frames will be wanted again."""
    from swerve.world.frames import expect

    expect(weather)


def _number(name: str) -> Any:
    """A parameter of conditions as the field of a change."""
    facts = declared()[name]
    return dataclasses.field(default=facts.neutral, metadata={"param": facts})


@dataclass(frozen=True)
class Reshade(RenderedAgain):
    """A frame of the embedded world rendered again under conditions given as numbers."""

    sun: float = _number("sun")
    ahead: float = _number("ahead")
    azimuth: float = _number("azimuth")
    clouds: float = _number("clouds")
    visibility: float = _number("visibility")
    rain: float = _number("rain")
    wetness: float = _number("wetness")
    snowfall: float = _number("snowfall")
    snow: float = _number("snow")
    lamps: float = _number("lamps")
    # Where the renderer begins or ends something: a search that ends there may have found the renderer's edge.
    switches: ClassVar[Mapping[str, Mapping[float, str]]] = {
        "sun": {2.0: "lamps are lit below 2°", -4.0: "lamps are fully lit below -4°"},
        "clouds": {0.92: "the sun casts no shadows above 0.92"},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        # Not the sun, as every draw has another: under clouds a frame is kept without its shadows.
        _expect(Conditions(clouds=1.0, wetness=float(self.weather.wet > 0)))

    @property
    def weather(self) -> Conditions:
        """The conditions rendered under."""
        return Conditions(**{name: getattr(self, name) for name in declared()})

    def words(self) -> str:
        """Such as "rendered again: fog 42 m, low sun ahead, wet road"."""
        return f"rendered again: {self.weather.words()}"
