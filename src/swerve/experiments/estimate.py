"""The estimated cost of an experiment: a few trials are run and scaled up."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from swerve.core.campaign import Campaign, Trial
from swerve.core.case import Case, Source
from swerve.core.seeding import digest_of
from swerve.core.space import Space
from swerve.core.transformation import Transformation
from swerve.core.values import Group, Image, Steering
from swerve.execution.engine import observe
from swerve.execution.executors.cores import settle_threads
from swerve.execution.executors.in_process import InProcess
from swerve.execution.ledger import MemoryLedger
from swerve.store.files import json_bytes, png_bytes
from swerve.store.record_json import record_row
from swerve.world.source import World

SAMPLED = 2  # cases measured


@dataclass(frozen=True)
class Cost:
    """CPU seconds and bytes on disk."""

    seconds: float = 0.0
    size: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.size + other.size)

    def __mul__(self, times: float) -> Cost:
        return Cost(self.seconds * times, self.size * times)

    def describe(self) -> str:
        """In words, such as `about 12.0 CPU minutes and 340 MB`."""
        minutes = self.seconds / 60
        span = f"{minutes / 60:.1f} CPU hours" if minutes >= 90 else f"{max(minutes, 0.1):.1f} CPU minutes"
        return f"about {span} and {max(1, round(self.size / 1e6)):,} MB"


@dataclass(frozen=True)
class Stills:
    """A few cases with windows of `length` distinct frames, made from one picture."""

    picture: Image
    length: int
    count: int = SAMPLED

    def keys(self) -> list[str]:
        return [f"still-{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        first = int(key.rpartition("-")[2]) * self.length
        frames = tuple(self._frame(first + number) for number in range(self.length))
        return Case(key, {"camera": frames[0] if self.length == 1 else Group(frames)}, (Steering(float(first + 1)),))

    def fingerprint(self) -> str:
        return digest_of("stills", self.picture.digest, self.length, self.count)

    def _frame(self, number: int) -> Image:
        pixels = np.array(self.picture.pixels)
        pixels[0, number % pixels.shape[1]] ^= 1 + number // pixels.shape[1]
        return Image(pixels)


def frame_cost() -> tuple[Cost, Image]:
    """The cost of one frame of the world, including its scene, and such a frame."""
    world = World(drives=1, frames=3, seed=1)
    started = time.process_time()
    images = [world[key].inputs["camera"] for key in world.keys()]
    spent = time.process_time() - started
    last = images[-1]
    assert isinstance(last, Image)
    return Cost(spent / len(images), len(png_bytes(last.pixels))), last


def trial_cost(campaign: Campaign, source: Source) -> Cost:
    """The cost of one trial of `campaign`, measured with every rule on the first cases of `source`."""
    settle_threads()  # as in a run: threads that wait for each other cost many times more
    sampled = replace(campaign, source=source, inference_batch=SAMPLED)
    executor = InProcess(sampled)
    observe(sampled, MemoryLedger(), executor=executor)
    keys = list(source.keys())[:SAMPLED]
    batches = [[Trial(key, rule.name, 0, _first_change(rule.change)) for key in keys] for rule in sampled.rules]
    started = time.process_time()
    records = [record for batch in executor.evaluate(batches) for record in batch]
    spent = time.process_time() - started
    written = sum(len(json_bytes(record_row(record))) for record in records)
    return Cost(spent, written) * (1 / len(records))


def _first_change(space: Space) -> Transformation | None:
    return next(iter(space.grid()), None)
