"""The verdict of a run in sentences: every number in it is the run's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.numbers import Failures, Numbers, RuleCounts
from swerve.analysis.overview import overview_of
from swerve.analysis.severity import Curve, Point
from swerve.analysis.verdict import Standing, standing, verdict
from swerve.core.origin import Origin
from swerve.report.words import in_words, title_of
from swerve.transformations.affine import Rotate
from tests.fixture_runs import Made, failed, finding, held


def line(name: str, violated: int, judged: int = 240, *, sampled: bool = True, **origins: int) -> RuleCounts:
    known = {Origin(key.replace("_", "-")): number for key, number in origins.items()} or {Origin.INTRODUCED: violated}
    return RuleCounts(name, judged - violated, violated, origins=known, sampled=sampled)


def numbers(*lines: RuleCounts, errors: int = 0) -> Numbers:
    origins = {origin: sum(one.origins.get(origin, 0) for one in lines) for origin in Origin}
    sampled = all(one.sampled for one in lines)
    counts = (sum(one.held for one in lines), sum(one.violated for one in lines), 0, errors)
    return Numbers(
        "m", 0, 1, 0, True, RuleCounts("all rules", *counts, origins=origins, sampled=sampled), lines, (), Failures()
    )


def curve(rule: str, *values: tuple[float, int]) -> Curve:
    points = tuple(Point(value, bad, 24, bad / 24, 0.0, 1.0) for value, bad in values)
    start = next((f"{value:g}°" for value, bad in values if bad), "")
    return Curve(rule, "degrees", "°", points, None, "", start)


@pytest.mark.parametrize(
    ("violated", "judged", "expected"),
    [
        (0, 0, Standing.UNJUDGED),
        (0, 3, Standing.HOLDS),
        (1, 240, Standing.HOLDS),
        (5, 240, Standing.HOLDS),
        (6, 240, Standing.FAILS),
        (59, 240, Standing.FAILS),
        (62, 240, Standing.BREAKS),
        (2, 2, Standing.BREAKS),
        (1, 2, Standing.FAILS),
    ],
)
def test_standing_is_certain(violated: int, judged: int, expected: Standing) -> None:
    assert standing(line("r", violated, judged)) is expected


def test_adaptive_search_has_no_rate() -> None:
    found = [line("rotate", 200, sampled=False), line("blur", 0, sampled=False)]
    assert [standing(one) for one in found] == [Standing.FAILS, Standing.HOLDS]
    assert verdict(numbers(*found), []) == ("Rotate fails: the search found 200 failing changes.", "Blur holds.")


def test_rules_of_one_change_are_named_together() -> None:
    lines = [
        *(
            line("scale, label", 191),
            line("scale, own answer", 180),
            line("shear, label", 132),
            line("shear, own answer", 118),
        ),
        *(line("blur, label", 0), line("blur, own answer", 0), line("brightness, label", 1), line("sky", 24)),
    ]
    assert verdict(numbers(*lines), [curve("scale, label", (3, 0), (6, 2)), curve("shear, label", (1, 1))]) == (
        "Scale and shear break this system (49–80% of trials fail); scale fails from 6°; "
        "failures start at the mildest change tried: shear 1°.",
        "Sky fails sometimes (10% of trials).",
        "Brightness and blur hold (at most 2.3% may fail, 95% Wilson).",
    )


def test_worst_of_a_name_counts() -> None:
    (only,) = verdict(numbers(line("blur, label", 200), line("blur, own answer", 0)), [])
    assert only == "Blur breaks this system (83% of trials fail)."


def test_many_rules_are_counted() -> None:
    (only,) = verdict(numbers(*(line(f"rule {place}", 0) for place in range(9))), [])
    assert only.startswith("Rule 0, rule 1, rule 2, rule 3, rule 4 and 4 more rules hold")


def test_old_failures_are_doubted() -> None:
    *_, last = verdict(numbers(line("rain", 200, introduced=20, already_wrong=180)), [])
    assert last == "180 of 200 failures were there before the change: the system is wrong on the untouched cases."
    *_, last = verdict(numbers(line("rain", 200, introduced=20, marginal=180)), [])
    assert last == "180 of 200 failures are marginal: the answer hardly moved."
    assert len(verdict(numbers(line("rain", 200, introduced=180, already_wrong=20)), [])) == 1


def test_errors_are_said() -> None:
    *_, last = verdict(numbers(line("rain", 2), errors=7), [])
    assert last == "7 trials ended in an error and are not judged."
    assert verdict(numbers(RuleCounts("rain", errors=7), errors=7), []) == ()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=8))
def test_every_judged_rule_is_in_one_sentence(counts: Sequence[tuple[int, int]]) -> None:
    lines = [line(f"rule{place}x", bad, bad + good) for place, (bad, good) in enumerate(counts)]
    text = " ".join(verdict(numbers(*lines), []))
    judged = [one for one in lines if one.judged]
    named = [one for one in judged if f"ule{one.name[4:]}" in text]
    assert len(named) == len(judged) or "more rules" in text


def test_run_says_where_it_fails(tmp_path: Path) -> None:
    records = [
        *(held(f"c{index}", change=Rotate(3.0)) for index in range(40)),
        *(finding(f"c{index}", change=Rotate(9.0)) for index in range(30)),
        failed("z", "RuntimeError: no"),
    ]
    overview = overview_of(Made(records).write(tmp_path / "run"))
    assert verdict(overview.numbers, overview.curves) == (
        "Rotate breaks this system (43% of trials fail); rotate fails from 9°.",
        "1 trial ended in an error and is not judged.",
    )


def test_title_names_model_and_data() -> None:
    system = {"use": "onnx", "model": "../models/yolox_nano.onnx", "read": ["bgr"]}
    source = {"use": "subset", "count": 24, "source": {"use": "coco", "folder": "data/china-300"}}
    assert title_of({"method": "custom", "system": system, "source": source}) == "yolox_nano.onnx on china-300"
    assert title_of({"system": {"use": "epoch"}, "source": {"use": "world", "drives": 3}}) == "epoch on world"
    assert title_of({"system": {"live": "mine:net"}, "source": None}) == "mine:net (a Python object) on none"


def test_separators_are_quoted() -> None:
    assert in_words({"use": "udacity", "separator": ",", "file": "file"}) == "udacity, separator ',', file"
