"""One picture in a file, before it is decoded: the bytes that make its pixels, and what its headers say of it."""

from __future__ import annotations

from dataclasses import dataclass

from swerve.config import limits

PIECES = 200_000  # chunks of a PNG, segments of a JPEG, strips of a TIFF


class Unsound(Exception):
    """Why a file is no whole picture of a kind that is read; the message is for the user."""


@dataclass(frozen=True)
class Container:
    """A picture that is whole as far as its container tells; `data` holds nothing but what makes pixels."""

    kind: str
    data: bytes
    width: int
    height: int
    bits: int = 8  # of one channel
    colour: bool = True  # more than one channel
    palette: bool = False
    orientation: int = 1  # as EXIF counts them
    top: int = 255  # the value of white, in a PPM, PGM or PBM


def check_size(kind: str, width: int, height: int) -> None:
    """Refuse a picture that is empty or larger than what is read, before anything of it is unpacked."""
    if width < 1 or height < 1:
        raise Unsound(f"a {kind} of {width} x {height} pixels")
    if width * height > limits.PIXELS:
        raise Unsound(f"{width:,} x {height:,} pixels; at most {limits.PIXELS:,} are read (swerve list limits)")


def cut_off(kind: str) -> Unsound:
    """The fault of a file that ends too early."""
    return Unsound(f"a {kind} that is cut off")


def several(what: str) -> Unsound:
    """The fault of a film, a stack of pages, or a pair."""
    return Unsound(f"{what}; only single pictures are read")
