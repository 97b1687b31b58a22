"""Counter-based random numbers: every draw has its own generator, keyed by its purpose."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def digest_of(*parts: object) -> str:
    """The sha256 of `parts` as canonical JSON, equal on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def rng_for(*purpose: object) -> np.random.Generator:
    """A generator that depends only on `purpose`, so that draws are independent of their order."""
    return np.random.Generator(np.random.Philox(key=int(digest_of(*purpose)[:32], 16)))
