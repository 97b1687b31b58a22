"""Addresses that filter the gallery of a report: `#rule=rotation&where.curve=left`."""

from __future__ import annotations

from urllib.parse import quote

from swerve.report.templating import CONTROLS, clip

WHERE = "where."  # starts the name of a filter on a column of the cases


def gallery_link(**filters: object) -> str:
    """The address of the findings that pass `filters`, which are named as in the page's script."""
    return "#" + "&".join(f"{_quoted(name)}={_quoted(filter_text(item))}" for name, item in filters.items())


def slice_link(column: str, value: str, **filters: object) -> str:
    """The address of the findings of cases with one value of a column."""
    return gallery_link(**filters, **{f"{WHERE}{filter_text(column)}": value})


def span_link(rule: str, start: float, end: float) -> str:
    """The address of the findings of a rule whose number is in a range, its ends included."""
    return gallery_link(rule=rule, value=f"{start:.9g}..{end:.9g}")


def filter_text(item: object) -> str:
    """A text as the page shows it, so that both are equal."""
    return clip(item).translate(CONTROLS)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="backslashreplace")
