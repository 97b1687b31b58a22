"""A trained painter as a file: objects drawn from maps of classes and outlines, each in one of the looks learnt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from swerve.core.arguments import check_whole
from swerve.core.asset import Asset
from swerve.core.errors import InputError, NotApplicable
from swerve.core.values import Array
from swerve.translation.label_window import OWN, LabelWindow
from swerve.translation.painter import STEP, Painter, PainterDesign
from swerve.translation.translator import pixels_of
from swerve.translation.window_batch import batch_of

HEADER = "painter"  # of the file: what the network is, as JSON


@dataclass(frozen=True)
class PainterAbout:
    """What a painter is: its size, the side of the windows it draws, its classes, and the looks that each kind can have."""

    name: str
    design: PainterDesign
    side: int
    classes: tuple[str, ...]
    looks: Mapping[str, tuple[tuple[float, ...], ...]]
    source: str = ""

    def __post_init__(self) -> None:
        check_whole("side", self.side, STEP)
        if self.side % STEP:
            raise ValueError(f"'side' must be a multiple of {STEP}, got {self.side}")
        if len(self.classes) != self.design.classes or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"a painter of {self.design.classes} classes must have as many names, got {len(self.classes)}")
        for kind, rows in self.looks.items():
            if not rows or any(len(row) != self.design.appearance for row in rows):
                raise ValueError(f"every look of '{kind}' must have {self.design.appearance} numbers")

    def looks_of(self, kind: str) -> Sequence[tuple[float, ...]]:
        """The looks of a kind; raises `NotApplicable` if it has learnt none."""
        if kind not in self.looks:
            raise NotApplicable(
                f"the painter '{self.name}' has not learnt to draw '{kind}'; it knows {', '.join(self.looks)}"
            )
        return self.looks[kind]


class Painting:
    """A painter that is ready to use."""

    def __init__(self, net: Painter, about: PainterAbout) -> None:
        self.net, self.about = net.eval(), about

    def own_look(self, seen: LabelWindow, number: int) -> Array:
        """The numbers that describe how an object looks."""
        batch = batch_of([seen], self.about.design.classes)
        with torch.inference_mode():
            rows: Array = self.net.encoder(batch.pictures, batch.regions)[self._region(seen, number, batch.regions)].numpy()
        return rows

    def drawn(self, seen: LabelWindow, number: int, kind: str, look: int) -> Array:
        """A window with an object drawn anew in one of the looks of its kind; what is around it looks as it does."""
        batch = batch_of([seen], self.about.design.classes)
        with torch.inference_mode():
            appearance = self.net.encoder(batch.pictures, batch.regions)
            if look != OWN:
                rows = self.about.looks_of(kind)
                appearance[self._region(seen, number, batch.regions)] = torch.tensor(rows[look % len(rows)])
            pixels: Array = pixels_of(self.net(batch.maps(appearance)))[0].numpy()
        return pixels

    def others(self, seen: LabelWindow, number: int, kind: str) -> Sequence[int]:
        """The looks of a kind but for the one that is nearest to the object's own."""
        rows = np.array(self.about.looks_of(kind))
        nearest = int(((rows - self.own_look(seen, number)) ** 2).sum(1).argmin())
        return [look for look in range(len(rows)) if look != nearest] or [nearest]

    def _region(self, seen: LabelWindow, number: int, regions: Tensor) -> int:
        places = np.flatnonzero(seen.instances.ravel() == number)
        if not len(places):
            raise NotApplicable(f"the window does not show object {number}")
        return int(regions.reshape(-1)[int(places[0])])


def painter_bytes(net: Painter, about: PainterAbout) -> bytes:
    """A painter as a file, in half precision."""
    tensors = {name: part.half().contiguous() for name, part in net.state_dict().items()}
    return save(tensors, {HEADER: json.dumps(asdict(about), sort_keys=True)})


@cache
def painting_of(asset: Asset) -> Painting:
    """The painter in a file; equal files share one."""
    return read_painting(asset.read(), str(asset))


def read_painting(content: bytes, name: str) -> Painting:
    """The painter in the bytes of a file called `name`."""
    try:
        about = _about(_header(content))
        net = Painter(about.design)
        tensors = {key: part.float() for key, part in load(content).items()}
        if faulty := next((key for key, part in tensors.items() if not part.isfinite().all()), None):
            raise ValueError(f"'{faulty}' has numbers that are not finite")
        net.load_state_dict(tensors)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, RecursionError, AttributeError) as error:
        why = str(error).splitlines()[0]
        raise InputError(f"{name}: not a painter as `swerve translate train` writes it: {why}") from error
    return Painting(net, about)


def _header(content: bytes) -> Mapping[str, Any]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found: Mapping[str, Any] = json.loads(header["__metadata__"][HEADER])
    return found


def _about(header: Mapping[str, Any]) -> PainterAbout:
    looks = {str(kind): tuple(tuple(map(float, row)) for row in rows) for kind, rows in header["looks"].items()}
    classes = tuple(map(str, header["classes"]))
    return PainterAbout(**{**header, "design": PainterDesign(**header["design"]), "classes": classes, "looks": looks})
