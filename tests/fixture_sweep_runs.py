"""Run folders made by hand whose findings are of sweeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swerve.core.campaign import Record, Trial
from swerve.core.case import Case
from swerve.core.origin import Origin
from swerve.core.relation import Status, Verdict
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes3D, Value
from swerve.execution.finding_pictures import files_of
from swerve.store.view import Run
from tests.fixture_runs import Made, keep_file
from tests.fixture_sweeps import sweep_case


def boxes_of(case: Case) -> Boxes3D:
    (boxes,) = case.truth
    assert isinstance(boxes, Boxes3D)
    return boxes


def sweep_run(folder: Path, change: Transformation, after: Boxes3D | None = None, camera: Value | None = None) -> Run:
    """A run with one finding of `change` and its files; the answer is the label, and goes along unless `after` is given."""
    case = sweep_case()
    case = case if camera is None else replace(case, inputs={**case.inputs, "camera": camera})
    before, followup = boxes_of(case), change(case)
    record = Record(
        Trial(case.key, "points", 0, change),
        Verdict(Status.VIOLATED, 1.0, "1 lost"),
        change,
        (before,),
        (change.map(before) if after is None else after,),
        (change.map(before),),
        origin=Origin.INTRODUCED,
        source_sha=case.input_sha,
        input_sha=followup.input_sha,
    )
    run = Made([record]).write(folder)
    for one in (case, followup):
        for name, data in files_of(one).items():
            keep_file(run, one.input_sha, name, data)
    return run
