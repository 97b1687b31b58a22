"""The setting of an experiment: its folder, its size, its options and its workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swerve.config.toml import ANYWHERE
from swerve.execution.engine import NoProgress, Progress

QUICK, USUAL, FULL = "quick", "usual", "full"
RUNS, DATA = "runs", "data"


@dataclass(frozen=True)
class Setting:
    """An experiment's folder and resources. An experiment that was stopped resumes in the same folder."""

    into: Path
    level: str = USUAL
    seed: int = 0
    workers: int = 0
    progress: Progress = field(default_factory=NoProgress, repr=False, compare=False)
    say: Callable[[str], object] = field(default=str, repr=False, compare=False)  # the step that begins
    base: Path = ANYWHERE  # folder that the paths of a given system and source are relative to
    trusted: tuple[str | Path, ...] = ()
    force: bool = False  # run what `swerve check` refuses
    size: Any = None  # that of the level, filled in by the runner
    options: Mapping[str, Any] = field(default_factory=dict)  # of this experiment, filled in by the runner
