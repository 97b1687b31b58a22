"""From a key to a scene: its road, and the things that stand and move along it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from swerve.core.seeding import rng_for
from swerve.world import roadside
from swerve.world.footprint import TakenGround, size_of
from swerve.world.ground import KERB_WIDTH, Floor
from swerve.world.mesh import Mesh
from swerve.world.models import model
from swerve.world.pavement import Pavement
from swerve.world.road import AHEAD, BEHIND, CrossSection, Junction, Road, winding
from swerve.world.scene import Scene, Thing, Track

Random = np.random.Generator
Colour = tuple[float, float, float]
STYLES = ("city", "suburb", "avenue", "country")
FIRST, LAST = -BEHIND + 12, AHEAD - 12
SIDEWAYS = 4.0  # metres per second squared: nobody takes a bend faster
WALKER_TRIES = 12  # places tried for someone who walks
# Street furniture that stands alone: the most of it, and metres from the far edge of the pavement.
STREET_FURNITURE = (
    ("bin", 3, 0.5),
    ("bench", 2, 0.5),
    ("bus-stop", 1, 0.9),
    ("post-box", 1, 0.4),
    ("cabinet", 2, 0.3),
    ("planter", 3, 0.5),
    ("hydrant", 1, 0.4),
    ("parking-meter", 2, 0.4),
    ("cycle-stand", 2, 0.6),
    ("pillar", 1, 0.8),
)
ONCOMING = 1.95  # metres from the middle of the oncoming lane to the first parked vehicle: a bus passes


@dataclass(frozen=True, eq=False)
class ScenePlan:
    """A road and its surroundings before anything is placed; keeps track of occupied ground."""

    style: str
    urban: float  # 0 fields, 1 a dense town
    road: Road
    floor: Floor
    start: float  # where our drive begins
    speed: float
    ahead: str  # what is in our way: "none", "parked", "cyclist", or a "vehicle" driving ahead
    taken: TakenGround = field(default_factory=TakenGround)

    def beside(self, s: float, side: int, out: float) -> tuple[float, float, float]:
        """x, y and yaw of a model `out` metres beyond the kerb, its -y side towards the road."""
        x, y, heading = self.road.at(s, side * (self.road.profile.half + KERB_WIDTH + out))
        return float(x), float(y), float(heading) + (0.0 if side > 0 else np.pi)

    def free(self, x: float, y: float, radius: float, *, off: float = 0.6) -> bool:
        """Whether a circle is `off` metres clear of every carriageway, and of occupied ground."""
        if self.road.locate(np.array([x]), np.array([y]))[0, 2] < radius + off:
            return False
        return self.taken.is_free(x, y, radius)

    def take(self, x: float, y: float, radius: float) -> None:
        """Mark a circle of ground as occupied."""
        self.taken.take(x, y, radius)

    @property
    def walk(self) -> float:
        """The pavement's width, or the strip of grass in its place."""
        return self.road.profile.walk


def scene(key: str) -> Scene:
    """The scene of a key; the same key always gives the same scene."""
    rng = rng_for(0, key, "plan", 0)
    plan = draw_plan(rng, str(rng.choice(STYLES, p=[0.34, 0.28, 0.18, 0.2])))
    things: list[Thing] = []
    for furnish in FURNISHERS:  # each has its own generator, seeded by its name, so that adding one changes none before it
        things += placed(plan, furnish(plan, rng_for(0, key, furnish.__name__, 0)))
    return assemble(key, plan, things, azimuth=float(rng.uniform(-np.pi, np.pi)))


def placed(plan: ScenePlan, things: Iterable[Thing]) -> Iterator[Thing]:
    """The things, each marking the ground that it stands on before the next is drawn."""
    for thing in things:
        yield thing
        if thing.track is None and thing.kind != "building":  # buildings have marked their ground before they are built
            plan.taken.stand(thing)


def assemble(key: str, plan: ScenePlan, things: Sequence[Thing], *, azimuth: float) -> Scene:
    """The scene of a plan and all its things."""
    lamps = [_lamp_light(thing) for thing in things if thing.kind == "lamp"]
    return Scene(
        key=key,
        road=plan.road,
        floor=plan.floor,
        things=tuple(things),
        lamps=np.array(lamps, np.float32).reshape(-1, 3),
        azimuth=azimuth,
        urban=plan.urban,
        start=plan.start,
        speed=plan.speed,
    )


def draw_plan(rng: Random, style: str) -> ScenePlan:
    """A road and its ground in one of the `STYLES`."""
    urban = {"city": 0.9, "suburb": 0.45, "avenue": 0.7, "country": 0.08}[style] + rng.uniform(-0.08, 0.1)
    tightest = {"city": 19.0, "suburb": 17.0, "avenue": 36.0, "country": 22.0}[style]
    profile = CrossSection(
        lanes=2 if style == "avenue" else 1,
        lane=float(rng.uniform(3.1, 3.6)),
        bay=2.2 if style == "city" and rng.random() < 0.5 else 0.0,
        walk=float(rng.uniform(2.0, 4.0)) if style != "country" else 1.5,
        yellow=bool(rng.random() < 0.4),
        solid=bool(rng.random() < 0.3),
    )
    junctions = tuple(_junctions(rng, style))
    bends = winding(rng, tightest)
    road = Road(bends, profile, junctions, tuple(_crossings(rng, style, junctions)))
    floor = Floor(
        asphalt=float(rng.uniform(0.075, 0.15)),
        wear=float(rng.uniform(0.05, 0.6)),
        cracks=float(rng.uniform(0, 1)),
        verge=_vary_colour(rng, (0.075, 0.12, 0.035), 0.8, 1.25),
        dry=_vary_colour(rng, (0.2, 0.17, 0.085), 0.75, 1.15),
        paved=style != "country",
        town=urban,
        edge_lines=bool(style in ("country", "avenue") or rng.random() < 0.6),
        dash=float(rng.uniform(7, 12)),
        shift=(float(rng.uniform(0, 500)), float(rng.uniform(0, 500))),
    )
    fast = {"city": 9.0, "suburb": 9.0, "avenue": 12.0, "country": 12.0}[style] + float(rng.uniform(-1.5, 1.0))
    slow = float(np.sqrt(SIDEWAYS / np.abs(bends).max()))
    ahead = str(rng.choice(["none", "parked", "cyclist", "vehicle"], p=[0.2, 0.38, 0.2, 0.22]))
    return ScenePlan(style, urban, road, floor, float(rng.uniform(0, 60)), min(fast, slow), ahead)


def _vary_colour(rng: Random, colour: Colour, least: float, most: float) -> Colour:
    red, green, blue = (float(part * factor) for part, factor in zip(colour, rng.uniform(least, most, 3), strict=True))
    return red, green, blue


def _junctions(rng: Random, style: str) -> Iterator[Junction]:
    s = float(rng.uniform(10, 140))
    while s < AHEAD - 30:
        if rng.random() < {"city": 0.9, "suburb": 0.75, "avenue": 0.6, "country": 0.3}[style]:
            left, right = [(True, True), (True, False), (False, True)][int(rng.integers(3))]
            yield Junction(s, np.pi / 2 + float(rng.uniform(-0.15, 0.15)), float(rng.uniform(2.9, 4.0)), left, right)
        s += float(rng.uniform(70, 150))


def _crossings(rng: Random, style: str, junctions: tuple[Junction, ...]) -> Iterator[float]:
    if style == "country":
        return
    for junction in junctions:
        if rng.random() < 0.45:
            yield junction.s - junction.half - 9.0
    if rng.random() < 0.3:
        at = float(rng.uniform(15, 120))
        if all(abs(at - junction.s) > junction.half + 14 for junction in junctions):
            yield at


def _static_thing(kind: str, mesh: Mesh, place: tuple[float, float, float], turn: float = 0.0) -> Thing:
    return Thing(kind, mesh, place[0], place[1], place[2] + turn)


def buildings(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Rows of houses along the road and its side roads, and larger ones behind."""
    if plan.style == "country":
        yield from _farms(plan, rng)
        return
    for side in (1, -1):
        s = FIRST + float(rng.uniform(0, 10))
        setback = plan.walk + float(rng.uniform(0.2, 1.5) if plan.urban > 0.6 else rng.uniform(4, 9))
        while s < LAST:
            width, depth, body = _random_building(plan, rng)
            place = plan.beside(s + width / 2, side, setback + depth / 2 + float(rng.uniform(0, 1.5)))
            if _fits(plan, place, width, depth) and rng.random() < 0.25 + 0.75 * plan.urban:
                yield _static_thing("building", body, place)
            s += width + float(rng.choice([0.2, rng.uniform(2, 9)], p=[plan.urban * 0.6, 1 - plan.urban * 0.6]))
    yield from _along_side_roads(plan, rng)
    yield from _skyline(plan, rng)


def _random_building(plan: ScenePlan, rng: Random) -> tuple[float, float, Mesh]:
    small = rng.random() > plan.urban + 0.1
    return _tinted_and_measured(model("house" if small else "block" if plan.urban > 0.6 else "villa", rng), rng)


def _tinted_and_measured(body: Mesh, rng: Random) -> tuple[float, float, Mesh]:
    """Width, depth and a randomly tinted mesh."""
    low, high = body.bounds()
    tint = rng.uniform(0.75, 1.12) * rng.uniform(0.95, 1.05, 3)
    return float(high[0] - low[0]), float(high[1] - low[1]), body.tinted(tint)


def _fits(plan: ScenePlan, place: tuple[float, float, float], width: float, depth: float) -> bool:
    x, y, yaw = place
    half = np.array([[a * width / 2, b * depth / 2] for a in (-1, 0, 1) for b in (-1, 1)])
    turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
    corners = half @ turn + [x, y]
    if (plan.road.locate(corners[:, 0], corners[:, 1])[:, 2] < plan.walk).any():
        return False
    radius = min(width, depth) / 2
    spots = [(x + np.cos(yaw) * shift, y + np.sin(yaw) * shift) for shift in _circle_offsets(width, depth)]
    if not all(plan.free(*spot, radius, off=0.0) for spot in spots):
        return False
    for spot in spots:
        plan.take(*spot, radius)
    return True


def _circle_offsets(width: float, depth: float) -> list[float]:
    """The offsets of circles that cover a long footprint."""
    spare = max(0.0, width - depth) / 2
    return [0.0] if spare == 0 else [-spare, 0.0, spare]


def _along_side_roads(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    for junction in plan.road.junctions:
        x0, y0, heading = plan.road.at(junction.s)
        for arm, sign in ((junction.left, 1), (junction.right, -1)):
            turn = float(heading) + junction.angle + (0.0 if sign > 0 else np.pi)
            for side in (1, -1):
                out = plan.road.profile.half + 8.0
                while arm and out < 95:
                    width, depth, body = _random_building(plan, rng)
                    across = side * (junction.half + plan.walk + 1.0 + depth / 2)
                    along = out + width / 2
                    x = float(x0 + np.cos(turn) * along - np.sin(turn) * across)
                    y = float(y0 + np.sin(turn) * along + np.cos(turn) * across)
                    place = (x, y, turn + (0.0 if side > 0 else np.pi))
                    if _fits(plan, place, width, depth):
                        yield _static_thing("building", body, place)
                    out += width + float(rng.uniform(0.5, 8))


def _skyline(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    for _ in range(int(26 * plan.urban)):
        s, side = float(rng.uniform(20, AHEAD + 40)), int(rng.choice([-1, 1]))
        width, depth, body = _tinted_and_measured(model("tower" if plan.urban > 0.6 else "block", rng), rng)
        place = plan.beside(s, side, float(rng.uniform(26, 58)) + depth / 2)
        if _fits(plan, place, width, depth):
            yield _static_thing("building", body, place)


def _farms(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    for _ in range(int(rng.integers(1, 6))):
        place = plan.beside(float(rng.uniform(0, LAST)), int(rng.choice([-1, 1])), float(rng.uniform(14, 45)))
        if _fits(plan, place, 12, 10):
            yield _static_thing("building", model("house", rng), place, float(rng.uniform(-0.6, 0.6)))


def greenery(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Street trees in a row, trees and bushes in gardens and fields, hedges and woods."""
    kinds = [model("tree", rng) for _ in range(4)] + [model("conifer", rng) for _ in range(2)]
    if rng.random() < 0.25 + 0.5 * (plan.style in ("city", "avenue")):
        yield from _street_trees(plan, rng, [model("street-tree", rng) for _ in range(2)])
    count = int({"city": 14, "avenue": 26, "suburb": 44, "country": 70}[plan.style] * rng.uniform(0.6, 1.4))
    for _ in range(count):
        out = plan.walk + float(rng.uniform(1.5, 10 if rng.random() < 0.6 else 50))
        place = plan.beside(float(rng.uniform(FIRST, LAST)), int(rng.choice([-1, 1])), out)
        if plan.free(place[0], place[1], 1.6, off=plan.walk):
            yield _tree(kinds, place, rng)
    for _ in range(int({"city": 4, "avenue": 10, "suburb": 24, "country": 22}[plan.style] * rng.uniform(0.4, 1.3))):
        place = plan.beside(
            float(rng.uniform(FIRST, LAST)), int(rng.choice([-1, 1])), plan.walk + float(rng.uniform(0.8, 7))
        )
        if plan.free(place[0], place[1], 1.0, off=plan.walk * 0.9):
            hedge = rng.random() < 0.4 and plan.style == "suburb"
            yield _static_thing(
                "bush", roadside.hedge(rng, float(rng.uniform(4, 9))) if hedge else model("bush", rng), place
            )


def _tree(kinds: list[Mesh], place: tuple[float, float, float], rng: Random) -> Thing:
    grown = kinds[int(rng.integers(len(kinds)))]
    size = float(rng.uniform(0.75, 1.3))
    return _static_thing(
        "tree", grown.scaled(size, size, size * float(rng.uniform(0.9, 1.15))), place, float(rng.uniform(0, 6.28))
    )


def _street_trees(plan: ScenePlan, rng: Random, kinds: list[Mesh]) -> Iterator[Thing]:
    step, out = float(rng.uniform(9, 18)), min(0.9, plan.walk * 0.4)
    for side in (1, -1):
        if rng.random() < 0.75:
            for s in np.arange(FIRST + float(rng.uniform(0, step)), LAST, step):
                place = plan.beside(float(s), side, out)
                near = plan.road.near_junction(float(s), 9.0) or not plan.free(place[0], place[1], 0.5, off=0.2)
                if not near and rng.random() < 0.85:
                    yield _tree(kinds, place, rng)


def lamps(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Street lamps on one side, or alternating on both."""
    if plan.style == "country" and rng.random() < 0.75:
        return
    step, both = float(rng.uniform(22, 34)), rng.random() < 0.5
    side = int(rng.choice([-1, 1]))
    lamp = model("lamp", rng)
    for number, s in enumerate(np.arange(FIRST + float(rng.uniform(0, step)), LAST, step)):
        here = side * (-1) ** number if both else side
        if not plan.road.near_junction(float(s), 4.0):
            yield _static_thing("lamp", lamp, plan.beside(float(s), here, 0.4))


def _lamp_light(thing: Thing) -> tuple[float, float, float]:
    x, y, z = roadside.lamp_light(thing.mesh)
    return (
        thing.x + np.cos(thing.yaw) * x - np.sin(thing.yaw) * y,
        thing.y + np.sin(thing.yaw) * x + np.cos(thing.yaw) * y,
        z,
    )


def furniture(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Signs, billboards, bins, benches, bollards, bus stops, fences, rails and power poles."""
    for _ in range(int(rng.integers(3, 9))):
        s, ours = float(rng.uniform(8, LAST)), rng.random() < 0.65
        x, y, heading = plan.road.at(s, (1 if ours else -1) * plan.road.side * (plan.road.profile.half + 0.9))
        board = Thing("sign", model("sign", rng), float(x), float(y), float(heading) + (0.0 if ours else np.pi))
        if not plan.road.near_junction(s, 2.0) and plan.taken.has_room(board, 0.3):
            yield board
    for _ in range(int(rng.integers(0, 3))):
        s, side = float(rng.uniform(25, LAST)), int(rng.choice([-1, 1]))
        x, y, heading = plan.road.at(s, side * (plan.road.profile.half + plan.walk + float(rng.uniform(2.5, 6))))
        if plan.free(float(x), float(y), 2.0):
            yield Thing("billboard", model("billboard", rng), float(x), float(y), float(heading) - side * 0.25)
    if plan.style == "country":
        yield from _country_furniture(plan, rng)
        return
    yield from _bollards(plan, rng)
    for kind, most, out in STREET_FURNITURE:
        for _ in range(int(rng.integers(0, most + 1))):
            place = plan.beside(float(rng.uniform(4, LAST)), int(rng.choice([-1, 1])), plan.walk - out)
            piece = _static_thing("furniture", model(kind, rng), place)
            if not plan.road.near_junction(_along(plan, piece), 4.0) and plan.taken.has_room(piece, 0.3):
                yield piece


def _along(plan: ScenePlan, thing: Thing) -> float:
    """`s` of a static thing."""
    return float(plan.road.locate(np.array([thing.x]), np.array([thing.y]))[0, 0])


def _bollards(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Rows of equal bollards along the kerb."""
    for _ in range(int(rng.integers(0, 3))):
        body, side, step = model("bollard", rng), int(rng.choice([-1, 1])), float(rng.uniform(1.3, 2.2))
        start = float(rng.uniform(4, LAST - 25))
        for s in start + step * np.arange(int(rng.integers(4, 12))):
            post = _static_thing("furniture", body, plan.beside(float(s), side, 0.25))
            if not plan.road.near_junction(float(s), 7.0) and not _on_crossing(plan, s) and plan.taken.has_room(post, 0.2):
                yield post


def _country_furniture(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    side, out = int(rng.choice([-1, 1])), float(rng.uniform(4, 9))
    for s in np.arange(FIRST, LAST, 34.0):
        place = plan.beside(float(s), side, out)
        if plan.free(place[0], place[1], 0.3):
            yield _static_thing("pole", model("power-pole", rng), place)
    if rng.random() < 0.55:
        start, side, rail = float(rng.uniform(0, 120)), int(rng.choice([-1, 1])), rng.random() < 0.5
        for s in np.arange(start, start + 80, 4.0):
            place = plan.beside(float(s), side, 0.5 if rail else 3.0)
            if plan.free(place[0], place[1], 0.2, off=0.2):
                yield _static_thing("fence", roadside.guard_rail(4.0) if rail else roadside.fence(rng, 4.0), place)


def parked(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Vehicles at the kerb: in bays if there are any, else partly on our lane, so that a driver must pass them."""
    profile = plan.road.profile
    if profile.bay:
        for side in (1, -1):
            s = float(rng.uniform(-30, 0))
            while s < LAST:
                if rng.random() < 0.55 and not plan.road.near_junction(s, 10.0) and not _on_crossing(plan, s):
                    yield from _parked(plan, rng, s, side, float(rng.normal(-1.15, 0.06)), long=False)
                s += 6.2
        return
    s = plan.start + float(rng.uniform(9, 40))
    while s < LAST:
        ours = rng.random() < 0.65
        out = float(rng.uniform(-0.7, -0.1)) if ours else float(rng.uniform(0.0, 0.4))  # oncoming traffic does not swerve
        wanted = plan.ahead == "parked" if ours else rng.random() < 0.5
        if wanted and not plan.road.near_junction(s, 10.0) and not _on_crossing(plan, s):
            yield from _parked(plan, rng, s, plan.road.side if ours else -plan.road.side, out)
        s += float(rng.uniform(24, 55))


def _on_crossing(plan: ScenePlan, s: float) -> bool:
    return any(-6.0 < s - crossing < 9.0 for crossing in plan.road.crossings)


def _parked(plan: ScenePlan, rng: Random, s: float, side: int, out: float, *, long: bool = True) -> Iterator[Thing]:
    """A vehicle with its middle `out` metres beyond the kerb, if nothing stands there."""
    kind, body = _vehicle(rng, (0.72, 0.18, 0.02, 0.08) if long else (0.85, 0.15, 0.0, 0.0))
    ours, d = side == plan.road.side, plan.road.profile.half + out
    if long and not ours:
        d = max(d, abs(plan.road.lane_middle()) + ONCOMING + size_of(body)[1] / 2)
    x, y, heading = plan.road.at(s, side * d)
    yaw = float(heading) + (0.0 if ours else np.pi) + float(rng.normal(0, 0.015))
    vehicle = Thing(kind, body.unlit(), float(x), float(y), yaw)
    if plan.taken.has_room(vehicle, 0.15):
        yield vehicle


def _vehicle(rng: Random, shares: tuple[float, float, float, float]) -> tuple[str, Mesh]:
    kind = str(rng.choice(["car", "van", "bus", "truck"], p=shares))
    return kind, model(kind, rng)


def traffic(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """Vehicles ahead of us and oncoming, and cyclists near the kerb."""
    road = plan.road
    busy = rng.uniform(0.2, 1.0)
    room = (
        0.3 if plan.ahead in ("parked", "cyclist") and road.profile.lanes == 1 else 0.0
    )  # metres that oncoming vehicles leave us
    for lane in range(road.profile.lanes):
        middle = road.lane_middle(lane) + float(rng.normal(0, 0.12))
        speed = plan.speed * float(rng.uniform(1.0, 1.2))  # the same for a whole lane, so that vehicles keep their distance
        s = plan.start + float(rng.uniform(16, 50))
        ours = lane == road.profile.lanes - 1
        # No vehicle drives beside us where we must pass parked vehicles or cyclists.
        while s < LAST and (plan.ahead == "vehicle" or (not ours and plan.ahead == "none")):
            yield _driving(rng, Track(s, middle, speed))
            s += float(rng.uniform(22, 60) / busy)
        speed = plan.speed * float(rng.uniform(0.8, 1.2))
        s = plan.start + float(rng.uniform(6, 50))
        while s < LAST + 250:
            yield _driving(rng, Track(s, -middle - road.side * room, -speed))
            s += float(rng.uniform(18, 60) / busy)
    if plan.ahead == "cyclist":
        edge = road.side * (road.profile.lanes * road.profile.lane - 0.35)
        track = Track(plan.start + float(rng.uniform(8, 60)), edge, float(rng.uniform(3.0, 5.0)))
        yield Thing("cyclist", model("cyclist", rng), 0.0, 0.0, 0.0, track)


def _driving(rng: Random, track: Track) -> Thing:
    kind, body = _vehicle(rng, (0.72, 0.13, 0.06, 0.09))
    return Thing(kind, body, 0.0, 0.0, 0.0, track)


def walkers(plan: ScenePlan, rng: Random) -> Iterator[Thing]:
    """People on the pavements, who walk into nothing during the drive, and some who stand there."""
    if plan.style == "country":
        return
    pavement = Pavement(plan.road, plan.taken.circles)
    for _ in range(int(rng.integers(1, 6 + round(12 * plan.urban)))):
        if rng.random() < 0.25:
            yield from _bystander(plan, rng, pavement)
            continue
        for _ in range(WALKER_TRIES):
            d = int(rng.choice([-1, 1])) * (plan.road.profile.half + KERB_WIDTH + _on_pavement(plan, rng))
            speed = float(rng.choice([-1, 1]) * rng.uniform(0.8, 1.6))
            track = Track(plan.start + float(rng.uniform(4, 130)), d, speed)
            if pavement.take(track):
                yield Thing("pedestrian", model("walker", rng), 0.0, 0.0, 0.0, track)
                break


def _on_pavement(plan: ScenePlan, rng: Random) -> float:
    """A distance beyond the kerb."""
    return float(rng.uniform(0.3, max(0.45, plan.walk - 0.55)))


def _bystander(plan: ScenePlan, rng: Random, pavement: Pavement) -> Iterator[Thing]:
    s, side = plan.start + float(rng.uniform(6, 110)), int(rng.choice([-1, 1]))
    out, turn = _on_pavement(plan, rng), float(rng.uniform(-np.pi, np.pi))
    person = _static_thing("pedestrian", model("bystander", rng), plan.beside(s, side, out), turn)
    where = Track(s, side * (plan.road.profile.half + KERB_WIDTH + out), 0.0)
    if not plan.road.near_junction(s, 5.0) and pavement.take(where):
        yield person


FURNISHERS: tuple[Callable[[ScenePlan, Random], Iterator[Thing]], ...] = (
    buildings,
    lamps,
    furniture,
    greenery,
    parked,
    traffic,
    walkers,
)
