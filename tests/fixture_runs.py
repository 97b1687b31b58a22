"""Run folders made by hand: any records, without a model or a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from swerve.core.campaign import Observation, Record, Trial
from swerve.core.origin import Origin
from swerve.core.relation import Fault, Status, Verdict
from swerve.core.seeding import digest_of, rng_for
from swerve.core.transformation import Transformation
from swerve.core.values import Image, Steering, Value
from swerve.execution.summary import Summary, Tally
from swerve.relations.steering import AngleWithin
from swerve.store.files import json_bytes, sensor_file
from swerve.store.fingerprint import FORMAT
from swerve.store.journal import Journal
from swerve.store.record_json import observation_row, record_row
from swerve.store.view import CAMPAIGN, JOURNAL, ORIGIN, Run
from swerve.testing import FakeSource
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten, Contrast

BATCH = 64


@dataclass(frozen=True)
class Named(Transformation):
    """A change that does nothing and calls itself anything."""

    text: str
    preserves: ClassVar[tuple[str, ...]] = ("*",)

    def words(self) -> str:
        return self.text


SOURCE = {"use": "world", "drives": 20, "frames": 2, "seed": 7, "split": "test"}
EXPECT = {"use": "equivariant", "compare": {"use": "angle-within", "within": 5.0}}


@dataclass
class Made:
    """What goes into a run folder."""

    records: Sequence[Record]
    seen: Sequence[Observation] = ()
    untouched: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # already wrong, of how many
    finished: bool = True
    method: str = "deeptest"
    expects: Mapping[str, object] = field(default_factory=dict)  # relations by rule, encoded; `EXPECT` for the others

    def write(self, folder: Path) -> Run:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CAMPAIGN).write_bytes(json_bytes(identity(self.method, self.rules, self.expects)))
        (folder / ORIGIN).write_bytes(json_bytes({"base": str(folder)}))
        journal = Journal(folder / JOURNAL)
        for rows in ([observation_row(item) for item in self.seen], [record_row(item) for item in self.records]):
            for start in range(0, len(rows), BATCH):
                journal.append(rows[start : start + BATCH])
        if self.finished:
            (folder / "summary.json").write_bytes(json_bytes(self._summary().as_dict()))
        return Run(folder)

    @property
    def rules(self) -> list[str]:
        return list(dict.fromkeys(record.trial.rule for record in self.records)) or ["rotate"]

    def _summary(self) -> Summary:
        faults = sum(bool(item.fault) for item in self.seen)
        tallies = {name: Tally() for name in self.rules}
        overall = Tally()
        for record in self.records:
            overall.add(record.outcome)
            tallies[record.trial.rule].add(record.outcome)
        alone = {name: Tally() for name in tallies}
        for name, (wrong, cases) in self.untouched.items():
            alone[name].counts.update({Status.VIOLATED: wrong, Status.HELD: cases - wrong})
        return Summary(self.method, 7, len(self.seen) - faults, faults, 0, overall, tallies, alone)


def identity(method: str, rules: Sequence[str], expects: Mapping[str, object] = MappingProxyType({})) -> dict[str, object]:
    """The keys of `identity.identity_of`, with made-up values."""
    change = {"use": "rotate", "degrees": "grid"}
    rule = [{"name": name, "change": change, "expect": expects.get(name, EXPECT)} for name in rules]
    parts = {"source": SOURCE, "system": {"use": "swerve.testing:FakeSystem"}, "search": {"use": "sweep", "per_case": 6}}
    return {
        "format": FORMAT,
        "swerve": "0.1.0",
        "factory": None,
        "rebuildable": True,
        "fingerprints": {part: digest_of(part) for part in ("system", "source", "package")},
        "libraries": {"numpy": "2.0.0", "opencv-python-headless": "4.10", "torch": "2.6"},
        "learns": False,
        "campaign": {"method": method, "seed": 7, "inference_batch": 16, **parts, "gate": None, "rule": rule},
    }


def finding(
    case: str, rule: str = "rotate", change: Transformation | None = None, *, off: float = 12.0, why: str = ""
) -> Record:
    """A violated trial whose answer moved by `off` degrees."""
    before, after = (Steering(3.0),), (Steering(3.0 + off),)
    verdict = AngleWithin(5.0).compare(*before, *after)
    told = Verdict(verdict.status, verdict.margin, why or verdict.why)
    made = change or Rotate(9.0)
    shas = {"source_sha": digest_of(case), "input_sha": digest_of(case, rule, made.words())}
    origin = Origin.INTRODUCED if off < 40 else Origin.ALREADY_WRONG
    return Record(Trial(case, rule, 0, change), told, made, before, after, before, origin=origin, **shas)


def held(case: str, rule: str = "rotate", change: Transformation | None = None) -> Record:
    said = (Steering(3.0),)
    return Record(Trial(case, rule, 0), Verdict(Status.HELD, -5.0, "same"), change or Rotate(3.0), said, said, said)


def skipped(case: str, why: str, rule: str = "rotate") -> Record:
    return Record(Trial(case, rule, 0), Verdict.skipped(why), Rotate(27.0), (Steering(3.0),))


def failed(case: str, why: str, rule: str = "rotate", kind: Fault = Fault.MODEL) -> Record:
    return Record(Trial(case, rule, 0), Verdict.error(why, kind), Rotate(12.0), (Steering(3.0),))


def keep_pictures(run: Run, record: Record, source: Image, followup: Image) -> None:
    """What the store keeps of a finding."""
    for sha, image in ((record.source_sha, source), (record.input_sha, followup)):
        keep_file(run, sha, "camera.png", (sensor_file(image) or ("", b""))[1])


def keep_file(run: Run, sha: str, name: str, data: bytes = b"") -> None:
    folder = run.folder / "findings"
    folder.mkdir(exist_ok=True)
    (folder / f"{sha[:16]}-{name}").write_bytes(data)


def noise(seed: int, size: tuple[int, int] = (64, 32)) -> Image:
    width, height = size
    return Image(rng_for("noise", seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


RULES: dict[str, tuple[Sequence[Transformation], float]] = {  # how fast each rule starts to fail
    "translation": (Translate.grid(), 22.0),
    "scale": (Scale.grid(), 30.0),
    "shear": (Shear.grid()[::-1], 26.0),
    "rotation": (Rotate.grid(), 40.0),
    "contrast": (Contrast.grid(), 9.0),
    "brightness": (Brighten.grid(), 4.0),
    "blur": (blurs().changes, 3.0),
}


def realistic(folder: Path, drives: int = 20, pictures: int = 400) -> Run:
    """A DeepTest-like run, with answers made up so that failures grow with severity."""
    source = FakeSource(count=drives, width=160, height=80)
    cases = {key: source[key] for key in source.keys()}
    seen = [_seen(case.key, case.group, case.truth) for case in cases.values()]
    records = [record for item in seen for record in _trials(item)]
    wrong = sum(_off(item.answer, item.truth) >= 5 for item in seen)
    lost = Observation("test-0099/0000", "", fault="test-0099/0000: not a PNG: bad signature", readable=False)
    run = Made(records, [*seen, lost], dict.fromkeys(RULES, (wrong, len(seen)))).write(folder)
    by_id = {record.id: record for record in records}
    for item in run.best()[:pictures]:
        case = cases[item.case]
        change = by_id[item.id].change
        assert change is not None
        source = case.inputs["camera"]
        assert isinstance(source, Image)
        keep_pictures(run, by_id[item.id], source, change.map(source))
    return run


def _off(said: Sequence[Value], wanted: Sequence[Value]) -> float:
    assert isinstance(said[0], Steering)
    assert isinstance(wanted[0], Steering)
    return abs(said[0].degrees - wanted[0].degrees)


def _seen(key: str, group: str, truth: tuple[Value, ...]) -> Observation:
    label = truth[0]
    assert isinstance(label, Steering)
    said = Steering(label.degrees + float(rng_for("said", key).normal(0, 2.2)))
    return Observation(key, group, truth, (said,), digest_of(key))


def _trials(seen: Observation) -> Iterator[Record]:
    for rule, (changes, gain) in RULES.items():
        for draw, change in enumerate(changes):
            rng = rng_for("after", seen.case, rule, draw)
            push = gain * (draw / len(changes)) ** 2 * rng.normal(0.4, 0.8) + rng.normal(0, 0.8)
            yield _trial(seen, Trial(seen.case, rule, draw, change), float(push))


def _trial(seen: Observation, trial: Trial, push: float) -> Record:
    assert trial.change is not None
    said = seen.answer[0]
    assert isinstance(said, Steering)
    if isinstance(trial.change, Shear) and trial.change.x <= -0.9:
        verdict = Verdict.skipped(f"{50 + abs(push):.1f}% of the image is border fill, more than 50.0%")
        return Record(trial, verdict, trial.change, seen.answer)
    if push > 30:
        verdict = Verdict.error(f"ValueError: steering is {push:.2f}, beyond the actuator")
        return Record(trial, verdict, trial.change, seen.answer)
    after = Steering(said.degrees + push)
    verdict = AngleWithin(5.0).compare(said, after)
    origin = Origin.INTRODUCED if _off(seen.answer, seen.truth) < 5 else Origin.ALREADY_WRONG
    violated = verdict.status is Status.VIOLATED
    return Record(trial, verdict, trial.change, seen.answer, (after,), seen.truth, origin if violated else None)


MIXED = [
    *(held(f"h{index}") for index in range(6)),
    finding("a", off=12.0),
    finding("b", off=50.0),
    replace(finding("c", off=20.0), origin=Origin.UNKNOWN, truth=()),
    *(skipped(f"s{index}", f"{index + 50}.5% of the image is border fill, more than 50.0%") for index in range(4)),
    failed("e", "RuntimeError: shapes do not match"),
    failed("f", "too slow", kind=Fault.TIMEOUT),
]
SEEN = [
    *(Observation(case, "", (Steering(2.5),), (Steering(3.0),)) for case in "abc"),
    Observation("lost", "", fault="lost: not a PNG", readable=False),
]
