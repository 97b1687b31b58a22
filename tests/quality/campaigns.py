"""Small campaigns of every kind, as files that any process can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from swerve.core.campaign import Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.relation import Status
from swerve.core.seeding import digest_of, rng_for
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Image, Value
from swerve.transformations.photometric import Brighten

SWEEP = """
seed = {seed}
inference_batch = {batch}
[source]
use = "swerve.testing:FakeSource"
count = {count}
width = {width}
height = 40
[system]
use = "swerve.testing:FakeSystem"
bias = 0.2
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-angle", within = 15 }}
[[rule]]
name = "turned"
change = {{ use = "rotate", degrees = "grid" }}
expect = {{ use = "lambda-mse", factor = 5 }}
[search]
use = "sweep"
per_case = 12
"""
WINDOWS = SWEEP.replace(
    'use = "swerve.testing:FakeSource"\ncount = {count}\nwidth = {width}\nheight = 40',
    'use = "windows"\nlength = 3\n'
    'source = {{ use = "swerve.testing:FakeSource", count = {count}, drive = 10, width = {width}, height = 40 }}',
)
CLIMB = SWEEP.replace('use = "sweep"\nper_case = 12', 'use = "tests.quality.campaigns:Climb"\nrounds = {count}')
CHAINS = SWEEP.replace(
    '{{ use = "brighten", beta = [1, 40] }}',
    '[{{ use = "brighten", beta = [10, 40] }}, {{ use = "contrast", alpha = [1.0, 1.4] }}, '
    '{{ use = "rain", amount = [0, 0.3] }}]',
)
NETWORK = """
seed = {seed}
inference_batch = {batch}
[source]
use = "folder"
folder = "pictures"
[system]
use = "torch"
net = "tests.quality.campaigns:small_network"
weights = "weights.safetensors"
read = [{{ use = "divide", by = 255.0 }}]
say = [{{ use = "steering", unit = "degrees", positive = "left", kind = "wheel" }}]
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [10, 60] }}
expect = {{ use = "same-angle", within = 2 }}
[[rule]]
name = "fog"
change = {{ use = "fog", visibility = [20, 200] }}
expect = {{ use = "same-angle", within = 2 }}
[search]
use = "sweep"
per_case = 12
"""
GUIDED = """
method = "deeptest"
search = "guided"
tries = 4
budget = 200
against = "own answer"
within = 2.0
""" + NETWORK.split("[[rule]]")[0]
READING = (
    NETWORK.split("[[rule]]")[0]
    + """
[coverage]
criteria = ["nc"]
[[rule]]
name = "pair"
expect = {{ use = "same-angle", within = 0.05 }}
[rule.change]
use = "one-of"
[[rule.change.spaces]]
use = "tests.reading_spaces:ByPicture"
[[rule.change.spaces]]
use = "tests.reading_spaces:ByAnswer"
[search]
use = "greedy"
follow = "chance"
chance = 0.3
budget = 120
tries = 4
depth = 6
width = 3
"""
)
POINTS = """
method = "lidar"
n = 12
near = 5.0
check = "subset"
seed = {seed}
inference_batch = {batch}
search = {{ use = "fuzz", points = 12, reach = 8.0, per_case = 2, targets = 12, tries = 64 }}
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = {count}
[system]
use = "tests.unit.test_fuzz:Fading"
"""
BOXES = """
seed = {seed}
inference_batch = {batch}
[source]
use = "swerve.testing:FakeSource"
count = {count}
width = {width}
height = 40
[system]
use = "tests.quality.campaigns:Spotter"
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-boxes", overlap = 0.5 }}
[[rule]]
name = "turned"
change = {{ use = "rotate", degrees = [1, 8] }}
expect = "same-boxes"
[search]
use = "sweep"
per_case = 12
"""
KINDS = {
    "sweep": SWEEP,
    "windows": WINDOWS,
    "climb": CLIMB,
    "chains": CHAINS,
    "network": NETWORK,
    "guided": GUIDED,
    "reading": READING,
    "points": POINTS,
    "boxes": BOXES,
}


def written(path: Path, kind: str = "sweep", *, seed: int = 0, count: int = 6, width: int = 24, batch: int = 2) -> Path:
    """A campaign file; that of a network with its pictures and its weights beside it."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(KINDS[kind].format(seed=seed, count=count, width=width, batch=batch))
    if kind in ("network", "guided", "reading"):
        _write_pictures(path.parent / "pictures", count, width)
        _write_weights(path.parent / "weights.safetensors")
    return path


def _write_pictures(folder: Path, count: int, width: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        pixels = rng_for("picture", number).integers(0, 180, (24, width, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), pixels)


def _write_weights(path: Path) -> None:
    from safetensors.torch import save_file
    from torch import from_numpy

    numbers = rng_for("weights")
    shapes = {name: tuple(tensor.shape) for name, tensor in small_network().state_dict().items()}
    save_file({name: from_numpy(8 * numbers.normal(size=shape).astype(np.float32)) for name, shape in shapes.items()}, path)


def small_network() -> Any:
    """A network that looks at brightness, more or less."""
    from torch import nn

    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1))


@dataclass(frozen=True)
class Spotter:
    """A detector that sees a car in every quarter of a picture whose pixels are bright enough, surer where they are more."""

    least: float = 105.0

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(self._seen(case.inputs["camera"]),) for case in cases]

    def fingerprint(self) -> str:
        return digest_of("spotter", self.least)

    def _seen(self, image: Value) -> Boxes2D:
        assert isinstance(image, Image)
        height, width, _ = image.pixels.shape
        parts = np.array_split(image.pixels.astype(np.float64), 4, axis=1)
        levels = [float(part.mean()) for part in parts]
        places = [place for place, level in enumerate(levels) if level > self.least]
        rows = np.array([[place * width / 4, 5, (place + 1) * width / 4, height - 5] for place in places])
        scores = np.array([min(1.0, levels[place] / 255) for place in places])
        return Boxes2D(rows.reshape(-1, 4), ("car",) * len(places), scores, size=(width, height))


@dataclass(frozen=True)
class Climb:
    """A search that learns: it goes on from the worst it was told so far, so that every ask hangs on all before it."""

    rounds: int = 10
    each: int = 24

    def start(self, plan: Plan) -> Climbing:
        return Climbing(self, plan)


class Climbing:
    """A climb under way."""

    def __init__(self, climb: Climb, plan: Plan) -> None:
        self.total: int | None = climb.rounds * climb.each
        self._climb, self._plan, self._round = climb, plan, 0
        self._worst = (-1e9, plan.keys[0], 0.0)
        self._told = 0.0

    def ask(self) -> Sequence[Trial]:
        self._round += 1
        if self._round > self._climb.rounds:
            return []
        rng = rng_for(self._plan.seed, self._round, self._told.hex())
        return [self._trial(place, rng) for place in range(self._climb.each)]

    def _trial(self, place: int, rng: np.random.Generator) -> Trial:
        _, key, beta = self._worst
        case = key if place % 2 else self._plan.keys[int(rng.integers(len(self._plan.keys)))]
        change = Brighten(beta=round(min(80.0, beta + float(rng.uniform(-3, 8))), 3))
        return Trial(case, self._plan.rules[0].name, 100 * self._round + place, change)

    def tell(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.verdict.status in (Status.HELD, Status.VIOLATED) and isinstance(record.change, Brighten):
                margin = record.verdict.margin or 0.0
                self._worst = max(self._worst, (margin, record.trial.case, record.change.beta))
                self._told += margin  # to the last bit
