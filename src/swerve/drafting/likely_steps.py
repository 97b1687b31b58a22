"""The steps that the input of a network is likely to have gone through in its training."""

from __future__ import annotations

from collections.abc import Iterator

from swerve.drafting.signature import GREY, Signature
from swerve.execution.checks.remedies import CENTRED, IMAGENET
from swerve.systems.preprocessing import Step
from swerve.systems.steps import Bgr, Crop, Divide, Float, Grey, Letterbox, Resize, Yuv

Read = tuple[Step, ...]
BELOW = (1.0, 5 / 6, 0.75, 0.62, 0.5)  # shares of a picture's height, from its lower edge, that a crop may leave
COLOURS: tuple[tuple[Read, Read], ...] = (((), ()), ((), (Bgr(),)), ((Yuv(),), ()))  # before and after the size


def steering_steps(signature: Signature) -> Iterator[Read]:
    """The likeliest first: a plain size and numbers from 0 to 1, then other numbers, other colours, and a letterbox."""
    numbers: tuple[Step, ...] = (Divide(255.0), Float(), CENTRED)
    if signature.bytes_only:
        yield from _coloured(signature, Resize(*signature.size), ())
        return
    for number in numbers if signature.channels == GREY else (*numbers, IMAGENET):
        yield from _coloured(signature, Resize(*signature.size), (number,))


def _coloured(signature: Signature, size: Step, numbers: Read) -> Iterator[Read]:
    if signature.channels == GREY:
        yield (Grey(), size, *numbers)
    else:
        yield from ((*before, size, *after, *numbers) for before, after in COLOURS)


def boxed(read: Read) -> Iterator[Read]:
    """The same with a letterbox instead of the plain size."""
    for place, step in enumerate(read):
        if isinstance(step, Resize):
            for at in ("centre", "top-left"):
                yield (*read[:place], Letterbox(step.width, step.height, at=at), *read[place + 1 :])


def cropped(read: Read, signature: Signature, size: tuple[int, int]) -> Iterator[Read]:
    """The same behind a crop of the sky, or also of the sides, so that the picture has the shape of the input."""
    wide, high = size
    for share in BELOW:
        rows = round(share * high)
        for columns in dict.fromkeys((wide, min(wide, round(rows * signature.size[0] / signature.size[1])))):
            if (columns, rows) != size:
                left = (wide - columns) // 2
                yield (Crop(left, high - rows, left + columns, high), *read)


def detector_steps(decoder: str, signature: Signature) -> Read:
    """As the authors of a detector prepare its input."""
    if decoder == "yolox":
        return (Bgr(), Letterbox(*signature.size, at="top-left"), Float())
    numbers: Read = () if signature.bytes_only else (Divide(255.0),)
    shape = Letterbox(*signature.size) if decoder.startswith(("yolo", "end")) else Resize(*signature.size)
    return (*((Grey(),) if signature.channels == GREY else ()), shape, *numbers)
