"""A search for points that hide an obstacle: sets around the weakest, bred from those that come nearest to a loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from swerve.core.campaign import Plan, Record, Trial
from swerve.core.errors import InputError
from swerve.core.relation import Status
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes3D, find
from swerve.relations.obstacles import OBSTACLES, changes, labelled
from swerve.transformations.scatter import OfferPoints

ANSWERS, CHANCE = "answers", "chance"
TALL = 2.0  # metres above and below an obstacle's middle that points are tried at
NUDGE = np.array([0.5, 0.5, 0.3, 0.1])  # deviations of a moved point: metres, and a share of the intensities
MOVED, RENEWED = 0.3, 0.1  # of a child's points
TOGETHER = 4  # obstacles besieged in one ask
NEAREST = 1.0  # metres from the sensor that count as its place
STANDS = 1.0  # what is left of an obstacle that nothing has touched


@dataclass(frozen=True)
class Fuzz:
    """First one set of points beside each of the weakest obstacles; then those that it came nearest to hiding are besieged.

    An obstacle is weaker the lower its score and the fewer beams meet it, by its size and distance. What is left of it
    after a trial is its score, as a share of the one before, times how alike the two boxes are; sets that leave little are
    bred: their points mixed, some moved, some drawn anew.

    Args:
        points: of a set, and no more than the rule's `n`; those that fall into the region, or farther from its border than
            the rule's `near`, are not added.
        reach: metres around an obstacle that points lie within.
        per_case: obstacles of each case that are looked at.
        targets: obstacles besieged.
        tries: sets for each of these at most.
        width: sets asked for at a time for one of these.
        follow: `answers`, or `chance`: every set drawn anew, which is what breeding has to beat.
        known: whether only obstacles count that stand on a label, in cases that have 3-D boxes as labels: to hide what is
            not there is no feat.
    """

    points: int = 60
    reach: float = 5.0
    per_case: int = 4
    targets: int = 24
    tries: int = 64
    width: int = 8
    follow: str = ANSWERS
    known: bool = True

    def __post_init__(self) -> None:
        for name in ("points", "per_case", "targets", "tries", "width"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {number!r}")
        if isinstance(self.reach, bool) or not isinstance(self.reach, int | float) or not 0 < self.reach < math.inf:
            raise InputError(f"reach must be a number of metres above 0, got {self.reach!r}")
        if self.follow not in (ANSWERS, CHANCE):
            raise InputError(f"follow must be '{ANSWERS}' or '{CHANCE}', got {self.follow!r}")

    def start(self, plan: Plan) -> FuzzSession:
        """Begin with the weakest obstacles of all cases."""
        if len(plan.rules) != 1:
            raise InputError("the fuzzing search wants one rule: give one n")
        return FuzzSession(self, plan)


@dataclass
class Siege:
    """One obstacle, by its row in what was said of the untouched case, and what was tried to hide it."""

    case: str
    row: int
    box: Array
    score: float
    weakness: float = 0.0  # the lowest is the weakest
    tries: int = 0
    outside: bool = True  # whether any point that was tried lay outside the region
    hidden: int | None = None  # the first draw that hid it
    sets: list[tuple[float, int, Array]] = field(default_factory=list)  # what each left, its draw, its points

    @property
    def left(self) -> float:
        """The least that any set has left of it."""
        return min((left for left, *_ in self.sets), default=math.inf)


class FuzzSession:
    """The search under way; its state follows from the plan and what it was told."""

    total: int | None = None

    def __init__(self, search: Fuzz, plan: Plan) -> None:
        self._search, self._plan = search, plan
        told = getattr(plan.rules[0].change, "domains", {})
        self._near, self._outside = told.get("near"), told.get("outside")
        self._points = min(search.points, number) if isinstance(number := told.get("n"), int) else search.points
        self.scouted = sorted(_weakest(search, plan), key=lambda siege: (siege.weakness, siege.case, siege.row))
        self.besieged: list[Siege] = []
        self._waiting = iter(self._asks())
        self._asked: list[tuple[Siege, int, Array]] = []
        self._draws = 0

    def ask(self) -> Sequence[Trial]:
        sieges = next(self._waiting, ())
        self._asked = [(siege, *self._drawn(siege)) for siege in sieges]
        rule = self._plan.rules[0].name
        return [Trial(siege.case, rule, draw, self._offer(points)) for siege, draw, points in self._asked]

    def tell(self, records: Sequence[Record]) -> None:
        for (siege, draw, points), record in zip(self._asked, records, strict=True):
            siege.tries += 1
            left = left_of(record, siege.row)
            if left is None:
                siege.outside &= record.verdict.status is not Status.SKIPPED
                continue
            siege.outside = True
            siege.sets.append((left, draw, points))
            if left == 0 and record.verdict.status is Status.VIOLATED and siege.hidden is None:
                siege.hidden = draw

    def _asks(self) -> Iterator[Sequence[Siege]]:
        """Who is tried in each ask: all the weakest once, then the most promising in groups until they fall."""
        together = TOGETHER * self._search.width
        yield from (self.scouted[start : start + together] for start in range(0, len(self.scouted), together))
        reached = sorted((siege for siege in self.scouted if siege.sets), key=lambda siege: siege.left)  # stable
        self.besieged = reached[: self._search.targets]
        for start in range(0, len(self.besieged), TOGETHER):
            group = self.besieged[start : start + TOGETHER]
            while standing := [siege for siege in group if siege.hidden is None and siege.tries < self._search.tries]:
                yield list(chain.from_iterable([siege] * self._next(siege) for siege in standing))

    def _next(self, siege: Siege) -> int:
        return min(self._search.width, self._search.tries - siege.tries)

    def _drawn(self, siege: Siege) -> tuple[int, Array]:
        draw, self._draws = self._draws, self._draws + 1
        rng = rng_for(self._plan.seed, "fuzz", draw)
        parents = sorted(siege.sets, key=lambda one: one[:2])[: max(2, self._search.width // 2)]
        fresh = self._fresh(siege, rng)
        if self._search.follow == CHANCE or siege.tries < self._search.width or len(parents) < 2:
            return draw, fresh
        return draw, _child([points for *_, points in parents], fresh, rng)

    def _fresh(self, siege: Siege, rng: np.random.Generator) -> Array:
        """Points at random in a disc around an obstacle."""
        count = self._points
        far, turn = self._search.reach * np.sqrt(rng.random(count)), rng.uniform(-np.pi, np.pi, count)
        x, y, z = siege.box[:3]
        places = [x + far * np.cos(turn), y + far * np.sin(turn), z + rng.uniform(-TALL, TALL, count), rng.random(count)]
        return np.stack(places, axis=1)

    def _offer(self, points: Array) -> OfferPoints:
        return OfferPoints(tuple(map(tuple, points.tolist())), near=self._near, outside=self._outside)


def _child(parents: Sequence[Array], fresh: Array, rng: np.random.Generator) -> Array:
    """Points of two parents, some of them moved and some drawn anew."""
    first, second = rng.choice(len(parents), 2, replace=False)
    both = np.concatenate([parents[first], parents[second]])
    child = both[rng.choice(len(both), len(fresh), replace=False)]
    child += NUDGE * rng.standard_normal(child.shape) * (rng.random(len(child)) < MOVED)[:, None]
    child[:, 3] = np.clip(child[:, 3], 0, 1)
    renewed = rng.random(len(child)) < RENEWED
    child[renewed] = fresh[renewed]
    return child


def _weakest(search: Fuzz, plan: Plan) -> Iterator[Siege]:
    """The weakest obstacles of each case."""
    for key in plan.keys:
        said = find(plan.baseline[key].said, Boxes3D.slot)
        if not isinstance(said, Boxes3D):
            raise InputError(f"{key}: the fuzzing search hides 3-D boxes, and the system said none")
        scores, wanted = np.asarray(said.scores), np.asarray(said.care)
        if search.known:
            wanted = wanted & labelled(said, find(plan.baseline[key].truth, Boxes3D.slot))
        weakness = scores * beams(said)
        rows = [int(row) for row in np.argsort(weakness, kind="stable") if wanted[row]][: search.per_case]
        yield from (Siege(key, row, said.xyzlwhy[row], float(scores[row]), float(weakness[row])) for row in rows)


def beams(said: Boxes3D) -> Array:
    """In proportion to how many beams of a sensor in the origin meet each box, whatever stands between."""
    x, y, _, length, width, height, _ = np.asarray(said.xyzlwhy).T
    return np.asarray(height * (length + width) / np.maximum(x**2 + y**2, NEAREST**2))


def left_of(record: Record, row: int) -> float | None:
    """What is left of the obstacle in a row, from 1 when nothing has touched it to 0 when it is lost; None: not judged."""
    before, after = (find(answer, Boxes3D.slot) for answer in (record.before, record.after))
    judged = record.verdict.status in (Status.HELD, Status.VIOLATED)
    if not judged or not isinstance(before, Boxes3D) or not isinstance(after, Boxes3D):
        return None
    became = changes(before, after)
    if row in became.lost:
        return 0.0
    column = dict((*became.kept, *became.type_changed, *became.moved)).get(row)
    if column is None:
        return STANDS
    alike = float(OBSTACLES.likeness(before, after).affinity[row, column])
    was, now = (float(np.asarray(boxes.scores)[place]) for boxes, place in ((before, row), (after, column)))
    return max(now / was if was > 0 else STANDS, 1e-6) * max(alike, 1e-6)
