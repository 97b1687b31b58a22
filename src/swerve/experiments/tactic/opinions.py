"""The two questionnaires on realism: exported as a page, and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from markupsafe import Markup

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.experiments import Row, chart, question, table
from swerve.experiments.tactic.approaches import APPROACHES, ApproachPicture, shown
from swerve.experiments.tactic.comparisons import PAPER
from swerve.experiments.tactic.style_runs import RENDERED, StyleResults, StyleRuns
from swerve.report.charts import stacked
from swerve.review.questionnaire import Questionnaire, QuestionPart
from swerve.store.files import make_folder, write_whole

FOLDER, PAGE, ANSWERS = "questionnaire", "questionnaire.html", "answers"
FIRST, SECOND, BOTH, NEITHER = PAIR_ANSWERS = (
    "the first is more realistic", "the second is more realistic", "both are realistic", "neither is realistic"
)  # fmt: skip
SYNTHETIC, REAL = "synthetic one", "real one"
UNREALISTIC = "unrealistic"
KIND_ANSWERS = ("rain", "sunshine", "night", "fog", "snow in daytime", "snow in night", UNREALISTIC)  # TA-21
KIND_OF: Mapping[str, str] = {"snow": "snow in daytime", "snow-night": "snow in night"}


@dataclass(frozen=True, eq=False)
class _Item:
    """A picture of an approach, and the real one beside it."""

    shown: ApproachPicture
    real: Array
    synthetic_first: bool

    @property
    def pair(self) -> tuple[Array, Array]:
        """Both, in the order of the page."""
        return (self.shown.after, self.real) if self.synthetic_first else (self.real, self.shown.after)

    def choice(self, answer: str) -> str:
        """What an answer about the pair means."""
        if answer not in (FIRST, SECOND):
            return answer
        return SYNTHETIC if (answer == FIRST) == self.synthetic_first else REAL


def _items(one: StyleRuns) -> list[_Item]:
    """Pictures of all approaches, spread over the conditions, in random order."""
    size, found = one.setting.size, []
    truth = {(style, item.scene): item.after for style in one.styles for item in shown(one, RENDERED, style, size.pictures)}
    for approach in APPROACHES:
        each = [list(shown(one, approach, style, size.pictures)) for style in one.styles]
        # One of every condition in turn.
        mixed = [item for items in zip_longest(*each) for item in items if item]
        found += [_Item(item, _real(item, truth), False) for item in mixed[: size.pictures]]
    rng = rng_for(one.setting.seed, "questionnaire", one.name)
    return [_Item(found[place].shown, found[place].real, bool(rng.random() < 0.5)) for place in rng.permutation(len(found))]


def _real(item: ApproachPicture, truth: Mapping[tuple[str, str], Array]) -> Array:
    """The same scene rendered in the condition, where it can be, and else as it is."""
    return item.before if item.approach == RENDERED else truth.get((item.style, item.scene), item.before)


def _questionnaire(items: Iterable[_Item]) -> Questionnaire:
    some = list(items)
    both, alone = [item.pair for item in some], [(item.shown.after,) for item in some]
    which = QuestionPart("pair", "Which picture is realistic?", "One of them may be synthetic.", PAIR_ANSWERS, both)
    ask = "Choose the condition that the picture shows, if it is realistic."
    what = QuestionPart("picture", "What does the picture show?", ask, KIND_ANSWERS, alone)
    return Questionnaire("How realistic are these pictures?", (which, what))


def _asked(one: StyleRuns) -> tuple[list[_Item], Questionnaire]:
    """The items, and the questionnaire about them, written where people find it."""
    items = _items(one)
    asked, folder = _questionnaire(items), one.setting.into / FOLDER
    make_folder(folder / ANSWERS, parents=True)
    write_whole(folder / PAGE, asked.page().encode())
    return items, asked


def _choices(results: StyleResults) -> Iterator[tuple[_Item, str, str]]:
    """Every answer: the item, which part it is of, and what it means."""
    items, asked = results[0].once(_asked)
    for answers in asked.read(results.setting.into / FOLDER / ANSWERS):
        for key, answer in answers.items():
            part, _, number = key.partition(" ")
            item = items[int(number) - 1]
            yield item, part, item.choice(answer) if part == "pair" else answer


@table("realism-pairs", "Synthetic or real?", printed=PAPER["realism"], optional=True, formats={"not told apart": ".0%"})
def pairs(results: StyleResults) -> Iterator[Row]:
    """answers about pairs of a synthetic and a real picture. Real is the same scene rendered in the condition; beside a
    rendered picture, the scene as it is. not told apart: the synthetic one, or both, are realistic"""
    for approach, counts in _counted(results, "pair").items():
        cells = {name: counts[name] for name in (SYNTHETIC, REAL, BOTH, NEITHER)}
        shares = {"not told apart": (counts[SYNTHETIC] + counts[BOTH]) / counts.total()}
        yield {"approach": approach, "answers": counts.total(), **cells, **shares}


@table("realism-kinds", "What does the picture show?", optional=True, formats={"as intended": ".0%"})
def kinds(results: StyleResults) -> Iterator[Row]:
    """answers about single pictures; as intended: the condition that the picture should show"""
    right: Counter[str] = Counter()
    for item, part, answer in _choices(results):
        right[item.shown.approach] += part == "picture" and answer == KIND_OF.get(item.shown.style, item.shown.style)
    for approach, counts in _counted(results, "picture").items():
        cells = {name: counts[name] for name in KIND_ANSWERS}
        yield {"approach": approach, "answers": counts.total(), **cells, "as intended": right[approach] / counts.total()}


def _counted(results: StyleResults, part: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for item, kind, answer in _choices(results):
        if kind == part:
            found.setdefault(item.shown.approach, Counter())[answer] += 1
    return {approach: found[approach] for approach in APPROACHES if approach in found}


def _pies(results: StyleResults, part: str) -> Markup:
    return stacked({approach: dict(counts) for approach, counts in _counted(results, part).items()}, axis="share of answers")


@chart("Synthetic or real: shares of answers")
def pair_shares(results: StyleResults) -> Markup:
    """Fig. 5 of the paper."""
    return _pies(results, "pair")


@chart("What pictures show: shares of answers")
def kind_shares(results: StyleResults) -> Markup:
    """Fig. 6 of the paper."""
    return _pies(results, "picture")


@question("What do people say?", pairs, pair_shares, kinds, kind_shares)
def what_do_people_say(results: StyleResults) -> str:
    """Send questionnaire/questionnaire.html to people, put the files that they download into questionnaire/answers, and run
    the same command again: it only reads them."""
    rows = pairs.rows(results)
    if not rows:
        return "Nobody has answered yet."
    return ", ".join(f"{row['approach']} {row['not told apart']:.0%} not told apart" for row in rows)
