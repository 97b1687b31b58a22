"""Surfaces hit by rays: positions, normals, colours and textures, without light."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.world.conditions import Conditions
from swerve.world.ground import Footprint, PaintedGround, paint
from swerve.world.mesh import Material, column
from swerve.world.road import Road
from swerve.world.scene import Hits, Snapshot
from swerve.world.textures import coverage, hashed, look_up, tile

SNOW = column(0.78, 0.8, 0.84)
STOREY = 3.0  # metres
_ROUGH, _SHEDS_SNOW = np.zeros((2, 32), bool)  # materials with stains, and materials that keep little snow
_ROUGH[[Material.BARK, Material.ROOF, Material.WALL, Material.HILL, Material.KERB]] = True
_SHEDS_SNOW[[Material.PAINT, Material.GLASS, Material.TYRE, Material.CLOTH, Material.SKIN]] = True


@dataclass(eq=False)
class Surface:
    """The surfaces hit by n rays. Positions, directions and colours are 3 rows of n: numpy is fast along rows."""

    ray: Array  # indices of the rays
    point: Array
    toward: Array  # the ray's direction
    distance: Array
    normal: Array
    colour: Array
    material: Array
    owner: Array
    wet: Array  # 0..1: how strongly it reflects
    mark: Array  # 0..1: road marking, which reflects headlights
    window: Array  # 0..1: window pane
    lit: Array  # 0..1: random per window, to light some of them


def surface(snapshot: Snapshot, hits: Hits, rays: Array, eye: Array, *, pixels: float) -> Surface:
    """The surfaces of `hits` without weather; `pixels` is the focal length, which decides the visible detail."""
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
    normal[:, above] = _face_eye(_interpolate(snapshot.of("normals", raised), weights), np.take(toward, above, axis=1))
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
    _texture_leaves(found)
    walls = np.flatnonzero(material == Material.FACADE)
    _texture_facades(found, walls, _interpolate(snapshot.of("uv", triangle[walls]), _weights(hits, ray[walls])), pixels)
    return found


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


def dot(one: Array, other: Array) -> Array:
    """The dot products of n pairs of vectors, each given as 3 rows of n."""
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def apply_weather(found: Surface, snapshot: Snapshot, conditions: Conditions, *, pixels: float) -> None:
    """Colour the ground, and apply rain and snow to all surfaces."""
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
        _cover_with_snow(found, ground, painted, scene.road, conditions.snow)


def _cover_with_snow(found: Surface, ground: Array, painted: PaintedGround, road: Road, amount: float) -> None:
    """Snow on upward surfaces; on the road, wheels leave dark tracks."""
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
    lying = np.where(_SHEDS_SNOW[found.material], lying * 0.45, lying).astype(np.float32)
    found.colour = found.colour * (1 - lying) + lying * SNOW
    found.mark *= 1 - lying


def _texture_leaves(found: Surface) -> None:
    """Texture leaves with light and dark clumps and varying normals, and stain rough materials."""
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


def _texture_facades(found: Surface, here: Array, place: Array, pixels: float) -> None:
    """Texture the walls `here`, hit at `place` (along, up), with stains, courses and rows of framed windows."""
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
