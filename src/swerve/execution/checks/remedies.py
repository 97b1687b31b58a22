"""What may be wrong with the input of a network that answers badly: other steps, and in words what is other about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from swerve.systems.preprocessing import Step
from swerve.systems.steps import Bgr, Divide, Float, Grey, Hsv, Letterbox, Multiply, Normalise, Resize, Yuv

SCALING = (Divide, Multiply, Normalise)
COLOURS = (Grey, Yuv, Hsv)  # made of whole pictures in RGB
# Mean and standard deviation of ImageNet, on which most backbones were trained, for numbers from 0 to 255.
IMAGENET = Normalise(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))
CENTRED = Normalise(mean=(127.5,), std=(127.5,))
CORNERS = ("top-left", "centre")
TRIED = "÷255, mean and standard deviation, RGB or BGR, letterbox or plain size"


@dataclass(frozen=True)
class Remedy:
    """Steps that may be the right ones, and what is other about them."""

    words: str
    read: tuple[Step, ...]


def remedies(read: Sequence[Step]) -> Iterator[Remedy]:
    """Every likely mistake in `read` undone, one at a time."""
    yield from _numbers(read)
    yield from _channels(read)
    yield from _sizes(read)


def _numbers(read: Sequence[Step]) -> Iterator[Remedy]:
    bare = _without(read, SCALING)
    names = " and ".join(dict.fromkeys(type(step).__name__.lower() for step in read if isinstance(step, SCALING)))
    if names:
        yield Remedy(f"without {names} in 'read', that is with numbers from 0 to 255", (*bare, Float()))
    if any(isinstance(step, Normalise) for step in read):
        yield Remedy("without normalise in 'read'", _without(read, (Normalise,)))
    for words, step in (
        ("divided by 255 in 'read' ({ use = \"divide\", by = 255.0 })", Divide(255.0)),
        ("from -1 to 1 in 'read' (normalise with mean and std 127.5)", CENTRED),
        ("less the mean and over the standard deviation of ImageNet in 'read' (normalise)", IMAGENET),
    ):
        if (other := (*bare, step)) != tuple(read):
            yield Remedy(f"with numbers {words}", other)


def _channels(read: Sequence[Step]) -> Iterator[Remedy]:
    if any(isinstance(step, Bgr) for step in read):
        yield Remedy("without bgr in 'read', that is in RGB", _without(read, (Bgr,)))
    elif not any(isinstance(step, COLOURS) for step in read):
        yield Remedy("with bgr in 'read'", (Bgr(), *read))


def _sizes(read: Sequence[Step]) -> Iterator[Remedy]:
    for place, step in enumerate(read):
        if isinstance(step, Resize | Letterbox):
            size = step.width, step.height
            others: Mapping[str, Step] = {
                "resize": Resize(*size),
                **{f"letterbox at = '{at}'": Letterbox(*size, at=at) for at in CORNERS},
            }
            for words, other in others.items():
                if not _same_size(step, other):
                    yield Remedy(f"with {words} in 'read'", (*read[:place], other, *read[place + 1 :]))


def _same_size(one: Step, other: Step) -> bool:
    return type(one) is type(other) and getattr(one, "at", "") == getattr(other, "at", "")


def _without(read: Sequence[Step], kinds: tuple[type, ...]) -> tuple[Step, ...]:
    return tuple(step for step in read if not isinstance(step, kinds))
