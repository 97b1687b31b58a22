"""Activations of several passes as one: the calls of a layer within a batch, and batches one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swerve.core.errors import InputError
from swerve.core.system import Activations

INPUT = "(input)"  # the channels of the picture, for those who count them
CHANNELS = {"chw": 1, "hwc": -1}  # where a batch of pictures or windows of that layout has them
PARTS = ("mean", "low", "high")


def joined(name: str, calls: Sequence[Activations], *, inputs: int) -> Activations:
    """The calls of one layer as one: further steps of a recurrent layer, further passes of any other."""
    rows = {len(call.mean) for call in calls}
    if any(count % inputs for count in rows):
        raise InputError(
            f"layer '{name}' put out {max(rows)} rows for {inputs} inputs; each input needs as many as the others"
        )
    first = calls[0]
    if first.kind == "recurrent":
        mean = np.concatenate([call.mean for call in calls], axis=1)
        low, high = np.min([call.low for call in calls], axis=0), np.max([call.high for call in calls], axis=0)
        return replace(first, mean=mean, low=low, high=high, passes=len(mean) // inputs)
    mean, low, high = (
        np.concatenate([getattr(call, what).reshape(inputs, -1, *getattr(call, what).shape[1:]) for call in calls], axis=1)
        for what in PARTS
    )
    passes = mean.shape[1]
    return replace(first, mean=mean.reshape(inputs * passes, -1), low=low.reshape(-1), high=high.reshape(-1), passes=passes)


def first_of(layers: Mapping[str, Activations], inputs: int) -> dict[str, Activations]:
    """The rows of the first `inputs` inputs: what came of padding is left out."""
    return {name: _cut(part, inputs * part.passes) for name, part in layers.items()}


def _cut(part: Activations, end: int) -> Activations:
    return replace(part, mean=part.mean[:end], low=part.low[:end], high=part.high[:end])


def in_a_row(parts: Sequence[Mapping[str, Activations]]) -> dict[str, Activations]:
    """Batches that were traced one after the other as one."""
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(parts: Sequence[Activations]) -> Activations:
    mean, low, high = (np.concatenate([getattr(part, what) for part in parts]) for what in PARTS)
    return replace(parts[0], mean=mean, low=low, high=high)
