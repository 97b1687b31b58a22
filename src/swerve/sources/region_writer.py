"""Regions as a GeoJSON file that the source `regions` reads back, each for the case it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from swerve.core.region import area_of, inside
from swerve.core.values import Array, Region

REGIONS = "regions.geojson"


def collected(features: Iterator[str]) -> Iterator[str]:
    """The text of a file of features, each given as JSON, piece by piece."""
    yield '{"type": "FeatureCollection", "features": ['
    for number, feature in enumerate(features):
        yield f"{',' if number else ''}\n{feature}"
    yield "\n]}\n"


def feature(region: Region, case: str) -> Mapping[str, Any]:
    """A region for one case, metres in the LiDAR's frame: every outer ring with its holes, each closed."""
    shapes = [[_closed(ring) for ring in rings] for rings in _shapes(region)]
    geometry = {"type": "MultiPolygon", "coordinates": shapes}
    return {"type": "Feature", "properties": {"case": case}, "geometry": geometry}


def _shapes(region: Region) -> list[list[Array]]:
    """Outer rings, each with the holes in it; a ring that runs the other way in none of them is an area of its own."""
    shapes = [[ring] for ring in region.polygons if area_of(ring) > 0]
    for hole in (ring for ring in region.polygons if area_of(ring) < 0):
        around = [shape for shape in shapes if area_of(shape[0]) > 0 and inside(Region((shape[0],)), hole).all()]
        if around:
            min(around, key=lambda shape: area_of(shape[0])).append(hole)
        else:
            shapes.append([hole])
    return shapes


def _closed(ring: Array) -> list[list[float]]:
    return [*ring.tolist(), ring[0].tolist()]
