"""The class of every pixel of a frame: what a map from labels to pictures is learnt from."""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array, Classes
from swerve.world.camera import Camera
from swerve.world.driver import Pose
from swerve.world.mesh import Material
from swerve.world.scene import LABELLED, Scene

SKY, ROAD, VERGE, PAVEMENT, BUILDING, PLANTS, POLE, SIGN, OBJECT = STUFF = (
    *("sky", "road", "verge", "pavement", "building", "vegetation", "pole", "sign", "object"),
)
NAMES = ("unlabelled", *STUFF, *LABELLED)
_OF_MATERIAL = {
    Material.GROUND: VERGE,  # or road, by the map
    Material.KERB: PAVEMENT,
    Material.PAVING: PAVEMENT,
    **dict.fromkeys((Material.FACADE, Material.ROOF, Material.SHOPFRONT, Material.WALL), BUILDING),
    **dict.fromkeys((Material.LEAVES, Material.BARK, Material.HILL), PLANTS),
    **dict.fromkeys((Material.METAL, Material.LAMP, Material.SIGNAL_ON, Material.SIGNAL_OFF), POLE),
    **dict.fromkeys((Material.SIGN, Material.BOARD), SIGN),
}
_TABLE = np.array([NAMES.index(_OF_MATERIAL.get(material, OBJECT)) for material in Material], np.int32)


def class_map(scene: Scene, pose: Pose, camera: Camera) -> Classes:
    """The class of the surface in the middle of each pixel; labelled things have the class of their kind."""
    snapshot, rays, eye = scene.at(pose.time), camera.rays(pose), camera.eye(pose).astype(np.float32)[:, None]
    hits = snapshot.cast(eye, rays)
    found = np.full(rays.shape[1], NAMES.index(SKY), np.int32)
    met = np.flatnonzero(hits.triangle >= 0)
    triangle = hits.triangle[met]
    material, owner = snapshot.of("material", triangle), snapshot.of("owner", triangle)
    found[met] = _of_things(scene)[owner]
    bare = np.flatnonzero(found[met] == 0)
    found[met[bare]] = _TABLE[material[bare]]
    ground = met[material == Material.GROUND]
    x, y, _ = eye + np.take(rays, ground, axis=1) * hits.distance[ground]
    on_road = scene.road.locate(x, y).T[2] < 0  # metres beyond the edge of the road
    found[ground[on_road]] = NAMES.index(ROAD)
    shape = camera.rows, camera.width
    return Classes(found.reshape(shape), dict(enumerate(NAMES)))


def _of_things(scene: Scene) -> Array:
    """The class of every thing of a labelled kind, by its number; 0 for all others."""
    kinds = [NAMES.index(thing.kind) if thing.kind in LABELLED else 0 for thing in scene.things]
    return np.array([0, *kinds], np.int32)
