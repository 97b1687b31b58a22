"""TACTIC's search for critical conditions: one condition for all scenes, evolved until it moves the answers most."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from swerve.core.arguments import check_known, check_number, check_whole
from swerve.core.campaign import Gain, Plan, Record, Trial
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation
from swerve.core.values import Array
from swerve.relations.unjudged import Unjudged
from swerve.search.coordinates import Coordinates, coordinates_of
from swerve.search.critical import Critical, as_json, between
from swerve.search.fitness import Candidate, CoveredSoFar, Fitness, Quantity, Weights, fitness_of, norm
from swerve.search.neighbourhood import Neighbourhood, explored, most_explored
from swerve.search.race import highest_mean, most_coverage, rungs

T = TypeVar("T")
EVOLVE, RANDOM, RANDOM_CONDITIONS, CMA = "evolve", "random", "random-conditions", "cma"
FIRST = 16  # scenes before a candidate may leave the race


@dataclass(frozen=True)
class Evolve:
    """Searches for conditions under which answers move most, each of them one change that is applied to all scenes.

    The first rule judges the conditions that are found. What is tried on the way runs under the second rule, whose relation
    is `unjudged`, and counts as neither held nor violated.

    Args:
        strategy: `evolve`, the (1+1) evolution strategy of the paper; `random`, the best of as many random conditions;
            `cma`, CMA-ES from the package cmaes; `random-conditions`, random conditions without a search.
        conditions: the number of conditions to find, one after the other; each starts with what those before it cover.
        evaluations: candidates for each condition; 0 for no limit but `patience`.
        patience: candidates in a row without an improvement, after which a condition is taken as found.
        step: the standard deviation of a mutation, in standard deviations of a random condition.
        adapt: whether the step also shrinks after a failure, by the 1/5 success rule; it always grows after a success.
        coverage_weight, divergence_weight: the weights of new coverage and of divergence in the fitness.
        enough: the share of covered regions at which no further condition is searched for.
        scenes_cover: whether what the unchanged scenes cover counts as covered from the start.
        signal: the signal to move, such as `collision`; empty for the steering angle.
        race: whether a candidate leaves when, after some of the scenes, it can hardly become the best any more.
        confidence: the probability of each such decision to be right.
        around: scenes on which the neighbourhood of every condition is explored; 0 for none.
    """

    # strategy, patience, conditions: TA-14, TA-15; step, adapt: D-15; weights: TA-13

    strategy: str = EVOLVE
    conditions: int = 4
    evaluations: int = 60
    patience: int = 100
    step: float = 1.0
    adapt: bool = True
    coverage_weight: float = 1.0
    divergence_weight: float = 1.0
    enough: float = 1.0
    scenes_cover: bool = True  # D-25
    signal: str = ""
    race: bool = True
    confidence: float = 0.999
    around: int = 16
    gain_per_ask: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_known("value of 'strategy':", self.strategy, (EVOLVE, RANDOM, CMA, RANDOM_CONDITIONS))
        for name, low in (("conditions", 1), ("evaluations", 0), ("patience", 1), ("around", 0)):
            check_whole(name, getattr(self, name), low)
        for name in ("coverage_weight", "divergence_weight", "enough"):
            check_number(name, getattr(self, name), 0)
        check_number("step", self.step, 0, above=True)
        check_number("confidence", self.confidence, 0.5, 1, above=True)

    def start(self, plan: Plan) -> EvolveSession:
        """Start with the first condition."""
        judged, *others = plan.rules
        if self.strategy == RANDOM_CONDITIONS and not self.around and not others:
            return EvolveSession(self, plan, judged.name, judged.name)
        if len(others) != 1 or not isinstance(others[0].expect, Unjudged):
            raise InputError(
                "a search for conditions needs two rules with the same change: one that judges the conditions found, "
                "then one with expect = 'unjudged' for what is tried on the way"
            )
        return EvolveSession(self, plan, judged.name, others[0].name)


@dataclass(frozen=True)
class _Ask:
    """One change for some scenes; what they newly cover is counted beyond `known`."""

    rule: str
    draw: int
    change: Transformation
    keys: Sequence[str]
    known: Gain


@dataclass(frozen=True)
class _Reply:
    records: Sequence[Record]
    gain: Gain


Steps = Generator[_Ask, _Reply, T]  # a part of the search that asks for trials, and goes on with their results


class EvolveSession:
    """A search for conditions in progress; its state depends only on the plan and the records."""

    distinct = True  # a change that was tried before is not run again

    def __init__(self, search: Evolve, plan: Plan, judged: str, tried: str) -> None:
        self._search, self._plan, self._judged, self._tried = search, plan, judged, tried
        self._quantity = Quantity(search.signal)
        for seen in list(plan.baseline.values())[:1]:
            self._quantity.require(seen.answer)
        self._weights = Weights(search.coverage_weight, search.divergence_weight)
        self._where: Coordinates = coordinates_of(plan.rules[0].change, plan.seed)
        self._scenes = [plan.keys[place] for place in rng_for(plan.seed, "order of scenes").permutation(len(plan.keys))]
        self._so_far = CoveredSoFar(plan.coverage, (search.scenes_cover and plan.covered) or {})
        self._known: dict[Transformation, Candidate] = {}
        self._history: list[list[dict[str, float]]] = []
        self._spent = self._full = self._explored = 0  # scenes run
        self._found: list[Critical] = []
        self._gain: Gain = {}
        self.total: int | None = self._most_trials()
        self._steps = self._run()
        self._pending: _Ask | None = next(self._steps, None)

    @property
    def covered(self) -> Gain:
        """What counts as covered already for the trials asked for."""
        return self._pending.known if self._pending else {}

    def ask(self) -> Sequence[Trial]:
        now = self._pending
        return [Trial(key, now.rule, now.draw, now.change) for key in now.keys] if now else []

    def tell_gain(self, gain: Gain) -> None:
        """What the last trials newly cover."""
        self._gain = gain

    def tell(self, records: Sequence[Record]) -> None:
        try:
            self._pending = self._steps.send(_Reply(records, self._gain))
        except StopIteration:
            self._pending = None

    def results(self) -> dict[str, Any]:
        """The conditions found and the course of the search, for `summary.json`."""
        return {
            "conditions": [as_json(found, self._where) for found in self._found],
            "between_conditions": between(self._found, steering=not self._search.signal),
            "condition_search": {
                "strategy": self._search.strategy,
                "scenes": len(self._scenes),
                "scene_evaluations": self._spent,
                "without_race": self._full,
                "explored": self._explored,
                "fitness": self._history,
            },
        }

    def _most_trials(self) -> int | None:
        """The number of trials in all, at most; None without a limit."""
        search, scenes = self._search, len(self._scenes)
        if not search.evaluations:
            return None
        candidates = 0 if search.strategy == RANDOM_CONDITIONS else search.evaluations
        return search.conditions * ((candidates + 1) * scenes + most_explored(self._where) * min(search.around, scenes))

    def _run(self) -> Steps[None]:
        for number in range(self._search.conditions):
            if number and (self._so_far.share() or 0.0) >= self._search.enough:
                return
            vector = yield from self._find(number)
            critical = self._found_before(vector) or (yield from self._confirm(number, vector))
            self._found.append(critical)
            if self._search.around and critical.same_as is None:
                critical.around = yield from self._explore(critical)

    def _find(self, number: int) -> Steps[Array]:
        """The vector of the best condition that the strategy finds."""
        self._history.append([])
        rng = rng_for(self._plan.seed, "condition", number)
        if self._search.strategy == RANDOM_CONDITIONS:
            return self._where.draw(rng)
        strategies = {EVOLVE: self._evolve, RANDOM: self._pick_best, CMA: self._adapt}
        best = yield from strategies[self._search.strategy](rng)
        return best.vector

    def _found_before(self, vector: Array) -> Critical | None:
        """The same condition as one found before, which is not run again; it covers nothing new."""
        change = self._where.change(vector)
        places = [place for place, found in enumerate(self._found) if found.candidate.change == change]
        if not places:
            return None
        first = self._found[places[0]]
        fitness = fitness_of(first.candidate, self._so_far, self._weights)
        return replace(first, fitness=fitness, covered=self._so_far.share(), same_as=places[0])

    def _confirm(self, number: int, vector: Array) -> Steps[Critical]:
        """Judge a condition on all scenes; what it covers counts as covered for the next."""
        change = self._where.change(vector)
        reply = yield _Ask(self._judged, number, change, list(self._plan.keys), self._so_far.gain)
        found = Candidate(vector, change, number)
        found.add(reply.records, self._quantity, reply.gain)
        fitness = fitness_of(found, self._so_far, self._weights)
        self._so_far.add(reply.gain)
        values = [self._quantity.of(record.after) for record in reply.records]
        before = [self._quantity.of(record.before) for record in reply.records]
        return Critical(found, fitness, before, values, self._so_far.share(), not self._search.signal)

    def _evolve(self, rng: np.random.Generator) -> Steps[Candidate]:
        """The (1+1) evolution strategy: the offspring of the best by a Gaussian step, which follows the 1/5 rule."""
        best = yield from self._first(self._where.draw(rng))
        size = len(best.vector)
        grow, shrink = step_factors(size)
        step, stale = self._search.step, 0
        while not self._is_over(stale):
            child = best.vector + step * self._where.scale * rng.standard_normal(size)
            better = yield from self._challenge(self._where.inside(child), best)
            stale = 0 if better else stale + 1
            step *= grow if better else shrink if self._search.adapt else 1.0
            best = better or best
        return best

    def _pick_best(self, rng: np.random.Generator) -> Steps[Candidate]:
        """Random search: the best of independent random vectors."""
        best = yield from self._first(self._where.draw(rng))
        stale = 0
        while not self._is_over(stale):
            better = yield from self._challenge(self._where.draw(rng), best)
            stale = 0 if better else stale + 1
            best = better or best
        return best

    def _adapt(self, rng: np.random.Generator) -> Steps[Candidate]:
        """CMA-ES, started at a random vector."""
        best = yield from self._first(self._where.draw(rng))
        optimizer = _optimizer(self._where, best.vector, self._search.step)
        stale = 0
        while not self._is_over(stale):
            optimizer.reseed_rng(int(rng.integers(2**31)))
            generation = []
            for _ in range(optimizer.population_size):
                vector = optimizer.ask()
                better = yield from self._challenge(self._where.inside(vector), best)
                stale = 0 if better else stale + 1
                best = better or best
                generation.append((vector, -self._history[-1][-1]["fitness"]))
                if self._is_over(stale):
                    return best
            optimizer.tell(generation)
        return best

    def _is_over(self, stale: int) -> bool:
        done, most = len(self._history[-1]), self._search.evaluations
        return stale >= self._search.patience or bool(most and done >= most)

    def _first(self, vector: Array) -> Steps[Candidate]:
        candidate = self._candidate(vector)
        self._spent += yield from self._measure(candidate, len(self._scenes))
        self._note(candidate, self._fitness(candidate))
        return candidate

    def _challenge(self, vector: Array, best: Candidate) -> Steps[Candidate | None]:
        """The candidate if it is strictly fitter than the best so far, which is decided on as few scenes as possible."""
        candidate, total = self._candidate(vector), len(self._scenes)
        goal = self._fitness(best).total
        grown: list[tuple[int, float]] = []
        for count in rungs(FIRST if self._search.race else total, total):
            self._spent += yield from self._measure(candidate, count)
            grown.append((len(candidate.moved), self._so_far.new_share(candidate.gain)))
            if count < total and self._most(candidate, best, count, grown) < goal:
                break
        fitness = self._fitness(candidate)
        self._note(candidate, fitness)
        complete = len(candidate.moved) == total
        return candidate if complete and fitness.total > goal else None

    def _most(self, candidate: Candidate, best: Candidate, count: int, grown: Sequence[tuple[int, float]]) -> float:
        """An upper bound of a candidate's fitness on all scenes, from the first `count` and how its coverage has grown."""
        total, rivals = len(self._scenes), np.array(best.moved)
        differences = np.array(candidate.moved[:count]) - rivals[:count]
        divergence = float(rivals.mean()) + highest_mean(differences, total, self._search.confidence)
        coverage = most_coverage(grown, total)
        return self._weights.coverage * coverage + self._weights.divergence * norm(max(divergence, 0.0))

    def _explore(self, critical: Critical) -> Steps[Neighbourhood]:
        """How far the answers move under conditions next to a critical one, on a part of the scenes."""
        scenes = min(self._search.around, len(self._scenes))
        steps = explored(self._where, critical.candidate.vector)
        moved: list[float] | None = None
        while True:
            try:
                vector = steps.send(moved)  # type: ignore[arg-type]
            except StopIteration as end:
                found: Neighbourhood = end.value
                return found
            candidate = self._candidate(vector)
            self._explored += yield from self._measure(candidate, scenes)
            moved = candidate.answered(scenes)

    def _candidate(self, vector: Array) -> Candidate:
        """The candidate for a vector; the one tried before if it stands for the same change."""
        change = self._where.change(vector)
        return self._known.setdefault(change, Candidate(vector, change, len(self._known)))

    def _measure(self, candidate: Candidate, count: int) -> Steps[int]:
        """Try a candidate on the first `count` scenes, as far as that has not been done; returns how many were run."""
        keys = self._scenes[len(candidate.moved) : count]
        if not keys:
            return 0
        known = self._so_far.with_gain(candidate.gain)
        reply = yield _Ask(self._tried, candidate.draw, candidate.change, keys, known)
        meter = self._plan.coverage
        gain = meter.joined([candidate.gain, reply.gain]) if meter else {}
        candidate.add(reply.records, self._quantity, gain)
        return len(keys)

    def _fitness(self, candidate: Candidate) -> Fitness:
        return fitness_of(candidate, self._so_far, self._weights)

    def _note(self, candidate: Candidate, fitness: Fitness) -> None:
        self._full += len(self._scenes)
        row = {"fitness": fitness.total, "divergence": fitness.divergence, "coverage": fitness.coverage}
        self._history[-1].append({**row, "scenes": len(candidate.moved)})


def step_factors(size: int) -> tuple[float, float]:
    """By what the step grows after a success and shrinks after a failure: it is stable at one success in five."""
    grow = math.exp(1 / math.sqrt(size + 1))  # D-15
    return grow, grow**-0.25


def require_cmaes() -> Any:
    """The package cmaes; raises `InputError` without it."""
    try:
        import cmaes
    except ImportError as error:
        raise InputError("strategy = 'cma' needs the package cmaes: pip install 'swerve[cma]'") from error
    return cmaes


def _optimizer(where: Coordinates, start: Array, step: float) -> Any:
    bounds = None if where.ends is None else np.tile(where.ends, (len(start), 1))
    return require_cmaes().CMA(mean=start.astype(float), sigma=step * where.scale, bounds=bounds)
