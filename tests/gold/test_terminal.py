"""What the terminal says of runs made by hand."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from swerve.analysis.numbers import RuleCounts, numbers_of
from swerve.config.catalog import CatalogArgument, CatalogEntry
from swerve.core.campaign import Observation
from swerve.core.origin import Origin
from swerve.core.relation import Fault
from swerve.report.catalog_view import print_entry
from swerve.report.html import write_report
from swerve.report.terminal import (
    RichProgress,
    _bars,
    _cells,
    _clock,
    print_finding,
    print_findings,
    print_groups,
    print_shrinking,
    print_shrunk,
    print_summary,
)
from swerve.store.artifacts import Shrunk
from swerve.store.record_json import finding_of, record_row
from swerve.store.view import Run
from swerve.transformations.affine import Rotate
from tests.fixture_runs import MIXED, SEEN, Made, failed, finding, held
from tests.gold.test_report import ENDINGS, write_shrunk


@pytest.fixture
def mixed(tmp_path: Path) -> Run:
    return Made(MIXED, SEEN, {"rotate": (1, 9)}).write(tmp_path / "run")


def terminal(show: Callable[[Console], None], width: int = 100) -> str:
    file = io.StringIO()
    show(Console(file=file, width=width))
    return file.getvalue()


def test_terminal_tells_counts_and_worst(mixed: Run) -> None:
    said = terminal(lambda console: print_summary(mixed, console))
    assert re.search(r"intro- already +origin +un- +skip-\n", said)
    assert re.search(r"rotate +15 +3 33\.3% 12\.1–64\.6 +1 +1 +1 +1/9 +4 +2\n", said)
    assert "3 of 9 judged trials violated their rule: 33.3%" in said
    assert "1 group of findings; the worst of each:\n\n 1  rotate: rotate, further left  3 findings in 3 cases\n" in said
    assert "    rotated 9° counter-clockwise  b  margin +45, already wrong\n" in said
    assert said.count("swerve replay") == 2  # of the first error, and of the worst finding
    assert "report:" not in said
    path = write_report(mixed)
    assert f"report: {path}\n" in terminal(lambda console: print_summary(mixed, console), width=40)


def test_terminal_tells_every_origin(tmp_path: Path) -> None:
    told = [replace(finding(f"{origin} {place}"), origin=origin) for place, origin in enumerate([*Origin, Origin.MARGINAL])]
    run = Made([*told, held("a")]).write(tmp_path / "run")
    said = terminal(lambda console: print_summary(run, console))
    first, second, row = said.splitlines()[:3]
    assert first.split() == ["intro-", "made", "already", "mar-", "origin", "un-", "skip-"]
    assert second.split()[5:] == ["duced", "worse", "wrong", "ginal", "unknown", "touched", "ped", "errors"]
    assert row.split()[5:10] == ["1", "1", "1", "2", "1"]
    listed = terminal(lambda console: print_findings(run, console, 9))
    assert all(f"  {origin.words} " in listed for origin in Origin)


def test_tables_fit_eighty_columns(tmp_path: Path) -> None:
    """Counts first, then origins; long names lose their middle, as rules often differ in their ends."""
    names = [f"a rule with quite a long name, {which}" for which in ("label", "own answer")]
    told = [replace(finding(f"{name} {origin}", name), origin=origin) for name in names for origin in Origin]
    run = Made([*told, *(held(f"h{number}", names[0]) for number in range(2000))]).write(tmp_path / "run")
    lines = terminal(lambda console: print_summary(run, console), width=80).splitlines()
    table = lines[: lines.index("") + 1 + 2 + 3]
    assert max(map(len, table)) <= 80
    assert sum(line.startswith("rule") for line in table) == 2
    assert any("own answer  " in line for line in table)
    assert any(", label  " in line for line in table)
    wide = terminal(lambda console: print_summary(run, console), width=140)
    assert wide.splitlines()[1].split()[5:] == ["duced", "worse", "wrong", "ginal", "unknown", "touched", "ped", "errors"]


def test_summary_tells_why_trials_were_skipped(mixed: Run) -> None:
    said = terminal(lambda console: print_summary(mixed, console))
    reasons = [reason for reason in numbers_of(mixed).reasons if reason.what == "skipped"]
    assert reasons
    assert all(f"{reason.count} skipped: {reason.why}" in said for reason in reasons[:3])


def test_shrinking_tells_what_cannot_be_smaller(tmp_path: Path) -> None:
    large, small = finding("a", off=30.0), finding("a", change=Rotate(2.0), off=6.0)
    run = Made([large]).write(tmp_path / "run")
    whole, less = (finding_of(record_row(record)) for record in (large, small))
    shrunk = [Shrunk(whole, large.id, (), 7), Shrunk(whole, large.id, (), 0), Shrunk(less, large.id, (), 3)]
    said = [terminal(lambda console, one=one: print_shrunk(one, run, console)) for one in shrunk]  # type: ignore[misc]
    assert "It cannot be made smaller: none of 7 smaller changes fails in the same way." in said[0]
    assert "It cannot be made smaller: this change has no numbers, steps or parts to reduce." in said[1]
    assert "cannot" not in said[2]
    together = terminal(lambda console: print_shrinking([*shrunk, replace(shrunk[0], flaky=True)], console))
    assert together == "4 findings: 1 made smaller, 2 already smallest, 1 flaky\n"
    assert terminal(lambda console: print_shrinking(shrunk[:1], console)) == ""


def test_terminal_leads_with_groups(tmp_path: Path) -> None:
    records = [finding(f"c{index}", f"rule {index % 5}", off=10.0 + index) for index in range(25)]
    run = Made([*records, finding("odd", "rule 0", off=-50.0)]).write(tmp_path / "run")
    said = terminal(lambda console: print_summary(run, console))
    assert "6 groups of findings; the worst of the 3 that affect most cases:" in said
    assert re.findall(r"^ (\d)  (rule \d)", said, re.MULTILINE) == [("1", "rule 4"), ("2", "rule 3"), ("3", "rule 2")]
    assert f"to show all groups: swerve show {run.folder} --most 6\n" in said
    whole = terminal(lambda console: print_groups(run, console, 6))
    assert whole.startswith("6 groups of findings; the worst of each:")
    assert whole.count("swerve replay") == 6
    assert " 6  rule 0: rotate, further right  1 finding in 1 case\n" in whole
    assert "all of them" not in whole


def test_terminal_tells_smallest_change(tmp_path: Path) -> None:
    large = finding("a", off=30.0)
    run = Made([large]).write(tmp_path / "run")
    write_shrunk(run, large, finding("a", change=Rotate(2.0), off=6.0))
    told = "rotated 2° counter-clockwise; degrees fails at 2°, holds at 1.9°"
    assert f"    smallest: {told}\n" in terminal(lambda console: print_groups(run, console, 9))
    assert f"  smallest change: {told}\n" in terminal(lambda console: print_finding(run, next(run.findings()), console))


def test_terminal_tells_errors_where_nothing_was_found(tmp_path: Path) -> None:
    errors = [failed("x", "died by signal 6", kind=Fault.SIGNAL), *(failed(case, "boom") for case in "yz")]
    seen = [*SEEN, Observation("mute", "", fault="RuntimeError: shapes")]
    run = Made([held("a"), *errors], seen).write(tmp_path / "run")
    first = next(row for row in run.trials() if row["status"] == "error")
    failures = (
        f"3 errors (model 2, signal 1); first: x: died by signal 6; swerve replay {run.folder} {first['id']}\n"
        "the system failed on 1 untouched case; first: mute: RuntimeError: shapes\n"
    )
    said = terminal(lambda console: print_summary(run, console))
    assert "No findings: all 1 judged trials held (at most 79.3% may fail, 95% Wilson); 3 more ended in an error.\n" in said
    assert said.endswith(failures)
    assert terminal(lambda console: print_groups(run, console, 3)) == f"No findings.\n{failures}"
    calm = Made([held("a")], SEEN).write(tmp_path / "calm")
    assert terminal(lambda console: print_groups(calm, console, 3)) == "No findings.\n"


def test_terminal_tells_what_was_to_be_feared(tmp_path: Path) -> None:
    run = Made([held("a")], SEEN).write(tmp_path / "run")
    calm = terminal(lambda console: print_summary(run, console))
    levels = {"noise": "warning", "disk": "refusal", "same input twice": "note"}
    concerns = [{"name": name, "level": level, "why": f"so {name}"} for name, level in levels.items()]
    (run.folder / "health.json").write_text(json.dumps({"baseline": {}, "concerns": concerns, "healthy": True}))
    said = terminal(lambda console: print_summary(run, console))
    assert said == f"{calm}warning: noise: so noise\nrefusal: disk: so disk\n"


@pytest.mark.parametrize("made", ENDINGS.values(), ids=ENDINGS)
def test_terminal_tells_any_ending(made: Made, tmp_path: Path) -> None:
    run = made.write(tmp_path / "run")
    said = terminal(lambda console: print_summary(run, console))
    assert numbers_of(run).headline in said
    assert ("group" in said) == (numbers_of(run).overall.violated > 0)
    assert terminal(lambda console: print_groups(run, console, 3)).startswith(("No findings", "1 group of findings"))


def test_terminal_says_unfinished(tmp_path: Path) -> None:
    run = Made(MIXED, finished=False).write(tmp_path / "run")
    assert terminal(lambda console: print_summary(run, console)).startswith("This campaign has not finished")


def test_terminal_says_that_nothing_was_tried(tmp_path: Path) -> None:
    """Stopped in its baseline: no trial is no clean bill of health."""
    run = Made([], SEEN, finished=False).write(tmp_path)
    for show in (print_groups, print_findings):
        said = terminal(lambda console, show=show: show(run, console, 3))  # type: ignore[misc]
        assert said.replace("\n", " ").startswith(
            "No findings: the run stopped before its first trial. Run the campaign again"
        )


def test_terminal_never_cuts_a_number() -> None:
    line = RuleCounts("a rule with a name far too long for any column", held=10_000_000, violated=1, untouched=(1, 100_000))
    name, trials, *_ = _cells(line, tuple(Origin))
    assert len(name) <= 28
    assert trials == "10,000,001"


HOSTILE = "\x1b[31mred\x1b]8;;http://x\x07 [bold]x[/bold] :smile: \x9b2J \u202etxt\r\n"


def test_terminal_neutralises_escapes(tmp_path: Path) -> None:
    record = finding(HOSTILE, HOSTILE, why=HOSTILE)
    run = Made([record, held("b", HOSTILE)]).write(tmp_path / "run")
    item = next(run.findings())
    for show in (
        lambda console: print_summary(run, console),
        lambda console: print_findings(run, console, 5),
        lambda console: print_groups(run, console, 5),
        lambda console: print_finding(run, item, console),
        lambda console: print_entry(CatalogEntry("gates", "x", HOSTILE, {HOSTILE: CatalogArgument("text", True)}), console),
    ):
        said = terminal(show)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", said)
        assert "[bold]x[/bold]" in said
        assert ":smile:" in said


def test_terminal_lists_worst_first(mixed: Run) -> None:
    lines = terminal(lambda console: print_findings(mixed, console, 2)).splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["+45", "+15"]
    assert lines[-1] == "2 of 3 findings"


def test_terminal_shows_one_finding(mixed: Run) -> None:
    item = mixed.best()[0]
    said = terminal(lambda console: print_finding(mixed, item, console))
    assert "source: +3.0°" in said
    assert "follow-up: +53.0°" in said
    assert "pictures: not kept" in said


def test_progress_is_one_line_per_stage() -> None:
    def show(console: Console) -> None:
        with RichProgress(console) as progress:
            progress.begin("baseline", 3)
            progress.advance(3, 0)
            progress.begin("trials", None)
            progress.advance(5, 1)
            progress.advance(5, 1)

    lines = terminal(show).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("baseline: 3 done in ")
    assert lines[1].startswith("trials: 10 done, 2 findings in ")


def test_heading_stands_after_the_stage_before_it() -> None:
    file = io.StringIO()
    with RichProgress(Console(file=file, width=120)) as progress:
        for name in ("first", "second"):
            progress.head(name)
            progress.begin("trials", 2)
            progress.advance(2, 1)
    lines = file.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["first", "trials", "second", "trials"]


def test_progress_says_stopped() -> None:
    def show(console: Console) -> None:
        with suppress(KeyboardInterrupt), RichProgress(console) as progress:
            progress.begin("trials", 100)
            progress.advance(5, 1)
            raise KeyboardInterrupt

    assert terminal(show).startswith("trials: stopped after 5, 1 findings in ")


@pytest.mark.parametrize("total", [40, None])
def test_progress_draws_bars_on_terminal(total: int | None) -> None:
    file = io.StringIO()
    with RichProgress(Console(file=file, width=120, force_terminal=True)) as progress:
        progress.begin("trials", total)
        progress.advance(40, 7)
    assert "40/" in file.getvalue()
    assert "7 findings" in file.getvalue()


def test_clock_shows_elapsed_and_remaining_time() -> None:
    assert [_clock(seconds) for seconds in (0, 28.4, 61, 3 * 3600 + 62)] == ["0:00", "0:28", "1:01", "3:01:02"]
    bars = _bars(Console(file=io.StringIO(), width=80, force_terminal=True))
    times = iter((0.0, 0.0, 10.0, 10.0))
    bars.get_time = lambda: next(times, 10.0)
    task = bars.add_task("baseline", total=40, found=0)
    bars.update(task, advance=10)
    line = Console(file=io.StringIO(), width=80, record=True)
    line.print(bars.make_tasks_table(bars.tasks))
    assert re.search(r"baseline .*10/40 +0:10", line.export_text())
