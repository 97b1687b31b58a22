"""Every model of the world: its size, its budget, its faces, its repeatability."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from embreex import rtcore_scene
from embreex.mesh_construction import TriangleMesh

from swerve.core.values import Array
from swerve.world import cars, lorries, people, roadside, shapes, street_furniture
from swerve.world.mesh import Material, Mesh

Builder = Callable[[np.random.Generator], Mesh]
Range = tuple[float, float]
SEEDS = (0, 1, 2, 3)


@dataclass(frozen=True)
class Model:
    """A builder with the sizes and the number of triangles that it may have."""

    build: Builder
    long: Range
    wide: Range
    tall: Range
    triangles: Range


def block(rng: np.random.Generator) -> Mesh:
    return roadside.building(rng, 14.0, 11.0, int(rng.integers(2, 10)), 0.8)


MODELS = {
    "car": Model(cars.car, (3.55, 4.95), (1.7, 2.25), (1.38, 1.77), (300, 1080)),
    "van": Model(cars.van, (4.95, 6.05), (1.95, 2.3), (1.95, 2.7), (300, 1140)),
    "bus": Model(lorries.bus, (10.0, 12.7), (2.5, 2.9), (2.9, 3.3), (300, 1100)),
    "truck": Model(lorries.truck, (6.95, 11.1), (2.4, 2.95), (2.7, 3.85), (300, 1400)),
    "pedestrian": Model(people.pedestrian, (0.2, 1.3), (0.4, 0.8), (1.5, 1.95), (200, 540)),
    "cyclist": Model(people.cyclist, (1.6, 1.9), (0.5, 0.7), (1.6, 1.95), (300, 700)),
    "building": Model(block, (14.0, 15.2), (11.0, 14.0), (6.0, 36.0), (80, 400)),
    "house": Model(roadside.house, (8.0, 17.0), (7.0, 12.5), (5.0, 12.5), (80, 200)),
    "tree": Model(roadside.tree, (2.5, 11.0), (2.5, 11.0), (4.5, 12.0), (600, 3200)),
    "street tree": Model(roadside.street_tree, (2.5, 11.0), (2.5, 11.0), (6.0, 12.0), (600, 3200)),
    "conifer": Model(roadside.conifer, (1.5, 8.0), (1.5, 8.0), (6.0, 15.0), (100, 600)),
    "bush": Model(roadside.bush, (0.7, 3.2), (0.7, 3.2), (0.4, 2.0), (200, 1000)),
    "hedge": Model(lambda rng: roadside.hedge(rng, 8.0), (7.9, 8.2), (0.5, 1.3), (0.8, 2.2), (50, 1300)),
    "lamp": Model(roadside.street_lamp, (0.2, 0.4), (1.5, 3.2), (6.0, 9.0), (50, 250)),
    "sign": Model(roadside.sign, (0.05, 0.2), (0.4, 2.8), (2.2, 3.2), (20, 250)),
    "billboard": Model(roadside.billboard, (0.3, 0.5), (3.9, 7.3), (4.0, 6.8), (30, 200)),
    "bollard": Model(roadside.bollard, (0.1, 0.3), (0.1, 0.3), (0.8, 1.1), (20, 150)),
    "bin": Model(roadside.bin, (0.4, 0.8), (0.4, 0.8), (0.9, 1.2), (50, 200)),
    "bench": Model(roadside.bench, (1.3, 2.1), (0.3, 0.7), (0.7, 0.9), (50, 150)),
    "stop": Model(roadside.bus_stop, (4.0, 6.5), (1.4, 2.0), (2.5, 3.1), (100, 350)),
    "post box": Model(street_furniture.post_box, (0.4, 0.6), (0.35, 0.6), (1.2, 1.6), (50, 300)),
    "cabinet": Model(street_furniture.cabinet, (0.65, 1.75), (0.3, 0.4), (0.85, 1.5), (30, 120)),
    "planter": Model(street_furniture.planter, (0.6, 1.3), (0.6, 1.3), (0.5, 2.0), (250, 1200)),
    "hydrant": Model(street_furniture.hydrant, (0.35, 0.45), (0.2, 0.35), (0.7, 0.82), (50, 250)),
    "parking meter": Model(street_furniture.parking_meter, (0.15, 0.4), (0.15, 0.4), (1.3, 1.8), (40, 250)),
    "cycle stand": Model(street_furniture.cycle_stand, (1.5, 3.4), (0.6, 0.8), (0.7, 0.95), (100, 400)),
    "pillar": Model(street_furniture.pillar, (1.0, 1.6), (1.0, 1.6), (2.9, 3.7), (100, 400)),
    "fence": Model(lambda rng: roadside.fence(rng, 8.0), (7.9, 8.2), (0.05, 0.4), (0.5, 1.8), (20, 450)),
    "rail": Model(lambda _: roadside.guard_rail(8.0), (7.9, 8.1), (0.1, 0.3), (0.7, 0.8), (50, 150)),
    "pole": Model(roadside.power_pole, (0.2, 1.0), (2.1, 2.3), (7.5, 10.1), (50, 250)),
}
EVERY = pytest.mark.parametrize("name", MODELS)
VARIED = pytest.mark.parametrize("name", [name for name in MODELS if name != "rail"])
SIDED = pytest.mark.parametrize("name", ["car", "van", "bus", "truck", "house", "sign", "bench", "cyclist"])


def made(name: str, seed: int) -> Mesh:
    return MODELS[name].build(np.random.default_rng(seed))


def arrays(part: Mesh) -> list[Array]:
    return [part.corners, part.normals, part.colour, part.material, part.uv]


def within(values: Array, limits: Range) -> bool:
    return bool((values >= limits[0]).all() and (values <= limits[1]).all())


@EVERY
def test_sizes_are_as_declared(name: str) -> None:
    model = MODELS[name]
    sizes = np.array([np.subtract(*made(name, seed).bounds()[::-1]) for seed in range(12)])
    assert [within(side, limits) for side, limits in zip(sizes.T, (model.long, model.wide, model.tall), strict=True)] == [
        True
    ] * 3


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_models_stand_on_ground(name: str, seed: int) -> None:
    assert abs(made(name, seed).bounds()[0][2]) < 0.02


@EVERY
def test_triangles_keep_their_budget(name: str) -> None:
    assert within(np.array([len(made(name, seed)) for seed in range(12)]), MODELS[name].triangles)


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_are_finite_and_typed(name: str, seed: int) -> None:
    part = made(name, seed)
    assert all(np.isfinite(array).all() for array in arrays(part))
    assert [array.dtype for array in arrays(part)] == [np.float32, np.float32, np.float32, np.uint8, np.float32]


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_normals_have_unit_length(name: str, seed: int) -> None:
    assert np.allclose(np.linalg.norm(made(name, seed).normals, axis=2), 1, atol=1e-3)


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_triangles_have_an_area(name: str, seed: int) -> None:
    corners = made(name, seed).corners
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.linalg.norm(across, axis=1) < 1e-8).sum() <= 2


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_colours_are_reflectances(name: str, seed: int) -> None:
    assert within(made(name, seed).colour, (0.0, 1.0))


@EVERY
def test_same_seed_same_model(name: str) -> None:
    assert all(np.array_equal(a, b) for a, b in zip(arrays(made(name, 5)), arrays(made(name, 5)), strict=True))


@VARIED
def test_other_seeds_other_models(name: str) -> None:
    assert len({made(name, seed).corners.tobytes() for seed in range(6)}) == 6


@EVERY
def test_mirrored_twice_is_itself(name: str) -> None:
    part = made(name, 1)
    again = part.mirrored().mirrored()
    assert all(np.array_equal(a, b) for a, b in zip(arrays(part), arrays(again), strict=True))


def seen_from_outside(part: Mesh) -> Array:
    """For rays from all around, above the ground: whether the first triangle met shows its front."""
    rng = np.random.default_rng(0)
    low, high = part.bounds()
    away = rng.normal(size=(3000, 3))
    away[:, 2] = np.abs(away[:, 2]) * 0.6
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    start = (low + high) / 2 + away * 2 * np.linalg.norm(high - low)
    toward = rng.uniform(low, high, (3000, 3)) - start
    toward /= np.linalg.norm(toward, axis=1, keepdims=True)
    scene = rtcore_scene.EmbreeScene()
    TriangleMesh(scene, part.corners)
    met = scene.run(start.astype(np.float32), toward.astype(np.float32), query="INTERSECT", output=True)["primID"]
    corners = part.corners[met[met >= 0]]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return np.asarray((across * toward[met >= 0]).sum(axis=1) < 0)


@EVERY
def test_faces_point_outwards(name: str) -> None:
    leafy = name in ("tree", "street tree", "bush", "hedge", "planter")  # tufts show their backs here and there
    front = seen_from_outside(made(name, 2))
    assert len(front) > 100
    assert front.mean() > (0.92 if leafy else 0.985)


@SIDED
def test_shading_normals_agree_with_faces(name: str) -> None:
    part = made(name, 3)
    across = np.cross(part.corners[:, 1] - part.corners[:, 0], part.corners[:, 2] - part.corners[:, 0])
    assert ((part.normals.mean(axis=1) * across).sum(axis=1) > 0).mean() > 0.97


@pytest.mark.parametrize("name", ["car", "van", "bus", "truck"])
def test_vehicles_have_their_lamps(name: str) -> None:
    part = made(name, 4)
    middle = part.corners.mean(axis=1)[:, 0]
    assert (middle[part.material == Material.HEADLIGHT] > 0.3 * middle.max()).all()
    assert (middle[part.material == Material.TAILLIGHT] < 0.3 * middle.min()).all()
    assert {Material.GLASS, Material.TYRE, Material.SIGN} <= set(part.material.tolist())


def test_signs_look_back() -> None:
    part = made("sign", 3)
    assert (part.normals[part.material == Material.SIGN][..., 0] < -0.99).all()


def test_walls_count_from_left() -> None:
    part = made("building", 6)
    wall = (part.material == Material.FACADE) & (np.abs(part.normals[:, 0, 1] + 1) < 1e-3)
    corners, uv = part.corners[wall].reshape(-1, 3), part.uv[wall].reshape(-1, 2)
    assert np.allclose(uv, np.stack([corners[:, 0] + 7.0, corners[:, 2]], axis=1), atol=1e-4)


def test_light_moves_with_lamp() -> None:
    lamp = made("lamp", 0)
    still, moved = roadside.lamp_light(lamp), roadside.lamp_light(lamp.placed(10, 20, yaw=np.pi))
    assert still[1] < -0.9
    assert np.allclose(moved, [10 - still[0], 20 - still[1], still[2]], atol=1e-3)


def volume(corners: Array) -> float:
    return float(np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6)


@pytest.mark.parametrize(
    ("corners", "expected"),
    [
        (shapes.box((0, 0, 0), (1, 2, 3)), 6.0),
        (shapes.prism([(0, 0), (2, 0), (0, 2)], (1, 4)), 6.0),
        (shapes.tube((1, 1, 1), (1, 3, 1), radii=(0.5, 0.5), sides=4, capped=True), 1.0),
        (shapes.lathe([(0, 0), (1, 0), (0, 3)], 4), 2.0),
    ],
)
def test_solids_enclose_their_volume(corners: Array, expected: float) -> None:
    assert volume(corners) == pytest.approx(expected)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_icosphere_is_closed(level: int) -> None:
    points, faces = shapes.icosphere(level)
    edges = [tuple(sorted(pair)) for a, b, c in faces.tolist() for pair in ((a, b), (b, c), (c, a))]
    assert len(faces) == 20 * 4**level
    assert {edges.count(edge) for edge in set(edges)} == {2}
    assert len(points) == 10 * 4**level + 2


def test_bevelled_box_is_smaller() -> None:
    assert 5.5 < volume(shapes.bevelled((0, 0, 0), (1, 2, 3), bevel=0.1)) < 6.0


def test_recolouring_keeps_the_shape() -> None:
    part = made("bollard", 0)
    changed = shapes.recoloured(part, np.arange(len(part)) == 0, (1, 0, 0), Material.SIGN)
    assert changed.corners is part.corners
    assert (changed.colour != part.colour).any(axis=1).sum() == 1


def test_bounds_are_those_of_the_corners_and_stay() -> None:
    car = cars.car(np.random.default_rng(0))
    low, high = car.bounds()
    points = car.corners.reshape(-1, 3)
    assert np.array_equal(low, points.min(axis=0))
    assert np.array_equal(high, points.max(axis=0))
    assert car.placed(1.0, 2.0).bounds()[0][0] == pytest.approx(low[0] + 1, abs=1e-5)
    with pytest.raises(ValueError, match="read-only"):
        low += 1


def test_unlit_models_have_no_headlights() -> None:
    car = cars.car(np.random.default_rng(0))
    assert car.has_headlights
    assert not car.unlit().has_headlights
