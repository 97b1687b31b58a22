"""RQ3: does the guided search cover more neurons (Table 6 of the paper), and is that due to the guidance?"""
# DT-33

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swerve.analysis.growth import grown
from swerve.analysis.neurons import Sets, followups, originals, size_of
from swerve.analysis.statistics import StatisticalTest, holm, rank_sum
from swerve.core.values import Array
from swerve.experiments.deeptest.diversity import axis_note
from swerve.experiments.deeptest.paper_values import GUIDED_IMAGES, TABLE_6
from swerve.experiments.deeptest.subject_runs import DeepTestRuns, part_name
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.experiment_page import ChartPanel, Part, Section, TablePanel
from swerve.report.plane import Spot, lines
from swerve.store.view import Run

GOAL = 0.1  # of the cumulative set's images
SIGNIFICANT = 0.05
FEWEST = 3  # searches of a kind from which on an effect is tested
FOR, AGAINST_IT, ALIKE, TOO_FEW = "more", "less", "no clear difference", "too few searches for a test"
SAME = "all cover the same"
DONE, BUDGET = "done", "budget"
ENDS = {DONE: "the queue was empty", BUDGET: "the budget was used up"}
SPOTS = 60  # of a curve
TABLE = (
    *("model", "neurons", "seed images", "seeds", "cumulative", "images", "searches", "guided", "kept", "tries"),
    *("pairs drawn", "pairs refused", "seeds visited", "ended by"),
    *("seeds/neurons", "cumulative/neurons", "guided/neurons", "cumulative/seeds", "guided/seeds", "guided/cumulative"),
    "short by",
    *("kept to reach", "of images", "tries to reach", "tries/images"),
    *("printed neurons", "printed seeds", "printed cumulative", "printed guided", "printed kept"),
)
MEDIAN = ",.10g"  # shows halves
FORMATS = {
    **dict.fromkeys(("guided", "kept", "tries", "short by", "kept to reach", "tries to reach"), MEDIAN),
    **dict.fromkeys(("pairs drawn", "pairs refused", "seeds visited"), MEDIAN),
    **dict.fromkeys(("seeds/neurons", "cumulative/neurons", "guided/neurons"), ".0%"),
    **dict.fromkeys(("cumulative/seeds", "guided/seeds"), "+.0%"),
    **dict.fromkeys(("of images", "tries/images"), ".1%"),
    "guided/cumulative": "+.1%",
}
AGAINST = (
    *("model", "rival", "searches", "guided covers", "rival covers", "A12", "p", "p (Holm)", "effect"),
    *("guided: tries to reach", "rival: tries to reach", "guided reached", "rival reached"),
)

LAYERS = ("model", "layer", "kind", "neurons", "always", "ever", "never")
LAYERS_NOTE = (
    "a neuron is a channel of a convolution or a unit of another layer, counted at each step of a recurrent layer unless "
    "averaged. always: active on every untouched image; ever: on some untouched image or simple follow-up; never: on none"
)


@dataclass(frozen=True, eq=False)
class SearchCoverage:
    """The coverage of one search: the sets of its seeds and of all its trials, in order."""

    run: Run

    @cached_property
    def seeds(self) -> Sets:
        """The neurons that each seed activates."""
        return originals(seen for seen in self.run.baseline() if not seen.fault)

    @cached_property
    def tries(self) -> Sets:
        """The neurons that each trial with a follow-up activates."""
        return followups(self.run.trials())

    @cached_property
    def spent(self) -> tuple[tuple[bool, bool], ...]:
        """For each trial that counts, whether it has a follow-up, and whether it covered a new neuron of the whole model."""
        return tuple((row["gain"] is not None, new) for row, new in grown(self.run))

    @cached_property
    def drawn(self) -> tuple[int, int, int]:
        """The numbers of pairs drawn and of pairs refused (without a follow-up or an answer), and of seeds visited."""
        pairs = [(row["case"], row["gain"] is None) for row in self.run.trials()]
        return len(pairs), sum(refused for _, refused in pairs), len({case for case, _ in pairs})

    @property
    def ended(self) -> str:
        """Whether the queue was empty or the budget used up."""
        budget = self.run.identity["campaign"]["search"].get("budget", 0)
        return BUDGET if budget and len(self.spent) >= budget else DONE

    def growth(self, members: Array) -> Array:
        """Neurons of a (sub-)model covered after each trial."""
        return self.tries.under(members).growth(self.seeds.under(members).union())

    def covered(self, members: Array) -> int:
        """Neurons of a (sub-)model covered in the end."""
        growth = self.growth(members)
        return int(growth[-1]) if len(growth) else self.seeds.under(members).covered()

    def kept(self) -> Array:
        """The positions among `tries` of those that covered new neurons: the images that the search kept."""
        return np.flatnonzero([new for made, new in self.spent if made])

    def reached(self, members: Array, goal: int) -> tuple[int, int] | None:
        """How many images were kept, and how many run, until `goal` neurons of a (sub-)model were covered; None: never."""
        if self.seeds.under(members).covered() >= goal:
            return 0, 0
        enough = np.flatnonzero(self.growth(members) >= goal)
        return (int((self.kept() <= enough[0]).sum()), int(enough[0]) + 1) if len(enough) else None


def section(setting: Setting, all_tested: Sequence[DeepTestRuns]) -> Section:
    """Seeds, cumulative set and guided search; then guided against random search with the same budget."""
    white_boxes = [tested for tested in all_tested if tested.parts and tested.guidance]
    rows = tuple(row for tested in white_boxes for row in _rows(tested))
    rivals = _corrected([row for tested in white_boxes for row in _against(tested)])
    csv, csv_rivals = setting.table("table6", TABLE, rows), setting.table("guidance", AGAINST, rivals)
    layers = tuple(row for tested in white_boxes for row in _layers(tested))
    csv_layers = setting.table("layers", LAYERS, layers)
    numbers = dict.fromkeys(("guided: tries to reach", "rival: tries to reach"), MEDIAN)
    numbers |= {"guided covers": ",.1f", "rival covers": ",.1f", "A12": ".2f", "p": ".2g", "p (Holm)": ".2g"}
    parts: tuple[Part, ...] = (
        TablePanel("Table 6", TABLE, rows, NOTE, printed=TABLE[-5:], csv=csv, formats=FORMATS),
        TablePanel("Guided against random search", AGAINST, rivals, AGAINST_NOTE, csv=csv_rivals, formats=numbers),
        TablePanel("Layers that count", LAYERS, layers, LAYERS_NOTE, csv=csv_layers, main=False),
        *(_chart(tested) for tested in white_boxes),
    )
    return Section("RQ3: does guidance cover more?", (), parts, _answer(rows, rivals))


NOTE = (
    "seeds: neurons covered by the untouched images that the search started from; cumulative: by them and all their "
    "follow-ups; guided: by them and every trial of the search; kept: trials that covered new neurons. pairs drawn: "
    "trials and refused pairs, which are drawn again; seeds visited: seeds of which any pair was drawn. kept to reach, "
    "tries to reach: images kept and run until the search covered as much as the cumulative set (the paper counts those "
    "kept); medians over the searches, empty if not all of them got there. ended by: the queue was empty (done) or the "
    "budget of trials was used up (budget). A ratio to seeds or cumulative is the increase of coverage. Trials on long "
    "windows are expensive, so these models get fewer seeds, one search and a smaller budget"
)
AGAINST_NOTE = (
    "random searches with as many trials and other draws. alike: keeps an image whenever the guided search did, whatever it "
    "covers, so that as many changes accumulate; pairs: two changes of a seed, never more. Means over the searches. A12 "
    "above 0.5 is in favour of guidance. p is exact; where every search covers the same number there is nothing to test: no "
    "p, and no part in Holm's correction"
)


def _answer(rows: Sequence[Row], rivals: Sequence[Row]) -> str:
    if not rows:
        return "none of the systems is a white box"
    asked = [row for row in rows if _cell(row, "seeds") != _cell(row, "cumulative")]
    kept, run = (_within(asked, TABLE.index(column)) for column in ("of images", "tries/images"))
    text = (
        f"it covers as much as the cumulative set with at most {GOAL:.0%} as many images kept on {len(kept)} of "
        f"{len(asked)} (sub-)models, with at most {GOAL:.0%} as many run on {len(run)}. "
    )
    if len(asked) < len(rows):
        text += f"Left out, because the seeds cover as much already: {len(rows) - len(asked)}. "
    if short := [_shortfall(row) for row in asked if _cell(row, "kept to reach") is None]:
        text += f"It falls short on {'; '.join(short)}. "
    if few := [line for row in rows if (line := _unvisited(row))]:
        text += f"Not all seeds were visited: {', '.join(dict.fromkeys(few))}. "
    for rival in ("alike", "pairs"):
        text += f"Against {rival}: {_sides([row for row in rivals if row[1] == rival], len(_tests(rivals)))}. "
    return text.strip()


def _cell(row: Row, column: str) -> object:
    return row[TABLE.index(column)]


def _shortfall(row: Row) -> str:
    """How many neurons of the cumulative set a search missed, and why it ended."""
    model, short, goal, ended = (_cell(row, column) for column in ("model", "short by", "cumulative", "ended by"))
    missed = f"by {short:g} of {goal:,} neurons" if short else "but not in every search"
    return f"{model} {missed} ({ENDS.get(str(ended), ended)})"


def _unvisited(row: Row) -> str:
    """How many seeds the median search visited, if not all of them."""
    model, visited, seeds = (_cell(row, column) for column in ("model", "seeds visited", "seed images"))
    both = isinstance(visited, float) and isinstance(seeds, int)
    return f"{model} {visited:g} of {seeds}" if both and visited < seeds else ""  # type: ignore[operator]


def _tests(rivals: Sequence[Row]) -> list[Row]:
    return [row for row in rivals if row[AGAINST.index("p")] is not None]


def _sides(rivals: Sequence[Row], tests: int) -> str:
    """On how many (sub-)models guidance covers more, less, or without a clear difference."""
    found = [_sided(row, tests) for row in rivals if row[AGAINST.index("effect")] != SAME]
    if not found:
        return "every search covers the same"
    if {*found} == {TOO_FEW}:
        text = TOO_FEW
    else:
        text = f"{FOR} on {found.count(FOR)}, {AGAINST_IT} on {found.count(AGAINST_IT)}, {ALIKE} on {found.count(ALIKE)}"
        text += f", {TOO_FEW} on {found.count(TOO_FEW)}" if TOO_FEW in found else ""
    same = len(rivals) - len(found)
    return f"{text} ({same} left out, where every search covers the same)" if same else text


def _within(rows: Sequence[Row], column: int) -> list[Row]:
    return [row for row in rows if isinstance(share := row[column], float) and share <= GOAL]


def _sided(row: Row, tests: int) -> str:
    """Whether a row is in favour of guidance, against it, neither, or has too few searches for so many tests."""
    p, effect, searches = (row[AGAINST.index(column)] for column in ("p (Holm)", "A12", "searches"))
    assert isinstance(searches, int)
    if not isinstance(p, float) or not isinstance(effect, float) or least_p(searches) * tests > SIGNIFICANT:
        return TOO_FEW
    if p >= SIGNIFICANT:
        return ALIKE
    return FOR if effect > 0.5 else AGAINST_IT


def least_p(searches: int) -> float:
    """The smallest possible p of a rank-sum test of `searches` against as many."""
    p = rank_sum(range(searches), range(searches, 2 * searches)).p
    return 1.0 if p is None else p


def _layers(tested: DeepTestRuns) -> Iterator[Row]:
    """Each layer that counts, with the numbers of its neurons that are always, ever and never active."""
    size, seen = tested.originals.size, tested.originals.union() | tested.followups.union()
    always, ever = (np.unpackbits(np.asarray(bits, np.uint8), count=size) for bits in (tested.originals.shared(), seen))
    start = 0
    for layer in tested.layers:
        place = slice(start, start := start + layer.neurons)
        active = int(ever[place].sum())
        yield (tested.name, layer.name, layer.kind, layer.neurons, int(always[place].sum()), active, layer.neurons - active)


def _goal(tested: DeepTestRuns, members: Array) -> tuple[int, int]:
    """The number of neurons that the cumulative set of the seeds covers, and of its follow-ups."""
    chosen = set(tested.seeds)
    places = [place for place, (case, _, _) in enumerate(tested.followups.keys) if case in chosen]
    first = [place for place, case in enumerate(tested.originals.keys) if case in chosen]
    unions = tested.originals.only(first).under(members).union() | tested.followups.only(places).under(members).union()
    return size_of(unions), len(places)


def _rows(tested: DeepTestRuns) -> Iterator[Row]:
    assert tested.parts
    assert tested.guidance
    searches = [SearchCoverage(run) for run in tested.guidance.guided]
    for part, members in tested.parts:
        goal, images = _goal(tested, members)
        base = searches[0].seeds.under(members).covered()
        guided = _median([search.covered(members) for search in searches])
        printed = TABLE_6.get(part_name(tested, part, like=True), (None,) * 4)
        size = int(members.sum())
        kept, tries = _needed(searches, members, goal)
        first: Row = (part_name(tested, part), size, len(tested.seeds), base, goal, images, len(searches), guided)
        counts = _median([len(search.kept()) for search in searches]), _median([len(search.spent) for search in searches])
        drawn = (_median(column) for column in zip(*(search.drawn for search in searches), strict=True))
        short = _median([max(0, goal - search.covered(members)) for search in searches])
        shares = (base / size, goal / size, guided / size)
        gains = (_more(goal, base), _more(guided, base), _more(guided, goal))
        reached = (kept, _over(kept, images), tries, _over(tries, images))
        paper = GUIDED_IMAGES.get(tested.subject.like) if printed[1] is not None else None
        yield (*first, *counts, *drawn, _ended(searches), *shares, *gains, short, *reached, *printed, paper)


def _ended(searches: Sequence[SearchCoverage]) -> str:
    """Why the searches ended."""
    cut = sum(search.ended == BUDGET for search in searches)
    return DONE if not cut else BUDGET if cut == len(searches) else f"{BUDGET} in {cut} of {len(searches)}"


def _needed(searches: Sequence[SearchCoverage], members: Array, goal: int) -> tuple[float | None, float | None]:
    """The median numbers of images kept and run until `goal` was covered; None unless every search got there."""
    found = [search.reached(members, goal) for search in searches]
    there = [one for one in found if one is not None]
    if len(there) < len(found):
        return None, None
    return _median([kept for kept, _ in there]), _median([run for _, run in there])


def _median(numbers: Sequence[int]) -> float:
    return float(np.median(numbers))


def _more(number: float, than: float) -> float | None:
    return number / than - 1 if than else None


def _over(number: float | None, images: int) -> float | None:
    return None if number is None or not images else number / images


def _against(tested: DeepTestRuns) -> Iterator[Row]:
    assert tested.parts
    assert tested.guidance
    guided = [SearchCoverage(run) for run in tested.guidance.guided]
    rivals = {"alike": tested.guidance.alike, "pairs": tested.guidance.pairs}
    for part, members in tested.parts:
        goal, _ = _goal(tested, members)
        ours = [float(search.covered(members)) for search in guided]
        for name, runs in rivals.items():
            others = [SearchCoverage(run) for run in runs]
            theirs = [float(search.covered(members)) for search in others]
            test = rank_sum(ours, theirs)
            first: Row = (part_name(tested, part), name, len(ours), float(np.mean(ours)), float(np.mean(theirs)))
            ends = _needed(guided, members, goal)[1], _needed(others, members, goal)[1]
            there = (sum(search.reached(members, goal) is not None for search in one) for one in (guided, others))
            yield (*first, test.effect, *_test_cells(test, ours, theirs), *ends, *there)


def _test_cells(test: StatisticalTest, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """The cells p, corrected p (still empty) and effect; no test where every search covers the same."""
    if len({*ours, *theirs}) == 1:
        return None, None, SAME
    return (test.p, None, _effect_label(test)) if len(ours) >= FEWEST else (None, None, None)


def _effect_label(test: StatisticalTest) -> str | None:
    if test.effect is None or not test.label or test.effect == 0.5:
        return test.label or None
    return f"{test.label}, {'for' if test.effect > 0.5 else 'against'}"


def _corrected(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with Holm's correction over all of them."""
    place, corrected = AGAINST.index("p"), AGAINST.index("p (Holm)")
    given = [p if isinstance(p := row[place], float) else None for row in rows]
    return tuple((*row[:corrected], p, *row[corrected + 1 :]) for row, p in zip(rows, holm(given), strict=True))


def _chart(tested: DeepTestRuns) -> ChartPanel:
    """Coverage over the trials of the first search of each kind."""
    assert tested.guidance
    named = {"guided": tested.guidance.guided, "alike": tested.guidance.alike, "pairs": tested.guidance.pairs}
    series = {}
    for name, runs in named.items():
        search = SearchCoverage(runs[0])
        growth = search.growth(np.ones(search.seeds.size, bool)) / search.seeds.size
        places = np.unique(np.linspace(0, len(growth) - 1, SPOTS).astype(int)) if len(growth) else np.array([], int)
        series[name] = [Spot(float(place + 1), float(growth[place])) for place in places]
    drawn = lines(series, x="trials", y="neurons covered", percent=True)
    note = axis_note([spot.y for line in series.values() for spot in line])
    return ChartPanel(f"{tested.name}: coverage of the first search of each kind", drawn, note)
