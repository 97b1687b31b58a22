"""R51: inside and outside agree with a rule written another way, and no file of regions ends in a traceback.

1,000,000 points and 10,000 mutated files with SWERVE_SOAK=1, some thousands and a few hundred otherwise.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from swerve.core.errors import LONGEST_MESSAGE, InputError
from swerve.core.region import CELL, Bitmap, distance, inside, outside
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Region
from swerve.sources.regions import read
from swerve.world.lidar_source import LidarWorld

SOAK = os.environ.get("SWERVE_SOAK") == "1"
POINTS = 1_000_000 if SOAK else 20_000
FILES = 10_000 if SOAK else 600
BORDER = 1e-9  # metres within which angles cannot tell


def turns(region: Region, points: Array) -> Array:
    """How often the rings go around each point: the angles under which it sees their edges, added up."""
    total = np.zeros(len(points))
    for ring in region.polygons:
        seen = [np.arctan2(*(ring - point).T[::-1]) for point in points]
        swept = np.diff(np.column_stack([seen, np.array(seen)[:, :1]]), axis=1)
        total += ((swept + np.pi) % (2 * np.pi) - np.pi).sum(axis=1)
    return np.rint(total / (2 * np.pi)).astype(int)


def ragged(seed: int) -> Region:
    """An island with a lake in it, a tongue that lies over both, and a ring that crosses itself over and over."""
    rng = rng_for(seed, "ragged", 0)

    def blob(x: float, y: float, low: float, high: float, count: int) -> Array:
        turn = np.sort(rng.uniform(0, 2 * np.pi, count))
        return np.column_stack([np.cos(turn), np.sin(turn)]) * rng.uniform(low, high, (count, 1)) + [x, y]

    knot = rng.uniform((40, -20), (80, 20), (9, 2))
    return Region((blob(0, 0, 25, 50, 120), blob(0, 0, 5, 22, 60)[::-1], blob(30, 10, 2, 30, 40), knot))


def test_as_angles_add_up() -> None:
    """0 disagreements off the border, holes, overlaps and crossings included."""
    batch = 2_000
    for number in range(POINTS // batch):
        region = ragged(number % 50)
        points = rng_for(number, "spots", 0).uniform(-90, 90, (batch, 2))
        wrong = inside(region, points) != (turns(region, points) != 0)
        assert not (wrong & (distance(region, points) > BORDER)).any()


def test_the_reference_would_see_a_fault() -> None:
    """Planted: a lake that runs the same way round as its island is land, and both rules say so."""
    island, lake, *_ = ragged(0).polygons
    flipped = Region((island, lake[::-1]))
    points = rng_for(0, "spots", 0).uniform(-50, 50, (2_000, 2))
    changed = inside(Region((island, lake)), points) != inside(flipped, points)
    assert changed.any()
    assert (inside(flipped, points) == (turns(flipped, points) != 0)).all()


@pytest.mark.parametrize("size", [60.0, 72.0])
def test_bitmap_and_polygon_never_disagree_about_a_point_outside(size: float) -> None:
    """LM-4: a detector's bitmap of any extent that begins on a cell says the same of every point said to be outside."""
    for number in range(POINTS // 10_000):
        region = ragged(number)
        points = rng_for(number, "spots", 1).uniform(-size, size, (10_000, 2)).astype(np.float32)
        clear = outside(region, points)
        assert clear.any()
        assert not (clear & inside(region, points)).any()
        assert not (clear & Bitmap.of(region, (-size, -size), (size, size), CELL).grown().holds(points)).any()


def test_roads_of_the_world_have_sound_regions() -> None:
    """Closed, turned the right way, each hole a hole, and the sweep's own road inside."""
    source = LidarWorld(drives=60 if SOAK else 4, split="val")
    for _, region, boxes in source.samples():
        assert len(region.polygons) >= 1
        points = rng_for(0, "spots", 2).uniform(-119, 119, (300, 2))
        found = turns(region, points)
        assert set(np.unique(found)) <= {0, 1}
        assert ((found != 0) == inside(region, points)).all()
        assert inside(region, boxes.xyzlwhy[np.asarray(boxes.care), :2]).all()


GOOD = (
    json.dumps(
        {
            "type": "FeatureCollection",
            "features": [
                {
                    "type": "Feature",
                    "properties": {"case": "000001"},
                    "geometry": {
                        "type": "Polygon",
                        "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 0]], [[2, 1], [3, 1], [3, 2], [2, 1]]],
                    },
                },
                {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [[[[0, 0], [1.5, 0], [1e1, 2]]]]}},
            ],
        }
    ),
    '[[polygon]]\nouter = [[0, 0], [9, 0], [9, 9.5]]\nholes = [[[7, 1], [8, 1], [8, 2]]]\ncase = "a"\n'
    "[[polygon]]\nouter = [[-1e1, 0], [9, 0], [9, -9.5]]\n",
)
WORDS = (
    "[",
    "]",
    "{",
    "}",
    ",",
    '"',
    "null",
    "NaN",
    "1e999",
    "-",
    "0",
    "inf",
    "true",
    "[[polygon]]",
    "case",
    "\n",
    "\0",
    "é",
)


def mutated(text: str, rng: np.random.Generator) -> bytes:
    """A few characters gone, doubled or exchanged for words that matter."""
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(text) + 1))
        until = at + int(rng.integers(0, 9)) * int(rng.integers(0, 2))
        text = text[:at] + str(rng.choice(WORDS)) * int(rng.integers(0, 3)) + text[until:]
    data = bytearray(text.encode())
    if rng.random() < 0.2:
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    return bytes(data)


def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    kept = refused = 0
    for number in range(FILES):
        rng = rng_for(number, "damage", 0)
        path = tmp_path / ("f.geojson", "f.toml")[number % 2]
        path.write_bytes(mutated(GOOD[number % 2], rng))
        try:
            for region in read(path).values():
                assert inside(region, np.array([[1.0, 0.5], [1e9, 0.0]])).tolist()[1] is False
            kept += 1
        except InputError as error:
            said = str(error)
            assert said.startswith("f.")
            assert "\n" not in said
            assert len(said) <= LONGEST_MESSAGE
            refused += 1
    assert kept > FILES // 100
    assert refused > FILES // 3
