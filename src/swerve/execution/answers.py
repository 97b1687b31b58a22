"""Asking the system under test: what it is shown, whether it wrote into that, and whether its answer is sound.

A system may raise anything, end or fork its process, answer nonsense, or write into its input. Whatever it does becomes an
answer or an ERROR verdict of the case at hand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swerve.core.campaign import Campaign, CoverageMeter, Gain
from swerve.core.case import Case
from swerve.core.encode import storable
from swerve.core.errors import ModelError, printable
from swerve.core.relation import Fault, Verdict
from swerve.core.system import Answer, System
from swerve.core.transformation import clear_frame_cache
from swerve.core.values import KINDS, Array, Boxes2D, Boxes3D, Group, Value
from swerve.execution.supervise import STOPS, leave_if_forked

Said = tuple[Answer | Verdict, Gain | None]
ANSWER_TYPES = frozenset(KINDS.values())
WRITTEN = Verdict.error("the system writes into its input; have it work on a copy (numpy: .copy(), torch: .clone())")
FOREIGN = (Exception, SystemExit, GeneratorExit)  # what user code may raise; sys.exit() in it must not end the run
WORD = np.dtype(np.uint64)
PLACES = 509  # words summed apart from each other: they fit a core's cache; a prime, which no picture's row divides
ROW = PLACES * WORD.itemsize


def answer_all(system: System, cases: Sequence[Case]) -> list[Answer | Verdict]:
    """One answer per case from one forward pass; if the pass fails, each case alone, so that one cannot spoil the rest."""
    if not cases:
        return []
    shown = [without_truth(case) for case in cases]
    before = marks_of(shown)
    answers = _answers(system, shown)
    written = [one != other for one, other in zip(before, marks_of(shown), strict=True)]
    if any(written):
        clear_frame_cache()
    if answers is None:
        answers = [WRITTEN if spoilt else answer_all(system, [case])[0] for case, spoilt in zip(shown, written, strict=True)]
    return [WRITTEN if spoilt else answer for answer, spoilt in zip(answers, written, strict=True)]


def without_truth(case: Case) -> Case:
    """The case as a system is shown it: without its labels."""
    return replace(case, truth=()) if case.truth else case


def answer_and_measure(campaign: Campaign, cases: Sequence[Case]) -> list[Said]:
    """`answer_all`, with what each case covers where the campaign measures that."""
    if campaign.coverage is None:
        return [(answer, None) for answer in answer_all(campaign.system, cases)]
    measured, shown = _Measured(campaign.system, campaign.coverage), [without_truth(case) for case in cases]
    answers = answer_all(measured, shown)
    return [(answer, measured.gains.get(id(case))) for case, answer in zip(shown, answers, strict=True)]


class _Measured:
    """A system whose coverage is measured in every pass."""

    def __init__(self, system: System, meter: CoverageMeter) -> None:
        self._system, self._meter = system, meter
        self.gains: dict[int, Gain] = {}  # by the case's id, while the batch lives

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        answers, gains = self._meter.measured(self._system, cases)
        self.gains.update((id(case), gain) for case, gain in zip(cases, gains, strict=True))
        return answers

    def fingerprint(self) -> str:
        return self._system.fingerprint()


def _answers(system: System, cases: Sequence[Case]) -> list[Answer | Verdict] | None:
    """The answers of one pass; None if it failed and each case has to be asked alone."""
    here = os.getpid()
    try:
        answers = list(system(cases))
    except STOPS:
        leave_if_forked(here)
        raise
    except BaseException as error:  # the system under test may raise anything, such as GeneratorExit
        leave_if_forked(here)
        return [_model_error(error)] if len(cases) == 1 else None
    leave_if_forked(here)
    if len(answers) != len(cases):
        return [Verdict.error(f"the system gave {len(answers)} answers to {len(cases)} cases")] * len(cases)
    return [_checked_answer(answer) for answer in answers]


def _checked_answer(answer: object) -> Answer | Verdict:
    try:
        return _sound(answer)
    except FOREIGN as error:  # a value class of the user's own
        return _model_error(error)


def _sound(answer: object) -> Answer | Verdict:
    if not isinstance(answer, tuple) or not answer or not all(type(value) in ANSWER_TYPES for value in answer):
        return Verdict.error(f"the system must say a tuple of values, it said {brief(answer)}")
    if storable(answer) != answer:
        return Verdict.error(f"the system must say what a journal can hold, it said {', '.join(v.slot for v in answer)}")
    fault = next((why for why in (value.fault() or _box_fault(value) for value in answer) if why), None) or _twice(answer)
    return Verdict.error(fault) if fault else answer


def _box_fault(value: Value) -> str | None:
    """Why a box of an answer is none: a side of 0 or less, which no comparison by overlap could find again."""
    if isinstance(value, Group):
        return next((why for why in map(_box_fault, value.values) if why), None)
    if not isinstance(value, Boxes2D | Boxes3D):
        return None
    sides = value.xyxy[:, 2:] - value.xyxy[:, :2] if isinstance(value, Boxes2D) else value.xyzlwhy[:, 3:6]
    flat = np.flatnonzero((sides <= 0).any(axis=1))
    if not len(flat):
        return None
    lengths = " x ".join(f"{side:g}" for side in sides[flat[0]])
    return f"{value.slot}: box {flat[0]} has the sides {lengths}; every side must be above 0"


def _twice(answer: Answer) -> str | None:
    """Why an answer is ambiguous: it has two values of one slot, of which a relation would judge the first."""
    slots = Counter((value.slot, getattr(value, "name", "")) for value in answer)
    again = next((slot for slot, count in slots.items() if count > 1), None)
    return f"the answer has {slots[again]} values of '{' '.join(filter(None, again))}'; one is allowed" if again else None


def _model_error(error: BaseException) -> Verdict:
    if isinstance(error, ModelError):  # its message is a sentence, and it knows the kind
        return Verdict.error(printable(str(error), 200), Fault(error.kind))
    kind = Fault.OOM if isinstance(error, MemoryError) else Fault.TIMEOUT if isinstance(error, TimeoutError) else Fault.MODEL
    return Verdict.error(sentence(error), kind)


def sentence(error: BaseException) -> str:
    """An error of user code in one line."""
    try:
        return printable(f"{type(error).__name__}: {error}", 200)
    except FOREIGN:  # an error whose own text fails
        return type(error).__name__


def brief(thing: object) -> str:
    """Type and value of anything, for a message."""
    try:
        return printable(f"{type(thing).__name__} {thing!r}", 80)
    except FOREIGN:
        return type(thing).__name__


def marks_of(cases: Sequence[Case]) -> list[int]:
    """A mark of each case's inputs, the same as long as nothing is written into them (R26).

    A mark costs less than a copy and takes no memory, so it is taken of all that a system is shown. It is no hash, but sums
    by place: any one number that changes shows, and so do pixels that change places.
    """
    known: dict[int, int] = {}  # by identity: cases may share frames
    return [hash(tuple(_known_mark(array, known) for array in arrays_of(case))) for case in cases]


def share(one: Case, other: Case) -> bool:
    """Whether an input of one may lie in the memory of an input of the other."""
    return any(np.may_share_memory(mine, theirs) for mine in arrays_of(one) for theirs in arrays_of(other))


def arrays_of(case: Case) -> list[Array]:
    """Every array of its inputs."""
    found: list[Array] = []
    for value in case.inputs.values():
        _collect(value, found)
    return found


def _collect(thing: object, found: list[Array]) -> None:
    if isinstance(thing, np.ndarray):
        found.append(thing)
    elif isinstance(thing, Value | Mapping | tuple):  # all else, numbers and texts, cannot be written into
        parts = thing if isinstance(thing, tuple) else (vars(thing) if isinstance(thing, Value) else thing).values()
        for part in parts:
            _collect(part, found)


def _known_mark(array: Array, known: dict[int, int]) -> int:
    if id(array) not in known:
        known[id(array)] = _mark(array)
    return known[id(array)]


def _mark(array: Array) -> int:
    data = (array if array.flags.c_contiguous else np.ascontiguousarray(array)).reshape(-1).view(np.uint8)
    rows = data.size // ROW
    whole = data[: rows * ROW]
    # The reduction over no rows at all costs more than all the rest.
    sums = np.add.reduce(whole.view(WORD).reshape(rows, PLACES), axis=0).tobytes() if rows else b""
    return hash((array.shape, sums, data[rows * ROW :].tobytes()))
