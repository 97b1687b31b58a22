"""`swerve experiment`: the research questions of a paper, on the zoo or on your own system and source."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.text import Text

from swerve.cli.options import HELD, add_trust, add_verb, add_workers
from swerve.core.errors import InputError, did_you_mean, printable

ABOUT = "repeat the experiment of a paper: tables, the paper's numbers beside ours, and an HTML page"
EPILOG = """experiments:
  deeptest   five research questions on steering: coverage, guided search, the λ×ε oracle, retraining
  lidar      points outside the region of interest: lost obstacles, by count and one by one, and the fewest points needed

--quick takes minutes, --full is as large as the paper's experiment; both print their estimated cost first.
The same folder resumes a stopped experiment.
"""
# Every experiment with its own options; its module has `experiment` and `estimate`.
EXPERIMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"deeptest": ("profile", "error"), "lidar": ("independent", "retrain")}
)


def add_parser(verbs: Any) -> None:
    """Add `experiment` to the verbs of the command line."""
    verb = add_verb(verbs, "experiment", experiment, ABOUT, EPILOG)
    verb.add_argument("name", metavar="NAME", help=" or ".join(EXPERIMENTS))
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="folder for runs, tables and the HTML page")
    size = verb.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a small experiment: few images or sweeps")
    size.add_argument("--full", action="store_true", help="as many images or sweeps as the paper")
    verb.add_argument(
        "--profile", metavar="NAME", help="deeptest: swerve (default), deeptest-2018 or deeptest-code; docs/deeptest.md"
    )
    verb.add_argument(
        "--error",
        metavar="NAME",
        help="deeptest: how Eq. 3 measures error: mse (default), or rmse as the authors' script",
    )
    verb.add_argument("--independent", action="store_true", help="lidar: different frames for every series, as in the paper")
    verb.add_argument("--retrain", action="store_true", help="lidar: retrain with noise points even with --quick")
    verb.add_argument("--system", metavar="FILE", help="a campaign file whose system is tested instead of the zoo")
    verb.add_argument("--source", metavar="FILE", help="a campaign file whose source is used (default: that of --system)")
    verb.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    add_workers(verb)
    add_trust(verb)
    verb.add_argument("--force", action="store_true", help="run even what `swerve check` rejects")


def experiment(options: argparse.Namespace) -> int:
    """Run an experiment and print its results."""
    from swerve.config.toml import ANYWHERE
    from swerve.execution.executors.cores import settle_threads
    from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
    from swerve.report.experiment_page import print_page
    from swerve.report.numbers import PAGE
    from swerve.report.terminal import RichProgress

    if options.name not in EXPERIMENTS:
        hint = did_you_mean(options.name, EXPERIMENTS)
        raise InputError(f"there is no experiment '{printable(options.name, 40)}'; {hint}")
    own = _own_options(options)
    if options.source and not options.system:
        raise InputError("--source needs --system: the systems of the zoo have their own frames")
    settle_threads()
    level = QUICK if options.quick else FULL if options.full else USUAL
    console = Console()
    subject = _subject(options)
    module = importlib.import_module(f"swerve.experiments.{options.name}.experiment")
    if (options.into / "runs").exists():
        console.print(Text(f"resuming in {options.into}"))
    else:
        cost = module.estimate(level, subject.get("system"), subject.get("source"), **own)
        console.print(Text(f"{options.name}, {level}: {cost.describe()} in {options.into}, for a complete run"))
    with RichProgress(Console(stderr=True) if sys.stderr.isatty() else console) as progress:
        base = Path(options.system).resolve().parent if options.system else ANYWHERE
        means = {"base": base, "trusted": tuple(options.trust), "force": options.force}
        setting = Setting(options.into, level, options.seed, options.workers, progress, progress.head, **means)
        page = module.experiment(setting, **subject, **own)
    print_page(page, console)
    console.print(Text(str(options.into / PAGE)))
    return HELD


def _subject(options: argparse.Namespace) -> dict[str, Any]:
    from swerve.config.toml import load_campaign

    if not options.system:
        return {}
    campaign = load_campaign(options.system, options.trust).campaign
    source = load_campaign(options.source, options.trust).campaign.source if options.source else campaign.source
    return {"system": campaign.system, "source": source, "name": Path(options.system).stem}


def _own_options(options: argparse.Namespace) -> dict[str, Any]:
    """The given options that are specific to this experiment; those of other experiments are an error."""
    mine = EXPERIMENTS[options.name]
    for name in {option for others in EXPERIMENTS.values() for option in others} - {*mine}:
        if getattr(options, name):
            raise InputError(f"--{name} is not an option of experiment '{options.name}'")
    return {name: given for name in mine if (given := getattr(options, name))}
