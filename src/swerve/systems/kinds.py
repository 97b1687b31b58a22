"""The names behind a detector's numbers: lists that networks and labels share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from swerve.core.errors import InputError

_COCO = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, "
    "handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, "
    "surfboard, tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, "
    "broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, "
    "mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, "
    "teddy bear, hair drier, toothbrush"
)
COCO = tuple(_COCO.split(", "))

BACKGROUNDS = ("__background__", "background")
NAMELESS = (*BACKGROUNDS, "N/A")  # places of a list that no box may have
_LEFT_OUT = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # numbers of the paper's list that the labels never had


def _with_gaps() -> tuple[str, ...]:
    named = iter(COCO)
    return (BACKGROUNDS[0], *("N/A" if number in _LEFT_OUT else next(named) for number in range(1, 91)))


COCO_91 = _with_gaps()  # by the labels' own numbers, as torchvision and TensorFlow's detection API count
LISTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"coco": COCO, "coco-91": COCO_91})


def names_of(kinds: object) -> tuple[str, ...]:
    """The names of a list that is known by its word, or those that are given."""
    given = LISTS.get(kinds, kinds) if isinstance(kinds, str) else kinds
    if not isinstance(given, tuple | list) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(f"kinds must be a list of one or more names, or one of {', '.join(LISTS)}, got {kinds!r}")
    return tuple(given)
