"""RQ1: how much precision each change costs, the errors behind it, and what the colour change alone would have found."""

# TG-19, TG-4, D-22

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from swerve.analysis.precision_drop import PrecisionDrop, mean_drop
from swerve.core.values import Array, Boxes2D, Value
from swerve.experiments import Row, chart, pictures, question, rated, read_printed, table
from swerve.experiments.tigaug.light_campaigns import CHANGES, CURVES, counted_from
from swerve.experiments.tigaug.light_runs import LightResults, LightRuns, TestedPicture, is_natural, measured
from swerve.methods.tigaug import CONTROL
from swerve.relations.matching import above_score
from swerve.report.answer_pictures import answered
from swerve.report.charts import Bar, Spot, bars, lines
from swerve.store.record_json import Finding, finding_of, record_of
from swerve.transformations.light_changes import FAMILIES, GRIDS
from swerve.transformations.photometric import images_of

PAPER = read_printed(Path(__file__).with_name("paper.toml"))
ALL_TWELVE, COLOUR_ONLY, TIGAUG = "all twelve", "colour-only", "tigaug"
EVERY_ONE = "all"  # detectors, sets of streets
SCORES = {"before": ".3f", "after": ".3f", "drop": ".1%", "natural drop": ".1%"}


def tested(one: LightRuns) -> tuple[str, ...]:
    """The changes of the experiment, and the control."""
    return (*one.setting.size.changes, CONTROL)


@table("rq1", "Precision before and after each change", formats=SCORES, printed=PAPER["rq1"])
def rq1(results: LightResults) -> Iterator[Row]:
    """mAP@[.50:.95] on the pictures that a change applies to, before and after it; drop: the share that is lost, with its
    95% interval, junctions resampled; natural: without follow-ups that a filter or reviewers find unnatural; {CONTROL}:
    lights that are cut out and pasted back unchanged"""
    for one in results:
        for change in tested(one):
            drop, clean = one.drop(CHANGES, change), one.drop(CHANGES, change, is_natural)
            yield {
                **{**one.key, "change": change, "family": family_of(change), "pictures": drop.before.n},
                **{"before": measured(drop.before), "after": measured(drop.after)},
                **{"drop": measured(drop.drop), "natural": clean.before.n},
                "natural drop": measured(clean.drop),
            }


@table("rq1_families", "Mean drop by family", formats={"drop": ".1%"}, printed=PAPER["families"])
def by_family(results: LightResults) -> Iterator[Row]:
    """the mean of the drops of each change, with its 95% interval; of all detectors and sets last, as the paper gives it"""
    for one in results:
        for family, drops in _families([one]).items():
            yield {"_like": one.subject.like, **one.key, "of": family, **_mean_of(drops)}
    for family, drops in _families(results).items():
        yield {"detector": EVERY_ONE, "streets": EVERY_ONE, "family": family, "of": family, **_mean_of(drops)}


def _families(some: Sequence[LightRuns]) -> Mapping[str, list[PrecisionDrop]]:
    """The known losses under the changes of each family, and of all."""
    found: dict[str, list[PrecisionDrop]] = {family: [] for family in (*FAMILIES, ALL_TWELVE)}
    for one in some:
        for change in one.setting.size.changes:
            drop = one.drop(CHANGES, change)
            if drop.drop.value is not None:
                found[family_of(change)].append(drop)
                found[ALL_TWELVE].append(drop)
    return {family: drops for family, drops in found.items() if drops}


def _mean_of(drops: Sequence[PrecisionDrop]) -> Row:
    return {"changes": len(drops), "drop": measured(mean_drop(drops))}


@table("rq1_models", "Mean drop by detector", formats={"drop": ".1%", "mAP": ".3f"}, printed=PAPER["models"])
def by_model(results: LightResults) -> Iterator[Row]:
    """mAP on all untouched pictures, the mean over the states of their lights, and the mean drop over the changes, with 95%
    intervals; the paper's data sets are LISA and Bosch"""
    for one in results:
        cells = {"pictures": one.untouched.n, "states": ", ".join(one.states), "mAP": measured(one.untouched)}
        yield {"_like": one.subject.like, **one.key, **cells, **_mean_of(_families([one]).get(ALL_TWELVE, []))}


@table("rq1_errors", "Errors by kind", main=False)
def errors(results: LightResults) -> Iterator[Row]:
    """pictures with an error, and with one that the untouched picture does not have; then the worst error of each. Boxes
    count from the detector's usual score; in mAP all count"""
    for one in results:
        for change in tested(one):
            some = one.pictures(CHANGES, change)
            kinds = Counter(picture.flaw for picture in some if picture.violated)
            counts = {
                "violated": sum(picture.violated for picture in some),
                "introduced": sum(picture.introduced for picture in some),
            }
            yield {**one.key, "change": change, "pictures": len(some), **counts, **{k: n for k, n in kinds.items() if k}}


@table("rq1_methods", "The colour change alone, and all changes")
def methods(results: LightResults) -> Iterator[Row]:
    """{COLOUR_ONLY}: red and green exchanged, the method before TigAug; pictures with at least one error that a change
    introduced, of all pictures of the set"""
    for one in results:
        total = one.untouched.n
        for name, changes in ((COLOUR_ONLY, ("colour",)), (TIGAUG, one.setting.size.changes)):
            if set(changes) <= {*one.setting.size.changes}:
                some = [picture for change in changes for picture in one.pictures(CHANGES, change)]
                found = {picture.case for picture in some if picture.introduced}
                introduced = sum(picture.introduced for picture in some)
                counts = {"follow-ups": len(some), "introduced": introduced, "pictures": len(found)}
                yield {**one.key, "method": name, **counts, **rated(len(found), total)}


@table("rq1_strengths", "Precision by strength", main=False, optional=True, formats={"drop": ".1%"})
def by_strength(results: LightResults) -> Iterator[Row]:
    """from mild to severe; natural: follow-ups in which every light keeps a fifth of its contrast"""
    for one in _curved(results):
        for change in one.setting.size.changes:
            for words, some in _by_words(one, change).items():
                drop = one.drop_of(some)
                natural = {"pictures": len(some), "natural": sum(picture.natural for picture in some)}
                yield {**one.key, "change": change, "strength": words, **natural, "drop": measured(drop.drop)}


def _by_words(one: LightRuns, change: str) -> Mapping[str, list[TestedPicture]]:
    """The pictures of each strength, the mildest first."""
    found: dict[str, list[TestedPicture]] = {made.words(): [] for made in GRIDS.get(change, ())}
    for picture in one.pictures(CURVES, change):
        found[picture.words].append(picture)
    return {words: some for words, some in found.items() if some}


def _curved(results: LightResults) -> list[LightRuns]:
    return [one for one in results if CURVES in one.runs]


@chart("{name}: loss by strength", "from the mildest to the most severe; the strengths are in the table", of=_curved)
def curves(one: LightRuns) -> Markup:
    """A line for each change that has several strengths."""
    drawn: dict[str, list[Spot]] = {}
    for change in one.setting.size.changes:
        for place, some in enumerate(_by_words(one, change).values(), 1):
            drop = one.drop_of(some)
            if drop.drop.value is not None:
                drawn.setdefault(change, []).append(Spot(float(place), drop.drop.value))
    return lines(drawn, x="strength", y="share of mAP lost", percent=True)


class StreetSet(NamedTuple):
    """The detectors on one set of streets."""

    name: str
    runs: Sequence[LightRuns]


def _street_sets(results: LightResults) -> list[StreetSet]:
    names = dict.fromkeys(one.streets for one in results)
    return [
        StreetSet(f"streets {name}" if name else "all", [one for one in results if one.streets == name]) for name in names
    ]


@chart("Drop of precision by change, {name}", of=_street_sets)
def drops(streets: StreetSet) -> Markup:
    """A bar for each detector and change."""
    groups: dict[str, dict[str, Bar]] = {}
    for one in streets.runs:
        for change in tested(one):
            drop = one.drop(CHANGES, change)
            groups.setdefault(change, {})[one.detector] = Bar(drop.drop.value, drop.drop.low, drop.drop.high)
    return bars(groups, axis="share of mAP lost", percent=True)


EACH = 6


def _first_of_each(results: LightResults) -> list[LightRuns]:
    return [streets.runs[0] for streets in _street_sets(results)]


@pictures("{name}: errors that changes introduced", of=_first_of_each, across=2)
def examples(one: LightRuns) -> Iterator[tuple[str, Array]]:
    """The worst introduced error of each change in a natural picture, up to a few."""
    run, best = one.runs[CHANGES], dict[str, Row]()
    every = (picture for change in one.setting.size.changes for picture in one.pictures(CHANGES, change))
    wanted = {picture.id for picture in every if picture.introduced and picture.natural}
    for row in run.trials():
        if row["id"] in wanted and (row["rule"] not in best or row["margin"] > best[row["rule"]]["margin"]):
            best[row["rule"]] = dict(row)
    for row in islice(best.values(), EACH):
        record, case = record_of(row, run.builder()), one.subject.source[row["case"]]
        assert record.change
        near, far = (next(images_of(some)).pixels for some in (case, record.change(case)))
        yield (
            f"{row['rule']}: {row['words']}. {row['why']}",
            answered(near, far, _confident(finding_of(row), counted_from(one.subject.system))),
        )


def _confident(finding: Finding, least: float) -> Finding:
    """The finding with the boxes that its verdict counts: a detector that is scored answers with many that it doubts."""

    def counted(value: Value) -> Value:
        return above_score(value, least) if isinstance(value, Boxes2D) else value

    return replace(finding, before=tuple(map(counted, finding.before)), after=tuple(map(counted, finding.after)))


@question(
    "RQ1: how robust are the detectors?",
    *(rq1, by_model, by_family, drops, methods, by_strength, curves, errors, examples),
)
def how_robust(results: LightResults) -> str:
    """Every change is applied to every picture that allows it, and the same labels, mapped by the change, are asked for."""
    rows = [row for row in by_family.rows(results) if row["detector"] == EVERY_ONE]
    shares = ", ".join(f"{row['of']} {row['drop']:.1%}" for row in rows)
    return f"mean loss of mAP: {shares}" if rows else "no drop could be measured"


def family_of(change: str) -> str:
    """The family of a change; that of the control has its own name."""
    return next((family for family, names in FAMILIES.items() if change in names), "control")
