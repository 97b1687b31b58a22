"""The operating domain of a run as ASAM OpenODD's YAML, and as a CSV table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from swerve.analysis.operating_domain import DOMAIN, IN_DATA, NOT_TRIED, DomainRow, status_of
from swerve.analysis.statistics import wilson
from swerve.analysis.verdict import Standing
from swerve.store.files import write_csv, write_whole
from swerve.store.view import Run

TABLE, YAML = "tables/operating_domain.csv", "tables/operating_domain.yaml"
HEADER = ("attribute", "condition", "column", "value", "status", "cases", "judged", "violated", "rate", "low", "high")
MODULES = {
    "conditions_in_the_data": ((IN_DATA,), "Conditions of the untouched cases; no change brought them about."),
    "conditions_tried_and_held": ((Standing.HOLDS,), "No trial failed, or fewer than 5% may fail (95% Wilson)."),
    "conditions_that_fail": ((Standing.FAILS,), "Some trials failed."),
    "conditions_that_break_the_system": ((Standing.BREAKS,), "At least 20% of the trials fail (95% Wilson)."),
    "conditions_not_tried": ((NOT_TRIED,), "The campaign says nothing about them."),
}


def write_operating_domain(run: Run, rows: Sequence[DomainRow]) -> None:
    """Write both files into the run folder."""
    write_csv(run.folder / TABLE, HEADER, _cells(rows))
    write_whole(run.folder / YAML, "".join(f"{line}\n" for line in yaml_lines(rows)).encode())


def _cells(rows: Iterable[DomainRow]) -> Iterator[tuple[object, ...]]:
    for row in rows:
        place = "/".join(row.attribute.path), row.term
        yield (*place, "", "", row.status, row.in_data, row.judged, row.violated, *_rate(row.violated, row.judged))
        for one in (one for cells in row.cells.values() for one in cells):
            status = status_of(one.violated, one.judged) or NOT_TRIED
            counts = one.cases, one.judged, one.violated
            yield (*place, one.column, one.value, status, *counts, *_rate(one.violated, one.judged))


def _rate(violated: int, judged: int) -> tuple[object, ...]:
    return (violated / judged, *wilson(violated, judged)) if judged else ("", "", "")


def yaml_lines(rows: Sequence[DomainRow]) -> Iterator[str]:
    """The taxonomy in use, and a module for each outcome, which an operational design domain can include or exclude."""
    yield "# The conditions of a Swerve run in the terms of ISO 34503; not a claim of compliance."
    yield "TAXONOMY:"
    shown: tuple[str, ...] = ()
    for attribute in DOMAIN:
        for depth, name in enumerate(attribute.path):
            if attribute.path[: depth + 1] != shown[: depth + 1]:
                yield f"{'  ' * (depth + 1)}{name}:"
        shown = attribute.path
        yield from (f"{'  ' * (len(shown) + 1)}- {term}" for term in attribute.terms)
    yield "MODULES:"
    for name, (statuses, about) in MODULES.items():
        yield from _module(name, about, [row for row in rows if row.status in statuses])


def _module(name: str, about: str, rows: Sequence[DomainRow]) -> Iterator[str]:
    if not rows:
        return
    yield f"  {name}:"
    yield f"    TITLE: {name.replace('_', ' ').capitalize()}"
    yield f"    DESCRIPTION: {about}"
    yield "    INCLUDE_OR:"
    for attribute in DOMAIN:
        if terms := [row.term for row in rows if row.attribute is attribute]:
            yield f"      {attribute.path[-1]}:"
            yield from (f"        - {term}" for term in terms)
