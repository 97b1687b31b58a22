"""Cars, vans, buses and trucks: x ahead, y left, z up, the origin on the ground under the middle."""

from __future__ import annotations

from swerve.world.cars import car, van
from swerve.world.lorries import bus, truck

__all__ = ["bus", "car", "truck", "van"]
