"""The `swerve` command."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from swerve import __version__
from swerve.cli import (
    assets,
    check,
    compare,
    demo,
    experiment,
    explain,
    export,
    init,
    objects,
    report,
    retrain,
    review,
    run,
    show,
    shrink,
    style,
    translate,
    unpack,
    world,
    zoo,
)
from swerve.cli import list as catalog
from swerve.cli import replay as replaying
from swerve.cli.options import BAD_INPUT
from swerve.cli.streams import outlast_readers
from swerve.core.errors import LONGEST_MESSAGE, EnvironmentFault, SwerveError, printable, unknown
from swerve.core.extras import missing_package
from swerve.execution.supervise import Stopped, stop, supervised

EPILOG = """
Start with `swerve demo`. `swerve VERB --help` explains a verb, with examples.

exit codes:
  0  all rules held (replay: reproduced; compare: nothing new; check: no
     objection; every other verb: it finished)
  1  findings; of a rule with `fail_if`, a condition that is met (replay: not
     reproduced; shrink: a finding did not fail again; compare: new findings, or
     lost verdicts)
  2  bad input: an invalid file, key or value, or no trial that could be judged;
     the message says which
  3  the model failed
  4  the environment failed: disk, permission, lock, missing package
"""
PACKAGE = "swerve.cli"
WIDTH = len("experiment")  # of the longest verb
LISTED = 12  # differences between two campaigns; a foreign folder may have any number
CLOSED_PIPE = 128 + 13  # as the shell reports SIGPIPE, where the verb could not finish (see cli.streams)
# In the order in which `swerve` lists them.
VERBS: Mapping[str, Sequence[Any]] = MappingProxyType(
    {
        "test a model": (demo, init, catalog, check, run),
        "look at what was found": (report, show, explain, replaying, shrink, review, compare, export),
        "and further": (retrain, experiment, world, objects, style, translate, zoo, assets, unpack),
    }
)


def console() -> int:
    """The command as a program: whatever the system under test does, the exit code is that of the command."""
    outlast_readers()
    # The page of `review` runs no system, and the browser that it opens outlives the command.
    return main() if sys.argv[1:2] == ["review"] else supervised(main)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Before torch is imported, for the same order of summation on every machine (see execution.launch).
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _escape_unprintable(sys.stdout)
    words = sys.argv[1:] if arguments is None else arguments
    if words and not words[0].startswith("-") and words[0] not in (names := _names()):
        print(f"error: {unknown('verb', words[0], names)} `swerve` lists all verbs", file=sys.stderr)
        return BAD_INPUT
    top = parser(words[0] if words else "")
    options = top.parse_args(words)
    if not hasattr(options, "verb"):
        top.print_help()
        return BAD_INPUT
    signal.signal(signal.SIGTERM, stop)
    try:
        return int(options.verb(options))
    except SwerveError as error:
        return _fail(error, options.debug)
    except Stopped as stopped:
        return stopped.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return CLOSED_PIPE
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # rich exits this way when the pipe is closed
            return CLOSED_PIPE
        return _fail(EnvironmentFault(f"unexpected SystemExit: {ended}; --debug shows where"), options.debug)
    except BaseException as error:  # a bug in Swerve, or user code: exit code 1 would mean findings
        bug = EnvironmentFault(f"unexpected {type(error).__name__}: {error}; --debug shows where")
        return _fail(missing_package(error) or bug, options.debug)


def _escape_unprintable(stream: Any) -> None:
    """Print characters that the terminal's encoding lacks, such as °, as \\xb0 instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _fail(error: SwerveError, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"error: {error}", file=sys.stderr)
    for line in error.details[:LISTED]:
        print(f"  {printable(line, LONGEST_MESSAGE)}", file=sys.stderr)
    if len(error.details) > LISTED:
        print(f"  and {len(error.details) - LISTED:,} more", file=sys.stderr)
    return error.exit_code


def _names() -> list[str]:
    return [module.__name__.rpartition(".")[2] for modules in VERBS.values() for module in modules]


def parser(verb: str = "") -> argparse.ArgumentParser:
    """The command line, with a help text for every verb; of `verb` alone, if there is one of that name."""
    top = argparse.ArgumentParser(
        prog="swerve",
        usage="swerve VERB ...",
        description="Finds where a driving-perception model contradicts itself.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"swerve {__version__}")
    verbs = top.add_subparsers(prog="swerve", metavar="VERB", help=argparse.SUPPRESS)
    lines: list[str] = []
    asked = [module for modules in VERBS.values() for module in modules if module.__name__ == f"{PACKAGE}.{verb}"]
    for head, modules in {"": asked}.items() if asked else VERBS.items():
        before = set(verbs.choices)
        for module in modules:
            module.add_parser(verbs)
        added = ((name, verb.description) for name, verb in verbs.choices.items() if name not in before)
        lines += [f"{head}:", *(f"  {name:<{WIDTH}}  {about}" for name, about in added), ""]
    top.epilog = "\n".join(lines) + EPILOG
    return top


if __name__ == "__main__":
    sys.exit(console())
