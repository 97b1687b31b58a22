"""A junction with traffic lights: its road, what stands around it, and the mounts of the heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from swerve.core.seeding import rng_for
from swerve.world import plan as planning
from swerve.world import signal_posts
from swerve.world.distractors import lit_signs, pedestrian_lights
from swerve.world.plan import ScenePlan
from swerve.world.road import BEHIND, CrossSection, Junction, Road, winding
from swerve.world.scene import Scene
from swerve.world.signal_heads import HeadDesign, designs
from swerve.world.signal_posts import Foot, Holder, Hung, Mount

Random = np.random.Generator
Colour = tuple[float, float, float]
Drawn = TypeVar("Drawn")
AT = 62.0  # metres along the road: the middle of the junction
STRAIGHT = 70.0  # metres before and after it, on which the road hardly bends
ZEBRA = (6.6, 3.0)  # metres from the junction's edge to the start of the crossing before it, and of the one after it
STOP_BEFORE = 1.6  # metres from the stop line to the crossing
OFF_ROAD = 0.45  # metres from the kerb to a post
POLES: tuple[Colour, ...] = ((0.33, 0.34, 0.35), (0.05, 0.055, 0.06), (0.14, 0.15, 0.15), (0.03, 0.07, 0.05))


@dataclass(frozen=True)
class Streets:
    """How the streets of a set look: styles and lanes with their frequencies, and what holds the heads."""

    styles: Mapping[str, float]
    lanes: Mapping[int, float]
    layouts: Mapping[tuple[str, ...], float]
    yellow: float  # share of yellow centre lines
    lane: tuple[float, float]  # metres
    half: tuple[float, float]  # metres: half the width of the crossing road
    arm: tuple[float, float]  # metres: height of heads over the road
    post: tuple[float, float]  # metres: height of heads beside it


STREETS: Mapping[str, Streets] = MappingProxyType(
    {
        "A": Streets(
            styles={"city": 0.5, "avenue": 0.3, "suburb": 0.2},
            lanes={1: 0.35, 2: 0.5, 3: 0.15},
            layouts={
                ("near right", "far right"): 1.5,
                ("near right", "near left", "far right"): 1,
                ("far right", "far left"): 1,
                ("arm far",): 1.5,
                ("arm far", "near right"): 2,
                ("arm far", "far left"): 1.5,
                ("span far",): 1,
                ("gantry far", "near right"): 0.7,
            },
            yellow=0.6,
            lane=(3.1, 3.5),
            half=(3.8, 7.4),
            arm=(5.2, 6.1),
            post=(2.6, 3.4),
        ),
        "B": Streets(
            styles={"suburb": 0.35, "avenue": 0.35, "city": 0.2, "country": 0.1},
            lanes={1: 0.3, 2: 0.4, 3: 0.3},
            layouts={
                ("gantry far",): 1.5,
                ("gantry near", "far right"): 1,
                ("arm near", "arm far"): 1,
                ("arm far", "near left"): 1.5,
                ("arm far left", "far right"): 1,
                ("near right", "near left"): 1,
                ("far right", "far left", "near right"): 1,
            },
            yellow=0.15,
            lane=(3.3, 3.8),
            half=(5.0, 9.0),
            arm=(5.0, 5.8),
            post=(2.9, 4.0),
        ),
    }
)


@dataclass(frozen=True, eq=False)
class SignalJunction:
    """The scene around a junction without its heads, and the mounts of those: for our traffic, and for other."""

    scene: Scene
    plan: ScenePlan
    streets: str
    ours: tuple[Mount, ...]
    others: tuple[Mount, ...]

    @property
    def junction(self) -> Junction:
        """The junction."""
        return self.scene.road.junctions[0]

    @property
    def stop(self) -> float:
        """Metres along the road to our stop line."""
        return self.scene.road.stops[0][0]


def _pick(rng: Random, shares: Mapping[Drawn, float]) -> Drawn:
    weights = np.array(list(shares.values()))
    return list(shares)[int(rng.choice(len(weights), p=weights / weights.sum()))]


def signal_junction(key: str, streets: str, split: str) -> SignalJunction:
    """The junction of a key; its heads are designs of the split."""
    rng = rng_for(0, key, "junction", 0)
    kind = STREETS[streets]
    plan = _plan(rng, kind)
    colour = POLES[int(rng.integers(len(POLES)))]
    layout = _pick(rng, kind.layouts)
    builder = _Builder(plan.road, kind, _fleet(rng, designs(streets, split)), colour, rng)
    holders = [builder.holder(words) for words in layout]
    others = list(builder.others())
    things = [holder.thing for holder in (*holders, *others)]
    for thing in things:
        plan.take(thing.x, thing.y, 0.7)
    things += [*pedestrian_lights(plan, rng_for(0, key, "walk", 0)), *lit_signs(plan, rng_for(0, key, "signs", 0))]
    for furnish in (planning.buildings, planning.lamps, planning.furniture, planning.greenery, planning.parked):
        things += planning.placed(plan, furnish(plan, rng_for(0, key, furnish.__name__, 0)))
    scene = planning.assemble(key, plan, things, azimuth=float(rng.uniform(-np.pi, np.pi)))
    ours, theirs = (tuple(mount for holder in group for mount in holder.mounts) for group in (holders, others))
    return SignalJunction(scene, plan, streets, ours, theirs)


def _plan(rng: Random, kind: Streets) -> ScenePlan:
    style = _pick(rng, kind.styles)
    base = planning.draw_plan(rng, style)
    profile = replace(
        base.road.profile,
        lanes=_pick(rng, kind.lanes),
        lane=float(rng.uniform(*kind.lane)),
        bay=2.2 if style == "city" and rng.random() < 0.35 else 0.0,
        yellow=bool(rng.random() < kind.yellow),
        solid=bool(rng.random() < 0.5),
    )
    floor = replace(base.floor, edge_lines=bool(rng.random() < 0.6))
    return replace(base, road=_road(rng, kind, profile), floor=floor, ahead="none")  # nothing is parked on our lanes


def _road(rng: Random, kind: Streets, profile: CrossSection) -> Road:
    bend = winding(rng, 60.0)
    place = np.arange(len(bend)) - BEHIND
    bend *= np.clip((np.abs(place - AT) - STRAIGHT) / 40 + 0.12, 0.12, 1)
    arms = [(True, True), (True, True), (True, False), (False, True)][int(rng.integers(4))]
    half = float(rng.uniform(*kind.half))
    junction = Junction(AT, np.pi / 2 + float(rng.uniform(-0.1, 0.1)), half, *arms, zebra=bool(rng.random() < 0.8))
    before, after = AT - half - ZEBRA[0], AT + half + ZEBRA[1]
    marked = rng.random() < 0.85
    stops = ((before - STOP_BEFORE if marked else AT - half - 2.4, 1), (after + 3.6 + 1.2, -1))
    return Road(bend, profile, (junction,), (before, after) if marked else (), stops)


def _fleet(rng: Random, known: Sequence[HeadDesign]) -> tuple[HeadDesign, ...]:
    """The designs of a junction: one for posts and one for arms, of which the second is mounted sideways more often."""
    upright, flat = ([each for each in known if each.flat is side] for side in (False, True))
    first = upright[int(rng.integers(len(upright)))] if rng.random() < 0.8 else flat[int(rng.integers(len(flat)))]
    second = known[int(rng.integers(len(known)))]
    return first, first if rng.random() < 0.35 else second


@dataclass(frozen=True, eq=False)
class _Builder:
    """Builds the holders of a junction."""

    road: Road
    kind: Streets
    fleet: tuple[HeadDesign, ...]
    colour: Colour
    rng: Random

    @property
    def _junction(self) -> Junction:
        return self.road.junctions[0]

    def _foot(self, s: float, side: int) -> Foot:
        return signal_posts.beyond_kerb(self.road, s, side, OFF_ROAD)

    def _s(self, near: bool) -> float:
        stop = self.road.stops[0][0]
        edge = self._junction.s + self._junction.half
        return stop + float(self.rng.uniform(0.0, 1.2)) if near else edge + float(self.rng.uniform(1.5, 4.5))

    def holder(self, words: str) -> Holder:
        """The holder that words such as "arm far left" describe."""
        near, left = "near" in words, "left" in words
        ours = self.road.side
        foot = self._foot(self._s(near), -ours if left else ours)
        if words.startswith(("near", "far")):
            return self._post(foot, left)
        up = float(self.rng.uniform(*self.kind.arm))
        heads = list(self._over_lanes(foot))
        if words.startswith("arm"):
            return signal_posts.mast_arm(foot, heads, up=up, colour=self.colour)
        opposite = self._foot(self._s(near), ours if left else -ours)
        across = float(np.hypot(opposite.x - foot.x, opposite.y - foot.y)) * (-ours if not left else ours)
        build = signal_posts.gantry if words.startswith("gantry") else signal_posts.span_wire
        return build(foot, heads, up=up, across=across, colour=self.colour)

    def _askew(self) -> float:
        return float(self.rng.normal(0, 0.05))

    def _post(self, foot: Foot, left: bool) -> Holder:
        up = float(self.rng.uniform(*self.kind.post))
        aspect = "ball" if self.rng.random() < 0.75 else "left" if left else str(self.rng.choice(["straight", "right"]))
        heads = [Hung(self.fleet[0], aspect, 0.0, self._askew())]
        if up > 3.2 and not self.fleet[0].flat and self.rng.random() < 0.3:
            heads.append(Hung(self.fleet[0], "ball" if aspect != "ball" else "right", 0.0, self._askew()))
        return signal_posts.post(foot, heads, up=up, colour=self.colour)

    def _over_lanes(self, foot: Foot) -> Iterator[Hung]:
        """A head over each of our lanes, measured from the foot of its holder."""
        lanes = self.road.profile.lanes
        base = float(self.road.locate(np.array([foot.x]), np.array([foot.y]))[0, 1])
        for lane in range(lanes):
            turns = {0: "left", lanes - 1: "right"} if lanes > 1 else {}
            aspect = turns.get(lane, "straight") if self.rng.random() < 0.3 else "ball"
            at = self.road.lane_middle(lane) + float(self.rng.normal(0, 0.25))
            yield Hung(self.fleet[1], aspect, at - base, self._askew())
        if lanes == 1 and self.rng.random() < 0.6:
            yield Hung(self.fleet[1], "ball", self.road.lane_middle(0) * 2.1 - base, self._askew())

    def others(self) -> Iterator[Holder]:
        """Posts for the traffic that comes towards us, seen from behind, and for that of the crossing road."""
        ours, stop = self.road.side, self.road.stops
        if self.rng.random() < 0.75:
            foot = self._foot(stop[1][0] + 0.5, -ours)
            yield self._single(replace(foot, yaw=foot.yaw + float(np.pi)))
        for arm, sign in ((self._junction.left, 1), (self._junction.right, -1)):
            if arm and self.rng.random() < 0.7:
                at = self._junction.s + sign * ours * (self._junction.half + 1.2)  # on the right of their lane
                foot = self._foot(at, sign)
                yield self._single(replace(foot, yaw=foot.yaw - sign * float(np.pi) / 2))

    def _single(self, foot: Foot) -> Holder:
        up = float(self.rng.uniform(*self.kind.post))
        return signal_posts.post(foot, [Hung(self.fleet[0], "ball", 0.0, self._askew())], up=up, colour=self.colour)
