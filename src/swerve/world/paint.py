"""Named colours, and objects painted in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Material, Mesh, row

Colour = tuple[float, float, float]
# Linear reflectances of common car paints.
COLOURS: Mapping[str, Colour] = MappingProxyType(
    {
        "white": (0.72, 0.72, 0.70),
        "silver": (0.45, 0.46, 0.47),
        "grey": (0.20, 0.21, 0.22),
        "black": (0.014, 0.014, 0.016),
        "blue": (0.02, 0.07, 0.27),
        "light-blue": (0.13, 0.26, 0.42),
        "red": (0.42, 0.018, 0.018),
        "green": (0.02, 0.10, 0.045),
        "yellow": (0.60, 0.38, 0.03),
        "orange": (0.55, 0.15, 0.015),
        "beige": (0.36, 0.29, 0.20),
    }
)


def painted(mesh: Mesh, colour: str) -> Mesh:
    """The mesh with its main colour replaced; a mesh without paint or cloth is returned as it is."""
    colours = mesh.colour.copy()
    colours[_main_rows(mesh)] = row(*COLOURS[colour])
    return replace(mesh, colour=colours)


def other_colours(mesh: Mesh) -> list[str]:
    """The names of all colours but the one nearest to the mesh's main colour, in order."""
    rows = _main_rows(mesh)
    if not len(rows):
        return []
    # Differences as they are seen: the eye's response is roughly the root of the reflectance.
    away = np.sqrt(np.array(list(COLOURS.values()))) - np.sqrt(mesh.colour[rows[0]])
    nearest = int(np.abs(away).sum(axis=1).argmin())
    return [name for number, name in enumerate(COLOURS) if number != nearest]


def _main_rows(mesh: Mesh) -> Array:
    """The triangles in the colour that covers most of the mesh's paint and cloth."""
    rows = np.flatnonzero(np.isin(mesh.material, (Material.PAINT, Material.CLOTH)))
    if not len(rows):
        return rows
    one, two, three = np.moveaxis(mesh.corners[rows].astype(float), 1, 0)
    areas = np.linalg.norm(np.cross(two - one, three - one), axis=1)
    _, place = np.unique(mesh.colour[rows], axis=0, return_inverse=True)
    return rows[place.ravel() == np.bincount(place.ravel(), areas).argmax()]
