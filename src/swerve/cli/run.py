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
    add_keep,
    add_trust,
    add_verb,
    allowance,
    whole,
)
from swerve.config import limits
from swerve.core.errors import InputError, printable
from swerve.execution.executors.cores import cores
from swerve.execution.supervise import Stopped

if TYPE_CHECKING:
    from swerve.config.toml import Loaded
EPILOG = """exit codes:
  0  all rules held; a rule with a `fail_if` may have findings as long as none
     of its conditions is met
  1  a rule failed: a condition of its `fail_if` is met, or it has none and
     there is a finding
  2  bad input, or no trial could be judged
  3  the model failed on a case or a trial
  4  the environment failed: disk, permission, lock, missing package
"""
EXAMPLES = """
  swerve run mine.toml --into runs/mine            run, or resume
  swerve run mine.toml --into runs/mine --workers 4
  swerve run mymodule:campaign --into runs/mine    a campaign made in Python
"""


def add_parser(verbs: Any) -> None:
    """Add `run` to the verbs of the command line."""
    verb = add_verb(verbs, "run", run, "run a campaign, or resume one that was stopped", EXAMPLES, EPILOG)
    add_campaign(verb)
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="run folder; the same folder resumes the run")
    add_keep(verb)
    verb.add_argument("--no-report", action="store_true", help="do not write the HTML report (later: swerve report DIR)")
    verb.add_argument("--repair", action="store_true", help="resume from the intact part of a damaged journal")
    budget = "most trials that may follow to shrink one finding of each group (default: a fifth of the run's, at most 400)"
    verb.add_argument("--shrink", type=whole, default=None, metavar="N", help=budget)
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
        keep=options.keep,
        shrink=options.shrink,
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
    for name in ("keep", "shrink"):
        if getattr(options, name) is not None:
            yield f"--{name} {getattr(options, name)}"
    if options.force:
        yield "--force"


def exit_code(counts: Mapping[str, Any]) -> int:
    """The exit code of a finished run; never 0 if no trial was judged, or none of a rule with a `fail_if`."""
    not_model = sum(counts["error_kinds"].get(kind, 0) for kind in ("change", "relation"))
    rules = counts["rules"]
    undecided = {name: why for name, rule in rules.items() if (why := rule.get("acceptance", {}).get("undecided"))}
    if any(_failed(rule) for name, rule in rules.items() if name not in undecided):
        return FOUND
    if counts["errors"] > not_model or counts["failed_cases"]:
        return MODEL_FAILED
    if not_model:
        raise InputError(f"{not_model} trials failed because of an error in a change or a relation; see the report")
    if not _judged(counts):
        raise InputError(f"no trial could be judged: {counts['skipped']} were skipped; see the report")
    for name, why in undecided.items():
        raise InputError(f"rule '{name}': {why}, so its fail_if cannot be decided; see the report")
    return HELD


def _judged(counts: Mapping[str, Any]) -> int:
    return int(counts["held"] + counts["violated"])


def _failed(rule: Mapping[str, Any]) -> bool:
    """Whether a rule fails the run: by its conditions, or by any finding if it has none."""
    return bool(rule["acceptance"]["failed"] if "acceptance" in rule else rule["violated"])


def run_and_report(
    loaded: Loaded, folder: Path, again: str, *, report: bool = True, shrink: int | None = None, **how: Any
) -> dict[str, Any]:
    """Run the campaign under a progress bar and write its report; `again` is the command that resumes it.

    `shrink` is the most trials that may follow to shrink findings, by default a share of those of the run.
    """
    from rich.console import Console
    from rich.text import Text

    from swerve.execution.launch import run_into
    from swerve.execution.shrink_budget import default_budget
    from swerve.report.terminal import RichProgress, print_summary
    from swerve.store.view import Run

    console = Console()
    # Without a terminal, progress goes to stdout, so that stderr contains only errors.
    bars = Console(stderr=True) if sys.stderr.isatty() else console

    def notify(line: str) -> None:
        bars.print(Text(printable(line)), soft_wrap=True)

    try:
        with RichProgress(bars) as progress:
            budget = default_budget if shrink is None else lambda _: shrink
            summary = run_into(loaded, folder, progress=progress, tell=notify, shrink=budget, **how)
    except (KeyboardInterrupt, Stopped):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print(f"stopped; completed trials are saved. To resume: {printable(again)}", file=sys.stderr)
        raise
    finished = summary.run or Run(folder)
    if report:
        from swerve.report.html import write_report

        write_report(finished)
    print_summary(finished, console)
    return summary.as_dict()
