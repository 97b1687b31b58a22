"""`swerve experiment`: the research questions of a paper, on the zoo or on your own system and source."""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_trust, add_verb, add_workers
from swerve.core.arguments import check_known
from swerve.core.errors import InputError, printable

if TYPE_CHECKING:
    from swerve.experiments.declaration import Experiment


@dataclass(frozen=True)
class _Listed:
    """What the command line says of an experiment before it is imported; flags have no value, options have one."""

    about: str
    options: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)


# Experiment NAME is the constant of that name, in capitals, of `swerve.experiments.NAME`.
EXPERIMENTS: Mapping[str, _Listed] = MappingProxyType(
    {
        "deeptest": _Listed(
            "five research questions on steering: coverage, guided search, the λ×ε oracle, retraining",
            {
                "profile": "swerve (default), deeptest-2018 or deeptest-code; docs/deeptest.md",
                "error": "how Eq. 3 measures error: mse (default), or rmse as the authors' script",
            },
        ),
        "lidar": _Listed(
            "points outside the region of interest: lost obstacles, by count and one by one, and the fewest points needed",
            flags={
                "independent": "different frames for every series, as in the paper",
                "retrain": "retrain with noise points even with --quick",
            },
        ),
        "iatg": _Listed(
            "objects chosen by the network's explanation are swapped: misleading angles against random, largest and nearest",
            {
                "similarity": "ms-ssim (default), ssim, lpips-vgg or lpips-alex; docs/iatg.md",
                "library": "a file of `swerve objects build` (default: objects of the embedded world)",
                "painter": "a file of `swerve translate train` (default: the packaged one, on the embedded world)",
            },
        ),
        "tigaug": _Listed(
            "twelve changes of pictures of traffic lights: lost precision, retraining with a control, time, naturalness",
            flags={"scratch": "retrain from new weights, as the paper, instead of further from the detector's own"},
        ),
        "tactic": _Listed(
            "learned conditions: searched styles against random styles, DeepRoad and random search, and their realism",
            {"styles": "a folder with styles of `swerve style train` (default: the packaged ones)"},
        ),
        "conditions": _Listed(
            "searches for critical conditions: evolution against chance, errors at 10 to 40°, what the race saves",
            flags={"cma": "compare with CMA-ES too, from the package cmaes"},
        ),
    }
)
EXAMPLES = """
  swerve experiment deeptest --quick --into runs/deeptest
  swerve experiment lidar --quick --into runs/lidar
  swerve experiment deeptest --system mine.toml --into runs/mine
"""


def _in_lines(text: str) -> str:
    return textwrap.fill(text, 80, subsequent_indent=" " * 13)


ABOUT = "repeat a paper's experiment: tables and charts beside its own"
EPILOG = f"""experiments:
{chr(10).join(_in_lines(f"  {name:<10} {listed.about}") for name, listed in EXPERIMENTS.items())}

--quick takes minutes, --full is as large as the paper's experiment; both print
their estimated cost first. The same folder resumes a stopped experiment. For an
experiment of your own, see docs/extend.md.
"""


def add_parser(verbs: Any) -> None:
    """Add `experiment` to the verbs of the command line."""
    verb = add_verb(verbs, "experiment", experiment, ABOUT, EXAMPLES, EPILOG)
    names = f"{', '.join(EXPERIMENTS)}, or module:function that returns an Experiment"
    verb.add_argument("name", metavar="NAME", help=names)
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="folder for runs, tables and the HTML page")
    size = verb.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a small experiment: few images or sweeps")
    size.add_argument("--full", action="store_true", help="as many images or sweeps as the paper")
    for name, listed in EXPERIMENTS.items():
        for option, about in listed.options.items():
            verb.add_argument(f"--{option}", metavar="NAME", help=f"{name}: {about}")
        for flag, about in listed.flags.items():
            verb.add_argument(f"--{flag}", action="store_true", help=f"{name}: {about}")
    verb.add_argument("--system", metavar="FILE", help="a campaign file whose system is tested instead of the zoo")
    verb.add_argument("--source", metavar="FILE", help="a campaign file whose source is used (default: that of --system)")
    verb.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    add_workers(verb)
    add_trust(verb)
    verb.add_argument("--force", action="store_true", help="run even what `swerve check` rejects")


def experiment(options: argparse.Namespace) -> int:
    """Run an experiment and print its results."""
    from rich.console import Console
    from rich.text import Text

    from swerve.config.toml import ANYWHERE
    from swerve.execution.executors.cores import settle_threads
    from swerve.experiments.runner import estimate, run
    from swerve.experiments.setting import FULL, QUICK, RUNS, USUAL, Setting
    from swerve.report.experiment_page import print_page
    from swerve.report.templating import PAGE
    from swerve.report.terminal import RichProgress

    chosen, own = _named(options), _own_options(options)
    if options.source and not options.system:
        raise InputError("--source needs --system: the systems of the zoo have their own frames")
    settle_threads()
    level = QUICK if options.quick else FULL if options.full else USUAL
    console = Console()
    subject = _subject(options)
    if (options.into / RUNS).exists():
        console.print(Text(f"resuming in {options.into}"))
    else:
        cost = estimate(chosen, level, subject.get("system"), subject.get("source"), **own)
        console.print(Text(f"{options.name}, {level}: {cost.describe()} in {options.into}, for a complete run"))
    with RichProgress(Console(stderr=True) if sys.stderr.isatty() else console) as progress:
        base = Path(options.system).resolve().parent if options.system else ANYWHERE
        means = {"base": base, "trusted": tuple(options.trust), "force": options.force}
        setting = Setting(options.into, level, options.seed, options.workers, progress, progress.head, **means)
        page = run(chosen, setting, **subject, **own)
    print_page(page, console)
    console.print(Text(str(options.into / PAGE)))
    return HELD


def _named(options: argparse.Namespace) -> Experiment:
    """The experiment of that name, or the one that `module:function` returns."""
    from swerve.config.registry import resolve
    from swerve.config.trust import Trust
    from swerve.experiments.declaration import Experiment

    name = options.name
    if ":" in name:
        made = resolve(name, Path.cwd(), trust=Trust.of(options.trust), wanted=(Experiment,))()
    else:
        check_known("experiment", name, EXPERIMENTS)
        made = getattr(importlib.import_module(f"swerve.experiments.{name}"), name.upper())
    if not isinstance(made, Experiment):
        raise InputError(f"{printable(name, 40)}: expected a function that returns an Experiment, got {type(made).__name__}")
    return made


def _subject(options: argparse.Namespace) -> dict[str, Any]:
    from swerve.config.toml import load_campaign

    if not options.system:
        return {}
    campaign = load_campaign(options.system, options.trust).campaign
    source = load_campaign(options.source, options.trust).campaign.source if options.source else campaign.source
    return {"system": campaign.system, "source": source, "name": Path(options.system).stem}


def _own_options(options: argparse.Namespace) -> dict[str, Any]:
    """The given options that are specific to this experiment; those of other experiments are an error."""
    listed = EXPERIMENTS.get(options.name, _Listed(""))
    mine = (*listed.options, *listed.flags)
    for name in {option for other in EXPERIMENTS.values() for option in (*other.options, *other.flags)} - {*mine}:
        if getattr(options, name):
            raise InputError(f"--{name} is not an option of experiment '{options.name}'")
    return {name: given for name in mine if (given := getattr(options, name))}
