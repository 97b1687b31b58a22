"""Surfaces hit by rays: positions, normals, colours and textures, without light or weather."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, column
from swerve.world.scene import Hits, Snapshot
from swerve.world.textures import coverage, hashed, look_up, tile

STOREY = 3.0  # metres
OFF = 0.02  # metres between the start of a secondary ray and its surface
_OFF_LEAVES = (
    0.7  # the same for leaves: cards of a crown let light through, so that its near ones cast no shadow on each other
)
_ROUGH = np.zeros(32, bool)  # materials with stains
_ROUGH[[Material.BARK, Material.ROOF, Material.WALL, Material.HILL, Material.KERB]] = True


@dataclass(frozen=True, eq=False)
class Panes:
    """Surfaces with window panes: their rows, the share of glass, and a number per window that decides whether it is lit."""

    rows: Array
    share: Array
    draw: Array


@dataclass(frozen=True, eq=False)
class Surface:
    """The surfaces hit by n rays, dry. Positions, directions and colours are 3 rows of n: numpy is fast along rows."""

    ray: Array  # indices of the rays
    start: Array  # of the rays: one for all, or one for each
    toward: Array  # the ray's direction
    distance: Array
    normal: Array
    colour: Array
    material: Array
    owner: Array
    panes: Panes

    @property
    def point(self) -> Array:
        """Where the rays hit."""
        return self.start + self.toward * self.distance


def surface(snapshot: Snapshot, hits: Hits, rays: Array, eye: Array, *, pixels: float) -> Surface:
    """The surfaces of `hits`; the ground is not painted. `pixels` is the focal length, which decides the visible detail."""
    ray = rows_of(hits.triangle >= 0)
    triangle = hits.triangle[ray]
    toward, distance = np.take(rays, ray, axis=1), hits.distance[ray]
    start = eye if eye.shape[1] == 1 else np.take(eye, ray, axis=1)
    material = snapshot.of("material", triangle)
    above = np.flatnonzero(material != Material.GROUND)
    raised = triangle[above]
    weights = _weights(hits, ray[above])
    normal, colour = np.zeros((2, 3, len(ray)), np.float32)
    normal[2] = 1.0
    normal[:, above] = _face_eye(_interpolate(snapshot.of("normals", raised), weights), np.take(toward, above, axis=1))
    colour[:, above] = snapshot.of("colour", raised).T
    owner = np.zeros(len(ray), np.int32)
    owner[above] = snapshot.of("owner", raised)
    blank = np.empty(0, np.float32)
    walls = rows_of(material == Material.FACADE)
    bare = Surface(ray, start, toward, distance, normal, colour, material, owner, Panes(walls, blank, blank))
    _texture_leaves(bare)
    _texture_shops(bare)
    place = _interpolate(snapshot.of("uv", triangle[walls]), _weights(hits, ray[walls]))
    return replace(bare, panes=_texture_facades(bare, walls, place, pixels))


def _weights(hits: Hits, ray: Array) -> tuple[Array, Array, Array]:
    """The barycentric weights of the hit point."""
    u, v = hits.u[ray], hits.v[ray]
    return 1 - u - v, u, v


def _interpolate(corner: Array, weights: tuple[Array, Array, Array]) -> Array:
    """n x 3 x k values at triangle corners, interpolated into k rows of n."""
    first, second, third = weights
    mixed = [
        corner[:, 0, part] * first + corner[:, 1, part] * second + corner[:, 2, part] * third
        for part in range(corner.shape[2])
    ]
    return np.stack(mixed)


def _face_eye(normal: Array, toward: Array) -> Array:
    """Unit normals that face the eye."""
    long = np.maximum(np.sqrt(dot(normal, normal)), np.float32(1e-6))
    return normal / np.where(dot(normal, toward) > 0, -long, long)


def lift_off(material: Array) -> Array:
    """Metres along the normal between a surface and the start of its rays to sun and sky."""
    return np.where(material == Material.LEAVES, np.float32(_OFF_LEAVES), np.float32(OFF))


def rows_of(mask: Array) -> Array:
    """The indices of what is true, in half the memory that numpy takes."""
    return np.flatnonzero(mask).astype(np.int32)


def dot(one: Array, other: Array) -> Array:
    """The dot products of n pairs of vectors, each given as 3 rows of n."""
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def _texture_leaves(found: Surface) -> None:
    """Texture leaves with light and dark clumps and varying normals, and stain rough materials."""
    here, point = np.flatnonzero(found.material == Material.LEAVES), found.point
    x, y, z = np.take(point, here, axis=1)
    near = np.clip(14 / found.distance[here], 0.15, 1)
    clump = look_up(tile("leaves", 0.75), x + 0.7 * z, y - 0.6 * z, 5.0) * near
    other = look_up(tile("leaves", 0.75), y + z, x - z, 4.1) * near
    found.colour[:, here] *= np.clip(1 + 0.4 * clump + 0.2 * other, 0.25, 2.1)
    bent = np.take(found.normal, here, axis=1) + 0.45 * np.stack([clump, other, 0.5 * (clump - other)])
    found.normal[:, here] = bent / np.maximum(np.sqrt(dot(bent, bent)), 1e-6)
    rough = np.flatnonzero(_ROUGH[found.material])
    x, y, z = np.take(point, rough, axis=1)
    scale = np.where(found.material[rough] == Material.HILL, 0.02, 1.0).astype(np.float32)
    noise = look_up(tile("stains", 1.25), (x + y) * scale, (z + 0.3 * x) * scale, 13.0)
    found.colour[:, rough] *= np.clip(1 + 0.18 * noise, 0.5, 1.6)


def _texture_shops(found: Surface) -> None:
    """Goods behind a shop's window: coloured boxes on shelves, darker towards the floor."""
    here = np.flatnonzero(found.material == Material.SHOPFRONT)
    x, y, z = np.take(found.point, here, axis=1)
    east, north, _ = np.take(found.normal, here, axis=1)
    along = x * -north + y * east
    owner = found.owner[here]
    box, shelf = np.floor(along / 0.42), np.floor(z / 0.5)
    tone = np.stack([hashed(owner + number, box, shelf) for number in range(3)])
    stocked = (hashed(owner + 5, box, shelf) < 0.6) * (np.mod(z, 0.5) < 0.22 + 0.2 * tone[0]) * (z < 2.1)
    goods = (0.02 + 0.1 * tone * tone) * stocked + column(0.045, 0.042, 0.036) * (1 - stocked)
    found.colour[:, here] = goods * np.clip(0.35 + 0.4 * z, 0.4, 1.2)


def _texture_facades(found: Surface, here: Array, place: Array, pixels: float) -> Panes:
    """Texture the walls `here`, hit at `place` (along, up), with stains, courses and rows of framed windows."""
    if not len(here):
        return found.panes
    along, up = place
    owner = found.owner[here]
    facing = np.abs(dot(np.take(found.normal, here, axis=1), np.take(found.toward, here, axis=1)))
    wide = found.distance[here] / pixels / np.maximum(facing, 0.08)
    tall = found.distance[here] / pixels
    draw = [hashed(owner, np.full_like(owner, number)) for number in range(5)]
    pitch, share, high = 1.9 + 1.9 * draw[0], 0.42 + 0.33 * draw[1], 0.42 + 0.26 * draw[2]
    across, floor = np.floor(along / pitch), np.floor(up / STOREY)
    x, y = along / pitch - across - 0.5, up / STOREY - floor - 0.52

    def pane(margin: float) -> Array:
        inside = coverage(x, -(share / 2 + margin / pitch), share / 2 + margin / pitch, wide / pitch)
        return inside * coverage(y, -(high / 2 + margin / STOREY), high / 2 + margin / STOREY, tall / STOREY)

    glass = pane(0.0)
    bar = coverage(x, -0.03 / pitch, 0.03 / pitch, wide / pitch) * (draw[3] < 0.6)
    frame = np.clip(pane(0.09) - glass + glass * bar, 0, 1)
    glass = glass * (1 - bar)
    noise = look_up(tile("stains", 1.25), along, up, 31.0)
    course = coverage(np.mod(up, 0.3), 0.0, 0.03, tall) * np.clip(0.12 / tall, 0, 1) * (draw[4] < 0.5)
    wall = np.take(found.colour, here, axis=1)
    wall *= np.clip(1 + 0.1 * noise - 0.18 * course - 0.1 * np.exp(-up), 0.4, 1.4)
    trim = np.where(draw[3] < 0.45, column(0.6, 0.59, 0.56), column(0.12, 0.1, 0.09))
    blind = hashed(owner, across, floor)
    rolled = np.clip((y + high / 2) / high - (1.25 - 1.1 * (blind * 7 % 1)) * (blind > 0.35), -0.05, 0.05) * 10 + 0.5
    rolled = np.where(blind > 0.35, np.clip(rolled, 0, 1), 0)  # 1 where a blind hangs, down from the top of the pane
    drape = np.clip((np.abs(x) / share - 0.34 + 0.1 * blind) * 30, 0, 1) * (blind * 13 % 1 < 0.4)  # curtains at both sides
    hung = np.maximum(rolled, drape)
    cloth = column(0.34, 0.32, 0.28) * (0.55 + 0.75 * (blind * 29 % 1))
    room = column(0.05, 0.052, 0.055) * np.clip(0.75 - 1.3 * y / high, 0.2, 1.4)  # darker below the ceiling
    inner = cloth * hung + room * (1 - hung)
    colour = wall * (1 - frame) + trim * frame
    found.colour[:, here] = colour * (1 - glass) + inner * glass
    share = (glass * (1 - 0.45 * hung)).astype(np.float32)
    return Panes(here, share, hashed(owner + 7, across, floor))
