"""A trained translator as a file, and the pictures that it makes; codes are kept, so another style costs one decode."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from swerve.core.arguments import check_known, check_whole
from swerve.core.asset import Asset
from swerve.core.errors import InputError
from swerve.core.lru import SizedLRU
from swerve.core.values import Array
from swerve.translation.blocks import detail_of
from swerve.translation.translator import KINDS, STEP, UNIT, Design, Translator, pictures_of, pixels_of, split

HEADER = "translator"  # of the file: what the network is, as JSON
CODES = 256 << 20  # bytes of content codes that a process keeps
SOURCE, TARGET = 0, 1


def check_size(width: int, height: int) -> None:
    """Refuse a size of pictures that the networks cannot halve and double again."""
    for name, number in (("width", width), ("height", height)):
        check_whole(name, number, 4 * STEP)
        if number % STEP:
            raise ValueError(f"'{name}' must be a multiple of {STEP}, got {number}")


@dataclass(frozen=True)
class About:
    """What a translator is: its kind and size, the size of the pictures it learnt from, and the names of both kinds."""

    kind: str
    design: Design
    width: int
    height: int
    name: str
    source: str = ""
    target: str = ""

    def __post_init__(self) -> None:
        check_known("kind of translator", self.kind, KINDS)
        check_size(self.width, self.height)
        if (self.kind == UNIT) != (self.design.style == 0):
            raise ValueError(f"a translator of kind '{self.kind}' cannot have {self.design.style} numbers of style")


@dataclass(frozen=True, eq=False)
class _Code:
    content: Tensor
    detail: Tensor

    def weight(self) -> int:
        return self.content.nbytes + self.detail.nbytes


class Generator:
    """A translator that is ready to use: pictures of any size in, pictures of the same size out."""

    def __init__(self, net: Translator, about: About) -> None:
        self.net, self.about = net.eval(), about
        self._codes = SizedLRU(CODES, weigh=lambda item: item.weight() if isinstance(item, _Code) else 0)

    @property
    def numbers(self) -> int:
        """The length of a style vector."""
        return self.about.design.style

    def translated(self, pixels: Array, vector: Sequence[float], *, key: object = None) -> Array:
        """A picture in the style `vector`; its code is kept under `key`, if that is given."""
        if len(vector) != self.numbers:
            raise InputError(f"the style '{self.about.name}' has {self.numbers} numbers, got {len(vector)}: {list(vector)}")
        code = self._code(pixels) if key is None else self._codes.get(key, lambda: self._code(pixels))
        return self._decoded(code, torch.tensor([vector], dtype=torch.float32), TARGET, pixels.shape)

    def reconstructed(self, pixels: Array) -> Array:
        """A picture decoded as what it is: what encoding and decoding alone change."""
        with torch.inference_mode():
            style = self.net.style(self._small(pixels), SOURCE)
        return self._decoded(self._code(pixels), style, SOURCE, pixels.shape)

    def style_of(self, pixels: Array) -> tuple[float, ...]:
        """The style of a picture that looks as the translations should."""
        with torch.inference_mode():
            return tuple(round(float(number), 6) for number in self.net.style(self._small(pixels), TARGET)[0])

    def _small(self, pixels: Array) -> Tensor:
        size = (self.about.width, self.about.height)
        shrinks = pixels.shape[1] > size[0]
        small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
        return pictures_of(torch.from_numpy(np.ascontiguousarray(small))[None])

    def _code(self, pixels: Array) -> _Code:
        with torch.inference_mode():
            content, detail = split(self.net, self._small(pixels), SOURCE)
            if self.about.design.guided:  # the picture's own, as fine as it is
                whole = pictures_of(torch.from_numpy(pixels.copy())[None])
                detail = detail_of(whole)
        return _Code(content, detail)

    def _decoded(self, code: _Code, style: Tensor, side: int, shape: Sequence[int]) -> Array:
        with torch.inference_mode():
            pictures = self.net.decode(code.content, style, code.detail, side)
            pixels: Array = pixels_of(pictures)[0].contiguous().numpy()
        if pixels.shape != tuple(shape):
            pixels = cv2.resize(pixels, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC)
        return pixels


def file_bytes(net: Translator, about: About) -> bytes:
    """A translator as a file, in half precision."""
    header = {**asdict(about), "design": asdict(about.design)}
    tensors = {name: part.half().contiguous() for name, part in net.state_dict().items()}
    return save(tensors, {HEADER: json.dumps(header, sort_keys=True)})


@cache
def generator_of(asset: Asset) -> Generator:
    """The translator in a file; equal files share one."""
    return read_generator(asset.read(), str(asset))


def read_generator(content: bytes, name: str) -> Generator:
    """The translator in the bytes of a file called `name`."""
    try:
        about = _about(_header(content))
        net = Translator(about.design)
        tensors = {key: part.float() for key, part in load(content).items()}
        if faulty := next((key for key, part in tensors.items() if not part.isfinite().all()), None):
            raise ValueError(f"'{faulty}' has numbers that are not finite")
        net.load_state_dict(tensors)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        why = str(error).splitlines()[0]
        raise InputError(f"{name}: not a translator as `swerve style train` writes it: {why}") from error
    return Generator(net, about)


def _header(content: bytes) -> Mapping[str, Any]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found: Mapping[str, Any] = json.loads(header["__metadata__"][HEADER])
    return found


def _about(header: Mapping[str, Any]) -> About:
    return About(**{**header, "design": Design(**header["design"])})
