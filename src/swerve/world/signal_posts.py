"""What holds the heads of traffic lights: posts, mast arms, gantries and span wires, and where heads hang on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, mesh
from swerve.world.road import Road
from swerve.world.scene import Thing
from swerve.world.shapes import Point, box, lathe, tube
from swerve.world.signal_heads import HeadDesign

Colour = tuple[float, float, float]
BEHIND = 0.1  # metres from the back of a head to the middle of what holds it
Spot = tuple[float, float, float]


@dataclass(frozen=True)
class Foot:
    """A foot on the ground and the direction of traffic there; things are placed `ahead` and `left` of it."""

    x: float
    y: float
    yaw: float

    def at(self, ahead: float, left: float, up: float) -> Spot:
        """A place in the world."""
        cos, sin = float(np.cos(self.yaw)), float(np.sin(self.yaw))
        return self.x + cos * ahead - sin * left, self.y + sin * ahead + cos * left, up


def beyond_kerb(road: Road, s: float, side: int, off: float) -> Foot:
    """The first place `off` metres beyond the kerb, on one side of the road; kerbs recede at a junction."""
    for out in np.arange(off, 14.0, 0.25):
        x, y, heading = road.at(s, side * (road.profile.half + float(out)))
        if road.locate(np.array([x]), np.array([y]))[0, 2] >= off:
            break
    return Foot(float(x), float(y), float(heading))


@dataclass(frozen=True)
class Mount:
    """A place for a head: its design, what its lamps show, the place of its middle and the direction of its traffic."""

    design: HeadDesign
    aspect: str
    place: Spot
    yaw: float

    @property
    def phase(self) -> str:
        """The traffic for which it shines: heads of a phase are in the same state."""
        return "through" if self.aspect in ("ball", "straight") else self.aspect


@dataclass(frozen=True, eq=False)
class Holder:
    """A post or an arm, and the mounts on it."""

    thing: Thing
    mounts: tuple[Mount, ...]


@dataclass(frozen=True)
class Hung:
    """A head to hang on a holder: its design, aspect and place to the left of the foot, and by how much it is askew."""

    design: HeadDesign
    aspect: str
    left: float
    askew: float = 0.0


def post(foot: Foot, heads: Sequence[Hung], *, up: float, colour: Colour) -> Holder:
    """A post with heads on top of each other, the highest one's middle `up` metres above the ground."""
    mounts, brackets = [], []
    for hung in heads:
        mounts.append(_mount(foot, hung, up))
        brackets += list(_brackets(hung, up, 0.0))
        up -= 2 * hung.design.size[1] + 0.35
    top = max(mount.place[2] + mount.design.size[1] for mount in mounts)
    pole = lathe([(0.11, 0.0), (0.1, 0.5), (0.062, 0.56), (0.056, top + 0.06), (0.03, top + 0.1), (0.0, top + 0.1)], 10)
    return Holder(_hardware(foot, [pole, *brackets], colour), tuple(mounts))


def mast_arm(foot: Foot, heads: Sequence[Hung], *, up: float, colour: Colour) -> Holder:
    """A mast with a tapered arm over the road, rising a little, on which the heads hang."""
    end = max((hung.left for hung in heads), key=abs)
    end += 0.5 * float(np.sign(end))
    mast = lathe([(0.19, 0.0), (0.19, 0.25), (0.145, 0.3), (0.1, up + 0.75), (0.0, up + 0.78)], 12)
    lift = 0.02 * abs(end)
    parts = [mast, tube((0, 0, up), (0, end, up + lift), radii=(0.085, 0.045), sides=10, capped=True)]
    for hung in heads:
        parts += list(_brackets(hung, up + lift * hung.left / end, hung.left))
    mounts = [_mount(foot, hung, up + lift * hung.left / end) for hung in heads]
    return Holder(_hardware(foot, parts, colour), tuple(mounts))


def gantry(foot: Foot, heads: Sequence[Hung], *, up: float, across: float, colour: Colour) -> Holder:
    """Two masts and a lattice beam over the whole road."""
    masts = [
        lathe([(0.2, 0.0), (0.14, 0.3), (0.12, up + 0.4), (0.0, up + 0.42)], 10) + np.array([0, y, 0]) for y in (0.0, across)
    ]
    low, high = up - 0.22, up + 0.28
    beams = [tube((0, 0, z), (0, across, z), radii=(0.05, 0.05), sides=6) for z in (low, high)]
    steps = np.linspace(0, across, 2 * max(int(abs(across) / 1.6), 2) + 1)
    zigzag = [(0.0, float(y), (low, high)[number % 2]) for number, y in enumerate(steps)]
    struts = [tube(a, b, radii=(0.022, 0.022), sides=4) for a, b in pairwise(zigzag)]
    for hung in heads:
        struts += list(_brackets(hung, up, hung.left))
    return Holder(_hardware(foot, [*masts, *beams, *struts], colour), tuple(_mount(foot, hung, up) for hung in heads))


def span_wire(foot: Foot, heads: Sequence[Hung], *, up: float, across: float, colour: Colour) -> Holder:
    """Two masts and a sagging wire, from which the heads hang."""
    mast = lathe([(0.16, 0.0), (0.1, up + 1.4), (0.0, up + 1.42)], 10)
    masts = [mast, mast + np.array([0, across, 0])]
    share = np.linspace(0, 1, 13)
    wire = np.stack([share * 0, share * across, up + 1.2 - 0.5 * (1 - (2 * share - 1) ** 2)], axis=1)
    cables = [tube(a, b, radii=(0.014, 0.014), sides=4) for a, b in pairwise(wire)]
    mounts = []
    for hung in heads:
        sag = up + 1.2 - 0.5 * (1 - (2 * hung.left / across - 1) ** 2)
        middle = sag - 0.25 - hung.design.size[1]
        mounts.append(_mount(foot, hung, middle))
        cables.append(tube((-_gap(hung) / 2, hung.left, middle), (0, hung.left, sag), radii=(0.02, 0.02), sides=5))
    return Holder(_hardware(foot, [*masts, *cables], colour), tuple(mounts))


def _gap(hung: Hung) -> float:
    """Metres from the front of a head to the middle of what holds it."""
    return hung.design.deep * hung.design.lens + BEHIND


def _mount(foot: Foot, hung: Hung, up: float) -> Mount:
    return Mount(hung.design, hung.aspect, foot.at(-_gap(hung), hung.left, up), foot.yaw + hung.askew)


def _brackets(hung: Hung, up: float, left: float) -> Iterator[Array]:
    """What joins a head to its holder."""
    reach = 0.6 * hung.design.size[1]
    for z in (up - reach, up + reach):
        start: Point = (0.0, left, z)
        yield tube(start, (-BEHIND - 0.03, left, z), radii=(0.022, 0.022), sides=5)
    yield box((-0.06, left - 0.03, up - reach - 0.05), (0.02, left + 0.03, up + reach + 0.05))


def _hardware(foot: Foot, parts: Sequence[Array], colour: Colour) -> Thing:
    body: Mesh = mesh(np.concatenate(parts), colour, Material.METAL, smooth=True)
    return Thing("signal-post", body, foot.x, foot.y, foot.yaw)
