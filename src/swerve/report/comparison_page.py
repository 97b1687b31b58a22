"""The comparison of two runs as a page: rates before and after, and new, fixed and persisting findings with pictures.

A finding's change is the same in both runs, so one picture of the follow-up has the answers of both models drawn over it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swerve.analysis.compare import ABSENT, HELD, Paired, RunComparison, findings_among, persisting
from swerve.core.system import Answer
from swerve.report.card_pictures import KeptFrame, KeptInputs, Picture, PictureSide
from swerve.report.comparison import DEPENDENT, few, sentences, warnings, weights_of
from swerve.report.finding_overlays import FindingOverlays
from swerve.report.overlay import KINDS, Overlay, legend
from swerve.report.sweep_pictures import drawn
from swerve.report.templating import PAGE, render_page
from swerve.report.words import answer_words, expectation, replay_line, title_of
from swerve.store.files import make_folder, png_bytes, write_whole
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of
from swerve.store.view import Run

COMPARISON = "report/compare.html"  # of the run AFTER
PICTURES = "compare-pictures"  # beside the page: sweeps from above
CARDS = (60, 40, 25, 15, 8, 4)  # of each section; the first number with which the drawings fit
ALWAYS = ("new", "fixed", "persisting")  # sections that are shown even without findings
MOST_DRAWN = 3_500_000  # characters of all drawings, which keeps the page under 5 MB
BEFORE, AFTER = 0, 1
NAMES = ("before", "after")
Both = tuple[Finding | None, Finding | None]  # the same trial in BEFORE and AFTER


@dataclass(frozen=True)
class ComparedSide:
    """How a trial ended in one of the runs, and what its system answered."""

    status: str
    source: str = ""
    followup: str = ""
    why: str = ""
    replay: str = ""


@dataclass(frozen=True)
class ComparedPicture(Picture):
    """Two pictures: both runs' answers to the follow-up; or source and follow-up in the run that has the finding."""

    of_one_run: bool = False


@dataclass(frozen=True)
class ComparedCard:
    """One finding of the comparison: both runs' answers to the same follow-up, with pictures."""

    finding: Finding
    sides: tuple[ComparedSide, ComparedSide]
    place: int  # of the run that has the finding
    pictures: tuple[ComparedPicture, ...]

    @property
    def drawn(self) -> int:
        """The characters of its drawings."""
        return sum(len(side.overlay.svg) for picture in self.pictures for side in picture.sides)

    def answers_to(self, picture: ComparedPicture) -> tuple[str, str]:
        """The answers to the two pictures, in words."""
        if picture.of_one_run:
            own = self.sides[self.place]
            return own.source, own.followup
        first, second = (" ".join(filter(None, (side.status, side.followup))) for side in self.sides)
        return first, second


@dataclass(frozen=True)
class ComparedSection:
    """Findings of one kind: how many there are, and the worst of them."""

    key: str
    title: str
    about: str
    total: int
    cards: tuple[ComparedCard, ...]


def write_comparison(found: RunComparison, path: Path | None = None, *, failure: str = "") -> Path:
    """Write the page of a comparison, by default `report/compare.html` of AFTER; returns its path."""
    page = path or found.after.folder / COMPARISON
    make_folder(page.parent, parents=True)
    write_whole(page, render_comparison(found, page, failure).encode(errors="backslashreplace"))
    return page


def render_comparison(found: RunComparison, page: Path, failure: str = "") -> str:
    """The page that is written to `page`, which decides the addresses of its pictures."""
    every = _fitting([_section(found, page, *one) for one in _kinds(found)])
    sections = [section for section in every if section.total or section.key in ALWAYS]
    shown = [picture for section in sections for card in section.cards for picture in card.pictures]
    lines = (*found.rules, found.overall) if len(found.rules) > 1 else found.rules
    return render_page(
        "compare.html",
        styles=("style.css", "viewer.css", "compare.css", "print.css"),
        scripts=("viewer.js", "compare.js"),
        title=_title(found),
        version=found.after.identity.get("swerve", "?"),
        runs=tuple(_describe(run) for run in (found.before, found.after)),
        sentences=list(sentences(found)),
        dependent=DEPENDENT if found.overall.mcnemar.p is not None else "",
        failure=failure,
        warnings=few(warnings(found)),
        lines=[(line, _rates(line)) for line in lines],
        overall=found.overall,
        expects={rule["name"]: expectation(rule.get("expect")) for rule in found.after.identity["campaign"].get("rule", ())},
        sections=sections,
        rules=[line.name for line in found.rules],
        kinds=KINDS,
        shapes=legend(side.overlay for picture in shown for side in picture.sides),
        turned=any(side.overlay.arrows for picture in shown for side in picture.sides),
        pane_names=NAMES,
    )


def _title(found: RunComparison) -> str:
    titles = [title_of(run.identity["campaign"]) for run in (found.before, found.after)]
    return " → ".join(dict.fromkeys(titles))


def _describe(run: Run) -> dict[str, str]:
    title = title_of(run.identity["campaign"])
    return {"title": title, "folder": str(run.folder), "weights": weights_of(run)[:12]}


def _rates(line: Paired) -> list[dict[str, Any]]:
    return [{"rate": side.rate, "interval": side.interval} for side in (line.before, line.after)]


def _kinds(found: RunComparison) -> Iterator[tuple[str, str, str, int, int, Sequence[Finding]]]:
    """Key, title, explanation, the run that has the findings, their number, and the worst of them."""
    most = CARDS[0]
    after, before = found.after, found.before
    yield "new", "New", "held before, violated now", AFTER, found.overall.new, findings_among(after, found.new, most)
    yield (
        "fixed",
        "Fixed",
        "violated before, hold now",
        BEFORE,
        found.overall.fixed,
        findings_among(before, found.fixed, most),
    )
    worst = persisting(found, most)
    yield "persisting", "Persisting", "violated in both runs", AFTER, found.overall.persisting, worst
    about = "violated now, and not judged before: whether they are new is unknown"
    yield "surfaced", "Not judged before", about, AFTER, len(found.surfaced), findings_among(after, found.surfaced, most)
    about = "violated before, and no longer judged: neither fixed nor persisting"
    yield "dropped", "No longer judged", about, BEFORE, len(found.dropped), findings_among(before, found.dropped, most)


def _section(
    found: RunComparison, page: Path, key: str, title: str, about: str, place: int, total: int, findings: Sequence[Finding]
) -> ComparedSection:
    runs = found.before, found.after
    cards = _Cards((runs[BEFORE], runs[AFTER]), place, page, findings)
    return ComparedSection(key, title, about, total, tuple(map(cards.card, findings[: CARDS[0]])))


def _fitting(sections: Sequence[ComparedSection]) -> list[ComparedSection]:
    """The sections, with fewer cards each if drawings of many boxes would make the page too large."""
    for most in CARDS:
        cut = [replace(section, cards=section.cards[:most]) for section in sections]
        if sum(card.drawn for section in cut for card in section.cards) <= MOST_DRAWN:
            return cut
    return cut


class _Cards:
    """Makes the cards of findings that the run at `place` has; the other run has a partner of each, if it ran the trial."""

    def __init__(self, runs: tuple[Run, Run], place: int, page: Path, findings: Sequence[Finding]) -> None:
        self._runs, self._place, self._page = runs, place, page
        self._partners = _rows(runs[1 - place], {finding.id for finding in findings})
        self._labels = _labels(runs[place], {finding.case for finding in findings})

    @cached_property
    def _kept(self) -> tuple[KeptInputs, KeptInputs]:
        return KeptInputs(self._runs[BEFORE]), KeptInputs(self._runs[AFTER])

    @cached_property
    def _overlays(self) -> tuple[FindingOverlays, FindingOverlays]:
        return FindingOverlays(self._runs[BEFORE]), FindingOverlays(self._runs[AFTER])

    def card(self, finding: Finding) -> ComparedCard:
        """The card of a finding."""
        row = self._partners.get(finding.id)
        partner = None if row is None else finding_of({**row, "margin": row["margin"] or 0.0})
        pair = (partner, finding) if self._place == AFTER else (finding, partner)
        status = ABSENT if row is None else str(row["status"])
        sides = [self._side(one, at, "violated" if one is finding else status) for at, one in enumerate(pair)]
        return ComparedCard(finding, (sides[BEFORE], sides[AFTER]), self._place, tuple(self._pictures(finding, pair)))

    def _side(self, one: Finding | None, at: int, status: str) -> ComparedSide:
        if one is None:
            return ComparedSide(status)
        replay = replay_line(self._runs[at], one.id) if status == "violated" else ""
        why = "" if status == HELD and not one.why else one.why
        return ComparedSide(status, answer_words(one.before), answer_words(one.after), why, replay)

    def _pictures(self, finding: Finding, pair: Both) -> Iterator[ComparedPicture]:
        """Both answers to the follow-up, then source and follow-up of the run that has the finding, sensor by sensor."""
        at = next((place for place in (self._place, 1 - self._place) if self._kept[place].has(finding)), None)
        if at is None:
            return
        label = self._labels.get(finding.case, ())
        prefix = posixpath.normpath(os.path.relpath((self._runs[at].folder / PAGE).parent, self._page.parent))
        for frame in (frame.below(prefix) for frame in self._kept[at].frames(finding)):
            yield from self._camera(frame, finding, pair, label)
        yield from self._from_above(finding, pair, at)

    def _camera(self, frame: KeptFrame, finding: Finding, pair: Both, label: Answer) -> Iterator[ComparedPicture]:
        both = []
        for place, one in enumerate(pair):
            plain = Overlay(frame.behind[1].size)
            drawing = plain if one is None else self._overlays[place].of(one, label, *frame.behind)[1]
            both.append(PictureSide(frame.addresses[1], drawing))
        yield ComparedPicture(f"{frame.sensor}, follow-up", both[BEFORE], both[AFTER])
        own = self._overlays[self._place].of(finding, label, *frame.behind)
        near, far = map(PictureSide, frame.addresses, own)
        yield ComparedPicture(f"{frame.sensor}, source and follow-up, {NAMES[self._place]}", near, far, of_one_run=True)

    def _from_above(self, finding: Finding, pair: Both, at: int) -> Iterator[ComparedPicture]:
        """Sweeps with the boxes of both runs, drawn into the folder beside the page."""
        files = self._kept[at].sweeps(finding)
        views = [{one.sensor: one for one in drawn(side, *files)} if side else {} for side in pair]
        for sensor in sorted(views[BEFORE].keys() & views[AFTER].keys()):
            pixels = [view[sensor].followup for view in views]
            near, far = (self._drawn(f"{finding.id}-{sensor}-{name}.png", pixels[at]) for at, name in enumerate(NAMES))
            yield ComparedPicture(f"{sensor}, follow-up", near, far, from_above=True)

    def _drawn(self, name: str, pixels: Any) -> PictureSide:
        folder = self._page.parent / PICTURES
        make_folder(folder)
        write_whole(folder / name, png_bytes(pixels))
        return PictureSide(f"{PICTURES}/{quote(name)}", Overlay((pixels.shape[1], pixels.shape[0])))


def _rows(run: Run, ids: Collection[str]) -> dict[str, Row]:
    """The trials of these ids; of a change that was drawn twice the first counts."""
    found: dict[str, Row] = {}
    for row in run.trials() if ids else ():
        if row["id"] in ids:
            found.setdefault(row["id"], row)
    return found


def _labels(run: Run, cases: Collection[str]) -> dict[str, Answer]:
    return {seen.case: seen.truth for seen in run.untouched() if seen.case in cases} if cases else {}
