"""IATG's questions: which settings mislead most, whether the explanation beats its rivals, and at which similarity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from markupsafe import Markup

from swerve.analysis.misleading import ALPHAS, LOWER_ALPHAS, departure_words, misleading_rates, seconds_to_departure_at_wheel
from swerve.experiments import Row, box_cells, chart, question, rated, table
from swerve.experiments.iatg.arms import AVERAGE, COLOUR, CONTROL, DEEPTEST, RANDOM, REAL, RERENDERED, SALIENT, SUM, Arm
from swerve.experiments.iatg.misled_runs import MisledResults, MisledRuns, mean
from swerve.report.charts import Bar, bars

BINS, WIDTH = (5, 15, 25, 35, 45), 1.0  # degrees: Table 1 counts angles within one degree of each
S1 = Arm(REAL, SUM, 3)
SHOWN = ALPHAS[0]
system_table = partial(table, each="system")


@system_table("rq1", "How often and how far the answer moves", formats={"rate": ".1%", "low": ".1%", "high": ".1%"})
def rq1(one: MisledRuns) -> Iterator[Row]:
    """more than alpha degrees of the wheel, to either side; paste-back is the control: the same objects, pasted back"""
    for arm in one.arms:
        if arm.count and arm.way != COLOUR:
            angle, alike = one.means(arm)
            for rate in misleading_rates(one.angles.of(arm.name), (*LOWER_ALPHAS, *ALPHAS)):
                key = {"way": arm.way, "choice": arm.choice, "objects": arm.count, "alpha": rate.alpha}
                counts = {"misled": rate.misled, "tests": rate.tests, "originals": rate.originals}
                yield {**key, **counts, **rated(rate.misled, rate.tests), "mean angle": angle, "similarity": alike}


@system_table("rq2", "The explanation against its rivals", formats={"ratio": ".2f"})
def rq2(one: MisledRuns) -> Iterator[Row]:
    """mean misleading angles on pictures that both changed; gap and 95% interval in degrees, drives resampled"""
    for arm in one.arms:
        if arm.way in (REAL, RERENDERED) and arm.choice in SALIENT:
            for rival in one.arms:
                if (rival.way, rival.count) == (arm.way, arm.count) and rival.choice not in SALIENT:
                    key = {"way": arm.way, "choice": arm.choice, "objects": arm.count, "rival": rival.choice}
                    yield {**key, **_gain(one, arm, rival)}


@system_table("rq3", "Swaps, colours and DeepTest's changes")
def rq3(one: MisledRuns) -> Iterator[Row]:
    """misleading angles without their sign, as box plots without outliers; similarity: the measure in the page's facts"""
    for arm in compared(one):
        angle, alike = one.means(arm)
        degrees = [abs(sample.degrees) for sample in one.samples[arm.name]]
        yield {"method": arm.name, "tests": len(degrees), "mean angle": angle, **box_cells(degrees), "similarity": alike}


@system_table("table1", "Similarity at equal misleading angles", formats={"share": ".2%"})
def table1(one: MisledRuns) -> Iterator[Row]:
    """angles within {WIDTH:g} degree of each"""
    for arm in compared(one):
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


@chart(f"Follow-ups that move the answer by more than {SHOWN:g}°")
def _bars(results: MisledResults) -> Markup:
    groups: dict[str, dict[str, Bar]] = {}
    for one in results:
        for arm in compared(one):
            (rate,) = misleading_rates(one.angles.of(arm.name), (SHOWN,))
            groups.setdefault(arm.name, {})[one.name] = Bar.rate(rate.misled, rate.tests)
    return bars(groups, percent=True)


def compared(one: MisledRuns) -> list[Arm]:
    """The arms of the comparison of methods."""
    wanted = {S1, Arm(REAL, RANDOM, 3), Arm(RERENDERED, SUM, 3), Arm(REAL, AVERAGE, 1), Arm(CONTROL, SUM, 3)}
    return [arm for arm in one.arms if arm in wanted or arm.way in (COLOUR, DEEPTEST)]


def _gain(one: MisledRuns, arm: Arm, rival: Arm) -> Row:
    ratio, gap = one.gain(arm, rival)
    return {"pictures": gap.n, "ratio": ratio, "gap": gap.value, "low": gap.low, "high": gap.high}


def _verdict(one: MisledRuns, arm: Arm, rival: Arm) -> str:
    """A sentence about an arm and its rival, by the interval."""
    ratio, gap = one.gain(arm, rival)
    if ratio is None or gap.low is None or gap.high is None:
        return f"{one.name}: {gap.why or 'no angle of the rival to compare with'}"
    told = "more" if gap.low > 0 else "less" if gap.high < 0 else "not surely more or less"
    return f"{one.name}: x{ratio:.2f} of {rival.choice}, {told} ({gap.low:+.2f}° to {gap.high:+.2f}°, {gap.n} pictures)"


@question("Which swaps mislead most?", rq1, _bars, departure, each=True)
def which_mislead(one: MisledRuns) -> str:
    """IATG replaces the objects that the network's explanation points at, and counts how often the answer moves."""
    angle, _ = one.means(S1)
    control, _ = one.means(Arm(CONTROL, SUM, 3))
    if angle is None or control is None:
        return f"{one.name}: no picture has three objects to replace"
    return (
        f"{one.name}: three real objects move the answer by {angle:.2f}° on average, the same pasted back by {control:.2f}°"
    )


@question("Does the explanation choose better than chance, size or distance?", rq2, each=True)
def is_explanation_better(one: MisledRuns) -> str:
    """The paper compares with random objects alone: three real ones chosen by the explanation misled 2.1 times as often."""
    rivals = [Arm(REAL, choice, 3) for choice in (RANDOM, "largest", "nearest")]
    return "; ".join(_verdict(one, S1, rival) for rival in rivals)


@question("Swaps, colours and DeepTest's changes: how far, and how similar?", rq3, table1, each=True)
def how_similar(one: MisledRuns) -> str:
    """semSensFuzz changes the colour of a random object; with the explanation, that of the one with the most heat."""
    return _verdict(one, Arm(COLOUR, AVERAGE, 1), Arm(COLOUR, RANDOM, 1))
