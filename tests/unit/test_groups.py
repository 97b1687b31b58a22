"""Findings of one fault are one group, and those of two are not: planted faults, counts that add up, flat memory."""

from __future__ import annotations

import csv
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from swerve.analysis import groups as module
from swerve.analysis.exemplars import smallest_words, worth_keeping
from swerve.analysis.groups import CHANGED, FLAWS, failure_modes, family, groups, sorter, symptom
from swerve.analysis.tables import write_groups
from swerve.core.case import Case
from swerve.core.encode import encode, encode_change
from swerve.core.relation import Pair, Verdict
from swerve.core.seeding import digest_of, rng_for
from swerve.core.system import Answer
from swerve.core.transformation import Chain, Transformation, Unchanged
from swerve.core.values import Array, Boxes2D, Group, Signal, Steering
from swerve.relations.boxes import BoxesAlike, Flaw
from swerve.relations.sets import Superset
from swerve.relations.steering import Decrease, SignalWithin, lambda_mse, same_angle
from swerve.store.files import json_bytes
from swerve.store.record_json import Finding, finding_of, record_row
from swerve.store.view import Run
from swerve.transformations.affine import Rotate, Shear
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import Made, Named
from tests.fixture_runs import finding as violated

SAME, LABEL = encode(same_angle(5.0)), encode(lambda_mse(5.0))


def said(before: Answer, after: Answer, truth: Answer = (), facts: Mapping[str, Any] | None = None) -> Finding:
    record = replace(violated("a"), before=before, after=after, truth=truth, facts=facts or {})
    return finding_of(record_row(record))


def boxes(*kinds: str, at: float = 0.0) -> Answer:
    edges = np.array([[40 * place + at, 0, 40 * place + 30 + at, 30] for place in range(len(kinds))], float).reshape(-1, 4)
    return (Boxes2D(edges, kinds, size=(640, 360)),)


@pytest.mark.parametrize(
    ("before", "after", "truth", "expect", "direction"),
    [
        (3.0, 15.0, 3.0, SAME, "further left"),
        (3.0, -15.0, 3.0, SAME, "further right"),
        (-20.0, -8.0, 30.0, SAME, "further left"),  # the label has no say
        (-20.0, -8.0, 30.0, LABEL, "further right"),  # the label alone has
        (-20.0, -8.0, 30.0, None, "further left"),
        (3.0, 3.0, 3.0, SAME, CHANGED),
    ],
)
def test_steering_errs_to_a_side(before: float, after: float, truth: float, expect: object, direction: str) -> None:
    found = said((Steering(before),), (Steering(after),), (Steering(truth),))
    assert symptom(found, expect).direction == direction


def test_label_that_is_missing_is_not_asked() -> None:
    assert symptom(said((Steering(3),), (Steering(9),)), LABEL).direction == "further left"


@pytest.mark.parametrize("expect", [encode(SignalWithin("speed", 1.0)), encode(Decrease("speed"))])
def test_signals_go_up_or_down(expect: object) -> None:
    brake, slow, fast = Signal("brake", 1.0), Signal("speed", 10.0), Signal("speed", 30.0)
    assert symptom(said((Steering(0), brake, slow), (Steering(9), brake, fast)), expect).direction == "higher"
    assert symptom(said((Steering(0), fast), (Steering(9), slow)), expect).direction == "lower"


def test_signal_without_a_name_is_the_one_that_moved() -> None:
    found = said((Signal("brake", 1.0), Signal("speed", 10.0)), (Signal("brake", 1.0), Signal("speed", 4.0)))
    assert symptom(found).direction == "lower"


def judged(verdict: Verdict, wanted: Answer, answer: Answer) -> str:
    """The direction of what a comparison itself found wrong."""
    assert verdict.margin is not None
    assert verdict.margin > 0
    return symptom(said(wanted, answer, facts=verdict.facts)).direction


@pytest.mark.parametrize(
    ("wanted", "answer", "direction"),
    [
        (boxes("car", "car"), boxes("car"), "lost"),
        (boxes("car"), boxes("car", "car"), "gained"),
        (boxes("car"), boxes("van"), "other kind"),
        (boxes("car"), boxes("car", at=15), "moved"),
        (boxes("car", "van"), boxes("van", "car", "car"), "other kind"),  # the worst of several
    ],
)
def test_boxes_err_by_their_worst_flaw(wanted: Answer, answer: Answer, direction: str) -> None:
    assert judged(BoxesAlike().compare(*wanted, *answer), wanted, answer) == direction


def test_every_flaw_has_a_word() -> None:
    assert set(FLAWS) == set(Flaw)
    assert symptom(said(boxes("car"), boxes(), facts={"flaw": "new kind of flaw"})).direction == "new kind of flaw"


def test_lost_objects_of_a_set_are_lost() -> None:
    case, wanted, answer = Case("a", {}), boxes("car", "van"), boxes("car")
    verdict = Superset(Boxes2D.slot).check(Pair(case, case, Unchanged(), wanted, answer))
    assert "flaw" not in verdict.facts
    assert judged(verdict, wanted, answer) == "lost"
    assert symptom(said(wanted, wanted, facts={"lost": 0.0, "type_changed": 2.0, "moved": 1.0})).direction == "other kind"


def test_boxes_without_facts_are_counted() -> None:
    assert symptom(said(boxes("car", "car"), boxes("car"))).direction == "lost"
    assert symptom(said(boxes("car"), boxes("car", "van"))).direction == "gained"
    assert symptom(said(boxes("car"), boxes("van"))).direction == CHANGED


def test_fact_of_that_name_means_nothing_without_boxes() -> None:
    assert symptom(said((Steering(0),), (Steering(9),), facts={"lost": 3.0, "flaw": "ghost"})).direction == "further left"


def test_members_disagree() -> None:
    found = said((), (Group((Steering(3), Steering(30))),))
    expect = {"use": "both", "relations": [{"use": "agreement", "compare": {"use": "angle-within", "within": 5.0}}]}
    assert symptom(found, expect).direction == "members disagree"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (Rotate(9.0), "rotate"),
        (Chain((Rotate(9.0), Brighten(20.0))), "brighten + rotate"),
        (Chain((Chain((Brighten(1.0), Rotate(9.0))), Rotate(3.0))), "brighten + rotate"),
        (Named("x"), "Named"),
    ],
)
def test_family_is_what_was_done(change: Transformation, kind: str) -> None:
    assert family(encode_change(change)) == kind


CHANGES = (Rotate(9.0), Shear(0.5), Named("mine"))


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[str, str, Transformation, float]]:
    rules = {"rotate": (0, 2), "blur": (1,)}
    one = st.sampled_from(sorted(rules)).flatmap(
        lambda rule: st.tuples(
            st.sampled_from("abcdefgh"),
            st.just(rule),
            st.sampled_from([CHANGES[place] for place in rules[rule]]),
            st.sampled_from([-40.0, -9.0, 8.0, 12.0, 60.0]),
        )
    )
    return draw(st.lists(one, max_size=30, unique_by=lambda made: (made[0], made[1], made[2])))


@given(made=runs())
def test_every_finding_is_in_one_group(made: list[tuple[str, str, Transformation, float]], tmp_path_factory: Any) -> None:
    records = [violated(case, rule, change, off=off) for case, rule, change, off in made]
    run = Made(records).write(tmp_path_factory.mktemp("run"))
    found, everything = groups(run), list(run.findings())
    place = sorter(run, found)
    members: dict[int, list[Finding]] = {group.number: [] for group in found}
    for item in everything:
        members[place(item).number].append(item)
    assert sum(group.findings for group in found) == len(everything)
    for group in found:
        mine = members[group.number]
        assert {symptom(item, SAME) for item in mine} == {group.symptom}
        assert (group.findings, group.cases) == (len(mine), len({item.case for item in mine}))
        assert group.exemplar == min(mine, key=lambda item: (-item.margin, item.id))
    assert [group.number for group in found] == list(range(1, len(found) + 1))
    order = [(-group.cases, -group.findings) for group in found]
    assert order == sorted(order)


def test_two_faults_are_two_groups(tmp_path: Path) -> None:
    left = [violated(case, off=off) for case, off in zip("aabc", (12, 30, 9, 8), strict=True)]
    right = [violated(case, change=Rotate(5.0), off=-20.0) for case in "xy"]
    first, second = groups(Made([*right, *left]).write(tmp_path / "run"))
    assert (first.label, first.findings, first.cases, first.exemplar.margin) == ("rotate, further left", 4, 3, 25)
    assert (second.label, second.findings, second.cases) == ("rotate, further right", 2, 2)


def test_endless_kinds_of_change_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SYMPTOMS", 3)
    rules = [f"rule {place}" for place in range(3)]
    made = [
        violated(f"c{place}", rule, change) for place, rule in enumerate(rules * 2) for change in (Rotate(9.0), Shear(0.5))
    ]
    run = Made(made).write(tmp_path / "run")
    found = groups(run)
    assert sum(group.findings for group in found) == len(made)
    assert {group.symptom.family for group in found} == {"rotate", "shear", "other changes"}
    place = sorter(run, found)
    assert Counter(place(item).number for item in run.findings()) == {group.number: group.findings for group in found}


@dataclass
class Endless:
    """As many findings as one likes, in a hundred cases."""

    count: int
    identity: Mapping[str, Any] = field(default_factory=lambda: {"campaign": {}})

    def findings(self) -> Iterator[Finding]:
        base = said((Steering(0),), (Steering(9),))
        for number in range(self.count):
            yield replace(base, case=f"c{number % 100}", id=f"{number:016x}", margin=float(number % 977))


def peak(count: int) -> int:
    tracemalloc.start()
    (group,) = groups(Endless(count))  # type: ignore[arg-type]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (group.findings, group.cases, group.exemplar.id) == (count, 100, f"{976:016x}")
    return most


def test_memory_stays_flat() -> None:
    peak(1000)  # what is made once is made
    assert peak(20_000) < 1.1 * peak(2_000)


def towards(*degrees: float) -> dict[str, Array]:
    """Features of findings named by `digits`: unit vectors at these angles, in a plane of a larger space."""
    turned = np.radians(degrees)
    plane = np.stack([np.cos(turned), np.sin(turned), 0 * turned, 0 * turned], axis=1)
    basis = np.linalg.qr(rng_for("basis").normal(size=(4, 4)))[0]
    return {digits(place): row for place, row in enumerate(plane @ basis)}


def digits(place: int) -> str:
    return digest_of("input", place)[:16]


def inside(count: int) -> list[Finding]:
    """Findings of one symptom in as many cases, the first the worst."""
    base = said((Steering(0),), (Steering(9),))
    return [
        replace(base, case=f"c{place}", id=f"{place:016x}", margin=99.0 - place, input_sha=digest_of("input", place))
        for place in range(count)
    ]


def places(found: Sequence[Sequence[Finding]]) -> list[list[int]]:
    return [sorted(int(item.id, 16) for item in way) for way in found]


def test_opposite_moves_are_two_ways() -> None:
    features = towards(0, 180, 5, 176, 355, 3)
    assert places(failure_modes(inside(6), features)) == [[0, 2, 4, 5], [1, 3]]


@pytest.mark.parametrize(("angle", "count"), [(55.0, 1), (65.0, 2)])
def test_sixty_degrees_are_apart(angle: float, count: int) -> None:
    assert len(failure_modes(inside(4), towards(0, 0, angle, angle))) == count


def test_way_of_one_case_is_none() -> None:
    assert places(failure_modes(inside(5), towards(0, 0, 180, 0, 0))) == [[0, 1, 2, 3, 4]]
    three = towards(0, 0, 180, 180, 90)
    assert places(failure_modes(inside(5), three)) == [[0, 1, 4], [2, 3]]


def test_ways_do_not_depend_on_the_order() -> None:
    features = towards(*(rng_for("angles").uniform(0, 360, 24)))
    findings = inside(24)
    shuffled = [findings[place] for place in rng_for("order").permutation(24)]
    assert places(failure_modes(shuffled, features)) == places(failure_modes(findings, features))


@pytest.mark.parametrize("count", [2, 3, 12, 64])
def test_clusters_are_those_of_scipy(count: int) -> None:
    rng = rng_for("clusters", count)
    for spread in (0.1, 0.5, 1.0, 1.5):
        modes = rng.normal(size=(4, 16))
        moved = modes[rng.integers(4, size=count)] + spread * rng.normal(size=(count, 16))
        expected = fcluster(linkage(pdist(moved, "cosine"), "average"), module.APART, "distance")
        same = expected[:, None] == expected
        found = np.array(module._clusters(list(moved)))
        assert ((found[:, None] == found) == same).all()


def test_what_nobody_looked_into_stays_with_the_largest_way(tmp_path: Path) -> None:
    records = [violated(f"c{place}", change=Rotate(float(place + 1)), off=9.0 + place) for place in range(7)]
    run = Made(records).write(tmp_path / "run")
    moved = zip(records, (0, 3, 180, 178, 1), strict=False)
    features = {record.input_sha[:16]: towards(angle)[digits(0)] for record, angle in moved}
    first, second = groups(run, features)
    assert (first.label, first.findings, first.exemplar.case) == ("rotate, further left (pattern A)", 5, "c6")
    assert (second.label, second.findings, second.exemplar.case) == ("rotate, further left (pattern B)", 2, "c3")
    place = sorter(run, [first, second])
    assert [place(item).number for item in run.findings()] == [1, 1, 2, 2, 1, 1, 1]
    assert [group.label for group in groups(run)] == ["rotate, further left"]


def test_worst_of_a_small_symptom_is_kept_too(tmp_path: Path) -> None:
    many = [violated(f"c{place}", off=20.0 + place) for place in range(203)]
    run = Made([*many, violated("other", off=-6.0)]).write(tmp_path / "run")
    kept = worth_keeping(run, 200)
    assert len(kept) == 201
    assert kept[-1].case == "other"


def write_shrunk(run: Run, identity: str, words: Transformation, off: float) -> None:
    row = record_row(violated("a", change=words, off=off))
    (run.folder / "shrunk").mkdir(exist_ok=True)
    told = {"of": identity, "words": "", "edges": ["degrees fails at 2°, holds at 1°"], "tries": 9, "row": row}
    (run.folder / "shrunk" / f"{identity}.json").write_bytes(json_bytes(told))


def test_table_tells_groups_and_smallest_change(tmp_path: Path) -> None:
    run = Made([violated("a", "=1+1", off=30.0), violated("b", "=1+1"), violated("c", off=-9.0)]).write(tmp_path / "run")
    worst = groups(run)[0].exemplar
    write_shrunk(run, worst.id, Rotate(2.0), 7.0)
    write_groups(run)
    with (run.folder / "tables" / "groups.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert first == {
        "group": "1",
        "rule": "'=1+1",
        "family": "rotate",
        "direction": "further left",
        "way": "1 of 1",
        "findings": "2",
        "cases": "2",
        "margin": "25.0",
        "exemplar": worst.id,
        "smallest": "rotated 2° counter-clockwise; degrees fails at 2°, holds at 1°",
    }
    assert (second["direction"], second["smallest"]) == ("further right", "")


def test_smallest_change_that_fails_otherwise_says_so(tmp_path: Path) -> None:
    run = Made([violated("a", off=30.0)]).write(tmp_path / "run")
    (finding,) = run.findings()
    assert smallest_words(run, finding) == ""
    write_shrunk(run, finding.id, Rotate(2.0), -7.0)
    assert smallest_words(run, finding).endswith("holds at 1°; with this change the answer is further right")
    (run.folder / "shrunk" / f"{finding.id}.json").write_text("{")
    assert smallest_words(run, finding) == ""


def test_run_without_findings_has_no_group(tmp_path: Path) -> None:
    run = Made([]).write(tmp_path / "run")
    assert groups(run) == []
    write_groups(run)
    assert (run.folder / "tables" / "groups.csv").read_text().count("\n") == 1
