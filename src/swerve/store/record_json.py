"""Observations and records as journal rows, and findings read from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, overload

from swerve.config.toml import Builder
from swerve.core.campaign import Gain, Observation, Outcome, Record, Trial
from swerve.core.encode import ENCODED, decode_values, encode, encode_change
from swerve.core.errors import StoreError
from swerve.core.origin import Origin
from swerve.core.relation import Fault, Status, Verdict
from swerve.core.system import Answer
from swerve.core.transformation import Transformation
from swerve.store.journal import Row, decode_head, decode_line

BASELINE, TRIAL, REPEAT, GAIN = "baseline", "trial", "repeat", "gain"


def observation_row(seen: Observation) -> Row:
    """The observation of one unchanged case as a row; the same row if it was read from one."""
    return vars(seen).get(ENCODED) or {
        "kind": BASELINE,
        "case": seen.case,
        "group": seen.group,
        "truth": encode(seen.truth),
        "said": encode(seen.answer),
        "input_sha": seen.input_sha,
        "fault": seen.fault,
        "readable": seen.readable,
        "gain": seen.gain,
        **({"truth_sha": seen.truth_sha} if seen.truth_sha else {}),
    }


def observation_of(row: Row) -> Observation:
    """The observation in a row."""
    seen = Observation(
        row["case"],
        row["group"],
        decode_values(row["truth"]),
        decode_values(row["said"]),
        row["input_sha"],
        row["fault"],
        row["readable"],
        row["gain"],
        str(row.get("truth_sha", "")),
    )
    object.__setattr__(seen, ENCODED, row)
    return seen


def record_row(record: Record) -> Row:
    """One record as a row; it has the change in words too, so that it can be read without the user's code."""
    verdict = record.verdict
    return {
        "kind": TRIAL,
        "id": record.id,
        "case": record.trial.case,
        "rule": record.trial.rule,
        "draw": record.trial.draw,
        "fixed": record.trial.change is not None,
        "status": verdict.status.value,
        "margin": verdict.margin,
        "origin": record.origin.value if record.origin else None,
        "error": verdict.kind.value if verdict.kind else None,
        "words": _words(record.change),
        "change": encode_change(record.change),
        "before": encode(record.before),
        "after": encode(record.after),
        "truth": encode(record.truth),
        "why": verdict.why,
        "gain": record.gain,
        "facts": encode(record.facts),
        "source_sha": record.source_sha,
        "input_sha": record.input_sha,
    }


def _words(change: Transformation | None) -> str:
    try:
        return str(change.words()) if change else ""
    except Exception as error:  # the user's own code
        return f"{type(change).__name__} (words() failed: {type(error).__name__})"


def record_of(row: Row, builder: Builder) -> Record:
    """The record in a row; `builder` is the run folder's, for the user's own changes and those that read files."""
    change = None if row["change"] is None else builder.change(row["change"])
    kind = None if row["error"] is None else Fault(row["error"])
    return Record(
        Trial(row["case"], row["rule"], row["draw"], change if row["fixed"] else None),
        Verdict(Status(row["status"]), row["margin"], row["why"], kind),
        change,
        decode_values(row["before"]),
        decode_values(row["after"]),
        decode_values(row["truth"]),
        None if row["origin"] is None else Origin(row["origin"]),
        row["gain"],
        row["source_sha"],
        row["input_sha"],
        row["facts"],
    )


_WORDS = b',"words":'  # the fields before it are counted; inside a string its quotes would be escaped


def read_row(line: bytes) -> dict[str, Any]:
    """The row of a verified line, with its fields checked."""
    return checked_row(decode_line(line))


def head_of(line: bytes) -> Row:
    """The first fields of a trial's verified line, up to its outcome, in a third of the time of the whole row."""
    end = line.find(_WORDS)
    return decode_line(line) if end < 0 else decode_head(line[:end])


def outcome_of(row: Row) -> Outcome:
    """The outcome in a trial's row or its head; nothing else is decoded."""
    try:
        return _outcome(row["rule"], row["status"], row["error"], row["origin"])
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(f"a journal row is damaged: {error}") from error


@lru_cache(1024)  # a million trials have few different outcomes
def _outcome(rule: str, status: str, error: str | None, origin: str | None) -> Outcome:
    kind, came_from = None if error is None else Fault(error), None if origin is None else Origin(origin)
    return Outcome(rule, Status(status), kind, came_from)


class Result:
    """The result of a trial as a record and as a journal row; each is made from what is known when it is first needed.

    A worker's row is committed as it came, and a line of the journal is decoded only as far as it is looked at.
    """

    def __init__(
        self,
        record: Record | None = None,
        *,
        row: Row | None = None,
        line: bytes = b"",
        outcome: Outcome | None = None,
        builder: Builder | None = None,
    ) -> None:
        self._record, self._row, self._line, self._outcome, self._builder = record, row, line, outcome, builder

    @cached_property
    def record(self) -> Record:
        """The record."""
        if self._record:
            return self._record
        assert self._builder is not None
        return record_of(self.row, self._builder)

    @cached_property
    def row(self) -> Row:
        """The row, with its fields checked if it was read from a file."""
        if self._record:
            return record_row(self._record)
        return self._row or read_row(self._line)

    @property
    def is_decoded(self) -> bool:
        """Whether the row or the record is known, and not just a line of the journal."""
        return not self._line or "row" in vars(self)

    @property
    def outcome(self) -> Outcome:
        """The part that is counted."""
        return self._outcome or (self._record.outcome if self._record else outcome_of(self.row))

    @property
    def id(self) -> str:
        """The id of the finding."""
        return self._record.id if self._record else str(self.row["id"])

    @property
    def has_change(self) -> bool:
        """Whether a change could be proposed."""
        return (self._record.change if self._record else self.row["change"]) is not None

    @property
    def gain(self) -> Gain | None:
        """What the follow-up covers."""
        gain: Gain | None = self._record.gain if self._record else self.row["gain"]
        return gain

    def without_gain(self) -> Result:
        """The same result, without what it covers."""
        if self.gain is None:
            return self
        if self._record:
            return Result(replace(self._record, gain=None))
        return Result(row={**self.row, "gain": None}, builder=self._builder)


class Records(Sequence[Record]):
    """The records of results, each decoded when it is looked at."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = results

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, place: int) -> Record: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Record]: ...

    def __getitem__(self, place: int | slice) -> Record | Sequence[Record]:
        chosen = self._results[place]
        return chosen.record if isinstance(chosen, Result) else Records(chosen)


@dataclass(frozen=True)
class Finding:
    """A violated record as shown to people; readable without the user's code."""

    id: str
    rule: str
    case: str
    words: str
    margin: float
    origin: Origin
    why: str
    change: Mapping[str, Any]
    before: Answer
    after: Answer
    truth: Answer
    facts: Mapping[str, Any]
    source_sha: str
    input_sha: str
    repeated: bool | None = None  # whether it failed again when repeated; None if it was not repeated

    @property
    def flaky(self) -> bool:
        """Whether it did not fail again when it was repeated."""
        return self.repeated is False

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON."""
        answers = {name: encode(getattr(self, name)) for name in ("before", "after", "truth")}
        identity = {name: getattr(self, name) for name in ("id", "rule", "case")}
        numbers = {"change": self.words, "margin": self.margin, "origin": self.origin.value, "why": self.why}
        hashes = {"source_sha": self.source_sha, "input_sha": self.input_sha}
        about = {"parameters": dict(self.change), **answers, "facts": dict(self.facts), **hashes}
        return {**identity, **numbers, **about, "flaky": self.flaky}


def finding_of(row: Row) -> Finding:
    """The finding in a violated trial's row."""
    built: dict[str, Any] = {name: decode_values(row[name]) for name in ("before", "after", "truth")}
    built["origin"] = Origin(row["origin"] or Origin.UNKNOWN)
    given: dict[str, Any] = {name: built[name] if name in built else row[name] for name in _NEEDED}
    return Finding(**given, repeated=row.get("repeated"))


_NEEDED = tuple(item.name for item in fields(Finding) if item.default is MISSING)


def is_finding(row: Row) -> bool:
    """Whether a row is a violated trial; an ERROR never is."""
    return bool(row["kind"] == TRIAL and row["status"] == Status.VIOLATED.value)


_TEXTS = ("case", "input_sha")
_OF_TRIALS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys((*_TEXTS, "id", "rule", "status", "words", "why", "source_sha"), (str,)),
    **dict.fromkeys(("before", "after", "truth"), (list,)),
    **dict.fromkeys(("change", "gain"), (dict, type(None))),
    "draw": (int,),
    "fixed": (bool,),
    "margin": (float, int, type(None)),
    "origin": (str, type(None)),
    "error": (str, type(None)),
    "facts": (dict,),
}
_EXPECTED: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    BASELINE: {
        **dict.fromkeys((*_TEXTS, "group", "fault"), (str,)),
        **dict.fromkeys(("truth", "said"), (list,)),
        "readable": (bool,),
        "gain": (dict, type(None)),
    },
    TRIAL: _OF_TRIALS,
    REPEAT: _OF_TRIALS,
    GAIN: {"gain": (dict,)},
}
_LISTS = ("before", "after", "truth", "said")  # of encoded values
_FILE_NAME = re.compile(r"[0-9A-Za-z_-]{0,64}")
_VALUES: Mapping[str, set[str | None]] = {
    "status": {item.value for item in Status},
    "error": {None, *(item.value for item in Fault)},
    "origin": {None, *(item.value for item in Origin)},
}


def checked_row(row: dict[str, Any]) -> dict[str, Any]:
    """`row`, if it has every field that readers rely on; raises `StoreError` otherwise, as the file may be foreign."""
    expected = _EXPECTED.get(str(row.get("kind")), {})
    wrong = [name for name, kinds in expected.items() if name not in row or type(row[name]) not in kinds]
    wrong += [name for name in _LISTS if isinstance(row.get(name), list) and not all(type(one) is dict for one in row[name])]
    if expected and not wrong and row["kind"] in (TRIAL, REPEAT):
        wrong = [name for name, known in _VALUES.items() if row[name] not in known]
        wrong += [name for name in ("id", "source_sha", "input_sha") if not _FILE_NAME.fullmatch(row[name])]
        wrong += [] if row["change"] is None or _is_change(row["change"]) else ["change"]
        violated = row["status"] == Status.VIOLATED.value
        wrong += [name for name in ("margin", "origin") if violated and row[name] is None]
        wrong += ["origin"] if row["origin"] is not None and not violated else []
    if not expected or wrong:
        raise StoreError(f"a journal row is damaged: {', '.join(wrong) or 'kind'} cannot be read")
    return row


def _is_change(change: Any) -> bool:
    """Whether JSON has the form of a change: a name, and in a chain its steps."""
    if not isinstance(change, dict) or not isinstance(change.get("use"), str):
        return False
    steps = change.get("steps", [])
    return not isinstance(steps, list) or all(map(_is_change, steps))
