"""A frame of the embedded world rendered again in other weather, which no image filter can imitate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.space import Table
from swerve.core.transformation import Transformation, param
from swerve.core.values import Group, Image, SceneRef, Value, find
from swerve.world.camera import Camera
from swerve.world.conditions import CLEAR_AIR, PRESETS, Conditions, conditions
from swerve.world.source import parse_frame_key, render_frame

SKIES = ("sunshine", "dusk", "night", "rain", "fog", "snow", "snow-night")


def skies() -> Table:
    """Every scene in seven other conditions of weather and light."""
    return Table(tuple(Rerender(name) for name in SKIES))


@dataclass(frozen=True)
class Rerender(Transformation):
    """A frame of the embedded world rendered again under named `conditions`, with at most `visibility` metres."""

    conditions: str = "rain"
    visibility: float = param(20, CLEAR_AIR, neutral=CLEAR_AIR, resolution=1, unit=" m", default=CLEAR_AIR)
    preserves: ClassVar[tuple[str, ...]] = (
        "steering",
        "signal",
        "points",
        "boxes2d",
        "boxes3d",
        "masks",
        "region",
        "depth",
        "calibration",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.weather  # raises for an unknown name

    @property
    def weather(self) -> Conditions:
        """The conditions rendered under."""
        named = conditions(self.conditions)
        return dataclasses.replace(named, visibility=min(self.visibility, named.visibility))

    def applies(self, case: Case) -> str | None:
        """A reason unless `case` is an unchanged frame of the embedded world."""
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
        inputs = {name: self._rerender_input(name, value, ref) for name, value in case.inputs.items()}
        truth = tuple(self.map(value) for value in case.truth)
        return Case(case.key, inputs, truth, group=case.group, parent=case.key, facts=case.facts)

    def _rerender_input(self, name: str, value: Value, ref: SceneRef) -> Value:
        """One camera input rendered again: a frame, or consecutive frames ending with `ref` (`Windows(World(...))`)."""
        if isinstance(value, Image):
            return self._rerender_frame(value, ref)
        if isinstance(value, Group):
            key, last = parse_frame_key(ref.scene)
            first = last - len(value.values) + 1
            refs = [dataclasses.replace(ref, scene=f"{key}#{first + number}") for number in range(len(value.values))]
            return Group(
                tuple(self._rerender_input(name, item, each) for item, each in zip(value.values, refs, strict=True))
            )
        raise InputError(f"rerender cannot render the input '{name}' of slot '{value.slot}'")

    def _rerender_frame(self, value: Image, ref: SceneRef) -> Image:
        return Image(render_frame(ref, Camera(*value.size), self.weather).pixels)

    def words(self) -> str:
        """Such as "rendered again: fog, visibility 40 m"."""
        limit = "" if self.visibility >= PRESETS[self.conditions].visibility else f", visibility {self.visibility:g} m"
        return f"rendered again: {self.conditions}{limit}"
