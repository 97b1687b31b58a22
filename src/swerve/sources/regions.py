"""A drivable region for any source with a LiDAR: from a TOML or GeoJSON file, or a corridor along the road.

Regions are exported as GeoJSON that the reader accepts.
"""
# LM-4

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from swerve.config import limits
from swerve.core.arguments import take_paths
from swerve.core.case import Case
from swerve.core.errors import InputError, UnreadableCase, unknown
from swerve.core.region import area_of, inside
from swerve.core.seeding import digest_of
from swerve.core.values import Array, Group, PointCloud, Region, Value
from swerve.sources.rings import polygon
from swerve.sources.root import Root
from swerve.sources.texts import json_file
from swerve.sources.windows import WrappedSource

REGION = "region"
REGIONS = "regions.geojson"  # the file that exports write
CASE = "case"
EVERY = ""  # the key of the region for every case without its own
SIDES = ("ahead", "behind", "left", "right")
KEYS = ("outer", "holes", CASE)
Polygon = tuple[str, tuple[Array, ...]]  # the case it is for, and its rings


@dataclass(frozen=True)
class Regions(WrappedSource):
    """The cases of `source`, each with an input `region`: metres in the LiDAR's frame, x ahead and y left.

    Args:
        source: any source whose cases have a point cloud.
        region: a `.toml`, `.geojson` or `.json` file with one region for all cases, or one per case by its key.
        ahead: instead of a file, a corridor: metres from the LiDAR to its front end; likewise `behind`, `left`, `right`.
    """

    region: Path | None = None
    ahead: float = 0.0
    behind: float = 0.0
    left: float = 0.0
    right: float = 0.0

    def __post_init__(self) -> None:
        take_paths(self)
        for side in SIDES:
            metres = getattr(self, side)
            if isinstance(metres, bool) or not isinstance(metres, int | float) or not 0 <= metres < 1e6:
                raise InputError(f"regions: '{side}' must be from 0 to below 1,000,000 metres, got {metres!r}")
        corridor = self.ahead + self.behind > 0 and self.left + self.right > 0
        if (self.region is None) is not corridor or (self.region and any(getattr(self, side) for side in SIDES)):
            raise InputError(
                "regions: set either 'region' to a file, or a corridor with 'ahead', 'behind', 'left' and 'right', not both"
            )

    def keys(self) -> Sequence[str]:
        _ = self._regions  # an unreadable file is an error of the source, not of one case
        return self.source.keys()

    def __getitem__(self, key: str) -> Case:
        case = self.source[key]
        if not any(map(_is_cloud, case.inputs.values())):
            raise UnreadableCase(f"{key}: a region needs a point cloud; the inputs are {', '.join(case.inputs)}")
        region = self._regions.get(key, self._regions.get(EVERY))
        if region is None:
            raise UnreadableCase(f"{key}: {self._name} has no region for this case and none for all cases")
        return Case(case.key, {**case.inputs, REGION: region}, case.truth, case.group, case.parent, case.facts)

    def fingerprint(self) -> str:
        regions = {key: region.digest for key, region in self._regions.items()}
        return digest_of("regions", regions, self.source.fingerprint())

    @property
    def _name(self) -> str:
        return self.region.name if self.region else "the corridor"

    @cached_property
    def _regions(self) -> Mapping[str, Region]:
        """The region of each case by its key."""
        if self.region is not None:
            return read(self.region)
        x, y = (-self.behind, self.ahead), (-self.right, self.left)
        corners = np.array([[x[0], y[0]], [x[1], y[0]], [x[1], y[1]], [x[0], y[1]]], np.float64)
        return MappingProxyType({EVERY: Region((corners,))})


def _is_cloud(value: Value) -> bool:
    return isinstance(value, PointCloud) or (isinstance(value, Group) and any(map(_is_cloud, value.values)))


def read(path: Path) -> Mapping[str, Region]:
    """The regions of a file by the key of their case, or `EVERY`; raises `InputError` naming file and ring."""
    readers = {".toml": _from_toml, ".geojson": _from_geojson, ".json": _from_geojson}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path.name}: a region must be a .toml, .geojson or .json file")
    try:
        found = list(readers[path.suffix.lower()](Root(path.parent), path.name))
    except UnreadableCase as error:  # an error of the source, not of one case
        raise InputError(str(error)) from error
    if not found:
        raise InputError(f"{path.name}: no polygon in the file")
    rings: dict[str, list[Array]] = {}
    for case, polygons in found:
        rings.setdefault(case, []).extend(polygons)
    return MappingProxyType({case: Region(tuple(parts)) for case, parts in rings.items()})


def _from_toml(root: Root, name: str) -> Iterator[Polygon]:
    """`[[polygon]]` tables with `outer` and, optionally, `holes` and `case`."""
    try:
        data = tomllib.loads(root.bytes(name, most=limits.CONFIG).decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name}: {error}") from error
    _known(data, ("polygon",), name)
    tables = data.get("polygon", [])
    if not isinstance(tables, list):
        raise InputError(f"{name}: write [[polygon]] once for each polygon")
    for count, table in enumerate(tables, 1):
        what = f"{name}, polygon {count}"
        if not isinstance(table, Mapping):
            raise InputError(f"{what}: expected a table with 'outer', got {table!r:.60}")
        _known(table, KEYS, what)
        holes = table.get("holes", [])
        if not isinstance(holes, list):
            raise InputError(f"{what}: 'holes' must be a list of rings, got {holes!r:.60}")
        yield _case(table.get(CASE), what), polygon([table.get("outer"), *holes], what)


def _known(table: Mapping[str, Any], keys: Sequence[str], what: str) -> None:
    for key in table:
        if key not in keys:
            raise InputError(f"{what}: {unknown('key', key, keys)}")


def _from_geojson(root: Root, name: str) -> Iterator[Polygon]:
    """Every Polygon and MultiPolygon; the property `case` of a feature is the key of its case."""
    data = json_file(root, name)
    features = data.get("features") if isinstance(data, Mapping) and data.get("type") == "FeatureCollection" else None
    if features is None:
        yield from _feature(data, name)
        return
    if not isinstance(features, list):
        raise InputError(f"{name}: 'features' must be a list, got {features!r:.60}")
    for count, feature in enumerate(features, 1):
        yield from _feature(feature, f"{name}, feature {count}")


def _feature(data: Any, what: str) -> Iterator[Polygon]:
    case = EVERY
    if isinstance(data, Mapping) and data.get("type") == "Feature":
        properties = data.get("properties")
        case = _case(properties.get(CASE) if isinstance(properties, Mapping) else None, what)
        data = data.get("geometry")
    kind = data.get("type") if isinstance(data, Mapping) else None
    if kind not in ("Polygon", "MultiPolygon"):
        raise InputError(f"{what}: expected a Polygon or a MultiPolygon, got {kind or data!r:.60}")
    shapes = data.get("coordinates")
    if kind == "Polygon":
        yield case, polygon(shapes, what)
        return
    if not isinstance(shapes, list):
        raise InputError(f"{what}: 'coordinates' must be a list of polygons, got {shapes!r:.60}")
    for count, rings in enumerate(shapes, 1):
        yield case, polygon(rings, f"{what}, polygon {count}")


def _case(key: Any, what: str) -> str:
    if key is None:
        return EVERY
    if not isinstance(key, str) or not key:
        raise InputError(f"{what}: 'case' must be the key of a case, got {key!r:.60}")
    return key


def collection_text(features: Iterator[str]) -> Iterator[str]:
    """The text of a FeatureCollection, piece by piece; each feature is given as JSON."""
    yield '{"type": "FeatureCollection", "features": ['
    for number, feature in enumerate(features):
        yield f"{',' if number else ''}\n{feature}"
    yield "\n]}\n"


def region_feature(region: Region, case: str) -> Mapping[str, Any]:
    """The region of a case as a GeoJSON feature: every outer ring with its holes, each closed."""
    shapes = [[_closed(ring) for ring in rings] for rings in _shapes(region)]
    geometry = {"type": "MultiPolygon", "coordinates": shapes}
    return {"type": "Feature", "properties": {"case": case}, "geometry": geometry}


def _shapes(region: Region) -> list[list[Array]]:
    """Outer rings, each with its holes; a clockwise ring inside none of them is a polygon of its own."""
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
