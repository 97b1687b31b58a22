"""Pictures beside a page, named by their content, and thumbnails of the wide ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.report.numbers import PAGE
from swerve.store.files import png_bytes, write_whole

PICTURES = "pictures"
QUALITY = 90  # of a JPEG thumbnail
DIGITS = 16
OURS = re.compile(rf"[0-9a-f]{{{DIGITS}}}\.(png|jpg)")


@dataclass(frozen=True)
class PagePicture:
    """A picture as the page shows it: its file's name among the page's pictures, or its path in the experiment's folder."""

    caption: str
    file: str = ""
    path: str = ""
    size: tuple[int, int] | None = None


def keep(items: Sequence[tuple[str, Array | bytes | str]], folder: Path, wide: int = 0) -> list[PagePicture]:
    """Write pictures beside the page of `folder`; those that lie in it already are only referred to."""
    return [_kept(caption, picture, folder, wide) for caption, picture in items]


def clear(folder: Path, wanted: Collection[str]) -> None:
    """Remove pictures that an earlier page left behind."""
    for file in folder.iterdir():
        if OURS.fullmatch(file.name) and file.name not in wanted:
            file.unlink()


def _kept(caption: str, picture: Array | bytes | str, folder: Path, wide: int) -> PagePicture:
    if isinstance(picture, str):
        return PagePicture(caption, path=picture if (folder / picture).is_file() else "")
    content, pixels = _content(caption, picture)
    high, across = pixels.shape[:2]
    if wide and across > wide:
        content, (across, high) = _thumbnail(pixels, wide), (wide, max(round(high * wide / across), 1))
    suffix = "png" if content.startswith(b"\x89PNG") else "jpg"
    name = f"{hashlib.sha256(content).hexdigest()[:DIGITS]}.{suffix}"
    write_whole((folder / PAGE).parent / PICTURES / name, content)
    return PagePicture(caption, file=name, size=(across, high))


def _content(caption: str, picture: Array | bytes) -> tuple[bytes, Array]:
    """The file of a picture, and its RGB pixels."""
    if isinstance(picture, bytes):
        if not picture.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")):
            raise InputError(f"picture {caption!r}: neither PNG nor JPEG; give its pixels instead")
        read = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR_RGB)
        if read is None:
            raise InputError(f"picture {caption!r}: cannot be read; give its pixels instead")
        return picture, read
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise InputError(f"picture {caption!r}: pixels must be H×W×3 uint8 RGB, got {picture.dtype} {picture.shape}")
    return png_bytes(picture), picture


def _thumbnail(pixels: Array, wide: int) -> bytes:
    high, across = pixels.shape[:2]
    small = cv2.resize(pixels, (wide, max(round(high * wide / across), 1)), interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return data.tobytes()
