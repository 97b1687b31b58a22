"""What the report shows of findings: the cards of its gallery, the groups, and which of them come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from swerve.analysis.exemplars import shrunk_finding, smallest_words, with_mildest
from swerve.analysis.groups import FindingGroup, sorter
from swerve.analysis.overview import Overview
from swerve.analysis.strength import believable_first, numbers_of_change
from swerve.core.encode import encode
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, SceneRef
from swerve.relations.boxes import Flaw
from swerve.relations.sets import DEMANDED, REPORTED
from swerve.report.card_pictures import CardPictures, Picture
from swerve.report.sweep_pictures import Album
from swerve.report.words import answer_words, steering_turn
from swerve.store.record_json import Finding
from swerve.store.view import LISTED_PER_RULE, Run

MOST_CARDS = 1800  # about 2 kB each, which keeps the page under 5 MB (R12)
CARD, MOST_CARD = 2000, 2500  # bytes of a card without its drawings, and of a card on average at most
BOX = 80  # bytes of a box in a drawing, with its text
MOST_FACTS = 12  # on a card
TELLING = 3  # findings on the first screen
SAID = frozenset(
    [*REPORTED, DEMANDED, "shift", "least_shift", "flaw", "objects", *(str(flaw).replace(" ", "_") for flaw in Flaw)]
)
PLACES = ("_rows", "_boxes")  # ends of names
CLOSEUPS = 1600  # bytes of a strip of enlarged objects


@dataclass(frozen=True)
class Card:
    """One finding in the gallery."""

    finding: Finding
    rule: int
    group: int
    pictures: tuple[Picture, ...]
    missing: bool  # whether no file of this input was kept
    label: Answer  # of the source
    turns: Mapping[str, str]
    smallest: str  # the shrunk change in words
    value: str  # the number of its change that the rule's curve is drawn along
    terms: tuple[str, ...]  # conditions of the operating domain that its change brought about
    slices: tuple[int, ...]  # the places of its case's values in the columns that can be sliced, -1 without one
    also: tuple[Card, ...] = ()  # the same follow-up under other rules

    @property
    def findings(self) -> tuple[Card, ...]:
        """The card and those of the same follow-up."""
        return (self, *self.also)

    @property
    def states(self) -> tuple[str, str]:
        """How many boxes of source and follow-up are in which state; empty without a verdict on boxes."""
        words = ([side.overlay.words for side in picture.sides] for picture in self.pictures)
        return next(((pair[0], pair[1]) for pair in words if len(pair) == 2 and any(pair)), ("", ""))

    @property
    def answers(self) -> dict[str, str]:
        """Answers and labels as text."""
        return {name: answer_words(answer) for name, answer in _answers(self.finding, self.label).items()}

    @property
    def facts(self) -> dict[str, str]:
        """The first facts that the change, the gates and the relation measured, without zeros and numbers per type.

        What the reason says as well, and places in lists of boxes, are for tables.
        """
        known = {name: fact for name, fact in self.finding.facts.items() if fact and "." not in name}
        shown = [item for item in known.items() if item[0] not in SAID and not item[0].endswith(PLACES)][:MOST_FACTS]
        return {name.replace("_", " "): f"{fact:.4g}" if isinstance(fact, float) else str(fact) for name, fact in shown}


@dataclass(frozen=True)
class GroupCard:
    """One group on the page: its mildest finding, what it shrank to, where it starts to fail, and how many are shown."""

    group: FindingGroup
    card: Card
    shown: int
    holds: str
    smaller: Card | None = None  # with its own pictures

    @property
    def best(self) -> Card:
        """The card with the smallest failing change of which there are pictures."""
        return self.smaller or self.card


@dataclass(frozen=True)
class Gallery:
    """The cards of a page in order, its groups, and how many findings of a rule there are at most."""

    cards: list[Card]
    groups: list[GroupCard]
    per_rule: int

    @property
    def telling(self) -> list[GroupCard]:
        """A few groups with pictures, the most believable of different kinds of change and different cases."""
        found: dict[str, GroupCard] = {}
        for one in self.groups:  # those that affect most cases come first
            if one.card.pictures:
                found.setdefault(one.group.symptom.family, one)
        in_order = sorted(found.values(), key=lambda one: believable_first(one.card.finding))
        cases = {one.card.finding.case: one for one in reversed(in_order)}
        return [one for one in in_order if cases[one.card.finding.case] is one][:TELLING]


def gallery_of(run: Run, overview: Overview, album: Album, groups: Sequence[FindingGroup]) -> Gallery:
    """The gallery of a run with `groups`; its bird's-eye pictures are drawn into `album`."""
    per_rule, chosen = _chosen(overview, len(overview.numbers.rules))
    make = CardMaker(run, overview, album)
    per_rule, fitting = _fitting(with_mildest(chosen, groups), per_rule, groups, make.weight)
    cards = _one_per_followup(_in_order(make(finding) for finding in fitting))
    return Gallery(cards, list(_group_cards(run, groups, cards, overview, make)), per_rule)


class CardMaker:
    """Makes the cards of a run's findings."""

    def __init__(self, run: Run, overview: Overview, album: Album) -> None:
        self._run, self._overview = run, overview
        self._rules = {line.name: index for index, line in enumerate(overview.numbers.rules)}
        self._axes = {curve.rule: curve.parameter for curve in overview.curves}
        self._pictures, self._group_of = CardPictures(album), sorter(run, overview.groups)
        self._slices = _slice_reader(overview)

    def __call__(self, finding: Finding, *, of: Finding | None = None) -> Card:
        """The card of a finding; a shrunk finding is in the group of the one that it is `of`."""
        label = self._overview.label(finding.case)
        whole = of or finding
        scene = [encode(value) for value in finding.truth if isinstance(value, SceneRef)]
        terms = self._overview.domain_terms.terms(finding.case, finding.change, scene)
        return Card(
            finding,
            self._rules[finding.rule],
            self._group_of(whole).number,
            tuple(self._pictures.of(finding, label)),
            self._pictures.missing(finding),
            label,
            {name: steering_turn(answer) for name, answer in _answers(finding, label).items()},
            self._smallest(whole),
            self._value(finding),
            tuple(sorted(terms)),
            self._slices(finding.case),
        )

    def weight(self, finding: Finding) -> int:
        """About how many bytes its card takes, before it is made."""
        if self._pictures.missing(finding):
            return CARD
        answers = _answers(finding, self._overview.label(finding.case)).values()
        boxes = [len(value.kinds) for answer in answers for value in answer if isinstance(value, Boxes2D)]
        return CARD + BOX * sum(boxes) + (CLOSEUPS if boxes else 0)

    def _smallest(self, finding: Finding) -> str:
        """What it was shrunk to in words, unless nothing could be made smaller."""
        words = smallest_words(self._run, finding)
        return "" if words == finding.words else words

    def _value(self, finding: Finding) -> str:
        axis = self._axes.get(finding.rule)
        found = (number.value for number in numbers_of_change(finding.change) if number.label == axis)
        return next((f"{value:.9g}" for value in found), "")


def _slice_reader(overview: Overview) -> Callable[[str], tuple[int, ...]]:
    places = {
        name: {one.value: place for place, one in enumerate(slices)} for name, slices in overview.cases.slices().items()
    }
    known: dict[str, tuple[int, ...]] = {}

    def read(case: str) -> tuple[int, ...]:
        if case not in known:
            own = overview.cases.slices_of(case)
            known[case] = tuple(found.get(own.get(name, ""), -1) for name, found in places.items())
        return known[case]

    return read


def _group_cards(
    run: Run, groups: Iterable[FindingGroup], cards: Iterable[Card], overview: Overview, make: CardMaker
) -> Iterator[GroupCard]:
    by_id = {one.finding.id: one for card in cards for one in card.findings}
    shown = Counter(card.group for card in by_id.values())
    for group in groups:
        smaller = shrunk_finding(run, group.mildest)
        drawn = None if smaller is None else make(smaller, of=group.mildest)
        yield GroupCard(
            group,
            by_id[group.mildest.id],
            shown[group.number],
            overview.milder.words(group.mildest),
            drawn if drawn and drawn.pictures else None,
        )


def _in_order(cards: Iterable[Card]) -> list[Card]:
    """The cards that convince most first, one of each case before any case is repeated, and those without pictures last."""
    places, ranked = Counter[str](), list[tuple[tuple[bool, int], Card]]()
    for card in sorted(cards, key=lambda card: (card.missing, believable_first(card.finding))):
        places[card.finding.case] += 1
        ranked.append(((card.missing, places[card.finding.case]), card))
    return [card for _, card in sorted(ranked, key=lambda item: item[0])]


def _one_per_followup(cards: Iterable[Card]) -> list[Card]:
    """Findings of one follow-up on one card, that of the first."""
    found: dict[tuple[str, str], list[Card]] = {}
    for card in cards:
        found.setdefault((card.finding.case, card.finding.input_sha or card.finding.id), []).append(card)
    return [replace(first, also=tuple(others)) for first, *others in found.values()]


def _chosen(overview: Overview, rules: int) -> tuple[int, list[Finding]]:
    """The findings of the gallery and their number per rule, which is lower if there would be too many in all."""
    best = overview.best()
    if len(best) <= MOST_CARDS:
        return LISTED_PER_RULE, best
    per_rule = max(1, MOST_CARDS // rules)
    return per_rule, overview.best(per_rule)[:MOST_CARDS]


def _fitting(
    findings: list[Finding], per_rule: int, groups: Iterable[FindingGroup], weigh: Callable[[Finding], int]
) -> tuple[int, list[Finding]]:
    """The findings that fit on the page, with fewer per rule if drawings of many boxes would make it too large.

    They have the largest margins first; those that represent a group stay.
    """
    needed = {group.mildest.id for group in groups}
    places, ranks = Counter[str](), list[int]()  # of each finding among those of its rule
    sizes = Counter[int]()  # of all cards of a rank
    for finding in findings:
        places[finding.rule] += 1
        ranks.append(places[finding.rule])
        sizes[places[finding.rule]] += 0 if finding.id in needed else weigh(finding)
    if sizes.total() <= MOST_CARDS * MOST_CARD:
        return per_rule, findings
    sums = accumulate(sizes[rank] for rank in sorted(sizes))
    fewer = max(1, sum(size <= MOST_CARDS * MOST_CARD for size in sums))
    return fewer, [one for one, rank in zip(findings, ranks, strict=True) if rank <= fewer or one.id in needed]


def _answers(finding: Finding, label: Answer) -> dict[str, Answer]:
    """What was predicted and labelled, before and after the change."""
    return {"before": finding.before, "after": finding.after, "label": label, "truth": finding.truth}
