"""Heads of traffic lights: designs, split between training and test, and their meshes, which look to -x.

A head is built as its viewer sees it, in (right, up, towards the viewer), around its middle. Its triangles are the same in
all states: another state has other colours and materials only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from swerve.core.arguments import check_known
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.scene import Thing
from swerve.world.shapes import bevelled, box, facing_back, fan, net
from swerve.world.textures import hashed

Random = np.random.Generator
Colour = tuple[float, float, float]
LIGHT = "traffic-light"  # the kind of its things
COLOURS = ("red", "yellow", "green")
STATES = (*COLOURS, "off")
ASPECTS = ("ball", "left", "straight", "right")  # what a lamp shows
STREETS = ("A", "B")
SPLIT_OF = ("train", "train", "train", "val", "test")  # of three designs in a row: one stratum each
DESIGNS = 60  # of each set of streets
LINING = 0.975  # radius of a visor's inner side, of the outer one
SECTORS, RINGS = 14, (0.0, 0.3, 0.58, 0.82, 1.0)  # of a lens
# Housings: A has black, dark green, grey and bronze ones, B yellow, silver, white and blue-grey ones.
HOUSINGS: dict[str, tuple[Colour, ...]] = {
    "A": ((0.012, 0.012, 0.013), (0.03, 0.032, 0.034), (0.016, 0.042, 0.027), (0.075, 0.08, 0.085), (0.05, 0.036, 0.022)),
    "B": ((0.50, 0.30, 0.02), (0.33, 0.34, 0.35), (0.02, 0.021, 0.026), (0.56, 0.55, 0.52), (0.09, 0.115, 0.14)),
}
HOODS = ("cap", "tunnel", "cutaway")
SHELLS = ("slab", "cells", "rounded")
LENSES = ("smooth", "facets", "diodes")
# Emitted colours of the lamps, warmer and cooler ones, and the dark lenses.
LIT = {
    "red": ((1.0, 0.018, 0.012), (1.0, 0.045, 0.014)),
    "yellow": ((1.0, 0.40, 0.006), (1.0, 0.52, 0.012)),
    "green": ((0.015, 0.95, 0.36), (0.03, 0.90, 0.56)),
}
DARK = {"red": (0.045, 0.007, 0.006), "yellow": (0.048, 0.028, 0.006), "green": (0.007, 0.036, 0.022)}
FACE: Colour = (0.009, 0.009, 0.01)  # around arrows and in hoods
REFLECTIVE: Colour = (0.62, 0.45, 0.05)


@dataclass(frozen=True)
class HeadDesign:
    """A model of a head; lengths are in diameters of its lenses, if not in metres."""

    name: str
    flat: bool  # lamps side by side
    lens: float  # metres
    pitch: float  # between two lamps
    wide: float
    deep: float
    housing: int  # in `HOUSINGS`
    hood: str
    reach: float  # of the hood
    plate: float  # margin of the back plate; 0: there is none
    rim: bool  # a reflective border on the back plate
    shell: str
    pattern: str  # of the lenses
    tone: float  # 0: warmer, 1: cooler lamps

    @property
    def streets(self) -> str:
        """The set of streets on which it stands."""
        return self.name[0]

    @property
    def signature(self) -> tuple[object, ...]:
        """What tells designs apart at a glance; no two of the catalogue share it."""
        return self.streets, self.flat, self.housing, self.hood, self.plate > 0, self.rim, self.shell, self.pattern

    @property
    def size(self) -> tuple[float, float]:
        """Half the width and half the height of the housing in metres."""
        long, wide = self.lens * (self.pitch * 2 + self.wide) / 2, self.lens * self.wide / 2
        return (long, wide) if self.flat else (wide, long)

    def lamp(self, number: int) -> Array:
        """The middle of a lamp, seen from the front: red is on top or to the left."""
        along = (1 - number) * self.pitch * self.lens
        return np.array([-along, 0.0, 0.0] if self.flat else [0.0, along, 0.0])


@cache
def catalogue(streets: str) -> tuple[HeadDesign, ...]:
    """Every design of a set of streets; their signatures differ."""
    check_known("streets", streets, STREETS)
    found: dict[tuple[object, ...], HeadDesign] = {}
    draw = 0
    while len(found) < DESIGNS:
        design = _draw(streets, len(found), rng_for(0, streets, "signal head", draw))
        found.setdefault(design.signature, design)
        draw += 1
    return tuple(found.values())


def designs(streets: str, split: str) -> tuple[HeadDesign, ...]:
    """The designs of a split: those of training occur in no other."""
    return tuple(each for number, each in enumerate(catalogue(streets)) if SPLIT_OF[number // 3 % 5] == split)


def _draw(streets: str, number: int, rng: Random) -> HeadDesign:
    flat = number % 3 == 2 if streets == "A" else number % 3 != 0  # one in three, or two
    plated = rng.random() < (0.45 if streets == "A" else 0.3)
    return HeadDesign(
        name=f"{streets}{number:02d}",
        flat=flat,
        lens=float(rng.choice([0.21, 0.3], p=[0.2, 0.8])) * float(rng.uniform(0.97, 1.05)),
        pitch=float(rng.uniform(1.12, 1.26)),
        wide=float(rng.uniform(1.16, 1.4)),
        deep=float(rng.uniform(0.45, 0.75)),
        housing=int(rng.integers(len(HOUSINGS[streets]))),
        hood=HOODS[int(rng.integers(len(HOODS)))],
        reach=float(rng.uniform(0.55, 0.95)),
        plate=float(rng.uniform(0.25, 0.5)) if plated else 0.0,
        rim=bool(plated and rng.random() < 0.4),
        shell=SHELLS[int(rng.integers(len(SHELLS)))],
        pattern=LENSES[int(rng.integers(len(LENSES)))],
        tone=float(rng.random()),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class SignalHead(Thing):
    """A head in a scene: a thing of its own with a state, which no pole is part of."""

    design: HeadDesign
    aspect: str
    state: str
    z: float  # metres: the height of its middle

    @classmethod
    def of(
        cls, design: HeadDesign, place: tuple[float, float, float], yaw: float, *, aspect: str = "ball", state: str = "off"
    ) -> SignalHead:
        """A head with its middle at `place` that faces against `yaw`."""
        x, y, z = place
        body = head_mesh(design, aspect, state).placed(0, 0, z=z)
        return cls(kind=LIGHT, mesh=body, x=x, y=y, yaw=yaw, design=design, aspect=aspect, state=state, z=z)

    def changed(
        self, *, state: str | None = None, design: HeadDesign | None = None, place: tuple[float, float, float] | None = None
    ) -> SignalHead:
        """The same head in another state, of another design or at another place."""
        at = place or (self.x, self.y, self.z)
        return SignalHead.of(design or self.design, at, self.yaw, aspect=self.aspect, state=state or self.state)

    def turned(self) -> SignalHead:
        """The same head with its lamps side by side instead of on top of each other, or the other way round."""
        return self.changed(design=replace(self.design, flat=not self.design.flat))


@cache
def head_mesh(design: HeadDesign, aspect: str, state: str) -> Mesh:
    """A head around its middle, looking to -x."""
    parts = [*_housing(design), *_plate(design)]
    for number, colour in enumerate(COLOURS):
        middle = design.lamp(number)
        parts += [*_hood(design, middle), *_lamp(design, middle, aspect, colour, lit=colour == state)]
    return joined(parts)


def _front(corners: Array, colour: object, material: Material, *, smooth: bool = False) -> Mesh:
    """Triangles in (right, up, towards the viewer)."""
    return mesh(facing_back(corners), colour, material, smooth=smooth)


def _housing(design: HeadDesign) -> list[Mesh]:
    colour = HOUSINGS[design.streets][design.housing]
    (x, y), deep, gap = design.size, design.deep * design.lens, 0.012
    back = box((-x * 0.85, -y * 0.92, -deep), (x * 0.85, y * 0.92, -deep * 0.4))
    if design.shell == "cells":
        half, along = design.wide * design.lens / 2, design.pitch * design.lens / 2 - gap / 2
        cell = np.array([along, half] if design.flat else [half, along])
        shells = [_cell(design.lamp(number)[:2], cell, deep) for number in range(3)]
    else:
        bevel = 0.05 if design.shell == "rounded" else 0.014
        shells = [bevelled((-x, -y, -deep * 0.6), (x, y, 0.0), bevel=bevel)]
    return [_front(np.concatenate([back, *shells]), colour, Material.PLASTIC)]


def _cell(middle: Array, half: Array, deep: float) -> Array:
    low, high = middle - half, middle + half
    return bevelled((*low, -deep * 0.6), (*high, 0.0), bevel=0.016)


def _plate(design: HeadDesign) -> list[Mesh]:
    """The back plate behind the housing, with a reflective rim on some."""
    if not design.plate:
        return []
    half, behind = np.array(design.size) + design.plate * design.lens, -design.deep * design.lens * 0.45
    board = bevelled((*-half, behind - 0.012), (*half, behind), bevel=0.005)
    parts = [_front(board, (0.011, 0.011, 0.012), Material.PLASTIC)]
    if design.rim:
        x, y, wide, front = *half, 0.05, behind + 0.003
        bars = [((-x, y - wide), (x, y)), ((-x, -y), (x, wide - y)), ((-x, wide - y), (wide - x, y - wide))]
        bars.append(((x - wide, wide - y), (x, y - wide)))
        strips = [fan([(a, b, front), (c, b, front), (c, d, front), (a, d, front)]) for (a, b), (c, d) in bars]
        parts.append(_front(np.concatenate(strips), REFLECTIVE, Material.SIGN))
    return parts


def _hood(design: HeadDesign, middle: Array) -> list[Mesh]:
    """The visor over a lamp: a cap above it, a tunnel around it, or one cut away towards its lower side; black inside."""
    radius, reach = design.lens * 0.53, design.reach * design.lens
    half_turn = {"cap": 1.65, "tunnel": 2.85, "cutaway": 2.2}[design.hood]
    angle = np.linspace(-half_turn, half_turn, 15)
    rim = np.stack([np.sin(angle), np.cos(angle)], axis=1) * radius
    slope = {"cap": 0.35, "tunnel": 0.12, "cutaway": 0.75}[design.hood]
    out = reach * (1 - slope * (np.abs(angle) / half_turn) ** 1.5)
    near, far = np.column_stack([rim, np.zeros(len(rim))]), np.column_stack([rim * [1, 0.97], out])
    shell = net(np.stack([near, far], axis=1))
    colour = np.minimum(np.array(HOUSINGS[design.streets][design.housing]), 0.4)
    lining = shell * [LINING, LINING, 1]
    return [_front(part + middle, tint, Material.PLASTIC, smooth=True) for part, tint in ((shell, colour), (lining, FACE))]


def _lamp(design: HeadDesign, middle: Array, aspect: str, colour: str, *, lit: bool) -> list[Mesh]:
    tint = _emitted(design, colour) if lit else np.array(DARK[colour])
    material = Material.SIGNAL_ON if lit else Material.SIGNAL_OFF
    if aspect == "ball":
        corners, shade = _lens(design)
        lens = _front(corners + middle, tint, material, smooth=True)
        return [replace(lens, colour=(lens.colour * shade[:, None]).astype(np.float32))]
    disc = _lens(design)[0] * [1, 1, 0] + middle + [0, 0, 0.004]
    arrow = _arrow(design.lens / 2, aspect) + middle + [0, 0, 0.012]
    return [_front(disc, FACE, Material.SIGNAL_OFF), _front(arrow, tint, material)]


def _emitted(design: HeadDesign, colour: str) -> Array:
    warm, cool = np.array(LIT[colour])
    return np.asarray(warm * (1 - design.tone) + cool * design.tone)


@cache
def _lens(design: HeadDesign) -> tuple[Array, Array]:
    """A slightly domed lens, and the brightness of each of its triangles."""
    angle = np.linspace(0, 2 * np.pi, SECTORS + 1)
    angle[-1] = 0.0
    radius = np.array(RINGS) * design.lens / 2
    across = [np.cos(angle)[:, None] * radius, np.sin(angle)[:, None] * radius]
    dome = 0.006 + 0.18 * design.lens * (1 - np.array(RINGS) ** 2)
    corners = net(np.stack([*across, np.broadcast_to(dome, across[0].shape)], axis=2)[::-1])
    place = corners.mean(axis=1)
    out = np.hypot(place[:, 0], place[:, 1]) / (design.lens / 2)
    grain = hashed(np.arange(len(corners)), np.full(len(corners), 5))
    depth = {"smooth": 0.0, "facets": 0.22, "diodes": 0.5}[design.pattern]
    return corners, (1 - 0.3 * out**2) * (1 - depth * grain)


def _arrow(radius: float, aspect: str) -> Array:
    shaft = fan([(-0.13, -0.78, 0), (0.13, -0.78, 0), (0.13, 0.2, 0), (-0.13, 0.2, 0)])
    tip = fan([(-0.56, 0.08, 0), (0.56, 0.08, 0), (0.0, 0.82, 0)])
    turn = {"left": np.pi / 2, "straight": 0.0, "right": -np.pi / 2}[aspect]
    spin = np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    return np.asarray(np.concatenate([shaft, tip]) @ spin * radius)
