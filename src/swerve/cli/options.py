"""Exit codes, common options and argument types shared by all verbs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.config import limits
from swerve.execution.executors.cores import cores

if TYPE_CHECKING:
    from swerve.execution.executors.processes import Allowance

HELD, FOUND, BAD_INPUT, MODEL_FAILED = 0, 1, 2, 3
TRUST = "allow the campaign to run this Python file, module or program; may be repeated"


def add_verb(
    verbs: Any, name: str, function: Callable[[argparse.Namespace], int], about: str, examples: str, epilog: str = ""
) -> argparse.ArgumentParser:
    """Add the parser of one verb; `function` runs it and returns the exit code.

    `examples` are shown below the help, one command line each, and `epilog` after them.
    """
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog="\n\n".join(filter(None, (f"examples:\n{examples.strip(chr(10))}", epilog.rstrip()))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb=function)
    verb.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return verb


def add_folder(verb: argparse.ArgumentParser) -> None:
    """Add the run folder that a verb reads."""
    verb.add_argument("folder", type=Path, metavar="DIR", help="a run folder")


def add_campaign(verb: argparse.ArgumentParser) -> None:
    """Add the campaign that a verb runs."""
    verb.add_argument("campaign", metavar="FILE", help="a campaign file (.toml), or module:factory that returns a Campaign")


def add_trust(verb: argparse.ArgumentParser) -> None:
    """Add --trust, the files, modules and programs that the user consents to run."""
    verb.add_argument("--trust", action="append", default=[], metavar="NAME", help=TRUST)


def add_keep(verb: argparse.ArgumentParser) -> None:
    """Add --keep, the number of findings of each rule of which pictures are kept."""
    about = "keep pictures of the N worst findings of each rule, and of the worst and mildest of each group (default: 20)"
    verb.add_argument("--keep", type=whole, metavar="N", help=about)


def add_execution(verb: argparse.ArgumentParser) -> None:
    """Add the options for workers and their limits."""
    add_workers(verb)
    about = "ray: workers on a local Ray cluster; ray://HOST:PORT: on another (docs/workers.md)"
    verb.add_argument("--on", metavar="WHERE", help=about)
    add_limits(verb)


def add_workers(verb: argparse.ArgumentParser) -> None:
    """Add --workers."""
    about = "worker processes; 0: evaluate in this process, without limits (default: one per core, here %(default)s)"
    verb.add_argument("--workers", type=whole, default=cores(), metavar="N", help=about)


def add_limits(verb: argparse.ArgumentParser) -> None:
    """Add --timeout and --memory, the limits of a worker."""
    seconds, gigabytes = "time limit for one case (default: %(default)g)", "memory limit of a worker (default: %(default)g)"
    verb.add_argument("--timeout", type=above_zero, default=limits.SECONDS, metavar="S", help=seconds)
    verb.add_argument("--memory", type=above_zero, default=limits.MEMORY / limits.GIGA, metavar="GB", help=gigabytes)


def allowance(options: argparse.Namespace) -> Allowance:
    """The limits given by the options of `add_limits`."""
    from swerve.execution.executors.processes import Allowance

    return Allowance(options.timeout, int(options.memory * limits.GIGA))


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def above_zero(text: str) -> float:
    """A finite number above 0."""
    if not 0 < (number := _float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got '{text}'")
    return number


def at_least_zero(text: str) -> float:
    """A finite number of at least 0."""
    if not 0 <= (number := _float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got '{text}'")
    return number


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, got '{text}'")
    return int(text)


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got '{text}'")
    return int(text)
