"""The whole experiment: series first, then a section for each question, tables and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swerve.case import Source
from swerve.experiments.estimate import Cost
from swerve.experiments.lidar import losses
from swerve.experiments.lidar.sweeps import zoo
from swerve.experiments.lidar.tested import PLACEMENTS, Tested
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.subjects import Subject, given
from swerve.methods.lidar import BOTH, INDEPENDENT, PAIRED, SERIES, lidar
from swerve.report.experiment import Page, write_page
from swerve.system import System


@dataclass(frozen=True)
class Size:
    """How much is run: frames of a series."""

    frames: int


SIZES = {QUICK: Size(30), USUAL: Size(500), FULL: Size(1000)}
BATCHES = (8, 4)  # of the two runs: a follow-up has other neighbours than its source, and A/A should have too


def experiment(
    setting: Setting,
    system: System | None = None,
    source: Source | None = None,
    name: str = "",
    *,
    independent: bool = False,
) -> Path:
    """Run everything into the setting's folder, resuming what is there, and say where the page is."""
    size = SIZES[setting.level]
    frames = size.frames * (len(SERIES) if independent else 1)
    if system is not None and source is not None:
        subjects = [given(system, source, frames, name or type(system).__name__.lower())]
    else:
        subjects = zoo(setting, frames)
    tested = [_tested(setting, subject, independent) for subject in subjects]
    return write_page(page(setting, tested, independent), setting.into)


def page(setting: Setting, tested: Sequence[Tested], independent: bool) -> Page:
    """The page of finished runs: their tables are written on the way."""
    sections = (losses.section(setting, tested),)
    return Page(f"LiDAR on {', '.join(one.name for one in tested)}", (LEAD,), sections, _facts(setting, tested, independent))


LEAD = (
    "Zhou and Sun added random points outside the region of interest to LiDAR sweeps and counted the obstacles that Baidu "
    "Apollo saw before and after. Their experiment, run again with the checks that it left open: whether the very obstacles "
    "are still there, what an unchanged frame gives, and how few points it takes. Their numbers stand beside ours."
)


def _facts(setting: Setting, tested: Sequence[Tested], independent: bool) -> dict[str, object]:
    design = INDEPENDENT if independent else PAIRED
    frames = {one.name: f"{len(one.baseline):,} frames, {one.unjudged:,} trials not judged" for one in tested}
    return {"level": setting.level, "seed": setting.seed, "series": design, **frames}


def _tested(setting: Setting, subject: Subject, independent: bool) -> Tested:
    """All runs of one system."""
    series = INDEPENDENT if independent else PAIRED
    runs = {}
    for (placement, near), batch in zip(PLACEMENTS.items(), BATCHES, strict=True):
        campaign = lidar(
            subject.source, subject.system, near=near, check=BOTH, series=series, seed=setting.seed, inference_batch=batch
        )
        runs[placement] = setting.run(f"{subject.name}/{placement}", campaign)
    return Tested(subject, runs)


def estimate(level: str, system: System | None = None, source: Source | None = None, *, independent: bool = False) -> Cost:
    """What the experiment will cost, from a few trials of each system."""
    raise NotImplementedError
