"""Everything on the report leads to its findings: rules, points, bars, matrix cells and slices; the address keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swerve.core.campaign import Observation, Record
from swerve.core.values import SceneRef, Steering
from swerve.report.html import write_report
from swerve.store.files import json_bytes
from swerve.store.record_json import record_row
from swerve.transformations.affine import Rotate
from swerve.transformations.rerender import Rerender
from swerve.world.conditions import PRESETS
from tests.fixture_runs import Made, finding, held, keep_pictures, noise

if TYPE_CHECKING:
    from tests.page.conftest import Opener, Visit

pytestmark = pytest.mark.page

CASES = [f"c{index}" for index in range(8)]


def scene(record: Record, weather: str) -> Record:
    """The record with the label of a scene rendered under other weather."""
    return replace(record, truth=(*record.truth, SceneRef("s", PRESETS[weather].numbers())))


def linked_run(folder: Path) -> Path:
    """Rotations that fail at 9° on every case; nights that fail on the four left curves, fogs that hold; one is shrunk."""
    seen = [
        Observation(
            case, "", (Steering(20.0 if place < 4 else 0.0), SceneRef("s", PRESETS["clear"].numbers())), (Steering(3.0),)
        )
        for place, case in enumerate(CASES)
    ]
    turned = [finding(case, "rotation, label", Rotate(9.0), off=10.0 + place) for place, case in enumerate(CASES)]
    mild = [held(case, "rotation, label", Rotate(3.0)) for case in CASES]
    own = [finding(case, "rotation, own answer", Rotate(9.0), off=12.0) for case in CASES[:1]]
    dark = [scene(finding(case, "sky", Rerender("night"), off=15.0), "night") for case in CASES[:4]]
    light = [scene(held(case, "sky", Rerender("night")), "night") for case in CASES[4:]]
    foggy = [scene(held(case, "sky", Rerender("fog")), "fog") for case in CASES]
    run = Made([*turned, *mild, *own, *dark, *light, *foggy], seen).write(folder)
    (folder / "cases.json").write_bytes(json_bytes({case: {"city": "Ulm" if case < "c2" else "Bonn"} for case in CASES}))
    small = finding("c7", "rotation, label", Rotate(4.0), off=6.0)
    for record in (*turned, *dark, small):
        keep_pictures(run, record, noise(1, (320, 160)), noise(2, (320, 160)))
    (folder / "shrunk").mkdir()
    told = {"edges": ["degrees fails at 4°, holds at 3.9°"], "tries": 9, "row": record_row(small)}
    for record in turned:  # whichever represents its group
        (folder / "shrunk" / f"{record.id}.json").write_bytes(json_bytes({"of": record.id, **told}))
    return write_report(run)


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked_run(tmp_path_factory.mktemp("linked") / "run")


def follow(seen: Visit, selector: str) -> list[str]:
    """The cases of the findings that are shown after a click."""
    seen.follow(selector)
    return sorted(set(seen.shown()))


def test_rule_row_shows_its_findings(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    assert follow(seen, "#rules a[href^='#rule=sky']") == ["c0", "c1", "c2", "c3"]
    assert seen.page.input_value("#rule") == "sky"
    assert seen.page.evaluate("location.hash") == "#rule=sky"
    assert (seen.console, seen.refused) == ([], [])


def test_curve_point_shows_its_findings(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    assert seen.texts("#strength h3") == ["rotation", "sky"]  # both rotations in one chart
    assert follow(seen, ".chart a[href*='value=9..9']") == CASES
    assert seen.page.is_visible("#value")
    seen.page.click("#value")  # the filter on the number alone is taken away
    assert seen.page.evaluate("location.hash") == "#rule=rotation%2C+label"


def test_condition_bar_shows_its_findings(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    assert follow(seen, ".chart a[href*='change=']") == ["c0", "c1", "c2", "c3"]
    assert seen.page.text_content("#change") == "rendered again: night ✕"


def test_matrix_cell_shows_its_findings(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    night = seen.page.locator("tr[data-term=night]")
    assert night.locator("td").all_text_contents() == ["", "4 of 8", "4 of 4", "0 of 4"]
    fog = seen.page.locator("tr[data-term=non-precipitating_water_droplets] td").nth(1)
    assert (fog.text_content(), "holds" in str(fog.get_attribute("class"))) == ("0 of 8", True)
    assert seen.page.locator("tr[data-term=dust] td").nth(1).text_content() == "not tried"
    assert follow(seen, "tr[data-term=night] a >> nth=1") == ["c0", "c1", "c2", "c3"]
    assert seen.page.evaluate("location.hash") == "#domain=night&where.curve=left"


def test_slices_filter_too(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    assert follow(seen, "#slices a[href*='Ulm']") == ["c0", "c1"]
    assert seen.page.input_value("[data-facet='where.city']") == "Ulm"


def test_address_keeps_filters_and_order(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    seen.page.select_option("#rule", "rotation, label")
    seen.page.select_option("[data-facet='where.city']", "Bonn")
    seen.page.select_option("#sort", "-margin")
    shown = seen.shown()
    assert shown == ["c2", "c3", "c4", "c5", "c6", "c7"]
    seen.page.reload()
    assert seen.shown() == shown
    assert seen.page.input_value("#sort") == "-margin"
    seen.page.click("#reset")
    assert seen.page.text_content("#shown") == "13 of 13"


def test_facets_count_what_is_left(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    labels = "nodes => nodes.map(node => node.label)"
    assert seen.page.eval_on_selector_all("#rule option", labels)[1:] == [
        "rotation, label (8)",
        "rotation, own answer (1)",
        "sky (4)",
    ]
    seen.page.select_option("[data-facet='where.city']", "Ulm")
    assert seen.page.eval_on_selector_all("#rule option", labels)[1:] == [
        "rotation, label (2)",
        "rotation, own answer (1)",
        "sky (2)",
    ]


def test_columns_sort(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    names = ".rules tbody th[scope] > :is(a, bdi)"
    seen.page.click("#rules thead button >> nth=2")  # violated, the largest first
    assert seen.texts(names) == ["rotation, label", "sky", "rotation, own answer", "all rules"]
    seen.page.click("#rules thead button >> nth=2")
    assert seen.texts(names) == ["rotation, own answer", "sky", "rotation, label", "all rules"]
    seen.page.click("#rules thead button >> nth=0")
    assert seen.texts(names) == ["rotation, label", "rotation, own answer", "sky", "all rules"]


def test_filters_stay_in_sight(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    seen.page.locator(".card").last.scroll_into_view_if_needed()
    for selector in ("nav.sections", "#filters"):
        box = seen.page.locator(selector).bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 120, selector


def test_group_shows_its_smallest_change(linked: Path, visit: Opener) -> None:
    seen = visit(linked)
    group = seen.page.locator(".group[data-shown]").first
    assert "rotated 4° counter-clockwise" in str(group.text_content())
    assert "degrees fails at 4°, holds at 3.9°" in str(group.text_content())
    assert str(group.locator("code").text_content()).endswith(" --shrunk")
    shown = group.get_attribute("data-shown")
    group.locator(".pic").last.click()
    seen.page.wait_for_function("id => document.getElementById('stage').dataset.shown === id", arg=shown)
    assert seen.page.evaluate("location.hash") == f"#finding={shown}"
    assert seen.page.text_content("#place") == "smallest failing change"
    seen.page.reload()
    seen.page.wait_for_function("id => document.getElementById('stage').dataset.shown === id", arg=shown)
