"""`swerve review`: the review page, import and export of marks, and the agreement of reviewers."""

from __future__ import annotations

import argparse
import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import add_folder, add_trust, add_verb, count

# Imported when the verb runs, as the parser is built for every command.
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from swerve.review.agreement import Review, ReviewAgreement
    from swerve.review.mark_tables import MarkTally, ReviewCounts, Share
    from swerve.review.marks import Mark
    from swerve.review.page import Desk
    from swerve.store.view import Run

ABOUT = "look at findings and mark them true, false or unnatural"
EXAMPLES = """
  swerve review runs/demo                          opens a local page
  swerve review runs/demo --reviewer ada --sample 50
  swerve review runs/demo --agreement              what reviewers agree on
"""
REVIEWER = "reviewer"
NARROW = 36
PRINTED = 20  # conflicts


def add_parser(verbs: Any) -> None:
    """Add `review` to the verbs of the command line."""
    verb = add_verb(verbs, "review", review, ABOUT, EXAMPLES)
    verb.usage = "swerve review DIR [options]"  # argparse does not wrap the options that exclude each other
    add_folder(verb)
    verb.add_argument("--reviewer", metavar="NAME", help=f"name of the reviewer (default: {REVIEWER})")
    verb.add_argument("--only", type=Path, metavar="FILE", help="only the findings whose ids are listed in a text file")
    verb.add_argument("--sample", type=count, metavar="N", help="N findings drawn at random, the same for every reviewer")
    verb.add_argument("--all", action="store_true", help="draw the sample from all judged trials, including those that held")
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the sample (default: %(default)s)")
    verb.add_argument("--port", type=_port, default=0, metavar="N", help="port of the local page (default: a free one)")
    verb.add_argument("--no-browser", action="store_true", help="only print the address of the page")
    verb.add_argument("--show-marks", action="store_true", help="show the marks of others before you have made your own")
    add_trust(verb)
    instead = verb.add_mutually_exclusive_group()
    instead.add_argument("--agreement", action="store_true", help="print results, kappa and conflicts, and write the tables")
    instead.add_argument("--export", type=Path, metavar="FILE.csv", help="write the marks (of --reviewer, or all) to a file")
    instead.add_argument(
        "--import", type=Path, metavar="FILE.csv", dest="bring", help="add the marks of a file, all or none of them"
    )
    instead.add_argument("--export-page", type=Path, metavar="FILE.html", help="write a page that works without a server")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 65535, got '{text}'")
    return int(text)


def review(options: argparse.Namespace) -> int:
    """Serve the review page, or do what the options ask for instead."""
    from swerve.store.view import Run

    _check_only(options)
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


def _check_only(options: argparse.Namespace) -> None:
    """Reject `--only` with an option that ignores it."""
    from swerve.core.errors import InputError

    given = {"--import": options.bring, "--export": options.export, "--agreement": options.agreement}
    if options.only and (other := next((name for name, value in given.items() if value), None)):
        raise InputError(f"--only cannot be combined with {other}, which uses all marks")


def _import(run: Run, options: argparse.Namespace) -> int:
    from swerve.review.exchange import import_marks

    done = import_marks(run, options.bring, reviewer=options.reviewer)
    for name, changed in done.changed.items():
        _print(f"{name}: {changed} new or changed marks")
    _print(f"{done.same} marks were already present" if done.same else f"imported from {options.bring}")
    _write_tables(run)
    return 0


def _export(run: Run, options: argparse.Namespace) -> int:
    from swerve.core.errors import InputError, unknown
    from swerve.review.agreement import read_review
    from swerve.review.exchange import export_marks

    found = read_review(run)
    if options.reviewer is not None and options.reviewer not in found.marks:
        raise InputError(f"{run.folder}: {unknown('reviewer', options.reviewer, found.marks)}")
    _print(f"{export_marks(found, options.export, reviewer=options.reviewer)} marks: {options.export}")
    _print_unknown(found)
    return 0


def _agreement(run: Run) -> int:
    from swerve.review.agreement import agreements

    found, lines = _write_tables(run)
    if not found.votes:
        _print(f"no finding has been marked yet; start with: swerve review {run.folder}")
    for line in (line for line in lines if line.findings.reviewed or line.held.reviewed):
        _print(_describe_counts(line))
    for one in agreements(found):
        _print(_describe_kappa(one))
    conflicts = list(_conflicts(found))
    for text in conflicts[:PRINTED]:
        _print(text)
    if len(conflicts) > PRINTED:
        _print(f"and {len(conflicts) - PRINTED} more conflicts: {run.folder / 'tables' / 'conflicts.csv'}")
    _print_unknown(found)
    return 0


def _describe_counts(line: ReviewCounts) -> str:
    from swerve.core.errors import printable
    from swerve.review.marks import OF_FINDINGS, OF_HELD

    name = line.by if line.by == line.name else f"{line.by} {printable(line.name, NARROW)}"
    text = f"{name}: {_describe_tally(line.findings, OF_FINDINGS)}{_describe_share(line.findings.unnatural)}"
    if not line.held.reviewed:
        return text
    share = _describe_share(line.unnatural)
    return f"{text}; held: {_describe_tally(line.held, OF_HELD)}{share and f'{share} of all trials'}"


def _describe_tally(tally: MarkTally, marks: Iterable[Mark]) -> str:
    counts = ", ".join(f"{tally.marks[mark]} {mark}" for mark in marks)
    open_ones = f", {tally.marks[None]} open" if tally.marks[None] else ""
    return f"{tally.reviewed} of {tally.trials} reviewed: {counts}{open_ones}"


def _describe_share(share: Share | None) -> str:
    return f"; unnatural {share[0]:.1%} ({share[1]:.1%} to {share[2]:.1%})" if share else ""


def _describe_kappa(one: ReviewAgreement) -> str:
    estimate = one.kappa
    kind = "Fleiss' kappa" if len(one.reviewers) > 2 else "Cohen's kappa"
    scale = "three marks" if one.scale == "mark" else "natural or unnatural"
    shared = f"{', '.join(one.reviewers)}: {scale}: {one.agreed} of {estimate.n} equal"
    if estimate.value is None:
        return f"{shared}; no kappa: {estimate.why}"
    low_high = f" ({estimate.low:.3f} to {estimate.high:.3f})" if estimate.low is not None else ""
    return f"{shared}, {kind} {estimate.value:.3f}{low_high}, {estimate.label}"


def _conflicts(found: Review) -> Iterator[str]:
    from swerve.review.agreement import is_conflict, resolve

    for finding, votes in found.votes.items():
        if is_conflict(votes):
            marks = ", ".join(f"{name}: {mark}" for name, mark in votes.items())
            yield f"conflict {finding}: {marks}; {resolve(votes) or 'open'}"


def _export_page(run: Run, options: argparse.Namespace) -> int:
    from dataclasses import replace

    from swerve.review.page import render
    from swerve.review.pictures import ReviewPictures
    from swerve.store.files import write_whole

    # The reader enters their own name, and must not see existing marks.
    desk = replace(_desk(run, options), reviewer=options.reviewer or "", pictures=ReviewPictures(run, options.trust))
    page = render(run, desk).encode(errors="replace")
    write_whole(options.export_page, page)
    _print(f"{len(desk.findings)} {_what(options)}, {len(page) / 1e6:.1f} MB: {options.export_page}")
    return 0


def _desk(run: Run, options: argparse.Namespace) -> Desk:
    from swerve.core.errors import InputError
    from swerve.review.marks import reviewer_name
    from swerve.review.page import Desk
    from swerve.review.queue import chosen, queue

    if options.all and options.sample is None:
        raise InputError("--all needs --sample N, the number of judged trials to draw")
    only = chosen(run, options.only, held=options.all) if options.only else None
    findings = queue(run, options.sample, seed=options.seed, held=options.all, only=only)
    if not findings:
        raise InputError(f"{run.folder}: there are no {_what(options)} to review")
    return Desk(reviewer_name(options.reviewer or REVIEWER), findings, blind=not options.show_marks)


def _what(options: argparse.Namespace) -> str:
    return "trials" if options.all else "findings"


def _serve(run: Run, options: argparse.Namespace) -> int:
    from swerve.review.marks import read_marks
    from swerve.review.pictures import ReviewPictures
    from swerve.review.server import ReviewServer, Service

    read_marks(run.folder)  # reports an unreadable file before the review starts
    service = Service(run, _desk(run, options), ReviewPictures(run, options.trust))
    with ReviewServer(service, options.port) as server:
        _print(f"{len(service.findings)} {_what(options)} for {service.desk.reviewer}: {server.address}")
        _print("Every mark is saved at once. Press Ctrl-C to stop.")
        if not options.no_browser:
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
        finally:
            found, _ = _write_tables(run)
            _print(f"{service.saved} marks saved; tables/review.csv written")
            _print_unknown(found)
    return 0


def _write_tables(run: Run) -> tuple[Review, list[ReviewCounts]]:
    from swerve.review.agreement import read_review
    from swerve.review.mark_tables import write_review_tables

    found = read_review(run)
    return found, write_review_tables(run, found)


def _print_unknown(found: Review) -> None:
    for name, finding in found.unknown:
        _print(f"not counted: {name} marked {finding}, which is not a finding of this run")


def _print(text: str) -> None:
    from swerve.core.errors import printable

    print(printable(text), flush=True)
