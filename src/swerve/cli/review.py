"""`swerve review`: the page, the exchange of marks, and how far reviewers agree."""

from __future__ import annotations

import argparse
import contextlib
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

# What the verbs need is imported when they run: the parser is built for every command.
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from swerve.review.agreement import Review, ReviewAgreement
    from swerve.review.mark_tables import MarkTally, ReviewCounts, Share
    from swerve.review.marks import Mark
    from swerve.review.page import Desk
    from swerve.store.view import Run

ABOUT = "look through findings and mark them true positive, false positive or unnatural"
REVIEWER = "reviewer"
NARROW = 36
TOLD = 20  # conflicts printed


def add_options(verb: argparse.ArgumentParser) -> None:
    """Give `verb` the options of `swerve review`, all but the run folder."""
    verb.add_argument("--reviewer", metavar="NAME", help=f"whose marks these are (default: {REVIEWER})")
    verb.add_argument("--only", type=Path, metavar="FILE", help="just the findings whose ids are in a text file, one a line")
    verb.add_argument("--sample", type=_at_least_1, metavar="N", help="N findings drawn at random, the same for everybody")
    verb.add_argument("--all", action="store_true", help="draw the sample from all judged trials, those that held too")
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample (default: %(default)s)")
    verb.add_argument("--port", type=_port, default=0, metavar="N", help="of the local page (default: a free one)")
    verb.add_argument("--no-browser", action="store_true", help="print the address and leave opening it to you")
    verb.add_argument("--show-marks", action="store_true", help="show others' marks before your own is made")
    verb.add_argument("--trust", action="append", default=[], metavar="NAME", help=_TRUST)
    instead = verb.add_mutually_exclusive_group()
    instead.add_argument("--agreement", action="store_true", help="print results, kappa and conflicts; write the tables")
    instead.add_argument("--export", type=Path, metavar="FILE.csv", help="write the marks (of --reviewer, or all) to a file")
    instead.add_argument(
        "--import", type=Path, metavar="FILE.csv", dest="bring", help="add the marks of a file, all or none"
    )
    instead.add_argument("--export-page", type=Path, metavar="FILE.html", help="write a page that works without a server")


_TRUST = "let the campaign run this Python file, module or program; may be repeated"


def _at_least_1(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got '{text}'")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 65535, got '{text}'")
    return int(text)


def review(options: argparse.Namespace) -> int:
    """Carry out `swerve review` and return its exit code."""
    from swerve.store.view import Run

    _refuse_only(options)
    run = Run(options.folder)
    if options.bring:
        return _import(run, options)
    if options.export:
        return _export(run, options)
    if options.agreement:
        return _agreement(run)
    if options.export_page:
        return _export_page(run, options)
    return _serve(run, options)


def _refuse_only(options: argparse.Namespace) -> None:
    """Refuse `--only` where nothing would go by it."""
    from swerve.core.errors import InputError

    given = {"--import": options.bring, "--export": options.export, "--agreement": options.agreement}
    if options.only and (other := next((name for name, value in given.items() if value), None)):
        raise InputError(f"--only says what a page shows, and {other} goes over all marks; leave one of the two out")


def _import(run: Run, options: argparse.Namespace) -> int:
    from swerve.review.exchange import import_marks

    done = import_marks(run, options.bring, reviewer=options.reviewer)
    for name, count in done.changed.items():
        _say(f"{name}: {count} marks new or changed")
    _say(f"{done.same} marks were there already" if done.same else f"imported from {options.bring}")
    _write_tables(run)
    return 0


def _export(run: Run, options: argparse.Namespace) -> int:
    from swerve.core.errors import InputError, did_you_mean
    from swerve.review.agreement import read_review
    from swerve.review.exchange import export_marks

    found = read_review(run)
    if options.reviewer is not None and options.reviewer not in found.marks:
        raise InputError(f"{run.folder}: nobody called '{options.reviewer}'; {did_you_mean(options.reviewer, found.marks)}")
    _say(f"{export_marks(found, options.export, reviewer=options.reviewer)} marks: {options.export}")
    _tell_unknown(found)
    return 0


def _agreement(run: Run) -> int:
    from swerve.review.agreement import agreements

    found, lines = _write_tables(run)
    if not found.votes:
        _say(f"nobody has marked a finding yet; start with: swerve review {run.folder}")
    for line in (line for line in lines if line.findings.reviewed or line.held.reviewed):
        _say(_result(line))
    for one in agreements(found):
        _say(_told_kappa(one))
    conflicts = list(_conflicts(found))
    for text in conflicts[:TOLD]:
        _say(text)
    if len(conflicts) > TOLD:
        _say(f"and {len(conflicts) - TOLD} conflicts more: {run.folder / 'tables' / 'conflicts.csv'}")
    _tell_unknown(found)
    return 0


def _result(line: ReviewCounts) -> str:
    from swerve.core.errors import printable
    from swerve.review.marks import OF_FINDINGS, OF_HELD

    name = line.by if line.by == line.name else f"{line.by} {printable(line.name, NARROW)}"
    told = f"{name}: {_tallied(line.findings, OF_FINDINGS)}{_unnatural(line.findings.unnatural)}"
    if not line.held.reviewed:
        return told
    share = _unnatural(line.unnatural)
    return f"{told}; held: {_tallied(line.held, OF_HELD)}{share and f'{share} of all trials'}"


def _tallied(tally: MarkTally, marks: Iterable[Mark]) -> str:
    counts = ", ".join(f"{tally.marks[mark]} {mark}" for mark in marks)
    open_ones = f", {tally.marks[None]} open" if tally.marks[None] else ""
    return f"{tally.reviewed} of {tally.trials} reviewed: {counts}{open_ones}"


def _unnatural(share: Share | None) -> str:
    return f"; unnatural {share[0]:.1%} ({share[1]:.1%} to {share[2]:.1%})" if share else ""


def _told_kappa(one: ReviewAgreement) -> str:
    estimate = one.kappa
    kind = "Fleiss' kappa" if len(one.reviewers) > 2 else "Cohen's kappa"
    scale = "three marks" if one.scale == "mark" else "natural or unnatural"
    shared = f"{', '.join(one.reviewers)}: {scale}: {one.agreed} of {estimate.n} alike"
    if estimate.value is None:
        return f"{shared}; no kappa: {estimate.why}"
    low_high = f" ({estimate.low:.3f} to {estimate.high:.3f})" if estimate.low is not None else ""
    return f"{shared}, {kind} {estimate.value:.3f}{low_high}, {estimate.label}"


def _conflicts(found: Review) -> Iterator[str]:
    from swerve.review.agreement import is_conflict, resolve

    for finding, votes in found.votes.items():
        if is_conflict(votes):
            said = ", ".join(f"{name}: {mark}" for name, mark in votes.items())
            yield f"conflict {finding}: {said}; {resolve(votes) or 'open'}"


def _export_page(run: Run, options: argparse.Namespace) -> int:
    from dataclasses import replace

    from swerve.review.page import render
    from swerve.review.pictures import ReviewPictures
    from swerve.store.files import write_whole

    # The name is the reader's to give, and marks made so far are not theirs to see.
    desk = replace(_desk(run, options), reviewer=options.reviewer or "", pictures=ReviewPictures(run, options.trust))
    page = render(run, desk).encode(errors="replace")
    write_whole(options.export_page, page)
    _say(f"{len(desk.findings)} {_what(options)}, {len(page) / 1e6:.1f} MB: {options.export_page}")
    return 0


def _desk(run: Run, options: argparse.Namespace) -> Desk:
    from swerve.core.errors import InputError
    from swerve.review.marks import reviewer_name
    from swerve.review.page import Desk
    from swerve.review.queue import chosen, queue

    if options.all and options.sample is None:
        raise InputError("--all needs --sample N: how many of all judged trials to draw")
    only = chosen(run, options.only, held=options.all) if options.only else None
    findings = queue(run, options.sample, seed=options.seed, held=options.all, only=only)
    if not findings:
        raise InputError(f"{run.folder}: has no {_what(options)} to review")
    return Desk(reviewer_name(options.reviewer or REVIEWER), findings, blind=not options.show_marks)


def _what(options: argparse.Namespace) -> str:
    return "trials" if options.all else "findings"


def _serve(run: Run, options: argparse.Namespace) -> int:
    from swerve.review.marks import read_marks
    from swerve.review.pictures import ReviewPictures
    from swerve.review.server import ReviewServer, Service

    read_marks(run.folder)  # a file that does not read is told before anybody has started
    service = Service(run, _desk(run, options), ReviewPictures(run, options.trust))
    with ReviewServer(service, options.port) as server:
        _say(f"{len(service.findings)} {_what(options)} for {service.desk.reviewer}: {server.address}")
        _say("Every mark is saved as it is made. Ctrl-C ends.")
        if not options.no_browser:
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
        finally:
            found, _ = _write_tables(run)
            _say(f"{service.saved} marks saved; tables/review.csv written")
            _tell_unknown(found)
    return 0


def _write_tables(run: Run) -> tuple[Review, list[ReviewCounts]]:
    from swerve.review.agreement import read_review
    from swerve.review.mark_tables import write_review_tables

    found = read_review(run)
    return found, write_review_tables(run, found)


def _tell_unknown(found: Review) -> None:
    for name, finding in found.unknown:
        _say(f"not counted: {name} marked {finding}, which is no finding of this run")


def _say(text: str) -> None:
    from swerve.core.errors import printable

    print(printable(text), flush=True)
