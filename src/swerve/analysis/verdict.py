"""A run's verdict in sentences: which rules break the system and from which strength, which hold, and what to doubt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from swerve.analysis.numbers import Numbers, RuleCounts
from swerve.analysis.severity import Curve
from swerve.core.origin import Origin

CERTAIN = 0.2  # a rule that certainly fails in more than this share of trials breaks the system
RARE = 0.05  # a rule that certainly fails in less than this share holds
NAMED = 5  # subjects of a sentence; more are counted
STARTS = 3  # rules whose first failure is named
DOUBTFUL = 0.5  # the share of findings that were already wrong or are marginal from which the verdict says so


class Standing(StrEnum):
    """How a rule came off."""

    BREAKS = "breaks"
    FAILS = "fails"
    HOLDS = "holds"
    UNJUDGED = "unjudged"


def standing(line: RuleCounts) -> Standing:
    """How a rule came off, by its rate's interval; of an adaptive search, by whether anything failed."""
    if not line.judged:
        return Standing.UNJUDGED
    low, high = line.interval
    if not line.violated or (line.sampled and high <= RARE):
        return Standing.HOLDS
    return Standing.BREAKS if line.sampled and low >= CERTAIN else Standing.FAILS


@dataclass(frozen=True)
class _Subject:
    """Rules with the same name before a comma, such as `rotation, label` and `rotation, own answer`."""

    name: str
    lines: tuple[RuleCounts, ...]

    @property
    def standing(self) -> Standing:
        """The worst of its rules."""
        order = list(Standing)
        return min((standing(line) for line in self.lines), key=order.index)

    @property
    def rates(self) -> list[float]:
        """The rates of the rules that came off worst."""
        return [line.rate for line in self.lines if standing(line) is self.standing]


def verdict(numbers: Numbers, curves: Sequence[Curve]) -> tuple[str, ...]:
    """The sentences, most important first; none if nothing was judged."""
    if not numbers.overall.judged:
        return ()
    subjects = _subjects(numbers.rules)
    return tuple(
        sentence
        for sentence in (
            _breaking(subjects[Standing.BREAKS], curves),
            _failing(subjects[Standing.FAILS]),
            _holding(subjects[Standing.HOLDS]),
            *_doubts(numbers),
        )
        if sentence
    )


def _subjects(lines: Iterable[RuleCounts]) -> dict[Standing, list[_Subject]]:
    """The subjects by their standing, the highest rates first."""
    named: dict[str, list[RuleCounts]] = {}
    for line in lines:
        named.setdefault(line.name.partition(", ")[0], []).append(line)
    found: dict[Standing, list[_Subject]] = {one: [] for one in Standing}
    for name, same in named.items():
        one = _Subject(name, tuple(same))
        found[one.standing].append(one)
    return {one: sorted(subjects, key=lambda subject: -max(subject.rates)) for one, subjects in found.items()}


def _breaking(subjects: Sequence[_Subject], curves: Sequence[Curve]) -> str:
    if not subjects:
        return ""
    verb = "breaks" if len(subjects) == 1 else "break"
    starts = "; ".join(_starts(subjects[:STARTS], curves))
    return f"{_listed(subjects)} {verb} this system ({_rates(subjects)} of trials fail){f'; {starts}' if starts else ''}."


def _starts(subjects: Sequence[_Subject], curves: Sequence[Curve]) -> Iterator[str]:
    """From which strength subjects fail; together those that fail even at the mildest change tried."""
    known = {curve.rule: curve for curve in curves if curve.start}
    found = [(one.name, curve) for one in subjects for line in one.lines[:1] if (curve := known.get(line.name))]
    later = [f"{name} from {curve.start}" for name, curve in found if not curve.starts_at_once]
    if later:
        yield f"{later[0].replace(' from ', ' fails from ', 1)}{''.join(f', {one}' for one in later[1:])}"
    if at_once := [f"{name} {curve.start}" for name, curve in found if curve.starts_at_once]:
        yield f"failures start at the mildest change tried: {', '.join(at_once)}"


def _failing(subjects: Sequence[_Subject]) -> str:
    if not subjects:
        return ""
    verb = "fails" if len(subjects) == 1 else "fail"
    if not all(line.sampled for subject in subjects for line in subject.lines):
        found = sum(line.violated for subject in subjects for line in subject.lines)
        return f"{_listed(subjects)} {verb}: the search found {found:,} failing change{'' if found == 1 else 's'}."
    return f"{_listed(subjects)} {verb} sometimes ({_rates(subjects)} of trials)."


def _holding(subjects: Sequence[_Subject]) -> str:
    if not subjects:
        return ""
    lines = [line for subject in subjects for line in subject.lines]
    verb = "holds" if len(subjects) == 1 else "hold"
    worst = max(line.interval[1] for line in lines if line.judged)
    most = f" (at most {worst:.1%} may fail, 95% Wilson)" if all(line.sampled for line in lines) else ""
    return f"{_listed(subjects)} {verb}{most}."


def _doubts(numbers: Numbers) -> Iterator[str]:
    """What makes the failures weak evidence against the changes."""
    whole = numbers.overall
    old, marginal = (whole.number_of(origin) or 0 for origin in (Origin.ALREADY_WRONG, Origin.MARGINAL))
    if whole.violated and old / whole.violated >= DOUBTFUL:
        share = f"{old:,} of {whole.violated:,} failures"
        yield f"{share} were there before the change: the system is wrong on the untouched cases."
    elif whole.violated and marginal / whole.violated >= DOUBTFUL:
        yield f"{marginal:,} of {whole.violated:,} failures are marginal: the answer hardly moved."
    if whole.errors:
        many, verb = ("trials", "are") if whole.errors > 1 else ("trial", "is")
        yield f"{whole.errors:,} {many} ended in an error and {verb} not judged."


def _rates(subjects: Sequence[_Subject]) -> str:
    rates = [rate for subject in subjects for rate in subject.rates]
    low, high = min(rates), max(rates)
    return f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{100 * low:.0f}–{high:.0%}"


def _listed(subjects: Sequence[_Subject]) -> str:
    """The names as the start of a sentence."""
    names = [subject.name for subject in subjects[:NAMED]]
    more = len(subjects) - len(names)
    names += [f"{more} more rules" if more > 1 else subjects[-1].name] if more else []
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return text[:1].upper() + text[1:]
