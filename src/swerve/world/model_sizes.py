"""The models of each kind by their size."""

from __future__ import annotations

from functools import cache

import numpy as np

from swerve.core.values import Array
from swerve.world.models import build_model, model_count
from swerve.world.scene import Thing


@cache
def model_sizes(kind: str) -> Array:
    """Length, width and height of every model of a kind, in metres."""
    bounds = (build_model(kind, number).bounds() for number in range(model_count(kind)))
    return np.array([high - low for low, high in bounds], float)


def model_of(thing: Thing) -> int | None:
    """The number of a thing's model, or None if it is none of its kind's models."""
    # A model that is unlit or painted shares the corners of the one it was made of.
    corners = thing.mesh.corners
    numbers = range(model_count(thing.kind))
    return next((number for number in numbers if build_model(thing.kind, number).corners is corners), None)


def models_by_size(thing: Thing) -> list[int]:
    """All other models of a thing's kind, those nearest in size first."""
    low, high = thing.mesh.bounds()
    away = np.abs(model_sizes(thing.kind) - (high - low).astype(float)).sum(axis=1)
    own = model_of(thing)
    return [int(number) for number in np.argsort(away, kind="stable") if number != own]
