"""The paper's figures 9 to 16: rates of misled follow-ups, box plots of angles and similarities, and both as points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from swerve.analysis.misleading import ALPHAS, LOWER_ALPHAS, misleading_rates
from swerve.experiments import chart
from swerve.experiments.iatg.arms import COLOUR, S1, S2, SALIENT, STRATEGIES, Arm, compared
from swerve.experiments.iatg.misled_runs import MisledRuns
from swerve.report.charts import Bar, bars, box_plots, points

ANGLE = "misleading angle, ° of the wheel"


def _settings(one: MisledRuns) -> list[Arm]:
    """The settings of the first question."""
    return [arm for arm in one.arms if arm.way in STRATEGIES and arm.choice in SALIENT]


def _rivals(one: MisledRuns) -> list[Arm]:
    """The settings of the second question: the most misleading one and the most realistic one, each with its rivals."""
    return [
        arm
        for best in (S1, S2)
        for arm in one.arms
        if (arm.way, arm.count) == (best.way, best.count) and (arm == best or arm.choice not in SALIENT)
    ]


def _rates(one: MisledRuns, some: Iterable[Arm]) -> Markup:
    """M1 of each: at the paper's angles, or at lower ones where no follow-up moves the answer that far."""
    angles = {arm.name: one.angles.of(arm.name) for arm in some}
    high = any(rate.misled for own in angles.values() for rate in misleading_rates(own, ALPHAS))
    groups: dict[str, dict[str, Bar]] = {}
    for name, own in angles.items():
        rates = misleading_rates(own, ALPHAS if high else LOWER_ALPHAS)
        groups[name] = {f"more than {rate.alpha:g}°": Bar.rate(rate.misled, rate.tests) for rate in rates}
    return bars(groups, axis="misled follow-ups", percent=True)


def _angles(one: MisledRuns, some: Iterable[Arm]) -> Markup:
    return box_plots({arm.name: [abs(test.degrees) for test in one.samples[arm.name]] for arm in some}, axis=ANGLE)


def _similarities(one: MisledRuns, some: Iterable[Arm]) -> Markup:
    found: Mapping[str, Sequence[float]] = {arm.name: [test.similarity for test in one.samples[arm.name]] for arm in some}
    return box_plots(found, axis=one.setting.options["similarity"])


@chart("{name}: misled follow-ups by setting", "Figure 9 of the paper.", of=list)
def rates(one: MisledRuns) -> Markup:
    """M1 of all settings."""
    return _rates(one, _settings(one))


@chart("{name}: similarity by setting", "Figure 10 of the paper.", of=list)
def similarities(one: MisledRuns) -> Markup:
    """How similar the follow-ups of all settings are."""
    return _similarities(one, _settings(one))


@chart("{name}: misled follow-ups by choice of objects", "Figure 11 of the paper, with two more rivals.", of=list)
def rival_rates(one: MisledRuns) -> Markup:
    """M1 of the explanation and its rivals."""
    return _rates(one, _rivals(one))


@chart("{name}: angles by choice of objects", "Figure 11 of the paper, with two more rivals.", of=list)
def rival_angles(one: MisledRuns) -> Markup:
    """Misleading angles of the explanation and its rivals."""
    return _angles(one, _rivals(one))


@chart("{name}: angles by method", "Figures 12 and 13 of the paper.", of=list)
def method_angles(one: MisledRuns) -> Markup:
    """Misleading angles of the methods."""
    return _angles(one, compared(one.arms, added=False))


@chart("{name}: similarity by method", "Figure 14 of the paper.", of=list)
def method_similarities(one: MisledRuns) -> Markup:
    """How similar the follow-ups of the methods are."""
    return _similarities(one, compared(one.arms))


@chart("{name}: similarity and angle of each follow-up", "Figure 15 of the paper.", of=list)
def scatter(one: MisledRuns) -> Markup:
    """Each follow-up of the methods."""
    found = [(arm.name, test) for arm in compared(one.arms, added=False) for test in one.samples[arm.name]]
    x, y = [test.similarity for _, test in found], [abs(test.degrees) for _, test in found]
    return points(x, y, x=one.setting.options["similarity"], y=ANGLE, kinds=[name for name, _ in found])


@chart("{name}: another colour, with the explanation and without", "Figure 16 of the paper.", of=list)
def colour_rates(one: MisledRuns) -> Markup:
    """M1 of the colour change."""
    return _rates(one, [arm for arm in one.arms if arm.way == COLOUR])
