"""A limit on mAP: a rule fails if it costs more than that, in summary, report, exit code and JUnit alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from swerve.analysis.overview import overview_of
from swerve.analysis.precision_drop import PicturePair, precision_drop
from swerve.analysis.precision_limits import precision_drops
from swerve.api import run
from swerve.cli.run import exit_code
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.encode import decode_values
from swerve.core.errors import InputError
from swerve.core.fail_if import FailIf
from swerve.core.system import Answer
from swerve.core.values import Boxes2D
from swerve.methods.tigaug import tigaug
from swerve.report.html import write_report
from swerve.report.junit import write_junit
from swerve.report.sharing import Sharing
from swerve.report.templating import PAGE
from swerve.store.view import Run
from tests.fixture_lights import ReadsDrawnLights, boxes_of, pixels_of, read_lights
from tests.unit.test_tigaug import DrawnStreets


@dataclass(frozen=True)
class Forgetful(ReadsDrawnLights):
    """Finds all lights of the untouched pictures, and in others all but one."""

    lost: int = 1

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        forgotten = (0 if pixels_of(case).tobytes() in untouched() else self.lost for case in cases)
        return [(first_of(read_lights(pixels_of(case)), lost),) for case, lost in zip(cases, forgotten, strict=True)]

    def fingerprint(self) -> str:
        return f"forgetful {self.lost}"


@cache
def untouched() -> frozenset[bytes]:
    """The pixels of the pictures without a change."""
    streets = DrawnStreets(4)
    return frozenset(pixels_of(streets[key]).tobytes() for key in streets.keys())


def first_of(boxes: Boxes2D, lost: int) -> Boxes2D:
    kept = len(boxes.kinds) - lost
    return Boxes2D(boxes.xyxy[:kept], boxes.kinds[:kept], size=boxes.size)


def turning(lost: int, may_fall: float | None = 0.1) -> Campaign:
    """Lights that are turned, and a detector that then finds fewer of them; drives of one picture."""
    system = Forgetful(lost)
    return tigaug(DrawnStreets(4), system, changes=("rotate",), against="label", map_may_fall=may_fall, seed=2)


def finished(campaign: Campaign, folder: Path) -> tuple[Run, dict[str, Any]]:
    done = run(campaign, into=folder, report=False)
    return Run(folder), dict(done.summary)


def only(summary: dict[str, Any]) -> dict[str, Any]:
    (rule,) = summary["rules"].values()
    return dict(rule["acceptance"])


def test_the_limit_is_a_condition_of_every_rule() -> None:
    assert {rule.fail_if for rule in turning(0, 0.25).rules} == {("map_drop > 0.25",)}
    assert {rule.fail_if for rule in turning(0, None).rules} == {()}
    with pytest.raises(ValueError, match="set against"):
        tigaug(DrawnStreets(), ReadsDrawnLights(), map_may_fall=0.1)
    with pytest.raises(ValueError, match="map_may_fall"):
        turning(0, 1.5)
    assert FailIf.parse("map_drop_low >= 5%").needs_interval
    assert not FailIf.parse("map_drop > 5%").needs_interval


def test_a_perfect_detector_is_within_any_limit(tmp_path: Path) -> None:
    _, summary = finished(turning(0, 0.0), tmp_path / "run")
    acceptance = only(summary)
    assert (acceptance["failed"], acceptance["map"]["drop"], acceptance["undecided"]) == (False, 0, "")
    assert exit_code(summary) == 0


def test_a_planted_loss_is_judged_alike_everywhere(tmp_path: Path) -> None:
    """The loss is what the answers give by hand."""
    folder = tmp_path / "run"
    done, summary = finished(turning(1), folder)
    rows = [row for row in done.trials() if row["status"] in ("held", "violated")]
    source, system = DrawnStreets(4), Forgetful()
    pairs = []
    for row in rows:
        case = source[row["case"]]
        before, truth, after = (decode_values(row[name])[0] for name in ("before", "truth", "after"))
        assert isinstance(before, Boxes2D)
        assert isinstance(truth, Boxes2D)
        assert isinstance(after, Boxes2D)
        assert np.array_equal(before.xyxy, system([case])[0][0].xyxy)  # type: ignore[attr-defined]
        pairs.append(PicturePair(row["case"], boxes_of(case), before, truth, after))
    by_hand = precision_drop(pairs, seed=2)
    acceptance = only(summary)
    assert acceptance["map"]["drop"] == by_hand.drop.value
    assert acceptance["map"]["interval"] == [by_hand.drop.low, by_hand.drop.high]
    assert acceptance["map"]["pictures"] == len(rows)
    assert by_hand.drop.value is not None
    assert acceptance["failed"] == (by_hand.drop.value > 0.1)
    assert acceptance["failed"]
    assert exit_code(summary) == 1
    assert json.loads((folder / "summary.json").read_text())["rules"] == summary["rules"]
    (decided,) = overview_of(done).acceptances.values()
    assert decided.failed
    assert by_hand.words in decided.words
    write_junit(Sharing(done), tmp_path / "junit.xml")
    tests = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    (failure,) = next(one for one in tests if one.get("name", "").startswith("fail_if")).iter("failure")
    assert f"{by_hand.drop.value:.1%}" in failure.get("message", "")
    write_report(done)
    assert by_hand.words in (folder / PAGE).read_text()


def test_findings_within_the_limit_are_tolerated(tmp_path: Path) -> None:
    done, summary = finished(turning(1, 1.0), tmp_path / "run")
    assert summary["violated"] > 0
    assert exit_code(summary) == 0
    write_junit(Sharing(done), tmp_path / "junit.xml")
    assert not list(ElementTree.parse(tmp_path / "junit.xml").iter("failure"))


def test_an_unknown_loss_is_no_pass(tmp_path: Path) -> None:
    """Without labels, without anything found, or with one drive and a condition on the interval, nothing is decided."""
    blind = replace(turning(0, 0.1), system=Blind())
    _, summary = finished(blind, tmp_path / "blind")
    assert only(summary)["undecided"].startswith("map_drop is unknown")
    assert not only(summary)["met"]
    with pytest.raises(InputError, match="fail_if cannot be decided"):
        exit_code(summary)
    campaign = tigaug(DrawnStreets(1), ReadsDrawnLights(), changes=("rotate",), against="label")
    one = replace(campaign, rules=tuple(replace(rule, fail_if=("map_drop_low > 0.1",)) for rule in campaign.rules))
    _, summary = finished(one, tmp_path / "one")
    assert "no interval" in only(summary)["undecided"]


class Blind:
    """Finds nothing."""

    def __call__(self, cases: Any) -> list[Any]:
        return [(Boxes2D(np.zeros((0, 4)), (), size=(1280, 720)),) for _ in cases]

    def fingerprint(self) -> str:
        return "blind"


def test_rows_are_read_only_for_such_conditions(tmp_path: Path) -> None:
    done, _ = finished(turning(0, None), tmp_path / "run")
    assert precision_drops(done) == {}
