"""The embedded world exported as a data set in a common format, with a contact sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.progress import track

from swerve.core.case import Case
from swerve.core.values import Array, Image
from swerve.sources.export import export
from swerve.store.files import png_bytes, write_whole
from swerve.world.light_source import LightWorld
from swerve.world.scene import LABELLED
from swerve.world.signal_heads import STATES
from swerve.world.source import World

NEEDED = {
    "udacity": ("steering",),
    "coco": ("boxes2d", "masks"),
    "yolo": ("boxes2d",),
    "voc": ("boxes2d",),
    "kitti": ("boxes2d", "boxes3d", "calibration"),
}
LIGHTS_NEED = {"coco": ("boxes2d", "masks"), **dict.fromkeys(("yolo", "voc", "bosch", "lisa"), ("boxes2d",))}
SHEET = "contact.png"
ON_SHEET, ACROSS, WIDE = 24, 4, 320

GAP = 4  # pixels between frames
PAPER = 24  # grey level behind them


def contact_sheet(rows: Sequence[Sequence[Array]]) -> Array:
    """Rows of equally large frames as one picture."""
    strips = [_spaced(row, np.hstack, (row[0].shape[0], GAP, 3)) for row in rows]
    return _spaced(strips, np.vstack, (GAP, strips[0].shape[1], 3))


def _spaced(parts: Sequence[Array], join: Callable[[list[Array]], Array], gap: tuple[int, int, int]) -> Array:
    space = np.full(gap, PAPER, np.uint8)
    return join([one for part in parts for one in (part, space)][:-1])


def write_world(world: World | LightWorld, folder: Path, form: str) -> dict[str, int]:
    """Write every frame of `world` in format `form` to a new folder, with `contact.png`; returns the counts."""
    few: list[Array] = []
    counts = export(
        {world.split: _sampled(world, few)}, folder, form, kinds=STATES if isinstance(world, LightWorld) else LABELLED
    )
    rows = [few[start : start + ACROSS] for start in range(0, len(few), ACROSS)]
    rows[-1] += [few[0] * 0] * (len(rows[0]) - len(rows[-1]))
    write_whole(folder / SHEET, png_bytes(contact_sheet(rows)))
    return counts


def _sampled(world: World | LightWorld, few: list[Array]) -> Iterator[Case]:
    import cv2

    keys = world.keys()
    shown = {keys[place * len(keys) // ON_SHEET] for place in range(ON_SHEET)}
    for key in track(keys, "rendering", transient=True):
        case = world[key]
        image = case.inputs["camera"]
        if key in shown and isinstance(image, Image):
            high = WIDE * image.size[1] // image.size[0]
            few.append(cv2.resize(image.pixels, (WIDE, high), interpolation=cv2.INTER_AREA))
        yield case
