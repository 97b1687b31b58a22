"""IATG's questions: which settings mislead most, whether the explanation beats its rivals, and at which similarity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from swerve.analysis.misleading import ALPHAS, LOWER_ALPHAS, departure_words, misleading_rates, seconds_to_departure_at_wheel
from swerve.analysis.statistics import kappa, pearson
from swerve.experiments import Row, box_cells, question, rated, table
from swerve.experiments.iatg import figures
from swerve.experiments.iatg.arms import (
    ADDED,
    AVERAGE,
    COLOUR,
    CONTROL,
    PASTED,
    RANDOM,
    REAL,
    RERENDERED,
    S1,
    SALIENT,
    SUM,
    Arm,
    compared,
    is_swap,
)
from swerve.experiments.iatg.misled_runs import MisledResults, MisledRuns, mean

BINS, WIDTH = (5, 15, 25, 35, 45), 1.0  # degrees: Table 1 counts angles within one degree of each
system_table = partial(table, each="system")


@system_table("rq1", "How often and how far the answer moves", formats={"rate": ".1%", "low": ".1%", "high": ".1%"})
def rq1(one: MisledRuns) -> Iterator[Row]:
    """more than alpha degrees of the wheel, to either side; paste-back is the control: the same objects, pasted back"""
    for arm in one.arms:
        if is_swap(arm):
            angle, alike = one.means(arm)
            for rate in misleading_rates(one.angles.of(arm.name), (*LOWER_ALPHAS, *ALPHAS)):
                key = {"way": arm.way, "choice": arm.choice, "objects": arm.count, "alpha": rate.alpha}
                counts = {"misled": rate.misled, "tests": rate.tests, "originals": rate.originals}
                yield {**key, **counts, **rated(rate.misled, rate.tests), "mean angle": angle, "similarity": alike}


@system_table("rq2", "The explanation against its rivals", formats={"ratio": ".2f"})
def rq2(one: MisledRuns) -> Iterator[Row]:
    """mean misleading angles on pictures that both changed; gap and 95% interval in degrees, drives resampled; paste-back:
    the mean angle of the control, the same objects pasted back"""
    for arm in one.arms:
        if arm.way in (REAL, RERENDERED) and arm.choice in SALIENT:
            for rival in one.arms:
                if (rival.way, rival.count) == (arm.way, arm.count) and rival.choice not in SALIENT:
                    key = {"way": arm.way, "choice": arm.choice, "objects": arm.count, "rival": rival.choice}
                    control = one.means(Arm(CONTROL, arm.choice, arm.count))[0] if arm.way == REAL else None
                    yield {**key, **_gain(one, arm, rival), "paste-back": control}


@system_table("rq3", "Swaps, colours and DeepTest's changes")
def rq3(one: MisledRuns) -> Iterator[Row]:
    """misleading angles without their sign, as box plots without outliers; similarity: the measure in the page's facts. An
    added object makes another scene, so its angles are not compared"""
    for arm in compared(one.arms):
        angle, alike = one.means(arm)
        degrees = [abs(sample.degrees) for sample in one.samples[arm.name]]
        own = {"mean angle": None, **box_cells([])} if arm.way == ADDED else {"mean angle": angle, **box_cells(degrees)}
        yield {"method": arm.name, "tests": len(degrees), **own, "similarity": alike}


@system_table("table1", "Similarity at equal misleading angles", formats={"share": ".2%"})
def table1(one: MisledRuns) -> Iterator[Row]:
    """angles within {WIDTH:g} degree of each"""
    for arm in compared(one.arms, added=False):
        some = one.samples[arm.name]
        for degrees in BINS:
            near = [sample.similarity for sample in some if abs(abs(sample.degrees) - degrees) <= WIDTH]
            share = len(near) / len(some) if some else None
            yield {"method": arm.name, "angle": degrees, "tests": len(near), "share": share, "similarity": mean(near)}


@table("departure", "Until the car leaves its lane")
def departure(results: MisledResults) -> Iterator[Row]:
    """a heading as wrong as the wheel angle divided by the steering ratio, 0.85 m to either side, 50 km/h"""
    for one in results:
        convention = getattr(one.subject.system, "convention", None)
        ratio = getattr(convention, "ratio", None)
        for alpha in ALPHAS:
            seconds = seconds_to_departure_at_wheel(alpha, ratio)
            yield {"system": one.name, "wheel": alpha, "ratio": ratio, "seconds": departure_words(seconds)}


@system_table(
    "agreement", "Pasted objects beside rendered ones", formats=dict.fromkeys(("r", "low", "high", "alike", "kappa"), ".2f")
)
def agreement(one: MisledRuns) -> Iterator[Row]:
    """the same objects of the same pictures, changed in both ways; r: the correlation of the misleading angles with its 95%
    interval; alike: the share of equal verdicts, kappa: beyond chance. rendered and pasted: the very object of the rendered
    swap, cut out and pasted, so that pasting alone differs; real: another object, of the library; paste-back: the control"""
    for choice in SALIENT:
        for count in sorted({arm.count for arm in one.arms if is_swap(arm)}):
            for way in (PASTED, REAL, CONTROL):
                if (arm := Arm(way, choice, count)) in one.arms and (true := Arm(RERENDERED, choice, count)) in one.arms:
                    yield {"way": way, "choice": choice, "objects": count, **_agreement(one, arm, true)}


def _gain(one: MisledRuns, arm: Arm, rival: Arm) -> Row:
    ratio, gap = one.gain(arm, rival)
    return {"pictures": gap.n, "ratio": ratio, "gap": gap.value, "low": gap.low, "high": gap.high}


def _agreement(one: MisledRuns, arm: Arm, true: Arm) -> Row:
    pairs = one.pairs(arm, true)
    ours, theirs = ([pair[side].degrees for pair in pairs] for side in (0, 1))
    verdicts = [(first.violated, second.violated) for first, second in pairs]
    found, beyond = pearson(ours, theirs), kappa([first for first, _ in verdicts], [second for _, second in verdicts])
    alike = sum(first == second for first, second in verdicts)
    return {
        "pictures": len(pairs),
        "mean angle": mean([abs(angle) for angle in ours]),
        "rendered": mean([abs(angle) for angle in theirs]),
        **{"r": found.value, "low": found.low, "high": found.high},
        **{"alike": alike / len(pairs) if pairs else None, "kappa": beyond.value},
    }


def _verdict(one: MisledRuns, arm: Arm, rival: Arm) -> str:
    """A sentence about an arm and its rival, by the interval."""
    ratio, gap = one.gain(arm, rival)
    if ratio is None or gap.low is None or gap.high is None:
        return f"{one.name}: {gap.why or 'no angle of the rival to compare with'}"
    told = "more" if gap.low > 0 else "less" if gap.high < 0 else "not surely more or less"
    return f"{one.name}: x{ratio:.2f} of {rival.choice}, {told} ({gap.low:+.2f}° to {gap.high:+.2f}°, {gap.n} pictures)"


@question("Which swaps mislead most?", figures.rates, figures.similarities, rq1, departure, each=True)
def which_mislead(one: MisledRuns) -> str:
    """IATG replaces the objects that the network's explanation points at, and counts how often the answer moves."""
    angle, _ = one.means(S1)
    control, _ = one.means(Arm(CONTROL, SUM, 3))
    if angle is None or control is None:
        return f"{one.name}: no picture has three objects to replace"
    return (
        f"{one.name}: three real objects move the answer by {angle:.2f}° on average, the same pasted back by {control:.2f}°"
    )


@question(
    "Does the explanation choose better than chance, size or distance?",
    *(figures.rival_rates, figures.rival_angles, rq2),
    each=True,
)
def is_explanation_better(one: MisledRuns) -> str:
    """The paper compares with random objects alone: three real ones chosen by the explanation misled 2.1 times as often."""
    rivals = [Arm(REAL, choice, 3) for choice in (RANDOM, "largest", "nearest")]
    return "; ".join(_verdict(one, S1, rival) for rival in rivals)


@question(
    "Swaps, colours and DeepTest's changes: how far, and how similar?",
    *(figures.method_angles, figures.method_similarities, figures.scatter, figures.colour_rates, rq3, table1),
    each=True,
)
def how_similar(one: MisledRuns) -> str:
    """semSensFuzz changes the colour of a random object; with the explanation, that of the one with the most heat."""
    return _verdict(one, Arm(COLOUR, AVERAGE, 1), Arm(COLOUR, RANDOM, 1))


@question("Can pasted objects be trusted?", agreement, each=True)
def can_pasted_be_trusted(one: MisledRuns) -> str:
    """The embedded world renders the scene with the other object, which no picture of a camera can show."""
    if Arm(PASTED, SUM, 1) not in one.arms:
        return f"{one.name}: its pictures cannot be rendered again"
    pairs = [pair for count in (1, 2, 3) for pair in one.pairs(Arm(PASTED, SUM, count), Arm(RERENDERED, SUM, count))]
    found = pearson([first.degrees for first, _ in pairs], [second.degrees for _, second in pairs])
    if found.value is None:
        return f"{one.name}: {found.why}"
    return f"{one.name}: angles of pasted and rendered objects correlate with r = {found.value:.2f} ({found.n} pairs)"
