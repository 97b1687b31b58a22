"""Run, test and replay from Python."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from swerve.core.campaign import Campaign
    from swerve.core.case import Case, Source
    from swerve.core.relation import Relation
    from swerve.core.space import Space
    from swerve.core.system import Answer, System
    from swerve.core.transformation import Transformation
    from swerve.core.values import Value
    from swerve.execution.replay import ReplayResult
    from swerve.report.notebook import FinishedRun

    Change: TypeAlias = Space | Transformation | type[Transformation]


def run(campaign: Campaign, into: str | Path, *, report: bool = True, **how: Any) -> FinishedRun:
    """Run or resume `campaign` in the folder `into`, write its report, and return what it found.

    `how` is passed to `swerve.execution.launch.run_into`: workers, allowance, on, force, trusted, repair. The files
    whose code the campaign uses are trusted: this program has loaded them already.
    """
    from swerve.config.toml import ANYWHERE, Loaded
    from swerve.execution.launch import run_into
    from swerve.report.html import write_report
    from swerve.report.notebook import FinishedRun
    from swerve.store.view import Run

    trusted = [*how.pop("trusted", ()), *_files_of(campaign)]
    summary = run_into(Loaded(campaign, ANYWHERE), Path(into), trusted=trusted, **how)
    finished = summary.run or Run(Path(into))
    if report:
        write_report(finished)
    return FinishedRun(finished, trusted)


def test(
    system: System | Callable[[Case], Value | Answer],
    source: Source,
    change: Change | Mapping[str, Change],
    expect: Relation,
    *,
    into: str | Path,
    **options: Any,
) -> FinishedRun:
    """Change every case, and check what must hold: a campaign in one call.

    Args:
        system: the model, or a function from a case to an answer.
        source: the cases.
        change: what to change: a transformation, a class, a space, or several by the names of their rules.
        expect: what must hold.
        into: the run folder; running again resumes it.
        options: `search` (a sweep by default), `gate`, `coverage`, `seed` and `inference_batch` of a `Campaign`, and those
            of `run`, such as `workers`.
    """
    from swerve.core.campaign import Campaign
    from swerve.core.relation import Rule

    changes = change if isinstance(change, Mapping) else {_name_of(change): change}
    rules = tuple(Rule(name, one, expect) for name, one in changes.items())
    known = {item.name for item in dataclasses.fields(Campaign)} - {"source", "system", "rules"}
    given = {name: options.pop(name) for name in known & options.keys()}
    return run(Campaign(source, _system(system), rules, **given), into, **options)


test.__test__ = False  # type: ignore[attr-defined]  # pytest: this is no test of a module that imports it


def _system(given: Any) -> System:
    """A system as it is, or a function as a system."""
    from swerve.core.errors import InputError
    from swerve.core.system import System
    from swerve.systems.function import FunctionSystem

    if isinstance(given, System):
        return given
    if hasattr(given, "state_dict") or not callable(given):
        raise InputError(f"a {type(given).__name__} is not a system; for a network write sw.torch, sw.onnx or sw.keras")
    return FunctionSystem(given)


def _name_of(change: Change) -> str:
    """A name for the only rule: the kinds of change in its space."""
    from swerve.core.space import as_space
    from swerve.core.transformation import plain_name
    from swerve.store.fingerprint import kinds_of

    space = as_space(change)
    kinds: list[type] = [*kinds_of(space)]
    return ", ".join(map(plain_name, kinds or [type(space)]))


def _files_of(campaign: Campaign) -> Iterator[str]:
    """The Python files, given by path, that parts of a campaign come from."""
    from swerve.core.names import GIVEN_AS
    from swerve.core.parts import parts_in

    for part in parts_in(campaign):
        module = sys.modules.get(getattr(part, "__module__", None) or "")
        if file := getattr(module, GIVEN_AS, None):
            yield str(file)


def replay(folder: str | Path, finding: str, *, campaign: Campaign | None = None) -> ReplayResult:
    """Run one finding of a run folder again; `campaign` is needed if the folder cannot rebuild it."""
    from swerve.execution.executors.cores import settle_threads
    from swerve.execution.replay import replay as replay_alone

    settle_threads()
    return replay_alone(Path(folder), finding, campaign=campaign)
