"""The verb `swerve experiment`: a paper's research questions on the zoo, or on a system and a source of one's own."""

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

from swerve.core.errors import InputError, did_you_mean, printable

ABOUT = "repeat a paper's experiment: its tables, its printed numbers beside ours, and a page"
EPILOG = """experiments:
  deeptest   five research questions on steering: coverage, guided search, the λ×ε oracle, retraining
  lidar      points outside the region of interest: obstacles lost, by counting and one by one, and how few points it takes

--quick takes minutes, --full is as large as the paper's; both tell what they will cost before they start.
The same folder goes on with what was stopped.
"""
DONE = 0
# Every experiment with the options that it alone has; its module has `experiment` and `estimate`.
EXPERIMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"deeptest": ("profile", "error"), "lidar": ("independent", "retrain")}
)


def add_parser(verbs: Any, workers: int) -> argparse.ArgumentParser:
    """Add `experiment` to the verbs of the command line."""
    made: argparse.ArgumentParser = verbs.add_parser(
        "experiment",
        help=ABOUT,
        description=ABOUT[0].upper() + ABOUT[1:] + ".",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(verb=experiment_verb)
    made.add_argument("name", metavar="NAME", help=" or ".join(EXPERIMENTS))
    made.add_argument("--into", type=Path, required=True, metavar="DIR", help="folder for runs, tables and the page")
    size = made.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a few images or sweeps of everything")
    size.add_argument("--full", action="store_true", help="as many images or sweeps as the paper")
    made.add_argument(
        "--profile", metavar="NAME", help="deeptest: swerve (default), deeptest-2018 or deeptest-code; docs/deeptest.md"
    )
    made.add_argument(
        "--error",
        metavar="NAME",
        help="deeptest: how Eq. 3 measures error: mse (default), or rmse as the authors' script",
    )
    made.add_argument("--independent", action="store_true", help="lidar: other frames for every series, as printed")
    made.add_argument("--retrain", action="store_true", help="lidar: retrain with noise points, which --quick leaves out")
    made.add_argument("--system", metavar="FILE", help="a campaign file whose system is tested instead of the zoo's")
    made.add_argument("--source", metavar="FILE", help="a campaign file whose source is used (default: the one of --system)")
    made.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default: %(default)s)")
    made.add_argument("--workers", type=int, default=workers, metavar="N", help="processes (default: one per core)")
    made.add_argument("--trust", type=Path, action="append", default=[], metavar="FILE", help="run this Python file")
    made.add_argument("--force", action="store_true", help="run what `swerve check` refuses")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return made


def experiment_verb(options: argparse.Namespace) -> int:
    """Carry out `swerve experiment`."""
    from swerve.config.toml import ANYWHERE
    from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
    from swerve.report.experiment_page import print_page
    from swerve.report.numbers import PAGE
    from swerve.report.terminal import RichProgress
    from swerve.run.executors.threads import settle_threads

    if options.name not in EXPERIMENTS:
        near = did_you_mean(options.name, EXPERIMENTS)
        raise InputError(f"there is no experiment '{printable(options.name, 40)}'; {near}")
    own = _own_options(options)
    if options.source and not options.system:
        raise InputError("--source goes with --system: the zoo's systems have their own frames")
    settle_threads()
    level = QUICK if options.quick else FULL if options.full else USUAL
    console = Console()
    subject = _subject(options)
    module = importlib.import_module(f"swerve.experiments.{options.name}.experiment")
    if (options.into / "runs").exists():
        console.print(Text(f"going on in {options.into}"))
    else:
        cost = module.estimate(level, subject.get("system"), subject.get("source"), **own)
        console.print(Text(f"{options.name}, {level}: {cost.describe()} in {options.into}, if all is run"))
    with RichProgress(Console(stderr=True) if sys.stderr.isatty() else console) as watch:
        base = Path(options.system).resolve().parent if options.system else ANYWHERE
        means = {"base": base, "trusted": tuple(options.trust), "force": options.force}
        setting = Setting(options.into, level, options.seed, options.workers, watch, watch.head, **means)
        page = module.experiment(setting, **subject, **own)
    print_page(page, console)
    console.print(Text(str(options.into / PAGE)))
    return DONE


def _subject(options: argparse.Namespace) -> dict[str, Any]:
    from swerve.config.toml import load_campaign

    if not options.system:
        return {}
    campaign = load_campaign(options.system, options.trust).campaign
    source = load_campaign(options.source, options.trust).campaign.source if options.source else campaign.source
    return {"system": campaign.system, "source": source, "name": Path(options.system).stem}


def _own_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options that only some experiments have, for this one; any other is refused."""
    mine = EXPERIMENTS[options.name]
    for name in {option for others in EXPERIMENTS.values() for option in others} - {*mine}:
        if getattr(options, name):
            raise InputError(f"--{name} is no option of the experiment '{options.name}'")
    return {name: given for name in mine if (given := getattr(options, name))}
