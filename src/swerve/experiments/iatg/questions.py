"""IATG's questions: which settings mislead most, whether the explanation beats its rivals, and at which similarity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from swerve.analysis.misleading import ALPHAS, LOWER_ALPHAS, misleading_rates
from swerve.analysis.statistics import Estimate, kappa, pearson, ratio_of_means
from swerve.experiments import Row, box_cells, question, rated, table
from swerve.experiments.iatg import figures
from swerve.experiments.iatg.arms import (
    ADDED,
    AVERAGE,
    COLOUR,
    CONTROL,
    DEEPTEST,
    LARGEST,
    NEAREST,
    OWN_LOOK,
    PASTED,
    RANDOM,
    REAL,
    RERENDERED,
    S1,
    S2,
    SALIENT,
    STRATEGIES,
    SUM,
    TRANSLATED,
    Arm,
    compared,
    is_swap,
)
from swerve.experiments.iatg.misled_runs import Gain, MisledResults, MisledRuns, MisledTest, distance, mean, similarity

BINS, WIDTH = (5, 15, 25, 35, 45), 1.0  # degrees: Table 1 counts angles within one degree of each
LOWER_BINS = (2, 3)  # which the paper does not have
FEWEST = 5  # follow-ups at an angle, from which a sentence tells of them
RATIO = ("ratio", "at least", "at most")
CONTROL_OF: Mapping[str, str] = MappingProxyType({REAL: CONTROL, TRANSLATED: OWN_LOOK})
system_table = partial(table, each="system")
RATIOS = dict.fromkeys(RATIO, ".2f")


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


@system_table("rq2", "The explanation against its rivals", formats=RATIOS)
def rq2(one: MisledRuns) -> Iterator[Row]:
    """mean misleading angles on pictures that both changed: their ratio, and their gap in degrees, with 95% intervals, where
    drives are resampled; control: the mean angle of the same objects pasted back, or drawn as they are"""
    for arm in one.arms:
        if arm.way in (*STRATEGIES, COLOUR) and arm.choice in SALIENT:
            for rival in one.arms:
                if (rival.way, rival.count) == (arm.way, arm.count) and rival.choice not in SALIENT:
                    key = {"way": arm.way, "choice": arm.choice, "objects": arm.count, "rival": rival.choice}
                    control = Arm(CONTROL_OF.get(arm.way, ""), arm.choice, arm.count)
                    own = one.means(control)[0] if control in one.arms else None
                    yield {**key, **_gain(one.gain(arm, rival)), "control": own}


@system_table("strategies", "Real and translated objects beside each other", formats=RATIOS)
def strategies(one: MisledRuns) -> Iterator[Row]:
    """a setting beside another on pictures that both changed, of the measure in the first column; the last two rows are the
    paper's settings S2 and S1"""
    pairs = [(Arm(TRANSLATED, arm.choice, arm.count), arm) for arm in one.arms if arm.way == REAL]
    for measure, of in (("angle", distance), ("similarity", similarity)):
        for arm, beside in (*pairs, (S2, S1)):
            if arm in one.arms:
                yield {"of": measure, "setting": arm.name, "beside": beside.name, **_gain(one.gain(arm, beside, of))}


@system_table("rq3", "Swaps, colours and DeepTest's changes")
def rq3(one: MisledRuns) -> Iterator[Row]:
    """misleading angles without their sign, as box plots without outliers; similarity: the measure in the page's facts. An
    added object makes another scene, so its angles are not compared"""
    for arm in compared(one.arms):
        angle, alike = one.means(arm)
        degrees = [abs(sample.degrees) for sample in one.samples[arm.name]]
        own = {"mean angle": None, **box_cells([])} if arm.way == ADDED else {"mean angle": angle, **box_cells(degrees)}
        yield {"method": arm.name, "tests": len(degrees), **own, "similarity": alike}


@system_table("table1", "Similarity at equal misleading angles", formats={"share": ".2%", **RATIOS})
def table1(one: MisledRuns) -> Iterator[Row]:
    """angles within {WIDTH:g} degree of each, the two lowest being ours; ratio: to the similarity of DeepTest's changes with
    that angle, with its 95% interval, drives resampled"""
    for arm in compared(one.arms, added=False):
        some = one.samples[arm.name]
        for degrees in (*LOWER_BINS, *BINS):
            near = _near(some, degrees)
            share = len(near) / len(some) if some else None
            key = {"method": arm.name, "angle": degrees, "tests": len(near), "share": share}
            alike = mean(list(map(similarity, near)))
            yield {**key, "similarity": alike, **_interval(_beside_deeptest(one, arm, degrees), RATIO)}


def _beside_deeptest(one: MisledRuns, arm: Arm, degrees: float) -> Estimate:
    """The similarity of an arm's follow-ups at a misleading angle, as a share of that of DeepTest's changes."""
    before, after = (_near(one.samples[name], degrees) for name in (DEEPTEST, arm.name))
    groups = _drives(before), _drives(after)
    return ratio_of_means(_similarities(before), _similarities(after), seed=one.setting.seed, groups=groups)


def _similarities(some: Sequence[MisledTest]) -> list[float]:
    return [test.similarity for test in some]


def _near(some: Sequence[MisledTest], degrees: float) -> list[MisledTest]:
    return [test for test in some if abs(distance(test) - degrees) <= WIDTH]


def _drives(some: Sequence[MisledTest]) -> list[str]:
    return [test.group or test.case for test in some]


@table("departure", "Until the car leaves its lane")
def departure(results: MisledResults) -> Iterator[Row]:
    """a heading as wrong as the wheel angle divided by the steering ratio, 0.85 m to either side, 50 km/h; n/a: no ratio"""
    for one in results:
        for alpha in ALPHAS:
            yield {"system": one.name, "wheel": alpha, "out of the lane": one.departure(alpha)}


@system_table(
    "agreement",
    "Pasted and translated objects beside rendered ones",
    formats=dict.fromkeys(("r", "low", "high", "alike", "kappa"), ".2f"),
)
def agreement(one: MisledRuns) -> Iterator[Row]:
    """the same objects of the same pictures, changed in both ways; r: the correlation of the misleading angles with its 95%
    interval; alike: the share of equal verdicts, kappa: beyond chance. rendered and pasted: the very object of the rendered
    swap, cut out and pasted, so that pasting alone differs; real: another object, of the library; translated: drawn from the
    label map; paste-back and drawn as it is: their controls"""
    for choice in SALIENT:
        for count in sorted({arm.count for arm in one.arms if is_swap(arm)}):
            for way in (PASTED, REAL, CONTROL, TRANSLATED, OWN_LOOK):
                if (arm := Arm(way, choice, count)) in one.arms and (true := Arm(RERENDERED, choice, count)) in one.arms:
                    yield {"way": way, "choice": choice, "objects": count, **_agreement(one, arm, true)}


def _gain(found: Gain) -> Row:
    return {"pictures": found.gap.n, **_interval(found.ratio, RATIO), **_interval(found.gap, ("gap", "low", "high"))}


def _interval(found: Estimate, names: Sequence[str]) -> Row:
    return dict(zip(names, (found.value, found.low, found.high), strict=True))


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
    if ratio.value is None or gap.low is None or gap.high is None:
        return f"{one.name}: {gap.why or ratio.why}"
    told = "more" if gap.low > 0 else "less" if gap.high < 0 else "not surely more or less"
    shown = f"x{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of {rival.choice}"
    return f"{one.name}, {arm.way}: {shown}, {told} ({gap.n} pictures)"


@question("Which swaps mislead most?", figures.rates, figures.similarities, rq1, strategies, departure, each=True)
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
    pairs = ((best, Arm(best.way, choice, best.count)) for best in (S1, S2) for choice in (RANDOM, LARGEST, NEAREST))
    return "; ".join(_verdict(one, best, rival) for best, rival in pairs if best in one.arms)


@question(
    "Swaps, colours and DeepTest's changes: how far, and how similar?",
    *(figures.method_angles, figures.method_similarities, figures.scatter, figures.colour_rates, rq3, table1),
    each=True,
)
def how_similar(one: MisledRuns) -> str:
    """semSensFuzz changes the colour of a random object; with the explanation, that of the one with the most heat."""
    told, samples = [_verdict(one, Arm(COLOUR, AVERAGE, 1), Arm(COLOUR, RANDOM, 1))], one.samples
    for degrees in (BINS[0], *LOWER_BINS[::-1]):
        few = min(len(_near(samples[name], degrees)) for name in (S1.name, DEEPTEST))
        equal = _beside_deeptest(one, S1, degrees)
        if few >= FEWEST and equal.value is not None:
            ends, measure = f"({equal.low:.2f} to {equal.high:.2f})", one.setting.options["similarity"]
            told.append(f"at {degrees}°, {measure} of {S1.name} is x{equal.value:.2f} {ends} of DeepTest's")
            break
    return "; ".join(told)


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
