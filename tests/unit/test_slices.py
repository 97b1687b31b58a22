"""Slices of a run: what labels and metadata say of cases, and conditions on it as users write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.analysis.overview import overview_of
from swerve.analysis.slices import CaseTable, label_columns, metadata_of
from swerve.analysis.where import Where
from swerve.core.campaign import Observation
from swerve.core.case import columns_of
from swerve.core.encode import encode
from swerve.core.errors import InputError
from swerve.core.values import Boxes2D, Boxes3D, Steering, Value
from swerve.sources.listed import plain_facts
from swerve.sources.subset import Subset
from swerve.store.files import json_bytes
from swerve.store.view import Run
from swerve.testing import FakeSource
from tests.fixture_runs import Made, finding, held


def told(*values: Value) -> dict[str, Any]:
    return label_columns(encode(values))


@pytest.mark.parametrize(
    ("degrees", "curve"), [(5.0, "straight"), (-5.0, "straight"), (5.1, "left"), (-5.1, "right"), (0.0, "straight")]
)
def test_steering_tells_the_curve(degrees: float, curve: str) -> None:
    assert told(Steering(degrees)) == {"curve": curve}


def test_boxes_tell_size_and_light() -> None:
    boxes = np.array([[0, 0, 100, 100], [0, 0, 31, 32]], dtype=float)
    assert told(Boxes2D(boxes, ("red", "red"))) == {"light state": "red", "smallest object": "below 32² px"}
    assert told(Boxes2D(boxes, ("red", "go"))) == {"light state": "several", "smallest object": "below 32² px"}
    assert told(Boxes2D(boxes[:1], ("car",))) == {"smallest object": "96² px or more"}
    assert told(Boxes2D(boxes[:0], ())) == {"smallest object": "no object"}


def test_solid_boxes_tell_the_distance() -> None:
    boxes = np.array([[9.0, 12.0, 0, 4, 2, 2, 0], [40, 0, 0, 4, 2, 2, 0]])
    assert told(Boxes3D(boxes, ("car", "car"))) == {"nearest object": "15 to 30 m"}  # exactly 15 m away
    assert told(Boxes3D(boxes[1:], ("car",))) == {"nearest object": "30 m or more"}


def run_of(folder: Path, metadata: dict[str, dict[str, Any]]) -> Run:
    """Cases a, b and c, of which a and b fail once, b also holds twice."""
    seen = [Observation(case, "", (Steering(20.0 if case == "a" else 0.0),), (Steering(0.0),)) for case in "abc"]
    made = Made([finding("a"), finding("b"), held("b"), held("b"), held("c")], seen)
    run = made.write(folder)
    (folder / "cases.json").write_bytes(json_bytes(metadata))
    return run


def test_slices_count_trials_of_their_cases(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {"a": {"weather": "rain"}, "b": {"weather": "clear"}, "c": {"weather": "clear"}})
    slices = overview_of(run).cases.slices()
    found = {name: [(one.value, one.cases, one.violated, one.judged) for one in cells] for name, cells in slices.items()}
    assert found == {
        "curve": [("left", 1, 1, 1), ("straight", 2, 1, 4)],
        "weather": [("clear", 2, 1, 4), ("rain", 1, 1, 1)],
    }


def test_torn_metadata_is_none(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {})
    (tmp_path / "run" / "cases.json").write_text('{"a": {"x": [1], "y": 2}, "b": 3')
    assert metadata_of(run) == {}
    (tmp_path / "run" / "cases.json").write_text('{"a": {"x": [1], "y": 2}, "b": 3}')
    assert metadata_of(run) == {"a": {"y": 2}}


def test_many_numbers_are_binned() -> None:
    table = CaseTable({f"c{index}": {"speed": float(index), "name": f"n{index}"} for index in range(100)})
    for index in range(100):
        table.add({"case": f"c{index}", "group": "", "fault": "", "truth": []})
    assert [one.value for one in table.slices()["speed"]] == ["below 25", "25 to 50", "50 to 74", "74 or more"]
    assert table.slices_of("c25") == {"speed": "25 to 50"}  # an edge belongs to the upper bin; names are too many
    assert "name" not in table.slices()


@pytest.mark.parametrize(
    ("text", "facts", "holds"),
    [
        ("weather=rainy", {"weather": "rainy"}, True),
        ("weather!=rainy", {"weather": "rainy"}, False),
        ("weather!=rainy", {}, False),
        ("speed > 30", {"speed": 31.0}, True),
        ("speed>=30", {"speed": 30.0}, True),
        ("speed<30", {"speed": 30.0}, False),
        ("speed=30", {"speed": 30.0}, True),
        ("speed>30", {"speed": "fast"}, False),
        ("time of day=dawn/dusk", {"time of day": "dawn/dusk"}, True),
    ],
)
def test_conditions_select_cases(text: str, facts: dict[str, Any], holds: bool) -> None:
    assert Where.parse(text).holds(facts) is holds


def test_bad_conditions_are_named() -> None:
    with pytest.raises(InputError, match="takes COLUMN=VALUE"):
        Where.parse("weather")
    with pytest.raises(InputError, match="did you mean 'weather'"):
        Where.parse("wether=rainy").refuse_unknown(["weather", "speed"])


def test_metadata_is_texts_and_numbers() -> None:
    row = {"weather": "rainy", "speed": "12.5", "gear": 3, "tags": ["a"], "id": 7, "nan": "nan"}
    assert plain_facts(row, without=("id",)) == {"weather": "rainy", "speed": 12.5, "gear": 3.0, "nan": "nan"}
    assert plain_facts(None) == {}


class Told(FakeSource):
    """A source that knows the weather."""

    def columns(self, key: str) -> dict[str, str]:
        return {"weather": f"of {key}"}


def test_wrapped_sources_pass_columns_on() -> None:
    source = Told(count=3)
    key = source.keys()[0]
    assert columns_of(Subset(source, 2), key) == {"weather": f"of {key}"}
    assert columns_of(FakeSource(count=3), key) == {}
