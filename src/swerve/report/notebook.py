"""A finished run as a Python program or a notebook sees it: its table, and its findings with their pictures."""

from __future__ import annotations

import base64
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from markupsafe import Markup, escape

from swerve.analysis.exemplars import smallest_words
from swerve.analysis.numbers import SUMMARY, RuleCounts
from swerve.analysis.overview import overview_of
from swerve.core.errors import UnreadableCase, printable
from swerve.core.system import Answer
from swerve.core.values import Array
from swerve.report.answer_pictures import answered
from swerve.report.pack import SIDES, input_files
from swerve.report.templating import PAGE
from swerve.report.words import answer_words, replay_line
from swerve.sources.images import decode_image
from swerve.store.files import png_bytes, read_json, write_whole
from swerve.store.record_json import Finding
from swerve.store.view import Run

SHOWN = 3  # findings in a notebook
PICTURE = ".png"
HEADS = ("rule", "trials", "violated", "rate", "95% interval")


class FinishedRun:
    """The results in a run folder: `findings`, `table()`, and `summary`, the content of `summary.json`."""

    def __init__(self, run: Run | str | Path, trusted: Sequence[str | Path] = ()) -> None:
        self._run = run if isinstance(run, Run) else Run(Path(run))
        self._trusted = tuple(trusted)

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._run.folder

    @property
    def report(self) -> Path:
        """The page that shows the whole run."""
        return self.folder / PAGE

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The counts, as in `summary.json`."""
        return read_json(self.folder / SUMMARY)

    @cached_property
    def findings(self) -> Sequence[ShownFinding]:
        """Every finding, the largest margins first."""
        found = sorted(self._run.findings(), key=lambda finding: (-finding.margin, finding.id))
        return tuple(ShownFinding(self._run, finding, self._trusted) for finding in found)

    def table(self) -> RuleTable:
        """The trials and violations of every rule."""
        return RuleTable(overview_of(self._run).numbers.rules)

    def __repr__(self) -> str:
        return f"{self._headline}\n{self.table()}"

    def _repr_html_(self) -> str:
        shown = Markup("").join(Markup(finding._repr_html_()) for finding in self.findings[:SHOWN])
        more = len(self.findings) - SHOWN
        rest = f"{more:,} more in findings[{SHOWN}:] and in {self.report}" if more > 0 else ""
        table = Markup(self.table()._repr_html_())
        return str(Markup("<div><p><b>{}</b></p>{}{}<p>{}</p></div>").format(self._headline, table, shown, rest))

    @property
    def _headline(self) -> str:
        return overview_of(self._run).numbers.headline


class RuleTable(Sequence[Mapping[str, Any]]):
    """A row for each rule: `rule`, `trials`, `violated`, `rate`, and its 95% Wilson interval from `low` to `high`.

    Without judged trials there is no rate, and where a search chose the trials by their results, no interval: they are None.
    """

    def __init__(self, counts: Sequence[RuleCounts]) -> None:
        self._rows = tuple(map(_row, counts))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Mapping[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        return self._rows[place]

    def __repr__(self) -> str:
        rows = [HEADS, *(tuple(map(printable, _cells(row))) for row in self._rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(_aligned(row, widths) for row in rows)

    def _repr_html_(self) -> str:
        cell, head = Markup("<td>{}</td>"), Markup("<th>{}</th>")
        lines = [[head.format(name) for name in HEADS], *([cell.format(text) for text in _cells(row)] for row in self._rows)]
        body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(line)) for line in lines)
        return str(Markup("<table>{}</table>").format(body))


def _row(line: RuleCounts) -> Mapping[str, Any]:
    low, high = line.interval if line.judged and line.sampled else (None, None)
    rate = line.rate if line.judged else None
    return {"rule": line.name, "trials": line.trials, "violated": line.violated, "rate": rate, "low": low, "high": high}


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate = "–" if row["rate"] is None else f"{row['rate']:.1%}"
    interval = "–" if row["low"] is None else f"{row['low']:.1%} to {row['high']:.1%}"
    return row["rule"], f"{row['trials']:,}", f"{row['violated']:,}", rate, interval


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = row
    cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
    return "  ".join(cells).rstrip()


@dataclass(frozen=True, repr=False)
class ShownFinding:
    """One finding of a run; `show()` opens its pictures, and a notebook renders them."""

    run: Run
    finding: Finding
    trusted: tuple[str | Path, ...] = ()

    @property
    def id(self) -> str:
        """What `swerve replay` knows it by."""
        return self.finding.id

    @property
    def rule(self) -> str:
        """The name of its rule."""
        return self.finding.rule

    @property
    def case(self) -> str:
        """The key of the case that was changed."""
        return self.finding.case

    @property
    def change(self) -> str:
        """The change in words."""
        return self.finding.words

    @property
    def before(self) -> Answer:
        """The answer to the source."""
        return self.finding.before

    @property
    def after(self) -> Answer:
        """The answer to the follow-up."""
        return self.finding.after

    @property
    def truth(self) -> Answer:
        """The label of the follow-up."""
        return self.finding.truth

    @property
    def verdict(self) -> str:
        """What was compared, and the limit that it exceeded."""
        return self.finding.why

    @property
    def margin(self) -> float:
        """How far beyond the limit it is."""
        return self.finding.margin

    @property
    def origin(self) -> str:
        """Whether the change introduced the failure, made it worse, or found what was already wrong."""
        return self.finding.origin.words

    @property
    def replay(self) -> str:
        """The command that runs it again."""
        return replay_line(self.run, self.id)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON, as `swerve show --json` prints it."""
        return self.finding.as_dict()

    def pictures(self) -> Iterator[tuple[str, Array]]:
        """For every sensor, source and follow-up side by side with the answers, as RGB pixels."""
        files, _ = input_files(self.run, self.finding, self.trusted)
        for sensor in dict.fromkeys(name.partition("-")[2] for name in files if name.endswith(PICTURE)):
            pair = [files.get(f"{side}-{sensor}") for side in SIDES]
            if all(pair):
                source, followup = (_pixels(data) for data in pair if data)
                if source is not None and followup is not None:
                    yield sensor.removesuffix(PICTURE), answered(source, followup, self.finding)

    def show(self) -> Path:
        """Write `finding-ID.html` with the pictures to the run folder, and open it in a browser; returns its path."""
        page = self.run.folder / f"finding-{self.id}.html"
        title = Markup('<!DOCTYPE html><meta charset="utf-8"><title>{}</title>').format(self.id)
        write_whole(page, f"{title}{self._repr_html_()}".encode(errors="backslashreplace"))
        webbrowser.open(page.resolve().as_uri())
        return page

    def __repr__(self) -> str:
        lines = [f"{self.rule}: {self.change}  {self.case}", *(f"  {what}: {text}" for what, text in self._lines())]
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        head = Markup("<b>{}</b>: {} <small>{}</small>").format(self.rule, self.change, self.case)
        lines = Markup("<br>").join(escape(f"{what}: {text}") for what, text in self._lines())
        return str(Markup("<figure><figcaption>{}<br>{}</figcaption>{}</figure>").format(head, lines, self._images()))

    def _images(self) -> Markup:
        template = Markup('<img alt="{}: source, follow-up" src="data:image/png;base64,{}">')
        encoded = ((sensor, base64.b64encode(png_bytes(pixels)).decode()) for sensor, pixels in self.pictures())
        return Markup("").join(template.format(*one) for one in encoded)

    def _lines(self) -> Iterator[tuple[str, str]]:
        answers = {"source": self.before, "follow-up": self.after, "label": self.truth}
        yield from ((name, answer_words(answer)) for name, answer in answers.items() if answer)
        yield "verdict", f"{self.verdict} (margin {self.margin:+.3g}, {self.origin})"
        if smallest := smallest_words(self.run, self.finding):
            yield "smallest change", smallest
        yield "replay", self.replay


def _pixels(png: bytes) -> Array | None:
    """The pixels of a kept picture, within the limits of any picture; None if the file was damaged, or exchanged."""
    try:
        return decode_image(png, PICTURE).pixels
    except UnreadableCase:
        return None
