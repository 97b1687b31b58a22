"""The HTML report of a run, from its folder alone: verdict, rules, charts, operating domain and a gallery of findings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from swerve.analysis.exemplars import shrunk_finding
from swerve.analysis.numbers import RuleCounts
from swerve.analysis.operating_domain import NOT_TRIED, DomainRow, status_of, term_words
from swerve.analysis.overview import Overview, overview_of
from swerve.analysis.robustness import Robustness, family_of
from swerve.analysis.severity import Curve
from swerve.analysis.strength import strength
from swerve.analysis.verdict import Standing, standing, verdict
from swerve.core.encode import decode_values
from swerve.core.errors import StoreError
from swerve.core.origin import Origin
from swerve.core.system import Answer
from swerve.report.birdseye import ADDED, COLOURS, MARKS, NIGHT, OTHER, SHADE
from swerve.report.condition_words import has_conditions
from swerve.report.conditions_page import write_conditions_page
from swerve.report.finding_cards import Gallery, gallery_of
from swerve.report.gallery_links import filter_text, gallery_link, slice_link
from swerve.report.health import health_of
from swerve.report.overlay import KINDS, legend
from swerve.report.quality_marks import quality_marks
from swerve.report.rate_charts import rate_charts, series_name
from swerve.report.sweep_pictures import Album
from swerve.report.templating import PAGE, render_page
from swerve.report.words import expectation, files_named, in_words, title_of
from swerve.store.artifacts import SHRINKING
from swerve.store.files import make_folder, read_json, write_whole
from swerve.store.record_json import BASELINE
from swerve.store.view import Run

REASONS_SHOWN = 20
GROUPS_OPEN, GROUPS_SHOWN = 12, 60  # at first, and after a click; tables/groups.csv lists all
SHORT = 12  # characters of a fingerprint
SMALLEST = 3  # shrunk changes that the first screen names


def write_report(run: Run) -> Path:
    """Write `report/index.html` of `run` and its bird's-eye pictures; returns the page's path."""
    path, album = run.folder / PAGE, Album(run)
    make_folder(path.parent)
    page = render(run, album).encode(errors="backslashreplace")
    album.close()
    write_whole(path, page)
    write_conditions_page(run)
    return path


def render(run: Run, album: Album) -> str:
    """The page of `run`; its bird's-eye pictures are drawn into `album`."""
    overview = overview_of(run)
    numbers, found = overview.numbers, overview.groups
    gallery = gallery_of(run, overview, album, found[:GROUPS_SHOWN])
    cards = gallery.cards
    return render_page(
        "page.html",
        styles=("style.css", "viewer.css", "print.css"),
        scripts=("viewer.js", "script.js"),
        link=gallery_link,
        slice_link=slice_link,
        numbers=numbers,
        lines=(*numbers.rules, numbers.overall),
        origins=tuple(Origin),
        run=_describe_run(run),
        stack=_stack(numbers.overall),
        charts=rate_charts(overview.curves, overview.conditions),
        verdict=(*verdict(numbers, overview.curves), *_smallest(run, overview)),
        shrinking=_shrinking(run),
        telling=gallery.telling,
        tiles=_tiles(numbers.rules, overview.curves),
        decisions={name: one.words for name, one in overview.acceptances.items() if one.conditions},
        robustness=overview.robustness,
        quality=_quality(overview.robustness),
        domain=_domain(overview.domain),
        slices={name: cells for name, cells in overview.cases.slices().items() if any(one.judged for one in cells)},
        facets=_facets(overview, gallery),
        checks=overview.checks,
        health=health_of(run),
        reached=overview.reached if numbers.finished else None,
        conditions=has_conditions(run),
        cards=cards,
        groups=gallery.groups,
        shown=sum(len(card.findings) for card in cards),
        groups_open=GROUPS_OPEN,
        colours=_colours(),
        marks={name.replace("_", " "): _hex(colour) for name, colour in MARKS.items()},
        night=_hex(NIGHT),
        kinds=KINDS,
        shapes=legend(side.overlay for card in cards for picture in card.pictures for side in picture.sides),
        all_groups=len(found),
        kept=gallery.per_rule,
        unpictured=sum(card.missing for card in cards),
        reasons=numbers.reasons[:REASONS_SHOWN],
        more_reasons=numbers.reasons[REASONS_SHOWN:],
    )


def _describe_run(run: Run) -> dict[str, Any]:
    """The page's facts about the campaign."""
    identity, campaign = run.identity, run.identity["campaign"]
    return {
        "title": title_of(campaign),
        "system": in_words(campaign.get("system")),
        "source": in_words(campaign.get("source")),
        "search": in_words(campaign.get("search")),
        "gate": in_words(campaign.get("gate")),
        "files": {"model": files_named(campaign.get("system")), "data": files_named(campaign.get("source"))},
        "expects": {rule["name"]: _expects(rule) for rule in campaign.get("rule", ())},
        "fingerprints": {name: str(sha)[:SHORT] for name, sha in identity.get("fingerprints", {}).items()},
        "versions": {"swerve": identity.get("swerve", "?"), **identity.get("libraries", {})},
        "target": identity.get("factory") or "CAMPAIGN",
        "rebuildable": identity.get("rebuildable", False),
        "folder": shlex.quote(str(run.folder)),
    }


def _expects(rule: Mapping[str, Any]) -> str:
    """What a rule expects, its own gate and least shift, its requirements and the conditions under which it fails."""
    gate = [f"gate {in_words(rule['gate'])}"] if rule.get("gate") else []
    shift = [f"least shift {rule['least_shift']:g}"] if rule.get("least_shift") is not None else []
    tested = [f"tests {', '.join(rule['requirement'])}"] if rule.get("requirement") else []
    fails = [f"fails if {' or '.join(rule['fail_if'])}"] if rule.get("fail_if") else []
    return "; ".join([expectation(rule.get("expect")), *gate, *shift, *tested, *fails])


def _stack(line: RuleCounts) -> list[tuple[str, float, float]]:
    """The four outcomes of a trial as name, start and length on a bar of 1,000."""
    parts: list[tuple[str, float, float]] = []
    start = 0.0
    for name in ("held", "violated", "skipped", "errors"):
        length = 1000 * getattr(line, name) / line.trials if line.trials else 0.0
        parts.append((name, round(start, 2), round(length, 2)))
        start += length
    return parts


def _smallest(run: Run, overview: Overview) -> Iterator[str]:
    """The sentence that names the smallest failing change of each kind, where some were shrunk."""
    found: dict[str, tuple[float, str]] = {}
    for group in overview.groups:
        if one := shrunk_finding(run, group.mildest):
            how = strength(one.change), one.words
            found[family_of(one.rule)] = min(found.get(family_of(one.rule), how), how)
    if mildest := [words for _, words in sorted(found.values())[:SMALLEST]]:
        yield f"The smallest failing change{'' if len(mildest) == 1 else 's'} found: {'; '.join(mildest)}."


def _shrinking(run: Run) -> str:
    """What was shrunk at the end of the run, and within which budget."""
    try:
        told = read_json(run.folder / SHRINKING)
        groups = f"{told['shrunk']:,} of {told['groups']:,} kinds of failure were shrunk to their smallest failing change"
        return f"{groups}, with {told['used']:,} of at most {told['budget']:,} further trials."
    except (StoreError, KeyError, TypeError, ValueError):  # a derived file
        return ""


@dataclass(frozen=True)
class TileLine:
    """A rule on its family's tile: what distinguishes it, its counts, and its limit in a few words."""

    name: str
    line: RuleCounts
    limit: str


@dataclass(frozen=True)
class Tile:
    """A family of rules at a glance, as its worst rule stands."""

    family: str
    lines: tuple[TileLine, ...]

    @property
    def standing(self) -> Standing:
        """The worst of its rules'."""
        return min((standing(one.line) for one in self.lines), key=list(Standing).index)


def _tiles(lines: Iterable[RuleCounts], curves: Iterable[Curve]) -> list[Tile]:
    limits = {curve.rule: curve.brief for curve in curves}
    found: dict[str, list[TileLine]] = {}
    for line in lines:
        family = family_of(line.name)
        limit = limits.get(line.name, "")
        found.setdefault(family, []).append(TileLine(series_name(line.name, family), line, limit))
    return [Tile(family, tuple(same)) for family, same in found.items()]


def _quality(found: Robustness | None) -> list[dict[str, Any]]:
    """The rows of the table of quality: every family with its scores drawn, and its rules if it has several."""
    if found is None:
        return []
    names = [family_of(rule.name) for rule in found.rules]
    highest = max((one.high or one.value or 0.0) for kept in found.families for one in (kept.before, kept.after))
    rows = []
    for kept in found.families:
        members = [rule for rule, family in zip(found.rules, names, strict=True) if family == kept.name]
        rows.append({"kept": kept, "drawn": quality_marks(kept, highest), "rules": [rule.name for rule in members]})
    return rows


def _domain(rows: Sequence[DomainRow]) -> dict[str, Any]:
    """The matrix of conditions and of what the labels say, with the status of each cell."""
    columns: dict[str, list[str]] = {}
    for row in rows:
        for name, cells in row.cells.items():
            known = columns.setdefault(name, [])
            known += [one.value for one in cells if one.value not in known]
    values = [(name, value) for name, known in columns.items() for value in known]
    tried = [row for row in rows if row.judged]
    drawn: list[dict[str, Any]] = [{"row": row, "cells": list(_domain_cells(row, values))} for row in rows]
    return {
        "rows": rows,
        "groups": [(name, list(same)) for name, same in groupby(drawn, lambda one: one["row"].attribute.words)],
        "columns": {name: len(known) for name, known in columns.items()},
        "values": [value for _, value in values],
        "tried": len(tried),
        "broke": sum(row.violated > 0 for row in tried),
        "missing": sum(row.status == NOT_TRIED for row in rows),
    }


def _domain_cells(row: DomainRow, values: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any] | None]:
    """A cell for every value of every column; None where nothing was tried."""
    known = {(one.column, one.value): one for cells in row.cells.values() for one in cells}
    for name, value in values:
        one = known.get((name, value))
        status = status_of(one.violated, one.judged) if one else ""
        yield {"of": one, "status": status} if one and status else None


def _facets(overview: Overview, gallery: Gallery) -> dict[str, Any]:
    """What the page's script filters by: the names behind the numbers on cards."""
    terms = {term for card in gallery.cards for one in card.findings for term in one.terms}
    return {
        "rules": [filter_text(line.name) for line in overview.numbers.rules],
        "terms": {term: term_words(term) for term in sorted(terms)},
        "columns": [
            [filter_text(name), [filter_text(one.value) for one in cells]] for name, cells in overview.cases.slices().items()
        ],
    }


def labels_of(run: Run, cases: set[str]) -> dict[str, Answer]:
    """The labels of the untouched `cases`, from the start of the journal."""
    found: dict[str, Answer] = {}
    for row in run.rows():
        if row["kind"] != BASELINE or len(found) == len(cases):
            break
        if row["case"] in cases:
            found[row["case"]] = decode_values(row["truth"])
    return found


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _colours() -> dict[str, str]:
    """The legend of a bird's-eye picture."""
    meanings = {**COLOURS, "any other kind": OTHER, "added points": ADDED, "region": SHADE}
    return {name: _hex(colour) for name, colour in meanings.items() if name != "unknown"}
