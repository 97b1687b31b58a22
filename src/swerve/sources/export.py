"""Exports cases as a data set for other programs: pictures, labels in a common format, and a manifest of their origin."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from swerve.core.arguments import check_known
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError
from swerve.sources.bosch import BoschWriter
from swerve.sources.coco import CocoWriter
from swerve.sources.kitti_writer import KittiWriter
from swerve.sources.lisa import LisaWriter
from swerve.sources.udacity import UdacityWriter
from swerve.sources.voc import VocWriter
from swerve.sources.writing import Spool, Spools, Writer, WrittenCase, slug
from swerve.sources.yolo import YoloWriter
from swerve.store.files import write_csv

MANIFEST = "manifest.csv"
COLUMNS = ("file", "split", "key", "parent", "group", "rule", "change")
FORMS: Mapping[str, type[Writer]] = MappingProxyType(
    {
        "coco": CocoWriter,
        "yolo": YoloWriter,
        "voc": VocWriter,
        "kitti": KittiWriter,
        "udacity": UdacityWriter,
        "bosch": BoschWriter,
        "lisa": LisaWriter,
    }
)


def export(
    splits: Mapping[str, Iterable[Case]],
    folder: Path,
    form: str,
    *,
    kinds: Sequence[str] = (),
    watch: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Write the cases of each split as `form` to a new folder, completely or not at all; returns the cases per split.

    `kinds` are numbered first and in this order, so that data sets written separately agree.
    `manifest.csv` lists every picture with its split, key, parent, drive and change.
    """
    kind = form_named(form)
    refuse_occupied(folder)
    partial = folder.absolute().with_name(f".{folder.absolute().name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with Spools() as spools, Spools() as ours:
            counts = _write(splits, partial, kind(partial, spools, kinds), ours["manifest"], watch)
        partial.replace(folder)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: the data set cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return counts


def form_named(form: str) -> type[Writer]:
    """The writer of the format with a short name."""
    check_known("export format", form, FORMS)
    return FORMS[form]


def refuse_occupied(folder: Path) -> None:
    """Raise `InputError` if the folder exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: {'is not empty' if folder.is_dir() else 'is a file'}; choose a new folder")


def _write(
    splits: Mapping[str, Iterable[Case]], folder: Path, writer: Writer, manifest: Spool, watch: Callable[[], None]
) -> dict[str, int]:
    counts = Counter(dict.fromkeys(splits, 0))
    entries = ((split, case) for split, cases in splits.items() for case in cases)
    for number, (split, case) in enumerate(entries):
        path = writer.add(WrittenCase(case, slug(split), number))
        origin = (case.facts.get("rule", ""), case.facts.get("change", ""))
        manifest.add((path.relative_to(folder).as_posix(), split, case.key, case.parent or "", case.group, *origin))
        counts[split] += 1
        watch()
    if not manifest.count:
        raise InputError(f"nothing to export: no cases in {' or '.join(splits) or 'any split'}")
    writer.close()
    write_csv(folder / MANIFEST, COLUMNS, manifest.rows())
    return dict(counts)
