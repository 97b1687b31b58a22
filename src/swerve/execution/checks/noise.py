"""Checks that the same input always gets the same answer, in every batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swerve.core.campaign import Campaign, Observation
from swerve.core.case import Case
from swerve.core.encode import close, encode
from swerve.core.errors import printable
from swerve.core.relation import Pair, Rule, Status
from swerve.core.system import Answer
from swerve.core.transformation import Unchanged
from swerve.core.values import Steering, find
from swerve.execution.checks.concern import Concern, Level
from swerve.execution.checks.sampling import spread
from swerve.execution.evaluator import Evaluator, checked
from swerve.execution.executors.in_process import Executor

NOISE_ROUNDS = 2
BATCH_CASES = 6  # asked again in another batch size and alone
BEYOND_NOISE = 3  # times the noise of the same batch asked twice


def noise(
    campaign: Campaign, executor: Executor, baseline: Mapping[str, Observation], sample: Sequence[Observation]
) -> Iterator[Concern]:
    """The same input must always get the same answer (X-12, R17)."""
    keys = [seen.case for seen in sample]
    again = [seen for batch in executor.observe([keys] * NOISE_ROUNDS) for seen in batch]
    pairs = list(zip([*sample] * NOISE_ROUNDS, again, strict=True))
    moved = [pair for pair in pairs if pair[1].fault or not close(encode(pair[0].answer), encode(pair[1].answer))]
    if not moved:
        return
    rules = Evaluator(campaign, baseline).rules.values()
    broken = [rule.name for rule in rules if any(_breaks(rule, *pair) for pair in moved)]
    floor = _floor([(first.answer, second.answer) for first, second in moved])
    again_why = f"asked again, the system answers {len(moved)} of {len(pairs)} times differently{floor}"
    if broken:
        named = ", ".join(f"'{printable(name, 40)}'" for name in broken[:3])
        yield Concern("noise", Level.REFUSAL, f"{again_why}: enough to violate {named} without any change")
    else:
        yield Concern("noise", Level.WARNING, f"{again_why}; findings nearer to their limit than that may not replay")


def batch_dependence(campaign: Campaign, executor: Executor, usable: Sequence[Observation]) -> Iterator[Concern]:
    """R71: an answer must not depend on the position in a batch, the batch size or the other cases in it.

    The whole first batch is repeated with every case in another place, and a few of its cases in a smaller batch and alone.
    If even the same batch gets different answers (`noise`), only differences well beyond that noise count.
    """
    if campaign.inference_batch < 2:
        return
    known = {seen.case: seen for seen in usable[: campaign.inference_batch]}
    keys = list(known)
    turned = [keys[(place + len(keys) // 2) % len(keys)] for place in range(campaign.inference_batch)]
    few = spread(keys, BATCH_CASES)[::-1]
    first, *others = executor.observe([turned, few[: len(few) // 2 + 1], *([key] for key in few[::2])])
    again = [seen for batch in (first, *others) for seen in batch]
    apart = [_apart(known[seen.case], seen) for seen in again]
    if not any(apart):
        return
    (second,) = executor.observe([turned])
    noise = max(_apart(one, other) for one, other in zip(first, second, strict=True))
    moved = sum(one > BEYOND_NOISE * noise for one in apart)
    if moved:
        gaps = [gap for gap in apart if math.isfinite(gap)]
        figure = _floor([(known[seen.case].answer, seen.answer) for seen in again]) or (
            f" (up to {max(gaps):.3g})" if gaps else ""
        )
        why = f"asked again in another batch or alone, the system answers {moved} of {len(again)} times differently{figure}"
        fix = "answers must not depend on the rest of a batch; inference_batch = 1 asks every case alone"
        yield Concern("batch", Level.REFUSAL, f"{why}: {fix}")


def _apart(first: Observation, second: Observation) -> float:
    """The largest difference of a number in two answers to one case: 0 within rounding, infinite if not comparable."""
    one, other = encode(first.answer), encode(second.answer)
    if first.fault != second.fault:
        return math.inf
    return 0.0 if close(one, other) else _largest_gap(one, other)


def _largest_gap(one: Any, other: Any) -> float:
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        return max((_largest_gap(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(_largest_gap, one, other), default=0.0)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other)
    return 0.0 if one == other else math.inf


def _breaks(rule: Rule, first: Observation, second: Observation) -> bool:
    """Whether the second answer alone turns a rule that holds into one that is violated."""
    if second.fault:
        return True
    case = Case(first.case, {}, first.truth, first.group)
    before, after = (
        checked(rule, Pair(case, case, Unchanged(), first.answer, seen.answer)).status for seen in (first, second)
    )
    return before is Status.HELD and after is Status.VIOLATED


def _floor(answers: Sequence[tuple[Answer, Answer]]) -> str:
    pairs = [(find(one, Steering.slot), find(other, Steering.slot)) for one, other in answers]
    apart = [abs(a.degrees - b.degrees) for a, b in pairs if isinstance(a, Steering) and isinstance(b, Steering)]
    return f" (up to {max(apart):.3g}°)" if any(apart) else ""
