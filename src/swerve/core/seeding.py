"""Counter-based random numbers: every draw has its own generator, keyed by its purpose."""

from __future__ import annotations

import hashlib
import json

import numpy as np

# json.dumps would make an encoder for every call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
Stream = tuple[int, ...]  # the state of a generator as plain numbers


def digest_of(*parts: object) -> str:
    """The sha256 of `parts` as canonical JSON, equal on every machine."""
    return hashlib.sha256(_canonical(parts).encode()).hexdigest()


def rng_for(*purpose: object) -> np.random.Generator:
    """A generator that depends only on `purpose`, so that draws are independent of their order."""
    return np.random.Generator(np.random.Philox(key=int(digest_of(*purpose)[:32], 16)))


def stream_of(rng: np.random.Generator) -> Stream:
    """The present state of a generator of `rng_for`, from which `rng_from` goes on, also in another process."""
    state = rng.bit_generator.state
    parts = (*state["state"]["counter"], *state["state"]["key"], *state["buffer"])
    return (*map(int, parts), state["buffer_pos"], state["has_uint32"], state["uinteger"])


def rng_from(stream: Stream) -> np.random.Generator:
    """A generator that goes on from a state."""
    words, (position, has_half, half) = np.array(stream[:10], np.uint64), stream[10:]
    bits = np.random.Philox()
    bits.state = {
        "bit_generator": "Philox",
        "state": {"counter": words[:4], "key": words[4:6]},
        "buffer": words[6:],
        "buffer_pos": position,
        "has_uint32": has_half,
        "uinteger": half,
    }
    return np.random.Generator(bits)
