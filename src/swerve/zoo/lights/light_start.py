"""Training that begins with the pyramid of another detector, whose normalisation was folded away."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from swerve.zoo.networks import Normalised


@torch.no_grad()
def begin_with(net: nn.Module, start: nn.Module, images: Tensor) -> None:
    """Give `net` the weights of `start`, the same network with folded normalisation, and normalise on `images`.

    In training, `net` then returns on these images what `start` does: each normalisation undoes itself, as a first step.
    """
    given = dict(start.named_modules())
    hooks = []
    for name, part in net.named_modules():
        if isinstance(part, Normalised):
            convolution, norm = part
            assert isinstance(convolution, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            theirs = given[name]
            assert isinstance(theirs, nn.Conv2d)
            assert theirs.bias is not None
            convolution.weight.copy_(theirs.weight)
            hooks.append(norm.register_forward_pre_hook(_undo(theirs.bias)))
    net.train()
    net(images)
    for hook in hooks:
        hook.remove()


def _undo(bias: Tensor) -> Callable[[nn.Module, tuple[Tensor]], None]:
    """A hook that sets a normalisation so that it only adds `bias` to its first input."""

    def before(norm: nn.Module, inputs: tuple[Tensor]) -> None:
        assert isinstance(norm, nn.BatchNorm2d)
        variance, mean = torch.var_mean(inputs[0], (0, 2, 3), correction=0)
        norm.weight.copy_((variance + norm.eps).sqrt())
        norm.bias.copy_(mean + bias)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)

    return before
