"""The operating domain: conditions that changes bring about, what is tried and what not, and both exports."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from swerve.analysis.odd_export import TABLE, YAML, write_operating_domain
from swerve.analysis.operating_domain import DOMAIN, DomainTally, terms_of_change, terms_of_conditions
from swerve.analysis.slices import CaseTable
from swerve.core.encode import encode
from swerve.core.values import SceneRef, Steering
from swerve.store.view import Run
from swerve.world.conditions import PRESETS, Conditions
from tests.fixture_runs import Made, held

TERMS = {term for attribute in DOMAIN for term in attribute.terms}


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("clear", {"no_rain", "no_snow", "day", "partly_cloudy_few_clouds"}),
        ("rain", {"heavy_rain", "no_snow", "day", "overcast", "wet"}),
        ("fog", {"no_rain", "no_snow", "day", "overcast", "non-precipitating_water_droplets"}),
        ("night", {"no_rain", "no_snow", "night", "partly_cloudy_scattered_clouds"}),
        ("dusk", {"no_rain", "no_snow", "low_ambient", "partly_cloudy_scattered_clouds"}),
        ("snow-night", {"no_rain", "heavy_snow", "night", "overcast", "snow_on_surface"}),
        ("sunshine", {"no_rain", "no_snow", "day", "clear", "sun_ahead"}),
    ],
)
def test_presets_have_their_terms(name: str, terms: set[str]) -> None:
    assert terms_of_conditions(PRESETS[name]) == terms
    assert terms <= TERMS


@pytest.mark.parametrize(("rain", "term"), [(0, "no_rain"), (2.5, "light_rain"), (3, "moderate_rain"), (8, "heavy_rain")])
def test_rain_is_classed_by_its_rate(rain: float, term: str) -> None:
    assert term in terms_of_conditions(Conditions(rain=rain))


def test_changes_of_pictures_bring_conditions_about() -> None:
    chain = {"use": "chain", "steps": [{"use": "fog", "visibility": 75.0}, {"use": "rain", "amount": 0.5}]}
    assert list(terms_of_change(chain)) == ["non-precipitating_water_droplets", "moderate_rain"]
    assert list(terms_of_change({"use": "snow", "severity": 5.0})) == ["heavy_snow"]
    assert not list(terms_of_change({"use": "rotate", "degrees": 9.0}))
    assert not list(terms_of_change({"use": "fog", "visibility": 10_000.0}))
    assert not list(terms_of_change(None))


def labels(name: str, degrees: float = 0.0) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = encode((Steering(degrees), SceneRef("scene", PRESETS[name].numbers())))
    return encoded


def tallied() -> tuple[DomainTally, CaseTable]:
    """Two clear cases, of which the one in a curve fails at night; both are also rotated, which fails."""
    tally, table = DomainTally({"a": {"timeofday": "daytime"}}), CaseTable()
    for case, degrees in (("a", 0.0), ("b", 30.0)):
        row = {"case": case, "group": "", "fault": "", "truth": labels("clear", degrees)}
        tally.add_case(row)
        table.add(row)
    for case, change, weather, status in (
        ("a", "rerender", "night", "held"),
        ("b", "rerender", "night", "violated"),
        ("b", "rotate", "clear", "violated"),
        ("b", "rerender", "fog", "skipped"),
    ):
        tally.add_trial({"case": case, "change": {"use": change}, "truth": labels(weather), "status": status})
    return tally, table


def test_only_what_changed_counts() -> None:
    tally, table = tallied()
    rows = {row.term: row for row in tally.rows(table)}
    night = rows["night"]
    assert (night.violated, night.judged, night.status) == (1, 2, "fails")
    assert [(one.value, one.violated, one.judged) for one in night.cells["curve"]] == [("left", 1, 1), ("straight", 0, 1)]
    assert (rows["day"].status, rows["day"].in_data) == ("in the data", 2)  # a rotation by day says nothing about it
    assert rows["non-precipitating_water_droplets"].status == "not tried"  # skipped
    assert (rows["curves"].in_data, rows["straight_lines"].in_data) == (1, 1)
    assert set(rows) == TERMS


def test_exports_are_whole(tmp_path: Path) -> None:
    run: Run = Made([held("a")]).write(tmp_path / "run")
    (run.folder / "tables").mkdir()
    tally, table = tallied()
    write_operating_domain(run, tally.rows(table))
    content = yaml.safe_load((run.folder / YAML).read_text())
    modules = content["MODULES"]
    assert modules["conditions_that_fail"]["INCLUDE_OR"]["natural_illuminance"] == ["night"]
    listed = [term for module in modules.values() for terms in module["INCLUDE_OR"].values() for term in terms]
    assert sorted(listed) == sorted(TERMS)  # every condition has one status
    place = content["TAXONOMY"]["environmental_conditions"]["illumination"]["natural_illuminance"]
    assert place == ["day", "low_ambient", "night"]
    with (run.folder / TABLE).open() as file:
        rows = [row for row in csv.DictReader(file) if row["condition"] == "night"]
    assert [(row["column"], row["value"], row["judged"], row["violated"]) for row in rows] == [
        ("", "", "2", "1"),
        ("curve", "left", "1", "1"),
        ("curve", "straight", "1", "0"),
    ]
