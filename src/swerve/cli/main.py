"""The `swerve` command: one verb per job, exit codes a pipeline can read."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from swerve import __version__
from swerve.cli.experiment import add_parser as add_experiment
from swerve.cli.retrain import add_parser as add_retrain
from swerve.cli.review import ABOUT as ABOUT_REVIEW
from swerve.cli.review import add_options as add_review_options
from swerve.cli.share import add_parsers as add_sharing
from swerve.config import limits
from swerve.core.errors import EnvironmentFault, InputError, SwerveError, printable
from swerve.run.executors.cores import cores

if TYPE_CHECKING:
    from swerve.config.toml import Loaded
    from swerve.store.view import Run

HELD, FOUND, BAD_INPUT, MODEL_FAILED = 0, 1, 2, 3
EPILOG = """exit codes:
  0  all held (replay: reproduced; compare: nothing new; check: nothing in the way; every other verb: it ran through)
  1  findings (replay: not reproduced; shrink: one did not fail again; compare: new findings, or lost verdicts)
  2  bad input: a file, key or value, or nothing that could be judged; the message names it
  3  the model failed
  4  the environment failed: disk, permission, lock, missing package
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Before torch is imported: sums in one order on every machine (see run.launch).
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _spell_out(sys.stdout)
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
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
        if isinstance(ended.__context__, BrokenPipeError):  # rich's way to say that nobody reads on
            sys.stderr.close()
            return 0
        return _fail(EnvironmentFault(f"unexpected SystemExit: {ended}; --debug shows where"), options.debug)
    except Exception as error:  # ours or somebody else's: never mistaken for findings
        return _fail(EnvironmentFault(f"unexpected {type(error).__name__}: {error}; --debug shows where"), options.debug)


def _spell_out(stream: Any) -> None:
    """Have a terminal that lacks a sign, such as °, show it as \\xb0: nobody is to lose a whole run over it."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


class Stopped(BaseException):
    """SIGTERM arrived."""

    exit_code = 128 + signal.SIGTERM


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Stopped


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
        description="Metamorphic testing of driving perception: change the input, see where the model contradicts itself.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"swerve {__version__}")
    verbs = top.add_subparsers(metavar="VERB", required=True)

    demo = _verb(verbs, "demo", _demo, "run the built-in campaign on the embedded world and write its report")
    demo.add_argument(
        "--into", type=Path, default=Path("runs/demo"), metavar="DIR", help="run folder (default: %(default)s)"
    )

    run = _verb(verbs, "run", _run, "run a campaign, or go on with one that was stopped")
    run.add_argument("campaign", metavar="FILE", help="a campaign file (.toml), or module:factory that returns a Campaign")
    run.add_argument("--into", type=Path, required=True, metavar="DIR", help="run folder; the same folder continues the run")
    run.add_argument("--no-report", action="store_true", help="leave the HTML report out (make it later: swerve report DIR)")
    run.add_argument("--repair", action="store_true", help="go on from the good part of a damaged journal; a copy is kept")
    _working(run)
    run.add_argument("--force", action="store_true", help="run what `swerve check` refuses")
    _trusting(run)

    check = _verb(verbs, "check", _check, "measure the untouched system and tell whether a campaign can find anything")
    check.add_argument("campaign", metavar="FILE", help="a campaign file (.toml), or module:factory that returns a Campaign")
    check.add_argument("--json", action="store_true", help="as JSON")
    _staffed(check)
    _limited(check)
    _trusting(check)

    report = _verb(verbs, "report", _report, "write the HTML report of a run, finished or not")
    _folder(report)
    _trusting(report)

    show = _verb(verbs, "show", _show, "list the findings of a run, worst first, or show one")
    _folder(show)
    show.add_argument("id", nargs="?", metavar="ID", help="a finding's id, or the start of it")
    show.add_argument(
        "--most", type=_count, default=20, metavar="N", help="findings listed (default: %(default)s; --json: all)"
    )
    show.add_argument("--json", action="store_true", help="as JSON")
    show.add_argument("--flat", action="store_true", help="every finding by itself, not the worst of each group")
    packed = "write a zip of the finding for a ticket: pictures, change, versions, hashes, replay line"
    show.add_argument("--pack", action="store_true", help=packed)
    _trusting(show)

    replay = _verb(verbs, "replay", _replay, "run one finding again, alone, and say what differs")
    _folder(replay)
    replay.add_argument("id", metavar="ID", help="a finding's id, or the start of it; that of an error too")
    replay.add_argument("--shrunk", action="store_true", help="the smallest change that swerve shrink found for it")
    replay.add_argument("--here", action="store_true", help="in this process, where a debugger sees it; without limits")
    _limited(replay)
    _trusting(replay)

    smaller = _verb(verbs, "shrink", _shrink, "find the smallest change that still fails, of one finding or of all")
    _folder(smaller)
    smaller.add_argument("id", nargs="?", metavar="ID", help="a finding's id, or the start of it")
    smaller.add_argument("--all", action="store_true", help="every finding of the run")
    smaller.add_argument("--most", type=_count, metavar="N", help="with --all: the N with the largest margins")
    _working(smaller)
    _trusting(smaller)

    world = _verb(verbs, "world", _world, "write frames of the embedded world as a data set, with a contact sheet")
    world.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    world.add_argument("--as", dest="form", default="udacity", metavar="FORMAT", help="udacity, coco, yolo, voc or kitti")
    world.add_argument("--count", type=_count, default=24, metavar="N", help="drives (default: %(default)s)")
    world.add_argument("--frames", type=_count, default=1, metavar="N", help="of each drive, 20 a second (default: 1)")
    world.add_argument("--conditions", default="clear", metavar="NAME", help="such as day, rain, night (default: clear)")
    world.add_argument("--split", default="train", metavar="NAME", help="train, val or test; they share no scene")
    world.add_argument("--size", type=_size, default=(640, 360), metavar="WxH", help="pixels (default: 640x360)")
    world.add_argument("--seed", type=int, default=0, help="another seed has other scenes (default: 0)")

    zoo = _verb(verbs, "zoo", _zoo, "list the reference systems, render what they learn from, or train one")
    zoo.add_argument("words", nargs=argparse.REMAINDER, metavar="list|render|train …", help="see: swerve zoo train --help")

    add_experiment(verbs, cores())
    add_retrain(verbs)
    add_sharing(verbs)

    unpacking = _verb(
        verbs, "unpack", _unpack, "unpack a data set's archive (zip, tar) where nothing can lead out of its folder"
    )
    unpacking.add_argument("archive", type=Path, metavar="FILE")
    unpacking.add_argument("--into", type=Path, required=True, metavar="DIR", help="a new folder")

    looking = _verb(verbs, "review", _review, ABOUT_REVIEW)
    _folder(looking)
    add_review_options(looking)

    listing = _verb(verbs, "list", _list, "list what a campaign file can use")
    listing.add_argument(
        "kind", nargs="?", metavar="KIND", help="sources, systems, steps, decoders, transformations, relations, …, or limits"
    )
    listing.add_argument("--json", action="store_true", help="as JSON")
    return top


def _verb(verbs: Any, name: str, function: Any, about: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
    made.set_defaults(verb=function)
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return made


def _folder(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("folder", type=Path, metavar="DIR", help="a run folder")


def _trusting(verb: argparse.ArgumentParser) -> None:
    about = "let the campaign run this Python file, module or program; may be repeated"
    verb.add_argument("--trust", action="append", default=[], metavar="NAME", help=about)


def _working(verb: argparse.ArgumentParser) -> None:
    _staffed(verb)
    verb.add_argument(
        "--on", metavar="WHERE", help="ray: workers on a local Ray cluster; ray://HOST:PORT: on another (docs/workers.md)"
    )
    _limited(verb)


def _staffed(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--workers",
        type=_number,
        default=cores(),
        metavar="N",
        help="processes that do the work; 0: none but this one, and no limits (default: one per core, here %(default)s)",
    )


def _limited(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--timeout",
        type=_above_zero,
        default=limits.SECONDS,
        metavar="S",
        help="seconds for one case (default: %(default)g)",
    )
    verb.add_argument(
        "--memory",
        type=_above_zero,
        default=limits.MEMORY / limits.GIGA,
        metavar="GB",
        help="memory a worker may ask for (default: %(default)g)",
    )


def _above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got '{text}'")
    return number


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, got '{text}'")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got '{text}'")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be a width and a height such as 640x360, got '{text}'")
    return int(width), int(height)


def _demo(options: argparse.Namespace) -> int:
    from swerve.config.toml import ANYWHERE, Loaded
    from swerve.methods.demo import demo

    again = shlex.join(["swerve", "demo", "--into", str(options.into)])
    _carry_out(Loaded(demo(), ANYWHERE), options.into, again, workers=cores())
    return HELD


def _run(options: argparse.Namespace) -> int:
    from swerve.config.toml import load_campaign
    from swerve.run.executors.processes import Allowance

    loaded = load_campaign(options.campaign, options.trust)
    trust = [word for file in options.trust for word in ("--trust", str(file))]
    command = ["swerve", "run", options.campaign, "--into", str(options.into), *trust]
    again = shlex.join([*command, "--no-report"] if options.no_report else command)
    again += "".join(f" {word}" for word in _told_again(options))
    counts = _carry_out(
        loaded,
        options.into,
        again,
        report=not options.no_report,
        trusted=options.trust,
        force=options.force,
        repair=options.repair,
        workers=options.workers,
        on=options.on,
        allowance=Allowance(options.timeout, int(options.memory * limits.GIGA)),
    )
    return _verdict_on(counts)


def _told_again(options: argparse.Namespace) -> Iterator[str]:
    """Every option that is not as it would be anyway."""
    usual = {"workers": cores(), "on": None, "timeout": limits.SECONDS, "memory": limits.MEMORY / limits.GIGA}
    for name, value in usual.items():
        if getattr(options, name) != value:
            yield f"--{name} {getattr(options, name)}"
    if options.force:
        yield "--force"


def _check(options: argparse.Namespace) -> int:
    from swerve.cli.execute import check_campaign

    return check_campaign(options)


def _verdict_on(counts: Mapping[str, Any]) -> int:
    """The exit code of a finished run; one that judged nothing is never green."""
    foreign = sum(counts["error_kinds"].get(kind, 0) for kind in ("change", "relation"))
    if counts["violated"]:
        return FOUND
    if counts["errors"] > foreign or counts["failed_cases"]:
        return MODEL_FAILED
    if foreign:
        raise InputError(f"{foreign} trials ended in an error of a change or a relation, see the report")
    if not counts["held"]:
        raise InputError(f"no trial could be judged: {counts['skipped']} skipped, see the report")
    return HELD


def _carry_out(loaded: Loaded, folder: Path, again: str, *, report: bool = True, **how: Any) -> dict[str, Any]:
    """Run the campaign under a progress bar; if stopped, say how to go on."""
    from swerve.report.html import write_report
    from swerve.report.terminal import RichProgress, print_summary
    from swerve.run.launch import run_into
    from swerve.store.view import Run

    console = Console()
    # A log wants the stages among the results, and nothing but errors on stderr.
    bars = Console(stderr=True) if sys.stderr.isatty() else console
    try:
        with RichProgress(bars) as progress:
            summary = run_into(loaded, folder, progress=progress, tell=_teller(bars), **how)
    except (KeyboardInterrupt, Stopped):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print(f"stopped; what is done is safe. To go on: {printable(again)}", file=sys.stderr)
        raise
    if report:
        write_report(Run(folder))
    print_summary(Run(folder), console)
    return summary.as_dict()


def _teller(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(Text(printable(line)), soft_wrap=True)


def _report(options: argparse.Namespace) -> int:
    from swerve.report.html import write_report
    from swerve.store.artifacts import FINDINGS
    from swerve.store.view import Run

    run = Run(options.folder)
    if not (run.folder / FINDINGS).is_dir():
        _make_pictures(run, options.trust)
    print(write_report(run))
    return HELD


def _make_pictures(run: Run, trusted: Sequence[str]) -> None:
    """The pictures of a run that was stopped before it made them; the report does without where they cannot be had."""
    from swerve.analysis.groups import worth_keeping
    from swerve.run.executors.cores import cores
    from swerve.run.finding_pictures import keep_pictures
    from swerve.run.replay import rebuild
    from swerve.store.folder import locked

    try:
        with locked(run.folder):
            keep_pictures(run, rebuild(run, trusted), worth_keeping(run), trusted=trusted, threads=cores())
    except SwerveError as error:
        print(f"no pictures: {error}", file=sys.stderr)


def _show(options: argparse.Namespace) -> int:
    from swerve.report.pack import pack
    from swerve.report.smallest import smallest_of
    from swerve.report.terminal import print_finding, print_findings, print_groups
    from swerve.store.record_json import finding_of
    from swerve.store.view import Run

    run = Run(options.folder)
    if options.id:
        finding = finding_of(run.row(options.id))
        if options.pack and options.json:
            raise InputError("swerve show wants --pack or --json, not both")
        if options.pack:
            print(pack(run, finding.id, Path(f"{finding.id}.zip"), trusted=options.trust))
        elif options.json:
            again = shlex.join(["swerve", "replay", str(run.folder), finding.id])
            print(json.dumps({**finding.as_dict(), "replay": again, **smallest_of(run, finding, again)}, indent=2))
        else:
            print_finding(run, finding, Console())
        return HELD
    if options.pack:
        raise InputError("swerve show --pack wants the id of one finding")
    if options.json:
        findings = sorted(run.findings(), key=lambda finding: (-finding.margin, finding.id))
        print(json.dumps([finding.as_dict() for finding in findings], indent=2))
    elif options.flat:
        print_findings(run, Console(), options.most)
    else:
        print_groups(run, Console(), options.most)
    return HELD


def _replay(options: argparse.Namespace) -> int:
    from swerve.cli.execute import replay_finding

    return replay_finding(options)


def _shrink(options: argparse.Namespace) -> int:
    from swerve.cli.execute import shrink_findings

    return shrink_findings(options)


def _world(options: argparse.Namespace) -> int:
    from swerve.report.world_dataset import NEEDED, SHEET, write_world
    from swerve.sources.export import form_named
    from swerve.world.source import World

    form_named(options.form)
    world = World(
        drives=options.count,
        frames=options.frames,
        split=options.split,
        conditions=options.conditions,
        labels=NEEDED[options.form],
        width=options.size[0],
        height=options.size[1],
        seed=options.seed,
    )
    written = write_world(world, options.out, options.form)
    print(f"{sum(written.values())} frames in {options.out}, shown on {options.out / SHEET}")
    return HELD


def _review(options: argparse.Namespace) -> int:
    from swerve.cli.review import review

    return review(options)


def _zoo(options: argparse.Namespace) -> int:
    from swerve.zoo.train import main as zoo

    return zoo(options.words)


def _list(options: argparse.Namespace) -> int:
    from swerve.config.catalog import listing
    from swerve.report.terminal import print_names

    if options.kind == "limits":
        return _list_limits(options.json)
    found = listing(options.kind)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print_names(found, Console())
    return HELD


def _list_limits(as_json: bool) -> int:
    if as_json:
        print(json.dumps(dict(limits.LIMITS), indent=2))
    else:
        print("\n".join(f"{limit:>14,}  {what}" for what, limit in limits.LIMITS.items()))
    return HELD


def _unpack(options: argparse.Namespace) -> int:
    from swerve.sources.archive import unpack

    print(f"{unpack(options.archive, options.into):,} files in {options.into}")
    return HELD


if __name__ == "__main__":
    sys.exit(main())
