"""RQ2: does training with changed pictures help, and RQ4b: does it matter whether they are natural?"""

# TG-21, TG-21b, TG-25, TG-26

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import mean

from markupsafe import Markup

from swerve.analysis.precision_drop import PrecisionDrop
from swerve.experiments import Row, chart, question, table
from swerve.experiments.tigaug.light_campaigns import CHANGES
from swerve.experiments.tigaug.light_mix import ALL, CONTROL, SHARE
from swerve.experiments.tigaug.light_robustness import PAPER
from swerve.experiments.tigaug.light_runs import UNKNOWN, LightResults, LightRuns, TestedPicture, measured
from swerve.experiments.tigaug.light_training import TrainingArm
from swerve.report.charts import Bar, bars

ADDED = f"{SHARE:.0%}"  # of the training pictures
ORIGINAL, AUGMENTED, NATURAL = "original", "augmented", "natural"
MEAN = "mean"
BETTER, WORSE = 0.30, 0.03  # the goal: augmented mAP up by at least, original mAP within
MODELS = ("M-O", "M-τ+", "M-τ−")
ALIKE = 0.03  # mAP: findings of the paper are called alike within it, or if an interval includes no difference


def retrained(results: LightResults) -> list[LightRuns]:
    """The subjects with a retrained detector."""
    return [one for one in results if any(one.arms())]


def _gains(drop: PrecisionDrop, names: tuple[str, str, str]) -> Row:
    """The precision before and after, and the gain, as cells of these names."""
    first, second, gain = names
    return {
        first: measured(drop.before),
        second: measured(drop.after),
        gain: measured(drop.drop, sign=-1),
    }


def _tests(one: LightRuns, arm: TrainingArm) -> Iterator[tuple[str, str]]:
    """The test sets of an arm: untouched pictures, and follow-ups of its own or of all changes."""
    yield "", ORIGINAL
    yield from ((change, AUGMENTED) for change in arm.tested_with(one.setting.size.changes))


@table("rq2", "Precision before and after retraining", optional=True)
def rq2(results: LightResults) -> Iterator[Row]:
    """mAP@[.50:.95] on the same pictures. mixed in: what {ADDED} of the pictures are added as; M-O: the detector as it
    was; {CONTROL}: the control, trained as long with the same pictures added unchanged; gain: relative to M-O, and
    gain on control: relative to the control, with 95% intervals, junctions resampled"""
    for one in retrained(results):
        for arm in (arm for arm in one.arms() if not arm.natural):
            for change, test in _tests(one, arm):
                first, second = (_compared(one, step, arm.step, change) for step in (CHANGES, _control(one)))
                key = {"_like": one.subject.like, **one.key, "mixed in": arm.name, "change": change, "test": test}
                beside = UNKNOWN if arm.mixed == CONTROL else second
                yield {
                    **{**key, "pictures": first.before.n, **_gains(first, ("M-O", "retrained", "gain"))},
                    **_gains(beside, ("control", "_again", "gain on control")),
                }


def _control(one: LightRuns) -> str:
    return next(arm.step for arm in one.arms() if arm.mixed == CONTROL)


def _compared(one: LightRuns, step: str, other: str, change: str) -> PrecisionDrop:
    return one.compared((step, other), change) if change else one.on_untouched(step, other)


@table("rq2_means", "Mean gain by retraining", optional=True, printed=PAPER["rq2"])
def means(results: LightResults) -> Iterator[Row]:
    """the mean over the changes, each trained and tested on its own; and of one training with all changes"""
    rows = rq2.rows(results)
    for one in retrained(results):
        mine = [row for row in rows if all(row[name] == cell for name, cell in one.key.items())]
        for arms, name in ((one.setting.size.changes, MEAN), ((ALL,), ALL), ((CONTROL,), CONTROL)):
            for test in (ORIGINAL, AUGMENTED):
                some = [row for row in mine if row["mixed in"] in arms and row["test"] == test]
                cells = {column: _mean(some, column) for column in ("gain", "gain on control")}
                first = {"_like": one.subject.like, **one.key, "change": name, "test": test}
                yield {**first, "trainings": len({row["mixed in"] for row in some}), **cells}


def _mean(rows: list[Row], column: str) -> float | None:
    known = [row[column] for row in rows if row[column] is not None]
    return mean(known) if known else None


@chart("{name}: precision on changed pictures", of=retrained)
def gains(one: LightRuns) -> Markup:
    """A bar for the detector as it was, the control, and the detector retrained with the change."""
    groups = {}
    for change in one.setting.size.changes:
        arm = next(arm for arm in one.arms() if arm.name == change)
        first, second = (one.compared((step, arm.step), change) for step in (CHANGES, _control(one)))
        known = {"M-O": first.before, CONTROL: second.before, "retrained": first.after}
        groups[change] = {name: Bar(found.value, found.low, found.high) for name, found in known.items()}
    return bars(groups, axis="mAP")


@question("RQ2: does training with changed pictures help?", rq2, means, gains)
def does_retraining_help(results: LightResults) -> str:
    """The detector is retrained with changed pictures, by one change after the other and by all, and tested on others."""
    answers = []
    for one in retrained(results):
        rows = [row for row in means.rows(results) if all(row[name] == cell for name, cell in one.key.items())]
        found = {(row["change"], row["test"]): row for row in rows}
        augmented, original = found[MEAN, AUGMENTED], found[MEAN, ORIGINAL]
        gain, beside, kept = augmented["gain"], augmented["gain on control"], original["gain"]
        if gain is None or beside is None or kept is None:
            continue
        goal = f"changed pictures up by at least {BETTER:.0%} and original ones within {WORSE:.0%}"
        reached = "reached" if gain >= BETTER and abs(kept) <= WORSE else "not reached"
        answers.append(
            f"{one.name}: mAP on changed pictures {gain:+.1%} on average ({beside:+.1%} against the control), on original "
            f"pictures {kept:+.1%}; the goal, {goal}, is {reached}"
        )
    return "; ".join(answers) or "nothing was retrained"


# RQ4b


def _is_natural(picture: TestedPicture) -> bool:
    return picture.natural


def cleaned(one: LightRuns) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The changes with a cleaned set, and the steps of the three models."""
    steps = {arm.name: arm.step for arm in one.arms()}
    for arm in one.arms():
        if arm.natural and arm.mixed in steps:
            yield arm.mixed, dict(zip(MODELS, (CHANGES, steps[arm.mixed], arm.step), strict=True))


def _has_cleaned(results: LightResults) -> list[LightRuns]:
    return [one for one in results if any(cleaned(one))]


@table("rq4b", "Original, augmented and cleaned training sets", optional=True)
def rq4b(results: LightResults) -> Iterator[Row]:
    """mAP on original pictures, on all follow-ups of a change (τ+) and on the natural ones (τ−), of the detector as it was
    (M-O) and retrained with the same {ADDED}: with all follow-ups (M-τ+), or with unnatural ones replaced by the next
    (M-τ−); difference: M-τ+ minus M-τ−, relative, with its 95% interval"""
    for one in _has_cleaned(results):
        for change, steps in cleaned(one):
            for test in (ORIGINAL, AUGMENTED, NATURAL):
                drops = {name: _on(one, (CHANGES, steps[name]), change, test) for name in MODELS}
                between = _on(one, (steps["M-τ−"], steps["M-τ+"]), change, test)
                cells = {name: measured(drop.after) for name, drop in drops.items()}
                pictures = drops[MODELS[0]].before.n
                gain = measured(between.drop, sign=-1)
                yield {**one.key, "change": change, "test": test, "pictures": pictures, **cells, "difference": gain}


def _on(one: LightRuns, steps: tuple[str, str], change: str, test: str) -> PrecisionDrop:
    if test == ORIGINAL:
        return one.on_untouched(*steps)
    return one.compared(steps, change, _is_natural) if test == NATURAL else one.compared(steps, change)


@table("rq4b_findings", "The paper's three findings", optional=True)
def findings(results: LightResults) -> Iterator[Row]:
    """alike: within {ALIKE:g} mAP; a loss is relative to the untouched pictures of the same follow-ups"""
    rows = rq4b.rows(results)
    for one in _has_cleaned(results):
        mine = [row for row in rows if all(row[name] == cell for name, cell in one.key.items())]
        tests = {test: [row for row in mine if row["test"] == test] for test in (ORIGINAL, AUGMENTED, NATURAL)}
        alike = [max(cells) - min(cells) <= ALIKE for row in tests[ORIGINAL] if (cells := _known(row, MODELS))]
        yield {**one.key, "finding": "1. on original pictures the three are alike", **_counted(alike)}
        losses = [_losses(one, change) for change, _ in cleaned(one)]
        less = [natural < every for every, natural in (pair for pair in losses if pair)]
        yield {**one.key, "finding": "2. M-O loses less on natural follow-ups", **_counted(less)}
        pairs = {test: [pair for row in some if len(pair := _known(row, MODELS[1:])) == 2] for test, some in tests.items()}
        above = [first > second for first, second in pairs[AUGMENTED]]
        yield {**one.key, "finding": "3a. on all follow-ups M-τ+ is above M-τ−", **_counted(above)}
        same = [abs(first - second) <= ALIKE for first, second in pairs[NATURAL]]
        yield {**one.key, "finding": "3b. on natural follow-ups both are alike", **_counted(same)}


def _known(row: Row, names: tuple[str, ...]) -> list[float]:
    return [row[name] for name in names if row[name] is not None]


def _counted(found: list[bool]) -> Row:
    return {"changes": len(found), "true of": sum(found)}


def _losses(one: LightRuns, change: str) -> tuple[float, float] | None:
    """What M-O loses on all follow-ups and on the natural ones; None if a loss is unknown or all are natural."""
    every = one.pictures(CHANGES, change)
    natural = [picture for picture in every if picture.natural]
    drops = [one.drop(some) for some in (every, natural)]
    values = [drop.drop.value for drop in drops if drop.drop.value is not None]
    return (values[0], values[1]) if len(values) == 2 and len(natural) < len(every) else None


@question("RQ4b: do unnatural pictures harm retraining?", rq4b, findings)
def do_unnatural_pictures_harm(results: LightResults) -> str:
    """The cleaned sets have the same share of the same pictures, refilled with further natural ones."""
    rows = findings.rows(results)
    return "; ".join(f"{row['finding']}: {row['true of']} of {row['changes']} changes" for row in rows) or "not run"
