"""An evolutionary search for added LiDAR points that make the system lose an obstacle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_number, check_whole
from swerve.core.campaign import Plan, Record, Trial
from swerve.core.errors import InputError
from swerve.core.relation import Status
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes3D, find
from swerve.relations.obstacles import OBSTACLES, changes, labelled
from swerve.transformations.scatter import OfferPoints

ANSWERS, CHANCE = "answers", "chance"
TALL = 2.0  # metres; points lie at most this far above or below an obstacle's centre
NUDGE = np.array([0.5, 0.5, 0.3, 0.1])  # standard deviations of a mutation: metres, and intensity
MOVED, RENEWED = 0.3, 0.1  # probabilities that a point of a child is mutated, or drawn again
TOGETHER = 4  # obstacles attacked in one ask
NEAREST = 1.0  # metres; smaller distances from the sensor count as this
UNAFFECTED = 1.0  # the value of an unaffected obstacle


@dataclass(frozen=True)
class Fuzz:
    """Tries one set of points near each of the weakest obstacles, then attacks those closest to being lost.

    An obstacle is weaker the lower its score and the fewer beams hit it, judged by size and distance. What remains of it
    after a trial is its score relative to the one before, times the similarity of the two boxes. The sets that leave the
    least are recombined: their points are mixed, some moved, some drawn again.

    Args:
        points: points per set, at most the rule's `n`; points inside the region, or farther from its border than the rule's
            `near`, are not added.
        reach: the maximum distance in metres between points and obstacle.
        per_case: obstacles of each case that get a first set.
        targets: obstacles attacked afterwards.
        tries: the maximum number of sets for each target.
        width: sets per target in one ask.
        follow: `answers`, or `chance`, which draws every set at random, as a baseline.
        known: whether to attack only obstacles that match a label, in cases with 3-D boxes as labels.
    """

    points: int = 60
    reach: float = 5.0
    per_case: int = 4
    targets: int = 24
    tries: int = 64
    width: int = 8
    follow: Annotated[str, OneOfNames(ANSWERS, CHANCE)] = ANSWERS
    known: bool = True

    def __post_init__(self) -> None:
        for name in ("points", "per_case", "targets", "tries", "width"):
            check_whole(name, getattr(self, name), 1)
        check_number("reach", self.reach, 0, above=True)
        if self.follow not in (ANSWERS, CHANCE):
            raise ValueError(f"'follow' must be '{ANSWERS}' or '{CHANCE}', got {self.follow!r}")

    def start(self, plan: Plan) -> FuzzSession:
        """Start with the weakest obstacles of all cases."""
        if len(plan.rules) != 1:
            raise InputError(
                f"the fuzz search needs exactly one rule, the campaign has {len(plan.rules)}; "
                "with method = 'lidar' give a single number for 'n'"
            )
        return FuzzSession(self, plan)


@dataclass
class Attack:
    """The attempts to hide one obstacle, identified by its row in the answer to the unchanged case."""

    case: str
    row: int
    box: Array
    score: float
    weakness: float = 0.0  # the lowest is the weakest
    tries: int = 0
    outside: bool = True  # whether any of the tried points lay outside the region
    hidden: int | None = None  # the first draw that hid it
    sets: list[tuple[float, int, Array]] = field(default_factory=list)  # what each set left, its draw, its points

    @property
    def left(self) -> float:
        """The least that any set has left of the obstacle."""
        return min((left for left, *_ in self.sets), default=math.inf)


class FuzzSession:
    """A fuzz search in progress; its state depends only on the plan and the records."""

    total: int | None = None

    def __init__(self, search: Fuzz, plan: Plan) -> None:
        self._search, self._plan = search, plan
        domains = getattr(plan.rules[0].change, "domains", {})
        self._near, self._outside = domains.get("near"), domains.get("outside")
        self._points = min(search.points, number) if isinstance(number := domains.get("n"), int) else search.points
        self.candidates = sorted(_weakest(search, plan), key=lambda attack: (attack.weakness, attack.case, attack.row))
        self.targets: list[Attack] = []
        self._waiting = iter(self._asks())
        self._asked: list[tuple[Attack, int, Array]] = []
        self._draws = 0

    def ask(self) -> Sequence[Trial]:
        attacks = next(self._waiting, ())
        self._asked = [(attack, *self._draw(attack)) for attack in attacks]
        rule = self._plan.rules[0].name
        return [Trial(attack.case, rule, draw, self._offer(points)) for attack, draw, points in self._asked]

    def tell(self, records: Sequence[Record]) -> None:
        for (attack, draw, points), record in zip(self._asked, records, strict=True):
            attack.tries += 1
            left = left_of(record, attack.row)
            if left is None:
                attack.outside &= record.verdict.status is not Status.SKIPPED
                continue
            attack.outside = True
            attack.sets.append((left, draw, points))
            if left == 0 and record.verdict.status is Status.VIOLATED and attack.hidden is None:
                attack.hidden = draw

    def _asks(self) -> Iterator[Sequence[Attack]]:
        """The attacks of each ask: all candidates once, then the most promising in groups until they are hidden."""
        together = TOGETHER * self._search.width
        yield from (self.candidates[start : start + together] for start in range(0, len(self.candidates), together))
        reached = sorted((attack for attack in self.candidates if attack.sets), key=lambda attack: attack.left)  # stable
        self.targets = reached[: self._search.targets]
        for start in range(0, len(self.targets), TOGETHER):
            group = self.targets[start : start + TOGETHER]
            while remaining := [attack for attack in group if attack.hidden is None and attack.tries < self._search.tries]:
                yield list(chain.from_iterable([attack] * self._next(attack) for attack in remaining))

    def _next(self, attack: Attack) -> int:
        return min(self._search.width, self._search.tries - attack.tries)

    def _draw(self, attack: Attack) -> tuple[int, Array]:
        draw, self._draws = self._draws, self._draws + 1
        rng = rng_for(self._plan.seed, "fuzz", draw)
        parents = sorted(attack.sets, key=lambda one: one[:2])[: max(2, self._search.width // 2)]
        fresh = self._fresh(attack, rng)
        if self._search.follow == CHANCE or attack.tries < self._search.width or len(parents) < 2:
            return draw, fresh
        return draw, _child([points for *_, points in parents], fresh, rng)

    def _fresh(self, attack: Attack, rng: np.random.Generator) -> Array:
        """Random points in a cylinder around an obstacle."""
        count = self._points
        far, turn = self._search.reach * np.sqrt(rng.random(count)), rng.uniform(-np.pi, np.pi, count)
        x, y, z = attack.box[:3]
        places = [x + far * np.cos(turn), y + far * np.sin(turn), z + rng.uniform(-TALL, TALL, count), rng.random(count)]
        return np.stack(places, axis=1)

    def _offer(self, points: Array) -> OfferPoints:
        return OfferPoints(tuple(map(tuple, points.tolist())), near=self._near, outside=self._outside)


def _child(parents: Sequence[Array], fresh: Array, rng: np.random.Generator) -> Array:
    """Points of two parents, some of them moved and some drawn again."""
    first, second = rng.choice(len(parents), 2, replace=False)
    both = np.concatenate([parents[first], parents[second]])
    child = both[rng.choice(len(both), len(fresh), replace=False)]
    child += NUDGE * rng.standard_normal(child.shape) * (rng.random(len(child)) < MOVED)[:, None]
    child[:, 3] = np.clip(child[:, 3], 0, 1)
    renewed = rng.random(len(child)) < RENEWED
    child[renewed] = fresh[renewed]
    return child


def _weakest(search: Fuzz, plan: Plan) -> Iterator[Attack]:
    """The weakest obstacles of each case."""
    for key in plan.keys:
        boxes = find(plan.baseline[key].answer, Boxes3D.slot)
        if not isinstance(boxes, Boxes3D):
            raise InputError(
                f"the fuzz search needs a system that answers with Boxes3D (which may be empty), "
                f"but its answer to case {key} has none"
            )
        scores, wanted = np.asarray(boxes.scores), np.asarray(boxes.care)
        if search.known:
            wanted = wanted & labelled(boxes, find(plan.baseline[key].truth, Boxes3D.slot))
        weakness = scores * beams(boxes)
        rows = [int(row) for row in np.argsort(weakness, kind="stable") if wanted[row]][: search.per_case]
        yield from (Attack(key, row, boxes.xyzlwhy[row], float(scores[row]), float(weakness[row])) for row in rows)


def beams(boxes: Boxes3D) -> Array:
    """A number proportional to the beams of a sensor at the origin that hit each box, ignoring occlusion."""
    x, y, _, length, width, height, _ = np.asarray(boxes.xyzlwhy).T
    return np.asarray(height * (length + width) / np.maximum(x**2 + y**2, NEAREST**2))


def left_of(record: Record, row: int) -> float | None:
    """What remains of the obstacle in a row, from 1 if unaffected to 0 if lost; None if the trial was not judged."""
    before, after = (find(answer, Boxes3D.slot) for answer in (record.before, record.after))
    judged = record.verdict.status in (Status.HELD, Status.VIOLATED)
    if not judged or not isinstance(before, Boxes3D) or not isinstance(after, Boxes3D):
        return None
    became = changes(before, after)
    if row in became.lost:
        return 0.0
    column = dict((*became.kept, *became.type_changed, *became.moved)).get(row)
    if column is None:
        return UNAFFECTED
    similarity = float(OBSTACLES.likeness(before, after).affinity[row, column])
    was, now = (float(np.asarray(boxes.scores)[place]) for boxes, place in ((before, row), (after, column)))
    return max(now / was if was > 0 else UNAFFECTED, 1e-6) * max(similarity, 1e-6)
