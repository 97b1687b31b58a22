"""What fog, rain and snow do to a sweep: returns fade with distance and end, and the air near the sensor answers itself.

Light goes out and back, so a return from R metres keeps exp(−2·extinction·R) of its intensity; where less than the 2% is
left that the visibility is defined by, it is lost. Droplets and flakes also scatter light back (as in LISA, Kilic et al.
2021). They are noticed near the sensor alone: their echo fades with the fourth power of the distance, and few of them are
large. So a metre of the beam, r metres away, answers with a chance of `share`·extinction·exp(−r/`depth`), and a beam that is
answered returns that instead of what stands behind.

A beam that met nothing in clear air is not in a sweep, so the answers that it would get, mostly above the horizon, are
missing. The strongest return counts as the only one, and ranges stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array
from swerve.transformations.atmosphere import KOSCHMIEDER

BLIND = 1.0  # metres: nearer echoes are not told from the lens


@dataclass(frozen=True)
class Backscatter:
    """How a kind of weather answers: the share of what it takes, over what depth, and the intensity of the brightest."""

    share: float
    depth: float  # metres
    bright: float


# Chosen, not fitted to recordings: the densest fog answers half of all beams, the heaviest snow one in six, the heaviest
# rain one in thirty. Flakes are white, droplets let most light through.
IN_FOG = Backscatter(0.5, 5.0, 0.06)
IN_RAIN = Backscatter(1.0, 4.0, 0.08)
IN_SNOW = Backscatter(1.0, 7.0, 0.25)


def reach(extinction: float) -> float:
    """Metres beyond which no return is left."""
    return KOSCHMIEDER / (2 * extinction) if extinction else np.inf


def swept(xyzi: Array, extinction: float, air: Backscatter, rng: np.random.Generator) -> Array:
    """The sweep through this air; denser air answers the same beams, nearer, and others."""
    far = np.sqrt(np.einsum("ij,ij->i", xyzi[:, :3], xyzi[:, :3], dtype=np.float64))
    chance, light = rng.standard_exponential(len(far)), rng.random(len(far))
    seen = xyzi.copy()
    seen[:, 3] *= np.exp(-2 * extinction * far)
    near = np.flatnonzero(chance < _expected(far, extinction, air))
    metres = _distances(chance[near], extinction, air)
    seen[near, :3] *= (metres / far[near])[:, None]
    seen[near, 3] = air.bright * light[near] * np.exp(-2 * extinction * metres)
    kept = ~(far > reach(extinction))  # what is not finite is the system's to deal with
    kept[near] = True
    return np.asarray(seen[kept])


def _expected(far: Array, extinction: float, air: Backscatter) -> Array:
    """How many echoes a beam may expect from the air on its way."""
    thinning = np.exp(-BLIND / air.depth) - np.exp(-np.maximum(far, BLIND) / air.depth)
    return np.asarray(air.share * extinction * air.depth * thinning)


def _distances(expected: Array, extinction: float, air: Backscatter) -> Array:
    """From where a beam may expect so many echoes: the inverse."""
    thinning = expected / (air.share * extinction * air.depth)
    return np.asarray(-air.depth * np.log(np.exp(-BLIND / air.depth) - thinning))
