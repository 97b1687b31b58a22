"""RQ3: does the guided search cover more? (DT-33, Table 6), and is it the guidance that does it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from markupsafe import Markup

from swerve.analysis.neurons import Sets, followups, originals, size_of
from swerve.analysis.statistics import rank_sum
from swerve.experiments.deeptest.printed import GUIDED_IMAGES, TABLE_6
from swerve.experiments.deeptest.tested import Tested, part_name
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.experiment import Chart, Part, Section, Sheet
from swerve.report.plane import Spot, lines
from swerve.store import Run
from swerve.values import Array

GOAL = 0.1  # of the cumulative set's images
DRAWN = 60  # spots of a curve
TABLE = (
    *(
        "model",
        "neurons",
        "seeds",
        "cumulative",
        "images",
        "guided",
        "kept",
        "tries",
        "cumulative/seeds",
        "guided/cumulative",
    ),
    *("reached with", "share of images", "printed seeds", "printed cumulative", "printed guided", "printed kept"),
)
AGAINST = ("model", "searches", "tries", "guided", "coin", "pairs", "A12 coin", "p coin", "A12 pairs", "p pairs", "effect")


@dataclass(frozen=True, eq=False)
class Search:
    """What one search covered: the sets of its seeds and of all its tries, in order."""

    run: Run

    @cached_property
    def seeds(self) -> Sets:
        """What each seed activates."""
        return originals(seen for seen in self.run.baseline() if not seen.fault)

    @cached_property
    def tries(self) -> Sets:
        """What each try that could be made activates."""
        return followups(self.run.trials())

    @cached_property
    def asked(self) -> int:
        """How many tries there were, those that could not be made included."""
        return sum(1 for _ in self.run.trials())

    def growth(self, members: Array) -> Array:
        """Neurons of a (sub-)model covered after each try."""
        return self.tries.under(members).growth(self.seeds.under(members).union())

    def covered(self, members: Array) -> int:
        """Neurons of a (sub-)model covered in the end."""
        growth = self.growth(members)
        return int(growth[-1]) if len(growth) else self.seeds.under(members).covered()

    def kept(self) -> Array:
        """The places of the tries that covered something new anywhere, which are the images it generates."""
        whole = np.ones(self.seeds.size, bool)
        return np.flatnonzero(np.diff(np.concatenate([[size_of(self.seeds.union())], self.growth(whole)])) > 0)


def section(setting: Setting, all_tested: Sequence[Tested]) -> Section:
    """Seeds, cumulative set and guided search beside each other; then guidance against chance at the same budget."""
    looked_into = [tested for tested in all_tested if tested.parts and tested.guidance]
    rows = tuple(row for tested in looked_into for row in _rows(tested))
    rivals = tuple(row for tested in looked_into for row in _against(tested))
    csv = setting.table("table6", TABLE, rows)
    csv_rivals = setting.table("guidance", AGAINST, rivals)
    formats = {"cumulative/seeds": "+.0%", "guided/cumulative": "+.1%", "share of images": ".1%"}
    printed = ("printed seeds", "printed cumulative", "printed guided", "printed kept")
    note = (
        "seeds: covered by the untouched images that the search began with; cumulative: by them and all their follow-ups; "
        "guided: by them and every try; kept: tries that covered something new; reached with: kept images after which "
        "the guided search had covered as much as the cumulative set"
    )
    against = (
        "the same number of tries: led by coverage; by a coin that keeps as many, so that changes pile up alike; and plain "
        "pairs on the seeds. Means over the searches; A12 above 0.5 is in favour of guidance"
    )
    numbers = {"guided": ",.1f", "coin": ",.1f", "pairs": ",.1f", "A12 coin": ".2f", "A12 pairs": ".2f"}
    parts: tuple[Part, ...] = (
        Sheet("Table 6", TABLE, rows, note, printed=printed, csv=csv, formats=formats),
        Sheet("Guidance against chance", AGAINST, rivals, against, csv=csv_rivals,
              formats=numbers | {"p coin": ".2g", "p pairs": ".2g"}),
        *(Chart(f"{tested.name}: covered by the first search of each kind", _curves(tested)) for tested in looked_into),
    )  # fmt: skip
    return Section("RQ3: does guidance cover more?", (), parts, _answer(rows, rivals))


def _answer(rows: Sequence[Row], rivals: Sequence[Row]) -> str:
    if not rows:
        return "no system here can be looked into"
    shares = {str(row[0]): row[TABLE.index("share of images")] for row in rows}
    reached = [name for name, share in shares.items() if isinstance(share, float) and share <= GOAL]
    never = [name for name, share in shares.items() if share is None]
    beaten = sum(isinstance(effect := row[AGAINST.index("A12 coin")], float) and effect > 0.5 for row in rivals)
    told = f"with at most {GOAL:.0%} of its images it covers what the cumulative set does "
    told += f"on {len(reached)} of {len(rows)} (sub-)models"
    told += f" ({', '.join(reached)})" if reached else ""
    told += f"; never on {', '.join(never)}" if never else ""
    return f"{told}. Led by coverage it covers more than led by a coin on {beaten} of {len(rivals)}"


def _rows(tested: Tested) -> Iterator[Row]:
    assert tested.parts
    assert tested.guidance
    search = Search(tested.guidance.guided[0])
    chosen = set(tested.seeds)
    places = [place for place, (case, _, _) in enumerate(tested.followups.keys) if case in chosen]
    cumulative, kept = tested.followups.only(places), search.kept()
    for part, members in tested.parts:
        first = search.seeds.under(members)
        base = first.covered()
        everything = size_of(first.union() | cumulative.under(members).union())
        growth = search.growth(members)
        guided = search.covered(members)
        needed = _needed(growth[kept], base, everything)
        printed = TABLE_6.get(part_name(tested, part, like=True), (None,) * 4)
        told = (part_name(tested, part), int(members.sum()), base, everything, len(places), guided, len(kept), search.asked)
        shares = (everything / base - 1 if base else None, guided / everything - 1 if everything else None)
        reached = (needed, None if needed is None or not places else needed / len(places))
        images = GUIDED_IMAGES.get(tested.subject.like) if printed[1] is not None else None
        yield (*told, *shares, *reached, *printed[1:], images)


def _needed(after: Array, base: int, goal: int) -> int | None:
    """How many kept images it takes to cover as much as `goal`; None if all of them do not."""
    if base >= goal:
        return 0
    enough = np.flatnonzero(after >= goal)
    return int(enough[0]) + 1 if len(enough) else None


def _against(tested: Tested) -> Iterator[Row]:
    assert tested.parts
    assert tested.guidance
    kinds = [[Search(run) for run in runs] for runs in (tested.guidance.guided, tested.guidance.coin, tested.guidance.pairs)]
    for part, members in tested.parts:
        guided, coin, pairs = ([float(search.covered(members)) for search in searches] for searches in kinds)
        one, two = rank_sum(guided, coin), rank_sum(guided, pairs)
        means = (float(np.mean(covered)) for covered in (guided, coin, pairs))
        told: Row = (part_name(tested, part), len(guided), kinds[0][0].asked, *means)
        yield (*told, one.effect, one.p, two.effect, two.p, one.label or None)


def _curves(tested: Tested) -> Markup:
    assert tested.guidance
    named = {"guided": tested.guidance.guided, "coin": tested.guidance.coin, "pairs": tested.guidance.pairs}
    series = {}
    for name, runs in named.items():
        search = Search(runs[0])
        growth = search.growth(np.ones(search.seeds.size, bool)) / search.seeds.size
        places = np.unique(np.linspace(0, len(growth) - 1, DRAWN).astype(int))
        series[name] = [Spot(float(place + 1), float(growth[place])) for place in places]
    return lines(series, x="tries", y="neurons covered", percent=True)
