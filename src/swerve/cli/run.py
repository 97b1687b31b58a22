"""`swerve run`: run a campaign, or resume one."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import (
    FOUND,
    HELD,
    MODEL_FAILED,
    add_campaign,
    add_execution,
    add_trust,
    add_verb,
    allowance,
)
from swerve.config import limits
from swerve.core.errors import InputError, printable
from swerve.execution.executors.cores import cores
from swerve.execution.supervise import Stopped

if TYPE_CHECKING:
    from swerve.config.toml import Loaded


def add_parser(verbs: Any) -> None:
    """Add `run` to the verbs of the command line."""
    verb = add_verb(verbs, "run", run, "run a campaign, or resume one that was stopped")
    add_campaign(verb)
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="run folder; the same folder resumes the run")
    verb.add_argument("--no-report", action="store_true", help="do not write the HTML report (later: swerve report DIR)")
    verb.add_argument("--repair", action="store_true", help="resume from the intact part of a damaged journal")
    add_execution(verb)
    verb.add_argument("--force", action="store_true", help="run even what `swerve check` rejects")
    add_trust(verb)


def run(options: argparse.Namespace) -> int:
    """Run or resume a campaign; the exit code shows whether every rule held."""
    from swerve.config.toml import load_campaign

    loaded = load_campaign(options.campaign, options.trust)
    counts = run_and_report(
        loaded,
        options.into,
        _resume_command(options),
        report=not options.no_report,
        trusted=options.trust,
        force=options.force,
        repair=options.repair,
        workers=options.workers,
        on=options.on,
        allowance=allowance(options),
    )
    return exit_code(counts)


def _resume_command(options: argparse.Namespace) -> str:
    """The command that resumes this run."""
    trust = [word for file in options.trust for word in ("--trust", str(file))]
    command = ["swerve", "run", options.campaign, "--into", str(options.into), *trust]
    return " ".join((shlex.join([*command, "--no-report"] if options.no_report else command), *_changed_options(options)))


def _changed_options(options: argparse.Namespace) -> Iterator[str]:
    """Every option that does not have its default value."""
    defaults = {"workers": cores(), "on": None, "timeout": limits.SECONDS, "memory": limits.MEMORY / limits.GIGA}
    for name, value in defaults.items():
        if getattr(options, name) != value:
            yield f"--{name} {getattr(options, name)}"
    if options.force:
        yield "--force"


def exit_code(counts: Mapping[str, Any]) -> int:
    """The exit code of a finished run; never 0 if no trial was judged."""
    not_model = sum(counts["error_kinds"].get(kind, 0) for kind in ("change", "relation"))
    if counts["violated"]:
        return FOUND
    if counts["errors"] > not_model or counts["failed_cases"]:
        return MODEL_FAILED
    if not_model:
        raise InputError(f"{not_model} trials failed because of an error in a change or a relation; see the report")
    if not counts["held"]:
        raise InputError(f"no trial could be judged: {counts['skipped']} were skipped; see the report")
    return HELD


def run_and_report(loaded: Loaded, folder: Path, again: str, *, report: bool = True, **how: Any) -> dict[str, Any]:
    """Run the campaign under a progress bar and write its report; `again` is the command that resumes it."""
    from rich.console import Console
    from rich.text import Text

    from swerve.execution.launch import run_into
    from swerve.report.html import write_report
    from swerve.report.terminal import RichProgress, print_summary
    from swerve.store.view import Run

    console = Console()
    # Without a terminal, progress goes to stdout, so that stderr contains only errors.
    bars = Console(stderr=True) if sys.stderr.isatty() else console

    def notify(line: str) -> None:
        bars.print(Text(printable(line)), soft_wrap=True)

    try:
        with RichProgress(bars) as progress:
            summary = run_into(loaded, folder, progress=progress, tell=notify, **how)
    except (KeyboardInterrupt, Stopped):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print(f"stopped; completed trials are saved. To resume: {printable(again)}", file=sys.stderr)
        raise
    if report:
        write_report(Run(folder))
    print_summary(Run(folder), console)
    return summary.as_dict()
