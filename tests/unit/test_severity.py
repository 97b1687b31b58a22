from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis import severity
from swerve.analysis.severity import BINS, MOST_VALUES, Curve, curves

Table = Mapping[float, tuple[int, int]]


def rows(table: Table, use: str = "rotate", name: str = "degrees", **more: Any) -> list[dict[str, Any]]:
    """One row per trial of a table {value: (violated, trials)}."""
    return [
        {"rule": "rule", "status": "violated" if index < bad else "held", "change": {"use": use, **more, name: value}}
        for value, (bad, trials) in table.items()
        for index in range(trials)
    ]


def curve_of(made: Iterable[Mapping[str, Any]], untouched: tuple[int, int] | None = None) -> Curve:
    kept = list(made)
    (curve,) = curves(lambda: iter(kept), {} if untouched is None else {"rule": untouched})
    return curve


def limit(table: Table, use: str = "rotate", name: str = "degrees") -> str:
    return curve_of(rows(table, use, name)).limit


def test_points_count_and_enclose_rate() -> None:
    curve = curve_of(rows({3: (0, 40), 9: (10, 40)}))
    assert [(point.value, point.violated, point.trials, point.rate) for point in curve.points] == [
        (3, 0, 40, 0),
        (9, 10, 40, 0.25),
    ]
    assert all(point.low <= point.rate <= point.high for point in curve.points)
    assert (curve.parameter, curve.unit) == ("degrees", "°")


def test_limit_says_held_first_and_half() -> None:
    assert limit({3: (0, 20), 6: (0, 40), 9: (3, 40), 12: (18, 40), 15: (25, 40), 18: (38, 40)}) == (
        "Held on all 60 trials up to 6° (at 6°: 0 of 40, at most 8.8% may fail, 95% Wilson); "
        "first failures at 9° (3 of 40); more than half fail from 15° on."
    )


def test_limit_of_one_clean_value() -> None:
    said = limit({6: (0, 40), 9: (3, 40)})
    assert said == "Held on all 40 trials up to 6° (at most 8.8% may fail, 95% Wilson); first failures at 9° (3 of 40)."


def test_limit_never_fails() -> None:
    assert limit({3: (0, 40), 30: (0, 40)}) == (
        "Held on all 80 trials up to 30°, the largest change judged (at 30°: 0 of 40, at most 8.8% may fail, 95% Wilson)."
    )


def test_limit_fails_from_smallest() -> None:
    said = limit({3: (1, 40), 6: (30, 40)})
    assert said == "Fails already at 3°, the smallest change judged (1 of 40); more than half fail at 6°."


def test_limit_fails_on_everything() -> None:
    assert limit({3: (4, 4), 6: (4, 4)}) == "Failed on all 8 trials, from 3°, the smallest change judged."


def test_limit_mostly_fails_everywhere() -> None:
    assert limit({3: (3, 4), 6: (4, 4)}).endswith("; more than half fail at every value judged.")


def test_limit_names_the_worst() -> None:
    assert limit({3: (0, 40), 6: (1, 40), 9: (5, 40)}).endswith(
        "first failures at 6° (1 of 40); highest failure rate at 9° (5 of 40)."
    )


def test_limit_admits_a_dip() -> None:
    assert limit({3: (0, 40), 6: (30, 40), 9: (2, 40)}).endswith(
        "more than half fail at 6°, but not at every larger change; not monotonic: 2 of 40 at 9° after 30 of 40 at 6°."
    )


def test_noise_is_no_dip() -> None:
    assert "monotone" not in limit({3: (0, 40), 6: (5, 40), 9: (4, 40)})


def test_negative_range_reads_downwards() -> None:
    curve = curve_of(rows({-1.0: (40, 40), -0.1: (0, 40), -0.4: (3, 40), -0.7: (30, 40)}, "shear", "x"))
    assert [point.value for point in curve.points] == [-0.1, -0.4, -0.7, -1.0]
    assert curve.limit == (
        "Held on all 40 trials down to -0.1 (at most 8.8% may fail, 95% Wilson); "
        "first failures at -0.4 (3 of 40); more than half fail from -0.7 down."
    )


def test_both_ways_are_told_apart() -> None:
    curve = curve_of(rows({-20: (4, 4), -10: (2, 4), 10: (0, 4), 20: (0, 4)}, "brighten", "beta"))
    assert [point.value for point in curve.points] == [-10, 10, -20, 20]
    assert curve.limit == (
        "Above 0: held on all 8 trials up to 20, the largest change judged "
        "(at 20: 0 of 4, at most 49.0% may fail, 95% Wilson). "
        "Below 0: fails already at -10, the smallest change judged (2 of 4); more than half fail at -20."
    )


def test_neutral_value_is_the_class_s() -> None:
    curve = curve_of(rows({0.2: (3, 4), 0.8: (0, 4)}, "contrast", "alpha"))
    assert curve.limit.startswith("Held on all 4 trials down to 0.8")


def test_unit_follows_every_number() -> None:
    assert "up to 10 px (" in limit({10: (0, 4), 20: (4, 4)}, "translate", "x")


def test_unknown_code_has_no_unit() -> None:
    curve = curve_of(rows({-1: (0, 4), -2: (4, 4)}, "nobody.has:This", "k"))
    assert curve.unit == ""
    assert curve.limit.startswith("Held on all 4 trials down to -1 ")


@pytest.mark.parametrize("use", ["", "no-such-name", "os:getcwd", "./data/evil.py:Change", "breaks:Change", None])
def test_code_that_fails_is_no_harm(use: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "breaks.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    assert curve_of(rows({1: (0, 4), 2: (4, 4)}, use, "k")).unit == ""
    assert "breaks" not in sys.modules


def test_untouched_cases_are_told() -> None:
    curve = curve_of(rows({3: (0, 4), 6: (1, 4)}), untouched=(2, 40))
    assert curve.untouched == (2, 40)
    assert curve.limit.endswith("Untouched cases: 2 of 40 already wrong.")


def test_only_judged_trials_count() -> None:
    made = rows({3: (0, 4), 6: (1, 4)})
    extra = [{**made[0], "status": status, "change": None} for status in ("skipped", "error")]
    assert sum(point.trials for point in curve_of([*made, *extra]).points) == 8


def test_nothing_varies_no_curve() -> None:
    made = rows({3: (1, 4)}, seed=True, border="black")
    assert curves(lambda: iter(made)) == []
    assert curves(lambda: iter(())) == []


def test_first_varying_number_is_taken() -> None:
    made = rows({3: (0, 4), 6: (1, 4)}, "nobody.has:This", "second", first=1.0)
    assert curve_of(made).parameter == "second"


def test_declared_parameter_comes_first() -> None:
    made = [
        {**row, "change": {"use": "rotate", "seed": seed, **row["change"]}}
        for seed, row in enumerate(rows({3: (0, 4), 6: (1, 4)}))
    ]
    assert curve_of(made).parameter == "degrees"


def test_chain_names_its_step() -> None:
    inner = rows({3: (0, 4), 6: (1, 4)})
    blur = {"use": "average-blur", "size": 3}
    made = [{**row, "change": {"use": "chain", "steps": [blur, row["change"]]}} for row in inner]
    curve = curve_of(made)
    assert (curve.parameter, curve.unit) == ("steps[1].degrees", "°")
    assert [point.value for point in curve.points] == [3, 6]


def test_trials_without_the_number_are_told() -> None:
    made = [*rows({3: (0, 4), 5: (0, 4)}, "average-blur", "size"), *rows({9: (2, 4)}, "bilateral-blur", "diameter")]
    assert curve_of(made).limit.endswith("4 of 12 trials have no size and are not in the curve; 2 of them failed.")


def test_many_values_are_binned() -> None:
    made = rows({index / 10: (int(index >= 60), 1) for index in range(101)})
    curve = curve_of(made)
    assert [point.value for point in curve.points] == pytest.approx([0.5 + index for index in range(BINS)])
    assert sum(point.trials for point in curve.points) == 101
    assert curve.limit == (
        "Held on all 60 trials up to 6° (at 5° to 6°: 0 of 10, at most 27.8% may fail, 95% Wilson); "
        "first failures at 6° to 7° (10 of 10); more than half fail from 6° on."
    )


def test_few_values_stay_as_they_are() -> None:
    curve = curve_of(rows({index / 7: (0, 1) for index in range(MOST_VALUES)}))
    assert [point.value for point in curve.points] == [index / 7 for index in range(MOST_VALUES)]


def test_order_of_rows_is_no_matter() -> None:
    made = rows({index / 10: (int(index % 3 == 0), 1) for index in range(101)})
    assert curve_of(made) == curve_of(reversed(made))


def test_whole_and_broken_numbers_are_one() -> None:
    made = [*rows({3: (0, 2), 6: (0, 1)}), *rows({3.0: (1, 2)})]
    assert [(point.value, point.trials) for point in curve_of(made).points] == [(3, 4), (6, 1)]


def test_rules_keep_their_own_curve() -> None:
    def trials() -> Iterator[dict[str, Any]]:
        yield from rows({3: (0, 4), 6: (1, 4)})
        yield from ({**row, "rule": "other"} for row in rows({1.5: (0, 4), 2: (1, 4)}, "scale", "x"))

    found = curves(trials, {"other": (1, 4)})
    assert [(curve.rule, curve.parameter, curve.untouched) for curve in found] == [
        ("rule", "degrees", None),
        ("other", "x", (1, 4)),
    ]


def test_run_tells_what_its_own_classes_mean() -> None:
    made = rows({100: (10, 10), 500: (3, 10), 900: (0, 10)}, use="mine:Fog", name="visibility")
    told = {"mine:Fog": {"visibility": {"neutral": 1000.0, "unit": " m"}}}
    (curve,) = curves(lambda: iter(made), {}, told)
    assert [point.value for point in curve.points] == [900, 500, 100]
    assert curve.limit.startswith("Held on all 10 trials down to 900 m")
    assert "first failures at 500 m (3 of 10)" in curve.limit


def test_seed_is_no_strength() -> None:
    """Which draw it was says nothing of how strong the change was, neither alone nor in a chain."""
    made = rows({1: (0, 4), 2: (4, 4)}, "add-points", "seed", n=10)
    assert curves(lambda: iter(made)) == []
    chained = [{**row, "change": {"use": "chain", "steps": [row["change"]]}} for row in made]
    assert curves(lambda: iter(chained)) == []
    made += rows({1: (0, 4), 2: (4, 4)}, "add-points", "seed", n=100)
    assert curve_of(made).parameter == "n"


def test_number_beside_a_seed_has_its_curve() -> None:
    made = [row for seed in range(3) for row in rows({1.0: (0, 4), 2.0: (4, 4)}, "mine:Gust", "speed", seed=seed)]
    assert curve_of(made).parameter == "speed"


def test_seed_that_a_class_declares_is_a_parameter() -> None:
    made = rows({1: (0, 4), 2: (4, 4)}, "mine:Sow", "seed")
    (curve,) = curves(lambda: iter(made), {}, {"mine:Sow": {"seed": {"neutral": 0.0, "unit": " kg"}}})
    assert (curve.parameter, curve.unit) == ("seed", " kg")


@given(
    values=st.lists(st.tuples(st.floats(0, 9, width=16), st.booleans(), st.booleans()), min_size=2, max_size=120),
    most=st.integers(0, 60),
)
def test_many_values_are_counted_in_a_second_pass(values: list[tuple[float, bool, bool]], most: int) -> None:
    """However few values are counted in the first pass, the curve is the same."""
    made = [
        {"rule": "rule", "status": "violated" if bad else "held", "change": {"use": "x", **({"a": value} if has else {})}}
        for value, bad, has in values
    ]
    passes: list[int] = []

    def trials() -> Iterator[dict[str, Any]]:
        passes.append(1)
        return iter(made)

    wanted = curves(trials)
    assert len(passes) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(severity, "MOST_COUNTED", most)
        patch.setattr(severity, "MOST_VALUES", min(most, MOST_VALUES))
        few = curves(trials)
    if most >= MOST_VALUES:
        assert few == wanted
    assert len(passes) in (2, 3)
    total = [sum(point.trials for point in curve.points) for curve in few]
    assert total == [sum(has for _, _, has in values)] * len(few)


def test_direction_is_no_strength() -> None:
    """No angle of a motion blur is milder than another, so none is the first that fails."""
    (curve,) = curves(lambda: iter(rows({10: (1, 8), 90: (6, 8), 170: (0, 8)}, "motion-blur", "angle", size=15)))
    assert (curve.start, curve.brief) == ("", "")
    assert curve.limit == "7 of 24 fail; most at 90° (6 of 8)."
    both = [row for size in (5, 15) for row in rows({10: (1, 4), 90: (3, 4)}, "motion-blur", "angle", size=size)]
    (sized,) = curves(lambda: iter(both))
    assert (sized.parameter, sized.start) == ("size", "5 px")


def test_numbers_are_named_in_plain_words() -> None:
    (rain,) = curves(lambda: iter(rows({0.1: (1, 4), 0.2: (3, 4)}, "rain", "drop_size", amount=0.5)))
    assert (rain.start, rain.axis) == ("drop size 0.1", "drop size")
    (darker,) = curves(lambda: iter(rows({0.1: (0, 1), 0.2: (3, 4)}, "under-expose", "by")))
    assert (darker.start, darker.brief) == ("0.2", "holds up to 0.1, fails from 0.2")
    assert darker.limit.startswith("Held on the only trial up to 0.1 ")


def test_bin_around_neutral_has_one_end() -> None:
    """The mildest bin of turns to either side holds both, so only its stronger end is a limit."""
    turned = {-0.2 + 5.74 * step: (1, 1) for step in range(-5, 6)} | {value / 7: (1, 1) for value in range(-200, 200, 9)}
    (curve,) = curves(lambda: iter(rows(turned, "yaw", "degrees")))
    edges = curve.points[0].value - curve.width / 2, curve.points[0].value + curve.width / 2
    assert edges[0] < 0 < edges[1]
    assert curve.start == f"up to {max(edges):.3g}°"
