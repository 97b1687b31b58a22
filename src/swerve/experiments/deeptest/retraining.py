"""RQ5: does training on fog and rain make the system better in fog and rain? (DT-38, Table 9)

Split twice: at random, as printed, which puts neighbours of one drive on both sides; and by scenes, or blocks with gaps,
whose figures are the ones to believe (D-33).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swerve.case import Source
from swerve.errors import InputError
from swerve.experiments.deeptest.printed import TABLE_9
from swerve.experiments.setting import Setting
from swerve.experiments.subjects import Subject
from swerve.methods.deeptest import WEATHER, deeptest
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars
from swerve.report.experiment import Chart, Section, Sheet
from swerve.retrain.compare import MSE, Compared, compare
from swerve.retrain.dataset import Drawn, by_rule, prepare
from swerve.retrain.finetune import Recipe, finetune
from swerve.retrain.split import RANDOM, Cut, split_source

TEST, VAL = 0.34, 0.1  # 66% train, of which a part says when to stop
MIX = 2.0  # about one fog and one rain version of every training image
BETTER, WORSE = 0.3, 0.05  # what is hoped for: fog and rain errors down by so much, the original one up by no more
COLUMNS = (
    *("split", "images", "cases", "before", "after", "change", "low", "high", "p", "printed before", "printed after"),
)


@dataclass(frozen=True)
class Retraining:
    """What to retrain, on which drives, and the original training data that comes along."""

    subject: Subject
    source: Source
    base: Source | None = None
    passes: int = 20


def section(setting: Setting, asked: Retraining | None) -> Section:
    """The errors before and after, on images that never trained."""
    title = "RQ5: does retraining help?"
    if asked is None:
        return Section(title, ("Nothing was retrained: no torch network is among the systems.",), answer="not asked")
    try:
        ways = {
            "leak-free": Cut(None, TEST, VAL, seed=setting.seed),
            "random, as printed": Cut(RANDOM, TEST, VAL, seed=setting.seed),
        }
        told = {name: list(_retrained(setting, asked, cut, name)) for name, cut in ways.items()}
    except InputError as error:
        return Section(title, (f"{asked.subject.name} was not retrained: {error}.",), answer="it cannot be retrained here")
    rows = tuple(_row(name, one) for name, compared in told.items() for one in compared)
    csv = setting.table("table9", COLUMNS, rows)
    formats = {"before": ".4f", "after": ".4f", "change": "+.1%", "low": "+.4f", "high": "+.4f", "p": ".2g"}
    note = (
        f"MSE in rad² of the wheel of {asked.subject.name}, before and after fine-tuning on fog and rain versions of 66% of "
        "the images, with the original training data; on the other 34% and their fog and rain versions. low and high: 95% "
        "interval of the difference, from the same images in pairs"
    )
    headline = told["leak-free"]
    sheet = Sheet("Table 9", COLUMNS, rows, note, printed=COLUMNS[-2:], csv=csv, formats=formats)
    chart = Chart("MSE before and after, leak-free split", bars(_bars(headline), axis="rad²"))
    return Section(title, parts=(sheet, chart), answer=_answer(headline))


def _retrained(setting: Setting, asked: Retraining, cut: Cut, name: str) -> Iterator[Compared]:
    setting.say(f"retraining {asked.subject.name}, {name} split")
    campaign = deeptest(asked.source, asked.subject.system, changes=WEATHER, coverage=False, seed=setting.seed)
    split = split_source(campaign.source, cut)
    followups = Drawn(campaign, campaign.rules, setting.seed, setting.watch)
    held = by_rule(campaign, seed=setting.seed, progress=setting.watch)
    prepared = prepare(campaign, split, followups, mix=MIX, held=held, base=asked.base)
    recipe = Recipe(passes=asked.passes, seed=setting.seed)
    tuned = finetune(campaign.system, prepared.training, prepared.val, recipe=recipe, progress=setting.watch)
    rows = compare(campaign.system, tuned.system, prepared.tested(), seed=setting.seed, progress=setting.watch)
    yield from (row for row in rows if row.measure == MSE)


def _named(row: Compared) -> str:
    return row.data.removeprefix("synthetic, ")


def _share(row: Compared) -> float | None:
    return row.after / row.before - 1 if row.before and row.after is not None else None


def _row(split: str, row: Compared) -> Row:
    printed = TABLE_9.get(_named(row), (None, None))
    return (
        split,
        _named(row),
        row.cases,
        row.before,
        row.after,
        _share(row),
        row.change.low,
        row.change.high,
        row.test.p,
        *printed,
    )


def _bars(rows: Sequence[Compared]) -> dict[str, dict[str, Bar]]:
    return {_named(row): {"before": Bar(row.before), "after": Bar(row.after)} for row in rows}


def _answer(rows: Sequence[Compared]) -> str:
    shares = {_named(row): _share(row) for row in rows}
    told = ", ".join(f"{name} {share:+.0%}" for name, share in shares.items() if share is not None)
    wet = [share for name, share in shares.items() if name != "original"]
    fine = all(share is not None and share <= -BETTER for share in wet) and (shares.get("original") or 0.0) <= WORSE
    goal = f"errors in fog and rain down by {BETTER:.0%} or more, the original one up by {WORSE:.0%} at most"
    return f"leak-free: {told}; {'that is' if fine else 'short of'} {goal}"
