"""The method: its rules and gates, a perfect detector passes, planted faults are found with their name; states by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from swerve.api import run
from swerve.core.case import Case
from swerve.core.encode import decode_values
from swerve.core.errors import InputError
from swerve.core.relation import Rule
from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Image
from swerve.methods.tigaug import tigaug
from swerve.relations.light_gates import LightsVisible, SnugBoxes
from swerve.report.followups import write_followups
from swerve.search.sweep import Sweep
from swerve.sources.coco import Coco
from swerve.sources.export import export
from swerve.sources.voc import Voc
from swerve.sources.yolo import Yolo
from swerve.store.view import Run
from swerve.testing.contracts import SystemContract
from swerve.transformations.light_changes import NAMES, twelve
from swerve.transformations.weather import Fog
from swerve.zoo.light_states import LightStates, state_in
from tests.fixture_lights import LIT, ReadsDrawnLights, boxes_of, light_case, pixels_of


@dataclass(frozen=True)
class DrawnStreets:
    """Pictures with drawn lights."""

    count: int = 2

    def keys(self) -> Sequence[str]:
        return [f"street {number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        shift = 7 * self.keys().index(key)
        lights = [
            ((60, 400, 156, 690), "red"),
            ((260 + shift, 430, 520, 526), "green"),
            ((640, 330, 736, 640 + shift), "green"),
        ]
        return light_case(lights, size=(1280, 720), key=key, near=True)

    def fingerprint(self) -> str:
        return digest_of("drawn streets", self.count)


@dataclass(frozen=True)
class Faulty(ReadsDrawnLights):
    """Reads drawn lights with a planted fault."""

    fault: str = ""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(self._with_fault(boxes),) for (boxes,) in super().__call__(cases) if isinstance(boxes, Boxes2D)]

    def fingerprint(self) -> str:
        return digest_of("faulty", self.fault)

    def _with_fault(self, boxes: Boxes2D) -> Boxes2D:
        if self.fault == "always red":
            return replace(boxes, kinds=("red",) * len(boxes.kinds))
        flat = boxes.xyxy[:, 2] - boxes.xyxy[:, 0] > boxes.xyxy[:, 3] - boxes.xyxy[:, 1]
        kept = np.flatnonzero(~flat) if self.fault == "no flat lights" else np.arange(len(flat))
        return Boxes2D(boxes.xyxy[kept], tuple(boxes.kinds[row] for row in kept), size=boxes.size)


def rules_of(**how: object) -> dict[str, Rule]:
    return {rule.name: rule for rule in tigaug(DrawnStreets(), ReadsDrawnLights(), **how).rules}  # type: ignore[arg-type]


def test_rules_of_the_profiles() -> None:
    usual = rules_of()
    assert len(usual) == 24
    assert "weather, fog" in usual
    assert "traffic lights, colour, own answer" in usual
    assert isinstance(usual["weather, snow"].gate, LightsVisible)
    assert isinstance(usual["traffic lights, move"].gate, SnugBoxes)
    assert usual["traffic lights, scale"].gate is usual["camera, flare"].gate is None
    paper = rules_of(profile="tigaug-paper")
    assert all(rule.gate is None for rule in paper.values())
    assert getattr(paper["traffic lights, colour"].change, "style", "") == "paper"
    assert list(rules_of(profile="colour-only", against="label")) == ["traffic lights, colour"]
    some = rules_of(changes=("fog", "scale"), against="own answer", curves=True, control=True)
    assert list(some) == [
        "weather, fog, own answer",
        "traffic lights, scale, own answer",
        "control, pasted back, own answer",
        "weather, fog by strength, own answer",
        "traffic lights, scale by strength, own answer",
    ]


@pytest.mark.parametrize("how", [{"profile": "paper"}, {"changes": ("hail",)}, {"against": "nobody"}])
def test_unknown_words_are_refused(how: dict[str, object]) -> None:
    with pytest.raises(InputError, match=str(next(iter(how.values()))).strip("(),'")):
        rules_of(**how)


def test_a_perfect_detector_violates_nothing(tmp_path: Path) -> None:
    campaign = tigaug(DrawnStreets(), ReadsDrawnLights(), control=True, natural=False)
    summary = run(campaign, into=tmp_path / "run", report=False).summary
    assert summary["violated"] == 0
    assert summary["trials"] == 2 * 26


def test_planted_faults_are_found(tmp_path: Path) -> None:
    for fault, change, flaw in (
        ("always red", "colour", "placed object missed"),
        ("no flat lights", "rotate", "placed object missed"),
    ):
        campaign = tigaug(DrawnStreets(), Faulty(fault), changes=(change,), against="label", draws=3)
        finished = run(campaign, into=tmp_path / fault, report=False)
        assert finished.summary["violated"] > 0, fault
        assert {finding.facts["flaw"] for finding in Run(tmp_path / fault).findings()} >= {flaw}


def test_follow_ups_are_exported_with_their_mapped_labels(tmp_path: Path) -> None:
    """What a campaign exports as COCO, YOLO and VOC reads back with the labels that the changes gave."""
    source = DrawnStreets()
    cases = []
    for name in ("colour", "move", "add", "rotate", "scale"):
        for rule in tigaug(source, ReadsDrawnLights(), changes=(name,), against="label").rules:
            change = rule.change.propose(source["street 1"], np.random.default_rng(3), ReadsDrawnLights())
            cases.append(replace(change(source["street 1"]), key=f"street 1 {name}"))
    readers = {
        "coco": lambda folder: Coco(folder, labels="annotations/instances_test.json", images="test"),
        "yolo": lambda folder: Yolo(folder, split="test"),
        "voc": lambda folder: Voc(folder / "test", split="test"),
    }
    for form, reader in readers.items():
        folder = tmp_path / form
        export({"test": cases}, folder, form, kinds=("green", "red"))
        found = reader(folder)
        again = [found[key] for key in found.keys()]
        assert len(again) == len(cases), form
        expected = sorted(_rows(case) for case in cases)
        for ours, theirs in zip(sorted(_rows(case) for case in again), expected, strict=True):
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                assert one[0] == other[0]
                assert np.allclose(one[1:], other[1:], atol=1.0 if form == "voc" else 0.01), form
        assert {pixels_of(case).tobytes() for case in again} == {pixels_of(case).tobytes() for case in cases}


def test_all_follow_ups_of_a_run_are_exported_once(tmp_path: Path) -> None:
    """Both rules judge the same exposure, so it is written once; turned lights are drawn for each rule."""
    campaign = tigaug(DrawnStreets(), Faulty("always red"), changes=("over-exposure", "rotate"), natural=False)
    run(campaign, into=tmp_path / "run", report=False)
    finished = Run(tmp_path / "run")
    distinct = {(row["case"], str(row["change"])) for row in finished.trials() if row["status"] in ("held", "violated")}
    assert write_followups(finished, tmp_path / "all", "coco", every=True) == len(distinct)
    found = Coco(tmp_path / "all", labels="annotations/instances_followups.json", images="followups")
    labels = {row["id"]: decode_values(row["truth"])[0] for row in finished.trials()}
    assert len(found.keys()) == len(distinct) < len(list(finished.trials()))
    for key in found.keys():
        (label,) = (truth for name, truth in labels.items() if name in key)
        assert np.allclose(boxes_of(found[key]).xyxy, label.xyxy, atol=0.01)  # type: ignore[attr-defined]


def _rows(case: Case) -> list[tuple[object, ...]]:
    label = boxes_of(case)
    return sorted((kind, *box) for kind, box in zip(label.kinds, label.xyxy.round(3).tolist(), strict=True))


def test_lights_that_fade_are_refused() -> None:
    case = light_case([((60, 100, 90, 190), "red"), ((400, 120, 440, 240), "green")])
    gate = LightsVisible()
    mild, dense = (Fog(metres, patchiness=0.0, horizon=0.5)(case) for metres in (2000.0, 10.0))
    assert gate.admit(case, mild).why == ""
    assert "cannot be seen" in gate.admit(case, dense).why
    assert 0 <= float(gate.admit(case, dense).facts["least_contrast_kept"]) < 0.2
    grey = np.full_like(pixels_of(case), 150)
    half = grey.copy()
    half[100:190, 60:90] = pixels_of(case)[100:190, 60:90]
    one_left = replace(case, inputs={"camera": Image(half)})
    assert "cannot be seen" in gate.admit(case, one_left).why
    assert LightsVisible(lost=0.5).admit(case, one_left).why == ""
    unlabelled = replace(case, truth=())
    assert gate.admit(unlabelled, unlabelled).why == ""


def test_boxes_far_larger_than_their_lights_are_refused() -> None:
    case = light_case([((60, 100, 90, 190), "red")])
    snug, wide = (twelve()["colour"], replace(boxes_of(case), xyxy=np.array([[5.0, 60, 145, 230]])))
    change = snug.propose(case, np.random.default_rng(0), ReadsDrawnLights())
    assert SnugBoxes().admit(case, change(case)) is None
    loose = replace(case, truth=(wide,))
    change = snug.propose(loose, np.random.default_rng(0), ReadsDrawnLights())
    assert "lamps wide" in (SnugBoxes().admit(loose, change(loose)) or "")
    assert SnugBoxes().admit(case, case) is None


@pytest.mark.parametrize("state", [*LIT, "off"])
@pytest.mark.parametrize("box", [(60, 100, 90, 190), (60, 100, 150, 130), (60, 100, 66, 118)])
def test_states_are_read_off_the_pixels(state: str, box: tuple[int, int, int, int]) -> None:
    case = light_case([(box, state)])
    assert state_in(pixels_of(case), np.array(box)) == state


class TestLightStates(SystemContract):
    def system(self) -> LightStates:
        return LightStates(Nameless())

    def cases(self) -> Sequence[Case]:
        return [light_case([((60, 100, 90, 190), state)], key=state) for state in LIT]

    def test_boxes_get_states(self) -> None:
        answers = self.system()(self.cases())
        assert [boxes.kinds for (boxes,) in answers if isinstance(boxes, Boxes2D)] == [(state,) for state in LIT]
        other = LightStates(Nameless(), kind="car")(self.cases())
        assert [boxes.kinds for (boxes,) in other if isinstance(boxes, Boxes2D)] == [("traffic light",)] * 3


@dataclass(frozen=True)
class Nameless(ReadsDrawnLights):
    """Finds lights without their states."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        found = [boxes for (boxes,) in super().__call__(cases) if isinstance(boxes, Boxes2D)]
        return [(replace(boxes, kinds=("traffic light",) * len(boxes.kinds)),) for boxes in found]


def test_method_names_are_the_twelve() -> None:
    plain = [name.split(", ")[1] for name in rules_of(against="label")]
    assert plain == list(NAMES)
    assert isinstance(tigaug(DrawnStreets(), ReadsDrawnLights()).search, Sweep)
