"""RQ5: does training on fog and rain images improve the system in fog and rain? Table 9 of the paper.

Split at random as in the paper, which puts neighbours of one drive on both sides; and leak-free by scenes, or by blocks with
gaps. Frames of the world's training split stand for the paper's original training data. A third training uses fog and rain
versions of those frames too: many more scenes, of other drives, so nothing leaks.
"""
# DT-38, D-33

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from swerve.analysis.statistics import Estimate, StatisticalTest
from swerve.core.campaign import Campaign
from swerve.core.case import Source, group_of
from swerve.core.errors import InputError
from swerve.core.seeding import digest_of
from swerve.experiments.deeptest.paper_values import TABLE_9
from swerve.experiments.setting import RUNS, Setting
from swerve.experiments.subjects import Subject
from swerve.methods.deeptest import WEATHER, deeptest
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars
from swerve.report.experiment_page import ChartPanel, Section, TablePanel
from swerve.retrain.before_after import MSE, Compared, compare
from swerve.retrain.dataset import DrawnFollowups, Examples, Joined, by_rule, prepare
from swerve.retrain.finetune import finetune
from swerve.retrain.split import GROUPS, RANDOM, SIDES, TRAIN, Cut, Split, split_source
from swerve.sources.subset import Subset
from swerve.sources.writing import slug
from swerve.store.files import json_bytes, make_folder, write_whole
from swerve.store.fingerprint import identity_of
from swerve.train.loop import Checkpoint, Recipe

TEST, VAL = 0.34, 0.1  # the paper trains on 66%; here a tenth of all is for early stopping, so 56% train
RATE, PATIENCE = 3e-5, 5  # small steps: so few images are soon overfitted
PRINTED, LEAK_FREE, MORE = "random, as printed", "leak-free", "leak-free, more scenes"
NAME_DIGITS = 12  # of the hash in the name of a checkpoint
MIX = 2.0  # one fog and one rain version of every training image
BETTER, WORSE = 0.3, 0.05  # the goal: fog and rain errors down by at least, the original error up by at most
COLUMNS = (
    *("split", "images", "cases", "groups", "before", "after", "change", "low", "high", "p"),
    *("printed before", "printed after"),
)


@dataclass(frozen=True)
class Retraining:
    """What to retrain, on which source, and further frames of the world's training split."""

    subject: Subject
    source: Source
    base: Source | None = None
    passes: int = 20


def section(setting: Setting, asked: Retraining | None) -> Section:
    """The errors before and after, on held-out images."""
    title = "RQ5: does retraining help?"
    if asked is None:
        setting.table("table9", COLUMNS, ())
        return Section(title, ("Nothing was retrained: none of the systems is a torch network.",), answer="not run")
    ways = (PRINTED, LEAK_FREE, MORE) if asked.base else (PRINTED, LEAK_FREE)
    results, failed = _by_way(setting, asked, ways)
    short = tuple(f"{asked.subject.name} was not retrained with the split {way!r}: {why}." for way, why in failed.items())
    if not results:
        setting.table("table9", COLUMNS, ())
        return Section(title, short, answer="it cannot be retrained")
    rows = tuple(_row(name, one) for name, compared in results.items() for one in compared)
    csv = setting.table("table9", COLUMNS, rows)
    formats = {"before": ".4f", "after": ".4f", "change": "+.1%", "low": "+.4f", "high": "+.4f", "p": ".2g"}
    sheet = TablePanel("Table 9", COLUMNS, rows, _note(asked), printed=COLUMNS[-2:], csv=csv, formats=formats)
    leak_free = [way for way in (LEAK_FREE, MORE) if way in results]
    charts = tuple(
        ChartPanel(f"MSE before and after, {way}", bars(_bars(results[way]), axis="rad²")) for way in leak_free[:1]
    )
    answer = ". ".join(f"{way}: {_answer(results[way])}" for way in leak_free) or f"there is no {LEAK_FREE} result"
    return Section(title, short, (sheet, *charts), answer)


def _note(asked: Retraining) -> str:
    """The note of Table 9."""
    base = f"frames of the world's training split are added (in {MORE!r} with fog and rain versions of them too)"
    # D-3
    return (
        f"MSE in rad² of the wheel of {asked.subject.name}, before and after fine-tuning on fog and rain versions of "
        f"{1 - TEST - VAL:.0%} of the images, with {VAL:.0%} for early stopping, {1 - TEST:.0%} together; "
        f"{base if asked.base else 'the training images are added untouched too'}; measured on the other {TEST:.0%} and "
        "their fog and rain versions. Images of one scene or drive are similar, so they are grouped: groups is the number "
        "of scenes or drives tested, low and high are the 95% interval of the difference from resampled groups, p is "
        "Wilcoxon's signed-rank test of each group's mean difference, and a single group has neither. What the paper prints "
        f"as MSE are roots: compare its ratios with ours, not its sizes. {LEAK_FREE}: {_apart(asked.source)}"
    )


def _by_way(setting: Setting, asked: Retraining, ways: Sequence[str]) -> tuple[dict[str, list[Compared]], dict[str, str]]:
    """The comparison of every split that is possible, and why the others are not."""
    results: dict[str, list[Compared]] = {}
    failed: dict[str, str] = {}
    for way in ways:
        try:
            results[way] = _stored(setting, asked, way)
        except InputError as error:
            failed[way] = str(error).partition(";")[0]  # the rest is about options of another verb
    return results, failed


def _stored(setting: Setting, asked: Retraining, way: str) -> list[Compared]:
    """The comparison of one split, read from the folder if it was made before."""
    path = setting.into / RUNS / asked.subject.name / f"retrained-{slug(way)}.json"
    made_of = _made_of(setting, asked, way)
    if path.exists() and (stored := json.loads(path.read_text()))["made_of"] == made_of:
        return [_compared(row) for row in stored["rows"]]
    make_folder(path.parent, parents=True)
    checkpoint = Checkpoint(path.with_name(f"{path.stem}-{made_of[:NAME_DIGITS]}.checkpoint"), made_of)
    rows = list(_retrained(setting, asked, way, checkpoint))
    write_whole(path, json_bytes({"made_of": made_of, "rows": [asdict(row) for row in rows]}))
    checkpoint.remove()
    return rows


def _made_of(setting: Setting, asked: Retraining, way: str) -> str:
    """A hash of everything that a comparison depends on: numbers, changes, weights, images, code, libraries."""
    identity = identity_of(_wet(asked.source, asked, setting), setting.base)
    cut = (TEST, VAL, Cut.blocks, _gap(asked.source))
    return digest_of(
        *(way, asked.passes, RATE, PATIENCE, MIX, cut, setting.seed),
        *(identity["swerve"], identity["fingerprints"], identity["libraries"], identity["campaign"]["rule"]),
        asked.base.fingerprint() if asked.base else None,
    )


def _compared(row: dict[str, Any]) -> Compared:
    return Compared(**{**row, "change": Estimate(**row["change"]), "test": StatisticalTest(**row["test"])})


def _retrained(setting: Setting, asked: Retraining, way: str, checkpoint: Checkpoint) -> Iterator[Compared]:
    setting.say(f"retraining {asked.subject.name}, {way}")
    campaign = _wet(asked.source, asked, setting)
    how = RANDOM if way == PRINTED else None
    split = split_source(campaign.source, Cut(how, TEST, VAL, gap=_gap(asked.source), seed=setting.seed))
    followups = DrawnFollowups(campaign, campaign.rules, setting.seed, setting.progress)
    held = by_rule(campaign, seed=setting.seed, progress=setting.progress)
    base = _more(asked.base, asked, setting) if way == MORE and asked.base else asked.base
    prepared = prepare(campaign, split, followups, mix=MIX, held=held, base=base)
    recipe = Recipe(passes=asked.passes, rate=RATE, patience=PATIENCE)
    tuned = finetune(
        campaign.system,
        prepared.training,
        prepared.val,
        recipe=recipe,
        seed=setting.seed,
        progress=setting.progress,
        checkpoint=checkpoint,
    )
    rows = compare(campaign.system, tuned.system, prepared.tested(), seed=setting.seed, progress=setting.progress)
    yield from (row for row in rows if row.measure == MSE)


def _gap(source: Source) -> int:
    """Unused cases beside a block: three seconds of the full drive, but at most a third of a block."""
    keys = source.keys()
    whole = len(source.source.keys()) if isinstance(source, Subset) else len(keys)
    shortest = min(Counter(group_of(source, key) for key in keys).values())
    return min(math.ceil(Cut.gap * len(keys) / whole), shortest // (3 * Cut.blocks))


def _apart(source: Source) -> str:
    """How the leak-free split separates its sides."""
    drives = len({group_of(source, key) for key in source.keys()})
    if drives >= len(SIDES):
        return f"{drives} drives or scenes, each on one side"
    return f"{Cut.blocks} blocks of a drive, each on one side, with {_gap(source)} unused images between sides"


def _wet(source: Source, asked: Retraining, setting: Setting) -> Campaign:
    return deeptest(source, asked.subject.system, changes=WEATHER, coverage=False, seed=setting.seed)


def _more(base: Source, asked: Retraining, setting: Setting) -> Source:
    """Frames of the training split with their fog and rain versions."""
    campaign, keys = _wet(base, asked, setting), base.keys()
    everything = Split(GROUPS, dict.fromkeys(keys, TRAIN), {key: group_of(base, key) for key in keys})
    drawn = DrawnFollowups(campaign, campaign.rules, setting.seed, setting.progress).of(keys, MIX)
    return Joined((base, Examples(base, drawn, everything)))


def _images(row: Compared) -> str:
    return row.data.removeprefix("synthetic, ")


def _share(row: Compared) -> float | None:
    return row.after / row.before - 1 if row.before and row.after is not None else None


def _row(split: str, row: Compared) -> Row:
    printed = TABLE_9.get(_images(row), (None, None))
    return (
        split,
        _images(row),
        row.cases,
        row.groups,
        row.before,
        row.after,
        _share(row),
        row.change.low,
        row.change.high,
        row.test.p,
        *printed,
    )


def _bars(rows: Sequence[Compared]) -> dict[str, dict[str, Bar]]:
    return {_images(row): {"before": Bar(row.before), "after": Bar(row.after)} for row in rows}


def _answer(rows: Sequence[Compared]) -> str:
    shares = {_images(row): _share(row) for row in rows}
    errors = ", ".join(f"{name} {share:+.0%}" for name, share in shares.items() if share is not None)
    wet = [share for name, share in shares.items() if name != "original"]
    fine = (
        bool(wet)
        and all(share is not None and share <= -BETTER for share in wet)
        and (shares.get("original") or 0.0) <= WORSE
    )
    goal = f"errors in fog and rain down by at least {BETTER:.0%}, the original error up by at most {WORSE:.0%}"
    return f"{errors}; the goal ({goal}) is {'' if fine else 'not '}reached"
