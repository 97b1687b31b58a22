"""What rays met: positions, normals, colours and patterns of the surfaces, before any light falls on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.conditions import Conditions
from swerve.world.ground import Footprint, Painted, paint
from swerve.world.mesh import Material, column
from swerve.world.road import Road
from swerve.world.scene import Hits, Snapshot
from swerve.world.textures import coverage, hashed, look_up, tile

SNOW = column(0.78, 0.8, 0.84)
STOREY = 3.0  # metres
_ROUGH, _KEPT_CLEAR = np.zeros((2, 32), bool)  # materials with stains, and those on which little snow stays
_ROUGH[[Material.BARK, Material.ROOF, Material.WALL, Material.HILL, Material.KERB]] = True
_KEPT_CLEAR[[Material.PAINT, Material.GLASS, Material.TYRE, Material.CLOTH, Material.SKIN]] = True


@dataclass(eq=False)
class Surface:
    """What n rays met that met something. Places, directions and colours are 3 rows of n: numpy is fast along rows."""

    ray: Array  # their numbers
    point: Array
    toward: Array  # the ray's direction
    distance: Array
    normal: Array
    colour: Array
    material: Array
    owner: Array
    wet: Array  # 0..1: how much of a mirror
    mark: Array  # 0..1: road marking, which shines back at headlights
    window: Array  # 0..1: window pane
    lit: Array  # 0..1: drawn for each window, to light some of them


def surface(snapshot: Snapshot, hits: Hits, rays: Array, eye: Array, *, pixels: float) -> Surface:
    """The bare surfaces that `hits` met; `pixels` is the focal length that decides how much detail can be seen."""
    ray = np.flatnonzero(hits.triangle >= 0)
    triangle = hits.triangle[ray]
    toward, distance = np.take(rays, ray, axis=1), hits.distance[ray]
    start = eye if eye.shape[1] == 1 else np.take(eye, ray, axis=1)
    material = snapshot.of("material", triangle)
    above = np.flatnonzero(material != Material.GROUND)
    raised = triangle[above]
    weights = _weights(hits, ray[above])
    normal, colour = np.zeros((2, 3, len(ray)), np.float32)
    normal[2] = 1.0
    normal[:, above] = _facing(_between(snapshot.of("normals", raised), weights), np.take(toward, above, axis=1))
    colour[:, above] = snapshot.of("colour", raised).T
    owner = np.zeros(len(ray), np.int32)
    owner[above] = snapshot.of("owner", raised)
    blank = np.zeros(len(ray), np.float32)
    found = Surface(
        ray=ray,
        point=start + toward * distance,
        toward=toward,
        distance=distance,
        normal=normal,
        colour=colour,
        material=material,
        owner=owner,
        wet=blank,
        mark=blank.copy(),
        window=blank.copy(),
        lit=blank.copy(),
    )
    _leaf_out(found)
    walls = np.flatnonzero(material == Material.FACADE)
    _glaze(found, walls, _between(snapshot.of("uv", triangle[walls]), _weights(hits, ray[walls])), pixels)
    return found


def _weights(hits: Hits, ray: Array) -> tuple[Array, Array, Array]:
    """How much each corner of a triangle counts in the point that was hit."""
    u, v = hits.u[ray], hits.v[ray]
    return 1 - u - v, u, v


def _between(corner: Array, weights: tuple[Array, Array, Array]) -> Array:
    """n x 3 x k numbers of triangles' corners, mixed into k rows of n."""
    first, second, third = weights
    mixed = [
        corner[:, 0, part] * first + corner[:, 1, part] * second + corner[:, 2, part] * third
        for part in range(corner.shape[2])
    ]
    return np.stack(mixed)


def _facing(normal: Array, toward: Array) -> Array:
    """Of length 1, and turned to the eye."""
    long = np.maximum(np.sqrt(dot(normal, normal)), np.float32(1e-6))
    return normal / np.where(dot(normal, toward) > 0, -long, long)


def dot(one: Array, other: Array) -> Array:
    """The products of n directions, each given as 3 rows of n."""
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def weathered(found: Surface, snapshot: Snapshot, conditions: Conditions, *, pixels: float) -> None:
    """Paint the ground, and let rain or snow lie on everything."""
    ground = np.flatnonzero(found.material == Material.GROUND)
    scene = snapshot.scene
    x, y, _ = np.take(found.point, ground, axis=1)
    east, north, up = np.take(found.toward, ground, axis=1)
    across = found.distance[ground] / pixels
    flat = np.maximum(np.sqrt(east * east + north * north), 1e-6)
    seen = Footprint(across, across / np.maximum(-up, 0.004), (east / flat, north / flat))
    painted = paint(scene.road, scene.floor, x, y, seen)
    found.mark[ground] = painted.mark
    puddle = np.clip(0.62 + 0.3 * painted.grain, 0.25, 1) * painted.road
    found.wet = np.zeros(len(found.ray), np.float32)
    found.wet[ground] = conditions.wet * np.maximum(puddle, 0.12)
    found.colour[:, ground] = painted.colour * (1 - 0.5 * conditions.wet * np.maximum(painted.road, 0.4))
    if conditions.snow > 0:
        _snowed_in(found, ground, painted, scene.road, conditions.snow)


def _snowed_in(found: Surface, ground: Array, painted: Painted, road: Road, amount: float) -> None:
    """White where surfaces look up; on the road, wheels leave dark tracks."""
    grain = painted.grain
    lying = np.clip((found.normal[2] - 0.35) / 0.35, 0, 1) * min(1.0, amount * 1.25)
    lying = np.where(found.material == Material.LEAVES, lying * 0.85, lying)
    _, d, edge = painted.place
    lane = np.mod(d / np.float32(road.profile.lane), 1.0) - 0.5
    tracks = np.clip((0.1 + 0.03 * grain - np.abs(np.abs(lane) - 0.25)) / 0.03 + 0.5, 0, 1)
    on_road = np.clip(amount * 1.5 - 0.75 + 0.3 * grain, 0, 1) * (0.9 - 0.68 * tracks)
    beside = np.clip(amount * 1.2 + 0.25 * grain, 0, 1)
    blend = np.clip(edge / 0.8 + 0.5, 0, 1)
    lying[ground] = on_road * (1 - blend) + beside * blend
    lying = np.where(_KEPT_CLEAR[found.material], lying * 0.45, lying).astype(np.float32)
    found.colour = found.colour * (1 - lying) + lying * SNOW
    found.mark *= 1 - lying


def _leaf_out(found: Surface) -> None:
    """Leaves: light and dark clumps, and a normal that differs from leaf to leaf."""
    here = np.flatnonzero(found.material == Material.LEAVES)
    x, y, z = np.take(found.point, here, axis=1)
    near = np.clip(14 / found.distance[here], 0.15, 1)
    clump = look_up(tile("leaves", 0.75), x + 0.7 * z, y - 0.6 * z, 5.0) * near
    other = look_up(tile("leaves", 0.75), y + z, x - z, 4.1) * near
    found.colour[:, here] *= np.clip(1 + 0.4 * clump + 0.2 * other, 0.25, 2.1)
    bent = np.take(found.normal, here, axis=1) + 0.45 * np.stack([clump, other, 0.5 * (clump - other)])
    found.normal[:, here] = bent / np.maximum(np.sqrt(dot(bent, bent)), 1e-6)
    rough = np.flatnonzero(_ROUGH[found.material])
    x, y, z = np.take(found.point, rough, axis=1)
    scale = np.where(found.material[rough] == Material.HILL, 0.02, 1.0).astype(np.float32)
    noise = look_up(tile("stains", 1.25), (x + y) * scale, (z + 0.3 * x) * scale, 13.0)
    found.colour[:, rough] *= np.clip(1 + 0.18 * noise, 0.5, 1.6)


def _glaze(found: Surface, here: Array, place: Array, pixels: float) -> None:
    """Walls, `here` among the surfaces, hit at `place` along and up: stains and courses, and rows of windows with frames."""
    if not len(here):
        return
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
    inner = np.where(blind > 0.72, column(0.32, 0.3, 0.26), column(0.035, 0.04, 0.05)) * (0.6 + 0.6 * blind)
    colour = wall * (1 - frame) + trim * frame
    found.colour[:, here] = colour * (1 - glass) + inner * glass
    found.window[here] = glass * np.where(blind > 0.72, 0.35, 1.0)
    found.lit[here] = hashed(owner + 7, across, floor)
