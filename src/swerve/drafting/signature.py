"""What a network takes and returns: the shape of its input, from its file or by trying, and the shapes of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swerve.core.errors import InputError
from swerve.systems.model_file import first_line
from swerve.systems.network import Network, shape_words

COLOUR, GREY = 3, 1
# Width and height of pictures that networks often take, of steering networks first.
SIZES = ((200, 66), (320, 160), (160, 80), (160, 120), (320, 240), (224, 224), (128, 128), (100, 100), (64, 64), (640, 480))
DETECTOR_SIZES = ((640, 640), (416, 416), (320, 320), (300, 300))


@dataclass(frozen=True)
class Signature:
    """One input and the outputs of a network; `assumed` if its file does not tell the size and several fit."""

    size: tuple[int, int]  # width and height
    channels: int
    layout: str
    outputs: Mapping[str, tuple[int, ...]]  # of one input, by name
    assumed: bool = False
    bytes_only: bool = False  # whether the input is uint8


def signatures(network: Network, size: tuple[int, int] | None = None) -> list[Signature]:
    """What the network takes; several if its file does not tell the size, the likeliest first."""
    shape = tuple(getattr(network.engine, "shape", ()))
    tried = list(_asked(network, shape, size))
    found = [signature for signature, _ in tried if signature is not None]
    if found:
        return found
    failed = next((fault for _, fault in tried), "no size was tried")
    given = f"{size[0]}x{size[1]}" if size else f"the {len(tried)} sizes tried; give --size WIDTHxHEIGHT"
    raise InputError(f"the network takes no picture of {given}: {failed}")


def _asked(
    network: Network, shape: tuple[int | None, ...], size: tuple[int, int] | None
) -> Iterator[tuple[Signature | None, str]]:
    if shape and len(shape) != 3:
        wanted = shape_words(shape)
        raise InputError(
            f"the network takes {wanted} for each case and not one picture; docs/systems.md has 'frames' and others"
        )
    channels, layout = _channels(shape, network.layout)
    height, width = (shape[1:] if layout == "chw" else shape[:2]) if shape else (None, None)
    sizes = [size] if size else [(width, height)] if width and height else [*SIZES, *DETECTOR_SIZES]
    for each in channels:
        for wide, high in sizes:
            yield _answered(network, (wide, high), each, layout)


def _channels(shape: Sequence[int | None], layout: str) -> tuple[Sequence[int], str]:
    """The numbers of channels that the network may take, and its layout."""
    if not shape:
        return (COLOUR, GREY), layout
    first, last = shape[0], shape[-1]
    if last in (COLOUR, GREY) and first not in (COLOUR, GREY):
        return (last,), "hwc"
    if first in (COLOUR, GREY):
        return (first,), "chw"
    raise InputError(f"the network takes {shape_words(shape)} for each case, which is no picture in colour or grey")


def _answered(network: Network, size: tuple[int, int], channels: int, layout: str) -> tuple[Signature | None, str]:
    """The signature with an input of that size, or why the network cannot run on it."""
    wide, high = size
    shape = (channels, high, wide) if layout == "chw" else (high, wide, channels)
    kind = getattr(network.engine, "kind", np.dtype(np.float32))
    try:
        outputs = network.engine.run(np.zeros((network.engine.batch or 1, *shape), kind))
        found = {name: tuple(np.shape(rows[0])) if np.ndim(rows) else () for name, rows in outputs.items()}
    except Exception as error:  # a network may raise anything for an input of a wrong size
        return None, first_line(error)
    told = bool(getattr(network.engine, "shape", ()))
    return Signature(size, channels, layout, found, assumed=not told, bytes_only=kind == np.uint8), ""
