"""Secondary rays, which depend on the conditions: towards the sun, and off a wet road."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from swerve.core.values import Array
from swerve.world.gbuffer import CastRays
from swerve.world.mesh import Material, column
from swerve.world.scene import NEAR, Blocker, Snapshot, is_blocked
from swerve.world.surface import OFF, Surface, dot, lift_off, rows_of, surface
from swerve.world.textures import look_up, tile

SHADOWS = 400.0  # metres: farther surfaces are in nothing's shadow
MIRRORED = 130.0  # metres: the farthest ground that reflects its surroundings
Recall = Callable[[tuple[object, ...], Callable[[], Any]], Any]  # a key, and what computes its value
Blocked = Callable[[Array, Array], Array]  # origins and directions of rays, and whether each is blocked


def compute(key: tuple[object, ...], make: Callable[[], Any]) -> Any:
    """A `Recall` that recalls nothing."""
    del key
    return make()


@dataclass(frozen=True, eq=False)
class Mirror:
    """What a wet road reflects: which of the ground's points reflect, in which direction, and the surfaces met there."""

    ground: Array  # indices into the ground
    out: Array
    found: Surface


@dataclass(frozen=True)
class SecondaryRays:
    """Casts the secondary rays of one frame; `recall` may keep them for other conditions.

    `blockers`, if given, cast the shadows in place of the snapshot, of which they are a part.
    """

    snapshot: Callable[[], Snapshot]
    recall: Recall = compute
    blockers: Callable[[], Sequence[Blocker]] | None = None

    def shadow(self, part: str, found: Surface, sun: Array) -> Array:
        """Whether something stands between each surface and the sun; surfaces that face away are not asked."""
        bits = self.recall((part, "shadow", sun.tobytes()), lambda: np.packbits(_shadow(self._blocked(), found, sun)))
        return np.unpackbits(bits, count=len(found.ray)).view(bool)

    def _blocked(self) -> Blocked:
        return partial(is_blocked, self.blockers()) if self.blockers else self.snapshot().blocked

    def mirror(self, part: str, rays: CastRays, pixels: float) -> Mirror:
        """The reflections in the ground that some rays met."""
        mirror: Mirror = self.recall((part, "mirror"), lambda: _mirror(self.snapshot(), rays, pixels))
        return mirror


def incidence(found: Surface, sun: Array) -> Array:
    """The cosine between each surface's normal and the sun; leaves transmit light."""
    cosine = sun @ found.normal
    return np.where(found.material == Material.LEAVES, 0.35 + 0.65 * cosine, cosine)


def _shadow(ask_blocked: Blocked, found: Surface, sun: Array) -> Array:
    ask = np.flatnonzero((incidence(found, sun) > 0) & (found.distance < SHADOWS))
    point, normal, toward = (np.take(part, ask, axis=1) for part in (found.point, found.normal, found.toward))
    start = point + normal * lift_off(found.material[ask]) - toward * NEAR
    blocked = np.zeros(len(found.ray), bool)
    blocked[ask] = ask_blocked(start, np.broadcast_to(sun[:, None], start.shape))
    return blocked


def _mirror(snapshot: Snapshot, rays: CastRays, pixels: float) -> Mirror:
    found = rays.found
    near = rows_of(found.distance[rays.ground.rows] < MIRRORED)
    rows = rays.ground.rows[near]
    point, toward = np.take(found.point, rows, axis=1), np.take(found.toward, rows, axis=1)
    out = toward * column(1, 1, -1)
    ripple = look_up(tile("grain", 0.45), point[0], point[1], 23.0) * 0.012
    out[2] = np.maximum(out[2] + ripple, 0.005)
    out /= np.sqrt(dot(out, out))
    start = point + column(0, 0, OFF)
    return Mirror(near, out, surface(snapshot, snapshot.cast(start, out), out, start, pixels=pixels))
