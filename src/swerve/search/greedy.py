"""DeepTest's guided search (Algorithm 1): a stack of images, extended by pairs of changes that increase coverage."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_whole
from swerve.core.campaign import Continuation, CoverageMeter, Gain, Plan, Record, Trial
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for, stream_of
from swerve.core.space import alternatives
from swerve.core.transformation import Chain, Transformation

PAPER, CODE = "paper", "code"
COVERAGE, CHANCE, SCRIPT = "coverage", "chance", "script"
ALL, EACH = "all", "each"
REFUSED = 100  # consecutive tries of one case without an answer, after which they count as failures


@dataclass(frozen=True)
class Greedy:
    """Depth-first search over images: applies two changes to an image and, if coverage grows, continues with the result.

    A try that a gate rejects, or that gets no answer, is drawn again and does not count towards tries, budget or script, nor
    does it use up the queue of kinds that worked, until a hundred in a row of one case were rejected.

    Args:
        tries: failed tries after which the search gives up an image (`maxFailedTries`).
        reading: `paper` pops an image, makes all its tries, and counts failures in total; `code` does what the authors' code
            does: it follows a success at once, gives an image all its tries again when it returns to the top, draws two
            different kinds of change, and keeps successful kinds forever.
        reset: with `paper`, whether a success resets the number of failures.
        seeds: `all` counts what any seed covers as covered from the start, `each` only when the search reaches that seed.
        follow: what decides a success: `coverage`; `chance`, a random baseline for the guided search; or `script`, the
            outcomes of another search, which gives the same number of images at the same depths.
        chance: the probability of success with `chance`.
        script: the outcome of each try, 1 or 0, such as `0010`.
        budget: the maximum number of tries; 0 for no limit. A search by chance or script restarts with the seeds until it
            is used up.
        images: the maximum number of follow-ups kept; 0 for no limit.
        depth: the maximum number of changes in a row.
        width: tries per ask; 1 is the paper's algorithm, more keep several workers busy.
    """

    # tries: D-7; seeds: D-27

    tries: int = 10
    reading: Annotated[str, OneOfNames(PAPER, CODE)] = PAPER
    reset: bool = False
    seeds: Annotated[str, OneOfNames(ALL, EACH)] = ALL
    follow: Annotated[str, OneOfNames(COVERAGE, CHANCE, SCRIPT)] = COVERAGE
    chance: float = 0.0
    script: str = ""
    budget: int = 0
    images: int = 0
    depth: int = 20
    width: int = 1

    def __post_init__(self) -> None:
        leads = (COVERAGE, CHANCE, SCRIPT)
        for name, allowed in (("reading", (PAPER, CODE)), ("seeds", (ALL, EACH)), ("follow", leads)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"'{name}' must be {' or '.join(map(repr, allowed))}, got {getattr(self, name)!r}")
        for name, low in (("tries", 1), ("budget", 0), ("images", 0), ("depth", 2), ("width", 1)):
            check_whole(name, getattr(self, name), low)
        if not 0 <= self.chance < 1:
            raise ValueError(f"'chance' must be at least 0 and below 1, got {self.chance!r}")
        if self.follow == CHANCE and not self.budget:
            raise ValueError("a random search needs 'budget', its maximum number of tries")
        if (self.follow == SCRIPT) != bool(self.script) or set(self.script) - {"0", "1"}:
            raise ValueError(
                "follow = 'script' needs 'script', a string of 1 and 0; leave 'script' out with any other 'follow'"
            )

    def start(self, plan: Plan) -> GreedySession:
        """Start with all usable cases on the stack, the first on top."""
        if plan.coverage is None:
            raise InputError("the guided search needs coverage: give its criteria in [coverage]")
        if len(plan.rules) != 1:
            raise InputError("the guided search needs exactly one rule, with change = { use = 'one-of', spaces = [...] }")
        return GreedySession(self, plan, plan.coverage)


@dataclass
class _Image:
    """An image on the stack: a case, the changes applied so far, and the number of failed tries."""

    case: str
    steps: tuple[Transformation, ...] = ()
    failed: int = 0


@dataclass(frozen=True)
class _Attempt:
    """Two more changes to an image, which are drawn where the system is, and the draw number."""

    image: _Image
    continues: Continuation
    draw: int
    queued: bool  # whether the first kind came from the queue


@dataclass
class Refusals:
    """The number of consecutive tries of one case without an answer."""

    case: str = ""
    count: int = 0

    def counts(self, case: str, answered: bool) -> bool:
        """Whether a try counts: it has an answer, or too many before it had none."""
        self.count = 0 if answered or case != self.case else self.count
        self.case = case
        self.count += not answered
        return answered or self.count > REFUSED


@dataclass
class _Covered:
    """The coverage reached so far."""

    meter: CoverageMeter
    gain: Gain = field(default_factory=dict)

    def grows(self, gain: Gain | None) -> bool:
        """Add what an input covers, and return whether any of it is new."""
        if gain is None:
            return False
        both = self.meter.joined([self.gain, gain])
        grown = self.meter.counts(both) != self.meter.counts(self.gain)
        self.gain = both
        return grown


class GreedySession:
    """A guided search in progress; its state depends only on the plan and the records."""

    def __init__(self, search: Greedy, plan: Plan, meter: CoverageMeter) -> None:
        self._search, self._plan = search, plan
        self._count = len(alternatives(plan.rules[0].change))
        self._stack: list[_Image] = []
        self._image: _Image | None = None
        self._worked: deque[int] = deque()  # Tqueue: kinds of change that increased coverage
        self._covered = _Covered(meter)
        if search.seeds == ALL:
            self._covered.gain = meter.joined(seen.gain for seen in plan.baseline.values())
        self._asked: list[_Attempt] = []
        self._refusals = Refusals()
        self._draws = self._spent = self.kept = 0
        self._budget = min((most for most in (search.budget, len(search.script)) if most), default=0)
        self.total: int | None = self._budget or None  # without tries that are drawn again
        self._push_seeds()

    def ask(self) -> Sequence[Trial]:
        image = self._next()
        if image is None:
            return []
        left = min(self._search.tries - image.failed, (self._budget or self._spent + self._search.width) - self._spent)
        self._asked = [self._draw(image, self._draws + place) for place in range(min(self._search.width, left))]
        self._draws += len(self._asked)
        rule = self._plan.rules[0].name
        return [Trial(image.case, rule, attempt.draw, continues=attempt.continues) for attempt in self._asked]

    def tell(self, records: Sequence[Record]) -> None:
        rejected = []
        for attempt, record in zip(self._asked, records, strict=True):
            if not self._refusals.counts(attempt.image.case, record.gain is not None):
                rejected.append(attempt)
                continue
            if self._success(attempt, record):
                self._keep(attempt, record.change)
            else:
                attempt.image.failed += 1
            self._spent += 1
        self._worked.extendleft(attempt.continues.kinds[0] for attempt in reversed(rejected) if attempt.queued)

    def _push_seeds(self) -> None:
        self._stack.extend(_Image(key) for key in reversed(self._plan.keys))

    def _next(self) -> _Image | None:
        """The image to try next, or None when the stack is empty or a limit is reached."""
        search = self._search
        if (search.images and self.kept >= search.images) or (self._budget and self._spent >= self._budget):
            return None
        while self._image is None or self._exhausted(self._image):
            if self._image is not None and search.reading == CODE:
                self._stack.pop()
            if not self._stack and search.follow != COVERAGE:
                self._push_seeds()
            if not self._stack:
                return None
            self._take(self._stack[-1] if search.reading == CODE else self._stack.pop())
        return self._image

    def _take(self, image: _Image) -> None:
        self._image = image
        image.failed = 0
        if self._search.reading == PAPER:
            self._worked.clear()
        if self._search.seeds == EACH and not image.steps:
            self._covered.grows(self._plan.baseline[image.case].gain)

    def _exhausted(self, image: _Image) -> bool:
        return image.failed >= self._search.tries or len(image.steps) + 2 > self._search.depth

    def _draw(self, image: _Image, draw: int) -> _Attempt:
        rng = rng_for(self._plan.seed, "greedy", draw)
        first, second = self._pair(rng)
        queued = bool(self._worked)
        if queued:
            first = self._worked.popleft()
        return _Attempt(image, Continuation(image.steps, (first, second), stream_of(rng)), draw, queued)

    def _pair(self, rng: np.random.Generator) -> tuple[int, int]:
        if self._search.reading == CODE and self._count > 1:
            first, second = rng.permutation(self._count)[:2]
            return int(first), int(second)
        return int(rng.integers(self._count)), int(rng.integers(self._count))

    def _success(self, attempt: _Attempt, record: Record) -> bool:
        if self._search.follow == COVERAGE:
            return self._covered.grows(record.gain)
        if self._search.follow == SCRIPT:
            return record.gain is not None and self._search.script[self._spent] == "1"
        return record.gain is not None and rng_for(self._plan.seed, "coin", attempt.draw).random() < self._search.chance

    def _keep(self, attempt: _Attempt, change: Transformation | None) -> None:
        assert isinstance(change, Chain), "a follow-up that was answered has its change"
        self._worked.extend(attempt.continues.kinds)
        self._stack.append(_Image(attempt.image.case, change.steps))
        self.kept += 1
        if self._search.reading == CODE:
            self._image = None  # the new image is on top
        elif self._search.reset:
            attempt.image.failed = 0
