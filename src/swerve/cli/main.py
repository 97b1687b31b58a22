"""The `swerve` command."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from swerve import __version__
from swerve.cli import (
    check,
    compare,
    demo,
    experiment,
    export,
    report,
    retrain,
    review,
    run,
    show,
    shrink,
    unpack,
    world,
    zoo,
)
from swerve.cli import list as catalog
from swerve.cli import replay as replaying
from swerve.core.errors import EnvironmentFault, SwerveError, printable
from swerve.execution.supervise import Stopped, stop, supervised

EPILOG = """exit codes:
  0  all rules held (replay: reproduced; compare: nothing new; check: no objection; every other verb: it finished)
  1  findings (replay: not reproduced; shrink: a finding did not fail again; compare: new findings, or lost verdicts)
  2  bad input: an invalid file, key or value, or no trial that could be judged; the message says which
  3  the model failed
  4  the environment failed: disk, permission, lock, missing package
"""
# In the order in which `swerve --help` lists them.
RUNS = (demo, run, check, report, show, replaying, shrink)
OTHERS = (world, zoo, experiment, retrain, compare, export, unpack, review, catalog)


def console() -> int:
    """The command as a program: whatever the system under test does, the exit code is that of the command."""
    return supervised(main)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Before torch is imported, for the same order of summation on every machine (see execution.launch).
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _escape_unprintable(sys.stdout)
    options = parser().parse_args(arguments)
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
        sys.stderr.close()
        return 0
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # rich exits this way when the pipe is closed
            sys.stderr.close()
            return 0
        return _fail(EnvironmentFault(f"unexpected SystemExit: {ended}; --debug shows where"), options.debug)
    except BaseException as error:  # a bug in Swerve, or user code: exit code 1 would mean findings
        return _fail(EnvironmentFault(f"unexpected {type(error).__name__}: {error}; --debug shows where"), options.debug)


def _escape_unprintable(stream: Any) -> None:
    """Print characters that the terminal's encoding lacks, such as °, as \\xb0 instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _fail(error: SwerveError, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"error: {error}", file=sys.stderr)
    for line in getattr(error, "changed", ()):
        print(f"  {printable(line)}", file=sys.stderr)
    return error.exit_code


def parser() -> argparse.ArgumentParser:
    """The command line, with a help text for every verb."""
    top = argparse.ArgumentParser(
        prog="swerve",
        description="Metamorphic testing of driving perception: change the input, find where the model contradicts itself.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"swerve {__version__}")
    verbs = top.add_subparsers(metavar="VERB", required=True)
    for verb in (*RUNS, *OTHERS):
        verb.add_parser(verbs)
    return top


if __name__ == "__main__":
    sys.exit(console())
