"""RQ3: the CPU time of a follow-up by each change, and of retraining."""

# TG-23

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import mean

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.relation import Rule
from swerve.core.seeding import digest_of, rng_for
from swerve.core.system import System
from swerve.experiments import Row, Setting, TrainingStep, question, table
from swerve.experiments.tigaug.light_campaigns import changed
from swerve.experiments.tigaug.light_mix import ALL, CONTROL
from swerve.experiments.tigaug.light_robustness import PAPER, tested
from swerve.experiments.tigaug.light_runs import LightResults, LightRuns
from swerve.experiments.tigaug.light_training import TrainingArm
from swerve.experiments.tigaug.retrained_lights import retrained
from swerve.methods.tigaug import CONTROL as PASTED_BACK
from swerve.methods.tigaug import rule_name
from swerve.store.files import json_bytes, write_whole
from swerve.train.loop import Checkpoint
from swerve.zoo.lights.light_train import light_cards

TIMES = "times.json"
TIMED = 8  # pictures
MEAN, SLOWEST = "mean", "slowest"


def timing_step(setting: Setting) -> TrainingStep:
    """The measurement: made once, as it is different every time."""
    return TrainingStep(TIMES, _measure, partial(_key, setting), trials=TIMED)


def _key(setting: Setting, one: LightRuns) -> str:
    return digest_of(one.subject.source.fingerprint(), setting.size.changes, setting.seed)


def _measure(one: LightRuns, file: Path, checkpoint: Checkpoint) -> None:
    del checkpoint
    cases = [one.subject.source[key] for key in list(one.subject.source.keys())[:TIMED]]
    seconds = {rule.name: _seconds(rule, cases, one.subject.system) for rule in changed(one).rules}
    write_whole(file, json_bytes({"size": _size(cases), "seconds": seconds}))


def _size(cases: list[Case]) -> str:
    pixels = next(iter(cases[0].inputs.values())).pixels  # type: ignore[attr-defined]
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


def _seconds(rule: Rule, cases: list[Case], system: System) -> list[float]:
    """The CPU seconds of each follow-up, proposing it included; those that do not apply are left out."""
    taken = []
    for case in cases:
        started = time.process_time()
        try:
            rule.change.propose(case, rng_for("times", rule.name, case.key), system)(case)
        except NotApplicable:
            continue
        taken.append(time.process_time() - started)
    return taken


@table("rq3", "CPU time of a follow-up", formats={"CPU seconds": ".4f"}, printed=PAPER["rq3"])
def rq3(results: LightResults) -> Iterator[Row]:
    """seconds of CPU to propose and make a follow-up, on one thread, measured once; the paper's are of its own machine"""
    for one in _timed(results):
        numbers = json.loads(one.trained[TIMES].read_text())
        seconds = {change: numbers["seconds"][rule_name(change)] for change in tested(one)}
        means = {change: mean(taken) if taken else None for change, taken in seconds.items()}
        known = [taken for change, taken in means.items() if taken is not None and change != PASTED_BACK]
        first = {"streets": one.streets, "size": numbers["size"]}
        for change, taken in means.items():
            yield {**first, "change": change, "pictures": len(seconds[change]), "CPU seconds": taken}
        for name, found in ((MEAN, mean(known)), (SLOWEST, max(known))) if known else ():
            yield {**first, "change": name, "pictures": None, "CPU seconds": found}


def _timed(results: LightResults) -> list[LightRuns]:
    """The first subject of each set of streets that was timed."""
    first: dict[str, LightRuns] = {}
    for one in results:
        if TIMES in one.trained:
            first.setdefault(one.streets, one)
    return list(first.values())


@table("rq3_training", "CPU time of retraining", optional=True, formats={"growth": ".1%"}, printed=PAPER["rq3_training"])
def training_times(results: LightResults) -> Iterator[Row]:
    """CPU minutes of each training. growth: trained anew, the minutes relative to the same training without changed
    pictures, as in the paper; trained further, the added minutes relative to the detector's own training"""
    for one in retrained(results):
        minutes = {arm: numbers_of(one, arm)["minutes"] for arm in one.arms() if not arm.natural}
        whole = _whole(one, minutes)
        growths = {arm: _growth(spent, whole, anew=one.setting.options["scratch"]) for arm, spent in minutes.items()}
        for arm, spent in minutes.items():
            count = numbers_of(one, arm)["pictures"]
            yield {**one.key, "mixed in": arm.name, "pictures": count, "CPU minutes": spent, "growth": growths[arm]}
        of_changes = [arm for arm in minutes if arm.mixed not in (CONTROL, ALL)]
        known = [growth for arm in of_changes if (growth := growths[arm]) is not None]
        spent = mean(minutes[arm] for arm in of_changes)
        cells = {"CPU minutes": spent, "growth": mean(known) if known else None}
        yield {**one.key, "mixed in": MEAN, "pictures": None, **cells}


def numbers_of(one: LightRuns, arm: TrainingArm) -> dict[str, float]:
    """What was recorded beside the weights of an arm: minutes and pictures."""
    found: dict[str, float] = json.loads(one.trained[arm.weights].with_suffix(".json").read_text())
    return found


def _whole(one: LightRuns, minutes: dict[TrainingArm, float]) -> float | None:
    """The CPU minutes that growth is relative to."""
    if one.setting.options["scratch"]:
        return next((spent for arm, spent in minutes.items() if arm.mixed == CONTROL), None)
    card = light_cards().get(one.detector)
    return float(card["training_cpu_minutes"]) if card else None


def _growth(spent: float, whole: float | None, *, anew: bool) -> float | None:
    if not whole:
        return None
    return spent / whole - 1 if anew else spent / whole


@question("RQ3: what do follow-ups and retraining cost?", rq3, training_times)
def what_it_costs(results: LightResults) -> str:
    """CPU seconds of a change, and CPU minutes of a training."""
    rows = {row["change"]: row["CPU seconds"] for row in rq3.rows(results)}
    if rows.get(MEAN) is None:
        return "not measured"
    return f"{rows[MEAN]:.3f} CPU seconds a follow-up on average, {rows[SLOWEST]:.3f} with the slowest change"
