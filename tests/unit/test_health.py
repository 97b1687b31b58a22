"""What a campaign is refused or warned for before it runs: planted faults, and a sound twin that passes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from swerve.cli.main import main
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case, Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.relation import Pair, Relation, Rule, Status, Verdict
from swerve.core.space import Over, Range
from swerve.core.system import Answer
from swerve.core.transformation import Unchanged
from swerve.core.values import Array, Boxes2D, Boxes3D, Image, PointCloud, Signal, Steering, find
from swerve.execution.check import examine
from swerve.execution.checks.concern import Health, Level
from swerve.execution.engine import observe, run
from swerve.execution.executors.in_process import InProcess
from swerve.execution.launch import run_into
from swerve.methods.lidar import lidar
from swerve.relations.boxes import right_boxes, same_boxes
from swerve.relations.sets import Superset
from swerve.relations.steering import Decrease, lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.store.view import Run
from swerve.systems.function import FunctionSystem
from swerve.systems.process import Process
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.testing.fakes import brightness
from swerve.transformations.affine import Rotate
from swerve.transformations.dropout import Jitter
from swerve.transformations.insert import Insertions
from swerve.transformations.photometric import Brighten
from tests.fixture_sweeps import cloud
from tests.quality.test_lidar_identity import Sound, Sweeps

TURNED = """
[source]
use = "swerve.testing:FakeSource"
count = 40
[system]
use = "swerve.testing:FakeSystem"
gain = -1
[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = "same-angle"
"""
BRIGHTER = Rule("brighter", Over(Brighten, beta=Range(5, 40)), same_angle(15))


def campaign(**parts: object) -> Campaign:
    given = {"source": FakeSource(24), "system": FakeSystem(bias=1.0), "rules": (BRIGHTER,), "search": Sweep(4)}
    return Campaign(**{**given, **parts})  # type: ignore[arg-type]


def health_of(asked: Campaign, folder: Path | None = None) -> Health:
    here = InProcess(asked)
    return examine(asked, observe(asked, MemoryLedger(), executor=here), here, folder)


def named(health: Health) -> dict[str, Level]:
    """The concerns by name; that most of these fakes drive badly is the subject of test_own_error.py."""
    return {concern.name: concern.level for concern in health.concerns if concern.name != "no better than zero"}


def pixels_of(case: Case) -> Array:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels


def test_sound_campaign_has_no_concern() -> None:
    health = health_of(campaign())
    assert health.concerns == ()
    assert health.baseline["cases"] == 24
    assert health.baseline["mse"] == pytest.approx(1.0)
    assert health.trials == 96
    assert health.seconds is not None
    assert health.seconds > 0


def test_constant_system_is_refused() -> None:
    health = health_of(campaign(system=FunctionSystem(lambda case: Steering(0.0), "still")))
    assert named(health)["constant answers"] is Level.REFUSAL
    with pytest.raises(InputError, match=r"gives the same answer to all 24 cases.*--force"):
        health.refuse()


STILL = FunctionSystem(lambda case: Signal("speed", 10.0), "cruise")


def test_constant_system_that_violates_is_run(tmp_path: Path) -> None:
    """It never slows down: that is what the rule is for, and what the run finds in every trial."""
    slower = Rule("slower in the dark", Over(Brighten, beta=Range(-60, -30)), Decrease("speed", by=1.0))
    asked = campaign(system=STILL, rules=(slower,))
    health = health_of(asked)
    assert named(health) == {"constant answers": Level.WARNING, "no effect": Level.WARNING}
    assert health.without_effect(slower.name)
    counts = run_into(Loaded(asked, Path("/")), tmp_path / "run").overall.as_dict()
    assert counts["violated"] > 0 == counts["held"]


class Seeing(FunctionSystem):
    """Shows what it sees: the picture."""

    def sees(self, case: Case) -> Array:
        return pixels_of(case)


@pytest.mark.parametrize("cases", [1, 2])
@pytest.mark.parametrize("kind", [FunctionSystem, Seeing])
def test_constant_system_is_warned_of_on_few_cases(cases: int, kind: type[FunctionSystem]) -> None:
    """R28: always."""
    still = kind(lambda case: Steering(0.0), "still")
    health = health_of(campaign(source=FakeSource(cases), system=still))
    assert named(health)["constant answers"] is Level.WARNING
    assert f"the same answer to all {cases} cases and to the follow-ups tried" in health.concerns[0].why
    assert named(health_of(campaign(source=FakeSource(cases)))) == {}
    twice = Rule("twice", Unchanged(), same_angle(1))
    assert named(health_of(campaign(source=FakeSource(cases), system=still, rules=(twice,)))) == {}


@dataclass
class Noisy:
    sigma: float
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Steering(brightness(pixels_of(case)) + self.rng.normal(0, self.sigma)),) for case in cases]

    def fingerprint(self) -> str:
        return "noisy"


@pytest.mark.parametrize("sigma", [0.01, 0.1, 1.0])
def test_noise_is_found_and_measured(sigma: float) -> None:
    health = health_of(campaign(system=Noisy(sigma)))
    assert named(health) == {"noise": Level.WARNING}
    assert "asked again, the system answers 16 of 16 times differently (up to " in health.concerns[-1].why


def test_noise_beyond_a_rule_is_refused() -> None:
    tight = Rule("tight", BRIGHTER.change, same_angle(0.5))
    health = health_of(campaign(system=Noisy(2.0), rules=(BRIGHTER, tight)))
    assert named(health)["noise"] is Level.REFUSAL
    assert any("enough to violate 'tight' without any change" in concern.why for concern in health.concerns)


def test_rule_already_broken_is_no_noise() -> None:
    labels = Rule("label", BRIGHTER.change, lambda_mse(0.01))
    assert named(health_of(campaign(rules=(labels,)))) == {}


@pytest.mark.parametrize(
    ("gain", "name"), [(-1, "sign"), (180 / np.pi, "unit"), (np.pi / 180, "unit"), (-np.pi / 180, "sign")]
)
@pytest.mark.parametrize(("count", "level"), [(29, Level.WARNING), (30, Level.REFUSAL)])
def test_turned_sign_and_other_unit_are_told(gain: float, name: str, count: int, level: Level) -> None:
    health = health_of(campaign(source=FakeSource(count), system=FakeSystem(gain=gain), rules=(BRIGHTER,)))
    assert named(health)[name] is level
    assert f"(RMSE of {count} labels) would be" in health.concerns[0].why


@pytest.mark.parametrize("seed", range(20))
def test_poor_model_is_not_held_for_turned(seed: int) -> None:
    """Answers that have nothing to do with the labels, or run a little against them, are no question of sign or unit."""
    rng = np.random.default_rng(seed)
    said = {key: float(rng.normal(0, 1)) for key in FakeSource(40).keys()}
    poor = FunctionSystem(lambda case: Steering(said[case.parent or case.key] - 0.1 * brightness(pixels_of(case))), "poor")
    assert not {"sign", "unit"} & named(health_of(campaign(source=FakeSource(40), system=poor))).keys()


def test_offset_is_no_turned_sign() -> None:
    """Labels about -0.5 and answers about +0.5, which rise and fall together."""
    assert named(health_of(campaign(source=FakeSource(40, width=90, height=40)))) == {}


@dataclass(frozen=True)
class Seldom:
    """A detector that finds something on bright frames alone, and loses it when they get brighter."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [
            (Boxes2D(np.array([[1, 1, 5, 5]] * self._count(case)).reshape(-1, 4), ("car",) * self._count(case)),)
            for case in cases
        ]

    def _count(self, case: Case) -> int:
        return int(0.3 < brightness(pixels_of(case)) < 10)

    def fingerprint(self) -> str:
        return "seldom"


def test_empty_answers_are_no_sign_of_idle_changes() -> None:
    """First, middle and last case have no box: the sample is taken among those that have."""
    rule = Rule("boxes", Over(Brighten, beta=Range(15, 40)), same_boxes())
    assert named(health_of(campaign(system=Seldom(), rules=(rule,)))) == {}
    blind = FunctionSystem(lambda case: Boxes2D(np.zeros((0, 4)), ()), "blind")
    assert named(health_of(campaign(system=blind, rules=(rule,)))) == {"constant answers": Level.REFUSAL}


NO_LOSS = Rule("none lost", Over(Brighten, beta=Range(15, 40)), Superset("boxes2d"))


def test_detector_that_sees_nothing_is_refused() -> None:
    """Two cases are too few to refuse it as constant; nothing before and nothing after would hold for ever."""
    blind = FunctionSystem(lambda case: Boxes2D(np.zeros((0, 4)), ()), "blind")
    health = health_of(campaign(source=FakeSource(2), system=blind, rules=(NO_LOSS,)))
    assert named(health) == {"constant answers": Level.WARNING, "no objects": Level.REFUSAL}
    with pytest.raises(InputError, match=r"no object is detected, or none in the region, in 2 of 2 cases, so.*--force"):
        health.refuse()
    besides = replace(NO_LOSS, name="same", expect=same_boxes())  # may find what is seen on follow-ups alone
    some = health_of(campaign(source=FakeSource(2), system=blind, rules=(NO_LOSS, besides)))
    assert named(some) == {"constant answers": Level.WARNING, "no objects": Level.WARNING}


def test_cases_without_an_object_are_counted() -> None:
    health = health_of(campaign(system=Seldom(), rules=(NO_LOSS,)))
    (concern,) = (one for one in health.concerns if one.name == "no objects")
    looked = [FakeSource(24)[f"{key}"] for key in FakeSource(24).keys()]
    seen = [bool(Seldom()._count(looked[place])) for place in np.unique(np.linspace(0, 23, 16).astype(int))]
    assert concern.why == f"no object is detected, or none in the region, in {seen.count(False)} of 16 cases checked"
    assert 0 < seen.count(False) < 16
    assert concern.level is (Level.WARNING if seen.count(False) > 8 else Level.NOTE)


@dataclass(frozen=True)
class Beside:
    """Sees one car, 30 m beside the road, or on it from the case `until` on."""

    until: int = 1000

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [
            (Boxes3D(np.array([[place, self._across(case), 0, 4, 2, 1.5, 0]]), ("car",)),)
            for place, case in enumerate(cases)
        ]

    def _across(self, case: Case) -> float:
        return 30.0 if int(case.key.rpartition("-")[2]) < self.until else 0.0

    def fingerprint(self) -> str:
        return f"beside {self.until}"


@pytest.mark.parametrize(("until", "level"), [(40, Level.REFUSAL), (39, Level.WARNING), (1, Level.NOTE)])
def test_obstacles_beside_the_region_are_nobody_to_lose(until: int, level: Level) -> None:
    """One car on the road in the last of 40 cases is enough to run, and none is not."""
    health = health_of(lidar(Sweeps(40), Beside(until), n=10))
    (concern,) = (one for one in health.concerns if one.name == "no objects")
    assert concern.level is level
    assert ("in 40 of 40 cases, so" in concern.why) == (level is Level.REFUSAL)


def test_few_labels_tell_no_sign() -> None:
    assert named(health_of(campaign(source=FakeSource(9), system=FakeSystem(gain=-1.0)))) == {}


def test_change_without_effect_is_named() -> None:
    turned = Rule("turned", Over(Rotate, degrees=Range(1, 2)), same_angle(5))
    source = FakeSource(24, width=100, height=100)
    health = health_of(campaign(source=source, system=_stepped, rules=(turned, BRIGHTER)))
    assert named(health) == {"no effect": Level.WARNING}
    told = re.escape("rule 'turned': 12 changes such as Rotate(") + r".* leave the system's answer unchanged"
    assert re.fullmatch(told, health.concerns[-1].why)


def test_changes_that_a_system_sees_nothing_of_are_refused() -> None:
    """R29: where the system shows that its input stays as it is; answers that stay are no proof of that."""
    turned = Rule("turned", Over(Rotate, degrees=Range(1, 2)), same_angle(5))
    parts = {"source": FakeSource(24, width=100, height=100), "rules": (turned,)}
    assert named(health_of(campaign(**parts, system=_stepped))) == {"no effect": Level.WARNING}
    coarse = Coarse(_stepped.function, "coarse")
    health = health_of(campaign(**parts, system=coarse))
    assert named(health) == {"no effect": Level.WARNING, "nothing to find": Level.REFUSAL}
    assert "leave the system's input and answer unchanged" in health.refusals[0].why
    wrong = replace(turned, expect=AngleOff(5.0))
    assert named(health_of(campaign(**{**parts, "rules": (wrong,)}, system=coarse))) == {"no effect": Level.WARNING}


class Coarse(FunctionSystem):
    """Sees the mean of a picture, and that in steps."""

    def sees(self, case: Case) -> Array:
        return np.round(pixels_of(case).mean(keepdims=True) / 20)


@dataclass(frozen=True)
class AngleOff:
    """Wants the answer to move."""

    by: float

    def check(self, pair: Pair) -> Verdict:
        before, after = (find(said, Steering.slot) for said in (pair.before, pair.after))
        assert isinstance(before, Steering)
        assert isinstance(after, Steering)
        moved = abs(after.degrees - before.degrees)
        return Verdict(Status.HELD if moved >= self.by else Status.VIOLATED, self.by - moved, "")


def test_detector_that_loses_nothing_in_the_sample_is_run() -> None:
    """Without scores nothing moves until an obstacle is gone, which a few changes need not bring about."""
    health = health_of(lidar(Sweeps(12), Sound(), n=4, near=5.0, check="subset", seed=1))
    assert named(health) == {"no effect": Level.WARNING}


_stepped = FunctionSystem(lambda case: Steering(float(np.round(pixels_of(case).mean() / 20)) + _key(case) / 100), "stepped")


def _key(case: Case) -> int:
    return int((case.parent or case.key).removeprefix("fake-"))


@pytest.mark.parametrize(("beta", "named_so"), [(3.0, True), (5.0, False)])
def test_change_that_hardly_reaches_is_named(beta: float, named_so: bool) -> None:
    """A system that is 40° off force, and changes of three and five degrees: below and above a tenth of that."""
    rules = (Rule("faint", Over(Brighten, beta=beta), same_angle(5)), Rule("plain", Over(Brighten, beta=30), same_angle(5)))
    health = health_of(campaign(system=FakeSystem(bias=40.0), rules=rules))
    found = [(one.name, one.level, one.rule) for one in health.concerns if one.name == "hardly reaches the system"]
    assert found == ([("hardly reaches the system", Level.WARNING, "faint")] if named_so else [])
    if named_so:
        (why,) = [one.why for one in health.concerns if one.rule == "faint"]
        assert why.endswith("changes tried move the answer by 3° at most, less than 10% of the system's own error of 40°")


def test_what_is_seen_counts_as_effect() -> None:
    """A network whose answer happens to stay is not idle while its input changes."""
    turned = Rule("turned", Over(Rotate, degrees=Range(1, 2)), same_angle(5))
    source = FakeSource(24, width=100, height=100)
    assert named(health_of(campaign(source=source, system=Seeing(_stepped.function, "seeing"), rules=(turned,)))) == {}


def test_unchanged_on_purpose_is_fine() -> None:
    assert named(health_of(campaign(rules=(Rule("twice", Unchanged(), same_angle(1)),)))) == {}


@dataclass(frozen=True)
class Torn(FakeSource):
    unreadable: int = 0

    def __getitem__(self, key: str) -> Case:
        if int(key.removeprefix("fake-")) < self.unreadable:
            raise UnreadableCase(f"{key}.png: cut short")
        return super().__getitem__(key)


@pytest.mark.parametrize(("unreadable", "level"), [(12, Level.WARNING), (13, Level.REFUSAL)])
def test_share_of_unreadable_cases(unreadable: int, level: Level) -> None:
    health = health_of(campaign(source=Torn(24, unreadable=unreadable)))
    assert named(health) == {"unusable cases": level}
    assert health.concerns[0].why.endswith("first: fake-00000.png: cut short")


@dataclass(frozen=True)
class Doubled(FakeSource):
    """Every picture is there under two names."""

    def __getitem__(self, key: str) -> Case:
        twin = f"fake-{int(key.removeprefix('fake-')) // 2:05d}"
        return replace(super().__getitem__(twin), key=key)


def test_same_pictures_are_told_and_kept_apart(tmp_path: Path) -> None:
    """R37: a thousand names for five hundred pictures: all are counted, and no finding overwrites another."""
    asked = campaign(source=Doubled(1000), search=Sweep(1))
    health = health_of(asked)
    assert [(item.level, item.why) for item in health.concerns] == [
        (Level.NOTE, "500 inputs occur more than once; first: fake-00000 and fake-00001")
    ]
    summary = run_into(Loaded(asked, Path("/")), tmp_path / "run")
    ids = [finding.id for finding in Run(tmp_path / "run").findings()]
    assert len(set(ids)) == len(ids) == summary.overall.as_dict()["violated"] > 200


def test_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.execution.checks.disk.shutil.disk_usage", lambda path: _Usage(free=1000))
    health = health_of(campaign(), tmp_path / "not" / "there")
    assert named(health) == {"disk": Level.REFUSAL}


@dataclass(frozen=True)
class Scanned:
    """Fake pictures, each with a point cloud that takes far more than they do."""

    inner: FakeSource

    def keys(self) -> Sequence[str]:
        return self.inner.keys()

    def __getitem__(self, key: str) -> Case:
        case = self.inner[key]
        return replace(case, inputs={**case.inputs, "lidar": cloud(int(key[-5:]), 3000)})

    def fingerprint(self) -> str:
        return f"scanned {self.inner.fingerprint()}"


PICTURES = FakeSource(24, width=200, height=120)


@pytest.mark.parametrize("source", [PICTURES, Scanned(PICTURES), Windows(replace(PICTURES, drive=24), length=3)])
def test_estimate_of_disk_is_near_what_is_taken(tmp_path: Path, source: Source) -> None:
    asked = campaign(source=source, search=Sweep(12))
    estimate = health_of(asked).megabytes
    run_into(Loaded(asked, Path("/")), tmp_path / "run")
    kept = [*(tmp_path / "run" / "findings").iterdir(), tmp_path / "run" / "journal.jsonl"]
    taken = sum(path.stat().st_size for path in kept) / 1e6
    assert taken > 2  # pictures of 20 findings of a rule
    assert estimate == pytest.approx(taken, rel=0.25)


@dataclass(frozen=True)
class _Usage:
    free: int


def test_refused_run_leaves_no_trial(tmp_path: Path) -> None:
    still = campaign(system=FunctionSystem(lambda case: Steering(0.0), "still"))
    loaded = Loaded(still, Path("/"))
    with pytest.raises(InputError, match="contradict itself"):
        run_into(loaded, tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()
    assert json.loads((tmp_path / "run" / "health.json").read_text())["healthy"] is False
    assert run_into(loaded, tmp_path / "run", force=True).overall.as_dict()["violated"] == 0


def test_check_lists_what_does_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "frames").mkdir()
    for number in range(3):
        (tmp_path / "frames" / f"{number}.png").write_text("no picture")
    file = tmp_path / "campaign.toml"
    text = TURNED.replace('"swerve.testing:FakeSource"', '"folder"').replace("count = 40", 'folder = "frames"')
    file.write_text(text)
    assert main(["check", str(file)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0].strip() for line in told] == ["0.png", "1.png", "2.png", "error"]
    assert main(["run", str(file), "--into", str(tmp_path / "run"), "--workers", "0"]) == 2
    assert "skipped.csv)" in capsys.readouterr().err
    assert len((tmp_path / "run" / "tables" / "skipped.csv").read_text().splitlines()) == 4


def test_run_tells_what_check_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(TURNED)
    words = ["run", str(file), "--into", str(tmp_path / "run"), "--workers", "0", "--no-report"]
    assert main(words) == 2
    capsys.readouterr()
    for _ in range(2):  # the second time nothing is left to do
        assert main([*words, "--force"]) in (0, 1)
        assert (
            "\nrefusal: sign: if the answers ([system]) or the labels ([source]) had the other sign"
            in capsys.readouterr().out
        )


def test_check_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(TURNED)
    assert main(["check", str(file), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["baseline"]["cases"] == 40
    assert [item["name"] for item in told["concerns"]] == ["sign"]
    assert main(["check", str(file), "--workers", "0"]) == 2
    assert "refusal: sign: " in capsys.readouterr().out


BUSY = """
import time
from swerve.systems.serve import serve
from swerve.testing import FakeSystem

def drive(case):
    until = time.process_time() + {seconds}
    while time.process_time() < until:
        pass
    return FakeSystem()([case])[0]

serve(drive)
"""


def test_estimate_counts_programs(tmp_path: Path) -> None:
    """What a program of the system's own takes is CPU time of the run."""
    (tmp_path / "busy.py").write_text(BUSY.format(seconds=0.05))
    system = Process(("python", str(tmp_path / "busy.py")))
    health = health_of(campaign(system=system))
    system.close()
    assert health.trials
    assert health.seconds
    assert 0.8 < health.seconds / (0.05 * health.trials) < 4


@dataclass(frozen=True)
class Busy(FakeSystem):
    """Takes its time, and CPU time at that."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        end = time.process_time() + 0.05 * len(cases)
        while time.process_time() < end:
            pass
        return super().__call__(cases)


@pytest.mark.usefixtures("forked_workers")
def test_estimate_counts_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "campaign.toml"
    text = TURNED.replace("swerve.testing:FakeSystem", "tests.unit.test_health:Busy").replace("gain = -1", "gain = 1")
    file.write_text(text.replace("count = 40", "count = 6"))
    for workers in ("0", "1"):
        assert main(["check", str(file), "--json", "--workers", workers]) == 0
        estimate = json.loads(capsys.readouterr().out)["estimate"]
        assert 0.8 < estimate["cpu_seconds"] / (0.05 * estimate["trials"]) < 4


def test_estimate_does_not_depend_on_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a cheap model the start of a worker costs more than all that it is asked here."""
    head, rule = TURNED.split("[[rule]]")
    rules = [f"[[rule]]{rule.replace('brighter', name)}" for name in "abc"]
    file = tmp_path / "campaign.toml"
    file.write_text("".join([head.replace("gain = -1", "gain = 1").replace("count = 40", "count = 12"), *rules]))
    told = []
    for workers in ("0", "2"):
        assert main(["check", str(file), "--json", "--workers", workers]) == 0
        told.append(json.loads(capsys.readouterr().out)["estimate"]["cpu_seconds"])
    assert max(told) < 3 * min(told)


def test_concerns_about_a_rule_name_it() -> None:
    turned = Rule("turned", Over(Rotate, degrees=Range(1, 2)), same_angle(5))
    health = health_of(campaign(source=FakeSource(24, width=100, height=100), system=_stepped, rules=(turned, BRIGHTER)))
    assert [concern["rule"] for concern in health.as_dict()["concerns"] if "rule" in concern] == ["turned"]
    assert health.without_effect("turned") is health.concerns[-1]
    assert health.without_effect(BRIGHTER.name) is None
    sick = health_of(campaign(system=FakeSystem(gain=-1.0)))
    assert all(concern.keys() == {"name", "level", "why"} for concern in sick.as_dict()["concerns"])


@dataclass(frozen=True)
class Batchwise:
    """Steers by brightness, and by the batch: its size, the place in it, or its mean."""

    by: str
    much: float = 0.4

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        alone = [answer[0].degrees for answer in FakeSystem(bias=1.0)(cases)]  # type: ignore[attr-defined]
        more = {"size": [len(cases)] * len(cases), "place": range(len(cases)), "mean": [float(np.mean(alone))] * len(cases)}
        return [(Steering(angle + self.much * extra),) for angle, extra in zip(alone, more[self.by], strict=True)]

    def fingerprint(self) -> str:
        return f"batchwise {self.by} {self.much}"


@pytest.mark.parametrize("by", ["size", "place", "mean"])
def test_answers_that_depend_on_the_batch_are_refused(by: str) -> None:
    """R71."""
    health = health_of(campaign(system=Batchwise(by)))
    (why,) = [concern.why for concern in health.refusals]
    assert re.search(r"answers \d+ of \d+ times differently \(up to [\d.]+°\): answers must not depend", why)
    assert "batch" not in named(health_of(campaign(system=Batchwise(by), inference_batch=1)))
    assert "batch" not in named(health_of(campaign(system=Batchwise(by, much=1e-8))))


@dataclass(frozen=True)
class OnePlace:
    """Steers by brightness, and 40 degrees further at one place of a batch."""

    place: int

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        alone = [answer[0].degrees for answer in FakeSystem(bias=1.0)(cases)]  # type: ignore[attr-defined]
        return [(Steering(angle + 40 * (place == self.place)),) for place, angle in enumerate(alone)]

    def fingerprint(self) -> str:
        return f"at {self.place}"


@pytest.mark.parametrize(("batch", "cases"), [(2, 5), (7, 20), (16, 20), (16, 5)])
def test_every_place_of_a_batch_is_checked(batch: int, cases: int) -> None:
    """R71: also the places that only a batch of trials fills."""
    for place in range(batch):
        given = campaign(source=FakeSource(cases), system=OnePlace(place), inference_batch=batch, search=Sweep(1))
        assert named(health_of(given))["batch"] is Level.REFUSAL


@pytest.mark.parametrize("cases", [1, 2, 3])
def test_few_cases_are_enough_to_see_the_batch(cases: int) -> None:
    assert "batch" in named(health_of(campaign(source=FakeSource(cases), system=Batchwise("size"))))
    assert "batch" not in named(health_of(campaign(source=FakeSource(cases))))


def test_noise_is_not_taken_for_the_batch() -> None:
    assert "batch" not in named(health_of(campaign(system=Noisy(0.5))))


@dataclass(frozen=True)
class Labelled(FakeSource):
    """Pictures with a labelled box."""

    def __getitem__(self, key: str) -> Case:
        return replace(super().__getitem__(key), truth=(Boxes2D(np.array([[2, 2, 9, 9]]), ("Car",)),))


def one_box(case: Case) -> Boxes2D:
    level = brightness(pixels_of(case))
    return Boxes2D(np.array([[2, 2, 9 + level / 50, 9]]), ("car",), np.array([0.9]))


@pytest.mark.parametrize("expect", [same_boxes, right_boxes])
def test_kinds_that_no_label_has_are_refused_unless_any_will_do(expect: Callable[..., Relation]) -> None:
    """R74: 'Car' and 'car' are two kinds."""
    given = campaign(source=Labelled(24), system=FunctionSystem(one_box, "boxes"))
    strict = Rule("brighter", Over(Brighten, beta=Range(5, 40)), expect(0.5))
    loose = Rule("brighter", Over(Brighten, beta=Range(5, 40)), expect(0.5, kinds="any") & expect(0.4, kinds="any"))
    (why,) = [one.why for one in health_of(replace(given, rules=(strict,))).refusals if one.name == "kinds"]
    assert "the labels have 'Car', the system answers 'car'" in why
    assert "kinds = \"any\" in the relation of rule 'brighter'" in why
    assert "kinds" not in named(health_of(replace(given, rules=(loose,))))
    counts = run(replace(given, rules=(loose,)), MemoryLedger()).as_dict()
    assert counts["held"] == counts["rules"]["brighter"]["trials"] - counts["skipped"]


@dataclass(frozen=True)
class Streets:
    """Sweeps of flat ground, with a labelled car."""

    labelled: bool = True

    def keys(self) -> list[str]:
        return [f"street-{number}" for number in range(4)]

    def __getitem__(self, key: str) -> Case:
        rng = np.random.default_rng(int(key[-1]))
        angle, far = rng.uniform(-np.pi, np.pi, 20_000), rng.uniform(3, 60, 20_000)
        heights, strengths = rng.normal(-1.7, 0.02, 20_000), rng.uniform(0, 1, 20_000)
        points = np.stack([far * np.cos(angle), far * np.sin(angle), heights, strengths], axis=1)
        truth = (Boxes3D(CAR, ("car",)),) if self.labelled else ()
        return Case(key, {"lidar": PointCloud(points.astype(np.float32))}, truth, key)

    def fingerprint(self) -> str:
        return f"streets {self.labelled}"


CAR = np.array([[20.0, 1, -1, 4, 2, 1.5, 0]])


def detector(kind: str) -> FunctionSystem:
    """Finds the car, moved a little with the sweep, and what stands above the ground; all are of one kind."""

    def find_boxes(case: Case) -> Boxes3D:
        cloud = case.inputs["lidar"]
        assert isinstance(cloud, PointCloud)
        rows = [CAR[0] + np.array([float(cloud.xyzi[:, 2].mean()) / 10, *[0.0] * 6])]
        if len(high := cloud.xyzi[cloud.xyzi[:, 2] > -1.3]) >= 5:
            low, up = high[:, :2].min(axis=0), high[:, :2].max(axis=0)
            rows.append(np.array([*(low + up) / 2, -1, *np.maximum(up - low, (4, 2)), 1.5, 0]))
        return Boxes3D(np.array(rows), (kind,) * len(rows))

    return FunctionSystem(find_boxes, "boxes3d")


def inserted(kind: str, labelled: bool = True, kinds: str = "same") -> Campaign:
    rule = Rule("inserted", Insertions(kinds=("car",)), Superset(overlap=0.01, kinds=kinds))
    return campaign(source=Streets(labelled), system=detector(kind), rules=(rule,), search=Sweep(per_case=2))


@pytest.mark.parametrize("labelled", [True, False])
def test_kinds_that_a_change_adds_are_compared_with_the_answers(labelled: bool) -> None:
    """R74: the model says 'vehicle', so every inserted 'car' would be missed."""
    (why,) = [one.why for one in health_of(inserted("vehicle", labelled)).refusals if one.name == "kinds"]
    assert "added objects and answers have no kind of object in common: the changes add 'car'" in why
    assert "the system answers 'vehicle'" in why
    assert "kinds" not in named(health_of(inserted("car", labelled)))
    loose = inserted("vehicle", labelled, kinds="any")
    assert "kinds" not in named(health_of(loose))
    assert run(loose, MemoryLedger()).as_dict()["held"] > 0


def test_labels_of_other_kinds_are_a_warning_where_only_answers_are_compared() -> None:
    rule = Rule("jitter", Over(Jitter, sigma=Range(0.01, 0.02)), Superset())
    given = replace(inserted("vehicle"), rules=(rule,))
    (found,) = [one for one in health_of(given).concerns if one.name == "kinds"]
    assert found.level is Level.WARNING
    assert "labels and answers have no kind of object in common: the labels have 'car'" in found.why
