"""Randomness by counter: every draw has its own generator, keyed by what it is for."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def digest_of(*parts: object) -> str:
    """The sha256 of `parts` as canonical JSON: equal parts, equal digest, on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def rng_for(*purpose: object) -> np.random.Generator:
    """A generator that depends on `purpose` alone, so no draw can disturb another."""
    return np.random.Generator(np.random.Philox(key=int(digest_of(*purpose)[:32], 16)))
