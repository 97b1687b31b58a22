"""What rays met: positions, normals, colours and patterns of the surfaces, before any light falls on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.values import Array
from swerve.world.conditions import Conditions
from swerve.world.ground import Footprint, Painted, paint
from swerve.world.mesh import Material, Mesh, row
from swerve.world.road import Road
from swerve.world.scene import Hits, Snapshot
from swerve.world.textures import coverage, hashed, look_up, tile

SNOW = row(0.78, 0.8, 0.84)
STOREY = 3.0  # metres


@dataclass(eq=False)
class Surface:
    """One row per ray that met something."""

    ray: Array  # the number of each row's ray
    point: Array
    toward: Array  # the ray's direction
    distance: Array
    normal: Array
    colour: Array
    material: Array
    owner: Array
    triangle: Array
    wet: Array  # 0..1: how much of a mirror
    mark: Array  # 0..1: road marking, which shines back at headlights
    window: Array  # 0..1: window pane
    lit: Array  # 0..1: drawn for each window, to light some of them


def surface(snapshot: Snapshot, hits: Hits, rays: Array, eye: Array, *, pixels: float) -> Surface:
    """The bare surfaces that `hits` met; `pixels` is the focal length that decides how much detail can be seen."""
    ray = np.flatnonzero(hits.triangle >= 0)
    triangle, u, v = hits.triangle[ray], hits.u[ray, None], hits.v[ray, None]
    toward, distance = rays[ray], hits.distance[ray]
    body = snapshot.mesh
    material = body.material[triangle]
    normal = np.zeros((len(ray), 3), np.float32)
    normal[:, 2] = 1.0
    above = np.flatnonzero(material != Material.GROUND)
    normal[above] = _normals(body, triangle[above], u[above], v[above], toward[above])
    blank = np.zeros(len(ray), np.float32)
    found = Surface(
        ray=ray,
        point=(np.broadcast_to(eye, rays.shape)[ray] + toward * distance[:, None]).astype(np.float32),
        toward=toward,
        distance=distance,
        normal=normal,
        colour=body.colour[triangle],
        material=material,
        owner=snapshot.owner[triangle],
        triangle=triangle,
        wet=blank,
        mark=blank.copy(),
        window=blank.copy(),
        lit=blank.copy(),
    )
    _leaf_out(found)
    _glaze(found, body.uv, (u[:, 0], v[:, 0]), pixels)
    return found


def _normals(body: Mesh, triangle: Array, u: Array, v: Array, toward: Array) -> Array:
    """Between the corners' normals, turned to the eye."""
    corner = body.normals[triangle]
    normal = corner[:, 0] * (1 - u - v) + corner[:, 1] * u + corner[:, 2] * v
    normal /= np.maximum(np.sqrt(np.einsum("ij,ij->i", normal, normal)), 1e-6)[:, None]
    away = np.einsum("ij,ij->i", normal, toward) > 0
    normal[away] = -normal[away]
    return normal.astype(np.float32)


def weathered(found: Surface, snapshot: Snapshot, conditions: Conditions, *, pixels: float) -> None:
    """Paint the ground, and let rain or snow lie on everything."""
    ground = np.flatnonzero(found.material == Material.GROUND)
    scene = snapshot.scene
    point, distance = found.point[ground], found.distance[ground]
    flat = found.toward[ground, :2]
    steep = np.maximum(-found.toward[ground, 2], 0.004)
    across = distance / pixels
    seen = Footprint(across, across / steep, flat / np.maximum(np.hypot(*flat.T), 1e-6)[:, None])
    painted = paint(scene.road, scene.floor, point[:, 0], point[:, 1], seen)
    found.colour[ground], found.mark[ground] = painted.colour, painted.mark
    puddle = np.clip(0.62 + 0.3 * painted.grain, 0.25, 1) * painted.road
    found.wet = np.zeros(len(found.ray), np.float32)
    found.wet[ground] = conditions.wet * np.maximum(puddle, 0.12)
    found.colour[ground] *= (1 - 0.5 * conditions.wet * np.maximum(painted.road, 0.4))[:, None]
    if conditions.snow > 0:
        _snowed_in(found, ground, painted, scene.road, conditions.snow)


def _snowed_in(found: Surface, ground: Array, painted: Painted, road: Road, amount: float) -> None:
    """White where surfaces look up; on the road, wheels leave dark tracks."""
    place, grain = painted.place, painted.grain
    lying = np.clip((found.normal[:, 2] - 0.35) / 0.35, 0, 1) * min(1.0, amount * 1.25)
    lying = np.where(found.material == Material.LEAVES, lying * 0.85, lying)
    d, edge = place[:, 1], place[:, 2]
    lane = np.mod(d / np.float32(road.profile.lane), 1.0) - 0.5
    tracks = np.clip((0.1 + 0.03 * grain - np.abs(np.abs(lane) - 0.25)) / 0.03 + 0.5, 0, 1)
    on_road = np.clip(amount * 1.5 - 0.75 + 0.3 * grain, 0, 1) * (0.9 - 0.68 * tracks)
    beside = np.clip(amount * 1.2 + 0.25 * grain, 0, 1)
    blend = np.clip(edge / 0.8 + 0.5, 0, 1)
    lying[ground] = on_road * (1 - blend) + beside * blend
    moving = np.isin(found.material, (Material.PAINT, Material.GLASS, Material.TYRE, Material.CLOTH, Material.SKIN))
    lying = np.where(moving, lying * 0.45, lying)[:, None].astype(np.float32)
    found.colour = found.colour * (1 - lying) + lying * SNOW
    found.mark *= 1 - lying[:, 0]


def _leaf_out(found: Surface) -> None:
    """Leaves: light and dark clumps, and a normal that differs from leaf to leaf."""
    here = np.flatnonzero(found.material == Material.LEAVES)
    x, y, z = found.point[here].T
    near = np.clip(14 / found.distance[here], 0.15, 1)
    clump = look_up(tile("leaves", 0.75), x + 0.7 * z, y - 0.6 * z, 5.0) * near
    other = look_up(tile("leaves", 0.75), y + z, x - z, 4.1) * near
    found.colour[here] *= np.clip(1 + 0.4 * clump + 0.2 * other, 0.25, 2.1)[:, None]
    bent = found.normal[here] + 0.45 * np.stack([clump, other, 0.5 * (clump - other)], -1)
    found.normal[here] = bent / np.maximum(np.linalg.norm(bent, axis=1, keepdims=True), 1e-6)
    rough = np.flatnonzero(
        np.isin(found.material, (Material.BARK, Material.ROOF, Material.WALL, Material.HILL, Material.KERB))
    )
    x, y, z = found.point[rough].T
    scale = np.where(found.material[rough] == Material.HILL, 0.02, 1.0).astype(np.float32)
    noise = look_up(tile("stains", 1.25), (x + y) * scale, (z + 0.3 * x) * scale, 13.0)
    found.colour[rough] *= np.clip(1 + 0.18 * noise, 0.5, 1.6)[:, None]


def _glaze(found: Surface, uv: Array, within: tuple[Array, Array], pixels: float) -> None:
    """Walls: stains and courses, and rows of windows with frames."""
    here = np.flatnonzero(found.material == Material.FACADE)
    if not len(here):
        return
    corner = uv[found.triangle[here]]
    u, v = within[0][here, None], within[1][here, None]
    along, up = (corner[:, 0] * (1 - u - v) + corner[:, 1] * u + corner[:, 2] * v).T
    owner = found.owner[here]
    facing = np.abs(np.einsum("ij,ij->i", found.normal[here], found.toward[here]))
    wide = found.distance[here] / pixels / np.maximum(facing, 0.08)
    tall = found.distance[here] / pixels
    draw = [hashed(owner, np.full_like(owner, number)) for number in range(5)]
    pitch, share, high = 1.9 + 1.9 * draw[0], 0.42 + 0.33 * draw[1], 0.42 + 0.26 * draw[2]
    column, floor = np.floor(along / pitch), np.floor(up / STOREY)
    x, y = along / pitch - column - 0.5, up / STOREY - floor - 0.52

    def pane(margin: float) -> Array:
        inside = coverage(x, -(share / 2 + margin / pitch), share / 2 + margin / pitch, wide / pitch)
        return inside * coverage(y, -(high / 2 + margin / STOREY), high / 2 + margin / STOREY, tall / STOREY)

    glass = pane(0.0)
    bar = coverage(x, -0.03 / pitch, 0.03 / pitch, wide / pitch) * (draw[3] < 0.6)
    frame = np.clip(pane(0.09) - glass + glass * bar, 0, 1)[:, None]
    glass = glass * (1 - bar)
    noise = look_up(tile("stains", 1.25), along, up, 31.0)
    course = coverage(np.mod(up, 0.3), 0.0, 0.03, tall) * np.clip(0.12 / tall, 0, 1) * (draw[4] < 0.5)
    wall = found.colour[here] * np.clip(1 + 0.1 * noise - 0.18 * course - 0.1 * np.exp(-up), 0.4, 1.4)[:, None]
    trim = np.where((draw[3] < 0.45)[:, None], row(0.6, 0.59, 0.56), row(0.12, 0.1, 0.09))
    blind = hashed(owner, column, floor)
    inner = np.where((blind > 0.72)[:, None], row(0.32, 0.3, 0.26), row(0.035, 0.04, 0.05))
    inner = inner * (0.6 + 0.6 * blind)[:, None]
    colour = wall * (1 - frame) + trim * frame
    found.colour[here] = (colour * (1 - glass[:, None]) + inner * glass[:, None]).astype(np.float32)
    found.window[here] = glass * np.where(blind > 0.72, 0.35, 1.0)
    found.lit[here] = hashed(owner + 7, column, floor)
