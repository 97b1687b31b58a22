"""RQ2: does training with changed pictures help, and RQ4b: does it matter whether they are natural?"""

# TG-21, TG-21b, TG-25, TG-26

from __future__ import annotations

from collections.abc import Iterator, Mapping

from markupsafe import Markup

from swerve.analysis.precision_drop import PrecisionDrop, less_lost, mean_drop
from swerve.analysis.statistics import Estimate
from swerve.experiments import Row, chart, question, table
from swerve.experiments.tigaug.light_campaigns import CHANGES
from swerve.experiments.tigaug.light_mix import ALL, CONTROL, SHARE
from swerve.experiments.tigaug.light_robustness import PAPER
from swerve.experiments.tigaug.light_runs import UNKNOWN, LightResults, LightRuns, every, is_natural, measured
from swerve.experiments.tigaug.light_training import TrainingArm
from swerve.report.charts import Bar, bars

ADDED = f"{SHARE:.0%}"  # of the training pictures
ORIGINAL, AUGMENTED, NATURAL = "original", "augmented", "natural"
MEAN = "mean"
BETTER, WORSE = 0.30, 0.03  # the goal: augmented mAP up by at least, original mAP within
MODELS = ("M-O", "M-τ+", "M-τ−")
MODEL_SCORES = {**dict.fromkeys(MODELS, ".3f"), "difference": "+.1%"}
ALIKE = 0.03  # mAP: two detectors are called alike within it
GAINS = {"gain": "+.1%", "gain on control": "+.1%"}
SCORES = dict.fromkeys(("M-O", "retrained", "control"), ".3f")


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


@table("rq2", "Precision before and after retraining", optional=True, formats=SCORES | GAINS)
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


@table("rq2_means", "Mean gain by retraining", optional=True, formats=GAINS, printed=PAPER["rq2"])
def means(results: LightResults) -> Iterator[Row]:
    """the mean over the changes, each trained and tested on its own; of one training with all changes; and of the control;
    with 95% intervals, junctions resampled for all changes together"""
    for one in retrained(results):
        for mixed, name in ((one.setting.size.changes, MEAN), ((ALL,), ALL), ((CONTROL,), CONTROL)):
            chosen = [arm for arm in one.arms() if arm.mixed in mixed and not arm.natural]
            for test in (ORIGINAL, AUGMENTED):
                tests = [(arm.step, change) for arm in chosen for change, what in _tests(one, arm) if what == test]
                gain, beside = (
                    mean_drop([_compared(one, first, step, change) for step, change in tests])
                    for first in (CHANGES, _control(one))
                )
                first = {"_like": one.subject.like, **one.key, "change": name, "test": test, "trainings": len(chosen)}
                against = UNKNOWN.drop if name == CONTROL else beside
                yield {**first, "gain": measured(gain, sign=-1), "gain on control": measured(against, sign=-1)}


@chart("{name}: precision on changed pictures", of=retrained)
def gains(one: LightRuns) -> Markup:
    """A bar for the detector as it was, the control, and the detector retrained with the change."""
    groups = {}
    trained = {arm.name: arm for arm in one.arms()}
    for change in (change for change in one.setting.size.changes if change in trained):
        arm = trained[change]
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


def cleaned(one: LightRuns) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The changes with a cleaned set, and the steps of the three models."""
    steps = {arm.name: arm.step for arm in one.arms()}
    for arm in one.arms():
        if arm.natural and arm.mixed in steps:
            yield arm.mixed, dict(zip(MODELS, (CHANGES, steps[arm.mixed], arm.step), strict=True))


def _has_cleaned(results: LightResults) -> list[LightRuns]:
    return [one for one in results if any(cleaned(one))]


@table("rq4b", "Original, augmented and cleaned training sets", optional=True, formats=MODEL_SCORES)
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
    return one.compared(steps, change, is_natural) if test == NATURAL else one.compared(steps, change)


@table("rq4b_findings", "The paper's three findings", optional=True)
def findings(results: LightResults) -> Iterator[Row]:
    """alike: within {ALIKE:g} mAP; a loss is relative to the untouched pictures of the same follow-ups. certain: the changes
    for which the 95% interval of the difference does not contain 0"""
    rows = rq4b.rows(results)
    for one in _has_cleaned(results):
        mine = [row for row in rows if all(row[name] == cell for name, cell in one.key.items())]
        tests = {test: [row for row in mine if row["test"] == test] for test in (ORIGINAL, AUGMENTED, NATURAL)}
        alike = [max(cells) - min(cells) <= ALIKE for row in tests[ORIGINAL] if (cells := _known(row, MODELS))]
        yield {**one.key, "finding": "1. on original pictures the three are alike", **_counted(alike)}
        less = [found for change, _ in cleaned(one) if (found := _less_lost(one, change)).value is not None]
        sure = sum(found.low is not None and found.low > 0 for found in less)
        counted = _counted([found.value > 0 for found in less if found.value is not None])
        yield {**one.key, "finding": "2. M-O loses less on natural follow-ups", **counted, "certain": sure}
        above = [cell for row in tests[AUGMENTED] if (cell := row["difference"]) is not None]
        sure = sum(row["difference low"] is not None and row["difference low"] > 0 for row in tests[AUGMENTED])
        counted = _counted([cell > 0 for cell in above])
        yield {**one.key, "finding": "3a. on all follow-ups M-τ+ is above M-τ−", **counted, "certain": sure}
        pairs = [pair for row in tests[NATURAL] if len(pair := _known(row, MODELS[1:])) == 2]
        same = [abs(first - second) <= ALIKE for first, second in pairs]
        yield {**one.key, "finding": "3b. on natural follow-ups both are alike", **_counted(same)}


def _known(row: Row, names: tuple[str, ...]) -> list[float]:
    return [row[name] for name in names if row[name] is not None]


def _counted(found: list[bool]) -> Row:
    return {"changes": len(found), "true of": sum(found)}


def _less_lost(one: LightRuns, change: str) -> Estimate:
    """How much less M-O loses on the natural follow-ups than on all; unknown if all are natural."""
    whole, natural = (one.drop(CHANGES, change, which) for which in (every, is_natural))
    return less_lost(whole, natural) if natural.before.n < whole.before.n else Estimate(0)


@question("RQ4b: do unnatural pictures harm retraining?", rq4b, findings)
def do_unnatural_pictures_harm(results: LightResults) -> str:
    """The cleaned sets have the same share of the same pictures, refilled with further natural ones."""
    rows = findings.rows(results)
    return "; ".join(f"{row['finding']}: {row['true of']} of {row['changes']} changes" for row in rows) or "not run"
