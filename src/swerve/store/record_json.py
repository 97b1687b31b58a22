"""Observations and records as journal rows, and the findings seen in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from swerve.config.toml import build_change
from swerve.config.trust import OWN, Trust
from swerve.core.campaign import Observation, Outcome, Record, Trial
from swerve.core.encode import decode_values, encode, encode_change
from swerve.core.errors import StoreError
from swerve.core.relation import Fault, Status, Verdict
from swerve.core.system import Answer
from swerve.core.transformation import Transformation
from swerve.store.journal import Row, opened, opened_head

BASELINE, TRIAL, REPEAT = "baseline", "trial", "repeat"


def observation_row(seen: Observation) -> Row:
    """One untouched case as a row."""
    return {
        "kind": BASELINE,
        "case": seen.case,
        "group": seen.group,
        "truth": encode(seen.truth),
        "said": encode(seen.said),
        "input_sha": seen.input_sha,
        "fault": seen.fault,
        "readable": seen.readable,
        "gain": seen.gain,
    }


def observation_of(row: Row) -> Observation:
    """The observation a row holds."""
    return Observation(
        row["case"],
        row["group"],
        decode_values(row["truth"]),
        decode_values(row["said"]),
        row["input_sha"],
        row["fault"],
        row["readable"],
        row["gain"],
    )


def record_row(record: Record) -> Row:
    """One record as a row; the change also in words, so that no code of the user's is needed to read it."""
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
        "introduced": record.introduced,
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


def repeat_row(record: Record) -> Row:
    """The record of a finding that was asked again as a row of its own kind."""
    return {**record_row(record), "kind": REPEAT}


def _words(change: Transformation | None) -> str:
    try:
        return str(change.words()) if change else ""
    except Exception as error:  # a user's own words
        return f"{type(change).__name__} (its words fail: {type(error).__name__})"


def record_of(row: Row, base: Path | None = None, trust: Trust = OWN) -> Record:
    """The record a row holds; `base` and `trust` are for changes of the user's own."""
    change = None if row["change"] is None else build_change(row["change"], base, trust)
    kind = None if row["error"] is None else Fault(row["error"])
    return Record(
        Trial(row["case"], row["rule"], row["draw"], change if row["fixed"] else None),
        Verdict(Status(row["status"]), row["margin"], row["why"], kind),
        change,
        decode_values(row["before"]),
        decode_values(row["after"]),
        decode_values(row["truth"]),
        row["introduced"],
        row["gain"],
        row["source_sha"],
        row["input_sha"],
        row["facts"],
    )


_WORDS = b',"words":'  # where what is counted ends; inside a text its quotes would be escaped


def read_row(line: bytes) -> dict[str, Any]:
    """The row of a sound line, checked."""
    return checked_row(opened(line))


def head_of(line: bytes) -> Row:
    """The start of a trial's sound line, which tells how it ended, at a third of the price of the whole."""
    end = line.find(_WORDS)
    return opened(line) if end < 0 else opened_head(line[:end])


def outcome_of(row: Row) -> Outcome:
    """What is counted of a trial's row or its head; nothing is built that counting does without."""
    try:
        return _outcome(row["rule"], row["status"], row["error"], row["introduced"])
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(f"a journal row is damaged: {error}") from error


@lru_cache(1024)  # there are few ways to end, and a million trials
def _outcome(rule: str, status: str, error: str | None, introduced: bool | None) -> Outcome:
    return Outcome(rule, Status(status), None if error is None else Fault(error), introduced)


@dataclass(frozen=True)
class Finding:
    """A violated record as people see it; readable without the code that made it."""

    id: str
    rule: str
    case: str
    words: str
    margin: float
    introduced: bool | None
    why: str
    change: Mapping[str, Any]
    before: Answer
    after: Answer
    truth: Answer
    facts: Mapping[str, Any]
    source_sha: str
    input_sha: str
    repeated: bool | None = None  # whether it failed again when it was asked again; None if it was not

    @property
    def flaky(self) -> bool:
        """Whether it did not fail again when it was asked again."""
        return self.repeated is False

    @property
    def origin(self) -> str:
        """Whether the change introduced the failure or it was there before (X-13); a rule may not go by the labels there."""
        labelled = {value.slot for value in self.truth} & {value.slot for value in self.after}
        unknown = "unknown origin" if labelled else "unlabelled"
        return {True: "introduced", False: "already wrong", None: unknown}[self.introduced]

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON."""
        answers = {name: encode(getattr(self, name)) for name in ("before", "after", "truth")}
        told = {name: getattr(self, name) for name in ("id", "rule", "case")}
        numbers = {"change": self.words, "margin": self.margin, "introduced": self.introduced, "why": self.why}
        hashes = {"source_sha": self.source_sha, "input_sha": self.input_sha}
        about = {"parameters": dict(self.change), **answers, "facts": dict(self.facts), **hashes}
        return {**told, **numbers, **about, "flaky": self.flaky}


def finding_of(row: Row) -> Finding:
    """The finding in a violated trial's row."""
    answers: dict[str, Any] = {name: decode_values(row[name]) for name in ("before", "after", "truth")}
    wanted = (item.name for item in fields(Finding) if item.name in row or item.default is MISSING)
    given: dict[str, Any] = {name: answers[name] if name in answers else row[name] for name in wanted}
    return Finding(**given)


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
    "introduced": (bool, type(None)),
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
}
_FILE_NAME = re.compile(r"[0-9A-Za-z_-]{0,64}")
_VALUES: Mapping[str, set[str | None]] = {
    "status": {item.value for item in Status},
    "error": {None, *(item.value for item in Fault)},
}


def checked_row(row: dict[str, Any]) -> dict[str, Any]:
    """`row`, if it has every field that readers rely on; raises `StoreError` otherwise, as anybody may have written it."""
    expected = _EXPECTED.get(str(row.get("kind")), {})
    wrong = [name for name, kinds in expected.items() if not _is_one(row.get(name, row), kinds)]
    if not wrong and row["kind"] in (TRIAL, REPEAT):
        wrong = [name for name, known in _VALUES.items() if row[name] not in known]
        wrong += [name for name in ("id", "source_sha", "input_sha") if not _FILE_NAME.fullmatch(row[name])]
        wrong += [] if row["change"] is None or _is_change(row["change"]) else ["change"]
        wrong += ["margin"] if row["margin"] is None and row["status"] == Status.VIOLATED.value else []
    if not expected or wrong:
        raise StoreError(f"a journal row is damaged: {', '.join(wrong) or 'kind'} cannot be read")
    return row


def _is_one(item: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a field is of one of the kinds; a list holds values, which are objects."""
    return isinstance(item, kinds) and (not isinstance(item, list) or all(isinstance(value, dict) for value in item))


def _is_change(change: Any) -> bool:
    """Whether JSON has the form of a change: a name, and in a chain its steps."""
    if not isinstance(change, dict) or not isinstance(change.get("use"), str):
        return False
    steps = change.get("steps", [])
    return not isinstance(steps, list) or all(map(_is_change, steps))
