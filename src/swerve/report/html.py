"""The HTML report of a run, from its folder alone: numbers, severity curves, groups and a gallery of findings."""

from __future__ import annotations

import shlex
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swerve.analysis.groups import FindingGroup, groups, smallest_words, sorter
from swerve.analysis.set_checks import set_checks
from swerve.analysis.severity import curves
from swerve.core.encode import decode_values
from swerve.core.system import Answer
from swerve.report.birdseye import ADDED, COLOURS, MARKS, NIGHT, OTHER, SHADE
from swerve.report.numbers import PAGE, Numbers, RuleCounts, condition_of, numbers_of, reached_of
from swerve.report.severity_charts import severity_charts
from swerve.report.sweep_pictures import PICTURES, Album, read_sweeps
from swerve.report.templating import render_page
from swerve.report.words import answer_words, expectation, in_words, steering_turn, title_of
from swerve.store.artifacts import FINDINGS, SHA_DIGITS, features_of
from swerve.store.files import make_folder, write_whole
from swerve.store.record_json import BASELINE, Finding
from swerve.store.view import KEPT_PER_RULE, Run

REASONS_SHOWN = 20
MOST_CARDS = 1800  # about 2 kB each, which keeps the page under 5 MB (R12)
GROUPS_OPEN, GROUPS_SHOWN = 12, 60  # at first, and after a click; tables/groups.csv lists all
PICTURE = ".png"
SHORT = 12  # characters of a fingerprint


def write_report(run: Run) -> Path:
    """Write `report/index.html` of `run` and its bird's-eye pictures; returns the page's path."""
    path, album = run.folder / PAGE, Album(run)
    make_folder(path.parent)
    page = render(run, album).encode(errors="backslashreplace")
    album.close()
    write_whole(path, page)
    return path


def render(run: Run, album: Album) -> str:
    """The page of `run`; its bird's-eye pictures are drawn into `album`."""
    numbers = numbers_of(run)
    untouched = {line.name: line.untouched for line in numbers.rules if line.untouched}
    found = groups(run, features_of(run))
    per_rule, chosen = _chosen(run, len(numbers.rules))
    cards = list(_cards(run, numbers, found, [*chosen, *_others(found[:GROUPS_SHOWN], chosen)], album))
    return render_page(
        "page.html",
        styles=("style.css",),
        script="script.js",
        numbers=numbers,
        lines=(*numbers.rules, numbers.overall),
        run=_describe_run(run),
        stack=_stack(numbers.overall),
        charts=severity_charts(curves(run.trials, untouched, run.identity.get("parameters", {}))),
        checks=set_checks(run),
        condition=condition_of(run),
        reached=reached_of(run) if numbers.finished else None,
        cards=cards,
        groups=_group_cards(found[:GROUPS_SHOWN], cards),
        groups_open=GROUPS_OPEN,
        colours=_colours(),
        marks={name.replace("_", " "): _hex(colour) for name, colour in MARKS.items()},
        night=_hex(NIGHT),
        all_groups=len(found),
        kept=per_rule,
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
        "expects": {rule["name"]: expectation(rule.get("expect")) for rule in campaign.get("rule", ())},
        "fingerprints": {name: str(sha)[:SHORT] for name, sha in identity.get("fingerprints", {}).items()},
        "versions": {"swerve": identity.get("swerve", "?"), **identity.get("libraries", {})},
        "target": identity.get("factory") or "CAMPAIGN",
        "rebuildable": identity.get("rebuildable", False),
        "folder": shlex.quote(str(run.folder)),
    }


def _stack(line: RuleCounts) -> list[tuple[str, float, float]]:
    """The four outcomes of a trial as name, start and length on a bar of 1,000."""
    parts: list[tuple[str, float, float]] = []
    start = 0.0
    for name in ("held", "violated", "skipped", "errors"):
        length = 1000 * getattr(line, name) / line.trials if line.trials else 0.0
        parts.append((name, round(start, 2), round(length, 2)))
        start += length
    return parts


@dataclass(frozen=True)
class Picture:
    """The addresses of source and follow-up, and their size; no follow-up if it shows the same as the source."""

    source: str
    followup: str
    size: tuple[int, int]
    from_above: bool = False


@dataclass(frozen=True)
class Card:
    """One finding in the gallery."""

    finding: Finding
    rule: int
    group: int
    pictures: tuple[Picture, ...]
    missing: bool  # whether no file of this input was kept
    label: Answer  # of the source
    turns: Mapping[str, str]
    smallest: str  # the shrunk change in words

    @property
    def answers(self) -> dict[str, str]:
        """Answers and labels as text."""
        return {name: answer_words(answer) for name, answer in _answers(self.finding, self.label).items()}


@dataclass(frozen=True)
class GroupCard:
    """One group on the page: its worst finding, and how many of its findings are in the gallery."""

    group: FindingGroup
    worst: Card
    shown: int


def _group_cards(found: Iterable[FindingGroup], cards: Iterable[Card]) -> list[GroupCard]:
    by_id = {card.finding.id: card for card in cards}
    shown = Counter(card.group for card in by_id.values())
    return [GroupCard(group, by_id[group.exemplar.id], shown[group.number]) for group in found]


def _chosen(run: Run, rules: int) -> tuple[int, list[Finding]]:
    """The findings of the gallery and their number per rule, which is lower if there would be too many in all."""
    best = run.best()
    if len(best) <= MOST_CARDS:
        return KEPT_PER_RULE, best
    per_rule = max(1, MOST_CARDS // rules)
    return per_rule, run.best(per_rule)[:MOST_CARDS]


def _others(found: Iterable[FindingGroup], chosen: Iterable[Finding]) -> Iterator[Finding]:
    """The worst finding of each group, unless it is among `chosen`."""
    known = {finding.id for finding in chosen}
    return (group.exemplar for group in found if group.exemplar.id not in known)


def _cards(
    run: Run, numbers: Numbers, found: Sequence[FindingGroup], chosen: Sequence[Finding], album: Album
) -> Iterator[Card]:
    order = {line.name: index for index, line in enumerate(numbers.rules)}
    labels = labels_of(run, {finding.case for finding in chosen})
    kept = _kept(run.folder / FINDINGS)
    group_of = sorter(run, found)
    for finding in chosen:
        label = labels.get(finding.case, ())
        answers = _answers(finding, label)
        yield Card(
            finding,
            order[finding.rule],
            group_of(finding).number,
            tuple(_pictures(finding, kept, album)),
            finding.input_sha[:SHA_DIGITS] not in kept,
            label,
            {name: steering_turn(answer) for name, answer in answers.items()},
            smallest_words(run, finding),
        )


def _answers(finding: Finding, label: Answer) -> dict[str, Answer]:
    """What was predicted and labelled, before and after the change."""
    return {"before": finding.before, "after": finding.after, "label": label, "truth": finding.truth}


def labels_of(run: Run, cases: set[str]) -> dict[str, Answer]:
    """The labels of the untouched `cases`, from the start of the journal."""
    found: dict[str, Answer] = {}
    for row in run.rows():
        if row["kind"] != BASELINE or len(found) == len(cases):
            break
        if row["case"] in cases:
            found[row["case"]] = decode_values(row["truth"])
    return found


def _kept(folder: Path) -> dict[str, dict[str, Path]]:
    """The kept files by the first digits of their input's hash, then by sensor."""
    found: dict[str, dict[str, Path]] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        sha, _, sensor = file.stem.partition("-")
        found.setdefault(sha, {})[sensor] = file
    return found


def _pictures(finding: Finding, kept: Mapping[str, Mapping[str, Path]], album: Album) -> Iterator[Picture]:
    """The pictures of every input that both sides have: bird's-eye views first; an unchanged camera frame only once."""
    source, followup = (kept.get(sha[:SHA_DIGITS], {}) for sha in (finding.source_sha, finding.input_sha))
    above = list(album.add(finding, *(read_sweeps(album.run, side) for side in (source, followup))))
    for near, far, size in above:
        yield Picture(f"{PICTURES}/{near}", f"{PICTURES}/{far}", size, from_above=True)
    for sensor in sorted(source.keys() & followup.keys()):
        pair = source[sensor], followup[sensor]
        if all(file.suffix == PICTURE for file in pair):
            near, far = (f"../{FINDINGS}/{quote(file.name)}" for file in pair)
            yield Picture(near, "" if above and _alike(*pair) else far, _png_size(pair[0]))


def _alike(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _colours() -> dict[str, str]:
    """The legend of a bird's-eye picture."""
    meanings = {**COLOURS, "any other kind": OTHER, "added points": ADDED, "region": SHADE}
    return {name: _hex(colour) for name, colour in meanings.items() if name != "unknown"}


def _png_size(path: Path) -> tuple[int, int]:
    """Width and height from the header of a PNG; with them the page does not move while pictures load."""
    with path.open("rb") as file:
        head = file.read(24).ljust(24, b"\1")
    width, height = struct.unpack(">II", head[16:])
    return width, height
