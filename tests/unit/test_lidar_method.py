"""MR1 as a campaign: series, designs and checks; planted faults found with recall 1, clean twins never blamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.cli.main import main
from swerve.config.catalog import listing
from swerve.config.registry import resolve
from swerve.config.toml import Builder, build_change, describe, load_campaign
from swerve.config.trust import OWN
from swerve.core.campaign import Campaign, Observation, Plan, Record
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import InputError
from swerve.core.region import inside
from swerve.core.relation import Both, Status
from swerve.core.system import Answer
from swerve.core.values import Boxes3D
from swerve.execution.engine import run
from swerve.methods.lidar import lidar, rule_name
from swerve.relations.boxes import right_boxes, same_boxes
from swerve.relations.sets import NoFewer, Superset
from swerve.report.words import expectation
from swerve.search.fuzz import Fuzz
from swerve.search.series import Series
from swerve.search.sweep import Sweep
from swerve.sources.regions import Regions
from swerve.store.view import Run
from swerve.testing import MemoryLedger
from tests.fixture_sweeps import points_of
from tests.quality.test_lidar_identity import ROAD, Crowded, Sound, Sweeps, said

EXAMPLES = Path(__file__).parents[2] / "examples"


def records(campaign: Campaign) -> list[Record]:
    ledger = MemoryLedger()
    run(campaign, ledger)
    return [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


# --- what the campaign is made of ----------------------------------------------------------------------------------------


def test_default_is_three_paired_series() -> None:
    made = lidar(Sweeps(3), Sound())
    assert [rule.name for rule in made.rules] == ["10 points outside", "100 points outside", "1,000 points outside"]
    assert {type(rule.expect) for rule in made.rules} == {Superset}
    assert (made.search, made.method) == (Sweep(per_case=1), "lidar")
    assert made.source.keys() == Sweeps(3).keys()


def test_one_number_is_one_series() -> None:
    (rule,) = lidar(Sweeps(3), Sound(), n=1, near=2.5).rules
    assert rule.name == rule_name(1, 2.5) == "1 point outside, within 2.5 m"


def test_checks_are_what_they_are_called() -> None:
    expected = {check: lidar(Sweeps(3), Sound(), n=10, check=check).rules[0].expect for check in ("subset", "count", "both")}
    assert expected == {"subset": Superset(), "count": NoFewer(), "both": Both((Superset(), NoFewer()))}
    strict = lidar(Sweeps(3), Sound(), n=10, overlap=0.7, within=0.5).rules[0].expect
    assert strict == Superset(overlap=0.7, within=0.5)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"check": "subsets"}, "did you mean 'subset'"),
        ({"series": "pared"}, "did you mean 'paired'"),
        ({"n": 0}, "'n' must be"),
        ({"n": (10, 10)}, "a list of different ones"),
        ({"n": ()}, "'n' must be"),
        ({"n": (True,)}, "'n' must be"),
        ({"series": "independent", "search": Fuzz()}, "cannot be combined with a search, which chooses its own frames"),
    ],
)
def test_wrong_words_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        lidar(Sweeps(3), Sound(), **wrong)  # type: ignore[arg-type]


def test_area_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'area' must be box or disc"):
        lidar(Sweeps(3), Sound(), n=10, area="square")


# --- designs -------------------------------------------------------------------------------------------------------------


def test_paired_series_share_their_frames() -> None:
    found = records(lidar(Sweeps(20), Sound(), n=(5, 7), frames=6, seed=3))
    frames = {n: {record.trial.case for record in found if record.facts["added"] == n} for n in (5, 7)}
    assert frames[5] == frames[7]
    assert len(frames[5]) == 6


def test_independent_series_share_none() -> None:
    found = records(lidar(Sweeps(20), Sound(), n=(5, 7), frames=6, series="independent", seed=3))
    frames = {n: [record.trial.case for record in found if record.facts["added"] == n] for n in (5, 7)}
    assert [len(set(some)) for some in frames.values()] == [6, 6]
    assert not set(frames[5]) & set(frames[7])


def test_independent_series_share_out_what_there_is() -> None:
    found = records(lidar(Sweeps(9), Sound(), n=(5, 7, 9), series="independent"))
    assert Counter(record.trial.rule for record in found) == {rule_name(n): 3 for n in (5, 7, 9)}
    assert len({record.trial.case for record in found}) == 9


def plan(keys: int, rules: int, seed: int = 0, batch: int = 4) -> Plan:
    campaign = lidar(Sweeps(keys), Sound(), n=tuple(range(1, rules + 1)))
    names = list(Sweeps(keys).keys())
    return Plan(names, campaign.rules, seed, {key: Observation(key, "") for key in names}, batch)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 30), st.integers(0, 5))
@settings(deadline=None)
def test_series_deal_every_rule_its_frames(keys: int, rules: int, frames: int, seed: int) -> None:
    each = frames or keys // rules
    if not 0 < each <= keys:
        with pytest.raises(InputError, match="independent series need"):
            Series(frames).start(plan(keys, rules))
        return
    session = Series(frames).start(plan(keys, rules, seed))
    asked = []
    while trials := session.ask():
        asked += trials
        session.tell([])
    assert len(asked) == session.total == each * rules
    by_rule = [[trial.case for trial in asked if trial.rule == rule_name(n)] for n in range(1, rules + 1)]
    assert all(len(set(some)) == len(some) == each for some in by_rule)
    if each * rules <= keys:
        assert len({case for some in by_rule for case in some}) == each * rules


def test_series_refuse_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="'frames' must be"):
        Series(-1)


# --- planted faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["subset", "count", "both"])
def test_too_many_points_are_found_with_recall_one(check: str) -> None:
    """The fault: more than 40 stray points, and the first obstacle is gone. All of the long series, none of the short."""
    found = records(lidar(Sweeps(30), Crowded(most=40), n=(10, 100), check=check))
    assert len(found) == 60
    for record in found:
        assert (record.verdict.status is Status.VIOLATED) == (record.facts["added"] == 100)


def test_clean_twin_is_never_blamed() -> None:
    found = records(lidar(Sweeps(30), Sound(), check="both", near=5.0))
    assert {record.verdict.status for record in found} == {Status.HELD}
    assert {record.facts["inside"] for record in found} == {0}
    assert {record.facts["added"] for record in found} == {10, 100, 1000}


@dataclass(frozen=True)
class Swap(Sound):
    """Loses its first obstacle for a ghost on the road: as many as before."""

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        if len(points_of(case)) <= len(points_of(Sweeps(30)[case.key.partition("~")[0]])):
            return boxes
        rows = boxes.xyzlwhy.copy()
        rows[0, :2] = 32.0, -5.0
        return Boxes3D(rows, boxes.kinds)


def test_counting_misses_what_the_subset_finds() -> None:
    """D-17: a loss hidden by a ghost."""
    counted, subset = (records(lidar(Sweeps(5), Swap(), n=10, check=check)) for check in ("count", "subset"))
    assert {record.verdict.status for record in counted} == {Status.HELD}
    assert {record.verdict.status for record in subset} == {Status.VIOLATED}
    assert all((record.facts["lost"], record.facts["gained"]) == (1, 1) for record in subset)


def test_points_are_where_the_series_says() -> None:
    for record in records(lidar(Sweeps(4), Sound(), n=50, near=3.0)):
        assert record.change is not None
        case = Sweeps(4)[record.trial.case]
        before, after = points_of(case), points_of(record.change(case))
        assert (after[: len(before)] == before).all()
        assert not inside(ROAD, after[len(before) :, :2]).any()
        assert 0 < record.facts["nearest_border"] <= 3.0  # type: ignore[operator]


# --- any source, any system ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bare:
    """The sweeps without their region, as a folder of clouds has them."""

    count: int

    def keys(self) -> Sequence[str]:
        return Sweeps(self.count).keys()

    def __getitem__(self, key: str) -> Case:
        case = Sweeps(self.count)[key]
        return Case(key, {"lidar": case.inputs["lidar"]}, case.truth)

    def fingerprint(self) -> str:
        return f"bare {self.count}"


def test_corridor_serves_a_source_without_a_map() -> None:
    source = Regions(Bare(4), ahead=34.0, behind=34.0, left=6.0, right=6.0)
    found = records(lidar(source, Sound(), n=10))
    assert {record.verdict.status for record in found} == {Status.HELD}
    skipped = records(lidar(Bare(2), _Anywhere(), n=10))
    assert {record.verdict.status for record in skipped} == {Status.SKIPPED}
    assert "give one to the source" in skipped[0].verdict.why


@dataclass(frozen=True)
class _Anywhere(Sound):
    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(said(points_of(case), ROAD),) for case in cases]


def test_campaign_goes_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "lidar.toml").write_text(
        'method = "lidar"\nn = [10, 100]\nnear = 5.0\ncheck = "both"\nseed = 4\n'
        '[source]\nuse = "tests.quality.test_lidar_identity:Sweeps"\ncount = 6\n'
        '[system]\nuse = "tests.quality.test_lidar_identity:Crowded"\n'
    )
    loaded = load_campaign(str(tmp_path / "lidar.toml"))
    expected = lidar(Sweeps(6), Crowded(), n=(10, 100), near=5.0, check="both", seed=4)
    assert describe(loaded.campaign, tmp_path) == describe(expected, tmp_path)
    assert Builder("", tmp_path).campaign(describe(expected, tmp_path)) == expected
    assert main(["run", str(tmp_path / "lidar.toml"), "--into", str(tmp_path / "run"), "--workers", "0"]) == 1
    rows = list(Run(tmp_path / "run").trials())
    assert {row["status"] for row in rows if row["facts"]["added"] == 100} == {"violated"}
    assert {row["status"] for row in rows if row["facts"]["added"] == 10} == {"held"}


def test_fuzz_is_named_in_a_file(tmp_path: Path) -> None:
    table = {
        "method": "lidar",
        "n": 20,
        "source": {"use": "tests.quality.test_lidar_identity:Sweeps", "count": 2},
        "system": {"use": "tests.quality.test_lidar_identity:Coupled"},
        "search": {"use": "fuzz", "points": 4, "targets": 1},
    }
    made = Builder("", tmp_path).campaign(table)
    assert made.search == Fuzz(points=4, targets=1)
    assert Builder("", tmp_path).campaign({**table, "search": "fuzz"}).search == Fuzz()


def test_names_lead_to_the_right_kind() -> None:
    """`lidar` is a system and a method: `use` means the system, `method` the method."""
    assert resolve("lidar").__module__ == "swerve.zoo.lidar"
    (method,) = (entry for entry in listing("methods")["methods"] if entry.name == "lidar")
    assert "near" in method.arguments
    (system,) = (entry for entry in listing("systems")["systems"] if entry.name == "lidar")
    assert "roi_first" in system.arguments


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("add-points", {"n": 3}),
        ("place-points", {"at": []}),
        ("offer-points", {"at": []}),
        ("shift", {}),
        ("mirror", {}),
        ("drop-beams", {}),
        ("drop-sector", {}),
        ("drop-points", {"share": 0.1}),
        ("jitter", {"sigma": 0.05}),
    ],
)
def test_changes_have_short_names(name: str, more: dict[str, object]) -> None:
    made = build_change({"use": name, **more}, OWN)
    assert resolve(name) is type(made)


def test_what_must_hold_is_said_in_words(tmp_path: Path) -> None:
    rules = describe(lidar(Sweeps(2), Sound(), n=10, check="both", overlap=0.4), tmp_path)["rule"]
    assert expectation(rules[0]["expect"]) == (
        "every object of the source, of the same kind and an IoU of 0.4 or more seen from above (pedestrian and cyclist: "
        "centres at most 1 m apart) and no fewer objects than on the source"
    )
    flat = {"use": "superset", "slot": "boxes2d", "overlap": 0.5}
    assert expectation(flat) == "every object of the source, of the same kind and an IoU of 0.5 or more"
    assert expectation(encode(same_boxes(0.4))) == "the same boxes (an IoU of 0.4 or more) as the answer on the source"
    sure = "the same boxes (an IoU of 0.5 or more, scores of 0.3 or more) as the label"
    assert expectation(encode(right_boxes(least_score=0.3))) == sure


def test_example_file_is_sound() -> None:
    text = (EXAMPLES / "lidar.toml").read_text()
    assert 'method = "lidar"' in text
    for word in ("lidar-world", 'use = "lidar"', "n = [10, 100, 1000]"):
        assert word in text
