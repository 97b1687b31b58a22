"""A torch network as a system."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from swerve.case import Case
from swerve.seeding import digest_of
from swerve.system import Answer, Traced
from swerve.systems.function import answer_of, identity_of, state_of, weights_of
from swerve.systems.probe import layers_of, probe
from swerve.values import Value


class TorchSystem:
    """A network between `read`, which makes one input without a batch axis, and `say`, which words one output row."""

    def __init__(
        self,
        net: torch.nn.Module,
        read: Callable[[Case], torch.Tensor],
        say: Callable[[torch.Tensor], Value | Answer],
    ) -> None:
        self.net = net.eval()
        self.read = read
        self.say = say

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        if not cases:
            return []
        batch = torch.stack([self.read(case) for case in cases])
        self.net.eval()  # somebody may have trained it since
        with torch.inference_mode():
            rows = self.net(batch)
        who = type(self.net).__name__
        return [answer_of(self.say(row), who) for _, row in zip(cases, rows, strict=True)]

    def layers(self) -> Sequence[str]:
        """The layers whose activations can be read."""
        return layers_of(self.net)

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        """Answers and activations of one forward pass."""
        if not cases:
            return Traced([], {})
        self.net.eval()
        rows, activations = probe(self.net, torch.stack([self.read(case) for case in cases]), layers)
        who = type(self.net).__name__
        return Traced([answer_of(self.say(row), who) for _, row in zip(cases, rows, strict=True)], activations)

    def fingerprint(self) -> str:
        """A hash of the weights, of the network's own classes, and of how it is fed and read out."""
        kinds = sorted({type(module) for module in self.net.modules()}, key=repr)
        # torch's own classes by name alone: their source changes with every release, not what they do.
        own = [identity_of(kind) if not kind.__module__.startswith("torch.") else kind.__qualname__ for kind in kinds]
        plain = {
            name: item
            for name, item in vars(self.net).items()
            if name != "training" and isinstance(item, bool | int | float | str)
        }
        return digest_of(weights_of(self.net), own, state_of(plain), state_of(self.read), state_of(self.say))
