"""Training sets by reference: cases of a source and follow-ups of them, made when they are asked for.

A set belongs to one side of a split and refuses everything of another side: follow-ups by their parent and drive, windows
by their frames. So a training set never contains anything that is tested.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from swerve.core.campaign import Campaign
from swerve.core.case import Case, Source, group_of
from swerve.core.encode import encode_change
from swerve.core.errors import InputError, NotApplicable, UnreadableCase
from swerve.core.gate import admission_by_all
from swerve.core.relation import Rule
from swerve.core.seeding import digest_of, rng_for
from swerve.core.transformation import Transformation
from swerve.execution.engine import NoProgress, Progress
from swerve.retrain.split import TEST, TRAIN, VAL, Split
from swerve.sources.windows import WrappedSource, frames_of
from swerve.store.record_json import Finding
from swerve.store.view import Run

SPARE_DRAWS = 3  # further follow-ups tried of each case if some cannot be made
NAME_DIGITS = 12
Skips = list[tuple[str, str]]


@dataclass(frozen=True)
class Example:
    """A case by its key, or the follow-up that `change` makes of it."""

    key: str
    change: Transformation | None = None
    rule: str = ""

    @cached_property
    def name(self) -> str:
        """A unique name: the key, and for a follow-up a hash of its change."""
        return f"{self.key}~{digest_of(encode_change(self.change))[:NAME_DIGITS]}" if self.change else self.key

    def describe(self) -> str:
        """The example in words."""
        return f"follow-up '{self.change.words()}' of '{self.key}'" if self.change else f"'{self.key}'"


@dataclass(frozen=True)
class Examples:
    """The examples of one side of a split as a source; an example of another side, or with a parent there, is refused."""

    source: Source
    examples: tuple[Example, ...]
    split: Split = field(repr=False)
    side: str = TRAIN

    def __post_init__(self) -> None:
        for example in self.examples:
            if example.key not in self.split.sides:
                raise InputError(
                    f"{example.describe()} cannot enter the {self.side} set: '{example.key}' is not in the split"
                )
            self.split.refuse(example.describe(), example.key, self.side)
        for key in dict.fromkeys(example.key for example in self.examples):
            self.split.refuse_frames(f"'{key}'", frames_of(self.source, key), self.side)
        if len(self._named) < len(self.examples):
            twice = Counter(example.name for example in self.examples).most_common(1)[0][0]
            raise InputError(f"the {self.side} set contains '{twice}' twice")

    def keys(self) -> Sequence[str]:
        return list(self._named)

    def group(self, name: str) -> str:
        """The drive of an example: that of its parent."""
        return self.split.groups[self._named[name].key]

    def holds(self, name: str) -> Sequence[str]:
        """The frames of an example: those of its parent."""
        return frames_of(self.source, self._named[name].key)

    def __getitem__(self, name: str) -> Case:
        example = self._named[name]
        case = self.source[example.key]
        self.split.refuse_origin(case, self.side)
        if example.change is None:
            return case
        followup = example.change(case)
        facts = {**followup.facts, "change": example.change.words(), "rule": example.rule}
        return replace(followup, key=name, group=self.group(name), parent=case.parent or case.key, facts=facts)

    def fingerprint(self) -> str:
        return digest_of("examples", self.source.fingerprint(), self.side, self.keys())

    @property
    def followups(self) -> int:
        """How many of the examples are follow-ups."""
        return sum(example.change is not None for example in self.examples)

    @cached_property
    def _named(self) -> dict[str, Example]:
        return {example.name: example for example in self.examples}


@dataclass(frozen=True)
class Further(WrappedSource):
    """Further training data; anything that the split has on another side than train is refused, by its key or when read."""

    split: Split = field(repr=False)

    def __post_init__(self) -> None:
        for key in self.source.keys():
            self.split.refuse(_further(key), key, TRAIN)
            self.split.refuse_frames(_further(key), frames_of(self.source, key), TRAIN)
            self._refuse_drive(key, group_of(self.source, key))

    def __getitem__(self, key: str) -> Case:
        case = self.source[key]
        self.split.refuse_origin(case, TRAIN)
        self._refuse_drive(key, case.group)
        return case

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def _refuse_drive(self, key: str, drive: str) -> None:
        # If a drive was cut, only frames that the split knows are sure not to lie beside test frames.
        self.split.refuse_drive(_further(key), drive, TRAIN, whole=key not in self.split.sides)


def _further(key: str) -> str:
    return f"'{key}' of the further training data"


def stream(source: Source, skipped: Skips | None = None) -> Iterator[Case]:
    """Every case, one in memory at a time; cases that cannot be read or made are appended to `skipped` with the reason."""
    for key in source.keys():
        try:
            yield source[key]
        except (UnreadableCase, NotApplicable) as error:
            if skipped is not None:
                skipped.append((key, str(error)))


@dataclass(frozen=True)
class Joined:
    """Several sources one after the other; no key may be in two of them."""

    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        counts = Counter(key for source in self.sources for key in source.keys())
        if twice := [key for key, count in counts.items() if count > 1]:
            raise InputError(f"case '{twice[0]}' is in two of the joined sources; keys must be unique")

    def keys(self) -> Sequence[str]:
        return list(self._owners)

    def group(self, key: str) -> str:
        """The drive of a key."""
        return group_of(self._owners[key], key)

    def holds(self, key: str) -> Sequence[str]:
        """The frames of a case."""
        return frames_of(self._owners[key], key)

    def __getitem__(self, key: str) -> Case:
        return self._owners[key][key]

    def fingerprint(self) -> str:
        return digest_of("joined", [source.fingerprint() for source in self.sources])

    @cached_property
    def _owners(self) -> dict[str, Source]:
        return {key: source for source in self.sources for key in source.keys()}


class Followups(Protocol):
    """A way to choose follow-ups."""

    def of(self, keys: Sequence[str], mix: float) -> tuple[Example, ...]:
        """About `mix` follow-ups for each of `keys`, or fewer if there are not as many."""


@dataclass(frozen=True)
class DrawnFollowups:
    """Follow-ups proposed by rules, for the first cases in an order that depends on keys and seed.

    Each is made once to check that it can be. If not, or if a gate of the campaign or the rule rejects it, the next in that
    order takes its place, so a set with a gate and one without have as many follow-ups in common as possible.
    """

    # TG-25

    campaign: Campaign
    rules: tuple[Rule, ...]
    seed: int = 0
    progress: Progress = field(default_factory=NoProgress, repr=False, compare=False)

    def of(self, keys: Sequence[str], mix: float) -> tuple[Example, ...]:
        wanted = _wanted(keys, mix)
        chosen: dict[str, Example] = {}
        if wanted:
            self.progress.begin("proposing", wanted)
        for key, draw in self._candidates(keys, mix):
            if len(chosen) == wanted:
                break
            example = self._propose(key, draw)
            if example is not None and example.name not in chosen:
                chosen[example.name] = example
                self.progress.advance(1, 0)
        return tuple(chosen.values())

    def _candidates(self, keys: Sequence[str], mix: float) -> Iterator[tuple[str, int]]:
        for draw in range(math.ceil(mix) + SPARE_DRAWS):
            yield from ((key, draw) for key in sorted(keys, key=lambda key: digest_of(self.seed, "mix", key, draw)))

    def _propose(self, key: str, draw: int) -> Example | None:
        rule = self._rule(key, draw)
        try:
            case = self.campaign.source[key]
            change = rule.change.propose(case, rng_for(self.seed, "retrain", key, rule.name, draw), self.campaign.system)
            rejected = admission_by_all(self.campaign.gates(rule), case, change(case)).why
        except (NotApplicable, UnreadableCase):
            return None
        return None if rejected else Example(key, change, rule.name)

    def _rule(self, key: str, draw: int) -> Rule:
        """Each case starts with a random rule and goes through all rules in turn, so that all are drawn equally often."""
        first = int(rng_for(self.seed, "retrain", key).integers(len(self.rules)))
        return self.rules[(first + draw) % len(self.rules)]


@dataclass(frozen=True)
class FoundFollowups:
    """Findings of a run, each once, in an order that depends on case, change and seed."""

    run: Run
    seed: int = 0
    trusted: Collection[str | Path] = ()
    rules: Collection[str] = ()  # none: all

    def of(self, keys: Sequence[str], mix: float) -> tuple[Example, ...]:
        ours, wanted = set(keys), _wanted(keys, mix)
        kept: dict[str, Finding] = {}
        for item in self.run.findings():
            if item.case in ours and (not self.rules or item.rule in self.rules):
                kept.setdefault(digest_of(self.seed, "mix", item.case, item.change), item)
            if len(kept) > 2 * wanted:  # bounds the memory: a run may have a million findings
                kept = dict(heapq.nsmallest(wanted, kept.items()))
        builder, chosen = self.run.builder(trusted=self.trusted), [kept[rank] for rank in sorted(kept)[:wanted]]
        return tuple(Example(item.case, builder.change(item.change), item.rule) for item in chosen)


def _wanted(keys: Sequence[str], mix: float) -> int:
    if not (math.isfinite(mix) and mix >= 0):
        raise InputError(f"'mix' must be a number of at least 0 (follow-ups per training case), got {mix!r}")
    return round(mix * len(keys))


@dataclass(frozen=True)
class Prepared:
    """The sets of a retraining: training, validation, and what is tested before and after."""

    split: Split = field(repr=False)
    train: Examples
    val: Examples
    test: Examples
    synthetic: Mapping[str, Examples]  # follow-ups of test cases, by rule
    base: Source | None = None  # further training data from other drives

    def __post_init__(self) -> None:
        if not self.training.keys():
            raise InputError("the training set is empty: no case is left to train on")

    @cached_property
    def training(self) -> Source:
        """All training data."""
        return self.train if self.base is None else Joined((Further(self.base, self.split), self.train))

    def tested(self) -> dict[str, Source]:
        """The sets that are measured before and after, by name, originals first."""
        return {"original": self.test, **{f"synthetic, {name}": examples for name, examples in self.synthetic.items()}}


def prepare(
    campaign: Campaign,
    split: Split,
    followups: Followups,
    *,
    mix: float = 0.2,
    held: Mapping[str, Followups] | None = None,
    base: Source | None = None,
) -> Prepared:
    """The sets of a campaign's source: `mix` follow-ups per training and validation case, one per test case for each `held`.

    With `base`, that is the original training data, and the campaign's source contributes follow-ups only.
    """
    # DT-38
    source, keys = campaign.source, {side: split.keys(side) for side in (TRAIN, VAL, TEST)}
    changed = {side: followups.of(keys[side], mix) for side in (TRAIN, VAL)}
    plain = {side: tuple(map(Example, keys[side])) for side in keys}
    ways = by_rule(campaign) if held is None else held
    synthetic = {name: way.of(keys[TEST], 1.0) for name, way in ways.items()}
    return Prepared(
        split,
        Examples(source, (*(plain[TRAIN] if base is None else ()), *changed[TRAIN]), split, TRAIN),
        Examples(source, (*plain[VAL], *changed[VAL]), split, VAL),
        Examples(source, plain[TEST], split, TEST),
        {name: Examples(source, items, split, TEST) for name, items in synthetic.items() if items},
        base,
    )


def by_rule(
    campaign: Campaign, rules: Sequence[Rule] = (), *, seed: int = 0, progress: Progress | None = None
) -> dict[str, Followups]:
    """A way to choose follow-ups for each rule, for held-out data."""
    chosen = rules or campaign.rules
    return {rule.name: DrawnFollowups(campaign, (rule,), seed, progress or NoProgress()) for rule in chosen}
