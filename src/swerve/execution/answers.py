"""Runs the system under test on cases, checks its answers, and detects whether it wrote into its input.

A system may raise anything, end or fork its process, return anything, or write into its input. Whatever it does becomes an
answer or an ERROR verdict of the case.
"""

from __future__ import annotations

import itertools
import os
import re
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swerve.config.limits import DEPTH, JOURNAL_LINE
from swerve.core.campaign import Campaign, CoverageMeter, Gain, MergingMeter, has_gain_per_ask
from swerve.core.case import Case
from swerve.core.encode import storable
from swerve.core.errors import ModelError, SwerveError, printable
from swerve.core.relation import Fault, Verdict
from swerve.core.system import Answer, System
from swerve.core.transformation import clear_frame_cache
from swerve.core.values import KINDS, Array, Boxes2D, Boxes3D, Group, Steering, Value, with_own_arrays
from swerve.execution.supervise import STOPS, leave_if_forked

MeasuredAnswer = tuple[Answer | Verdict, Gain | None]
ANSWER_TYPES = frozenset(KINDS.values())
WRITTEN = Verdict.error("the system writes into its input; have it work on a copy (numpy: .copy(), torch: .clone())")
FOREIGN = (Exception, SystemExit, GeneratorExit)  # what user code may raise; sys.exit() in it must not end the run
WORD = np.dtype(np.uint64)
LARGEST_ANSWER = JOURNAL_LINE // 4  # bytes: a line holds the answers before and after the change, and the labels
DEEPEST_ANSWER = DEPTH // 4  # groups: each takes two levels of JSON, and the line has some of its own
BYTES_OF_NUMBER, BYTES_OF_CHARACTER = 24, 6  # the longest of both in JSON
PLACES = 509  # separate sums: they fit a core's cache, and as a prime it does not divide the width of an image
ROW = PLACES * WORD.itemsize
COLOURED = re.compile(r"\x1b\[[0-9;]*m")  # what Keras writes in its messages
LONGEST_ERROR = 2000  # characters of an error that are looked at


def answer_all(system: System, cases: Sequence[Case]) -> list[Answer | Verdict]:
    """One answer per case from one forward pass; if the pass fails, each case is tried alone."""
    if not cases:
        return []
    shown = [without_truth(case) for case in cases]
    before = checksums_of(shown)
    answers = _answers(system, shown)
    written = [one != other for one, other in zip(before, checksums_of(shown), strict=True)]
    if any(written):
        clear_frame_cache()
    if answers is None:
        answers = [WRITTEN if wrote else answer_all(system, [case])[0] for case, wrote in zip(shown, written, strict=True)]
    return [WRITTEN if wrote else answer for answer, wrote in zip(answers, written, strict=True)]


def without_truth(case: Case) -> Case:
    """The case as the system sees it: without its labels."""
    return replace(case, truth=()) if case.truth else case


def answer_and_measure(campaign: Campaign, cases: Sequence[Case]) -> list[MeasuredAnswer]:
    """`answer_all`, with the coverage of each case if the campaign measures it.

    If its search needs no more than the coverage of an ask, the first case has that of all of them.
    """
    if campaign.coverage is None:
        return [(answer, None) for answer in answer_all(campaign.system, cases)]
    kind = _MeasuredTogether if has_gain_per_ask(campaign.search) else _Measured
    measured, shown = kind(campaign.system, campaign.coverage), [without_truth(case) for case in cases]
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


class _MeasuredTogether(_Measured):
    """A system whose coverage is measured in every pass, for all of its cases at once."""

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        assert isinstance(self._meter, MergingMeter), "the engine refuses any other meter"
        answers, self.gains[id(cases[0])] = self._meter.measured_together(self._system, cases)
        return answers


def _answers(system: System, cases: Sequence[Case]) -> list[Answer | Verdict] | None:
    """The answers of one pass; None if it failed and each case must be tried alone."""
    here = os.getpid()
    try:
        answers = list(itertools.islice(system(cases), len(cases) + 1))  # one too many is enough: it may never end
    except STOPS:
        leave_if_forked(here)
        raise
    except BaseException as error:  # the system under test may raise anything, such as GeneratorExit
        leave_if_forked(here)
        return [_model_error(error)] if len(cases) == 1 else None
    leave_if_forked(here)
    if len(answers) != len(cases):
        given = "too many" if len(answers) > len(cases) else f"{len(answers)}"
        return [Verdict.error(f"the system gave {given} answers to {len(cases)} cases")] * len(cases)
    return [_checked_answer(answer) for answer in answers]


def _checked_answer(answer: object) -> Answer | Verdict:
    try:
        return _check_values(answer)
    except FOREIGN as error:  # a value class of the user's own
        return _model_error(error)


def _check_values(answer: object) -> Answer | Verdict:
    if type(answer) is tuple and len(answer) == 1 and type(answer[0]) is Steering:  # as below, and sooner
        fault = answer[0].fault()
        return Verdict.error(fault) if fault else answer
    if not isinstance(answer, tuple) or not answer or not all(type(value) in ANSWER_TYPES for value in answer):
        return Verdict.error(f"the answer must be a tuple of values, got {brief(answer)}")
    if _is_deep(answer):
        return Verdict.error(f"the answer is nested deeper than {DEEPEST_ANSWER} groups")
    if storable(answer) != answer or _journal_bytes(answer) > LARGEST_ANSWER:
        return Verdict.error(f"the answer is too large for the journal: {', '.join(value.slot for value in answer)}")
    fault = next((why for why in (value.fault() or _box_fault(value) for value in answer) if why), None) or _repeated_slot(
        answer
    )
    # A system may write its next answer into the same memory, which would change this one and every verdict on it.
    return Verdict.error(fault) if fault else typing.cast(Answer, with_own_arrays(answer))


def _is_deep(values: Sequence[object]) -> bool:
    """Whether groups are nested so deep that no journal line could hold them."""
    for _ in range(DEEPEST_ANSWER):
        values = [inner for value in values if isinstance(value, Group) for inner in value.values]
        if not values:
            return False
    return True


def _journal_bytes(part: object) -> int:
    """How many bytes an answer takes in a journal line, estimated from above."""
    if isinstance(part, np.ndarray):
        return BYTES_OF_NUMBER * part.size
    if isinstance(part, str):
        return BYTES_OF_CHARACTER * len(part)
    if isinstance(part, tuple):
        return sum(map(_journal_bytes, part))
    return sum(map(_journal_bytes, vars(part).values())) if isinstance(part, Value) else BYTES_OF_NUMBER


def _box_fault(value: Value) -> str | None:
    """Why a box of an answer is invalid: it has a side of 0 or less, so that no overlap can match it."""
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


def _repeated_slot(answer: Answer) -> str | None:
    """Why an answer is ambiguous: it has several values of one slot, of which a relation would judge only the first."""
    slot, count = Counter(map(_quantity, answer)).most_common(1)[0]
    return f"the answer has {count} values of '{slot}'; one is allowed" if count > 1 else None


def _quantity(value: Value) -> str:
    """What a value is about: its slot and, for a signal, its name; for a group, what its members are about."""
    members = dict.fromkeys(map(_quantity, value.values)) if isinstance(value, Group) else ()
    return " ".join(filter(None, (value.slot, getattr(value, "name", ""), *members)))


def _model_error(error: BaseException) -> Verdict:
    if isinstance(error, ModelError):  # it has a readable message and a kind
        return Verdict.error(printable(str(error), 200), Fault(error.kind))
    kind = Fault.OOM if isinstance(error, MemoryError) else Fault.TIMEOUT if isinstance(error, TimeoutError) else Fault.MODEL
    return Verdict.error(sentence(error), kind)


def sentence(error: BaseException) -> str:
    """An error of user code as one line, after what was noted about it; Swerve's own are sentences already."""
    try:
        if isinstance(error, SwerveError):
            return printable(str(error), 200)
        noted = f" ({'; '.join(notes)})" if (notes := getattr(error, "__notes__", ())) else ""
        words = " ".join(COLOURED.sub("", str(error)[:LONGEST_ERROR]).split())
        return printable(f"{type(error).__name__}{noted}: {words}", 200)
    except FOREIGN:  # an error whose __str__ fails
        return type(error).__name__


def brief(thing: object) -> str:
    """Type and value of anything, for a message."""
    try:
        return printable(f"{type(thing).__name__} {thing!r}", 80)
    except FOREIGN:
        return type(thing).__name__


def checksums_of(cases: Sequence[Case]) -> list[int]:
    """A checksum of each case's inputs, which changes when something is written into them (R26).

    It is cheaper than a copy, so it is computed for every input of the system. It is not a hash but consists of sums by
    position, which detect any single changed number, and pixels that swap places.
    """
    known: dict[int, int] = {}  # by identity: cases may share frames
    return [hash(tuple(_cached_checksum(array, known) for array in arrays_of(case))) for case in cases]


def share_memory(one: Case, other: Case) -> bool:
    """Whether two cases may have inputs in the same memory."""
    return any(np.may_share_memory(mine, theirs) for mine in arrays_of(one) for theirs in arrays_of(other))


def arrays_of(case: Case) -> list[Array]:
    """All arrays in the inputs of a case."""
    found: list[Array] = []
    for value in case.inputs.values():
        _collect(value, found)
    return found


def _collect(thing: object, found: list[Array]) -> None:
    if isinstance(thing, np.ndarray):
        found.append(thing)
    elif isinstance(thing, Value | Mapping | tuple):  # numbers and strings cannot be written into
        parts = thing if isinstance(thing, tuple) else (vars(thing) if isinstance(thing, Value) else thing).values()
        for part in parts:
            _collect(part, found)


def _cached_checksum(array: Array, known: dict[int, int]) -> int:
    if id(array) not in known:
        known[id(array)] = _checksum(array)
    return known[id(array)]


def _checksum(array: Array) -> int:
    data = (array if array.flags.c_contiguous else np.ascontiguousarray(array)).reshape(-1).view(np.uint8)
    rows = data.size // ROW
    whole = data[: rows * ROW]
    # A reduction over zero rows is surprisingly slow.
    sums = np.add.reduce(whole.view(WORD).reshape(rows, PLACES), axis=0).tobytes() if rows else b""
    return hash((array.shape, sums, data[rows * ROW :].tobytes()))
