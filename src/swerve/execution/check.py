"""Checks before a run whether the campaign can find anything (RELIABILITY, design rule 9).

A concern is a note, a warning, or a refusal: a refused campaign cannot find anything, or would report false findings.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from swerve.analysis.baseline import angles, baseline_error
from swerve.core.campaign import Campaign, Observation, Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.encode import close, encode
from swerve.core.errors import InputError, printable
from swerve.core.region import region_of
from swerve.core.relation import Pair, Rule, Status
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Array, Boxes2D, Boxes3D, Steering, find
from swerve.execution.answers import without_truth
from swerve.execution.evaluator import Evaluator, checked, read_case
from swerve.execution.executors.in_process import Executor
from swerve.execution.finding_pictures import files_of
from swerve.relations.boxes import ANY, BoxesAlike
from swerve.relations.obstacles import in_region
from swerve.relations.sets import DEMANDED, Superset
from swerve.relations.unjudged import Unjudged
from swerve.store.journal import encode_line
from swerve.store.record_json import record_row
from swerve.store.view import KEPT_PER_RULE
from swerve.systems.child import cpu_seconds

NO_EFFECT, NOTHING = "no effect", "nothing to find"
FEWEST_FOR_CONSTANT = 3  # different inputs that a refusal needs; with fewer it is a warning
NOISE_CASES, NOISE_ROUNDS = 8, 2
BATCH_CASES = 6  # asked again in another batch size and alone
BEYOND_NOISE = 3  # times the noise of the same batch asked twice
SAMPLED_CASES, SAMPLED_DRAWS = 3, 4
MOST_SKIPPED = 0.5
SAMPLED_REGIONS = 16  # cases whose region is read to see whether it holds an object
MOST_EMPTY = 0.5
FEWEST_FOR_SIGN, ENOUGH_FOR_SIGN = 10, 30  # labels to warn by, and to refuse by
EXPLAINED = 0.5  # at most this share of the error is left with the right sign or unit
TOGETHER = 0.5  # at least this correlation, with or against the labels
OTHERWISE = (
    ("sign", -1.0, "with the other sign (`positive` the other way)"),
    ("unit", math.degrees(1), "radians (`unit`) where degrees are declared"),
    ("unit", math.radians(1), "degrees (`unit`) where radians are declared"),
    ("sign", -math.degrees(1), "radians, with the other sign"),
    ("sign", -math.radians(1), "degrees, with the other sign"),
)
FAINT = 0.1  # a move below this share of the system's own error is negligible
SPARE = 1.2  # free space on the disk, in multiples of the estimate
T = TypeVar("T")


class Level(StrEnum):
    """How serious a concern is."""

    NOTE = "note"
    WARNING = "warning"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Concern:
    """One thing that a user should know before the run."""

    name: str
    level: Level
    why: str
    rule: str = ""  # that it is about, if any

    def as_dict(self) -> dict[str, str]:
        """The concern as plain JSON."""
        return {key: str(item) for key, item in asdict(self).items() if item or key != "rule"}


@dataclass(frozen=True)
class Health:
    """The system's own error, the estimated cost of the run, and every concern."""

    baseline: Mapping[str, Any]
    concerns: tuple[Concern, ...]
    trials: int | None
    seconds: float | None  # of CPU
    megabytes: float | None

    def as_dict(self) -> dict[str, Any]:
        """The content of `swerve check --json`."""
        estimate = {"trials": self.trials, "cpu_seconds": self.seconds, "megabytes": self.megabytes}
        concerns = [concern.as_dict() for concern in self.concerns]
        return {"baseline": dict(self.baseline), "estimate": estimate, "concerns": concerns, "healthy": not self.refusals}

    @property
    def refusals(self) -> tuple[Concern, ...]:
        """The concerns that stop a run."""
        return tuple(concern for concern in self.concerns if concern.level is Level.REFUSAL)

    def without_effect(self, rule: str) -> Concern | None:
        """The concern that the changes of a rule have no effect on the system, if there is one."""
        return next((one for one in self.concerns if (one.name, one.rule) == (NO_EFFECT, rule)), None)

    def refuse(self) -> None:
        """Raise `InputError` for the first refusal."""
        for concern in self.refusals:
            raise InputError(f"{concern.why}; to run it anyway: --force")


def examine(
    campaign: Campaign, baseline: Mapping[str, Observation], executor: Executor, folder: Path | None = None
) -> Health:
    """Check the baseline, repeat a few cases, and try a few changes of every rule; `folder` is the run folder."""
    usable = [seen for seen in baseline.values() if not seen.fault]
    answered = [seen for seen in usable if not _is_empty(seen.answer)]
    sample = _spread(answered or usable, SAMPLED_CASES)
    samples = [list(_sample_trials(rule, sample)) for rule in campaign.rules]
    executor.warm(samples)
    started = cpu_seconds()
    evaluated = zip(campaign.rules, executor.evaluate(samples), strict=True)
    records = {rule.name: [result.record for result in batch] for rule, batch in evaluated}
    seconds = cpu_seconds() - started
    trials = campaign.search.start(
        Plan(
            [seen.case for seen in usable],
            campaign.rules,
            campaign.seed,
            baseline,
            campaign.inference_batch,
            campaign.coverage,
        )
    ).total
    tried = [record for some in records.values() for record in some]
    share = None if trials is None or not tried else trials / len(tried)
    megabytes = None if share is None else _megabytes(campaign, tried, share, len(usable))
    concerns = (
        *_skipped(baseline.values()),
        *_repeated(usable),
        *_constant(usable, tried),
        *_blind(campaign, usable, tried),
        *_unit_and_sign(usable),
        *_kinds_apart(campaign, usable, records),
        *_noise(campaign, executor, baseline, _spread(usable, NOISE_CASES)),
        *_batch_dependence(campaign, executor, usable),
        *_idle(campaign, records),
        *_faint(usable, records),
        *_disk(folder, megabytes),
    )
    error = baseline_error(campaign.source, list(baseline.values()))
    return Health(error, concerns, trials, None if share is None else seconds * share, megabytes)


def _spread(items: Sequence[T], count: int) -> list[T]:
    """Up to `count` of the items, evenly spaced from first to last."""
    places = np.unique(np.linspace(0, len(items) - 1, min(count, len(items))).astype(int))
    return [items[place] for place in places]


def _sample_trials(rule: Rule, sample: Sequence[Observation]) -> Iterator[Trial]:
    """Trials spread over the whole grid, or the first draws of an infinite space: the same as in the run."""
    grid = rule.change.grid()
    places = (
        np.unique(np.linspace(0, len(grid) - 1, min(SAMPLED_DRAWS, len(grid))).astype(int)) if grid else range(SAMPLED_DRAWS)
    )
    for seen in sample:
        yield from (Trial(seen.case, rule.name, int(place), grid[place] if grid else None) for place in places)


def _skipped(baseline: Sequence[Observation] | Any) -> Iterator[Concern]:
    seen = list(baseline)
    unusable = [item for item in seen if item.fault]
    unread = [
        item for item in unusable if not item.readable
    ]  # a model that fails is a result; a file that cannot be read is not
    if unusable:
        level = Level.REFUSAL if len(unread) > MOST_SKIPPED * len(seen) else Level.WARNING
        first = printable(unusable[0].fault, 120)
        yield Concern("unusable cases", level, f"{len(unusable)} of {len(seen)} cases cannot be used; first: {first}")


def _repeated(usable: Sequence[Observation]) -> Iterator[Concern]:
    """The same input under two names, whatever the format of its file (R37)."""
    names: dict[str, list[str]] = {}
    for seen in usable:
        names.setdefault(seen.input_sha, []).append(seen.case)
    if groups := [keys for keys in names.values() if len(keys) > 1]:
        first = " and ".join(printable(key, 60) for key in groups[0][:2])
        yield Concern("same input twice", Level.NOTE, f"{len(groups)} inputs occur more than once; first: {first}")


def _constant(usable: Sequence[Observation], tried: Sequence[Record]) -> Iterator[Concern]:
    """A model that always gives the same answer cannot contradict itself (R28)."""
    inputs, answers = {seen.input_sha for seen in usable}, {str(encode(seen.answer)) for seen in usable}
    after = {str(encode(record.after)) for record in tried if record.after and not isinstance(record.change, Unchanged)}
    few, moved = len(inputs) < FEWEST_FOR_CONSTANT, not after <= answers
    if len(answers) > 1 or (few and (moved or not after)):
        return
    why = f"the system gives the same answer to all {len(usable)} cases"
    check = "check its preprocessing and weights"
    if moved:
        yield Concern("constant answers", Level.WARNING, f"{why}, though not to all follow-ups")
    elif few or _violated(tried):
        yield Concern("constant answers", Level.WARNING, f"{why} and to the follow-ups tried: {check}")
    else:
        why += ", and to the follow-ups tried; no change can make it contradict itself"
        yield Concern("constant answers", Level.REFUSAL, f"{why}: {check}")


def _blind(campaign: Campaign, usable: Sequence[Observation], tried: Sequence[Record]) -> Iterator[Concern]:
    """A system that detects no object, or none in the region, cannot lose one (R28)."""
    judged = [record for record in tried if record.verdict.status in (Status.HELD, Status.VIOLATED)]
    of_sets = [record for record in judged if DEMANDED in record.facts]
    if not of_sets:
        return
    looked = _spread(usable, SAMPLED_REGIONS)
    empty = sum(not _has_objects(campaign, seen) for seen in looked)
    placed = any(record.facts[DEMANDED] for record in of_sets)  # a change may bring its own object
    if empty == len(looked) and not placed and not any(_has_objects(campaign, seen) for seen in usable):
        looked, empty = list(usable), len(usable)
    if not empty:
        return
    some = " checked" if len(looked) < len(usable) else ""
    why = f"no object is detected, or none in the region, in {empty} of {len(looked)} cases{some}"
    if empty < len(usable) or placed or len(of_sets) < len(judged):
        yield Concern("no objects", Level.WARNING if empty > MOST_EMPTY * len(looked) else Level.NOTE, why)
    else:
        why += ", so none can be lost; check the system's weights and limits, and the region"
        yield Concern("no objects", Level.REFUSAL, why)


def _has_objects(campaign: Campaign, seen: Observation) -> bool:
    """Whether an answer has an object that counts, in the case's region if there is one."""
    boxes = [value for value in seen.answer if isinstance(value, Boxes2D | Boxes3D) and np.any(value.care)]
    if not boxes or any(isinstance(value, Boxes2D) for value in boxes):
        return bool(boxes)
    region = region_of(read_case(campaign, seen.case))
    return any(np.any(in_region(value, region).care) for value in boxes if isinstance(value, Boxes3D))


def _unit_and_sign(usable: Sequence[Observation]) -> Iterator[Concern]:
    """Answers that would be right with the other sign, or in another unit (R42).

    A poor model is not enough: one of `OTHERWISE` must explain most of the labels, and halve the error as well.
    """
    labels, answers = (np.array(numbers) for numbers in angles(usable))
    if len(labels) < FEWEST_FOR_SIGN or not np.std(labels) or not np.std(answers):
        return
    together = float(np.corrcoef(labels, answers)[0, 1])  # a mere offset is neither
    wrong, still = float(np.mean((answers - labels) ** 2)), float(np.mean(labels**2))
    level = Level.REFUSAL if len(labels) >= ENOUGH_FOR_SIGN else Level.WARNING
    for name, factor, hint in OTHERWISE:
        other = float(np.mean((factor * answers - labels) ** 2))
        if other < EXPLAINED * min(wrong, still) and together * math.copysign(1, factor) > TOGETHER:
            better = f"their squared error against {len(labels)} labels would be {other:.3g}, not {wrong:.3g}"
            yield Concern(name, level, f"if the answers were {hint}, {better}")
            return


def _noise(
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


def _batch_dependence(campaign: Campaign, executor: Executor, usable: Sequence[Observation]) -> Iterator[Concern]:
    """R71: an answer must not depend on the position in a batch, the batch size or the other cases in it.

    The whole first batch is repeated with every case in another place, and a few of its cases in a smaller batch and alone.
    If even the same batch gets different answers (`_noise`), only differences well beyond that noise count.
    """
    if campaign.inference_batch < 2:
        return
    known = {seen.case: seen for seen in usable[: campaign.inference_batch]}
    keys = list(known)
    turned = [keys[(place + len(keys) // 2) % len(keys)] for place in range(campaign.inference_batch)]
    few = _spread(keys, BATCH_CASES)[::-1]
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


def _kinds_apart(
    campaign: Campaign, usable: Sequence[Observation], records: Mapping[str, Sequence[Record]]
) -> Iterator[Concern]:
    """R74: answers that share no kind with the labels, or with the objects that a change adds: each would be missed."""
    apart = (
        concern
        for rule in campaign.rules
        for part in _kind_comparisons(rule.expect)
        for concern in _kind_concerns(rule, part, usable, records[rule.name])
    )
    yield from sorted(apart, key=lambda concern: concern.level is not Level.REFUSAL)[:1]


def _kind_comparisons(part: object) -> Iterator[BoxesAlike | Superset]:
    """The relations that compare kinds of boxes: a relation itself, or those that it is made of."""
    if isinstance(part, BoxesAlike | Superset):
        yield from () if part.kinds == ANY else (part,)
    elif isinstance(part, tuple | list):
        yield from (found for item in part for found in _kind_comparisons(item))
    else:
        fields = (getattr(part, name) for name in getattr(part, "__dataclass_fields__", ()))
        yield from (found for item in fields for found in _kind_comparisons(item))


def _kind_concerns(
    rule: Rule, part: BoxesAlike | Superset, usable: Sequence[Observation], tried: Sequence[Record]
) -> Iterator[Concern]:
    labelled = _kinds_in(part.slot, [seen.truth for seen in usable])
    answered = _kinds_in(part.slot, [seen.answer for seen in usable])
    later = answered | _kinds_in(part.slot, [record.after for record in tried])
    apart = not labelled & answered
    # `superset` compares the answer with an earlier one, so its verdicts are right whatever the labels are called. A system
    # that shares other kinds with the labels may really not know the added one.
    levels = {True: Level.REFUSAL, False: Level.WARNING}
    found = (
        ("labels", "the labels have", labelled, answered, isinstance(part, BoxesAlike)),
        ("added objects", "the changes add", _kinds_added(part.slot, tried), later, apart),
    )
    for what, verb, kinds, others, refused in found:
        if kinds and others and not kinds & others:
            named = f"{verb} {_first_few(kinds)}, the system answers {_first_few(others)}"
            where = f"the relation of rule '{printable(rule.name, 40)}'"
            fix = f'rename the kinds of the system, or write kinds = "{ANY}" in {where}'
            why = f"{what} and answers have no kind of object in common: {named}; {fix}"
            yield Concern("kinds", levels[refused], why)


def _kinds_in(slot: str, answers: Sequence[Answer]) -> set[str]:
    found = [value for answer in answers for value in answer if value.slot == slot]
    boxes = [value for value in found if isinstance(value, Boxes2D | Boxes3D)]
    return {kind for value in boxes for kind, care in zip(value.kinds, np.asarray(value.care), strict=True) if care}


def _kinds_added(slot: str, tried: Sequence[Record]) -> set[str]:
    """The kinds of the objects that changes add to a scene: those that they add to no boxes at all."""
    judged = (record for record in tried if record.verdict.status in (Status.HELD, Status.VIOLATED))
    pairs = ((record.change, _no_boxes(slot, record)) for record in judged)
    return _kinds_in(slot, [(change.map(empty),) for change, empty in pairs if change is not None and empty is not None])


def _no_boxes(slot: str, record: Record) -> Boxes2D | Boxes3D | None:
    """No boxes in the image of a trial; None if its size is unknown, without which a change cannot map boxes."""
    if slot == Boxes3D.slot:
        return Boxes3D(np.zeros((0, 7)), ())
    seen = find(record.before, slot)
    return Boxes2D(np.zeros((0, 4)), (), size=seen.size) if isinstance(seen, Boxes2D) and seen.size else None


def _first_few(kinds: set[str]) -> str:
    named = ", ".join(f"'{printable(kind, 20)}'" for kind in sorted(kinds)[:3])
    return f"{named} …" if len(kinds) > 3 else named


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
    return f" (up to {max(apart):.3g}°)" if apart else ""


def _idle(campaign: Campaign, records: Mapping[str, Sequence[Record]]) -> Iterator[Concern]:
    """Rules whose changes cannot be made, or have no effect on the system (R29, D-9)."""
    dead: list[str] = []
    for name, some in records.items():
        head = f"rule '{printable(name, 60)}'"
        judged = [record for record in some if record.verdict.status in (Status.HELD, Status.VIOLATED)]
        if isinstance(campaign.rule(name).expect, Unjudged):
            dead.append(f"{head}: it judges nothing")
        elif not judged and some:
            # A change that fails here may work on other cases; one that does not apply to any of them is useless.
            why = f"{head}: none of {len(some)} changes tried could be judged: {printable(some[0].verdict.why, 120)}"
            dead += [why] if all(record.verdict.status is Status.SKIPPED for record in some) else []
            yield Concern("never judged", Level.WARNING, why, name)
        elif judged and not _undecided(judged) and not any(_reaches(campaign, record) for record in judged):
            example = printable(repr(judged[0].change), 60)
            shown = _sees(campaign) is not None
            what = "the system's input and answer" if shown else "the system's answer"
            why = f"{head}: {len(judged)} changes such as {example} leave {what} unchanged"
            # Unless a system shows its preprocessed input, its answers to a few changes prove nothing about others.
            dead += [why] if shown and not _violated(judged) else []
            yield Concern(NO_EFFECT, Level.WARNING, why, name)
    if dead and len(dead) == len(records):
        yield Concern(NOTHING, Level.REFUSAL, f"none of the {len(dead)} rules can find anything; {dead[0]}")


def _violated(records: Sequence[Record]) -> bool:
    return any(record.verdict.status is Status.VIOLATED for record in records)


def _undecided(judged: Sequence[Record]) -> bool:
    """Whether equal answers prove nothing: the change is `Unchanged`, or the answers are empty before and after."""
    idle = all(isinstance(record.change, Unchanged) for record in judged)
    return idle or all(_is_empty(record.before) and _is_empty(record.after) for record in judged)


def _is_empty(answer: Answer) -> bool:
    return all(isinstance(value, Boxes2D | Boxes3D) and not value.kinds for value in answer)


def _reaches(campaign: Campaign, record: Record) -> bool:
    """Whether a change alters the system's answer or, where the system can show it, its preprocessed input."""
    if encode(record.before) != encode(record.after):
        return True
    sees = _sees(campaign)
    if sees is None or not isinstance(record.change, Transformation):
        return False
    case = read_case(campaign, record.trial.case)
    return not np.array_equal(sees(without_truth(case)), sees(without_truth(record.change(case))))


def _sees(campaign: Campaign) -> Callable[[Case], Array] | None:
    """The function from a case to the system's preprocessed input, where it offers one."""
    sees: Callable[[Case], Array] | None = getattr(campaign.system, "sees", None)
    return sees if callable(sees) else None


def _faint(usable: Sequence[Observation], records: Mapping[str, Sequence[Record]]) -> Iterator[Concern]:
    """Rules whose changes hardly affect the system, such as a larger picture that its own resizing undoes (D-9)."""
    labels, answers = (np.array(numbers) for numbers in angles(usable))
    error = float(np.sqrt(np.mean((answers - labels) ** 2))) if len(labels) else 0.0
    for name, some in records.items():
        judged = [record for record in some if record.verdict.status in (Status.HELD, Status.VIOLATED)]
        pairs = [(find(record.before, Steering.slot), find(record.after, Steering.slot)) for record in judged]
        moved = [abs(a.degrees - b.degrees) for a, b in pairs if isinstance(a, Steering) and isinstance(b, Steering)]
        if moved and 0 < max(moved) < FAINT * error:
            head = f"rule '{printable(name, 60)}': {len(moved)} changes tried move the answer by {max(moved):.2g}° at most"
            why = f"{head}, less than {FAINT:.0%} of the system's own error of {error:.3g}°"
            yield Concern("hardly reaches the system", Level.WARNING, why, name)


def _megabytes(campaign: Campaign, tried: Sequence[Record], share: float, cases: int) -> float:
    """The size of the journal lines of all trials and of the kept pictures: follow-ups, and every source once."""
    lines = sum(len(encode_line(record_row(record))) for record in tried) * share
    found = [record for record in tried if record.verdict.status is Status.VIOLATED]
    kept = min(len(found) * share, KEPT_PER_RULE * len(campaign.rules))
    sizes = [_kept_bytes(campaign, record) for record in _spread(found, SAMPLED_CASES)]
    sources, followups = np.mean(sizes, axis=0) if sizes else (0.0, 0.0)
    return float(lines + min(kept, cases) * sources + kept * followups) / 1e6


def _kept_bytes(campaign: Campaign, record: Record) -> tuple[int, int]:
    """The size in bytes of the picture files of a finding's source, and of its follow-up."""
    assert record.change  # it was violated
    source = read_case(campaign, record.trial.case)
    first, second = (sum(map(len, files_of(case).values())) for case in (source, record.change(source)))
    return first, second


def _disk(folder: Path | None, megabytes: float | None) -> Iterator[Concern]:
    if folder is None or megabytes is None:
        return
    existing = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free / 1e6
    if free < SPARE * megabytes:
        yield Concern("disk", Level.REFUSAL, f"{folder}: needs about {megabytes:,.0f} MB, {free:,.0f} MB are free")
