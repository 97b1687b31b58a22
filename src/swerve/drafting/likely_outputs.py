"""What the outputs of a network are likely to mean, by their names and shapes: angles, or the boxes of a common detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swerve.drafting.signature import Signature
from swerve.sources.labelled_boxes import COLOURS
from swerve.systems.detector import COCO, COCO_91, NAMELESS, kind_names

STRIDES = (8, 16, 32)
LIGHT = "traffic light"
LEAST_SCORE = 0.001  # as mAP is measured; the rules judge boxes with higher scores
FEW = 3  # numbers of an output, of which any may be the angle
ROW = 6  # numbers of a box, its score and its kind
Place = tuple[str | int, int | None]  # an output, and the number in it if it has several


def angle_places(signature: Signature) -> list[Place]:
    """The numbers that may be a steering angle: outputs of a single number first."""
    named = [(name if len(signature.outputs) > 1 else 0, _count(shape)) for name, shape in signature.outputs.items()]
    single: list[Place] = [(name, None) for name, count in named if count == 1]
    return [*single, *((name, index) for name, count in named if 1 < count <= FEW for index in range(count))]


def detector_tables(signature: Signature, kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Tables of decoders that fit the outputs; `kinds` are the names in the labels."""
    outputs = {name: _bare(shape) for name, shape in signature.outputs.items()}
    by_name = {part: name for part in ("boxes", "labels", "classes", "scores") for name in outputs if part in name.lower()}
    if {"boxes", "scores"} <= by_name.keys() and (labels := by_name.get("labels", by_name.get("classes"))):
        parts = {"boxes": by_name["boxes"], "labels": labels, "scores": by_name["scores"]}
        own = {key: name for key, name in parts.items() if key != name}
        yield {"use": "detections", "kinds": "coco-91", **own}
    cells = sum((signature.size[0] // stride) * (signature.size[1] // stride) for stride in STRIDES)
    for place, (name, shape) in enumerate(outputs.items()):
        if len(shape) == 2:
            which = {"output": name} if place else {}
            yield from _of_rows(shape, cells, which, kinds)
    yield from _ssd(outputs, kinds)


def _of_rows(shape: tuple[int, ...], cells: int, which: Mapping[str, Any], kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The decoders of one output of rows: by the number of rows, which is that of the cells or three times that."""
    short, long = sorted(shape)
    if long == cells and shape[0] == short:
        yield {"use": "yolov8", "kinds": _names(short - 4, kinds), **which}
    elif long == cells:
        yield {"use": "yolox", "kinds": _names(short - 5, kinds), **which}
        yield {"use": "yolov5", "kinds": _names(short - 5, kinds), **which}
    elif long == 3 * cells:
        yield {"use": "yolov5", "kinds": _names(short - 5, kinds), **which}
    elif shape[1] == ROW:
        yield {"use": "end-to-end", "kinds": "coco", **which}


def _ssd(outputs: Mapping[str, tuple[int, ...]], kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Boxes of four numbers, and as many rows of scores."""
    both = [(name, shape) for name, shape in outputs.items() if len(shape) == 2]
    for boxes, (rows, four) in both:
        for scores, shape in both:
            if four == 4 and scores != boxes and shape[0] == rows:
                yield {"use": "ssd", "kinds": _names(shape[1] - 1, kinds), "boxes": boxes, "scores": scores}


def reported(table: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """A decoder's table with the kinds that are reported, those of the labels, and the scores that a measure of it needs."""
    known = kind_names(table["kinds"])
    common = [LIGHT] if LIGHT in known and are_lights(kinds) else [kind for kind in kinds if kind in known]
    only = {"only": common} if common and set(common) < {*known} - {*NAMELESS} else {}
    return {**table, **only, "score": LEAST_SCORE, "iou": 0.65}


def are_lights(kinds: Sequence[str]) -> bool:
    """Whether the labels are states of traffic lights, which a detector with COCO's kinds does not tell apart."""
    return bool(kinds) and {*kinds} <= {*COLOURS}


def _names(count: int, kinds: Sequence[str]) -> list[str] | str:
    """The names of so many kinds: a published list, or those of the labels if they are as many."""
    published = {len(COCO): "coco", len(COCO_91): "coco-91"}
    if count in published:
        return published[count]
    return list(kinds) if len(kinds) == count else [f"kind {number}" for number in range(count)]


def _bare(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the axes of length 1 before it."""
    return shape[1:] if len(shape) > 2 and shape[0] == 1 else shape


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
