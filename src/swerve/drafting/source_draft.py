"""Guesses the source of a campaign from a folder, a table or a video."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from swerve.core.errors import InputError, UnreadableCase
from swerve.drafting.angle_table import ENDINGS, guess_angles
from swerve.drafting.guess import Guess
from swerve.sources.images import SUFFIXES
from swerve.sources.root import VIDEOS, Root
from swerve.sources.texts import json_file

YOLO, LISA, CITY = "data.yaml", "frameannotationsbox.csv", "_leftimg8bit.png"
COCO = ("images", "annotations", "categories")


def draft_source(path: Path, given: Mapping[str, Any]) -> dict[str, Guess]:
    """The [source] table for data at `path`, a folder or a file in it; raises `InputError` if it is no known data."""
    if "use" in given:
        return {"use": Guess(given["use"], "as given"), "folder": Guess(str(path))}
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give the folder of the data")
    if path.is_file():
        return _of_file(Root(path.absolute().parent), path.name, path.parent, given)
    root = Root(path.absolute())
    kinds: tuple[Callable[[Root, Mapping[str, Any]], dict[str, Guess] | None], ...] = (_labelled, _coco, _angles, _bare)
    for guess in kinds:
        if (found := guess(root, given)) is not None:
            return {"use": found.pop("use"), "folder": Guess(str(path)), **found}
    raise InputError(f"{path}: no pictures and no videos below it; `swerve list sources` has all kinds of data")


def _of_file(root: Root, name: str, folder: Path, given: Mapping[str, Any]) -> dict[str, Guess]:
    """The source that a table, COCO's labels or a video make up."""
    ending, place = PurePosixPath(name).suffix.lower(), {"folder": Guess(str(folder))}
    if ending in VIDEOS:
        return {"use": Guess("video"), **place, "file": Guess(name)}
    if ending in ENDINGS and (found := guess_angles(root, {**given, "table": name})) is not None:
        return {"use": Guess("udacity", "a table of pictures and angles"), **place, **found}
    if ending == ".json" and (labels := _coco_labels(root, name)) is not None:
        return {"use": Guess("coco"), **place, **labels}
    raise InputError(f"{folder / name}: neither a video, nor COCO's labels, nor a table with pictures and numbers")


def _labelled(root: Root, given: Mapping[str, Any]) -> dict[str, Guess] | None:
    """Data sets that are known by their files and folders."""
    del given
    if root.has(YOLO):
        return {"use": Guess("yolo", f"there is a {YOLO}")}
    known = {
        "voc": (root.folder / "Annotations").is_dir(),
        "kitti": any((root.folder / name).is_dir() for name in ("training", "image_2")),
        "lisa": any(True for _ in root.names(LISA)),
        "cityscapes": any(True for _ in root.names(CITY)),
    }
    found = next((name for name, there in known.items() if there), None)
    return {"use": Guess(found, "by the names of its files")} if found else None


def _coco(root: Root, given: Mapping[str, Any]) -> dict[str, Guess] | None:
    del given
    labels = (_coco_labels(root, name) for name in root.names(".json") if name.count("/") < 2)
    found = next((table for table in labels if table is not None), None)
    return {"use": Guess("coco", "labels with images, annotations and categories"), **found} if found else None


def _coco_labels(root: Root, name: str) -> dict[str, Guess] | None:
    try:
        page = json_file(root, name)
    except UnreadableCase:
        return None
    if not (isinstance(page, Mapping) and all(isinstance(page.get(key), list) for key in COCO) and page["images"]):
        return None
    row = page["images"][0]
    picture = str(row.get("file_name", "")) if isinstance(row, Mapping) else ""
    there = next((path for path in root.names(*SUFFIXES) if picture and f"/{path}".endswith(f"/{picture}")), None)
    if there is None:
        raise InputError(f"{root.folder / name}: its first picture, {json.dumps(picture)}, is not below {root.folder}")
    return {"labels": Guess(name), "images": Guess(there[: -len(picture)].rstrip("/") or ".", "where its pictures are")}


def _angles(root: Root, given: Mapping[str, Any]) -> dict[str, Guess] | None:
    found = guess_angles(root, given)
    return None if found is None else {"use": Guess("udacity", "pictures with steering angles"), **found}


def _bare(root: Root, given: Mapping[str, Any]) -> dict[str, Guess] | None:
    """Pictures, or else videos, without labels."""
    del given
    if root.names(*SUFFIXES):
        return {"use": Guess("folder", "pictures without labels that are known")}
    videos = root.names(*VIDEOS)
    one = {"file": Guess(videos[0])} if len(videos) == 1 else {}
    return {"use": Guess("video"), **one} if videos else None
