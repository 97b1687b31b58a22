"""Gradients of a torch network's output by the feature maps of a layer; the network is left unchanged.

As in `systems.probe`, threads may use a network at the same time: hooks see the pass of their own thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from swerve.core.errors import InputError
from swerve.core.system import Gradients, Window
from swerve.core.values import Array

Pick = Callable[[Any], Tensor]  # from a network's output to one number per input
Caught = list[Tensor]  # the outputs of a layer, call by call


def gradients_of(
    run: Callable[[Tensor], Any],
    batch: Tensor,
    catch: Callable[[Caught], AbstractContextManager[None]],
    pick: Pick,
    *,
    windows: Sequence[Window],
    channels: int = 1,
) -> Gradients:
    """Run a network on `batch` with gradients, and derive the numbers that `pick` takes from its output.

    `catch` puts the outputs of the layer into a list while it is entered; `channels` is the axis of their maps. A layer
    that runs several times for an input, as over the frames of a window, counts with its last run.
    """
    caught: Caught = []
    with torch.inference_mode(False), torch.enable_grad():
        given = batch.detach().clone().requires_grad_(True)  # also where no weight is to be trained
        with catch(caught):
            numbers = pick(run(given)).reshape(len(batch), -1)
        if not caught or numbers.shape[1] != 1:
            raise InputError("gradients need a layer that runs, and one number for each input")
        slopes = torch.autograd.grad(numbers.sum(), caught)
    last, slope = (_last_pass(tensor, len(batch)) for tensor in (caught[-1], slopes[-1]))
    if last.ndim != 4:
        raise InputError(f"the layer must have feature maps, rows by columns; its output has {last.ndim - 1} axes")
    features, derived = (_array(part.movedim(channels, 1)) for part in (last, slope))
    return Gradients(_array(numbers[:, 0]), features, derived, windows)


def _last_pass(tensor: Tensor, inputs: int) -> Tensor:
    """The last of several rows for each input."""
    return tensor.reshape(inputs, -1, *tensor.shape[1:])[:, -1]


def _array(tensor: Tensor) -> Array:
    numbers: Array = tensor.detach().float().cpu().numpy().copy()
    return numbers
