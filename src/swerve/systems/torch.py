"""A torch network as a system."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch

from swerve.case import Case
from swerve.system import Answer
from swerve.systems.function import answer_of, identity_of
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

    def fingerprint(self) -> str:
        """A hash of the weights, of the network's class, and of how it is fed and read out."""
        hasher = hashlib.sha256()
        for name, tensor in sorted(self.net.state_dict().items()):
            hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
            hasher.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        # The class by name alone: torch's own classes change their source with every release, not what they do.
        for part in (*identity_of(type(self.net))[:2], *identity_of(self.read), *identity_of(self.say)):
            hasher.update(f"{part}\0".encode())
        return hasher.hexdigest()
