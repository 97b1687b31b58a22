"""The setting of an experiment: its folder, its size, and its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swerve.analysis.tables import TABLES
from swerve.config.toml import ANYWHERE, Loaded
from swerve.core.campaign import Campaign
from swerve.execution.engine import NoProgress, Progress
from swerve.execution.launch import run_into
from swerve.store.files import make_folder, write_csv
from swerve.store.view import Run

QUICK, USUAL, FULL = "quick", "usual", "full"
RUNS, DATA = "runs", "data"


def _quiet(line: str) -> None:
    del line


@dataclass(frozen=True)
class Setting:
    """An experiment's folder and resources. An experiment that was stopped resumes in the same folder."""

    into: Path
    level: str = USUAL
    seed: int = 0
    workers: int = 0
    progress: Progress = field(default_factory=NoProgress, repr=False, compare=False)
    say: Callable[[str], None] = field(default=_quiet, repr=False, compare=False)
    base: Path = ANYWHERE  # folder that the paths of a given system and source are relative to
    trusted: tuple[str | Path, ...] = ()
    force: bool = False  # run what `swerve check` refuses

    def run(self, name: str, campaign: Campaign, *, workers: int | None = None, force: bool = True) -> Run:
        """Run a campaign to its end in `runs/NAME`; unless `force`, `swerve check` may refuse it."""
        self.say(name)
        folder = self.into / RUNS / name
        run_into(
            Loaded(campaign, self.base),
            folder,
            progress=self.progress,
            trusted=self.trusted,
            force=force or self.force,
            workers=self.workers if workers is None else workers,
            pictures=False,
        )
        return Run(folder)

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
        """Write `tables/NAME.csv` and return its path, relative to the experiment's folder."""
        make_folder(self.into / TABLES)
        write_csv(self.into / TABLES / f"{name}.csv", columns, rows)
        return f"{TABLES}/{name}.csv"
