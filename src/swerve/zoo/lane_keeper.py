"""A small convolutional network that steers along rendered roads, and the recipe that trained it.

Train another with `python -m swerve.zoo.lane_keeper --out FILE`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import safetensors
import torch
from rich.progress import track
from safetensors.torch import load_file, save_file
from torch import nn

from swerve.case import Case, Source
from swerve.errors import InputError
from swerve.sources.roads import Roads
from swerve.system import Answer, System
from swerve.systems.torch import TorchSystem
from swerve.values import Image, Steering, find

WIDTH, HEIGHT = 160, 80
DEGREES = 25.0  # of the wheel per unit of output: about the spread of the labels
BATCH, PEAK_RATE = 64, 4e-3
PACKAGED = Path(__file__).parent / "weights" / "lane_keeper.safetensors"

Watch = Callable[[range, str], Iterable[int]]


@dataclass(frozen=True)
class LaneKeeper:
    """The trained lane keeper; `weights` is another file of the same recipe."""

    weights: Path | None = None

    def __post_init__(self) -> None:
        self.system.fingerprint()  # a bad file is refused now, not in the middle of a campaign

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return self.system(cases)

    def fingerprint(self) -> str:
        return self.system.fingerprint()

    @cached_property
    def system(self) -> TorchSystem:
        """The network behind it, its weights read once."""
        return system(load(self.weights or PACKAGED))


def load(path: Path) -> LaneNet:
    """The network with the weights of a safetensors file."""
    net = LaneNet()
    try:
        net.load_state_dict(load_file(path))
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:
        raise InputError(f"{path}: no lane keeper weights: {error}") from error
    return net


def system(net: nn.Module) -> TorchSystem:
    """A network of this recipe, fed with the `camera` image and read out as steering."""
    return TorchSystem(net, read, say)


def read(case: Case) -> torch.Tensor:
    """The camera image as 3x80x160 numbers from -1 to 1."""
    return centred(pixels_of(case))


def pixels_of(case: Case) -> torch.Tensor:
    """The camera image as 3x80x160 bytes."""
    image = case.inputs.get("camera")
    if not isinstance(image, Image):
        raise InputError(f"{case.key}: the lane keeper reads an image named 'camera', got {', '.join(case.inputs)}")
    small = cv2.resize(image.pixels, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(small).permute(2, 0, 1)


def centred(pixels: torch.Tensor) -> torch.Tensor:
    """Bytes as numbers from -1 to 1."""
    return pixels.float() / 127.5 - 1.0


def say(row: torch.Tensor) -> Steering:
    """The network's one number in degrees of the wheel."""
    return Steering(row.item() * DEGREES)


class LaneNet(nn.Module):
    """Five convolutions, then two dense layers that still know where in the frame they look; one number per frame."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 16, 24, 32, 48, 48)
        self.look = nn.Sequential(*(_block(*pair) for pair in pairwise(widths)))
        self.steer = nn.Sequential(nn.Flatten(), nn.Linear(48 * 3 * 5, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """The wheel angle of each frame, in units of `DEGREES`."""
        angles: torch.Tensor = self.steer(self.look(frames))
        return angles


def _block(into: int, out: int) -> nn.Sequential:
    size = 5 if into == 3 else 3
    convolution = nn.Conv2d(into, out, size, stride=2, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out), nn.ReLU())


def unwatched(steps: range, what: str) -> Iterable[int]:
    """The steps without a progress bar."""
    del what
    return steps


def train(source: Source | None = None, *, epochs: int = 10, seed: int = 7, watch: Watch = unwatched) -> LaneNet:
    """A network trained on `source`; the same seed gives the same network, and torch's own generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = LaneNet()
        frames, angles = _load(source or Roads(drives=6000, frames=1, split="train"), watch)
        _fit(net.train(), frames, angles, epochs=epochs, watch=watch)
    return net.eval()


def _load(source: Source, watch: Watch) -> tuple[torch.Tensor, torch.Tensor]:
    """Every frame as bytes, and its angle in units of the network."""
    keys = source.keys()
    frames, angles = torch.empty((len(keys), 3, HEIGHT, WIDTH), dtype=torch.uint8), torch.empty((len(keys), 1))
    for index in watch(range(len(keys)), "rendering"):
        case = source[keys[index]]
        frames[index], angles[index] = pixels_of(case), degrees_of(case.truth) / DEGREES
    return frames, angles


def _fit(net: nn.Module, frames: torch.Tensor, angles: torch.Tensor, *, epochs: int, watch: Watch) -> None:
    order = torch.cat([torch.randperm(len(frames)) for _ in range(epochs)])
    steps = range(0, len(order), BATCH)
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, total_steps=len(steps))
    for start in watch(steps, "training"):
        chosen = order[start : start + BATCH]
        loss = nn.functional.mse_loss(net(centred(_dimmed(frames[chosen]))), angles[chosen])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()


def _dimmed(pixels: torch.Tensor) -> torch.Tensor:
    """Each frame a little darker or brighter."""
    return (pixels * torch.empty(len(pixels), 1, 1, 1).uniform_(0.8, 1.2)).clamp(0, 255)


def save(net: nn.Module, path: str) -> None:
    """Write the weights in half precision."""
    state = {name: part.half() if part.is_floating_point() else part for name, part in net.state_dict().items()}
    save_file(state, path)


def score(tested: System, source: Source) -> tuple[float, float]:
    """The root mean square error in degrees over `source`, of `tested` and of never steering."""
    cases = list(map(source.__getitem__, source.keys()))
    truth = np.array([degrees_of(case.truth) for case in cases])
    said = np.array([degrees_of(answer) for answer in tested(cases)])
    return float(np.sqrt(np.mean((said - truth) ** 2))), float(np.sqrt(np.mean(truth**2)))


def degrees_of(answer: Answer) -> float:
    """The steering angle in `answer`."""
    value = find(answer, "steering")
    if not isinstance(value, Steering):
        raise InputError(f"expected a steering angle, got {answer!r}")
    return value.degrees


def main() -> None:
    """Train, save, and print the error on roads the network never saw."""
    parser = argparse.ArgumentParser(prog="python -m swerve.zoo.lane_keeper", description=main.__doc__)
    parser.add_argument("--out", required=True, metavar="FILE", help="where to write the weights")
    parser.add_argument("--seed", type=int, default=7, help="of the first weights and the order of frames")
    given = parser.parse_args()
    if not Path(given.out).absolute().parent.is_dir():
        parser.error(f"--out {given.out}: no such folder")
    torch.set_num_threads(1)
    save(train(seed=given.seed, watch=lambda steps, what: track(steps, what)), given.out)
    minutes = time.process_time() / 60
    error, baseline = score(LaneKeeper(Path(given.out)), Roads(drives=150, frames=2, split="test"))
    print(f"held-out RMSE {error:.2f} degrees, {error / baseline:.0%} of never steering ({baseline:.2f})")
    print(f"{minutes:.1f} CPU minutes")


if __name__ == "__main__":
    main()
