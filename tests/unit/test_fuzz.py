"""The search for points that hide an obstacle: points offered, weakest first, bred towards a loss, shrunk to the fewest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.analysis.numbers import numbers_of
from swerve.cli.main import main
from swerve.config.toml import build_change
from swerve.config.trust import OWN
from swerve.core.campaign import Campaign, Observation, Plan, Record, Trial
from swerve.core.case import Case
from swerve.core.encode import encode_change
from swerve.core.errors import InputError, NotApplicable
from swerve.core.region import distance, inside, outside
from swerve.core.relation import Rule, Status, Verdict
from swerve.core.space import OneOf, Sequenced
from swerve.core.values import Boxes3D, PointCloud
from swerve.execution.engine import run
from swerve.execution.shrink import Parted
from swerve.methods.lidar import lidar
from swerve.search.fuzz import Fuzz, FuzzSession, beams, left_of
from swerve.store.artifacts import shrunk_of
from swerve.store.view import JOURNAL, Run
from swerve.testing import MemoryLedger
from swerve.transformations.insert import Insertions
from swerve.transformations.scatter import OfferPoints, PlacePoints
from tests.fixture_sweeps import points_of, road, sweep_case
from tests.quality.test_lidar_identity import ABOVE, BACKGROUND, ROAD, Sound, Sweeps, said, without

places = st.tuples(*[st.floats(-60, 60, width=32)] * 2, st.floats(-9, 9, width=32), st.floats(0, 1, width=32))


# --- points offered ------------------------------------------------------------------------------------------------------


@given(st.lists(places, min_size=1, max_size=30))
@settings(deadline=None)
def test_offered_points_lie_outside_or_are_left_out(at: list[tuple[float, float, float, float]]) -> None:
    case = sweep_case()
    before = points_of(case)
    free = outside(road(), np.array(at)[:, :2].astype(np.float32))
    if not free.any():
        with pytest.raises(NotApplicable, match="none of the"):
            OfferPoints(tuple(at))(case)
        return
    made = OfferPoints(tuple(at))(case)
    after = points_of(made)
    assert after[: len(before)].tobytes() == before.tobytes()
    added = after[len(before) :]
    assert (added[:, :2] == np.array(at, np.float32)[free, :2]).all()
    assert not inside(road(), added[:, :2]).any()
    assert (added[:, 2:] >= before[:, 2:].min(axis=0)).all()
    assert (added[:, 2:] <= before[:, 2:].max(axis=0)).all()
    assert (made.facts["added"], made.facts["inside"]) == (free.sum(), 0)


@given(st.lists(places, min_size=1, max_size=10))
@settings(deadline=None)
def test_placed_points_are_the_very_same(at: list[tuple[float, float, float, float]]) -> None:
    """What a search offers can be told as points placed one by one, whose own checks they pass."""
    case = sweep_case()
    offer = OfferPoints(tuple(at))
    try:
        made = offer(case)
    except NotApplicable:
        return
    again = offer.to_place_points(case)
    assert isinstance(again, PlacePoints)
    assert points_of(again(case)).tobytes() == points_of(made).tobytes()


@given(st.lists(places, min_size=1, max_size=30), st.sampled_from((0.5, 2.0, 10.0)))
@settings(deadline=None)
def test_offered_points_lie_as_near_as_they_must(at: list[tuple[float, float, float, float]], near: float) -> None:
    case = sweep_case()
    xy = np.array(at, np.float32)[:, :2].astype(np.float64)
    free = outside(road(), xy) & (distance(road(), xy) <= near)
    if not free.any():
        with pytest.raises(NotApplicable, match=f"points offered lies outside the region, at most {near:g} m from it"):
            OfferPoints(tuple(at), near=near)(case)
        return
    made = OfferPoints(tuple(at), near=near)(case)
    assert (points_of(made)[len(points_of(case)) :, :2] == xy[free].astype(np.float32)).all()
    assert made.facts["added"] == free.sum()


def test_shares_span_the_intensities() -> None:
    case = sweep_case()
    low, high = points_of(case)[:, 3].min(), points_of(case)[:, 3].max()
    added = points_of(OfferPoints(((0, 30, 0, 0), (0, 30, 0, 1), (0, 30, 0, 0.5)))(case))[-3:, 3]
    assert (added[0], added[1]) == (low, high)
    assert added[2] == pytest.approx((low + high) / 2, abs=1e-6)


def test_offers_shrink_by_their_points() -> None:
    offer = OfferPoints(((0, 30, 0, 0), (1, 30, 0, 0), (2, 30, 0, 0)))
    assert isinstance(offer, Parted)
    assert offer.with_parts(offer.parts()[:1]) == OfferPoints(((0, 30, 0, 0),))
    assert [len(easier.at) for easier in offer.simpler()] == [2, 1]  # type: ignore[attr-defined]
    assert offer.words() == "3 points offered outside the region"
    assert OfferPoints(offer.at[:1]).words() == "1 point offered outside the region"
    assert replace(offer, near=5).words() == "3 points offered outside the region, at most 5 m from it"


def test_offer_reads_back_from_the_journal() -> None:
    offer = OfferPoints(((0.1, 30.2, 0.3, 0.4),), outside=road(), near=2.5)
    assert build_change(encode_change(offer), OWN) == offer


def test_bad_offers_are_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        OfferPoints(((0, 0, 0, 1.5),))
    with pytest.raises(ValueError, match="finite numbers"):
        OfferPoints(((0, 0, math.nan, 0.5),))
    nothing = OfferPoints(())
    case = sweep_case()
    assert points_of(nothing(case)) is points_of(case)
    with pytest.raises(NotApplicable):
        OfferPoints(((0, 30, 0, 0),)).to_place_points(Case("bare", {"lidar": case.inputs["lidar"]}))
    with pytest.raises(NotApplicable):
        OfferPoints(((0, 30, 0, 0),)).to_place_points(
            Case("empty", {"lidar": PointCloud(np.zeros((0, 4))), "region": road()})
        )


# --- what is left of an obstacle -----------------------------------------------------------------------------------------


def boxes(*rows: tuple[float, float, float]) -> Boxes3D:
    """Cars at (x, y) with a score."""
    numbers = [[x, y, 0, 4, 2, 1.5, 0] for x, y, _ in rows]
    return Boxes3D(np.array(numbers, float).reshape(-1, 7), ("car",) * len(rows), np.array([score for *_, score in rows]))


def record(before: Boxes3D, after: Boxes3D | None, status: Status = Status.HELD) -> Record:
    said_after = () if after is None else (after,)
    return Record(Trial("a", "r", 0), Verdict(status, 0.0), None, (before,), said_after)


def test_untouched_obstacle_is_left_whole() -> None:
    assert left_of(record(boxes((5, 0, 0.8)), boxes((5, 0, 0.8))), 0) == pytest.approx(1)


def test_less_is_left_of_a_lower_score_and_of_a_moved_box() -> None:
    before = boxes((5, 0, 0.8), (25, 0, 0.5))
    fainter = left_of(record(before, boxes((5, 0, 0.4), (25, 0, 0.5))), 0)
    assert fainter == pytest.approx(0.5)
    shifted = left_of(record(before, boxes((6, 0, 0.8), (25, 0, 0.5))), 0)
    assert shifted == pytest.approx(3 / 5)  # IoU of boxes 4 m long, one of them a metre ahead
    assert left_of(record(before, boxes((6, 0, 0.4), (25, 0, 0.5))), 1) == pytest.approx(1)


def test_nothing_is_left_of_a_lost_one() -> None:
    before = boxes((5, 0, 0.8), (25, 0, 0.5))
    assert left_of(record(before, boxes((5, 0, 0.8)), Status.VIOLATED), 1) == 0
    assert left_of(record(before, boxes((5, 0, 0.8)), Status.VIOLATED), 0) == pytest.approx(1)


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.ERROR])
def test_nothing_is_known_of_what_was_not_judged(status: Status) -> None:
    assert left_of(record(boxes((5, 0, 0.8)), None, status), 0) is None


# --- the search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fading(Sound):
    """An obstacle's score falls with every high point outside within `reach` metres; with `most` of them it is gone.

    The fault shows only where many points gather, and the score says how near one is: what breeding can climb.
    """

    reach: float = 6.0
    most: int = 4

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        high = points_of(case)[points_of(case)[:, 2] > ABOVE]
        stray = high[~inside(ROAD, high[:, :2])][:, :2]
        near = (np.hypot(*(boxes.xyzlwhy[:, None, :2] - stray[None]).transpose(2, 0, 1)) < self.reach).sum(axis=1)
        scores = np.clip(0.9 - 0.8 * near / self.most, 0.1, 0.9) - 0.001 * np.arange(len(near))
        kept = np.flatnonzero(near < self.most)
        return Boxes3D(boxes.xyzlwhy[kept], tuple(boxes.kinds[row] for row in kept), scores[kept])


SEARCH = Fuzz(points=12, reach=8.0, per_case=2, targets=4, tries=64, width=8)


def campaign(system: Sound, search: Fuzz = SEARCH, cases: int = 4, seed: int = 1) -> Campaign:
    return lidar(Sweeps(cases), system, n=search.points, near=5.0, search=search, seed=seed)


def searched(given: Campaign) -> tuple[list[Record], FuzzSession]:
    """The records of a whole search, and its session once it was told all of them."""
    ledger = MemoryLedger()
    run(given, ledger)
    found = [item for batch in ledger.batches for item in batch if isinstance(item, Record)]
    seen = {item.case: item for batch in ledger.batches for item in batch if isinstance(item, Observation)}
    assert isinstance(given.search, Fuzz)
    session = given.search.start(Plan(list(seen), given.rules, given.seed, seen, given.inference_batch))
    told = iter(found)
    while trials := session.ask():
        session.tell([next(told) for _ in trials])
    assert next(told, None) is None
    return found, session


def test_one_point_that_is_enough_is_found_for_each() -> None:
    found, session = searched(campaign(Fading(most=1, reach=8.0)))
    hidden = [attack for attack in session.targets if attack.hidden is not None]
    assert len(hidden) == len(session.targets) == SEARCH.targets
    assert min(attack.tries for attack in hidden) == 1
    for attack in hidden:
        hit = next(item for item in found if item.trial.draw == attack.hidden)
        assert hit.trial.case == attack.case
        assert hit.verdict.status is Status.VIOLATED
        assert left_of(hit, attack.row) == 0


def test_breeding_beats_chance() -> None:
    """With as many tries, sets led by the answers hide more than sets drawn anew."""
    bred = [searched(campaign(Fading(), seed=seed))[1] for seed in range(2)]
    chance = [searched(campaign(Fading(), replace(SEARCH, follow="chance"), seed=seed))[1] for seed in range(2)]
    hidden = [sum(attack.hidden is not None for session in some for attack in session.targets) for some in (bred, chance)]
    assert hidden[0] > hidden[1]


def test_search_keeps_to_the_rule_s_number_and_border() -> None:
    given_campaign = lidar(Sweeps(3), Fading(), n=8, near=2.0, search=SEARCH, seed=1)
    assert given_campaign.rules[0].name == "up to 8 points outside, within 2 m"
    found, _ = searched(given_campaign)
    made = [item for item in found if item.verdict.status is not Status.SKIPPED]
    assert made
    for item in made:
        assert isinstance(item.change, OfferPoints)
        assert (len(item.change.at), item.change.near) == (8, 2.0)
        assert 1 <= item.facts["added"] <= 8  # type: ignore[operator]
        placed = item.change.to_place_points(Sweeps(3)[item.trial.case])
        assert (distance(ROAD, np.array(placed.at)[:, :2]) <= 2).all()


def test_search_makes_its_own_changes_whatever_the_rule_would_draw() -> None:
    """A rule whose space reads the case is not asked for changes: the points follow from the answers."""
    plain = campaign(Fading(), cases=2)
    reading = OneOf((Insertions(("car",)), Sequenced((Insertions(("car",)), Insertions(("pedestrian",))))))
    found, _ = searched(replace(plain, rules=(Rule("rule", reading, plain.rules[0].expect),)))
    assert {type(item.change) for item in found} == {OfferPoints}
    assert {item.verdict.status for item in found} >= {Status.HELD, Status.VIOLATED}
    assert Status.ERROR not in {item.verdict.status for item in found}


def test_sound_system_is_searched_in_vain() -> None:
    found, session = searched(campaign(Sound()))
    assert {item.verdict.status for item in found} <= {Status.HELD, Status.SKIPPED}
    assert all(attack.hidden is None for attack in session.candidates)
    assert all(attack.tries == SEARCH.tries for attack in session.targets)
    assert sum(attack.tries for attack in session.candidates) == len(found)


def test_weakest_are_scouted_first() -> None:
    """As far from the sensor and as large as each other, they are told apart by their scores."""
    keys = ("a", "b")
    scores = {"a": (0.9, 0.2, 0.5), "b": (0.3, 0.8)}
    ring = [(20 * math.cos(turn), 20 * math.sin(turn)) for turn in (0, 1, 2)]
    seen = {
        key: Observation(key, "", answer=(boxes(*((*ring[place], score) for place, score in enumerate(scores[key]))),))
        for key in keys
    }
    session = SEARCH.start(Plan(keys, campaign(Sound()).rules, 0, seen, 8))
    assert [(attack.case, attack.row, attack.score) for attack in session.candidates] == [
        *(("a", 1, 0.2), ("b", 0, 0.3), ("a", 2, 0.5), ("b", 1, 0.8)),
    ]
    for trial, attack in zip(session.ask(), session.candidates, strict=True):
        assert trial.case == attack.case
        assert isinstance(trial.change, OfferPoints)
        away = np.array(trial.change.at)[:, :2] - attack.box[:2]
        assert (np.hypot(*away.T) <= SEARCH.reach + 1e-4).all()


def test_fewer_beams_make_weaker() -> None:
    """Twice as far away is a quarter of the beams, half as high is half of them; the sensor's own place is no pole."""
    rows = [[10, 0, 0, 4, 2, 1.5, 0], [20, 0, 0, 4, 2, 1.5, 0], [0, 10, 0, 4, 2, 0.75, 0], [0, 0, 0, 1, 1, 1, 0]]
    assert beams(Boxes3D(np.array(rows, float), ("car",) * 4)).tolist() == [0.09, 0.0225, 0.045, 2.0]
    far = Observation("a", "", answer=(boxes((10, 0, 0.5), (40, 0, 0.6)),))
    session = SEARCH.start(Plan(["a"], campaign(Sound()).rules, 0, {"a": far}, 8))
    assert [attack.row for attack in session.candidates] == [1, 0]


def test_what_no_label_knows_is_left_alone() -> None:
    """A ghost is easily hidden, and it is no loss; without labels every obstacle counts."""
    said_boxes, truth = boxes((10, 0, 0.1), (40, 0, 0.9)), boxes((40.5, 0, 1.0))
    seen = {"a": Observation("a", "", truth=(truth,), answer=(said_boxes,))}
    for known, rows in ((True, [1]), (False, [0, 1])):
        session = replace(SEARCH, known=known).start(Plan(["a"], campaign(Sound()).rules, 0, seen, 8))
        assert sorted(attack.row for attack in session.candidates) == rows


def test_obstacle_without_care_is_nobody_s_target() -> None:
    careless = replace(boxes((5, 0, 0.1), (15, 0, 0.9)), care=np.array([False, True]))
    session = SEARCH.start(Plan(["a"], campaign(Sound()).rules, 0, {"a": Observation("a", "", answer=(careless,))}, 8))
    assert [attack.row for attack in session.candidates] == [1]


def test_those_nearest_to_a_loss_are_targets() -> None:
    _, session = searched(campaign(Fading(), replace(SEARCH, targets=2, tries=1), cases=5))
    judged = [attack for attack in session.candidates if attack.sets]
    worst = sorted(attack.left for attack in judged)[:2]
    assert [attack.left for attack in session.targets] == worst
    assert all(attack.tries == 1 for attack in session.candidates)


def test_same_seed_same_search_and_another_seed_another() -> None:
    changes = [[item.change for item in searched(campaign(Fading(), seed=seed))[0]] for seed in (1, 1, 2)]
    assert changes[0] == changes[1] != changes[2]


@pytest.mark.parametrize(
    "wrong", [{"points": 0}, {"reach": 0.0}, {"reach": math.inf}, {"tries": True}, {"width": 0}, {"follow": "luck"}]
)
def test_wrong_numbers_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Fuzz(**wrong)  # type: ignore[arg-type]


def test_search_wants_one_rule_and_boxes() -> None:
    with pytest.raises(InputError, match="exactly one rule"):
        run(lidar(Sweeps(1), Sound(), search=Fuzz()), MemoryLedger())
    with pytest.raises(InputError, match="answers with Boxes3D"):
        Fuzz().start(Plan(["a"], campaign(Sound()).rules, 0, {"a": Observation("a", "")}, 8))


# --- the whole way: search, shrink, replay -------------------------------------------------------------------------------

CAMPAIGN = """
method = "lidar"
n = 12
near = 5.0
seed = 1
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = 3
[system]
use = "tests.unit.test_fuzz:Fading"
most = 2
[search]
use = "fuzz"
points = 12
reach = 8.0
targets = 2
tries = 64
"""


def test_fewest_points_of_a_find_are_as_many_as_it_takes(tmp_path: Path) -> None:
    """An obstacle that two points hide is found by a dozen, shrunk to two, and replayed."""
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    folder = tmp_path / "run"
    assert main(["run", str(tmp_path / "campaign.toml"), "--into", str(folder), "--workers", "0", "--force"]) == 1
    whole = (folder / JOURNAL).read_bytes()
    findings = list(Run(folder).findings())
    told = numbers_of(Run(folder))
    assert not told.overall.sampled  # an adaptive search is no sample: no interval anywhere
    assert told.headline.endswith(
        "judged trials violated their rule; the search adapted to earlier results, so this is not a failure rate."
    )
    assert main(["report", str(folder)]) == 0
    assert "Wilson" not in (folder / "report" / "index.html").read_text()
    assert main(["shrink", str(folder), "--all", "--workers", "0"]) == 0
    for finding in findings:
        made = shrunk_of(Run(folder), finding.id)
        assert made is not None
        assert (made.finding.facts["added"], made.finding.facts["inside"], made.finding.facts["lost"]) == (2, 0, 1)
    assert main(["replay", str(folder), findings[0].id, "--shrunk"]) == 0
    cut_and_resumed(folder, tmp_path / "campaign.toml", whole)


@dataclass(frozen=True)
class Distracted(Sound):
    """Loses its last obstacle to five points or more, and its first to fewer: less of a change is another loss."""

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        added = len(points_of(case)) - BACKGROUND - 8 * len(boxes.kinds)
        return boxes if added <= 0 else without(boxes, len(boxes.kinds) - 1 if added >= 5 else 0)


def test_shrunk_points_lose_the_same_obstacle(tmp_path: Path) -> None:
    """One point would do for another obstacle; the one that was lost takes five."""
    text = CAMPAIGN[: CAMPAIGN.index("[system]")] + '[system]\nuse = "tests.unit.test_fuzz:Distracted"\n'
    (tmp_path / "campaign.toml").write_text(text)
    folder = tmp_path / "run"
    assert main(["run", str(tmp_path / "campaign.toml"), "--into", str(folder), "--workers", "0", "--force"]) == 1
    assert main(["shrink", str(folder), "--all", "--workers", "0"]) == 0
    findings = list(Run(folder).findings())
    assert len(findings) == 3
    for finding in findings:
        made = shrunk_of(Run(folder), finding.id)
        assert made is not None
        assert finding.facts["lost_rows"] == made.finding.facts["lost_rows"] != "0"
        assert made.finding.facts["added"] == 5


def cut_and_resumed(folder: Path, campaign_file: Path, whole: bytes) -> None:
    """A search that was stopped anywhere goes on to the same bytes."""
    lines = whole.splitlines(keepends=True)
    for share in (0.3, 0.7):
        (folder / JOURNAL).write_bytes(b"".join(lines[: int(len(lines) * share)]))
        (folder / "summary.json").unlink(missing_ok=True)
        assert main(["run", str(campaign_file), "--into", str(folder), "--workers", "0", "--force"]) == 1
        assert (folder / JOURNAL).read_bytes() == whole


def test_fakes_lose_what_they_should() -> None:
    case = Sweeps(1)["sweep-0"]
    there = said(points_of(case), ROAD)
    x, y = there.xyzlwhy[0, :2]
    beside = PlacePoints(tuple((float(x), float(np.sign(y) * 6.6), 0.0, 0.5) for _ in range(2)))
    fewer = Fading(reach=20, most=2)([beside(case)])[0][0]
    assert isinstance(fewer, Boxes3D)
    assert _rows(fewer) <= _rows(without(there, 0))


def _rows(given: Boxes3D) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.asarray(given.xyzlwhy).tolist()}
