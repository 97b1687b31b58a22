"""DeepTest's guided search (Algorithm 1): pairs of changes on a stack of images, followed where they cover something new."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from swerve.core.campaign import CoverageMeter, Gain, Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.space import OneOf, Space
from swerve.core.transformation import Chain, Transformation

PAPER, CODE = "paper", "code"
COVERAGE, CHANCE, SCRIPT = "coverage", "chance", "script"
ALL, EACH = "all", "each"
REFUSED = 100  # tries in a row of one case that cannot be made, before they count as failures


@dataclass(frozen=True)
class Greedy:
    """Depth first over images: two changes are made to one, and if they cover more, the new image is looked at next.

    A try that a gate refuses, or that gives no answer, is drawn anew: it uses up neither tries nor budget nor script nor the
    queue of kinds that worked, until a hundred in a row of one case were refused.

    Args:
        tries: failures after which an image is done with (`maxFailedTries`, D-7).
        reading: `paper`: an image is taken off the stack, all its tries are made, and failures are counted in total; `code`:
            the authors' own, which follows a success at once, gives an image as many tries again whenever it is back on top,
            draws two kinds without replacement, and never forgets kinds that worked.
        reset: under `paper`, whether a success sets the count of failures back.
        seeds: `all`: what any seed covers counts as covered from the start (D-27); `each`: once the search comes to it.
        follow: `coverage`; `chance`: the same search led by a coin; `script`: by the outcomes of another search, so that as
            many images are kept at the same depths, whatever they cover. Chance is what guidance has to beat.
        chance: of the coin to count a try as a success.
        script: the outcome of each try, 1 or 0, such as `0010`.
        budget: the most tries in all; 0 for no limit. A search by chance begins anew with the seeds until they are used up.
        images: the most follow-ups that are kept; 0 for no limit.
        depth: the most changes in a row.
        width: tries asked for at a time; 1 is the paper's algorithm, more keep several workers busy.
    """

    tries: int = 10
    reading: str = PAPER
    reset: bool = False
    seeds: str = ALL
    follow: str = COVERAGE
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
                raise InputError(f"{name} must be {' or '.join(map(repr, allowed))}, got {getattr(self, name)!r}")
        for name, low in (("tries", 1), ("budget", 0), ("images", 0), ("depth", 2), ("width", 1)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < low:
                raise InputError(f"{name} must be a whole number of at least {low}, got {number!r}")
        if not 0 <= self.chance < 1:
            raise InputError(f"chance must be from 0 to below 1, got {self.chance!r}")
        if self.follow == CHANCE and not self.budget:
            raise InputError("a search by chance does not end by itself: give it a budget of tries")
        if (self.follow == SCRIPT) != bool(self.script) or set(self.script) - {"0", "1"}:
            raise InputError("script is for follow = 'script', and made of 1 and 0")

    def start(self, plan: Plan) -> GreedySession:
        """Begin with every usable case on the stack, the first on top."""
        if plan.coverage is None:
            raise InputError("the guided search follows what is newly covered: say which criteria in [coverage]")
        if len(plan.rules) != 1:
            raise InputError("the guided search wants one rule, whose change is { use = 'one-of', spaces = [...] }")
        return GreedySession(self, plan, plan.coverage)


@dataclass
class _Image:
    """An image on the stack: a case, what was done to it so far, and how often that led nowhere."""

    case: str
    steps: tuple[Transformation, ...] = ()
    failed: int = 0


@dataclass(frozen=True)
class _Try:
    """Two changes to an image, by the places of their kinds among all, and which try of the search it is."""

    image: _Image
    kinds: tuple[int, int]
    change: Chain
    draw: int
    queued: bool  # whether the first kind came from the queue


@dataclass
class Refusals:
    """Tries in a row of one case that could not be made."""

    case: str = ""
    count: int = 0

    def spends(self, case: str, made: bool) -> bool:
        """Whether a try uses up one of those allowed: if it was made, or if so many before it were not."""
        self.count = 0 if made or case != self.case else self.count
        self.case = case
        self.count += not made
        return made or self.count > REFUSED


@dataclass
class _Covered:
    """What is covered so far."""

    meter: CoverageMeter
    gain: Gain = field(default_factory=dict)

    def grows(self, gain: Gain | None) -> bool:
        """Take in what an input covers, and say whether any of it is new."""
        if gain is None:
            return False
        both = self.meter.joined([self.gain, gain])
        grown = self.meter.counts(both) != self.meter.counts(self.gain)
        self.gain = both
        return grown


class GreedySession:
    """The search under way; its state follows from the plan and what it was told."""

    def __init__(self, search: Greedy, plan: Plan, meter: CoverageMeter) -> None:
        self._search, self._plan = search, plan
        change = plan.rules[0].change
        self._kinds: Sequence[Space] = change.spaces if isinstance(change, OneOf) else (change,)
        self._stack: list[_Image] = []
        self._image: _Image | None = None
        self._worked: deque[int] = deque()  # Tqueue: kinds of change that covered more
        self._covered = _Covered(meter)
        if search.seeds == ALL:
            self._covered.gain = meter.joined(seen.gain for seen in plan.baseline.values())
        self._tried: list[_Try] = []
        self._refusals = Refusals()
        self._draws = self._spent = self.kept = 0
        self._budget = min((most for most in (search.budget, len(search.script)) if most), default=0)
        self.total: int | None = self._budget or None  # and what is drawn anew
        self._push_seeds()

    def ask(self) -> Sequence[Trial]:
        image = self._next()
        if image is None:
            return []
        left = min(self._search.tries - image.failed, (self._budget or self._spent + self._search.width) - self._spent)
        self._tried = [self._drawn(image, self._draws + place) for place in range(min(self._search.width, left))]
        self._draws += len(self._tried)
        rule = self._plan.rules[0].name
        return [Trial(image.case, rule, tried.draw, tried.change) for tried in self._tried]

    def tell(self, records: Sequence[Record]) -> None:
        refused = []
        for tried, record in zip(self._tried, records, strict=True):
            if not self._refusals.spends(tried.image.case, record.gain is not None):
                refused.append(tried)
                continue
            if self._success(tried, record):
                self._keep(tried)
            else:
                tried.image.failed += 1
            self._spent += 1
        self._worked.extendleft(tried.kinds[0] for tried in reversed(refused) if tried.queued)

    def _push_seeds(self) -> None:
        self._stack.extend(_Image(key) for key in reversed(self._plan.keys))

    def _next(self) -> _Image | None:
        """The image to try next, or None when nothing is left or enough is done."""
        search = self._search
        if (search.images and self.kept >= search.images) or (self._budget and self._spent >= self._budget):
            return None
        while self._image is None or self._done(self._image):
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

    def _done(self, image: _Image) -> bool:
        return image.failed >= self._search.tries or len(image.steps) + 2 > self._search.depth

    def _drawn(self, image: _Image, draw: int) -> _Try:
        rng = rng_for(self._plan.seed, "greedy", draw)
        first, second = self._pair(rng)
        queued = bool(self._worked)
        if queued:
            first = self._worked.popleft()
        steps = [self._kinds[kind].propose(Case(image.case, {}), rng, None) for kind in (first, second)]  # type: ignore[arg-type]
        return _Try(image, (first, second), Chain((*image.steps, *steps)), draw, queued)

    def _pair(self, rng: np.random.Generator) -> tuple[int, int]:
        count = len(self._kinds)
        if self._search.reading == CODE and count > 1:
            first, second = rng.permutation(count)[:2]
            return int(first), int(second)
        return int(rng.integers(count)), int(rng.integers(count))

    def _success(self, tried: _Try, record: Record) -> bool:
        if self._search.follow == COVERAGE:
            return self._covered.grows(record.gain)
        if self._search.follow == SCRIPT:
            return record.gain is not None and self._search.script[self._spent] == "1"
        return record.gain is not None and rng_for(self._plan.seed, "coin", tried.draw).random() < self._search.chance

    def _keep(self, tried: _Try) -> None:
        self._worked.extend(tried.kinds)
        self._stack.append(_Image(tried.image.case, tried.change.steps))
        self.kept += 1
        if self._search.reading == CODE:
            self._image = None  # the new image is on top
        elif self._search.reset:
            tried.image.failed = 0
