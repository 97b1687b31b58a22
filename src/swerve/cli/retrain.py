"""`swerve retrain`: split the data, add follow-ups, train or export, and measure before and after."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_trust, add_verb, at_least_zero, whole
from swerve.core.arguments import check_known
from swerve.core.errors import InputError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table
    from torch.nn import Module

    from swerve.core.campaign import Campaign
    from swerve.core.relation import Rule
    from swerve.core.system import System
    from swerve.execution.engine import Progress
    from swerve.retrain.before_after import Compared
    from swerve.retrain.dataset import Followups, Prepared
    from swerve.store.view import Run

ABOUT = "train with follow-ups, and measure before and after"
EXAMPLES = """
  swerve retrain runs/demo --into runs/better      with the findings of a run
  swerve retrain mine.toml --into runs/better --mix 0.5 --epochs 5
  swerve retrain lights.toml --into runs/lights --mix 0   without follow-ups
  swerve retrain mine.toml --into runs/data --export coco
"""
WEIGHTS, DATA, OUT, LOG, SUMMARY = "weights.safetensors", "data", "out", "command.log", "retrain.json"


def add_parser(verbs: Any) -> None:
    """Add `retrain` to the verbs of the command line."""
    verb = add_verb(verbs, "retrain", retrain, ABOUT, EXAMPLES)
    verb.add_argument(
        "target", metavar="FILE|RUN", help="a campaign, to draw follow-ups from, or a run folder, to use its findings"
    )
    verb.add_argument("--into", type=Path, required=True, metavar="DIR", help="new folder for all output")
    verb.add_argument(
        "--mix", type=at_least_zero, default=0.2, metavar="X", help="follow-ups per case (default: %(default)s)"
    )
    verb.add_argument("--rule", action="append", default=[], metavar="NAME", help="only this rule; may be repeated")
    verb.add_argument("--seed", type=whole, default=0, metavar="N", help="random seed (default: %(default)s)")
    _add_split(verb.add_argument_group("the split"))
    _add_training(verb.add_argument_group("the training: torch fine-tuning, or an export and your own command"))
    add_trust(verb)


def _add_split(group: Any) -> None:
    ways = (
        "groups: whole drives (default with 3 or more); blocks: parts of a drive with gaps; random: as in the paper, leaky"
    )
    group.add_argument("--split", choices=("groups", "blocks", "random"), help=ways)
    group.add_argument("--test", type=at_least_zero, default=0.2, metavar="SHARE", help="test cases (default: %(default)s)")
    group.add_argument(
        "--val", type=at_least_zero, default=0.1, metavar="SHARE", help="validation cases (default: %(default)s)"
    )
    group.add_argument("--blocks", type=whole, default=10, metavar="N", help="blocks per drive (default: %(default)s)")
    group.add_argument("--gap", type=whole, default=60, metavar="N", help="frames between blocks (default: %(default)s)")


def _add_training(group: Any) -> None:
    group.add_argument("--epochs", type=whole, metavar="N", help="epoch limit (default: 20, for a detector 8)")
    group.add_argument("--rate", type=at_least_zero, metavar="X", help="learning rate (default: 1e-4, for a detector 5e-4)")
    limit = "steering: do not keep an epoch that raises the error on untouched cases by more than this (default: no limit)"
    group.add_argument("--worse", type=at_least_zero, metavar="SHARE", help=limit)
    forms = ("coco", "yolo", "voc", "kitti", "udacity")
    group.add_argument("--export", choices=forms, help="export the data sets to DIR/data instead of fine-tuning")
    places = "{train}, {val}, {test}, {data} and {out} are replaced by paths; no shell"
    group.add_argument("--command", metavar="LINE", help=f"training command to run on the export: {places}")
    group.add_argument("--limit", type=at_least_zero, metavar="SECONDS", help="time limit of the command")
    group.add_argument("--after", metavar="FILE", help="a campaign file with the retrained system, to compare")


def retrain(options: argparse.Namespace) -> int:
    """Retrain, or export the training data, and print the comparison."""
    from rich.console import Console

    from swerve.execution.executors.cores import settle_threads
    from swerve.report.terminal import RichProgress
    from swerve.sources.export import refuse_occupied

    if options.command and not options.export:
        raise InputError("--command needs --export coco, yolo, voc, kitti or udacity: it runs on the exported data")
    if options.after and not options.command:
        raise InputError("--after needs --command, which trains that model; leave out both to fine-tune")
    refuse_occupied(options.into)
    campaign, run = _load(options)
    console = Console()
    with RichProgress(Console(stderr=True) if sys.stderr.isatty() else console) as progress:
        settle_threads()  # after the campaign has imported torch, if it does
        prepared = _prepare(campaign, run, options, progress)
        options.into.mkdir(parents=True, exist_ok=True)
        _write_split(prepared, options.into)
        after, facts = (_export if options.export else _finetune)(campaign, prepared, options, progress)
        rows = _compare(campaign, after, prepared, options, progress)
    _write_summary(prepared, options, facts)
    _print(prepared, rows, options, console, facts.get("outcome", ""))
    return HELD


def _load(options: argparse.Namespace) -> tuple[Campaign, Run | None]:
    from swerve.config.toml import load_campaign
    from swerve.execution.replay import rebuild
    from swerve.store.view import Run

    if Path(options.target).is_dir():
        run = Run(Path(options.target))
        return rebuild(run, options.trust), run
    return load_campaign(options.target, options.trust).campaign, None


def _selected_rules(campaign: Campaign, names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules with these names; by default all that judge, and not what a search only tried."""
    from swerve.relations.unjudged import Unjudged

    known = {rule.name: rule for rule in campaign.rules}
    for name in names:
        check_known("rule", name, known)
    judged = tuple(rule for rule in campaign.rules if not isinstance(rule.expect, Unjudged))
    return tuple(known[name] for name in dict.fromkeys(names)) or judged


def _prepare(campaign: Campaign, run: Run | None, options: argparse.Namespace, progress: Progress) -> Prepared:
    from swerve.retrain.dataset import DrawnFollowups, FoundFollowups, by_rule, prepare
    from swerve.retrain.split import Cut, split_source

    cut = Cut(options.split, options.test, options.val, options.blocks, options.gap, options.seed)
    rules = _selected_rules(campaign, options.rule)
    followups: Followups = DrawnFollowups(campaign, rules, options.seed, progress)
    held: dict[str, Followups] = by_rule(campaign, rules, seed=options.seed, progress=progress)
    if run is not None:
        followups = FoundFollowups(run, options.seed, options.trust, tuple(rule.name for rule in rules))
        held["findings"] = followups
    return prepare(campaign, split_source(campaign.source, cut), followups, mix=options.mix, held=held)


def _write_split(prepared: Prepared, folder: Path) -> None:
    """Write `tables/split.csv`, the side of every case."""
    from swerve.analysis.tables import TABLES
    from swerve.store.files import make_folder, write_csv

    make_folder(folder / TABLES)
    split = prepared.split
    rows = ((key, split.groups[key], side) for key, side in split.sides.items())
    write_csv(folder / TABLES / "split.csv", ("case", "group", "side"), rows)


def _finetune(
    campaign: Campaign, prepared: Prepared, options: argparse.Namespace, progress: Progress
) -> tuple[System | None, dict[str, Any]]:
    from swerve.retrain.tuned_detector import torch_detector_of

    way = _finetune_detector if torch_detector_of(campaign.system) else _finetune_steering
    return way(campaign, prepared, options, progress)


def _finetune_steering(
    campaign: Campaign, prepared: Prepared, options: argparse.Namespace, progress: Progress
) -> tuple[System | None, dict[str, Any]]:
    from swerve.retrain.finetune import finetune
    from swerve.train.loop import Recipe

    tuned = finetune(
        campaign.system,
        prepared.training,
        prepared.val,
        recipe=replace(Recipe(), **_given(options)),
        seed=options.seed,
        worse=options.worse,
        progress=progress,
    )
    _save(tuned.system.net, options.into / WEIGHTS)
    facts = {"validation_mse_rad2": _finite(tuned.errors), "untouched_validation_mse_rad2": _finite(tuned.originals)}
    kept = {"best_pass": tuned.best, "ended": tuned.ended, "outcome": tuned.describe()}
    return tuned.system, {**facts, **kept, "skipped": len(tuned.skipped)}


def _finetune_detector(
    campaign: Campaign, prepared: Prepared, options: argparse.Namespace, progress: Progress
) -> tuple[System | None, dict[str, Any]]:
    from swerve.retrain.tuned_detector import finetune_detector
    from swerve.train.detectors import FURTHER

    if options.worse is not None:
        raise InputError("--worse limits the error of steering networks; leave it out for a detector")
    recipe = replace(FURTHER, **_given(options))
    tuned = finetune_detector(
        campaign.system, prepared.training, prepared.val, recipe=recipe, seed=options.seed, progress=progress
    )
    _save(tuned.net, options.into / WEIGHTS)
    facts = {"validation_map": tuned.precisions, "cpu_minutes": round(tuned.fitted.minutes, 1)}
    kept = {"best_pass": tuned.fitted.best, "ended": tuned.fitted.stopped, "outcome": tuned.describe()}
    return tuned.system, {**facts, **kept, "skipped": len(tuned.skipped)}


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The numbers of the recipe that were given."""
    given = {"passes": options.epochs, "rate": options.rate}
    return {name: number for name, number in given.items() if number is not None}


def _finite(errors: Sequence[float]) -> list[float | None]:
    return [error if math.isfinite(error) else None for error in errors]


def _save(net: Module, path: Path) -> None:
    from safetensors.torch import save

    from swerve.store.files import write_whole

    write_whole(path, save({name: part.contiguous() for name, part in net.state_dict().items()}))


def _export(
    campaign: Campaign, prepared: Prepared, options: argparse.Namespace, progress: Progress
) -> tuple[System | None, dict[str, Any]]:
    from swerve.retrain.command import arguments_of, run_command
    from swerve.retrain.dataset import Skips, stream
    from swerve.sources.export import export, form_named

    del campaign
    data, skips = options.into / DATA, Skips()
    sides = {"train": prepared.training, "val": prepared.val, "test": prepared.test}
    places = {side: form_named(options.export).place(data.absolute(), side) for side in sides}
    everything = {**places, "data": data.absolute(), "out": (options.into / OUT).absolute()}
    arguments = arguments_of(options.command, everything) if options.command else []
    progress.begin("exporting", sum(len(source.keys()) for source in sides.values()))
    streams = {side: stream(source, skips) for side, source in sides.items()}
    counts = export(streams, data, options.export, watch=lambda: progress.advance(1, 0))
    if arguments:
        (options.into / OUT).mkdir()
        progress.begin("the command", 1)
        run_command(arguments, options.into / LOG, seconds=options.limit)
        progress.advance(1, 0)
    return _after(options), {"exported": counts, "skipped": len(skips)}


def _after(options: argparse.Namespace) -> System | None:
    from swerve.config.toml import load_campaign

    return load_campaign(options.after, options.trust).campaign.system if options.after else None


def _compare(
    campaign: Campaign, after: System | None, prepared: Prepared, options: argparse.Namespace, progress: Progress
) -> list[Compared]:
    from swerve.retrain.before_after import compare, write_comparison

    if after is None:
        return []
    rows = compare(campaign.system, after, prepared.tested(), seed=options.seed, progress=progress)
    write_comparison(rows, options.into)
    return rows


def _write_summary(prepared: Prepared, options: argparse.Namespace, facts: dict[str, Any]) -> None:
    from swerve.store.files import json_bytes, write_whole

    given = {name: getattr(options, name) for name in ("mix", "seed", "test", "val", "blocks", "gap", "rule", "worse")}
    counts = {side: getattr(prepared, side).followups for side in ("train", "val")}
    held = {name: mixed.followups for name, mixed in prepared.synthetic.items()}
    counted = {"split": prepared.split.way, "cases": prepared.split.counts(), "followups": counts, "held_out": held}
    write_whole(options.into / SUMMARY, json_bytes({**counted, "notes": prepared.split.notes, **given, **facts}))


def _print(
    prepared: Prepared, rows: Sequence[Compared], options: argparse.Namespace, console: Console, outcome: str
) -> None:
    from rich.text import Text

    counts = prepared.split.counts()
    gaps = f", {counts['guard']:,} unused in gaps" if counts["guard"] else ""
    console.print(
        Text(
            f"split by {prepared.split.way}: {counts['train']:,} training cases, {prepared.train.followups:,} follow-ups, "
            f"{counts['val']:,} validation cases, {counts['test']:,} test cases{gaps}"
        )
    )
    for note in prepared.split.notes:
        console.print(Text(note))
    if prepared.split.way == "random":
        console.print(Text("a random split puts neighbouring frames on both sides, so these numbers are too optimistic"))
    if outcome:
        console.print(Text(outcome))
    if rows:
        console.print(_table(rows))
    for why in dict.fromkeys(row.change.why for row in rows if row.change.why):
        console.print(Text(f"no interval or p-value: {why}"))
    console.print(Text(str(options.into)))


def _table(rows: Sequence[Compared]) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    head = ("data", "measure", "cases", "groups", "skipped", "before", "after", "change, 95%", "p")
    table = Table(*head, box=SIMPLE, pad_edge=False)
    for row in rows:
        interval = (
            "" if row.change.low is None else f"{row.change.value:+.2g} ({row.change.low:+.2g} to {row.change.high:+.2g})"
        )
        p = "" if row.test.p is None else f"{row.test.p:.2g}"
        counts = f"{row.cases:,}", f"{row.groups:,}", f"{row.skipped:,}"
        table.add_row(printable(row.data), row.measure, *counts, _cell(row.before), _cell(row.after), interval, p)
    return table


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"
